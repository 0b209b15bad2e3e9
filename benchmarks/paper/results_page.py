"""The page `docs/results.md`: what the benchmark found, beside the paper, from stored cells."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from paper import human_errors
from paper.page_text import (
    FOLDER,
    LINK,
    SUITE,
    format_count,
    format_spread,
    format_table,
    group_by_treatment,
)
from paper.paper_comparison import (
    build_comparison_table,
    find_paper_dataset,
    format_judgements,
    judge_statements,
)
from paper.printed_tables import SAMPLES, read_paper_means
from paper.sections import from_scratch_section, second_stage_section
from paper.sections.entropy_section import build_entropy
from paper.sections.six_methods_section import build_six_methods
from paper.sections.stage1_sections import (
    build_ranking_and_counting,
    build_stage1,
    build_stage1_block,
)
from paper.sections.stage2_sections import build_stage2, build_stage2_block
from paper.sections.verdict_sections import (
    build_correlations,
    build_statements,
    build_summary,
    build_winners,
)
from training import longer_training
from uqled.bench.cell_graph import (
    describe_cell,
    list_pilot_cells,
    list_stage1_cells,
    list_stage2_cells,
)
from uqled.bench.cells import Cells
from uqled.bench.results.collection import Results, collect_results, rank_pilot
from uqled.bench.results.formatting import (
    DASH,
    format_method,
    format_number,
    format_rate,
    join_words,
)
from uqled.bench.results.statistics import (
    group_samples,
    list_datasets,
    list_evidence,
    make_sample,
    select_treatment,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
    format_markdown,
)
from uqled.bench.suite import BASELINE, Suite, read_suite

RESULTS = Path(__file__).parents[1] / "results"
CELLS = RESULTS / "laptop"
PUBLISHED_RESULTS = RESULTS / "published-predictions.json"
LONGER = RESULTS / "longer-training.json"


def build_page(
    folder: Path = CELLS, published_path: Path = PUBLISHED_RESULTS, longer: Path = LONGER
) -> str:
    """The whole page, of the cells in a folder."""
    suite, cells = read_suite(SUITE), Cells(folder)
    results = collect_results(suite, cells)
    parts = [
        *_build_head(suite, cells, results),
        *_build_what_was_run(suite, results),
        _describe_pilot(suite, cells),
        *build_summary(results),
        *build_statements(results),
        *build_six_methods(results),
        *from_scratch_section.build_section(
            from_scratch_section.read_settings(), "research/batch-norm.md"
        ),
        *second_stage_section.describe_settings(),
        *build_stage1(results, list_evidence(results)),
        *build_ranking_and_counting(results),
        *longer_training.build_section(json.loads(longer.read_text(encoding="utf-8")), LINK),
        *build_entropy(results),
        *build_stage2(results, list_evidence(results)),
        *build_winners(results),
        *build_correlations(results),
        *human_errors.build_human_errors_section(
            json.loads(published_path.read_text(encoding="utf-8"))
        ),
        *_build_contaminated(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _build_head(suite: Suite, cells: Cells, results: Results) -> list[str]:
    cells_to_show = [*list_pilot_cells(suite), *list_stage1_cells(suite)]
    ranking = rank_pilot(suite, cells)
    cells_to_show += list_stage2_cells(suite, ranking.kept_methods if ranking else suite.methods)
    n_finished = sum(cells.is_finished(cell, describe_cell(suite, cell)) for cell in cells_to_show)
    about = results.about
    parts = [
        "# What the benchmark found",
        "You learn which of the paper's findings hold when its experiments are repeated. "
        f"Made by `benchmarks/results_page.py` from the cells in [{SUITE}]({FOLDER}), from "
        f"[published predictions]({LINK}/published-predictions.md) and from the tables that the "
        "paper prints. Every number and every verdict on this page is computed. "
        f"Code {join_words(about['code'])}; Python {join_words(about['python'])}; "
        f"{join_words(about['versions'])}; {join_words(about['hardware'])}; "
        f"{format_number(about['hours_of_one_process'], 1)} hours of one process.",
    ]
    if n_finished < len(cells_to_show):
        parts.append(
            f"**The benchmark is not finished: {n_finished} of {len(cells_to_show)} results are "
            "finished.** A dash stands for a missing one, and verdicts may still change."
        )
    return parts


def _build_what_was_run(suite: Suite, results: Results) -> list[str]:
    about, rows = results.about, []
    for name, facts in about["data"].items():
        accuracies = results.initial[results.initial["dataset"] == name]
        initial = dict(zip(accuracies["seed"], accuracies["accuracy"], strict=True))
        rows.append(
            [
                escape_markdown(name),
                f"`{facts['model']}`",
                str(facts.get("epochs", DASH)),
                format_count(facts.get("train")),
                format_count(facts.get("retraining_limit") or facts.get("train")),
                format_count(facts.get("test")),
                format_spread(make_sample(initial)) if initial else DASH,
            ]
        )
    missing = set(SAMPLES) - {find_paper_dataset(name) for name in about["data"]}
    second = Counter[float]()
    for name in list_datasets(results):
        for rate, column in group_samples(
            select_treatment(results.stage2, "noisy"), name, "accuracy"
        ).items():
            second[rate or 0.0] = max(second[rate or 0.0], column["noisy"].n)
    seeds = ", ".join(f"{n} at {format_rate(rate)}" for rate, n in sorted(second.items()))
    relabelled_rates = {
        r for n in list_datasets(results) for r in group_by_treatment(results, n, "relabel")
    }
    stage2 = f" Number of seeds in stage 2: {seeds}." if second else ""
    if relabelled_rates:
        names = join_words(map(format_rate, relabelled_rates))
        stage2 += f" Flagged samples are also relabelled at {names}."
    methods_left = set(suite.stage2.methods or suite.methods if suite.stage2 else ())
    methods_left -= set(results.stage2["method"])
    if methods_left and second:
        names = join_words(sorted(map(format_method, methods_left)))
        stage2 += f" Stage 2 has no result for {names}."
    return [
        "## What was run",
        "The paper's protocol: a network trained on clean labels measures which classes are "
        f"similar ({about['noise']} noise), labels are flipped at the rates "
        f"{join_words(map(format_rate, suite.rates))}, {about['folds']}-fold cross-validation "
        f"predicts every training sample once with softmax and {about['passes']} times with "
        f"dropout, every method flags, and networks are trained on what is left. Seeds: "
        f"{join_words(map(str, about['seeds']))}; each draws its own noise, folds and networks."
        + stage2,
        format_table(
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
            f"**Contaminated: {escape_markdown(name)}** ({why}). It is shown separately at the "
            "end and counts in no verdict."
            for name, why in about["contaminated"].items()
        ),
        "± is the sample standard deviation over seeds. A difference is called clear when its mean "
        "over seeds, paired, is larger than that; otherwise it is within the spread. "
        "A single seed is never clear. None of this is a significance test.",
    ]


def _describe_pilot(suite: Suite, cells: Cells) -> str:
    """Who won the pilot, once all of it is there."""
    ranking = rank_pilot(suite, cells)
    if ranking is None:
        return ""
    better_methods = [format_method(m) for m in ranking.kept_methods if m != BASELINE]
    others = [format_method(m) for m in ranking.dropped_methods]
    text = f"In the pilot on the test sets ([pilot.md]({FOLDER}/pilot.md)) these methods have a "
    text += f"higher mean F1 than CL-PBNR: {join_words(better_methods)}."
    return text + (f" These do not: {join_words(others)}." if others else "")


def _build_contaminated(results: Results) -> list[str]:
    why = results.about["contaminated"]
    names = [name for name in list_datasets(results) if name in why]
    if not names:
        return []
    return [
        "## Contaminated, and not counted above",
        *(
            f"{escape_markdown(name)}: {why[name]}. These results are no evidence about any method."
            for name in names
        ),
        *(p for n in names for p in build_stage1_block(results, n, read_paper_means().f1)),
        *(part for name in names for part in build_stage2_block(results, name)),
    ]


def format_comparison(results: Results) -> dict[str, str]:
    """File name -> text of what holds a benchmark against the paper."""
    return {
        "claims.md": format_judgements(judge_statements(results)),
        "beside-paper.md": format_markdown(build_comparison_table(results)),
    }
