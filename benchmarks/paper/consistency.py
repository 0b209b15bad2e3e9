"""The paper's printed tables checked against themselves: sums, means, bold print."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from paper.printed_tables import HALF, RATES, parse_number, read_paper_results, read_printed_table
from uqled.bench.results.formatting import format_method_short, format_number


@dataclass(frozen=True)
class TableCheck:
    """One property that printed tables must have, and where they lack it."""

    what: str
    held: int
    of: int
    exceptions: tuple[str, ...]


def check_tables() -> list[TableCheck]:
    """What the printed tables say of themselves."""
    return [
        _make_check(
            "F1 is the harmonic mean of the printed precision and recall", _check_harmonic_means()
        ),
        _make_check("a Mean of stage 1 is the mean of its row", _check_row_means("stage1", "f1")),
        _make_check(
            "a Mean of stage 2 is the mean of its row", _check_row_means("stage2", "accuracy")
        ),
        _make_check(
            "flagged x precision / recall is the noise rate times the samples", _check_counts()
        ),
        _make_check(
            "what is bold in stage 1 is the highest of its column",
            _check_bold_values("stage1", False),
        ),
        _make_check(
            "what is bold in stage 2 is the highest of its column",
            _check_bold_values("stage2", False),
        ),
        _make_check(
            "the highest of a column of stage 1 is bold", _check_bold_values("stage1", True)
        ),
        _make_check(
            "the highest of a column of stage 2 is bold", _check_bold_values("stage2", True)
        ),
    ]


def _make_check(what: str, cases: Iterable[tuple[bool, str]]) -> TableCheck:
    outcomes = list(cases)
    return TableCheck(
        what,
        sum(ok for ok, _ in outcomes),
        len(outcomes),
        tuple(text for ok, text in outcomes if not ok),
    )


def _check_harmonic_means() -> Iterable[tuple[bool, str]]:
    """The printed F1 lies in the range that rounding of precision and recall allows."""
    for row in read_printed_table("stage1").to_dict("records"):
        for rate in RATES:
            p, r, f = (parse_number(row[f"{m} {rate:g}"]) for m in ("precision", "recall", "f1"))
            low, value, high = (2 * (p + s) * (r + s) / (p + r + 2 * s) for s in (-0.05, 0.0, 0.05))
            place = f"{row['dataset']} at {rate:g}, {format_method_short(row['method'])}"
            text = f"{place}: printed {format_number(f, 1)}, computed {format_number(value, 1)}"
            yield low - 0.05 <= f + 1e-9 and f - 1e-9 <= high + 0.05, text


def _check_row_means(table: str, measure: str) -> Iterable[tuple[bool, str]]:
    for row in read_printed_table(table).to_dict("records"):
        value = math.fsum(parse_number(row[f"{measure} {rate:g}"]) for rate in RATES) / len(RATES)
        printed_value = parse_number(row[f"{measure} mean"])
        place = f"{row['dataset']}, {format_method_short(row['method'])}"
        yield (
            abs(printed_value - value) <= 0.1 + 1e-9,
            f"{place}: {format_number(printed_value, 1)}, {format_number(value, 2)}",
        )


def _check_counts() -> Iterable[tuple[bool, str]]:
    """True positives are flagged x precision and wrong x recall: the printed numbers must agree."""
    for row in read_paper_results().stage1.to_dict("records"):
        p, r, n_wrong = row["precision"], row["recall"], row["wrong"]
        low, high = (row["flagged"] * (p + s) / (r - s) for s in (-HALF, HALF))
        value = row["flagged"] * p / r
        place = f"{row['dataset']} at {row['rate']:g}, {format_method_short(row['method'])}"
        share = f"{format_number(100 * value / row['n'], 2)}% wrong"
        yield low <= n_wrong <= high, f"{place}: {share}"


def _check_bold_values(table: str, highest_is_bold: bool) -> Iterable[tuple[bool, str]]:
    """Bold and highest, in one direction or the other, for every column of every data set."""
    frame = read_printed_table(table)
    for name, block in frame.groupby("dataset", sort=False):
        for column in frame.columns[2:]:
            if column.startswith("flagged"):
                continue
            values = block[column].map(parse_number)
            bold = block[column].str.endswith("*")
            top = values == values.max()
            for place in block.index[top if highest_is_bold else bold]:
                method = format_method_short(str(block.at[place, "method"]))
                text = f"{name}, {column}, {method}: {format_number(values[place], 1)}"
                yield bool((bold if highest_is_bold else top)[place]), text
