"""What is promised before labels are changed unseen, against draws of what may be true."""

from __future__ import annotations

import numpy as np
import pytest

from uqled.detect.auto import promises
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.promises import bound_errors, find_alike_verdicts, promise_errors


def make_estimate(probability, n_right, n_wrong):
    """An estimate of these probabilities, with verdicts on samples of 0.9 behind them."""
    n = n_right + n_wrong
    readings = {"a": np.r_[probability, np.full(n, 0.9)]}
    verdicts = np.full(len(readings["a"]), -1, np.int8)
    verdicts[len(probability) :] = np.r_[np.zeros(n_right), np.ones(n_wrong)]
    weights = {"a": 1.0}
    return ErrorEstimate(readings, weights, weights).with_known_verdicts(verdicts)


def draw_numbers(n, n_right, n_wrong, draws=200_000):
    """How many of n labels of 0.97 are wrong, in worlds with the same verdicts on labels of 0.9."""
    rng = np.random.default_rng(1)
    slope, shift = rng.normal(1, 1, draws), rng.normal(0, 1, draws)  # before any verdict

    def correct(p):
        return 1 / (1 + np.exp(-(slope * np.log(p / (1 - p)) + shift)))

    is_alike = rng.binomial(n_right + n_wrong, correct(0.9)) == n_wrong
    return rng.binomial(n, correct(0.97))[is_alike]


@pytest.mark.parametrize(("n", "n_right"), [(10, 1), (60, 1), (250, 1), (60, 0), (60, 4)])
def test_the_lower_end_is_that_of_worlds_with_the_same_verdicts(n, n_right):
    estimate = make_estimate(np.full(300, 0.97), n_right, 30 - n_right)
    numbers = draw_numbers(n, n_right, 30 - n_right)
    [promise] = promise_errors(estimate, [np.arange(n)], confidence=0.95)
    # Poisson's tail is a little longer than the binomial one.
    quantile = np.quantile(numbers, 0.05)
    assert quantile - 0.02 * n - 1 <= promise.low <= quantile + 0.02 * n
    mask = np.arange(len(estimate.probability)) < n
    interval = estimate.sum_over(mask, confidence=0.95)
    assert (promise.value, promise.high) == (interval.value, interval.high)


def test_a_symmetric_interval_promised_too_much():
    estimate = make_estimate(np.full(300, 0.97), 2, 28)
    numbers = draw_numbers(250, 2, 28)
    mask = np.arange(len(estimate.probability)) < 250
    before = estimate.sum_over(mask, confidence=0.95).low
    assert (numbers < np.floor(before)).mean() > 0.05  # 0.025 was meant
    [promise] = promise_errors(estimate, [np.arange(250)], confidence=0.95)
    assert (numbers < np.floor(promise.low)).mean() == pytest.approx(0.05, abs=0.015)


def test_of_many_labels_probabilities_are_counted(monkeypatch):
    rng = np.random.default_rng(0)
    estimate = make_estimate(rng.uniform(0.7, 0.99, 5_000), 3, 57)
    indices = np.arange(5_000)
    [promise_of_counts] = promise_errors(estimate, [indices], confidence=0.95)
    monkeypatch.setattr(promises, "_BINS", 10_000)
    [promise_of_sum] = promise_errors(estimate, [indices], confidence=0.95)
    assert promise_of_counts.low == pytest.approx(promise_of_sum.low, rel=2e-3)


def test_readings_count_as_the_verdicts_make_them():
    """Two readings between which few verdicts do not decide: the worse one bounds the promise."""
    high, low = np.full(100, 0.97), np.full(100, 0.7)
    estimate = ErrorEstimate({"a": high, "b": low}, {"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    promise = promise_errors(estimate, [np.arange(100)], confidence=0.95)[0]
    single_estimate = ErrorEstimate({"b": low}, {"b": 1.0}, {"b": 1.0})
    bound = promise_errors(single_estimate, [np.arange(100)], confidence=0.95)[0].low
    assert bound <= promise.low <= bound + 4
    assert bound == 61  # Poisson of 30 right labels exceeds 39 in one of twenty-two times


def test_verdicts_alone_bound_what_is_like_them():
    def bound(n_right, n_wrong, n=100):
        verdicts = np.r_[np.zeros(n_right), np.ones(n_wrong)].astype(np.int8)
        return bound_errors(verdicts, n, confidence=0.95)

    # Of worlds with any share of right labels (by Jeffreys), those with the same verdicts.
    rng = np.random.default_rng(0)
    share = rng.beta(0.5, 0.5, 400_000)
    for n_right, n_wrong in ((0, 30), (1, 60), (5, 20)):
        worlds = share[rng.binomial(n_right + n_wrong, share) == n_right]
        numbers = rng.binomial(100, 1 - worlds)
        assert bound(n_right, n_wrong) == pytest.approx(np.quantile(numbers, 0.05), abs=1)
    assert bound(0, 30) >= 90 > bound(0, 15)
    assert bound(0, 0) == 0  # nothing is known


def test_only_verdicts_on_samples_as_suspect_count():
    estimate = make_estimate(np.r_[np.full(20, 0.95), np.full(20, 0.5)], 3, 7)
    at_random = np.array([40, 41, 42, 43, 44])  # of 0.9: three right, two wrong
    assert len(find_alike_verdicts(estimate, np.arange(20), at_random)) == 0
    verdicts = find_alike_verdicts(estimate, np.arange(40), at_random)
    assert verdicts.tolist() == [0, 0, 0, 1, 1]
