"""Tiers: how certain it is that a label is wrong, in steps that people understand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.estimate import ErrorEstimate

#: In this order; a sample in no tier has an empty name.
TIERS = ("almost certainly wrong", "probably wrong", "possibly wrong", "worth a look")
#: A label is almost certainly wrong if every explanation with a weight gives at least this
#: probability.
CERTAIN_PROBABILITY = 0.9
#: A label is probably wrong if that is more likely than not.
PROBABLE = 0.5
#: An unflagged sample is worth a look from this probability on: one look in five finds an error.
WORTH = 0.2


def assign_tiers(estimate: ErrorEstimate, mask: NDArray[np.bool_]) -> NDArray[np.int8]:
    """[N] each sample's number in `TIERS`, or -1.

    In this order: flags on which all explanations agree, other flags more likely wrong than right,
    the remaining flags, and the next samples of the ranking.
    """
    counting = [estimate.readings[name] for name, weight in estimate.weights.items() if weight > 0]
    is_certain = np.min(counting, axis=0) >= CERTAIN_PROBABILITY
    if estimate.known is not None:
        is_certain = np.where(estimate.known < 0, is_certain, estimate.known == 1)
        if estimate.correction is not None:  # verdicts outweigh explanations
            is_certain &= estimate.probability >= CERTAIN_PROBABILITY
    is_probable = estimate.probability >= PROBABLE
    tiers = np.where(estimate.probability >= WORTH, np.int8(3), np.int8(-1))
    tiers[mask] = np.where(is_certain[mask], 0, np.where(is_probable[mask], 1, 2))
    return tiers


def name_tiers(tiers: NDArray[np.int8]) -> NDArray[Any]:
    """[N] their names, empty for no tier."""
    return np.array([*TIERS, ""], object)[tiers]
