"""The command line as a whole: help, errors in the user's words, JSON, settings and output."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import uqled
from uqled import registry
from uqled.cli import COMMANDS, app
from uqled.predict.learners import LEARNERS

DOCUMENT = Path(uqled.__file__).parents[2] / "docs" / "reference" / "command-line.md"
OPTION_NAME = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def list_commands():
    return typer.main.get_command(app).commands


def list_options(command):
    return {flag for one in list_commands()[command].params for flag in one.opts} | {"--help"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two well separated classes, and three wrong labels."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1], 60)
    labels = true.copy()
    labels[[3, 70, 90]] ^= 1
    frame = pd.DataFrame({"a": true + 0.1 * rng.normal(size=120), "b": rng.normal(size=120)})
    frame["species"] = np.array(["cat", "dog"])[labels]
    frame.to_csv(folder / "pets.csv", index=False)
    return folder / "pets.csv"


@pytest.fixture(scope="module")
def run(table):
    result = invoke(
        "find", table, "--label", "species", "--model", "logistic", "--uncertainty", "none",
        "--out", table.parent / "run", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return table.parent / "run", json.loads(result.stdout)


@pytest.mark.parametrize("name", list(list_commands()))
def test_help_is_in_sentences_and_names_options_that_exist(name):
    command = list_commands()[name]
    texts = [command.help, *(one.help for one in command.params)]
    for text in texts:
        assert re.match(r"[A-Z]", text), text
        assert text.rstrip().endswith((".", "...")), text
        assert set(OPTION_NAME.findall(text)) <= list_options(name), text
    assert command.epilog.startswith("Examples:\n$ uqled ")
    for line in command.epilog.splitlines()[1:]:
        words = shlex.split(line.removeprefix("$ "))
        assert words[:2] == ["uqled", name]
        assert {word for word in words if word.startswith("--")} <= list_options(name), line


def test_commands_come_in_the_order_of_a_persons_day():
    order = [name for commands in COMMANDS.values() for name in commands]
    day = ["find", "inspect", "review", "audit", "export", "check", "predict", "detect", "report"]
    day += ["noise", "bench", "demo"]
    assert [name for name in order if name != "import"] == [name for name in day if name in order]
    assert list(list_commands()) == order


@pytest.mark.parametrize("name", [None, *list_commands()])
def test_short_help_and_options_of_the_output(name):
    words = [name] if name else []
    short, long = invoke(*words, "-h"), invoke(*words, "--help")
    assert short.exit_code == long.exit_code == 0
    assert short.output == long.output
    assert not re.search(r"<\w+>|\{", long.output)  # types of Python
    if name:
        assert {"--json", "--quiet", "-q", "--verbose", "-v"} <= list_options(name)


def test_version_and_completion():
    assert invoke("--version").output == f"uqled {uqled.__version__}\n"
    assert "--install-completion" in invoke("-h").output
    [engine] = [one for one in list_commands()["find"].params if one.name == "engine"]
    assert engine.metavar == "[local|ray]"


def test_a_source_of_another_package_is_a_choice(monkeypatch):
    entry = EntryPoint("halves", "my_package:RandomHalves", "uqled.uncertainty")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] * (group == entry.group))
    result = invoke("predict", "nowhere", "--uncertainty", "halves")
    assert "'nowhere' does not exist" in result.output, result.output
    result = invoke("predict", "nowhere", "--uncertainty", "thirds")
    assert "--uncertainty is 'thirds'" in result.output
    assert "none, halves" in " ".join(result.output.split())


def test_choices_are_those_of_the_rooms():
    from uqled.export.corrections import Unreviewed
    from uqled.noise.kinds import KINDS
    from uqled.predict.training_options import PRESETS
    from uqled.predict.uncertainty import SOURCES

    def choices(command, option):
        [one] = [one for one in list_commands()[command].params if option in one.opts]
        return one.metavar.strip("[]").split("|")

    assert set(choices("find", "--uncertainty")) == {"auto", *SOURCES.names()}
    assert choices("find", "--preset") == list(PRESETS)
    assert set(choices("noise", "--kind")) == set(KINDS)
    assert set(choices("export", "--unreviewed")) == set(Unreviewed.__args__)
    [model] = [one for one in list_commands()["find"].params if one.name == "model"]
    for name in LEARNERS.own_entries:
        assert name == "auto" or re.search(rf"\b{name}\b", model.help), name


# Every failure that a person meets, in the words of what was typed.

FAILURES = [
    (["find", "{table}", "--model", "forrest"], "--model is 'forrest'. Did you mean 'forest'?"),
    (["find", "{table}", "--precision", "0.9"], "Use --min-precision for the flags, or --dtype"),
    (["find", "{table}", "--wanted-precision", "1"], "Use --min-precision"),
    (["predict", "{table}", "--precision", "32-true"], "Use --dtype"),
    (["detect", "{run}", "--precision", "0.9"], "Use --min-precision"),
    (["export", "{run}", "--to", "csv", "--out", "x.csv", "--flags", "keep"], "Use --unreviewed"),
    (["find", "{table}", "--label", "kind"], "--label is 'kind'"),
    (["find", "{table}", "--inputs", "a,zz", "--label", "species"], "--inputs"),
    (["find", "{table}", "--label", "species", "--image-size", "8"], "--image-size is 8"),
    (["find", "{table}", "--label", "species", "--epochs", "3", "--model", "forest"], "--epochs"),
    (["find", "{table}", "--label", "species", "--folds", "1"], "--folds is 1"),
    (["find", "{table}", "--label", "species", "--folds", "99"], "--folds is 99"),
    (["find", "{table}", "--label", "species", "--passes", "0"], "--passes is 0"),
    (["find", "{table}", "--label", "species", "--seed", "-1"], "--seed is -1"),
    (["find", "{table}", "--label", "species", "--workers", "2"], "--workers is 2"),
    (["find", "{table}", "--label", "species", "--cpus-per-fold", "2"], "--cpus-per-fold is 2"),
    (["find", "{table}", "--label", "species", "--uncertainty", "bagging"], "--uncertainty is"),
    (["find", "{table}", "--min-precision", "7"], "--min-precision is 7"),
    (
        ["find", "{table}", "--recall", "0.5", "--budget", "3"],
        "--recall cannot be combined with --budget",
    ),
    (["find", "{table}", "--cost", "1"], "--cost is '1'. Write the costs"),
    (["find", "{table}", "--method", "autto"], "--method is 'autto'"),
    (["find", "nowhere.csv"], "nowhere.csv' does not exist"),
    (["detect"], "--labels are missing"),
    (["detect", "{run}", "--labels", "x.npy"], "--labels cannot be combined with a run"),
    (["detect", "{run}", "--engine", "local"], "--engine is 'local'"),
    (["detect", "{run}", "--frac-noise", "2"], "--frac-noise is 2.0"),
    (["detect", "{run}", "--agreement", "9", "--method", "alg-ens"], "--agreement is 9"),
    (["detect", "{run}", "--min-examples-per-class", "-1"], "--min-examples-per-class is -1"),
    (["detect", "--labels", "x.npy", "--no-decisions"], "--no-decisions is for runs only"),
    (["report", "{run}", "--method", "cl-x"], "--method"),
    (["report", "{run}", "--top", "-1"], "--top is -1"),
    (["export", "{run}", "--to", "xml", "--out", "x.xml"], "--to is 'xml'"),
    (["export", "{run}", "--to", "csv", "--out", "x.csv", "--link"], "--link"),
    (["export", "{run}", "--to", "csv", "--out", "x.csv", "--url", "u"], "--url"),
    (["export", "{run}", "--to", "csv", "--out", "x.csv", "--unreviewed", "burn"], "--unreviewed"),
    (["noise", "--labels", "{table}::species", "--out", "n", "--rate", "1"], "--pred-probs is"),
    (["noise", "--labels", "{table}::species", "--out", "n", "--kind", "pair"], "--rate is"),
    (["bench", "smokey"], "SUITE is 'smokey'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), FAILURES)
def test_errors_are_in_the_words_of_what_was_typed(
    table, run, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    words = [word.format(table=table, run=run[0]) for word in words]
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert message in result.stderr
    *read, error = result.stderr.strip().splitlines()
    assert error.startswith("error: ")
    assert not read or read[0] == "pets: 120 rows, 2 classes"  # what was read is said before
    assert set(OPTION_NAME.findall(result.stderr)) <= list_options(words[0])
    assert not re.search(r"(?<![\w-])[a-z_]+=['\"(\d]", result.stderr)  # as Python writes it
    assert not list(tmp_path.iterdir())


def read_documented_keys(command):
    """The keys that the page on the command line names for a command's result."""
    text = DOCUMENT.read_text()
    if command in ("find", "detect", "demo"):
        rows = text.split("The result of `find`, `detect` and `demo`:")[1].split(
            "The other commands:"
        )[0]
        return set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", rows, re.M))))
    [row] = re.findall(rf"^\| (?:`\w+`, )*`{command}`(?:, `\w+`)* \| (.*) \|", text, re.M)
    return set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row)))


def test_json_of_find_is_what_the_page_says(run):
    folder, document = run
    assert list(document) == ["schema", "command", "result"]
    assert document["schema"] == "uqled/1"
    assert document["command"] == "find"
    result = document["result"]
    assert set(result) == read_documented_keys("find")
    assert result["samples"] == 120
    assert {one["id"] for one in result["most_suspect"][:3]} == {"3", "70", "90"}
    assert set(result["most_suspect"][0]) == {
        "index", "id", "given", "suggested", "score", "votes", "error_probability", "tier",
        "duplicate", "is_exact",
    }  # fmt: skip
    assert result["wrong_labels"]["confidence"] == 0.8
    assert Path(result["files"]["report"]) == folder / "report.html"


def test_json_of_the_other_commands_is_what_the_page_says(run, table, tmp_path):
    folder = run[0]
    commands = {
        "inspect": [table, "--label", "species"],
        "check": [folder, "--max-error-rate", 0.9],
        "predict": [table, "--label", "species", "--model", "logistic", "--out", tmp_path / "run"],
        "detect": [folder, "--method", "cl-pbnr"],
        "report": [folder, "--out", tmp_path / "r.html"],
        "export": [folder, "--to", "csv", "--out", tmp_path / "clean.csv"],
        "noise": [
            "--labels",
            f"{table}::species",
            "--kind",
            "pair",
            "--rate",
            0.1,
            "--out",
            tmp_path / "noise",
        ],
    }
    for command, words in commands.items():
        result = invoke(command, *words, "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["schema"] == "uqled/1"
        assert document["command"] == command
        assert set(document["result"]) == read_documented_keys(command), command
        for path in document["result"].get("files", {}).values():
            assert Path(path).exists()


def test_the_result_of_every_command_is_documented(run):
    for command in list_commands():
        assert read_documented_keys(command), command
    result = invoke("audit", run[0], "--size", 5, "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)["result"]
    assert {"samples", "judged", "files"} == set(content) < read_documented_keys("audit")


def test_json_of_errors():
    result = invoke("find", "nowhere.csv", "--device", "gpu", "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["argument"] == "--device"
    assert result.stderr.strip() == f"error: {error['message']}"


@pytest.mark.parametrize(
    ("words", "command", "message"),
    [
        (["find", "x.csv", "--lable", "y", "--json"], "find", "No such option: --lable"),
        (["--json", "find", "x.csv", "--lable", "y"], "find", "No such option: --lable"),
        (["check", "--json"], "check", "Missing argument 'RUN'"),
        (["find", "x.csv", "--folds", "many", "--json"], "find", "Invalid value for '--folds'"),
        (["fnd", "x.csv", "--json"], "fnd", "No such command 'fnd'"),
        (["--json", "fnd"], "fnd", "No such command 'fnd'"),
    ],
)
def test_json_of_words_that_are_not_understood(words, command, message):
    result = invoke(*words)
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["schema"] == "uqled/1"
    assert document["command"] == command
    assert message in document["error"]["message"]
    assert invoke(*[word for word in words if word != "--json"]).stdout == ""


def test_options_of_the_output_go_before_the_command_too(table, tmp_path, monkeypatch):
    words = ["predict", table, "--label", "species", "--model", "logistic", "--folds", 3]
    quiet = invoke("-q", *words, "--out", tmp_path / "a")
    assert quiet.exit_code == 0, quiet.output
    assert quiet.stderr == ""
    loud = invoke("--verbose", *words, "--out", tmp_path / "b")
    assert "--label species" in loud.stderr
    document = json.loads(invoke("-q", "--json", *words, "--out", tmp_path / "c").stdout)
    assert document["result"]["samples"] == 120
    monkeypatch.chdir(tmp_path)
    Path("uqled.toml").write_text("foulds = 3\n")
    result = invoke("--json", "predict", table)
    assert result.exit_code == 2
    assert "'foulds', which is not an option" in json.loads(result.stdout)["error"]["message"]
    same = invoke("predict", table, "--json")
    assert json.loads(same.stdout) == json.loads(result.stdout)


def test_quiet_and_verbose(table, tmp_path):
    words = ["predict", table, "--label", "species", "--model", "logistic"]
    quiet = invoke(*words, "--out", tmp_path / "a", "-q")
    assert quiet.stderr == ""
    assert "predicted as labelled" in quiet.stdout
    loud = invoke(*words, "--out", tmp_path / "b", "-v")
    assert "--label species" in loud.stderr
    assert re.search(r"predict took \d+\.\d s", loud.stderr)
    result = invoke("find", "nowhere.csv", "-v")
    assert "Traceback" in result.stderr


def test_the_label_that_was_recognised_is_said(table, tmp_path):
    output = invoke("inspect", table).output
    assert "label: species (the only column of classes)\n" in output
    assert "label: species\n" in invoke("inspect", table, "--label", "species").output
    renamed_table = tmp_path / "pets.csv"
    renamed_table.write_text(table.read_text().replace("species", "target", 1))
    assert "label: target (recognised by its name)\n" in invoke("inspect", renamed_table).output


def test_a_run_is_called_as_its_data(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("predict", table, "--label", "species", "--model", "logistic")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "runs" / "pets" / "run.json").is_file()


def test_another_model_in_the_same_folder_is_refused_in_a_line(table, tmp_path):
    words = ["predict", table, "--label", "species", "--out", tmp_path / "run"]
    assert invoke(*words, "--model", "logistic").exit_code == 0
    result = invoke(*words, "--model", "forest")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].endswith(
        "/run' holds a run with another configuration (model: 'logistic' then, 'forest' now). "
        "Name another folder with --out, or repeat the configuration to continue that run."
    )


def test_the_summary_prints_the_probability_of_an_error(run):
    text = invoke("detect", run[0]).output
    assert "P(wrong)" in text
    assert re.search(r"\d+%  almost certainly wrong\n", text.split("P(wrong)")[1])
    assert "score" not in text
    assert "score" in invoke("detect", run[0], "--method", "cl-pbnr").output


def test_a_missing_package_is_said_before_the_work(table, tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import uqled.data\n"
        "uqled.data.load = None\n"  # reading the data would fail otherwise than for want of torch
        "from uqled.cli import app; app()\n"
    )
    for words in (["find", table, "--model", "resnet50"], ["demo"]):
        process = subprocess.run(
            [sys.executable, "-c", code, *map(str, words), "--out", str(tmp_path / "run")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == 2, process.stderr
        assert "uqled[torch]" in process.stderr
        slowly = {f"uqled {words[0]}", "loading what the model needs"}  # are said after a second
        assert len([line for line in process.stderr.splitlines() if line not in slowly]) == 1
    assert not list(tmp_path.iterdir())


def test_images_without_pytorch_are_refused_before_they_are_decoded(tmp_path):
    from exports import image_folder

    folder = image_folder(tmp_path / "photos")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from uqled.data import image_cache, loading\n"
        "loading.decode_images = image_cache.decode_images = None\n"
        "from uqled.cli import app; app()\n"
    )
    words = ["find", str(folder), "--out", str(tmp_path / "run")]
    process = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert process.returncode == 2, process.stderr
    assert "uqled[torch]" in process.stderr
    assert not (tmp_path / "run").exists()


def test_importing_the_command_line_is_light():
    code = (
        "import sys, uqled.cli; "
        "print(sorted({'numpy', 'numba', 'scipy', 'pandas', 'torch', 'sklearn', 'pyarrow', "
        "'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("audit", "RUN/audit.csv", "judge the same samples on the review page"),
        ("check", "With --against", "where --data says"),  # a line begins with an option
    ],
)
def test_paragraphs_of_a_help_break_where_the_terminal_ends(name, start, end):
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"})
    (description,) = [line for line in result.output.splitlines() if start in line]
    assert end in description
