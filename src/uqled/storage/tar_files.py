"""Reads a few members of untrusted tar archives, within limits."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.reading import (
    check_expansion,
    explain_file_problems,
    name_file,
    open_regular,
)
from uqled.storage.zip_files import check_member_name

_GZIP = b"\x1f\x8b"  # how a packed file begins
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)  # no link, no device, nothing sparse


def read_tar(path: Path, names: Collection[str]) -> dict[str, bytes]:
    """The contents of the files called like one of `wanted`, in whatever folder; each once.

    The archive is read from its beginning to its end, every byte counted as it is unpacked.
    Links and special members are passed over.
    """
    contents: dict[str, bytes] = {}
    with open_regular(path) as file, explain_file_problems(path):
        stream: Any = _CountedStream(file, path)
        with tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as archive:
            for count, member in enumerate(archive, 1):
                check_limit("archive_members", count, name_file(path))
                check_member_name(member.name, path)
                archive.members = []  # type: ignore[attr-defined]  # or all are kept
                name = PurePosixPath(member.name).name
                if member.type not in _FILES or member.issparse() or name not in names:
                    continue
                if name in contents:
                    raise FileError(
                        name_file(path), f"holds {name!r} twice", "Pack it again, each file once"
                    )
                contents[name] = _read_member(archive, member, path)
    return contents


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    check_limit("memory_bytes", member.size, f"{member.name!r} in {name_file(path)}")
    file = archive.extractfile(member)
    content = b"" if file is None else file.read()
    if len(content) != member.size:
        raise EOFError(f"{member.name!r} ends early")
    return content


class _CountedStream:
    """The bytes of an archive, unpacked; more than the limits allow are refused."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._subject = name_file(path)
        self._size, self._total = os.fstat(file.fileno()).st_size, 0
        is_packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        self._stream: Any = gzip.GzipFile(fileobj=file) if is_packed else file

    def read(self, size: int) -> bytes:
        content: bytes = self._stream.read(size)
        self._total += len(content)
        check_expansion(self._total, self._size, self._subject)
        return content
