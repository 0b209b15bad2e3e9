"""The rows of a file of decisions, each checked where it is read.

SQLite takes a text where a number belongs, and the file may be a stranger's or edited by hand: what
no reviewer can have written is refused, with the row's number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from uqled.errors import FileError
from uqled.storage.reading import name_file

Action = Literal["keep", "relabel", "drop"]
ACTIONS: tuple[Action, ...] = get_args(Action)

#: The columns of `changes` that `read_change` takes, in its order.
COLUMNS = "number, batch, sample, action, label, reviewer, at, version, undoes"
LONGEST_NAME = 80  # characters of a reviewer's name

_LARGEST = 2**53  # a browser knows whole numbers up to here
_YEAR_10000 = 253_402_300_800.0  # seconds since 1970
_FIX = "Restore it from a copy, or move it away to begin anew"


@dataclass(frozen=True)
class Decision:
    """What holds for a sample now."""

    index: int
    action: Action | None
    """None: undecided again. Only `decide` returns that; `current` leaves such samples out."""
    label: int | None
    """Class number, where the action is `relabel`."""
    reviewer: str
    at: float
    """Seconds since 1970."""
    version: int
    """How often the sample's decision has changed."""


@dataclass(frozen=True)
class Change(Decision):
    """One step of a sample's history."""

    number: int
    """Changes are numbered in the order in which they were written."""
    batch: int
    """Changes of one call have one batch: its first number."""
    undoes: int | None
    """The batch that this change took back."""


@dataclass(frozen=True)
class Description:
    """Whose decisions a file holds."""

    samples: int
    classes: Sequence[str]
    ids: str | None
    """A hash of the samples' names."""


def read_change(row: Sequence[Any], path: Path, about: Description) -> Change:
    """One row of `changes`, as `COLUMNS` lists it."""
    number, batch, sample, action, label, reviewer, at, version, undoes = row
    if type(number) is not int or not 0 < number < _LARGEST:
        problem = "that number"
    elif type(batch) is not int or not 0 < batch <= number:
        problem = f"batch {batch!r:.100}"
    elif type(sample) is not int or not 0 <= sample < about.samples:
        problem = f"sample {sample!r:.100}, of {about.samples}"
    elif action is not None and action not in ACTIONS:
        problem = f"action {action!r:.100}"
    elif (label is None) == (action == "relabel"):
        problem = f"label {label!r:.100} for action {action!r}"
    elif label is not None and (type(label) is not int or not 0 <= label < len(about.classes)):
        problem = f"label {label!r:.100}, of {len(about.classes)} classes"
    elif not is_reviewer_name(reviewer):
        problem = f"reviewer {reviewer!r:.100}"
    elif type(at) is not float or not 0 <= at < _YEAR_10000:
        problem = f"at {at!r:.100}"
    elif type(version) is not int or not 0 < version < _LARGEST:
        problem = f"version {version!r:.100}"
    elif undoes is not None and (type(undoes) is not int or not 0 < undoes < batch):
        problem = f"undoes {undoes!r:.100}"
    else:
        return Change(sample, action, label, reviewer, at, version, number, batch, undoes)
    raise refuse_row(path, number, f"has {problem}")


def read_description(rows: Iterable[tuple[Any, Any]], path: Path) -> Description:
    """The rows of `about`: (name, JSON) each."""
    values: dict[str, Any] = {}
    for key, text in rows:
        try:
            values[key] = json.loads(text) if isinstance(text, str) else text
        except (ValueError, RecursionError):
            values[key] = text
    samples, classes, ids = (values.get(key) for key in ("samples", "classes", "ids"))
    if missing := {"samples", "classes"} - set(values):
        problem = f"no {max(missing)}"
    elif unknown := set(values) - {"samples", "classes", "ids"}:
        problem = f"{min(unknown, key=str)!s:.100}, which is unknown"
    elif type(samples) is not int or not 0 <= samples < _LARGEST:
        problem = f"samples {samples!r:.100}"
    elif not isinstance(classes, list) or not classes or set(map(type, classes)) != {str}:
        problem = f"classes {classes!r:.100}"
    elif not isinstance(ids, str | None):
        problem = f"ids {ids!r:.100}"
    else:
        return Description(samples, classes, ids)
    raise FileError(name_file(path), f"cannot be used: its description has {problem}", _FIX)


def refuse_row(path: Path, number: Any, problem: str) -> FileError:
    """The error for a row of `changes`."""
    return FileError(
        name_file(path), f"was not written by uqled: change {number!r:.100} {problem}", _FIX
    )


def is_reviewer_name(name: Any) -> bool:
    """If a reviewer can be called so."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and name.strip() == name
    )
