"""Numbers as people write them: with thousands separators, decimal commas, a currency or a unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_CURRENCIES = "€$£¥₹"
_MISSING_MARKS = 2  # different words that stand for a missing number, at most
_MARK_LENGTH = 8  # letters of such a word
_NUMBER_SHARE = 0.5  # of the values that must be numbers, with one such word
_NUMBER_SHARE_OF_TWO = 0.8  # with two such words; fewer numbers may be codes
_PARTS = re.compile(
    rf"([{_CURRENCIES}]?)\s*([+-]?)\s*([{_CURRENCIES}]?)"
    rf"(\d[\d.,]*|[.,]\d+)((?:[eE][+-]?\d+)?)(\s*[{_CURRENCIES}%]|\s[A-Za-z]{{1,3}})?"
)
_PLAIN_NUMBER = re.compile(r"\d+\.?\d*|\.\d+")
_COMMA_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_DOT_THOUSANDS = re.compile(r"[1-9]\d{0,2}(\.\d{3})+(,\d*)?")
_DECIMAL_COMMA = re.compile(r"\d*,\d+|\d+")


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of one column are written."""

    thousands: str = ""
    decimal: str = "."
    unit: str = ""
    """A currency, `%` or a unit that all of them have."""
    marks: tuple[str, ...] = ()
    """Words that stand for a missing number."""

    def describe(self) -> str:
        """How the values were converted; empty for plain numbers."""
        reasons = []
        if self.decimal == ",":
            reasons.append("with decimal commas")
        elif self.thousands:
            reasons.append("with thousands separators")
        if self.unit:
            reasons.append(f"in {self.unit}")
        if self.marks:
            reasons.append(f"{' and '.join(map(repr, self.marks))} read as missing")
        return ", ".join(reasons)

    def parse(self, text: str) -> float:
        """The number, or NaN.

        >>> NumberFormat(thousands=",", unit="€").parse("€1,234.50")
        1234.5
        """
        parts = _PARTS.fullmatch(text.strip())
        if parts is None:
            return _parse_plain(text)
        _, sign, _, digits, exponent, _ = parts.groups()
        number = digits.replace(self.thousands, "") if self.thousands else digits
        return _parse_plain(sign + number.replace(self.decimal, ".") + exponent)


def detect_number_format(texts: Sequence[str]) -> NumberFormat | None:
    """How a column of strings writes its numbers; None where it holds none.

    >>> detect_number_format(["1,5", "20"])
    NumberFormat(thousands='', decimal=',', unit='', marks=())
    >>> detect_number_format(["1,500", "20", "3,000,000"]).thousands
    ','
    """
    matches = {text: _PARTS.fullmatch(text.strip()) for text in dict.fromkeys(texts)}
    marks = sorted({
        text.strip() for text, match in matches.items()
        if match is None and not np.isfinite(_parse_plain(text))
    })  # fmt: skip
    numbers = [match for match in matches.values() if match is not None]
    share = sum(text.strip() not in marks for text in texts) / max(len(texts), 1)
    least = _NUMBER_SHARE if len(marks) < _MISSING_MARKS else _NUMBER_SHARE_OF_TWO
    if not numbers or len(marks) > _MISSING_MARKS or (marks and share <= least):
        return None
    if any(len(mark) > _MARK_LENGTH for mark in marks):
        return None
    units = {(match[1] + match[3] + (match[6] or "")).strip() for match in numbers}
    digits = [match[4] for match in numbers]
    separators = _choose_separators(digits)
    if len(units) > 1 or separators is None:
        return None
    thousands, decimal = separators
    return NumberFormat(thousands, decimal, units.pop(), tuple(marks))


def parse_number_texts(values: Any) -> Any:
    """Numbers of a pandas column of strings; NaN where a value is none."""
    unique = [text for text in values.dropna().unique() if isinstance(text, str)]
    form = detect_number_format(unique) or NumberFormat()
    numbers = {text: form.parse(text) for text in unique}
    return values.map(numbers).astype(np.float64)


def _choose_separators(digits: Iterable[str]) -> tuple[str, str] | None:
    """(thousands, decimal) by which all of them are numbers."""
    characters = list(digits)
    if all(_PLAIN_NUMBER.fullmatch(text) for text in characters):
        return "", "."
    if all(
        _PLAIN_NUMBER.fullmatch(text) or _COMMA_THOUSANDS.fullmatch(text) for text in characters
    ):
        return ",", "."
    if all(_DECIMAL_COMMA.fullmatch(text) for text in characters):
        return "", ","
    if all(_DECIMAL_COMMA.fullmatch(text) or _DOT_THOUSANDS.fullmatch(text) for text in characters):
        return ".", ","
    return None


def _parse_plain(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
