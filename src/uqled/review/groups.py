"""Groups similar suspects, to decide many at a glance: by (given, suggested) pair of classes, and
within a pair by similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.report.suspects import read_probabilities
from uqled.review.flag_list import FlagList
from uqled.storage.run import Predictions

Vectors = NDArray[np.float32]

#: The most samples in a group: as many as a person can take in on one contact sheet.
MAX_GROUP = 48
#: Pairs with fewer undecided flags are shown together with others of the same suggested class.
_MIN_GROUP = 4


@dataclass(frozen=True, eq=False)
class Group:
    """Undecided flags that may be decided together."""

    given: int | None
    """None: of several given classes."""
    suggested: int
    indices: NDArray[np.intp]
    """The likeliest first."""
    n_more: int
    """The number of further samples of the same kind."""
    errors: float | None
    """The estimated number of wrong labels among these."""


def list_groups(
    flags: FlagList,
    predictions: Predictions,
    limit: int,
    vectors: Vectors | None = None,
    *,
    start: int = 0,
) -> tuple[list[Group], int]:
    """(`limit` groups of undecided flags from place `start` on, how many there are in all).

    `vectors` [N,d] say which samples are alike; without them, the predicted probabilities do.

    Those come first in which one answer settles most errors.
    """
    queue = flags.list_undecided()
    if not len(queue):
        return [], 0
    K = predictions.labels.n_classes
    labels = predictions.labels.codes[queue].astype(np.int64)
    suggested = flags.current.suggested_codes[queue]
    _, inverse, numbers = np.unique(labels * K + suggested, return_inverse=True, return_counts=True)
    # Small pairs are joined by suggested class: the question is the same for all of them.
    keys = np.where(numbers[inverse] < _MIN_GROUP, -1 - suggested, inverse)
    rows = queue[np.argsort(keys, kind="stable")]
    _, lengths = np.unique(keys, return_counts=True)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    probability = flags.current.probability
    values = np.ones(len(rows)) if probability is None else probability[rows]
    is_shown = np.arange(len(rows)) - np.repeat(starts, lengths) < MAX_GROUP
    worth = np.add.reduceat(np.where(is_shown, values, 0.0), starts)
    best = np.argsort(-worth, kind="stable")[start : start + limit]
    groups = [
        _make_group(rows[starts[at] : ends[at]], flags, predictions, probability, vectors)
        for at in best.tolist()
    ]
    return groups, len(lengths)


def group_like(
    index: int, flags: FlagList, predictions: Predictions, vectors: Vectors | None = None
) -> Group:
    """The undecided flags most like a sample, itself first: of the same suggested class by their
    vectors; without vectors of the same pair of classes, by their probabilities."""
    suggested = flags.current.suggested_codes
    queue = flags.list_undecided()
    is_alike = suggested[queue] == suggested[index]
    if vectors is None:
        is_alike &= predictions.labels.codes[queue] == predictions.labels.codes[index]
    others = queue[is_alike & (queue != index)]
    together = np.concatenate([np.array([index], np.intp), others])
    coordinates = _get_coordinates(together, predictions, vectors)
    distance = ((coordinates - coordinates[0]) ** 2).sum(axis=1)
    members = together[np.argsort(distance, kind="stable")[:MAX_GROUP]]
    return _describe_group(together, members, flags, predictions, flags.current.probability)


def _make_group(
    indices: NDArray[np.intp],
    flags: FlagList,
    predictions: Predictions,
    probability: Any,
    vectors: Vectors | None,
) -> Group:
    members = _order_by_likeness(indices[:MAX_GROUP], predictions, vectors)
    return _describe_group(indices, members, flags, predictions, probability)


def _describe_group(
    indices: NDArray[np.intp],
    members: NDArray[np.intp],
    flags: FlagList,
    predictions: Predictions,
    probability: Any,
) -> Group:
    classes = set(predictions.labels.codes[indices].tolist())
    return Group(
        given=classes.pop() if len(classes) == 1 else None,
        suggested=int(flags.current.suggested_codes[indices[0]]),
        indices=members,
        n_more=len(indices) - len(members),
        errors=None if probability is None else float(probability[members].sum()),
    )


def _get_coordinates(
    indices: NDArray[np.intp], predictions: Predictions, vectors: Vectors | None
) -> NDArray[np.floating]:
    """[n,d] samples whose distance says how alike they are: their vectors, or the square roots of
    their probabilities (Hellinger distance)."""
    if vectors is not None:
        return np.asarray(vectors[indices])
    probs = read_probabilities(predictions.pred_probs, predictions.passes, indices)
    assert probs is not None  # a run has a softmax
    roots: NDArray[np.floating] = np.sqrt(probs)
    return roots


def _order_by_likeness(
    indices: NDArray[np.intp], predictions: Predictions, vectors: Vectors | None
) -> NDArray[np.intp]:
    """Order samples so that similar ones are adjacent: a walk from the most suspect one to the
    nearest next one."""
    coordinates = _get_coordinates(indices, predictions, vectors)
    is_left = np.ones(len(indices), np.bool_)
    order, at = [0], 0
    is_left[0] = False
    for _ in range(len(indices) - 1):
        distance = np.where(is_left, ((coordinates - coordinates[at]) ** 2).sum(axis=1), np.inf)
        at = int(distance.argmin())
        is_left[at] = False
        order.append(at)
    return indices[order]
