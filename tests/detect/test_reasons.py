"""Why a sample was flagged: the rule beside a slow twin, and each reason's plain cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import uqled
from made_predictions import SHARED_DATA, make_predictions
from uqled.detect import reasons as module
from uqled.detect.reasons import REASONS, explain_reason, find_reasons


def naive_reason(label, passes):
    """One sample [F,K], as the definition says it, with SciPy's entropy."""
    mean = passes.mean(axis=0)
    first, second = sorted(mean)[-1], sorted(mean)[-2]
    if first >= 0.5 and first >= 3 * second and mean[label] < first:
        return "wrong label"
    total = scipy.stats.entropy(mean)
    knowledge_part = total - np.mean([scipy.stats.entropy(one) for one in passes])
    if first < 3 * second and first + second >= 0.75 and knowledge_part < total / 4:
        return "ambiguous"
    return "model does not know"


@pytest.mark.parametrize("sharpness", [0.5, 2.5, 6.0])
def test_as_the_definition_says(sharpness, monkeypatch):
    data = make_predictions(3, N=300, K=4, sharpness=sharpness)
    monkeypatch.setattr(module, "_ROWS", 7)  # several blocks, the last one short
    rows = np.random.default_rng(0).permutation(300)[:100]
    expected = [naive_reason(data.labels[z], data.passes[:, z]) for z in rows]
    assert find_reasons(data.labels, data.softmax, data.passes, rows).tolist() == expected
    expected = [naive_reason(data.labels[z], data.softmax[None, z]) for z in rows]
    assert find_reasons(data.labels, data.softmax, None, rows).tolist() == expected


def test_as_the_definition_says_of_passes_that_differ_more_or_less():
    rng = np.random.default_rng(0)
    labels, base = rng.integers(0, 3, 2_000), rng.dirichlet([1.0, 1.0, 0.2], 2_000)
    concentration = np.geomspace(1, 30, 2_000)[:, None] * base + 1e-3
    gamma_passes = rng.gamma(concentration, size=(5, 2_000, 3)) + 1e-12
    passes = gamma_passes / gamma_passes.sum(
        axis=2, keepdims=True
    )  # five draws of a Dirichlet distribution
    expected = [naive_reason(labels[z], passes[:, z]) for z in range(2_000)]
    assert find_reasons(labels, None, passes, np.arange(2_000)).tolist() == expected


def test_every_reason_occurs_among_the_flagged():
    data = make_predictions(3, N=2_000)
    errors = uqled.find_label_errors(data.labels, data.softmax, data.passes, method="alg-ens")
    result = find_reasons(data.labels, data.softmax, data.passes, errors.ranked)
    assert set(result) == set(REASONS) - {"contradicts a duplicate"}  # which needs the samples


@pytest.mark.parametrize(
    ("passes", "reason"),
    [
        ([[0.97, 0.02, 0.01]] * 5, "wrong label"),
        ([[0.5, 0.48, 0.02]] * 5, "ambiguous"),  # the label is one of the two
        ([[0.5, 0.02, 0.48]] * 5, "ambiguous"),  # and here it is not
        ([[0.99, 0.01, 0.0]] * 3 + [[0.01, 0.99, 0.0]] * 2, "model does not know"),  # two camps
        ([[0.34, 0.33, 0.33]] * 5, "model does not know"),  # agreed, but on nothing
        ([[0.01, 0.98, 0.01]] * 5, "model does not know"),  # the label fits: others flagged it
        ([[0.0, 1.0, 0.0]] * 5, "model does not know"),
        ([[1.0, 0.0, 0.0]] * 5, "wrong label"),
        ([[0.5, 0.5, 0.0]] * 5, "ambiguous"),
    ],
)
def test_plain_cases_for_a_sample_given_the_second_class(passes, reason):
    stack = np.array(passes)[:, None]
    for dtype in (np.float16, np.float32, np.float64):
        result = find_reasons(np.array([1]), None, stack.astype(dtype), np.array([0]))
        assert result.tolist() == [reason]


def test_only_the_rows_asked_for_are_read(tmp_path):
    data = make_predictions(3, dtype=np.float32)
    np.save(tmp_path / "passes.npy", data.passes)
    mapped_passes = np.load(tmp_path / "passes.npy", mmap_mode="r")
    rows = np.array([5, 2, 399])
    bad = data.passes.copy()
    bad[:, 7] = np.nan
    expected = find_reasons(data.labels, None, data.passes, rows).tolist()
    assert find_reasons(data.labels, None, mapped_passes, rows).tolist() == expected
    assert find_reasons(data.labels, None, bad, rows).tolist() == expected
    assert find_reasons(data.labels, None, mapped_passes, rows[:0]).tolist() == []


def test_no_probabilities_are_refused():
    with pytest.raises(uqled.InputError, match="both missing"):
        find_reasons(np.array([1]), None, None, np.array([0]))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("wrong label", "cat", "dog", 0.03, 0.91),
            "The model is sure of dog (91%); the given cat gets 3%.",
        ),
        (
            ("ambiguous", "cat", "dog", 0.45, 0.5),
            "Two classes fit: dog (50%) and the given cat (45%).",
        ),
        (
            ("ambiguous", "cat", "dog", 0.001, 0.995),
            "Two classes fit, dog (over 99%) and another, and neither is the given cat "
            "(less than 1%).",
        ),
        (
            ("model does not know", "cat", "dog", 0.0, 0.3),
            "The model has no clear answer: dog gets 30%, the given cat 0%.",
        ),
        (
            ("model does not know", "cat", "cat", 0.4, 0.4),
            "The model leans to the given cat (40%), but not all its predictions do.",
        ),
    ],
)
def test_sentences(arguments, sentence):
    assert explain_reason(*arguments) == sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar10n-worst", "cifar10s"])
def test_a_sure_model_is_right_more_often_than_a_lost_one(name):
    path = SHARED_DATA / "predictions" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    data = np.load(path)
    labels, passes, true = data["labels"], data["passes"], data["true_labels"]
    errors = uqled.find_label_errors(labels, None, passes, method="cl-mcd")
    result = find_reasons(labels, None, passes, errors.ranked)
    right = (errors.best == true)[errors.ranked]
    shares = [right[result == reason].mean() for reason in REASONS]
    assert shares == sorted(shares, reverse=True)
