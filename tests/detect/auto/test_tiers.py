"""Tiers, and what they are expected to hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, betabinom

import uqled
from uqled.answer import Estimate, describe_answer
from uqled.detect.auto import tiers
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.explanations import Explanations, count_scores
from uqled.detect.auto.tiers import AgreedShare, assign_tiers, estimate_tier

ROOT = Path(__file__).parents[3]


def make_estimate(agreement: float, *, n: int = 200, verdicts: str = "") -> ErrorEstimate:
    """The first half of n samples is certain by both explanations, the rest by one; the first
    samples have verdicts: `w`rong or `r`ight."""
    low, high = np.full(n, 0.97), np.full(n, 0.99)
    low[n // 2 :] = 0.3
    known = np.full(n, -1, np.int8)
    known[: len(verdicts)] = [verdict == "w" for verdict in verdicts]
    weights = {"level": 1.0, "confident": 1.0}
    estimate = ErrorEstimate({"level": low, "confident": high}, weights, weights)
    return replace(estimate, agreement=agreement, known=known if verdicts else None)


def test_the_constants_are_those_of_the_stored_history():
    stored = json.loads((ROOT / "benchmarks/results/auto_tier_history.json").read_text("utf-8"))
    fit = stored["fit"]
    constants = tiers.AGREED_LOG_ODDS, tiers.AGREED_SLOPE, tiers.AGREED_WORTH
    assert constants == pytest.approx((fit["log_odds"], fit["slope"], fit["worth"]), rel=2e-3)


def test_the_expected_share_falls_with_the_agreement_on_the_number():
    means = [AgreedShare.of_agreement(agreement).mean for agreement in (1, 0.5, 0.25, 0.1)]
    assert means == pytest.approx([0.945, 0.880, 0.759, 0.507], abs=0.002)
    assert 0 < AgreedShare.of_agreement(0.0).mean < 1e-9


@pytest.mark.parametrize("n", [20, 100, 10_000])
def test_the_interval_is_that_of_the_beta_binomial_distribution(n):
    share = AgreedShare(5.0, 0.9)
    one = share.predict(n)
    assert one.value == pytest.approx(beta.median(5.0, 0.9))
    # A number is whole, and a share of few labels is coarse.
    for end, part in ((one.low, 0.1), (one.high, 0.9)):
        assert end == pytest.approx(betabinom.ppf(part, n, 5.0, 0.9) / n, abs=0.006 + 1 / n)


def test_of_few_labels_any_share_may_be_wrong():
    share = AgreedShare(5.0, 0.9)
    widths = [one.high - one.low for n in (1, 3, 10, 1000) for one in [share.predict(n)]]
    assert share.predict(1).low == pytest.approx(0, abs=1e-6)
    assert widths == sorted(widths, reverse=True)


def test_the_first_tier_needs_explanations_that_agree_on_the_number_too():
    mask = np.ones(200, np.bool_)
    agreed = assign_tiers(make_estimate(1.0), mask)
    assert agreed.tolist() == [0] * 100 + [1] * 100
    at_odds = assign_tiers(make_estimate(0.2), mask)
    assert at_odds.tolist() == [1] * 200


def test_verdicts_count_beside_the_history():
    before = AgreedShare.of(make_estimate(0.2))
    after = AgreedShare.of(make_estimate(0.2, verdicts="w" * 9 + "r"))
    assert after.wrong == before.wrong + 9
    assert after.right == before.right + 1
    assert before.mean < tiers.CERTAIN_SHARE < after.mean
    # Nine verdicts of ten: the first tier is given now, without the label that is right.
    mask = np.ones(200, np.bool_)
    numbers = assign_tiers(make_estimate(0.2, verdicts="w" * 9 + "r"), mask)
    assert numbers[:100].tolist() == [0] * 9 + [2] + [0] * 90
    refuted = assign_tiers(make_estimate(1.0, verdicts="r" * 5 + "w"), mask)
    assert np.flatnonzero(refuted == 0).tolist() == [5]


def test_decided_labels_of_the_first_tier_are_certain():
    estimate = make_estimate(1.0, verdicts="w" * 60)
    tier = np.arange(200) < 100
    share = AgreedShare.of(estimate).predict(40)
    one = estimate_tier(estimate, 0, tier)
    assert one.value == pytest.approx((60 + 40 * share.value) / 100)
    assert one.low == pytest.approx((60 + 40 * share.low) / 100)
    assert estimate_tier(estimate, 0, np.arange(200) < 60) == Estimate(1, 1, 1)


def test_the_agreement_is_a_share_of_what_the_joint_counts():
    scores = np.linspace(-5, 5, 100)
    for level, confident, agreement in ((10.0, 40.0, 0.25), (40.0, 10.0, 1.0), (0.0, 0.0, 1.0)):
        numbers = {"level": level, "confident": confident, "trusting": 50.0}
        explanations = Explanations.of(numbers, count_scores(scores), 0.0)
        assert explanations.agreement == agreement
        assert explanations.estimate(scores).agreement == agreement


def test_verdicts_do_not_change_the_agreement():
    estimate = make_estimate(0.4).with_known_verdicts(np.array([1] + [-1] * 199, np.int8))
    assert estimate.agreement == 0.4


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.86, 0.95, "about 90% (86% to 95%)"),
        (0.8, 0.95, "80% to 95%"),
        (0.896, 0.904, "about 90%"),
    ],
)
def test_a_number_is_told_only_where_it_is_right_to_within_five_points(low, high, words):
    probs = np.random.default_rng(0).dirichlet([0.2, 0.2, 0.2], 500)
    answer = uqled.find_label_errors(probs.argmax(axis=1), probs).answer
    some = Estimate(0.9, low, high)
    text = describe_answer(replace(answer, precision=some, recall=some, unsure=None))
    assert f"\n{words} of the flags are real" in text
