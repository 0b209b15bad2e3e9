"""The best of each group, where the samples lie in many places and stay there.

A group is a pair of classes of one member; of its samples, those with the largest values are
wanted, ties to the lower index. The places tell each group's least and largest value and how many
samples it has; after that, each round divides what lies between into ranges, the places count
their samples in each, and only the range that holds the cut stays in question. A group is settled
as soon as all that is left in question is wanted. What travels does not depend on how many samples
there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core import kernels

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

#: Counts of one round, about: 4 MB, or a few per group. More ranges settle groups in fewer rounds,
#: but every place makes and sends them all.
_COUNTS = 2**19
_LEAST_RANGES, _MOST_RANGES = 4, 2**12
_TOP = ~np.uint64(0)


@dataclass(frozen=True)
class Offers:
    """Samples that one place offers to groups."""

    group: Ints
    keys: Keys
    """Larger = better; see `keys_of_values`."""
    index: Ints

    @property
    def backwards(self) -> Keys:
        """Larger = the lower index, which is the better one of equal values."""
        return (kernels.LAST_INDEX - self.index).astype(np.uint64)


@dataclass(frozen=True)
class Answer:
    """What one place, or several together, say of their samples."""

    counts: Ints
    """[G] at first, then [open groups * ranges]."""
    extents: tuple[Keys, Keys, Keys, Keys] | None = None
    """At first: [G] least and most of each group's keys, and of its indices backwards."""

    def merged(self, other: Answer) -> Answer:
        """The answer of both places together."""
        counts = self.counts + other.counts
        if self.extents is None or other.extents is None:
            return Answer(counts)
        low, high, low_index, high_index = zip(self.extents, other.extents, strict=True)
        return Answer(
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
    """What is known so far of each group's cut."""

    wanted: Ints
    """[G] how many, of those in question."""
    low: Keys
    high: Keys
    """[G] what is in question, both ends included: keys; of a tied group, indices backwards. In the
    end all from `low` are taken."""
    tied: NDArray[np.bool_]
    """[G] the cut runs through samples with the same key."""
    key: Keys
    """[G] that key."""
    indices: tuple[Keys, Keys]
    """[G] least and most of the indices backwards."""
    open: NDArray[np.bool_]
    """[G] not yet settled."""
    enough: NDArray[np.bool_]
    """[G] there are as many samples as are wanted."""
    begun: bool = False
    """The extents are known."""

    @classmethod
    def at_first(cls, wanted: Ints) -> Cuts:
        G, some = len(wanted), wanted > 0
        return cls(
            wanted=wanted,
            low=np.where(some, np.uint64(0), _TOP),  # no number has the highest key
            high=np.full(G, _TOP),
            tied=np.zeros(G, np.bool_),
            key=np.zeros(G, np.uint64),
            indices=(np.zeros(G, np.uint64), np.full(G, _TOP)),
            open=some,
            enough=some,
        )

    def asked(self, offers: Offers) -> Answer:
        """What one place has to say to this round."""
        return self._counts(offers) if self.begun else self._extents(offers)

    def narrowed(self, answer: Answer) -> Cuts:
        """The cuts after a round, from the answer of all places together."""
        return self._with_counts(answer.counts) if self.begun else self._with_extents(answer)

    def _extents(self, offers: Offers) -> Answer:
        G = len(self.wanted)
        extents = []
        for values in (offers.keys, offers.backwards):
            least, most = np.full(G, _TOP), np.zeros(G, np.uint64)
            np.minimum.at(least, offers.group, values)
            np.maximum.at(most, offers.group, values)
            extents += [least, most]
        low, high, low_index, high_index = extents
        counts = np.bincount(offers.group, minlength=G).astype(np.int64)
        return Answer(counts, (low, high, low_index, high_index))

    def _with_extents(self, answer: Answer) -> Cuts:
        assert answer.extents is not None
        least, most, *indices = answer.extents
        more = self.open & (answer.counts > self.wanted)  # of the others, all are taken
        return replace(
            self,
            low=np.where(self.open & (answer.counts > 0), least, self.low),
            high=np.where(more, most, self.high),
            indices=(indices[0], indices[1]),
            open=more,
            enough=self.open & (answer.counts >= self.wanted),
            begun=True,
        )._with_ties()

    def _with_ties(self) -> Cuts:
        """Groups of which one key is left go on with the index."""
        now = self.open & ~self.tied & (self.low == self.high)
        return replace(
            self,
            key=np.where(now, self.low, self.key),
            low=np.where(now, self.indices[0], self.low),
            high=np.where(now, self.indices[1], self.high),
            tied=self.tied | now,
        )

    @property
    def _ranges(self) -> int:
        return ranges_of(int(np.count_nonzero(self.open)))

    @cached_property
    def begins(self) -> Keys:
        """[open groups, ranges] where each range begins, in order.

        Half are at equal distances of the value, which tells most; half at equal distances of the
        key, which always come to an end.
        """
        low, high = self.low[self.open, None], self.high[self.open, None]
        tied = self.tied[self.open]
        by_key = (self._ranges - 1) // 2
        by_value = self._ranges - 1 - by_key
        begins = np.concatenate(
            [low, _evenly(low, high, by_key), _by_value(low, high, by_value)], axis=1
        )
        if tied.any():
            begins[tied, 1:] = _evenly(low[tied], high[tied], self._ranges - 1)
        return np.sort(np.minimum(begins, high), axis=1)

    def _counts(self, offers: Offers) -> Answer:
        slots = np.where(self.open, np.cumsum(self.open) - 1, -1)
        counts = np.zeros(self.begins.shape, np.int64)
        kernels.count_in_ranges(
            offers.group, offers.keys, offers.index, slots, self.low, self.high, self.tied,
            self.key, self.begins, counts,
        )  # fmt: skip
        return Answer(counts.ravel())

    def _with_counts(self, counts: Ints) -> Cuts:
        groups, begins = np.flatnonzero(self.open), self.begins
        rows = np.arange(len(groups))
        best_first = counts.reshape(begins.shape)[:, ::-1]
        need = self.wanted[groups]
        running = np.cumsum(best_first, axis=1)
        at = np.argmax(running >= need[:, None], axis=1)
        there = best_first[rows, at]
        need = need - (running[rows, at] - there)
        at = self._ranges - 1 - at
        ends = np.append(begins[:, 1:] - np.uint64(1), self.high[groups, None], axis=1)
        return replace(
            self,
            wanted=_put(self.wanted, groups, need),
            low=_put(self.low, groups, begins[rows, at]),
            high=_put(self.high, groups, ends[rows, at]),
            open=_put(self.open, groups, there > need),
        )._with_ties()

    def taken(self, offers: Offers) -> NDArray[np.bool_]:
        """Which of the offers are among the best, once every group is settled."""
        low, key = self.low[offers.group], self.key[offers.group]
        of_ties = (offers.keys > key) | ((offers.keys == key) & (offers.backwards >= low))
        return np.where(self.tied[offers.group], of_ties, offers.keys >= low)

    def least_values(self) -> NDArray[np.float64]:
        """[G] a value that none of the best is below; minus infinity where there were too few."""
        least = np.where(self.tied, self.key, self.low)
        return np.where(self.enough, values_of_keys(least), -np.inf)


def _evenly(low: Keys, high: Keys, number: int) -> Keys:
    """[n,number] divide what lies between, the last ones perhaps above it."""
    step = (high - low) // np.uint64(number + 1) + np.uint64(1)
    numbers: Keys = np.arange(1, number + 1, dtype=np.uint64)
    return low + step * numbers


def _by_value(low: Keys, high: Keys, number: int) -> Keys:
    """[n,number] divide what lies between the values of two keys."""
    first, last = values_of_keys(low), values_of_keys(high)
    with np.errstate(invalid="ignore"):
        values = first + (last - first) * (np.arange(1, number + 1) / (number + 1))
    keys: Keys = keys_of_values(np.where(np.isnan(values), first, values))
    between: Keys = np.minimum(np.maximum(keys, low), high)
    return between


def _put(values: NDArray[Any], at: Ints, new: NDArray[Any]) -> NDArray[Any]:
    """The array with new values at some places."""
    changed = values.copy()
    changed[at] = new
    return changed


def ranges_of(groups: int) -> int:
    """Into how many ranges a round divides each of so many groups."""
    return int(np.clip(_COUNTS // max(1, groups), _LEAST_RANGES, _MOST_RANGES))


def most_counts(groups: int) -> int:
    """Counts of a round at the most, for so many groups or fewer."""
    return max(min(_COUNTS, groups * _MOST_RANGES), groups * _LEAST_RANGES)


def find_cuts(wanted: Ints, ask: Callable[[Cuts], Answer], *, rounds: int | None = None) -> Cuts:
    """The cuts of all groups; `ask` asks every place and merges what they say.

    After so many `rounds` the cuts may not be known yet, but bounds of them are.
    """
    cuts = Cuts.at_first(wanted)
    while cuts.open.any() and rounds != 0:
        if cuts.begun:
            _ = cuts.begins  # once, and not by every place
        cuts = cuts.narrowed(ask(cuts))
        rounds = None if rounds is None else rounds - 1
    return cuts


def keys_of_values(values: NDArray[Any]) -> Keys:
    """Integers that order as the values do.

    >>> keys = keys_of_values(np.array([-1.0, -0.5, -0.0, 0.25, 1.0]))
    >>> bool((keys[1:] > keys[:-1]).all())
    True
    """
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)  # + 0.0: no negative zero
    top = np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)


def values_of_keys(keys: Keys) -> NDArray[np.float64]:
    """The values of such integers."""
    top = np.uint64(1 << 63)
    found = np.where(keys & top, keys & ~top, ~keys).astype(np.uint64).view(np.float64)
    # Keys of no number are beyond every value, on their side.
    return np.where(np.isnan(found), np.where(keys & top, np.inf, -np.inf), found)
