"""The confident joint: how many samples were given one class and belong to another.

Counts are kept per pair (given, true), sparse, because with thousands of classes few pairs occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled.detect.core import kernels
from uqled.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Up to so many classes a joint is a plain array; above, scipy.sparse.
DENSE_CLASSES = 2_000

#: Guesses that are kept until they are counted.
_WAITING = 2**17

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PairCounts:
    """Counts of the pairs that occur, in the order of (given, true)."""

    n_classes: int
    given: Ints
    true: Ints
    counts: Ints

    @classmethod
    def of_matrix(cls, matrix: NDArray[Any]) -> PairCounts:
        given, true = np.nonzero(matrix)
        return cls(len(matrix), given, true, matrix[given, true].astype(np.int64))

    def matrix(self) -> Ints | csr_array[Any, tuple[int, int]]:
        """[K,K] given x true; scipy.sparse above `DENSE_CLASSES` classes."""
        shape = self.n_classes, self.n_classes
        if self.n_classes > DENSE_CLASSES:
            from scipy.sparse import csr_array

            return csr_array((self.counts, (self.given, self.true)), shape=shape)
        dense = np.zeros(shape, np.int64)
        dense[self.given, self.true] = self.counts
        return dense

    @property
    def keys(self) -> Ints:
        """One number per pair, rising."""
        return self.given * self.n_classes + self.true

    def merged(self, other: PairCounts) -> PairCounts:
        """With counts of other samples."""
        keys, at = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        return PairCounts(self.n_classes, *np.divmod(keys, self.n_classes), counts)

    def by_class(self) -> Ints:
        """[K+1] the pairs of given class i are number `by_class[i]` to `by_class[i + 1]`."""
        return np.searchsorted(self.given, np.arange(self.n_classes + 1))


class PairCounter:
    """Adds up the guesses of blocks, in any order; of `rows` samples, if so many are known of.

    A matrix of all pairs where there are about as many samples, a list of those that occur where
    there are few.
    """

    def __init__(self, n_classes: int, rows: int | None = None) -> None:
        self.n_classes = n_classes
        few = rows is not None and 4 * rows < n_classes**2
        dense = n_classes <= DENSE_CLASSES and not few
        self._dense = np.zeros((n_classes,) * 2, np.int64) if dense else None
        self._keys = self._counts = np.zeros(0, np.int64)
        self._waiting: list[Ints] = []

    def add(self, labels: NDArray[np.int32], guess: NDArray[np.int32]) -> None:
        """Count samples by given label and guess; a guess of -1 is none."""
        if self._dense is not None:
            kernels.count_pairs(labels, guess, self._dense)
            return
        guessed = guess >= 0
        self._waiting.append(labels[guessed].astype(np.int64) * self.n_classes + guess[guessed])
        if sum(map(len, self._waiting)) > _WAITING:
            self._settle()

    def _settle(self) -> None:
        """Count what waits, all at once."""
        if self._waiting:
            self._merge(*np.unique_counts(np.concatenate(self._waiting)))
            self._waiting = []

    def found(self) -> PairCounts:
        """The counts so far as they are."""
        if self._dense is not None:
            return PairCounts.of_matrix(self._dense)
        self._settle()
        return PairCounts(self.n_classes, *np.divmod(self._keys, self.n_classes), self._counts)

    def merge(self, other: PairCounts) -> None:
        """Add counts of other samples."""
        if self._dense is not None:
            self._dense[other.given, other.true] += other.counts
        else:
            self._merge(other.keys, other.counts)

    def _merge(self, keys: Ints, counts: Ints) -> None:
        keys, at = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        both = np.concatenate([self._counts, counts])
        self._counts = np.zeros(len(keys), np.int64)
        np.add.at(self._counts, at, both)
        self._keys = keys

    def pairs(self) -> PairCounts:
        """The counts so far, with at least one sample of every class on the diagonal."""
        if self._dense is not None:
            dense = self._dense.copy()
            np.fill_diagonal(dense, np.maximum(dense.diagonal(), 1))
            return PairCounts.of_matrix(dense)
        self._settle()
        diagonal = np.arange(self.n_classes) * (self.n_classes + 1)
        missing = diagonal[~np.isin(diagonal, self._keys)]
        keys = np.concatenate([self._keys, missing])
        counts = np.concatenate([self._counts, np.ones(len(missing), np.int64)])
        order = np.argsort(keys)
        return PairCounts(self.n_classes, *np.divmod(keys[order], self.n_classes), counts[order])


def calibrated(joint: PairCounts, class_counts: Ints) -> PairCounts:
    """Scale each given class's row to its number of samples, in whole counts.

    Largest remainders are rounded up first, equal ones of the lower class. All in integers: a
    count c of a row that sums to s becomes c * n / s, whose remainder is (c * n) mod s.
    """
    given, n = joint.given, class_counts[joint.given]
    row_sums = np.bincount(given, joint.counts, joint.n_classes).astype(np.int64)
    whole, remainder = np.divmod(joint.counts * n, row_sums[given])
    left = class_counts - np.bincount(given, whole, joint.n_classes).astype(np.int64)
    order = np.lexsort((joint.true, -remainder, given))
    rank = np.arange(len(order)) - joint.by_class()[given]  # position within its row, once sorted
    whole[order] += rank < left[given]
    kept = whole > 0
    return PairCounts(joint.n_classes, given[kept], joint.true[kept], whole[kept])


@dataclass(frozen=True)
class Quotas:
    """How many samples to flag."""

    pairs: PairCounts
    """Per pair of different classes: so many of the given class, by margin."""
    per_class: Ints
    """[K] per given class: so many, by self-confidence."""


def quotas(
    joint: PairCounts, class_counts: Ints, *, min_examples_per_class: int, frac_noise: float
) -> Quotas:
    """Turn a calibrated joint into numbers of samples to flag.

    At least `min_examples_per_class` samples stay on the diagonal; what that takes is taken evenly
    from the class's other counts. Only `frac_noise` of each count is flagged, rounded down.
    """
    K, given, counts = joint.n_classes, joint.given, joint.counts
    on_diagonal = given == joint.true
    diagonal = np.zeros(K)
    diagonal[given[on_diagonal]] = counts[on_diagonal]
    kept = np.maximum(diagonal, min_examples_per_class)
    occurring = np.bincount(given, counts > 0, K)
    taken = (kept - diagonal) / np.maximum(occurring - 1, 1)

    off = np.maximum(np.where(on_diagonal, 0.0, counts - taken[given]), 0.0)
    flagged = off * frac_noise
    staying = kept + np.bincount(given, off - flagged, K)
    large_enough = class_counts > min_examples_per_class
    per_class = np.where(large_enough, class_counts - staying.astype(np.int64), 0)

    whole = np.where(large_enough[given], flagged.astype(np.int64), 0)
    some = whole > 0
    pairs = PairCounts(K, given[some], joint.true[some], whole[some])
    return Quotas(pairs, np.maximum(per_class, 0))


def noise_matrix(joint: ArrayLike) -> NDArray[np.float64]:
    """[K,K] true x given: P(given label | true class), from a joint [K,K] given x true.

    Rows sum to 1. A class that the joint gives no sample keeps its label.

    >>> noise_matrix([[90, 0], [10, 50]]).tolist()
    [[0.9, 0.1], [0.0, 1.0]]
    """
    counts = np.asarray(joint, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not len(counts):
        raise InputError("joint", f"has shape {counts.shape}", "Pass a square [K,K] array")
    if not (np.isfinite(counts) & (counts >= 0)).all():
        raise InputError("joint", "has negative or missing counts", "Pass counts of samples")
    per_true = counts.sum(axis=0)  # [K]
    matrix = np.eye(len(counts))
    known = per_true > 0
    matrix[known] = (counts[:, known] / per_true[known]).T
    return matrix
