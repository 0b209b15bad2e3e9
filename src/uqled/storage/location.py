"""Addresses of files: a path on this machine, or whatever fsspec reaches (`s3://bucket/x`, `gs://`).

A `Location` is its address and nothing else, so that it can be sent to another process, which opens
it there. Nothing of fsspec is imported for a local path.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from uqled.errors import FileError
from uqled.storage.atomic import replace_file
from uqled.storage.file_reads import DESCRIPTORS, fill_directly, fill_from, forget_file
from uqled.storage.reading import explain_file_problems, name_file, open_regular

_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(::[A-Za-z0-9+.-]+)*://")
_LOCAL_PROTOCOLS = ("file://", "local://")


@dataclass(frozen=True)
class Entry:
    """One file or folder of a listing."""

    name: str
    size: int
    stamp: str
    """Changes when the file changes."""
    is_folder: bool

    @property
    def is_hidden(self) -> bool:
        return self.name.startswith((".", "_"))


@dataclass(frozen=True)
class Location(ABC):
    """A file or folder, by its address. `Location.of` makes one."""

    address: str

    @classmethod
    def of(cls, address: str | os.PathLike[str] | Location) -> Location:
        """Make the location of a local path, which becomes absolute, or of an fsspec address."""
        if isinstance(address, Location):
            return address
        text = os.fspath(address)
        for protocol in _LOCAL_PROTOCOLS:
            if text.startswith(protocol):
                text = text.removeprefix(protocol)
        if _PROTOCOL.match(text):
            from uqled.storage.remote_location import RemoteLocation

            return RemoteLocation(text.rstrip("/"))
        return _LocalLocation(str(Path(text).absolute()))

    def __truediv__(self, name: str) -> Location:
        return type(self)(f"{self.address.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rstrip("/").rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> Location:
        """The folder that contains it."""
        return type(self)(self.address.rstrip("/").rpartition("/")[0] or "/")

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether it is a path on this machine."""

    @property
    @abstractmethod
    def path(self) -> Path:
        """The path of a local file or folder; an error for a remote one."""

    @abstractmethod
    def entry(self) -> Entry | None:
        """Describe the file or folder; None if it does not exist."""

    @abstractmethod
    def _list_entries(self) -> list[Entry]:
        """List everything in a folder, in any order."""

    def exists(self) -> bool:
        return self.entry() is not None

    def is_folder(self) -> bool:
        entry = self.entry()
        return entry is not None and entry.is_folder

    def size(self) -> int:
        """The bytes of a file."""
        return self._find_file().size

    def stamp(self) -> str:
        """Changes when the file changes: its size, and its time or the store's own tag."""
        return self._find_file().stamp

    def entries(self, *, with_hidden: bool = False) -> list[Entry]:
        """List a folder in natural order (part-2 before part-10), with one request.

        Hidden files and markers such as `_SUCCESS` are left out unless `with_hidden`.
        """
        entries = self._list_entries()
        if not with_hidden:
            entries = [entry for entry in entries if not entry.is_hidden]
        return sorted(entries, key=lambda entry: make_natural_key(entry.name))

    def names(self) -> list[str]:
        """The names of `entries`."""
        return [entry.name for entry in self.entries()]

    @abstractmethod
    def tree(self) -> list[Entry]:
        """List all files below a folder, in any order, by relative path: `c/0/0`."""

    @abstractmethod
    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """Read up to `length` bytes from `start` on."""

    @abstractmethod
    def read_into(self, view: memoryview, start: int, *, direct_io: bool = False) -> None:
        """Fill `view` with the bytes from `start` on; raise an error if the file is too short.

        `direct_io` bypasses the page cache (O_DIRECT) where the system can: faster for data that
        would be evicted before it is read again.
        """

    @abstractmethod
    def open(self) -> BinaryIO:
        """Open as a seekable binary file, for libraries that need one."""

    @abstractmethod
    def write(self, content: bytes, *, durable: bool = True) -> None:
        """Write a file atomically, and create its folder.

        `durable=False` does not wait until the file would survive a power loss.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove a file, if it exists."""

    @abstractmethod
    def remove_folder(self) -> None:
        """Remove a folder and everything in it, if it exists."""

    @abstractmethod
    def make_folder(self) -> None:
        """Create a folder and its parents, if they do not exist."""

    def _find_file(self) -> Entry:
        entry = self.entry()
        if entry is None:
            raise _describe_missing(self)
        if entry.is_folder:
            raise FileError(name_file(self), "is a folder", "Name a file in it")
        return entry

    def _describe_truncation(self, end: int) -> FileError:
        return FileError(
            name_file(self),
            f"ends at byte {end}, before its array does",
            "It was cut short: write it again",
        )


@dataclass(frozen=True)
class _LocalLocation(Location):
    @property
    def is_local(self) -> bool:
        return True

    @property
    def path(self) -> Path:
        return Path(self.address)

    def entry(self) -> Entry | None:
        with explain_location_problems(self, OSError):
            try:
                return _make_entry(self.name, self.path.stat())
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _list_entries(self) -> list[Entry]:
        with explain_location_problems(self, OSError), os.scandir(self.address) as listing:
            return [_make_entry(one.name, one.stat()) for one in listing if _still_exists(one)]

    def tree(self) -> list[Entry]:
        with explain_location_problems(self, OSError):
            return [
                _make_entry(str(path.relative_to(self.path)), path.stat())
                for path in self.path.rglob("*")
                if path.is_file()
            ]

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        with explain_location_problems(self, OSError):
            file = DESCRIPTORS.get(self.address)
            n_left = max(os.fstat(file.number).st_size - start, 0)
            content = bytearray(n_left if length is None else min(length, n_left))
            return bytes(content[: fill_from(file.number, memoryview(content), start)])

    def read_into(self, view: memoryview, start: int, *, direct_io: bool = False) -> None:
        with explain_location_problems(self, OSError):
            if direct_io and fill_directly(self.address, view, start):
                return
            file = DESCRIPTORS.get(self.address)
            count = fill_from(file.number, view, start)
        if count < len(view):
            raise self._describe_truncation(min(start + count, os.fstat(file.number).st_size))

    def open(self) -> BinaryIO:
        return open_regular(self.path)

    def write(self, content: bytes, *, durable: bool = True) -> None:
        self.parent.make_folder()
        with (
            explain_location_problems(self, OSError, "written"),
            replace_file(self.path, durable=durable) as part,
        ):
            part.write_bytes(content)
        forget_file(self.address)

    def remove(self) -> None:
        forget_file(self.address)
        with explain_location_problems(self, OSError, "removed"):
            self.path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        forget_file(self.address)
        with explain_location_problems(self, OSError, "removed"):
            if self.path.exists():
                shutil.rmtree(self.path)

    def make_folder(self) -> None:
        with explain_location_problems(self, OSError, "created"):
            self.path.mkdir(parents=True, exist_ok=True)


def make_natural_key(name: str) -> tuple[list[int | str], str]:
    """A key that sorts numbers in names by their value: part-2 before part-10."""
    parts = re.split(r"([0-9]+)", name)  # text, number, text, ...: same positions, same types
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], name


def explain_location_problems(
    place: Location, errors: type[Exception], action: str = "read"
) -> AbstractContextManager[None]:
    """Turn errors about a file into a `FileError` that names it."""
    fix, problem = "Check the address and your permissions", f"cannot be {action}"
    return explain_file_problems(place, fix, problem=problem, errors=errors)


def _still_exists(entry: os.DirEntry[str]) -> bool:
    """False for a temporary file that was renamed while the folder was listed."""
    try:
        entry.stat()
    except FileNotFoundError:
        return False
    return True


def _describe_missing(place: Location) -> FileError:
    return FileError(name_file(place), "does not exist", "Check the path")


def _make_entry(name: str, status: os.stat_result) -> Entry:
    is_folder = (status.st_mode & 0o170000) == 0o040000
    return Entry(name, status.st_size, f"{status.st_size}-{status.st_mtime_ns}", is_folder)
