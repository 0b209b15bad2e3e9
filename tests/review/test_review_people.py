"""Two people: opinions stored, checked and measured, and every address behind the guard."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from review_client import Client
from review_runs import open_session
from uqled import InputError
from uqled.review.decisions.opinions import give_opinions, measure_agreement
from uqled.review.serve import serve_review

# ---- two people


def test_kappa_is_that_of_scikit_learn(decisions):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 50)
    first, second = rng.integers(0, 4, 30), rng.integers(0, 4, 30)
    second = np.where(rng.random(30) < 0.6, first, second)

    def items(answers):
        return [
            (i, "keep", None) if k == codes[i] else (i, "relabel", int(k))
            for i, k in enumerate(answers)
        ]

    decisions.decide(items(first), reviewer="bo")
    give_opinions(decisions, items(second), reviewer="ana")
    (agreement,) = measure_agreement(decisions, codes)
    assert agreement.reviewers == ("ana", "bo")
    assert agreement.kappa == pytest.approx(cohen_kappa_score(first, second))
    assert agreement.disagreements == np.flatnonzero(first != second).tolist()
    assert decisions.current()[0].reviewer == "bo"  # an opinion decides nothing


def test_an_opinion_is_about_somebody_elses_decision(decisions):
    decisions.decide([(3, "keep", None)], reviewer="ana")
    for reviewer, sample in (("ana", 3), ("bo", 4)):
        with pytest.raises(InputError, match="nobody else decided"):
            give_opinions(decisions, [(sample, "keep", None)], reviewer=reviewer)
    give_opinions(decisions, [(3, "drop", None)], reviewer="bo")
    give_opinions(decisions, [(3, "keep", None)], reviewer="bo")  # the later one counts
    (agreement,) = measure_agreement(decisions, np.zeros(50))
    assert (agreement.n, agreement.n_same, agreement.kappa) == (1, 1, None)


def test_what_is_settled_does_not_make_two_people_agree(decisions):
    codes = np.zeros(50, int)

    def read_agreement():
        (one,) = measure_agreement(decisions, codes)
        return one.n, one.n_same, round(one.kappa, 3), one.disagreements

    items = [(0, "keep", None), (1, "relabel", 1), (2, "relabel", 1), (3, "keep", None)]
    decisions.decide(items, reviewer="ana")
    give_opinions(decisions, [(i, "keep", None) for i in range(3)], reviewer="bo")
    give_opinions(decisions, [(3, "relabel", 1)], reviewer="bo")
    before = cohen_kappa_score([0, 1, 1, 0], [0, 0, 0, 1])
    assert read_agreement() == (4, 1, round(before, 3), [1, 2, 3])
    decisions.decide([(1, "keep", None)], reviewer="bo")  # they agreed that ana was wrong
    decisions.decide([(2, "relabel", 1)], reviewer="bo")  # ... and here that she was right
    assert read_agreement() == (4, 1, round(before, 3), [3])
    assert decisions.current()[2].reviewer == "bo"
    decisions.decide([(2, "relabel", 1)], reviewer="bo")  # it is settled: no change
    assert len(decisions.history()) == 6
    decisions.undo("bo")
    assert read_agreement() == (4, 1, round(before, 3), [2, 3])  # open again
    decisions.decide([(2, None, None)], reviewer="ana")
    assert read_agreement()[0] == 3  # nobody decides about it any more


def test_a_decision_that_an_undo_brought_back_can_be_confirmed(decisions):
    codes = np.zeros(50, int)
    decisions.decide([(1, "relabel", 1)], reviewer="ana")
    give_opinions(decisions, [(1, "keep", None)], reviewer="bo")
    decisions.decide([(1, "relabel", 2)], reviewer="ana")
    decisions.undo("ana")
    assert measure_agreement(decisions, codes)[0].disagreements == [1]
    decisions.decide([(1, "relabel", 1)], reviewer="ana")
    assert measure_agreement(decisions, codes)[0].disagreements == []


def test_others_learn_of_an_opinion(client):
    client.decide([1, "keep", None], reviewer="ana")
    answers = [client.json("api/changes")["opinions"]]
    body = {"items": [[1, "drop", None]], "reviewer": "bo"}
    for path in ("api/opinion", "api/undo", "api/opinion"):
        assert client.post(path, body | {"tab": "t"})[0] == 200
        answers.append(client.json("api/changes")["opinions"])
    assert answers[0] == answers[2]
    assert len(set(answers)) == 3


def test_two_browsers_agree_and_differ(client):
    client.decide([1, "keep", None], [2, "drop", None], reviewer="ana")
    assert client.json("api/agreement?reviewer=bo")["waiting"] == 2
    rows = client.json("api/samples?second=bo")["samples"]
    assert {row["index"] for row in rows} == {1, 2}
    assert all(row["action"] is None and row["reviewer"] is None for row in rows)  # hidden
    body = {"items": [[1, "keep", None], [2, "keep", None]], "reviewer": "bo"}
    assert client.post("api/opinion", body)[0] == 200
    answer = client.json("api/agreement?reviewer=bo")
    assert answer["waiting"] == 0
    assert answer["pairs"][0] | {"kappa": 0} == {
        "reviewers": ["ana", "bo"],
        "n": 2,
        "same": 1,
        "kappa": 0,
    }
    assert answer["differ"] == 1
    assert [row["index"] for row in client.json("api/samples?differ=1")["samples"]] == [2]
    opinions = client.json("api/sample/2")["opinions"]
    assert opinions == [{"reviewer": "bo", "action": "keep", "label": None}]
    for bad in ({}, {"items": []}, {"items": [[1]]}, body | {"reviewer": ""},
                body | {"items": [[9, "keep", None]]}):  # fmt: skip
        assert client.post("api/opinion", bad)[0] == 400


def test_undo_takes_back_what_was_done_last_opinions_too(client):
    def undo(reviewer="bo"):
        status, answer = client.post("api/undo", {"reviewer": reviewer, "tab": "t"})
        assert status == 200
        return answer["opinions"], answer["number_undone"]

    def read_opinions():
        rows = {i: client.json(f"api/sample/{i}")["opinions"] for i in (1, 2)}
        return {i: one[0]["action"] for i, one in rows.items() if one}

    client.decide([1, "keep", None], [2, "drop", None], reviewer="ana")
    client.decide([5, "drop", None], reviewer="bo")
    for items in ([[1, "drop", None]], [[1, "keep", None], [2, "keep", None]]):
        assert client.post("api/opinion", {"items": items, "reviewer": "bo"})[0] == 200
    assert undo("ana") == ([], 2)  # another person's opinions stay
    client.decide([1, "keep", None], [2, "drop", None], reviewer="ana")
    assert read_opinions() == {1: "keep", 2: "keep"}
    assert undo() == ([1, 2], 0)
    assert read_opinions() == {1: "drop"}  # the earlier one holds again
    client.decide([6, "drop", None], reviewer="bo")
    assert undo() == ([], 1)  # the decision was later
    assert undo() == ([1], 0)
    assert undo() == ([], 1)
    assert undo() == ([], 0)
    assert read_opinions() == {}


# ---- the guard


def test_every_address_is_behind_the_guard(run):
    from uqled.review.server.application import make_application

    session = open_session(run)[0]
    routes = [(route.path, route.methods) for route in make_application(session).routes]
    session.decisions.close()
    assert len(routes) > 20
    with serve_review(run, port=0) as address:
        client = Client(address)
        for path, methods in routes:
            target = path.removeprefix("/").replace("{index}", "0").replace("{name}", "page.js")
            body = {} if "POST" in methods else None
            method = "POST" if "POST" in methods else "GET"
            ask = client.request
            assert ask(method, f"/{target}", body, whole_path=True)[0] == 403, path
            assert ask(method, f"/wrong/{target}", body, whole_path=True)[0] == 403, path
            evil = {"Origin": "http://evil.example"}
            assert ask(method, target, body, headers=evil)[0] == 403, path
            assert ask(method, target, body, headers={"Host": "evil.example"})[0] == 421, path
            site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
            assert ask(method, target, body, headers=site)[0] == 403, path
            headers = ask(method, target, body)[1]
            assert "script-src 'self'" in headers["content-security-policy"], path
