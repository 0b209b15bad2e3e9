"""What the pages say about trainings from scratch follows from the cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paper.page_text import format_signed
from paper.sections import from_scratch_section as section
from uqled.bench.suite import PAPER_METHODS

ACCURACY = {
    "as-trained": 0.6,
    "reestimated": 0.95,
    "passes": 0.9,
    "passes-reestimated": 0.7,
    "by-torch": 0.94,
}


def write_cell(
    folder: Path,
    name: str,
    seed: int,
    *,
    norm: str,
    baselines: dict[str, float],
    folds: int | None = None,
) -> None:
    """A cell in which the paper's five have an F1 of 0.8, and CL-PBNR what is given."""
    methods = {
        statistics: {method: {"f1": 0.8} for method in PAPER_METHODS} | {"cl-pbnr": {"f1": f1}}
        for statistics, f1 in baselines.items()
    }
    setting: dict[str, Any] = {
        "data": "mnist",
        "network": "vgg11",
        "norm": norm,
        "samples": 5000,
        "width": 0.25,
    }
    setting |= {"epochs": 15, "batch_size": 64, "lr": 0.01, "milestones": [6, 10]}
    setting |= {"dropout": 0.5, "precision": "bf16-mixed", "folds": 4}
    cell = {"name": name, "rate": 0.1, "seed": seed}
    accuracy = ACCURACY | {"passes": 0.9 + 0.01 * seed}
    content = {"setting": setting, "cell": cell, "accuracy": accuracy, "methods": methods}
    content |= {} if folds is None else {"folds": folds}
    path = folder / name / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("as_trained", "reestimated_accuracy", "verdict"),
    [
        (0.5, 0.9, "holds only where batch norm has damaged the softmax"),
        (0.5, 0.6, "holds whether the statistics fit or not"),
        (0.9, 0.9, "does not hold, not even on the softmax as trained"),
    ],
)
def test_the_verdict_follows_the_counts(
    tmp_path: Path, as_trained: float, reestimated_accuracy: float, verdict: str
) -> None:
    baselines = {"as-trained": as_trained, "reestimated": reestimated_accuracy}
    for seed in (0, 1):
        write_cell(tmp_path, "vgg11", seed, norm="batch", baselines=baselines)
    text = "\n".join(section.build_section(section.read_settings(tmp_path), "page.md"))
    assert verdict in text
    gains = [0.8 - as_trained, 0.8 - reestimated_accuracy]
    for gain in gains:
        count = 10 if gain > 0 else 0
        assert f"beat CL-PBNR in {count} of 10 cases ({format_signed(gain)} points of F1)" in text
    assert "minus that of the softmax as trained: +30.0 to +31.0 points" in text
    loss = "\N{MINUS SIGN}21.0 to \N{MINUS SIGN}20.0"
    assert f"change the softmax by +35.0 points and the passes by {loss}" in text


def test_controls_are_shown_and_do_not_count(tmp_path: Path) -> None:
    baselines = {"as-trained": 0.5, "reestimated": 0.5}
    write_cell(tmp_path, "vgg11-no-norm", 0, norm="none", baselines=baselines)
    settings = section.read_settings(tmp_path)
    assert "MNIST, VGG-11, no norm, Adam" in section.describe_settings(settings)[0]
    assert "Re-estimated" not in section.describe_settings(settings)[0]
    assert section.describe_check(settings) == ""
    assert "Verdict" not in "\n".join(section.build_section(settings, "page.md"))


def test_tables_have_the_mean_and_the_spread(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_cell(
            tmp_path, "vgg11", seed, norm="batch", baselines={"as-trained": 0.5, "reestimated": 0.9}
        )
    accuracy, scores = section.build_tables(section.read_settings(tmp_path))[1::2]
    assert "| MNIST, VGG-11 | 0.1 | 2 | 60.0 ± 0.0 | 90.5 ± 0.7 | 95.0 ± 0.0 | 70.0" in accuracy
    assert "| 50.0 ± 0.0 | 90.0 ± 0.0 | 80.0 ± 0.0 |" in scores
    settings = section.read_settings(tmp_path)
    assert "divided by ten after 6 and 10 epochs" in section.describe_training(settings)
    assert "minus that with torch's: +1.0 points" in section.describe_check(settings)


def test_without_cells_nothing_is_said(tmp_path: Path) -> None:
    settings = section.read_settings(tmp_path)
    assert settings == [] == section.build_section(settings, "page.md")
    assert section.build_tables(settings) == []
    assert section.describe_training(settings) == ""


def test_a_sound_softmax_gives_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACCURACY, "as-trained", 0.945)
    write_cell(
        tmp_path, "vgg11", 0, norm="batch", baselines={"as-trained": 0.5, "reestimated": 0.9}
    )
    text = "\n".join(section.build_section(section.read_settings(tmp_path), "page.md"))
    assert (
        "in 5 of 5 cases as trained, and in 0 once the statistics fit; the softmax is not" in text
    )


def test_an_unfinished_cell_is_said(tmp_path: Path) -> None:
    baselines = {"as-trained": 0.5, "reestimated": 0.9}
    write_cell(tmp_path, "vgg11", 0, norm="batch", baselines=baselines, folds=2)
    write_cell(tmp_path, "vgg11", 1, norm="batch", baselines=baselines, folds=4)
    text = section.describe_settings(section.read_settings(tmp_path))[0]
    assert "(2 cells, unfinished: 2 of 4 folds)" in text
