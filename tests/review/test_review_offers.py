"""Which suggestions may be accepted at once: only what the estimate and its verdicts carry."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from review_client import Client
from review_runs import image_run, open_session
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.promises import bound_errors, promise_errors
from uqled.detect.find import find_label_errors
from uqled.review.decisions import read_verdicts
from uqled.review.estimates import offer_bulk
from uqled.review.serve import serve_review


def make_estimate(probability, *, spread=0.0, verdicts=30):
    """Two readings of these probabilities, so far apart; after decisions on samples behind them."""
    probability = np.r_[probability, np.full(50, 0.5)]
    low, high = np.clip(probability - spread, 0, 1), np.clip(probability + spread, 0, 1)
    readings = {"a": low, "b": high}
    weights = dict.fromkeys(readings, 1.0)
    verdict_array = np.full(len(probability), -1, np.int8)
    verdict_array[len(probability) - verdicts :] = 1
    return ErrorEstimate(readings, weights, weights, known=verdict_array if verdicts else None)


def offers(first, current, decided_at_random=()):
    class Errors(list):
        pass

    pair = []
    for estimate in (first, current):
        errors = Errors(range(len(estimate.probability)))
        errors.estimate = estimate
        pair.append(errors)
    at_random = np.asarray(decided_at_random, np.intp)
    queue = np.argsort(-current.probability[:-50], kind="stable")
    queue = queue[~np.isin(queue, at_random)]
    return {(one.kind, one.n): one for one in offer_bulk(queue, *pair, at_random)}


def test_many_are_offered_where_the_estimate_carries_them():
    probability = np.r_[np.full(120, 0.99), np.full(80, 0.4)]
    estimate = make_estimate(probability)
    both_offers = offers(estimate, estimate)
    assert set(both_offers) == {
        ("next", 10),
        ("next", 25),
        ("next", 50),
        ("next", 100),
        ("above", 120),
    }
    above = both_offers["above", 120]
    assert above.errors.value == pytest.approx(118.8)
    assert [above.errors] == promise_errors(estimate, [np.arange(120)], confidence=0.95)
    assert above.errors.low == 117  # Poisson of 1.2 right labels exceeds 3 in one of thirty times
    assert sorted(above.indices) == list(range(120))
    for n in (50, 100):
        assert both_offers["next", n].errors.low >= 0.9 * n


def test_nothing_is_offered_where_the_estimate_does_not_carry_it():
    # Unsure: the readings differ widely.
    wide = make_estimate(np.full(200, 0.6), spread=0.35)
    assert wide.unsure is not None
    assert offers(wide, wide) == {}
    # Decisions from the top made the current estimate hopeful; the first one does not agree.
    first = make_estimate(np.full(200, 0.6))
    hopeful = make_estimate(np.full(200, 0.99))
    assert first.unsure is hopeful.unsure is None
    assert offers(first, hopeful) == {}
    assert offers(hopeful, first) == {}
    assert offers(hopeful, hopeful)
    # Before anybody looked at anything, probabilities are the model's word alone.
    assert offers(hopeful, make_estimate(np.full(200, 0.99), verdicts=19)) == {}
    assert offers(hopeful, make_estimate(np.full(200, 0.99), verdicts=0)) == {}


def test_flags_at_random_carry_an_offer_if_they_are_as_suspect():
    wide, first = make_estimate(np.full(200, 0.6), spread=0.35), make_estimate(np.full(200, 0.6))
    hopeful = make_estimate(np.full(200, 0.99))
    fifty = np.arange(50)
    hopeful.known[fifty] = 1  # all of them are errors
    for before in (wide, first):
        assert offers(before, hopeful, fifty[:-1]) == {}
        offer = offers(before, hopeful, fifty)
        assert set(offer) == {("next", n) for n in (10, 25, 50, 100)} | {("above", 150)}
        assert offer["next", 100].errors.low == bound_errors(np.ones(50), 100, confidence=0.95)
    assert offers(hopeful, wide, fifty) == offers(hopeful, first, fifty) == {}
    few = make_estimate(np.full(200, 0.99))
    few.known[fifty] = np.r_[np.ones(42), np.zeros(8)]  # they are not as suspect as it says
    assert offers(wide, few, fifty) == offers(first, few, fifty) == {}


# ---- what was accepted at once


def accept_all(estimate, codes, seen, in_bulk):
    """The estimate after verdicts on `seen` samples, and `in_bulk` ones accepted without a look."""
    actions, labels = np.zeros(len(codes), np.int8), np.full(len(codes), -1, np.int32)
    for action, samples in ((2, seen), (4, in_bulk)):
        actions[samples], labels[samples] = action, 1
    return estimate.with_verdicts(actions, labels, codes)


def test_what_was_accepted_at_once_is_no_evidence():
    probability = np.r_[np.full(150, 0.97), np.full(50, 0.9)]
    estimate = make_estimate(probability, spread=0.02, verdicts=0)
    codes = np.zeros(len(probability) + 50, np.int64)
    seen, rest = np.arange(200, 225), np.arange(150)
    before = accept_all(estimate, codes, seen, [])
    after = accept_all(estimate, codes, seen, rest[:100])
    assert after.forecast == pytest.approx(before.forecast)
    assert after.weights == before.weights
    assert (after.probability[rest[:100]] == 1).all()
    assert after.probability[rest[100:]] == pytest.approx(before.probability[rest[100:]])
    promises = [promise_errors(one, [rest[100:]], confidence=0.95) for one in (before, after)]
    assert promises[0] == promises[1]
    with_a_look = accept_all(estimate, codes, np.r_[seen, rest[:100]], [])
    assert with_a_look.forecast[120] > before.forecast[120]  # verdicts of a person do tell
    alone = accept_all(estimate, codes, [], rest)
    assert (alone.forecast == estimate.forecast).all()
    assert offers(estimate, alone) == {}  # nobody looked at anything


def test_an_offer_that_was_accepted_supports_no_other_one(tmp_path):
    run = image_run(tmp_path, N=800, margin=4.0)
    session, errors = open_session(run)
    flags = session.get_list(None)
    with serve_review(run, port=0) as address:
        client = Client(address)
        truth, codes = run.predictions().truth, errors.labels.codes
        for i in flags.list_undecided()[:30].tolist():
            action = ("keep", None) if truth[i] == codes[i] else ("relabel", int(truth[i]))
            client.decide([i, *action])
        before = session.estimate(flags)
        offer = before.bulk[0]
        forecast = flags.current.estimate.forecast
        answer = client.post(
            "api/decide-all",
            {"kind": offer.kind, "n": offer.n, "number": 30, "reviewer": "ana", "tab": "t"},
        )
        assert answer[1]["number_decided"] == offer.n
        session.update()
        assert (flags.current.estimate.forecast == forecast).all()
        accepted = list(offer.indices)
        assert session.state.in_bulk.nonzero()[0].tolist() == sorted(accepted)
        assert (session.state.actions[accepted] == 2).all()
        # The command line sees the same, from the file.
        verdicts = read_verdicts(run.predictions())
        assert (verdicts[0][accepted] == 4).all()
        outside = find_label_errors(run.predictions(), verdicts=verdicts)
        assert outside.probability == pytest.approx(flags.current.probability)
        # The same decision after a look is a verdict; taken back, it is none.
        first = accepted[0]
        label = int(session.state.labels[first])
        seen = {first: session.state.latest[first].version}
        assert client.decide([first, "relabel", label], seen_versions=seen)[0] == 200
        session.update()
        assert session.state.in_bulk.nonzero()[0].tolist() == sorted(accepted[1:])
        assert (flags.current.estimate.forecast != forecast).any()
        client.post("api/undo", {"reviewer": "ana", "tab": "t"})
        session.update()
        # Taken back, the earlier decision is again one without a look; seen again, it counts.
        assert session.state.in_bulk.nonzero()[0].tolist() == sorted(accepted)
        assert (read_verdicts(run.predictions())[0][accepted] == 4).all()
        seen = {first: session.state.latest[first].version}
        assert client.decide([first, "relabel", label], seen_versions=seen)[0] == 200
        session.update()
        assert session.state.in_bulk.nonzero()[0].tolist() == sorted(accepted[1:])
        client.post("api/undo", {"reviewer": "ana", "tab": "t"})
        client.post("api/undo", {"reviewer": "ana", "tab": "t"})
        session.update()
        assert not session.state.in_bulk.any()
        assert (session.state.actions[accepted] == 0).all()
        assert session.state.list_decided(np.ones(800, bool)).size == 30
    session.decisions.close()
