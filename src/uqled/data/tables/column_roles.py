"""The role of a column, from its values: length, uniqueness, vocabulary, and what they parse as."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from uqled.data.images import IMAGE_ENDINGS
from uqled.data.tables.columns import Column, Role
from uqled.data.tables.number_texts import detect_number_format, parse_number_texts
from uqled.errors import InputError

USED_ROLES = ("number", "category", "text", "image", "date")
#: Why a column has the role that the user gave it.
USER_CHOICE = "as you said"
_SAMPLED_VALUES = 5_000  # values of a column that are examined, evenly spaced
_SAMPLED_PATHS = 100
_FEW_ROWS = 20  # rows, below which uniqueness means nothing
_EMPTY_SHARE = 0.95  # missing values from which on a column is as good as empty
_IN_ORDER = 0.99  # rank correlation with the row number, from which on a column is in file order
_PARSED_SHARE = 0.95  # of the values that must be dates or numbers
_ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|idx|key)$|[a-z]I[dD]$", re.ASCII)
_ID_NAME_START = re.compile(r"^(id|uuid|guid)([_\s.-]|$)", re.IGNORECASE)
_COUNTER_SHARE = 0.9  # of the steps from row to row that are one, of a serial number
_COUNTER_DISTINCT = 0.3  # of its values: fewer are a cycle, such as hours
_MAX_RANGE_PER_ROW = (
    1.02  # numbers from the lowest to the highest per row, of serial numbers in any order
)
_FEW_BLOCKS = 10  # below which equally long blocks of rows may be a design
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_WEEKDAY = r"(mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,?\s"
_NUMERIC_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
_DATE = re.compile(
    rf"\s*({_WEEKDAY})?({_NUMERIC_DATE}|\d{{1,2}}[-\s]{_MONTH},?[-\s]\d{{2,4}}"
    rf"|{_MONTH}\s\d{{1,2}},?\s\d{{4}}|{_MONTH}[-\s]\d{{4}}|(19|20)\d\d[-/](0[1-9]|1[0-2]))"
    rf"([T,\s]+\d{{1,2}}:\d{{2}}.{{0,20}})?\s*",
    re.IGNORECASE,
)
_COMPACT_DATES = (19000101, 21001231)  # of year, month and day as one number
_NUMBER_IN_TEXT = re.compile(r"\d+")
_DAY_FIRST = re.compile(r"\s*(\d{1,2})[-/.]\d{1,2}[-/.]\d{2,4}")
_TIME_NAME = re.compile(r"time|date|stamp", re.IGNORECASE)


def infer_column(name: str, values: Any) -> Column:
    """The role of a pandas column, and whether a model should see it."""
    n, present = len(values), values.dropna()
    if name.lower() == "text" and is_text(values):
        return Column(name, "text", True)
    if not len(present):
        return Column(name, "constant", False, "empty")
    if n >= _FEW_ROWS and len(present) < (1 - _EMPTY_SHARE) * n:
        return Column(name, "constant", False, f"empty in {_describe_share(n, len(present))}")
    kind = values.dtype.kind if hasattr(values.dtype, "kind") else "O"
    if kind == "M":
        return _infer_date_column(name, values)
    if len(present) == n > 1 and not _holds_lists(present) and present.nunique() == 1:
        return Column(name, "constant", False, "one value")
    if kind in "iuf":
        return _infer_number_column(name, values, present)
    if kind == "b" or str(values.dtype) == "category":
        return Column(name, "category", True)
    if is_text(values):
        return _infer_string_column(name, values, present)
    if _holds_lists(present):
        return Column(name, "number", True, "lists of numbers")
    return Column(name, "ignore", False, f"holds {type(present.iloc[0]).__name__}")


def infer_table_column(frame: Any, name: str) -> Column:
    """What a column of a pandas frame is, by its name or its values."""
    if name.lower() == "split":
        return Column(name, "split", False)
    if name.lower() == "id":
        return Column(name, "id", False)
    values = frame[name]
    is_numbered = name.startswith("Unnamed: ") and values.dtype.kind in "iu"
    if is_numbered and (np.diff(values.to_numpy()) == 1).all():
        return Column(name, "id", False, "row numbers")
    return infer_column(name, values)


def check_roles(roles: Mapping[str, str], names: list[str], subject: str) -> None:
    """Refuse roles of columns that do not exist, and roles that do not."""
    for name, role in roles.items():
        if name not in names:
            raise InputError(
                "columns", f"name {name!r}, but {subject} has the columns {', '.join(names)}",
                "Choose among them",
            )  # fmt: skip
        if role not in get_args(Role):
            raise InputError(
                "columns",
                f"give {name!r} the role {role!r}",
                f"Choose one of {', '.join(get_args(Role))}",
            )


def convert_column(values: Any, column: Column) -> dict[str, Any]:
    """The columns that a model sees in place of one, by name: numbers, strings or date parts."""
    if column.role == "date":
        # A column that the user calls a date keeps all its parts: new samples may be of one day.
        keep_all = column.reason == USER_CHOICE
        return _make_date_parts(column.name, parse_dates(values), keep_all=keep_all)
    if column.role == "number" and is_text(values):
        return {column.name: parse_number_texts(values)}
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
    first = column.iloc[:_SAMPLED_PATHS]
    values = [value for value in first if isinstance(value, str) and value]
    return bool(values) and all(value.strip().lower().endswith(IMAGE_ENDINGS) for value in values)


def parse_dates(values: Any) -> Any:
    """Dates of a pandas column; NaT where a value is none."""
    import pandas as pd

    if getattr(values.dtype, "kind", "O") == "M":
        return values
    if getattr(values.dtype, "kind", "O") in "iuf":
        if _are_compact_dates(values.dropna()):
            digits = values.astype("Int64").astype("string")
            return pd.to_datetime(digits, format="%Y%m%d", errors="coerce")
        unit: Any = "s" if values.max() < 1e11 else "ms"
        return pd.to_datetime(values, unit=unit, errors="coerce")
    unique = values.dropna().unique()
    days = [int(match[1]) for text in unique if (match := _DAY_FIRST.match(str(text)))]
    is_day_first = any(12 < day <= 31 for day in days)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the order of day and month was settled above
        texts = pd.Series(unique, dtype=object)
        starts_with_year = texts.astype(str).str.match(r"\s*\d{4}\D")  # whatever others begin with
        dates = pd.concat(
            pd.to_datetime(
                alike_texts, errors="coerce", format="mixed", dayfirst=day_first, utc=True
            )
            for alike_texts, day_first in (
                (texts[starts_with_year], False),
                (texts[~starts_with_year], is_day_first),
            )
        ).sort_index()
    return values.map(dict(zip(unique, dates.dt.tz_localize(None), strict=True)))


def _infer_number_column(name: str, values: Any, present: Any) -> Column:
    n = len(values)
    if n < _FEW_ROWS:
        return Column(name, "number", True)
    is_whole = values.dtype.kind in "iu" or bool((present % 1 == 0).all())
    distinct = present.nunique() / len(present)
    if is_whole and present.min() > 10**8 and present.max() < 10**13 and _TIME_NAME.search(name):
        return _infer_date_column(name, values)
    if is_whole and _are_compact_dates(present):
        return _infer_date_column(name, values)
    if distinct > 0.5 and _is_in_file_order(present):
        return Column(name, "id", False, "a serial number or time in file order")
    if is_whole and (reason := _explain_counter(present, distinct)):
        return Column(name, "id", False, reason)
    if is_whole and distinct == 1 and is_id_name(name):
        return Column(name, "id", False, "a different number in every row")
    return Column(name, "number", True)


def _is_in_file_order(present: Any) -> bool:
    """Whether values rise or fall from row to row, but for a few that are out of order."""
    if present.is_monotonic_increasing or present.is_monotonic_decreasing:
        return True
    ranks = present.rank().to_numpy()
    return bool(abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) > _IN_ORDER)


def _are_compact_dates(present: Any) -> bool:
    """Whether numbers are dates such as 20240131."""
    import pandas as pd

    lowest, highest = _COMPACT_DATES
    if not len(present) or not present.between(lowest, highest).all() or (present % 1 != 0).any():
        return False
    digits = present.astype(np.int64).astype(str)
    return bool(pd.to_datetime(digits, format="%Y%m%d", errors="coerce").notna().all())


def _explain_counter(present: Any, distinct: float) -> str:
    """Why whole numbers say nothing but a row's position; empty if they say more."""
    numbers = present.to_numpy(dtype=np.float64)
    steps = np.diff(numbers)
    if distinct > _COUNTER_DISTINCT and np.mean(steps == 1) > _COUNTER_SHARE:
        return "a serial number that starts over"
    if distinct == 1 and numbers.max() - numbers.min() + 1 <= _MAX_RANGE_PER_ROW * len(numbers):
        return "serial numbers in another order"
    starts = np.flatnonzero(steps) + 1
    lengths = np.diff(starts)
    if len(lengths) >= _FEW_BLOCKS and (steps[starts - 1] == 1).all() and len(set(lengths)) == 1:
        return f"counts blocks of {lengths[0]} rows"
    return ""


def _infer_date_column(name: str, values: Any) -> Column:
    dates = parse_dates(values)
    present = dates.dropna()
    if len(values) >= _FEW_ROWS and _is_in_file_order(present):
        return Column(name, "date", False, "a date in file order")
    parts = [part.removeprefix(f"{name} ") for part in _make_date_parts(name, dates)]
    if not parts:
        return Column(name, "date", False, "one month, weekday and hour")
    return Column(name, "date", True, f"as {', '.join(parts)}")


def _infer_string_column(name: str, values: Any, present: Any) -> Column:
    if are_image_paths(values):
        return Column(name, "image", True)
    examples = present.iloc[:: max(1, len(present) // _SAMPLED_VALUES)].astype(str).tolist()
    if sum(_DATE.fullmatch(text) is not None for text in examples) >= _PARSED_SHARE * len(examples):
        dates = parse_dates(present)
        if dates.notna().mean() >= _PARSED_SHARE:
            return _infer_date_column(name, values)
    if (reason := _explain_number(examples, present)) is not None:
        numbers = parse_number_texts(values)
        column = _infer_number_column(name, numbers, numbers.dropna())
        if not column.is_used and (numbers.dropna() % 1 == 0).all():
            return column
        return Column(name, "number", True, reason)
    if len(values) >= _FEW_ROWS and _are_numbered(examples):
        return Column(name, "id", False, "the same words with a different number in every row")
    words = [text.split() for text in examples]
    length = float(np.mean([len(one) for one in words]))
    distinct = len(set(examples)) / len(examples)
    if _is_prose(words, length, distinct):
        return Column(name, "text", True)
    if len(values) < _FEW_ROWS:
        return Column(name, "category", True)
    if distinct == 1:
        return Column(name, "id", False, "a different value in every row")
    if distinct > 0.5:
        return Column(name, "category", False, f"{distinct:.0%} of the values are different")
    return Column(name, "category", True)


def _are_numbered(texts: list[str]) -> bool:
    """Whether texts differ in one number and nothing else, such as `Invoice 17`."""
    if len(set(texts)) < len(texts) or len({_NUMBER_IN_TEXT.sub("0", text) for text in texts}) > 1:
        return False
    numbers = zip(*map(_NUMBER_IN_TEXT.findall, texts), strict=True)
    return sum(len(set(column)) > 1 for column in numbers) == 1


def _is_prose(words: list[list[str]], length: float, distinct: float) -> bool:
    """Whether strings are texts: several words, mostly different texts, words that come again."""
    if len(words) < _FEW_ROWS:
        return length >= 5 and distinct > 0.5
    if (length >= 4 and distinct > 0.5) or (length >= 8 and distinct > 0.1):
        return True
    counts = [word.lower() for one in words for word in one]
    return length >= 2 and distinct > 0.5 and len(set(counts)) < 0.6 * len(counts)


def _explain_number(examples: list[str], present: Any) -> str | None:
    """The conversion of strings that are numbers, or None."""
    if detect_number_format(examples) is None:
        return None
    number_format = detect_number_format(present.astype(str).tolist())
    return None if number_format is None else number_format.describe()


def _make_date_parts(name: str, dates: Any, *, keep_all: bool = False) -> dict[str, Any]:
    """Parts of dates that come again in data not seen yet, where they differ at all."""
    parts = {"month": dates.dt.month, "weekday": dates.dt.day_of_week, "hour": dates.dt.hour}
    return {
        f"{name} {part}": values.astype(np.float64)
        for part, values in parts.items()
        if keep_all or values.nunique() > 1
    }


def _describe_share(n: int, n_present: int) -> str:
    """The number of missing rows among `n`.

    >>> _describe_share(1000, 1), _describe_share(1000, 40)
    ('all rows but 1', '96% of the rows')
    """
    share = f"{1 - n_present / n:.0%}"
    return f"all rows but {n_present}" if share == "100%" else f"{share} of the rows"


def is_id_name(name: str) -> bool:
    """Whether a column is called like an id."""
    return bool(_ID_NAME.search(name) or _ID_NAME_START.search(name) or name.lower() == "id")


def _write_value(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def _holds_lists(present: Any) -> bool:
    return isinstance(present.iloc[0], list | np.ndarray | dict)
