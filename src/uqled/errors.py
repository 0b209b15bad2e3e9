"""Everything uqled raises on purpose.

    UqledError
    ├── ConflictError                    somebody decided in the meantime (uqled.review.decisions)
    └── InputError (also a ValueError)   an argument has a value that cannot be used
        ├── MissingInputError            the chosen method needs an input that was not given
        └── FileError                    a file cannot be opened, or holds something else
            ├── LimitError               it is larger than a limit (uqled.limits)
            └── BusyError                another process is working there

Each message names the argument, the value and the fix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from uqled.terminal import escape_message


class UqledError(Exception):
    """The root: catch this to catch everything uqled raises on purpose."""


class InputError(UqledError, ValueError):
    """An argument has a value that cannot be used."""

    def __init__(self, argument: str, problem: str, fix: str) -> None:
        # Values come from the data: escape codes in them must not control a terminal.
        super().__init__(escape_message(f"{argument} {problem}. {fix}"))
        self.argument = argument
        self.problem = problem
        self.fix = fix

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.argument, self.problem, self.fix)


class MissingInputError(InputError):
    """The chosen method needs an input that was not given."""


class FileError(InputError):
    """A file cannot be opened, or holds something other than what was asked for."""


class LimitError(FileError):
    """A file is larger than one of `uqled.limits` allows."""


class BusyError(FileError):
    """Another process is working in the same folder."""


def list_first(names: Sequence[object], n: int) -> str:
    """The first n names, and dots if there are more.

    >>> list_first(["cat", "dog", "eel"], 2)
    'cat, dog, ...'
    """
    return ", ".join(map(str, names[:n])) + (", ..." if len(names) > n else "")


def suggest_name(name: str, names: Iterable[str]) -> str:
    """The fix for a wrong name: the nearest one, if any is near, and all that there are.

    >>> suggest_name("forrest", ["forest", "logistic"])
    "Did you mean 'forest'? Choose one of forest, logistic"
    """
    known_names = list(names)
    matches = get_close_matches(name, known_names, n=1)
    guess = f"Did you mean {matches[0]!r}? " if matches else ""
    return f"{guess}Choose one of {', '.join(known_names)}"
