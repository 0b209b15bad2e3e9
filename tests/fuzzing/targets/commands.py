"""Targets: check, audit, inspect, noise and notebooks, on the run or the data of a stranger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from fuzzing.case import Scene, Target, require
from fuzzing.formats import mutate_content
from fuzzing.mutations import damage_tree
from fuzzing.targets.arrays import make_predictions
from fuzzing.targets.data import damage_files, make_frame, make_picture
from fuzzing.targets.runs import (
    OUTPUTS,
    damage_run,
    make_image_run,
    make_table,
    make_table_run,
    run_command,
)
from uqled import find, make_run
from uqled.data.prediction_files import open_labels, open_probabilities
from uqled.detect.find import find_errors_in_run
from uqled.finding import DataErrors
from uqled.report.notebook import render_errors
from uqled.report.samples import open_sample_source
from uqled.review.decisions import Decisions
from uqled.review.notebook.messages import ReviewMessages
from uqled.storage.run import Run

_JUDGEMENTS = (0, 1, 2, 3)  # exit codes of `check`: passes, fails, refused, cannot tell
_AUDIT = partial(damage_run, names=("audit.json", "audit.csv", "decisions.sqlite", "ids.json"))


def _check(scene: Scene) -> None:
    """With an earlier run to compare with, or with new data."""
    run, junit = scene.input / "run", scene.out / "check.xml"
    more = scene.rng.choice(((), ("--baseline", run), ("--per-class",)))
    if scene.rng.random() > 0.75:
        more = ("--against", scene.input / "data.csv")
    run_command("check", run, "--max-error-rate", "0.1", "--junit", junit, *more, codes=_JUDGEMENTS)
    require(junit.read_text(encoding="utf-8").rstrip().endswith(">"), "a file that does not end")


def _audit(scene: Scene) -> None:
    run = scene.input / "run"
    run_command("audit", run, "--size", "5")
    audit_indices = json.loads((run / "audit.json").read_text())["indices"]
    require(all(0 <= index < 60 for index in audit_indices), "a sample out of range is drawn")


def _make_tables(folder: Path) -> None:
    make_frame().to_csv(folder / "data.csv", index=False)
    make_frame().to_parquet(folder / "data.parquet", index=False)
    for name in ("ant", "bee"):
        (folder / "data" / name).mkdir(parents=True)
        for i in range(3):
            make_picture(i + len(name)).save(folder / "data" / name / f"{i}.png")


def _inspect(scene: Scene) -> None:
    place = scene.input / scene.rng.choice(("data.csv", "data.parquet", "data"))
    text = run_command("inspect", place, "--json")
    require(isinstance(json.loads(text), dict), "no JSON object")


def _make_own_predictions(folder: Path) -> None:
    labels, probs, passes = make_predictions()
    frame = make_frame(len(labels)).assign(label=np.array(["ant", "bee", "cat"])[labels])
    frame.to_csv(folder / "data.csv", index=False)
    for name, array in (("labels", labels), ("pred_probs", probs), ("passes", passes)):
        np.save(folder / f"{name}.npy", array)


def _make_own_run(scene: Scene) -> None:
    """A run of predictions and, perhaps, data that the user has."""
    with_data = scene.rng.random() < 0.5
    predictions = make_run(
        None if with_data else np.asarray(open_labels(str(scene.input / "labels.npy"))),
        np.asarray(open_probabilities(str(scene.input / "pred_probs.npy"), ndim=2)),
        np.asarray(open_probabilities(str(scene.input / "passes.npy"), ndim=3)),
        out=scene.out / "run",
        data=scene.input / "data.csv" if with_data else None,
        **({"cache": False} if with_data else {}),
    )
    require(predictions.pred_probs.shape == (len(predictions), 3), "predictions of another shape")
    run_command("detect", scene.out / "run")


def _damage_labels(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    return damage_tree(rng, folder, partial(mutate_content, paths=paths), paths=paths)


def _make_noise_input(folder: Path) -> None:
    labels, probs, _ = make_predictions()
    np.save(folder / "labels.npy", labels)
    np.save(folder / "pred_probs.npy", probs)
    make_frame().to_csv(folder / "labels.csv", index=False)
    make_frame().to_parquet(folder / "labels.parquet", index=False)
    run_command(
        "noise", "--labels", folder / "labels.npy", "--out", folder / "noisy", "--rate", "0.2",
        "--kind", "symmetric",
    )  # fmt: skip


def _add_noise(scene: Scene) -> None:
    name = scene.rng.choice(("labels.npy", "labels.csv::label", "labels.parquet::label"))
    how = ("--kind", "symmetric", "--rate", "0.2")
    if name == "labels.npy" and scene.rng.random() < 0.7:  # whose classes are the matrix's
        matrix = scene.input / "noisy" / scene.rng.choice(("matrix.json", "matrix.csv"))
        how = ("--kind", "matrix", "--matrix", str(matrix))
    run_command("noise", "--labels", f"{scene.input}/{name}", "--out", scene.out / "noisy", *how)
    require(any((scene.out / "noisy").iterdir()), "nothing is written")


def _show_notebook(scene: Scene) -> None:
    """What cells of a notebook show of a run, and its widget."""
    run = Run.open(scene.input / "run")
    page = run._repr_html_()
    predictions = run.predictions()
    errors = find_errors_in_run(predictions)
    source = open_sample_source(predictions)
    page += render_errors(errors)
    require("<script" not in page, "a script in a cell of a notebook")
    if source is None:
        return
    with Decisions.of(predictions) as decisions:
        messages = ReviewMessages(errors, source, decisions, "ana")
        answer = messages.answer({"kind": "page", "start": scene.rng.choice((0, 8, -1, 2**70))})
        json.dumps(answer)
        messages.answer({"kind": "decide", "index": 3, "action": "keep", "label": None})


def _make_finding(folder: Path) -> None:
    """A table in which two labels are missing, and the run of it."""
    make_table(folder)
    lines = (folder / "data.csv").read_text().splitlines()
    for row in (5, 9):
        lines[row] = lines[row].rpartition(",")[0] + ","
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    _find(folder)
    assert (folder / "run" / "unlabelled.csv").exists()


def _find(folder: Path) -> DataErrors:
    return find(folder / "data.csv", model="logistic", folds=2, out=folder / "run", progress=False)


def _damage_finding(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    mutate = partial(mutate_content, paths=paths)
    if rng.random() < 0.4:
        return damage_tree(rng, folder / "run", mutate, names=("unlabelled.csv",), paths=paths)
    return damage_tree(rng, folder, mutate, paths=paths)


def _find_again(scene: Scene) -> None:
    """Repeat the call that made the run."""
    errors = _find(scene.input)
    require(len(errors.mask) == len(errors.data), "a mask of another length")
    table = errors.unlabelled
    if table is not None and len(table):
        class_values = set(errors.data.labels.values.tolist())
        require(
            set(table["predicted_label"]) <= class_values, "a class that the data does not have"
        )


COMMAND_TARGETS = [
    Target("find", _make_finding, _damage_finding, _find_again, ("run/*",), 60),
    Target("run-check", make_table_run, damage_run, _check, OUTPUTS, 100),
    Target("run-audit", make_table_run, _AUDIT, _audit, OUTPUTS, 80),
    Target("run-notebook", make_table_run, damage_run, _show_notebook, OUTPUTS, 60),
    Target("run-notebook-images", make_image_run, damage_run, _show_notebook, OUTPUTS, 40),
    Target("inspect", _make_tables, damage_files, _inspect, cases=80),
    Target("own-predictions", _make_own_predictions, _damage_labels, _make_own_run, cases=80),
    Target("noise", _make_noise_input, damage_files, _add_noise, cases=60),
]
