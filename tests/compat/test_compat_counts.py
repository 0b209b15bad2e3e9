"""The drop-in with many classes or odd arrays: cleanlab's answers, or a clear refusal."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import uqled
from cleanlab_cases import data_sets, theirs
from made_predictions import make_predictions
from uqled.compat import find_label_issues, prune_counts
from uqled.compat.prune_counts import sum_as_dense
from uqled.detect.core import joint
from uqled.limits import override_limits

PRUNING = ("prune_by_noise_rate", "prune_by_class", "both")


@pytest.fixture
def only_pairs(monkeypatch):
    """As above two thousand classes: no matrix of all pairs."""
    monkeypatch.setattr(joint, "DENSE_CLASSES", 1)
    monkeypatch.setattr(prune_counts, "calibrate_matrix", None)
    monkeypatch.setattr(prune_counts, "_prune_matrix", None)


def ours(labels, probs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small classes
        return find_label_issues(labels, probs, **options)


# -- many classes ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 3_000), st.sampled_from([0.01, 0.1, 0.9]))
def test_sums_are_numpys_to_the_last_bit(seed, n, share):
    rng = np.random.default_rng(seed)
    values = rng.random(n) * 10.0 ** rng.integers(-4, 4, n)
    values[rng.random(n) > share] = 0
    at = np.flatnonzero(values)
    assert sum_as_dense(at, values[at], n) == np.sum(values)


def test_the_sum_of_a_matrix_is_numpys_to_the_last_bit():
    rng = np.random.default_rng(0)
    matrix = np.asfortranarray(np.where(rng.random((900, 900)) < 0.01, rng.random((900, 900)), 0))
    flat = matrix.ravel(order="F")
    at = np.flatnonzero(flat)
    assert sum_as_dense(at, flat[at], flat.size) == np.sum(matrix)
    one_by_one = reduce(add, flat[at].tolist())  # `sum` compensates rounding since Python 3.12
    assert sum_as_dense(at, flat[at], flat.size) != one_by_one  # order matters


@pytest.mark.usefixtures("only_pairs")
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data_sets(),
    st.sampled_from(PRUNING),
    st.sampled_from([np.float64, np.float32, np.float16]),
    st.sampled_from([0, 1, 2, 5]),
    st.sampled_from([0.3, 0.5, 1.0]),
)
def test_pairs_alone_give_cleanlabs_answers(data, filter_by, dtype, least, frac_noise):
    labels, probs = data
    options = {
        "filter_by": filter_by, "min_examples_per_class": least, "frac_noise": frac_noise
    }  # fmt: skip
    probs = probs.astype(dtype)
    np.testing.assert_array_equal(ours(labels, probs, **options), theirs(labels, probs, **options))


@pytest.mark.usefixtures("only_pairs")
@pytest.mark.parametrize("seed", range(4))
def test_pairs_alone_give_cleanlabs_answers_with_hundreds_of_classes(seed):
    """Rows of many small counts: their sums need rounding, and halves tie."""
    data = make_predictions(seed, N=3_000, K=300, sharpness=6.0, noise=0.4)
    for filter_by in PRUNING:
        for frac_noise in (0.7, 1.0):
            options = {"filter_by": filter_by, "frac_noise": frac_noise}
            issues = ours(data.labels, data.softmax, **options)
            assert issues.sum() > 100
            np.testing.assert_array_equal(issues, theirs(data.labels, data.softmax, **options))


def test_fifty_thousand_classes_take_no_matrix_of_them():
    """A matrix of all pairs would be 20 GB; the probabilities are 20 MB."""
    N, K = 100, 50_000
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, N) * (K // 10)
    true = np.where(rng.random(N) < 0.3, (labels + K // 10) % K, labels)
    probs = np.full((N, K), 1e-7, np.float32)
    probs[np.arange(N), true] += 0.9
    probs[np.arange(N), labels] += 0.05
    tracemalloc.start()
    try:
        issues = ours(labels, probs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400e6
    classes, of = np.unique(np.concatenate([labels, true]), return_inverse=True)
    small = np.full((N, len(classes)), 1e-7, np.float32)
    small[np.arange(N), of[N:]] += 0.9
    small[np.arange(N), of[:N]] += 0.05
    np.testing.assert_array_equal(issues, ours(of[:N], small))
    assert 10 < issues.sum() <= (labels != true).sum()


def test_what_needs_matrices_of_many_classes_says_how_much():
    labels, probs = np.array([0, 1] * 5), np.full((10, 3_000), 1e-5)
    probs[np.arange(10), labels] = 0.9
    with override_limits(memory_bytes=10**8):
        with pytest.raises(uqled.InputError, match=r"num_to_remove_per_class with 3,000 classes"):
            ours(labels, probs, num_to_remove_per_class=[1] * 3_000)
        with pytest.raises(uqled.InputError, match=r"confident_joint with 3,000 .* 0\.1 GB"):
            ours(labels, probs, confident_joint=np.eye(3_000, dtype=np.int8))
        assert not ours(labels, probs).any()


# -- arrays of odd kinds --------------------------------------------------------------------------

DATA = make_predictions(1, N=400, K=5)


def swap_bytes(array):
    return array.astype(array.dtype.newbyteorder())


@given(data_sets(), st.sampled_from(["f2", "f4", "f8"]), st.sampled_from(PRUNING))
def test_the_order_of_bytes_changes_nothing(data, dtype, filter_by):
    labels, probs = data
    probs = probs.astype(dtype)
    expected = theirs(labels, probs, filter_by=filter_by)
    issues = ours(swap_bytes(labels), swap_bytes(probs), filter_by=filter_by)
    np.testing.assert_array_equal(issues, expected)


@pytest.mark.parametrize("ranked_by", [None, "self_confidence", "confidence_weighted_entropy"])
def test_layouts_change_nothing(ranked_by):
    probs = DATA.softmax
    expected = theirs(DATA.labels, probs, return_indices_ranked_by=ranked_by)
    wide = np.repeat(np.repeat(probs, 2, axis=0), 3, axis=1)
    frozen_probs = probs.copy()
    frozen_probs.setflags(write=False)
    backwards = np.ascontiguousarray(probs[::-1, ::-1])[::-1, ::-1]
    unaligned_probs = (
        np.zeros(probs.nbytes + 1, np.uint8)[1:].view(probs.dtype).reshape(probs.shape)
    )
    unaligned_probs[:] = probs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matrices are out of date
        matrix = np.matrix(probs)
    for array in (
        wide[::2, ::3], frozen_probs, backwards, unaligned_probs, matrix, np.asfortranarray(probs),
        np.ma.masked_array(probs),
    ):  # fmt: skip
        issues = find_label_issues(DATA.labels, array, return_indices_ranked_by=ranked_by)
        np.testing.assert_array_equal(issues, expected)
    for labels in (
        DATA.labels.tolist(), DATA.labels.astype(np.uint8), pd.Series(DATA.labels),
        DATA.labels.astype(np.float64), DATA.labels[:, None], np.repeat(DATA.labels, 2)[::2],
        np.ma.masked_array(DATA.labels),
    ):  # fmt: skip
        issues = find_label_issues(labels, probs, return_indices_ranked_by=ranked_by)
        np.testing.assert_array_equal(issues, expected)


def set_first(values, value):
    array = np.array(values, dtype=np.result_type(values, type(value)))
    array[3] = value
    return array


@pytest.mark.parametrize(
    ("labels", "probs", "message"),
    [
        (
            np.ma.masked_array(DATA.labels, DATA.labels == 2),
            DATA.softmax,
            "labels has masked values",
        ),
        (
            DATA.labels,
            np.ma.masked_array(DATA.softmax, DATA.softmax > 0.9),
            "pred_probs has masked values",
        ),
        (DATA.labels, DATA.softmax.astype(object), "pred_probs has type object"),
        (DATA.labels, DATA.softmax.astype(str), "pred_probs has type <U"),
        (DATA.labels, DATA.softmax + 0j, "pred_probs has type complex"),
        (DATA.labels, DATA.softmax > 0.5, "pred_probs has type bool"),
        (DATA.labels, DATA.softmax.astype("M8[s]"), "pred_probs has type datetime"),
        (DATA.labels, np.zeros((400, 5), "V3"), "pred_probs has type"),
        (DATA.labels, np.array(0.5), r"pred_probs has shape \(\)"),
        (np.array(1), DATA.softmax, r"labels have shape \(\)"),
        (set_first(DATA.labels, 1e300), DATA.softmax, r"labels go up to 1e\+300"),
        (set_first(DATA.labels, np.inf), DATA.softmax, "labels are not class numbers"),
        (set_first(DATA.labels, np.nan), DATA.softmax, "labels are not class numbers"),
        (set_first(DATA.labels, np.uint64(2**64 - 1)), DATA.softmax, "labels go up to"),
        (set_first(DATA.labels, 2**63 - 1), DATA.softmax, "labels go up to"),
        ([2**70, *DATA.labels[1:].tolist()], DATA.softmax, "labels are not class numbers"),
        ([[0], [1, 2]] * 200, DATA.softmax, "labels cannot become an array"),
        (DATA.labels.astype(object), DATA.softmax, "labels are not class numbers"),
    ],
    ids=str,
)
def test_arrays_without_an_answer_are_refused(labels, probs, message):
    with pytest.raises(uqled.InputError, match=message):
        find_label_issues(labels, probs)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_more_precision_than_the_answers_are_computed_in_is_refused():
    with pytest.raises(uqled.InputError, match=r"pred_probs has type .*float64"):
        find_label_issues(DATA.labels, DATA.softmax.astype(np.longdouble))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frac_noise": np.nan}, "frac_noise is nan"),
        ({"frac_noise": "1"}, "frac_noise is '1'"),
        ({"min_examples_per_class": None}, "min_examples_per_class is None"),
        ({"num_to_remove_per_class": [1]}, r"num_to_remove_per_class .* shape \(1,\)"),
        ({"num_to_remove_per_class": [np.nan] * 5}, "num_to_remove_per_class"),
        ({"num_to_remove_per_class": ["a"] * 5}, "num_to_remove_per_class"),
        ({"confident_joint": np.eye(4)}, r"confident_joint .* shape \(4, 4\)"),
        ({"confident_joint": np.full((5, 5), np.inf)}, "confident_joint"),
        ({"confident_joint": "x"}, "confident_joint"),
    ],
    ids=str,
)
def test_options_that_are_no_counts_are_refused(options, message):
    with pytest.raises(uqled.InputError, match=message):
        find_label_issues(DATA.labels, DATA.softmax, **options)
