"""`FileTree`: the files of a folder, or of a zip of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.reading import explain_file_problems, first_line, name_folder, read_file
from uqled.storage.zip_files import check_member_name, check_members, open_zip, read_member


@dataclass(frozen=True)
class FileTree:
    """The files below a folder, without hidden files and those of operating systems."""

    place: Path
    read: Callable[[str, str], bytes]
    """Reads a file within the named limit, or raises a `FileError`."""
    files: tuple[str, ...]
    """Sorted paths relative to the root, with slashes."""
    folders: tuple[str, ...]
    """Sorted, including empty ones."""
    prefix: str = ""
    """Prepended to a file's name for `read`."""

    @cached_property
    def top_folders(self) -> list[str]:
        return [folder for folder in self.folders if "/" not in folder]

    @cached_property
    def top_files(self) -> list[str]:
        return [file for file in self.files if "/" not in file]

    def subtree(self, folder: str) -> FileTree:
        """The tree whose root is one of the folders."""
        start = f"{folder}/"
        return FileTree(
            self.place,
            self.read,
            tuple(file.removeprefix(start) for file in self.files if file.startswith(start)),
            tuple(one.removeprefix(start) for one in self.folders if one.startswith(start)),
            f"{self.prefix}{start}",
        )

    def has(self, file: str) -> bool:
        return file in self._names

    def read_image(self, file: str) -> bytes:
        """The bytes of an image."""
        return self.read(self.prefix + file, "image_bytes")

    def read_bytes(self, file: str) -> bytes:
        """The bytes of a text file."""
        return self.read(self.prefix + file, "json_bytes")

    def find_file(self, file: str) -> Path | None:
        """The local path of a file; None for a member of a zip."""
        return self.place / f"{self.prefix}{file}" if self.place.is_dir() else None

    def read_lines(self, file: str) -> list[str]:
        """The lines of a text file."""
        return self.read_bytes(file).decode("utf-8", "replace").splitlines()

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.files)


def list_folder(place: Path) -> FileTree:
    """The files of a folder, links followed."""
    files, folders = list[str](), list[str]()
    for start, below, names in walk_folder(place):
        files += [start + name for name in names if _is_content(name)]
        folders += [start + name for name in below]

    def read(name: str, limit: str) -> bytes:
        return read_file(f"{place}/{name}", limit)

    return FileTree(place, read, tuple(sorted(files)), tuple(sorted(folders)))


def list_folder_names(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    with explain_file_problems(folder, "Check your permissions"):
        return sorted(path.name for path in folder.iterdir())


def walk_folder(place: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (relative path, its folders, its files) of every folder that is not hidden.

    Links are followed; each folder is visited once.
    """
    visited_folders, count = set[str](), 0
    for parent, below, names in os.walk(place, onerror=_refuse_folder, followlinks=True):
        real_path = os.path.realpath(parent)
        if real_path in visited_folders:  # a link to a folder above
            below.clear()
            continue
        visited_folders.add(real_path)
        count += len(below) + len(names)
        check_limit("archive_members", count, name_folder(place))
        below[:] = [name for name in below if _is_content(name)]
        start = Path(parent).relative_to(place).as_posix()
        yield "" if start == "." else f"{start}/", below, names


def list_zip(place: Path) -> FileTree:
    """The files of a zip; a single folder that contains all of them is stripped."""
    archive = open_zip(place)
    for member in archive.filelist:
        check_member_name(member.filename, place)
    inside = [m for m in archive.filelist if all(map(_is_content, m.filename.split("/")[:-1]))]
    members = {m.filename: m for m in inside if _is_content(m.filename.rpartition("/")[2])}
    check_members([m for m in inside if m.filename in members], place, place.stat().st_size)
    folders = {m.filename.rstrip("/") for m in inside if m.filename.endswith("/")}
    for name in [*members, *folders]:
        parts = name.split("/")
        folders |= {"/".join(parts[:n]) for n in range(1, len(parts))}

    def read(name: str, limit: str) -> bytes:
        return read_member(archive, members[name], place, limit)

    tree = FileTree(place, read, tuple(sorted(members)), tuple(sorted(folders)))
    has_one_folder = len(tree.top_folders) == 1 and not tree.top_files
    return tree.subtree(tree.top_folders[0]) if has_one_folder else tree


def _refuse_folder(error: OSError) -> None:
    raise FileError(
        name_folder(error.filename),
        f"cannot be read ({first_line(error)})",
        "Check your permissions",
    ) from error


def _is_content(name: str) -> bool:
    return bool(name) and not name.startswith(".") and name not in ("__MACOSX", "Thumbs.db")
