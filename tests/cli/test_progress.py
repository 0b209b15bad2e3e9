"""Long work says what it is and how long it still takes, truly, from its first second."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
import time
from itertools import groupby

import pytest
from typer.testing import CliRunner

from uqled import progress
from uqled.cli import app
from uqled.errors import InputError
from uqled.predict import learners
from uqled.progress import Progress, Stage, describe_seconds

DELAY = 0.03  # in place of the second that work may take unnoticed


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [1_000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_last_batch_that_is_smaller_is_never_less_than_nothing_away(clock):
    stage = Stage("computing features", total=200)
    for _ in range(12):
        clock[0] += 10
        stage.advance(16)
    assert stage.seconds_left == pytest.approx(5)
    clock[0] += 8  # a whole batch would take ten
    assert stage.seconds_left is None


def test_epochs_of_minutes_have_a_true_estimate(clock):
    stage = Stage("training", total=10)
    assert stage.seconds_left is None
    for _ in range(3):
        clock[0] += 100
        stage.advance(1)
    assert stage.seconds_left == pytest.approx(700)
    clock[0] += 90  # within an epoch the time runs down
    assert stage.seconds_left == pytest.approx(610)
    clock[0] += 10  # but not below what is left after this epoch,
    assert stage.seconds_left == pytest.approx(600)
    clock[0] += 200  # whose delay slows the others: 500 s for the last three, of which 6 are left
    assert stage.seconds_left == pytest.approx(6 * 500 / 3)


def test_a_last_step_that_is_late_has_no_estimate(clock):
    stage = Stage("training", total=4)
    for _ in range(3):
        clock[0] += 100
        stage.advance(1)
    clock[0] += 60
    assert stage.seconds_left == pytest.approx(40)
    clock[0] += 60  # not "about 0 s left" for as long as it takes
    assert stage.seconds_left is None
    stage.advance(1)
    assert stage.seconds_left is None  # nothing is left


def test_steps_of_unlike_length_have_no_estimate(clock):
    stage = Stage("writing", total=100)
    for seconds in (5, 0.1, 10, 0.1, 10):
        clock[0] += seconds
        stage.advance(1)
        assert stage.seconds_left is None


def test_only_whole_folds_of_unlike_members_tell_the_speed(clock):
    stage = Stage("cross-validation", total=4, cycle=1)
    for seconds in (20, 0.1, 0.1):  # members of the first fold, of which two are quick
        clock[0] += seconds
        stage.advance(1 / 4)
        assert stage.seconds_left is None
    clock[0] += 9.8
    stage.advance(1 / 4)
    assert stage.seconds_left == pytest.approx(3 * 30)
    clock[0] += 20
    stage.advance(1 / 4)
    clock[0] += 0.1
    stage.advance(1 / 4)
    assert stage.seconds_left == pytest.approx(3 * 30 - 20.1)


def test_folds_of_an_earlier_run_are_no_speed(clock):
    stage = Stage("cross-validation", total=4, done=2, cycle=1)
    assert stage.seconds_left is None
    clock[0] += 30
    stage.advance(1)
    assert stage.seconds_left == pytest.approx(30)


def test_a_slow_beginning_is_forgotten(clock):
    stage = Stage("sweep", total=100)
    clock[0] += 60  # compiling
    for _ in range(50):
        stage.advance(1)
        clock[0] += 1
    clock[0] -= 1
    assert stage.seconds_left == pytest.approx(50)


@pytest.mark.parametrize("before", [100, 400, 700])
def test_what_an_interrupted_run_had_done_is_no_speed(clock, before):
    stage = Stage("cross-validation", total=1_000)
    stage.advance(before)  # finished folds, reported at once
    assert stage.seconds_left is None
    clock[0] += 10
    stage.advance(1)
    assert stage.seconds_left is None  # one step is no speed
    for n_done in range(before + 2, before + 102):
        clock[0] += 10
        stage.advance(1)
        assert stage.seconds_left == pytest.approx(10 * (1_000 - n_done))


def test_many_reports_take_little_memory_and_keep_the_estimate(clock):
    stage = Stage("training", total=200_000)
    for _ in range(100_000):
        clock[0] += 0.01
        stage.advance(1)
    assert len(stage._points) <= 128
    assert stage.seconds_left == pytest.approx(1_000, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (60, "1:00 min"), (2_125, "35:25 min"), (7_300, "2:01:40 h")],
)  # fmt: skip
def test_durations(seconds, text):
    assert describe_seconds(seconds) == text


def test_a_step_without_reports_says_what_it_is_at_once(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_UPDATE_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_LINE_SECONDS", DELAY)
    with Progress(True).stage("compiling"):
        time.sleep(10 * DELAY)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compiling"
    assert lines[1] == "compiling: 0 s so far"
    assert lines[-1] == "compiling: took 0 s"
    assert len(lines) > 2


def test_compiling_says_so_until_the_work_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_UPDATE_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_LINE_SECONDS", DELAY)
    progress.note_activity("of no stage")
    with Progress(True).stage("sweep", 10) as advance:
        progress.note_activity("compiling")
        time.sleep(4 * DELAY)
        advance(1)
        time.sleep(4 * DELAY)
    first, *_, last, _ = capsys.readouterr().err.splitlines()
    assert first == "sweep (compiling)"
    assert "compiling" not in last
    assert not progress._running


def test_lines_say_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_UPDATE_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_LINE_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_MAX_ERROR", 10)  # a busy machine sleeps unevenly
    with Progress(True).stage("sweep 1 of 3", 10) as advance:
        for _ in range(5):
            time.sleep(4 * DELAY)
            advance(1)
        time.sleep(3 * DELAY)
    text = capsys.readouterr().err
    assert re.search(r"^sweep 1 of 3: 50%, \d s so far, about \d s left$", text, re.M)


def test_lines_tell_the_time_left_as_soon_as_it_is_known(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress._Lines, "_last", 0.0)
    stage = Stage("training", total=10)
    view = progress._Lines(stage)
    clock[0] += 1
    view.update()
    for _ in range(3):
        clock[0] += 2
        stage.advance(1)
        view.update()
        view.update()
    assert capsys.readouterr().err.splitlines() == [
        "training",
        "training: 30%, 7 s so far, about 14 s left",
    ]


def test_a_command_says_that_it_loads_packages(tmp_path, monkeypatch):
    stages = []

    def fail(_):
        stages.extend(stage.name for stage in progress._running)
        raise InputError("model", "is slow to load", "Wait")

    monkeypatch.setattr(learners, "find_learner_maker", fail)
    result = CliRunner().invoke(app, ["find", str(tmp_path), "--out", str(tmp_path / "run")])
    assert "is slow to load" in result.output
    assert stages == ["uqled find", "loading what the model needs"]


def test_a_stage_of_seconds_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    with Progress(True).stage("reading"):
        time.sleep(3 * DELAY)
    assert capsys.readouterr().err == "reading\n"


def test_a_short_step_and_a_silent_one_say_nothing(capsys, monkeypatch):
    with Progress(True).stage("short", 10) as advance:
        advance(10)
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    for show in (None, False):  # None: silent without a terminal
        with Progress(show).stage("silent", 10) as advance:
            time.sleep(DELAY)
            advance(10)
    assert capsys.readouterr().err == ""


def test_one_stage_is_shown_at_a_time(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_UPDATE_SECONDS", DELAY)
    monkeypatch.setattr(progress, "_LINE_SECONDS", DELAY)
    with Progress(True).stage("outer"):
        time.sleep(6 * DELAY)
        with Progress(True).stage("short"):
            pass
        with Progress().stage("inner"):  # shown as the one around it is
            time.sleep(6 * DELAY)
        time.sleep(6 * DELAY)
    with Progress(True).stage("next"):
        time.sleep(6 * DELAY)
    lines = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert [name for name, _ in groupby(lines)] == ["outer", "inner", "outer", "next"]


def test_a_stage_in_a_silent_one_is_silent(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress(False).stage("command"), Progress().stage("features"):
        time.sleep(DELAY)
    assert capsys.readouterr().err == ""


def test_what_a_command_compiles_is_forgotten_when_a_stage_begins():
    with Progress(False).stage("command"):
        progress.note_activity("compiling")
        with Progress(False).stage("reading"):
            pass
        assert progress._running[-1].activity == ""


def test_an_error_in_a_stage_ends_its_display(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)

    def fail():
        with Progress(True).stage("reading"):
            time.sleep(DELAY)
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        fail()
    text = capsys.readouterr().err
    assert "reading" in text
    assert "took" not in text
    assert not progress._running


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_terminal_has_a_bar_before_the_first_report():
    code = (
        "import time\n"
        "from uqled import progress\n"
        "progress._QUIET_SECONDS, progress._MAX_ERROR = 0.0, 10\n"
        "with progress.Progress().stage('training a network', 10) as advance:\n"
        "    for _ in range(6): time.sleep(0.4); advance(1)\n"
        "    time.sleep(0.3)\n"
    )
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=slave, env={**os.environ, "COLUMNS": "120"}
    )
    os.close(slave)
    output = b""
    try:
        while part := os.read(master, 4096):
            output += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait() == 0
    text = output.decode()
    assert "training a network" in text
    assert text.index("0%") < text.index("60%")
    assert "so far, about" in text


def test_a_notebook_shows_lines(monkeypatch):
    class KernelStream(io.StringIO):
        """As a kernel replaces standard error."""

    monkeypatch.setattr(sys, "stderr", KernelStream())
    assert Progress()._make_view is None
    KernelStream.__module__ = "ipykernel.iostream"
    assert Progress()._make_view is not None
    assert Progress(False)._make_view is None


def test_a_download_says_how_much_came(tmp_path, monkeypatch):
    # Far longer than this thread may be kept waiting; and its waits make the speed uneven.
    monkeypatch.setattr(progress, "_WATCH_SECONDS", 0.2)
    monkeypatch.setattr(progress, "_MAX_ERROR", math.inf)
    activities = []
    with Progress(False).stage("reading 'hf:photos'"):
        stage = progress._running[-1]
        with progress.note_download(tmp_path / "files", 4_000_000):
            activities.append(stage.activity)
            for number in range(1, 4):
                (tmp_path / "files").mkdir(exist_ok=True)
                (tmp_path / "files" / f"{number}.incomplete").write_bytes(bytes(1_000_000))
                until = time.monotonic() + 10
                while f"{number}.0 of" not in stage.activity and time.monotonic() < until:
                    time.sleep(0.005)
                activities.append(stage.activity)
    assert activities[0] == "downloaded 0.0 of 4.0 MB"
    assert [text.split(" MB")[0] for text in activities[1:]] == [
        f"downloaded {number}.0 of 4.0" for number in (1, 2, 3)
    ]
    assert activities[3].endswith(" left")
    assert progress.describe_download(Stage("download")) == "downloaded 0.0 MB"
