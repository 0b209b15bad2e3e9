"""Every method against its naive twin, and the same flags however the rows arrive."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import zarr

import naive
import uqled
from made_predictions import make_predictions
from uqled.detect.core import inputs as inputs_module
from uqled.detect.core import sweeps
from uqled.detect.core.joint import DENSE_CLASSES, PairCounter, calibrate_joint
from uqled.detect.core.kernels import plain
from uqled.detect.core.selection import TopPerPair
from uqled.detect.find import read_inputs
from uqled.detect.methods.registry import METHODS


def masks(errors):
    return {name: one.mask for name, one in errors.by_method.items()}


def assert_same(result, expected):
    assert result.keys() - {"auto"} == expected.keys() - {"auto"}  # which has no naive twin
    for name in expected:
        np.testing.assert_array_equal(result[name], expected[name], err_msg=name)


CASES = {
    "plain": {},
    "two classes": {"K": 2},
    "single precision": {"dtype": np.float32},
    "half precision": {"dtype": np.float16},
    "weak model": {"sharpness": 0.5},
    "heavy noise": {"noise": 0.6},
    "no noise, sure model": {"noise": 0.0, "sharpness": 9.0},
    "one pass": {"F": 1},
    "even number of passes": {"F": 4},
}


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("entropy_class", ["candidate", "given"])
def test_every_method_is_its_naive_twin(case, entropy_class):
    data = make_predictions(7, N=150, **CASES[case])
    errors = uqled.find_label_errors(
        data.labels, data.softmax, data.passes, method="all", entropy_class=entropy_class
    )
    assert_same(
        masks(errors), naive.all_methods(data.labels, data.softmax, data.passes, entropy_class)
    )


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("case", CASES)
def test_rows_that_cannot_be_selected_are_left_out(case, monkeypatch):
    """As rows of many classes in memory are: few of those predicted as labelled are offered."""
    monkeypatch.setattr(sweeps, "_LONG_ROW", 0)
    n_offered = []
    add_rows = TopPerPair.add_rows

    def count_offered(self, rows, labels, is_offered, *others):
        n_offered.append(np.count_nonzero(is_offered) / len(rows))
        add_rows(self, rows, labels, is_offered, *others)

    monkeypatch.setattr(TopPerPair, "add_rows", count_offered)
    data = make_predictions(7, N=150, **CASES[case])
    expected = naive.all_methods(data.labels, data.softmax, data.passes)
    for method in ("cl-pbnr", "cl-mcd-ens"):
        n_offered.clear()
        errors = uqled.find_label_errors(data.labels, data.softmax, data.passes, method=method)
        np.testing.assert_array_equal(errors.mask, expected[method])
        is_converted = case == "half precision"  # and read block by block
        assert (max(n_offered) == 1) == is_converted


@pytest.mark.usefixtures("every_kernel")
def test_rows_left_out_at_first_take_a_place_if_there_is_one(monkeypatch):
    """In a pair of a third class, a sample predicted as labelled may be ahead of another."""
    monkeypatch.setattr(sweeps, "_LONG_ROW", 0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        probs, labels = rng.dirichlet(np.full(4, 0.3), 60), rng.integers(0, 4, 60)
        rows = np.where(rng.random((60, 1)) < 0.6, np.eye(4)[labels], probs)
        probs = (probs + rows) / 2
        errors = uqled.find_label_errors(labels, probs, method="cl-pbnr")
        np.testing.assert_array_equal(errors.mask, naive.cl_pbnr(labels, probs))


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("entropy_class", ["candidate", "given"])
def test_every_limit_of_uncertainty_is_its_naive_twin(case, entropy_class):
    data = make_predictions(8, N=150, **CASES[case])
    twins = naive.limited_methods(data.labels, data.passes, entropy_class)
    errors = uqled.find_label_errors(
        data.labels, None, data.passes, method=list(twins), entropy_class=entropy_class
    )
    assert errors.method == "cl-mcd-e"
    assert_same(masks(errors), twins)
    for name in twins:
        single_result = uqled.find_label_errors(
            data.labels, None, data.passes, method=name, entropy_class=entropy_class
        )
        assert (single_result.mask == twins[name]).all()
        assert (single_result.joint == errors.by_method[name].joint).all()


def test_limits_of_uncertainty_differ():
    data = make_predictions(8, N=600, noise=0.3)
    names = ["cl-mcd", "cl-mcd-e", "cl-mcd-m", "cl-mcd-mi", "cl-mcd-vr", "cl-mcd-sd"]
    errors = uqled.find_label_errors(data.labels, None, data.passes, method=names)
    assert len({one.mask.tobytes() for one in errors.by_method.values()}) == len(names)
    results = uqled.find_label_errors(data.labels, None, data.passes, method="all")
    assert "cl-mcd-m" not in results.by_method


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("seed", range(5))
def test_ties_missing_classes_and_certainty(seed):
    """Probabilities in tenths, equal rows, a class nobody was given and one with one sample."""
    rng = np.random.default_rng(seed)
    passes = rng.multinomial(10, [0.1, 0.2, 0.3, 0.2, 0.2], size=(3, 90)) / 10
    passes[:, 10:20] = passes[:, :10]
    passes[:, 20:30] = np.eye(5)[rng.integers(0, 5, 10)]
    labels = rng.integers(0, 3, 90)
    labels[0] = 4
    errors = uqled.find_label_errors(labels, passes[0], passes, method="all")
    assert_same(masks(errors), naive.all_methods(labels, passes[0], passes))
    twins = naive.limited_methods(labels, passes)
    assert_same(masks(uqled.find_label_errors(labels, None, passes, method=list(twins))), twins)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("min_examples", [0, 1, 3, 40])
@pytest.mark.parametrize("frac_noise", [0.0, 0.25, 0.5, 1.0])
def test_options_of_pruning(min_examples, frac_noise):
    data = make_predictions(11, N=150, noise=0.5, sharpness=1.0)
    options = {"min_examples_per_class": min_examples, "frac_noise": frac_noise}
    naive_options = {"min_examples": min_examples, "frac_noise": frac_noise}
    pbnr = uqled.find_label_errors(data.labels, data.softmax, method="cl-pbnr", **options)
    assert (pbnr.mask == naive.cl_pbnr(data.labels, data.softmax, **naive_options)).all()
    pbc = uqled.find_label_errors(data.labels, data.softmax, method="cl-pbc", **options)
    assert (pbc.mask == naive.cl_pbc(data.labels, data.softmax, **naive_options)).all()
    errors = uqled.find_label_errors(data.labels, data.softmax, method="cl-both", **options)
    assert (errors.mask == (pbnr.mask & pbc.mask)).all()


def test_one_method_alone_gives_what_it_gives_among_all(predictions):
    together = uqled.find_label_errors(
        predictions.labels, predictions.softmax, predictions.passes, method="all"
    )
    for name in METHODS.names():
        if not METHODS.load(name).is_in_all:
            continue
        options = [{"agreement": 2}, {"agreement": 3}] if name == "alg-ens" else [{}]
        for option in options:
            single_result = uqled.find_label_errors(
                predictions.labels, predictions.softmax, predictions.passes, method=name, **option
            )
            same = together.by_method[single_result.method]
            assert (single_result.mask == same.mask).all()
            assert (single_result.votes == same.votes).all()
            assert (single_result.ranked == same.ranked).all()
            assert (single_result.joint == same.joint).all()


def test_agreement_counts_four_algorithms(predictions):
    arguments = predictions.labels, predictions.softmax, predictions.passes
    four = [
        uqled.find_label_errors(*arguments, method=name).mask
        for name in ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens")
    ]
    votes = np.sum(four, axis=0)
    for m in (1, 2, 3, 4):
        errors = uqled.find_label_errors(*arguments, method="alg-ens", agreement=m)
        assert (errors.votes == votes).all()
        assert (errors.mask == (votes >= m)).all()
        assert errors.method == f"alg-ens-{m}"
    default = uqled.find_label_errors(*arguments, method="alg-ens")
    assert (default.mask == (votes >= 3)).all()


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    return request.param


@pytest.fixture(params=[1, 7, 64, None])
def block_rows(request, monkeypatch):
    if request.param is not None:
        row_bytes = 5 * 8 * (1 + 5)  # K float64 of the softmax and of five passes
        monkeypatch.setattr(inputs_module, "BLOCK_BYTES", request.param * row_bytes)


@pytest.mark.usefixtures("every_kernel", "block_rows")
def test_threads_and_blocks_do_not_matter(predictions, threads):
    arguments = predictions.labels, predictions.softmax, predictions.passes
    errors = uqled.find_label_errors(*arguments, method="all", threads=threads)
    expected = naive.all_methods(*arguments)
    assert_same(masks(errors), expected)
    assert errors.entropy == pytest.approx(
        [naive.entropy(row) for row in naive.mean_of_passes(predictions.passes)], abs=1e-12
    )


@pytest.mark.usefixtures("block_rows", "compiled_kernels")  # quicker in blocks of one row
def test_where_the_rows_lie_does_not_matter(predictions, tmp_path):
    labels, softmax, passes = predictions.labels, predictions.softmax, predictions.passes
    expected = masks(uqled.find_label_errors(labels, softmax, passes, method="all"))

    def same(*arguments, **options):
        errors = uqled.find_label_errors(*arguments, method="all", **options)
        assert_same(masks(errors), expected)

    np.save(tmp_path / "softmax.npy", softmax)
    np.save(tmp_path / "passes.npy", passes)
    mapped_arrays = [
        np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("softmax", "passes")
    ]
    same(labels, *mapped_arrays)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(softmax))
    same(labels, np.load(tmp_path / "fortran.npy", mmap_mode="r"), passes)
    same(labels, np.asfortranarray(softmax), np.asfortranarray(passes))
    same(labels, np.repeat(softmax, 2, axis=0)[::2], passes[::-1][::-1])
    same(labels, torch.from_numpy(softmax), torch.from_numpy(passes).requires_grad_())
    same(labels, pd.DataFrame(softmax), passes)
    zarr_array = zarr.create_array(tmp_path / "a.zarr", shape=passes.shape, chunks=(2, 33, 3),
                                   dtype=passes.dtype)  # fmt: skip
    zarr_array[...] = passes
    same(labels, softmax, zarr_array)
    same(labels.tolist(), softmax.tolist(), passes.tolist())
    same(pd.Series(labels, index=labels + 5), softmax, passes)
    same(pa.array(labels), softmax, passes)
    same(pa.chunked_array([labels[:100], labels[100:]]), softmax, passes)
    same(torch.from_numpy(labels), softmax, passes)
    same(labels.astype(float), softmax, passes)
    same(labels.astype(np.uint8)[:, None], softmax, passes)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_from_torch(dtype):
    data = make_predictions(5, N=200)
    tensor = torch.from_numpy(data.passes).to(getattr(torch, dtype))
    wide = tensor.double().numpy()
    wide = wide / wide.sum(axis=2, keepdims=True)
    errors = uqled.find_label_errors(data.labels, passes=tensor, method="cl-mcd")
    exact = naive.cl_pbnr(data.labels, tensor.double().numpy().mean(axis=0))
    assert (errors.mask == exact).all()


def test_a_memory_map_of_a_replaced_file_is_still_what_was_opened(predictions, tmp_path):
    path = tmp_path / "softmax.npy"
    np.save(path, predictions.softmax)
    mapped_array = np.load(path, mmap_mode="r")
    np.save(tmp_path / "other.npy", np.full_like(predictions.softmax, 0.2))
    (tmp_path / "other.npy").replace(path)
    errors = uqled.find_label_errors(predictions.labels, mapped_array, method="cl-pbnr")
    assert (errors.mask == naive.cl_pbnr(predictions.labels, predictions.softmax)).all()


def test_a_part_of_a_memory_map(predictions, tmp_path):
    path = tmp_path / "softmax.npy"
    np.save(path, predictions.softmax)
    part = np.load(path, mmap_mode="r")[50:]
    errors = uqled.find_label_errors(predictions.labels[50:], part, method="cl-pbnr")
    assert (errors.mask == naive.cl_pbnr(predictions.labels[50:], predictions.softmax[50:])).all()


def test_changed_copies_of_a_map_are_not_read_from_the_file(predictions, tmp_path):
    path = tmp_path / "softmax.npy"
    np.save(path, np.full_like(predictions.softmax, 0.2))
    mapped_array = np.load(path, mmap_mode="c")
    mapped_array[...] = predictions.softmax
    errors = uqled.find_label_errors(predictions.labels, mapped_array, method="cl-pbnr")
    assert (errors.mask == naive.cl_pbnr(predictions.labels, predictions.softmax)).all()


def test_inputs_are_not_changed(predictions):
    before = predictions.softmax.copy(), predictions.passes.copy(), predictions.labels.copy()
    uqled.find_label_errors(
        predictions.labels, predictions.softmax, predictions.passes, method="all"
    )
    for array, copy in zip(
        (predictions.softmax, predictions.passes, predictions.labels), before, strict=True
    ):
        assert (array == copy).all()
        assert array.flags.writeable


@pytest.mark.usefixtures("every_kernel")
def test_more_classes_than_a_plain_matrix_holds():
    """Above 2,000 classes pairs are sparse, and the flags are the same."""
    K, N = DENSE_CLASSES + 1, 6_000
    rng = np.random.default_rng(0)
    true = np.concatenate([np.arange(K), rng.integers(0, 40, N - K)])
    labels = true.copy()
    wrong_rows = rng.choice(np.arange(K, N), 300, replace=False)
    labels[wrong_rows] = (true[wrong_rows] + 1) % 40
    probs = np.full((N, K), 0.1 / K, np.float32)
    probs[np.arange(N), true] += rng.uniform(0.3, 0.9, N).astype(np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    errors = uqled.find_label_errors(labels, probs, method="cl-pbnr")
    assert errors.mask[wrong_rows].mean() > 0.9
    assert errors.joint.shape == (K, K)
    assert errors.joint.nnz < 4 * K
    assert errors.joint.sum() == N
    dense = uqled.find_label_errors(
        labels[labels < 40], _fold_classes(probs[labels < 40]), method="cl-pbnr"
    )
    assert (np.flatnonzero(errors.mask) == np.flatnonzero(labels < 40)[dense.mask]).all()


def _fold_classes(probs):
    """The first 40 classes and the rest as one, which nobody was given."""
    return np.column_stack([probs[:, :40], probs[:, 40:].sum(axis=1)])


def test_pairs_are_counted_the_same_dense_and_sparse():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 30, 2_000).astype(np.int32)
    guess = rng.integers(-1, 30, 2_000).astype(np.int32)
    counters = PairCounter(30), PairCounter(DENSE_CLASSES + 30)
    for counter in counters:
        for start in range(0, 2_000, 300):
            counter.add(labels[start : start + 300], guess[start : start + 300], plain)
    dense, sparse = (counter.get_joint() for counter in counters)
    part = sparse.to_matrix().toarray()
    assert (part[:30, :30] == dense.to_matrix()).all()
    assert (part[30:, 30:] == np.eye(DENSE_CLASSES)).all()
    counts = np.bincount(labels, minlength=30)
    padded = np.concatenate([counts, np.zeros(DENSE_CLASSES, int)])
    dense_joint = calibrate_joint(dense, counts).to_matrix()
    assert (calibrate_joint(sparse, padded).to_matrix().toarray()[:30, :30] == dense_joint).all()
    assert dense_joint.tolist() == naive.calibrate(dense.to_matrix().tolist(), labels)


@pytest.mark.usefixtures("every_kernel")
def test_negative_zeros_are_zeros():
    passes = np.tile(np.array([[0.7, 0.3, 0.0]]), (2, 60, 1))
    passes[:, ::2] = passes[:, ::2, [1, 0, 2]]
    labels = np.arange(60) % 3
    expected = uqled.find_label_errors(labels, passes[0], passes, method="all")
    signed = np.where(passes == 0, -0.0, passes)
    errors = uqled.find_label_errors(labels, signed[0], signed, method="all")
    assert_same(masks(errors), masks(expected))
    assert errors.entropy == pytest.approx(expected.entropy)


def test_every_thread_has_blocks_of_data_of_a_few_megabytes():
    probs = np.full((300_000, 10), 0.1, np.float32)
    inputs = read_inputs(np.arange(300_000) % 10, probs, None)
    assert len(inputs.split_blocks(1)) == 2  # at most a block of rows whose sums are exact
    blocks = inputs.split_blocks(2)
    assert len(blocks) >= 4
    assert blocks[0][0] == 0
    assert blocks[-1][1] == 300_000
    assert all(one[1] == other[0] for one, other in pairwise(blocks))
    small = read_inputs(np.arange(3_000) % 10, probs[:3_000], None)
    assert small.split_blocks(2) == [(0, 3_000)]
