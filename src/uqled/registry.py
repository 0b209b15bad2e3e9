"""Registries of named entries, to which other packages can add: one file in uqled or one entry
point elsewhere for each.

A registry names its own entries by the module that holds them, which is loaded when the entry is
first asked for. Another package adds an entry with an entry point of the registry's group:

    [project.entry-points."uqled.learners"]
    mine = "my_package.learner:make_learner"
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from uqled.errors import InputError, suggest_name

EntryType = TypeVar("EntryType")


@dataclass(frozen=True)
class Registry(Generic[EntryType]):
    """Entries by name: the package's own, then those of other packages."""

    group: str
    """The group of the entry points, such as `uqled.learners`."""
    own_entries: Mapping[str, str]
    """The package's own entries: `"package.module:attribute"` by name."""
    argument: str = "name"
    """The name of the user's argument, for errors."""
    _loaded_entries: dict[str, EntryType] = field(default_factory=dict, repr=False, compare=False)

    def names(self) -> list[str]:
        """Every name, our own first."""
        return [*self.own_entries, *self.list_additions()]

    def list_additions(self) -> list[str]:
        """The names that other packages add."""
        return sorted({point.name for point in self._entry_points()} - self.own_entries.keys())

    def load(self, name: str) -> EntryType:
        """The entry of this name; an unknown name is refused with the ones that exist."""
        if name not in self._loaded_entries:
            self._loaded_entries[name] = self._find(name)
        return self._loaded_entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own_entries or any(point.name == name for point in self._entry_points())

    def _find(self, name: str) -> EntryType:
        if name in self.own_entries:
            module, _, attribute = self.own_entries[name].partition(":")
            return cast(EntryType, getattr(import_module(module), attribute))
        for point in self._entry_points():
            if point.name == name:
                return cast(EntryType, self._load_entry_point(point))
        raise InputError(self.argument, f"is {name!r}", suggest_name(name, self.names()))

    def _load_entry_point(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except Exception as error:  # another package may raise anything on import
            raise InputError(
                self.argument,
                f"{point.name!r} is an entry point ({point.value}) that cannot be loaded: {error}",
                "Repair or remove the package that provides it",
            ) from error

    def _entry_points(self) -> tuple[EntryPoint, ...]:
        return _list_entry_points(self.group, _stamp_search_path(), entry_points)


@lru_cache(maxsize=64)
def _list_entry_points(group: str, _stamps: object, _reader: object) -> tuple[EntryPoint, ...]:
    """Reading the entry points of all installed packages takes a large part of a small detection's
    time, so they are read again only if a folder of packages has changed."""
    return tuple(entry_points(group=group))


def _stamp_search_path() -> tuple[tuple[str, int], ...]:
    """The folders that packages are imported from, and when each was last changed."""
    stamps = []
    for place in sys.path:
        with suppress(OSError):
            stamps.append((place, Path(place).stat().st_mtime_ns))
    return tuple(stamps)
