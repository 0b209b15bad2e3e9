"""What an interrupted or edited training leaves: continued to the same arrays, and then removed."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import uqled
from small_training import QUICK_TRAINING, StopError, digits, same
from uqled.features.computing import compute_features
from uqled.predict import checkpoints, folds, training
from uqled.predict.crossval import cross_validate
from uqled.predict.fold_files import read_partial
from uqled.predict.learners import classifier_fold, network
from uqled.predict.samples import normalise_samples
from uqled.predict.training_options import Training

SHORT_TRAINING = Training(epochs=3, batch_size=16, precision="32-true", device="cpu")


def small(seed=0, width=6):
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 3))


def train_weights(folder, *, options=SHORT_TRAINING, model=None):
    """The weights after a training that continues from what is in the folder."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(48, 5)), rng.integers(0, 3, 48)
    model = model or small()
    parts = []
    training.train(
        model, normalise_samples(inputs, np.arange(48)), labels, options,
        seed=3, folder=folder, advance=parts.append,
    )  # fmt: skip
    assert sum(parts) == pytest.approx(1)
    return {name: value.clone() for name, value in model.state_dict().items()}


@contextmanager
def stop_when(monkeypatch, module, name, *, after=0, before=False):
    """Stop as a kill would, in call number `after` of a function: before its work, or after it."""
    function, calls = getattr(module, name), []

    def stop(*arguments, **options):
        calls.append(None)
        is_last = len(calls) > after
        if is_last and before:
            raise StopError
        result = function(*arguments, **options)
        if is_last:
            raise StopError
        return result

    with monkeypatch.context() as patch:
        patch.setattr(module, name, stop)
        with pytest.raises(StopError):
            yield


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A folder in which a training of three epochs was killed after the first."""
    with stop_when(monkeypatch, training, "write_checkpoint"):
        train_weights(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def whole_training(tmp_path_factory):
    return train_weights(tmp_path_factory.mktemp("whole"))


def assert_equal(actual, whole_training):
    assert actual.keys() == whole_training.keys()
    assert all(torch.equal(actual[name], whole_training[name]) for name in actual)


# -- checkpoints ----------------------------------------------------------------------------------


def test_a_checkpoint_is_continued_to_the_same_weights(half, whole_training, monkeypatch):
    epochs = []
    write = training._write_history
    monkeypatch.setattr(
        training, "_write_history", lambda f, rows: (epochs.append(len(rows)), write(f, rows))
    )
    assert_equal(train_weights(half), whole_training)
    assert epochs == [2, 3]


def make_change(**entries):
    def change(path):
        checkpoint = torch.load(path, weights_only=True)
        torch.save({**checkpoint, **entries}, path)

    return change


def without(key):
    def change(path):
        checkpoint = torch.load(path, weights_only=True)
        del checkpoint[key]
        torch.save(checkpoint, path)

    return change


def of_model(edit):
    def change(path):
        checkpoint = torch.load(path, weights_only=True)
        edit(checkpoint)
        torch.save(checkpoint, path)

    return change


def set_weight(checkpoint, value):
    checkpoint["model"]["0.weight"] = value


def set_momentum(checkpoint, value):
    checkpoint["optimiser"]["state"][0]["momentum_buffer"] = value


def save_zip(path):
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(3))


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-400]),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "text": lambda path: path.write_text("checkpoint"),
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"model": 1})),
    "the old format": lambda path: torch.save(
        torch.load(path, weights_only=True), path, _use_new_zipfile_serialization=False
    ),
    "a zip of something": save_zip,
    "a list": lambda path: torch.save([1, 2], path),
    "a tensor": lambda path: torch.save(torch.zeros(3), path),
    "no model": without("model"),
    "no optimiser": without("optimiser"),
    "no epochs": without("epochs"),
    "no history": without("history"),
    "one more key": make_change(extra=1),
    "no state": make_change(model=None),
    "another model": make_change(model=small(width=7).state_dict()),
    "other layers": make_change(model=nn.Linear(5, 3).state_dict()),
    "a weight that is a number": of_model(lambda s: set_weight(s, 3)),
    "a weight of other shape": of_model(lambda s: set_weight(s, torch.zeros(6, 6))),
    "a weight of other type": of_model(lambda s: set_weight(s, torch.zeros(6, 5).long())),
    "a sparse weight": of_model(lambda s: set_weight(s, torch.zeros(6, 5).to_sparse())),
    "one weight more": of_model(lambda s: s["model"].update(more=torch.zeros(1))),
    "no optimiser's state": make_change(optimiser=3),
    "an empty optimiser": make_change(optimiser={}),
    "no groups": of_model(lambda s: s["optimiser"].update(param_groups=[])),
    "a group of other keys": of_model(lambda s: s["optimiser"]["param_groups"][0].pop("lr")),
    "a rate that is a text": of_model(lambda s: s["optimiser"]["param_groups"][0].update(lr="1")),
    "momentum of other shape": of_model(lambda s: set_momentum(s, torch.zeros(2))),
    "momentum that is a text": of_model(lambda s: set_momentum(s, "fast")),
    "momentum of no weight": of_model(lambda s: s["optimiser"]["state"].update({99: {}})),
    "state of other kind": of_model(lambda s: s["optimiser"].update(state=[1])),
    "more epochs than asked for": make_change(epochs=4),
    "no epoch": make_change(epochs=0),
    "negative epochs": make_change(epochs=-1),
    "epochs that are a text": make_change(epochs="1"),
    "epochs that are true": make_change(epochs=True),
    "a history of other length": make_change(history=[]),
    "a history of texts": make_change(history=["abc"]),
    "a history of wrong rows": make_change(history=[[1, 0.5]]),
    "a history of another epoch": make_change(history=[[2, 0.5, 0.5]]),
    "a history of no numbers": make_change(history=[[1, "x", None]]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_begins_the_training_again(half, whole_training, damage):
    DAMAGE[damage](half / "checkpoint.pt")
    assert_equal(train_weights(half), whole_training)


def test_a_checkpoint_that_is_no_file_is_not_waited_for(half, whole_training):
    (half / "checkpoint.pt").unlink()
    os.mkfifo(half / "checkpoint.pt")
    assert_equal(train_weights(half), whole_training)
    (half / "checkpoint.pt").unlink()
    (half / "checkpoint.pt").mkdir()
    with pytest.raises(uqled.FileError, match=r"checkpoint\.pt' is a folder"):
        train_weights(half)


class FolderMaker:
    """Makes a folder when it is unpickled: stands for a command."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_forged_checkpoint_runs_nothing(half, whole_training):
    planted = str(half / "ran")
    forged = {
        "model": FolderMaker(planted),
        "optimiser": {},
        "epochs": 1,
        "history": [[1, 0.5, 0.5]],
    }
    torch.save(forged, half / "checkpoint.pt")
    assert_equal(train_weights(half), whole_training)
    assert not os.path.exists(planted)  # noqa: PTH110


def test_a_checkpoint_that_unpacks_to_too_much_is_not_read(half):
    with uqled.limits.override_limits(memory_bytes=100):
        assert checkpoints.read_checkpoint(half / "checkpoint.pt", "cpu") is None
    assert checkpoints.read_checkpoint(half / "checkpoint.pt", "cpu") is not None


def test_an_optimiser_of_ones_own_continues_too(tmp_path, monkeypatch):
    class OwnOptimizer(nn.Sequential):
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    finished_folder, killed = tmp_path / "whole", tmp_path / "killed"
    finished_folder.mkdir()
    killed.mkdir()
    whole_training = train_weights(finished_folder, model=OwnOptimizer(*small()))
    with stop_when(monkeypatch, training, "write_checkpoint", after=1):
        train_weights(killed, model=OwnOptimizer(*small()))
    epochs = []
    write = training._write_history
    monkeypatch.setattr(
        training, "_write_history", lambda f, rows: (epochs.append(len(rows)), write(f, rows))
    )
    assert_equal(train_weights(killed, model=OwnOptimizer(*small())), whole_training)
    assert epochs == [3]


@contextmanager
def files_of_at_most(n):
    """As on a full disk: writing more fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, previous_handler)


def test_a_full_disk_is_named_and_leaves_the_old_checkpoint(half, whole_training):
    before = (half / "checkpoint.pt").read_bytes()
    message = r"checkpoint\.pt' cannot be written"
    with files_of_at_most(1_000), pytest.raises(uqled.FileError, match=message):
        train_weights(half)
    assert (half / "checkpoint.pt").read_bytes() == before
    assert {path.name for path in half.iterdir()} == {"checkpoint.pt", "history.csv"}
    assert_equal(train_weights(half), whole_training)


# -- what is left behind --------------------------------------------------------------------------


def list_leftovers(run):
    """What a finished run should not have."""
    result_names = {"pred_probs.npy", "passes.npy", "history.csv"}
    files = [path for path in (run / "folds").rglob("*") if path.is_file()]
    return sorted(
        str(path.relative_to(run)) for path in files if path.name not in result_names
    ) + sorted(path.name for path in run.rglob(".*"))


MODELS = {
    "a network": ("small", {**QUICK_TRAINING, "folds": 2}),
    "an ensemble": (
        "small",
        {**QUICK_TRAINING, "uncertainty": "ensemble", "folds": 2, "epochs": 1},
    ),
    "bootstrap": (
        LogisticRegression(max_iter=50),
        {"uncertainty": "bootstrap", "folds": 2, "passes": 3, "seed": 1},
    ),
}
MOMENTS = {
    "before a fold is written": (folds.Run, "write_fold", {"before": True}),
    "after a fold is written": (folds.Run, "write_fold", {}),
    "before the leftovers are removed": (folds, "remove_partial_files", {"before": True}),
    "while the predictions are put together": (folds.Run, "write_predictions", {"before": True}),
}


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory):
    def make(kind):
        if kind not in runs:
            model, options = MODELS[kind]
            out = tmp_path_factory.mktemp("finished") / "run"
            runs[kind] = cross_validate(digits(120), model, out=out, **options)
        return runs[kind]

    runs = {}
    return make


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rerun_leaves_nothing_behind(kind, moment, finished_runs, tmp_path, monkeypatch):
    model, options = MODELS[kind]
    module, name, is_moment = MOMENTS[moment]
    with stop_when(monkeypatch, module, name, **is_moment):
        cross_validate(digits(120), model, out=tmp_path / "run", **options)
    same(cross_validate(digits(120), model, out=tmp_path / "run", **options), finished_runs(kind))
    assert list_leftovers(tmp_path / "run") == []
    assert list_leftovers(finished_runs(kind).path) == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("kind", "file", "module"),
    [
        ("an ensemble", "folds/0/member-1/softmax.npy", network),
        ("bootstrap", "folds/0/fit-1.npy", classifier_fold),
    ],
)
def test_a_damaged_part_of_a_fold_is_computed_again(
    kind, file, module, finished_runs, tmp_path, monkeypatch
):
    model, options = MODELS[kind]
    with stop_when(monkeypatch, module, "write_array", after=1):
        cross_validate(digits(120), model, out=tmp_path, **options)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:-100])
    same(cross_validate(digits(120), model, out=tmp_path, **options), finished_runs(kind))


def test_parts_of_a_fold_are_used_only_if_they_fit(tmp_path):
    path, probs = tmp_path / "fit-0.npy", np.full((4, 3), 1 / 3, np.float32)
    assert read_partial(path, (4, 3)) is None
    for array in (probs[:, :2], probs[:3], probs.astype(np.float64), probs * np.nan, probs[None]):
        np.save(path, array)
        assert read_partial(path, (4, 3)) is None
    np.save(path, np.array([{}]), allow_pickle=True)
    assert read_partial(path, (4, 3)) is None
    np.save(path, probs)
    assert (read_partial(path, (4, 3)) == probs).all()
    for content in (b"", path.read_bytes()[:-3], b"\x93NUMPY\x09\x09" + bytes(200)):
        path.write_bytes(content)
        assert read_partial(path, (4, 3)) is None
    path.unlink()
    os.mkfifo(path)
    assert read_partial(path, (4, 3)) is None


def test_a_note_of_progress_is_no_more_than_a_note(tmp_path):
    run = folds.Run(tmp_path)
    note = run.make_fold_folder(0) / "progress"
    for text, share in (("0.25", 0.25), ("nan", 0.0), ("1e999", 1.0), ("-3", 0.0), ("x", 0.0)):
        note.write_text(text)
        assert folds._measure_progress(run, 0) == share
    note.unlink()
    os.mkfifo(note)
    assert folds._measure_progress(run, 0) == 0.0


def test_a_history_of_something_else_is_named(finished_runs, tmp_path):
    model, options = MODELS["a network"]
    run = tmp_path / "run"
    shutil.copytree(finished_runs("a network").path, run)
    path = run / "folds" / "0" / "history.csv"
    head = "epoch,loss,accuracy\n"
    for content in ("", "epoch,loss\n1,2\n", f"{head}1,x,0.5\n", f"{head}1\n", "\0", "\udce9"):
        path.write_text(content, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(uqled.FileError, match=r"history\.csv' .* Delete it"):
            cross_validate(digits(120), model, out=run, **options)
    path.unlink()
    (run / "folds" / "0" / "member-x$").mkdir()
    cross_validate(digits(120), model, out=run, **options)


# -- features -------------------------------------------------------------------------------------


def test_kept_features_of_something_else_are_named(tmp_path):
    images = np.zeros((4, 8, 8, 1), np.uint8)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 5))
    stored_features = compute_features(images, backbone, cache_folder=tmp_path)
    (path,) = tmp_path.iterdir()
    assert (compute_features(images, backbone, cache_folder=tmp_path) == stored_features).all()
    content = path.read_bytes()
    for wrong_features in (
        stored_features[:3],
        stored_features[:, None],
        stored_features.astype(np.float64),
        stored_features * np.nan,
        stored_features > 0,
    ):
        np.save(path, wrong_features)
        with pytest.raises(uqled.FileError, match=r"features-.* Delete it: it is computed again"):
            compute_features(images, backbone, cache_folder=tmp_path)
    for damaged in (b"", content[:-3], content[:20], b"\x93NUMPY\x01\x00\xff\xff" + content):
        path.write_bytes(damaged)
        with pytest.raises(uqled.FileError, match=r"features-.* Delete it: it is computed again"):
            compute_features(images, backbone, cache_folder=tmp_path)
    path.unlink()
    assert (compute_features(images, backbone, cache_folder=tmp_path) == stored_features).all()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
