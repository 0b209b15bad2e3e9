"""Cross-validation as a run that can be killed: same arrays, no mixing, every sample once."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import uqled
from small_training import QUICK_TRAINING, StopError, digits, same, tiny
from uqled.arrays import Labels
from uqled.predict.crossval import cross_validate, split_stratified
from uqled.predict.learner import FoldPredictions
from uqled.storage.run import Run


def test_every_sample_is_predicted_once_by_a_model_that_did_not_see_it(finished_run):
    data = digits()
    assert finished_run.pred_probs.shape == (240, 10)
    assert finished_run.passes.shape == (2, 240, 10)
    assert finished_run.pred_probs.sum(axis=1) == pytest.approx(np.ones(240), abs=1e-5)
    assert finished_run.accuracy > 0.5
    counts = np.stack(
        [np.bincount(data.labels.codes[finished_run.folds == f], minlength=10) for f in range(3)]
    )
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()  # stratified
    assert (finished_run.passes[0] != finished_run.passes[1]).any()  # dropout is on
    assert not (finished_run.passes == finished_run.pred_probs).all(axis=(0, 2)).any()


def test_the_run_folder_holds_what_it_says(finished_run):
    names = {path.name for path in finished_run.path.iterdir()}
    assert names == {
        "run.json", "labels.npy", "ids.json", "folds.npy", "pred_probs.npy", "passes.npy",
        "folds", "history.csv", "training.png", "model.json",
    }  # fmt: skip
    about = json.loads((finished_run.path / "run.json").read_text())
    assert about["configuration"]["settings"]["epochs"] == 2
    assert about["configuration"]["data"]["fingerprint"] == digits().fingerprint
    assert "torch" in about["versions"]
    with (finished_run.path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["fold"], row["epoch"]) for row in rows] == [
        (str(f), str(e)) for f in range(3) for e in (1, 2)
    ]
    assert float(rows[1]["loss"]) < float(rows[0]["loss"])
    assert not list(finished_run.path.rglob("checkpoint.pt"))
    assert (finished_run.path / "training.png").read_bytes().startswith(b"\x89PNG")


def test_two_runs_give_the_same_arrays(finished_run, tmp_path):
    torch.manual_seed(123)  # the state of the outside world does not matter
    np.random.default_rng(9).random()
    before = torch.get_rng_state()
    same(cross_validate(digits(), tiny, out=tmp_path / "again", **QUICK_TRAINING), finished_run)
    assert (torch.get_rng_state() == before).all()
    other = cross_validate(digits(), tiny, out=tmp_path / "other", **{**QUICK_TRAINING, "seed": 6})
    assert (other.pred_probs != finished_run.pred_probs).any()


def test_a_finished_run_is_not_trained_again(finished_run, monkeypatch):
    monkeypatch.setattr("uqled.predict.learners.network.train", None)
    same(cross_validate(digits(), tiny, out=finished_run.path, **QUICK_TRAINING), finished_run)
    same(Run.open(finished_run.path).predictions(), finished_run)


@pytest.mark.parametrize(
    "change",
    [{"epochs": 3}, {"seed": 6}, {"folds": 2}, {"passes": 3}, {"lr": 0.01}, {"model": "logistic"}],
)
def test_another_configuration_is_refused(finished_run, change):
    options = {**QUICK_TRAINING, **change}
    model = options.pop("model", tiny)
    if model == "logistic":
        options = {k: v for k, v in options.items() if k in ("folds", "passes", "seed")}
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(digits(), model, out=finished_run.path, **options)


def test_other_data_is_refused(finished_run):
    data = digits()
    codes = data.labels.codes.copy()
    codes[:2] = codes[1::-1]
    with pytest.raises(uqled.InputError, match="fingerprint"):
        cross_validate(data.with_labels(codes), tiny, out=finished_run.path, **QUICK_TRAINING)


def test_a_run_folder_that_cannot_be_made_or_read(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(uqled.InputError, match="cannot be made"):
        cross_validate(digits(), tiny, out=tmp_path / "file" / "run", **QUICK_TRAINING)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{}")
    with pytest.raises(uqled.FileError, match="is not the file of a run"):
        cross_validate(digits(), tiny, out=tmp_path / "broken", **QUICK_TRAINING)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(uqled.InputError, match="is not a run"):
        cross_validate(digits(), tiny, out=tmp_path, **QUICK_TRAINING)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from small_training import QUICK_TRAINING, digits, tiny
from uqled.predict.crossval import cross_validate
from uqled.predict import training
write = training._write_history
def slowly(*arguments):
    write(*arguments)
    time.sleep(0.4)
training._write_history = slowly
cross_validate(digits(), tiny, out={out!r}, **{{**QUICK_TRAINING, "epochs": 4}})
"""


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """What the script above computes if nobody kills it."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    return cross_validate(digits(), tiny, out=out, **{**QUICK_TRAINING, "epochs": 4})


@pytest.mark.parametrize("moment", ["in the first fold", "between folds", "in the second fold"])
def test_a_killed_run_continues_to_the_same_arrays(tmp_path, moment, whole_run):
    out = tmp_path / "killed"
    code = SCRIPT.format(tests=str(Path(__file__).parents[1] / "shared"), out=str(out))
    process = subprocess.Popen([sys.executable, "-c", code])
    required_files = {
        "in the first fold": out / "folds" / "0" / "checkpoint.pt",
        "between folds": out / "folds" / "0" / "pred_probs.npy",
        "in the second fold": out / "folds" / "1" / "checkpoint.pt",
    }[moment]
    for _ in range(1_200):
        if required_files.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert required_files.exists()
    assert not (out / "pred_probs.npy").exists()
    with pytest.raises(uqled.FileError, match="is not finished"):
        Run.open(out).predictions()
    first = out / "folds" / "0" / "pred_probs.npy"
    time_of_writing = first.stat().st_mtime_ns if first.exists() else None
    continued_run = cross_validate(digits(), tiny, out=out, **{**QUICK_TRAINING, "epochs": 4})
    same(continued_run, whole_run)
    if time_of_writing is not None:
        assert (
            first.stat().st_mtime_ns == time_of_writing
        )  # the finished fold was not trained again


def test_a_checkpoint_is_continued_and_not_repeated(tmp_path, monkeypatch):
    from uqled.predict import training

    write, epochs = training._write_history, []

    def stop(folder, history):
        epochs.append(history[-1][0])
        write(folder, history)
        if len(epochs) == 3:
            raise StopError

    monkeypatch.setattr(training, "_write_history", stop)
    options = {**QUICK_TRAINING, "epochs": 4}
    with pytest.raises(StopError):
        cross_validate(digits(), tiny, out=tmp_path, **options)
    cross_validate(digits(), tiny, out=tmp_path, **options)
    # stopped in epoch 3 before its checkpoint: epochs 1 and 2 are kept
    assert epochs[:5] == [1, 2, 3, 3, 4]


def test_detection_takes_predictions(finished_run):
    errors = uqled.find_label_errors(finished_run, method="all")
    arrays = digits().labels.codes, np.array(finished_run.pred_probs), np.array(finished_run.passes)
    expected = uqled.find_label_errors(*arrays, method="all")
    assert (errors.mask == expected.mask).all()
    table = Run.open(finished_run.path).write_issues(errors)
    assert table.exists()
    table.unlink()
    with pytest.raises(uqled.InputError, match="Pass them alone"):
        uqled.find_label_errors(finished_run, finished_run.pred_probs, method="all")


def test_classes_smaller_than_the_folds_are_named():
    codes = np.array([0] * 6 + [1] * 2 + [2] * 6, np.int32)
    labels = Labels(codes, np.arange(4), ("ant", "bee", "cat", "dog"))
    with pytest.raises(uqled.InputError, match=r"folds is 3, but 1 classes.*'bee' \(2\)"):
        split_stratified(labels, 3, seed=0)
    parts = split_stratified(labels, 2, seed=0)  # dog has no sample, and that is fine
    assert sorted(np.concatenate(parts).tolist()) == list(range(14))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"passes": 0}, "passes is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"lr": "0.1"}, "lr is '0.1'"),
        ({"milestones": 3}, "milestones is 3"),
        ({"momentum": 5}, "momentum is 5"),
        ({"precision": "bf16-true"}, "precision is 'bf16-true'"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"preset": "slow"}, "preset is 'slow'"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"device": "cuda"}, r"device is 'cuda', and PyTorch .*\. Use auto or cpu"),
        ({"device": "cuda:7"}, "device is 'cuda:7'. Use cuda, and set CUDA_VISIBLE_DEVICES=7"),
        ({"device": 7}, "device is 7. Choose one of auto, cpu, cuda, mps"),
        ({"precision": "64"}, "precision is '64'"),
        ({"uncertainty": "members"}, "a network has none"),
        ({"uncertainty": "magic"}, "uncertainty is 'magic'"),
        ({"depth": 3}, "depth is not an argument"),
        ({"engine": "cloud"}, "engine is 'cloud'"),
        ({"workers": 2}, "workers is 2 without `engine='ray'`"),
        ({"engine": "local", "gpus": 1}, "gpus is 1 without `engine='ray'`"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="has the device that is refused here")
def test_options_are_refused_by_name(tmp_path, options, message):
    with pytest.raises(uqled.InputError, match=message):
        cross_validate(digits(), tiny, out=tmp_path / "run", **{**QUICK_TRAINING, **options})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", ["committee:efficientnet-lite0", "probe", "auto", tiny])
@pytest.mark.parametrize("device", ["cuda", "mps", "tpu", "cuda:7"])
def test_devices_that_cannot_be_used_are_refused(tmp_path, monkeypatch, model, device):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    pixels = np.random.default_rng(0).integers(0, 255, (40, 16, 16, 3), np.uint8)
    data = uqled.Dataset.from_arrays(pixels, np.arange(40) % 2)
    with pytest.raises(uqled.InputError, match=f"^device is '{device}'"):
        cross_validate(data, model, out=tmp_path / "run", device=device, progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", ["committee", "forest", "logistic"])
def test_a_device_that_does_not_exist_is_refused_without_networks_too(tmp_path, model):
    data = uqled.Dataset.from_arrays(np.arange(80.0).reshape(40, 2), np.arange(40) % 2)
    with pytest.raises(uqled.InputError, match=r"device is 'tpu'\. Choose one of auto, cpu"):
        cross_validate(data, model, out=tmp_path / "run", device="tpu", progress=False)


def test_predictions_that_diverged_are_not_stored(tmp_path, monkeypatch):
    from uqled.predict.learners.network import NetworkLearner

    def nan(*arguments, **_):
        return FoldPredictions(np.full((len(arguments[3]), 10), np.nan, np.float32), None)

    monkeypatch.setattr(NetworkLearner, "fit_predict", nan)
    with pytest.raises(uqled.InputError, match="diverge"):
        cross_validate(digits(), tiny, out=tmp_path, **QUICK_TRAINING)
    assert not (tmp_path / "folds" / "0" / "pred_probs.npy").exists()
