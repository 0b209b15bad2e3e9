"""Rows of a table beside each other: the columns in which a row is unusual for its label and usual
for the suggested class, and the rows that resemble it most."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_COLUMNS = 400  # compared
_LISTED = 4  # the most telling columns
_CELL = 80  # characters of a value
_USUAL = 0.02  # share of a class from which a value is usual in it
_UNUSUAL = 0.25  # share up to which it is unusual: a number outside the quartiles
_RARER = 2.0  # a value is unusual where it is so many times rarer than in the other class
_ERRORS = 1.645  # standard errors by which the shares must differ: fewer are often chance
_MAX_ROWS = 1000  # of each class, that a row is compared with
_MAX_PROFILES = 500  # classes of which the columns are kept in memory
_MAX_CELLS = 200_000  # looked at for the nearest rows


@dataclass(frozen=True)
class UnusualColumn:
    """A value of a row, and what is usual in either class: the quartiles between which a number
    lies, or the share that has the same category."""

    name: str
    value: str
    usual_given: str
    usual_suggested: str


@dataclass(frozen=True)
class _Profile:
    """The values of one class: sorted numbers, or how often each category comes, per column."""

    numbers: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    categories: dict[int, tuple[Counter[str], int]] = field(default_factory=dict)


class TableRows:
    """The rows of `inputs` [N,D], a frame or an array, with labels `codes` [N].

    Of a large class, evenly spaced rows stand for all.
    """

    def __init__(self, inputs: Any, codes: NDArray[Any]) -> None:
        self._inputs = inputs
        self._codes = codes
        self._is_frame = hasattr(inputs, "columns")
        self._n_columns = min(inputs.shape[1], _MAX_COLUMNS)
        self._profiles: OrderedDict[int, _Profile] = OrderedDict()
        self._lock = threading.Lock()

    def find_unusual_columns(self, index: int, given: int, suggested: int) -> list[UnusualColumn]:
        """Of one row: the most telling columns first."""
        if given == suggested:
            return []
        pair = self._read_profile(given), self._read_profile(suggested)
        unusual = []
        for at in range(self._n_columns):
            value = self._read_cell(index, at)
            if _is_missing(value):
                continue
            if at in pair[0].numbers:
                comparison = _compare_numbers(float(value), *(one.numbers[at] for one in pair))
            else:
                comparison = _compare_categories(str(value), *(one.categories[at] for one in pair))
            if comparison is not None:
                strength, *texts = comparison
                name = str(self._inputs.columns[at]) if self._is_frame else str(at)
                unusual.append((-strength, at, UnusualColumn(name, *texts)))
        return [row for _, _, row in sorted(unusual, key=lambda one: one[:2])[:_LISTED]]

    def find_nearest(self, index: int, k: int, n: int) -> list[int]:
        """The `n` rows of class k with the least mean distance per column (Gower's): numbers differ
        by their share of the range between the 5 and the 95 per cent quantile, categories by 1."""
        rows = _space_evenly(np.flatnonzero(self._codes == k), _MAX_CELLS // self._n_columns)
        rows = rows[rows != index]
        if not len(rows):
            return []
        total = np.zeros(len(rows))
        for at in range(self._n_columns):
            column, value = self._read_column(rows, at), self._read_cell(index, at)
            if column.dtype.kind in "iuf":
                low, high = _find_quantiles(column, [5, 95])
                with np.errstate(invalid="ignore"):  # infinite numbers
                    distance = np.abs(column - float(value)) / max(high - low, 1e-12)
                total += np.nan_to_num(np.minimum(distance, 1.0), nan=1.0)
            elif not _is_missing(value):
                total += [str(one) != str(value) for one in column.tolist()]
        return [int(i) for i in rows[np.argsort(total, kind="stable")[:n]]]

    def _read_profile(self, k: int) -> _Profile:
        with self._lock:
            if k not in self._profiles:
                rows = _space_evenly(np.flatnonzero(self._codes == k), _MAX_ROWS)
                self._profiles[k] = self._profile_rows(rows)
                if len(self._profiles) > _MAX_PROFILES:
                    self._profiles.popitem(last=False)
            self._profiles.move_to_end(k)
            return self._profiles[k]

    def _profile_rows(self, rows: NDArray[np.intp]) -> _Profile:
        profile = _Profile()
        for at in range(self._n_columns):
            column = self._read_column(rows, at)
            if column.dtype.kind in "iuf":
                numbers = column.astype(np.float64)
                profile.numbers[at] = np.sort(numbers[np.isfinite(numbers)])
            else:
                known = [str(value) for value in column.tolist() if not _is_missing(value)]
                profile.categories[at] = Counter(known), len(rows)
        return profile

    def _read_column(self, rows: NDArray[np.intp], at: int) -> NDArray[Any]:
        if not self._is_frame:
            cells: NDArray[Any] = np.asarray(self._inputs[rows, at])
            return cells
        column = self._inputs.iloc[:, at]
        if column.dtype.kind in "iuf":  # missing ones are NaN, in pandas' own types too
            numbers: NDArray[Any] = column.iloc[rows].to_numpy(np.float64, na_value=np.nan)
            return numbers
        objects: NDArray[Any] = column.iloc[rows].to_numpy(object)
        return objects

    def _read_cell(self, index: int, at: int) -> Any:
        cell = self._inputs.iat[index, at] if self._is_frame else self._inputs[index, at]
        is_number = not self._is_frame or self._inputs.dtypes.iloc[at].kind in "iuf"
        return np.nan if is_number and _is_missing(cell) else cell


_Comparison = tuple[float, str, str, str]
"""Strength, the value, what is usual in the given class and what in the suggested one. Of numbers
and categories alike, the strength is the base-2 logarithm of how much rarer the value is."""


def _compare_numbers(
    value: float, given: NDArray[np.float64], suggested: NDArray[np.float64]
) -> _Comparison | None:
    """None unless numbers so far from the median of the given class are rare in it, and the number
    is within or near the quartiles of the suggested one."""
    if not np.isfinite(value) or not len(given) or not len(suggested):
        return None
    low, high = _find_quantiles(suggested, [25, 75])
    if max(low - value, value - high, 0) > max(high - low, 1e-12):
        return None
    below = [int(one.searchsorted(value, side="right")) for one in (given, suggested)]
    above = [len(one) - int(one.searchsorted(value)) for one in (given, suggested)]
    counts = above if value > np.median(given) else below
    strength = _compare_shares((counts[0], len(given)), (counts[1], len(suggested)))
    if strength is None:
        return None
    usual = [
        "{:.4g} to {:.4g}".format(*_find_quantiles(one, [25, 75])) for one in (given, suggested)
    ]
    return strength, f"{value:.4g}", usual[0], usual[1]


def _compare_categories(
    value: str, given: tuple[Counter[str], int], suggested: tuple[Counter[str], int]
) -> _Comparison | None:
    """None unless the category is usual in the suggested class and much rarer in the given one."""
    sizes = [max(1, n) for _, n in (given, suggested)]
    counts = [of[value] for of, _ in (given, suggested)]
    strength = _compare_shares((counts[0], sizes[0]), (counts[1], sizes[1]))
    if strength is None:
        return None
    usual = [f"{n / size:.0%} have it" for n, size in zip(counts, sizes, strict=True)]
    return strength, value[:_CELL], usual[0], usual[1]


def _compare_shares(given: tuple[int, int], suggested: tuple[int, int]) -> float | None:
    """The base-2 logarithm of how much rarer something is in the given class, of which it is in
    (so many, of so many): where it is usual in the suggested one and the difference is hardly
    chance. Else None."""
    rare, usual = ((n + 0.5) / (size + 1) for n, size in (given, suggested))
    if usual < _USUAL or rare > _UNUSUAL or usual < _RARER * rare:
        return None
    variance = rare * (1 - rare) / given[1] + usual * (1 - usual) / suggested[1]
    return float(np.log2(usual / rare)) if usual - rare > _ERRORS * variance**0.5 else None


def _find_quantiles(numbers: NDArray[Any], percent: list[int]) -> tuple[float, float]:
    finite = numbers[np.isfinite(numbers)]
    low, high = np.percentile(finite, percent) if len(finite) else (0.0, 0.0)
    return float(low), float(high)


def _space_evenly(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of the rows."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def _is_missing(value: Any) -> bool:
    """None, NaN and what pandas has for a missing value."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")
