"""Decides whether the first line of a table of text names the columns, or is data."""

from __future__ import annotations

from uqled.errors import InputError

_FEW_RECORDS = 5  # below which the first line is taken for names
_MIN_REPEATS = 2  # occurrences below, from which on an entry is not a name
_DIGITS = 18  # of a whole number that may be a name: Python refuses to parse thousands of digits
_FEW_DIFFERENT = 0.5  # of the entries of a column of classes
_COMMON_NAMES = frozenset(
    ("label", "labels", "target", "class", "y", "text", "id", "category", "path")
)


def check_header(header: str | None) -> None:
    if header not in (None, "yes", "no"):
        raise InputError("header", f"is {header!r}", "Choose yes or no")


def name_unnamed_columns(n: int) -> list[str]:
    """The names of the columns of a table without names."""
    return [f"column {number}" for number in range(1, n + 1)]


def is_header(records: list[list[str]]) -> bool:
    """Whether the first record names the columns of the others.

    It does not where numbers stand above numbers, or where a class stands above itself. Numbers
    one after the other (0, 1, 2 or years) are names.

    >>> is_header([["39", "State-gov"], *[["50", "Private"], ["41", "State-gov"]] * 4])
    False
    >>> is_header([["age", "work"], *[["50", "Private"], ["41", "State-gov"]] * 4])
    True
    """
    if len(records) < _FEW_RECORDS:
        return True
    first, rest = [entry.strip() for entry in records[0]], records[1:]
    rest = [row for row in rest if len(row) == len(first)]
    if (
        {entry.lower() for entry in first} & _COMMON_NAMES
        or not all(first)
        or len(rest) < _FEW_RECORDS
    ):
        return True
    columns = [[row[at].strip() for row in rest] for at in range(len(first))]
    numeric = [all(map(_is_number, filter(None, column))) and any(column) for column in columns]
    if any(
        is_numeric and not _is_number(name) for is_numeric, name in zip(numeric, first, strict=True)
    ):
        return True
    if _are_consecutive(
        [name for name, is_numeric in zip(first, numeric, strict=True) if is_numeric]
    ):
        return True
    classes = [
        column.count(name)
        for name, column, is_numeric in zip(first, columns, numeric, strict=True)
        if not is_numeric and len(set(column)) <= _FEW_DIFFERENT * len(column)
    ]
    if classes:
        return 2 * sum(count >= _MIN_REPEATS for count in classes) < len(classes)
    return not all(numeric)


def _are_consecutive(numbers: list[str]) -> bool:
    """Whether several whole numbers follow each other."""
    if len(numbers) < 2 or not all(n.isdecimal() and len(n) <= _DIGITS for n in numbers):
        return False
    values = list(map(int, numbers))
    return values == list(range(values[0], values[0] + len(values)))


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return entry == "?"  # marks a missing value in many published tables
    return True
