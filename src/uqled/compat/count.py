"""`cleanlab.count`: the confident joint, and what is estimated from it."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.compat.filter import find_label_issues
from uqled.compat.inputs import (
    check_labels,
    check_probabilities,
    compute_thresholds,
    find_class_members,
)
from uqled.compat.prune_counts import calibrate_matrix
from uqled.detect.core.kernels import SLACK
from uqled.errors import InputError

_MIN_DIVISOR = 1e-100  # the least divisor
_LEAST_PRIOR = 1e-6

Counts = NDArray[Any]


def get_confident_thresholds(labels: Any, pred_probs: NDArray[Any]) -> NDArray[Any]:
    """[K] the probability above which a sample counts as confidently of a class: the mean over
    the samples given that class."""
    codes = check_labels(labels, one_class=True)
    probs = check_probabilities(pred_probs, codes)
    return compute_thresholds(probs, find_class_members(codes, probs.shape[1]))


def compute_confident_joint(
    labels: Any,
    pred_probs: NDArray[Any],
    *,
    thresholds: Any = None,
    calibrate: bool = True,
    return_indices_of_off_diagonals: bool = False,
) -> Any:
    """[K,K] given x true: samples counted in each pair; calibrated, row i sums to the number of
    samples given i.

    With `return_indices_of_off_diagonals`, also the indices of samples counted off the diagonal.
    """
    codes = check_labels(labels, one_class=True)
    probs = check_probabilities(pred_probs, codes)
    K = probs.shape[1]
    if thresholds is None:
        thresholds = compute_thresholds(probs, find_class_members(codes, K))
    is_confident = probs >= np.asarray(thresholds) - SLACK
    number = is_confident.sum(axis=1)
    confident = np.where(number > 1, probs.argmax(axis=1), is_confident.argmax(axis=1))
    has_candidate = number > 0
    joint = np.zeros((K, K), np.int64)
    np.add.at(joint, (codes[has_candidate], confident[has_candidate]), 1)
    np.fill_diagonal(joint, np.maximum(joint.diagonal(), 1))
    if calibrate:
        joint = calibrate_matrix(joint, np.bincount(codes, minlength=K))
    if return_indices_of_off_diagonals:
        return joint, np.flatnonzero(has_candidate & (confident != codes)).tolist()
    return joint


def calibrate_confident_joint(confident_joint: Counts, labels: Any) -> Counts:
    """[K,K] the counts scaled so that row i sums to the number of labels i."""
    joint = np.asarray(confident_joint)
    codes = check_labels(labels, one_class=True)
    return calibrate_matrix(joint, np.bincount(codes, minlength=len(joint)))


def estimate_joint(
    labels: Any, pred_probs: NDArray[Any] | None = None, *, confident_joint: Counts | None = None
) -> NDArray[np.float64]:
    """[K,K] given x true: the estimated share of samples in each pair."""
    if confident_joint is None:
        if pred_probs is None:
            raise InputError("pred_probs", "and confident_joint are both missing", "Pass one")
        joint = compute_confident_joint(labels, pred_probs)
    elif labels is None:
        joint = np.asarray(confident_joint)
    else:
        joint = calibrate_confident_joint(confident_joint, labels)
    shares: NDArray[np.float64] = joint / max(float(np.sum(joint)), _MIN_DIVISOR)
    return shares


def num_label_issues(
    labels: Any,
    pred_probs: NDArray[Any],
    *,
    confident_joint: Counts | None = None,
    estimation_method: Literal[
        "off_diagonal", "off_diagonal_calibrated", "off_diagonal_custom"
    ] = "off_diagonal",
) -> int:
    """The estimated number of label issues: samples counted off the diagonal that do not agree with
    their label, or the calibrated counts off the diagonal."""
    if confident_joint is not None and estimation_method != "off_diagonal_custom":
        warnings.warn(
            f"confident_joint is ignored with estimation_method={estimation_method!r}",
            stacklevel=2,
        )
    if estimation_method == "off_diagonal":
        mask = find_label_issues(labels, pred_probs, filter_by="confident_learning")
        return int(np.count_nonzero(mask))
    if estimation_method == "off_diagonal_calibrated":
        joint = compute_confident_joint(labels, pred_probs)
    elif estimation_method == "off_diagonal_custom":
        if confident_joint is None:
            raise InputError("confident_joint", "is missing", "Pass it with off_diagonal_custom")
        joint = calibrate_confident_joint(confident_joint, labels)
    else:
        raise InputError(
            "estimation_method",
            f"is {estimation_method!r}",
            "Choose off_diagonal, off_diagonal_calibrated or off_diagonal_custom",
        )
    return int(joint.sum() - joint.trace())


def estimate_latent(
    confident_joint: Counts, labels: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(prior of the true classes [K], noise matrix P(given | true) [given,true], inverse noise
    matrix P(true | given) [true,given])."""
    joint = np.asarray(confident_joint, np.float64)
    codes = check_labels(labels, one_class=True)
    noise = joint / np.maximum(joint.sum(axis=0), _MIN_DIVISOR)
    inverse = joint.T / np.maximum(joint.sum(axis=1), _MIN_DIVISOR)
    shares = np.bincount(codes, minlength=len(joint)) / len(codes)
    prior = inverse.diagonal() / np.maximum(noise.diagonal(), _MIN_DIVISOR) * shares
    prior = np.clip(prior, _LEAST_PRIOR, 1.0)
    return prior / prior.sum(), noise, inverse


def estimate_cv_predicted_probabilities(
    X: Any,
    labels: Any,
    clf: Any = None,
    *,
    cv_n_folds: int = 5,
    seed: int | None = None,
    clf_kwargs: dict[str, Any] | None = None,
) -> NDArray[np.float64]:
    """[N,K] every sample predicted by a clone of `clf` that was not fitted on it; `clf_kwargs` go
    to its `fit`. Default: logistic regression."""
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.utils import _safe_indexing

    codes = check_labels(labels)
    folds = StratifiedKFold(cv_n_folds, shuffle=True, random_state=seed)
    probs = np.zeros((len(codes), int(codes.max()) + 1))
    for train, test in folds.split(np.zeros(len(codes)), codes):
        model = clone(LogisticRegression() if clf is None else clf)
        model.fit(_safe_indexing(X, train), codes[train], **(clf_kwargs or {}))
        probs[np.ix_(test, model.classes_)] = model.predict_proba(_safe_indexing(X, test))
    return probs


def estimate_confident_joint_and_cv_pred_proba(
    X: Any,
    labels: Any,
    clf: Any = None,
    *,
    cv_n_folds: int = 5,
    thresholds: Any = None,
    seed: int | None = None,
    calibrate: bool = True,
    clf_kwargs: dict[str, Any] | None = None,
) -> tuple[Counts, NDArray[np.float64]]:
    """(confident joint [K,K], predictions out of fold [N,K])."""
    probs = estimate_cv_predicted_probabilities(
        X, labels, clf, cv_n_folds=cv_n_folds, seed=seed, clf_kwargs=clf_kwargs
    )
    joint = compute_confident_joint(labels, probs, thresholds=thresholds, calibrate=calibrate)
    return joint, probs
