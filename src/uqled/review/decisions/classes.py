"""Classes that reviewers merged or renamed: decisions about all samples of a class at once.

The file keeps every change; the last one about a class holds. Taking one back is one more change.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.estimate import RELABEL, RELABEL_IN_BULK
from uqled.errors import InputError
from uqled.review.decisions.reading import has_decisions
from uqled.review.decisions.rows import (
    CLASS_ACTIONS,
    CLASS_COLUMNS,
    LONGEST_CLASS,
    ClassAction,
    ClassDecision,
    is_class_name,
    read_class_decision,
    refuse_row,
)
from uqled.review.decisions.store import Decisions, check_name
from uqled.storage.run import Predictions


def decide_class(
    decisions: Decisions,
    index: int,
    action: ClassAction | None,
    *,
    reviewer: str,
    target: int | None = None,
    name: str | None = None,
) -> dict[int, ClassDecision]:
    """Merge a class into `target`, give it the name `name`, or (None) leave it as it was.

    Returns the resulting state of all classes. A class that others were merged into cannot be
    merged itself, so that there are no cycles.
    """
    names, reviewer = decisions.about.classes, check_name(reviewer)
    _check_class(index, "class", len(names))
    if action is not None and action not in CLASS_ACTIONS:
        raise InputError("action", f"is {action!r:.40}", "Choose merge or rename")
    if action == "merge":
        _check_class(target, "target", len(names))
        if target == index:
            raise InputError("target", "is the class itself", "Choose another class")
    target, name = (target if action == "merge" else None), (name if action == "rename" else None)
    with decisions.write_transaction() as connection:
        current = read_class_decisions(decisions)
        targets = {one.target for one in current.values()}
        others = {i: one for i, one in current.items() if i != index}
        if action == "merge" and index in targets:
            raise InputError(
                "class", f"{names[index]!r} holds merged classes", "Take that back first"
            )
        if action == "merge" and target in others and others[target].action == "merge":
            raise InputError("target", f"{names[target]!r} is merged itself", "Choose another one")
        if action == "rename":
            _check_new_name(name, names, others)
        last = connection.execute("SELECT max(number) FROM class_changes").fetchone()[0]
        row = ((last or 0) + 1, index, action, target, name, reviewer, time.time())
        read_class_decision(row, decisions.path, decisions.about)
        connection.execute("INSERT INTO class_changes VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return read_class_decisions(decisions)


def read_class_decisions(decisions: Decisions) -> dict[int, ClassDecision]:
    """The current decision about every class that is merged or renamed."""
    current: dict[int, ClassDecision] = {}
    with decisions.read_transaction():
        query = f"SELECT {CLASS_COLUMNS} FROM class_changes ORDER BY number"
        for row in decisions.select(query):
            change = read_class_decision(row, decisions.path, decisions.about)
            current.pop(change.index, None)
            if change.action is not None:
                current[change.index] = change
    _check_together(decisions, current)
    return current


def _check_together(decisions: Decisions, current: Mapping[int, ClassDecision]) -> None:
    """Refuse decisions about classes that no reviewer can have made: a file may have been
    edited."""
    merged_classes = {index for index, one in current.items() if one.action == "merge"}
    names = set(decisions.about.classes)
    for one in current.values():
        if one.target in merged_classes:
            problem = f"merges class {one.index} into class {one.target}, which is merged itself"
            raise refuse_row(decisions.path, one.number, problem)
        if one.name in names:
            problem = f"gives class {one.index} the name of another class, {one.name!r:.100}"
            raise refuse_row(decisions.path, one.number, problem)
        if one.name is not None:
            names.add(one.name)


def read_run_classes(predictions: Predictions) -> dict[int, ClassDecision]:
    """The same of a run; no file is made where nobody reviewed."""
    if not has_decisions(predictions):
        return {}
    with Decisions.of(predictions) as decisions:
        return read_class_decisions(decisions)


def find_merged_flags(
    codes: NDArray[np.integer], suggested: NDArray[np.integer], targets: Mapping[int, int]
) -> NDArray[np.bool_]:
    """[N] samples whose given class [N] and suggested class [N] are different ones that were merged
    into one; `targets` says where each merged or renamed class goes."""
    merged = np.zeros(len(codes), np.bool_)
    if targets:
        after = np.arange(1 + max(int(codes.max()), int(suggested.max()), *targets))
        after[list(targets)] = list(targets.values())
        merged = (codes != suggested) & (after[codes] == after[suggested])
    return merged


def find_settled_samples(
    codes: NDArray[np.integer],
    suggested: NDArray[np.integer],
    actions: NDArray[np.integer],
    labels: NDArray[np.integer],
    targets: Mapping[int, int],
) -> NDArray[np.bool_]:
    """[N] samples whose label is right since classes were merged, without a verdict: undecided ones
    whose given and suggested class are now one, and those that were relabelled (`actions` [N],
    `labels` [N]) with what is now the same class."""
    is_relabelled = (actions == RELABEL) | (actions == RELABEL_IN_BULK)
    others = np.where(is_relabelled, labels, suggested)
    is_without_verdict: NDArray[np.bool_] = is_relabelled | (actions == 0)
    return find_merged_flags(codes, others, targets) & is_without_verdict


def _check_class(index: int | None, what: str, K: int) -> None:
    if type(index) is not int or not 0 <= index < K:
        raise InputError(what, f"is {index!r:.40}", f"Pass a class number below {K}")


def _check_new_name(name: str | None, names: object, others: Mapping[int, ClassDecision]) -> None:
    if not is_class_name(name):
        raise InputError(
            "name", f"is {name!r:.40}", f"Pass a name of 1 to {LONGEST_CLASS} characters"
        )
    if name in list(names) or name in {one.name for one in others.values()}:  # type: ignore[call-overload]
        raise InputError(
            "name", f"{name!r} is already the name of a class", "Merge the class into it instead"
        )
