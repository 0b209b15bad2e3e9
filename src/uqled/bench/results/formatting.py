"""How methods, rates and numbers are written: the same in every table, figure and page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from functools import cache

from uqled.bench.method_flags import GIVEN_ENDING
from uqled.bench.suite import PAPER_METHODS
from uqled.detect.methods.registry import list_method_names, parse_method

DASH = "\N{EN DASH}"


def format_method(method: str) -> str:
    """The method's name in the paper; a method that is not in the paper keeps its own."""
    title, agreement, reading = _split_method(method)
    details = [f"agreement {agreement}"] * bool(agreement) + [reading] * bool(reading)
    return f"{title} ({', '.join(details)})" if details else title


def format_method_short(method: str) -> str:
    """The same, for figures."""
    title, agreement, reading = _split_method(method)
    return f"{title}{f' {agreement}' if agreement else ''}{f' ({reading})' if reading else ''}"


@cache
def _split_method(method: str) -> tuple[str, int, str]:
    """Its title, its agreement or 0, and `given` where it has the other reading."""
    name = method.removesuffix(GIVEN_ENDING)
    reading = "" if name == method else GIVEN_ENDING.lstrip("-")
    if name not in list_method_names():
        return {"noisy": "Noisy labels"}.get(name, name), 0, reading
    choice = parse_method(name)
    return choice.method.title or name, choice.agreement, reading


def sort_methods(methods: Iterable[str]) -> list[str]:
    """The paper's methods in its order, each followed by its other reading, then the rest."""
    places = {method: place for place, method in enumerate(PAPER_METHODS)}

    def place(method: str) -> tuple[int, str]:
        return places.get(method.removesuffix(GIVEN_ENDING), len(places)), method

    return sorted(set(methods), key=place)


def format_rate(rate: float | None) -> str:
    """A noise rate as the paper writes it; the labels' own errors have none."""
    return "own" if rate is None else f"{rate:g}"


def format_number(value: float, decimals: int, *, signed: bool = False) -> str:
    """Format with this number of decimals: halves round away from zero, minus is a true minus,
    missing is a dash.

    >>> format_number(25.45, 1), format_number(-0.04, 1), format_number(1234.5, 0)
    ('25.5', '0.0', '1,235')
    """
    if not math.isfinite(value):
        return DASH
    # Round to nine decimals first: floating point must not move a mean that ends in exactly 5.
    exact = Decimal(repr(round(float(value), 9)))
    text = f"{exact.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,}"
    if float(text.replace(",", "")) == 0:
        return text.lstrip("-")
    return (
        text.replace("-", "\N{MINUS SIGN}")
        if text.startswith("-")
        else ("+" if signed else "") + text
    )


def format_percent(share: float, decimals: int = 1, *, signed: bool = False) -> str:
    """A share in percent, without the sign, which the column's head has."""
    return format_number(100 * share, decimals, signed=signed)


def format_p_value(p: float) -> str:
    """Two significant digits; the paper's numbers are rounded to one."""
    if not math.isfinite(p):
        return DASH
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def join_words(names: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = list(names) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last
