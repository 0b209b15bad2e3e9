"""Why a sample was flagged, in words: a wrong label, two classes that fit, or an unsure model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled import uncertainty
from uqled.errors import InputError

Reason = Literal["contradicts a duplicate", "wrong label", "ambiguous", "model does not know"]

#: Ordered from "change it" to "look at it".
REASONS: tuple[Reason, ...] = get_args(Reason)
#: The reason that no model gives: it needs no probabilities.
CONTRADICTED = REASONS[0]

#: The model is certain if one class has the majority and at least this many times the probability
#: of any other. Three to one: a second class with less than 1/4 against 3/4 is no rival.
SURE_ODDS = 3.0
#: Two classes fit if together they have this much. Three equal classes leave two of them 2/3.
TWO_CLASSES = 0.75
#: Passes disagree if this share of the entropy is between them rather than within. Two camps that
#: are each four to one for opposite classes have 0.28 of it, three to one 0.19.
DISAGREEMENT = 0.25

_ROWS = 8_192  # rows per step, so that 100,000 suspects with 200 classes are not copied at once


def find_reasons(
    labels: NDArray[Any],
    pred_probs: NDArray[Any] | None,
    passes: NDArray[Any] | None,
    rows: NDArray[np.intp],
    *,
    contradicted_rows: Sequence[int] | NDArray[np.intp] = (),
) -> NDArray[np.object_]:
    """One Reason for each of the samples `rows`.

    `contradicted_rows`, which have a duplicate with another label, need no further reason.

    `labels` [N] are class numbers; `pred_probs` [N,K] and `passes` [F,N,K] may be memory-mapped,
    and only these rows are read. The probabilities are the mean of the passes, or the
    softmax where there are none:

    - "wrong label": they are sure of a class other than the label;
    - "ambiguous": two classes share nearly all of it, neither far ahead, and the passes agree;
    - "model does not know": anything else. The passes disagree, or more than two classes fit, or
      the label is the most probable class here and another source of probabilities flagged it.

    >>> probs = np.array([[0.9, 0.05, 0.05], [0.5, 0.45, 0.05], [0.4, 0.3, 0.3]])
    >>> find_reasons(np.array([1, 1, 1]), probs, None, np.arange(3)).tolist()
    ['wrong label', 'ambiguous', 'model does not know']
    """
    if pred_probs is None and passes is None:
        raise InputError(
            "pred_probs",
            "and passes are both missing",
            "Pass the probabilities of the detection",
        )
    reasons = np.empty(len(rows), np.object_)
    for start in range(0, len(rows), _ROWS):
        chunk = rows[start : start + _ROWS]
        stack = None if passes is None else np.asarray(passes[:, chunk])
        if stack is not None:
            probs = stack.mean(axis=0, dtype=np.float64)  # [F,n,K] -> [n,K]
        else:
            assert pred_probs is not None
            block = np.asarray(pred_probs[chunk])
            probs = np.array(block, np.promote_types(block.dtype, np.float32))
        reasons[start : start + len(chunk)] = _find_block_reasons(labels[chunk], probs, stack)
    reasons[np.isin(rows, contradicted_rows)] = CONTRADICTED
    return reasons


def _find_block_reasons(
    labels: NDArray[Any], probs: NDArray[Any], passes: NDArray[Any] | None
) -> NDArray[np.object_]:
    best, first, second = _find_top_two(probs)
    is_ahead = first >= SURE_ODDS * second
    agree = np.ones(len(probs), np.bool_)
    if passes is not None:
        information = uncertainty.mutual_information(passes)
        total = uncertainty.entropy(probs / probs.sum(axis=1, keepdims=True))
        agree = information < DISAGREEMENT * total + 1e-12  # no entropy: no disagreement
    is_wrong = is_ahead & (first >= 0.5) & (best != labels)
    two = ~is_ahead & (first + second >= TWO_CLASSES) & agree
    reasons = np.full(len(probs), "model does not know", np.object_)
    reasons[two] = "ambiguous"
    reasons[is_wrong] = "wrong label"
    return reasons


def _find_top_two(
    probs: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """[n] the most probable class, its probability and that of the next one.

    Two looks for the largest are many times quicker than partitioning rows of 1,000 classes, and
    they need no copy in double precision.
    """
    rows = np.arange(len(probs))
    best = probs.argmax(axis=1)
    first = probs[rows, best]
    probs[rows, best] = -1.0
    second = probs.max(axis=1)
    probs[rows, best] = first
    return best, first.astype(np.float64), second.astype(np.float64)


def explain_reason(
    reason: Reason,
    label: str,
    suggested: str,
    p_given: float,
    p_suggested: float,
    *,
    duplicate: str = "another sample",
    is_exact: bool = True,
) -> str:
    """The reason as one plain sentence, with the classes' names and probabilities.

    `duplicate` names the sample that has the same content, or nearly the same.

    >>> explain_reason("wrong label", "cat", "dog", 0.004, 0.97)
    'The model is sure of dog (97%); the given cat gets less than 1%.'
    """
    label_share, other_share = _format_share(p_given), _format_share(p_suggested)
    if reason == CONTRADICTED:
        same, surely = ("The same", "") if is_exact else ("Nearly the same", "most likely ")
        return (
            f"{same} as {duplicate}, which is labelled {suggested}: one of the two labels is "
            f"{surely}wrong. The model gives {suggested} {other_share} and the given {label} "
            f"{label_share}."
        )
    if label == suggested:
        return (
            f"The model leans to the given {label} ({label_share}), but not all its predictions do."
        )
    if reason == "wrong label":
        return (
            f"The model is sure of {suggested} ({other_share}); "
            f"the given {label} gets {label_share}."
        )
    if reason == "ambiguous" and p_suggested < SURE_ODDS * p_given:
        return (
            f"Two classes fit: {suggested} ({other_share}) and the given {label} ({label_share})."
        )
    if reason == "ambiguous":
        return (
            f"Two classes fit, {suggested} ({other_share}) and another, and neither is "
            f"the given {label} ({label_share})."
        )
    return (
        f"The model has no clear answer: {suggested} gets {other_share}, "
        f"the given {label} {label_share}."
    )


def _format_share(share: float) -> str:
    if 0 < share < 0.01:
        return "less than 1%"
    return "over 99%" if 0.99 < share < 1 else f"{share:.0%}"
