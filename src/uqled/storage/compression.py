"""Files that may be compressed (.gz, .zst, .bz2, .xz, or a zip of one file), within limits."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from uqled.limits import check_limit
from uqled.storage.reading import check_expansion, name_file, open_regular
from uqled.storage.zip_files import check_member_name, open_zip

_BUFFER = 2**18  # bytes decompressed at a time


def _open_zst(file: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(file, "zstd")


_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _open_zst,
}


def find_table_name(path: Path) -> str:
    """The name in lower case of what a file holds: without the ending of its compression, and of
    a zip the name of its only file; empty for a zip of several."""
    name = path.name.lower()
    for ending in _OPENERS:
        name = name.removesuffix(ending)
    if not name.endswith(".zip"):
        return name
    if not path.is_file():
        return ""
    with open_zip(path) as archive:
        members = [m.filename for m in archive.filelist if _is_content_member(m.filename)]
    return members[0].lower() if len(members) == 1 else ""


@contextmanager
def open_decompressed(path: Path | str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed where its name says that it is compressed."""
    ending = Path(path).suffix.lower()
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        check_limit("memory_bytes", size, name_file(path))
        if ending == ".zip":
            with open_zip(path, file) as archive:
                member = next(m for m in archive.filelist if _is_content_member(m.filename))
                check_member_name(member.filename, path)
                with archive.open(member) as stream:
                    yield _limit_stream(stream, size, path)
        elif ending in _OPENERS:
            yield _limit_stream(_OPENERS[ending](file), size, path)
        else:
            yield file


def read_decompressed(path: Path | str) -> bytes:
    """All of them."""
    with open_decompressed(path) as stream:
        return stream.read()


def _is_content_member(name: str) -> bool:
    parts = name.split("/")
    return bool(parts[-1]) and not parts[-1].startswith(".") and parts[0] != "__MACOSX"


def _limit_stream(stream: Any, size: int, path: Path | str) -> BinaryIO:
    limited_stream: Any = io.BufferedReader(_LimitedStream(stream, size, name_file(path)), _BUFFER)
    return limited_stream  # type: ignore[no-any-return]


class _LimitedStream(io.RawIOBase):
    """A stream that is decompressed piece by piece, and refuses more than the limits allow."""

    def __init__(self, stream: Any, size: int, subject: str) -> None:
        super().__init__()
        self._stream, self._size, self._subject, self._total = stream, size, subject, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        self._total += len(piece)
        check_expansion(self._total, self._size, self._subject)
        buffer[: len(piece)] = piece
        return len(piece)
