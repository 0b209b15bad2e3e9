"""Similarity, kinds of matrices and flips: exact values, exact counts, and cleanlab beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from uqled import noise
from uqled.errors import InputError, MissingInputError
from uqled.noise import kinds, matrices

CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
# In thousandths. The airplane row is the paper's; the others are made up in its likeness.
SIMILAR_CLASSES = np.array(
    [
        [928, 4, 19, 7, 2, 0, 1, 2, 27, 10],
        [4, 955, 1, 1, 0, 0, 1, 0, 8, 30],
        [12, 1, 910, 25, 22, 10, 12, 6, 1, 1],
        [5, 2, 16, 850, 12, 80, 18, 12, 3, 2],
        [1, 1, 15, 30, 918, 10, 8, 15, 1, 1],
        [2, 1, 11, 60, 12, 890, 6, 16, 1, 1],
        [2, 1, 8, 20, 6, 4, 956, 1, 1, 1],
        [1, 1, 1, 12, 14, 11, 1, 957, 1, 1],
        [25, 8, 2, 2, 1, 1, 1, 1, 953, 6],
        [6, 35, 1, 2, 1, 1, 1, 1, 8, 944],
    ]
)
# The non-zero off-diagonals of the paper's noise transition matrix for CIFAR-10.
PAPER_TARGETS = {
    "airplane": {"bird", "ship"},
    "automobile": {"truck"},
    "bird": {"cat", "deer"},
    "cat": {"dog"},
    "deer": {"cat"},
    "dog": {"cat"},
    "frog": {"cat"},
    "horse": {"cat", "deer", "dog"},
    "ship": {"airplane"},
    "truck": {"automobile"},
}


def targets(probabilities, classes):
    return {
        true: {observed for j, observed in enumerate(classes) if j != i and probabilities[i, j] > 0}
        for i, true in enumerate(classes)
    }


def softmax_rows(seed, n, k, sharpness=3.0):
    logits = np.random.default_rng(seed).normal(size=(n, k)) * sharpness
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


# -- similarity ----------------------------------------------------------------------------------


def test_scores_are_means_over_the_samples_of_the_true_class():
    probs = np.array([[0.8, 0.1, 0.1], [0.6, 0.4, 0.0], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    scores = noise.similarity_scores([0, 0, 1, 2], probs)
    np.testing.assert_allclose(scores, [[0.7, 0.25, 0.05], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])


def test_scores_follow_the_order_of_the_classes():
    probs = [[0.9, 0.1], [0.3, 0.7]]
    as_written = noise.similarity_scores(["dog", "cat"], probs, classes=["dog", "cat"])
    np.testing.assert_allclose(as_written, probs)
    np.testing.assert_allclose(noise.similarity_scores(["dog", "cat"], probs), probs[::-1])
    table = pd.DataFrame(probs, columns=["dog", "cat"])
    np.testing.assert_allclose(noise.similarity_scores(["dog", "cat"], table), probs)
    assert noise.similarity_matrix(["dog", "cat"], table, rate=0.1).classes == ("dog", "cat")


@pytest.mark.parametrize("measure", [noise.similarity_scores, noise.confusion_matrix])
def test_a_class_without_samples_has_no_similarity(measure):
    with pytest.raises(InputError, match=r"no sample of class 'deer' \(1 of 3 classes"):
        measure(["cat", "dog"], np.full((2, 3), 1 / 3), classes=["cat", "deer", "dog"])


def test_the_papers_airplane():
    flips = noise.flip_probabilities(SIMILAR_CLASSES / 1000)[0]
    assert {CIFAR[j] for j in np.flatnonzero(flips)} == {"bird", "ship"}
    assert [f"{flips[2]:.1%}", f"{flips[8]:.1%}"] == ["49.8%", "50.2%"]


def test_a_table_like_cifars_gives_the_papers_pattern():
    labels = np.repeat(CIFAR, 5000)
    probs = np.repeat(SIMILAR_CLASSES / 1000, 5000, axis=0)
    matrix = noise.similarity_matrix(labels, probs, rate=0.2, classes=CIFAR)
    assert targets(matrix.probabilities, CIFAR) == PAPER_TARGETS
    np.testing.assert_allclose(np.diag(matrix.probabilities), 0.8)
    np.testing.assert_allclose(
        matrix.probabilities[0, [2, 8]], [0.2 * 0.4980, 0.2 * 0.5020], atol=1e-6
    )

    noisy, is_error = noise.apply_noise(labels, matrix, rate=0.2, seed=0)
    realised_matrix = noise.realised_matrix(labels, noisy, CIFAR)
    assert is_error.sum() == 10_000
    assert targets(realised_matrix.probabilities, CIFAR) == PAPER_TARGETS
    assert np.abs(np.diag(realised_matrix.probabilities) - 0.8).max() < 0.025  # over four sigma


def test_the_most_similar_class_where_none_passes_the_threshold():
    # One low score among equal ones: mean .0225 + deviation .0130 is above them all.
    row = [0.91, 0.0, 0.03, 0.03, 0.03]
    groups = noise.similarity_groups(np.array([np.roll(row, k) for k in range(5)]))
    assert np.flatnonzero(groups[0]).tolist() == [2]  # of equals the lowest
    assert groups.sum(axis=1).tolist() == [1] * 5
    assert noise.flip_probabilities(np.array([row] * 5))[0].tolist() == [0, 0, 1, 0, 0]


def test_scores_on_the_threshold_are_in_the_group():
    # a, a, b, b: mean + deviation is exactly b, whatever rounding says.
    for low, high in [(0.01, 0.03), (0.1, 0.2), (1e-9, 3e-9), (0.07, 0.11)]:
        row = [1.0, low, low, high, high]
        assert noise.similarity_groups([row] * 5)[0].tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("score", [0.0, 0.1, 1 / 3])
def test_equal_scores_put_all_others_in_the_group(score):
    S = np.full((7, 7), score)
    np.testing.assert_array_equal(noise.similarity_groups(S), ~np.eye(7, dtype=bool))
    np.testing.assert_allclose(noise.flip_probabilities(S), (1 - np.eye(7)) / 6)


def test_two_classes_can_only_become_each_other():
    assert noise.flip_probabilities([[0.9, 0.1], [0.4, 0.6]]).tolist() == [[0, 1], [1, 0]]
    matrix = noise.similarity_matrix([0, 1], [[0.9, 0.1], [0.4, 0.6]], rate=0.25)
    assert matrix.probabilities.tolist() == [[0.75, 0.25], [0.25, 0.75]]


@given(seed=st.integers(0, 10_000), k=st.integers(2, 12))
@settings(max_examples=50, deadline=None)
def test_groups_as_in_the_equations(seed, k):
    S = softmax_rows(seed, k, k)
    groups, flips = noise.similarity_groups(S), noise.flip_probabilities(S)
    for i in range(k):
        others = {j: S[i, j] for j in range(k) if j != i}
        mean = sum(others.values()) / len(others)
        deviation = (sum((s - mean) ** 2 for s in others.values()) / len(others)) ** 0.5
        # Within the tie of its threshold a score counts as on it, here as there.
        expected = {j for j, s in others.items() if s >= (mean + deviation) * (1 - 1e-9)}
        expected = expected or {max(others, key=lambda j: others[j])}
        assert set(np.flatnonzero(groups[i])) == expected
        total = sum(np.exp(S[i, j]) for j in expected)
        for j in range(k):
            share = np.exp(S[i, j]) / total if j in expected else 0
            assert flips[i, j] == pytest.approx(share, abs=1e-12)


# -- kinds ---------------------------------------------------------------------------------------


def test_symmetric():
    matrix = noise.symmetric_matrix(5, rate=0.2)
    np.testing.assert_allclose(matrix.probabilities, 0.75 * np.eye(5) + 0.05)
    assert noise.symmetric_matrix(["a", "b"], rate=1).probabilities.tolist() == [[0, 1], [1, 0]]
    assert noise.symmetric_matrix(3, rate=0).probabilities.tolist() == np.eye(3).tolist()


def test_pairs():
    around = noise.pair_matrix(["a", "b", "c"], rate=0.25)
    assert around.probabilities.tolist() == [[0.75, 0.25, 0], [0, 0.75, 0.25], [0.25, 0, 0.75]]
    named_matrix = noise.pair_matrix(["a", "b", "c"], rate=0.25, pairs={"c": "a"})
    assert named_matrix.probabilities.tolist() == [[1, 0, 0], [0, 1, 0], [0.25, 0, 0.75]]
    for wrong_pairs in ({"c": "x"}, {"x": "c"}, {"c": "c"}):
        with pytest.raises(InputError, match="pairs maps"):
            noise.pair_matrix(["a", "b", "c"], rate=0.25, pairs=wrong_pairs)


def test_confusion_is_what_the_model_says():
    probs = [[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7], [0, 1, 0], [0.1, 0.1, 0.8]]
    matrix = noise.confusion_matrix([0, 0, 0, 1, 2], probs)
    np.testing.assert_allclose(matrix.probabilities, [[2 / 3, 0, 1 / 3], [0, 1, 0], [0, 0, 1]])


@given(
    k=st.integers(2, 15), noise_rate=st.floats(0, 1), zeros=st.floats(0, 1), seed=st.integers(0, 99)
)
@settings(max_examples=200, deadline=None)
def test_sparse_has_the_noise_and_the_zeros_it_was_asked_for(k, noise_rate, zeros, seed):
    left = k * (k - 1) - round(zeros * k * (k - 1))
    if noise_rate * k > min(k, left) + 1e-9:
        with pytest.raises(InputError, match=r"zeros is .* too few for a mean noise"):
            noise.sparse_matrix(k, noise=noise_rate, zeros=zeros, seed=seed)
        return
    T = noise.sparse_matrix(k, noise=noise_rate, zeros=zeros, seed=seed).probabilities
    assert 1 - np.diag(T).mean() == pytest.approx(noise_rate, abs=1e-9)
    if 1e-6 < noise_rate < 1 - 1e-6:
        off = T[~np.eye(k, dtype=bool)].reshape(k, k - 1)
        assert (off > 0).sum() == left
        assert (off > 0).any(axis=1).sum() == min(k, left)


def test_sparse_noise_differs_between_classes_and_places_are_uniform():
    samples = [
        noise.sparse_matrix(4, noise=0.3, zeros=0.5, seed=s).probabilities for s in range(2000)
    ]
    assert np.std([np.diag(T) for T in samples], axis=1).min() > 0.001
    places = (np.array(samples) > 0).mean(axis=0)  # [4,4] how often each place has noise
    np.testing.assert_allclose(places[~np.eye(4, dtype=bool)], 0.5, atol=0.05)
    again = noise.sparse_matrix(4, noise=0.3, zeros=0.5, seed=7)
    assert (again.probabilities == samples[7]).all()


# -- flips ---------------------------------------------------------------------------------------


def test_without_a_rate_every_sample_draws_from_its_row():
    rows = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.6, 0.0, 0.4]])
    labels = np.repeat([0, 1, 2], [30_000, 100, 30_000])
    noisy, is_error = noise.apply_noise(labels, noise.TransitionMatrix(rows), seed=3)
    assert (is_error == (noisy != labels)).all()
    counts = [np.bincount(noisy[labels == k], minlength=3) for k in range(3)]
    assert counts[1].tolist() == [0, 100, 0]
    assert counts[2][1] == 0
    assert stats.chisquare(counts[0], 30_000 * rows[0]).pvalue > 0.001
    assert stats.chisquare(counts[2][[0, 2]], 30_000 * rows[2][[0, 2]]).pvalue > 0.001


def test_with_a_rate_the_count_is_exact_and_the_choice_uniform():
    rows = np.array([[0.99, 0.0075, 0.0025], [0.1, 0.8, 0.1], [0.5, 0.5, 0.0]])
    labels = np.repeat([0, 1, 2], 20_000)
    noisy, is_error = noise.apply_noise(labels, noise.TransitionMatrix(rows), rate=0.3, seed=4)
    assert is_error.sum() == 18_000
    assert (is_error == (noisy != labels)).all()
    assert stats.chisquare(is_error.reshape(3, -1).sum(axis=1)).pvalue > 0.001  # not by diagonals
    assert stats.chisquare(is_error.reshape(60, -1).sum(axis=1)).pvalue > 0.001  # nor by place
    counts = np.bincount(noisy[(labels == 0) & is_error], minlength=3)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:], counts.sum() * np.array([0.75, 0.25])).pvalue > 0.001


@pytest.mark.parametrize(("rate", "n", "count"), [(0.2, 7, 1), (0.5, 5, 2), (0.5, 7, 4)])
def test_the_count_is_pythons_round(rate, n, count):
    _, is_error = noise.apply_noise([0] * n, noise.symmetric_matrix(3, rate=0.1), rate=rate, seed=0)
    assert is_error.sum() == count


def test_rates_of_none_and_all():
    labels = np.arange(1000) % 4
    matrix = noise.symmetric_matrix(4, rate=0.3)
    same, none = noise.apply_noise(labels, matrix, rate=0, seed=0)
    assert (same == labels).all()
    assert not none.any()
    other, noisy_everywhere = noise.apply_noise(labels, matrix, rate=1, seed=0)
    assert (other != labels).all()
    assert noisy_everywhere.all()
    assert (
        noise.apply_noise([0, 1], noise.TransitionMatrix(np.eye(2)), rate=0, seed=0)[1].sum() == 0
    )


def test_draws_equal_those_of_a_plain_loop():
    rng = np.random.default_rng(1)
    rows = softmax_rows(2, 6, 6) * (rng.random((6, 6)) < 0.6) + 1e-3 * np.eye(6)
    codes = rng.integers(0, 6, 500).astype(np.int32)
    labels_drawn = matrices._draw_labels(codes, rows, np.random.default_rng(9))
    for code, at, result in zip(
        codes, np.random.default_rng(9).random(500), labels_drawn, strict=True
    ):
        place, total = at * rows[code].sum(), 0.0
        for expected in range(6):
            total += rows[code, expected]
            if total > place:
                break
        assert result == expected

    class Lowest:
        random = staticmethod(np.zeros)

    never_first = np.array([[0.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.2, 0.8]])
    assert matrices._draw_labels(np.arange(3, dtype=np.int32), never_first, Lowest()).tolist() == [
        2,
        1,
        1,
    ]


def test_a_class_that_cannot_flip_refuses_a_rate_whatever_the_seed():
    matrix = noise.pair_matrix(["a", "b", "c"], rate=0.2, pairs={"a": "b", "b": "a"})
    labels = ["a"] * 99 + ["c"]
    for seed in range(5):
        with pytest.raises(InputError, match=r"rate is 0\.1, but class 'c' has nowhere to flip to"):
            noise.apply_noise(labels, matrix, rate=0.1, seed=seed)
    assert (
        noise.apply_noise(labels[:-1], matrix, rate=0.1, seed=0)[1].sum() == 10
    )  # no c, no matter
    noisy, _ = noise.apply_noise(labels, matrix, seed=0)
    assert noisy[-1] == "c"


def test_labels_keep_their_type():
    matrix = noise.pair_matrix(["cat", "dog", "horse"], rate=1)
    for labels in (
        np.array(["cat", "dog", "dog"]),  # <U3, too short for a horse
        np.array(["cat", "dog", "dog"], dtype=object),
        ["cat", "dog", "dog"],
        pd.Series(["cat", "dog", "dog"], index=[5, 3, 1]),
        pd.Series(["cat", "dog", "dog"], dtype="category"),
    ):
        noisy, is_error = noise.apply_noise(labels, matrix, rate=1, seed=0)
        assert noisy.tolist() == ["dog", "horse", "horse"]
        assert noisy.dtype.kind == np.asarray(labels).dtype.kind
        assert is_error.dtype == bool
    for dtype in ("int8", "uint16", "int64", "float32"):
        noisy, _ = noise.apply_noise(np.array([0, 2], dtype=dtype), matrix, rate=1, seed=0)
        assert noisy.tolist() == [1, 0]
        assert noisy.dtype == dtype
    wide, _ = noise.apply_noise(
        np.array([127], dtype="int8"), noise.pair_matrix(300, rate=1), seed=0
    )
    assert wide.tolist() == [128]  # more than int8 holds
    flags, _ = noise.apply_noise([True, False], noise.pair_matrix(2, rate=1), seed=0)
    assert flags.dtype == bool
    assert flags.tolist() == [False, True]


def test_integers_are_rows_or_the_numbers_in_the_names():
    rows = noise.apply_noise([0, 2], noise.pair_matrix(["x", "y", "z"], rate=1), seed=0)[0]
    assert rows.tolist() == [1, 0]
    numbers = noise.pair_matrix([3, 5, 9], rate=1)
    assert noise.apply_noise([3, 9], numbers, seed=0)[0].tolist() == [5, 3]
    assert noise.apply_noise(["3", "9"], numbers, seed=0)[0].tolist() == ["5", "3"]
    with pytest.raises(InputError, match="contain 4 at index 1, which is not among the classes"):
        noise.apply_noise([3, 4], numbers, seed=0)


def test_the_seed_decides():
    labels, matrix = np.arange(1000) % 5, noise.symmetric_matrix(5, rate=0.2)
    first, again, other = (
        noise.apply_noise(labels, matrix, rate=0.2, seed=s)[0].tolist() for s in (1, 1, 2)
    )
    assert first == again != other
    assert noise.apply_noise(labels.astype("int8"), matrix, rate=0.2, seed=1)[0].tolist() == first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.5, "seed": 0}, r"rate is 1\.5\. Pass a number from 0 to 1"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": None}, "seed is None"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(InputError, match=message):
        noise.apply_noise([0, 1], noise.symmetric_matrix(2, rate=0.1), **options)


@given(n=st.integers(1, 60), k=st.integers(2, 6), rate=st.floats(0, 1), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_any_rate_is_met_exactly(n, k, rate, seed):
    labels = np.random.default_rng(seed).integers(0, k, n)
    noisy, is_error = noise.apply_noise(
        labels, noise.symmetric_matrix(k, rate=0.5), rate=rate, seed=seed
    )
    assert is_error.sum() == (noisy != labels).sum() == round(rate * n)
    flips = noise.instance_noise(labels, softmax_rows(seed, n, k), rate=rate, seed=seed)
    assert flips[1].sum() == (flips[0] != labels).sum() == round(rate * n)


# -- instances -----------------------------------------------------------------------------------


def test_the_doubtful_flip_to_what_they_are_taken_for():
    # Half the samples put 0.9 on their own class, half 0.1; what is left goes 3 : 1.
    sure_probs = np.array([0.9, 0.075, 0.025])
    unsure_probs = np.array([0.1, 0.675, 0.225])
    probs = np.repeat([sure_probs, unsure_probs], 20_000, axis=0)
    labels = np.zeros(40_000, dtype=int)
    _, is_error = noise.instance_noise(labels, probs, rate=0.01, seed=5)
    assert is_error.sum() == 400
    # So few are drawn that replacement hardly matters: the shares are those of the weights.
    expected = 400 * np.array([0.1, 0.9])
    assert stats.chisquare(is_error.reshape(2, -1).sum(axis=1), expected).pvalue > 0.001
    noisy_labels, _ = noise.instance_noise(labels, probs, rate=0.5, seed=5)
    counts = np.bincount(noisy_labels, minlength=3)
    assert counts[0] == 20_000
    assert stats.chisquare(counts[1:], 20_000 * np.array([0.75, 0.25])).pvalue > 0.001


def test_the_sure_never_flip():
    probs = np.array([[1, 0, 0], [0.5, 0, 0.5], [0.5, 0, 0.5], [0, 0, 1]], dtype=np.float32)
    labels = ["a", "a", "c", "c"]
    noisy, is_error = noise.instance_noise(labels, probs, rate=0.5, seed=0, classes=["a", "b", "c"])
    assert noisy.tolist() == ["a", "c", "a", "c"]
    assert is_error.tolist() == [False, True, True, False]
    with pytest.raises(InputError, match=r"3 of 4 samples would flip, but only 2 have any"):
        noise.instance_noise(labels, probs, rate=0.75, seed=0, classes=["a", "b", "c"])


# -- measured ------------------------------------------------------------------------------------


def test_the_realised_matrix_is_counted():
    matrix = noise.realised_matrix(list("aaaabb"), list("aaabba"), ["a", "b", "c"])
    assert matrix.probabilities.tolist() == [[0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0, 1]]
    assert matrix.classes == ("a", "b", "c")
    with pytest.raises(InputError, match="noisy_labels have 1 entries, but there are 2"):
        noise.realised_matrix(["a", "b"], ["a"], ["a", "b"])


def test_kinds_by_name():
    labels, probs = np.repeat(CIFAR, 100), np.repeat(SIMILAR_CLASSES / 1000, 100, axis=0)
    options = {
        "similarity": {"rate": 0.2, "pred_probs": probs},
        "symmetric": {"rate": 0.2},
        "pair": {"rate": 0.2},
        "sparse": {"rate": 0.2, "zeros": 0.4},
        "confusion": {"pred_probs": softmax_rows(0, 1000, 10), "rate": 0.2},
        "matrix": {"matrix": noise.symmetric_matrix(CIFAR, rate=0.5), "rate": 0.2},
        "instance": {"rate": 0.2, "pred_probs": probs},
    }
    assert list(options) == list(kinds.KINDS)
    for kind, given_options in options.items():
        noisy = kinds.apply_noise_kind(kind, labels, **given_options, seed=1)
        assert (noisy.is_error == (noisy.labels != labels)).all()
        assert noisy.counts.tolist() == [100] * 10
        assert noisy.realised == noise.realised_matrix(labels, noisy.labels, CIFAR)
        assert noisy.is_error.sum() == 200 or kind == "sparse"
        if kind == "sparse":  # each class has its own noise, so there is no one rate
            expected, _ = noise.apply_noise(labels, noisy.intended, seed=1)
            assert (noisy.labels == expected).all()
        if kind == "instance":
            assert noisy.intended is None
        else:
            assert 1 - np.diag(noisy.intended.probabilities).mean() == pytest.approx(0.2)
    with pytest.raises(MissingInputError, match="pred_probs is missing"):
        kinds.apply_noise_kind("similarity", labels, rate=0.2, seed=1)
    with pytest.raises(InputError, match="zeros has no meaning for noise of the kind 'pair'"):
        kinds.apply_noise_kind("pair", labels, rate=0.2, zeros=0.1, seed=1)
    with pytest.raises(InputError, match="kind is 'pairs'"):
        kinds.apply_noise_kind("pairs", labels, rate=0.2, seed=1)


def test_classes_are_those_found_and_the_model_may_have_seen_other_samples():
    noisy = kinds.apply_noise_kind("pair", [1, 2, 5], rate=1, seed=0)
    assert noisy.labels.tolist() == [2, 5, 1]
    other = {"pred_probs": [[0.9, 0.1], [0.2, 0.8]], "model_labels": ["cat", "dog"]}
    noisy = kinds.apply_noise_kind("similarity", ["dog", "dog", "cat"], rate=1, seed=0, **other)
    assert noisy.labels.tolist() == ["cat", "cat", "dog"]
    with pytest.raises(InputError, match=r"one class only \('cat'\)"):
        kinds.apply_noise_kind("symmetric", ["cat"], rate=1, seed=0)
