"""Numbers, intervals and operating points that follow from probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from uqled.detect.auto import estimate as probability
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.operating_point import OperatingPoint, make_operating_point
from uqled.errors import InputError

RNG = np.random.default_rng(5)
LOW_READING = RNG.beta(0.3, 2.0, 400)
HIGH_READING = np.clip(LOW_READING * 1.6, 0, 1)


def estimate(**readings):
    readings = readings or {"low": LOW_READING, "high": HIGH_READING}
    return ErrorEstimate(readings, dict.fromkeys(readings, 1.0), dict.fromkeys(readings, 1.0))


def length_of(point, result):
    return int(result.flags(point).sum())


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.5])
@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_intervals_are_students_and_normal_ones(confidence, n):
    sums = {str(k): 100.0 + k for k in range(n)}
    weights = dict.fromkeys(sums, 1.0)
    logs = np.log(np.array(list(sums.values())) + 0.5)
    upper = (1 + confidence) / 2
    interval = probability.estimate_interval(100.0, sums, weights, 0.0, 1e9, False, confidence)
    reach = stats.t.ppf(upper, n - 1) * np.std(logs, ddof=1) * np.sqrt(1 + 1 / n)
    assert interval.high == pytest.approx(np.exp(logs.mean() + reach) - 0.5)
    single_interval = probability.estimate_interval(
        100.0, {"a": 100.0}, {"a": 1.0}, 49.0, 1e9, False, confidence
    )
    assert single_interval.high - 100 == pytest.approx(7 * stats.norm.ppf(upper))


@pytest.mark.parametrize("confidence", [95, -0.1, "high"])
def test_a_confidence_is_a_fraction(confidence):
    with pytest.raises(InputError, match="confidence"):
        estimate().precision(LOW_READING > 0.5, confidence=confidence)


def test_the_probability_is_the_mean_of_the_readings_and_the_number_its_sum():
    result = estimate()
    assert result.probability == pytest.approx((LOW_READING + HIGH_READING) / 2)
    assert result.number.value == pytest.approx(((LOW_READING + HIGH_READING) / 2).sum())
    assert result.number.low < LOW_READING.sum()
    assert HIGH_READING.sum() < result.number.high <= len(LOW_READING)


def test_a_reading_of_weight_0_only_widens_the_interval():
    readings = {"low": LOW_READING, "high": HIGH_READING}
    narrow = ErrorEstimate(readings, {"low": 1.0, "high": 0.0}, {"low": 1.0, "high": 0.0})
    wide = ErrorEstimate(readings, {"low": 1.0, "high": 0.0}, {"low": 1.0, "high": 1.0})
    assert (narrow.probability == wide.probability).all()
    assert wide.number.high > narrow.number.high
    # One reading alone: what is left is that errors are drawn.
    deviation = stats.norm.ppf(0.9) * np.sqrt((LOW_READING * (1 - LOW_READING)).sum())
    assert narrow.number.high - LOW_READING.sum() == pytest.approx(deviation, rel=1e-4)


def test_best_f1_beside_all_sets():
    """Of all 2^8 sets, none has a higher expected F1 than the prefix that is chosen."""
    p = RNG.random(8)
    result = estimate(only=p)
    sets = (np.arange(256)[:, None] >> np.arange(8)) & 1
    values = 2 * (sets @ p) / (sets.sum(axis=1) + p.sum())
    mask = result.flags(OperatingPoint("f1"))
    assert 2 * p[mask].sum() / (mask.sum() + p.sum()) == pytest.approx(values.max(), abs=1e-12)


def test_best_f1_is_best_in_the_mean_of_the_readings():
    result = estimate()
    order = np.argsort(-(LOW_READING + HIGH_READING), kind="stable")

    def mean_f1(k):
        return np.mean(
            [2 * r[order[:k]].sum() / (k + r.sum()) for r in (LOW_READING, HIGH_READING)]
        )

    f1_of_prefix = [mean_f1(k) for k in range(1, len(LOW_READING) + 1)]
    assert length_of(OperatingPoint("f1"), result) == int(np.argmax(f1_of_prefix)) + 1


@pytest.mark.parametrize("target", [0.2, 0.5, 0.7, 0.9])
def test_precision_and_recall_are_kept_by_the_longest_and_the_shortest_prefix(target):
    result = estimate()
    ranked_samples = np.sort(result.probability)[::-1]
    n = length_of(OperatingPoint("precision", target), result)
    assert n == 0 or ranked_samples[:n].mean() >= target - 1e-12
    assert n == len(ranked_samples) or ranked_samples[: n + 1].mean() < target
    n = length_of(OperatingPoint("recall", target), result)
    assert ranked_samples[:n].sum() >= target * ranked_samples.sum() * (1 - 1e-9)
    assert ranked_samples[: n - 1].sum() < target * ranked_samples.sum()


def test_no_flags_reach_a_precision_that_none_has():
    assert length_of(OperatingPoint("precision", 0.9), estimate(only=np.full(10, 0.4))) == 0
    assert length_of(OperatingPoint("recall", 1.0), estimate(only=np.full(10, 0.4))) == 10


def test_budget_and_cost():
    p = np.array([0.1, 0.9, 0.5, 0.5, 0.05])
    result = estimate(only=p)
    assert np.flatnonzero(result.flags(OperatingPoint("budget", 2))).tolist() == [1, 2]
    assert length_of(OperatingPoint("budget", 99), result) == 5
    # A review costs 1, a missed error 5: worth it above 0.2.
    assert np.flatnonzero(result.flags(OperatingPoint("cost", 1, 5))).tolist() == [1, 2, 3]


def test_expected_precision_and_recall_of_any_flags():
    result = estimate()
    mask = RNG.random(len(LOW_READING)) < 0.3
    precision, recall = result.precision(mask), result.recall(mask)
    mean = (LOW_READING + HIGH_READING) / 2
    assert precision.value == pytest.approx(mean[mask].mean())
    assert recall.value == pytest.approx(mean[mask].sum() / mean.sum())
    assert precision.low <= precision.value <= precision.high <= 1
    assert recall.low <= recall.value <= recall.high


def test_rates_by_class_and_by_pair():
    codes = np.arange(len(LOW_READING)) % 3
    other = (codes + 1) % 3
    result = estimate()
    rates = result.per_class(codes, 3)
    mean = result.probability
    assert [r.value for r in rates] == pytest.approx([mean[codes == k].mean() for k in range(3)])
    pairs = result.per_pair(codes, other, 3)
    assert set(pairs) == {(0, 1), (1, 2), (2, 0)}
    assert pairs[1, 2].value == pytest.approx(rates[1].value)
    assert all(r.low < r.value < r.high for r in pairs.values())


def test_the_interval_covers_when_the_readings_are_right():
    """Two readings that differ by a fifth, the truth a draw from something between them."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        p = rng.beta(0.5, 3, 500)
        readings = {str(k): np.clip(p * f, 0, 1) for k, f in enumerate(rng.uniform(0.7, 1.3, 4))}
        errors = rng.random(500) < np.clip(p * rng.uniform(0.7, 1.3), 0, 1)
        number = estimate(**readings).number
        hits += number.low <= errors.sum() <= number.high
    assert 0.72 <= hits / 200 <= 0.95


def test_with_verdicts_the_weights_are_probabilities_not_a_sample():
    """No Student's t: two readings, as probable as each other, are a deviation apart."""
    sums = {"low": 100.0, "high": 200.0}
    logs = np.log([100.5, 200.5])
    result = probability.estimate_interval(150.0, sums, {"low": 1.0, "high": 1.0}, 0.0, 1e9, True)
    reach = stats.norm.ppf(0.9) * np.std(logs)
    assert result.low == pytest.approx(np.exp(logs.mean() - reach) - 0.5, rel=1e-3)
    assert result.high == pytest.approx(np.exp(logs.mean() + reach) - 0.5, rel=1e-3)
    before = probability.estimate_interval(150.0, sums, {"low": 1.0, "high": 1.0}, 0.0, 1e9, False)
    reach = stats.t.ppf(0.9, 1) * np.std(logs, ddof=1) * np.sqrt(1.5)
    assert before.high == pytest.approx(np.exp(logs.mean() + reach) - 0.5, rel=1e-3)


def test_unsure_where_the_readings_differ_about_the_flags():
    p = np.repeat([0.95, 0.01], 200)
    assert estimate(one=p, two=np.clip(p * 1.03, 0, 1)).unsure is None
    conflicting = estimate(one=p, two=p * 0.3)
    real = conflicting.precision(conflicting.flags(OperatingPoint("f1")))
    assert real.high - real.low > probability.WIDE
    wide = conflicting.precision(conflicting.flags(OperatingPoint("f1")), confidence=0.95)
    assert wide.low < real.low < real.high <= wide.high
    assert f"{wide.low:.0%} to {wide.high:.0%} are real" in conflicting.unsure


def test_verdicts_are_certain_and_choose_among_the_readings():
    rng = np.random.default_rng(1)
    right, random_reading = rng.beta(0.5, 1.0, 2000), rng.random(2000)
    is_error = rng.random(2000) < right
    before = estimate(right=right, wrong=random_reading)
    actions = np.where(np.arange(2000) < 100, np.where(is_error, 2, 1), 0)
    codes = np.zeros(2000, np.int32)
    after = before.with_verdicts(actions, is_error.astype(int), codes)
    assert (after.probability[:100] == is_error[:100]).all()
    rest = slice(100, None)
    assert after.weights["right"] > 0.99
    assert np.mean((after.probability[rest] - is_error[rest]) ** 2) < np.mean(
        (before.probability[rest] - is_error[rest]) ** 2
    )
    assert after.number.high - after.number.low < before.number.high - before.number.low


def test_verdicts_correct_what_all_readings_have_wrong():
    rng = np.random.default_rng(2)
    stated_probabilities = np.full(1000, 0.7)
    is_error = rng.random(1000) < 0.3
    actions = np.where(np.arange(1000) < 200, np.where(is_error, 3, 1), 0)
    result = estimate(only=stated_probabilities).with_verdicts(
        actions, np.zeros(1000, int), np.zeros(1000, int)
    )
    assert result.probability[200:].mean() == pytest.approx(0.3, abs=0.07)


def test_a_relabelling_to_the_given_class_is_no_error():
    codes = np.array([0, 1, 2, 2])
    verdicts = probability.encode_verdicts([2, 2, 3, 0], [0, 0, 0, 0], codes)
    assert verdicts.tolist() == [0, 1, 1, -1]


def test_a_verdict_that_all_foretold_changes_little():
    """Nor may it make the interval that of the readings that happen to count most."""
    rng = np.random.default_rng(3)
    p = rng.beta(0.5, 3, 1000)
    p[0] = 0.01
    readings = {str(k): np.clip(p * f, 0, 1) for k, f in enumerate((0.5, 0.8, 1.0, 1.2))}
    readings = {k: np.where(np.arange(1000) == 0, 0.01, r) for k, r in readings.items()}
    weights = {"0": 0.0, "1": 0.01, "2": 6.0, "3": 0.01}
    before = ErrorEstimate(readings, weights, dict.fromkeys(readings, 1.0))
    actions = (np.arange(1000) == 0).astype(int)
    after = before.with_verdicts(actions, actions * 0, np.zeros(1000, int))
    assert after.number.high - after.number.low > before.number.high - before.number.low
    equal_readings = dict.fromkeys(readings, 0.25)
    assert after.spread == pytest.approx(equal_readings, abs=0.01)
    assert after.number.value == pytest.approx(before.number.value, rel=0.1)
    assert after.weights["0"] == pytest.approx(0.125, abs=0.01)  # half way from 0 to a quarter


def test_no_verdicts_change_nothing():
    result = estimate()
    nobody = np.zeros(len(LOW_READING), int)
    assert result.with_verdicts(nobody, nobody, nobody) is result


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "f2"}, "target is 'f2'"),
        ({"precision": 1.5}, "precision"),
        ({"recall": -0.1}, "recall"),
        ({"budget": -1}, "budget"),
        ({"cost": 3}, "cost is 3"),
        ({"cost": (1, 0)}, "cost is"),
        ({"precision": 0.9, "budget": 5}, "cannot be combined with `budget`"),
    ],
)
def test_impossible_points_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        make_operating_point(**options)


def test_points_as_asked_for():
    assert make_operating_point() is None
    assert str(make_operating_point(target="f1")) == "the best F1"
    assert str(make_operating_point(precision=0.95)) == "precision 0.95"
    assert str(make_operating_point(budget=500)) == "the 500 most probably wrong"
    assert make_operating_point(cost=(1, 20)) == OperatingPoint("cost", 1.0, 20.0)


@pytest.mark.parametrize(
    "verdicts", [([1, 2], [0, 0]), ([1, 9, 0], [0, 0, 0]), ([0.5, 1, 1], [0, 0, 0])]
)
def test_impossible_verdicts_are_refused(verdicts):
    with pytest.raises(InputError, match="verdicts"):
        probability.encode_verdicts(*verdicts, np.zeros(3, int))
