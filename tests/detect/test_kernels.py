"""Each kernel against its naive twin: compiled, as the Python it is compiled from, and in NumPy."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import naive
import uqled
from made_predictions import make_predictions
from uqled.detect.core.kernels import (
    BOUND_SLACK,
    UNIT,
    compiled,
    compiled_heaps,
    compiled_rows,
    plain,
)
from uqled.detect.core.rows import make_threshold_keys, view_as_keys
from uqled.errors import InputError


@pytest.fixture(params=["compiled", "interpreted", "numpy"])
def run(request):
    """Call a kernel compiled, the Python it was compiled from, or its twin in NumPy."""

    def call(kernel, *arguments):
        if request.param == "numpy":
            kernel = getattr(plain, kernel.__name__)
        elif request.param == "interpreted":
            kernel = kernel.py_func
        return kernel(*arguments)

    return call


def test_the_twins_in_numpy_have_the_names_and_arguments_of_the_kernels():
    assert set(compiled.__all__) <= set(dir(plain))
    for name in compiled.__all__:
        arguments = inspect.signature(getattr(compiled, name).py_func).parameters
        assert list(inspect.signature(getattr(plain, name)).parameters) == list(arguments), name


@pytest.fixture(params=[np.float32, np.float64])
def data(request):
    return make_predictions(3, N=60, K=7, dtype=request.param)


@pytest.mark.parametrize("p", [0.0, -0.0, 1.0, 0.5, 1 / 3, 0.25, 1e-12, 1e-300, 5e-324, 0.9999999])
@pytest.mark.parametrize("run", ["compiled", "interpreted"], indirect=True)
def test_p_log_p_is_exact_to_the_last_digits(run, p):
    expected = p * math.log(p) if p > 0 else 0.0
    assert run(compiled_rows._p_log_p, p) == pytest.approx(expected, rel=1e-14, abs=1e-300)


def test_p_log_p_over_the_whole_range():
    p = np.concatenate([np.linspace(0, 1, 20_001)[1:], 10.0 ** np.linspace(-307, 0, 5_001)])
    values = np.array([compiled_rows._p_log_p(x) for x in p])
    np.testing.assert_allclose(values, p * np.log(p), rtol=1e-14, atol=2e-16)


def test_given_probability(run, data):
    out = np.empty(60)
    run(compiled_rows.read_given_probability, data.softmax, data.labels, out)
    assert out.tolist() == [float(p[g]) for p, g in zip(data.softmax, data.labels, strict=True)]


def test_best_other(run, data):
    out = np.empty(60)
    run(compiled_rows.find_best_other, data.softmax, data.labels, out)
    for z in range(60):
        others = [float(p) for j, p in enumerate(data.softmax[z]) if j != data.labels[z]]
        assert out[z] == max(others)


def test_mean_and_uncertainty(run, data):
    flat = data.passes.reshape(-1, 7)
    mean, entropy, information = np.empty((60, 7)), np.empty(60), np.empty(60)
    run(compiled_rows.average_passes, flat, 0, 60, 5, mean)
    assert (mean == naive.mean_of_passes(data.passes)).all()
    run(compiled_rows.measure_uncertainty, flat, 0, 60, 5, mean, entropy, information)
    assert entropy == pytest.approx([naive.entropy(row) for row in mean], abs=1e-13)
    assert information == pytest.approx(naive.mutual_information(data.passes), abs=1e-13)


def test_other_uncertainties(run, data):
    data.passes[:, 3] = data.passes[0, 3]  # passes that agree
    data.passes[:, 4] = 1 / 7  # two classes equal
    flat, mean, values = data.passes.reshape(-1, 7), naive.mean_of_passes(data.passes), np.empty(60)
    run(compiled_rows.measure_margins, mean, values)
    assert values.tolist() == [-naive.margin(row) for row in mean]
    run(compiled_rows.measure_variation_ratios, flat, 0, 60, 5, 60, values)
    assert values.tolist() == naive.variation_ratios(data.passes)
    run(compiled_rows.measure_deviations, flat, 0, 60, 5, mean, values)
    assert values == pytest.approx(naive.deviations(data.passes), abs=1e-12)


def test_uncertainty_of_a_coin(run):
    passes = np.array([[[0.5, 0.5]], [[0.5, 0.5]], [[0.5, 0.5]], [[0.5, 0.5]]])
    entropy, information = np.empty(1), np.empty(1)
    run(
        compiled_rows.measure_uncertainty,
        passes.reshape(-1, 2), 0, 1, 4, passes.mean(axis=0), entropy, information,
    )  # fmt: skip
    assert entropy[0] == pytest.approx(math.log(2), abs=1e-15)
    assert information[0] == 0


@pytest.mark.parametrize("single_precision", [False, True])
def test_scan_rows(run, data, single_precision):
    thresholds = np.array(naive.thresholds(data.labels, data.softmax)) - naive.SLACK
    keys = make_threshold_keys(thresholds, data.softmax.dtype)
    confident, predicted = np.empty(60, np.int32), np.empty(60, np.int32)
    agrees, lead = np.empty(60, bool), np.empty(60)
    bad = run(
        compiled_rows.scan_rows,
        data.softmax, view_as_keys(data.softmax), data.labels, keys, 1e-3, single_precision,
        confident, predicted, agrees, lead,
    )  # fmt: skip
    assert bad == -1
    assert confident.tolist() == naive.guesses(data.labels, data.softmax)
    assert predicted.tolist() == [naive.argmax(row) for row in data.softmax]
    expected = [naive.agrees(p, g) for p, g in zip(data.softmax, data.labels, strict=True)]
    assert agrees.tolist() == expected
    dtype = data.softmax.dtype if single_precision else np.float64
    top, self_confidence = (
        data.softmax.max(axis=1).astype(dtype),
        data.softmax[np.arange(60), data.labels],
    )
    assert lead.tolist() == (top - self_confidence).tolist()
    assert len(set(confident.tolist())) == 8  # every class and none occur


@pytest.mark.parametrize(
    ("row", "label", "agrees"),
    [
        ([0.5, 0.5], 0, True),  # equal: the label counts as the most probable
        ([0.5, 0.5], 1, True),
        ([0.5 + 4e-7, 0.5 - 4e-7], 1, True),  # ahead by less than the slack
        ([0.5 + 1e-6, 0.5 - 1e-6], 1, False),
        ([0.0, 1.0], 0, False),
    ],
)
def test_agreement_at_the_edge(run, row, label, agrees):
    rows, labels = np.array([row]), np.array([label])
    confident, predicted, agreement = (
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
        np.zeros(1, bool),
    )
    keys = view_as_keys(np.full(2, 2.0))
    run(
        compiled_rows.scan_rows,
        rows, view_as_keys(rows), labels, keys, 1e-3, False, confident, predicted, agreement,
        np.zeros(1),
    )  # fmt: skip
    assert agreement[0] == agrees == naive.agrees(row, label)
    assert confident[0] == -1


def test_confident_class_within_entropy_limits(run, data):
    mean = naive.mean_of_passes(data.passes)
    h = np.array([naive.entropy(row) for row in mean])
    limits = np.array(naive.entropy_limits(data.labels, mean)) + naive.SLACK
    keys = make_threshold_keys(
        np.array(naive.thresholds(data.labels, mean)) - naive.SLACK, np.dtype(np.float64)
    )
    predicted = np.array([naive.argmax(row) for row in mean], np.int32)
    confident = np.empty(60, np.int32)
    kernel = compiled_rows.find_confident_within_limits
    run(kernel, view_as_keys(mean), keys, h, limits, predicted, confident)
    assert confident.tolist() == naive.guesses(data.labels, mean, "candidate")
    assert confident.tolist() != naive.guesses(data.labels, mean)


def test_count_pairs(run):
    counts = np.zeros((3, 3), np.int64)
    run(compiled_rows.count_pairs, np.array([0, 0, 1, 2, 2]), np.array([0, 2, -1, 2, 2]), counts)
    assert counts.tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 2]]


def test_class_sums_are_whole_units(run):
    sums = np.zeros(2, np.int64)
    run(compiled_rows.add_class_sums, np.array([0, 0, 1]), np.array([0.5, 0.25, 1.0]), sums)
    assert (sums * UNIT).tolist() == [0.75, 1.0]


@pytest.mark.parametrize(
    ("change", "bad"),
    [
        (None, -1),
        ((4, 2, np.nan), 4),
        ((5, 0, -0.1), 5),
        ((6, 1, 7.0), 6),
        ((3, 0, np.inf), 3),
    ],
)
def test_first_bad_row(run, change, bad):
    rows = make_predictions(N=9, K=4).softmax.copy()
    if change:
        z, j, value = change
        rows[z, j] = value
    if change and change[2] == -0.1:
        rows[5, 1] += 1 - rows[5].sum()  # the sum alone would not show it
    assert run(compiled_rows.find_bad_row, rows, view_as_keys(rows), 1e-3) == bad
    out = np.empty(9, np.int32), np.empty(9, np.int32), np.empty(9, bool), np.empty(9)
    thresholds, labels = view_as_keys(np.ones(4)), np.zeros(9, np.int64)
    keys = view_as_keys(rows)
    assert run(compiled_rows.scan_rows, rows, keys, labels, thresholds, 1e-3, False, *out) == bad


def test_pieces_of_a_block_give_what_the_block_gives(monkeypatch):
    p = make_predictions(N=101, K=4, F=3)
    methods = ["all", ["cl-mcd-m", "cl-mcd-mi", "cl-mcd-vr", "cl-mcd-sd"]]

    def find_all():
        every = (uqled.find_label_errors(p.labels, p.softmax, p.passes, method=m) for m in methods)
        return {name: one for errors in every for name, one in errors.by_method.items()}

    whole = find_all()
    monkeypatch.setattr(plain, "_PIECE_VALUES", 41)  # pieces of ten rows, and one of one row
    in_pieces = find_all()
    assert len(whole) == 18
    for name, one in whole.items():
        for column in ("mask", "scores", "best", "votes", "entropy", "mutual_information"):
            assert (getattr(in_pieces[name], column) == getattr(one, column)).all(), (name, column)
    rows = p.softmax.copy()
    rows[57] *= 2
    assert plain.find_bad_row(rows, view_as_keys(rows), 1e-3) == 57
    with pytest.raises(InputError, match="row 57"):
        uqled.find_label_errors(p.labels, rows)


def test_negative_zero_is_a_probability(run):
    rows = np.array([[-0.0, 1.0]])
    assert run(compiled_rows.find_bad_row, rows, view_as_keys(rows), 1e-3) == -1


@pytest.mark.parametrize("order", ["rising", "falling", "mixed", "equal"])
@pytest.mark.parametrize("with_bounds", [True, False])
@pytest.mark.parametrize("with_cuts", [True, False])
def test_heaps_keep_the_best_of_each_pair(run, order, with_bounds, with_cuts):
    """The second half is offered in two parts, in neither of which the other's rows are."""
    rng = np.random.default_rng(1)
    N = 50
    p = {"rising": np.linspace(0, 1, N), "falling": np.linspace(1, 0, N)}.get(
        order, rng.integers(0, 4, N) / 4 if order == "mixed" else np.full(N, 0.5)
    )
    rows = np.column_stack([p, 1 - p, np.zeros(N)])
    labels = rng.integers(0, 2, N).astype(np.int32)
    # class 0 has a pair with 1 (7 slots) and with 2 (4 slots), class 1 one with 0 (30 slots)
    class_offsets, targets = np.array([0, 2, 3, 3]), np.array([1, 2, 0])
    offsets = np.array([0, 7, 11, 41])
    cuts = np.full(3, -np.inf)
    if with_cuts:
        predicted = rows.argmax(axis=1)
        differing_rows = np.flatnonzero(predicted != labels)
        lead = (
            rows[differing_rows, predicted[differing_rows]]
            - rows[differing_rows, labels[differing_rows]]
        )
        heaps = np.zeros(3, np.int64), np.empty(41), np.empty(41, np.int64)
        run(
            compiled_heaps.raise_cuts, labels[differing_rows], predicted[differing_rows], lead,
            class_offsets, targets, offsets, *heaps, cuts,
        )  # fmt: skip
        assert heaps[0].tolist() == [0, 0, 0]
        for q, (i, j, quota) in enumerate([(0, 1, 7), (0, 2, 4), (1, 0, 30)]):
            reference = np.sort(
                lead[(labels[differing_rows] == i) & (predicted[differing_rows] == j)]
            )[::-1]
            assert cuts[q] == (reference[quota - 1] if len(reference) >= quota else -np.inf)

    halves = []
    for start, stop in ((0, 20), (20, N)):
        heaps = np.zeros(3, np.int64), np.full(41, np.nan), np.full(41, -1)
        own_cuts, bounds = cuts.copy(), np.empty((0, 0))
        least = np.array([cuts[:2].min(), cuts[2], np.inf]) - BOUND_SLACK
        if with_bounds:
            bounds = np.full((3, 3), np.inf)
            bounds[[0, 0, 1], targets] = cuts - BOUND_SLACK
        first = rng.random(stop - start) < (1 if start == 0 else 0.4)
        for is_offered in (first, ~first):
            run(
                compiled_heaps.select_rows,
                rows[start:stop], labels[start:stop], is_offered, start, False,
                class_offsets, targets, offsets, own_cuts, bounds, least, *heaps,
            )  # fmt: skip
        halves.append(heaps)
    for one, other in ((0, 1), (1, 0)):  # merged in either order
        sizes, margins, indices = (array.copy() for array in halves[one])
        run(compiled_heaps.merge_heaps, offsets, sizes, margins, indices, *halves[other])
        for q, (i, j, quota) in enumerate([(0, 1, 7), (0, 2, 4), (1, 0, 30)]):
            selected = indices[offsets[q] : offsets[q] + sizes[q]].tolist()
            expected = naive.best_of_pair(labels, rows, i, j, quota)
            assert sorted(selected) == sorted(expected)


def test_count_in_ranges(run):
    rng = np.random.default_rng(2)
    N, G, R = 400, 6, 5
    group, index = rng.integers(0, G, N), rng.permutation(N) + 7
    keys = rng.integers(10, 30, N).astype(np.uint64)
    slots = np.array([0, 1, -1, 2, 3, -1])
    is_tied = np.array([False, True, True, False, True, False])
    tied_key = np.full(G, 17, np.uint64)
    reversed_index = (compiled_heaps.LAST_INDEX - index).astype(np.uint64)
    low = np.where(is_tied, reversed_index.min() + 20, 12).astype(np.uint64)
    high = np.where(is_tied, reversed_index.max() - 30, 27).astype(np.uint64)
    range_starts = np.sort(
        [rng.integers(low[g], high[g] + 1, R).astype(np.uint64) for g in (0, 1, 3, 4)], axis=1
    )
    range_starts[:, 0] = low[[0, 1, 3, 4]]
    counts = np.zeros((4, R), np.int64)
    run(
        compiled_heaps.count_in_ranges,
        group, keys, index, slots, low, high, is_tied, tied_key, range_starts, counts,
    )  # fmt: skip
    for slot, g in enumerate((0, 1, 3, 4)):
        is_in_range = (group == g) & ((keys == 17) | ~is_tied[g])
        values = (reversed_index if is_tied[g] else keys)[is_in_range]
        values = values[(values >= low[g]) & (values <= high[g])]
        at = np.searchsorted(range_starts[slot], values, side="right") - 1
        assert counts[slot].tolist() == np.bincount(at, minlength=R).tolist()
    assert counts.sum() > 50
