"""Atomic writes: a file exists completely or not at all, whatever happens in between.

A file is written under a temporary name beside its own, flushed to the disk and renamed, and the
folder's entry is flushed too: a killed process or a power loss leaves the old file or the new one.

A temporary file is called `.uqled-...` and locked while somebody writes it. The system drops the
lock with the process, so `remove_leftovers` knows which ones nobody writes any more. It never
touches a file of another name.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.storage.reading import name_file

if sys.platform != "win32":  # there, leftovers are recognised by their age
    import fcntl

PREFIX = ".uqled-"
#: Without locks, a temporary file older than this counts as abandoned.
STALE_SECONDS = 86_400
_LONGEST_STEM = 60  # characters of the final name that the temporary one repeats
#: Errors of a disk that is full or read-only.
_DISK_PROBLEMS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


@contextmanager
def replace_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the same folder; it becomes `path` when the block succeeds.

    `durable=False` leaves out the flush, for notes that may be lost.
    """
    check_file_target(path)
    with explain_disk_problems(path):
        part, lock = _create_temporary(path)
        try:
            yield part
            if durable:
                flush_to_disk(part)
            part.replace(path)
            if durable:
                flush_to_disk(path.parent)
        finally:
            part.unlink(missing_ok=True)
            os.close(lock)


def write_json(path: Path, content: Any) -> None:
    """Write plain data."""
    with replace_file(path) as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as `.npy`."""
    with replace_file(path) as part, part.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def create_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A new `.npy` to fill through a memory map, its space reserved.

    Without that, a disk that fills up later ends the process (SIGBUS).
    """
    with explain_disk_problems(path):
        array = np.lib.format.open_memmap(path, "w+", dtype, shape)
        _reserve_space(path)
    return array


def check_file_target(path: Path) -> None:
    """Refuse a path at which no file can be written."""
    if path.is_dir():
        raise FileError(name_file(path), "is a folder", "Name a file in it")
    if not path.parent.is_dir():
        raise FileError(
            name_file(path), f"has no folder {str(path.parent)!r}", "Make the folder first"
        )
    if not os.access(path.parent, os.W_OK):
        raise FileError(
            name_file(path), "is in a folder that cannot be written", "Choose another folder"
        )


@contextmanager
def explain_disk_problems(path: Path) -> Iterator[None]:
    """Turn a full or failing disk into an error that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_PROBLEMS:
            raise
        raise FileError(
            name_file(path),
            f"cannot be written ({error.strerror or error})",
            "Free some space, or choose another folder; what was there before is unchanged",
        ) from error


def flush_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the entries of a folder, survive a power loss."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in _DISK_PROBLEMS:
            raise
    finally:  # a file system that cannot flush a folder has nothing to flush
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Flush every file and folder below, and the folder itself."""
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            if not file.is_symlink():
                flush_to_disk(file)
        flush_to_disk(Path(parent))


def is_temporary(name: str) -> bool:
    """Whether this is the name of one of our temporary files or folders."""
    return name.startswith(PREFIX)


def remove_leftovers(folder: Path, *, deep: bool = False) -> None:
    """Remove temporary files that killed processes left; those that somebody writes stay."""
    with suppress(OSError):
        pattern = f"{PREFIX}*"
        for path in folder.rglob(pattern) if deep else folder.glob(pattern):
            if path.is_file() and not path.is_symlink() and _is_abandoned(path):
                path.unlink(missing_ok=True)


def _create_temporary(path: Path) -> tuple[Path, int]:
    """A new file beside `path`, and a descriptor that holds its lock."""
    while True:
        stem = path.stem[:_LONGEST_STEM]
        part = path.with_name(f"{PREFIX}{stem}-{secrets.token_hex(6)}{path.suffix[:20]}")
        try:
            lock = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        if sys.platform == "win32":
            return part, lock
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if part.exists():  # nobody removed it as a leftover before it was locked
            return part, lock
        os.close(lock)


def _is_abandoned(path: Path) -> bool:
    if sys.platform == "win32":
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _reserve_space(path: Path) -> None:
    """Allocate the space of a sparse file."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if hasattr(os, "posix_fallocate") and size:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
                return
            except OSError as error:
                if error.errno in _DISK_PROBLEMS:
                    raise
        zeros = bytes(2**20)  # if no space can be reserved; the first page is written already
        for start in range(4096, size, len(zeros)):
            file.seek(start)
            file.write(zeros[: size - start])
