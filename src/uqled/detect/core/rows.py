"""Blocks of rows out of whatever holds them: memory, a memory-mapped file, Zarr, torch, pandas.

A block of float32 or float64 rows that lie next to each other in memory is used where it lies.
Everything else is read, block by block, into a buffer that the thread uses again; where reading
waits for a disk or a store, the next block is read while one is looked at.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import gcd, prod
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.detect.core import kernels
from uqled.errors import FileError, InputError
from uqled.storage.file_reads import SECTOR

#: Rows of one block at the most: class sums of so many rows fit in 64 bits, in units of 2^-40.
MAX_BLOCK_ROWS = 2**18
#: Mostly: it grows with the length of the shape.
_NPY_HEADER = 128


@dataclass(frozen=True)
class Block:
    """Rows `start` to `stop` of every pass: pass f of the block's row r is
    `flat[first + f * step + r]`, wherever that lies."""

    flat: NDArray[Any]
    first: int
    step: int
    n: int

    def of_pass(self, f: int) -> NDArray[Any]:
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
        in_order: bool = False,
    ) -> None:
        """`in_order`: one thread alone reads, blocks of one size, one after the other."""
        array = arrays.with_shape(array, name)
        shape = arrays.shape_of(array, ndim=ndim, name=name)
        self.name = name
        self.shape = shape
        self.n_passes = shape[0] if ndim == 3 else 1
        self.n_classes = shape[-1]
        self._first, stop = part or (0, shape[-2])  # rows are counted from the first of the part
        self.n_rows = stop - self._first
        self._array = array = _without_torch(array)
        stored = _stored_dtype(array, name)
        self.tolerance = arrays.tolerance_of(stored)
        self.dtype = stored if stored in (np.float32, np.float64) else np.dtype(np.float64)
        if stored == np.float16:
            self.dtype = np.dtype(np.float32)
        self.row_bytes = self.n_passes * self.n_classes * self.dtype.itemsize
        chunks = getattr(array, "chunks", None)
        self.chunk_rows = int(chunks[-2]) if isinstance(chunks, tuple) and len(chunks) > 1 else 1
        self.group_rows = int(getattr(array, "group_rows", 1))
        self.sector_rows = SECTOR // gcd(self.n_classes * stored.itemsize, SECTOR)
        self._file = _MappedFile.behind(array)
        self.lies_ready = (
            isinstance(array, np.ndarray)
            and self._file is None
            and array.dtype == self.dtype
            and array.dtype.isnative
            and array.flags.c_contiguous
        )
        self._buffers = threading.local()
        self._ahead = _Ahead() if in_order and getattr(array, "is_slow", False) else None

    def read(self, start: int, stop: int) -> Block:
        """The rows `start` to `stop`; the block is good until this thread reads the next one."""
        n = stop - start
        if self.lies_ready:
            flat = np.asarray(self._array).reshape(-1, self.n_classes)
            return Block(_read_only(flat), start + self._first, self.shape[-2], n)
        if self._ahead is not None:
            buffer = self._ahead.read(self, start, stop)
        else:
            buffer = self.buffer("rows", (self.n_passes, n, self.n_classes), self.dtype)
            self.fill(buffer, start, stop)
        return Block(_read_only(buffer.reshape(-1, self.n_classes)), 0, n, n)

    def fill(self, buffer: NDArray[Any], start: int, stop: int) -> None:
        """Read rows into a buffer [F,n,K]."""
        start, stop = start + self._first, stop + self._first
        if self._file is not None:
            self._file.read_into(buffer, start, self.shape)
        elif hasattr(self._array, "read_into"):  # shards
            self._array.read_into(buffer if len(self.shape) == 3 else buffer[0], start, stop)
        elif hasattr(self._array, "iloc"):  # a pandas frame
            buffer[0] = self._array.iloc[start:stop].to_numpy()
        elif len(self.shape) == 2:
            buffer[0] = _fetched(self._array[start:stop])
        else:
            buffer[...] = _fetched(self._array[:, start:stop])

    def buffer(self, use: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """This thread's own array for one use, made once and used again."""
        size = prod(shape)
        kept: NDArray[Any] | None = getattr(self._buffers, use, None)
        if kept is None or kept.size < size or kept.dtype != dtype:
            kept = _as_in_files(size, np.dtype(dtype))
            setattr(self._buffers, use, kept)
        return kept[:size].reshape(shape)

    def refuse_bad_rows(self, block: Block, start: int) -> None:
        """Raise for the first row of a block that is no probability distribution."""
        for f in range(self.n_passes):
            rows = block.of_pass(f)
            bad = kernels.first_bad_row(rows, keys_of(rows), self.tolerance)
            if bad >= 0:
                raise self.problem(rows[bad], start + bad, f)

    def problem(self, row: NDArray[Any], index: int, f: int = 0) -> InputError:
        """What is wrong with a row known to be wrong."""
        index += self._first
        where = f"row {index}" if len(self.shape) == 2 else f"pass {f}, row {index}"
        return arrays.row_problem(self.name, where, row, self.tolerance)


def whole_chunks(rows: Sequence[ProbabilityRows], size: int) -> int:
    """So many rows of each array, or a few less, as are read together: one chunk at the least, and
    whole sectors where rows are not in chunks."""
    chunk, sectors = max(r.chunk_rows for r in rows), max(r.sector_rows for r in rows)
    if chunk == 1 and size >= sectors:
        chunk = sectors
    return max(chunk, size - size % chunk)


def keys_of(rows: NDArray[Any]) -> NDArray[Any]:
    """The same bits as integers, which order as the probabilities do."""
    return rows.view(np.int32 if rows.dtype == np.float32 else np.int64)


def keys_of_signed(rows: NDArray[Any]) -> NDArray[Any]:
    """As `keys_of`, for rows that may hold negative values: those are copied and turned round."""
    keys = keys_of(rows)
    if (keys >= 0).all():
        return keys
    below = np.iinfo(keys.dtype).max
    return _read_only(np.where(keys < 0, keys ^ below, keys))


def threshold_keys(thresholds: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """[K] smallest value of `dtype` that is not below each threshold, as keys."""
    rounded = thresholds.astype(dtype)
    below = rounded.astype(np.float64) < thresholds
    return keys_of(np.where(below, np.nextafter(rounded, dtype.type(np.inf)), rounded))


def _as_in_files(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An empty array that lies as the values of a `.npy` file do, behind a header of 128 bytes."""
    memory = np.empty(size * dtype.itemsize + SECTOR, np.uint8)
    at = (_NPY_HEADER - memory.ctypes.data) % SECTOR
    return memory[at : at + size * dtype.itemsize].view(dtype)


class _Ahead:
    """A thread that reads the rows after those asked for, into another buffer."""

    def __init__(self) -> None:
        self._begun: tuple[int, int, NDArray[Any], Future[None]] | None = None
        self._turn = 0

    def read(self, rows: ProbabilityRows, start: int, stop: int) -> NDArray[Any]:
        """[F,n,K] good until the next call; what went wrong is raised where it is asked for."""
        if self._begun is None or self._begun[:2] != (start, stop):
            self._begin(rows, start, stop)
        assert self._begun is not None
        _, _, buffer, reading = self._begun
        reading.result()
        self._begun = None
        if stop < rows.n_rows:
            self._begin(rows, stop, min(2 * stop - start, rows.n_rows))
        return buffer

    def _begin(self, rows: ProbabilityRows, start: int, stop: int) -> None:
        if self._begun is not None:
            wait([self._begun[-1]])  # rows that nobody asked for
        self._turn = 1 - self._turn
        shape = rows.n_passes, stop - start, rows.n_classes
        buffer = rows.buffer(f"rows {self._turn}", shape, rows.dtype)
        self._begun = start, stop, buffer, _readers().submit(rows.fill, buffer, start, stop)


def _readers() -> ThreadPoolExecutor:
    """Of the calling thread, for as long as it lives: a remote store has a connection for each
    thread that reads from it. One for the softmax, one for the passes."""
    if not hasattr(_own, "readers"):
        _own.readers = ThreadPoolExecutor(2)
    found: ThreadPoolExecutor = _own.readers
    return found


def _forget_readers() -> None:
    _own.__dict__.clear()


_own = threading.local()
if hasattr(os, "register_at_fork"):  # the child has none of these threads
    os.register_at_fork(after_in_child=_forget_readers)


class _MappedFile:
    """The part of a file that a memory-mapped array shows, read without mapping its pages.

    Mapped pages count as resident memory, and a page of a file cut short is a crash; a read is
    neither.
    """

    def __init__(self, path: str, offset: int, dtype: np.dtype[Any]) -> None:
        self.path, self.offset, self.dtype = path, offset, dtype
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed with the array
        self._buffers = threading.local()

    @classmethod
    def behind(cls, array: Any) -> _MappedFile | None:
        """The file of a whole C-ordered memory map that still shows it, else None."""
        mapped = getattr(array, "_mmap", None)
        if not isinstance(array, np.memmap) or mapped is None or array.mode == "c":
            return None
        if not array.flags.c_contiguous or not array.filename or array.dtype.hasobject:
            return None
        mapping = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
        page_start = array.offset - array.offset % ALLOCATIONGRANULARITY
        offset = page_start + array.__array_interface__["data"][0] - mapping
        try:
            found = cls(str(array.filename), offset, array.dtype)
        except OSError:  # renamed or removed since: the map is what is left
            return None
        return found if found._shows(np.asarray(array).reshape(-1)) else None

    def _shows(self, values: NDArray[Any]) -> bool:
        """If a few hundred places, spread over the array, hold the same values in the file."""
        few = 16
        for start in np.linspace(0, max(len(values) - few, 0), 256, dtype=np.int64).tolist():
            part = values[start : start + few]
            at = self.offset + start * values.itemsize
            if os.pread(self._file.fileno(), part.nbytes, at) != part.tobytes():
                return False
        return True

    def read_into(self, buffer: NDArray[Any], start: int, shape: tuple[int, ...]) -> None:
        row = shape[-1] * self.dtype.itemsize
        target = buffer
        if self.dtype != buffer.dtype:
            kept = getattr(self._buffers, "raw", None)
            if kept is None or kept.size < buffer.size:
                kept = self._buffers.raw = np.empty(buffer.size, self.dtype)
            target = kept[: buffer.size].reshape(buffer.shape)
        for f in range(len(buffer)):
            at = self.offset + (f * shape[-2] + start) * row
            self._fill(memoryview(target[f].reshape(-1).view(np.uint8)), at)
        if target is not buffer:
            buffer[...] = target

    def _fill(self, view: memoryview, at: int) -> None:
        done = 0
        while done < len(view):
            count = os.preadv(self._file.fileno(), [view[done:]], at + done)
            if count == 0:
                raise FileError(
                    f"file {self.path!r}",
                    f"ends at byte {at + done}, before its array does",
                    "It was cut short while it was read: write it again",
                )
            done += count

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()


def _without_torch(array: Any) -> Any:
    """A torch tensor as NumPy sees it, without a copy, where NumPy can see it at all."""
    if not hasattr(array, "detach"):
        return array
    tensor = array.detach()
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):  # bfloat16, or on another device: fetched block by block
        return tensor


def _stored_dtype(array: Any, name: str) -> np.dtype[Any]:
    if hasattr(array, "iloc"):
        frame_types = {np.dtype(t) if isinstance(t, np.dtype) else t for t in array.dtypes}
        if not all(isinstance(t, np.dtype) and t.kind in "fiu" for t in frame_types):
            array = array.iloc[:1].to_numpy()
        else:
            return np.result_type(*frame_types)
    return arrays.numeric_dtype(array, name)


def _fetched(part: Any) -> NDArray[Any]:
    if hasattr(part, "detach"):
        part = part.float().cpu().numpy()
    return np.asarray(part)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written: one type for the compiler, whatever the source allowed."""
    view = array.view()
    view.flags.writeable = False
    return view
