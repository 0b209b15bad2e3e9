"""`uqled audit` of a run: samples are drawn once, verdicts are read back, the answer follows."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import uqled
from made_predictions import make_predictions
from uqled.arrays import Labels
from uqled.cli import app
from uqled.review.audits import open_audit, read_audit_verdicts
from uqled.review.decisions import Decisions
from uqled.review.decisions.classes import decide_class
from uqled.storage.run import Run


@pytest.fixture
def run(tmp_path):
    data = make_predictions(7, N=400, K=4)
    run = Run.begin(tmp_path / "run", {})
    names = ("ant", "bee", "cat", "dog")
    labels = Labels(data.labels.astype(np.int32), np.array(names), names)
    run.write_data(labels, [f"{z}.png" for z in range(400)], None, np.zeros(400, np.int32))
    run.write_fold(0, data.softmax.astype(np.float32), data.passes.astype(np.float32))
    run.write_predictions([np.arange(400)], 4)
    return run, data.is_error


def audit(run, *options):
    result = CliRunner().invoke(app, ["audit", str(run.path), *options])
    return result.exit_code, result.output


def note(path, verdict_of):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "is_wrong": verdict_of(int(row["index"]))} for row in rows)
    return rows


def test_the_first_call_draws_and_later_ones_answer(run):
    run, is_error = run
    code, output = audit(run, "--size", "12")
    assert code == 0
    assert "12 samples are drawn" in output
    rows = note(run.path / "audit.csv", lambda z: "yes" if is_error[z] else "no")
    assert len(rows) == 12
    assert all(row["given_label"] != row["suggested_label"] for row in rows)
    code, output = audit(run, "--size", "300")  # the audit that was begun goes on
    assert code == 0
    n_wrong = sum(is_error[int(row["index"])] for row in rows)
    assert f"12 of 12 samples judged, {n_wrong} of them wrong" in output
    errors = uqled.find_label_errors(run.predictions())
    begun_audit = open_audit(run.path, errors, [], 1, 0)
    verdicts = {int(row["index"]): bool(is_error[int(row["index"])]) for row in rows}
    expected = uqled.estimate_audit(errors, begun_audit, verdicts).n_errors[0.8]
    assert f"80% interval {expected.low:,.0f} to {expected.high:,.0f}" in output


def test_verdicts_of_the_audit_change_the_flags(run):
    run, is_error = run
    assert audit(run, "--size", "40")[0] == 0
    note(run.path / "audit.csv", lambda z: "yes" if is_error[z] else "no")
    code, output = audit(run, "--json")
    assert code == 0
    result = json.loads(output)["result"]
    detection = CliRunner().invoke(app, ["detect", str(run.path), "--method", "auto", "--json"])
    assert detection.exit_code == 0, detection.output
    flags = json.loads(detection.stdout)["result"]["flagged"]
    assert flags == result["flagged"] != uqled.find_label_errors(run.predictions()).n_flagged


def test_decisions_of_the_review_page_count_and_the_file_wins(run):
    run, _ = run
    assert audit(run, "--size", "5")[0] == 0
    predictions = run.predictions()
    audit_indices = json.loads((run.path / "audit.json").read_text())["indices"]
    with Decisions.of(predictions) as decisions:
        decisions.decide(
            [(audit_indices[0], "keep", None), (audit_indices[1], "drop", None)], reviewer="ann"
        )
    assert read_audit_verdicts(predictions) == {audit_indices[0]: False, audit_indices[1]: True}
    note(
        run.path / "audit.csv",
        lambda z: {audit_indices[1]: "no", audit_indices[2]: " YES "}.get(z, ""),
    )
    assert read_audit_verdicts(predictions) == {
        audit_indices[0]: False,
        audit_indices[1]: False,
        audit_indices[2]: True,
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "audit.json",
            '{"indices": [0, 0], "inclusion": [0.5, 0.5]}',
            "is not an audit of this run",
        ),
        ("audit.json", '{"indices": [400], "inclusion": [0.5]}', "is not an audit of this run"),
        ("audit.json", '{"indices": [1], "inclusion": [0]}', "is not an audit of this run"),
        ("audit.json", "[1, 2]", "is not an audit of this run"),
        ("audit.csv", "index,is_wrong\n3,perhaps\n", "in line 2"),
        ("audit.csv", "index,is_wrong\n-3,yes\n", "in line 2"),
        ("audit.csv", "index,is_wrong\n400,yes\n", "in line 2"),
    ],
)
def test_what_does_not_fit_is_refused(run, name, content, message):
    run, _ = run
    audit(run, "--size", "5")
    (run.path / name).write_text(content)
    code, output = audit(run)
    assert code != 0
    assert message in " ".join(output.split())


def test_samples_between_merged_classes_need_no_verdict(run):
    run, is_error = run
    code, _ = audit(run, "--size", "40")
    assert code == 0
    errors = uqled.find_label_errors(run.predictions())
    given, suggested = errors.ranked_pairs[0][:2]
    with Decisions.of(run.predictions()) as decisions:
        decide_class(decisions, given, "merge", target=suggested, reviewer="ana")
    pair = {errors.labels.names[given], errors.labels.names[suggested]}
    codes, suggestions = errors.labels.codes, errors.suggested_codes
    with (run.path / "audit.csv").open(newline="") as file:
        drawn = [int(row["index"]) for row in csv.DictReader(file)]
    settled = {
        z for z in drawn if {errors.labels.names[k] for k in (codes[z], suggestions[z])} == pair
    }
    assert settled
    code, output = audit(run)
    assert f"{40 - len(settled)} samples are drawn" in output
    note(
        run.path / "audit.csv",
        lambda z: "" if z in settled else "yes" if is_error[z] else "no",
    )
    code, output = audit(run, "--json")
    content = json.loads(output)["result"]
    assert set(content["samples"]) == set(drawn) - settled
    assert content["judged"] == 40 - len(settled)
    assert content["wrong"] == sum(is_error[z] for z in drawn if z not in settled)


def test_a_suggestion_that_was_accepted_in_bulk_is_no_verdict(run):
    run, _ = run
    audit(run)
    predictions = run.predictions()
    drawn_samples = json.loads((run.path / "audit.json").read_text())["indices"]
    suggested = uqled.find_label_errors(predictions).suggested_codes
    first, second, *_ = (z for z in drawn_samples if suggested[z] != predictions.labels.codes[z])
    with Decisions.of(predictions) as decisions:
        items = [(z, "relabel", int(suggested[z])) for z in (first, second)]
        decisions.decide(items, reviewer="ana", in_bulk=True)
        assert read_audit_verdicts(predictions) == {}
        decisions.decide(items[:1], reviewer="ana")  # after a look
    assert read_audit_verdicts(predictions) == {first: True}
    note(run.path / "audit.csv", lambda z: "yes" if z == second else "")
    assert read_audit_verdicts(predictions) == {first: True, second: True}
    code, output = audit(run, "--json")
    assert code == 0
    assert json.loads(output)["result"]["judged"] == 2


def test_an_audit_of_merged_classes_has_nothing_to_judge(run):
    run, _ = run
    audit(run)
    predictions = run.predictions()
    suggested = uqled.find_label_errors(predictions).suggested_codes
    contradicted = np.flatnonzero(suggested != predictions.labels.codes)[:5]
    content = {"indices": contradicted.tolist(), "inclusion": [0.1] * 5}
    (run.path / "audit.json").write_text(json.dumps(content))
    with Decisions.of(predictions) as decisions:
        for index in range(1, 4):
            decide_class(decisions, index, "merge", target=0, reviewer="ana")
    code, output = audit(run)
    assert code == 0
    assert "are between merged classes, so there is nothing to judge" in output
    assert "audit.json" in output
