"""Where an export is written: nothing is overwritten without --overwrite, nothing is left half
written."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from uqled.errors import FileError
from uqled.export.record import name_record
from uqled.storage.atomic import (
    PREFIX,
    STALE_SECONDS,
    explain_disk_problems,
    flush_to_disk,
    flush_tree,
)
from uqled.storage.reading import explain_file_problems, name_file, name_folder

if sys.platform != "win32":  # on Windows, abandoned folders are recognised by their age
    import fcntl

_TEMPORARY_PREFIX = (
    f"{PREFIX}export-"  # prefix of folders that are being built, and of nothing else
)
_MAX_FLUSHES = 1_000  # files that are flushed one by one at the most


def check_file(out: Path, endings: tuple[str, ...], *, overwrite: bool) -> None:
    """Refuse a file that exists, or whose ending does not fit the format."""
    if out.suffix.lower() not in endings:
        raise FileError(
            name_file(out),
            f"has the ending {out.suffix!r}",
            f"Use {' or '.join(endings)} for this format",
        )
    if out.is_dir():
        raise FileError(name_file(out), "is a folder", "Name a file in it")
    for path in (out, *name_record(out)):
        if os.path.lexists(path) and not overwrite:
            raise FileError(name_file(path), "exists", "Choose another name, or pass --overwrite")
    _check_parent(out)


def check_folder(out: Path) -> None:
    """Refuse a folder that is not empty."""
    if os.path.lexists(out) and not out.is_dir():
        raise FileError(name_folder(out), "is a file", "Name a new or an empty folder")
    if out.is_dir() and (names := sorted(path.name for path in out.iterdir())):
        raise FileError(
            name_folder(out),
            f"already holds {names[0]!r}" + (" and more" if len(names) > 1 else ""),
            "Name a new or an empty folder",
        )
    _check_parent(out)


def check_outside(out: Path, source: dict[str, Any] | None) -> None:
    """Refuse to write into the data that the run was made of."""
    if source is None or not Path(source["place"]).is_absolute():  # a name: digits, hf:...
        return
    with explain_file_problems(source["place"], "Check where the run says its data is"):
        place, target = Path(source["place"]).resolve(), out.resolve()
        is_inside = target == place or (place.is_dir() and place in target.parents)
    if is_inside:
        raise FileError(
            f"place {str(out)!r}",
            f"is inside the data {str(place)!r}, which is never changed",
            "Choose a place outside it",
        )


@contextmanager
def build_folder(out: Path) -> Iterator[Path]:
    """Yield a hidden folder beside `out`; it becomes `out` when the block succeeds.

    It is locked meanwhile. The system drops the lock with the process, so that the next export
    knows which hidden folders are abandoned, and removes them.
    """
    check_folder(out)
    out = out.resolve()
    with explain_disk_problems(out):
        _remove_abandoned(out.parent)
        hidden_folder, lock = _create_hidden(out.parent)
        try:
            yield hidden_folder
            _flush(hidden_folder)
            if out.is_dir():
                out.rmdir()  # empty, or this fails and nothing is lost
            hidden_folder.rename(out)
            flush_to_disk(out.parent)
        finally:
            shutil.rmtree(hidden_folder, ignore_errors=True)
            if lock is not None:
                os.close(lock)


def _create_hidden(parent: Path) -> tuple[Path, int | None]:
    """A new folder, and a descriptor that holds its lock."""
    while True:
        hidden_folder = parent / f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            hidden_folder.mkdir()
        except FileExistsError:
            continue
        lock = _lock(hidden_folder)
        if hidden_folder.is_dir():  # nobody removed it as abandoned before it was locked
            return hidden_folder, lock
        if lock is not None:
            os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the hidden folders of killed exports, but not those that another process is
    building."""
    with suppress(OSError):
        for path in parent.glob(f"{_TEMPORARY_PREFIX}*"):
            if path.is_symlink() or not path.is_dir():
                continue
            if sys.platform == "win32":
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
            elif (lock := _lock(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """A descriptor that locks the folder; None if another process holds the lock, or locks are not
    supported."""
    if sys.platform == "win32":
        return None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None


def _flush(folder: Path) -> None:
    """Wait until all that was written survives a power loss."""
    if (
        sys.platform == "linux"
        and sum(len(names) for _, _, names in os.walk(folder)) > _MAX_FLUSHES
    ):
        os.sync()  # everything at once: fifty times as fast as file by file
    else:
        flush_tree(folder)


def _check_parent(out: Path) -> None:
    parent = out.resolve().parent
    if not parent.is_dir():
        raise FileError(
            f"place {str(out)!r}", f"has no folder {str(parent)!r}", "Make the folder first"
        )
    if not os.access(parent, os.W_OK):
        raise FileError(
            f"place {str(out)!r}", "is in a folder that cannot be written", "Choose another folder"
        )
