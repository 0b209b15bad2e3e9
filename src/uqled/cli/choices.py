"""Options with a few possible values: listed in the help, completed by the shell, and checked.

Names of a registry are only completed: the room that looks them up refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from uqled.errors import InputError, suggest_name


class Choices:
    """In an option's annotation: the values that it may have."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self, option: Any) -> Any:
        """The option with the values in its help and in the shell's completion."""
        option = copy(option)
        option.metavar = f"[{'|'.join(self.names)}]"
        option.autocompletion = self._complete
        return option

    def check(self, flag: str, value: Any) -> None:
        """Refuse a value that is none of these."""
        if value is not None and value not in self.names:
            raise InputError(flag, f"is {value!r}", suggest_name(value, self.names))

    def _complete(self, incomplete: str) -> list[str]:
        return [name for name in self.names if name.startswith(incomplete)]


def complete_from(list_names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What the shell offers for an option whose value is one of these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in list_names() if name.startswith(incomplete)]

    return complete
