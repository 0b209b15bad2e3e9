"""A page per class: how many of its labels are wrong, whom it is confused with, what is typical of
it and what is odd, and what was decided about the class itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate
from uqled.review.decisions.classes import read_class_decisions
from uqled.review.flag_list import FlagList
from uqled.review.session import ReviewSession

_CONFUSED = 8  # classes
_SAMPLES = 12  # typical ones, and odd ones


def list_classes(session: ReviewSession, flags: FlagList) -> list[dict[str, Any]]:
    """Each class: its samples, flags and wrong labels, by the estimate; most wrong labels first."""
    session.update()
    codes, K = session.predictions.labels.codes, session.predictions.labels.n_classes
    given = np.bincount(codes, minlength=K)
    flagged = np.bincount(codes[flags.current.mask], minlength=K)
    probability = flags.current.probability
    wrong = None if probability is None else np.bincount(codes, probability, minlength=K)
    decided = read_class_decisions(session.decisions)
    order = np.argsort(-(flagged if wrong is None else wrong), kind="stable").tolist()
    return [
        {
            "index": k,
            "given": int(given[k]),
            "flagged": int(flagged[k]),
            "wrong": None if wrong is None else float(wrong[k]),
            "decision": describe_class_decision(decided.get(k)),
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
    error = None if current.estimate is None else current.estimate.precision(members)
    return {
        "index": k,
        "given": len(indices),
        "flagged": int(np.count_nonzero(current.mask & members)),
        "rate": None if error is None or not len(indices) else _to_json(error),
        "taken_for": _count_confused(current.mask & members, current.suggested_codes),
        "taken_from": _count_confused(current.mask & (current.suggested_codes == k), labels.codes),
        "typical": session.evidence.describe(typical, flags),
        "oddest": session.evidence.describe(oddest.tolist(), flags),
        "decision": describe_class_decision(read_class_decisions(session.decisions).get(k)),
    }


def describe_class_decision(decision: Any) -> dict[str, Any] | None:
    """What was decided about a class, as the page gets it."""
    if decision is None:
        return None
    names = ("action", "target", "name", "reviewer", "at")
    return {name: getattr(decision, name) for name in names}


def _count_confused(mask: NDArray[np.bool_], classes: NDArray[Any]) -> list[list[int]]:
    """[[class, number of flags], ...], the most frequent first."""
    found, numbers = np.unique(classes[mask], return_counts=True)
    most = np.argsort(-numbers, kind="stable")[:_CONFUSED]
    return [[int(found[at]), int(numbers[at])] for at in most]


def _to_json(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
