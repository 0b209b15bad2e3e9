"""Which suggestions may be accepted at once: only what the estimate and its verdicts carry."""

from __future__ import annotations

import numpy as np
import pytest

from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.promises import bound_errors, promise_errors
from uqled.review.estimates import offer_bulk


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
    estimate = make_estimate(np.full(200, 0.99))
    estimate.known[fifty] = np.r_[np.ones(42), np.zeros(8)]  # they are not as suspect as it says
    assert offers(wide, estimate, fifty) == offers(first, estimate, fifty) == {}
