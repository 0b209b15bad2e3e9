"""`auto`: its answers beside the truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import uqled
from made_predictions import make_predictions
from uqled.answer import describe_answer, measure_flags
from uqled.errors import InputError, MissingInputError


@pytest.mark.parametrize(("noise", "sharpness"), [(0.05, 6), (0.2, 6), (0.1, 2), (0.3, 2)])
def test_with_noise_by_class_the_level_is_how_many_are_wrong(noise, sharpness):
    """Of strong and of weak models, whatever the temperature of their probabilities."""
    labels, probs, true = noisy_model(noise=noise, N=30_000, sharpness=sharpness)
    n_wrong = (labels != true).sum()
    for power in (1.0, 0.5):
        errors = uqled.find_label_errors(labels, probs**power / (probs**power).sum(1)[:, None])
        assert errors.estimate.readings["level"].sum() == pytest.approx(n_wrong, rel=0.25)


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_of_a_weak_model_the_ranking_is_as_good_as_self_confidence(noise):
    """With even noise nothing is better, and a matrix of the model's own confusions is worse."""
    labels, probs, true = confusing_model(noise)
    errors = uqled.find_label_errors(labels, probs)
    is_error = labels != true
    self_confidence = probs[np.arange(len(labels)), labels]
    ap_of_self_confidence = average_precision_score(is_error, -self_confidence)
    assert average_precision_score(is_error, -errors.scores) > ap_of_self_confidence - 0.01


def confusing_model(noise, *, N=20_000, K=6, seed=3):
    """Classes 2 k and 2 k + 1 are hard to tell apart; noise is even."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, K, N)
    logits = rng.normal(size=(N, K))
    logits[np.arange(N), true] += 6
    logits[np.arange(N), true ^ 1] += rng.normal(3, 1.5, N)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    is_error = rng.random(N) < noise
    labels = np.where(is_error, (true + rng.integers(1, K, N)) % K, true)
    return labels, probs, true


def test_where_noise_has_favourites_the_ranking_is_better_than_self_confidence():
    labels, probs, true = noisy_model(noise=0.1, N=20_000, sharpness=2, favourites=True)
    errors = uqled.find_label_errors(labels, probs)
    is_error = labels != true
    self_confidence = probs[np.arange(len(labels)), labels]
    ap_of_self_confidence = average_precision_score(is_error, -self_confidence)
    assert average_precision_score(is_error, -errors.scores) > ap_of_self_confidence + 0.05


def test_of_curated_data_few_are_flagged():
    """Far fewer than the model contradicts, and better than what cl-pbnr flags."""
    labels, probs, true = confusing_model(0.003)
    errors = uqled.find_label_errors(labels, probs, method="all")
    is_error = labels != true
    n_contradictions = (probs.argmax(axis=1) != labels).sum()
    assert is_error.sum() < n_contradictions / 20
    assert errors.n_flagged < n_contradictions / 5
    f1 = {name: measure_flags(one.mask, is_error).f1 for name, one in errors.by_method.items()}
    assert f1["auto"] > f1["cl-pbnr"]
    assert errors.estimate.unsure is not None


def test_members_of_different_kinds_are_stronger_evidence_than_dropout_passes():
    rng = np.random.default_rng(0)
    N, K, F = 6000, 10, 5
    true = rng.integers(0, K, N)
    logits = rng.normal(size=(F, N, K))
    logits[:, np.arange(N), true] += 4
    passes = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    labels = np.where(rng.random(N) < 0.1, rng.integers(0, K, N), true)
    by_kind = {
        kind: uqled.find_label_errors(labels, passes=passes, passes_kind=kind).estimate.readings
        for kind in ("networks", "bootstrap", None)
    }
    n_wrong = (labels != true).sum()
    total = {kind: readings["members"].sum() for kind, readings in by_kind.items()}
    assert total["networks"] == pytest.approx(n_wrong, rel=0.2)
    assert total["bootstrap"] < total[None] < total["networks"]


def test_of_a_strong_model_the_stated_precision_is_the_real_one():
    labels, probs, true = noisy_model(noise=0.2, N=20_000, sharpness=20)
    # Uneven, as networks are: the probabilities of improbable classes scatter.
    rng = np.random.default_rng(5)
    uneven = probs * np.exp(rng.normal(0, 1, probs.shape))
    uneven /= uneven.sum(axis=1, keepdims=True)
    errors = uqled.find_label_errors(labels, uneven)
    assert errors.estimate.unsure is None
    real = (labels != true)[errors.mask].mean()
    assert errors.estimate.precision(errors.mask).value == pytest.approx(real, abs=0.07)


def noisy_model(*, noise, N=6000, K=5, seed=0, sharpness=6, favourites=False):
    """A calibrated model of labels: their true class mixed by a transition matrix, which mistakes
    each class for any other or, with favourites, for the next one.

    The model knows the truth's posterior, from which the truth is drawn: it is 95 % right, less so
    if it is less sharp.
    """
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(K, 0.4), N) ** sharpness
    truth /= truth.sum(axis=1, keepdims=True)
    T = np.full((K, K), noise / (K - 1))
    if favourites:
        T = noise * np.roll(np.eye(K), 1, axis=1)
    np.fill_diagonal(T, 1 - noise)
    true = (truth.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    labels = (T[true].cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    return labels, truth @ T, true


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
def test_with_noise_by_class_the_number_is_right_and_the_ranking_near_the_best(noise):
    labels, probs, true = noisy_model(noise=noise)
    is_error = labels != true
    errors = uqled.find_label_errors(labels, probs)
    assert errors.method == "auto"
    number = errors.estimate.number
    assert number.low <= is_error.sum() <= number.high
    pbnr = uqled.find_label_errors(labels, probs, method="cl-pbnr")
    theirs = measure_flags(pbnr.mask, is_error).f1
    assert measure_flags(errors.mask, is_error).f1 > theirs - 0.02


@pytest.mark.parametrize("inputs", ["softmax", "passes", "both"])
def test_whatever_is_given(inputs):
    data = make_predictions(3, N=2000)
    softmax = data.softmax if inputs != "passes" else None
    passes = data.passes if inputs != "softmax" else None
    errors = uqled.find_label_errors(data.labels, softmax, passes)
    assert errors.probability.shape == (2000,)
    assert ((errors.probability >= 0) & (errors.probability <= 1)).all()
    assert ("members" in errors.estimate.readings) == (inputs != "softmax")
    assert errors.scores == pytest.approx(1 - errors.probability)
    hits = (errors.mask & data.is_error).sum()
    assert 2 * hits / (errors.n_flagged + data.is_error.sum()) > 0.6
    assert (errors.best[errors.mask] != errors.labels.codes[errors.mask]).all()
    assert (errors.ranked == errors.estimate.order[: errors.n_flagged]).all()


def test_the_same_for_any_number_of_threads():
    data = make_predictions(5, N=40_000)
    one, four = (
        uqled.find_label_errors(data.labels, data.softmax, data.passes, threads=threads)
        for threads in (1, 4)
    )
    assert (one.probability == four.probability).all()
    assert (one.mask == four.mask).all()


def test_many_classes_few_samples():
    rng = np.random.default_rng(8)
    probs = rng.dirichlet(np.full(3000, 0.01), 500).astype(np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = probs.argmax(axis=1)
    labels[:25] = rng.integers(0, 3000, 25)
    errors = uqled.find_label_errors(labels, probs, classes=range(3000))
    assert np.isfinite(errors.probability).all()
    assert errors.probability[:25].mean() > errors.probability[25:].mean()


def test_operating_points_and_verdicts():
    data = make_predictions(9, N=3000)
    arrays = data.labels, data.softmax, data.passes
    small_budget = uqled.find_label_errors(*arrays, budget=40)
    assert small_budget.n_flagged == 40
    assert (small_budget.ranked == small_budget.estimate.order[:40]).all()
    large_budget = uqled.find_label_errors(*arrays, budget=3000)  # also where the model agrees
    assert (large_budget.best != large_budget.labels.codes).all()
    precise_errors = uqled.find_label_errors(*arrays, precision=0.9)
    assert (
        precise_errors.n_flagged == 0
        or precise_errors.estimate.precision(precise_errors.mask).value >= 0.9 - 1e-9
    )
    most = uqled.find_label_errors(*arrays, recall=0.9)
    assert most.estimate.recall(most.mask).value >= 0.9 - 1e-9
    worth = uqled.find_label_errors(*arrays, cost=(1, 4))
    assert (worth.mask == (worth.probability > 0.25)).all()
    actions = np.zeros(3000, int)
    actions[small_budget.ranked] = np.where(data.is_error[small_budget.ranked], 2, 1)
    more = uqled.find_label_errors(*arrays, verdicts=(actions, data.true), budget=40)
    assert more.n_flagged == 40  # others: these were looked at
    assert not (more.mask & small_budget.mask).any()
    after = uqled.find_label_errors(*arrays, verdicts=(actions, data.true))
    assert (after.probability[small_budget.ranked] == data.is_error[small_budget.ranked]).all()
    assert after.estimate.number.value != small_budget.estimate.number.value


def test_all_is_headed_by_auto_and_says_how_good_each_methods_flags_are():
    data = make_predictions(2)
    errors = uqled.find_label_errors(data.labels, data.softmax, data.passes, method="all")
    assert errors.method == "auto" == next(iter(errors.by_method))
    for one in errors.by_method.values():
        precision = one.estimate.precision(one.mask)
        assert precision.value == pytest.approx(errors.probability[one.mask].mean())


def test_rates_by_name():
    data = make_predictions(4, K=3, N=900)
    names = np.array(["ant", "bee", "cat"])
    errors = uqled.find_label_errors(names[data.labels], data.softmax)
    rates = errors.class_rates()
    assert list(rates) == ["ant", "bee", "cat"]
    assert rates["bee"].value == pytest.approx(errors.probability[data.labels == 1].mean())
    pairs = errors.pair_rates()
    assert sum(rate.value for (label, _), rate in pairs.items() if label == "bee") == pytest.approx(
        rates["bee"].value, abs=0.01
    )
    errors_of_cl = uqled.find_label_errors(data.labels, data.softmax, method="cl-pbnr")
    assert errors_of_cl.probability is None
    assert errors_of_cl.class_rates() == errors_of_cl.pair_rates() == {}


def test_a_weak_model_is_unsure_and_the_range_has_the_truth():
    labels, probs, true = noisy_model(noise=0.03, sharpness=2)
    errors = uqled.find_label_errors(labels, probs)
    is_error = labels != true
    real, stated_rate = (
        is_error[errors.mask].mean(),
        errors.estimate.precision(errors.mask, confidence=0.95),
    )
    assert stated_rate.low <= real <= stated_rate.high
    assert abs(stated_rate.value - real) > 0.1  # a single number would have been wrong by far
    assert f"{stated_rate.low:.0%} to {stated_rate.high:.0%}" in errors.estimate.unsure
    strong_errors = uqled.find_label_errors(*noisy_model(noise=0.4)[:2])
    assert strong_errors.estimate.unsure is None
    # A hundred verdicts, and it is known.
    doubtful = np.flatnonzero(probs.argmax(axis=1) != labels)
    chosen_samples = np.random.default_rng(0).choice(doubtful, 100, replace=False)
    actions = np.zeros(len(labels), int)
    actions[chosen_samples] = np.where(is_error[chosen_samples], 2, 1)
    after = uqled.find_label_errors(labels, probs, verdicts=(actions, true))
    assert after.estimate.unsure is None
    real, stated_rate = is_error[after.mask].mean(), after.estimate.precision(after.mask)
    assert stated_rate.value == pytest.approx(real, abs=0.15)


def test_the_summary_says_how_many_and_where_it_is_unsure():
    weak, strong = noisy_model(noise=0.05, sharpness=2), noisy_model(noise=0.4)
    for labels, probs, _ in (weak, strong):
        errors = uqled.find_label_errors(labels, probs)
        text = describe_answer(errors.answer)
        assert "labels are wrong" in text
        assert "80% interval" in text
        confidence = 0.8 if errors.estimate.unsure is None else 0.95
        precision = errors.estimate.precision(errors.mask, confidence=confidence)
        interval = f"{precision.low:.0%} to {precision.high:.0%}"
        if errors.estimate.unsure is None:
            one = f"about {precision.value:.0%} ({interval})"
            words = one if precision.high - precision.low <= 0.1 else interval
            assert f"\n{words} of the flags are real" in text
            assert "unsure" not in text
        else:
            assert f"\n{interval} of the flags are real" in text
            assert f"unsure: {errors.estimate.unsure}" in text
            assert f"about {precision.value:.0%} (" not in text


def test_only_auto_knows_probabilities():
    data = make_predictions(1)
    with pytest.raises(InputError, match="gives no probabilities"):
        uqled.find_label_errors(data.labels, data.softmax, method="cl-pbnr", precision=0.9)
    with pytest.raises(InputError, match="verdicts are not a pair"):
        uqled.find_label_errors(data.labels, data.softmax, verdicts=data.labels)
    with pytest.raises(MissingInputError):
        uqled.find_label_errors(data.labels, data.softmax, method="cl-mcd")
