"""What all samples together show: how to calibrate the probabilities, which labels the model finds
impossible, and how often passes contradict the labels and each other.

Everything counted over all samples is a whole number and adds up over parts of them, so it does not
depend on how the samples are divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels.plain import find_largest
from uqled.uncertainty import PassesKind

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]

#: Probabilities below this are raised to it; single precision can still hold it.
LEAST_PROBABILITY = 1e-35
#: Rows in which quantiles are taken, so many values of all their classes at the most; and rows
#: that two numbers are fitted to.
QUANTILE_ROWS, QUANTILE_VALUES, FIT_ROWS = 20_000, 2**24, 5_000
#: Bands of a class's probabilities: the least probable fifth, the next fifth, and all that follow
#: but the most probable tenth, where the model's doubt is.
BANDS = (0.2, 0.4, 0.9)
#: The fewest samples predicted as a class for which its quantiles are computed.
LEAST_ROWS = 10
#: Classes up to which each pair has its own quantiles; above, there are too few samples of each.
PAIR_CLASSES = 500
#: How much of the favourites that the labels show is believed. People's errors look as level as
#: noise by class does, and there favourites are partly the model's own confusions.
BELIEVED = 0.75
#: The ratio of two bands' rates is near 1 for noise by class, and near a half for errors on hard
#: samples: this power of it tells them apart. So many labels are needed before it counts half.
EVENNESS_POWER, EVENNESS_HITS = 5, 20
#: How alike the errors of two members are: the part of a member's errors that another one of the
#: same kind makes as well. `benchmarks/results/auto.md` has what it was on each kind: near the
#: median for members of different kinds, and nearer to the highest for resampled data and trees of
#: one forest, whose common errors would otherwise be taken for wrong labels.
LIKENESS: dict[PassesKind, float] = {
    "networks": 0.25, "heads": 0.5, "mc-dropout": 0.5, "ensemble": 0.5, "bootstrap": 0.7,
    "members": 0.65,
}  # fmt: skip
_UNKNOWN_LIKENESS = 0.5


@dataclass(frozen=True)
class Alternatives:
    """The label of each sample, and its most probable other class."""

    labels: Ints32
    """[N]"""
    other: Ints32
    """[N] the most probable class other than the label."""
    given: Singles
    """[N] the label's probability."""
    best: Singles
    """[N] the other class's probability."""

    @property
    def differs(self) -> NDArray[np.bool_]:
        """[N] True where the predicted class is not the label."""
        return self.best > self.given

    def compute_log_ratio(self, least: float) -> Floats:
        """[N] the log of the ratio of the other class's probability to the label's, each taken to
        be at least `least`."""
        best, label_probs = (
            np.maximum(p, least, dtype=np.float64) for p in (self.best, self.given)
        )
        best /= label_probs
        ratio: Floats = np.log(best, out=best)
        return ratio


@dataclass(frozen=True)
class SampleRows:
    """Rows of some samples, evenly spread over all."""

    rows: Singles
    """[n,K]"""
    labels: Ints32
    """[n]"""

    @property
    def least_probability(self) -> float:
        """Half of the smallest probability above 0. A class that none of fifteen neighbours has is
        not impossible: 0 is only less than the least that such a model can express."""
        smallest = self.rows.min(initial=1.0, where=self.rows > 0)
        return max(float(smallest) / 2, LEAST_PROBABILITY)

    def merge_with(self, other: SampleRows) -> SampleRows:
        """These rows, followed by those of later samples."""
        return SampleRows(
            np.concatenate([self.rows, other.rows]), np.concatenate([self.labels, other.labels])
        )


def choose_step(N: int, K: int) -> int:
    """The step between the samples that `SampleRows` holds, of N."""
    return max(1, N // min(QUANTILE_ROWS, max(QUANTILE_VALUES // K, 1)))


@dataclass(frozen=True)
class Calibration:
    """The power of the probabilities under which the labels are most likely, if a share of the
    labels is spread evenly over the classes."""

    power: float
    even_share: float
    log_likelihood: float
    """Per sample."""

    @classmethod
    def fit(cls, sample: SampleRows) -> Calibration:
        """Search by halving the step of the power; the evenly spread share is fitted for each
        power."""
        n, K = sample.rows.shape
        fit_rows = slice(None, None, max(1, n // min(FIT_ROWS, max(FIT_ROWS * 100 // K, 500))))
        powers = LabelPowers(sample.rows[fit_rows], sample.labels[fit_rows])
        fits: dict[float, Calibration] = {}

        def at(exponent: float) -> Calibration:
            if exponent not in fits:  # after a step forward, one direction was already tried
                powers_of_label = powers.raise_to(2.0**exponent)
                fits[exponent] = cls(2.0**exponent, *_fit_even_share(powers_of_label, K))
            return fits[exponent]

        best_at, step = 0.0, 2.0
        best = at(best_at)
        while step > 0.05:
            trials = [(at(x), x) for x in (best_at - step, best_at + step) if abs(x) <= 4]
            best_fit, x = max(trials, key=lambda pair: pair[0].log_likelihood)
            if best_fit.log_likelihood > best.log_likelihood:
                best, best_at = best_fit, x
            else:
                step /= 2
        return best


class LabelPowers:
    """The labels' probabilities where all are raised to a power and their sum is 1 again.

    The sums over classes are in single precision, relative to the most probable class: that moves
    the mean log-likelihood by less than 1e-7, far less than two powers that are compared differ by.
    """

    def __init__(self, rows: Singles, labels: Ints32) -> None:
        """Of probabilities [n,K]."""
        logs = np.maximum(rows.T, LEAST_PROBABILITY, dtype=np.float64, order="C")  # [K,n]
        np.log(logs, out=logs)
        logs -= logs.max(axis=0)
        self._label: Floats = logs[labels, np.arange(len(labels))]
        self._every: Singles = logs.astype(np.float32)

    def raise_to(self, power: float) -> Floats:
        """[n] the probability of the label."""
        powers = self._every * np.float32(power)
        np.exp(powers, out=powers)
        label_share: Floats = np.exp(power * self._label) / powers.sum(axis=0, dtype=np.float64)
        return label_share


def _fit_even_share(label_share: Floats, K: int) -> tuple[float, float]:
    """The share d that makes (1 - d) given + d / K most likely, and the mean log-likelihood.

    Newton's steps on a concave function, halved where they would leave (0, 1).
    """
    change, share = 1 / K - label_share, 0.02
    base = label_share + LEAST_PROBABILITY
    for _ in range(12):
        slope = change / (base + share * change)
        step = float(slope.sum()) / max(float(slope @ slope), 1e-300)
        before, share = share, min(max(share + step, share / 4), (1 + share) / 2)
        if abs(share - before) <= 1e-14:
            break
    likelihood = np.log(base + share * change)
    return float(share), float(likelihood.mean())


@dataclass(frozen=True)
class Quantiles:
    """For each predicted class and each other class, the bounds of the bands of improbable values.

    With many classes all predicted classes have the same quantiles (G = 1).
    """

    limits: Singles
    """[B,G,K] the highest probability of each band."""
    shares: Floats
    """[B,G,K] the share of samples in each band, which is larger where probabilities are equal."""

    @classmethod
    def of(cls, sample: SampleRows) -> Quantiles:
        rows, K = sample.rows, sample.rows.shape[1]
        G, B = K if K <= PAIR_CLASSES else 1, len(BANDS)
        limits, shares = np.full((B, G, K), -1, np.float32), np.zeros((B, G, K))
        columns = rows.T.copy()  # [K,n]
        group = find_largest(columns) if G > 1 else np.zeros(len(rows), np.int64)
        order = np.argsort(group.astype(np.int16), kind="stable")  # which is linear in 16 bits
        starts = [0, *np.cumsum(np.bincount(group, minlength=G)).tolist()]
        columns = columns.take(order, axis=1)  # the samples of a group side by side
        for g in range(G):
            n = starts[g + 1] - starts[g]
            if n < LEAST_ROWS:
                continue
            sorted_values = np.sort(columns[:, starts[g] : starts[g + 1]], axis=1)
            ends = [math.ceil(part * n) for part in BANDS]
            below = np.array([_count_up_to(sorted_values, end) for end in ends]) / n
            limits[:, g] = sorted_values[:, [end - 1 for end in ends]].T
            shares[:, g] = below
            shares[1:, g] -= below[:-1]
        if G > 1:
            shares[:, np.arange(K), np.arange(K)] = 0  # a predicted class is no other class
        return cls(limits, shares)


def _count_up_to(values: Singles, n: int) -> Ints:
    """[K] how many of the sorted values [K,N] are up to the n-th of their row: n, or more if later
    ones equal it."""
    counts = np.full(len(values), n, np.int64)
    if n < values.shape[1]:
        ties = np.flatnonzero(values[:, n] == values[:, n - 1])
        if len(ties) > 16:
            counts[ties] = np.count_nonzero(values[ties] <= values[ties, n - 1, None], axis=1)
        else:
            counts[ties] = [np.searchsorted(row, row[n - 1], "right") for row in values[ties]]
    return counts


@dataclass(frozen=True)
class BandCounts:
    """Labels that are not the predicted class, by how improbable the model finds them; adds up
    over parts of the samples."""

    predicted: Ints
    """[K] samples by predicted class."""
    differing: int
    """Labels that are not the predicted class."""
    hits: Ints
    """[B,G,K] those in each band, by predicted class and label."""

    @classmethod
    def of(cls, alternatives: Alternatives, quantiles: Quantiles) -> BandCounts:
        _, G, K = quantiles.limits.shape
        differs = alternatives.differs
        predicted = np.where(differs, alternatives.other, alternatives.labels)
        labels, given = alternatives.labels[differs], alternatives.given[differs]
        group = alternatives.other[differs] if G > 1 else np.zeros(len(labels), np.int32)
        key = group.astype(np.int64) * K + labels
        below = [
            np.bincount(key[given <= limit[group, labels]], minlength=G * K).reshape(G, K)
            for limit in quantiles.limits
        ]
        hits = np.diff(below, axis=0, prepend=0)
        return cls(np.bincount(predicted, minlength=K), len(labels), hits)

    def merge_with(self, other: BandCounts) -> BandCounts:
        return BandCounts(
            self.predicted + other.predicted,
            self.differing + other.differing,
            self.hits + other.hits,
        )


@dataclass(frozen=True)
class Structure:
    """What the labels that the model finds impossible show about the noise."""

    log_ratio: Floats | None
    """[K,K] true x given: how much more often this pair is mistaken than pairs are in the mean, as
    a logarithm; None where nothing speaks for favourites."""
    level: float
    """The number of wrong labels if noise is everywhere as frequent as among the least probable
    labels."""
    evenness: float = 0.0
    """From 0 to 1: how sure it is that noise does not depend on the sample."""

    @classmethod
    def of(cls, counts: BandCounts, quantiles: Quantiles) -> Structure:
        """A pair's count is Poisson, and its rate is drawn from a gamma distribution whose mean and
        variance are estimated by moments; the posterior mean shrinks it accordingly. Pairs favoured
        by the noise are as strong in the least probable fifth as in the next one. Pairs favoured by
        the model's own confusions are stronger in the next one, so the ratio of the variances says
        how far to believe them.
        """
        N, K = int(counts.predicted.sum()), len(counts.predicted)
        G = counts.hits.shape[1]
        samples = counts.predicted[:, None] if G > 1 else np.array([[N]])
        expected = quantiles.shares * samples  # [B,G,K] samples in each band
        # One more was seen: none is no proof that there are none.
        rates = (counts.hits.sum(axis=(1, 2)).cumsum() + 1) / np.maximum(
            expected.sum(axis=(1, 2)).cumsum(), 1
        )
        level = min(float(rates.min()) * N * (K - 1), counts.differing)
        evenness = _measure_evenness(counts.hits, expected)
        if G == 1:
            return cls(None, level, evenness)
        (spread, mean), (next_spread, _) = (
            _estimate_excess_variance(counts.hits[band], expected[band]) for band in (0, 1)
        )
        if spread <= 0 or expected[1].sum() < expected[0].sum() / 10:
            return cls(None, level, evenness)
        weight = BELIEVED * min(1.0, spread / max(next_spread, 1e-300))
        strength = mean**2 / spread
        ratio = (counts.hits[0] + strength) / (expected[0] * mean + strength)
        return cls(weight * np.log(ratio), level, evenness)


def _measure_evenness(hits: Ints, expected_hits: Floats) -> float:
    """Noise by class is as frequent in the least probable fifth as in the next one. The model's own
    errors, and wrong labels of hard samples, are more frequent in the next one."""
    first, second = ((hits[band].sum() + 1) / max(expected_hits[band].sum(), 1) for band in (0, 1))
    n = float(hits[0].sum())
    return float(min(1.0, first / second) ** EVENNESS_POWER * n / (n + EVENNESS_HITS))


def _estimate_excess_variance(hits: Ints, expected_hits: Floats) -> tuple[float, float]:
    """The variance of the pairs' rates beyond chance, less its own standard error; and the mean
    rate."""
    is_possible = expected_hits > 0
    n, hit = expected_hits[is_possible], hits[is_possible]
    rate = (hit.sum() + 0.5) / (n.sum() + 1)
    mean = n * rate
    by_chance = np.sqrt((2 * mean**2 + mean).sum())
    excess = ((hit - mean) ** 2 - mean).sum() - by_chance
    return float(excess / max(float((n**2).sum()), 1e-300)), float(rate)


@dataclass(frozen=True)
class VoteCounts:
    """How often passes contradict the label and each other; adds up over parts of the samples."""

    with_label: int
    with_each_other: int
    n_passes: int
    samples: int

    def merge_with(self, other: VoteCounts) -> VoteCounts:
        return VoteCounts(
            self.with_label + other.with_label,
            self.with_each_other + other.with_each_other,
            self.n_passes,
            self.samples + other.samples,
        )

    def estimate_errors(self, kind: PassesKind | None) -> float:
        """The number of wrong labels if members and labels err independently, up to the similarity
        of members of this kind.

        Two members contradict each other where one errs and the other does not: 2 e (1 - a), for an
        error rate e and similarity a. A member contradicts the label in e of the samples and,
        besides those, where the label is wrong.
        """
        likeness = LIKENESS.get(kind, _UNKNOWN_LIKENESS) if kind else _UNKNOWN_LIKENESS
        F = self.n_passes
        label = self.with_label / F
        members = self.with_each_other / max(F * (F - 1) / 2, 1)
        return label - members / 2 / (1 - likeness)
