"""Where to cut a ranking by probability, from sums per level of probability.

A set of flags is everything above some level. Probabilities are rounded to levels of 2^-16, and
sums are of whole units of 2^-32, so that the sums of parts of the samples add up to those of all,
in any order, and the cut is the same however the samples are divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVELS = 2**16
UNITS = 2.0**32
#: This many probabilities in integer units add up exactly in floating point: below 2^53.
_EXACT_SAMPLES = 2**20


def find_levels(probability: Floats) -> Ints:
    """[N] level of each probability, the highest for certainty.

    >>> find_levels(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 32768, 65535]
    """
    return np.minimum((probability * LEVELS).astype(np.int64), LEVELS - 1)


def to_units(values: Floats) -> Ints:
    """[N] probabilities in whole units, whose sums are exact."""
    return _round_to_units(values).astype(np.int64)


def _round_to_units(values: Floats) -> Floats:
    """[N] the same as whole numbers in floating point."""
    units: Floats = values * UNITS
    return np.rint(units, out=units)


@dataclass(frozen=True)
class Levels:
    """The number of samples at each level, and the number of errors that each reading expects among
    them."""

    counts: Ints
    """[LEVELS]"""
    errors: dict[str, Ints]
    """Reading -> [LEVELS] sum of its probabilities, in units."""

    @classmethod
    def of(cls, probability: Floats, readings: Mapping[str, Floats]) -> Levels:
        """Count samples ranked by `probability` [N]; `readings` [N] are probabilities too."""
        at = find_levels(probability)
        counts = np.bincount(at, minlength=LEVELS).astype(np.int64)
        errors = {name: np.zeros(LEVELS, np.int64) for name in readings}
        for start in range(0, len(at), _EXACT_SAMPLES):
            part = slice(start, start + _EXACT_SAMPLES)
            for name, values in readings.items():
                sums = np.bincount(at[part], _round_to_units(values[part]), LEVELS)
                errors[name] += sums.astype(np.int64)
        return cls(counts, errors)

    def merge_with(self, other: Levels) -> Levels:
        """These counts plus those of other samples."""
        errors = {name: sums + other.errors[name] for name, sums in self.errors.items()}
        return Levels(self.counts + other.counts, errors)

    def _sum_down(self, sums: Ints) -> Floats:
        """The cumulative sums from the highest level down."""
        return np.cumsum(sums[::-1]).astype(np.float64)

    def best_f1(self, weights: Mapping[str, float]) -> int:
        """The lowest level to flag for the highest F1, in the weighted mean of the readings.

        If a reading is right, a set of k has an F1 of 2 (errors in it) / (k + all errors).
        """
        # At an empty level, a lower cut changes nothing.
        filled_levels = np.flatnonzero(self.counts)
        if not len(filled_levels):
            return LEVELS
        k = self._sum_down(self.counts[filled_levels])
        mean = np.zeros(len(filled_levels))
        for name, weight in weights.items():
            if weight:
                hits = self._sum_down(self.errors[name][filled_levels]) / UNITS
                mean += weight * 2 * hits / np.maximum(k + hits[-1], 1e-300)
        best = int(mean.argmax())
        return int(filled_levels[len(filled_levels) - 1 - best]) if mean[best] > 0 else LEVELS

    def at_precision(self, name: str, precision: float) -> int:
        """The lowest level at which at least this share of the flags is expected to be real."""
        k, hits = self._sum_down(self.counts), self._sum_down(self.errors[name]) / UNITS
        reaching = np.flatnonzero((k > 0) & (hits >= precision * k))
        return LEVELS - 1 - int(reaching[-1]) if len(reaching) else LEVELS

    def at_recall(self, name: str, recall: float) -> int:
        """The highest level at which at least this share of the errors is expected to be
        flagged."""
        hits = self._sum_down(self.errors[name]) / UNITS
        reaching = np.flatnonzero(hits >= recall * hits[-1] * (1 - 1e-12))
        return LEVELS - 1 - int(reaching[0])
