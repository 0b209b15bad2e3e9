"""Rows of Parquet files, wherever they lie: columns, or lists of one value per class.

A footer says what a file holds; the rows are decoded when they are asked for.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.limits import check_limit, get_limit
from uqled.storage.arrays.row_files import WRITE_AGAIN, convert_into
from uqled.storage.location import Entry, Location
from uqled.storage.reading import check_compression_ratio, explain_file_problems, name_file
from uqled.storage.remote_location import read_ranges
from uqled.storage.tables.parquet_pages import list_pages, parse_footer, read_footer

_FOOTER_BYTES = 65_536
_PIECE_BYTES = 2**22  # decoded at a time: small enough to stay in the processor's cache
_CHUNK_BYTES = 2**24  # of a row group that counts as cheap to read at once
_KEPT_CURSORS = 16  # files whose position a thread keeps

_thread = threading.local()


@dataclass(frozen=True)
class ParquetFile:
    """Columns of a Parquet file: one per class, one list of all classes, or one of labels."""

    place: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    columns: tuple[str, ...]
    is_list: bool
    groups: tuple[int, ...]
    """The first row of each row group, and the number of rows."""
    stamp: str

    @property
    def group_rows(self) -> int:
        """Rows of the largest row group."""
        return max((stop - start for start, stop in pairwise(self.groups)), default=1)

    @property
    def chunk_rows(self) -> int:
        # Writers make groups of a million rows: with many classes, that is too large for a block.
        row_bytes = max(self.dtype.itemsize * prod(self.shape[1:]), 1)
        return min(self.group_rows, max(_CHUNK_BYTES // row_bytes, 1))

    def read_into(self, target: NDArray[Any], start: int) -> None:
        stop, n_done = start + len(target), 0
        with explain_file_problems(self.place, WRITE_AGAIN):
            for batch in self._get_cursor().batches(start, stop):
                self._fill(target[n_done : n_done + len(batch)], batch, start + n_done)
                n_done += len(batch)
            if n_done < stop - start:
                raise FileError(
                    name_file(self.place), f"stops after row {start + n_done}", "Write it again"
                )

    def _get_cursor(self) -> _Cursor:
        """This thread's position in the file."""
        cursors: OrderedDict[Any, _Cursor] | None = getattr(_thread, "cursors", None)
        if cursors is None:
            cursors = _thread.cursors = OrderedDict()
        key = self.place, self.columns, self.stamp, os.getpid()
        if key not in cursors:
            cursors[key] = _Cursor(self)
        cursors.move_to_end(key)
        while len(cursors) > _KEPT_CURSORS:
            cursors.popitem(last=False)
        return cursors[key]

    def _fill(self, rows: NDArray[Any], batch: Any, first: int) -> None:
        for k, column in enumerate(batch.columns):
            if column.null_count:
                at = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise FileError(
                    name_file(self.place),
                    f"has no value in column {self.columns[k]!r} at row {at}",
                    "Leave such samples out, or fill the value in",
                )
            if self.is_list:
                convert_into(self._list_values(column, first), rows)
            else:
                values = column.to_numpy(zero_copy_only=False)
                convert_into(values, rows if rows.ndim == 1 else rows[:, k])

    def _list_values(self, column: Any, first: int) -> NDArray[Any]:
        """[n,K] the values of a column of lists, which all have K."""
        K = self.shape[1]
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != K).any():
            at = int(np.argmax(lengths != K))
            raise FileError(
                name_file(self.place),
                f"has a list of {lengths[at]} values at row {first + at}, where others have {K}",
                "Give every row one value per class",
            )
        values = column.flatten()
        if values.null_count:
            missing = values.is_null().to_numpy(zero_copy_only=False)
            raise FileError(
                name_file(self.place),
                f"has a list with an empty value at row {first + int(np.argmax(missing)) // K}",
                "Leave such samples out, or fill the value in",
            )
        flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return flat.reshape(-1, K)


class _Cursor:
    """A position in a Parquet file. Reading on from it decodes nothing twice.

    A row group may be larger than memory, so it is decoded a few rows at a time; only going back,
    or to another group, begins anew at that group's first row.
    """

    def __init__(self, file: ParquetFile) -> None:
        import pyarrow.parquet as pq

        self._info = file
        is_local = file.place.is_local
        self._file = pq.ParquetFile(
            str(file.place) if is_local else file.place.open(),
            # Local: page by page. Remote: the group's columns in few, large requests.
            buffer_size=_FOOTER_BYTES if is_local else 0,
            pre_buffer=not is_local,
        )
        row_bytes = max(file.dtype.itemsize * prod(file.shape[1:]), 1)
        self._batch_rows = min(max(_PIECE_BYTES // row_bytes, 1), 65_536)
        self._group, self._row = -1, 0
        self._ahead: Any = None  # decoded, but not requested yet
        self._batches: Iterator[Any] = iter(())

    def batches(self, start: int, stop: int) -> Iterator[Any]:
        """Record batches of the rows `start` to `stop`."""
        while start < stop:
            self._seek_row(start)
            batch = self._ahead if self._ahead is not None else next(self._batches, None)
            self._ahead = None
            if batch is None:
                return
            begin, self._row = self._row, self._row + len(batch)
            if self._row <= start:  # rows between the last read and this one
                continue
            if self._row > stop:
                self._ahead, self._row = batch.slice(stop - begin), stop
            yield batch.slice(start - begin, min(stop, begin + len(batch)) - start)
            start = min(stop, begin + len(batch))

    def _seek_row(self, row: int) -> None:
        group = bisect_right(self._info.groups, row) - 1
        if group != self._group or self._row > row:
            self._start_group(group)

    def _start_group(self, group: int) -> None:
        if self._info.is_list and self._info.place.is_local:
            self._check_lists(group)
        self._group, self._row, self._ahead = group, self._info.groups[group], None
        self._batches = self._file.iter_batches(
            self._batch_rows,
            row_groups=[group],
            columns=list(self._info.columns),
            use_threads=False,
        )

    def _check_lists(self, group: int) -> None:
        """Refuse a row group of more values than its rows have: a single row may hold them all."""
        place, starts = self._info.place, self._info.groups
        n_expected = (starts[group + 1] - starts[group]) * self._info.shape[1]
        n_columns, schema = self._file.metadata.num_columns, self._file.schema
        at = [schema.column(i).path.split(".")[0] for i in range(n_columns)]
        with place.open() as file:
            columns = parse_footer(read_footer(file))[group]
            column = columns[at.index(self._info.columns[0].split(".")[0])]
            pages = [page for page in list_pages(column, file) if not page.is_dictionary]
        values = sum(page.n_values for page in pages)
        if values != n_expected:
            raise FileError(
                name_file(place),
                f"has {values:,} values in row group {group}, where its rows have {n_expected:,}",
                "Give every row one value per class",
            )
        decoded_bytes = values * self._info.dtype.itemsize
        if decoded_bytes > get_limit("memory_bytes"):
            check_compression_ratio(decoded_bytes, column.packed_bytes, name_file(place))


def open_parquet_files(
    folder: Location, entries: Sequence[Entry], *, ndim: int, key: str | None
) -> list[ParquetFile]:
    """Parquet files by what their footers say; all have the columns of the first."""
    places = [folder / entry.name for entry in entries]
    ranges = []
    for place, entry in zip(places, entries, strict=True):
        length = min(entry.size, _FOOTER_BYTES)
        ranges.append((place, entry.size - length, length))
    files: list[ParquetFile] = []
    for place, entry, tail in zip(places, entries, read_ranges(ranges), strict=True):
        file = _open_parquet_file(place, entry, tail, ndim=ndim, key=key)
        if files:
            file = _match_columns(files[0], file)
        files.append(file)
    return files


def _match_columns(first: ParquetFile, other: ParquetFile) -> ParquetFile:
    if other.columns != first.columns:
        columns, first_columns = set(other.columns), set(first.columns)
        if columns == first_columns:
            what = f"has its columns in another order than {first.place.name!r}"
        elif first_columns - columns:
            what = f"has no column {min(first_columns - columns)!r}, which {first.place.name!r} has"
        else:
            what = (
                f"has a column {min(columns - first_columns)!r}, which {first.place.name!r} has not"
            )
        raise FileError(name_file(other.place), what, "Write all shards with the same columns")
    # The names once, not once per file: there may be thousands of both.
    return ParquetFile(**{**vars(other), "columns": first.columns})


def _open_parquet_file(
    place: Location, entry: Entry, tail: bytes, *, ndim: int, key: str | None
) -> ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if entry.size == 0:
        raise FileError(name_file(place), "is empty", "Write it again")
    if tail[-4:] != b"PAR1":
        raise FileError(
            name_file(place),
            "does not end like a Parquet file",
            "It was cut short: write it again",
        )
    length = int.from_bytes(tail[-8:-4], "little") + 8
    with explain_file_problems(place, WRITE_AGAIN):
        if length > len(tail):
            check_limit("memory_bytes", min(length, entry.size), name_file(place))
            tail = place.read(max(entry.size - length, 0))
        # The reader looks for the footer at the end, and needs nothing else to know the columns.
        file = pq.ParquetFile(pa.BufferReader(tail))
        metadata, schema = file.metadata, file.schema_arrow
        check_limit("table_columns", metadata.num_columns, name_file(place))
        rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
            raise ValueError(f"it counts {metadata.num_rows:,} rows, and {sum(rows):,} in groups")
        groups = tuple(accumulate(rows, initial=0))
        columns = _choose_value_columns(place, schema, ndim=ndim, key=key)
        types = [schema.field(column).type for column in columns]
        is_list = len(types) == 1 and ndim == 2 and _is_list(types[0])
        K = _count_list_values(place, types[0], metadata, tail) if is_list else len(columns)
        check_limit("table_columns", K, name_file(place))
        dtype = np.result_type(*(_convert_dtype(t.value_type if is_list else t) for t in types))
    shape = (groups[-1],) if ndim == 1 else (groups[-1], K)
    return ParquetFile(place, shape, dtype, tuple(columns), is_list, groups, entry.stamp)


def _choose_value_columns(place: Location, schema: Any, *, ndim: int, key: str | None) -> list[str]:
    about = schema.pandas_metadata or {}
    index = {name for name in about.get("index_columns", []) if isinstance(name, str)}
    columns = [name for name in schema.names if name not in index]
    if ndim == 1 or key is not None:
        if key is None and len(columns) > 1:
            key = "label" if "label" in columns else None
            if key is None:
                raise FileError(
                    name_file(place),
                    f"has the columns {', '.join(columns)}",
                    f"Say which holds the labels: {place.name}::{columns[0]}",
                )
        key = columns[0] if key is None and columns else key
        if key not in schema.names:
            raise FileError(
                name_file(place), f"has no column {key!r}", f"Choose one of {', '.join(columns)}"
            )
        columns = [key]
    if not columns:
        raise FileError(name_file(place), "has no columns", "Write it again")
    if ndim == 1:
        return columns
    types = [schema.field(column).type for column in columns]
    if len(types) == 1 and _is_list(types[0]):
        types = [types[0].value_type]
    for column, kind in zip(columns, types, strict=True):
        if _convert_dtype(kind).kind not in "fiu":
            raise FileError(
                name_file(place),
                f"has a column that does not hold probabilities: {column!r}",
                "Keep one column per class and nothing else",
            )
    return columns


def _is_list(kind: Any) -> bool:
    import pyarrow.types as is_type

    return bool(
        is_type.is_list(kind) or is_type.is_large_list(kind) or is_type.is_fixed_size_list(kind)
    )


def _count_list_values(place: Location, kind: Any, metadata: Any, tail: bytes) -> int:
    """The values per row: the footer counts both."""
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    if metadata.num_rows == 0:
        return 0
    values = sum(columns[0].n_values for columns in parse_footer(tail))
    if values % metadata.num_rows:
        raise FileError(
            name_file(place),
            f"has lists of different lengths ({values} values in {metadata.num_rows} rows)",
            "Give every row one value per class",
        )
    return int(values // metadata.num_rows)


def _convert_dtype(kind: Any) -> np.dtype[Any]:
    """The NumPy type of an Arrow type; object for text and whatever else."""
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return np.dtype(object)
    return dtype if dtype.kind in "fiub" else np.dtype(object)
