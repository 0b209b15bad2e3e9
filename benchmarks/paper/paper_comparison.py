"""A benchmark beside the paper's printed tables, and what the paper says counted in both."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from paper.claims import CaseTally, Statement, build_view
from paper.printed_tables import SAMPLES, read_paper_means, read_paper_results
from paper.statements import STATEMENTS, count_statements
from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import DASH, format_percent, sort_methods
from uqled.bench.results.statistics import Means, compute_means, list_datasets
from uqled.bench.results.table_formats import escape_markdown, format_markdown_row
from uqled.bench.results.tables import (
    Block,
    ResultTable,
    Row,
    TableCell,
    classify_row,
    name_row,
)
from uqled.bench.suite import BASELINE


@dataclass(frozen=True)
class StatementVerdict:
    """A statement of the paper, counted on its own tables and here; None: nothing to count."""

    statement: Statement
    paper: CaseTally | None
    here: CaseTally | None


def find_paper_dataset(dataset: str) -> str | None:
    """The paper's data set that a benchmark's is, by its name; a part of one counts too."""
    for name in SAMPLES:
        pattern = name.replace("-", "[-_ ]?") + r"(?![A-Za-z0-9])"
        if re.match(pattern, dataset, re.IGNORECASE):
            return name
    return None


def build_comparison_table(results: Results, averages: Means | None = None) -> ResultTable:
    """Means over rates, ours and the paper's, for the data sets that both have."""
    contaminated_sets = results.about.get("contaminated") or {}
    our_means, paper = (
        averages or compute_means(results, list_datasets(results)),
        read_paper_means(),
    )
    blocks = []
    for name in our_means.f1:
        other = find_paper_dataset(name)
        if other is None:
            continue
        methods = sort_methods({*our_means.f1[name], *paper.f1[other]})
        rows = [
            Row(
                name_row(m),
                (
                    _compute_share(paper.f1[other], m),
                    _compute_share(our_means.f1[name], m),
                    _compute_gain(paper.f1[other], m, paper.f1[other].get(BASELINE)),
                    _compute_gain(our_means.f1[name], m, our_means.f1[name].get(BASELINE)),
                    _compute_gain(paper.final[other], m, paper.noisy[other]),
                    _compute_gain(our_means.final.get(name, {}), m, our_means.noisy.get(name)),
                ),
                classify_row(m),
            )
            for m in methods
        ]
        why = contaminated_sets.get(name)
        note = f"Contaminated: {why}. No evidence, shown for completeness" if why else ""
        title = name if name == other else f"{name} (paper: {other})"
        blocks.append(Block(title, note, tuple(rows)))
    return ResultTable(
        "Beside the paper",
        "Means over the noise rates: F1, F1 minus CL-PBNR's in percentage points, and accuracy "
        "after removal minus accuracy of training on the noisy labels in percentage points. The "
        "networks and the number of samples differ, so compare the differences, not the levels.",
        tuple(
            (head, ("paper", "here"))
            for head in ("Mean F1", "F1 minus CL-PBNR's", "Accuracy minus noisy")
        ),
        tuple(blocks),
        "beside",
        corner="",
    )


def judge_statements(results: Results, averages: Means | None = None) -> list[StatementVerdict]:
    """Every statement of the paper that can be counted on its tables or on these results."""
    paper = dict(count_statements(build_view(read_paper_results(), read_paper_means())))
    our_counts = dict(count_statements(build_view(results, averages)))
    return [
        StatementVerdict(one, paper.get(one), our_counts.get(one))
        for one in STATEMENTS
        if one in paper or one in our_counts
    ]


def format_judgements(judgements: list[StatementVerdict]) -> str:
    """The statements as a Markdown table, and below it the exceptions here."""
    lines = [
        "## What the paper says, counted",
        "",
        "In how many cases the mean over seeds is as the paper says. A case is clear when its "
        "difference, paired over seeds, is larger than the spread; one seed alone has none. A "
        "statement about every case does not hold when one clearly fails, and holds when all that "
        "have a spread are clear and the others agree. One in italics is about most cases, and "
        "more than half decide.",
        "",
        "| the paper | counted | in its tables | here | clearly | clearly not | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in judgements:
        quote = f'"{one.statement.quote}"' if one.statement.every else f'*"{one.statement.quote}"*'
        cells = [f"{quote} ({one.statement.place})", one.statement.counted]
        cells += [format_tally(tally) for tally in (one.paper, one.here)]
        if one.here is None:
            cells += [DASH] * 3
        else:
            cells += [str(one.here.clearly), str(one.here.against)]
            cells.append(one.statement.verdict(one.here))
        lines.append(format_markdown_row(cells))
    lines += ["", "### Exceptions here", ""]
    for one in judgements:
        if one.here and one.here.exceptions:
            exceptions = escape_markdown("; ".join(one.here.exceptions))
            lines.append(f"- {one.statement.counted}: {exceptions}.")
    return "\n".join(lines) + "\n"


def format_tally(tally: CaseTally | None) -> str:
    return DASH if tally is None else f"{tally.held} of {tally.of}"


def _compute_share(by_method: Mapping[str, float], method: str) -> TableCell:
    return TableCell(format_percent(by_method.get(method, math.nan)))


def _compute_gain(by_method: Mapping[str, float], method: str, than: float | None) -> TableCell:
    value = by_method.get(method, math.nan) - (math.nan if than is None else than)
    return TableCell(format_percent(value, signed=True))
