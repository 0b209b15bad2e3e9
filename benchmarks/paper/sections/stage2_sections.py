"""Stage 2 of the benchmark beside the paper: accuracy after cleaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from paper.page_text import (
    FOLDER,
    format_note,
    format_points,
    format_row_cells,
    format_signed,
    format_spread,
    format_table,
    group_by_treatment,
    has_cell,
)
from paper.paper_comparison import find_paper_dataset
from paper.printed_tables import read_paper_means
from paper.sections.stage1_sections import link_picture
from uqled.bench.results.collection import Results
from uqled.bench.results.figures import group_cleaned_and_noisy
from uqled.bench.results.formatting import (
    format_method,
    format_rate,
)
from uqled.bench.results.statistics import (
    average_over_rates,
    compute_improvements,
    group_samples,
    is_clear,
    list_evidence,
    select_treatment,
    subtract_samples,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
    format_markdown_cell,
)
from uqled.bench.results.tables import build_stage2_table
from uqled.bench.suite import BASELINE


def build_stage2(results: Results, names: Iterable[str]) -> list[str]:
    head = [
        "## Stage 2: training on cleaned data",
        "Accuracy on the untouched test set in per cent, after removing what a method flags; in "
        "the columns called relabelled, after giving flagged samples the suggested label instead. "
        "The last columns are removal minus training on the noisy labels, in points, mean over "
        f"rates, here and in the paper. More in [stage2.md]({FOLDER}/stage2.md).",
        _compare_treatments(results),
    ]
    return head + [part for name in names for part in build_stage2_block(results, name)]


def _compare_treatments(results: Results) -> str:
    """Relabelling against removal, and the best of either against doing nothing."""
    counts, best = Counter[str](), []
    for name in list_evidence(results):
        relabel_gains, removal_gains = (
            group_by_treatment(results, name, what) for what in ("relabel", "remove")
        )
        for rate in relabel_gains:
            for m in relabel_gains[rate]:
                if m in removal_gains.get(rate, {}):
                    gap = subtract_samples(relabel_gains[rate][m], removal_gains[rate][m])
                    side = "relabel" if gap.mean > 0 else "remove"
                    counts[side if is_clear(gap) else "open"] += 1
        noisy = group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
        clean = group_samples(select_treatment(results.stage2, "clean"), name, "accuracy").get(
            None, {}
        )
        for rate, column in removal_gains.items():
            if rate not in noisy or "clean" not in clean or noisy[rate]["noisy"].n < 2:
                continue
            top = max(column, key=lambda m: column[m].mean)
            gain = subtract_samples(column[top], noisy[rate]["noisy"])
            loss = subtract_samples(clean["clean"], noisy[rate]["noisy"])
            best.append(
                f"{escape_markdown(name)} at {format_rate(rate)}: noise costs "
                f"{format_spread(loss)} points, the best removal ({format_method(top)}) "
                f"gains {format_points(gain)}"
            )
    total = sum(counts.values())
    text = "".join(f"- {line}.\n" for line in best)
    if total:
        text = (
            f"Relabelling is clearly better than removal in {counts['relabel']} of {total} cases "
            f"(data set, rate and method), clearly worse in {counts['remove']}; {counts['open']} "
            f"are within the spread.\n\n{text}"
        )
    return text.strip()


def build_stage2_block(results: Results, name: str) -> list[str]:
    frame = results.stage2[results.stage2["dataset"] == name]
    if frame.empty:
        return []
    block_results = replace(
        results, stage1=pd.DataFrame(), pilot=pd.DataFrame(), stage2=frame, matrices={},
        initial=pd.DataFrame(),
    )  # fmt: skip
    table = build_stage2_table(block_results)
    heads = list(table.groups[0][1])
    removal_block = table.blocks[0]
    rows_by_method = {row.name: row for block in table.blocks[1:] for row in block.rows}
    rates = [i for i, _ in enumerate(heads) if has_cell(rows_by_method.values(), i)]
    rates = [i for i in rates if heads[i] != "Mean"]
    paper, other = read_paper_means(), find_paper_dataset(name)
    ours = average_over_rates(group_by_treatment(results, name, "remove"))
    noisy = average_over_rates(
        group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
    ).get("noisy")
    names = {format_method(m) + (" (baseline)" if m == BASELINE else ""): m for m in ours}
    rows = []
    for row in removal_block.rows:
        m = names.get(row.name)
        again = rows_by_method.get(row.name) if row.kind != "fact" and m else None
        cells = [format_markdown_cell(again.cells[i]) if again else "" for i in rates]
        gain = [format_signed(subtract_samples(ours[m], noisy).mean) if m and noisy else ""]
        gain.append("")
        if other is not None and m is not None and m in paper.final[other]:
            gain[-1] = format_signed(paper.final[other][m] - paper.noisy[other])
        rows.append([*format_row_cells(row, len(heads)), *cells, *gain])
    change, what = (
        compute_improvements(group_cleaned_and_noisy(results, name)),
        "Accuracy relative to CL-PBNR",
    )
    return [
        f"### {escape_markdown(name)}, cleaned",
        format_note(removal_block),
        format_table(
            [
                *("", *heads, *(f"relabelled, {heads[i]}" for i in rates)),
                *("minus noisy", "paper's"),
            ],
            rows,
        ),
        link_picture(results, name, what, "stage2") if any(change.values()) else "",
    ]
