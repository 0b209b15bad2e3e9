"""The paper's six methods in a view of their own: its printed F1 beside ours, rate by rate."""

from __future__ import annotations

from collections.abc import Mapping

from paper.page_text import format_spread, format_table
from paper.paper_comparison import find_paper_dataset
from paper.printed_tables import read_paper_means, read_paper_results
from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import DASH, format_method, format_percent, format_rate
from uqled.bench.results.statistics import (
    Rate,
    SeedSample,
    average_over_rates,
    group_samples,
    list_evidence,
)
from uqled.bench.results.table_formats import escape_markdown
from uqled.bench.suite import PAPER_METHODS


def build_six_methods(results: Results) -> list[str]:
    """One table for each data set that the paper has too."""
    paper, means = read_paper_results().stage1, read_paper_means().f1
    parts = []
    for name in list_evidence(results):
        other = find_paper_dataset(name)
        ours = group_samples(results.stage1, name, "f1")
        if other is None or not ours:
            continue
        title = escape_markdown(name) + ("" if other == name else f" (in the paper: {other})")
        paper_samples = group_samples(paper, other, "f1")
        parts += [f"**{title}**", _build_table(ours, paper_samples, means[other])]
    if not parts:
        return []
    return [
        "## The paper's six methods, compared with the paper",
        "F1 in per cent, here and as the paper prints it. The networks and the number of samples "
        "differ, so compare the order of the methods within a column, not the levels.",
        *parts,
    ]


def _build_table(
    ours: Mapping[Rate, Mapping[str, SeedSample]],
    printed_samples: Mapping[Rate, Mapping[str, SeedSample]],
    means: Mapping[str, float],
) -> str:
    average = average_over_rates(ours)
    heads = [f"{format_rate(rate)}, {where}" for rate in ours for where in ("here", "paper")] + [
        "mean, here",
        "mean, paper",
    ]
    rows = []
    for method in PAPER_METHODS:
        cells = []
        for rate, column in ours.items():
            theirs = printed_samples.get(rate, {})
            cells.append(format_spread(column[method]) if method in column else DASH)
            cells.append(format_percent(theirs[method].mean) if method in theirs else DASH)
        cells.append(format_spread(average[method]) if method in average else DASH)
        rows.append([format_method(method), *cells, format_percent(means[method])])
    return format_table(["", *heads], rows)
