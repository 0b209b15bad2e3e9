"""Compares rows of a table: the columns in which a row is unusual for its label and usual for the
suggested class, and the most similar rows."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import is_frame

_MAX_COLUMNS = 400  # compared
_MAX_LISTED = 4  # the most telling columns
_CELL = 80  # characters of a value
_USUAL_SHARE = 0.02  # share of a class from which a value is usual in it
_UNUSUAL_SHARE = 0.25  # share up to which it is unusual: a number outside the quartiles
_RARER = 2.0  # a value is unusual where it is so many times rarer than in the other class
_ERRORS = 1.645  # standard errors by which the shares must differ: fewer are often chance
_MAX_ROWS = 1000  # of each class, that a row is compared with
_MAX_KEPT = 20_000  # rows of which the columns are kept in memory
_MAX_PROFILES = 500  # classes of which the values are kept in memory
_MAX_CELLS = 200_000  # looked at for the nearest rows


@dataclass(frozen=True)
class UnusualColumn:
    """A value of a row and the usual values in either class: the quartiles of numbers, or the share
    of the same category."""

    name: str
    value: str
    usual_given: str
    usual_suggested: str


@dataclass(frozen=True, eq=False)
class _Profile:
    """The values of one class, from at most `_MAX_ROWS` of its n rows."""

    n_rows: int
    numbers: NDArray[np.float64]
    """[D,n] the sorted values of each column of numbers; infinite where one is missing."""
    sizes: NDArray[np.intp]
    """[D] how many there are."""
    quartiles: NDArray[np.float64]
    """[3,D] of these numbers."""
    categories: list[Counter[str]]
    """For each other column, the number of times that a value occurs."""


class TableRows:
    """The rows of `inputs` [N,D], a frame or an array, with labels `codes` [N].

    Of a large class, evenly spaced rows stand for all.
    """

    def __init__(self, inputs: Any, codes: NDArray[Any]) -> None:
        self._inputs = inputs
        self._codes = codes
        self._is_frame = is_frame(inputs)
        n_columns = min(inputs.shape[1], _MAX_COLUMNS)
        if self._is_frame:
            self._names = [str(name) for name in inputs.columns[:n_columns]]
            kinds = [dtype.kind for dtype in inputs.dtypes.iloc[:n_columns]]
        else:
            self._names = [str(at) for at in range(n_columns)]
            kinds = [inputs.dtype.kind] * n_columns
        self._numbers = [at for at, kind in enumerate(kinds) if kind in "iuf"]
        self._others = [at for at, kind in enumerate(kinds) if kind not in "iuf"]
        self._profiles: OrderedDict[int, _Profile] = OrderedDict()
        self._unusual: OrderedDict[tuple[int, int, int], list[UnusualColumn]] = OrderedDict()
        self._lock = threading.Lock()

    def find_unusual_columns(self, index: int, given: int, suggested: int) -> list[UnusualColumn]:
        """The unusual columns of a row, the most telling first."""
        if given == suggested:
            return []
        key = index, given, suggested
        with self._lock:
            if key not in self._unusual:
                self._unusual[key] = self._compare_row(index, given, suggested)
                if len(self._unusual) > _MAX_KEPT:
                    self._unusual.popitem(last=False)
            return self._unusual[key]

    def find_nearest(self, index: int, k: int, n: int) -> list[int]:
        """The `n` rows of class k with the least mean distance per column (Gower's): numbers differ
        by their share of the range between the 5 and the 95 per cent quantile, categories by 1."""
        rows = _space_evenly(
            np.flatnonzero(self._codes == k), _MAX_CELLS // max(len(self._names), 1)
        )
        rows = rows[rows != index]
        if not len(rows):
            return []
        total = np.zeros(len(rows))
        if self._numbers:
            numbers = self._read_numbers(rows)
            value = self._read_numbers(np.array([index]))[0]
            ordered_numbers, sizes = _sort_columns(numbers)
            low, high = (_find_quantile(ordered_numbers, sizes, share) for share in (0.05, 0.95))
            with np.errstate(invalid="ignore"):  # infinite numbers
                distance = np.abs(numbers - value) / np.maximum(high - low, 1e-12)
            distance = np.nan_to_num(np.minimum(distance, 1.0), nan=1.0)
            total += distance[:, np.isfinite(value)].sum(axis=1)
        cells = self._read_others(rows)
        for at, value in enumerate(self._read_cells(index)):
            if isinstance(value, str):  # a missing cell is no string, and differs
                total += [not isinstance(one, str) or one != value for one in cells[:, at]]
            elif not _is_missing(value):
                total += [str(one) != str(value) for one in cells[:, at]]
        return [int(i) for i in rows[np.argsort(total, kind="stable")[:n]]]

    def _compare_row(self, index: int, given: int, suggested: int) -> list[UnusualColumn]:
        pair = self._read_profile(given), self._read_profile(suggested)
        unusual_columns = []
        if self._numbers:
            values = self._read_numbers(np.array([index]))[0]
            unusual_columns += [
                (strength, self._numbers[at], _describe_number(values[at], pair, at))
                for at, strength in _compare_numbers(values, *pair)
            ]
        for at, (column, value) in enumerate(
            zip(self._others, self._read_cells(index), strict=True)
        ):
            if _is_missing(value):
                continue
            counts = [(one.categories[at][str(value)], one.n_rows) for one in pair]
            given_usual, suggested_usual = (f"{n / max(size, 1):.0%} have it" for n, size in counts)
            strength = float(_compare_shares(*counts))
            unusual_columns.append(
                (strength, column, (str(value)[:_CELL], given_usual, suggested_usual))
            )
        unusual_columns.sort(key=lambda one: (-one[0], one[1]))
        return [
            UnusualColumn(self._names[column], *texts)
            for strength, column, texts in unusual_columns[:_MAX_LISTED]
            if strength > 0
        ]

    def _read_profile(self, k: int) -> _Profile:
        if k not in self._profiles:
            rows = _space_evenly(np.flatnonzero(self._codes == k), _MAX_ROWS)
            numbers, sizes = _sort_columns(self._read_numbers(rows))
            quartiles = [_find_quantile(numbers, sizes, share) for share in (0.25, 0.5, 0.75)]
            cells = self._read_others(rows)
            self._profiles[k] = _Profile(
                len(rows),
                numbers,
                sizes,
                np.array(quartiles),
                [Counter(map(str, cells[:, at])) for at in range(len(self._others))],
            )
            if len(self._profiles) > _MAX_PROFILES:
                self._profiles.popitem(last=False)
        self._profiles.move_to_end(k)
        return self._profiles[k]

    def _read_numbers(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """[n,D] the columns of numbers; NaN where one is missing."""
        numbers: NDArray[np.float64]
        if self._is_frame:
            part = self._inputs.iloc[rows, self._numbers]
            numbers = part.to_numpy(np.float64, na_value=np.nan)
        else:
            numbers = np.asarray(self._inputs[rows][:, self._numbers], np.float64)
        return numbers

    def _read_others(self, rows: NDArray[np.intp]) -> NDArray[np.object_]:
        """[n,D] the columns that hold no numbers."""
        cells: NDArray[np.object_] = np.empty((len(rows), len(self._others)), object)
        for at, column in enumerate(self._others):
            values = (
                self._inputs.iloc[rows, column] if self._is_frame else self._inputs[rows, column]
            )
            cells[:, at] = np.fromiter(values, object, len(rows))
        return cells

    def _read_cells(self, index: int) -> list[Any]:
        """The same of one row."""
        cells = self._inputs.iat if self._is_frame else self._inputs
        return [cells[index, column] for column in self._others]


def _compare_numbers(
    values: NDArray[np.float64], given: _Profile, suggested: _Profile
) -> list[tuple[int, float]]:
    """(place, strength) of the numbers [D] that are so far from the median of the given class as
    few of it are, and within or near the quartiles of the suggested one."""
    low, _, high = suggested.quartiles
    is_above = values > given.quartiles[1]
    counts = []
    with np.errstate(invalid="ignore"):
        for one in (given, suggested):
            n_below = np.count_nonzero(one.numbers <= values[:, None], axis=1)
            n_above = one.sizes - np.count_nonzero(one.numbers < values[:, None], axis=1)
            counts.append((np.where(is_above, n_above, n_below), one.sizes))
        is_far = np.maximum(low - values, values - high) > np.maximum(high - low, 1e-12)
    strength = _compare_shares(*counts)
    strength[is_far | ~np.isfinite(values) | (given.sizes == 0) | (suggested.sizes == 0)] = 0
    return [(int(at), float(strength[at])) for at in np.flatnonzero(strength > 0)]


def _describe_number(
    value: float, pair: tuple[_Profile, _Profile], at: int
) -> tuple[str, str, str]:
    """The value, and the quartiles of either class."""
    given_text, suggested = (
        f"{q[0, at]:.4g} to {q[2, at]:.4g}" for q in (p.quartiles for p in pair)
    )
    return f"{value:.4g}", given_text, suggested


def _compare_shares(given: Any, suggested: Any) -> NDArray[np.float64]:
    """The base-2 logarithm of how much rarer something is in the given class, of which it is in
    (so many, of so many): where it is usual in the suggested one and the difference is hardly
    chance. Else 0."""
    rare, usual_share = ((n + 0.5) / (size + 1) for n, size in (given, suggested))
    variance = sum(
        share * (1 - share) / np.maximum(size, 1)
        for share, (_, size) in ((rare, given), (usual_share, suggested))
    )
    is_unusual = (
        (usual_share >= _USUAL_SHARE) & (rare <= _UNUSUAL_SHARE) & (usual_share >= _RARER * rare)
    )
    is_unusual &= usual_share - rare > _ERRORS * np.sqrt(np.maximum(variance, 0))
    strength: NDArray[np.float64] = np.where(is_unusual, np.log2(usual_share / rare), 0.0)
    return strength


def _sort_columns(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """([D,n] each column of [n,D] sorted, infinite where a number is none; [D] how many are one)"""
    is_number = np.isfinite(numbers)
    ordered_numbers = np.sort(np.where(is_number, numbers, np.inf).T, axis=1)
    return np.ascontiguousarray(ordered_numbers), np.count_nonzero(is_number, axis=0)


def _find_quantile(
    ordered: NDArray[np.float64], sizes: NDArray[np.intp], share: float
) -> NDArray[np.float64]:
    """[D] the quantile of each row of [D,n], of which so many [D] are numbers; 0 where none is."""
    if not ordered.shape[1]:
        return np.zeros(len(ordered))
    place = share * np.maximum(sizes - 1, 0)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, np.maximum(sizes - 1, 0))
    columns = np.arange(len(ordered))
    low, high = ordered[columns, below], ordered[columns, above]
    with np.errstate(invalid="ignore"):
        quantile: NDArray[np.float64] = np.where(
            sizes > 0, low + (high - low) * (place - below), 0.0
        )
    return quantile


def _space_evenly(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most `most` of the rows, evenly spaced."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or another missing value of pandas."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")
