"""Sends a memory map to another process as the name of its file instead of its numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.storage.reading import name_file


@dataclass(frozen=True)
class MappedFile:
    """An array that lies in a file, in C order."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    stamp: tuple[int, int]
    """Bytes and time of change: a worker that has another file under the name is refused."""

    @classmethod
    def from_array(cls, array: np.memmap[Any, Any]) -> MappedFile | NDArray[Any]:
        """The file of a read-only map, or a part of one; else the array as it is."""
        array_view = array.view(np.ndarray)
        if not is_mapped(array) or array.mode != "r" or not array.filename or not array.size:
            return array_view
        path = Path(array.filename).resolve()
        if not array.flags.c_contiguous or not path.is_file():
            return array_view
        return cls(str(path), find_offset(array), array.shape, array.dtype.str, _make_stamp(path))

    def open_array(self) -> NDArray[Any]:
        path = Path(self.path)
        if not path.is_file() or _make_stamp(path) != self.stamp:
            raise FileError(
                name_file(self.path),
                f"is missing or another one for the worker on {os.uname().nodename}",
                "Keep it where all machines see it under this path (the cache of images: set "
                "UQLED_CACHE)",
            )
        array: NDArray[Any] = np.memmap(path, self.dtype, "r", self.offset, self.shape)
        return array


def is_mapped(array: Any) -> bool:
    """Whether an array is a memory map, or a view of one."""
    return isinstance(array, np.memmap) and getattr(array, "_mmap", None) is not None


def find_offset(array: np.memmap[Any, Any]) -> int:
    """The byte of the file at which a memory map, or a contiguous part of one, begins."""
    mapping: Any = array._mmap  # type: ignore[attr-defined]
    start = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    first_page = array.offset - array.offset % ALLOCATIONGRANULARITY
    return int(first_page + array.__array_interface__["data"][0] - start)


def open_if_mapped(array: MappedFile | NDArray[Any]) -> NDArray[Any]:
    """Open the array of a `MappedFile`; other values are returned unchanged."""
    return array.open_array() if isinstance(array, MappedFile) else array


def _make_stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns
