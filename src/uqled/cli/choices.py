"""Options with a few possible values: listed in the help, completed by the shell, and checked."""

from __future__ import annotations

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
