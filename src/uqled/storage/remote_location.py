"""Locations that fsspec reaches (`s3://bucket/x`, `gs://`), and reading many files at once."""

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

#: Object stores, whose folders are only name prefixes that exist as long as files have them.
_FOLDERLESS_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "r2")
#: Attributes that change with a file's content, the most reliable first.
_STAMPS = ("ETag", "etag", "generation", "md5Hash", "checksum", "mtime", "LastModified", "created")

_FETCHED_TOGETHER = 128  # files per request


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
                system.invalidate_cache(path)  # others write too: a cached listing may be stale
                return _parse_entry(system.info(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _list_entries(self) -> list[Entry]:
        with self._open_store() as (system, path):
            system.invalidate_cache(path)
            listing = system.ls(path, detail=True)
        # Object stores list the folder itself if it was created as an empty file.
        return [_parse_entry(one) for one in listing if one["name"].strip("/") != path.strip("/")]

    def tree(self) -> list[Entry]:
        with self._open_store() as (system, path):
            system.invalidate_cache(path)
            listing = system.find(path, detail=True)
        base = f"{path.strip('/')}/"
        return [
            replace(_parse_entry(one), name=one["name"].strip("/").removeprefix(base))
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
            if start and self._find_file().size <= start:  # some stores raise an error for that
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
            raise self._describe_truncation(self._find_file().size)
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
                if self._is_folderless:
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
        if self._is_folderless:
            return
        with self._open_store("created") as (system, path):
            system.makedirs(path, exist_ok=True)

    @property
    def _is_folderless(self) -> bool:
        return self.address.partition("://")[0] in _FOLDERLESS_STORES

    @contextmanager
    def _open_store(self, action: str = "read") -> Iterator[tuple[Any, str]]:
        """The file system and the path in it; errors of any type become a `FileError`."""
        with explain_location_problems(self, Exception, action):
            yield find_file_system(self)


def read_ranges(ranges: list[tuple[Location, int, int]]) -> Iterator[bytes]:
    """Read (place, start, length) of many files, like `Location.read`, in order.

    Remote files are fetched many at a time, instead of waiting for one answer after the other.
    """
    for first in range(0, len(ranges), _FETCHED_TOGETHER):
        block = ranges[first : first + _FETCHED_TOGETHER]
        if all(place.is_local for place, _, _ in block):
            yield from (place.read(start, length) for place, start, length in block)
            continue
        system, _ = find_file_system(block[0][0])
        paths = [find_file_system(place)[1] for place, _, _ in block]
        starts = [start for _, start, _ in block]
        ends = [start + length for _, start, length in block]
        with explain_location_problems(block[0][0].parent, Exception):
            contents = system.cat_ranges(paths, starts, ends, on_error="return")
        for (place, _, _), content in zip(block, contents, strict=True):
            with explain_location_problems(place, Exception):
                if isinstance(content, BaseException):
                    raise content
            yield bytes(content)


def find_file_system(place: Location) -> tuple[Any, str]:
    """The fsspec file system of a remote location, and the path in it.

    fsspec keeps one per thread and process, so it is looked up each time.
    """
    fix = "pip install 'uqled[cloud]'"
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise FileError(name_file(place), "needs the fsspec package", fix) from error
    protocol = place.address.partition("://")[0]
    try:
        system, path = url_to_fs(place.address)
    except ImportError as error:
        raise FileError(
            name_file(place), f"needs a package for {protocol}:// ({first_line(error)})", fix
        ) from error
    except ValueError as error:
        raise FileError(
            name_file(place),
            f"cannot be reached ({first_line(error)})",
            "Use a local path, s3://, gs:// or another protocol that fsspec knows",
        ) from error
    return system, path


def _parse_entry(info: dict[str, Any]) -> Entry:
    name = info["name"].rstrip("/").rpartition("/")[2]
    size = int(info.get("size") or 0)
    tag: Any = next((info[key] for key in _STAMPS if info.get(key) is not None), "")
    if isinstance(tag, datetime):  # a listing may round it to seconds
        tag = tag.timestamp()
    return Entry(name, size, f"{size}-{tag}".replace('"', ""), info.get("type") == "directory")
