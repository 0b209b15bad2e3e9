"""docs/research/batch-norm.md is what the committed cells give, and says what is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from paper.sections.from_scratch_section import SettingResults
from training import batch_norm_page
from training.batch_norm_picture import TrainingGroup, draw_picture, group_settings

matplotlib.use("Agg")
from matplotlib import pyplot  # after the backend is chosen

METHODS = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")


def write_cell(folder: Path, *, seed: int, batch_norm: bool, gain: float) -> None:
    """A cell whose softmax is bad as trained, and has this F1 once it is cured."""

    def score(f1: float) -> dict[str, Any]:
        return {method: {"f1": 0.2 if method == "cl-pbnr" else 0.5} for method in METHODS} | {
            "cl-pbnr": {"f1": f1}
        }

    accuracy = {"as-trained": 0.3, "reestimated": 0.9, "passes": 0.8 + 0.01 * seed}
    row = {"epochs": 3, "accuracy": accuracy}
    row["methods"] = {"as-trained": score(0.2), "reestimated": score(gain)}
    setting = {"digits": 100, "width": 0.5, "folds": 4, "passes": 5, "epochs": [3]}
    setting |= {"batch_size": 8, "lr": 0.01}
    machine = {"date": "today", "code": "abc", "cpu": "a processor", "python": "3.11"}
    content = {
        "setting": setting,
        "cell": {"batch_norm": batch_norm, "rate": 0.1, "seed": seed},
        "lengths": [row],
        "machine": machine | {"versions": {"numpy": "2"}},
    }
    path = folder / str(batch_norm) / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_the_page_is_what_the_committed_cells_give() -> None:
    assert batch_norm_page.build_page() == batch_norm_page.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("gain", "n_over"), [(0.9, 0), (0.4, 10)])
def test_sentences_follow_the_numbers(tmp_path: Path, gain: float, n_over: int) -> None:
    for seed in (0, 1):
        write_cell(tmp_path, seed=seed, batch_norm=True, gain=gain)
    text = batch_norm_page.build_page(tmp_path)
    assert "minus the softmax as trained: +50.0 to +51.0 points of accuracy" in text
    assert "on the softmax as trained in 10 of 10 cases" in text
    assert f"on the re-estimated softmax in {n_over} of 10" in text
    assert "| 0.1 | 3 | 30.0 ± 0.0 | 90.0 ± 0.0 | 80.5 ± 0.7 |" in text
    assert "Without batch norm" not in text


def test_the_only_picture_is_the_chart() -> None:
    pictures = [line for line in batch_norm_page.build_page().splitlines() if line.startswith("![")]
    assert len(pictures) == 1
    assert pictures[0].endswith("results/batch-norm/batch-norm.png)")


def test_one_seed_has_a_hollow_mark_and_several_a_filled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    row = {"accuracy": {"as-trained": 0.3, "reestimated": 0.9, "passes": 0.8}}
    row |= {"methods": {one: {m: {"f1": 0.5} for m in METHODS} for one in row["accuracy"]}}
    groups = [TrainingGroup("MNIST\nnet", ["0.1", "0.2"], [{0: row}, {0: row, 1: row}])]
    draw_picture(tmp_path / "picture.png", groups)
    above = figures[0].axes[0]
    places = [container.lines[0] for container in above.containers]  # one mark per container
    fills = [mark.get_markerfacecolor() for mark in places if mark.get_marker() == "o"]
    assert fills == ["white", "#3b82d6"]
    assert [float(mark.get_ydata()[0]) for mark in places] == [30, 30, 90, 90, 80, 80]
    monkeypatch.undo()
    pyplot.close(figures[0])


def test_a_cell_that_lacks_folds_is_named_in_the_picture() -> None:
    setting = SettingResults("cifar10", {"folds": 4}, {0.1: {0: {"folds": 2}}, 0.2: {0: {}}})
    (group,) = group_settings([setting])
    assert group.ticks == ["0.1\n2 of 4\nfolds", "0.2"]
    assert group.title == "CIFAR-10\nResNet-18\nAdam"
