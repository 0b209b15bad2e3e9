"""Reads untrusted files: opened without blocking, read within limits.

Any problem becomes a `FileError` that names the file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from uqled.errors import FileError, UqledError
from uqled.limits import check_limit, exceed_limit, get_limit

_PIECE = 2**20  # bytes decompressed at a time
_SMALL_CONTENT = 2**26  # decompressed bytes below which no ratio is suspicious
#: Non-blocking, because opening a pipe would wait until somebody writes to it.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def explain_file_problems(
    path: object,
    fix: str = "Download it again",
    *,
    problem: str = "cannot be read",
    errors: type[Exception] = Exception,
) -> Iterator[None]:
    """Turn any problem with a file into a `FileError` that names it.

    Parsers can raise anything on crafted bytes (tokenizer errors, recursion, overflow), and so can
    remote stores: all `errors` count as problems of the file.
    """
    try:
        yield
    except UqledError:
        raise
    except errors as error:
        raise _describe_file_problem(error, path, fix, problem) from error


def _describe_file_problem(
    error: Exception, path: object, fix: str, problem: str = "cannot be read"
) -> FileError:
    if isinstance(error, FileNotFoundError):
        return FileError(name_file(path), "does not exist", "Check the path")
    return FileError(name_file(path), f"{problem} ({first_line(error)})", fix)


def name_file(path: object) -> str:
    """The name of a file in error messages."""
    return f"file {str(path)!r}"


def name_folder(path: object) -> str:
    """The name of a folder in error messages."""
    return f"folder {str(path)!r}"


def first_line(error: BaseException) -> str:
    """The message of another library's error, as one line of printable characters."""
    strerror = getattr(error, "strerror", None)
    text = strerror if isinstance(strerror, str) and strerror else str(error)
    line = (text.strip().splitlines() or [""])[0]
    return "".join(c if c.isprintable() else "?" for c in line)[:300] or type(error).__name__


def open_regular(path: Path | str) -> BinaryIO:
    """Open a file for reading; a pipe, a device, a socket or a folder is refused at once.

    Links are followed: what they lead to must be a regular file.
    """
    return os.fdopen(_open_descriptor(path)[0], "rb")


def read_file(path: Path | str, limit: str = "memory_bytes") -> bytes:
    """Read a regular file that is not larger than the limit.

    Called once per image, so it avoids a file object.
    """
    descriptor, size = _open_descriptor(path)
    try:
        check_limit(limit, size, name_file(path))
        content = os.read(descriptor, size + 1)
        while 0 < len(content) < size and (piece := os.read(descriptor, size + 1 - len(content))):
            content += piece  # one call reads two gigabytes at most
    except OSError as error:
        raise _describe_file_problem(error, path, "Download it again") from error
    finally:
        os.close(descriptor)
    if len(content) > size:  # system files such as those in /proc claim to be empty
        raise FileError(
            name_file(path), "is longer than the system reports", "Copy it, and use the copy"
        )
    return content


def _open_descriptor(path: Path | str) -> tuple[int, int]:
    """An open regular file, and how many bytes it has."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise _describe_file_problem(error, path, "Check the path and your permissions") from error
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise FileError(name_file(path), "is not a regular file", "Name a file with content")
    return descriptor, about.st_size


def read_text(path: Path | str) -> str:
    """Read a small UTF-8 text file."""
    with explain_file_problems(path, "Write it again, in UTF-8"):
        return read_file(path, "json_bytes").decode("utf-8")


def read_json(path: Path | str, fix: str = "Write it again") -> Any:
    """Read plain data from a JSON file."""
    with explain_file_problems(path, fix):
        return parse_json(read_file(path, "json_bytes"))


def parse_json(text: str | bytes | bytearray) -> Any:
    """Parse JSON; a lone surrogate, which UTF-8 cannot encode, is a ValueError."""
    content = json.loads(text)
    is_escaped = "\\ud" in text.lower() if isinstance(text, str) else b"\\ud" in text.lower()
    if is_escaped:
        json.dumps(content, ensure_ascii=False).encode()
    return content


def check_expansion(total: int, size: int, subject: str) -> None:
    """Refuse a decompression bomb: `total` decompressed bytes out of `size` compressed ones."""
    if total > get_limit("memory_bytes"):
        raise exceed_limit("memory_bytes", f"at least {total:,}", subject)
    check_compression_ratio(total, size, subject)


def check_compression_ratio(total: int, size: int, subject: str) -> None:
    """Refuse an implausible ratio of `total` decompressed to `size` compressed bytes."""
    ratio = total // max(size, 1)
    if total > _SMALL_CONTENT and ratio > get_limit("compression_ratio"):
        raise exceed_limit("compression_ratio", f"at least {ratio:,}", subject)
