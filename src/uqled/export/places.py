"""Where an export goes: nothing is overwritten unasked, and nothing is half there."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uqled.errors import FileError
from uqled.export.record import record_paths

_STALE_SECONDS = 86_400  # after which an unfinished folder is a killed process's


def check_file(out: Path, endings: tuple[str, ...], *, overwrite: bool) -> None:
    """Refuse a file that is there, or whose ending says something else."""
    if out.suffix.lower() not in endings:
        raise FileError(
            f"file {str(out)!r}",
            f"has the ending {out.suffix!r}",
            f"Use {' or '.join(endings)} for this format",
        )
    if out.is_dir():
        raise FileError(f"file {str(out)!r}", "is a folder", "Name a file in it")
    for there in (out, *record_paths(out)):
        if os.path.lexists(there) and not overwrite:
            raise FileError(
                f"file {str(there)!r}", "exists", "Choose another name, or pass --overwrite"
            )
    _check_parent(out)


def check_folder(out: Path) -> None:
    """Refuse a folder that holds something."""
    if os.path.lexists(out) and not out.is_dir():
        raise FileError(f"folder {str(out)!r}", "is a file", "Name a new or an empty folder")
    if out.is_dir() and (there := sorted(path.name for path in out.iterdir())):
        raise FileError(
            f"folder {str(out)!r}",
            f"already holds {there[0]!r}" + (" and more" if len(there) > 1 else ""),
            "Name a new or an empty folder",
        )
    _check_parent(out)


def check_outside(out: Path, source: dict[str, Any] | None) -> None:
    """Refuse to write into the data that the run was made of."""
    if source is None or not Path(source["place"]).is_absolute():  # a name: digits, hf:...
        return
    place, target = Path(source["place"]).resolve(), out.resolve()
    if target == place or (place.is_dir() and place in target.parents):
        raise FileError(
            f"place {str(out)!r}",
            f"lies in the data {str(place)!r}, which stay as they are",
            "Choose a place outside of them",
        )


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """Yield a hidden folder beside `out`; it becomes `out` when the block succeeds."""
    check_folder(out)
    out = out.resolve()
    _remove_stale(out)
    hidden = Path(tempfile.mkdtemp(prefix=f".{out.name}-", suffix=".part", dir=out.parent))
    try:
        yield hidden
        hidden.chmod(0o777 & ~_umask())
        if out.is_dir():
            out.rmdir()  # empty, or this fails and nothing is lost
        hidden.rename(out)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _remove_stale(out: Path) -> None:
    """Remove what a killed export to the same place left behind long ago."""
    for path in out.parent.glob(f".{_escaped(out.name)}-*.part"):
        if path.is_dir() and time.time() - path.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
