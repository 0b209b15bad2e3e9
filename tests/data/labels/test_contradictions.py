"""Duplicates with different labels head every list that people see, and change no flag."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import uqled
from made_tables import make_news
from uqled.answer import describe_answer
from uqled.cli import app
from uqled.data.inspection.duplicates import find_contradictions
from uqled.detect.contradictions import find_contradicted_labels
from uqled.detect.find import find_errors_in_run
from uqled.export.corrections import correct_labels
from uqled.export.formats.label_studio import list_task_rows
from uqled.report.page import build_report
from uqled.report.report_inputs import collect_inputs
from uqled.review.decisions.store import Decisions
from uqled.review.flag_list import ListQuery
from uqled.review.session import ReviewSession
from uqled.storage.run import Run

OTHER_CLASS = {"sport": "money", "money": "world", "world": "sport"}


@pytest.fixture(scope="module")
def frame():
    """News, of which row 3 comes twice more with its label and once with another, written in
    capitals; row 8 comes once more, with another label."""
    frame = make_news()
    three, eight = frame.iloc[[3]], frame.iloc[[8]]
    loud = three.assign(
        label=OTHER_CLASS[frame.label[3]],
        title=frame.title[3].upper(),
        description=f" {frame.description[3]}",
    )
    other = eight.assign(label=OTHER_CLASS[frame.label[8]])
    return pd.concat([frame, three, three, loud, other], ignore_index=True)


@pytest.fixture(scope="module")
def run(frame, tmp_path_factory):
    """Predictions that contradict label 30, and that agree with the copies 122 and 123."""
    folder = tmp_path_factory.mktemp("news")
    frame.to_csv(folder / "news.csv", index=False)
    classes = sorted(set(frame.label))
    codes = frame.label.map(classes.index).to_numpy().copy()
    codes[30] = (codes[30] + 1) % 3
    probs = np.full((124, 3), 0.05) + 0.85 * np.eye(3)[codes]
    probs[8] = 0.5 * probs[8] + 0.5 / 3  # less sure of row 8 than of its copy
    return uqled.make_run(None, probs, out=folder / "run", data=str(folder / "news.csv"))


def test_the_label_of_most_leads_and_the_scores_decide_among_equals():
    sets = np.array([0, 0, 0, 1, 1, -1, 2, 2])
    codes = np.array([2, 1, 2, 0, 1, 0, 1, 0])
    scores = np.array([0.1, 0.9, 0.1, 0.3, 0.8, 0.0, 0.5, 0.5])
    contradictions = find_contradicted_labels(sets, codes, scores)
    assert contradictions.rows.tolist() == [3, 6, 1]
    assert contradictions.leading.tolist() == [1, 0, 2]
    assert contradictions.duplicates.tolist() == [4, 7, 0]
    assert not len(find_contradicted_labels(np.full(0, -1), codes, scores).rows)


def test_flags_and_scores_are_those_of_the_model(run):
    errors = uqled.find_label_errors(run)
    model_errors = uqled.find_label_errors(run.labels, run.pred_probs)
    assert errors.mask.tolist() == model_errors.mask.tolist()
    assert errors.scores.tolist() == model_errors.scores.tolist()
    assert (
        errors.ranked.tolist()
        == model_errors.ranked.tolist()
        == model_errors.suspects.tolist()
        == [30]
    )


def test_contradictions_come_first_with_their_reason(run, frame):
    assert np.flatnonzero(run.contradictions >= 0).tolist() == [3, 8, 120, 121, 122, 123]
    errors = find_errors_in_run(run)
    assert set(errors.suspects[:2]) == {8, 122}
    assert errors.suspects[2:].tolist() == [30]
    assert errors.suggested[122] == frame.label[3]
    assert errors.suggested[8] == frame.label[123]
    assert set(errors.tier[[8, 122]]) == {"contradicts a duplicate"}
    assert sum(tier.n_samples for tier in errors.tiers) == np.sum(
        (errors.tier != "") & (errors.tier != "contradicts a duplicate")
    )
    text = describe_answer(errors.answer, ids=run.ids)
    assert "2 labels contradict a duplicate, so one of the two is certainly wrong" in text
    rows = [line.split() for line in text.partition("most suspect:")[2].splitlines()[2:5]]
    assert {(row[0], row[-1]) for row in rows[:2]} == {("8", "123"), ("122", "3")}
    assert rows[2][0] == "30"
    first = list_task_rows(errors, {})
    assert (set(first[:2].tolist()), first[2:].tolist()) == ({8, 122}, [30])


def test_what_is_suggested_is_counted_and_exported(run):
    """Also where the model predicts a third class: the label of the duplicates is suggested."""
    errors = uqled.find_label_errors(run, budget=len(run))
    third = ({0, 1, 2} - {int(run.labels.codes[122]), int(errors.suggested_codes[122])}).pop()
    errors = replace(errors, best=np.where(np.arange(len(run)) == 122, third, errors.best))
    assert errors.mask.all()
    pairs = Counter(zip(errors.given.tolist(), errors.suggested.tolist(), strict=True))
    assert {(i, j): n for i, j, n in errors.answer.confused_pairs} == pairs
    corrected = correct_labels(run.labels, errors, unreviewed="relabel")
    assert corrected.codes.tolist() == errors.suggested_codes.tolist()
    assert corrected.codes[122] == run.labels.codes[3] != third


def test_the_report_shows_them_first(run):
    errors = find_errors_in_run(run)
    report = build_report(errors, collect_inputs(errors.labels, run, None, None, None), top=10)
    assert {card.id for card in report.suspects[:2]} == {"8", "122"}
    assert [card.reason for card in report.suspects[:2]] == ["contradicts a duplicate"] * 2
    assert "labelled" in report.suspects[0].sentence
    assert report.answer[0].startswith("2 labels contradict a duplicate")
    assert (report.reasons[0].reason, report.reasons[0].number) == ("contradicts a duplicate", 2)


def test_the_review_lists_them_first_and_follows_decisions(run, tmp_path):
    errors = find_errors_in_run(run)
    decisions = Decisions(
        tmp_path / "decisions.sqlite", n_samples=len(run), classes=run.labels.names
    )
    session = ReviewSession(run, errors, decisions, None, reviewer="anna")
    flags = session.get_list(None)
    order = flags.order(ListQuery("auto"))
    assert (set(order[:2].tolist()), order[2:].tolist()) == ({8, 122}, [30])
    rows = flags.describe_samples(order[:2], np.arange(2))
    assert {row["reason"] for row in rows} == {"contradicts a duplicate"}
    assert {row["tier"] for row in rows} == {"contradicts a duplicate"}
    chosen_flags = flags.select(ListQuery("auto", reason="contradicts a duplicate"))
    assert set(chosen_flags.tolist()) == {8, 122}
    assert flags.count_overview()["reasons"][0] == 2
    evidence = session.evidence.collect(122, flags)
    assert [one["index"] for one in evidence["duplicates"]] == [3, 120, 121]
    decisions.decide([(8, "keep", None)], reviewer="anna")  # then its copy is the wrong one
    session.update()
    assert 123 in flags.list_undecided()[:2]
    assert 8 in flags.order(ListQuery("auto"))


def test_the_command_and_the_table(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("news.csv", index=False)
    words = ["find", "news.csv", "--model", "logistic", "--uncertainty", "none", "--folds", "2"]
    result = CliRunner().invoke(app, [*words, "--out", "run", "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)["result"]
    assert answer["contradicted"] == 2
    first = {one["index"]: one["duplicate"] for one in answer["most_suspect"][:2]}
    assert first[122] == 3
    assert first.keys() <= {8, 122, 123}
    table = pd.read_parquet("run/issues.parquet").sort_values("rank")
    assert set(table["index"][:2]) == set(first)
    assert table["tier"].tolist()[:2] == ["contradicts a duplicate"] * 2
    assert table["rank"].notna().sum() == len(
        find_errors_in_run(Run.open("run").predictions()).suspects
    )
    (tmp_path / "run" / "contradictions.npy").write_bytes(b"nonsense")
    result = CliRunner().invoke(app, ["report", "run"])
    assert (result.exit_code, "contradictions.npy" in result.output) == (2, True)
    np.save("run/contradictions.npy", np.zeros(5, np.int32))
    result = CliRunner().invoke(app, ["report", "run"])
    assert (result.exit_code, "does not number the sets of 124 samples" in result.output) == (
        2,
        True,
    )


def test_what_shows_nothing_contradicts_nothing():
    texts = ["", "  ", "good film", "bad film"] * 5
    assert find_contradictions(uqled.Dataset.from_arrays(texts, ["x", "y"] * 10)) is None
    images = np.zeros((20, 4, 4, 3), np.uint8)
    assert find_contradictions(uqled.Dataset.from_arrays(images, ["x", "y"] * 10)) is None
    rows = pd.DataFrame({"size": [1, 2, 3] * 20, "shape": ["a", "b"] * 30})  # repeat by chance
    labels = ["x", "y", "z", "x"] * 15
    assert find_contradictions(uqled.Dataset.from_arrays(rows, labels)) is None


def test_the_same_image_with_two_labels():
    images = np.random.default_rng(0).integers(0, 255, (20, 8, 8, 3), dtype=np.uint8)
    images[7] = images[2]
    sets, _ = find_contradictions(uqled.Dataset.from_arrays(images, ["x", "y"] * 10))
    assert np.flatnonzero(sets >= 0).tolist() == [2, 7]
    images[7, 0] = 255 - images[7, 0]
    assert find_contradictions(uqled.Dataset.from_arrays(images, ["x", "y"] * 10)) is None


def test_the_same_row_with_two_labels():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 4)), columns=list("abcd"))
    rows.loc[7] = rows.loc[2]
    sets, _ = find_contradictions(uqled.Dataset.from_arrays(rows, ["x", "y"] * 40))
    assert np.flatnonzero(sets >= 0).tolist() == [2, 7]
