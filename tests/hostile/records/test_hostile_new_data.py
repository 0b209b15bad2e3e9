"""`check --against` with a stranger's run: its model is fitted again, and may be any lie."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from fuzzing.targets.runs import make_table
from uqled.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A finished run of a committee."""
    folder = tmp_path_factory.mktemp("committee")
    make_table(folder)
    options = ("--out", folder / "run", "--model", "committee", "--folds", "2")
    assert invoke("predict", folder / "data.csv", *options).exit_code == 0
    assert invoke("detect", folder / "run").exit_code == 0
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


def check(folder):
    return invoke(
        "check", folder / "run", "--against", folder / "data.csv", "--max-error-rate", "0.9"
    )


def test_the_run_itself_is_fine(folder):
    assert check(folder).exit_code in (0, 1, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": -1},
        {"seed": 2**70},
        {"settings": []},
        {"settings": {"members": []}},
        {"settings": {"members": ["forest"] * 100_000}},
        {"model": "logistic", "settings": {"members": ["forest"]}},
        {"model": "small", "settings": {"epochs": 2**50}},
        {"model": "small", "settings": {"epochs": "many"}},
    ],
)
def test_a_model_that_cannot_be_fitted_is_refused(folder, changes):
    path = folder / "run" / "run.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"configuration": content["configuration"] | changes}))
    result = check(folder)
    assert result.exit_code == 2, result.exception
    assert "does not say how its model was fitted" in result.output


def test_a_fold_of_any_number_is_refused(folder):
    folds = np.load(folder / "run" / "folds.npy")
    folds[0] = 2**31 - 1
    np.save(folder / "run" / "folds.npy", folds)
    result = check(folder)
    assert result.exit_code == 2
    assert "folds.npy' holds 2147483647" in result.output
