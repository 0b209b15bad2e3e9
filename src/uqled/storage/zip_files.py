"""Lists and reads members of untrusted zip archives, within limits.

Nothing is unpacked to disk, so no name can lead to a place outside; names that try are refused all
the same, because exports write files under them.
"""

from __future__ import annotations

import re
import weakref
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from uqled.errors import FileError
from uqled.limits import check_limit, exceed_limit, get_limit
from uqled.storage.reading import (
    check_expansion,
    explain_file_problems,
    first_line,
    name_file,
    open_regular,
)

_LONGEST_NAME = 4096  # characters, as paths have on most systems
_DEEPEST = 64  # nested folders: each is listed by itself
_LARGE_LIST = 2**26  # bytes of a list of members that is looked at before it is parsed
_ENTRY = b"PK\x01\x02"  # what each of its entries begins with
_SMALL_CONTENT = 2**26  # unpacked bytes below which no ratio is suspicious
_PIECE = 4096  # compressed bytes at a time: they may expand to any number of bytes
_DRIVE = re.compile(r"[A-Za-z]:")


def open_zip(path: Path | str, file: BinaryIO | None = None) -> zipfile.ZipFile:
    """A zip file, or one that is open as `file`, whose list of members is within limits."""
    own_file = open_regular(path) if file is None else None
    guarded_file: Any = _GuardedFile(own_file or file, name_file(path))
    try:
        with explain_file_problems(path):
            archive = zipfile.ZipFile(guarded_file)
            guarded_file.is_listing = False
            check_limit("archive_members", len(archive.filelist), name_file(path))
    except BaseException:
        if own_file is not None:
            own_file.close()
        raise
    if own_file is not None:
        weakref.finalize(archive, own_file.close)
    return archive


def check_members(members: Iterable[zipfile.ZipInfo], path: Path | str, size: int) -> None:
    """Refuse members that come twice, and a zip of `size` bytes that is a bomb.

    Members may share their compressed bytes, so that each alone looks harmless.
    """
    member_list = list(members)
    for name, count in Counter(member.filename for member in member_list).items():
        if count > 1:
            raise FileError(
                name_file(path), f"holds {name!r} {count} times", "Pack it again, each file once"
            )
    total = sum(member.file_size for member in member_list)
    ratio = total // max(size, 1)
    if total > _SMALL_CONTENT and ratio > get_limit("compression_ratio"):
        raise exceed_limit("compression_ratio", f"{ratio:,}", name_file(path))


def check_member_name(name: str, path: Path | str) -> None:
    """Refuse a name in an archive that would lead outside of it on any system."""
    parts = name.split("/")
    if len(name) > _LONGEST_NAME or len(parts) > _DEEPEST:
        problem = f"has a member with a name of {len(name):,} characters in {len(parts):,} folders"
    elif name.startswith("/") or "\\" in name or ".." in parts or _DRIVE.match(name):
        problem = f"has a member {name!r}, whose name leads outside of the archive"
    else:
        return
    raise FileError(name_file(path), problem, "Pack it again, with paths from one folder")


def read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path | str, limit: str
) -> bytes:
    """The bytes of a member, as many as the archive says."""
    subject = f"{member.filename!r} in {name_file(path)}"
    if member.flag_bits & 1:
        raise FileError(subject, "is encrypted", "Pack it again, without a password")
    check_limit(limit, member.file_size, subject)
    check_expansion(member.file_size, member.compress_size, subject)
    try:
        with archive.open(member) as file:
            if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                content = file.read(member.file_size)
            else:
                content = b"".join(iter(lambda: file.read(_PIECE), b""))
    except Exception as error:  # damaged, encrypted, or compressed in an unknown way
        raise FileError(
            subject, f"cannot be read ({first_line(error)})", "Pack it again"
        ) from error
    if len(content) != member.file_size:
        raise FileError(
            subject,
            f"has {len(content):,} bytes, where the archive says {member.file_size:,}",
            "Pack it again",
        )
    return content


class _GuardedFile:
    """A file whose list of members is looked at before it is parsed.

    It is read in one piece as long as the file itself says, and each of its entries becomes an
    object of ten times its size.
    """

    def __init__(self, file: Any, subject: str) -> None:
        self._file, self._subject, self.is_listing = file, subject, True
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size <= _LARGE_LIST or not self.is_listing:
            content: bytes = self._file.read(size)
            return content
        check_limit("memory_bytes", size, self._subject)
        content = self._file.read(size)
        check_limit("archive_members", content.count(_ENTRY), self._subject)
        return content
