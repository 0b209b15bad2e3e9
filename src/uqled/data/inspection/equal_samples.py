"""Sets of samples with the same key, and which of them have different labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.raw_dataset import make_object_array

Sets = NDArray[np.intp]


def number_keys(keys: Sequence[Hashable | None] | NDArray[Any]) -> Sets:
    """[N] the number of each sample's set of equal keys; -1 where the key is None.

    >>> number_keys(["a", None, "b", "a"]).tolist()
    [0, -1, 1, 0]
    """
    import pandas as pd

    if isinstance(keys, np.ndarray):
        return np.asarray(pd.factorize(keys)[0], np.intp)
    return np.asarray(pd.factorize(make_object_array(keys))[0], np.intp)


def count_members(sets: Sets) -> NDArray[np.intp]:
    """[N] the size of each sample's set; 0 for a sample without a set."""
    counts = np.bincount(sets[sets >= 0], minlength=1)
    return np.where(sets >= 0, counts[sets], 0)


def join_sets(sets: Sets, pairs: NDArray[np.integer] | None = None) -> Sets:
    """[N] the sets, joined where a pair [M,2] links them; other samples become sets of one.

    >>> join_sets(np.array([0, -1, 1, 0, -1]), np.array([[1, 2]])).tolist()
    [0, 1, 1, 0, 2]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    N = len(sets)
    members = np.flatnonzero(sets >= 0)
    _, first, number = np.unique(sets[members], return_index=True, return_inverse=True)
    left, right = members, members[first[number]]
    if pairs is not None:
        left, right = (np.concatenate(sides) for sides in zip((left, right), pairs.T, strict=True))
    graph = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(N, N))
    return np.asarray(connected_components(graph, directed=False)[1], np.intp)


def list_contradictions(sets: Sets, codes: NDArray[Any]) -> NDArray[np.intp]:
    """The samples whose set contains different class numbers [N].

    >>> list_contradictions(np.array([0, -1, 1, 0, 1]), np.array([2, 0, 1, 3, 1])).tolist()
    [0, 3]
    """
    rows = np.flatnonzero(count_members(sets) > 1)
    if not len(rows):
        return rows
    rows = rows[np.argsort(sets[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(sets[rows], prepend=-1))
    lowest = np.minimum.reduceat(codes[rows], starts)
    highest = np.maximum.reduceat(codes[rows], starts)
    lengths = np.diff(starts, append=len(rows))
    return np.sort(rows[np.repeat(lowest != highest, lengths)])
