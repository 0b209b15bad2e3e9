"""Addresses that fsspec reaches: `s3://bucket/x`, `gs://`, and many files fetched at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from uqled.errors import FileError
from uqled.storage.location import Entry, Location, explain_location_problems
from uqled.storage.reading import first_line, name_file

#: Stores whose folders are only the beginnings of names, and come and go with the files.
_WITHOUT_FOLDERS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "r2")
#: What file systems call the thing that changes with a file's content, the most telling first.
_STAMPS = ("ETag", "etag", "generation", "md5Hash", "checksum", "mtime", "LastModified", "created")

_FETCHED_TOGETHER = 128


@dataclass(frozen=True)
class RemoteLocation(Location):
    """A file or folder in a store that fsspec reaches."""

    @property
    def is_local(self) -> bool:
        return False

    @property
    def path(self) -> Path:
        raise FileError(name_file(self), "is not on this machine", "Name a local path")

    def entry(self) -> Entry | None:
        with self._open_store() as (system, path):
            try:
                system.invalidate_cache(path)  # others write too: an old listing is wrong
                return _entry_from(system.info(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _listing(self) -> list[Entry]:
        with self._open_store() as (system, path):
            system.invalidate_cache(path)
            listing = system.ls(path, detail=True)
        # An object store lists the folder itself where somebody made one as an empty file.
        return [_entry_from(one) for one in listing if one["name"].strip("/") != path.strip("/")]

    def tree(self) -> list[Entry]:
        with self._open_store() as (system, path):
            system.invalidate_cache(path)
            listing = system.find(path, detail=True)
        base = f"{path.strip('/')}/"
        return [
            replace(_entry_from(one), name=one["name"].strip("/").removeprefix(base))
            for one in listing.values()
        ]

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        end = None if length is None else start + length
        try:
            with self._open_store() as (system, path):
                content: bytes = system.cat_file(path, start=start, end=end)
                return content
        except FileError:
            if start and self._file().size <= start:  # which is an error to some stores
                return b""
            raise

    def read_into(
        self,
        view: memoryview,
        start: int,
        *,
        direct_io: bool = False,  # noqa: ARG002 - nothing is cached
    ) -> None:
        content = self.read(start, len(view))
        if len(content) < len(view):
            raise self._cut_short(self._file().size)
        view[:] = content

    def open(self) -> BinaryIO:
        with self._open_store() as (system, path):
            file: BinaryIO = system.open(path, "rb")
            return file

    def write(self, content: bytes, *, durable: bool = True) -> None:  # noqa: ARG002 - always
        with self._open_store("written") as (system, path):
            try:
                system.pipe_file(path, content)
            except FileNotFoundError:
                if self._is_without_folders:
                    raise
                self.parent.make_folder()
                system.pipe_file(path, content)

    def remove(self) -> None:
        with self._open_store("removed") as (system, path):
            try:
                system.rm_file(path)
            except FileNotFoundError:
                return
            system.invalidate_cache(path)

    def remove_folder(self) -> None:
        with self._open_store("removed") as (system, path):
            system.invalidate_cache(path)
            try:
                system.rm(path, recursive=True)
            except FileNotFoundError:
                return

    def make_folder(self) -> None:
        if self._is_without_folders:
            return
        with self._open_store("made") as (system, path):
            system.makedirs(path, exist_ok=True)

    @property
    def _is_without_folders(self) -> bool:
        return self.address.partition("://")[0] in _WITHOUT_FOLDERS

    @contextmanager
    def _open_store(self, doing: str = "read") -> Iterator[tuple[Any, str]]:
        """The file system and the path in it. Stores have errors of every type: all are named."""
        with explain_location_problems(self, Exception, doing):
            yield file_system(self)


def read_ranges(ranges: list[tuple[Location, int, int]]) -> Iterator[bytes]:
    """The bytes (place, start, length) of many files, as `Location.read` gives them, in order.

    Remote ones are fetched many at a time: one after the other, each would wait for an answer.
    """
    for first in range(0, len(ranges), _FETCHED_TOGETHER):
        some = ranges[first : first + _FETCHED_TOGETHER]
        if all(place.is_local for place, _, _ in some):
            yield from (place.read(start, length) for place, start, length in some)
            continue
        system, _ = file_system(some[0][0])
        paths = [file_system(place)[1] for place, _, _ in some]
        starts = [start for _, start, _ in some]
        ends = [start + length for _, start, length in some]
        with explain_location_problems(some[0][0].parent, Exception):
            contents = system.cat_ranges(paths, starts, ends, on_error="return")
        for (place, _, _), content in zip(some, contents, strict=True):
            with explain_location_problems(place, Exception):
                if isinstance(content, BaseException):
                    raise content
            yield bytes(content)


def file_system(place: Location) -> tuple[Any, str]:
    """The fsspec file system of a remote place, and the path in it.

    fsspec keeps one per thread and process; asking each time is what makes that safe.
    """
    needs = "pip install 'uqled[cloud]'"
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise FileError(name_file(place), "needs the fsspec package", needs) from error
    protocol = place.address.partition("://")[0]
    try:
        system, path = url_to_fs(place.address)
    except ImportError as error:
        raise FileError(
            name_file(place), f"needs a package for {protocol}:// ({first_line(error)})", needs
        ) from error
    except ValueError as error:
        raise FileError(
            name_file(place),
            f"cannot be reached ({first_line(error)})",
            "Use a local path, s3://, gs:// or another protocol that fsspec knows",
        ) from error
    return system, path


def _entry_from(info: dict[str, Any]) -> Entry:
    name = info["name"].rstrip("/").rpartition("/")[2]
    size = int(info.get("size") or 0)
    tag: Any = next((info[key] for key in _STAMPS if info.get(key) is not None), "")
    if isinstance(tag, datetime):  # a listing may say the same in seconds
        tag = tag.timestamp()
    return Entry(name, size, f"{size}-{tag}".replace('"', ""), info.get("type") == "directory")
