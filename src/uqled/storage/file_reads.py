"""Reads bytes of local files: cached file descriptors, and O_DIRECT reads."""

from __future__ import annotations

import mmap
import os
import stat
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.storage.reading import name_file

_OPEN_FILES = 64  # descriptors kept open per process
#: O_DIRECT reads: the smallest read that is worth it, the page size, and the size of the buffer.
_DIRECT_BYTES, _PAGE, _BOUNCE_BYTES = 2**18, 4096, 4 * 2**20
#: The usual sector size of a disk: memory with the same alignment as its bytes in the file is
#: filled without a copy.
SECTOR = 512


class Descriptor:
    """An open file descriptor, closed when it is garbage-collected."""

    def __init__(self, path: str, flags: int) -> None:
        # Non-blocking, because opening a pipe would wait until somebody writes to it.
        flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        self.number = os.open(path, os.O_RDONLY | flags)
        about = os.fstat(self.number)
        if not stat.S_ISREG(about.st_mode):
            raise FileError(name_file(path), "is not a regular file", "Name a file with content")
        self.file = about.st_dev, about.st_ino

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class DescriptorCache:
    """Keeps recently read files open, and notices when a file is replaced or removed."""

    def __init__(self, limit: int, flags: int = 0) -> None:
        self._limit, self._flags = limit, flags
        self.reset()

    def reset(self) -> None:
        self._descriptors: OrderedDict[str, Descriptor] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Descriptor:
        now = os.stat(path)  # noqa: PTH116 - called once per block
        with self._lock:
            descriptor = self._descriptors.get(path)
            if descriptor is not None and descriptor.file == (now.st_dev, now.st_ino):
                self._descriptors.move_to_end(path)
                return descriptor
        new_descriptor = Descriptor(path, self._flags)
        with self._lock:
            self._descriptors[path] = new_descriptor
            self._descriptors.move_to_end(path)
            while len(self._descriptors) > self._limit:
                self._descriptors.popitem(last=False)
        return new_descriptor

    def forget(self, path: str) -> None:
        """Close a file, or all files in a folder: an open one would keep its disk space."""
        with self._lock:
            for name in [
                one for one in self._descriptors if one == path or one.startswith(f"{path}/")
            ]:
                del self._descriptors[name]


DESCRIPTORS = DescriptorCache(_OPEN_FILES)
_DIRECT_DESCRIPTORS = DescriptorCache(_OPEN_FILES, getattr(os, "O_DIRECT", 0))
if hasattr(
    os, "register_at_fork"
):  # another thread may hold the lock, which the child does not have
    os.register_at_fork(after_in_child=DESCRIPTORS.reset)
    os.register_at_fork(after_in_child=_DIRECT_DESCRIPTORS.reset)
_bounce = threading.local()


def forget_file(path: str) -> None:
    DESCRIPTORS.forget(path)
    _DIRECT_DESCRIPTORS.forget(path)


def fill_directly(path: str, view: memoryview, start: int) -> bool:
    """Fill `view` with O_DIRECT; False if that is not possible, or the file is too short.

    Such reads must be aligned in the file and in memory, so they go through a buffer unless `view`
    is aligned like the file.
    """
    if not hasattr(os, "O_DIRECT") or len(view) < _DIRECT_BYTES:
        return False
    if not hasattr(_bounce, "pages"):
        _bounce.pages = mmap.mmap(-1, _BOUNCE_BYTES)  # begins at a page
    pages, n_done = _bounce.pages, 0
    source, target = np.frombuffer(pages, np.uint8), np.frombuffer(view, np.uint8)
    try:
        descriptor = _DIRECT_DESCRIPTORS.get(path).number
        if (target.ctypes.data - start) % SECTOR == 0 and _fill_in_place(
            descriptor, target, start, source
        ):
            return True
        while n_done < len(target):
            before = (start + n_done) % _PAGE
            n_bytes = min(_BOUNCE_BYTES, -(-(before + len(target) - n_done) // _PAGE) * _PAGE)
            count = os.preadv(descriptor, [memoryview(pages)[:n_bytes]], start + n_done - before)
            n_new = min(count - before, len(target) - n_done)
            if n_new <= 0:
                return False
            target[n_done : n_done + n_new] = source[before : before + n_new]
            n_done += n_new
    except OSError:  # a file system without such reads
        return False
    return True


def _fill_in_place(
    descriptor: int, target: NDArray[np.uint8], start: int, pages: NDArray[np.uint8]
) -> bool:
    """Fill a target that is aligned like the file with one read; False if that is not possible.

    Whole sectors go straight into the target, the edges before and after them through `pages`.
    """
    before, head = start % SECTOR, -start % SECTOR
    if len(target) < head + SECTOR:
        return False
    middle = (len(target) - head) // SECTOR * SECTOR
    rest = len(target) - head - middle
    edges = pages[: SECTOR * (head > 0)], pages[SECTOR : SECTOR + SECTOR * (rest > 0)]
    pieces: list[Any] = [edges[0], target[head : head + middle], edges[1]]
    try:
        count = os.preadv(descriptor, [p for p in pieces if len(p)], start - before)
    except OSError:  # a disk with larger sectors
        return False
    if count < before + len(target):
        return False
    target[:head] = edges[0][before:]
    target[head + middle :] = edges[1][:rest]
    return True


def fill_from(descriptor: int, view: memoryview, start: int) -> int:
    """Fill `view` and return the number of bytes read, which is less at the end of the file."""
    n_done = 0
    while n_done < len(view):
        count = os.preadv(descriptor, [view[n_done:]], start + n_done)
        if count == 0:
            break
        n_done += count
    return n_done
