"""Finds nearly equal rows of a table: up to rounding, an id column, or columns beside a text."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset, is_frame
from uqled.data.inspection.text_keys import fold_text

RowKeys = NDArray[np.uint64]

_DIGITS = 3  # significant digits that survive rounding a copy
_UNIQUE_SHARE = 0.9  # of distinct values beyond which a column may be an id or a time
_WORDS = 8  # a text of fewer words may be a name or phrase that repeats by chance
_MANY_COLUMNS = 500  # beyond which rows are not compared
_FEW_COLUMNS = 3  # that must be equal: two may depend on each other
_CHANCE_PAIRS = 0.05  # expected pairs beyond which equal rows may be chance, as columns correlate


def list_near_keys(data: Dataset) -> Iterator[Sequence[Hashable | None] | RowKeys]:
    """Yield several sets of keys [N]: rows with equal keys are nearly equal; None matches none."""
    if data.kind != "table" or data.inputs.shape[1] > _MANY_COLUMNS:
        return
    texts = data.texts
    if texts is not None:
        folded_texts = map(fold_text, texts)
        yield [text if text.count(" ") >= _WORDS - 1 else None for text in folded_texts]
    columns = _list_columns(data)
    ignored_columns = _list_ignored(data, columns)
    for is_rounded in (True, False):  # 1.2349 and 1.2351 agree only one way
        hashes = [_hash_rounded_column(column, is_rounded=is_rounded) * _make_multiplier(at)
                  for at, column in enumerate(columns)]  # fmt: skip
        whole: RowKeys = np.sum(hashes, axis=0, dtype=np.uint64)
        probabilities = [measure_match_probability(one) for one in hashes]
        for left_out in ignored_columns:
            others = [p for at, p in enumerate(probabilities) if at not in left_out]
            is_rare_by_chance = expect_equal_pairs(others, len(data)) < _CHANCE_PAIRS
            if len(others) >= _FEW_COLUMNS and is_rare_by_chance:
                yield whole - sum((hashes[at] for at in left_out), np.uint64(0))


def _list_ignored(data: Dataset, columns: list[Any]) -> list[list[int]]:
    """Sets of columns that may differ: none, the parts of dates, each column of mostly unique
    values."""
    dates = [f"{column.name} " for column in data.columns if column.role == "date"]
    parts = [
        at
        for at, column in enumerate(columns)
        if any(str(getattr(column, "name", "")).startswith(name) for name in dates)
    ]
    unique = [at for at, one in enumerate(columns) if _measure_unique_share(one) > _UNIQUE_SHARE]
    return [[], *([parts] if parts else []), *([at] for at in unique)]


def count_chance_pairs(data: Dataset) -> float:
    """Estimate how many pairs of rows of a table are equal by chance."""
    columns = _list_columns(data)
    return expect_equal_pairs(
        [measure_match_probability(_hash_exact_column(one)) for one in columns], len(data)
    )


def _list_columns(data: Dataset) -> list[Any]:
    inputs = data.inputs
    if is_frame(inputs):
        return [inputs[name] for name in inputs.columns]
    return list(np.asarray(inputs).T)


def hash_rows(data: Dataset) -> RowKeys:
    """[N] hashes that are equal for equal rows of a table."""
    hashes = [
        _hash_exact_column(one) * _make_multiplier(at) for at, one in enumerate(_list_columns(data))
    ]
    keys: RowKeys = np.sum(hashes, axis=0, dtype=np.uint64)
    return keys


def _hash_exact_column(values: Any) -> RowKeys:
    import pandas as pd

    column = pd.Series(values)
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "b":
        return _hash_values(column.to_numpy(dtype=np.float64, na_value=np.nan))
    objects = column.astype(object)
    return _hash_values(objects.where(objects.notna(), None).to_numpy())


def measure_match_probability(values: NDArray[Any]) -> float:
    """The probability that two random rows have the same value.

    >>> measure_match_probability(np.array([1, 1, 1, 2]))
    0.5
    """
    _, counts = np.unique(values, return_counts=True)
    n = len(values)
    return float(np.sum(counts * (counts - 1.0)) / max(n * (n - 1.0), 1))


def expect_equal_pairs(probabilities: Sequence[float], n_rows: int) -> float:
    """The expected number of equal pairs of rows if the columns were independent.

    `probabilities` are those of each column that two random rows have the same value.
    """
    return float(n_rows * (n_rows - 1) / 2 * np.prod(probabilities))


def _hash_rounded_column(values: Any, *, is_rounded: bool) -> RowKeys:
    import pandas as pd

    column = pd.Series(values)
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "b":
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _hash_values(shorten_numbers(numbers, is_rounded=is_rounded))
    # Each distinct value is folded once.
    numbers, unique = pd.factorize(column.astype(object).map(str, na_action="ignore"))
    folded_hashes = _hash_values(
        [*(fold_text(value) for value in unique), ""]
    )  # the last one stands for missing values
    return folded_hashes[numbers]


def shorten_numbers(numbers: NDArray[np.float64], *, is_rounded: bool) -> NDArray[np.float64]:
    """Numbers to three significant digits, rounded or truncated.

    >>> shorten_numbers(np.array([39.16, 0.012349, -4200.0]), is_rounded=True).tolist()
    [39.2, 0.0123, -4200.0]
    """
    size = np.abs(np.where(np.isfinite(numbers) & (numbers != 0), numbers, 1.0))
    step = 10.0 ** (np.floor(np.log10(size)) - _DIGITS + 1)
    short = np.where(np.isfinite(numbers), numbers, 0.0) / step
    short = np.round(short) if is_rounded else np.trunc(short + np.copysign(1e-9, short))
    rounded_numbers: NDArray[np.float64] = np.where(
        np.isfinite(numbers), np.round(short * step, 12) + 0.0, numbers
    )
    return rounded_numbers


def _hash_values(values: Any) -> RowKeys:
    from pandas.util import hash_array

    array = np.asarray(values, dtype=object) if isinstance(values, list) else values
    if array.dtype == object and not all(isinstance(one, str | None) for one in array):
        array = np.array([str(one) for one in array], dtype=object)
    return np.asarray(hash_array(array, categorize=True), np.uint64)


def _make_multiplier(at: int) -> np.uint64:
    """An odd number per column, so that equal values in different columns do not match."""
    return np.uint64(2 * int(np.random.SeedSequence(at).generate_state(1, np.uint32)[0]) + 1)


def _measure_unique_share(values: Any) -> float:
    """The number of distinct values as a share of the rows."""
    import pandas as pd

    return pd.Series(values).nunique() / max(len(values), 1)
