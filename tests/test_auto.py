"""`auto`: its answers beside the truth."""

from __future__ import annotations

import numpy as np
import pytest

import uqled
from conftest import make_predictions
from uqled.answer import describe_answer
from uqled.detect.auto import evidence as auto_evidence
from uqled.detect.auto import kernels as auto_kernels
from uqled.detect.auto import readings as auto
from uqled.detect.auto.evidence import Transition
from uqled.detect.core.joint import PairCounts
from uqled.errors import InputError, MissingInputError


@pytest.mark.parametrize(("noise", "sharpness"), [(0.05, 6), (0.2, 6), (0.1, 2), (0.3, 2)])
def test_with_noise_by_class_the_even_part_is_what_is_wrong(noise, sharpness):
    """Of strong and of weak models, whatever the temperature of their probabilities."""
    labels, probs, true = noisy_model(noise=noise, N=30_000, sharpness=sharpness)
    wrong = (labels != true).sum()
    for power in (1.0, 0.5):
        found = uqled.find_label_errors(labels, probs**power / (probs**power).sum(1)[:, None])
        assert found.estimate.readings["even"].sum() == pytest.approx(wrong, rel=0.25)


def reader_with(level, share, differ):
    surest = auto_evidence.Surest(1.0, level, 0.0)
    even = auto_evidence.Even(np.ones(auto_kernels.STEPS), share, differ)
    every = np.arange(3)
    few = Transition.of_counts(PairCounts(3, every, every, np.ones(3)))
    return auto.Reader("softmax", 1.0, few, few, surest, even, (), None)


def test_weights_of_readings():
    names = ("confident", "guessed", "votes", "floor", "even", "trusting", "least")
    assert reader_with(0.75, 0.4, 0.25).weights(names) == {
        "confident": 1, "guessed": 1, "votes": 1, "floor": 1.5, "even": 1.5, "trusting": 0.5,
        "least": 0.5,
    }  # fmt: skip
    # Most labels that differ are errors: `even` takes over from four others.
    assert reader_with(1.0, 0.75, 0.1).weights(names) == {
        "confident": 0.5, "guessed": 0.5, "votes": 1, "floor": 1, "even": 4, "trusting": 0,
        "least": 0.1,
    }  # fmt: skip


def test_noise_by_class_is_level_and_a_models_doubt_is_not():
    levels = []
    for noise in (0.3, 0.0):
        labels, probs, _ = noisy_model(noise=noise, N=20_000)
        found = uqled.find_label_errors(labels, probs)
        levels.append(1 - found.estimate.weights["trusting"] / 2)
    assert levels[0] > 0.9
    assert levels[1] < 0.3


def test_of_a_strong_model_the_stated_precision_is_the_real_one():
    labels, probs, true = noisy_model(noise=0.2, N=20_000, sharpness=20)
    # Uneven, as networks are: the probabilities of improbable classes scatter.
    rng = np.random.default_rng(5)
    uneven = probs * np.exp(rng.normal(0, 1, probs.shape))
    uneven /= uneven.sum(axis=1, keepdims=True)
    found = uqled.find_label_errors(labels, uneven)
    assert found.estimate.unsure is None
    real = (labels != true)[found.mask].mean()
    assert found.estimate.precision(found.mask).value == pytest.approx(real, abs=0.05)


def noisy_model(*, noise, N=6000, K=5, seed=0, sharpness=6):
    """A calibrated model of labels: their true class mixed by a transition matrix.

    The model knows the truth's posterior, from which the truth is drawn: it is 95 % right, less so
    if it is less sharp.
    """
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(K, 0.4), N) ** sharpness
    truth /= truth.sum(axis=1, keepdims=True)
    T = np.full((K, K), noise / (K - 1))
    np.fill_diagonal(T, 1 - noise)
    true = (truth.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    labels = (T[true].cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    return labels, truth @ T, true


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
def test_with_noise_by_class_the_number_is_right_and_the_ranking_near_the_best(noise):
    labels, probs, true = noisy_model(noise=noise)
    is_error = labels != true
    found = uqled.find_label_errors(labels, probs)
    assert found.method == "auto"
    number = found.estimate.number
    assert number.low <= is_error.sum() <= number.high
    both = (found.mask & is_error).sum()
    pbnr = uqled.find_label_errors(labels, probs, method="cl-pbnr")
    theirs = (pbnr.mask & is_error).sum()
    assert 2 * both / (found.n_flagged + is_error.sum()) > 2 * theirs / (
        pbnr.n_flagged + is_error.sum()
    )


@pytest.mark.parametrize("given", ["softmax", "passes", "both"])
def test_whatever_is_given(given):
    data = make_predictions(3, N=2000)
    softmax = data.softmax if given != "passes" else None
    passes = data.passes if given != "softmax" else None
    found = uqled.find_label_errors(data.labels, softmax, passes)
    assert found.probability.shape == (2000,)
    assert ((found.probability >= 0) & (found.probability <= 1)).all()
    assert ("votes" in found.estimate.readings) == (given != "softmax")
    assert found.scores == pytest.approx(1 - found.probability)
    hits = (found.mask & data.is_error).sum()
    assert 2 * hits / (found.n_flagged + data.is_error.sum()) > 0.6
    assert (found.best[found.mask] != found.labels.codes[found.mask]).all()
    assert (found.ranked == found.estimate.order[: found.n_flagged]).all()


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
    found = uqled.find_label_errors(labels, probs, classes=range(3000))
    assert np.isfinite(found.probability).all()
    assert found.probability[:25].mean() > found.probability[25:].mean()


def test_operating_points_and_verdicts():
    data = make_predictions(9, N=3000)
    arrays = data.labels, data.softmax, data.passes
    few = uqled.find_label_errors(*arrays, budget=40)
    assert few.n_flagged == 40
    assert (few.ranked == few.estimate.order[:40]).all()
    every = uqled.find_label_errors(*arrays, budget=3000)  # also where the model agrees
    assert (every.best != every.labels.codes).all()
    sure = uqled.find_label_errors(*arrays, precision=0.9)
    assert sure.n_flagged == 0 or sure.estimate.precision(sure.mask).value >= 0.9 - 1e-9
    most = uqled.find_label_errors(*arrays, recall=0.9)
    assert most.estimate.recall(most.mask).value >= 0.9 - 1e-9
    worth = uqled.find_label_errors(*arrays, cost=(1, 4))
    assert (worth.mask == (worth.probability > 0.25)).all()
    actions = np.zeros(3000, int)
    actions[few.ranked] = np.where(data.is_error[few.ranked], 2, 1)
    more = uqled.find_label_errors(*arrays, verdicts=(actions, data.true), budget=40)
    assert more.n_flagged == 40  # others: these were looked at
    assert not (more.mask & few.mask).any()
    after = uqled.find_label_errors(*arrays, verdicts=(actions, data.true))
    assert (after.probability[few.ranked] == data.is_error[few.ranked]).all()
    assert after.estimate.number.value != few.estimate.number.value


def test_all_is_headed_by_auto_and_says_how_good_each_methods_flags_are():
    data = make_predictions(2)
    found = uqled.find_label_errors(data.labels, data.softmax, data.passes, method="all")
    assert found.method == "auto" == next(iter(found.by_method))
    for one in found.by_method.values():
        precision = one.estimate.precision(one.mask)
        assert precision.value == pytest.approx(found.probability[one.mask].mean())


def test_rates_by_name():
    data = make_predictions(4, K=3, N=900)
    names = np.array(["ant", "bee", "cat"])
    found = uqled.find_label_errors(names[data.labels], data.softmax)
    rates = found.class_rates()
    assert list(rates) == ["ant", "bee", "cat"]
    assert rates["bee"].value == pytest.approx(found.probability[data.labels == 1].mean())
    pairs = found.pair_rates()
    assert sum(rate.value for (given, _), rate in pairs.items() if given == "bee") == pytest.approx(
        rates["bee"].value, abs=0.01
    )
    plain = uqled.find_label_errors(data.labels, data.softmax, method="cl-pbnr")
    assert plain.probability is None
    assert plain.class_rates() == plain.pair_rates() == {}


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_of_a_weak_model_the_floor_counts_best(noise):
    """It is 75 % right: what `confident` and `guessed` take for noise is mostly its doubt."""
    labels, probs, true = noisy_model(noise=noise, N=20_000, sharpness=2)
    readings = uqled.find_label_errors(labels, probs).estimate.readings
    off = {name: abs(np.log(r.sum() / (labels != true).sum())) for name, r in readings.items()}
    assert off["floor"] < off["confident"] / 2
    assert off["floor"] < off["guessed"] / 2
    assert (readings["least"] <= readings["floor"] ** 2 + 1e-12).all()


def test_of_a_very_weak_model_the_least_is_near_what_the_very_surest_show():
    """It is 30 % right, and only in a hundredth of the samples it is nearly always right."""
    rng = np.random.default_rng(0)
    N, K = 20_000, 10
    true = rng.integers(0, K, N)
    sharpness = rng.exponential(0.8, N)
    logits = rng.normal(size=(N, K))
    logits[np.arange(N), true] += sharpness
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.where(rng.random(N) < 0.05, rng.integers(0, K, N), true)
    readings = uqled.find_label_errors(labels, probs).estimate.readings
    wrong = (labels != true).sum()
    assert np.mean(probs.argmax(axis=1) == true) < 0.3
    assert readings["floor"].sum() > 5 * wrong
    assert readings["least"].sum() < 3 * wrong


def test_a_weak_model_is_unsure_and_the_range_has_the_truth():
    labels, probs, true = noisy_model(noise=0.05, sharpness=2)
    found = uqled.find_label_errors(labels, probs)
    is_error = labels != true
    real, stated = (
        is_error[found.mask].mean(),
        found.estimate.precision(found.mask, confidence=0.95),
    )
    assert stated.low <= real <= stated.high
    assert abs(stated.value - real) > 0.1  # a single number would have been wrong by far
    assert f"{stated.low:.0%} to {stated.high:.0%}" in found.estimate.unsure
    sure = uqled.find_label_errors(*noisy_model(noise=0.2)[:2])
    assert sure.estimate.unsure is None
    # A hundred verdicts, and it is known.
    doubtful = np.flatnonzero(probs.argmax(axis=1) != labels)
    some = np.random.default_rng(0).choice(doubtful, 100, replace=False)
    actions = np.zeros(len(labels), int)
    actions[some] = np.where(is_error[some], 2, 1)
    after = uqled.find_label_errors(labels, probs, verdicts=(actions, true))
    assert after.estimate.unsure is None
    real, stated = is_error[after.mask].mean(), after.estimate.precision(after.mask)
    assert stated.value == pytest.approx(real, abs=0.15)


def test_the_summary_says_how_many_and_where_it_is_unsure():
    weak, strong = noisy_model(noise=0.05, sharpness=2), noisy_model(noise=0.2)
    for labels, probs, _ in (weak, strong):
        found = uqled.find_label_errors(labels, probs)
        text = describe_answer(found.answer)
        assert "labels are wrong" in text
        assert "80 % interval" in text
        confidence = 0.8 if found.estimate.unsure is None else 0.95
        precision = found.estimate.precision(found.mask, confidence=confidence)
        interval = f"{precision.low:.0%} to {precision.high:.0%}"
        if found.estimate.unsure is None:
            assert f"of the flags about {precision.value:.0%} ({interval}) are real" in text
            assert "unsure" not in text
        else:
            assert f"of the flags about {interval} are real" in text
            assert f"unsure: {found.estimate.unsure}" in text
            assert f"about {precision.value:.0%} (" not in text


def test_only_auto_knows_probabilities():
    data = make_predictions(1)
    with pytest.raises(InputError, match="knows no probabilities"):
        uqled.find_label_errors(data.labels, data.softmax, method="cl-pbnr", precision=0.9)
    with pytest.raises(InputError, match="verdicts are not a pair"):
        uqled.find_label_errors(data.labels, data.softmax, verdicts=data.labels)
    with pytest.raises(MissingInputError):
        uqled.find_label_errors(data.labels, data.softmax, method="cl-mcd")
