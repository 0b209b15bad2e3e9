"""Reads `.npy` and `.npz` files: the claims of their headers are checked first.

Nothing is ever unpickled: arrays of objects are refused.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, UqledError
from uqled.limits import check_limit
from uqled.storage.reading import (
    check_expansion,
    explain_file_problems,
    first_line,
    name_file,
    open_regular,
)
from uqled.storage.zip_files import open_zip

#: The longest header: NumPy itself reads no longer ones.
HEADER_BYTES = 16_384
_PIECE = 2**20  # bytes unpacked at a time
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy writes


@dataclass(frozen=True)
class NpyHeader:
    """The header of an `.npy` file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    end: int
    """Where the array begins."""

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """Whether it holds numbers or strings, not objects, which would have to be unpickled."""
        return self.dtype.kind in "biufcmMUS" and self.dtype.itemsize > 0


def parse_npy_header(head: bytes, subject: str, fix: str = "Write it again") -> NpyHeader:
    """Read a header out of the first `HEADER_BYTES` bytes of a file, or all where it has fewer.

    NumPy evaluates it as a Python literal, and where that fails, by Python's own tokenizer: on
    damaged bytes these raise anything.
    """
    try:
        file = BytesIO(head)
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise FileError(subject, f"is .npy of version {version}", "Save numbers or strings")
        read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
        shape, is_fortran, dtype = read(file)
        if any(n < 0 for n in shape):
            raise ValueError(f"its shape is {shape}")
    except UqledError:
        raise
    except Exception as error:
        raise FileError(subject, f"is not an .npy file ({first_line(error)})", fix) from error
    return NpyHeader(tuple(map(int, shape)), dtype, bool(is_fortran), file.tell())


def open_array(path: Path | str, fix: str = "Write it again") -> NDArray[Any]:
    """An `.npy` as a memory map: its header is checked against the file, no value is read.

    Numbers and texts only: nothing is ever unpickled.
    """
    with explain_file_problems(path, fix):
        with open_regular(path) as file:
            header = parse_npy_header(file.read(HEADER_BYTES), name_file(path), fix)
        if header.dtype.kind not in "biufUS" or not header.dtype.itemsize:
            raise FileError(name_file(path), f"holds {header.dtype}", "Save numbers or texts")
        array: NDArray[Any] = np.lib.format.open_memmap(path, "r")
        return array


def read_array(path: Path | str, fix: str = "Write it again") -> NDArray[Any]:
    """An `.npy` in memory."""
    array = open_array(path, fix)
    check_limit("memory_bytes", array.nbytes, name_file(path))
    return np.array(array)


class ArrayArchive:
    """The arrays of an `.npz`."""

    def __init__(self, archive: zipfile.ZipFile, path: Path | str) -> None:
        self._archive, self._path = archive, path
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.filelist:
            key = member.filename.removesuffix(".npy")
            if key in self._members:
                raise FileError(
                    name_file(path), f"holds two arrays called {key!r}", "Save it again"
                )
            self._members[key] = member

    @property
    def keys(self) -> list[str]:
        return list(self._members)

    def read(self, key: str) -> NDArray[Any]:
        """One of the arrays, in memory."""
        member = self._members[key]
        subject = f"array {key!r} in {name_file(self._path)}"
        with explain_file_problems(f"{self._path}::{key}", "Save it again"):
            if member.compress_type not in _ZIP_METHODS:
                raise FileError(
                    subject, "is not packed the way NumPy packs it", "Save it with NumPy"
                )
            with self._archive.open(member) as file:
                head = file.read(min(HEADER_BYTES, member.file_size))
                header = parse_npy_header(head, subject)
                if not header.is_plain:
                    raise ValueError(f"it holds {header.dtype}")
                if header.end + header.nbytes != member.file_size:
                    raise FileError(
                        subject,
                        f"has {member.file_size - header.end:,} bytes, which do not fit its shape "
                        f"{header.shape} of {header.dtype}",
                        "Save it again",
                    )
                check_limit("memory_bytes", header.nbytes, subject)
                check_expansion(member.file_size, member.compress_size, subject)
                return _fill_array(header, head[header.end :], file)


@contextmanager
def open_npz(path: Path | str, file: BinaryIO | None = None) -> Iterator[ArrayArchive]:
    """The arrays of a local `.npz`, or of one that is open as `file`; `path` is for errors."""
    with open_zip(path, file) as archive:
        yield ArrayArchive(archive, path)


def _fill_array(header: NpyHeader, start: bytes, file: Any) -> NDArray[Any]:
    flat = np.empty(prod(header.shape), header.dtype)
    raw: Any = flat.view(np.uint8)
    view, n_done = memoryview(raw), len(start)
    view[:n_done] = start
    while n_done < len(view):
        piece = file.read(min(_PIECE, len(view) - n_done))
        if not piece:
            raise EOFError("it ends before its array does")
        view[n_done : n_done + len(piece)] = piece
        n_done += len(piece)
    return flat.reshape(header.shape, order="F" if header.is_fortran else "C")
