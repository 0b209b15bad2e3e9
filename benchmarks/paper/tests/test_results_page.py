"""docs/results.md and the stored tables: what is committed is what the stored cells give."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from paper import human_errors
from paper.results_page import build_page, format_comparison
from paper.statements import compute_f05
from uqled.bench.cell_graph import (
    describe_cell,
    list_pilot_cells,
    list_stage1_cells,
    list_stage2_cells,
    list_unfinished_cells,
)
from uqled.bench.cells import Cells
from uqled.bench.results.collection import collect_results
from uqled.bench.results.result_files import format_texts
from uqled.bench.results.statistics import analyse_sensitivity
from uqled.bench.suite import read_suite

ROOT = Path(__file__).parents[3]
STORED_CELLS = ROOT / "benchmarks" / "results" / "laptop"
PUBLISHED_RESULTS = ROOT / "benchmarks" / "results" / "published-predictions.json"
SUITE = read_suite("laptop")
SEEDS = {0: 0.0, 1: 0.001, 2: -0.001}


def make_results(folder: Path, gains: dict[str, float], *, relabel: float = 0.0) -> Path:
    """Every result of the laptop suite, with so much more F1 and accuracy than CL-PBNR's."""
    cells = Cells(folder)
    cells_to_write = [
        *list_pilot_cells(SUITE),
        *list_stage1_cells(SUITE),
        *list_stage2_cells(SUITE, SUITE.methods),
    ]
    provenance = {
        "code": "abc",
        "cpu": "a processor",
        "cores": 2,
        "memory_gib": 1.0,
        "python": "3.11",
    }
    provenance |= {"versions": {"numpy": "2"}, "seconds": 36.0}
    for cell in list_unfinished_cells(SUITE, cells, cells_to_write):
        content: dict[str, Any] = {"accuracy": 0.9 + SEEDS[cell.seed]}
        level = {"mnist": 0.3, "cifar10": 0.2, "tiny-imagenet-20": 0.0}.get(cell.data, 0.1)
        if cell.kind == "pretraining":
            content |= {
                "train": 1000,
                "test": 100,
                "monitored_accuracy": 0.9,
                "classes": ["a", "b"],
            }
        elif cell.kind in ("pilot", "detection"):
            assert cell.rate is not None
            verdicts = {}
            for place, method in enumerate(SUITE.methods):
                gain = gains.get(method, 0.0) + SEEDS[cell.seed] * (1 + place / 10)
                p = r = 0.5 + level + cell.rate / 10 + gain
                verdicts[method] = {"precision": p, "recall": r, "f1": p, "aupr": p, "flagged": 90}
                verdicts[method]["f05"] = compute_f05(p, r)
            content = {"n": 1000, "wrong": round(1000 * cell.rate), "methods": verdicts}
            content |= {"given_accuracy": 0.8, "true_accuracy": 0.9, "classes": ["a", "b"]}
            content |= {"sources": dict.fromkeys(SUITE.methods)}
        elif cell.kind == "retraining":
            rate = cell.rate or 0.0
            better = gains.get(cell.method, 0.0) + 0.01 if cell.method else 0.0
            better += relabel if cell.treatment == "relabel" else 0.0
            content["accuracy"] = 0.6 + level - rate / 2 + better + SEEDS[cell.seed]
            content |= {"trained_on": 1000, "changed": 90}
        cells.write(cell, describe_cell(SUITE, cell), content, {}, provenance)
    return folder


def test_the_page_is_what_the_stored_cells_give() -> None:
    assert build_page() == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_stored_tables_regenerate_byte_for_byte() -> None:
    results = collect_results(SUITE, Cells(STORED_CELLS))
    texts = {**format_texts(results, analyse_sensitivity(results)), **format_comparison(results)}
    assert len(texts) > 8
    for name, text in texts.items():
        assert (STORED_CELLS / name).read_bytes() == text.encode(), name


def test_what_the_page_links_to_is_there() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert len(links) > 5
    for link in links:
        assert (ROOT / "docs" / link).exists(), link


def test_no_fold_is_committed() -> None:
    gitignore = (STORED_CELLS / ".gitignore").read_text()
    for pattern in ("fold-*.npz", "pretraining.npz", "work/"):
        assert pattern in gitignore


def test_sentences_follow_the_numbers(tmp_path: Path) -> None:
    methods = ("cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")
    gains = dict(zip(methods, (0.02, 0.03, 0.02, 0.02, 0.05), strict=True))
    for_it = build_page(make_results(tmp_path / "for", gains, relabel=0.02), PUBLISHED_RESULTS)
    losses = {name: -gain for name, gain in gains.items()}
    page_of_losses = build_page(
        make_results(tmp_path / "against", losses, relabel=-0.02), PUBLISHED_RESULTS
    )
    heading_held, failed_heading = "What held up", "What did not hold"
    first = "F1 above CL-PBNR's, per data set, rate and algorithm"
    for text, head in ((for_it, heading_held), (page_of_losses, failed_heading)):
        part = text.split(f"{head}:")[1].split("\n\n")[1]
        assert f"- {first} (" in part
    assert SUITE.stage2 is not None
    clean_sets = [data for data in SUITE.data if not data.contaminated]
    cells = len(clean_sets) * len(SUITE.rates)
    n = cells * len(methods)
    assert f"{first} ({n} of {n} clearly)" in for_it
    assert f"{first} (0 of {n} clearly, {n} clearly not)" in page_of_losses
    assert "Alg-Ens (agreement 3) has the highest mean F1" in for_it
    assert "clearly ahead of every other method; +5.0 " in for_it
    n = len(clean_sets) * len(SUITE.stage2.relabel) * len(SUITE.stage2.methods or SUITE.methods)
    assert f"Relabelling is clearly better than removal in {n} of {n}" in for_it
    assert f"clearly worse in {n};" in page_of_losses
    assert f"The candidate reading has the clearly higher F1 in {cells} of {cells}" in for_it
    assert f"the given reading in {cells}; 0 are within the spread" in page_of_losses
    assert "not finished" not in for_it


def test_contaminated_results_stand_apart(tmp_path: Path) -> None:
    text = build_page(make_results(tmp_path, {}), PUBLISHED_RESULTS)
    name = "Tiny-ImageNet (20 classes), pretrained features"
    before, after = text.split("## Contaminated, and not counted above")
    assert f"### {name}" in after
    assert f"### {name}" not in before
    assert f"**Contaminated: {name}**" in before
    others = {data.display_name for data in SUITE.data} - {name}
    assert all(f"### {other}" in before for other in others)


def test_a_benchmark_that_is_not_finished_says_so(tmp_path: Path) -> None:
    folder = make_results(tmp_path, {"cl-mcd": 0.01})
    for data in SUITE.data[1:]:
        shutil.rmtree(folder / "cells" / data.name)
    shutil.rmtree(folder / "cells" / "mnist" / "seed-2")
    text = build_page(folder, PUBLISHED_RESULTS)
    assert "**The benchmark is not finished: " in text
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    no_folder = tmp_path / "nothing"
    (no_folder / "cells").mkdir(parents=True)
    assert "0 of " in build_page(no_folder, PUBLISHED_RESULTS)


def test_published_predictions_are_judged_by_their_spread() -> None:
    def network(**f1: float) -> dict[str, Any]:
        methods = {
            name.replace("_", "-"): dict.fromkeys(("f1", "precision", "recall", "aupr"), value)
            for name, value in f1.items()
        }
        return {"given_accuracy": 0.5, "true_accuracy": 0.9, "methods": methods}

    content = {"n": 100, "wrong": 40}
    content["networks"] = {
        "a": network(cl_pbnr=0.8, cl_mcd=0.85, cl_mcd_e=0.7, cl_mcd_ens=0.81),
        "b": network(cl_pbnr=0.82, cl_mcd=0.87, cl_mcd_e=0.7, cl_mcd_ens=0.80),
    }
    parts = human_errors.build_human_errors_section(
        {"machine": {"code": "abc"}, "sets": {"z": content, "cifar10n-worst": content}}
    )
    assert parts[2] == "### CIFAR-10N, mistakes of human annotators"
    text = parts[3]
    assert "40 of 100 labels are wrong (40.0%)" in text
    assert "CL-MCD has the highest F1 (86.0%), clearly." in text
    assert "Clearly above CL-PBNR in F1, in points: CL-MCD (+5.0)." in text
    assert "Clearly below CL-PBNR in F1, in points: CL-MCD-E (\N{MINUS SIGN}11.0)." in text
    assert "Within the spread of CL-PBNR in F1, in points: CL-MCD-Ens (\N{MINUS SIGN}0.5)." in text
    assert "CL-PBNR misses 19.0% of the wrong labels." in text


def test_stored_published_predictions_have_both_readings() -> None:
    content = json.loads(PUBLISHED_RESULTS.read_text(encoding="utf-8"))
    human = content["sets"]["cifar10n-worst"]
    assert (human["n"], len(human["networks"])) == (50_000, 5)
    for network in human["networks"].values():
        assert {"cl-mcd-e", "cl-mcd-e-given", "argmax of the mean"} <= set(network["methods"])
        assert 0.8 < network["true_accuracy"] < 1
