"""The run folder, alone in reading and writing it. So far: the table of issues.

Everything is written under a temporary name and renamed, so that a killed process leaves either
the old file or the new one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from uqled.errors import FileError

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors

ISSUE_FORMATS = (".csv", ".parquet", ".json")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; it becomes `path` when the block succeeds."""
    _check_place(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    part = Path(name)
    try:
        part.chmod(0o666 & ~_umask())
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_issues_path(path: Path) -> None:
    """Refuse a table of issues that could not be written, before the work is done."""
    if path.suffix not in ISSUE_FORMATS:
        raise FileError(
            f"file {str(path)!r}",
            f"has the ending {path.suffix!r}",
            f"Use one of {', '.join(ISSUE_FORMATS)}",
        )
    _check_place(path)


def write_issues(errors: LabelErrors, path: Path) -> None:
    """Write one row per sample, as `.csv`, `.parquet` or `.json` (a list of records)."""
    frame = errors.to_frame()
    frame.insert(0, "index", frame.index)
    with replacing(path) as part:
        if path.suffix == ".csv":
            frame.to_csv(part, index=False)
        elif path.suffix == ".parquet":
            frame.to_parquet(part, index=False)
        else:
            frame.to_json(part, orient="records", indent=1)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise FileError(f"file {str(path)!r}", "is a folder", "Name a file in it")
    if not path.parent.is_dir():
        raise FileError(
            f"file {str(path)!r}", f"has no folder {str(path.parent)!r}", "Make the folder first"
        )
    if not os.access(path.parent, os.W_OK):
        raise FileError(
            f"file {str(path)!r}", "is in a folder that cannot be written", "Choose another folder"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
