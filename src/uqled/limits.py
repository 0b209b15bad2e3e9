"""How much of a stranger's file is read before it is refused: all limits, in one place.

Each limit can be raised where you trust the file, by the environment (`UQLED_LIMIT_IMAGE_PIXELS`)
or in Python (`with uqled.limits.override_limits(image_pixels=10**9): ...`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from uqled.errors import InputError, LimitError

_PREFIX = "UQLED_LIMIT_"
#: The largest limit: up to here, integers are exact in JSON and in a browser.
MAX_COUNT = 2**53


def measure_memory() -> int:
    """Bytes of memory of this machine."""
    import psutil

    return int(psutil.virtual_memory().total)


@dataclass(frozen=True)
class Limit:
    """One limit."""

    default: int | Callable[[], int]
    unit: str
    guards: str
    """What a file without the limit could do."""


LIMITS = {
    "image_pixels": Limit(
        178_956_970,  # Pillow's own limit
        "pixels",
        "One image, before it is decoded: a small file can claim any size.",
    ),
    "image_bytes": Limit(
        2**28, "bytes", "One encoded image, in a file, an archive or a table's cell."
    ),
    "memory_bytes": Limit(
        lambda: measure_memory() // 2,
        "bytes",
        "What is read whole, after decompression: a table, a JSON file, an array, an archive's "
        "member. Default: half of the machine's memory.",
    ),
    "json_bytes": Limit(2**31, "bytes", "One JSON, TOML or text file, such as a run's ids.json."),
    "compression_ratio": Limit(
        200,
        "times its compressed size",
        "Compressed data that unpacks to more than 64 MiB: archives of real data shrink less.",
    ),
    "archive_members": Limit(5_000_000, "members", "Files in a zip or tar archive, or a folder."),
    "table_columns": Limit(100_000, "columns", "Columns of a table."),
    "table_cell_characters": Limit(
        10_000_000,
        "characters",
        "One cell of a table: anything longer is neither a label nor a text.",
    ),
    "suite_cells": Limit(
        1_000_000, "cells", "Trainings and detections of one benchmark suite: the paper's has 708."
    ),
    "request_bytes": Limit(2**20, "bytes", "The body of one request to the review page."),
    "connections": Limit(100, "connections", "Open connections to the review page at a time."),
    "decision_rows": Limit(
        10_000_000, "rows", "Changes in one decisions.sqlite: a page makes one per key press."
    ),
}

_overridden: dict[str, int] = {}


def get_limit(name: str) -> int:
    """The current value: an override, the environment's, or the default."""
    if name in _overridden:
        return _overridden[name]
    if text := os.environ.get(_PREFIX + name.upper()):
        digits = text.replace("_", "").strip()
        if not (digits.isascii() and digits.isdecimal()):
            raise InputError(
                _PREFIX + name.upper(), f"is {text!r}", "Set it to a whole number, or unset it"
            )
        return int(digits)
    default = LIMITS[name].default
    return default() if callable(default) else default


def check_limit(name: str, amount: int, subject: str) -> None:
    """Refuse what is larger than the limit; `subject` is the file as an error names it."""
    if amount > (most := get_limit(name)):
        raise exceed_limit(name, f"{amount:,}", subject, most)


def exceed_limit(name: str, amount: str, subject: str, most: int | None = None) -> LimitError:
    """The error for `subject`, which exceeds the limit with `amount` (such as "more than 10")."""
    most = get_limit(name) if most is None else most
    return LimitError(
        subject,
        f"has {amount} {LIMITS[name].unit}, and at most {most:,} are read (limit {name})",
        f"If you trust it, raise the limit: {_PREFIX}{name.upper()}=...",
    )


@contextmanager
def override_limits(**limits: int) -> Iterator[None]:
    """Other limits while the block runs, in all threads of this process.

    >>> with override_limits(image_pixels=10):
    ...     get_limit("image_pixels")
    10
    """
    for name in limits:
        if name not in LIMITS:
            raise InputError(name, "is not a limit", f"Choose among {', '.join(LIMITS)}")
    before = dict(_overridden)
    _overridden.update(limits)
    try:
        yield
    finally:
        _overridden.clear()
        _overridden.update(before)
