"""The rows of a file of decisions, each checked where it is read.

SQLite takes a text where a number belongs, and the file may be a stranger's or edited by hand: what
no reviewer can have written is refused, with the row's number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.estimate import RELABEL, RELABEL_IN_BULK
from uqled.errors import FileError
from uqled.limits import MAX_COUNT
from uqled.storage.reading import name_file, parse_json

Action = Literal["keep", "relabel", "drop"]
ACTIONS: tuple[Action, ...] = get_args(Action)

ClassAction = Literal["merge", "rename"]
CLASS_ACTIONS: tuple[ClassAction, ...] = get_args(ClassAction)

#: The columns of `class_changes` and `opinions`, as they are read.
CLASS_COLUMNS = "number, class, action, target, name, reviewer, at"
OPINION_COLUMNS = "number, sample, action, label, reviewer, at"
LONGEST_CLASS = 200  # characters of a class's new name

#: The columns of `changes` that `read_change` takes, in its order.
CHANGE_COLUMNS = "number, batch, sample, action, label, reviewer, at, version, undoes"
LONGEST_NAME = 80  # characters of a reviewer's name

_YEAR_10000 = 253_402_300_800.0  # seconds since 1970
_FIX = "Restore it from a copy, or move it away to begin again"


@dataclass(frozen=True)
class Decision:
    """The current decision about a sample."""

    index: int
    action: Action | None
    """None if it is undecided again; only `decide` returns that, `current` leaves such samples
    out."""
    label: int | None
    """The class number, if the action is `relabel`."""
    reviewer: str
    at: float
    """Seconds since 1970."""
    version: int
    """The number of times that the sample's decision has changed."""


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
class ClassDecision:
    """A class that was merged into another one or renamed."""

    number: int
    """Changes are numbered in the order in which they were written."""
    index: int
    """The class."""
    action: ClassAction | None
    """None: as it was."""
    target: int | None
    """The class that gets its samples, if it is merged."""
    name: str | None
    """Its new name, if it is renamed."""
    reviewer: str
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Opinion:
    """A second reviewer's opinion on a sample; it decides nothing."""

    number: int
    index: int
    action: Action | None
    """None: taken back."""
    label: int | None
    reviewer: str
    at: float


@dataclass(frozen=True)
class Description:
    """Whose decisions a file holds."""

    samples: int
    classes: Sequence[str]
    ids: str | None
    """A hash of the samples' names."""


def read_change(row: Sequence[Any], path: Path, about: Description) -> Change:
    """One row of `changes`, as `CHANGE_COLUMNS` lists it."""
    number, batch, sample, action, label, reviewer, at, version, undoes = row
    problem: str | None = None
    if type(number) is not int or not 0 < number < MAX_COUNT:
        problem = "that number"
    elif type(batch) is not int or not 0 < batch <= number:
        problem = f"batch {batch!r:.100}"
    problem = problem or _find_verdict_problem(sample, action, label, about)
    problem = problem or _find_author_problem(reviewer, at)
    if problem is None:
        if type(version) is not int or not 0 < version < MAX_COUNT:
            problem = f"version {version!r:.100}"
        elif undoes is not None and (type(undoes) is not int or not 0 < undoes < batch):
            problem = f"undoes {undoes!r:.100}"
        else:
            return Change(sample, action, label, reviewer, at, version, number, batch, undoes)
    raise refuse_row(path, number, f"has {problem}")


def read_class_decision(row: Sequence[Any], path: Path, about: Description) -> ClassDecision:
    """One row of `class_changes`, as `CLASS_COLUMNS` lists it."""
    number, index, action, target, name, reviewer, at = row
    K = len(about.classes)
    problem: str | None
    if type(number) is not int or not 0 < number < MAX_COUNT:
        problem = "that number"
    elif type(index) is not int or not 0 <= index < K:
        problem = f"class {index!r:.100}, of {K} classes"
    elif action is not None and action not in CLASS_ACTIONS:
        problem = f"action {action!r:.100}"
    elif (target is None) == (action == "merge"):
        problem = f"target {target!r:.100} for action {action!r}"
    elif target is not None and (type(target) is not int or not 0 <= target < K or target == index):
        problem = f"target {target!r:.100}, of {K} classes"
    elif (name is None) == (action == "rename") or (name is not None and not is_class_name(name)):
        problem = f"name {name!r:.100} for action {action!r}"
    else:
        problem = _find_author_problem(reviewer, at)
    if problem is None:
        return ClassDecision(number, index, action, target, name, reviewer, at)
    raise refuse_row(path, number, f"of a class has {problem}")


def read_opinion(row: Sequence[Any], path: Path, about: Description) -> Opinion:
    """One row of `opinions`, as `OPINION_COLUMNS` lists it."""
    number, sample, action, label, reviewer, at = row
    if type(number) is not int or not 0 < number < MAX_COUNT:
        problem: str | None = "that number"
    else:
        problem = _find_verdict_problem(sample, action, label, about)
        problem = problem or _find_author_problem(reviewer, at)
    if problem is None:
        return Opinion(number, sample, action, label, reviewer, at)
    raise refuse_row(path, number, f"of an opinion has {problem}")


def _find_verdict_problem(sample: Any, action: Any, label: Any, about: Description) -> str | None:
    """The problem of a decision that no reviewer can have made; None if it is possible."""
    K = len(about.classes)
    if type(sample) is not int or not 0 <= sample < about.samples:
        return f"sample {sample!r:.100}, of {about.samples}"
    if action is not None and action not in ACTIONS:
        return f"action {action!r:.100}"
    if (label is None) == (action == "relabel"):
        return f"label {label!r:.100} for action {action!r}"
    if label is not None and (type(label) is not int or not 0 <= label < K):
        return f"label {label!r:.100}, of {K} classes"
    return None


def _find_author_problem(reviewer: Any, at: Any) -> str | None:
    """The problem with a reviewer's name or a time; None if there is none."""
    if not is_reviewer_name(reviewer):
        return f"reviewer {reviewer!r:.100}"
    if type(at) is not float or not 0 <= at < _YEAR_10000:
        return f"at {at!r:.100}"
    return None


def read_description(rows: Iterable[tuple[Any, Any]], path: Path) -> Description:
    """The rows of `about`: (name, JSON) each."""
    values: dict[str, Any] = {}
    for key, text in rows:
        try:
            values[key] = parse_json(text) if isinstance(text, str) else text
        except (ValueError, RecursionError):
            values[key] = text
    samples, classes, ids = (values.get(key) for key in ("samples", "classes", "ids"))
    if missing := {"samples", "classes"} - set(values):
        problem = f"no {max(missing)}"
    elif unknown := set(values) - {"samples", "classes", "ids"}:
        problem = f"{min(unknown, key=str)!s:.100}, which is unknown"
    elif type(samples) is not int or not 0 <= samples < MAX_COUNT:
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
    """Whether this can be the name of a reviewer."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and name.strip() == name
    )


def is_class_name(name: Any) -> bool:
    """Whether this can be the name of a class."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= LONGEST_CLASS
        and name.isprintable()
        and name.strip() == name
    )


def hash_ids(ids: Sequence[str]) -> str:
    """A hash of the samples' names: another run's samples have another one."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ids:
        data = name.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def mark_bulk_accepts(actions: NDArray[np.int8], in_bulk: NDArray[np.bool_]) -> NDArray[np.int8]:
    """[N] the actions, in which a relabel that is `in_bulk` [N] is one without a look."""
    is_bulk_relabel = in_bulk & (actions == RELABEL)
    marked: NDArray[np.int8] = np.where(is_bulk_relabel, RELABEL_IN_BULK, actions).astype(np.int8)
    return marked
