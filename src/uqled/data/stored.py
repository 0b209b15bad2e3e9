"""Rows as they lie in one file: `.npy`, Parquet, or a Zarr array, wherever that is.

Each class says what its header or footer says, and reads a range of rows into a given buffer. None
keeps a file open: descriptors and positions belong to the process and thread that reads.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from math import ceil, prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, InputError, UqledError
from uqled.places import Entry, Place, quoted, read_ranges
from uqled.storage.reading import first_line

#: One of these says that a folder is an array or a group of arrays.
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")

_HEADER_BYTES = 4096
_FOOTER_BYTES = 65_536
_PIECE_BYTES = 2**22  # converted at a time: small enough to stay in the processor's cache
_CHUNK_BYTES = 2**24  # of a row group, that is called cheap to read together
_KEPT_CURSORS = 16  # Parquet files that a thread keeps its position in

_own = threading.local()


class Stored(Protocol):
    """Rows [n], [n,K] or [F,n,K] in one place."""

    @property
    def place(self) -> Place: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def chunk_rows(self) -> int | None:
        """Rows that are cheap to read together, where that is more than one."""

    @property
    def group_rows(self) -> int | None:
        """Rows of which the later cost as much as all before, unless they are read in order."""

    def read_into(self, target: NDArray[Any], start: int) -> None:
        """Fill `target` with the rows from `start` on; rows of a pass lie next to each other."""


@dataclass(frozen=True)
class NpyFile:
    """An array in an `.npy` file."""

    place: Place
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    """Where its header ends."""
    direct_io: bool = False
    """Read it past the file cache."""

    chunk_rows = group_rows = None

    def read_into(self, target: NDArray[Any], start: int) -> None:
        if len(self.shape) < 3:
            self._fill(target, start)
            return
        for f in range(self.shape[0]):
            self._fill(target[f], f * self.shape[1] + start)

    def _fill(self, rows: NDArray[Any], first: int) -> None:
        """Fill rows [n] or [n,K] from the row `first` of the file on."""
        row_bytes = self.dtype.itemsize * prod(rows.shape[1:])
        at = self.offset + first * row_bytes
        if rows.dtype == self.dtype:
            self.place.read_into(_bytes_of(rows), at, direct_io=self.direct_io)
            return
        # A remote file answers each request after a while: there, all is asked for at once.
        n = max(_PIECE_BYTES // max(row_bytes, 1), 1) if self.place.is_local else len(rows)
        for begin in range(0, len(rows), n):
            piece = rows[begin : begin + n]
            raw = _own_buffer(piece.shape, self.dtype)
            self.place.read_into(_bytes_of(raw), at + begin * row_bytes, direct_io=self.direct_io)
            converted(raw, piece)


@dataclass(frozen=True)
class PassFiles:
    """[F,n,K] passes that lie in a file each."""

    passes: tuple[Stored, ...]

    @property
    def place(self) -> Place:
        return self.passes[0].place

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.passes), *self.passes[0].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.passes[0].dtype

    @property
    def chunk_rows(self) -> int | None:
        return self.passes[0].chunk_rows

    @property
    def group_rows(self) -> int | None:
        return self.passes[0].group_rows

    def read_into(self, target: NDArray[Any], start: int) -> None:
        for f, one in enumerate(self.passes):
            one.read_into(target[f], start)


def use_direct_io(stored: Stored) -> Stored:
    """The same rows, read with O_DIRECT where the file system allows it."""
    if isinstance(stored, PassFiles):
        return PassFiles(tuple(use_direct_io(one) for one in stored.passes))
    return replace(stored, direct_io=True) if isinstance(stored, NpyFile) else stored


@dataclass(frozen=True)
class ZarrArray:
    """A Zarr array, or one of a group."""

    place: Place
    key: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_rows: int | None
    stamp: str

    group_rows = None

    def read_into(self, target: NDArray[Any], start: int) -> None:
        stop = start + target.shape[-2 if target.ndim > 1 else 0]
        rows = slice(start, stop)
        with _named(self.place, f"rows {start} to {stop} ", Exception):
            array = _opened_zarr(self.place, self.key, self.stamp, os.getpid())
            found = array[rows] if len(self.shape) < 3 else array[:, rows]
        converted(np.asarray(found), target)


@dataclass(frozen=True)
class ParquetFile:
    """Columns of a Parquet file: one per class, one list of all classes, or one of labels."""

    place: Place
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
        # Writers make groups of a million rows: of many classes, that is no block any more.
        row_bytes = max(self.dtype.itemsize * prod(self.shape[1:]), 1)
        return min(self.group_rows, max(_CHUNK_BYTES // row_bytes, 1))

    def read_into(self, target: NDArray[Any], start: int) -> None:
        stop, done = start + len(target), 0
        with _named(self.place, "", Exception):
            for batch in self._cursor().batches(start, stop):
                self._fill(target[done : done + len(batch)], batch, start + done)
                done += len(batch)
            if done < stop - start:
                raise FileError(
                    quoted(self.place), f"ends after row {start + done}", "Write it again"
                )

    def _cursor(self) -> _Cursor:
        """This thread's position in the file."""
        kept: OrderedDict[Any, _Cursor] | None = getattr(_own, "cursors", None)
        if kept is None:
            kept = _own.cursors = OrderedDict()
        key = self.place, self.columns, self.stamp, os.getpid()
        if key not in kept:
            kept[key] = _Cursor(self)
        kept.move_to_end(key)
        while len(kept) > _KEPT_CURSORS:
            kept.popitem(last=False)
        return kept[key]

    def _fill(self, rows: NDArray[Any], batch: Any, first: int) -> None:
        for k, column in enumerate(batch.columns):
            if column.null_count:
                at = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise FileError(
                    quoted(self.place),
                    f"has nothing in column {self.columns[k]!r} at row {at}",
                    "Leave such samples out, or fill the value in",
                )
            if self.is_list:
                converted(self._list_values(column, first), rows)
            else:
                values = column.to_numpy(zero_copy_only=False)
                converted(values, rows if rows.ndim == 1 else rows[:, k])

    def _list_values(self, column: Any, first: int) -> NDArray[Any]:
        """[n,K] the values of a column of lists, which all have K."""
        K = self.shape[1]
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != K).any():
            at = int(np.argmax(lengths != K))
            raise FileError(
                quoted(self.place),
                f"has a list of {lengths[at]} values at row {first + at}, where others have {K}",
                "Give every row one value per class",
            )
        values = column.flatten()
        if values.null_count:
            missing = values.is_null().to_numpy(zero_copy_only=False)
            raise FileError(
                quoted(self.place),
                f"has a list with nothing in it at row {first + int(np.argmax(missing)) // K}",
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

        self._about = file
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
        self._ahead: Any = None  # what was decoded and not asked for yet
        self._batches: Iterator[Any] = iter(())

    def batches(self, start: int, stop: int) -> Iterator[Any]:
        """Record batches of the rows `start` to `stop`."""
        while start < stop:
            self._go_to(start)
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

    def _go_to(self, row: int) -> None:
        group = bisect_right(self._about.groups, row) - 1
        if group != self._group or self._row > row:
            self._begin(group)

    def _begin(self, group: int) -> None:
        self._group, self._row, self._ahead = group, self._about.groups[group], None
        self._batches = self._file.iter_batches(
            self._batch_rows,
            row_groups=[group],
            columns=list(self._about.columns),
            use_threads=False,
        )


def converted(values: NDArray[Any], target: NDArray[Any]) -> None:
    """Write values into a buffer of another type; fractions are not made integers."""
    try:
        np.copyto(target, values, casting="same_kind")
    except TypeError as error:
        raise InputError(
            "buffer",
            f"has type {target.dtype}, which cannot hold {values.dtype}",
            "Use a wider one",
        ) from error


def npy_files(folder: Place, entries: Sequence[Entry]) -> list[NpyFile]:
    """`.npy` files by what their headers say."""
    places = [folder / entry.name for entry in entries]
    heads = read_ranges([(place, 0, _HEADER_BYTES) for place in places])
    return [
        _npy_file(place, entry.size, head)
        for place, entry, head in zip(places, entries, heads, strict=True)
    ]


def _npy_file(place: Place, size: int, head: bytes) -> NpyFile:
    if size == 0:
        raise FileError(quoted(place), "is empty", "Write it again")
    try:
        version = np.lib.format.read_magic(BytesIO(head))
        if version not in ((1, 0), (2, 0)):
            raise FileError(
                quoted(place), f"is .npy of version {version}", "Save numbers or strings"
            )
        width = 2 if version == (1, 0) else 4
        length = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
        file = BytesIO(head if length <= len(head) else place.read(0, length))
        file.seek(8)
        read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
        shape, is_fortran, dtype = read(file)
    except ValueError as error:
        if isinstance(error, UqledError):
            raise
        raise FileError(
            quoted(place), f"is no .npy file ({first_line(error)})", "Write it again"
        ) from error
    if dtype.hasobject or dtype.kind == "V":
        raise FileError(quoted(place), f"holds {dtype}", "Save numbers or strings")
    if is_fortran and sum(n > 1 for n in shape) > 1:
        raise FileError(
            quoted(place),
            "is in Fortran order, in which a row is scattered over the file",
            "Save np.ascontiguousarray(array)",
        )
    end = file.tell() + prod(shape) * dtype.itemsize
    if size < end:
        raise FileError(
            quoted(place),
            f"ends at byte {size}, before its array does (at {end})",
            "It was cut short: write it again",
        )
    return NpyFile(place, tuple(shape), dtype, file.tell())


def parquet_files(
    folder: Place, entries: Sequence[Entry], *, ndim: int, key: str | None
) -> list[ParquetFile]:
    """Parquet files by what their footers say; all have the columns of the first."""
    places = [folder / entry.name for entry in entries]
    ranges = []
    for place, entry in zip(places, entries, strict=True):
        length = min(entry.size, _FOOTER_BYTES)
        ranges.append((place, entry.size - length, length))
    files: list[ParquetFile] = []
    for place, entry, tail in zip(places, entries, read_ranges(ranges), strict=True):
        found = _parquet_file(place, entry, tail, ndim=ndim, key=key)
        if files:
            found = _with_columns_of(files[0], found)
        files.append(found)
    return files


def _with_columns_of(first: ParquetFile, other: ParquetFile) -> ParquetFile:
    if other.columns != first.columns:
        here, there = set(other.columns), set(first.columns)
        if here == there:
            what = f"has its columns in another order than {first.place.name!r}"
        elif there - here:
            what = f"has no column {min(there - here)!r}, which {first.place.name!r} has"
        else:
            what = f"has a column {min(here - there)!r}, which {first.place.name!r} has not"
        raise FileError(quoted(other.place), what, "Write all shards with the same columns")
    # The names once, not once per file: there may be thousands of both.
    return ParquetFile(**{**vars(other), "columns": first.columns})


def _parquet_file(
    place: Place, entry: Entry, tail: bytes, *, ndim: int, key: str | None
) -> ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if entry.size == 0:
        raise FileError(quoted(place), "is empty", "Write it again")
    if tail[-4:] != b"PAR1":
        raise FileError(
            quoted(place), "does not end as a Parquet file does", "It was cut short: write it again"
        )
    length = int.from_bytes(tail[-8:-4], "little") + 8
    with _named(place, "", (pa.ArrowException, OSError, ValueError)):
        if length > len(tail):
            tail = place.read(max(entry.size - length, 0))
        # The reader looks for the footer at the end, and needs nothing else to know the columns.
        file = pq.ParquetFile(pa.BufferReader(tail))
        metadata, schema = file.metadata, file.schema_arrow
    rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    groups = tuple(np.cumsum([0, *rows]).tolist())
    columns = _wanted_columns(place, schema, ndim=ndim, key=key)
    types = [schema.field(column).type for column in columns]
    is_list = len(types) == 1 and ndim == 2 and _is_list(types[0])
    K = _list_length(place, types[0], metadata) if is_list else len(columns)
    dtype = np.result_type(*(_dtype_of(t.value_type if is_list else t) for t in types))
    shape = (groups[-1],) if ndim == 1 else (groups[-1], K)
    return ParquetFile(place, shape, dtype, tuple(columns), is_list, groups, entry.stamp)


def _wanted_columns(place: Place, schema: Any, *, ndim: int, key: str | None) -> list[str]:
    about = schema.pandas_metadata or {}
    index = {name for name in about.get("index_columns", []) if isinstance(name, str)}
    columns = [name for name in schema.names if name not in index]
    if ndim == 1 or key is not None:
        if key is None and len(columns) > 1:
            key = "label" if "label" in columns else None
            if key is None:
                raise FileError(
                    quoted(place),
                    f"has the columns {', '.join(columns)}",
                    f"Say which holds the labels: {place.name}::{columns[0]}",
                )
        key = columns[0] if key is None and columns else key
        if key not in schema.names:
            raise FileError(
                quoted(place), f"has no column {key!r}", f"Choose one of {', '.join(columns)}"
            )
        columns = [key]
    if not columns:
        raise FileError(quoted(place), "has no columns", "Write it again")
    if ndim == 1:
        return columns
    types = [schema.field(column).type for column in columns]
    if len(types) == 1 and _is_list(types[0]):
        types = [types[0].value_type]
    for column, kind in zip(columns, types, strict=True):
        if _dtype_of(kind).kind not in "fiu":
            raise FileError(
                quoted(place),
                f"has a column of something else than probabilities: {column!r}",
                "Keep one column per class and nothing else",
            )
    return columns


def _is_list(kind: Any) -> bool:
    import pyarrow.types as is_type

    return bool(
        is_type.is_list(kind) or is_type.is_large_list(kind) or is_type.is_fixed_size_list(kind)
    )


def _list_length(place: Place, kind: Any, metadata: Any) -> int:
    """The values per row: the footer counts both."""
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    if metadata.num_rows == 0:
        return 0
    groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
    values = sum(group.column(0).num_values for group in groups)
    if values % metadata.num_rows:
        raise FileError(
            quoted(place),
            f"has lists of different lengths ({values} values in {metadata.num_rows} rows)",
            "Give every row one value per class",
        )
    return int(values // metadata.num_rows)


def _dtype_of(kind: Any) -> np.dtype[Any]:
    """The NumPy type of an Arrow type; object for text and whatever else."""
    try:
        found = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return np.dtype(object)
    return found if found.kind in "fiub" else np.dtype(object)


def zarr_array(
    place: Place, key: str | None, *, ndim: int, tree: Sequence[Entry], stamp: str
) -> ZarrArray:
    """A Zarr array by what its metadata says; `tree` is what its folder holds."""
    if not {entry.name for entry in tree} & set(ZARR_FILES):
        raise FileError(
            quoted(place),
            f"is no Zarr array: it holds no {', '.join(ZARR_FILES)}",
            "Write it again",
        )
    with _named(place, "", Exception):
        array = _opened_zarr(place, key, stamp, os.getpid())
    shape, chunks = tuple(array.shape), tuple(array.chunks)
    if array.dtype.kind in "V" or (array.dtype.hasobject and len(shape) > 1):
        raise FileError(quoted(place), f"holds {array.dtype}", "Save numbers or strings")
    if ndim > 1 and len(shape) == ndim:
        _refuse_missing_chunk(place, key, array, tree)
    rows = chunks[-2] if len(chunks) > 1 else chunks[0] if chunks else None
    return ZarrArray(place, key, shape, np.dtype(array.dtype), rows, stamp)


def _refuse_missing_chunk(place: Place, key: str | None, array: Any, tree: Sequence[Entry]) -> None:
    """Zarr reads a chunk that is not there as zeros, which no probabilities are."""
    there = {entry.name for entry in tree}
    stored = array.shards or array.chunks  # what one file holds
    grid = tuple(ceil(n / of) for n, of in zip(array.shape, stored, strict=True))
    for index in np.ndindex(*grid):
        name = array.metadata.encode_chunk_key(index)
        if (name if key is None else f"{key}/{name}") not in there:
            row = index[-2] * stored[-2]
            raise FileError(
                quoted(place),
                f"has no chunk {name!r}, which holds rows from {row} on",
                "Write the array again",
            )


@lru_cache(maxsize=32)
def _opened_zarr(place: Place, key: str | None, stamp: str, process: int) -> Any:  # noqa: ARG001
    """The array, opened once per process; another stamp is another array."""
    try:
        import zarr
    except ImportError as error:
        raise FileError(
            quoted(place), "needs the zarr package", "pip install 'uqled[zarr]'"
        ) from error
    found = zarr.open(str(place), mode="r")
    if isinstance(found, zarr.Array):
        if key is not None:
            raise FileError(quoted(place), f"is one array, not {key!r}", "Leave the key out")
        return found
    keys = sorted(name for name, _ in found.arrays())
    if key is None or key not in keys:
        raise FileError(
            quoted(place),
            f"is a group{'' if key is None else f' without an array {key!r}'}",
            f"Say which array: {place.name}::KEY with KEY one of {', '.join(keys)}",
        )
    return found[key]


def _bytes_of(array: NDArray[Any]) -> memoryview:
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _own_buffer(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """This thread's buffer for what must be converted, used again and again."""
    size = prod(shape) * dtype.itemsize
    kept: NDArray[np.uint8] | None = getattr(_own, "bytes", None)
    if kept is None or len(kept) < size:
        kept = _own.bytes = np.empty(size, np.uint8)
    return kept[:size].view(dtype).reshape(shape)


@contextmanager
def _named(place: Place, part: str, errors: Any) -> Iterator[None]:
    """Turn what a library says of a file into an error that names it."""
    try:
        yield
    except (UqledError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise FileError(quoted(place), "does not exist", "Check the path") from error
    except errors as error:
        raise FileError(
            quoted(place),
            f"{part and f'has {part}that '}cannot be read ({first_line(error)})",
            "It may have been cut short: write it again",
        ) from error
