"""docs/results.md: what the benchmark found, beside the paper, from stored cells.

    python benchmarks/results_page.py                  writes docs/results.md
    python benchmarks/results_page.py --take FOLDER    takes over the cells finished there first

Every number and every verdict is computed from `benchmarks/results/laptop/cells`, from
`benchmarks/results/published-predictions.json` and from the paper's printed tables, so that the
same cells give the same page.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import longer_training
from paper import human_errors
from paper.claims import FAILS, HOLDS, OPEN
from paper.paper_comparison import beside_table, judged, judged_markdown, paper_name
from paper.printed_tables import SAMPLES, published_means, published_results
from uqled.bench.cell_graph import (
    describe_cell,
    list_pilot_cells,
    list_stage1_cells,
    list_stage2_cells,
)
from uqled.bench.cells import Cells
from uqled.bench.results.collection import Results, collect_results, rank_pilot
from uqled.bench.results.figures import group_cleaned_and_noisy, name_files
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
    Rate,
    Sample,
    analyse_sensitivity,
    average_over_rates,
    compute_improvements,
    find_leaders,
    group_samples,
    is_clear,
    list_datasets,
    list_evidence,
    make_sample,
    select_treatment,
    subtract_samples,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
    format_markdown,
    format_markdown_cell,
    format_markdown_row,
)
from uqled.bench.results.tables import BASELINE, Block, Row, build_stage1_table, build_stage2_table
from uqled.bench.runner import Benchmark, write_tables
from uqled.bench.suite import PAPER_METHODS, Suite, read_suite
from uqled.storage.atomic import replace_file

HERE = Path(__file__).parent
CELLS = HERE / "results" / "laptop"
PUBLISHED = HERE / "results" / "published-predictions.json"
LONGER = HERE / "results" / "longer-training.json"
PAGE = HERE.parent / "docs" / "results.md"
_SUITE = "laptop"
_LINK = "../benchmarks/results"
_FOLDER = f"{_LINK}/{_SUITE}"


def page(folder: Path = CELLS, published: Path = PUBLISHED, longer: Path = LONGER) -> str:
    """The whole page, of the cells in a folder."""
    suite, cells = read_suite(_SUITE), Cells(folder)
    results = collect_results(suite, cells)
    parts = [
        *_head(suite, cells, results),
        *_what_was_run(suite, results),
        _pilot(suite, cells),
        *_in_short(results),
        *_statements(results),
        *_stage1(results, list_evidence(results)),
        *_why(results),
        *longer_training.section(json.loads(longer.read_text(encoding="utf-8")), _LINK),
        *_entropy(results),
        *_stage2(results, list_evidence(results)),
        *_winners(results),
        *_correlations(results),
        *human_errors.section(json.loads(published.read_text(encoding="utf-8"))),
        *_contaminated(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# -- what was run ---------------------------------------------------------------------------------


def _head(suite: Suite, cells: Cells, results: Results) -> list[str]:
    wanted = [*list_pilot_cells(suite), *list_stage1_cells(suite)]
    ranking = rank_pilot(suite, cells)
    wanted += list_stage2_cells(suite, ranking.kept if ranking else suite.methods)
    done = sum(cells.is_finished(cell, describe_cell(suite, cell)) for cell in wanted)
    about = results.about
    found = [
        "# What the benchmark found",
        "For a researcher who wants to know what of the paper holds when others compute it. "
        f"Made by `benchmarks/results_page.py` from the cells in [{_SUITE}]({_FOLDER}), from "
        f"[published predictions]({_LINK}/published-predictions.md) and from the tables that the "
        "paper prints: every number and every verdict on this page is computed, none typed. "
        f"Code {join_words(about['code'])}; Python {join_words(about['python'])}; "
        f"{join_words(about['versions'])}; {join_words(about['hardware'])}; "
        f"{format_number(about['hours_of_one_process'], 1)} hours of one process.",
    ]
    if done < len(wanted):
        found.append(
            f"**The benchmark is not finished: {done} of {len(wanted)} results are there.** A dash "
            "stands for one that is not, and verdicts may still change."
        )
    return found


def _what_was_run(suite: Suite, results: Results) -> list[str]:
    about, rows = results.about, []
    for name, facts in about["data"].items():
        accuracies = results.initial[results.initial["dataset"] == name]
        initial = dict(zip(accuracies["seed"], accuracies["accuracy"], strict=True))
        rows.append(
            [
                escape_markdown(name),
                f"`{facts['model']}`",
                str(facts.get("epochs", DASH)),
                _count(facts.get("train")),
                _count(facts.get("retraining_limit") or facts.get("train")),
                _count(facts.get("test")),
                _spread(make_sample(initial)) if initial else DASH,
            ]
        )
    missing = set(SAMPLES) - {paper_name(name) for name in about["data"]}
    second = Counter[float]()
    for name in list_datasets(results):
        for rate, column in group_samples(
            select_treatment(results.stage2, "noisy"), name, "accuracy"
        ).items():
            second[rate or 0.0] = max(second[rate or 0.0], column["noisy"].n)
    seeds = ", ".join(f"{n} at {format_rate(rate)}" for rate, n in sorted(second.items()))
    relabelled = {r for n in list_datasets(results) for r in _treated(results, n, "relabel")}
    stage2 = f" Stage 2 has so many seeds: {seeds}." if second else ""
    if relabelled:
        stage2 += (
            f" Flagged samples are also relabelled at {join_words(map(format_rate, relabelled))}."
        )
    left = set(suite.stage2.methods or suite.methods if suite.stage2 else ())
    left -= set(results.stage2["method"])
    if left and second:
        names = join_words(sorted(map(format_method, left)))
        stage2 += f" Stage 2 has no result for {names}."
    return [
        "## What was run",
        f"The paper's protocol: a network trained on clean labels says which classes look alike "
        f"({about['noise']} noise), labels are flipped at the rates "
        f"{join_words(map(format_rate, suite.rates))}, {about['folds']}-fold cross-validation "
        f"predicts every training sample once with softmax and {about['passes']} times with "
        f"dropout, every method flags, and networks are trained on what is left. Seeds: "
        f"{join_words(map(str, about['seeds']))}; each draws its own noise, folds and networks."
        + stage2,
        _table(
            [
                *("data set", "network", "epochs", "training images", "of them in stage 2"),
                *("test images", "accuracy on clean labels (%)"),
            ],
            rows,
            "l",
        ),
        "Smaller than in the paper: "
        + " ".join(f"{sentence}." for sentence in about["reductions"])
        + (f" {join_words(missing)}: not among them." if missing else ""),
        *(
            f"**Contaminated: {escape_markdown(name)}** ({why}). It is shown apart at the end and "
            "counts in no verdict."
            for name, why in about["contaminated"].items()
        ),
        "± is the sample standard deviation over seeds. A difference is called clear when its mean "
        "over seeds, paired, is larger than that; otherwise it cannot be told within the spread. "
        "One seed alone is never clear. None of this is a significance test.",
    ]


def _pilot(suite: Suite, cells: Cells) -> str:
    """Who won the pilot, once all of it is there."""
    ranking = rank_pilot(suite, cells)
    if ranking is None:
        return ""
    better = [format_method(m) for m in ranking.kept if m != BASELINE]
    others = [format_method(m) for m in ranking.dropped]
    text = f"In the pilot on the test sets ([pilot.md]({_FOLDER}/pilot.md)) these have a higher "
    text += f"mean F1 than CL-PBNR: {join_words(better)}."
    return text + (f" These do not: {join_words(others)}." if others else "")


# -- verdicts -------------------------------------------------------------------------------------


def _in_short(results: Results) -> list[str]:
    by_verdict: dict[str, list[str]] = {HOLDS: [], FAILS: [], OPEN: []}
    for one in judged(results):
        if one.here is not None:
            text = f"{one.statement.counted} ({one.here.clearly} of {one.here.of} clearly"
            text += f", {one.here.against} clearly not)" if one.here.against else ")"
            by_verdict[one.statement.verdict(one.here)].append(text)
    heads = {
        HOLDS: "What held up from the paper",
        FAILS: "What did not hold",
        OPEN: "What cannot be told within the spread",
    }
    found = ["## In short"]
    for verdict, texts in by_verdict.items():
        found.append(f"{heads[verdict]}{':' if texts else ': nothing.'}")
        found.append("\n".join(f"- {escape_markdown(text)}" for text in texts))
    best = "\n".join(f"- {line}" for line in _best_lines(results))
    return [*found, "Who finds most:" if best else "", best]


def _best_lines(results: Results) -> list[str]:
    """Who is best on each data set, and by how much."""
    found = []
    for name in list_evidence(results):
        column = average_over_rates(group_samples(results.stage1, name, "f1"))
        first = find_leaders(column)
        if not first.names:
            continue
        best = sorted(first.names)[0]
        gap = subtract_samples(column[best], column[BASELINE])
        how = "clearly ahead of every other method" if first.is_clear else "not clear of the next"
        winners = join_words(map(format_method, first.names))
        line = f"{escape_markdown(name)}: the highest mean F1 has {winners}, "
        line += f"{format_percent(column[best].mean)} %, {how}; {_points(gap)} on CL-PBNR"
        found.append(line + f". {_of_the_papers(column)}")
    return found


def _of_the_papers(column: Mapping[str, Sample]) -> str:
    own = {m: sample for m, sample in column.items() if m in PAPER_METHODS}
    first = find_leaders(own)
    if not first.names:
        return ""
    best = sorted(first.names)[0]
    gap = subtract_samples(own[best], own[BASELINE]) if BASELINE in own else None
    by = f", {_points(gap)} on CL-PBNR" if gap and best != BASELINE else ""
    return f"Among the paper's: {join_words(map(format_method, first.names))}{by}."


def _statements(results: Results) -> list[str]:
    rows = []
    for one in judged(results):
        paper = f"{one.paper.held} of {one.paper.of}" if one.paper else DASH
        here = [DASH] * 5
        if one.here is not None:
            verdict = one.statement.verdict(one.here)
            counts = one.here.clearly, one.here.within, one.here.against, one.here.once
            here = list(map(str, counts))
            here.append(f"**{verdict}**" if verdict != OPEN else verdict)
        sort = "" if one.statement.every else " *(most cases)*"
        rows.append(
            [
                f'"{escape_markdown(one.statement.quote)}"{sort}',
                escape_markdown(one.statement.counted),
                paper,
                *here,
            ]
        )
    return [
        "## What the paper says, and what is seen here",
        "A statement about every case does not hold when one clearly fails; it holds when all that "
        "have a spread are clear and those of one seed agree. Where the paper speaks of most "
        "cases, more than half decide. "
        f"[claims.md]({_FOLDER}/claims.md) names the exceptions; "
        f"[paper-check.md]({_LINK}/paper-check.md) holds the paper against its own tables.",
        _table(
            [
                *("the paper", "counted", "in its tables", "here clearly", "within the spread"),
                *("clearly not", "one seed only", "verdict"),
            ],
            rows,
            "l",
        ),
    ]


# -- stage 1 --------------------------------------------------------------------------------------


def _stage1(results: Results, names: Iterable[str]) -> list[str]:
    paper = published_means().f1
    found = [
        "## Stage 1: finding wrong labels",
        "F1 in per cent; bold: highest and clearly so, italic: highest. The last columns are mean "
        "F1 in the paper and the distance to CL-PBNR in points, here and there. Precision, recall, "
        f"F0.5 and the area under precision-recall are in [stage1.md]({_FOLDER}/stage1.md).",
    ]
    return found + [part for name in names for part in _stage1_block(results, name, paper)]


def _stage1_block(
    results: Results, name: str, paper: Mapping[str, Mapping[str, float]]
) -> list[str]:
    frame = results.stage1[results.stage1["dataset"] == name]
    if frame.empty:
        return []
    table = build_stage1_table(frame, "", "")
    (block,), heads = table.blocks, list(table.groups[0][1])
    theirs = paper.get(paper_name(name) or "", {})
    ours = average_over_rates(group_samples(results.stage1, name, "f1"))
    names = {format_method(m) + (" (baseline)" if m == BASELINE else ""): m for m in ours}
    rows = []
    for row in block.rows:
        m = names.get(row.name)
        more = [DASH] * 3 if row.kind != "fact" else [""] * 3
        if m in theirs:
            more = [format_percent(theirs[m]), DASH, _signed(theirs[m] - theirs[BASELINE])]
        if m is not None and BASELINE in ours:
            more[1] = _signed(subtract_samples(ours[m], ours[BASELINE]).mean)
        rows.append([*_cells(row, len(heads)), *more])
    change = compute_improvements(group_samples(results.stage1, name, "f1"))
    beside = f" (in the paper: {paper_name(name)})" if theirs and paper_name(name) != name else ""
    return [
        f"### {escape_markdown(name)}{beside}",
        _note(block),
        _table(["", *heads, "paper's mean", "minus CL-PBNR", "paper's"], rows),
        _picture(results, name, "F1 relative to CL-PBNR", "stage1") if any(change.values()) else "",
    ]


def _picture(results: Results, name: str, what: str, stage: str) -> str:
    stem = name_files(list_datasets(results))[name]
    return f"![{what}, {escape_markdown(name)}]({_FOLDER}/figures/{stage}-relative-{stem}.png)"


def _why(results: Results) -> list[str]:
    """Ranking and counting apart: what the methods change of either."""
    shown = (BASELINE, "cl-mcd", "cl-mcd-e", "alg-ens-3")
    theirs, rows, better, both = published_results(), [], 0, 0
    here, there = list[float](), list[float]()
    for name in list_evidence(results):
        area = average_over_rates(group_samples(results.stage1, name, "aupr"))
        f1 = average_over_rates(group_samples(results.stage1, name, "f1"))
        if not set(shown) <= set(area):
            continue
        both += 1
        better += is_clear(gap := subtract_samples(area["cl-mcd"], area[BASELINE])) and gap.mean > 0
        ratios = _flagged_per_wrong(results.stage1, name)
        other = paper_name(name)
        papers = _flagged_per_wrong(theirs.stage1, other) if other else {}
        here.append(ratios[BASELINE])
        there += [papers[BASELINE]] if papers else []
        for m in shown:
            per = [format_number(by[m], 2) if m in by else DASH for by in (ratios, papers)]
            cells = [format_method(m), _spread(area[m]), _spread(f1[m]), *per]
            rows.append([escape_markdown(name) if m == shown[0] else "", *cells])
    if not rows:
        return []
    return [
        "### Why: ranking and counting",
        "A method does two things: it ranks samples, and it decides how many to flag. The area "
        "under precision-recall looks at the order of all samples, those flagged first; flagged "
        "samples per wrong label say if too many or too few are flagged. CL-MCD, on the mean of "
        "the passes, orders clearly better than CL-PBNR on the softmax for "
        f"{better} of {both} data sets. CL-PBNR flags {_range(here)} times as many samples as "
        f"are wrong here, and {_range(there)} times as many in the paper: where it flags about as "
        "many as are wrong, methods that flag fewer have little precision to gain.",
        _table(
            [
                *("", "", "area under precision-recall (%)", "mean F1 (%)"),
                *("flagged per wrong label", "paper's"),
            ],
            rows,
            "l",
        ),
    ]


def _range(values: list[float]) -> str:
    if not values:
        return DASH
    low, high = format_number(min(values), 2), format_number(max(values), 2)
    return low if low == high else f"{low} to {high}"


def _flagged_per_wrong(frame: Any, name: str) -> dict[str, float]:
    chosen = frame[frame["dataset"] == name]
    by = (chosen["flagged"] / chosen["wrong"]).groupby(chosen["method"]).mean()
    return {str(method): float(value) for method, value in by.items()}


def _entropy(results: Results) -> list[str]:
    """Both readings of the threshold, and which of them looks like the paper."""
    theirs, rows = published_results().stage1, []
    counted = Counter[str]()
    for name in list_evidence(results):
        f1 = group_samples(results.stage1, name, "f1")
        for column in f1.values():
            if {"cl-mcd-e", "cl-mcd-e-given"} <= set(column):
                gap = subtract_samples(column["cl-mcd-e"], column["cl-mcd-e-given"])
                side = "candidate" if gap.mean > 0 else "given"
                counted[side if is_clear(gap) else "open"] += 1
        gaps = {m: _entropy_gaps(results.stage1, name, m) for m in ("cl-mcd-e", "cl-mcd-e-given")}
        if not all(gaps.values()):
            continue
        other = paper_name(name)
        printed = _entropy_gaps(theirs, other, "cl-mcd-e") if other else {}
        cells = []
        for measure in ("f1", "precision", "recall"):
            cells += [_signed(by[measure].mean) if by else DASH for by in (printed, *gaps.values())]
        closer = DASH
        if printed:
            far = [
                sum(abs(by[m].mean - printed[m].mean) for m in ("precision", "recall"))
                for by in gaps.values()
            ]
            closer = "candidate" if far[0] < far[1] else "given"
        rows.append([escape_markdown(name), *cells, closer])
    if not rows:
        return []
    heads = [
        f"{m}, {w}" for m in ("F1", "precision", "recall") for w in ("paper", "cand.", "given")
    ]
    total = sum(counted.values())
    return [
        "## Both readings of the entropy threshold",
        "The equation of CL-MCD-E can be read in two ways: a sample counts for a class if its "
        "entropy is below the mean of that class (candidate, uqled's default) or below the mean of "
        "the class that it was given (given, the letter of the equation). The candidate's reading "
        f"has the clearly higher F1 in {counted['candidate']} of {total} cells (data set, rate), "
        f"the given class's in {counted['given']}; {counted['open']} cannot be told. Below, "
        "CL-MCD-E minus CL-MCD in points, mean over rates: whichever reading is closer to the "
        "paper in precision and recall is the likelier one to have been computed there, as far as "
        "another network lets one tell.",
        _table(["", *heads, "closer to the paper"], rows),
    ]


def _entropy_gaps(frame: Any, name: str, method: str) -> dict[str, Sample]:
    """Measure -> method minus CL-MCD, over rates."""
    found = {}
    for measure in ("f1", "precision", "recall"):
        column = average_over_rates(group_samples(frame, name, measure))
        if not {method, "cl-mcd"} <= set(column):
            return {}
        found[measure] = subtract_samples(column[method], column["cl-mcd"])
    return found


# -- stage 2 --------------------------------------------------------------------------------------


def _stage2(results: Results, names: Iterable[str]) -> list[str]:
    found = [
        "## Stage 2: training on cleaned data",
        "Accuracy on the untouched test set in per cent, after removing what a method flags; in "
        "the columns called relabelled, after giving flagged samples the suggested label instead. "
        "The last columns are removal minus training on the noisy labels, in points, mean over "
        f"rates, here and in the paper. More in [stage2.md]({_FOLDER}/stage2.md).",
        _treatments(results),
    ]
    return found + [part for name in names for part in _stage2_block(results, name)]


def _treatments(results: Results) -> str:
    """Relabelling against removal, and the best of either against doing nothing."""
    counted, best = Counter[str](), []
    for name in list_evidence(results):
        relabelled, removed = (_treated(results, name, what) for what in ("relabel", "remove"))
        for rate in relabelled:
            for m in relabelled[rate]:
                if m in removed.get(rate, {}):
                    gap = subtract_samples(relabelled[rate][m], removed[rate][m])
                    side = "relabel" if gap.mean > 0 else "remove"
                    counted[side if is_clear(gap) else "open"] += 1
        noisy = group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
        clean = group_samples(select_treatment(results.stage2, "clean"), name, "accuracy").get(
            None, {}
        )
        for rate, column in removed.items():
            if rate not in noisy or "clean" not in clean or noisy[rate]["noisy"].n < 2:
                continue
            top = max(column, key=lambda m: column[m].mean)
            gain = subtract_samples(column[top], noisy[rate]["noisy"])
            lost = subtract_samples(clean["clean"], noisy[rate]["noisy"])
            best.append(
                f"{escape_markdown(name)} at {format_rate(rate)}: noise costs {_spread(lost)} "
                f"points, the best removal ({format_method(top)}) gains {_points(gain)}"
            )
    total = sum(counted.values())
    text = "".join(f"- {line}.\n" for line in best)
    if total:
        text = (
            f"Relabelling is clearly better than removal in {counted['relabel']} of {total} cases "
            f"(data set, rate and method), clearly worse in {counted['remove']}; {counted['open']} "
            f"cannot be told within the spread.\n\n{text}"
        )
    return text.strip()


def _stage2_block(results: Results, name: str) -> list[str]:
    frame = results.stage2[results.stage2["dataset"] == name]
    if frame.empty:
        return []
    alone = replace(
        results, stage1=pd.DataFrame(), pilot=pd.DataFrame(), stage2=frame, matrices={},
        initial=pd.DataFrame(),
    )  # fmt: skip
    table = build_stage2_table(alone)
    heads = list(table.groups[0][1])
    removed = table.blocks[0]
    relabelled = {row.name: row for block in table.blocks[1:] for row in block.rows}
    rates = [i for i, _ in enumerate(heads) if _any_cell(relabelled.values(), i)]
    rates = [i for i in rates if heads[i] != "Mean"]
    paper, other = published_means(), paper_name(name)
    ours = average_over_rates(_treated(results, name, "remove"))
    noisy = average_over_rates(
        group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
    ).get("noisy")
    names = {format_method(m) + (" (baseline)" if m == BASELINE else ""): m for m in ours}
    rows = []
    for row in removed.rows:
        m = names.get(row.name)
        again = relabelled.get(row.name) if row.kind != "fact" and m else None
        cells = [format_markdown_cell(again.cells[i]) if again else "" for i in rates]
        gain = [_signed(subtract_samples(ours[m], noisy).mean) if m and noisy else ""]
        known = other is not None and m in paper.final[other]
        gain.append(_signed(paper.final[other][m] - paper.noisy[other]) if known else "")
        rows.append([*_cells(row, len(heads)), *cells, *gain])
    change, what = (
        compute_improvements(group_cleaned_and_noisy(results, name)),
        "Accuracy relative to CL-PBNR",
    )
    return [
        f"### {escape_markdown(name)}, cleaned",
        _note(removed),
        _table(
            [
                *("", *heads, *(f"relabelled, {heads[i]}" for i in rates)),
                *("minus noisy", "paper's"),
            ],
            rows,
        ),
        _picture(results, name, what, "stage2") if any(change.values()) else "",
    ]


# -- who wins where -------------------------------------------------------------------------------


def _winners(results: Results) -> list[str]:
    found: dict[str, Counter[str]] = {}
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
                    by = found.setdefault(m, Counter())
                    by[stage] += 1
                    by[f"{stage} clear"] += first.is_clear
    stages = ("F1", "area", "accuracy", "relabelled")
    order = sorted(found, key=lambda m: (-found[m]["F1"], -found[m]["accuracy"], m))
    rows = [
        [format_method(m), *(f"{found[m][s]} ({found[m][f'{s} clear']})" for s in stages)]
        for m in order
    ]
    where = []
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
            where.append(f"- {escape_markdown(name)}: {text}.")
    if not rows:
        return []
    return [
        "## Where each method wins",
        "In how many cells (data set, rate) a method has the highest mean, in brackets how often "
        "it is clearly ahead of all others. Methods that win nowhere are not listed.",
        _table(
            [
                *("", "F1", "area under precision-recall"),
                *("accuracy after removal", "after relabelling"),
            ],
            rows,
        ),
        "By F1:\n\n" + "\n".join(where),
    ]


def _correlations(results: Results) -> list[str]:
    here = analyse_sensitivity(results)
    theirs = analyse_sensitivity(published_results(), published_means())
    papers = {one.name: one.cells for one in build_correlation_rows(theirs)}
    rows = [
        [escape_markdown(one.name), *one.cells, papers.get(one.name, (DASH,) * 5)[1]]
        for one in build_correlation_rows(here)
    ]
    if not rows:
        return []
    sentences = []
    for what, analysis in (
        ("a network that is better before cleaning finds errors better", here.initial),
        ("methods that find errors better end with higher accuracy, over data sets", here.final),
    ):
        found = analysis.correlation
        if found is None:
            sentences.append(f"That {what}: there are too few points to say.")
            continue
        verdict = HOLDS if found.low > 0 else FAILS if found.high < 0 else OPEN
        sentences.append(
            f"That {what}: {verdict} (r = {format_number(found.r, 2)}, n = {found.n}, 95 % "
            f"interval {format_number(found.low, 2)} to {format_number(found.high, 2)})."
        )
    rates = list(dict.fromkeys(r for by in here.mean_f1.values() for r in by))
    means = [
        [escape_markdown(name), *(format_percent(by[r].mean) if r in by else DASH for r in rates)]
        for name, by in [
            *here.mean_f1.items(),
            *((f"{name}, paper", by) for name, by in theirs.mean_f1.items()),
        ]
    ]
    return [
        "## Sensitivity",
        " ".join(sentences),
        _table(["Pearson's r", "n", "r", "t", "p", "95 % interval", "paper's r"], rows),
        format_same_images(results.about, here.initial.points),
        f"F1 averaged over {join_words(map(format_method, here.methods))}, in per cent:",
        _table(["", *map(format_rate, rates)], means),
        f"![Mean F1 by noise rate]({_FOLDER}/figures/sensitivity-rates.png)" if means else "",
        f"![F1 and accuracy after cleaning]({_FOLDER}/figures/sensitivity-final.png)"
        if here.final.points
        else "",
    ]


def _contaminated(results: Results) -> list[str]:
    why = results.about["contaminated"]
    names = [name for name in list_datasets(results) if name in why]
    if not names:
        return []
    return [
        "## Contaminated, and counted nowhere above",
        *(
            f"{escape_markdown(name)}: {why[name]}. These are no evidence about any method."
            for name in names
        ),
        *(p for n in names for p in _stage1_block(results, n, published_means().f1)),
        *(part for name in names for part in _stage2_block(results, name)),
    ]


def comparison_texts(results: Results) -> dict[str, str]:
    """File name -> text of what holds a benchmark against the paper."""
    return {
        "claims.md": judged_markdown(judged(results)),
        "beside-paper.md": format_markdown(beside_table(results)),
    }


# -- writing --------------------------------------------------------------------------------------


def _table(heads: list[str], rows: Iterable[list[str]], left: str = "") -> str:
    """A Markdown table; the first column is set left, and one more for each letter of `left`."""
    lines = ["---" if i <= len(left) else "---:" for i in range(len(heads))]
    return "\n".join(map(format_markdown_row, [heads, lines, *rows]))


def _cells(row: Row, n: int) -> list[str]:
    return [escape_markdown(row.name), *map(format_markdown_cell, row.cells[:n])]


def _note(block: Block) -> str:
    return f"{block.note}." if block.note else ""


def _any_cell(rows: Iterable[Row], place: int) -> bool:
    return any(row.cells[place].text not in ("", DASH) for row in rows)


def _treated(results: Results, name: str, treatment: str) -> dict[Rate, dict[str, Sample]]:
    return group_samples(select_treatment(results.stage2, treatment), name, "accuracy")


def _spread(sample: Sample) -> str:
    text = format_percent(sample.mean)
    return text if sample.n < 2 else f"{text} ± {format_percent(sample.sd)}"


def _signed(share: float) -> str:
    return format_percent(share, signed=True)


def _points(gap: Sample) -> str:
    spread = f" ± {format_percent(gap.sd)}" if gap.n > 1 else ""
    return f"{_signed(gap.mean)}{spread} points"


def _count(value: Any) -> str:
    return DASH if value is None else format_number(float(value), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, help="a benchmark's folder: its cells come first")
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    if given.take is not None:
        # Later cells need the folds; a reader does not, and they are large.
        Cells(given.cells).merge(given.take, arrays_of=("detection",))
    write_tables(Benchmark(read_suite(_SUITE), Path(), given.cells))
    results = collect_results(read_suite(_SUITE), Cells(given.cells))
    files = {given.cells / name: text for name, text in comparison_texts(results).items()}
    for path, text in {**files, given.out: page(given.cells, given.published)}.items():
        with replace_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
