"""What is probably wrong after so many decisions, beside `with_verdicts` called directly."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from review_runs import image_run
from uqled.answer import Estimate
from uqled.cli import app
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions, read_verdicts
from uqled.review.estimates import list_random_verdicts
from uqled.review.flag_list import ListQuery
from uqled.review.session import ReviewSession


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return image_run(tmp_path_factory.mktemp("outlook"), N=900)


@pytest.fixture(scope="module")
def predictions(run):
    return run.predictions()


@pytest.fixture(scope="module")
def errors(predictions):
    return find_label_errors(predictions, method="all")


@pytest.fixture
def session(errors, predictions, tmp_path):
    classes = predictions.labels.names
    with Decisions(tmp_path / "d.sqlite", n_samples=len(predictions), classes=classes) as store:
        yield ReviewSession(predictions, errors, store, None, reviewer="ana")


def decide(session, items):
    session.decisions.decide(items, reviewer="ana")


def right(predictions, indices):
    """What somebody decides who knows the truth."""
    truth, labels = predictions.truth, predictions.labels.codes
    return [
        (i, "keep", None) if truth[i] == labels[i] else (i, "relabel", int(truth[i]))
        for i in np.asarray(indices).tolist()
    ]


def test_numbers_are_those_of_detection_with_verdicts(errors, predictions, session):
    given_labels, N = errors.labels.codes, len(errors)
    a, b, c, d, e = errors.ranked[:10:2].tolist()
    unflagged = int(np.flatnonzero(~errors.mask)[0])
    other = int((given_labels[b] + 1) % 4)
    decide(session, [(a, "keep", None), (b, "relabel", other), (c, "drop", None)])
    decide(session, [(d, "relabel", int(given_labels[d])), (unflagged, "drop", None)])
    decide(session, [(e, "keep", None)])
    decide(session, [(e, None, None)])  # undecided again
    actions, labels = np.zeros(N, np.int8), np.full(N, -1)
    actions[[a, b, c, d, unflagged]] = [1, 2, 3, 2, 3]
    labels[[b, d]] = [other, given_labels[d]]
    expected = find_label_errors(predictions, method="all", verdicts=(actions, labels))
    for method in ("auto", "argmax"):
        one = expected.by_method[method]
        estimates = session.estimate(session.get_list(method))
        assert (estimates.method, estimates.verdicts, estimates.samples) == (method, 5, N)
        assert estimates.number == session.state.number == 7
        assert estimates.flagged == one.n_flagged
        assert estimates.wrong == one.answer.n_errors
        assert estimates.real == one.answer.precision
        assert estimates.recall == one.answer.recall
        # Decided as wrong: b, c and, though not flagged, one more. As right: a and d.
        assert 3 <= estimates.wrong.low <= estimates.wrong.high <= N - 2
        undecided = one.probability[actions == 0].sum()
        assert estimates.left.value == pytest.approx(undecided)
        assert estimates.left.high == estimates.wrong.high - 3
        flagged = one.probability[one.mask & (actions == 0)].sum()
        assert estimates.left_flagged == pytest.approx(flagged)


def test_before_any_decision_it_is_detections_own(errors, session):
    estimates = session.estimate(session.get_list("auto"))
    assert estimates.wrong == estimates.left == errors.answer.n_errors
    assert estimates.real == errors.answer.precision
    assert estimates.verdicts == estimates.number == 0
    n, number = estimates.next_errors
    assert n == 20
    assert number == pytest.approx(errors.probability[errors.ranked[:20]].sum())


def test_all_decided_is_the_truth(errors, predictions, session):
    is_error = predictions.truth != predictions.labels.codes
    decide(session, right(predictions, np.arange(len(errors))))
    estimates, n = session.estimate(session.get_list("auto")), int(is_error.sum())
    assert estimates.wrong == Estimate(n, n, n)
    assert estimates.left == Estimate(0, 0, 0)
    assert estimates.real == Estimate(1, 1, 1)
    assert (estimates.unsure, estimates.bulk, estimates.next_errors) == (None, [], (0, 0.0))


def test_what_is_taken_back_counts_no_more(errors, session):
    flags = session.get_list("auto")
    before = session.estimate(flags)
    decide(session, [(int(i), "keep", None) for i in errors.ranked[:40]])
    after = session.estimate(flags)
    assert after.wrong.value < before.wrong.value - 10  # forty flags were no errors
    assert after.left.high <= len(errors) - 40
    session.decisions.undo("ana")
    again = session.estimate(flags)
    assert (again.wrong, again.real, again.left) == (before.wrong, before.real, before.left)


def test_it_is_computed_once_per_change(session, monkeypatch):
    calls = []
    as_it_is = ErrorEstimate.with_verdicts

    def count_call(*arguments):
        calls.append(1)
        return as_it_is(*arguments)

    monkeypatch.setattr(ErrorEstimate, "with_verdicts", count_call)
    decide(session, [(3, "drop", None)])
    names = ("auto", "auto", "argmax", "auto")
    estimates = [session.estimate(session.get_list(name)) for name in names]
    assert len(calls) == 1
    assert estimates[0] is estimates[1] is estimates[3]
    decide(session, [(4, "drop", None)])
    assert session.estimate(session.get_list("auto")) is not estimates[0]
    assert len(calls) == 2


def test_probabilities_follow_and_the_decided_keep_theirs(errors, session):
    flags = session.get_list("auto")
    first, *others = errors.ranked[:41].tolist()

    def get_probability(index):
        return flags.describe_samples(np.array([index]), np.array([0]))[0]["wrong"]

    before = errors.probability
    assert get_probability(first) == round(before[first], 4)
    decide(session, [(i, "keep", None) for i in others])
    session.state.refresh()
    assert get_probability(first) == round(before[first], 4)  # it does not wait for a new estimate
    session.estimate(flags)
    actions, labels = session.decisions.verdicts(len(errors))
    after = errors.estimate.with_verdicts(actions, labels, errors.labels.codes).probability
    assert get_probability(first) == round(after[first], 4) != round(before[first], 4)
    assert get_probability(others[0]) == round(before[others[0]], 4)


def test_without_an_estimate_there_are_no_numbers(predictions, tmp_path):
    errors = find_label_errors(predictions, method="argmax")
    classes = predictions.labels.names
    with Decisions(tmp_path / "d.sqlite", n_samples=len(predictions), classes=classes) as store:
        session = ReviewSession(predictions, errors, store, None, reviewer="ana")
        flags = session.get_list("argmax")
        assert session.estimate(flags) is None
        assert flags.describe_samples(errors.ranked[:1], np.array([0]))[0]["wrong"] is None


def test_a_hundred_are_the_same_ones_every_time(errors, predictions, session):
    flags = session.get_list("auto")
    query = ListQuery("auto", order="hundred")
    page = flags.read_page(query, start=0, size=200)
    at_random = flags.read_page(ListQuery("auto", order="random"), start=0, size=100)
    assert page.indices.tolist() == at_random.indices.tolist()
    assert (page.total, page.undecided) == (100, 100)
    ranks = [errors.ranked.tolist().index(i) for i in page.indices]
    assert np.corrcoef(ranks, np.arange(100))[0, 1] < 0.3  # not by rank
    assert session.estimate(flags).open_hundred == 100
    decide(session, right(predictions, page.indices[:30]))
    assert session.estimate(flags).open_hundred == 70
    undecided = ListQuery("auto", order="hundred", state="undecided")
    left = flags.read_page(undecided, start=0, size=99)
    assert left.indices.tolist() == page.indices[30:].tolist()


def test_only_decisions_in_the_random_order_count_as_random(errors, session):
    flags = session.get_list("auto")
    decide(session, [(int(i), "keep", None) for i in errors.ranked[:60]])
    session.update()
    from_the_top = len(list_random_verdicts(flags))
    assert from_the_top < 60
    decide(session, [(int(i), "keep", None) for i in flags.random_order[:70]])
    session.update()
    assert len(list_random_verdicts(flags)) >= 70


# ---- over HTTP


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    from review_client import Client
    from uqled.review.serve import serve_review

    run = image_run(tmp_path, N=900)
    with serve_review(run, port=0) as address:
        yield run, Client(address)


def test_the_server_tells_it_without_detecting_again(server, monkeypatch):
    run, client = server
    errors = find_label_errors(run.predictions(), method="all")
    chosen_samples = errors.ranked[:30].tolist()
    actions = np.zeros(len(errors), np.int8)
    actions[chosen_samples] = 3
    verdicts = actions, np.full(len(errors), -1)
    expected = find_label_errors(run.predictions(), method="all", verdicts=verdicts)
    monkeypatch.setattr("uqled.detect.find.collect_evidence", None)
    before = client.json("api/estimates")["estimates"]
    assert before["wrong"]["value"] == errors.estimate.number.value
    assert client.decide(*[[i, "drop", None] for i in chosen_samples])[0] == 200
    for method in ("auto", "argmax"):
        estimates = client.json(f"api/estimates?method={method}")["estimates"]
        answer = expected.by_method[method].answer
        assert estimates["verdicts"] == 30
        assert estimates["number"] == client.json("api/changes")["number"]
        for name, one in (("wrong", answer.n_errors), ("real", answer.precision)):
            assert estimates[name] == pytest.approx(vars(one))
    assert client.get("api/estimates?method=nothing")[0] == 400
    rows = client.json("api/samples?state=undecided&size=50")["samples"]
    undecided = [i for i in expected.ranked.tolist() if i not in chosen_samples]
    assert [row["index"] for row in rows] == undecided[:50]  # the list follows
    assert rows[0]["wrong"] == round(float(expected.probability[rows[0]["index"]]), 4)


def test_a_decision_does_not_wait_for_the_estimate(server, monkeypatch):
    _, client = server
    is_computing, go_on = threading.Event(), threading.Event()
    as_it_is = ErrorEstimate.with_verdicts

    def slow(*arguments):
        is_computing.set()
        assert go_on.wait(20)
        return as_it_is(*arguments)

    monkeypatch.setattr(ErrorEstimate, "with_verdicts", slow)
    assert client.decide([1, "drop", None])[0] == 200
    estimates = []
    path = "api/estimates"
    thread = threading.Thread(target=lambda: estimates.append(client.json(path)["estimates"]))
    thread.start()
    try:
        assert is_computing.wait(20)
        began = time.monotonic()
        assert client.decide([2, "drop", None])[0] == 200
        assert client.get("api/samples?size=10")[0] == 200
        assert client.get("api/changes?after=0")[0] == 200
        assert time.monotonic() - began < 10
        assert not estimates
    finally:
        go_on.set()
        thread.join(20)
    assert estimates[0]["number"] == 1  # of when it was begun; the page asks again
    assert client.json("api/estimates")["estimates"]["number"] == 2


def test_an_offer_is_accepted_as_a_whole_and_taken_back_as_one(server):
    run, client = server
    errors = find_label_errors(run.predictions(), method="all")
    assert client.json("api/estimates")["estimates"]["bulk"] == []
    shuffled_data = client.json("api/samples?order=hundred&size=40")["samples"]
    items = right(run.predictions(), [row["index"] for row in shuffled_data])
    assert client.decide(*map(list, items))[0] == 200
    before = read_verdicts(run.predictions())
    estimates = client.json("api/estimates")["estimates"]
    offer = max(estimates["bulk"], key=lambda one: one["n"], default=None)
    assert offer is not None
    body = {"kind": offer["kind"], "n": offer["n"], "number": estimates["number"]}
    body |= {"reviewer": "ana", "tab": "t"}
    for bad in ({"n": offer["n"] + 1}, {"kind": "all"}, {"kind": None}, {"n": None},
                {"number": -1}, {"number": None}, {"n": 10**6}):  # fmt: skip
        assert client.post("api/decide-all", body | bad)[0] == 400, bad
    assert read_verdicts(run.predictions())[0].tolist() == before[0].tolist()
    status, answer = client.post("api/decide-all", body)
    assert (status, answer["number_decided"]) == (200, offer["n"])
    actions, labels = read_verdicts(run.predictions())
    decided_samples = np.flatnonzero((actions > 0) & (before[0] == 0))
    assert len(decided_samples) == offer["n"]
    assert set(decided_samples) <= set(errors.ranked.tolist())
    assert labels[decided_samples].tolist() == errors.best[decided_samples].tolist()
    assert client.post("api/decide-all", body)[0] == 400  # somebody decided meanwhile
    assert client.post("api/undo", {"reviewer": "ana", "tab": "t"})[0] == 200
    assert read_verdicts(run.predictions())[0].tolist() == before[0].tolist()


# ---- detection once more


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def own_run(tmp_path):
    return image_run(tmp_path, N=400)


def test_detect_uses_what_was_decided(own_run):
    predictions = own_run.predictions()
    errors_before = find_label_errors(predictions)
    result = invoke("detect", own_run.path, "--recall", "0.8")
    assert result.exit_code == 0, result.output
    assert "decisions" not in result.output
    assert not (own_run.path / "decisions.sqlite").exists()  # nobody reviewed
    assert read_verdicts(predictions) is None

    with Decisions.of(predictions) as decisions:
        assert read_verdicts(predictions) is None
        decisions.decide(right(predictions, errors_before.ranked[:30]), reviewer="ana")
        verdicts = decisions.verdicts(len(predictions))
    result = invoke("detect", own_run.path)  # at the operating point that the run has
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Reviewers' decisions so far (30) are taken as certain")
    expected = find_label_errors(predictions, recall=0.8, verdicts=verdicts)
    assert f"about {expected.estimate.number.value:,.0f} labels are wrong" in result.output
    table = pd.read_parquet(own_run.path / "issues.parquet")
    assert table["is_label_issue"].tolist() == expected.mask.tolist()
    np.testing.assert_array_equal(table["error_probability"], expected.probability)
    assert json.loads((own_run.path / "detection.json").read_text()) == {
        "method": "auto",
        "options": {"recall": 0.8},
    }

    out = own_run.path.parent / "issues.csv"
    result = invoke("detect", own_run.path, "--no-decisions", "--target", "f1", "--out", out)
    assert result.exit_code == 0, result.output
    assert "decisions" not in result.output
    assert pd.read_csv(out)["is_label_issue"].tolist() == errors_before.mask.tolist()
    assert pd.read_parquet(own_run.path / "issues.parquet").equals(table)  # the run stays as it is
    assert own_run.detection() == ("auto", {"recall": 0.8})

    result = invoke("detect", own_run.path, "--method", "cl-pbnr")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Reviewers' decisions so far (30) are not used: cl-pbnr")
    assert own_run.detection() == ("cl-pbnr", {})


def test_detect_refuses_a_run_beside_files(own_run):
    for words in (["--labels", "x.npy"], ["--pred-probs", "x.npy"], ["--classes", "a,b"]):
        result = invoke("detect", own_run.path, *words)
        assert result.exit_code == 2
        assert "cannot be combined with a run" in result.stderr
    result = invoke("detect")
    assert result.exit_code == 2
    assert "name a run" in result.stderr
