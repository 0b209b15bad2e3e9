"""Selects, for every pair of classes, the samples with the largest margins: first cuts, then a heap
each."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.joint import DENSE_CLASSES, PairCounts
from uqled.detect.core.kernels import BOUND_SLACK, MANY_PAIRS, SLACK

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Disagreements:
    """Samples whose predicted class differs from the label."""

    index: NDArray[np.int64]
    predicted: NDArray[np.int32]
    margin: Floats
    """The margin of the predicted class over the given one."""

    @classmethod
    def from_block(
        cls, labels: NDArray[Any], predicted: NDArray[Any], lead: Floats, start: int
    ) -> Disagreements:
        """Of the samples from `start` on; `lead` [n] is the margin of all of them."""
        here = np.flatnonzero(predicted != labels)
        return cls(here + start, predicted[here], lead[here])

    @classmethod
    def concatenate(cls, parts: list[Disagreements]) -> Disagreements:
        return cls(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.predicted for part in parts]),
            np.concatenate([part.margin for part in parts]),
        )


class TopPerPair:
    """Keeps, for every pair, its quota of samples with the largest margins; ties to the lower
    index."""

    def __init__(self, quotas: PairCounts, kernels: ModuleType) -> None:
        self.kernels = kernels
        self.n_classes = quotas.n_classes
        self.class_offsets, self.targets = quotas.find_class_offsets(), quotas.true.astype(np.int32)
        self.given = quotas.given
        self.offsets = np.concatenate([[0], np.cumsum(quotas.counts)])
        self.cuts = np.full(len(quotas.counts), -np.inf)
        self.bounds: tuple[NDArray[Any], NDArray[Any]] | None = None
        self._allocate_heaps()

    def _allocate_heaps(self) -> None:
        self.sizes = np.zeros(len(self.targets), np.int64)
        self.margins = np.empty(self.offsets[-1])
        self.indices = np.empty(self.offsets[-1], np.int64)

    def raise_cuts(self, disagreements: Disagreements, labels: NDArray[np.int32]) -> TopPerPair:
        """Raise the cuts to margins that enough disagreements reach."""
        self.kernels.raise_cuts(
            labels[disagreements.index], disagreements.predicted, disagreements.margin,
            self.class_offsets, self.targets, self.offsets, self.sizes, self.margins, self.indices,
            self.cuts,
        )  # fmt: skip
        return self

    def copy_empty(self) -> TopPerPair:
        """Empty heaps with the same cuts, for another thread."""
        other = copy(self)
        other.cuts, other.bounds = self.cuts.copy(), None
        other._allocate_heaps()
        return other

    def add_rows(
        self,
        rows: NDArray[Any],
        labels: NDArray[np.int32],
        is_offered: Bools,
        first_index: int,
        single_precision: bool,
    ) -> None:
        """Offer the rows of a block that `is_offered` [n] names to the heaps."""
        if self.bounds is None:
            self.bounds = self._make_bounds(rows.dtype)
        self.kernels.select_rows(
            rows, labels, is_offered, first_index, single_precision, self.class_offsets,
            self.targets, self.offsets, self.cuts, *self.bounds, self.sizes, self.margins,
            self.indices,
        )  # fmt: skip

    def _make_bounds(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """[K,K] the cuts as a matrix, infinite where there is no pair, empty for many classes or
        few pairs; and [K] the least bound of each class."""
        K, lowered_cuts = self.n_classes, (self.cuts - BOUND_SLACK).astype(dtype)
        least = np.full(K, np.inf, dtype)
        np.minimum.at(least, self.given, lowered_cuts)
        most_pairs = np.diff(self.class_offsets).max(initial=0)
        if K > DENSE_CLASSES or most_pairs * MANY_PAIRS < K:
            return np.empty((0, 0), dtype), least
        bounds = np.full((K, K), np.inf, dtype)
        bounds[self.given, self.targets] = lowered_cuts
        return bounds, least

    def find_open_classes(self) -> Bools:
        """[K] the classes in which a sample predicted as labelled may be among a pair's top ones.

        Raises the cuts to what the heaps hold.
        """
        pair, margin, _ = self.list_samples()
        worst = np.full(len(self.cuts), np.inf)
        np.minimum.at(worst, pair, margin)
        is_full = self.sizes == np.diff(self.offsets)
        self.cuts[is_full] = np.maximum(self.cuts[is_full], worst[is_full])
        # Its margin is SLACK at most, as precisely as margins are computed.
        is_open = np.zeros(self.n_classes, np.bool_)
        is_open[self.given[self.cuts <= 2 * SLACK]] = True
        return is_open

    def merge(self, other: TopPerPair) -> None:
        self.kernels.merge_heaps(
            self.offsets, self.sizes, self.margins, self.indices,
            other.sizes, other.margins, other.indices,
        )  # fmt: skip

    def to_mask(self, n: int) -> Bools:
        """[N] True for the samples in the heap of some pair."""
        mask = np.zeros(n, np.bool_)
        mask[self.list_samples()[2]] = True
        return mask

    def list_samples(self) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
        """(number of the pair, margin, index) of every sample in a heap."""
        pair = np.repeat(np.arange(len(self.sizes)), self.sizes)
        position = np.arange(len(pair)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        at = self.offsets[pair] + position
        return pair, self.margins[at], self.indices[at]
