"""Numbers that the paper's text and small tables print, computed from its stage tables.

The stage tables are rounded to a tenth of a per cent. A number *follows* when the tables give it
as printed, *within rounding* when it lies in the range that unrounded tables could give, and
otherwise does not follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from paper.claims import PROPOSED_METHODS
from paper.printed_tables import (
    HALF,
    RATES,
    SAMPLES,
)
from uqled.bench.results.formatting import format_method_short, format_number
from uqled.bench.suite import BASELINE

FOLLOWS, ROUNDING, NOT = "follows", "within rounding", "does not follow"
TABLE = "Small table"  # such places are tables: what they hold is no quotation
STAGE_1, STAGE_2, SENSITIVITY, DISCUSSION = (
    "Results, stage 1",
    "Results, stage 2",
    "Sensitivity analyses",
    "Discussion",
)


Numbers = Mapping[str, Mapping[float, Mapping[str, float]]]
"""Data set -> rate -> method -> what is printed, as a share or a count."""


@dataclass(frozen=True)
class PrintedTables:
    """The stage tables."""

    f1: Numbers
    precision: Numbers
    recall: Numbers
    flagged: Numbers
    cleaned: Numbers
    """Accuracy after removal."""


@dataclass(frozen=True)
class Figure:
    """One printed number."""

    place: str
    quote: str
    """The paper's words; `...` where some are left out, and no quotation if `place` is a table."""
    printed: str
    computed: str
    verdict: str
    note: str = ""


def check_points(
    place: str, quote: str, printed_value: float, of: Callable[[float], float], note: str = ""
) -> Figure:
    """Percentage points or per cent; `of` takes a shift that favours the algorithm."""
    return check_number(
        place, quote, printed_value, lambda shift: 100 * of(shift), note=note, decimals=None
    )


def check_number(
    place: str,
    quote: str,
    printed_value: float,
    of: Callable[[float], float],
    *,
    decimals: int | None = None,
    note: str = "",
) -> Figure:
    places = len(repr(printed_value).partition(".")[2]) if decimals is None else decimals
    value, half = of(0), 0.5 * 10**-places
    low, high = sorted((of(-HALF), of(HALF)))
    if format_number(value, places) == format_number(printed_value, places):
        verdict = FOLLOWS
    else:
        verdict = ROUNDING if low - half <= printed_value <= high + half else NOT
    return Figure(
        place,
        quote,
        format_number(printed_value, places),
        format_number(value, places),
        verdict,
        note,
    )


def average_precision_gain(tables: PrintedTables, method: str, shift: float) -> float:
    """Per data set the ratio of mean precisions, less 1; averaged over data sets."""
    ratios = []
    for by_rate in tables.precision.values():
        mine = sum(column[method] + shift for column in by_rate.values())
        ratios.append(mine / sum(column[BASELINE] - shift for column in by_rate.values()) - 1)
    return float(np.mean(ratios))


def compute_gain(
    averages: Mapping[str, float], method: str, *, than: float | None = None
) -> Callable[[float], float]:
    """A method's average minus the baseline's, or another number."""
    other = averages[BASELINE] if than is None else than
    return lambda shift: averages[method] - other + 2 * shift


def compute_relative_gain(column: Mapping[str, float], method: str) -> Callable[[float], float]:
    """A method's value relative to the baseline's, less 1."""
    return lambda shift: (column[method] + shift) / (column[BASELINE] - shift) - 1


def hold_constant(value: float) -> Callable[[float], float]:
    """A number that does not come from rounded ones."""
    return lambda _: value


def shift_value(value: float) -> Callable[[float], float]:
    """An average of rounded numbers."""
    return lambda shift: value + shift


def _compute_gains(
    values: Numbers, shift: float, *, relative: bool
) -> dict[tuple[str, float, str], float]:
    gain = compute_relative_gain if relative else compute_gain
    return {
        (d, r, m): gain(values[d][r], m)(shift)
        for d in SAMPLES
        for r in RATES
        for m in PROPOSED_METHODS
    }


def find_largest_gain(values: Numbers, *, relative: bool) -> Callable[[float], float]:
    return lambda shift: max(_compute_gains(values, shift, relative=relative).values())


def name_largest_gain(values: Numbers, *, relative: bool) -> str:
    gains = _compute_gains(values, 0, relative=relative)
    name, rate, method = max(gains, key=gains.__getitem__)
    return f"{name} at {rate:g}, {format_method_short(method)}"


def find_cell_gain(values: Numbers, name: str, rate: float, *, relative: bool) -> float:
    gains = _compute_gains(values, 0, relative=relative)
    return max(gain for (d, r, _), gain in gains.items() if (d, r) == (name, rate))


def check_bound(
    quote: str, printed_text: str, share: float, test: Callable[[float], bool]
) -> Figure:
    return Figure(
        STAGE_1, quote, printed_text, format_number(100 * share, 1), FOLLOWS if test(share) else NOT
    )
