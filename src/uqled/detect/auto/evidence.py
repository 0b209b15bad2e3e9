"""What `auto` goes by: the few classes of each sample that matter, how often classes are mistaken,
and what all samples together show of the noise.

Whatever is counted in all samples is a whole number and adds up over parts of them, so that it does
not depend on how the samples are divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto import kernels
from uqled.detect.auto.levels import UNITS
from uqled.detect.core.joint import PairCounts
from uqled.engines.local import Threads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]

#: Rows of a block.
ROWS = 2**14
#: Rows that numbers are fitted to: two numbers need no more.
FIT_ROWS = 20_000
#: Classes up to which a transition matrix is kept in full, in eight megabytes at most: of many
#: rows, a look-up is quicker than a search, even where it misses the nearest cache.
TABLE_CLASSES = 1024
#: Sets of samples, those of the highest log-odds, in which a model has hardly any errors of its own
#: (a weak model only in the smallest of them); and so many at the least, which are enough to count
#: in: up to a thousand samples, all sets are the same.
SUREST, SUREST_SAMPLES = (0.01, 0.02, 0.05, 0.1), 100

#: In place of 0, where something is divided by it; and flips enough to be perfectly even.
_LITTLE, _MOST_FLIPS = 1e-9, 1e6


@dataclass(frozen=True)
class Candidates:
    """The few classes of each sample that matter, the given one first."""

    classes: Ints32
    """[N,M]"""
    probs: NDArray[np.float32]
    """[N,M]"""
    n_classes: int

    @property
    def others(self) -> int:
        """Number of classes that are no candidates."""
        return self.n_classes - int(self.classes.shape[1])

    @property
    def some(self) -> slice:
        """Rows, evenly spread, that are enough to fit two numbers to."""
        return slice(None, None, fit_step(len(self.classes)))

    def logs(self) -> Logs:
        """Of the probabilities."""
        logs = np.empty((len(self.probs), self.probs.shape[1] + 1))
        kernels.logs_of(self.probs, self.others, logs)
        return Logs(logs, self.others)

    def rows(self, some: slice) -> Candidates:
        """Those of some samples."""
        # Without gaps: for others, all kernels would be compiled once more.
        classes = np.ascontiguousarray(self.classes[some])
        return Candidates(classes, np.ascontiguousarray(self.probs[some]), self.n_classes)

    def followed_by(self, other: Candidates) -> Candidates:
        """With those of other samples behind them."""
        classes = np.concatenate([self.classes, other.classes])
        return Candidates(classes, np.concatenate([self.probs, other.probs]), self.n_classes)


@dataclass(frozen=True)
class Logs:
    """Logarithms of the candidates' probabilities."""

    values: Floats
    """[N,M + 1] last, of each of the other classes, as if these were alike."""
    others: int

    def to_power(self, power: float) -> Floats:
        """[N,M] the probabilities to a power, of sum 1 with those of the others."""
        result = np.empty((len(self.values), self.values.shape[1] - 1))
        kernels.powered(self.values, self.others, power, result)
        return result


def blocks(N: int) -> list[slice]:
    """Rows in blocks that do not depend on the threads, and so neither does the order of sums."""
    return [slice(start, min(start + ROWS, N)) for start in range(0, N, ROWS)]


def fit_step(N: int) -> int:
    """Every so many-th of N samples is fitted to."""
    return max(1, N // FIT_ROWS)


@dataclass(frozen=True)
class Transition:
    """How often a true class is given as another, sparse."""

    start: Ints
    columns: Ints
    extra: Floats
    base: Floats
    stay: Floats

    @classmethod
    def of_counts(cls, counts: PairCounts) -> Transition:
        """From counts (given, true), some of which are few.

        How often a class is flipped at all is its own counts and one sample of the mean of all.
        What it is flipped to is its own flips and as many, evenly spread, as is right for flips
        that meet as often as these do (a Dirichlet prior, by the method of moments).
        """
        K = counts.n_classes
        off = counts.given != counts.true
        order = np.lexsort((counts.given[off], counts.true[off]))
        rows, columns = counts.true[off][order], counts.given[off][order]
        flips = counts.counts[off][order].astype(np.float64)
        total, flipped = np.bincount(counts.true, counts.counts, K), np.bincount(rows, flips, K)
        share = float(flips.sum() / max(total.sum(), 1))
        rate = (flipped + share) / (total + 1)
        even = max(_evenly_spread(flips, flipped), share, _LITTLE)
        return cls(
            start=np.searchsorted(rows, np.arange(K + 1)).astype(np.int64),
            columns=columns.astype(np.int64),
            extra=(rate / (flipped + even))[rows] * flips,
            base=rate * even / max(K - 1, 1) / (flipped + even),
            stay=1 - rate,
        )

    def scaled(self, share: float | Floats) -> Transition:
        """The same with only a share of the flips, of all classes or of each [K]."""
        each = np.broadcast_to(np.asarray(share, np.float64), self.stay.shape)
        extra = self.extra * np.repeat(each, np.diff(self.start))
        stay = 1 - each * (1 - self.stay)
        return Transition(self.start, self.columns, extra, self.base * each, stay)

    def capped(self, rate: float) -> Transition:
        """The same, where no class is flipped more often than at this rate."""
        return self.scaled(np.minimum(1.0, rate / np.maximum(1 - self.stay, 1e-12)))

    def __getstate__(self) -> dict[str, Any]:
        """Without `parts`, which each process makes for itself."""
        return {name: value for name, value in self.__dict__.items() if name != "parts"}

    @cached_property
    def parts(self) -> kernels.Matrix:
        """As the kernels take it: with the same in full, where that is small enough to be fast."""
        K = len(self.stay)
        table = np.empty((0, 0))
        if K <= TABLE_CLASSES:
            table = np.repeat(self.base[:, None], K, axis=1)
            rows = np.repeat(np.arange(K), np.diff(self.start))
            table[rows, self.columns] += self.extra
            np.fill_diagonal(table, self.stay)
        return self.start, self.columns, self.extra, self.base, self.stay, table


def _evenly_spread(flips: NDArray[Any], of_class: NDArray[Any]) -> float:
    """So many evenly spread flips are like what is known of each class beforehand.

    Two flips of a class go to the same class the more often, the more flips have favourites: always
    if each class is mistaken for one other, 1 time in K - 1 if it is mistaken for any.
    """
    at_random = 1 / max(len(of_class) - 1, 1)
    pairs, met = (float((n * (n - 1)).sum()) for n in (of_class, flips))
    same = (met + 0.5) / (pairs + 1)  # one pair more, that is neither: of few flips little is known
    return float(min((1 - same) / max(same - at_random, _LITTLE), _MOST_FLIPS))


def rising(values: NDArray[Any], weights: NDArray[Any]) -> Floats:
    """The values, pooled by their weights where they do not rise (isotonic regression)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (v, w, n), (x, u, m) = pools[-2], pools[-1]
            pools[-2:] = [((v * w + x * u) / (w + u), w + u, n + m)]
    return np.concatenate([np.full(n, v) for v, _, n in pools])


def vote_shares(votes: Ints, seen: Ints, K: int) -> Floats:
    """[STEPS] how often a pass chooses a class that the other passes give such log-odds; half a
    vote was seen for all."""
    return rising((votes + 0.5 / K) / (seen + 0.5), seen + 0.5)


@dataclass(frozen=True)
class Surest:
    """What the samples that the model is surest of say about the noise."""

    share: float
    """Their labels that are not the guess, over those that a transition matrix lets expect."""
    level: float
    """The same over that of the next surest: 1 if the rate is level, 0 if it falls to nothing."""
    least: float
    """The lowest share of labels that are not the guess, and its standard error, in any set."""

    @classmethod
    def of(cls, found: Candidates, transition: Transition) -> Surest:
        return cls.counted(SurestCounts.of_all(found), transition)

    @classmethod
    def counted(cls, counts: SurestCounts, transition: Transition) -> Surest:
        *_, guessed, more_guessed = counts.guessed
        *_, differ, more_differ = counts.differ.tolist()

        def share(differ: float, guessed: Ints) -> float:
            return differ / (float(guessed @ (1 - transition.stay)) + 0.5)

        own, beside = share(differ + 0.5, guessed), more_differ - differ + 0.5
        # Where none of the surest differs, there is nothing that could be level.
        level = share(differ, guessed) / share(beside, more_guessed - guessed)
        sizes = counts.guessed[:-1].sum(axis=1) + 0.5
        each = np.minimum((counts.differ[:-1] + 0.5) / sizes, 1.0)
        # Of a small set, a low rate may be chance.
        each = each + np.sqrt(each * (1 - each) / sizes)
        return cls(min(1.0, own), min(1.0, level), float(each.min()))


@dataclass(frozen=True)
class SurestCounts:
    """Of each set of the surest, and of twice the largest; adds up over parts of the samples."""

    guessed: Ints
    """[sets + 1,K] by the most probable class."""
    differ: Ints
    """[sets + 1] whose label is another."""

    @classmethod
    def of_all(cls, found: Candidates) -> SurestCounts:
        sure, differs, guess = sureness(found)
        masks = [_highest(sure, n) for n in surest_numbers(len(sure))]
        return cls.of(differs, guess, masks, found.n_classes)

    @classmethod
    def of(
        cls, differs: NDArray[np.bool_], guess: Ints32, masks: Sequence[NDArray[np.bool_]], K: int
    ) -> SurestCounts:
        """From [N] masks of the sets."""
        return cls(
            np.array([np.bincount(guess[some], minlength=K) for some in masks]),
            np.array([np.count_nonzero(differs[some]) for some in masks]),
        )

    def merge_with(self, other: SurestCounts) -> SurestCounts:
        return SurestCounts(self.guessed + other.guessed, self.differ + other.differ)


def sureness(found: Candidates) -> tuple[NDArray[Any], NDArray[np.bool_], Ints32]:
    """[N] how much more probable the most probable class is than the next, whether it is another
    than the given one, and which it is."""
    own, other = found.probs[:, 0], found.probs[:, 1]
    third = found.probs[:, 2] if found.probs.shape[1] > 2 else np.zeros_like(own)
    differs = own < other
    second = np.where(differs, np.maximum(own, third), other)
    sure = np.maximum(own, other) / np.maximum(second, np.float32(kernels.LEAST))
    return sure, differs, np.where(differs, found.classes[:, 1], found.classes[:, 0])


def _highest(values: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """[N] True for the n highest; of equals the first."""
    if n == 0:
        return np.zeros(len(values), np.bool_)
    cut = np.partition(values, len(values) - n)[len(values) - n]
    chosen: NDArray[np.bool_] = values > cut
    chosen[np.flatnonzero(values == cut)[: n - np.count_nonzero(chosen)]] = True
    return chosen


def surest_numbers(N: int) -> list[int]:
    """How many of N samples are in each set of the surest, and in twice the largest."""
    sets = [min(max(int(share * N), SUREST_SAMPLES), N // 2) for share in SUREST]
    return [*sets, 2 * sets[-1]]


@dataclass(frozen=True)
class Even:
    """What part of the labels that are not the guess is noise, if noise is even.

    Noise that depends on the class only gives a label as often as the transition matrix says,
    however improbable the model finds it. A model's own errors are found where it finds the label
    probable. So labels are counted over those that the matrix lets expect, by how probable the
    model finds them in units of the matrix: where that ratio is level, all of them are noise, and
    where it is higher, the rest is the model's doubt.
    """

    wrong: Floats
    """[STEPS] by log-odds of the model's probability to the matrix's, the part that is noise."""
    share: float
    """The same of all labels that are not the guess."""
    differ: float
    """Share of all labels that are not the guess."""

    @classmethod
    def counted(cls, counts: EvenCounts) -> Even:
        # A step where nothing is expected has next to no weight, and a ratio all the same.
        expected = np.maximum(counts.expected / UNITS, _LITTLE)
        ratio = rising(counts.labels / expected, expected)
        half = expected.sum() / 2  # the lower half: what the model finds less probable
        up_to, of_them = np.cumsum(expected), np.cumsum(ratio * expected)
        level = float(np.interp(half, np.append(0.0, up_to), np.append(0.0, of_them))) / half
        wrong = np.minimum(1.0, level / np.maximum(ratio, _LITTLE))
        n = int(counts.labels.sum())
        return cls(wrong, float(wrong @ counts.labels) / max(n, 1), n / max(counts.samples, 1))


@dataclass(frozen=True)
class EvenCounts:
    """Of all classes that are not the guess; adds up over parts of the samples."""

    labels: Ints
    """[STEPS] how many of them are the label."""
    expected: Ints
    """[STEPS] how many the transition matrix lets expect, in units: at most one per sample."""
    samples: int

    @classmethod
    def of(cls, found: Candidates, power: float, transition: Transition) -> EvenCounts:
        """Of probabilities that a power calibrates to the labels."""
        labels, expected = np.zeros((2, kernels.STEPS), np.int64)
        probs = found.logs().to_power(power)
        kernels.count_even(
            found.classes, probs, found.others, transition.parts, UNITS, labels, expected
        )
        return cls(labels, expected, len(probs))

    @classmethod
    def of_all(
        cls, found: Candidates, power: float, transition: Transition, engine: Threads
    ) -> EvenCounts:
        """Block by block, so that little is in memory beside the candidates."""
        given = found, power, transition
        return reduce(
            cls.merge_with, engine.map(_even_block, blocks(len(found.classes)), given=given)
        )

    def merge_with(self, other: EvenCounts) -> EvenCounts:
        return EvenCounts(
            self.labels + other.labels,
            self.expected + other.expected,
            self.samples + other.samples,
        )


def _even_block(found: Candidates, power: float, transition: Transition, at: slice) -> EvenCounts:
    return EvenCounts.of(found.rows(at), power, transition)


@dataclass(frozen=True)
class Shown:
    """All that is counted in one go, once a transition matrix is known."""

    surest: SurestCounts
    even: EvenCounts

    def merge_with(self, other: Shown) -> Shown:
        return Shown(self.surest.merge_with(other.surest), self.even.merge_with(other.even))
