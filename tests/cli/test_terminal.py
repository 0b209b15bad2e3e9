"""Nothing from the data steers the terminal: escape codes, forged lines, turned writing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import uqled
from exports import image_folder, make_run
from uqled.cli import app
from uqled.errors import FileError, InputError
from uqled.terminal import escape_controls, escape_message

CLEAR_SCREEN, TITLE, REVERSE, FORGED_ERROR = (
    "\x1b[2J",
    "\x1b]0;owned\x07",
    "\u202egnp.",
    "x\nerror: all is lost",
)
HOSTILE = [f"cat{CLEAR_SCREEN}", f"dog{TITLE}", f"ship{REVERSE}", FORGED_ERROR]
STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words], color=True)


@given(st.text(st.characters(), max_size=30))
def test_what_is_escaped_is_harmless_and_stays_so(text):
    escaped = escape_message(text)
    assert not STEERING.search(escaped)
    assert escape_message(escaped) == escaped
    assert escape_controls(text).splitlines() in ([], [escape_controls(text)])
    escaped.encode()


@pytest.mark.parametrize("text", ["", "Größe", "猫 cat", "👩‍🔬", "می‌خواهم", "a\\x1bb", "½ € ~"])
def test_ordinary_writing_stays_as_it_is(text):
    assert escape_controls(text) == text


def test_how_characters_are_written():
    assert escape_controls("a\tb\r\n\x1b\x9b\u202e\ud800") == r"a\tb\r\n\x1b\x9b\u202e\ud800"
    assert escape_message("a\tb\n\x07") == "a\tb\n\\x07"


def test_errors_are_escaped_when_they_are_made():
    error = InputError("split", f"is {CLEAR_SCREEN}", "Choose one of\n  a")
    assert str(error) == "split is \\x1b[2J. Choose one of\n  a"
    assert error.problem == f"is {CLEAR_SCREEN}"


@pytest.fixture
def hostile_run(tmp_path):
    rows = {
        "text": [f"text {i}" for i in range(16)],
        "label": [name for name in HOSTILE for _ in "abcd"],
    }
    frame = pd.DataFrame(rows | {"id": [f"{i}{CLEAR_SCREEN}\r{FORGED_ERROR}" for i in range(16)]})
    frame.to_csv(tmp_path / "data.csv", index=False)
    data = uqled.load(tmp_path / "data.csv", inputs="text")
    return make_run(tmp_path / "run", data, {0: 1, 5: 2, 9: 3, 13: 0})


def check_output(result):
    assert not STEERING.search(re.sub("\x1b\\[(31|0)m", "", result.output)), repr(result.output)
    assert "\nerror: all is lost" not in result.output


def test_commands_print_nothing_that_steers(tmp_path, hostile_run):
    result = command("detect", hostile_run, "--method", "alg-ens")
    assert result.exit_code == 0, result.output
    assert "cat\\x1b[2J" in result.output
    check_output(result)
    words = ["--to", "csv", "--out", tmp_path / "c.csv", "--unreviewed", "drop", "--dry-run"]
    result = command("export", hostile_run, *words)
    assert result.exit_code == 0, result.output
    assert "ship\\u202egnp." in result.output
    assert r"x\nerror: all is lost" in result.output
    check_output(result)


def test_errors_of_commands_print_nothing_that_steers(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f"a{CLEAR_SCREEN},b{TITLE}\n1,2\n3,4\n")
    result = command("predict", path, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "has the columns a\\x1b[2J, b\\x1b]0;owned\\x07" in result.output
    check_output(result)


def test_files_that_are_left_out_print_nothing_that_steers(tmp_path):
    place = image_folder(tmp_path / "data", ["cat", "dog"], n=4)
    (place / "cat" / f"a{CLEAR_SCREEN}{REVERSE}.png").write_text("no image")
    (place / "cat" / "b\nerror: all is lost.png").write_text("no image")
    result = command("predict", place, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "2 unreadable of 10 images" in result.output
    check_output(result)
    with pytest.raises(FileError) as error_info:
        uqled.load(place)
    assert not STEERING.search(str(error_info.value))


def test_every_word_of_the_command_line_passes_one_place():
    sources = sorted(Path(uqled.__file__).with_name("cli").rglob("*.py"))
    lines = [line.strip() for path in sources for line in path.read_text().splitlines()]
    printing = [line for line in lines if re.search(r"\becho\(|secho\(|\bprint\(", line)]
    assert printing == [
        "typer.echo(escape_message(text))",
        "typer.echo(json.dumps(document, indent=1, allow_nan=False, default=str))",
        "typer.echo(escape_message(text), err=True)",
        'typer.secho(escape_message(text), fg="red", err=True)',
    ]


def test_summary_names_classes_and_samples_in_one_line():
    labels = np.array(HOSTILE)[np.arange(8) % 4]
    probs = np.full((8, 4), 0.01)
    probs[np.arange(8), np.arange(8) % 4] = 0.97
    probs[0] = [0.01, 0.97, 0.01, 0.01]
    data = uqled.Dataset.from_arrays(np.zeros((8, 2)), labels, classes=HOSTILE)
    errors = uqled.find_label_errors(data.labels, probs, method="cl-pbnr")
    from uqled.answer import describe_answer

    text = describe_answer(errors.answer, ids=[FORGED_ERROR] * 8)
    assert not STEERING.search(text)
    assert not any(line.startswith("error") for line in text.splitlines())
