"""A page per class: how many of its labels are wrong, which classes it is confused with, typical
and odd samples, and the decision about the class itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from uqled.review.decisions.classes import read_class_decisions
from uqled.review.flag_list import FlagList
from uqled.review.session import ReviewSession

_MAX_CONFUSED = 8  # classes on each side
_SAMPLES = 12  # typical ones, and as many odd ones


def list_classes(session: ReviewSession, flags: FlagList) -> list[dict[str, Any]]:
    """Each class: how many labels it has, how many are flagged and how many are wrong, estimated;
    the class with most wrong labels first."""
    session.update()
    current, labels = flags.current, session.predictions.labels
    n_labels, n_flags = current.labels_by_class, current.flags_by_class
    probability = current.probability
    n_wrong = (
        None if probability is None else np.bincount(labels.codes, probability, labels.n_classes)
    )
    decisions = read_class_decisions(session.decisions)
    order = np.argsort(-(n_flags if n_wrong is None else n_wrong), kind="stable").tolist()
    return [
        {
            "index": k,
            "given": int(n_labels[k]),
            "flagged": int(n_flags[k]),
            "wrong": None if n_wrong is None else float(n_wrong[k]),
            "decision": describe_class_decision(decisions.get(k)),
        }
        for k in order
    ]


def describe_class(session: ReviewSession, flags: FlagList, k: int) -> dict[str, Any]:
    """One class in full."""
    session.update()
    current, labels = flags.current, session.predictions.labels
    members = labels.codes == k
    typical = session.similar.list_typical(k, _SAMPLES)
    indices = np.flatnonzero(members)
    oddest = indices[np.argsort(current.scores[indices], kind="stable")[:_SAMPLES]]
    rate = None if current.estimate is None else current.estimate.precision(members)
    return {
        "index": k,
        "given": len(indices),
        "flagged": int(current.flags_by_class[k]),
        "rate": None if rate is None or not len(indices) else vars(rate),
        "taken_for": [[j, n] for i, j, n in current.ranked_pairs if i == k][:_MAX_CONFUSED],
        "taken_from": [[i, n] for i, j, n in current.ranked_pairs if j == k][:_MAX_CONFUSED],
        "typical": session.evidence.describe(typical, flags),
        "oddest": _describe_oddest(session, flags, k, oddest.tolist()),
        "decision": describe_class_decision(read_class_decisions(session.decisions).get(k)),
    }


def _describe_oddest(
    session: ReviewSession, flags: FlagList, k: int, indices: list[int]
) -> list[dict[str, Any]]:
    """Of a table's rows, the columns that are unusual for the class come first."""
    rows = []
    for i in indices:
        suggested = int(flags.current.suggested_codes[i])
        unusual_columns = session.evidence.list_unusual_columns(i, k, suggested)
        telling = [name for name, *_ in unusual_columns]
        (row,) = session.evidence.describe([i], flags, leading_columns=telling)
        rows.append(row | {"telling": telling})
    return rows


def describe_class_decision(decision: Any) -> dict[str, Any] | None:
    """The decision about a class, as the page gets it."""
    if decision is None:
        return None
    names = ("action", "target", "name", "reviewer", "at")
    return {name: getattr(decision, name) for name in names}
