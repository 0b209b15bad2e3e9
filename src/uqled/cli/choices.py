"""Options with a few possible values: listed in the help, completed by the shell, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any

from uqled.errors import InputError


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


def suggest_name(name: str, names: Sequence[str]) -> str:
    """The fix for a wrong name: the one that is nearest, if any is near, and all of them.

    >>> suggest_name("forrest", ["forest", "logistic"])
    "Did you mean 'forest'? Choose one of forest, logistic"
    """
    near = get_close_matches(name, names, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return f"{guess}Choose one of {', '.join(names)}"
