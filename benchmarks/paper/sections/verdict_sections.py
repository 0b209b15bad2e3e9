"""What held up from the paper and what did not, who finds most, and what correlates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from paper.claims import FAILS, HOLDS, OPEN
from paper.page_text import FOLDER, LINK, format_points, format_table
from paper.paper_comparison import judge_statements
from paper.printed_tables import read_paper_means, read_paper_results
from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import (
    DASH,
    format_method,
    format_number,
    format_percent,
    format_rate,
    join_words,
)
from uqled.bench.results.html_page import build_correlation_rows
from uqled.bench.results.result_files import format_same_images
from uqled.bench.results.statistics import (
    Analysis,
    SeedSample,
    Sensitivity,
    analyse_sensitivity,
    average_over_rates,
    find_leaders,
    group_samples,
    has_enough_span,
    list_evidence,
    select_treatment,
    subtract_samples,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
)
from uqled.bench.suite import BASELINE, PAPER_METHODS


def build_summary(results: Results) -> list[str]:
    by_verdict: dict[str, list[str]] = {HOLDS: [], FAILS: [], OPEN: []}
    for one in judge_statements(results):
        if one.here is not None:
            text = f"{one.statement.counted} ({one.here.clearly} of {one.here.of} clearly"
            text += f", {one.here.against} clearly not)" if one.here.against else ")"
            by_verdict[one.statement.verdict(one.here)].append(text)
    heads = {
        HOLDS: "What held up",
        FAILS: "What did not hold",
        OPEN: "What is undecided, because it is within the spread",
    }
    parts = ["## In short", describe_tested_on(results)]
    for verdict, texts in by_verdict.items():
        parts.append(f"{heads[verdict]}{':' if texts else ': nothing.'}")
        parts.append("\n".join(f"- {escape_markdown(text)}" for text in texts))
    best = "\n".join(f"- {line}" for line in _list_best(results))
    return [*parts, "Which method is best:" if best else "", best]


def _list_best(results: Results) -> list[str]:
    """Who is best on each data set, and by how much."""
    lines = []
    for name in list_evidence(results):
        column = average_over_rates(group_samples(results.stage1, name, "f1"))
        first = find_leaders(column)
        if not first.names:
            continue
        best = sorted(first.names)[0]
        gap = subtract_samples(column[best], column[BASELINE])
        how = (
            "clearly ahead of every other method"
            if first.is_clear
            else "not clearly ahead of the next"
        )
        winners = join_words(map(format_method, first.names))
        line = f"{escape_markdown(name)}: {winners} has the highest mean F1, "
        line += f"{format_percent(column[best].mean)}%, {how}"
        if best != BASELINE:
            line += f"; {format_points(gap)} compared with CL-PBNR"
        if not first.names <= set(PAPER_METHODS):
            line += f". {_describe_paper_best(column)}"
        lines.append(line.removesuffix(".") + ".")
    return lines


def _describe_paper_best(column: Mapping[str, SeedSample]) -> str:
    paper_samples = {m: sample for m, sample in column.items() if m in PAPER_METHODS}
    first = find_leaders(paper_samples)
    if not first.names:
        return ""
    best = sorted(first.names)[0]
    gap = (
        subtract_samples(paper_samples[best], paper_samples[BASELINE])
        if BASELINE in paper_samples
        else None
    )
    by = f", {format_points(gap)} compared with CL-PBNR" if gap and best != BASELINE else ""
    return f"Among the paper's: {join_words(map(format_method, first.names))}{by}."


def build_statements(results: Results) -> list[str]:
    rows = []
    for one in judge_statements(results):
        paper = f"{one.paper.held} of {one.paper.of}" if one.paper else DASH
        ours = [DASH] * 6
        if one.here is not None:
            verdict = one.statement.verdict(one.here)
            counts = one.here.clearly, one.here.within, one.here.against, one.here.once
            ours = [str(len(one.here.datasets)), *map(str, counts)]
            ours.append(f"**{verdict}**" if verdict != OPEN else verdict)
        sort = "" if one.statement.every else " *(most cases)*"
        rows.append(
            [
                f'"{escape_markdown(one.statement.quote)}"{sort}',
                escape_markdown(one.statement.counted),
                paper,
                *ours,
            ]
        )
    return [
        "## What the paper says, and what is seen here",
        "A statement about every case does not hold if one case clearly fails; it holds if all "
        "cases with a spread are clear and those of one seed agree. Where the paper speaks of most "
        "cases, more than half decide. "
        f"[claims.md]({FOLDER}/claims.md) names the exceptions; "
        f"[paper-check.md]({LINK}/paper-check.md) compares the paper with its own tables.",
        format_table(
            [
                *(
                    "the paper",
                    "counted",
                    "in its tables",
                    "data sets here",
                    "clearly",
                    "within the spread",
                ),
                *("clearly not", "one seed only", "verdict"),
            ],
            rows,
            "l",
        ),
    ]


def build_winners(results: Results) -> list[str]:
    wins_by_method: dict[str, Counter[str]] = {}
    for stage, frame, measure in (
        ("F1", results.stage1, "f1"),
        ("area", results.stage1, "aupr"),
        ("accuracy", select_treatment(results.stage2, "remove"), "accuracy"),
        ("relabelled", select_treatment(results.stage2, "relabel"), "accuracy"),
    ):
        for name in list_evidence(results):
            for column in group_samples(frame, name, measure).values():
                first = find_leaders(column)
                for m in first.names:
                    by = wins_by_method.setdefault(m, Counter())
                    by[stage] += 1
                    by[f"{stage} clear"] += first.is_clear
    stages = ("F1", "area", "accuracy", "relabelled")
    order = sorted(
        wins_by_method, key=lambda m: (-wins_by_method[m]["F1"], -wins_by_method[m]["accuracy"], m)
    )
    rows = [
        [
            format_method(m),
            *(f"{wins_by_method[m][s]} ({wins_by_method[m][f'{s} clear']})" for s in stages),
        ]
        for m in order
    ]
    phrases = []
    for name in list_evidence(results):
        wins: dict[str, list[str]] = {}
        for rate, column in group_samples(results.stage1, name, "f1").items():
            first = find_leaders(column)
            names = join_words(sorted(map(format_method, first.names))) if first.names else DASH
            wins.setdefault(names, []).append(
                format_rate(rate) + (" (clear)" if first.is_clear else "")
            )
        text = "; ".join(f"{who} at {', '.join(rates)}" for who, rates in wins.items())
        if text:
            phrases.append(f"- {escape_markdown(name)}: {text}.")
    if not rows:
        return []
    return [
        "## Where each method wins",
        "The number of cells (data set, rate) in which a method has the highest mean; in brackets, "
        "those in which it is clearly ahead of others. Methods that win nowhere are not listed.",
        format_table(
            [
                *("", "F1", "area under precision-recall"),
                *("accuracy after removal", "after relabelling"),
            ],
            rows,
        ),
        "By F1:\n\n" + "\n".join(phrases),
    ]


def build_correlations(results: Results) -> list[str]:
    ours = analyse_sensitivity(results)
    theirs = analyse_sensitivity(read_paper_results(), read_paper_means())
    papers = {one.name: one.cells for one in build_correlation_rows(theirs)}
    rows = [
        [escape_markdown(one.name), *one.cells, papers.get(one.name, (DASH,) * 5)[1]]
        for one in build_correlation_rows(ours)
    ]
    if not rows:
        return []
    sentences = []
    for what, analysis in (
        ("a network that is more accurate before cleaning detects errors better", ours.initial),
        (
            "methods that detect errors better give a higher final accuracy, over data sets",
            ours.final,
        ),
    ):
        correlation = analysis.correlation
        if correlation is None:
            sentences.append(f"Claim: {what}. There are too few points to judge it.")
            continue
        if analysis is ours.final and not has_enough_span(analysis):
            sentences.append(f"Claim: {what}. Not judged, because {_describe_span(analysis)}.")
            continue
        verdict = HOLDS if correlation.low > 0 else FAILS if correlation.high < 0 else OPEN
        interval = (
            ""  # fewer than four points have none
            if math.isnan(correlation.low)
            else f", 95% interval {format_number(correlation.low, 2)} to "
            f"{format_number(correlation.high, 2)}"
        )
        sentences.append(
            f"Claim: {what}. Verdict: {verdict} (r = {format_number(correlation.r, 2)}, n = "
            f"{correlation.n}{interval})."
        )
    rates = list(dict.fromkeys(r for by in ours.mean_f1.values() for r in by))
    means = [
        [escape_markdown(name), *(format_percent(by[r].mean) if r in by else DASH for r in rates)]
        for name, by in [
            *ours.mean_f1.items(),
            *((f"{name}, paper", by) for name, by in theirs.mean_f1.items()),
        ]
    ]
    return [
        "## Sensitivity",
        " ".join(sentences),
        _list_unjudged(ours),
        format_table(["Pearson's r", "n", "r", "t", "p", "95% interval", "paper's r"], rows),
        format_same_images(results.about, ours.initial.points),
        f"F1 averaged over {join_words(map(format_method, ours.methods))}, in per cent:",
        format_table(["", *map(format_rate, rates)], means),
        f"![Mean F1 by noise rate]({FOLDER}/figures/sensitivity-rates.png)" if means else "",
        f"![F1 and accuracy after cleaning]({FOLDER}/figures/sensitivity-final.png)"
        if ours.final.points
        else "",
    ]


def _list_unjudged(analyses: Sensitivity) -> str:
    """The data sets in which r of F1 and final accuracy means nothing, and why."""
    texts = [
        f"{escape_markdown(name)} ({_describe_span(analysis)})"
        for name, analysis in analyses.within.items()
        if analysis.correlation is not None and not has_enough_span(analysis)
    ]
    if not texts:
        return ""
    return (
        f"Not judged within {join_words(texts)}: an accuracy on some thousand test images has "
        "itself a standard error of that size, so r would be a correlation with noise."
    )


def _describe_span(analysis: Analysis) -> str:
    accuracies = [accuracy for _, accuracy in analysis.points.values()]
    span = format_percent(max(accuracies) - min(accuracies), 2)
    return f"the accuracies span {span} points"


def describe_tested_on(results: Results) -> str:
    """What every verdict rests on, and what it cannot speak for."""
    parts = []
    for name in list_evidence(results):
        facts = results.about["data"].get(name, {})
        if facts:
            epochs = f", {facts['epochs']} epochs" if "epochs" in facts else ""
            parts.append(f"{escape_markdown(name)} (`{facts['model']}`{epochs})")
    if not parts:
        return ""
    return (
        f"**What the verdicts were tested on:** {join_words(parts)}. None of these networks has "
        "batch norm after dropout, as the paper's VGG-11 and ResNet-50 have: such a layer can "
        "damage the plain softmax, and with it CL-PBNR, but not the passes. "
        "[Batch norm after dropout](research/batch-norm.md) measures by how much. So a verdict "
        "below is about the methods on an undamaged softmax, not about the paper's own networks."
    )
