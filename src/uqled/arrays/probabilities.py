"""Probabilities of classes: shapes, types and values, checked.

Large arrays are not read here: shapes and types are checked at once, and the values of a row when
a sweep first reads it (`describe_bad_row` says what is wrong with one). `check_pred_probs` and
`check_passes` are for functions that hold everything in memory anyway; they check the values too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled.arrays.array_likes import to_rows
from uqled.errors import InputError

Floats = NDArray[np.floating[Any]]

#: How far the sum of a row may be from 1.
TOLERANCE = 1e-3
#: The same for half precision, whose rounding alone moves the sum of many classes.
TOLERANCE_HALF = 0.02

_CHECKED_ROWS = 65_536  # rows whose values are checked at a time


def check_shape(array: Any, *, ndim: int, name: str) -> tuple[int, ...]:
    """The shape of probabilities of any kind, without reading them."""
    shape, axes = tuple(int(n) for n in np.shape(array)), "N,K" if ndim == 2 else "F,N,K"
    if len(shape) != ndim:
        hint = {
            ("N,K", 1): "For two classes, stack both columns: np.column_stack([1 - p, p])",
            ("N,K", 3): "Arrays of several passes go in as `passes`",
            ("F,N,K", 2): "One set of probabilities goes in as `pred_probs`, or as passes[None]",
        }.get((axes, len(shape)), f"Reshape it to [{axes}]")
        raise InputError(name, f"has shape {shape}, but must be [{axes}]", hint)
    if 0 in shape:
        raise InputError(name, f"is empty (shape {shape})", "Pass at least two samples")
    if shape[-1] < 2:
        raise InputError(
            name,
            f"has {shape[-1]} column (shape {shape})",
            "Give one column per class: for two classes np.column_stack([1 - p, p])",
        )
    return shape


def check_numeric_dtype(array: Any, name: str) -> np.dtype[Any]:
    """The type of probabilities of any kind; text, objects and complex numbers are refused."""
    try:
        dtype: np.dtype[Any] = np.dtype(array.dtype)
    except TypeError:  # torch.bfloat16 and the like, which NumPy does not have
        dtype = np.dtype(np.float16)
    if dtype.kind not in "fiu":
        raise InputError(
            name, f"has type {dtype}", "Pass real numbers: float16, float32 or float64"
        )
    return dtype


def get_tolerance(dtype: np.dtype[Any]) -> float:
    """How far the sum of a row of this type may be from 1."""
    return TOLERANCE_HALF if dtype == np.float16 else TOLERANCE


def check_shapes_match(
    n_labels: int, probs_shape: tuple[int, ...] | None, passes_shape: tuple[int, ...] | None
) -> None:
    """Refuse labels, pred_probs [N,K] and passes [F,N,K] that do not belong together."""
    if passes_shape is not None and passes_shape[1] != n_labels:
        is_transposed = passes_shape[0] == n_labels
        raise InputError(
            "passes",
            f"has shape {passes_shape}, but there are {n_labels} labels and the axes are [F,N,K]",
            "It looks like [N,F,K]: pass passes.transpose(1, 0, 2)"
            if is_transposed
            else f"Its second axis must have {n_labels} entries, one per label",
        )
    if probs_shape is not None and probs_shape[0] != n_labels:
        raise InputError(
            "pred_probs",
            f"has {probs_shape[0]} rows (shape {probs_shape}), but there are {n_labels} labels",
            "Pass one row per label"
            if probs_shape[1] != n_labels
            else "It looks transposed: pass pred_probs.T",
        )
    if probs_shape is not None and passes_shape is not None and probs_shape[1] != passes_shape[2]:
        raise InputError(
            "passes",
            f"has {passes_shape[2]} classes (shape {passes_shape}), but pred_probs has "
            f"{probs_shape[1]}",
            "Both must have one column per class, in the same order",
        )


def describe_bad_row(name: str, place: str, row: NDArray[Any], tolerance: float) -> InputError:
    """What is wrong with one row of probabilities, for a row known to be wrong."""
    values = row.astype(np.float64)
    total = float(values.sum())
    if np.isnan(values).any():
        first = int(np.argmax(np.isnan(values)))
        return InputError(
            name,
            f"contains NaN at {place}, class {first}",
            "Leave such samples out, or predict them again",
        )
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1 + tolerance:
        extreme = low if low < 0 else high
        if math.isclose(total, 1, abs_tol=tolerance):
            fix = "Probabilities lie between 0 and 1"
        else:
            fix = "If these are logits, pass their softmax: scipy.special.softmax(logits, axis=-1)"
        return InputError(name, f"contains {extreme:.6g} at {place}", fix)
    return InputError(
        name,
        f"sums to {total:.6g} instead of 1 at {place} (allowed: {tolerance:g} either way)",
        "Divide each row by its sum if these are unnormalised probabilities",
    )


def check_pred_probs(array: ArrayLike) -> Floats:
    """[N,K] probabilities in memory, checked whole: float32 or float64."""
    return _check_values(array, ndim=2, name="pred_probs")


def check_passes(array: ArrayLike, name: str = "passes") -> Floats:
    """[F,N,K] probabilities of F passes in memory, checked whole: float32 or float64."""
    return _check_values(array, ndim=3, name=name)


def _check_values(array: ArrayLike, *, ndim: int, name: str) -> Floats:
    probs = to_rows(array, name)
    shape = check_shape(probs, ndim=ndim, name=name)
    dtype = check_numeric_dtype(probs, name)
    probs = probs if dtype in (np.float32, np.float64) else probs.astype(np.float64)
    for f, rows in enumerate(probs[None] if ndim == 2 else probs):
        tolerance = get_tolerance(dtype)
        for start in range(0, shape[-2], _CHECKED_ROWS):
            block = rows[start : start + _CHECKED_ROWS]
            sums = block.sum(axis=1, dtype=np.float64)  # [n]
            is_valid = (np.abs(sums - 1) <= tolerance) & (block.min(axis=1) >= 0)
            if not is_valid.all():
                at = start + int(np.argmin(is_valid))
                place = f"row {at}" if ndim == 2 else f"pass {f}, row {at}"
                raise describe_bad_row(name, place, rows[at], tolerance)
    return probs
