"""A folder, or a zip of one: names of files, and their bytes."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from uqled.data.found import unreadable


@dataclass(frozen=True)
class Tree:
    """Files below one place; hidden ones and those of operating systems left out."""

    place: Path
    read: Callable[[str], bytes]
    files: tuple[str, ...]
    """Sorted, with slashes, from the tree's root."""
    folders: tuple[str, ...]
    """Sorted; empty ones among them."""
    prefix: str = ""
    """What `read` wants before a file's name."""

    @cached_property
    def top_folders(self) -> list[str]:
        return [folder for folder in self.folders if "/" not in folder]

    @cached_property
    def top_files(self) -> list[str]:
        return [file for file in self.files if "/" not in file]

    def below(self, folder: str) -> Tree:
        """The tree whose root is one of the folders."""
        start = f"{folder}/"
        return Tree(
            self.place,
            self.read,
            tuple(file.removeprefix(start) for file in self.files if file.startswith(start)),
            tuple(one.removeprefix(start) for one in self.folders if one.startswith(start)),
            f"{self.prefix}{start}",
        )

    def has(self, file: str) -> bool:
        return file in self._known

    def bytes_of(self, file: str) -> bytes:
        return self.read(self.prefix + file)

    def lines_of(self, file: str) -> list[str]:
        return self.bytes_of(file).decode("utf-8", "replace").splitlines()

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.files)


def folder_tree(place: Path) -> Tree:
    """The files of a folder, links followed."""
    files, folders, seen = list[str](), list[str](), set[str]()
    for parent, below, names in os.walk(place, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:  # a link to a folder above
            below.clear()
            continue
        seen.add(real)
        below[:] = [name for name in below if _is_content(name)]
        start = Path(parent).relative_to(place).as_posix()
        start = "" if start == "." else f"{start}/"
        files += [start + name for name in names if _is_content(name)]
        folders += [start + name for name in below]

    def read(name: str) -> bytes:
        with open(f"{place}/{name}", "rb") as file:  # noqa: PTH123 - twice as fast as Path's
            return file.read()

    return Tree(place, read, tuple(sorted(files)), tuple(sorted(folders)))


def zip_tree(place: Path) -> Tree:
    """The files of a zip; a single folder around all of them is left out."""
    try:
        archive = zipfile.ZipFile(place)
    except (OSError, zipfile.BadZipFile) as error:
        raise unreadable(place, error) from error
    names = [name for name in archive.namelist() if all(map(_is_content, name.split("/")[:-1]))]
    files = sorted(name for name in names if _is_content(name.rpartition("/")[2]))
    folders = {name.rstrip("/") for name in names if name.endswith("/")}
    for name in [*files, *folders]:
        parts = name.split("/")
        folders |= {"/".join(parts[:n]) for n in range(1, len(parts))}

    def read(name: str) -> bytes:
        try:
            return archive.read(name)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
            raise OSError(str(error)) from error

    tree = Tree(place, read, tuple(files), tuple(sorted(folders)))
    alone = len(tree.top_folders) == 1 and not tree.top_files
    return tree.below(tree.top_folders[0]) if alone else tree


def _is_content(name: str) -> bool:
    return bool(name) and not name.startswith(".") and name not in ("__MACOSX", "Thumbs.db")
