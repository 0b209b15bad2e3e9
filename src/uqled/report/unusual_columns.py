"""The columns in which a table's row is unusual for its label and usual for the suggested class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_COLUMNS = 400  # compared
_LISTED = 4  # the most telling ones
_CELL = 80  # characters of a value
_USUAL = 0.05  # share of a class from which a category is usual in it
_RARER = 3.0  # a category is unusual where it is so many times rarer than in the other class


@dataclass(frozen=True)
class UnusualColumn:
    """A value of a row, and what is usual in either class: the quartiles between which a number
    lies, or the share that has the same category."""

    name: str
    value: str
    usual_given: str
    usual_suggested: str


def find_unusual_columns(
    inputs: Any, codes: NDArray[Any], index: int, given: int, suggested: int
) -> list[UnusualColumn]:
    """Of row `index` of `inputs` [N,D], a frame or an array with labels `codes` [N]: the most
    telling columns first."""
    if given == suggested:
        return []
    is_frame = hasattr(inputs, "columns")
    members = [np.flatnonzero(codes == k) for k in (given, suggested)]
    unusual = []
    for at in range(min(inputs.shape[1], _MAX_COLUMNS)):
        column = inputs.iloc[:, at].to_numpy() if is_frame else inputs[:, at]
        compare = _compare_numbers if column.dtype.kind in "iuf" else _compare_categories
        comparison = compare(column, index, *members)
        if comparison is not None:
            strength, *texts = comparison
            name = str(inputs.columns[at]) if is_frame else str(at)
            unusual.append((-strength, at, UnusualColumn(name, *texts)))
    return [row for _, _, row in sorted(unusual, key=lambda one: one[:2])[:_LISTED]]


_Comparison = tuple[float, str, str, str]
"""Strength, the value, what is usual in the given class and what in the suggested one."""


def _compare_numbers(
    column: NDArray[Any], index: int, given: NDArray[np.intp], suggested: NDArray[np.intp]
) -> _Comparison | None:
    """None unless the number is far from the quartiles of the given class and within or near those
    of the suggested one; the strength is the difference in interquartile ranges."""
    value = column[index]
    if not np.isfinite(value) or not len(given) or not len(suggested):
        return None
    quartiles = [np.nanpercentile(column[rows], [25, 75]) for rows in (given, suggested)]
    distances = [
        max(low - value, value - high, 0) / max(high - low, 1e-12) for low, high in quartiles
    ]
    if not distances[0] > 1 > distances[1]:
        return None
    usual = [f"{low:.4g} to {high:.4g}" for low, high in quartiles]
    return distances[0] - distances[1], f"{value:.4g}", usual[0], usual[1]


def _compare_categories(
    column: NDArray[Any], index: int, given: NDArray[np.intp], suggested: NDArray[np.intp]
) -> _Comparison | None:
    """None unless the category is usual in the suggested class and much rarer in the given one;
    the strength is the base-2 logarithm of how much rarer."""
    value = column[index]
    if value is None or value != value or not len(suggested):  # missing
        return None
    sizes = [max(1, len(rows)) for rows in (given, suggested)]
    counts = [int(np.count_nonzero(column[rows] == value)) for rows in (given, suggested)]
    shares = [(n + 0.5) / (size + 1) for n, size in zip(counts, sizes, strict=True)]
    if shares[1] < _USUAL or shares[1] < _RARER * shares[0]:
        return None
    usual = [f"{n / size:.0%} have it" for n, size in zip(counts, sizes, strict=True)]
    return float(np.log2(shares[1] / shares[0])), str(value)[:_CELL], usual[0], usual[1]
