"""The best of each group, where the samples lie in many places and stay there.

A group is a pair of classes of one member; of its samples, those with the largest values are
wanted, ties to the lower index. Each place counts its samples by the next few bits of their value,
only the counts travel, and the bits of every group's cut become known from the top: so many rounds
as a value has bits at the most, and few in practice, for a group is settled as soon as the samples
that share the known bits are all wanted. What travels in a round does not depend on how many
samples there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

_VALUE_BITS, _INDEX_BITS = 64, 48
#: Counts of one round, at the most: 32 MB.
_COUNTS = 2**22
_LAST = np.int64(2**_INDEX_BITS - 1)


@dataclass(frozen=True)
class Offers:
    """Samples that one place offers to groups."""

    group: Ints
    keys: Keys
    """Larger = better; see `keys_of_values`."""
    index: Ints


@dataclass(frozen=True)
class Cuts:
    """What is known so far of each group's cut."""

    wanted: Ints
    """[G] how many, of those that share the known bits."""
    known: Keys
    """[G] the bits of the value that are known, the rest 0."""
    last: Ints
    """[G] of samples whose value is exactly at the cut: the last index that is taken."""
    open: NDArray[np.bool_]
    """[G] not yet settled."""
    enough: NDArray[np.bool_]
    """[G] there are as many samples as are wanted."""
    digit: int
    """Bits that a round makes known."""
    left: int = _VALUE_BITS
    """Bits of the value that are not known yet; below 0: bits of the index."""

    @classmethod
    def at_first(cls, wanted: Ints) -> Cuts:
        G = max(1, len(wanted))
        digit = int(np.clip(np.log2(_COUNTS / G), 2, 8))
        while _VALUE_BITS % digit or _INDEX_BITS % digit:
            digit -= 1
        return cls(
            wanted=wanted,
            # Nothing is above the highest bits, and no index is -1: a group that wants none.
            known=np.where(wanted > 0, np.uint64(0), ~np.uint64(0)),
            last=np.where(wanted > 0, _LAST, -1),
            open=wanted > 0,
            enough=wanted > 0,
            digit=digit,
        )

    def counts(self, offers: Offers) -> Ints:
        """[open groups * 2^digit] samples by their next bits; sums over places."""
        slot = np.cumsum(self.open) - 1
        mine = self.open[offers.group]
        group, keys, index = offers.group[mine], offers.keys[mine], offers.index[mine]
        if self.left > 0:
            shift = np.uint64(self.left - self.digit)
            if self.left < _VALUE_BITS:
                same = (keys ^ self.known[group]) >> np.uint64(self.left) == 0
                group, keys = group[same], keys[same]
            digits = (keys >> shift) & np.uint64(2**self.digit - 1)
        else:
            same = keys == self.known[group]
            group, index = group[same], index[same]
            beyond = _INDEX_BITS + self.left  # bits of the index that are not known yet
            backwards = _LAST - index  # the lower index is the better one
            same = ((backwards ^ (_LAST - self.last[group])) >> beyond) == 0
            group, backwards = group[same], backwards[same]
            digits = ((backwards >> (beyond - self.digit)) & (2**self.digit - 1)).astype(np.uint64)
        at = slot[group] * 2**self.digit + digits.astype(np.int64)
        return np.bincount(at, minlength=int(self.open.sum()) * 2**self.digit).astype(np.int64)

    def narrowed(self, counts: Ints) -> Cuts:
        """The cuts with some more bits known, from the counts of all places together."""
        B = 2**self.digit
        table = counts.reshape(-1, B)[:, ::-1]  # the best first
        wanted, known = self.wanted.copy(), self.known.copy()
        last, still_open, enough = self.last.copy(), self.open.copy(), self.enough.copy()
        groups = np.flatnonzero(self.open)
        running = np.cumsum(table, axis=1)
        need = wanted[groups]
        short = running[:, -1] < need  # can only be so in the first round
        at = np.argmax(running >= need[:, None], axis=1)
        before = np.where(at > 0, running[np.arange(len(at)), at - 1], 0)
        there = table[np.arange(len(at)), at] if len(at) else need
        digit = B - 1 - at
        wanted[groups] = np.where(short, need, need - before)
        enough[groups] = ~short
        if self.left > 0:
            shift = np.uint64(self.left - self.digit)
            known[groups] |= np.where(short, 0, digit).astype(np.uint64) << shift
        else:
            shift_by = _INDEX_BITS + self.left - self.digit
            backwards = (_LAST - last[groups]) | (digit.astype(np.int64) << shift_by)
            last[groups] = _LAST - backwards
        settled = short | (there == need - before)
        still_open[groups[settled]] = False
        left = self.left - self.digit
        if left == -_INDEX_BITS:
            still_open[:] = False
        if left == 0:  # equal values: now by the index, of which nothing is known
            last = np.where(still_open, _LAST, last)
        return replace(
            self, wanted=wanted, known=known, last=last, open=still_open, enough=enough, left=left
        )

    def taken(self, offers: Offers) -> NDArray[np.bool_]:
        """Which of the offers are among the best, once every group is settled."""
        cut = self.known[offers.group]
        at_cut = (offers.keys == cut) & (offers.index <= self.last[offers.group])
        found: NDArray[np.bool_] = (offers.keys > cut) | at_cut
        return found

    def least_values(self) -> NDArray[np.float64]:
        """[G] a value that no taken sample is below; minus infinity where there were too few."""
        return np.where(self.enough, values_of_keys(self.known), -np.inf)


def find_cuts(wanted: Ints, count: Callable[[Cuts], Ints]) -> Cuts:
    """The cuts of all groups; `count` asks every place for its counts and adds them up."""
    cuts = Cuts.at_first(wanted)
    while cuts.open.any():
        cuts = cuts.narrowed(count(cuts))
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
    """The values of such integers; those between two values' give the one below."""
    top = np.uint64(1 << 63)
    found = np.where(keys & top, keys & ~top, ~keys).astype(np.uint64).view(np.float64)
    # Bits that are all 0 but the first few may be no number: below every value.
    return np.where(np.isnan(found), np.where(keys & top, np.inf, -np.inf), found)
