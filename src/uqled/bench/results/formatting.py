"""How methods, rates and numbers are written: the same in every table, figure and page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from uqled.bench.suite import PAPER_METHODS

DASH = "\N{EN DASH}"
_NAMES = {
    "cl-pbnr": "CL-PBNR",
    "cl-mcd": "CL-MCD",
    "cl-mcd-e": "CL-MCD-E",
    "cl-mcd-m": "CL-MCD-M",
    "cl-mcd-mi": "CL-MCD-MI",
    "cl-mcd-vr": "CL-MCD-VR",
    "cl-mcd-sd": "CL-MCD-SD",
    "cl-mcd-ens": "CL-MCD-Ens",
    "alg-ens-2": "Alg-Ens (agreement 2)",
    "alg-ens-3": "Alg-Ens (agreement 3)",
    "alg-ens-2-given": "Alg-Ens (agreement 2, given)",
    "alg-ens-3-given": "Alg-Ens (agreement 3, given)",
    "noisy": "Noisy labels",
}
_SHORT = {
    "alg-ens-2": "Alg-Ens 2",
    "alg-ens-3": "Alg-Ens 3",
    "alg-ens-2-given": "Alg-Ens 2 (given)",
    "alg-ens-3-given": "Alg-Ens 3 (given)",
}


def format_method(method: str) -> str:
    """As the paper writes it; a method that it does not have keeps its own name."""
    if method not in _NAMES and method.endswith("-given"):
        return f"{format_method(method.removesuffix('-given'))} (given)"
    return _NAMES.get(method, method)


def format_method_short(method: str) -> str:
    """The same, for figures."""
    return _SHORT.get(method, format_method(method))


def sort_methods(methods: Iterable[str]) -> list[str]:
    """The paper's methods in its order, each followed by its other reading, then the rest."""
    known = {method: place for place, method in enumerate(PAPER_METHODS)}

    def place(method: str) -> tuple[int, str]:
        return known.get(method.removesuffix("-given"), len(known)), method

    return sorted(set(methods), key=place)


def format_rate(rate: float | None) -> str:
    """A noise rate as the paper writes it; the labels' own errors have none."""
    return "own" if rate is None else f"{rate:g}"


def format_number(value: float, decimals: int, *, signed: bool = False) -> str:
    """So many decimals, halves away from zero, with a true minus; a dash for what is missing.

    >>> format_number(25.45, 1), format_number(-0.04, 1), format_number(1234.5, 0)
    ('25.5', '0.0', '1,235')
    """
    if not math.isfinite(value):
        return DASH
    # Nine decimals first: a mean of printed numbers that is a half must stay one.
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
    """A share in per cent, without the sign that the column's head carries."""
    return format_number(100 * share, decimals, signed=signed)


def format_p_value(p: float) -> str:
    """Two digits that count; the paper's are rounded to one."""
    if not math.isfinite(p):
        return DASH
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def join_words(names: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = list(names) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last
