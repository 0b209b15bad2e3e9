"""Turns names from the data into safe file names, whatever a class or an image is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_UNSAFE_CHARACTERS = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]')
#: Windows opens devices by these names, whatever the ending.
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10)}
_LONGEST = 120  # bytes of a name, endings and numbers not counted; file systems allow 255


def sanitize_name(name: str) -> str:
    """One component of a path that is safe on any system.

    No slashes, no characters that a system refuses, no leading dot (hidden, or the folder above),
    no trailing dot or space (Windows drops them).

    >>> sanitize_name("../../etc"), sanitize_name("a/b"), sanitize_name("..")
    ('_.._etc', 'a_b', 'unnamed')
    """
    base_name = _UNSAFE_CHARACTERS.sub("_", name).strip().lstrip(".").rstrip(". ")
    base_name = base_name.encode()[:_LONGEST].decode(errors="ignore").rstrip(". ") or "unnamed"
    return f"_{base_name}" if base_name.split(".")[0].casefold() in _DEVICES else base_name


def sanitize_file_name(name: str) -> str:
    """The same for a file name; the ending is kept.

    >>> sanitize_file_name("..png"), sanitize_file_name('a"b.JPG')
    ('unnamed.png', 'a_b.JPG')
    """
    stem, _, ending = name.rpartition(".")
    return f"{sanitize_name(stem)}.{sanitize_name(ending)}"


def number_repeats(names: Sequence[str]) -> list[str]:
    """The names, with a number appended to repeated ones.

    >>> number_repeats(["cat", "Cat", "cat"])
    ['cat', 'Cat', 'cat~2']
    """
    used_names: set[str] = set()
    return [pick_free_name(name, used_names, alike=str) for name in names]


def pick_free_name(
    name: str, used_names: set[str], *, alike: Callable[[str], str] = str.casefold
) -> str:
    """The name, with a number before its ending if another has it; then it counts as used.

    `alike` maps names that count as the same to one text: some file systems ignore case.
    """
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    number, free = 1, name
    while alike(free) in used_names:
        number += 1
        free = f"{stem}~{number}{dot}{ending}"
    used_names.add(alike(free))
    return free


def name_class_folders(names: Sequence[str]) -> list[str]:
    """A folder's name for each class, beside the record of the export.

    >>> name_class_folders(["cat", "Cat", "a/b"])
    ['cat', 'Cat~2', 'a_b']
    """
    used_names = {"changes.csv", "changes.json", "files.csv"}
    return [pick_free_name(sanitize_name(name), used_names) for name in names]
