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
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

import uqled
from uqled.arrays import Labels
from uqled.data.dataset import Dataset
from uqled.predict import samples as samples_module
from uqled.predict.crossval import cross_validate, stratified_parts
from uqled.predict.learner import FoldPredictions
from uqled.predict.learners import choose_learner
from uqled.predict.training import PRESETS, pace
from uqled.storage.run import Run

QUICK = {"folds": 3, "passes": 2, "epochs": 2, "batch_size": 32, "lr": 0.05, "seed": 5}


def digits(n=240):
    found = load_digits()
    images = (found.images * 15.9).astype(np.uint8)[..., None]
    return Dataset.from_arrays(images[:n], found.target[:n], name="digits")


def tiny(n_classes, image_shape):
    """A network that trains in a second."""
    channels = image_shape[2]
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8 * image_shape[0] * image_shape[1], n_classes),
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    return cross_validate(digits(), tiny, out=out, **QUICK)


def same(one, other):
    assert (one.pred_probs == other.pred_probs).all()
    assert (one.passes == other.passes).all()
    assert (one.folds == other.folds).all()


def test_every_sample_is_predicted_once_by_a_model_that_did_not_see_it(finished):
    data = digits()
    assert finished.pred_probs.shape == (240, 10)
    assert finished.passes.shape == (2, 240, 10)
    assert finished.pred_probs.sum(axis=1) == pytest.approx(np.ones(240), abs=1e-5)
    assert finished.accuracy > 0.5
    counts = np.stack(
        [np.bincount(data.labels.codes[finished.folds == f], minlength=10) for f in range(3)]
    )
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()  # stratified
    assert (finished.passes[0] != finished.passes[1]).any()  # dropout is on
    assert not (finished.passes == finished.pred_probs).all(axis=(0, 2)).any()


def test_the_run_folder_holds_what_it_says(finished):
    names = {path.name for path in finished.path.iterdir()}
    assert names == {
        "run.json", "labels.npy", "ids.json", "folds.npy", "pred_probs.npy", "passes.npy",
        "folds", "history.csv", "training.png", "model.json",
    }  # fmt: skip
    about = json.loads((finished.path / "run.json").read_text())
    assert about["configuration"]["settings"]["epochs"] == 2
    assert about["configuration"]["data"]["fingerprint"] == digits().fingerprint
    assert "torch" in about["versions"]
    with (finished.path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["fold"], row["epoch"]) for row in rows] == [
        (str(f), str(e)) for f in range(3) for e in (1, 2)
    ]
    assert float(rows[1]["loss"]) < float(rows[0]["loss"])
    assert not list(finished.path.rglob("checkpoint.pt"))
    assert (finished.path / "training.png").read_bytes().startswith(b"\x89PNG")


def test_two_runs_give_the_same_arrays(finished, tmp_path):
    torch.manual_seed(123)  # the state of the outside world does not matter
    np.random.default_rng(9).random()
    before = torch.get_rng_state()
    same(cross_validate(digits(), tiny, out=tmp_path / "again", **QUICK), finished)
    assert (torch.get_rng_state() == before).all()
    other = cross_validate(digits(), tiny, out=tmp_path / "other", **{**QUICK, "seed": 6})
    assert (other.pred_probs != finished.pred_probs).any()


def test_a_finished_run_is_not_trained_again(finished, monkeypatch):
    monkeypatch.setattr("uqled.predict.learners.network.train", None)
    same(cross_validate(digits(), tiny, out=finished.path, **QUICK), finished)
    same(Run.open(finished.path).predictions(), finished)


@pytest.mark.parametrize(
    "change",
    [{"epochs": 3}, {"seed": 6}, {"folds": 2}, {"passes": 3}, {"lr": 0.01}, {"model": "logistic"}],
)
def test_another_configuration_is_refused(finished, change):
    options = {**QUICK, **change}
    model = options.pop("model", tiny)
    if model == "logistic":
        options = {k: v for k, v in options.items() if k in ("folds", "passes", "seed")}
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(digits(), model, out=finished.path, **options)


def test_other_data_is_refused(finished):
    data = digits()
    codes = data.labels.codes.copy()
    codes[:2] = codes[1::-1]
    with pytest.raises(uqled.InputError, match="fingerprint"):
        cross_validate(data.with_labels(codes), tiny, out=finished.path, **QUICK)


def test_a_run_folder_that_cannot_be_made_or_read(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(uqled.InputError, match="cannot be made"):
        cross_validate(digits(), tiny, out=tmp_path / "file" / "run", **QUICK)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{}")
    with pytest.raises(uqled.FileError, match="is no run's"):
        cross_validate(digits(), tiny, out=tmp_path / "broken", **QUICK)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(uqled.InputError, match="is no run"):
        cross_validate(digits(), tiny, out=tmp_path, **QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
import test_predict as t
from uqled.predict import training
write = training._write_history
def slowly(*arguments):
    write(*arguments)
    time.sleep(0.4)
training._write_history = slowly
t.cross_validate(t.digits(), t.tiny, out={out!r}, **{{**t.QUICK, "epochs": 4}})
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the script above computes if nobody kills it."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    return cross_validate(digits(), tiny, out=out, **{**QUICK, "epochs": 4})


@pytest.mark.parametrize("moment", ["in the first fold", "between folds", "in the second fold"])
def test_a_killed_run_continues_to_the_same_arrays(tmp_path, moment, undisturbed):
    out = tmp_path / "killed"
    code = SCRIPT.format(tests=str(Path(__file__).parent), out=str(out))
    process = subprocess.Popen([sys.executable, "-c", code])
    awaited = {
        "in the first fold": out / "folds" / "0" / "checkpoint.pt",
        "between folds": out / "folds" / "0" / "pred_probs.npy",
        "in the second fold": out / "folds" / "1" / "checkpoint.pt",
    }[moment]
    for _ in range(1_200):
        if awaited.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert awaited.exists()
    assert not (out / "pred_probs.npy").exists()
    with pytest.raises(uqled.FileError, match="is not finished"):
        Run.open(out).predictions()
    first = out / "folds" / "0" / "pred_probs.npy"
    written = first.stat().st_mtime_ns if first.exists() else None
    continued = cross_validate(digits(), tiny, out=out, **{**QUICK, "epochs": 4})
    same(continued, undisturbed)
    if written is not None:
        assert first.stat().st_mtime_ns == written  # the finished fold was not trained again


def test_a_checkpoint_is_continued_and_not_repeated(tmp_path, monkeypatch):
    from uqled.predict import training

    class StopError(Exception):
        pass

    write, epochs = training._write_history, []

    def stop(folder, history):
        epochs.append(history[-1][0])
        write(folder, history)
        if len(epochs) == 3:
            raise StopError

    monkeypatch.setattr(training, "_write_history", stop)
    options = {**QUICK, "epochs": 4}
    with pytest.raises(StopError):
        cross_validate(digits(), tiny, out=tmp_path, **options)
    cross_validate(digits(), tiny, out=tmp_path, **options)
    # stopped in epoch 3 before its checkpoint: epochs 1 and 2 are kept
    assert epochs[:5] == [1, 2, 3, 3, 4]


def test_detection_takes_predictions(finished):
    found = uqled.find_label_errors(finished, method="all")
    arrays = digits().labels.codes, np.array(finished.pred_probs), np.array(finished.passes)
    expected = uqled.find_label_errors(*arrays, method="all")
    assert (found.mask == expected.mask).all()
    table = Run.open(finished.path).write_issues(found)
    assert table.exists()
    table.unlink()
    with pytest.raises(uqled.InputError, match="Pass nothing else with them"):
        uqled.find_label_errors(finished, finished.pred_probs, method="all")


def test_an_ensemble_is_as_many_trainings(tmp_path):
    found = cross_validate(digits(), tiny, out=tmp_path, uncertainty="ensemble", **QUICK)
    assert found.passes.shape == (2, 240, 10)
    assert (found.passes[0] == found.pred_probs).all()
    assert (found.passes[1] != found.pred_probs).any()
    with (tmp_path / "history.csv").open() as file:
        assert {row["fold"] for row in csv.DictReader(file)} == {
            f"{f} member-{m}" for f in range(3) for m in range(2)
        }


def test_passes_of_ones_own(tmp_path, finished):
    own = np.array(finished.passes)[::-1]
    found = cross_validate(digits(), tiny, out=tmp_path, uncertainty=own, **QUICK)
    assert (found.passes == own).all()
    assert (found.pred_probs == finished.pred_probs).all()
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(digits(), tiny, out=tmp_path, uncertainty=own[:1], **QUICK)
    with pytest.raises(uqled.InputError, match="uncertainty has shape"):
        cross_validate(digits(), tiny, out=tmp_path / "x", uncertainty=own[:, :9], **QUICK)


def test_no_uncertainty(tmp_path):
    found = cross_validate(digits(), tiny, out=tmp_path, uncertainty="none", **QUICK)
    assert found.passes is None
    assert "cl-mcd" not in uqled.find_label_errors(found, method="all").by_method


def test_a_network_without_dropout_is_refused_before_anything_is_trained(tmp_path):
    def plain(n_classes, image_shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(image_shape)), n_classes))

    with pytest.raises(uqled.InputError, match="add_dropout"):
        cross_validate(digits(), plain, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_a_lightning_module_trains_itself(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")

    class Own(lightning.LightningModule):
        def __init__(self, n_classes, image_shape):
            super().__init__()
            self.network = tiny(n_classes, image_shape)
            self.steps = 0

        def forward(self, x):
            return self.network(x)

        def training_step(self, batch, batch_idx):
            x, y = batch
            self.steps += 1
            assert batch_idx >= 0
            loss = nn.functional.cross_entropy(self(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=3e-3)

    found = cross_validate(digits(), Own, out=tmp_path, **{**QUICK, "epochs": 4})
    assert found.accuracy > 0.6


def test_a_lightning_module_with_a_scheduler_is_refused(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")

    class Own(lightning.LightningModule):
        def __init__(self, n_classes, image_shape):
            super().__init__()
            self.network = tiny(n_classes, image_shape)

        def forward(self, x):
            return self.network(x)

        def training_step(self, batch, batch_idx):
            return nn.functional.cross_entropy(self(batch[0]), batch[1]) + 0 * batch_idx

        def configure_optimizers(self):
            found = torch.optim.SGD(self.parameters(), lr=0.1)
            return [found], [torch.optim.lr_scheduler.StepLR(found, 1)]

    with pytest.raises(uqled.InputError, match="Return one optimiser"):
        cross_validate(digits(), Own, out=tmp_path, **QUICK)


def test_another_network_of_the_same_name_is_refused(tmp_path):
    def made(width):
        def net(n_classes, image_shape):
            pixels = int(np.prod(image_shape))
            return nn.Sequential(
                nn.Flatten(), nn.Linear(pixels, width), nn.Dropout(0.5), nn.Linear(width, n_classes)
            )

        return net

    cross_validate(digits(), made(8), out=tmp_path, **QUICK)
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(digits(), made(16), out=tmp_path, **QUICK)


def test_a_scikit_learn_classifier(tmp_path):
    data = digits()
    found = cross_validate(data, LogisticRegression(max_iter=500), out=tmp_path, folds=3, passes=2)
    assert found.accuracy > 0.8
    assert found.passes.shape == (2, 240, 10)
    with pytest.raises(uqled.InputError, match="epochs is given"):
        choose_learner(LogisticRegression(), data, epochs=3)


def test_classes_smaller_than_the_folds_are_named():
    codes = np.array([0] * 6 + [1] * 2 + [2] * 6, np.int32)
    labels = Labels(codes, np.arange(4), ("ant", "bee", "cat", "dog"))
    with pytest.raises(uqled.InputError, match=r"folds is 3, but 1 classes.*'bee' \(2\)"):
        stratified_parts(labels, 3, seed=0)
    parts = stratified_parts(labels, 2, seed=0)  # dog has no sample, and that is fine
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
        ({"device": "cuda"}, "device 'cuda'|device cuda"),
        ({"precision": "64"}, "precision is '64'"),
        ({"uncertainty": "members"}, "a network has none"),
        ({"uncertainty": "magic"}, "uncertainty is 'magic'"),
        ({"depth": 3}, "depth is no option"),
        ({"engine": "cloud"}, "engine is 'cloud'"),
        ({"workers": 2}, "workers is 2 without `engine='ray'`"),
        ({"engine": "local", "gpus": 1}, "gpus is 1 without `engine='ray'`"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="has the device that is refused here")
def test_options_are_refused_by_name(tmp_path, options, message):
    with pytest.raises(uqled.InputError, match=message):
        cross_validate(digits(), tiny, out=tmp_path / "run", **{**QUICK, **options})
    assert not (tmp_path / "run").exists()


def test_predictions_that_diverged_are_not_stored(tmp_path, monkeypatch):
    from uqled.predict.learners.network import NetworkLearner

    def nan(*arguments, **_):
        return FoldPredictions(np.full((len(arguments[3]), 10), np.nan, np.float32), None)

    monkeypatch.setattr(NetworkLearner, "fit_predict", nan)
    with pytest.raises(uqled.InputError, match="diverge"):
        cross_validate(digits(), tiny, out=tmp_path, **QUICK)
    assert not (tmp_path / "folds" / "0" / "pred_probs.npy").exists()


def test_schedules():
    fast = PRESETS["fast"]
    rates, momenta = zip(
        *(pace(fast, epoch) for epoch in np.linspace(0, fast.epochs, 101)), strict=True
    )
    assert max(rates) == pytest.approx(fast.lr, rel=1e-2)
    assert np.argmax(rates) == 25
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert momenta[25] == min(momenta) == pytest.approx(0.85)
    assert momenta[-1] == pytest.approx(0.95)
    paper = PRESETS["paper"]
    found = [pace(paper, epoch) for epoch in (0, 149.9, 150, 249.9, 250, 349)]
    assert [rate for rate, _ in found] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert {momentum for _, momentum in found} == {0.9}
    assert (paper.epochs, paper.batch_size) == (350, 256)
    mnist = PRESETS["paper-mnist"]
    assert (mnist.epochs, mnist.batch_size, mnist.lr, mnist.milestones) == (15, 256, 0.01, ())
    for training in (paper, mnist):
        assert (training.momentum, training.weight_decay) == (0.9, 5e-4)
        assert not training.nesterov
        assert training.decay_all


def test_crops_and_flips_are_shifts_and_mirrors():
    images = torch.randint(1, 255, (40, 6, 5, 3), dtype=torch.uint8)
    found = samples_module._cropped_and_flipped(images, torch.Generator().manual_seed(0))
    assert found.shape == images.shape
    seen = set()
    for image, other in zip(images.numpy(), found.numpy(), strict=True):
        padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
        matches = [
            (y, x, mirrored)
            for y in range(9)
            for x in range(9)
            for mirrored in (False, True)
            if (padded[y : y + 6, x : x + 5][:, :: -1 if mirrored else 1] == other).all()
        ]
        assert matches
        seen.add(matches[0])
    assert len(seen) > 25


def test_batches_are_normalised_by_the_training_part():
    data = digits()
    train = np.arange(100)
    seen = samples_module.samples_like(data.inputs, train)
    batch = seen.batch(torch.arange(100))
    assert batch.shape == (100, 1, 8, 8)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert float(batch.mean()) == pytest.approx(0, abs=1e-4)
    assert float(batch.std(correction=0)) == pytest.approx(1, abs=1e-4)
    other = samples_module.other_samples(seen, data.inputs, np.arange(100, 110))
    expected = (data.inputs[100:110].astype(float) - seen.mean.item()) * seen.scale.item()
    found = other.batch(slice(0, 10)).permute(0, 2, 3, 1).numpy()
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_two_processes_share_a_batch(tmp_path):
    """On a machine with several devices; here two processes of the same one."""
    found = cross_validate(
        digits(), tiny, out=tmp_path, device="cpu", devices=2, precision="32-true",
        **{**QUICK, "epochs": 4},
    )  # fmt: skip
    assert found.accuracy > 0.5
