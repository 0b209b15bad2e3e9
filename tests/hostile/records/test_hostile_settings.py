"""A `uqled.toml` that came with somebody's data: it is read, and it chooses nothing dangerous."""

from __future__ import annotations

import os

import pytest
import typer
from typer.testing import CliRunner

from uqled.cli import app
from uqled.cli.settings import RISKY_OPTIONS

#: Options that any file may set: they choose what is read and computed, and how it is shown. One
#: that writes, deletes, runs code or connects belongs to `RISKY_OPTIONS`.
HARMLESS_OPTIONS = """
    against agreement all baseline batch-norm batch-size budget classes columns confidence cost
    cpus-per-fold data device devices dry-run dtype encoding engine entropy-class epochs features
    flags folds frac-noise gpus-per-fold group header image-size inputs jobs jobs-per-gpu json kind
    label labels limit link lr matrix max-error-rate memory merge method min-examples-per-class
    min-precision model model-labels no-browser no-decisions offline only part-rows passes per-class
    pilot plan port precision pred-probs preset quiet rate recall reviewer run seed sep sheet size
    skip-unreadable spellings split tables-only target threads to top uncertainty unreviewed url
    verbose wanted-precision workers zeros
"""


def test_every_option_is_harmless_or_risky():
    commands = typer.main.get_command(app).commands.values()
    names = {
        name.removeprefix("--")
        for command in commands
        for option in command.params
        for name in option.opts
        if name.startswith("--") and not name.startswith("--help")
    }
    assert names == {*HARMLESS_OPTIONS.split(), *RISKY_OPTIONS}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data set, and a module of code beside it."""
    rows = [f"{i % 7},{i % 3 * 5},{'abc'[i % 3]}" for i in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["x,y,label", *rows]) + "\n")
    (tmp_path / "planted.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find(*options):
    return CliRunner().invoke(app, [*options, "find", "table.csv", "--folds", "2"])


@pytest.mark.parametrize(
    "line",
    [
        'model = "planted:network"',
        'method = "planted:flag"',
        'out = "/home/ana/.bashrc"',
        "overwrite = true",
        '[check]\njunit = "/home/ana/.bashrc"',
        "[bench]\nallow-code = true",
        'host = "0.0.0.0"',
        'ray-address = "ray.example"',
        'labels = "s3://bucket/labels.npy"',
        r"labels = '\\server\share'",
        '[find]\nmodel = "planted:network"',
        '[detect]\nlabels = ["https://example.org/labels.npy"]',
    ],
)
def test_a_file_that_came_with_data_chooses_nothing_dangerous(folder, line):
    (folder / "uqled.toml").write_text(line + "\n")
    result = find()
    assert result.exit_code == 2
    assert "'uqled.toml' sets" in result.output
    assert "--config uqled.toml" in result.output
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["planted.py", "table.csv", "uqled.toml"]


def test_a_file_that_the_user_names_may(folder):
    (folder / "uqled.toml").write_text('out = "elsewhere"\nmodel = "logistic"\npasses = 2\n')
    assert find("--config", "uqled.toml").exit_code == 0
    assert (folder / "elsewhere" / "run.json").exists()


def test_what_is_no_settings_file_is_named(folder):
    for content in (b"\xff\xfe", b"[" * 100_000, b"x = 1" + b"0" * 5_000, b"model = 'forest"):
        (folder / "uqled.toml").write_bytes(content)
        result = find()
        assert result.exit_code == 2, content[:20]
        assert result.output.startswith("error: file 'uqled.toml'")
    (folder / "uqled.toml").unlink()
    os.mkfifo(folder / "uqled.toml")  # is not waited for
    assert find("--config", "uqled.toml").exit_code == 2
