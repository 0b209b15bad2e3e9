"""Checks of numbers passed as options, and the display of any value in errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from uqled.errors import InputError

#: The largest seed that scikit-learn and NumPy both take.
LARGEST_SEED = 2**32 - 1

_LONGEST_SHOWN = 200  # characters of a value in an error


def check_whole_number(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """An integer option within its limits."""
    expectation = f"a whole number of at least {low}" if high is None else f"one of {low} to {high}"
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        raise InputError(name, f"is {show_value(value)}", f"Pass {expectation}")
    return int(value)


def check_fraction(value: Any, name: str) -> float:
    """A number from 0 to 1."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not 0 <= value <= 1:
        raise InputError(name, f"is {show_value(value)}", "Pass a number from 0 to 1")
    return float(value)


def show_value(value: Any) -> str:
    """A value as errors show it: cut if it is long, described if Python refuses to print it."""
    try:
        text = repr(value)
    except Exception:  # integers of more than 4,300 digits, and other libraries' objects
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
