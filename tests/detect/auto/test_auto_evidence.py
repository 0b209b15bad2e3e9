"""What `auto` reads off all samples together, beside slow and obvious twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive
import uqled
from made_predictions import make_predictions
from uqled.detect.auto import evidence, explanations
from uqled.detect.auto.evidence import (
    BANDS,
    LEAST_ROWS,
    Alternatives,
    BandCounts,
    Calibration,
    Quantiles,
    SampleRows,
    Structure,
    VoteCounts,
)
from uqled.detect.auto.explanations import Explanations, weigh
from uqled.detect.core.kernels import compiled, plain
from uqled.detect.core.rows import view_as_keys


def distributions(rng, *shape):
    probs = rng.dirichlet(np.full(shape[-1], 0.5), shape[:-1]).astype(np.float32)
    return probs / probs.sum(axis=-1, keepdims=True)


@pytest.fixture(params=[compiled, plain], ids=["compiled", "numpy"])
def kernels(request):
    return request.param


def alternatives_of(labels, probs, kernels=plain):
    n = len(labels)
    columns = np.empty(n, np.int32), np.empty(n, np.float32), np.empty(n, np.float32)
    kernels.find_alternatives(probs, labels, *columns)
    return Alternatives(labels, *columns)


@pytest.mark.parametrize("K", [2, 3, 11])
def test_the_alternative_is_the_most_probable_class_beside_the_label(K, kernels):
    rng = np.random.default_rng(K)
    probs, labels = distributions(rng, 200, K), rng.integers(0, K, 200).astype(np.int32)
    probs[:50] = np.round(probs[:50], 1)  # equals
    result = alternatives_of(labels, probs, kernels)
    expected = [naive.best_other(p, y) for p, y in zip(probs, labels, strict=True)]
    assert result.other.tolist() == expected
    assert (result.best == probs[np.arange(200), expected]).all()
    assert (result.given == probs[np.arange(200), labels]).all()


def test_the_log_ratio_of_half_and_a_quarter_is_log_2_and_nothing_is_infinite():
    probs = np.array([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]], np.float32)
    result = alternatives_of(np.array([0, 1], np.int32), probs)
    ratio = result.compute_log_ratio(evidence.LEAST_PROBABILITY)
    assert ratio == pytest.approx([np.log(2), -np.log(evidence.LEAST_PROBABILITY)])
    assert result.compute_log_ratio(0.1) == pytest.approx([np.log(2), np.log(10)])


def test_a_probability_of_0_counts_as_half_of_the_smallest_above_it():
    labels = np.zeros(2, np.int32)
    shares_of_neighbours = np.array([[14 / 15, 1 / 15, 0], [1, 0, 0]], np.float32)
    rows = evidence.SampleRows(shares_of_neighbours, labels)
    assert rows.least_probability == pytest.approx(1 / 30)
    underflow = evidence.SampleRows(np.array([[1, 1e-44, 0]], np.float32), labels[:1])
    assert underflow.least_probability == evidence.LEAST_PROBABILITY


def test_votes_are_counted(kernels):
    rng = np.random.default_rng(0)
    passes, labels = distributions(rng, 4, 60, 5), rng.integers(0, 5, 60).astype(np.int32)
    counts = np.zeros(2, np.int64)
    kernels.count_votes(view_as_keys(passes.reshape(-1, 5)), 0, 60, 4, labels, counts)
    assert tuple(counts) == naive.contradictions(passes, labels)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("threads", [1, 2])
def test_votes_counted_with_the_confident_joint_are_those_of_a_sweep_of_their_own(threads):
    p = make_predictions(N=300, F=4, dtype=np.float32)
    alone, among_all = (
        uqled.find_label_errors(p.labels, p.softmax, p.passes, method=method, threads=threads)
        for method in ("auto", "all")
    )
    assert (alone.scores == among_all.scores).all()
    assert alone.estimate.readings["members"].sum() == pytest.approx(
        VoteCounts(*naive.contradictions(p.passes, p.labels), 4, 300).estimate_errors(None), 0.02
    )


def test_members_that_err_independently_tell_how_many_labels_are_wrong():
    rng = np.random.default_rng(1)
    N, K, F, own_error, error_rate = 200_000, 50, 5, 0.06, 0.1
    true = rng.integers(0, K, N)
    members = np.where(rng.random((F, N)) < own_error, rng.integers(0, K, (F, N)), true)
    labels = np.where(rng.random(N) < error_rate, rng.integers(0, K, N), true)
    with_label = int((members != labels).sum())
    with_each_other = sum(int((members[f] != members[g]).sum()) for f in range(F) for g in range(f))
    counts = VoteCounts(with_label, with_each_other, F, N)
    likeness, members_error = evidence.LIKENESS["networks"], own_error * (K - 1) / K
    # As many as there are, less the error that stands for what such members have in common.
    expected = N * error_rate * (K - 1) / K - N * members_error * likeness / (1 - likeness)
    assert counts.estimate_errors("networks") == pytest.approx(expected, rel=0.05)
    assert counts.estimate_errors("bootstrap") < counts.estimate_errors("networks")


@pytest.mark.parametrize("power", [0.3, 1.0, 4.0])
def test_a_power_of_probabilities(power):
    rng = np.random.default_rng(2)
    probs, labels = distributions(rng, 30, 4), rng.integers(0, 4, 30)
    probs = np.maximum(probs, np.float32(1e-6))
    out = evidence.LabelPowers(probs, labels).raise_to(power)
    expected = [naive.raise_to_power(p, y, power) for p, y in zip(probs, labels, strict=True)]
    assert out == pytest.approx(expected, rel=3e-7)


@pytest.mark.parametrize(("power", "share"), [(0.5, 0.0), (2.0, 0.1), (1.0, 0.3)])
def test_calibration_finds_the_power_and_the_even_share(power, share):
    rng = np.random.default_rng(3)
    N, K = 20_000, 6
    p = rng.dirichlet(np.full(K, 0.3), N) + 1e-9
    sharpened = p**power
    sharpened /= sharpened.sum(axis=1, keepdims=True)
    mixture = (1 - share) * sharpened + share / K
    labels = (mixture.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    result = Calibration.fit(SampleRows(p.astype(np.float32), labels.astype(np.int32)))
    assert result.power == pytest.approx(power, rel=0.2)
    assert result.even_share == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("ties", [False, True])
def test_labels_are_counted_in_bands(ties):
    rng = np.random.default_rng(4)
    N, K = 400, 4
    probs, labels = distributions(rng, N, K), rng.integers(0, K, N).astype(np.int32)
    if ties:
        probs = np.round(probs, 1)
    quantiles = Quantiles.of(SampleRows(probs, labels))
    result = BandCounts.of(alternatives_of(labels, probs), quantiles)
    samples, hits = naive.band_counts(labels, probs, BANDS, LEAST_ROWS)
    sorted_probs = np.sort(probs, axis=1)
    if not ties or (sorted_probs[:, -1] > sorted_probs[:, -2]).all():
        assert (result.hits == hits).all()
    expected = quantiles.shares * result.predicted[:, None]
    if not ties:
        assert expected == pytest.approx(samples)
    assert result.differing == np.count_nonzero(probs.max(axis=1) > probs[np.arange(N), labels])


def test_counts_of_parts_add_up():
    rng = np.random.default_rng(5)
    probs, labels = distributions(rng, 300, 3), rng.integers(0, 3, 300).astype(np.int32)
    quantiles = Quantiles.of(SampleRows(probs, labels))
    expected = BandCounts.of(alternatives_of(labels, probs), quantiles)
    first, second = (
        BandCounts.of(alternatives_of(labels[rows], probs[rows]), quantiles)
        for rows in (slice(100), slice(100, None))
    )
    merged = first.merge_with(second)
    assert (merged.hits == expected.hits).all()
    assert (merged.predicted == expected.predicted).all()
    assert merged.differing == expected.differing


def structure_of(labels, probs):
    quantiles = Quantiles.of(SampleRows(probs, labels))
    return Structure.of(BandCounts.of(alternatives_of(labels, probs), quantiles), quantiles)


def model_of(T, *, N=40_000, sharpness=3, seed=0):
    """Labels, and a calibrated model of them that cannot tell all classes apart."""
    rng = np.random.default_rng(seed)
    K = len(T)
    truth = rng.dirichlet(np.full(K, 0.4), N) ** sharpness
    truth /= truth.sum(axis=1, keepdims=True)
    true = (truth.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    labels = (T[true].cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    return labels.astype(np.int32), (truth @ T).astype(np.float32), true


def test_even_noise_has_no_favourites_and_its_level_is_its_number():
    T = np.full((5, 5), 0.1 / 4)
    np.fill_diagonal(T, 0.9)
    labels, probs, true = model_of(T)
    result = structure_of(labels, probs)
    assert result.log_ratio is None or np.abs(result.log_ratio).max() < 0.2
    assert result.level == pytest.approx((labels != true).sum(), rel=0.25)
    assert result.evenness > 0.8


def test_without_noise_the_models_own_errors_are_not_even():
    labels, probs, _ = model_of(np.eye(5))
    assert structure_of(labels, probs).evenness < 0.1


def test_few_labels_show_no_evenness():
    hits, expected_hits = np.array([[[2]], [[2]], [[9]]]), np.array([[[500.0]], [[500.0]], [[1e3]]])
    assert evidence._measure_evenness(hits, expected_hits) == pytest.approx(2 / 22)
    assert evidence._measure_evenness(100 * hits, expected_hits) == pytest.approx(200 / 220)
    hits[1] = 5  # (3/500) / (6/500), to the power of 5
    assert evidence._measure_evenness(hits, expected_hits) == pytest.approx(2 / 22 / 32)


def test_noise_with_favourites_shows_them():
    T = np.eye(5)
    for t in range(5):
        T[t, t], T[t, (t + 1) % 5] = 0.85, 0.15
    labels, probs, _ = model_of(T)
    ratio = structure_of(labels, probs).log_ratio
    assert ratio is not None
    favourites = np.array([ratio[t, (t + 1) % 5] for t in range(5)])
    others = np.array([ratio[t, (t + 2) % 5] for t in range(5)])
    assert favourites.min() > 0.3
    assert others.max() < -0.3


def test_with_many_classes_all_predicted_classes_share_their_quantiles(monkeypatch):
    monkeypatch.setattr(evidence, "PAIR_CLASSES", 3)
    T = np.full((5, 5), 0.1 / 4)
    np.fill_diagonal(T, 0.9)
    labels, probs, true = model_of(T, sharpness=8)
    result = structure_of(labels, probs)
    assert result.log_ratio is None
    assert result.level == pytest.approx((labels != true).sum(), rel=0.4)


def test_the_shift_makes_the_probabilities_add_up_to_the_number():
    scores = np.random.default_rng(6).normal(-2, 3, 5_000)
    numbers = {"level": 40.0, "confident": 90.0, "trusting": 2_000.0}
    estimate = Explanations.of(numbers, explanations.count_scores(scores), 0.0).estimate(scores)
    for name, number in numbers.items():
        assert estimate.readings[name].sum() == pytest.approx(number, rel=0.01)


def test_weights_of_explanations():
    numbers = {"level": 40.0, "confident": 50.0, "members": 70.0, "trusting": 100.0}
    assert weigh(numbers, 1_000, 0.0) == {"level": 1, "confident": 2.6, "members": 1, "trusting": 0}
    # Noise by class explains most of what the model contradicts.
    assert weigh(numbers | {"level": 75.0}, 1_000, 0.0) == {
        "level": 1.5, "confident": 1.3, "members": 1, "trusting": 0,
    }  # fmt: skip
    # `confident` takes all that the model contradicts for wrong: a tenth of the data, and half.
    assert weigh(numbers | {"confident": 100.0}, 1_000, 0.0)["confident"] == 0.1
    assert weigh(numbers | {"confident": 100.0}, 160, 0.0)["confident"] == pytest.approx(1.35)
    # No label is where the model holds it for impossible.
    assert weigh(numbers | {"level": 1.0}, 1_000, 0.0)["trusting"] == pytest.approx(6.4)
    # Noise is even: `level` is right.
    assert weigh(numbers, 1_000, 1.0)["confident"] == pytest.approx(0.26)


def test_scores_go_on_where_probabilities_would_all_be_1():
    labels = np.zeros(4, np.int32)
    best = np.array([0.5, 0.9, 0.99, 0.99], np.float32)
    self_confidence = np.array([0.5, 1e-9, 1e-20, 1e-30], np.float32)
    result = Alternatives(labels, np.ones(4, np.int32), self_confidence, best)
    scores = explanations.Scorer(1.0, 1e-35, Structure(None, 1.0)).score(result)
    assert scores[0] == 0
    assert (np.diff(scores) > 0).all()
    assert scores.max() < explanations.CERTAIN_SCORE + 5


@pytest.mark.parametrize("K", [4, 40])  # few ties are counted one by one, many together
def test_equal_values_at_the_end_of_a_band_are_in_it(K):
    values = np.sort(np.random.default_rng(8).integers(0, 6, (K, 30)).astype(np.float32), axis=1)
    for n in (1, 12, 30):
        expected = [sum(value <= row[n - 1] for value in row) for row in values.tolist()]
        assert evidence._count_up_to(values, n).tolist() == expected
