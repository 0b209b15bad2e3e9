"""Options with a few possible values: listed in the help, completed by the shell, and checked.

Names of a registry are only completed: the room that looks them up refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from uqled.errors import InputError, suggest_name
from uqled.registry import Registry


class Choices:
    """In an option's annotation: the values that it may have, and those that a registry adds.

    The help lists uqled's own; what other packages add is accepted and completed too.
    """

    def __init__(self, *names: str, registry: Registry[Any] | None = None) -> None:
        self._names = names
        self._registry = registry

    def describe(self, option: Any) -> Any:
        """The option with the values in its help and in the shell's completion."""
        own_names = () if self._registry is None else self._registry.own_entries
        option = copy(option)
        option.metavar = f"[{'|'.join((*self._names, *own_names))}]"
        option.autocompletion = complete_from(self._list_names)
        return option

    def check(self, flag: str, value: Any) -> None:
        """Refuse a value that is none of these."""
        if value is not None and value not in self._list_names():
            raise InputError(flag, f"is {value!r}", suggest_name(value, self._list_names()))

    def _list_names(self) -> list[str]:
        return [*self._names, *(() if self._registry is None else self._registry.names())]


def complete_from(list_names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What the shell offers for an option whose value is one of these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in list_names() if name.startswith(incomplete)]

    return complete
