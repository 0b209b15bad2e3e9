"""The role of a column, from its values: length, uniqueness, vocabulary, and what they parse as."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from uqled.data.columns import Column, Role
from uqled.data.images import ENDINGS
from uqled.errors import InputError

USED_ROLES = ("number", "category", "text", "image", "date")
_PEEKED = 5_000  # values of a column that are looked at, spread over it
_PEEKED_PATHS = 100
_FEW_ROWS = 20  # below which uniqueness says nothing
_EMPTY_SHARE = 0.95  # missing values from which on a column is as good as empty
_PARSED_SHARE = 0.95  # of the values that must be dates or numbers
_MISSING_MARKS = 2  # different words that stand for a missing number, at most
_ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|idx|key)$|[a-z]I[dD]$", re.ASCII)
_ID_NAME_START = re.compile(r"^(id|uuid|guid)([_\s.-]|$)", re.IGNORECASE)
_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
    r"([T\s]+\d{1,2}:\d{2}.{0,20})?\s*"
)
_COMMA_NUMBER = re.compile(r"\s*[+-]?\d+(,\d+)?\s*")
_TIME_NAME = re.compile(r"time|date|stamp", re.IGNORECASE)


def understand_column(name: str, values: Any) -> Column:
    """What a pandas column is, and whether a model should see it."""
    n, present = len(values), values.dropna()
    if name.lower() == "text" and is_text(values):
        return Column(name, "text", True)
    if not len(present):
        return Column(name, "constant", False, "empty")
    if n >= _FEW_ROWS and len(present) < (1 - _EMPTY_SHARE) * n:
        return Column(name, "constant", False, f"empty in {1 - len(present) / n:.0%} of the rows")
    kind = values.dtype.kind if hasattr(values.dtype, "kind") else "O"
    if kind == "M":
        return _understand_date(name, values)
    if len(present) == n > 1 and not _holds_lists(present) and present.nunique() == 1:
        return Column(name, "constant", False, "one value")
    if kind in "iuf":
        return _understand_number(name, values, present)
    if kind == "b" or str(values.dtype) == "category":
        return Column(name, "category", True)
    if is_text(values):
        return _understand_strings(name, values, present)
    if _holds_lists(present):
        return Column(name, "number", True, "lists of numbers")
    return Column(name, "ignore", False, f"holds {type(present.iloc[0]).__name__}")


def check_roles(roles: Mapping[str, str], names: list[str], subject: str) -> None:
    """Refuse roles of columns that do not exist, and roles that do not."""
    for name, role in roles.items():
        if name not in names:
            raise InputError(
                "columns", f"name {name!r}, and {subject} has the columns {', '.join(names)}",
                "Choose among them",
            )  # fmt: skip
        if role not in get_args(Role):
            raise InputError(
                "columns",
                f"say that {name!r} is {role!r}",
                f"Choose one of {', '.join(get_args(Role))}",
            )


def convert_column(values: Any, column: Column) -> dict[str, Any]:
    """The columns that a model sees in place of one, by name: numbers, strings or date parts."""
    if column.role == "date":
        return _make_date_parts(column.name, parse_dates(values))
    if column.role == "number" and is_text(values):
        return {column.name: _parse_numbers(values)}
    if column.role in ("category", "text") and not is_text(values):
        kind = getattr(values.dtype, "kind", "O")
        if column.role == "text" or kind in "iuf":  # which the user calls categories
            return {column.name: values.astype(object).map(_write_value, na_action="ignore")}
    return {column.name: values}


def is_text(column: Any) -> bool:
    """Whether a pandas column holds strings."""
    if str(column.dtype) in ("str", "string"):
        return True
    return column.dtype == object and all(isinstance(value, str) for value in column.dropna())


def are_image_paths(column: Any) -> bool:
    """Whether the first values all end like images' files."""
    first = column.iloc[:_PEEKED_PATHS]
    values = [value for value in first if isinstance(value, str) and value]
    return bool(values) and all(value.strip().lower().endswith(ENDINGS) for value in values)


def parse_dates(values: Any) -> Any:
    """Dates of a pandas column; NaT where a value is none."""
    import pandas as pd

    if getattr(values.dtype, "kind", "O") == "M":
        return values
    if getattr(values.dtype, "kind", "O") in "iuf":
        unit: Any = "s" if values.max() < 1e11 else "ms"
        return pd.to_datetime(values, unit=unit, errors="coerce")
    unique = values.dropna().unique()
    days = [int(re.split(r"[-/.]", text.strip())[0]) for text in unique if _DATE.fullmatch(text)]
    is_day_first = any(12 < day <= 31 for day in days)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of day and month in doubt: settled above
        parsed = pd.to_datetime(
            pd.Series(unique, dtype=object), errors="coerce", format="mixed",
            dayfirst=is_day_first, utc=True,
        )  # fmt: skip
    return values.map(dict(zip(unique, parsed.dt.tz_localize(None), strict=True)))


def _understand_number(name: str, values: Any, present: Any) -> Column:
    n = len(values)
    if n < _FEW_ROWS:
        return Column(name, "number", True)
    is_whole = values.dtype.kind in "iu" or bool((present % 1 == 0).all())
    distinct = present.nunique() / len(present)
    if is_whole and present.min() > 10**8 and present.max() < 10**13 and _TIME_NAME.search(name):
        return _understand_date(name, values)
    is_ordered = present.is_monotonic_increasing or present.is_monotonic_decreasing
    if is_ordered and distinct > 0.5 and len(present) == n:
        return Column(name, "id", False, "a serial number or time in file order")
    if is_whole and distinct == 1 and is_id_name(name):
        return Column(name, "id", False, "a different number in every row")
    return Column(name, "number", True)


def _understand_date(name: str, values: Any) -> Column:
    dates = parse_dates(values)
    present = dates.dropna()
    is_ordered = present.is_monotonic_increasing or present.is_monotonic_decreasing
    if len(values) >= _FEW_ROWS and is_ordered:
        return Column(name, "date", False, "a date in file order")
    parts = [part.removeprefix(f"{name} ") for part in _make_date_parts(name, dates)]
    if not parts:
        return Column(name, "date", False, "one month, weekday and hour")
    return Column(name, "date", True, f"as {', '.join(parts)}")


def _understand_strings(name: str, values: Any, present: Any) -> Column:
    if are_image_paths(values):
        return Column(name, "image", True)
    peeked = present.iloc[:: max(1, len(present) // _PEEKED)].astype(str).tolist()
    if sum(_DATE.fullmatch(text) is not None for text in peeked) >= _PARSED_SHARE * len(peeked):
        parsed = parse_dates(present)
        if parsed.notna().mean() >= _PARSED_SHARE:
            return _understand_date(name, values)
    if (reason := _explain_number(peeked, present)) is not None:
        return Column(name, "number", True, reason)
    words = [text.split() for text in peeked]
    length = float(np.mean([len(one) for one in words]))
    distinct = len(set(peeked)) / len(peeked)
    if _is_prose(words, length, distinct):
        return Column(name, "text", True)
    if len(values) < _FEW_ROWS:
        return Column(name, "category", True)
    if distinct == 1:
        return Column(name, "id", False, "a different value in every row")
    if distinct > 0.5:
        return Column(name, "category", False, f"{distinct:.0%} of the values are different")
    return Column(name, "category", True)


def _is_prose(words: list[list[str]], length: float, distinct: float) -> bool:
    """Whether strings are texts: several words, mostly different texts, words that come again."""
    if len(words) < _FEW_ROWS:
        return length >= 5 and distinct > 0.5
    if (length >= 4 and distinct > 0.5) or (length >= 8 and distinct > 0.1):
        return True
    counts = [word.lower() for one in words for word in one]
    return length >= 2 and distinct > 0.5 and len(set(counts)) < 0.6 * len(counts)


def _explain_number(peeked: list[str], present: Any) -> str | None:
    """Why strings are numbers, or None: decimal commas, or a mark for missing ones."""
    if all(_COMMA_NUMBER.fullmatch(text) for text in peeked) and any("," in t for t in peeked):
        return "with decimal commas"
    marks = {text.strip() for text in peeked if not _is_number(text)}
    share = sum(_is_number(text) for text in peeked) / len(peeked)
    if len(marks) <= _MISSING_MARKS and share > 0.5 and all(len(mark) <= 8 for mark in marks):
        listed = {text.strip() for text in present.unique() if not _is_number(str(text))}
        if len(listed) <= _MISSING_MARKS:
            return f"{' and '.join(map(repr, sorted(listed)))} read as missing"
    return None


def _parse_numbers(values: Any) -> Any:
    import pandas as pd

    plain = values.astype(object).map(lambda text: str(text).strip(), na_action="ignore")
    present = plain.dropna()
    if len(present) and present.map(lambda text: _COMMA_NUMBER.fullmatch(text) is not None).all():
        plain = plain.map(lambda text: text.replace(",", "."), na_action="ignore")
    return pd.to_numeric(plain, errors="coerce").astype(np.float64)


def _make_date_parts(name: str, dates: Any) -> dict[str, Any]:
    """Parts of dates that come again in data not seen yet, where they differ at all."""
    parts = {"month": dates.dt.month, "weekday": dates.dt.day_of_week, "hour": dates.dt.hour}
    return {
        f"{name} {part}": values.astype(np.float64)
        for part, values in parts.items()
        if values.nunique() > 1
    }


def is_id_name(name: str) -> bool:
    """Whether a column is called like an id."""
    return bool(_ID_NAME.search(name) or _ID_NAME_START.search(name) or name.lower() == "id")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _write_value(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def _holds_lists(present: Any) -> bool:
    return isinstance(present.iloc[0], list | np.ndarray | dict)
