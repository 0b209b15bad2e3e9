"""Votes of the nearest samples, each sample's without itself and its group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uqled.features.neighbours import find_neighbours
from uqled.predict.committee.heads import CommitteeFold

_NEIGHBOURS = 20
_PRIOR = 1.0  # votes of the classes' frequencies, added to those of the neighbours


def vote_leave_one_out(
    X: NDArray[np.float32],
    labels: NDArray[np.integer],
    n_classes: int,
    groups: NDArray[np.integer] | None = None,
) -> NDArray[np.float64]:
    """[N,K] probabilities: samples that are nearer by cosine similarity have larger votes."""
    nearest, similarity = find_neighbours(X, _NEIGHBOURS, groups=groups)
    present = nearest >= 0
    # A neighbour half as far away as the last has the larger vote by a constant factor.
    spread = np.maximum(1 - similarity.min(axis=1, keepdims=True, where=present, initial=1), 1e-6)
    votes = np.where(present, np.exp(-2 * (1 - similarity) / spread), 0)
    counts = np.bincount(labels, minlength=n_classes)
    tallies = np.tile(_PRIOR * votes.mean() * counts / counts.sum(), (len(X), 1))
    rows = np.repeat(np.arange(len(X)), nearest.shape[1]).reshape(nearest.shape)
    np.add.at(tallies, (rows[present], labels[nearest[present]]), votes[present])
    probabilities: NDArray[np.float64] = tallies / tallies.sum(axis=1, keepdims=True)
    return probabilities


def predict_held_out(fold: CommitteeFold) -> NDArray[np.float64]:
    """[m,K] of the held-out samples: every other sample that is not of the same group votes."""
    votes: NDArray[np.float64] = fold.reuse(
        "neighbours",
        lambda: vote_leave_one_out(fold.features, fold.labels, fold.n_classes, fold.groups),
    )
    return votes[fold.test]
