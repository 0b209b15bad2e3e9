"""Sweeps of a suite: one setting at a time, and each reaches what is trained and asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import uqled
from uqled.bench.benchmark_data import load_benchmark_data
from uqled.bench.cells import Cell
from uqled.bench.phases import _Context
from uqled.bench.runner import Benchmark, run_benchmark
from uqled.bench.suite import Suite, read_suite
from uqled.bench.workers import Workers
from uqled.models.dropout import dropout_layers

TEXT = """
rates = [0.1]
seeds = [0]
folds = 2
passes = 2
methods = ["cl-pbnr", "cl-mcd"]
stage2 = false

[sweep]
passes = [3]
folds = [3]
dropout = [0.25]
uncertainty = ["ensemble", "committee"]
batch_norm = ["as-trained"]

[[data]]
name = "digits"
title = "Digits"
place = "digits"
test_share = 0.3
limit = 200
model = "small"
training = { epochs = 1, batch_size = 32 }
"""


def read(tmp_path: Path, text: str = TEXT) -> Suite:
    (tmp_path / "own.toml").write_text(text)
    return read_suite(str(tmp_path / "own.toml"))


def test_each_value_is_a_data_set_of_its_own(tmp_path: Path) -> None:
    suite = read(tmp_path)
    assert [data.display_name for data in suite.data] == [
        "Digits",
        "Digits, 3 passes",
        "Digits, 3 folds",
        "Digits, dropout 0.25",
        "Digits, uncertainty: ensemble",
        "Digits, uncertainty: committee",
        "Digits, batch norm as-trained",
    ]
    names = [data.name for data in suite.data]
    assert names[1] == "digits-passes-3"
    assert [suite.count_passes(name) for name in names] == [2, 3, 2, 2, 2, 2, 2]
    assert [suite.count_folds(name) for name in names] == [2, 2, 3, 2, 2, 2, 2]
    assert suite.data[4].training["uncertainty"] == "ensemble"
    assert (suite.data[5].model, dict(suite.data[5].training)) == ("committee", {})
    assert suite.data[6].training["batch_norm"] == "as-trained"
    assert suite.data[6].training["epochs"] == 1
    learner = load_benchmark_data(suite.data[3], tmp_path).learner
    assert {layer.p for layer in dropout_layers(learner.make(0))} == {0.25}
    assert learner.settings() != load_benchmark_data(suite.data[0], tmp_path).learner.settings()


def test_sweeps_run(tmp_path: Path) -> None:
    text = TEXT.replace('batch_norm = ["as-trained"]\n', "")
    sources = 'uncertainty = ["ensemble", "committee"]\n'
    suite = read(tmp_path, text.replace(sources, 'uncertainty = ["none"]\n'))
    with pytest.raises(uqled.InputError, match="no source of uncertainty"):
        run_benchmark(
            Benchmark(suite, tmp_path, tmp_path / "out"), workers=Workers(1), progress=False
        )
    suite = read(tmp_path, text.replace(sources, ""))
    results, _ = run_benchmark(
        Benchmark(suite, tmp_path, tmp_path / "out"), workers=Workers(1), progress=False
    )
    assert set(results.stage1["dataset"]) == {data.display_name for data in suite.data}
    folds = tmp_path / "out" / "cells" / "digits-folds-3" / "seed-0" / "rate-0.1"
    assert len(list(folds.glob("fold-*.json"))) == 3


def test_the_passes_of_a_committee_are_its_members(tmp_path: Path) -> None:
    suite, cell = read(tmp_path), Cell("fold", "digits", 0, 0.1, fold=0)
    arrays = {"pred_probs": np.full((4, 2), 0.5), "passes": np.full((3, 4, 2), 0.5)}
    cells: Any = SimpleNamespace(read_arrays=lambda _: arrays, name_arrays=lambda _: "a cell")
    network = SimpleNamespace(name="small")
    committee = SimpleNamespace(
        members=("a", "b", "c"), features=None, groups=None, combine_folds=print, name="committee"
    )
    for learner in (network, committee):
        fold: Any = SimpleNamespace(learner=learner, data=SimpleNamespace(n_classes=2))
        context = _Context(suite, cell, cells, fold)
        if learner is committee:
            _, passes = context.read_predictions(cell, 4)
            assert passes is not None
            assert passes.shape == (3, 4, 2)
        else:  # which has as many passes as the suite says
            with pytest.raises(uqled.FileError, match=r"not \[2, 4, 2\]"):
                context.read_predictions(cell, 4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("passes = [3]", "passes = 3", "sweep.passes"),
        ("passes = [3]", "epochs = [3]", "sweep.epochs"),
        ("passes = [3]", "passes = [0]", "passes"),
        ("folds = [3]", "folds = [1]", "folds"),
        ("dropout = [0.25]", "dropout = [1.0]", "dropout"),
        ("dropout = [0.25]", "dropout = [0.25, 0.25]", "name"),
        ('uncertainty = ["ensemble", "committee"]', 'uncertainty = ["luck"]', "uncertainty"),
        ('batch_norm = ["as-trained"]', 'batch_norm = ["no"]', "batch_norm"),
        ("[sweep]", "sweep = 3\n[other]", "sweep"),
    ],
)
def test_what_cannot_be_swept_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(uqled.InputError, match=message):
        read(tmp_path, TEXT.replace(old, new))
