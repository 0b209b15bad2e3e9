"""What the shell completes, and the file of options that one repeats, `uqled.toml`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from uqled.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def list_commands():
    return typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1], 30)
    frame = pd.DataFrame({"a": true + 0.1 * rng.normal(size=60), "b": rng.normal(size=60)})
    path = tmp_path_factory.mktemp("table") / "pets.csv"
    frame.assign(species=np.array(["cat", "dog"])[true]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("command", "option", "prefix", "names"),
    [
        ("find", "model", "lo", ["logistic"]),
        ("find", "method", "cl-mcd-e", ["cl-mcd-e", "cl-mcd-ens"]),
        ("detect", "method", "alg", ["alg-ens"]),
        ("report", "method", "au", ["auto"]),
        ("find", "engine", "", ["local", "ray"]),
    ],
)
def test_the_shell_completes_the_names_of_a_registry(command, option, prefix, names):
    [parameter] = [one for one in list_commands()[command].params if one.name == option]
    context = typer.Context(list_commands()[command])
    completions = [item.value for item in parameter.shell_complete(context, prefix)]
    assert sorted(completions) == sorted(names)


def test_settings_that_one_repeats(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "uqled.toml"
    settings.write_text('folds = 3\n[predict]\nlabel = "species"\nmodel = "logistic"\n'
                        'inputs = ["a", "b"]\nuncertainty = "none"\n')  # fmt: skip
    assert invoke("predict", table).exit_code == 0
    configuration = json.loads((tmp_path / "runs/pets/run.json").read_text())["configuration"]
    assert configuration["folds"] == 3
    assert configuration["model"] == "logistic"
    result = invoke("predict", table, "--folds", 5, "--out", "five")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("five/run.json").read_text())["configuration"]["folds"] == 5
    for text, message in [
        ('fold = 3', "has 'fold', which is not an option. Did you mean 'folds'?"),
        ('[predikt]\nfolds = 3', "has 'predikt', which is not a command. Did you mean 'predict'?"),
        ('[noise]\nfolds = 3', "has 'folds', which is not an option of noise"),
        ('folds = ', "cannot be read"),
    ]:  # fmt: skip
        settings.write_text(text)
        result = invoke("predict", table)
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = invoke("--config", "none.toml", "predict", table)
    assert "'none.toml' does not exist" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('label = "specis"', "--label (in uqled.toml) is 'specis', but file"),
        ('[predict]\nmodel = "forrest"', "--model (in uqled.toml) is 'forrest'. Did you mean"),
        ('device = "cudaa"', "--device (in uqled.toml) is 'cudaa'. Did you mean 'cuda'?"),
        ('folds = "x"', "It is set in uqled.toml"),
    ],
)
def test_an_error_names_the_file_that_sets_the_option(table, tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "uqled.toml").write_text(text)
    result = invoke("--json", "predict", table)
    assert result.exit_code == 2
    assert message in json.loads(result.stdout)["error"]["message"]
    assert "uqled.toml" in result.stderr
    typed_command = invoke(
        "predict", table, "--label", "specie", "--model", "fores", "--device", "cup", "--folds", 0
    )
    assert "uqled.toml" not in typed_command.stderr
