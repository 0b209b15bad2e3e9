"""Labels and probabilities as cleanlab takes them, checked, and the thresholds it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays.array_likes import refuse_masked
from uqled.detect.core.kernels import SLACK
from uqled.errors import InputError
from uqled.storage.reading import first_line

_MOST_CLASSES = 2**31  # class numbers are 32 bits wide

Ints = NDArray[np.int64]


def check_labels(labels: Any, *, one_class: bool = False) -> Ints:
    if not isinstance(labels, list | np.ndarray | np.generic) and not hasattr(labels, "iloc"):
        raise TypeError(f"labels are a {type(labels).__name__}: pass a NumPy array, list or Series")
    refuse_masked(labels, "labels")
    try:
        array = np.asarray(labels)
    except (ValueError, OverflowError) as error:
        raise InputError(
            "labels",
            f"cannot become an array ({first_line(error)})",
            "Pass one class number per sample: multi-label data is not supported",
        ) from error
    if array.ndim == 2 and isinstance(labels, list):
        raise InputError(
            "labels",
            "contain lists",
            "Pass one class number per sample: multi-label data is not supported",
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim != 1 or not len(array):
        raise InputError("labels", f"have shape {array.shape}", "Pass one class number per sample")
    with np.errstate(invalid="ignore"):  # infinity has no remainder
        is_whole = array.dtype.kind in "iuf" and (array % 1 == 0).all()
    if not is_whole or array.min() < 0:
        raise InputError(
            "labels", f"are not class numbers ({array.dtype})", "Number the classes from 0"
        )
    if array.max() >= _MOST_CLASSES:
        raise InputError("labels", f"go up to {array.max()}", "Number the classes from 0")
    if (array == array[0]).all() and not (one_class and array[0] == 0):
        raise InputError("labels", f"contain one class only ({array[0]})", "Pass at least two")
    return array.astype(np.int64)


def check_probabilities(probs: Any, labels: Ints) -> NDArray[Any]:
    """[N,K] a plain array in this machine's byte order, checked."""
    if not isinstance(probs, np.ndarray):
        raise TypeError(f"pred_probs is a {type(probs).__name__}: pass a NumPy array")
    refuse_masked(probs, "pred_probs")
    if probs.dtype.kind not in "fiu" or probs.dtype.itemsize > 8:
        raise InputError(
            "pred_probs",
            f"has type {probs.dtype}",
            "Pass real numbers: float16, float32 or float64",
        )
    # Plain, because a matrix or a record array indexes otherwise.
    plain_probs: NDArray[Any] = np.asarray(probs, probs.dtype.newbyteorder("="))
    return _check_rows(plain_probs, labels)


def _check_rows(probs: NDArray[Any], labels: Ints) -> NDArray[Any]:
    if probs.ndim != 2 or len(probs) != len(labels):
        raise InputError(
            "pred_probs", f"has shape {probs.shape} for {len(labels)} labels", "Pass one row each"
        )
    if probs.shape[1] <= labels.max():
        raise InputError(
            "pred_probs",
            f"has {probs.shape[1]} columns, but labels go up to {labels.max()}",
            "Pass one column per class",
        )
    if not (np.min(probs) >= -SLACK and np.max(probs) <= 1 + SLACK):  # NaN too
        raise InputError(
            "pred_probs", "has values outside 0 to 1, or NaN", "Pass probabilities, not logits"
        )
    return probs


def find_class_members(labels: NDArray[Any], K: int) -> list[NDArray[np.intp]]:
    """The indices of each class's samples, ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=K))[:-1])


def compute_thresholds(probs: NDArray[Any], members: list[NDArray[np.intp]]) -> NDArray[Any]:
    """[K] mean self-confidence per class, in the input's own precision; 2 for a class without
    samples."""
    means = [
        np.mean(probs[class_rows, k]) if len(class_rows) else 2
        for k, class_rows in enumerate(members)
    ]
    return np.clip(means, 2 * SLACK, None)
