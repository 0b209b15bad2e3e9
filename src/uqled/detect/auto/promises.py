"""A lower bound on how many of some labels are wrong, stated before they are changed unseen.

The interval of `ErrorEstimate.sum_over` is symmetric. That is too short on the low side where
nearly all labels are expected to be wrong: an odds correction learnt from a few dozen verdicts may
turn 98% into 85%, never into 110%. Here the number is predicted as a mixture over the readings and
over odds corrections, each weighted by its probability given the verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate
from uqled.detect.auto.estimate import ErrorEstimate

Floats = NDArray[np.float64]

_STEPS = np.linspace(-4, 4, 13)  # standard deviations of slope and shift
_MIN_PROBABILITY = 0.01  # no reading is more certain, as in `ErrorEstimate`
_SLIP = 0.001  # the smallest probability of a verdict: a verdict may be a slip
_BINS = 256  # of probabilities, by log-odds
_NEGLIGIBLE = 1e-6  # weight of an explanation that cannot move a promise


def promise_errors(
    estimate: ErrorEstimate, groups: Sequence[NDArray[np.intp]], *, confidence: float
) -> list[Estimate]:
    """For each group of undecided samples, how many labels are wrong: the estimate, and a lower
    bound with this confidence."""
    corrections = _Corrections.fit(estimate)
    total = sum(estimate.spread.values())
    weights = {k: w / total for k, w in estimate.spread.items() if w > _NEGLIGIBLE * total}
    promises = []
    for group in groups:
        mask = np.zeros(len(estimate.probability), np.bool_)
        mask[group] = True
        errors = estimate.sum_over(mask, confidence=confidence)
        n_right = [corrections.count_right(estimate.readings[k][group]) for k in weights]
        all_weights = np.concatenate([weight * corrections.weights for weight in weights.values()])
        most = _find_quantile(np.concatenate(n_right), all_weights, confidence, len(group))
        low = min(errors.value, float(len(group) - most))
        promises.append(Estimate(errors.value, low, errors.high))
    return promises


def find_alike_verdicts(
    estimate: ErrorEstimate, samples: NDArray[np.intp], decided_at_random: NDArray[np.intp]
) -> NDArray[np.int8]:
    """[m] the verdicts (1 wrong, 0 right) on randomly drawn samples that are as suspect as
    `samples` [n], whatever was decided about them."""
    assert estimate.known is not None
    forecast = estimate.forecast
    low, high = forecast[samples].min(), forecast[samples].max()
    of_random = forecast[decided_at_random]
    is_alike = (of_random >= low) & (of_random <= high)
    verdicts: NDArray[np.int8] = estimate.known[decided_at_random[is_alike]]
    return verdicts


def bound_errors(verdicts: NDArray[np.int8], n: int, *, confidence: float) -> float:
    """A lower bound on how many of n labels are wrong, from verdicts [m] on similar samples alone.

    The share of right labels is a priori anything, by Jeffreys; the number of right ones among n is
    then beta-binomial.
    """
    from scipy.stats import betabinom

    n_right = int(np.count_nonzero(verdicts == 0))
    number = betabinom(n, n_right + 0.5, len(verdicts) - n_right + 0.5)
    return float(n - number.ppf(confidence))


@dataclass(frozen=True)
class _Corrections:
    """Possible odds corrections, and the probability of each."""

    slopes: Floats
    shifts: Floats
    least: float
    """As in `OddsCorrection`."""
    weights: Floats

    @classmethod
    def fit(cls, estimate: ErrorEstimate) -> _Corrections:
        """Corrections around the best fit, weighted by the verdicts. The fit's own covariance is
        not enough: if all verdicts say `wrong`, it does not exclude corrections that would make
        half of them right."""
        best, verdicts = estimate.correction, estimate.evidence
        if best is None or verdicts is None:
            return cls(np.ones(1), np.zeros(1), 0.0, np.ones(1))
        root = np.linalg.cholesky(best.covariance)
        grid = np.stack([part.ravel() for part in np.meshgrid(_STEPS, _STEPS)])
        slopes, shifts = np.array([[best.slope], [best.shift]]) + root @ grid
        log_weights = -((slopes - 1) ** 2 + shifts**2) / 2  # the prior of `OddsCorrection.fit`
        all_equal = cls(slopes, shifts, best.least, log_weights)
        is_known, total = verdicts >= 0, sum(estimate.weights.values())
        forecast = np.zeros(int(np.count_nonzero(is_known)))
        for name, weight in estimate.weights.items():
            forecast += weight / total * estimate.readings[name][is_known]
        for verdict in (0, 1):
            values, counts = _count_values(forecast[verdicts[is_known] == verdict])
            p = np.clip(all_equal.apply(values), _SLIP, 1 - _SLIP)
            log_weights += np.log(p if verdict else 1 - p) @ counts
        weights = np.exp(log_weights - log_weights.max())
        weights[weights < _NEGLIGIBLE] = 0
        has_weight = weights > 0
        return cls(
            slopes[has_weight], shifts[has_weight], best.least, weights[has_weight] / weights.sum()
        )

    def apply(self, probability: Floats) -> Floats:
        """[m,n] the probabilities [n] after each correction."""
        p = np.clip(np.maximum(probability, self.least), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        odds = np.log(p / (1 - p))
        share = np.minimum(probability / self.least, 1.0) if self.least else np.ones(1)
        corrected: Floats = share / (
            1 + np.exp(-(self.slopes[:, None] * odds + self.shifts[:, None]))
        )
        return corrected

    def count_right(self, probability: Floats) -> Floats:
        """[m] how many labels with these error probabilities [n] are right after each
        correction."""
        values, counts = _count_values(probability)
        n_right: Floats = (1 - self.apply(values)) @ counts
        return n_right


def _count_values(values: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """(probabilities, the number of values at each): a hundred thousand values need only a few
    hundred logarithms."""
    if len(values) <= _BINS:
        return values, np.ones(len(values), np.intp)
    p = np.clip(values, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    largest = np.log(1 / _MIN_PROBABILITY - 1)
    at = np.round((np.log(p / (1 - p)) / largest + 1) * (_BINS / 2)).astype(np.intp)
    counts = np.bincount(at, minlength=_BINS + 1)
    filled_bins = np.flatnonzero(counts)
    return 1 / (1 + np.exp(-(filled_bins * (2 / _BINS) - 1) * largest)), counts[filled_bins]


def _find_quantile(expected: Floats, weights: Floats, share: float, n: int) -> int:
    """The least number that a mixture of Poisson distributions exceeds with at most this
    probability."""
    from scipy.special import pdtr

    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if weights @ pdtr(middle, expected) >= share:
            high = middle
        else:
            low = middle + 1
    return low
