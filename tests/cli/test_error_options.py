"""Options that errors name exist in the command that was typed."""

from __future__ import annotations

import ast
import json
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import uqled
from uqled.cli import app
from uqled.cli.wording import describe_error
from uqled.errors import InputError

SOURCE = Path(uqled.__file__).parent
OPTION_NAME = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OF_OTHERS = {"--head", "--config"}  # of `ray start`, and of `uqled` itself


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@cache
def list_options(command):
    params = typer.main.get_command(app).commands[command].params
    return {flag for one in params for flag in one.opts} | {"--help"}


def find_errors_in_source(path):
    """(line, text) of every error that a module raises with a text of its own."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield node.lineno, part.value


#: Modules that name options in their errors -> the commands that call them.
CALLERS = {
    "bench/suite.py": ["bench"],
    "bench/workers.py": ["bench"],
    "cli/data_options.py": ["detect"],
    "cli/detecting.py": ["detect"],
    "cli/detection_options.py": ["detect"],
    "data/reopening.py": ["review", "report", "export", "check"],
    "export/image_files.py": ["export"],
    "export/record.py": ["export"],
    "export/targets.py": ["export", "noise"],
    "report/noise.py": ["noise"],
}


def test_options_named_in_errors_exist():
    modules = set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        is_command = module.startswith("cli/commands/")
        callers = [path.stem.rstrip("_")] if is_command else CALLERS.get(module, [])
        for line, text in find_errors_in_source(path):
            options = set(OPTION_NAME.findall(text)) - OF_OTHERS
            assert not options or callers, f"{module}:{line} is called by unknown commands"
            for command in callers:
                missing = options and options - list_options(command)
                assert not missing, f"{module}:{line}: {missing} of {command}"
            modules |= {module} if options else set()
    assert set(CALLERS) <= modules


def find_texts_in_source(path):
    """(line, text) of every text that is neither an error, a docstring nor a name of an option."""
    tree = ast.parse(path.read_text())
    other = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
            other |= set(map(id, ast.walk(node)))
        if isinstance(node, ast.Expr):
            other.add(id(node.value))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in other and not OPTION_NAME.fullmatch(node.value):
            yield node.lineno, node.value


#: Modules whose notes, findings and reports name options -> the commands that print or write them.
NOTING = {
    "bench/results/collection.py": ["bench"],
    "cli/detecting.py": ["detect"],
    "data/inspection/column_checks.py": ["find", "inspect", "predict"],
    "data/inspection/duplicates.py": ["find", "inspect", "predict"],
    "data/raw_dataset.py": ["find", "inspect", "predict"],
    "data/readers/delimited.py": ["find", "inspect", "predict"],
    "data/readers/excel.py": ["find", "inspect", "predict"],
    "data/spellings.py": ["find", "inspect", "predict"],
    "export/annotations.py": ["export"],
    "model_quality.py": ["find", "predict"],
    "report/page.py": ["export"],
}
#: Names in texts that are no options of ours.
NOT_OPTIONS = {"bench/results/figures.py"}  # a variable of CSS


def test_options_named_in_notes_exist():
    """Texts of the commands' own modules are help, which is read command by command elsewhere."""
    modules = set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module in NOT_OPTIONS or (module.startswith("cli/") and module not in NOTING):
            continue
        for line, text in find_texts_in_source(path):
            options = set(OPTION_NAME.findall(text)) - OF_OTHERS
            assert not options or module in NOTING, (
                f"{module}:{line} is printed by unknown commands"
            )
            for command in NOTING.get(module, []):
                missing = options - list_options(command)
                assert not missing, f"{module}:{line}: {missing} of {command}"
            modules |= {module} if options else set()
    assert modules == set(NOTING)


def test_unreadable_images_are_no_matter_of_an_option_that_is_not_there(tmp_path):
    for number in range(24):
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (200 * (number % 2) + number, 0, 0)).save(path)
    out = tmp_path / "run"
    first = invoke("find", tmp_path / "photos", "--model", "logistic", "--out", out)
    assert first.exit_code == 0, first.output
    (tmp_path / "photos" / "cat" / "0.png").write_bytes(b"torn")
    words = ["find", tmp_path / "photos", "--model", "logistic", "--out", tmp_path / "other"]
    again = invoke(*words)
    assert again.exit_code == 2
    assert "1 unreadable of 24 images" in again.stderr
    assert "go on without them (--skip-unreadable):" in again.stderr
    assert "skip_unreadable" not in again.stderr
    check_command = ["check", out, "--against", tmp_path / "photos", "--max-error-rate", 0.5]
    for words in (check_command, ["export", out, "--to", "folder", "--out", tmp_path / "clean"]):
        result = invoke(*words)
        assert result.exit_code == 2
        assert "unreadable" in result.stderr
        assert "skip" not in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "run", "--max-error-rate", "5%"), "'5%' is not a number. Write 0.05 for 5%"),
        (("check", "run", "--max-error-rate=low"), "'low' is not a number"),
        (("find", "digits", "--folds", "four"), "'four' is not a whole number"),
        (("find", "digits", "--folds", "5%"), "'5%' is not a whole number"),
        (("find", "digits", "--folds", "2.5"), "'2.5' is not a whole number"),
    ],
)
def test_a_value_that_is_no_number_is_named(words, message):
    result = invoke(*words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["message"].rstrip(".").endswith(f": {message}")


@pytest.mark.parametrize("command", ["find", "predict"])
def test_the_arithmetic_of_networks_is_dtype(tmp_path, monkeypatch, command):
    monkeypatch.setattr("uqled.predict.training.survives_bfloat16", lambda: False)
    words = [command, "digits", "--limit", 100, "--model", "small", "--out", tmp_path / "run"]
    result = invoke(*words, "--dtype", "bf16-mixed")
    assert result.exit_code == 2
    assert "error: --dtype is 'bf16-mixed', which" in result.stderr
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = invoke(*words, "--device", "cuda")
    assert result.exit_code == 2
    assert "error: --device is 'cuda', and PyTorch" in result.stderr
    assert result.stderr.endswith("Use auto or cpu.\n")
    assert "precision" not in result.stderr


def test_data_is_called_as_the_help_calls_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if it were not installed
    result = invoke("find", "hf:imdb")
    assert result.exit_code == 2
    assert "error: DATA is 'hf:imdb', which needs the datasets package" in result.stderr
    result = invoke("check", "run", "--against", "hf:imdb", "--max-error-rate", 0.1)
    assert "place" not in result.stderr
    error = describe_error(InputError("place", "is 'hf:x', which ...", "pip"), {"data": "--data"})
    assert error["message"].startswith("the data is 'hf:x'")


def test_a_cluster_that_is_not_installed_is_refused_before_the_data_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = invoke("predict", "none.csv", "--engine", "ray")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "error: --engine is 'ray', which is not installed. pip install 'uqled[ray]'."
    )


def test_python_names_become_options_and_english_words_stay():
    flags = {
        "pred_probs": "--pred-probs",
        "classes": "--classes",
        "min_precision": "--min-precision",
    }
    error = InputError("precision", "is 7, and pred_probs has 3 classes", "Pass `classes`, not 7")
    description = describe_error(error, flags)
    assert description["message"] == (
        "--min-precision is 7, and --pred-probs has 3 classes. Pass --classes, not 7."
    )
    other = InputError("file 'a/pred_probs.npy'", "has no classes=", "Name it classes='a,b'")
    assert describe_error(other, flags)["message"] == (
        "file 'a/pred_probs.npy' has no classes=. Name it --classes 'a,b'."
    )


def test_inputs_that_a_method_lacks_are_named_as_options(tmp_path):
    np.save(tmp_path / "labels.npy", [0, 1, 0, 1])
    np.save(tmp_path / "probs.npy", np.full((4, 2), 0.5))
    files = "--labels", tmp_path / "labels.npy", "--pred-probs", tmp_path / "probs.npy"
    result = invoke("detect", *files, "--method", "alg-ens")
    assert result.exit_code == 2
    text = " ".join(result.output.split())
    assert "'alg-ens' needs --pred-probs and --passes, but --passes is missing" in text
