"""How sure it is that a label is wrong, in steps that people understand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.estimate import ErrorEstimate

#: In this order; a sample of none of them has an empty name.
TIERS = ("almost certainly wrong", "probably wrong", "possibly wrong", "worth a look")
#: Each explanation that counts gives at least this probability to what is almost certainly wrong.
CERTAIN_PROBABILITY = 0.9
#: What is probably wrong is rather wrong than right.
PROBABLE = 0.5
#: What is not flagged is worth a look from this probability on: one look in five finds an error.
WORTH = 0.2


def assign_tiers(estimate: ErrorEstimate, mask: NDArray[np.bool_]) -> NDArray[np.int8]:
    """[N] each sample's number in `TIERS`, or -1.

    Flags on which all explanations agree, the other flags that are rather wrong than right, the
    rest of the flags, and what comes next in the ranking.
    """
    counting = [estimate.readings[name] for name, weight in estimate.weights.items() if weight > 0]
    is_certain = np.min(counting, axis=0) >= CERTAIN_PROBABILITY
    if estimate.known is not None:
        is_certain = np.where(estimate.known < 0, is_certain, estimate.known == 1)
        if estimate.correction is not None:  # verdicts know better than explanations
            is_certain &= estimate.probability >= CERTAIN_PROBABILITY
    is_probable = estimate.probability >= PROBABLE
    tiers = np.where(estimate.probability >= WORTH, np.int8(3), np.int8(-1))
    tiers[mask] = np.where(is_certain[mask], 0, np.where(is_probable[mask], 1, 2))
    return tiers


def name_tiers(tiers: NDArray[np.int8]) -> NDArray[Any]:
    """[N] their names, empty for no tier."""
    return np.array([*TIERS, ""], object)[tiers]
