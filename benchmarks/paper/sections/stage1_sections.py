"""Stage 1 of the benchmark beside the paper: finding wrong labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paper.page_text import (
    FOLDER,
    format_note,
    format_range,
    format_row_cells,
    format_signed,
    format_spread,
    format_table,
)
from paper.paper_comparison import find_paper_dataset
from paper.printed_tables import read_paper_means, read_paper_results
from uqled.bench.results.collection import Results
from uqled.bench.results.figures import name_files
from uqled.bench.results.formatting import (
    DASH,
    format_method,
    format_number,
    format_percent,
)
from uqled.bench.results.statistics import (
    average_over_rates,
    compute_improvements,
    group_samples,
    is_clear,
    list_datasets,
    list_evidence,
    subtract_samples,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
)
from uqled.bench.results.tables import build_stage1_table
from uqled.bench.suite import BASELINE


def build_stage1(results: Results, names: Iterable[str]) -> list[str]:
    paper = read_paper_means().f1
    head = [
        "## Stage 1: finding wrong labels",
        "F1 in per cent; bold: clearly the highest, italic: the highest. The last columns are "
        "mean F1 "
        "in the paper and the difference from CL-PBNR in points, here and there. Precision, "
        f"recall, F0.5 and the area under precision-recall are in [stage1.md]({FOLDER}/stage1.md).",
    ]
    return head + [part for name in names for part in build_stage1_block(results, name, paper)]


def build_stage1_block(
    results: Results, name: str, paper: Mapping[str, Mapping[str, float]]
) -> list[str]:
    frame = results.stage1[results.stage1["dataset"] == name]
    if frame.empty:
        return []
    table = build_stage1_table(frame, "", "")
    (block,), heads = table.blocks, list(table.groups[0][1])
    theirs = paper.get(find_paper_dataset(name) or "", {})
    ours = average_over_rates(group_samples(results.stage1, name, "f1"))
    names = {format_method(m) + (" (baseline)" if m == BASELINE else ""): m for m in ours}
    rows = []
    for row in block.rows:
        m = names.get(row.name)
        more = [DASH] * 3 if row.kind != "fact" else [""] * 3
        if m is not None and m in theirs:
            more = [format_percent(theirs[m]), DASH, format_signed(theirs[m] - theirs[BASELINE])]
        if m is not None and BASELINE in ours:
            more[1] = format_signed(subtract_samples(ours[m], ours[BASELINE]).mean)
        rows.append([*format_row_cells(row, len(heads)), *more])
    change = compute_improvements(group_samples(results.stage1, name, "f1"))
    comparison = (
        f" (in the paper: {find_paper_dataset(name)})"
        if theirs and find_paper_dataset(name) != name
        else ""
    )
    return [
        f"### {escape_markdown(name)}{comparison}",
        format_note(block),
        format_table(["", *heads, "paper's mean", "minus CL-PBNR", "paper's"], rows),
        link_picture(results, name, "F1 relative to CL-PBNR", "stage1")
        if any(change.values())
        else "",
    ]


def link_picture(results: Results, name: str, what: str, stage: str) -> str:
    stem = name_files(list_datasets(results))[name]
    return f"![{what}, {escape_markdown(name)}]({FOLDER}/figures/{stage}-relative-{stem}.png)"


def build_ranking_and_counting(results: Results) -> list[str]:
    """Ranking and counting apart: what the methods change of either."""
    methods = (BASELINE, "cl-mcd", "cl-mcd-e", "alg-ens-3")
    theirs, rows, n_better, n_both = read_paper_results(), [], 0, 0
    ours, papers_f1 = list[float](), list[float]()
    for name in list_evidence(results):
        area = average_over_rates(group_samples(results.stage1, name, "aupr"))
        f1 = average_over_rates(group_samples(results.stage1, name, "f1"))
        if not set(methods) <= set(area):
            continue
        n_both += 1
        n_better += (
            is_clear(gap := subtract_samples(area["cl-mcd"], area[BASELINE])) and gap.mean > 0
        )
        ratios = _count_flagged_per_wrong(results.stage1, name)
        other = find_paper_dataset(name)
        papers = _count_flagged_per_wrong(theirs.stage1, other) if other else {}
        ours.append(ratios[BASELINE])
        papers_f1 += [papers[BASELINE]] if papers else []
        for m in methods:
            per = [format_number(by[m], 2) if m in by else DASH for by in (ratios, papers)]
            cells = [format_method(m), format_spread(area[m]), format_spread(f1[m]), *per]
            rows.append([escape_markdown(name) if m == methods[0] else "", *cells])
    if not rows:
        return []
    return [
        "### Why: ranking and counting",
        "A method does two things: it ranks samples, and it decides how many to flag. The area "
        "under the precision-recall curve judges the order of all samples, flagged ones first; "
        "flagged samples per wrong label show whether too many or too few are flagged. CL-MCD, on "
        "the mean of the passes, ranks clearly better than CL-PBNR on the softmax for "
        f"{n_better} of {n_both} data sets. CL-PBNR flags {format_range(ours)} times as many "
        f"samples as are wrong here, and {format_range(papers_f1)} times as many in the paper: "
        "where it flags about as many as are wrong, methods that flag fewer have little precision "
        "to gain.",
        format_table(
            [
                *("", "", "area under precision-recall (%)", "mean F1 (%)"),
                *("flagged per wrong label", "paper's"),
            ],
            rows,
            "l",
        ),
    ]


def _count_flagged_per_wrong(frame: Any, name: str) -> dict[str, float]:
    rows = frame[frame["dataset"] == name]
    by = (rows["flagged"] / rows["wrong"]).groupby(rows["method"]).mean()
    return {str(method): float(value) for method, value in by.items()}
