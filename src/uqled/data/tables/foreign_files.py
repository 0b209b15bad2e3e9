"""Recognises a file that was mistaken for a table of text, by its first bytes."""

from __future__ import annotations

from pathlib import Path

from uqled.errors import FileError
from uqled.storage.reading import name_file

#: First bytes -> (what the file is, what to do); {name} is the file's name.
_BINARY = {
    b"\x1f\x8b": ("is compressed (gzip)", "Call it {name}.gz"),
    b"\x28\xb5\x2f\xfd": ("is compressed (Zstandard)", "Call it {name}.zst"),
    b"BZh": ("is compressed (bzip2)", "Call it {name}.bz2"),
    b"\xfd7zXZ": ("is compressed (xz)", "Call it {name}.xz"),
    b"PK\x03\x04": ("is a zip, as Excel files are", "Give it its ending: .xlsx or .zip"),
    b"PAR1": ("is a Parquet file", "Give it its ending: .parquet"),
    b"ARROW1": ("is an Arrow file", "Give it its ending: .arrow"),
    b"\xd0\xcf\x11\xe0": ("is an old Excel file", "Save it as .xlsx or .csv"),
    b"SQLite format 3": ("is an SQLite database", "Export the table as .csv"),
    b"%PDF": ("is a PDF", "Name the table that it was made from"),
    b"\x89PNG": ("is an image", "Name a table, or a folder of images"),
    b"\xff\xd8\xff": ("is an image", "Name a table, or a folder of images"),
}
_TEXT = {
    b"<!doctype html": ("is a web page", "Download the file itself, perhaps after logging in"),
    b"<html": ("is a web page", "Download the file itself, perhaps after logging in"),
    b"version https://git-lfs": ("is a pointer of Git LFS", "Fetch the file: git lfs pull"),
    b'[{"': ("is JSON", "Give it its ending: .json"),
    b'{"': ("is JSON", "Give it its ending: .jsonl or .json"),
    b"sep=": ("begins with 'sep=', a hint for Excel", "Remove the first line"),
}


def refuse_foreign_file(path: Path | str, start: bytes) -> None:
    """Refuse a file that is no table of text, by its first bytes."""
    head = start[:1000].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    description = next((about for mark, about in _BINARY.items() if start.startswith(mark)), None)
    description = description or next(
        (about for mark, about in _TEXT.items() if head.startswith(mark)), None
    )
    if description is not None:
        raise FileError(
            name_file(path), description[0], description[1].format(name=Path(path).name)
        )
