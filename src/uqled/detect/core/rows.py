"""Blocks of rows from memory, a memory-mapped file, shards, Zarr, torch or pandas.

Contiguous float32 or float64 rows in memory are used without a copy. Everything else is read block
by block into a buffer that the thread reuses; if reading waits for a disk or a remote store, the
next block is read ahead while the current one is processed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import gcd, prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.errors import FileError, InputError
from uqled.storage.arrays.mapped_file import find_offset, is_mapped
from uqled.storage.file_reads import SECTOR, fill_from
from uqled.storage.reading import name_file

#: The class sums of this many rows fit in 64 bits, in units of 2^-40.
MAX_BLOCK_ROWS = 2**18
#: Bytes of a usual `.npy` header, which is longer only for very long shapes.
_NPY_HEADER = 128


@dataclass(frozen=True)
class RowBlock:
    """n rows of every pass: pass f of row r of the block is `flat[first + f * step + r]`."""

    flat: NDArray[Any]
    first: int
    step: int
    n: int

    def get_pass(self, f: int) -> NDArray[Any]:
        """[n,K] the rows of one pass."""
        at = self.first + f * self.step
        return self.flat[at : at + self.n]


class ProbabilityRows:
    """Row blocks of one array: [N,K] (one pass) or [F,N,K]."""

    def __init__(
        self,
        array: Any,
        *,
        name: str,
        ndim: int,
        part: tuple[int, int] | None = None,
        sequential: bool = False,
    ) -> None:
        """`sequential`: a single thread reads blocks of equal size in order, which allows reading
        ahead."""
        array = arrays.check_array_like(array, name)
        shape = arrays.check_shape(array, ndim=ndim, name=name)
        self.name = name
        self.shape = shape
        self.n_passes = shape[0] if ndim == 3 else 1
        self.n_classes = shape[-1]
        self._first, stop = part or (0, shape[-2])  # row numbers start at the part
        self.n_rows = stop - self._first
        self._array = array = _unwrap_torch(array)
        stored_dtype = _find_stored_dtype(array, name)
        self.tolerance = arrays.get_tolerance(stored_dtype)
        self.dtype = (
            stored_dtype if stored_dtype in (np.float32, np.float64) else np.dtype(np.float64)
        )
        if stored_dtype == np.float16:
            self.dtype = np.dtype(np.float32)
        self.row_bytes = self.n_passes * self.n_classes * self.dtype.itemsize
        chunks = getattr(array, "chunks", None)
        self.chunk_rows = int(chunks[-2]) if isinstance(chunks, tuple) and len(chunks) > 1 else 1
        self.group_rows = int(getattr(array, "group_rows", 1))
        self.sector_rows = SECTOR // gcd(self.n_classes * stored_dtype.itemsize, SECTOR)
        self._file = _MapReader.open_behind(array)
        self.is_zero_copy = (
            isinstance(array, np.ndarray)
            and self._file is None
            and array.dtype == self.dtype
            and array.dtype.isnative
            and array.flags.c_contiguous
        )
        self._buffers = threading.local()
        is_slow = bool(
            getattr(array, "is_slow", False)
        )  # shards that are read from a disk or a store
        self._read_ahead = _ReadAhead() if sequential and is_slow else None

    def read(self, start: int, stop: int) -> RowBlock:
        """The rows `start` to `stop`; the block is valid until this thread reads the next one."""
        n = stop - start
        if self.is_zero_copy:
            flat = np.asarray(self._array).reshape(-1, self.n_classes)
            return RowBlock(_make_read_only(flat), start + self._first, self.shape[-2], n)
        if self._read_ahead is not None:
            buffer = self._read_ahead.read(self, start, stop)
        else:
            buffer = self.get_buffer("rows", (self.n_passes, n, self.n_classes), self.dtype)
            self.read_into(buffer, start, stop)
        return RowBlock(_make_read_only(buffer.reshape(-1, self.n_classes)), 0, n, n)

    def begin_reading(self, start: int, stop: int) -> None:
        """Begin to read a block, if blocks are read ahead: `read` will return it."""
        if self._read_ahead is not None:
            self._read_ahead.begin(self, start, stop)

    def read_into(self, buffer: NDArray[Any], start: int, stop: int) -> None:
        """Read rows into a buffer [F,n,K]."""
        start, stop = start + self._first, stop + self._first
        if self._file is not None:
            self._file.read_into(buffer, start, self.shape)
        elif hasattr(self._array, "read_into"):  # shards
            self._array.read_into(buffer if len(self.shape) == 3 else buffer[0], start, stop)
        elif hasattr(self._array, "iloc"):  # a pandas frame
            buffer[0] = self._array.iloc[start:stop].to_numpy()
        elif len(self.shape) == 2:
            buffer[0] = _fetch(self._array[start:stop])
        else:
            buffer[...] = _fetch(self._array[:, start:stop])

    def get_buffer(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """This thread's own array of that name, allocated once and reused."""
        size = prod(shape)
        buffer: NDArray[Any] | None = getattr(self._buffers, name, None)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = _allocate_like_file(size, np.dtype(dtype))
            setattr(self._buffers, name, buffer)
        return buffer[:size].reshape(shape)

    def check_block(self, block: RowBlock, start: int, kernels: ModuleType) -> None:
        """Raise if a row of the block is no probability distribution."""
        for f in range(self.n_passes):
            rows = block.get_pass(f)
            bad_row = kernels.find_bad_row(rows, view_as_keys(rows), self.tolerance)
            if bad_row >= 0:
                raise self.describe_bad_row(rows[bad_row], start + bad_row, f)

    def describe_bad_row(self, row: NDArray[Any], index: int, f: int = 0) -> InputError:
        """What is wrong with a row that is no probability distribution."""
        index += self._first
        where = f"row {index}" if len(self.shape) == 2 else f"pass {f}, row {index}"
        return arrays.describe_bad_row(self.name, where, row, self.tolerance)


def align_to_chunks(rows: Sequence[ProbabilityRows], size: int) -> int:
    """`size` rounded down to whole chunks of the arrays, or to whole sectors of unchunked ones; at
    least one chunk."""
    chunk, sectors = max(r.chunk_rows for r in rows), max(r.sector_rows for r in rows)
    if chunk == 1 and size >= sectors:
        chunk = sectors
    return max(chunk, size - size % chunk)


def view_as_keys(rows: NDArray[Any]) -> NDArray[Any]:
    """The same bits as integers, in the order of the probabilities."""
    return rows.view(np.int32 if rows.dtype == np.float32 else np.int64)


def make_signed_keys(rows: NDArray[Any]) -> NDArray[Any]:
    """As `view_as_keys`, but rows with negative values are copied, and their order is mended."""
    keys = view_as_keys(rows)
    if (keys >= 0).all():
        return keys
    all_but_sign = np.iinfo(keys.dtype).max
    return _make_read_only(np.where(keys < 0, keys ^ all_but_sign, keys))


def make_threshold_keys(thresholds: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """[K] the smallest value of `dtype` not below each threshold, as keys."""
    rounded_thresholds = thresholds.astype(dtype)
    below = rounded_thresholds.astype(np.float64) < thresholds
    return view_as_keys(
        np.where(below, np.nextafter(rounded_thresholds, dtype.type(np.inf)), rounded_thresholds)
    )


def _allocate_like_file(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An empty array aligned as the values in a `.npy` file are, which O_DIRECT can read into."""
    memory = np.empty(size * dtype.itemsize + SECTOR, np.uint8)
    at = (_NPY_HEADER - memory.ctypes.data) % SECTOR
    return memory[at : at + size * dtype.itemsize].view(dtype)


class _ReadAhead:
    """Reads the next block in another thread, into a second buffer."""

    def __init__(self) -> None:
        self._next: tuple[int, int, NDArray[Any], Future[None]] | None = None
        self._buffer_number = 0

    def read(self, rows: ProbabilityRows, start: int, stop: int) -> NDArray[Any]:
        """[F,n,K] valid until the next call; an error of the other thread is raised here."""
        self.begin(rows, start, stop)
        assert self._next is not None
        _, _, buffer, reading = self._next
        reading.result()
        self._next = None
        if stop < rows.n_rows:
            self.begin(rows, stop, min(2 * stop - start, rows.n_rows))
        return buffer

    def begin(self, rows: ProbabilityRows, start: int, stop: int) -> None:
        """Begin to read a block, unless it is the one that is being read."""
        if self._next is not None and self._next[:2] == (start, stop):
            return
        if self._next is not None:
            wait([self._next[-1]])  # a block that was read ahead but is not needed
        self._buffer_number = 1 - self._buffer_number
        shape = rows.n_passes, stop - start, rows.n_classes
        buffer = rows.get_buffer(f"rows {self._buffer_number}", shape, rows.dtype)
        reading = _get_reader_threads().submit(rows.read_into, buffer, start, stop)
        self._next = start, stop, buffer, reading


def _get_reader_threads() -> ThreadPoolExecutor:
    """Two threads of the calling thread, for the softmax and the passes. They live as long as it
    does: a remote store opens a connection for each thread that reads."""
    if not hasattr(_local, "readers"):
        _local.readers = ThreadPoolExecutor(2)
    readers: ThreadPoolExecutor = _local.readers
    return readers


def _forget_reader_threads() -> None:
    _local.__dict__.clear()


_local = threading.local()
if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_forget_reader_threads)


class _MapReader:
    """The file region behind a memory-mapped array, read without mapping its pages.

    Mapped pages count as resident memory, and a mapped page of a truncated file crashes the
    process; a read does neither.
    """

    def __init__(self, path: str, offset: int, dtype: np.dtype[Any]) -> None:
        self.path, self.offset, self.dtype = path, offset, dtype
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed with the array
        self._buffers = threading.local()

    @classmethod
    def open_behind(cls, array: Any) -> _MapReader | None:
        """The file of a whole C-ordered memory map, if it still has the same content."""
        if not is_mapped(array) or array.mode == "c":
            return None
        if not array.flags.c_contiguous or not array.filename or array.dtype.hasobject:
            return None
        try:
            file = cls(str(array.filename), find_offset(array), array.dtype)
        except OSError:  # renamed or removed since: only the map is left
            return None
        return file if file._has_content(np.asarray(array).reshape(-1)) else None

    def _has_content(self, values: NDArray[Any]) -> bool:
        """Whether the file holds the same values at 256 positions spread over the array."""
        n = 16  # values compared at each position
        for start in np.linspace(0, max(len(values) - n, 0), 256, dtype=np.int64).tolist():
            part = values[start : start + n]
            at = self.offset + start * values.itemsize
            if os.pread(self._file.fileno(), part.nbytes, at) != part.tobytes():
                return False
        return True

    def read_into(self, buffer: NDArray[Any], start: int, shape: tuple[int, ...]) -> None:
        row = shape[-1] * self.dtype.itemsize
        target = buffer
        if self.dtype != buffer.dtype:
            raw = getattr(self._buffers, "raw", None)
            if raw is None or raw.size < buffer.size:
                raw = self._buffers.raw = np.empty(buffer.size, self.dtype)
            target = raw[: buffer.size].reshape(buffer.shape)
        for f in range(len(buffer)):
            at = self.offset + (f * shape[-2] + start) * row
            self._fill(memoryview(target[f].reshape(-1).view(np.uint8)), at)
        if target is not buffer:
            buffer[...] = target

    def _fill(self, view: memoryview, at: int) -> None:
        count = fill_from(self._file.fileno(), view, at)
        if count < len(view):
            raise FileError(
                name_file(self.path),
                f"ends at byte {at + count}, before its array does",
                "It was truncated while it was read: write it again",
            )

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()


def _unwrap_torch(array: Any) -> Any:
    """A torch tensor as a NumPy array without a copy, where that is possible."""
    if not hasattr(array, "detach"):
        return array
    tensor = array.detach()
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):  # bfloat16, or on another device: fetched block by block
        return tensor


def _find_stored_dtype(array: Any, name: str) -> np.dtype[Any]:
    if hasattr(array, "iloc"):
        frame_types = {np.dtype(t) if isinstance(t, np.dtype) else t for t in array.dtypes}
        if not all(isinstance(t, np.dtype) and t.kind in "fiu" for t in frame_types):
            array = array.iloc[:1].to_numpy()
        else:
            return np.result_type(*frame_types)
    return arrays.check_numeric_dtype(array, name)


def _fetch(part: Any) -> NDArray[Any]:
    if hasattr(part, "detach"):
        part = part.float().cpu().numpy()
    return np.asarray(part)


def _make_read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written: one type for the compiler, whatever the source allowed."""
    view = array.view()
    view.flags.writeable = False
    return view
