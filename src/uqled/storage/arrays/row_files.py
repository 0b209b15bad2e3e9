"""Rows as they lie in one file, and those of `.npy` files, wherever they are.

Parquet and Zarr have a module each. A class says what a header or footer says, and reads a range
of rows into a given buffer. None keeps a file open: descriptors and positions belong to the process
and thread that reads.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, InputError
from uqled.storage.arrays.numpy_files import HEADER_BYTES, parse_npy_header
from uqled.storage.location import Entry, Location
from uqled.storage.reading import name_file
from uqled.storage.remote_location import read_ranges

#: What to do about a file that a library cannot read.
WRITE_AGAIN = "It may have been cut short: write it again"
_PIECE_BYTES = 2**22  # converted at a time: small enough to stay in the processor's cache

_thread = threading.local()


class StoredArray(Protocol):
    """Rows [n], [n,K] or [F,n,K] in one place."""

    @property
    def place(self) -> Location: ...
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

    place: Location
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
            self.place.read_into(_view_bytes(rows), at, direct_io=self.direct_io)
            return
        # Each request to a remote file takes a while, so everything is requested at once.
        n = max(_PIECE_BYTES // max(row_bytes, 1), 1) if self.place.is_local else len(rows)
        for begin in range(0, len(rows), n):
            piece = rows[begin : begin + n]
            raw = _get_buffer(piece.shape, self.dtype)
            self.place.read_into(_view_bytes(raw), at + begin * row_bytes, direct_io=self.direct_io)
            convert_into(raw, piece)


@dataclass(frozen=True)
class PassFiles:
    """[F,n,K] passes that lie in a file each."""

    passes: tuple[StoredArray, ...]

    @property
    def place(self) -> Location:
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


def use_direct_io(array: StoredArray) -> StoredArray:
    """The same rows, read with O_DIRECT where the file system allows it."""
    if isinstance(array, PassFiles):
        return PassFiles(tuple(use_direct_io(one) for one in array.passes))
    return replace(array, direct_io=True) if isinstance(array, NpyFile) else array


def convert_into(values: NDArray[Any], target: NDArray[Any]) -> None:
    """Write values into a buffer of another type; fractions are not made integers."""
    try:
        np.copyto(target, values, casting="same_kind")
    except TypeError as error:
        raise InputError(
            "buffer",
            f"has type {target.dtype}, which cannot hold {values.dtype}",
            "Use a wider one",
        ) from error


def open_npy_files(folder: Location, entries: Sequence[Entry]) -> list[NpyFile]:
    """`.npy` files by what their headers say."""
    places = [folder / entry.name for entry in entries]
    heads = read_ranges([(place, 0, HEADER_BYTES) for place in places])
    return [
        _open_npy_file(place, entry.size, head)
        for place, entry, head in zip(places, entries, heads, strict=True)
    ]


def _open_npy_file(place: Location, size: int, head: bytes) -> NpyFile:
    if size == 0:
        raise FileError(name_file(place), "is empty", "Write it again")
    header = parse_npy_header(head, name_file(place))
    shape, dtype = header.shape, header.dtype
    if not header.is_plain:
        raise FileError(name_file(place), f"holds {dtype}", "Save numbers or strings")
    if header.is_fortran and sum(n > 1 for n in shape) > 1:
        raise FileError(
            name_file(place),
            "is in Fortran order, in which a row is scattered over the file",
            "Save np.ascontiguousarray(array)",
        )
    end = header.end + header.nbytes
    if size < end:
        raise FileError(
            name_file(place),
            f"ends at byte {size}, before its array does (at {end})",
            "It was cut short: write it again",
        )
    return NpyFile(place, shape, dtype, header.end)


def _view_bytes(array: NDArray[Any]) -> memoryview:
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _get_buffer(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """This thread's buffer for values that must be converted, used again and again."""
    size = prod(shape) * dtype.itemsize
    buffer: NDArray[np.uint8] | None = getattr(_thread, "bytes", None)
    if buffer is None or len(buffer) < size:
        buffer = _thread.bytes = np.empty(size, np.uint8)
    return buffer[:size].view(dtype).reshape(shape)
