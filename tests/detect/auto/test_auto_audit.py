"""Tiers, verdicts and audits."""

from __future__ import annotations

import numpy as np
import pytest

import uqled
from made_predictions import make_predictions
from review_runs import make_labels
from uqled.answer import describe_answer
from uqled.detect.auto.audit import Audit, _spread_evenly
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.operating_point import OperatingPoint
from uqled.detect.auto.tiers import TIERS, assign_tiers
from uqled.errors import InputError


@pytest.fixture(scope="module")
def reviewed_data():
    data = make_predictions(11, N=3000)
    return uqled.find_label_errors(data.labels, data.softmax, data.passes), data.is_error


def test_tiers_by_hand():
    low, high = np.array([0.9, 0.7, 0.3, 0.1, 0.0]), np.array([0.9, 0.9, 0.7, 0.4, 0.1])
    readings = {"low": low, "high": high, "bound": np.zeros(5)}
    weights = {"low": 1.0, "high": 1.0, "bound": 0.0}
    estimate = ErrorEstimate(readings, weights, dict.fromkeys(readings, 1.0))
    mask = np.array([True, True, True, False, False])
    assert assign_tiers(estimate, mask).tolist() == [0, 1, 1, 3, -1]


def test_a_flag_that_is_rather_right_than_wrong_is_not_called_probably_wrong():
    """A budget flags whatever is next in the ranking, however improbable it is."""
    data = make_predictions(11, N=3000)
    errors = uqled.find_label_errors(data.labels, data.softmax, data.passes, budget=1500)
    flagged, p = errors.mask, errors.probability
    assert (p[flagged] < 0.5).sum() > 100
    assert (errors.tier[flagged & (p < 0.5)] == "possibly wrong").all()
    assert (p[errors.tier == "probably wrong"] >= 0.5).all()
    assert {one.name for one in errors.tiers} >= {"probably wrong", "possibly wrong"}


def test_tiers_are_the_flags_in_three_and_what_comes_next(reviewed_data):
    errors, is_error = reviewed_data
    tier = errors.tier
    flagged = np.isin(tier, TIERS[:3])
    assert (flagged == errors.mask).all()
    share = {name: is_error[tier == name].mean() for name in TIERS}
    assert share[TIERS[0]] > share[TIERS[1]] > share[TIERS[2]] > share[TIERS[3]]
    assert [one.name for one in errors.tiers] == list(TIERS)
    assert sum(one.n_samples for one in errors.tiers[:3]) == errors.n_flagged
    assert errors.to_frame()["tier"].tolist() == tier.tolist()
    for one in errors.tiers:
        assert f"{one.n_samples:,}  {one.name}" in describe_answer(errors.answer)


def test_without_auto_there_are_no_tiers_verdicts_or_audits():
    data = make_predictions(1, N=300)
    errors_of_cl = uqled.find_label_errors(data.labels, data.softmax, method="cl-pbnr")
    assert errors_of_cl.tiers == []
    assert set(errors_of_cl.tier) == {""}
    with pytest.raises(InputError, match="verdicts need 'auto', not 'cl-pbnr'"):
        errors_of_cl.with_verdicts({0: True})
    with pytest.raises(InputError, match="errors are those of 'cl-pbnr'"):
        uqled.audit_sample(errors_of_cl)


def test_verdicts_are_certain_and_the_flags_follow(reviewed_data):
    errors, is_error = reviewed_data
    chosen_samples = np.random.default_rng(0).choice(len(errors), 100, replace=False).tolist()
    after = errors.with_verdicts({z: bool(is_error[z]) for z in chosen_samples})
    assert (after.probability[chosen_samples] == is_error[chosen_samples]).all()
    assert (after.mask[chosen_samples] == is_error[chosen_samples]).all()
    assert (after.scores == 1 - after.probability).all()
    assert after.answer.n_verdicts == 100
    small_budget = errors.with_verdicts(
        {chosen_samples[0]: True}, point=OperatingPoint("budget", 7)
    )
    assert small_budget.n_flagged == 7
    with pytest.raises(InputError, match="name sample 3000 of 3000"):
        errors.with_verdicts({3000: True})


def test_verdicts_change_no_flag_of_a_method_without_probabilities():
    labels = np.repeat([0, 1, 2], 40)
    probs = np.full((120, 3), 0.1) + 0.7 * np.eye(3)[labels]
    labels[:4] = 1
    errors = uqled.find_label_errors(labels, probs, method="all").by_method["cl-pbnr"]
    assert errors.ranked.tolist() == [0, 1, 2, 3]
    after = errors.with_verdicts({0: False, 50: True})
    assert after.ranked.tolist() == [0, 1, 2, 3]
    assert (after.answer.n_verdicts, after.probability[[0, 50]].tolist()) == (2, [0.0, 1.0])


def test_probabilities_of_being_drawn_add_up_and_none_is_above_1():
    sizes = np.array([100.0, 10.0, 1.0, 1.0, 1.0, 1.0])
    result = _spread_evenly(sizes, 4)
    assert result.sum() == pytest.approx(4)
    assert result == pytest.approx([1, 1, 0.5, 0.5, 0.5, 0.5])


def test_each_sample_is_drawn_as_often_as_is_said(reviewed_data):
    errors, _ = reviewed_data
    times, stated_shares = np.zeros(len(errors)), np.zeros(len(errors))
    for seed in range(400):
        audit = uqled.audit_sample(errors, 60, seed=seed)
        assert len(audit) == 60 == len(set(audit.indices.tolist()))
        times[audit.indices] += 1
        stated_shares[audit.indices] = audit.inclusion
    groups = np.digitize(stated_shares, [1e-9, 0.02, 0.03, 0.04])
    for group in range(1, 5):
        n_draws = groups == group
        # Samples that were never drawn are not known to be of the group: the rarest are left out.
        if group > 2:
            assert times[n_draws].mean() / 400 == pytest.approx(
                stated_shares[n_draws].mean(), rel=0.05
            )


def test_the_estimate_is_right_in_the_mean_of_all_draws_whatever_the_model(reviewed_data):
    errors, is_error = reviewed_data
    values, is_covered = [], []
    for seed in range(120):
        audit = uqled.audit_sample(errors, 40, seed=seed)
        estimate = uqled.estimate_audit(
            errors, audit, {z: bool(is_error[z]) for z in audit.indices.tolist()}
        )
        number = estimate.n_errors[0.8]
        assert number.low <= number.value <= number.high
        assert estimate.n_errors[0.95].low <= number.low
        values.append(number.value)
        is_covered.append(number.low <= is_error.sum() <= number.high)
        assert estimate.n_judged == 40
    assert np.mean(values) == pytest.approx(is_error.sum(), rel=0.05)
    assert np.mean(is_covered) > 0.7


def test_verdicts_from_working_down_the_list_are_not_taken_for_random(reviewed_data):
    """The top of the list has far more errors than the rest; the number does not go up for it."""
    errors, is_error = reviewed_data
    top = {z: bool(is_error[z]) for z in errors.ranked[:300].tolist()}
    with_top, without = [], []
    for seed in range(30):
        audit = uqled.audit_sample(errors, 40, seed=seed)
        verdicts = {z: bool(is_error[z]) for z in audit.indices.tolist()}
        without.append(uqled.estimate_audit(errors, audit, verdicts).n_errors[0.8].value)
        with_top.append(uqled.estimate_audit(errors, audit, verdicts | top).n_errors[0.8].value)
    n_wrong = is_error.sum()
    assert np.mean(with_top) == pytest.approx(n_wrong, rel=0.1)
    assert np.std(with_top) < np.std(without)


def test_a_part_of_an_audit_is_an_audit_and_all_samples_are_a_census(reviewed_data):
    errors, is_error = reviewed_data
    audit = uqled.audit_sample(errors, 40, seed=3)
    first = {z: bool(is_error[z]) for z in audit.indices[:15].tolist()}
    estimate = uqled.estimate_audit(errors, audit, first)
    assert estimate.n_judged == 15
    assert "25 that are left" in estimate.advice or "Enough" in estimate.advice
    census = uqled.audit_sample(errors, len(errors))
    all_verdicts = {z: bool(is_wrong) for z, is_wrong in enumerate(is_error)}
    reference = uqled.estimate_audit(errors, census, all_verdicts)
    assert reference.n_errors[0.95].low == reference.n_errors[0.95].high == is_error.sum()
    assert reference.precision[0.8].value == pytest.approx(is_error[errors.mask].mean())
    assert reference.advice.startswith("Enough")
    with pytest.raises(InputError, match="none of the audit's samples"):
        uqled.estimate_audit(errors, Audit(np.array([1]), np.array([0.5])), {2: True})


def test_decided_samples_are_not_drawn(reviewed_data):
    errors, is_error = reviewed_data
    top = errors.ranked[:200].tolist()
    after = errors.with_verdicts({z: bool(is_error[z]) for z in top})
    audit = uqled.audit_sample(after, 50)
    assert not set(audit.indices.tolist()) & set(top)


@pytest.mark.parametrize("way", ["top", "random"])
def test_intervals_hold_the_truth_after_verdicts(way):
    """Reviewers who know the truth, from the top of the list and at random, on twenty-four runs:
    intervals of 80 % hold the number of wrong labels and the share of real flags that often."""
    n_held, real_held, runs = 0, 0, 24
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 5, 800)
        labels, probs, passes = make_labels(codes, 5, seed=seed, wrong=0.12, margin=3.0)
        errors, is_wrong = uqled.find_label_errors(labels, probs, passes), labels != codes
        judged_samples = errors.ranked[:40]
        if way == "random":
            judged_samples = rng.choice(errors.ranked, 40, replace=False)
        after = errors.with_verdicts({int(i): bool(is_wrong[i]) for i in judged_samples})
        number, real = after.answer.n_errors, after.answer.precision
        n_held += number.low <= is_wrong.sum() <= number.high
        real_held += real.low <= is_wrong[after.mask].mean() <= real.high
    assert n_held / runs >= 0.8
    assert real_held / runs >= 0.8


def test_the_estimate_stays_right_in_the_mean_where_classes_were_merged(reviewed_data):
    """Flags between the two most confused classes are no errors any more; part of the audit."""
    errors, is_error = reviewed_data
    given, suggested = errors.ranked_pairs[0][:2]
    settled = (errors.labels.codes == given) & (errors.suggested_codes == suggested)
    is_error = is_error & ~settled
    assert np.count_nonzero(settled & errors.mask) > 5
    whole, part, precision = [], [], []
    for seed in range(120):
        audit = uqled.audit_sample(errors, 40, seed=seed)
        asked = [z for z in audit.indices.tolist() if not settled[z]]
        verdicts = {z: bool(is_error[z]) for z in asked}
        result = uqled.estimate_audit(errors, audit, verdicts, settled=settled)
        assert result.n_judged == len(asked)
        whole.append(result.n_errors[0.8].value)
        precision.append(result.precision[0.8].value)
        half = {z: verdicts[z] for z in asked[: len(asked) // 2]}
        part.append(uqled.estimate_audit(errors, audit, half, settled=settled).n_errors[0.8].value)
    assert np.mean(whole) == pytest.approx(is_error.sum(), rel=0.05)
    assert np.mean(part) == pytest.approx(is_error.sum(), rel=0.1)
    flags = errors.mask & ~settled
    assert np.mean(precision) == pytest.approx(is_error[flags].mean(), rel=0.05)
    # A verdict on a settled sample changes nothing: it is no evidence about the model.
    more = verdicts | {int(z): True for z in np.flatnonzero(settled)}
    assert uqled.estimate_audit(errors, audit, more, settled=settled) == result
