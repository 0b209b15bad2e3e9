"""What a reader of one format is: it recognises a source and reads its samples.

`uqled.data.readers` lists them; another package adds one with an entry point of the group
`uqled.readers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from uqled.data.dataset import Kind
from uqled.data.file_tree import FileTree, list_folder, list_zip
from uqled.data.raw_dataset import RawDataset, is_dataset_name
from uqled.data.tables.columns import Role
from uqled.storage.compression import find_table_name


@dataclass(frozen=True)
class ReadRequest:
    """What the user said of the data; the fields are arguments of `load`."""

    label: str | None = None
    inputs: str | Sequence[str] | None = None
    kind: Kind | None = None
    split: str | None = None
    columns: Mapping[str, Role] = field(default_factory=dict)
    encoding: str | None = None
    separator: str | None = None
    group: str | None = None
    sheet: str | None = None
    header: str | None = None
    """`yes` or `no`: whether the first line names the columns; None: as the file shows."""
    spellings: str | None = None
    """`merge` where other spellings of a class are read as that class."""


class Source:
    """What the user named: a data set's name, a file or a folder."""

    def __init__(self, place: Path | str) -> None:
        self.place = place

    @property
    def is_named(self) -> bool:
        """Whether it is no file or folder, but a data set's name."""
        return is_dataset_name(self.place)

    @cached_property
    def path(self) -> Path:
        return Path(self.place).expanduser()

    @cached_property
    def is_folder(self) -> bool:
        return not self.is_named and self.path.is_dir()

    @cached_property
    def is_tree(self) -> bool:
        """Whether it is a folder, or a zip of one."""
        return self.is_folder or (
            not self.is_named and self.path.suffix.lower() == ".zip" and not self.table_name
        )

    @cached_property
    def table_name(self) -> str:
        """The file's name in lower case, without the ending of its compression; else empty."""
        return "" if self.is_named or self.is_folder else find_table_name(self.path)

    @cached_property
    def tree(self) -> FileTree:
        """The files of a folder or zip."""
        return list_folder(self.path) if self.is_folder else list_zip(self.path)


@dataclass(frozen=True)
class Reader:
    """One format."""

    summary: str
    """What the user can name, as an error lists it: "a .csv"."""
    matches: Callable[[Source], bool]
    read: Callable[[Source, ReadRequest], RawDataset]
    has_columns: bool = False
    """Whether `label` and `inputs` name columns or arrays of it."""
    has_splits: bool = False
    """Whether `split` chooses a part of it."""
    has_sheets: bool = False
    """Whether `sheet` chooses a part of it."""
    read_arrow: Callable[[Source, ReadRequest], Any] | None = None
    """Of a table: all its rows and columns as an Arrow table, which exports write again."""
