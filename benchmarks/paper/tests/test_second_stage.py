"""Stage 2 of the trainings from scratch: what is trained on, and what the page says about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paper.sections import second_stage_section as section
from training import second_stage
from training.from_scratch import SETTINGS, ScratchCell

STAGE1 = ScratchCell("cifar10", 0.1, 1)
LABELS = np.array([0, 0, 1, 1, 2, 2])
NOISY = SimpleNamespace(labels=np.array([0, 1, 1, 1, 2, 2]))
DATA: Any = SimpleNamespace(labels=SimpleNamespace(codes=LABELS))


class TestSet:
    """Two images, both of class 0."""

    __test__ = False
    inputs = None
    labels = SimpleNamespace(codes=np.array([0, 0]))

    def __len__(self) -> int:
        return 2


@pytest.fixture
def train_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[tuple[list[int], list[int]]]:
    """(labels, rows) of every training; the network is right on one of two test images."""
    trainings = []

    def train_network(*arguments: Any) -> tuple[None, None]:
        _setting, _data, labels, rows, _seed, checkpoints = arguments
        checkpoints.mkdir(parents=True)
        trainings.append((labels.tolist(), rows.tolist()))
        return None, None

    probs = np.array([[0.9, 0.1], [0.2, 0.8]])
    sources = {"softmax": probs, "reestimated": probs[[0, 0]], "passes": probs[None, [1, 1]]}
    flags = dict.fromkeys(section.TREATMENTS, np.arange(6) == 1)
    flags["cl-mcd-e"] = np.isin(np.arange(6), (0, 5))
    monkeypatch.setattr(second_stage, "CELLS", tmp_path / "cells")
    monkeypatch.setattr(second_stage, "make_noisy", lambda *_: NOISY)
    monkeypatch.setattr(second_stage, "find_flags", lambda *_: flags)
    monkeypatch.setattr(second_stage, "train_network", train_network)
    monkeypatch.setattr(second_stage, "normalise_like", lambda *_: None)
    monkeypatch.setattr(second_stage, "predict_sources", lambda *_, **__: sources)
    return trainings


@pytest.mark.parametrize(
    ("treatment", "labels", "rows", "n_wrong"),
    [
        ("noisy", NOISY.labels, [0, 1, 2, 3, 4, 5], 1),
        ("clean", LABELS, [0, 1, 2, 3, 4, 5], 0),
        ("cl-pbnr", NOISY.labels, [0, 2, 3, 4, 5], 0),
        ("cl-mcd-e", NOISY.labels, [1, 2, 3, 4], 1),
    ],
)
def test_what_is_trained_on(
    train_calls: list[Any],
    tmp_path: Path,
    treatment: str,
    labels: Any,
    rows: list[int],
    n_wrong: int,
) -> None:
    cell = second_stage.StageTwoCell(STAGE1, treatment)
    test: Any = TestSet()
    assert not cell.is_finished()
    second_stage.compute_cell(cell, DATA, test, np.empty(0), tmp_path / "work")
    assert train_calls == [(labels.tolist(), rows)]
    content = json.loads(cell.path.read_text())
    assert (content["trained_on"], content["wrong_left"]) == (len(rows), n_wrong)
    assert content["accuracy"] == {"as-trained": 0.5, "reestimated": 1.0, "passes": 0.0}
    assert cell.is_finished()
    assert not list((tmp_path / "work").rglob("stage2-*"))


@pytest.mark.usefixtures("train_calls")
def test_a_cell_of_another_setting_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = second_stage.StageTwoCell(STAGE1, "noisy")
    test: Any = TestSet()
    second_stage.compute_cell(cell, DATA, test, np.empty(0), tmp_path / "work")
    monkeypatch.setitem(SETTINGS, "cifar10", replace(SETTINGS["cifar10"], epochs=3))
    with pytest.raises(SystemExit, match="another setting"):
        cell.is_finished()


def test_the_plan_counts_images_and_trains_nothing(
    train_calls: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["x", "--data", "none", "--work", "none", "--plan"])
    second_stage.main()
    setting = SETTINGS["cifar10"]
    trainings = 3 * len(section.TREATMENTS)
    steps = trainings * setting.samples * setting.epochs
    assert capsys.readouterr().out.startswith(
        f"{trainings} trainings are missing: at most {steps:,}"
    )
    assert train_calls == []


def write_cells(folder: Path, accuracies: dict[str, list[float]]) -> None:
    """For each treatment the accuracy of each seed, by any source."""
    for treatment, by_seed in accuracies.items():
        for seed, accuracy in enumerate(by_seed):
            cell = {"name": "cifar10", "rate": 0.1, "seed": seed, "treatment": treatment}
            sources = dict.fromkeys(("as-trained", "reestimated", "passes"), accuracy)
            content = {"cell": cell, "trained_on": 1000, "wrong_left": 50, "accuracy": sources}
            path = folder / f"{treatment}-{seed}.json"
            path.write_text(json.dumps(content))


def test_the_page_counts_and_pairs_over_seeds(tmp_path: Path) -> None:
    write_cells(
        tmp_path,
        {
            "noisy": [0.50, 0.60],
            "cl-pbnr": [0.55, 0.66],
            "cl-pbnr-reestimated": [0.57, 0.68],
            "cl-mcd": [0.56, 0.65],
            "cl-mcd-e": [0.49],
        },
    )
    text = "\n".join(section.build_section(tmp_path))
    assert "CIFAR-10, ResNet-18, Adam, noise rate 0.1" in text
    assert (
        "On the softmax as trained, the paper's five beat training on the noisy labels in 2 of 3 "
        "cases and removal by CL-PBNR in 1 of 3 cases." in text
    )
    assert (
        "On the softmax with re-estimated statistics, the paper's five beat training on the noisy "
        "labels in 2 of 3 cases and removal by CL-PBNR in 0 of 3 cases." in text
    )
    rows = [line for line in text.splitlines() if line.startswith("| CL-MCD")]
    cells = " | ".join(["60.5 ± 6.4"] * 3)
    assert rows[0] == f"| CL-MCD | 2 | 1,000 | 5.0% | {cells} | +5.5 ± 0.7 |"
    assert rows[1].endswith("| 49.0 | 49.0 | 49.0 | \N{MINUS SIGN}1.0 |")


def test_without_cells_nothing_is_said(tmp_path: Path) -> None:
    assert section.build_section(tmp_path) == [] == section.describe_settings(tmp_path)
