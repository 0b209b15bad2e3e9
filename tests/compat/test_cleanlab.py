"""Against cleanlab 2.9, which nobody here wrote: counts, masks, and the drop-in's answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cleanlab.count import compute_confident_joint
from hypothesis import given
from hypothesis import strategies as st

import uqled
from cleanlab_cases import data_sets, theirs
from made_predictions import make_predictions
from uqled.compat import find_label_issues
from uqled.detect.core.joint import PairCounts, compute_quotas
from uqled.detect.core.sweeps import Member, Sweeps
from uqled.detect.find import read_inputs
from uqled.engines.local import Threads
from uqled.progress import Progress

FILTERS = {
    "cl-pbnr": "prune_by_noise_rate",
    "cl-pbc": "prune_by_class",
    "cl-both": "both",
    "cl-joint": "confident_learning",
    "argmax": "predicted_neq_given",
    "low-self-confidence": "low_self_confidence",
    "low-normalized-margin": "low_normalized_margin",
}


@given(data_sets())
def test_counts_are_cleanlabs_up_to_equal_remainders(data):
    labels, probs = data
    raw = compute_confident_joint(labels, probs, calibrate=False)
    assert (uqled.confident_joint(labels, probs, calibrate=False) == raw).all()
    ours, their = uqled.confident_joint(labels, probs), compute_confident_joint(labels, probs)
    assert (ours.sum(axis=1) == their.sum(axis=1)).all()
    for i in np.flatnonzero((ours != their).any(axis=1)):
        n = np.count_nonzero(labels == i)
        remainder = (raw[i] * n) % raw[i].sum()  # exact, in units of the row's sum
        differing = np.flatnonzero(ours[i] != their[i])
        assert np.abs(ours[i] - their[i]).max() == 1
        assert len(set(remainder[differing].tolist())) == 1
        # of equal remainders, ours go up at the lower classes
        up = [j for j in differing if ours[i, j] > their[i, j]]
        assert max(up) < max(set(differing.tolist()) - set(up))


def selected_with(joint, labels, probs, **options):
    """Our selection, with a joint given from outside."""
    inputs = read_inputs(labels, probs, None)
    counts = np.bincount(labels, minlength=probs.shape[1]).astype(np.int64)
    numbers = compute_quotas(
        PairCounts.from_matrix(joint), counts,
        min_examples_per_class=options.get("min_examples_per_class", 1),
        frac_noise=options.get("frac_noise", 1.0),
    )  # fmt: skip
    member = Member("softmax")
    with Threads(2) as engine:
        sweeps = Sweeps(inputs, engine, Progress(False))
        statistics = sweeps.collect_class_statistics([member])
        joints = sweeps.count_confident_joints([member], statistics)
        best = sweeps.select_top_margins({member: numbers.pairs}, joints)[member]
    return best.to_mask(len(labels)) & ~joints.agrees["softmax"], numbers.pairs


def assert_only_ties_differ(ours, their, labels, probs, pairs):
    """Each sample that only one of the two flags has a margin equal to the cut of a pair."""
    for z in np.flatnonzero(ours != their):
        i = labels[z]
        cuts = []
        for q in np.flatnonzero(pairs.given == i):
            j = pairs.true[q]
            margins = np.sort((probs[:, j] - probs[:, i])[labels == i])[::-1]
            cut = margins[pairs.counts[q] - 1]
            is_tied = np.count_nonzero(margins == cut) > 1
            cuts.append(is_tied and probs[z, j] - probs[z, i] == cut)
        assert any(cuts), f"sample {z} differs without a tie"


@given(data_sets(), st.sampled_from([0, 1, 2, 5]), st.sampled_from([0.3, 0.5, 1.0]))
def test_masks_are_cleanlabs_given_its_joint(data, min_examples, frac_noise):
    labels, probs = data
    joint = compute_confident_joint(labels, probs)
    options = {"min_examples_per_class": min_examples, "frac_noise": frac_noise}
    ours, pairs = selected_with(joint, labels, probs, **options)
    their = theirs(labels, probs, confident_joint=joint, **options)
    single = np.bincount(labels, minlength=probs.shape[1])[labels] == 1
    ours &= ~single  # cleanlab never flags the only sample of a class, even with a minimum of 0
    assert_only_ties_differ(ours, their, labels, probs, pairs)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_masks_are_cleanlabs_on_plausible_data(seed, dtype):
    data = make_predictions(seed, N=3_000, K=10, noise=0.2, sharpness=3.0)
    probs = data.softmax.astype(dtype)
    # float16 is compared on the float64 copy: cleanlab averages thresholds in half precision
    wide = probs.astype(np.float64)
    joint = compute_confident_joint(data.labels, wide)
    ours, pairs = selected_with(joint, data.labels, probs)
    assert_only_ties_differ(ours, theirs(data.labels, wide), data.labels, wide, pairs)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("method", FILTERS)
def test_every_method_of_the_family_is_cleanlabs(method):
    n_equal = 0
    for seed in range(8):
        data = make_predictions(seed, N=2_000, K=6)
        if (
            uqled.confident_joint(data.labels, data.softmax)
            != compute_confident_joint(data.labels, data.softmax)
        ).any():
            continue  # equal remainders, rounded up at other classes
        n_equal += 1
        errors = uqled.find_label_errors(data.labels, data.softmax, method=method)
        expected = theirs(data.labels, data.softmax, filter_by=FILTERS[method])
        np.testing.assert_array_equal(errors.mask, expected)
    assert n_equal >= 4


@given(
    data_sets(),
    st.sampled_from(list(FILTERS.values())),
    st.sampled_from([np.float64, np.float32, np.float16]),
    st.sampled_from([None, "self_confidence", "normalized_margin", "confidence_weighted_entropy"]),
    st.booleans(),
)
def test_the_drop_in_gives_the_same_answers(data, filter_by, dtype, ranked_by, fortran):
    labels, probs = data
    probs = probs.astype(dtype, order="F" if fortran else "C")
    options = {"filter_by": filter_by, "return_indices_ranked_by": ranked_by}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = find_label_issues(labels, probs, **options)
    np.testing.assert_array_equal(ours, theirs(labels, probs, **options))


@given(
    data_sets(),
    st.sampled_from(["prune_by_noise_rate", "prune_by_class", "both"]),
    st.sampled_from([0, 1, 2, 5]),
    st.sampled_from([0.3, 0.5, 1.0]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_the_drop_in_takes_the_same_options(
    data, filter_by, min_examples, frac_noise, with_joint, with_numbers, seed
):
    labels, probs = data
    K, rng = probs.shape[1], np.random.default_rng(seed)
    options = {
        "filter_by": filter_by,
        "min_examples_per_class": min_examples,
        "frac_noise": frac_noise,
        "confident_joint": rng.integers(0, 9, (K, K)) if with_joint else None,
        "num_to_remove_per_class": rng.integers(0, 4, K).tolist() if with_numbers else None,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = find_label_issues(labels, probs, **options)
    np.testing.assert_array_equal(ours, theirs(labels, probs, **options))


def test_the_drop_in_adjusts_probabilities(predictions):
    options = {
        "return_indices_ranked_by": "normalized_margin",
        "rank_by_kwargs": {"adjust_pred_probs": True},
    }
    ours = find_label_issues(predictions.labels, predictions.softmax, **options)
    np.testing.assert_array_equal(ours, theirs(predictions.labels, predictions.softmax, **options))
    assert len(ours) > 20


def test_the_drop_in_takes_rows_that_do_not_sum_to_one(predictions):
    probs = predictions.softmax * 0.9
    probs[3, 1] = -5e-7
    ours = find_label_issues(predictions.labels, probs)
    np.testing.assert_array_equal(ours, theirs(predictions.labels, probs))
    with pytest.raises(uqled.InputError, match=r"sums to 0\.9"):
        uqled.find_label_errors(predictions.labels, predictions.softmax * 0.9, method="cl-pbnr")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"filter_by": "magic"}, "filter_by is 'magic'"),
        ({"return_indices_ranked_by": "magic"}, "return_indices_ranked_by is 'magic'"),
        ({"multi_label": True}, "multi_label is True"),
        (
            {"filter_by": "confident_learning", "num_to_remove_per_class": [1] * 5},
            "num_to_remove_per_class",
        ),
    ],
)
def test_the_drop_in_refuses_by_name(predictions, change, error):
    with pytest.raises(uqled.InputError, match=error):
        find_label_issues(predictions.labels, predictions.softmax, **change)


def test_the_drop_in_takes_one_class_as_cleanlab_does():
    probs, zeros = np.full((4, 2), 0.5), np.zeros(4, int)
    np.testing.assert_array_equal(find_label_issues(zeros, probs), theirs(zeros, probs))
    for labels, options in ((zeros, {"filter_by": "predicted_neq_given"}), (zeros + 1, {})):
        with pytest.raises(ValueError, match="2 classes"):
            theirs(labels, probs, **options)
        with pytest.raises(uqled.InputError, match="one class only"):
            find_label_issues(labels, probs, **options)


def test_the_drop_in_warns_of_options_without_effect(predictions):
    with pytest.warns(UserWarning, match="frac_noise"):
        find_label_issues(
            predictions.labels, predictions.softmax, filter_by="confident_learning", frac_noise=0.5
        )
    with pytest.warns(UserWarning, match="confident_joint is ignored"):
        find_label_issues(
            predictions.labels,
            predictions.softmax,
            filter_by="confident_learning",
            confident_joint=np.eye(5),
        )
    with pytest.warns(UserWarning, match="too few samples"):
        find_label_issues(predictions.labels, predictions.softmax, min_examples_per_class=70)
