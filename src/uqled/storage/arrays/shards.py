"""One array stored in many files: a folder of `.npy` or Parquet shards, a single one, or Zarr.

`open_shards` reads only headers and footers; rows are read on demand, in whichever process or
thread needs them. The shards of a folder are in the natural order of their names: part-2 before
part-10.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from copy import copy
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, InputError
from uqled.limits import check_limit, measure_memory
from uqled.storage.arrays.parquet_files import ParquetFile, open_parquet_files
from uqled.storage.arrays.row_files import PassFiles, StoredArray, open_npy_files, use_direct_io
from uqled.storage.arrays.zarr_files import ZARR_FILES, open_zarr_array
from uqled.storage.location import Entry, Location
from uqled.storage.reading import name_file

SHARD_ENDINGS = (".npy", ".parquet")
_AXES = {1: "[N]", 2: "[N,K]", 3: "[F,N,K]"}


#: Share of the machine's memory up to which an array is read through the page cache.
_CACHED_SHARE = 0.5


class Shards:
    """An array [N], [N,K] or [F,N,K] stored in files; the object is small and can be pickled."""

    def __init__(
        self,
        place: Location,
        arrays: Sequence[StoredArray],
        *,
        ndim: int,
        size: int,
        fingerprint: str,
    ) -> None:
        self.place = place
        self._arrays = list(arrays)
        self._row_axis = 1 if ndim == 3 else 0
        rows = [one.shape[self._row_axis] for one in self._arrays]
        self.starts: NDArray[np.int64] = np.cumsum([0, *rows], dtype=np.int64)
        """[S+1] the first row of each shard, and N."""
        shape = list(self._arrays[0].shape)
        shape[self._row_axis] = int(self.starts[-1])
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: np.dtype[Any] = np.result_type(*{one.dtype for one in self._arrays})
        """Type of the values, in native byte order."""
        self.bytes = size
        """Size of all files."""
        self.is_slow = not place.is_local
        """Reads wait for a remote store or a disk, so reading ahead pays off."""
        self.fingerprint = fingerprint
        """A hash of the names, sizes and stamps of all files."""
        self.chunks = self._find_chunks()
        """Shape of the chunks that are cheap to read at once, as in Zarr, or None."""
        self.group_rows = max((one.group_rows or 1 for one in self._arrays), default=1)
        """Rows that one reader should read in order: in a Parquet row group, seeking to a row
        costs as much as reading all rows before it."""
        first = self._arrays[0]
        columns = isinstance(first, ParquetFile) and not first.is_list and ndim == 2
        self.columns: tuple[str, ...] | None = first.columns if columns else None  # type: ignore[attr-defined]
        """[K] the names of a table's columns."""

    def use_direct_io(self) -> Shards:
        """The same array, read with O_DIRECT past the page cache."""
        shards = copy(self)
        shards._arrays = [use_direct_io(one) for one in self._arrays]
        shards.is_slow = True
        return shards

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return (
            f"Shards({str(self.place)!r}, shape={self.shape}, dtype={self.dtype}, "
            f"shards={len(self._arrays)})"
        )

    def read_into(self, buffer: NDArray[Any], start: int, stop: int) -> None:
        """Fill a buffer [n], [n,K] or [F,n,K] in C order with the rows `start` to `stop`."""
        N = int(self.starts[-1])
        if not 0 <= start <= stop <= N:
            raise InputError("rows", f"{start} to {stop} are not within 0 to {N}", "Choose others")
        expected_shape = list(self.shape)
        expected_shape[self._row_axis] = stop - start
        if buffer.shape != tuple(expected_shape) or not buffer.flags.c_contiguous:
            raise InputError(
                "buffer", f"has shape {buffer.shape}", f"Pass {tuple(expected_shape)} in C order"
            )
        shard, at = int(np.searchsorted(self.starts, start, side="right")) - 1, start
        while at < stop:
            first, end = int(self.starts[shard]), int(self.starts[shard + 1])
            until = min(stop, end)
            if until > at:
                rows = slice(at - start, until - start)
                target = buffer[:, rows] if self._row_axis else buffer[rows]
                self._arrays[shard].read_into(target, at - first)
            shard, at = shard + 1, until

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Read [start:stop] or, for passes, [:, start:stop]; [...] reads everything."""
        keys = key if isinstance(key, tuple) else (key,)
        other_keys = [one for one in keys[: self._row_axis] if one not in (slice(None), Ellipsis)]
        rest = keys[self._row_axis :]
        rows = rest[0] if rest else slice(None)
        rows = slice(None) if rows is Ellipsis else rows
        if other_keys or len(rest) > 1 or not isinstance(rows, slice) or rows.step not in (None, 1):
            example = "[:, start:stop]" if self._row_axis else "[start:stop]"
            raise IndexError(f"shards are read by {example}, not by {key!r}")
        start, stop, _ = rows.indices(int(self.starts[-1]))
        shape = list(self.shape)
        shape[self._row_axis] = max(stop - start, 0)
        # A footer or a header can claim any number of rows in a few bytes.
        check_limit("memory_bytes", prod(shape) * self.dtype.itemsize, name_file(self.place))
        buffer = np.empty(shape, self.dtype)
        self.read_into(buffer, start, max(start, stop))
        return buffer

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("shards are stored in files: reading them makes a copy")
        array = self[...]
        return array if dtype is None else array.astype(dtype, copy=False)

    def _find_chunks(self) -> tuple[int, ...] | None:
        rows = [one.chunk_rows for one in self._arrays]
        known_rows = [n for n in rows if n is not None]
        if not known_rows:
            return None
        at_once = max(*known_rows, 1)
        return {1: (at_once,), 2: (at_once, self.shape[-1]), 3: (1, at_once, self.shape[-1])}[
            self.ndim
        ]


def open_shards(
    address: str | os.PathLike[str] | Location, *, ndim: int, name: str, key: str | None = None
) -> Shards:
    """Open labels [N] (`ndim` 1), probabilities [N,K] (2) or passes [F,N,K] (3) from files.

    Accepts a Zarr array, an `.npy` or Parquet file, a folder of either, and for passes a folder
    with one such folder per pass; at a local path or an fsspec address. `key`, or `address::key`,
    names an array of a Zarr group or a column of a table. `name` is the array's name in errors.
    """
    place, column = split_key(address)
    key = column if key is None else key
    entry = place.entry()
    if entry is None:
        raise FileError(name_file(place), "does not exist", "Check the path")
    all_entries = place.entries(with_hidden=True) if entry.is_folder else [entry]
    entries = [one for one in all_entries if not one.is_hidden]
    files: Sequence[StoredArray]
    if not entry.is_folder:
        entries = [entry]
        files = _open_files(place.parent, entries, ndim=ndim, key=key)
    elif place.suffix == ".zarr" or any(one.name in ZARR_FILES for one in all_entries):
        entries = sorted(place.tree(), key=lambda one: one.name)
        stamp = _make_fingerprint(entries, key)
        files = [open_zarr_array(place, key, ndim=ndim, tree=entries, stamp=stamp)]
    elif not entries:
        raise FileError(name_file(place), "holds no shards", f"Use {' or '.join(SHARD_ENDINGS)}")
    elif ndim == 3 and all(one.is_folder for one in entries):
        return _open_passes(place, [one.name for one in entries], name=name, key=key)
    else:
        _refuse_missing_number(place, [one.name for one in entries])
        files = _open_files(place, entries, ndim=ndim, key=key)
    _refuse_other_shapes(files, ndim=ndim, name=name)
    shards = Shards(
        place,
        _select_shards_with_rows(files),
        ndim=ndim,
        size=sum(one.size for one in entries),
        fingerprint=_make_fingerprint(entries, key),
    )
    return shards.use_direct_io() if _is_large([shards]) else shards


def spare_page_cache(arrays: Sequence[Any]) -> list[Any]:
    """The same arrays; shards that together exceed the page cache are read with O_DIRECT."""
    if not _is_large([array for array in arrays if isinstance(array, Shards)]):
        return list(arrays)
    return [array.use_direct_io() if isinstance(array, Shards) else array for array in arrays]


def _is_large(arrays: Sequence[Shards]) -> bool:
    return sum(array.bytes for array in arrays) > _CACHED_SHARE * measure_memory()


def split_key(address: str | os.PathLike[str] | Location) -> tuple[Location, str | None]:
    """Split `PLACE::KEY` into (place, KEY); the key may be None."""
    if isinstance(address, Location):
        return address, None
    text = os.fspath(address)
    before, separator, key = text.rpartition("::")
    if not separator or "://" in key:  # fsspec chains addresses: simplecache::s3://bucket/x
        return Location.of(text), None
    return Location.of(before), key


def _open_files(
    folder: Location, entries: Sequence[Entry], *, ndim: int, key: str | None
) -> Sequence[StoredArray]:
    """Open files, which must all be of the same kind."""
    endings = {(folder / entry.name).suffix for entry in entries}
    for entry in entries:
        if entry.is_folder:
            raise FileError(
                name_file(folder),
                f"holds a folder, {entry.name!r}",
                "Name a folder of shards alone",
            )
        if (folder / entry.name).suffix not in SHARD_ENDINGS:
            raise FileError(
                name_file(folder / entry.name),
                f"is not a shard: its ending is {(folder / entry.name).suffix!r}",
                f"Keep nothing but {' or '.join(SHARD_ENDINGS)} in a folder of shards",
            )
    if len(endings) > 1:
        raise FileError(
            name_file(folder), f"holds {' and '.join(sorted(endings))} files", "Keep one kind only"
        )
    if endings == {".npy"}:
        if key is not None:
            raise FileError(
                name_file(folder / entries[0].name),
                f"holds one array, not {key!r}",
                "Leave the key out",
            )
        return open_npy_files(folder, entries)
    if ndim == 3:
        raise FileError(
            name_file(folder / entries[0].name),
            "is a table, which has no passes",
            "Use one folder of tables per pass, or .npy or Zarr [F,N,K]",
        )
    return open_parquet_files(folder, entries, ndim=ndim, key=key)


def _open_passes(place: Location, names: Sequence[str], *, name: str, key: str | None) -> Shards:
    """Open passes stored in one folder each, with shards of the same rows."""
    _refuse_missing_number(place, names)
    passes = [open_shards(place / one, ndim=2, name=name, key=key) for one in names]
    first = passes[0]
    for one in passes[1:]:
        what = None
        if len(one._arrays) != len(first._arrays):
            what = f"has {len(one._arrays)} shards, where {first.place.name!r} has " + str(
                len(first._arrays)
            )
        elif (one.starts != first.starts).any():
            at = int(np.argmax(one.starts != first.starts)) - 1
            wrong_array = one._arrays[at]
            raise FileError(
                name_file(wrong_array.place),
                f"has {wrong_array.shape[0]} rows, where {first._arrays[at].shape[0]} of the same "
                f"samples are in {str(first._arrays[at].place)!r}",
                "Cut all passes at the same rows",
            )
        elif one.shape != first.shape or one.dtype != first.dtype:
            what = (
                f"holds {one.dtype} {one.shape}, where {first.place.name!r} holds "
                f"{first.dtype} {first.shape}"
            )
        if what is not None:
            raise FileError(name_file(one.place), what, "Write all passes alike")
    shards = Shards(
        place,
        [PassFiles(files) for files in zip(*(one._arrays for one in passes), strict=True)],
        ndim=3,
        size=sum(one.bytes for one in passes),
        fingerprint=_hash_content([names, [one.fingerprint for one in passes]]),
    )
    return shards.use_direct_io() if _is_large([shards]) else shards


def _refuse_other_shapes(files: Sequence[StoredArray], *, ndim: int, name: str) -> None:
    """Refuse shards whose shapes or types do not match."""
    first = files[0]
    for one in files:
        if len(one.shape) != ndim:
            raise FileError(
                name_file(one.place),
                f"has shape {one.shape}, but {name} must be {_AXES[ndim]}",
                "Reshape it, or name another file",
            )
        if ndim > 1 and one.dtype.kind not in "fiu":
            raise FileError(
                name_file(one.place), f"holds {one.dtype}", "Save real numbers: float16, 32 or 64"
            )
        if one.dtype != first.dtype and not one.dtype.kind == first.dtype.kind == "U":
            raise FileError(
                name_file(one.place),
                f"holds {one.dtype}, where {first.place.name!r} holds {first.dtype}",
                "Write all shards with the same type",
            )
    nonempty_files = _select_shards_with_rows(files)
    for one in nonempty_files:
        if ndim > 1 and not prod(one.shape[1 if ndim == 2 else 2 :]) and one.shape[ndim - 2]:
            raise FileError(
                name_file(one.place),
                f"has {one.shape[ndim - 2]:,} rows of no classes",
                "Save one column per class",
            )
        for axis, what in ((0, "passes"), (2, "classes")) if ndim == 3 else ((1, "classes"),):
            if axis < ndim and one.shape[axis] != nonempty_files[0].shape[axis]:
                raise FileError(
                    name_file(one.place),
                    f"has {one.shape[axis]} {what} (shape {one.shape}), where "
                    f"{nonempty_files[0].place.name!r} has {nonempty_files[0].shape[axis]}",
                    f"Write all shards with the same {what}",
                )


def _select_shards_with_rows(files: Sequence[StoredArray]) -> Sequence[StoredArray]:
    """The shards that have rows, or else the first: empty ones do not show their classes."""
    return [one for one in files if one.shape[1 if len(one.shape) == 3 else 0]] or files[:1]


def _refuse_missing_number(folder: Location, names: Sequence[str]) -> None:
    """Refuse a numbered sequence with gaps, such as part-0, part-1, part-3."""
    fields = [re.split(r"([0-9]+)", name) for name in names]  # text, number, text, ...
    first = fields[0]
    if len({(len(field), *field[::2]) for field in fields}) > 1:
        return  # the texts differ, too
    numbers = range(1, len(first), 2)
    total_places = [at for at in numbers[:-1] if first[at + 1].strip("-_. ") == "of"]
    varying_places = [at for at in numbers if len({field[at] for field in fields}) > 1]
    if len(varying_places) > 1 or not (varying_places or total_places):
        return
    at = (varying_places or total_places)[0]
    present_numbers = {int(field[at]) for field in fields}
    expected_numbers = range(min(present_numbers), max(present_numbers) + 1)
    if at in total_places:  # 00000-of-00005 says how many there are
        total = int(first[at + 2])
        expected_numbers = range(1, total + 1) if total in present_numbers else range(total)
    elif len(expected_numbers) > 2 * len(present_numbers):
        return  # too sparse for a count: years, first rows, times
    missing = sorted(set(expected_numbers) - present_numbers)
    if missing:
        width = min(len(field[at]) for field in fields)
        name = "".join([*first[:at], str(missing[0]).zfill(width), *first[at + 1 :]])
        more = f", nor do {len(missing) - 1} others" if len(missing) > 1 else ""
        raise FileError(
            name_file(folder / name),
            f"does not exist{more}, but {names[0]!r} and {names[-1]!r} do",
            "Bring the missing shard back, or number the shards without gaps",
        )


def _make_fingerprint(entries: Sequence[Entry], key: str | None) -> str:
    return _hash_content([key, [(entry.name, entry.size, entry.stamp) for entry in entries]])


def _hash_content(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]
