"""The gate: exit codes, intervals, classes, baselines, and what CI systems read."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import uqled
from exports import decide, make_run
from uqled.check.judging import Outcome, judge_labels
from uqled.check.summaries import describe_judgement, render_junit, render_markdown
from uqled.cli import app
from uqled.data import Dataset

ROOT = Path(__file__).resolve().parents[2]
N, K = 600, 3
CLASSES = ["cat", "d|og", "<b>ship</b>"]


def make_errors(rate, seed=0, only_class=None):
    """A confident, accurate model, and labels of which this share is wrong."""
    rng = np.random.default_rng(seed)
    true = np.arange(N) % K
    is_error = rng.random(N) < rate
    if only_class is not None:
        is_error &= true == only_class
    labels = np.where(is_error, (true + 1) % K, true)
    probs = rng.dirichlet([0.3, 0.3, 0.3], N) * 0.04
    probs[np.arange(N), true] += 0.96
    data = Dataset.from_arrays(np.zeros((N, 1)), np.array(CLASSES)[labels], classes=CLASSES)
    return uqled.find_label_errors(data.labels, probs / probs.sum(1, keepdims=True)), is_error


@pytest.fixture(scope="module")
def dirty():
    return make_errors(0.1)


@pytest.fixture(scope="module")
def clean():
    return make_errors(0.005)


def test_passes_and_fails_by_the_lower_end_of_the_interval(dirty):
    errors, is_error = dirty
    [check] = judge_labels(errors, max_error_rate=0.03).checks
    assert check.outcome is Outcome.FAIL
    assert check.rate.low <= is_error.mean() <= check.rate.high
    low = check.rate.low
    just_below = judge_labels(errors, max_error_rate=low - 1e-6)
    assert just_below.outcome is Outcome.FAIL
    assert judge_labels(errors, max_error_rate=low + 1e-6).outcome is Outcome.PASS
    wider = judge_labels(errors, max_error_rate=low - 1e-6, confidence=0.99)
    assert wider.checks[0].rate.low < low
    assert wider.outcome is Outcome.PASS


def test_the_whole_agrees_with_the_answer(dirty):
    errors, _ = dirty
    [check] = judge_labels(errors, max_error_rate=0.03, confidence=0.8).checks
    assert check.rate.value * N == pytest.approx(errors.answer.n_errors.value)
    assert check.rate.low * N == pytest.approx(errors.answer.n_errors.low)
    assert check.rate.high * N == pytest.approx(errors.answer.n_errors.high)


def test_classes_are_judged_at_once():
    errors, _ = make_errors(0.4, only_class=1)
    judgement = judge_labels(errors, max_error_rate=0.02, per_class=True)
    outcomes = {check.name: check.outcome for check in judgement.checks}
    # A wrong label of a dog is counted in the class that it was given.
    assert outcomes["class <b>ship</b>"] is Outcome.FAIL
    assert outcomes["class cat"] is Outcome.PASS
    assert outcomes["class d|og"] is Outcome.PASS
    class_estimate = errors.estimate.sum_over(errors.labels.codes == 2, confidence=0.8)
    [ship] = [check for check in judgement.checks if check.name == "class <b>ship</b>"]
    n = int((errors.labels.codes == 2).sum())
    assert ship.rate.low < class_estimate.low / n  # wider, so that all classes hold at once
    assert ship.rate.value == pytest.approx(class_estimate.value / n)


def test_a_guess_is_no_failure_and_no_pass(dirty):
    errors, _ = dirty
    weak_errors = replace(errors)
    answer = replace(errors.answer, unsure="The model is at chance")
    weak_errors.__dict__["answer"] = answer
    limit = errors.answer.n_errors.value / N  # within the interval
    judgement = judge_labels(weak_errors, max_error_rate=limit)
    assert judgement.outcome is Outcome.CANNOT_TELL
    assert "The model is at chance" in describe_judgement(judgement)
    assert judge_labels(weak_errors, max_error_rate=0.9).outcome is Outcome.PASS
    assert judge_labels(weak_errors, max_error_rate=0.001).outcome is Outcome.FAIL


def test_without_an_estimate_nothing_can_be_told(dirty):
    errors, _ = dirty
    judgement = judge_labels(replace(errors, estimate=None), max_error_rate=0.5, per_class=True)
    assert judgement.outcome is Outcome.CANNOT_TELL
    assert "There is no estimate" in describe_judgement(judgement)


def test_a_model_at_chance_judges_nothing():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, K, N)
    errors = uqled.find_label_errors(labels, rng.dirichlet(np.ones(K), N))
    assert errors.answer.is_at_chance
    judgement = judge_labels(errors, max_error_rate=0.01, per_class=True)
    assert {check.outcome for check in judgement.checks} == {Outcome.CANNOT_TELL}


def test_a_baseline(dirty, clean):
    assert judge_labels(dirty[0], baseline=clean[0]).outcome is Outcome.FAIL
    assert judge_labels(clean[0], baseline=dirty[0]).outcome is Outcome.PASS
    assert judge_labels(dirty[0], baseline=dirty[0]).outcome is Outcome.PASS
    no_estimate = replace(clean[0], estimate=None)
    assert judge_labels(dirty[0], baseline=no_estimate).outcome is Outcome.CANNOT_TELL


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "max_error_rate is missing"),
        ({"max_error_rate": 3}, "max_error_rate is 3"),
        ({"max_error_rate": 0.1, "confidence": 1}, "confidence is 1"),
        ({"max_error_rate": 0.1, "confidence": 80}, "confidence is 80"),
        ({"per_class": True, "baseline": True}, "per_class needs a limit"),
    ],
)
def test_wrong_use(dirty, options, message):
    if "baseline" in options:
        options = options | {"baseline": dirty[0]}
    with pytest.raises(uqled.InputError, match=message):
        judge_labels(dirty[0], **options)


def test_markdown_and_junit_are_safe_and_well_formed(dirty):
    judgement = judge_labels(dirty[0], max_error_rate=0.03, per_class=True)
    markdown = render_markdown(judgement)
    assert "<b>" not in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {5}
    root = ElementTree.fromstring(render_junit(judgement))
    [suite] = root
    assert suite.get("tests") == "4"
    assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
    assert int(suite.get("failures")) >= 1
    assert {case.get("name") for case in suite} == {"all labels", *(f"class {c}" for c in CLASSES)}


def test_markdown_says_why_nothing_can_be_told(dirty):
    judgement = replace(judge_labels(dirty[0], max_error_rate=0.9), unsure="Too_few samples.")
    assert "Too" not in render_markdown(judgement)
    unknown = replace(judgement.checks[0], outcome=Outcome.CANNOT_TELL)
    lines = render_markdown(replace(judgement, checks=[unknown])).splitlines()
    assert lines[0] == "### Labels: cannot be judged"
    assert "Too&#95;few samples." in lines


# The command.


def invoke(*words, **options):
    return CliRunner().invoke(app, ["check", *map(str, words)], **options)


@pytest.fixture
def run(tmp_path):
    labels = np.array(["cat", "dog"])[np.arange(80) % 2]
    data = Dataset.from_arrays(np.zeros((80, 1)), labels)
    return make_run(tmp_path / "run", data, dict.fromkeys(range(0, 16, 2), 1))


def test_exit_codes(run, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    result = invoke(run, "--max-error-rate", 0.01, "--json", "--junit", tmp_path / "check.xml")
    assert result.exit_code == 1, result.output
    content = json.loads(result.stdout)["result"]
    assert content["outcome"] == "fail"
    assert content["checks"][0]["error_rate"]["low"] > 0.01
    assert ElementTree.parse(tmp_path / "check.xml").getroot().tag == "testsuites"
    result = invoke(run, "--max-error-rate", 0.9)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("passes: 80 labels")
    summary = (tmp_path / "summary.md").read_text()
    assert summary.count("### Labels") == 2  # of two steps of a job
    assert "### Labels: fails" in summary
    assert invoke(run).exit_code == 2
    assert invoke(tmp_path / "none", "--max-error-rate", 0.1).exit_code == 2
    result = invoke(run, "--max-error-rate", 0.1, "--junit", tmp_path / "no" / "x.xml")
    assert result.exit_code == 2
    assert "Make the folder first" in result.stderr


def test_decisions_of_reviewers_count(run):
    assert invoke(run, "--max-error-rate", 0.01).exit_code == 1
    decide(run, *((index, "keep", None) for index in range(80)))
    result = invoke(run, "--max-error-rate", 0.01)
    assert result.exit_code == 0, result.output
    assert "about 0.00% (0.00% to 0.00%)" in result.output


def test_a_baseline_of_an_earlier_run(run):
    result = invoke(run, "--baseline", run)
    assert result.exit_code == 0, result.output
    assert "compared with before" in result.output


# The files that bring the gate to other tools name commands and options that exist.


def read_yaml(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / name).read_text())


def check_commands(text):
    commands = typer.main.get_command(app).commands
    lines = re.findall(r"^ *(?:cmd: )?(uqled \w+ .*)$", text, re.M)
    lines += re.findall(r"options=\((.*)\)", text)
    for line in lines:
        words = shlex.split(line.split(" || ")[0].split(" > ")[0])
        name = words[1] if words[0] == "uqled" else "check"
        options = {flag for one in commands[name].params for flag in one.opts}
        assert {word for word in words if word.startswith("--")} <= options, line
    return len(lines)


def test_the_github_action():
    steps = read_yaml("action.yml")["runs"]["steps"]
    script = "\n".join(step.get("run", "") for step in steps)
    assert check_commands(script) == 3
    assert "${{" not in script  # an input in a script could be a command
    assert "--per-class" in script


def test_the_steps_of_the_action_do_what_they_say(tmp_path):
    """Its scripts run as GitHub runs them, with the inputs' defaults."""
    action = read_yaml("action.yml")
    _, _, find, check = action["runs"]["steps"]
    true, rng = np.arange(200) % 2, np.random.default_rng(0)
    label = np.where(rng.random(200) < 0.2, 1 - true, true)
    frame = pd.DataFrame({"size": 9 * true + rng.normal(size=200), "kind": label})
    frame.to_csv(tmp_path / "data.csv", index=False)
    inputs = {name: one.get("default", "") for name, one in action["inputs"].items()}
    inputs |= {"data": "data.csv", "options": "--label kind --model logistic -q"}
    output = tmp_path / "output"
    system = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    system |= {"PYTHONPATH": str(ROOT / "src"), "GITHUB_OUTPUT": str(output)}

    def run_step(step, rate):
        variables = {
            name: (inputs | {"max-error-rate": rate})[re.search(r"inputs\.([\w-]+)", value)[1]]
            for name, value in step["env"].items()
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=tmp_path, env=system | variables, check=False).returncode

    assert run_step(find, "") == 0
    assert run_step(check, "0.9") == 0
    assert run_step(check, "0.01") == 1
    junit = "junit=runs/check/check.xml"
    assert output.read_text().split() == [junit, "outcome=pass", junit, "outcome=fail"]
    assert (tmp_path / "runs/check/check.xml").exists()


def test_the_pre_commit_hook_and_the_dvc_pipeline():
    [hook] = read_yaml(".pre-commit-hooks.yaml")
    assert hook["entry"] == "uqled check"
    stages = read_yaml("examples/dvc/dvc.yaml")["stages"]
    assert check_commands("\n".join(stage["cmd"] for stage in stages.values())) == 2
    assert stages["check"]["deps"] == stages["find"]["outs"]
