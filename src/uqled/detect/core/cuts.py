"""Finds the top samples of each group, where the samples are spread over many parts and stay there.

A group is a pair of classes of one member. Each group wants a number of samples: those with the
largest values, ties to the lower index. First, the parts report each group's least and largest
value and its number of samples. Then each round divides the values in question into ranges, the
parts count their samples in each, and only the range with the cut stays in question. A group is
settled as soon as all samples still in question are wanted. Once few samples are in question, the
parts send them, and all groups are settled. What the parts send does not depend on the number of
samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels import LAST_INDEX

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

#: Counts per round: about 4 MB, or a few per group. More ranges settle groups in fewer rounds, but
#: every part computes and sends all of them.
_COUNTS = 2**19
_MIN_RANGES, _MAX_RANGES = 4, 2**12
#: So many samples in question, of all parts together, are sent: about 6 MB.
_SAMPLES = 2**18
_TOP = ~np.uint64(0)


@dataclass(frozen=True)
class GroupedSamples:
    """Samples of one part, each in one group."""

    group: Ints
    keys: Keys
    """Larger = better; see `values_to_keys`."""
    index: Ints

    @property
    def reversed_index(self) -> Keys:
        """Larger = the lower index, which wins among equal values."""
        return (LAST_INDEX - self.index).astype(np.uint64)

    @classmethod
    def concatenate(cls, parts: list[GroupedSamples]) -> GroupedSamples:
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(part.group for part in parts)]),
            np.concatenate([np.zeros(0, np.uint64), *(part.keys for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.index for part in parts)]),
        )


@dataclass(frozen=True)
class RoundCounts:
    """The counts of one part in a round, or of several parts together."""

    counts: Ints
    """[G] in the first round, then [open groups * ranges]."""
    extents: tuple[Keys, Keys, Keys, Keys] | None = None
    """First round only: [G] least and largest key, least and largest reversed index."""
    samples: GroupedSamples | None = None
    """Last round only: the samples in question."""

    def merge_with(self, other: RoundCounts) -> RoundCounts:
        """The counts of both together."""
        if self.samples is not None and other.samples is not None:
            both = GroupedSamples.concatenate([self.samples, other.samples])
            return RoundCounts(self.counts, samples=both)
        counts = self.counts + other.counts
        if self.extents is None or other.extents is None:
            return RoundCounts(counts)
        low, high, low_index, high_index = zip(self.extents, other.extents, strict=True)
        return RoundCounts(
            counts,
            (
                np.minimum(*low),
                np.maximum(*high),
                np.minimum(*low_index),
                np.maximum(*high_index),
            ),
        )


@dataclass(frozen=True)
class Cuts:
    """What is known so far about each group's cut."""

    quotas: Ints
    """[G] how many of the samples still in question are wanted."""
    low: Keys
    high: Keys
    """[G] range in question, both ends included, of keys or (in a tied group) of reversed indices.
    In the end, all samples from `low` on are selected."""
    is_tied: NDArray[np.bool_]
    """[G] the cut is between samples with the same key."""
    tied_key: Keys
    """[G] that key."""
    index_extents: tuple[Keys, Keys]
    """[G] least and largest reversed index."""
    is_open: NDArray[np.bool_]
    """[G] not yet settled."""
    has_enough: NDArray[np.bool_]
    """[G] there are at least as many samples as wanted."""
    has_extents: bool = False
    """The first round is done."""
    n_in_question: int = 0
    """Samples in question of open groups, after the first round."""

    @classmethod
    def start(cls, quotas: Ints) -> Cuts:
        """Before the first round."""
        G, some = len(quotas), quotas > 0
        return cls(
            quotas=quotas,
            low=np.where(some, np.uint64(0), _TOP),  # no number has the highest key
            high=np.full(G, _TOP),
            is_tied=np.zeros(G, np.bool_),
            tied_key=np.zeros(G, np.uint64),
            index_extents=(np.zeros(G, np.uint64), np.full(G, _TOP)),
            is_open=some,
            has_enough=some,
        )

    def count_samples(self, samples: GroupedSamples, kernels: ModuleType) -> RoundCounts:
        """The counts of one part for this round."""
        if not self.has_extents:
            return self._find_extents(samples)
        if self.takes_samples:
            return RoundCounts(np.zeros(0, np.int64), samples=self._take_samples(samples))
        return self._count_ranges(samples, kernels)

    def narrow(self, total: RoundCounts) -> Cuts:
        """The cuts after a round, from the counts of all parts together."""
        if total.samples is not None:
            return self._apply_samples(total.samples)
        return self._apply_counts(total.counts) if self.has_extents else self._apply_extents(total)

    @property
    def takes_samples(self) -> bool:
        """The next round is the last: the parts send the samples in question."""
        return self.has_extents and self.n_in_question <= _SAMPLES

    def _find_extents(self, samples: GroupedSamples) -> RoundCounts:
        G = len(self.quotas)
        extents = []
        for values in (samples.keys, samples.reversed_index):
            least, largest = np.full(G, _TOP), np.zeros(G, np.uint64)
            np.minimum.at(least, samples.group, values)
            np.maximum.at(largest, samples.group, values)
            extents += [least, largest]
        low, high, low_index, high_index = extents
        counts = np.bincount(samples.group, minlength=G).astype(np.int64)
        return RoundCounts(counts, (low, high, low_index, high_index))

    def _apply_extents(self, total: RoundCounts) -> Cuts:
        assert total.extents is not None
        least, largest, *indices = total.extents
        more = self.is_open & (total.counts > self.quotas)  # the other groups take all they have
        return replace(
            self,
            low=np.where(self.is_open & (total.counts > 0), least, self.low),
            high=np.where(more, largest, self.high),
            index_extents=(indices[0], indices[1]),
            is_open=more,
            has_enough=self.is_open & (total.counts >= self.quotas),
            has_extents=True,
            n_in_question=int(total.counts[more].sum()),
        )._mark_ties()

    def _mark_ties(self) -> Cuts:
        """Groups with a single key left in question go on by index."""
        now = self.is_open & ~self.is_tied & (self.low == self.high)
        return replace(
            self,
            tied_key=np.where(now, self.low, self.tied_key),
            low=np.where(now, self.index_extents[0], self.low),
            high=np.where(now, self.index_extents[1], self.high),
            is_tied=self.is_tied | now,
        )

    @property
    def _n_ranges(self) -> int:
        return choose_range_count(int(np.count_nonzero(self.is_open)))

    @cached_property
    def range_starts(self) -> Keys:
        """[open groups, ranges] the least value of each range, ascending.

        Half of the ranges are equally wide in values, which narrows most; half are equally wide in
        keys, which always terminates.
        """
        low, high = self.low[self.is_open, None], self.high[self.is_open, None]
        is_tied = self.is_tied[self.is_open]
        n_by_key = (self._n_ranges - 1) // 2
        n_by_value = self._n_ranges - 1 - n_by_key
        starts = np.concatenate(
            [low, _divide_keys(low, high, n_by_key), _divide_values(low, high, n_by_value)], axis=1
        )
        if is_tied.any():
            starts[is_tied, 1:] = _divide_keys(low[is_tied], high[is_tied], self._n_ranges - 1)
        return np.sort(np.minimum(starts, high), axis=1)

    def _count_ranges(self, samples: GroupedSamples, kernels: ModuleType) -> RoundCounts:
        slots = np.where(self.is_open, np.cumsum(self.is_open) - 1, -1)
        counts = np.zeros(self.range_starts.shape, np.int64)
        kernels.count_in_ranges(
            samples.group, samples.keys, samples.index, slots, self.low, self.high, self.is_tied,
            self.tied_key, self.range_starts, counts,
        )  # fmt: skip
        return RoundCounts(counts.ravel())

    def _apply_counts(self, counts: Ints) -> Cuts:
        groups, starts = np.flatnonzero(self.is_open), self.range_starts
        rows = np.arange(len(groups))
        best_first = counts.reshape(starts.shape)[:, ::-1]
        quotas = self.quotas[groups]
        running_counts = np.cumsum(best_first, axis=1)
        at = np.argmax(running_counts >= quotas[:, None], axis=1)
        in_range = best_first[rows, at]
        quotas = quotas - (running_counts[rows, at] - in_range)
        at = self._n_ranges - 1 - at
        ends = np.append(starts[:, 1:] - np.uint64(1), self.high[groups, None], axis=1)
        return replace(
            self,
            quotas=_replace_at(self.quotas, groups, quotas),
            low=_replace_at(self.low, groups, starts[rows, at]),
            high=_replace_at(self.high, groups, ends[rows, at]),
            is_open=_replace_at(self.is_open, groups, in_range > quotas),
            n_in_question=int(in_range[in_range > quotas].sum()),
        )._mark_ties()

    def _take_samples(self, samples: GroupedSamples) -> GroupedSamples:
        """Those in question, of one part."""
        group, reversed_index = samples.group, samples.reversed_index
        is_tied = self.is_tied[group]
        values = np.where(is_tied, reversed_index, samples.keys)
        some = self.is_open[group] & (~is_tied | (samples.keys == self.tied_key[group]))
        some &= (self.low[group] <= values) & (values <= self.high[group])
        return GroupedSamples(group[some], samples.keys[some], samples.index[some])

    def _apply_samples(self, samples: GroupedSamples) -> Cuts:
        """The cuts of all open groups, from all their samples in question: each has more than its
        quota."""
        order = np.lexsort((samples.index, ~samples.keys, samples.group))
        group, keys = samples.group[order], samples.keys[order]
        groups = np.flatnonzero(self.is_open)
        last = np.searchsorted(group, groups) + self.quotas[groups] - 1  # the worst that is wanted
        is_tied = self.is_tied[groups] | (keys[last] == keys[last + 1])
        reversed_index = samples.reversed_index[order][last]
        return replace(
            self,
            low=_replace_at(self.low, groups, np.where(is_tied, reversed_index, keys[last])),
            is_tied=_replace_at(self.is_tied, groups, is_tied),
            tied_key=_replace_at(self.tied_key, groups, keys[last]),
            is_open=np.zeros_like(self.is_open),
            n_in_question=0,
        )

    def select(self, samples: GroupedSamples) -> NDArray[np.bool_]:
        """Which of the samples are among the top of their group, once every group is settled."""
        low, key = self.low[samples.group], self.tied_key[samples.group]
        among_ties = (samples.keys > key) | (
            (samples.keys == key) & (samples.reversed_index >= low)
        )
        return np.where(self.is_tied[samples.group], among_ties, samples.keys >= low)

    def get_lower_bounds(self) -> NDArray[np.float64]:
        """[G] no top sample has a lower value; minus infinity for a group with too few samples."""
        least = np.where(self.is_tied, self.tied_key, self.low)
        return np.where(self.has_enough, keys_to_values(least), -np.inf)


def _divide_keys(low: Keys, high: Keys, number: int) -> Keys:
    """[n,number] starts of ranges equally wide in keys; the last ones may be above `high`."""
    step = (high - low) // np.uint64(number + 1) + np.uint64(1)
    numbers: Keys = np.arange(1, number + 1, dtype=np.uint64)
    return low + step * numbers


def _divide_values(low: Keys, high: Keys, number: int) -> Keys:
    """[n,number] starts of ranges equally wide in values."""
    first, last = keys_to_values(low), keys_to_values(high)
    with np.errstate(invalid="ignore"):
        values = first + (last - first) * (np.arange(1, number + 1) / (number + 1))
    keys: Keys = values_to_keys(np.where(np.isnan(values), first, values))
    between: Keys = np.minimum(np.maximum(keys, low), high)
    return between


def _replace_at(values: NDArray[Any], at: Ints, new: NDArray[Any]) -> NDArray[Any]:
    """A copy of the array with new values at some positions."""
    result = values.copy()
    result[at] = new
    return result


def choose_range_count(groups: int) -> int:
    """The number of ranges per group in a round with this many groups."""
    return int(np.clip(_COUNTS // max(1, groups), _MIN_RANGES, _MAX_RANGES))


def bound_round_counts(groups: int) -> int:
    """An upper bound on the counts of a round with up to this many groups."""
    return max(min(_COUNTS, groups * _MAX_RANGES), groups * _MIN_RANGES)


def find_cuts(
    quotas: Ints, count_samples: Callable[[Cuts], RoundCounts], *, rounds: int | None = None
) -> Cuts:
    """Find the cuts of all groups; `count_samples` counts in every part and merges the counts.

    With a limit of `rounds`, the results may be only lower bounds of the cuts.
    """
    cuts = Cuts.start(quotas)
    while cuts.is_open.any() and rounds != 0:
        if cuts.has_extents and not cuts.takes_samples:
            _ = cuts.range_starts  # computed here, once, and not by every part
        cuts = cuts.narrow(count_samples(cuts))
        rounds = None if rounds is None else rounds - 1
    return cuts


def values_to_keys(values: NDArray[Any]) -> Keys:
    """Integers in the order of the values.

    >>> keys = values_to_keys(np.array([-1.0, -0.5, -0.0, 0.25, 1.0]))
    >>> bool((keys[1:] > keys[:-1]).all())
    True
    """
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)  # + 0.0: no negative zero
    top = np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)


def keys_to_values(keys: Keys) -> NDArray[np.float64]:
    """The inverse of `values_to_keys`; keys of NaN become infinity, with its sign."""
    top = np.uint64(1 << 63)
    values = np.where(keys & top, keys & ~top, ~keys).astype(np.uint64).view(np.float64)
    return np.where(np.isnan(values), np.where(keys & top, np.inf, -np.inf), values)
