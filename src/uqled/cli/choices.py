"""Options with a few possible values: listed in the help, completed by the shell, and checked."""

from __future__ import annotations

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
        own = () if self._registry is None else self._registry.own
        option = copy(option)
        option.metavar = f"[{'|'.join((*self._names, *own))}]"
        option.autocompletion = self._complete
        return option

    def check(self, flag: str, value: Any) -> None:
        """Refuse a value that is none of these."""
        if value is not None and value not in self._list_names():
            raise InputError(flag, f"is {value!r}", suggest_name(value, self._list_names()))

    def _complete(self, incomplete: str) -> list[str]:
        return [name for name in self._list_names() if name.startswith(incomplete)]

    def _list_names(self) -> list[str]:
        return [*self._names, *(() if self._registry is None else self._registry.names())]
