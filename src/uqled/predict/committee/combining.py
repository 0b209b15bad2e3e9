"""From the members' out-of-fold probabilities to one prediction: calibrated, weighted, calibrated.

Every fold's parameters are fitted on the other folds, so that no sample's label has a say in its
own prediction. Each member gets a temperature, the weights are those of a mixture that makes the
given labels most likely, and the mixture gets a temperature too: an average is underconfident.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from uqled.engines.local import Threads, count_cores

Floats = NDArray[np.float64]

_FITTED_ROWS = 20_000  # of the labels, at most, for each parameter: plenty for a handful of numbers
_FLOOR = 1e-4  # share of the classes' frequencies in every probability: no member is certain
_MOST_THREADS = 4  # each has a copy of the members in memory
_STEPS = 60  # of the mixture's weights
_LOG_TEMPERATURES = (-2.5, 2.5)


@dataclass(frozen=True)
class Combination:
    """The committee's prediction, and the weight of each member."""

    pred_probs: NDArray[np.float32]
    """[N,K]"""
    passes: NDArray[np.float32]
    """[H,N,K] the calibrated members."""
    weights: Floats
    """[H] mean over the folds; they add up to 1."""


def combine_members(
    members: NDArray[np.floating], labels: NDArray[np.integer], folds: NDArray[np.integer]
) -> Combination:
    """Members [H,N,K], labels [N] and the fold [N] that held out each sample."""
    H, N, K = members.shape
    pred_probs = np.empty((N, K), np.float32)
    passes = np.empty((H, N, K), np.float32)

    def combine(fold: int) -> Floats:
        """Write one fold's predictions, and return its weights."""
        test = np.flatnonzero(folds == fold)
        fit_rows = _choose_fit_rows(np.flatnonzero(folds != fold))
        y = labels[fit_rows]
        prior = (np.bincount(labels[folds != fold], minlength=K) + 0.5).astype(np.float64)
        prior /= prior.sum()
        smoothed = np.stack([_smooth_probabilities(member[fit_rows], prior) for member in members])
        temperatures = [fit_temperature(one, y) for one in smoothed]
        calibrated_probs = np.stack(
            [apply_temperature(one, t) for one, t in zip(smoothed, temperatures, strict=True)]
        )
        weight = fit_mixture(calibrated_probs[:, np.arange(len(y)), y])
        last = fit_temperature(np.tensordot(weight, calibrated_probs, axes=1), y)
        held_out = np.stack(
            [
                apply_temperature(_smooth_probabilities(m[test], prior), t)
                for m, t in zip(members, temperatures, strict=True)
            ]
        )
        passes[:, test] = held_out
        pred_probs[test] = apply_temperature(np.tensordot(weight, held_out, axes=1), last)
        return weight

    with Threads(min(count_cores(), _MOST_THREADS)) as engine:
        weights = list(engine.map(combine, np.unique(folds)))
    return Combination(pred_probs, passes, np.mean(weights, axis=0))


def apply_temperature(probabilities: Floats, temperature: float) -> Floats:
    """Probabilities [n,K] to the power of 1 / temperature, and normalised.

    >>> apply_temperature(np.array([[0.2, 0.8]]), 0.5).round(4).tolist()
    [[0.0588, 0.9412]]
    """
    logits = np.log(probabilities) / temperature
    logits -= logits.max(axis=1, keepdims=True)
    powers = np.exp(logits)
    normalised: Floats = powers / powers.sum(axis=1, keepdims=True)
    return normalised


def fit_temperature(probabilities: Floats, labels: NDArray[np.integer]) -> float:
    """The temperature at which the labels [n] are most likely."""
    logits, rows = np.log(probabilities), np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        scaled_logits = logits * np.exp(-log_temperature)
        scaled_logits -= scaled_logits.max(axis=1, keepdims=True)
        return float(
            np.mean(np.log(np.exp(scaled_logits).sum(axis=1)) - scaled_logits[rows, labels])
        )

    best = minimize_scalar(loss, bounds=_LOG_TEMPERATURES, method="bounded")
    return float(np.exp(best.x))


def fit_mixture(likelihoods: Floats) -> Floats:
    """[H] weights of a mixture under which the labels are most likely, by expectation steps.

    `likelihoods` [H,n] are the members' probabilities of each label.
    """
    weights = np.full(len(likelihoods), 1 / len(likelihoods))
    for _ in range(_STEPS):
        joint = weights[:, None] * likelihoods
        weights = (joint / joint.sum(axis=0)).mean(axis=1)
    return weights


def _smooth_probabilities(probabilities: NDArray[np.floating], prior: Floats) -> Floats:
    return (1 - _FLOOR) * probabilities.astype(np.float64) + _FLOOR * prior


def _choose_fit_rows(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    positions = np.linspace(0, len(rows) - 1, min(len(rows), _FITTED_ROWS)).astype(np.intp)
    return rows[positions]
