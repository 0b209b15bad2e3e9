"""Learning rates over a training, and a seed for each of its random draws. Needs no torch."""

from __future__ import annotations

import math

import numpy as np

from uqled.predict.training_options import Training

_RISE = 0.25  # of a one-cycle training, until the highest rate
_FIRST_RATE = 0.04  # of the highest
_MOMENTUM_SWING = 0.05  # up and down from the momentum given


def mix_seed(seed: int, *keys: int) -> int:
    """A seed of its own for each use."""
    # SeedSequence takes (s, 1) and (s, 1, 0) for the same, so the number of keys goes in too.
    return int(np.random.SeedSequence([seed, len(keys), *keys]).generate_state(1)[0])


def schedule_rate(training: Training, epoch: float) -> tuple[float, float]:
    """(learning rate, momentum) after this many epochs, which need not be whole.

    One-cycle: the rate rises for a quarter and falls to zero, and the momentum does the opposite,
    so that the steps stay of a size where the rate is high.
    """
    if training.schedule == "steps":
        n_milestones = sum(epoch >= milestone for milestone in training.milestones)
        return training.lr * 0.1**n_milestones, training.momentum
    share = epoch / training.epochs
    if share < _RISE:
        high = _ease_rate(_FIRST_RATE, 1.0, share / _RISE)
    else:
        high = _ease_rate(1.0, 0.0, (share - _RISE) / (1 - _RISE))
    swing = min(_MOMENTUM_SWING, training.momentum, 1 - training.momentum)
    return training.lr * high, training.momentum + swing * (1 - 2 * high)


def _ease_rate(start: float, end: float, share: float) -> float:
    """From start to end along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
