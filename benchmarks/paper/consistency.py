"""The paper's printed tables checked against themselves: sums, means, bold print."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from paper.printed_tables import HALF, RATES, number, read_paper_results, read_printed_table
from uqled.bench.results.formatting import format_method_short, format_number


@dataclass(frozen=True)
class Check:
    """One property that printed tables must have, and where they lack it."""

    what: str
    held: int
    of: int
    exceptions: tuple[str, ...]


def check_tables() -> list[Check]:
    """What the printed tables say of themselves."""
    return [
        _check("F1 is the harmonic mean of the printed precision and recall", _harmonic()),
        _check("a Mean of stage 1 is the mean of its row", _row_means("stage1", "f1")),
        _check("a Mean of stage 2 is the mean of its row", _row_means("stage2", "accuracy")),
        _check("flagged x precision / recall is the noise rate times the samples", _counts()),
        _check("what is bold in stage 1 is the highest of its column", _bold("stage1", False)),
        _check("what is bold in stage 2 is the highest of its column", _bold("stage2", False)),
        _check("the highest of a column of stage 1 is bold", _bold("stage1", True)),
        _check("the highest of a column of stage 2 is bold", _bold("stage2", True)),
    ]


def _check(what: str, cases: Iterable[tuple[bool, str]]) -> Check:
    found = list(cases)
    return Check(
        what, sum(ok for ok, _ in found), len(found), tuple(text for ok, text in found if not ok)
    )


def _harmonic() -> Iterable[tuple[bool, str]]:
    """The printed F1 lies in the range that rounding of precision and recall allows."""
    for row in read_printed_table("stage1").to_dict("records"):
        for rate in RATES:
            p, r, f = (number(row[f"{m} {rate:g}"]) for m in ("precision", "recall", "f1"))
            low, value, high = (2 * (p + s) * (r + s) / (p + r + 2 * s) for s in (-0.05, 0.0, 0.05))
            where = f"{row['dataset']} at {rate:g}, {format_method_short(row['method'])}"
            text = f"{where}: printed {format_number(f, 1)}, computed {format_number(value, 1)}"
            yield low - 0.05 <= f + 1e-9 and f - 1e-9 <= high + 0.05, text


def _row_means(table: str, measure: str) -> Iterable[tuple[bool, str]]:
    for row in read_printed_table(table).to_dict("records"):
        value = math.fsum(number(row[f"{measure} {rate:g}"]) for rate in RATES) / len(RATES)
        said = number(row[f"{measure} mean"])
        where = f"{row['dataset']}, {format_method_short(row['method'])}"
        yield (
            abs(said - value) <= 0.1 + 1e-9,
            f"{where}: {format_number(said, 1)}, {format_number(value, 2)}",
        )


def _counts() -> Iterable[tuple[bool, str]]:
    """True positives are flagged x precision and wrong x recall: the printed numbers must agree."""
    for row in read_paper_results().stage1.to_dict("records"):
        p, r, wrong = row["precision"], row["recall"], row["wrong"]
        low, high = (row["flagged"] * (p + s) / (r - s) for s in (-HALF, HALF))
        value = row["flagged"] * p / r
        where = f"{row['dataset']} at {row['rate']:g}, {format_method_short(row['method'])}"
        share = f"{format_number(100 * value / row['n'], 2)} % wrong"
        yield low <= wrong <= high, f"{where}: {share}"


def _bold(table: str, highest_is_bold: bool) -> Iterable[tuple[bool, str]]:
    """Bold and highest, in one direction or the other, for every column of every data set."""
    frame = read_printed_table(table)
    for name, block in frame.groupby("dataset", sort=False):
        for column in frame.columns[2:]:
            if column.startswith("flagged"):
                continue
            values = block[column].map(number)
            bold = block[column].str.endswith("*")
            top = values == values.max()
            for place in block.index[top if highest_is_bold else bold]:
                method = format_method_short(str(block.at[place, "method"]))
                text = f"{name}, {column}, {method}: {format_number(values[place], 1)}"
                yield bool((bold if highest_is_bold else top)[place]), text
