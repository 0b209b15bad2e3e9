"""`cleanlab.rank`: how well each label fits, and orders by it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.compat.inputs import (
    check_labels,
    check_probabilities,
    compute_thresholds,
    find_class_members,
)
from uqled.detect.core.kernels import SLACK
from uqled.errors import InputError

RANKINGS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def get_label_quality_scores(
    labels: Any,
    pred_probs: NDArray[Any],
    *,
    method: str = "self_confidence",
    adjust_pred_probs: bool = False,
) -> NDArray[Any]:
    """[N] how well each label fits, from 0 to 1; lower = more suspect."""
    _check_ranking(method, "method")
    codes = check_labels(labels, one_class=True)
    probs = check_probabilities(pred_probs, codes)
    return compute_scores(method, codes, probs, adjust_pred_probs=adjust_pred_probs)


def get_self_confidence_for_each_label(labels: Any, pred_probs: NDArray[Any]) -> NDArray[Any]:
    """[N] the probability of each sample's own label; lower = more suspect."""
    return get_label_quality_scores(labels, pred_probs)


def get_normalized_margin_for_each_label(labels: Any, pred_probs: NDArray[Any]) -> NDArray[Any]:
    """[N] the margin of the label's probability over the best other class, from 0 to 1; lower =
    more suspect."""
    return get_label_quality_scores(labels, pred_probs, method="normalized_margin")


def get_confidence_weighted_entropy_for_each_label(
    labels: Any, pred_probs: NDArray[Any]
) -> NDArray[Any]:
    """[N] the label's probability weighted by the entropy of all classes; lower = more suspect."""
    return get_label_quality_scores(labels, pred_probs, method="confidence_weighted_entropy")


def order_label_issues(
    label_issues_mask: NDArray[Any],
    labels: Any,
    pred_probs: NDArray[Any],
    *,
    rank_by: str = "self_confidence",
    rank_by_kwargs: dict[str, Any] | None = None,
) -> NDArray[np.intp]:
    """The indices of the issues, most suspect first."""
    mask = np.asarray(label_issues_mask)
    if mask.dtype != np.bool_ or mask.shape != (len(labels),):
        raise InputError(
            "label_issues_mask",
            f"is {mask.dtype} of shape {mask.shape} for {len(labels)} labels",
            "Pass one bool per label",
        )
    _check_ranking(rank_by, "rank_by")
    scores = get_label_quality_scores(labels, pred_probs, method=rank_by, **(rank_by_kwargs or {}))
    return np.flatnonzero(mask)[np.argsort(scores[mask])]


def find_top_issues(quality_scores: NDArray[Any], *, top: int = 10) -> NDArray[np.intp]:
    """The indices of the lowest scores, lowest first."""
    if top <= 0:
        raise InputError("top", f"is {top}", "Pass a positive number")
    return np.argsort(quality_scores)[:top]


def _check_ranking(name: str, argument: str) -> None:
    if name not in RANKINGS:
        raise InputError(argument, f"is {name!r}", f"Choose one of {', '.join(RANKINGS)}")


def compute_scores(
    method: str, labels: NDArray[Any], probs: NDArray[Any], *, adjust_pred_probs: bool = False
) -> NDArray[Any]:
    """[N] label quality, in the input's own precision."""
    if adjust_pred_probs:
        if method == "confidence_weighted_entropy":
            raise InputError(
                "adjust_pred_probs", f"is True with {method}", "Use it with another ranking"
            )
        thresholds = compute_thresholds(probs, find_class_members(labels, probs.shape[1]))
        probs = probs - thresholds
        probs += thresholds.max()
        probs /= probs.sum(axis=1, keepdims=True)
    N, K = probs.shape
    self_confidence: NDArray[Any] = probs[np.arange(N), labels]
    if method == "self_confidence":
        return self_confidence
    if method == "normalized_margin":
        other = np.empty_like(self_confidence)
        for start in range(0, N, 65_536):
            block = probs[start : start + 65_536].copy()
            block[np.arange(len(block)), labels[start : start + 65_536]] = -np.inf
            other[start : start + 65_536] = block.max(axis=1)
        margin: NDArray[Any] = (self_confidence - other + 1) / 2
        return margin
    from scipy.special import xlogy

    entropy = -np.sum(xlogy(probs, probs), axis=1) / np.log(K)
    ratio = entropy / np.clip(self_confidence, SLACK, None)
    quality: NDArray[Any] = np.log(ratio + 1) / np.clip(ratio, SLACK, None)
    return quality
