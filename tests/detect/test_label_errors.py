"""What a result says of each sample: classes by name, the ranking, scores and the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import naive
import uqled


def test_string_labels_come_back_as_strings(predictions):
    names = np.array(["ant", "bee", "cat", "dog", "eel"])
    by_number = uqled.find_label_errors(predictions.labels, predictions.softmax, method="cl-pbnr")
    for labels in (
        names[predictions.labels],
        names[predictions.labels].tolist(),
        pd.Series(names[predictions.labels]),
        pd.Series(names[predictions.labels], dtype="category"),
        pa.array(names[predictions.labels].tolist()),
        pa.array(names[predictions.labels].tolist()).dictionary_encode(),
    ):
        errors = uqled.find_label_errors(labels, predictions.softmax, method="cl-pbnr")
        assert (errors.mask == by_number.mask).all()
        assert errors.suggested.tolist() == names[by_number.suggested].tolist()
        assert errors.given.tolist() == names[predictions.labels].tolist()


def test_the_order_of_the_columns_can_be_given(predictions):
    order = [3, 1, 4, 0, 2]
    names = np.array(["ant", "bee", "cat", "dog", "eel"])
    expected = uqled.find_label_errors(predictions.labels, predictions.softmax, method="cl-pbnr")
    shuffled_data, labels = predictions.softmax[:, order], names[predictions.labels]
    errors_of_shuffled = uqled.find_label_errors(
        labels, shuffled_data, method="cl-pbnr", classes=names[order]
    )
    frame = pd.DataFrame(shuffled_data, columns=names[order])
    from_frame = uqled.find_label_errors(labels, frame, method="cl-pbnr")
    category = pd.Series(pd.Categorical(labels, categories=names[order]))
    from_category = uqled.find_label_errors(category, shuffled_data, method="cl-pbnr")
    for result in (errors_of_shuffled, from_frame, from_category):
        assert (result.mask == expected.mask).all()
        assert (result.suggested == names[expected.suggested]).all()


def test_numbers_with_names_are_shown_by_name(predictions):
    names = ["ant", "bee", "cat", "dog", "eel"]
    errors = uqled.find_label_errors(
        predictions.labels, predictions.softmax, method="cl-pbnr", classes=names
    )
    assert errors.suggested.dtype.kind == "i"
    assert {label for label, _, _ in errors.confused_pairs()} <= set(names)


def test_ranking_is_votes_then_score_then_index(predictions):
    errors = uqled.find_label_errors(
        predictions.labels, predictions.softmax, predictions.passes, method="alg-ens", agreement=2
    )
    keys = [(-errors.votes[z], errors.scores[z], z) for z in errors.ranked]
    assert keys == sorted(keys)
    assert sorted(errors.ranked.tolist()) == np.flatnonzero(errors.mask).tolist()
    assert (errors.ranking[: errors.n_flagged] == errors.ranked).all()
    rest = [(-errors.votes[z], errors.scores[z], z) for z in errors.ranking[errors.n_flagged :]]
    assert rest == sorted(rest)
    assert sorted(errors.ranking.tolist()) == list(range(len(errors)))


def test_scores_are_of_the_methods_probabilities(predictions):
    N = len(predictions.labels)
    at = np.arange(N), predictions.labels
    softmax = uqled.find_label_errors(predictions.labels, predictions.softmax, method="cl-pbnr")
    assert (softmax.scores == predictions.softmax[at]).all()
    assert (softmax.suggested == predictions.softmax.argmax(axis=1)).all()
    mean = predictions.passes.mean(axis=0)
    mcd = uqled.find_label_errors(predictions.labels, passes=predictions.passes, method="cl-mcd")
    assert mcd.scores == pytest.approx(mean[at], abs=1e-15)
    assert (mcd.suggested == mean.argmax(axis=1)).all()


def test_the_frame(predictions):
    errors = uqled.find_label_errors(
        predictions.labels, predictions.softmax, predictions.passes, method="alg-ens"
    )
    frame = errors.to_frame()
    assert list(frame) == [
        "is_label_issue", "label_score", "given_label", "suggested_label", "votes", "entropy",
        "mutual_information", "error_probability", "tier",
    ]  # fmt: skip
    assert (frame["is_label_issue"] == errors.mask).all()
    assert frame["entropy"].to_numpy() == pytest.approx(
        uqled.uncertainty.entropy(predictions.passes.mean(axis=0)), abs=1e-12
    )
    assert frame["mutual_information"].to_numpy() == pytest.approx(
        uqled.uncertainty.mutual_information(predictions.passes), abs=1e-12
    )
    errors_without_auto = uqled.find_label_errors(
        predictions.labels, predictions.softmax, method="cl-pbnr"
    )
    assert errors_without_auto.to_frame()["entropy"].isna().all()


def test_confident_joint_and_noise_matrix(predictions):
    joint = uqled.confident_joint(predictions.labels, predictions.softmax)
    guess = naive.guesses(predictions.labels, predictions.softmax)
    raw = naive.confident_joint(predictions.labels, guess, 5)
    assert joint.tolist() == naive.calibrate(raw, predictions.labels)
    raw_found = uqled.confident_joint(predictions.labels, predictions.softmax, calibrate=False)
    assert raw_found.tolist() == raw
    assert joint.sum(axis=1).tolist() == np.bincount(predictions.labels).tolist()
    matrix = uqled.noise_matrix(joint)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(5))
    assert matrix[2, 0] == pytest.approx(joint[0, 2] / joint[:, 2].sum())


def test_a_sure_label_has_the_best_score():
    probs = [[1.0, 0.0], [1 - 1e-7, 1e-7], [0.9, 0.1], [0.1, 0.9]]
    scores = uqled.label_quality_scores([0] * 4, probs, method="confidence-weighted-entropy")
    assert scores[0] == 1
    assert (np.diff(scores) < 0).all()


@pytest.mark.usefixtures("every_kernel")
def test_label_quality_scores(predictions):
    from cleanlab.rank import get_label_quality_scores

    for ours, theirs in (
        ("self-confidence", "self_confidence"),
        ("normalized-margin", "normalized_margin"),
        ("confidence-weighted-entropy", "confidence_weighted_entropy"),
    ):
        result = uqled.label_quality_scores(predictions.labels, predictions.softmax, method=ours)
        expected = get_label_quality_scores(predictions.labels, predictions.softmax, method=theirs)
        assert result == pytest.approx(expected, abs=1e-12)
