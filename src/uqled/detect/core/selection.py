"""Which samples have the largest margins of a pair: where to begin, and a heap per pair."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core import kernels
from uqled.detect.core.joint import DENSE_CLASSES, PairCounts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Leads:
    """Samples whose most probable class is not the given one."""

    index: NDArray[np.int64]
    best: NDArray[np.int32]
    margin: Floats
    """By how much the best class is more probable than the given one."""

    @classmethod
    def of_block(
        cls, rows: NDArray[Any], labels: NDArray[Any], best: NDArray[Any], start: int, single: bool
    ) -> Leads:
        here = np.flatnonzero(best != labels)
        top, own = rows[here, best[here]], rows[here, labels[here]]
        margin = top - own if single else top.astype(np.float64) - own
        return cls(here + start, best[here], margin.astype(np.float64))

    @classmethod
    def together(cls, parts: list[Leads]) -> Leads:
        return cls(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.best for part in parts]),
            np.concatenate([part.margin for part in parts]),
        )


class Best:
    """For every pair, its quota of samples with the largest margins; ties to the lower index."""

    def __init__(self, quotas: PairCounts) -> None:
        self.n_classes = quotas.n_classes
        self.by_class, self.targets = quotas.by_class(), quotas.true.astype(np.int32)
        self.given = quotas.given
        self.offsets = np.concatenate([[0], np.cumsum(quotas.counts)])
        self.cuts = np.full(len(quotas.counts), -np.inf)
        self.bounds: tuple[NDArray[Any], NDArray[Any]] | None = None
        self._empty()

    def _empty(self) -> None:
        self.sizes = np.zeros(len(self.targets), np.int64)
        self.margins = np.empty(self.offsets[-1])
        self.indices = np.empty(self.offsets[-1], np.int64)

    def with_cuts(self, leads: Leads, labels: NDArray[np.int32]) -> Best:
        """The same, with cuts raised to what the leads reach."""
        kernels.raise_cuts(
            labels[leads.index], leads.best, leads.margin, self.by_class, self.targets,
            self.offsets, self.sizes, self.margins, self.indices, self.cuts,
        )  # fmt: skip
        return self

    def empty_copy(self) -> Best:
        """Another one with the same cuts, for another thread."""
        other = copy(self)
        other.cuts = self.cuts.copy()
        other._empty()
        return other

    def offer(
        self, rows: NDArray[Any], labels: NDArray[np.int32], first_index: int, in_single: bool
    ) -> None:
        if self.bounds is None:
            self.bounds = self._bounds(rows.dtype)
        kernels.select_rows(
            rows, labels, first_index, in_single, self.by_class, self.targets, self.offsets,
            self.cuts, *self.bounds, self.sizes, self.margins, self.indices,
        )  # fmt: skip

    def _bounds(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """[K,K] the cuts as a matrix, infinite where there is no pair, empty for many classes or
        few pairs; and [K] the least of each class."""
        K, lowered = self.n_classes, (self.cuts - kernels.BOUND_SLACK).astype(dtype)
        least = np.full(K, np.inf, dtype)
        np.minimum.at(least, self.given, lowered)
        most = np.diff(self.by_class).max(initial=0)
        if K > DENSE_CLASSES or most * kernels.MANY_PAIRS < K:
            return np.empty((0, 0), dtype), least
        bounds = np.full((K, K), np.inf, dtype)
        bounds[self.given, self.targets] = lowered
        return bounds, least

    def merge(self, other: Best) -> None:
        kernels.merge_heaps(
            self.offsets, self.sizes, self.margins, self.indices,
            other.sizes, other.margins, other.indices,
        )  # fmt: skip

    def mask(self, n: int) -> Bools:
        """[N] True for the samples that some pair kept."""
        found = np.zeros(n, np.bool_)
        found[self.kept()[2]] = True
        return found

    def kept(self) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
        """(number of the pair, margin, index) of everything that was kept."""
        pair = np.repeat(np.arange(len(self.sizes)), self.sizes)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        at = self.offsets[pair] + place
        return pair, self.margins[at], self.indices[at]
