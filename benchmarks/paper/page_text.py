"""How the page of results writes numbers and tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import (
    DASH,
    format_number,
    format_percent,
)
from uqled.bench.results.statistics import (
    Rate,
    SeedSample,
    group_samples,
    select_treatment,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
    format_markdown_cell,
    format_markdown_row,
)
from uqled.bench.results.tables import Block, Row

SUITE = "laptop"
LINK = "../benchmarks/results"
FOLDER = f"{LINK}/{SUITE}"


def format_table(heads: list[str], rows: Iterable[list[str]], left: str = "") -> str:
    """A Markdown table; the first column is set left, and one more for each letter of `left`."""
    lines = ["---" if i <= len(left) else "---:" for i in range(len(heads))]
    return "\n".join(map(format_markdown_row, [heads, lines, *rows]))


def format_row_cells(row: Row, n: int) -> list[str]:
    return [escape_markdown(row.name), *map(format_markdown_cell, row.cells[:n])]


def format_note(block: Block) -> str:
    return f"{block.note}." if block.note else ""


def has_cell(rows: Iterable[Row], place: int) -> bool:
    return any(row.cells[place].text not in ("", DASH) for row in rows)


def group_by_treatment(
    results: Results, name: str, treatment: str
) -> dict[Rate, dict[str, SeedSample]]:
    return group_samples(select_treatment(results.stage2, treatment), name, "accuracy")


def format_spread(sample: SeedSample) -> str:
    text = format_percent(sample.mean)
    return text if sample.n < 2 else f"{text} ± {format_percent(sample.sd)}"


def format_signed(share: float) -> str:
    return format_percent(share, signed=True)


def format_points(gap: SeedSample) -> str:
    spread = f" ± {format_percent(gap.sd)}" if gap.n > 1 else ""
    return f"{format_signed(gap.mean)}{spread} points"


def format_count(value: Any) -> str:
    return DASH if value is None else format_number(float(value), 0)


def format_range(values: list[float]) -> str:
    if not values:
        return DASH
    low, high = format_number(min(values), 2), format_number(max(values), 2)
    return low if low == high else f"{low} to {high}"


def format_span(shares: list[float]) -> str:
    """The least and the most of several differences, in points and with their sign."""
    low, high = (format_signed(value) for value in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"
