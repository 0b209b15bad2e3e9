"""Folds as Ray tasks on two nodes: the arrays of one process, and a killed worker costs a fold."""

from __future__ import annotations

import csv
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import uqled
from small_training import QUICK_TRAINING, digits, same, tiny
from uqled.data.dataset import Dataset
from uqled.predict import folds as folds_module
from uqled.predict.crossval import cross_validate

ray = pytest.importorskip("ray")

from uqled.engines.ray import RayTasks  # noqa: E402

#: If its raylet dies, Ray ends the process that started it, and all other tests with it.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine(cluster):
    with RayTasks(2, address=cluster.address) as tasks:
        yield tasks


@pytest.fixture(autouse=True)
def one_thread():
    """As a task with one core has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def slow(n_classes, image_shape):
    """A network that takes its time, and says in whose process."""
    return torch.nn.Sequential(_SlowNetwork(), *tiny(n_classes, image_shape))


class _SlowNetwork(torch.nn.Module):
    def forward(self, x):
        if self.training and (folder := os.environ.get("UQLED_TEST_PIDS")):
            (Path(folder) / str(os.getpid())).touch()
            time.sleep(0.05)
        return x


def test_a_network(engine, tmp_path):
    local_run = cross_validate(digits(), tiny, out=tmp_path / "here", **QUICK_TRAINING)
    cluster_run = cross_validate(
        digits(), tiny, out=tmp_path / "there", engine=engine, **QUICK_TRAINING
    )
    same(cluster_run, local_run)
    with (tmp_path / "there" / "history.csv").open() as one:
        assert one.read() == (tmp_path / "here" / "history.csv").read_text()
    left = [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()]
    assert sorted(left) == sorted(p.name for p in (tmp_path / "here").rglob("*") if p.is_file())


def test_a_scikit_learn_classifier(engine, tmp_path):
    options = {"folds": 3, "passes": 2}
    for number, model in enumerate((LogisticRegression(max_iter=500), "forest")):
        local_run = cross_validate(digits(), model, out=tmp_path / f"here-{number}", **options)
        cluster_run = cross_validate(
            digits(), model, out=tmp_path / f"there-{number}", engine=engine, **options
        )
        same(cluster_run, local_run)


def test_texts_and_tables(engine, tmp_path):
    import pandas as pd

    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog"], 30)
    texts = np.array(
        [f"{name} {rng.choice(['runs', 'sleeps'])} {i}" for i, name in enumerate(labels)]
    )
    frame = pd.DataFrame({"a": rng.random(60) + (labels == "dog"), "b": rng.choice(["x", "y"], 60)})
    for name, inputs in (("texts", texts), ("frame", frame)):
        data = Dataset.from_arrays(inputs, labels)
        assert data.kind == ("texts" if name == "texts" else "table")
        local_run = cross_validate(data, out=tmp_path / name, folds=2, passes=2)
        same(
            cross_validate(data, out=tmp_path / f"{name}-ray", folds=2, passes=2, engine=engine),
            local_run,
        )


def test_members_of_an_ensemble_are_tasks(engine, tmp_path):
    options = {**QUICK_TRAINING, "uncertainty": "ensemble"}
    local_run = cross_validate(digits(), tiny, out=tmp_path / "here", **options)
    keys = []

    class RecordingEngine:
        workers, is_distributed = 2, True

        def map(self, function, items, *, arguments=()):
            keys.append((function.__name__, list(items)))
            return engine.map(function, keys[-1][1], arguments=arguments)

    cluster_run = cross_validate(
        digits(), tiny, out=tmp_path / "there", engine=RecordingEngine(), **options
    )
    same(cluster_run, local_run)
    assert keys == [
        ("_compute_member", [(fold, member) for fold in range(3) for member in range(2)]),
        ("_compute_fold", [0, 1, 2]),
    ]
    with (tmp_path / "there" / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * QUICK_TRAINING["epochs"]  # no member was trained twice
    left = [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()]
    assert "progress" not in left
    assert "softmax.npy" not in left


def test_a_worker_killed_in_the_middle_of_a_fold(engine, tmp_path, monkeypatch):
    """SIGKILL to the process that trains; the fold goes on from its checkpoint elsewhere."""
    options = {**QUICK_TRAINING, "epochs": 4}
    unbroken_run = cross_validate(digits(), slow, out=tmp_path / "never", **options)
    pids, out = tmp_path / "pids", tmp_path / "killed"
    pids.mkdir()
    monkeypatch.setitem(engine._options["runtime_env"]["env_vars"], "UQLED_TEST_PIDS", str(pids))
    killed = []

    def kill():
        checkpoint = out / "folds" / "0" / "checkpoint.pt"
        while not checkpoint.exists() and not (out / "pred_probs.npy").exists():
            time.sleep(0.02)
        for pid in pids.iterdir():
            os.kill(int(pid.name), signal.SIGKILL)
            killed.append(int(pid.name))
        assert not (out / "folds" / "0" / "pred_probs.npy").exists()

    killer = threading.Thread(target=kill)
    killer.start()
    predictions = cross_validate(digits(), slow, out=out, engine=engine, **options)
    killer.join()
    assert killed
    assert len(list(pids.iterdir())) > len(killed)  # others took over
    same(predictions, unbroken_run)


def test_a_finished_run_asks_for_no_task_and_a_killed_one_for_what_is_missing(engine, tmp_path):
    predictions = cross_validate(digits(), tiny, out=tmp_path, **QUICK_TRAINING)
    first = np.array(predictions.pred_probs)
    (tmp_path / "folds" / "1" / "pred_probs.npy").unlink()
    (tmp_path / "pred_probs.npy").unlink()
    fold_file = tmp_path / "folds" / "0" / "pred_probs.npy"
    before = fold_file.stat().st_mtime_ns
    again = cross_validate(digits(), tiny, out=tmp_path, engine=engine, **QUICK_TRAINING)
    assert (again.pred_probs == first).all()
    assert fold_file.stat().st_mtime_ns == before


def test_images_in_a_file_are_opened_and_not_sent(engine, tmp_path):
    data = digits()
    np.save(tmp_path / "images.npy", np.concatenate([data.inputs[:7], data.inputs]))
    mapped_images = np.load(tmp_path / "images.npy", mmap_mode="r")
    descriptions = list(
        engine.map(_describe, [0, 1], arguments=(mapped_images[7:], mapped_images[::2]))
    )
    expected = ("memmap", str(tmp_path / "images.npy"), data.inputs.tobytes(), "ndarray")
    assert descriptions == [expected, expected]
    dataset = Dataset.from_arrays(np.zeros((240, 8, 8, 1), np.uint8), data.labels.codes)
    cluster_run = cross_validate(
        folds_module.replace(dataset, inputs=mapped_images[7:]),
        tiny,
        out=tmp_path / "run",
        engine=engine,
        **QUICK_TRAINING,
    )
    same(cluster_run, cross_validate(data, tiny, out=tmp_path / "here", **QUICK_TRAINING))


def _describe(contiguous_rows, strided_rows, _):
    return (
        type(contiguous_rows).__name__,
        str(contiguous_rows.filename),
        contiguous_rows.tobytes(),
        type(strided_rows).__name__,
    )


def test_a_file_that_a_worker_does_not_see_is_named(engine, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros(9))
    mapped_array = np.load(tmp_path / "x.npy", mmap_mode="r")
    monkeypatch.setattr("uqled.storage.arrays.mapped_file._stamp", lambda _: (1, 1))
    with pytest.raises(uqled.FileError, match=r"x.npy' is missing or another one for the worker"):
        list(engine.map(str, [0], arguments=(mapped_array,)))


def test_a_folder_that_a_worker_does_not_see_is_named(engine, tmp_path):
    class Elsewhere:
        workers, is_distributed = 2, True

        def map(self, function, items, *, arguments=()):
            (folds,) = arguments
            other = folds_module.replace(folds, run=folds_module.Run(tmp_path / "not there"))
            return engine.map(function, items, arguments=(other,))

    with pytest.raises(uqled.FileError, match="is not seen by the worker"):
        cross_validate(digits(), tiny, out=tmp_path / "run", engine=Elsewhere(), **QUICK_TRAINING)
    assert not (tmp_path / "not there").exists()


def test_progress_is_told_while_folds_train(engine, tmp_path, monkeypatch):
    reports = []
    monkeypatch.setitem(
        engine._options["runtime_env"]["env_vars"], "UQLED_TEST_PIDS", str(tmp_path)
    )
    monkeypatch.setattr(folds_module, "_LOOK_SECONDS", 0.05)

    def compute(folds, _, engine):
        folds_module.compute_distributed(folds, reports.append, engine)

    monkeypatch.setattr("uqled.predict.crossval.compute_distributed", compute)
    cross_validate(
        digits(), slow, out=tmp_path / "run", engine=engine, **{**QUICK_TRAINING, "epochs": 8}
    )
    assert sum(reports) == pytest.approx(3)
    assert len(reports) > 6  # more often than once per fold
    assert min(reports) > 0
