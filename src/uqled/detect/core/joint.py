"""The confident joint: how many samples have one label and belong to another class.

Counts are kept per pair (given, true), sparse: with thousands of classes, few pairs occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Up to this many classes a joint is a plain array; above, scipy.sparse.
DENSE_CLASSES = 2_000

#: Pairs that are collected before they are counted together.
_MAX_PENDING = 2**17

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PairCounts:
    """The counts of the pairs that occur, sorted by (given, true)."""

    n_classes: int
    given: Ints
    true: Ints
    counts: Ints

    @classmethod
    def from_matrix(cls, matrix: NDArray[Any]) -> PairCounts:
        given, true = np.nonzero(matrix)
        return cls(len(matrix), given, true, matrix[given, true].astype(np.int64))

    @classmethod
    def from_keys(cls, n_classes: int, keys: Ints, counts: Ints) -> PairCounts:
        """The inverse of `keys`."""
        return cls(n_classes, *np.divmod(keys, n_classes), counts)

    def to_matrix(self) -> Ints | csr_array[Any, tuple[int, int]]:
        """[K,K] the counts, given x true; scipy.sparse above `DENSE_CLASSES` classes."""
        shape = self.n_classes, self.n_classes
        if self.n_classes > DENSE_CLASSES:
            from scipy.sparse import csr_array

            return csr_array((self.counts, (self.given, self.true)), shape=shape)
        dense = np.zeros(shape, np.int64)
        dense[self.given, self.true] = self.counts
        return dense

    @property
    def keys(self) -> Ints:
        """One number per pair, ascending."""
        return self.given * self.n_classes + self.true

    def merge_with(self, other: PairCounts) -> PairCounts:
        """The counts of both together."""
        keys, at = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        return PairCounts.from_keys(self.n_classes, keys, counts)

    def find_class_offsets(self) -> Ints:
        """[K+1] the pairs of given class i are at `offsets[i]` to `offsets[i + 1]`."""
        return np.searchsorted(self.given, np.arange(self.n_classes + 1))


class PairCounter:
    """Counts pairs block by block, in any order.

    With many samples it counts in a matrix; with few samples, in a list of the pairs that occur.
    """

    def __init__(self, n_classes: int, n_samples: int | None = None) -> None:
        self.n_classes = n_classes
        few = n_samples is not None and 4 * n_samples < n_classes**2
        is_dense = n_classes <= DENSE_CLASSES and not few
        self._dense = np.zeros((n_classes,) * 2, np.int64) if is_dense else None
        empty = np.zeros(0, np.int64)
        self._sparse = PairCounts(n_classes, empty, empty, empty)
        self._pending: list[Ints] = []

    def add(self, labels: NDArray[np.int32], true: NDArray[np.int32], kernels: ModuleType) -> None:
        """Count samples by given label and true class; a true class of -1 is not counted."""
        if self._dense is not None:
            kernels.count_pairs(labels, true, self._dense)
            return
        some = true >= 0
        self._pending.append(labels[some].astype(np.int64) * self.n_classes + true[some])
        if sum(map(len, self._pending)) > _MAX_PENDING:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            keys, counts = np.unique_counts(np.concatenate(self._pending))
            self._pending = []
            self.merge(PairCounts.from_keys(self.n_classes, keys, counts))

    def merge(self, other: PairCounts) -> None:
        """Add counts of other samples."""
        if self._dense is not None:
            self._dense[other.given, other.true] += other.counts
        else:
            self._sparse = self._sparse.merge_with(other)

    def get_counts(self) -> PairCounts:
        """The counts so far."""
        if self._dense is not None:
            return PairCounts.from_matrix(self._dense)
        self._flush()
        return self._sparse

    def get_joint(self) -> PairCounts:
        """The counts so far, with at least one sample of every class on the diagonal."""
        if self._dense is not None:
            dense = self._dense.copy()
            np.fill_diagonal(dense, np.maximum(dense.diagonal(), 1))
            return PairCounts.from_matrix(dense)
        counts = self.get_counts()
        diagonal = np.arange(self.n_classes)
        missing = diagonal[~np.isin(diagonal, counts.given[counts.given == counts.true])]
        ones = np.ones(len(missing), np.int64)
        return counts.merge_with(PairCounts(self.n_classes, missing, missing, ones))


def calibrate_joint(joint: PairCounts, class_counts: Ints) -> PairCounts:
    """Scale the row of each given class to its number of samples, in whole counts.

    The largest remainders are rounded up, ties to the lower class. In integers: a count c in a row
    of sum s becomes c * n / s, with the remainder (c * n) mod s.
    """
    given_class, n = joint.given, class_counts[joint.given]
    row_sums = np.bincount(given_class, joint.counts, joint.n_classes).astype(np.int64)
    floors, remainder = np.divmod(joint.counts * n, row_sums[given_class])
    n_left = class_counts - np.bincount(given_class, floors, joint.n_classes).astype(np.int64)
    order = np.lexsort((joint.true, -remainder, given_class))
    rank = (
        np.arange(len(order)) - joint.find_class_offsets()[given_class]
    )  # within its row, once sorted
    floors[order] += rank < n_left[given_class]
    some = floors > 0
    return PairCounts(joint.n_classes, given_class[some], joint.true[some], floors[some])


@dataclass(frozen=True)
class Quotas:
    """The numbers of samples to flag."""

    pairs: PairCounts
    """For each pair of different classes, the number of samples to flag, by margin."""
    per_class: Ints
    """[K] for each given class, the number of samples to flag, by self-confidence."""


def compute_quotas(
    joint: PairCounts, class_counts: Ints, *, min_examples_per_class: int, frac_noise: float
) -> Quotas:
    """The numbers of samples to flag according to a calibrated joint.

    At least `min_examples_per_class` samples stay on the diagonal; those are taken evenly from the
    class's other counts. Only the share `frac_noise` of each count is flagged, rounded down.
    """
    K, given_class, counts = joint.n_classes, joint.given, joint.counts
    on_diagonal = given_class == joint.true
    diagonal = np.zeros(K)
    diagonal[given_class[on_diagonal]] = counts[on_diagonal]
    new_diagonal = np.maximum(diagonal, min_examples_per_class)
    n_pairs = np.bincount(given_class, counts > 0, K)
    reduction = (new_diagonal - diagonal) / np.maximum(n_pairs - 1, 1)

    off = np.maximum(np.where(on_diagonal, 0.0, counts - reduction[given_class]), 0.0)
    quotas = off * frac_noise
    unflagged_counts = new_diagonal + np.bincount(given_class, off - quotas, K)
    large_enough = class_counts > min_examples_per_class
    per_class = np.where(large_enough, class_counts - unflagged_counts.astype(np.int64), 0)

    whole_quotas = np.where(large_enough[given_class], quotas.astype(np.int64), 0)
    some = whole_quotas > 0
    pairs = PairCounts(K, given_class[some], joint.true[some], whole_quotas[some])
    return Quotas(pairs, np.maximum(per_class, 0))


def count_confused_pairs(
    given: NDArray[Any], suggested: NDArray[Any], n_classes: int
) -> PairCounts:
    """How many flagged samples have each pair of given and suggested class [n], where these differ.

    >>> pairs = count_confused_pairs(np.array([0, 1, 0, 2]), np.array([1, 2, 1, 2]), 3)
    >>> rank_confused_pairs(pairs)
    [(0, 1, 2), (1, 2, 1)]
    """
    differ = given != suggested
    keys, counts = np.unique_counts(given[differ].astype(np.int64) * n_classes + suggested[differ])
    return PairCounts.from_keys(n_classes, keys, counts)


def rank_confused_pairs(pairs: PairCounts) -> list[tuple[int, int, int]]:
    """(given class, suggested class, number), the most frequent first; ties to lower classes."""
    order = np.argsort(-pairs.counts, kind="stable")
    columns = (pairs.given, pairs.true, pairs.counts)
    return list(zip(*(column[order].tolist() for column in columns), strict=True))


def noise_matrix(joint: ArrayLike) -> NDArray[np.float64]:
    """[K,K] true x given: P(given label | true class), from a joint [K,K] given x true.

    Rows sum to 1. A class without samples in the joint keeps its label.

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
    has_samples = per_true > 0
    matrix[has_samples] = (counts[:, has_samples] / per_true[has_samples]).T
    return matrix
