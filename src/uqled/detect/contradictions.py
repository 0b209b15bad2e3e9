"""Duplicates with different labels: in each set of them a label is wrong, whatever a model says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ContradictedLabels:
    """The samples whose duplicates have another label, which more of them have."""

    rows: NDArray[np.intp]
    """[n] their indices, the most suspect first."""
    leading: NDArray[np.int32]
    """[n] the class number that most of their duplicates have."""
    duplicates: NDArray[np.intp]
    """[n] the first duplicate that has this label, an exact one where there is one."""
    is_exact: NDArray[np.bool_]
    """[n] whether that duplicate has the same content, and not only nearly the same."""


def find_contradicted_labels(
    sets: NDArray[Any],
    codes: NDArray[Any],
    scores: NDArray[np.float64],
    contents: NDArray[Any] | None = None,
) -> ContradictedLabels:
    """In each set of duplicates, the samples whose label is not the leading one.

    `sets` [N] number the sets, -1 for a sample in none. The label of most members leads; among
    equals the one whose members have the highest mean score [N], then the lower class number.
    `contents` [N] are equal for exactly the same content; without them all members of a set are.
    Samples with an exact duplicate of the leading label come first.

    >>> sets, codes = np.array([0, -1, 0, 0]), np.array([1, 1, 2, 1])
    >>> contradicted = find_contradicted_labels(sets, codes, np.array([0.1, 0.5, 0.9, 0.2]))
    >>> contradicted.rows.tolist(), contradicted.leading.tolist(), contradicted.duplicates.tolist()
    ([2], [1], [0])
    """
    contradictions: list[tuple[bool, float, int, int, int]] = []
    members = np.flatnonzero(sets >= 0)
    members = members[np.argsort(sets[members], kind="stable")]
    starts = np.flatnonzero(np.diff(sets[members], prepend=-1))
    for rows in np.split(members, starts[1:]) if len(members) else ():
        classes, counts = np.unique(codes[rows], return_counts=True)
        means = [float(scores[rows[codes[rows] == k]].mean()) for k in classes]
        leading = int(classes[np.lexsort((classes, -np.array(means), -counts))[0]])
        leaders = rows[codes[rows] == leading]
        for z in rows[codes[rows] != leading].tolist():
            exact = leaders if contents is None else leaders[contents[leaders] == contents[z]]
            first = int(exact[0] if len(exact) else leaders[0])
            contradictions.append((not len(exact), float(scores[z]), z, leading, first))
    contradictions.sort()
    is_near, _, minority, classes_of_most, duplicates = (
        zip(*contradictions, strict=True) if contradictions else [()] * 5
    )
    return ContradictedLabels(
        np.array(minority, np.intp),
        np.array(classes_of_most, np.int32),
        np.array(duplicates, np.intp),
        ~np.array(is_near, np.bool_),
    )
