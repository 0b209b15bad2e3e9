"""Rows of a table that are nearly the same: but for rounding, a column like an id, or the columns
beside a text."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.inspection.text_keys import fold_text

Keys = NDArray[np.uint64]

_DIGITS = 3  # of a number, that a copy which was rounded still has
_UNIQUE_SHARE = 0.9  # of different values, from which on a column may be an id or a time
_WORDS = 8  # of a text that is no name or phrase, and so does not come again by chance
_MANY_COLUMNS = 500  # beyond which rows are not compared
_FEW_COLUMNS = 3  # that must be the same: two may depend on each other
_CHANCE_PAIRS = (
    0.05  # expected, from which on equal rows may be no copies: columns depend on others
)


def list_near_keys(data: Dataset) -> Iterator[Sequence[Hashable | None] | Keys]:
    """[N] keys, several times over: rows with one key are nearly the same; None is no key."""
    if data.kind != "table" or data.inputs.shape[1] > _MANY_COLUMNS:
        return
    texts = data.texts
    if texts is not None:
        folded = map(fold_text, texts)
        yield [text if text.count(" ") >= _WORDS - 1 else None for text in folded]
    columns = _list_columns(data)
    ignored = _list_ignored(data, columns)
    for is_rounded in (True, False):  # of 1.2349 and 1.2351, one way or the other is the same
        hashes = [_hash_column(column, is_rounded=is_rounded) * _mix(at)
                  for at, column in enumerate(columns)]  # fmt: skip
        whole: Keys = np.sum(hashes, axis=0, dtype=np.uint64)
        alike = [measure_alike(one) for one in hashes]
        for left_out in ignored:
            others = [share for at, share in enumerate(alike) if at not in left_out]
            is_telling = expect_equal_pairs(others, len(data)) < _CHANCE_PAIRS
            if len(others) >= _FEW_COLUMNS and is_telling:
                yield whole - sum((hashes[at] for at in left_out), np.uint64(0))


def _list_ignored(data: Dataset, columns: list[Any]) -> list[list[int]]:
    """The columns that may differ, several times over: none, what was made of dates, each that is
    different in nearly every row."""
    dates = [f"{column.name} " for column in data.columns if column.role == "date"]
    parts = [
        at
        for at, column in enumerate(columns)
        if any(str(getattr(column, "name", "")).startswith(name) for name in dates)
    ]
    unique = [at for at, one in enumerate(columns) if _count_different(one) > _UNIQUE_SHARE]
    return [[], *([parts] if parts else []), *([at] for at in unique)]


def count_chance_pairs(data: Dataset) -> float:
    """How many pairs of rows of a table would be the same by chance."""
    columns = _list_columns(data)
    return expect_equal_pairs([measure_alike(_hash_plain(one)) for one in columns], len(data))


def _list_columns(data: Dataset) -> list[Any]:
    inputs = data.inputs
    if hasattr(inputs, "columns"):
        return [inputs[name] for name in inputs.columns]
    return list(np.asarray(inputs).T)


def hash_rows(data: Dataset) -> Keys:
    """[N] equal for rows of a table that are the same."""
    hashes = [_hash_plain(one) * _mix(at) for at, one in enumerate(_list_columns(data))]
    keys: Keys = np.sum(hashes, axis=0, dtype=np.uint64)
    return keys


def _hash_plain(values: Any) -> Keys:
    import pandas as pd

    column = pd.Series(values)
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "b":
        return _hash(column.to_numpy(dtype=np.float64, na_value=np.nan))
    plain = column.astype(object)
    return _hash(plain.where(plain.notna(), None).to_numpy())


def measure_alike(values: NDArray[Any]) -> float:
    """How probable it is that two rows, drawn at random, have the same value.

    >>> measure_alike(np.array([1, 1, 1, 2]))
    0.5
    """
    _, counts = np.unique(values, return_counts=True)
    n = len(values)
    return float(np.sum(counts * (counts - 1.0)) / max(n * (n - 1.0), 1))


def expect_equal_pairs(alike: Sequence[float], n_rows: int) -> float:
    """How many pairs of rows are the same by chance, if columns had nothing to do with each other.

    `alike` are the columns' probabilities that two rows have the same value.
    """
    return float(n_rows * (n_rows - 1) / 2 * np.prod(alike))


def _hash_column(values: Any, *, is_rounded: bool) -> Keys:
    import pandas as pd

    column = pd.Series(values)
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "b":
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _hash(shorten_numbers(numbers, is_rounded=is_rounded))
    # Each different value is folded once.
    numbers, unique = pd.factorize(column.astype(object).map(str, na_action="ignore"))
    folded = _hash([*(fold_text(value) for value in unique), ""])  # the last one is what is missing
    return folded[numbers]


def shorten_numbers(numbers: NDArray[np.float64], *, is_rounded: bool) -> NDArray[np.float64]:
    """Numbers with three digits, rounded or cut off.

    >>> shorten_numbers(np.array([39.16, 0.012349, -4200.0]), is_rounded=True).tolist()
    [39.2, 0.0123, -4200.0]
    """
    size = np.abs(np.where(np.isfinite(numbers) & (numbers != 0), numbers, 1.0))
    step = 10.0 ** (np.floor(np.log10(size)) - _DIGITS + 1)
    short = np.where(np.isfinite(numbers), numbers, 0.0) / step
    short = np.round(short) if is_rounded else np.trunc(short + np.copysign(1e-9, short))
    shortened: NDArray[np.float64] = np.where(
        np.isfinite(numbers), np.round(short * step, 12) + 0.0, numbers
    )
    return shortened


def _hash(values: Any) -> Keys:
    from pandas.util import hash_array

    array = np.asarray(values, dtype=object) if isinstance(values, list) else values
    if array.dtype == object and not all(isinstance(one, str | None) for one in array):
        array = np.array([str(one) for one in array], dtype=object)
    return np.asarray(hash_array(array, categorize=True), np.uint64)


def _mix(at: int) -> np.uint64:
    """An odd number for each column: the same value in two columns is no match."""
    return np.uint64(2 * int(np.random.SeedSequence(at).generate_state(1, np.uint32)[0]) + 1)


def _count_different(values: Any) -> float:
    """The share of rows that have a value of their own."""
    import pandas as pd

    return pd.Series(values).nunique() / max(len(values), 1)
