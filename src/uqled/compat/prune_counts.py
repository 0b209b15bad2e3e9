"""How many samples cleanlab prunes: its arithmetic to the last bit, without its matrices.

cleanlab keeps its counts as dense matrices [K,K], 20 GB each for 50,000 classes, though a count
other than zero needs a sample. Above `DENSE_CLASSES` classes only those are kept here. The last bit
of a sum decides if a half is rounded up or down, and it depends on the order of adding: so
`sum_as_dense` adds in NumPy's order, in which positions matter and zeros do not.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core import joint as joints
from uqled.detect.core.joint import PairCounts
from uqled.detect.core.kernels import SLACK
from uqled.errors import InputError, LimitError
from uqled.limits import get_limit

_MIN_DIVISOR = 1e-100  # the least divisor
_MATRICES = 6  # of K x K numbers, that dense arithmetic holds at a time

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PruneCounts:
    """How many samples stay, and how many go."""

    n_kept: Ints
    """[K] of each given class."""
    pairs: PairCounts
    """Of each pair of different classes, to be flagged."""


def count_prunes(
    joint: PairCounts | NDArray[Any],
    class_counts: Ints,
    *,
    frac_noise: float,
    num_to_remove: list[int] | None,
    min_examples: int,
) -> PruneCounts:
    """Counts of a confident joint, raw (pairs) or as the user gives it (matrix, given x true)."""
    K = len(class_counts)
    if isinstance(joint, PairCounts):
        if K > joints.DENSE_CLASSES and num_to_remove is None:
            return _prune_pairs(calibrate_pairs(joint, class_counts), frac_noise, min_examples)
        _check_memory("num_to_remove_per_class", K)
        matrix: NDArray[Any] = calibrate_matrix(_make_dense(joint), class_counts)
    else:
        _check_memory("confident_joint", K)
        matrix = joint
    numbers = _prune_matrix(matrix.T, frac_noise, min_examples)
    if num_to_remove is not None:
        numbers = _remove_so_many(numbers, num_to_remove, class_counts)
    n_kept = numbers.diagonal().copy()
    np.fill_diagonal(numbers, 0)
    return PruneCounts(n_kept, PairCounts.from_matrix(numbers.T))


# -- pairs ----------------------------------------------------------------------------------------


def calibrate_pairs(joint: PairCounts, class_counts: Ints) -> PairCounts:
    """Rows scaled to their class's number of samples, then all to N, in whole numbers."""
    K, given = joint.n_classes, joint.given
    row_sums = np.clip(np.bincount(given, joint.counts, K), _MIN_DIVISOR, None)
    scaled_counts = joint.counts / row_sums[given] * class_counts[given]
    position = joint.true * K + given  # cleanlab's matrix lies column by column in memory
    order = np.argsort(position)
    total = sum_as_dense(position[order], scaled_counts[order], K * K)
    scaled_counts = scaled_counts / max(total, _MIN_DIVISOR) * sum(class_counts.tolist())
    whole_counts = _round_rows_of_pairs(joint, scaled_counts)
    is_positive = whole_counts != 0
    return PairCounts(K, given[is_positive], joint.true[is_positive], whole_counts[is_positive])


def _round_rows_of_pairs(pairs: PairCounts, values: Floats) -> Ints:
    """Whole numbers with the same row totals; the entries that are furthest off give way."""
    rounded_counts, first = values.round(), pairs.find_class_offsets()
    for row in range(pairs.n_classes):
        row_slice = slice(first[row], first[row + 1])
        true = pairs.true[row_slice]
        row_total = round(sum_as_dense(true, values[row_slice], pairs.n_classes))
        if missing := row_total - round(rounded_counts[row_slice].sum()):
            step = 1 if missing > 0 else -1
            off = np.zeros(pairs.n_classes)
            off[true] = values[row_slice] - rounded_counts[row_slice]
            # Among equal ones NumPy's sort decides, which depends on the whole row.
            largest = np.argsort(off)[::-step][: abs(missing)]
            rounded_counts[row_slice] += step * np.isin(true, largest)
    return rounded_counts.astype(np.int64)


def _prune_pairs(joint: PairCounts, frac_noise: float, min_examples: int) -> PruneCounts:
    K, given, counts = joint.n_classes, joint.given, joint.counts
    on_diagonal = given == joint.true
    diagonal = np.zeros(K, np.int64)
    diagonal[given[on_diagonal]] = counts[on_diagonal]
    n_kept = np.maximum(diagonal, min_examples)
    n_others = np.maximum(np.bincount(given, minlength=K) - 1.0, 1.0)
    numbers = np.maximum(counts - ((n_kept - diagonal) / n_others)[given], 0.0)[~on_diagonal]
    off = PairCounts(K, given[~on_diagonal], joint.true[~on_diagonal], counts[~on_diagonal])
    part = numbers * frac_noise
    rest, first = numbers - part, off.find_class_offsets()
    stay = [
        sum_as_dense(off.true[first[k] : first[k + 1]], rest[first[k] : first[k + 1]], K)
        for k in range(K)
    ]
    whole_counts = part.astype(np.int64)
    is_positive = whole_counts != 0
    pairs = PairCounts(K, off.given[is_positive], off.true[is_positive], whole_counts[is_positive])
    return PruneCounts((n_kept + np.array(stay)).astype(np.int64), pairs)


def sum_as_dense(position: Ints, values: Floats, n: int) -> float:
    """The sum of `values` as NumPy adds n numbers that are zero but for these positions (rising).

    >>> sum_as_dense(np.array([1, 4, 900]), np.array([0.1, 0.2, 0.3]), 1000)
    0.6000000000000001
    """
    if len(values) < 3:  # nothing to choose
        return float(values.sum())
    return _sum_between(position.tolist(), values.tolist(), 0, len(values), 0, n)


def _sum_between(
    position: list[int], values: list[float], low: int, high: int, start: int, n: int
) -> float:
    """The sum of n numbers from `start`, of which entries `low` to `high` are not zero.

    NumPy halves what is longer than 128 and adds the rest in eight strands.
    """
    if high - low < 3:
        return sum(values[low:high], 0.0)
    if n > 128:
        half = n // 2 - n // 2 % 8
        middle = bisect_left(position, start + half, low, high)
        left = _sum_between(position, values, low, middle, start, half)
        return left + _sum_between(position, values, middle, high, start + half, n - half)
    strands, tail = [0.0] * 8, 0.0
    in_strands = bisect_left(position, start + n - n % 8, low, high) if n >= 8 else low
    for i in range(low, in_strands):
        strands[(position[i] - start) % 8] += values[i]
    a, b, c, d, e, f, g, h = strands
    tail = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(in_strands, high):
        tail += values[i]
    return tail


# -- matrices -------------------------------------------------------------------------------------


def _make_dense(joint: PairCounts) -> Ints:
    matrix = np.zeros((joint.n_classes,) * 2, np.int64)
    matrix[joint.given, joint.true] = joint.counts
    return matrix


def _check_memory(argument: str, K: int) -> None:
    needed_bytes, most = _MATRICES * 8 * K * K, get_limit("memory_bytes")
    if K > joints.DENSE_CLASSES and needed_bytes > most:
        raise LimitError(
            argument,
            f"with {K:,} classes needs {needed_bytes / 1e9:,.0f} GB for matrices of all pairs, and "
            f"the limit memory_bytes is {most / 1e9:,.1f} GB",
            "Leave it out, or raise the limit: UQLED_LIMIT_MEMORY_BYTES=...",
        )


def calibrate_matrix(joint: Ints, class_counts: Ints) -> Ints:
    """[K,K] given x true: rows scaled to their class's number of samples, then all to N."""
    joint = np.asfortranarray(joint)  # the order in memory is the order of summation
    scaled_counts = (joint.T / np.clip(joint.sum(axis=1), _MIN_DIVISOR, None) * class_counts).T
    scaled_counts = (
        scaled_counts
        / np.clip(np.sum(scaled_counts), _MIN_DIVISOR, None)
        * sum(class_counts.tolist())
    )
    return _round_rows(scaled_counts)


def _prune_matrix(by_true: NDArray[Any], frac_noise: float, min_examples: int) -> Ints:
    """[K,K] true x given: numbers to prune, and on the diagonal to keep."""
    diagonal = np.diagonal(by_true)
    n_kept = np.maximum(diagonal, min_examples)
    n_others = np.maximum(np.count_nonzero(by_true, axis=0) - 1.0, 1.0)
    numbers = by_true - (n_kept - diagonal) / n_others
    numbers[numbers < 0] = 0
    np.fill_diagonal(numbers, n_kept)
    part = numbers * frac_noise
    np.fill_diagonal(part, n_kept)
    np.fill_diagonal(part, n_kept + np.sum(numbers - part, axis=0))
    return _round_rows(part.astype(np.int64))


def _remove_so_many(class_totals: Ints, num_to_remove: list[int], class_counts: Ints) -> Ints:
    with np.errstate(invalid="ignore", divide="ignore"):  # a class without noise removes none
        shares = class_totals / np.sum(class_totals, axis=1)
        noise = shares.sum(axis=1) - shares.diagonal()
        targets = (shares.T * num_to_remove / noise).T
    np.fill_diagonal(targets, class_counts - num_to_remove)
    return _round_rows(targets)


def _round_rows(matrix: NDArray[Any]) -> Ints:
    """Whole numbers with the same row totals; the entries that are furthest off give way."""
    if np.issubdtype(matrix.dtype, np.integer):
        return matrix.astype(np.int64, order="C")
    finite = np.isfinite(matrix).all(axis=1)
    values = np.where(np.isfinite(matrix), matrix, 0.0)
    rounded_counts = values.round()
    row_totals = np.array([np.sum(row).round() for row in values])
    for row in np.flatnonzero(
        finite & (np.abs(rounded_counts.sum(axis=1) - row_totals) > SLACK)
    ).tolist():
        while (missing := round(row_totals[row] - rounded_counts[row].sum())) != 0:
            step = 1 if missing > 0 else -1
            order = np.argsort(values[row] - rounded_counts[row])[::-step]
            rounded_counts[row, order[: abs(missing)]] += step
    return rounded_counts.astype(np.int64, order="C")


def check_counts(
    K: int, *, frac_noise: Any, num_to_remove: Any, min_examples: Any, joint: Any
) -> NDArray[Any] | None:
    """Refuse options that are no counts of K classes; returns the joint as an array."""
    for name, value in (("frac_noise", frac_noise), ("min_examples_per_class", min_examples)):
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if not is_number or not np.isfinite(value):
            raise InputError(name, f"is {value!r}", "Pass a number")
    for name, value, shape in (
        ("num_to_remove_per_class", num_to_remove, (K,)),
        ("confident_joint", joint, (K, K)),
    ):
        if value is None:
            continue
        numbers = np.asarray(value)
        if (
            numbers.shape != shape
            or numbers.dtype.kind not in "iuf"
            or not np.isfinite(numbers).all()
        ):
            raise InputError(
                name,
                f"is {numbers.dtype} of shape {numbers.shape}, with {K} columns of probabilities",
                f"Pass numbers of the shape {shape}",
            )
    return None if joint is None else np.asarray(joint)
