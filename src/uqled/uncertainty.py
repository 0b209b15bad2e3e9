"""Measures of the model's uncertainty: one number per sample, from probabilities or from several
passes.

All in nats. `passes` [F,N,K] are out-of-sample probabilities of F stochastic passes (Monte Carlo
dropout, an ensemble, or any other source of model uncertainty).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled import arrays
from uqled.errors import InputError

#: The kinds of passes: dropout passes of one network, networks of different seeds, networks of
#: different architectures, different heads on the same features, one model fitted to resampled
#: data, groups of a forest's trees.
PassesKind = Literal["mc-dropout", "ensemble", "networks", "heads", "bootstrap", "members"]

Floats = NDArray[np.float64]

_ROWS = 8_192  # rows worked on at a time, so that nothing of size N x K is copied


def check_passes_kind(kind: str | None) -> PassesKind | None:
    """The kind of the passes, where it is known.

    >>> check_passes_kind("heads")
    'heads'
    """
    for known_kind in get_args(PassesKind):
        if kind == known_kind:
            return known_kind  # type: ignore[no-any-return]
    if kind is None:
        return None
    choices = ", ".join(map(repr, get_args(PassesKind)))
    raise InputError("passes_kind", f"is {kind!r}", f"Pass one of {choices}, or None")


def mean(passes: ArrayLike) -> Floats:
    """[N,K] mean over the passes [F,N,K]."""
    mean: Floats = np.mean(arrays.check_passes(passes), axis=0, dtype=np.float64)
    return mean


def entropy(pred_probs: ArrayLike) -> Floats:
    """[N] entropy of each row of `pred_probs` [N,K]; 0 log 0 is 0.

    >>> entropy([[0.5, 0.5], [1.0, 0.0]]).round(6).tolist()
    [0.693147, 0.0]
    """
    probs = arrays.check_pred_probs(pred_probs)
    return _map_rows(len(probs), lambda rows: _compute_entropy(probs[rows]))


def mutual_information(passes: ArrayLike) -> Floats:
    """[N] entropy of the mean minus mean entropy of the passes [F,N,K].

    Zero if all passes agree; ln 2 if half of them are certain of one class and half of another.

    >>> mutual_information([[[1.0, 0.0]], [[0.0, 1.0]]]).round(6).tolist()
    [0.693147]
    """
    probs = arrays.check_passes(passes)

    def measure(rows: slice) -> Floats:
        block = probs[:, rows]
        total = _compute_entropy(block.mean(axis=0, dtype=np.float64))  # [n]
        within = _compute_entropy(block).mean(axis=0)  # [F,n] -> [n]
        information: Floats = np.maximum(total - within, 0.0)
        return information

    return _map_rows(probs.shape[1], measure)


def margin(pred_probs: ArrayLike) -> Floats:
    """[N] difference of the two largest probabilities of each row of `pred_probs` [N,K].

    >>> margin([[0.7, 0.1, 0.2], [0.5, 0.5, 0.0]]).round(6).tolist()
    [0.5, 0.0]
    """
    probs = arrays.check_pred_probs(pred_probs)

    def measure(rows: slice) -> Floats:
        second, first = np.partition(probs[rows].astype(np.float64), -2, axis=1)[:, -2:].T
        difference: Floats = first - second
        return difference

    return _map_rows(len(probs), measure)


def standard_deviation(passes: ArrayLike) -> Floats:
    """[N] standard deviation over the passes [F,N,K] of the probability of the predicted class,
    which is that of their mean.

    >>> standard_deviation([[[0.9, 0.1]], [[0.7, 0.3]]]).round(6).tolist()
    [0.1]
    """
    probs = arrays.check_passes(passes)

    def measure(rows: slice) -> Floats:
        block = probs[:, rows].astype(np.float64)
        predicted = block.mean(axis=0).argmax(axis=1)  # [F,n,K] -> [n]
        deviation: Floats = block[:, np.arange(len(predicted)), predicted].std(axis=0)
        return deviation

    return _map_rows(probs.shape[1], measure)


def variation_ratio(passes: ArrayLike) -> Floats:
    """[N] share of the passes [F,N,K] whose predicted class is not the most frequent one.

    >>> variation_ratio([[[0.9, 0.1]], [[0.8, 0.2]], [[0.3, 0.7]]]).round(6).tolist()
    [0.333333]
    """
    probs = arrays.check_passes(passes)

    def measure(rows: slice) -> Floats:
        votes = probs[:, rows].argmax(axis=2)  # [F,n]
        agree = (votes[:, None, :] == votes[None, :, :]).sum(axis=0)  # [F,n]
        most: NDArray[Any] = agree.max(axis=0)
        return 1.0 - most / len(votes)

    return _map_rows(probs.shape[1], measure)


def _compute_entropy(probs: NDArray[Any]) -> Floats:
    p = probs.astype(np.float64, copy=False)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy: Floats = np.maximum(-np.einsum("...k,...k->...", p, logs), 0.0)  # [...,K] -> [...]
    return entropy


def _map_rows(n: int, measure: Callable[[slice], Floats]) -> Floats:
    return np.concatenate([measure(slice(at, at + _ROWS)) for at in range(0, n, _ROWS)])
