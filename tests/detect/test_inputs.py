"""Wrong input is refused by name, with the value and the fix; nothing is answered silently."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import uqled
from made_predictions import make_predictions
from uqled.detect.core.rows import MAX_BLOCK_ROWS
from uqled.detect.methods.registry import METHODS

DATA = make_predictions(N=40, K=4, F=3)
LABELS, SOFTMAX, PASSES = DATA.labels, DATA.softmax, DATA.passes


def put(array, *where_and_value):
    *place, value = where_and_value
    copy = array.astype(float) if array.dtype.kind == "f" else array.copy()
    copy[tuple(place)] = value
    return copy


def with_none(labels):
    return [None if z == 5 else int(label) for z, label in enumerate(labels)]


REFUSED_INPUTS = {
    "a row that sums to less": (
        (LABELS, put(SOFTMAX, 7, slice(None), 0.2), None),
        "pred_probs sums to 0.8 instead of 1 at row 7",
    ),
    "a row that sums to 1.002": (
        (LABELS, put(SOFTMAX, 7, slice(None), 0.2505), None),
        "pred_probs sums to 1.002 instead of 1 at row 7",
    ),
    "half precision off by 0.03": (
        (LABELS, put(SOFTMAX, 7, slice(None), 0.2575).astype(np.float16), None),
        "pred_probs sums to 1.0",
    ),
    "a pass that does not sum to 1": (
        (LABELS, None, put(PASSES, 2, 7, slice(None), 0.2)),
        "passes sums to 0.8 instead of 1 at pass 2, row 7",
    ),
    "logits": (
        (LABELS, np.log(SOFTMAX) + 3, None),
        "pred_probs contains .* at row 0. If these are logits, pass their softmax",
    ),
    "percent": ((LABELS, 100 * SOFTMAX, None), "pred_probs contains .* at row 0"),
    "NaN": (
        (LABELS, put(SOFTMAX, 7, 2, np.nan), None),
        "pred_probs contains NaN at row 7, class 2",
    ),
    "NaN in a pass": (
        (LABELS, None, put(PASSES, 1, 7, 2, np.nan)),
        "passes contains NaN at pass 1, row 7, class 2",
    ),
    "infinity": ((LABELS, put(SOFTMAX, 7, 2, np.inf), None), "pred_probs contains inf at row"),
    "a negative value": (
        (LABELS, put(SOFTMAX, 7, slice(None), [-0.1, 0.5, 0.3, 0.3]), None),
        "pred_probs contains -0.1 at row 7. Probabilities lie between 0 and 1",
    ),
    "N,F,K instead of F,N,K": (
        (LABELS, None, PASSES.transpose(1, 0, 2)),
        r"passes has shape \(40, 3, 4\).* pass passes.transpose\(1, 0, 2\)",
    ),
    "passes as pred_probs": ((LABELS, PASSES, None), "go in as `passes`"),
    "pred_probs as passes": ((LABELS, None, SOFTMAX), "goes in as `pred_probs`"),
    "transposed pred_probs": (
        (LABELS, SOFTMAX.T, None),
        "pred_probs has 4 rows .*pass pred_probs.T",
    ),
    "fewer rows than labels": ((LABELS, SOFTMAX[:-1], None), "pred_probs has 39 rows .* 40 labels"),
    "other classes in the passes": (
        (LABELS, SOFTMAX, np.full((3, 40, 5), 0.2)),
        "passes has 5 classes .* pred_probs has 4",
    ),
    "one column": ((LABELS, SOFTMAX[:, :1], None), r"pred_probs has 1 column .*column_stack"),
    "one axis": ((LABELS, SOFTMAX[:, 0], None), r"pred_probs has shape \(40,\).*column_stack"),
    "no rows": (([], SOFTMAX[:0], None), "pred_probs is empty"),
    "no passes in passes": ((LABELS, None, PASSES[:0]), "passes is empty"),
    "no labels": (([], SOFTMAX, None), "pred_probs has 40 rows .* 0 labels"),
    "nothing but labels": ((LABELS, None, None), "pred_probs and `passes` are both missing"),
    "one sample": (([1], SOFTMAX[:1], None), "labels have 1 sample"),
    "one class": ((np.zeros(40, int), SOFTMAX, None), r"labels contain one class only \('0'"),
    "a label out of range": ((put(LABELS, 6, 4), SOFTMAX, None), "labels contain 4 at index 6"),
    "a negative label": ((put(LABELS, 6, -1), SOFTMAX, None), "labels contain -1 at index 6"),
    "labels from 1": ((LABELS + 1, SOFTMAX, None), "labels contain 4 .*Number the classes from 0"),
    "a missing label": (
        (with_none(LABELS), SOFTMAX, None),
        "labels have 1 missing values, the first at index 5",
    ),
    "a missing label in pandas": (
        (pd.Series(with_none(LABELS), dtype="Int64"), SOFTMAX, None),
        "labels have 1 missing values, the first at index 5",
    ),
    "a missing label in Arrow": (
        (pa.array(with_none(LABELS)), SOFTMAX, None),
        "labels have 1 missing values, the first at index 5",
    ),
    "a missing string": (
        (["a", "b", None, "c", "d"] * 8, SOFTMAX, None),
        "labels have 8 missing values, the first at index 2",
    ),
    "a broken number": ((LABELS + 0.5, SOFTMAX, None), "labels contain .*whole"),
    "one-hot labels": ((np.eye(4)[LABELS], SOFTMAX, None), r"labels have shape \(40, 4\).*argmax"),
    "strings and numbers": ((["a", 1] * 20, SOFTMAX, None), "labels mix types"),
    "ragged labels": (([[1], [1, 2]] * 20, SOFTMAX, None), "labels are a list|labels mix types"),
    "dates": ((np.full(40, np.datetime64("2026-01-01")), SOFTMAX, None), "labels have type"),
    "a number for labels": ((3, SOFTMAX, None), "labels are a int"),
    "too few strings": (
        (np.array(["a", "b"])[LABELS % 2], SOFTMAX, None),
        "labels have 2 different values, but the probabilities have 4 columns",
    ),
    "ragged probabilities": (([0, 1], [[0.5, 0.5], [1.0]], None), "pred_probs is a list"),
    "a sparse matrix": ((LABELS, csr_array(SOFTMAX), None), "pred_probs is a sparse matrix"),
    "masked rows": (
        (LABELS, np.ma.masked_array(SOFTMAX, SOFTMAX > 0.9), None),
        "pred_probs has masked values",
    ),
    "text for probabilities": ((LABELS, np.full((40, 4), "x"), None), "pred_probs has type <U1"),
    "objects for probabilities": ((LABELS, SOFTMAX.astype(object), None), "pred_probs has type"),
    "complex probabilities": ((LABELS, SOFTMAX + 0j, None), "pred_probs has type complex128"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_INPUTS)
def test_refused_by_name(case):
    arguments, message = REFUSED_INPUTS[case]
    with pytest.raises(uqled.InputError, match=message) as error_info:
        uqled.find_label_errors(*arguments, method="all")
    assert error_info.value.fix  # every refusal says what to do
    assert isinstance(error_info.value, ValueError)


@pytest.mark.parametrize("deviation", [1.0009, 0.9991])
def test_rounding_is_tolerated(deviation):
    uqled.find_label_errors(LABELS, SOFTMAX * deviation, method="cl-pbnr")
    half = (SOFTMAX * (1 + (deviation - 1) * 20)).astype(np.float16)
    uqled.find_label_errors(LABELS, half, method="cl-pbnr")


@pytest.mark.parametrize("method", METHODS.names())
def test_a_method_that_lacks_its_input_says_which(method):
    for name, argument in (("pred_probs", SOFTMAX), ("passes", PASSES)):
        needs = METHODS.load(method).needs
        missing = [need for need in needs if need != name]
        if not missing:
            uqled.find_label_errors(LABELS, **{name: argument}, method=method)
            continue
        with pytest.raises(uqled.MissingInputError, match=f"`{missing[0]}` is missing"):
            uqled.find_label_errors(LABELS, **{name: argument}, method=method)


def test_all_takes_what_the_inputs_allow():
    softmax = uqled.find_label_errors(LABELS, SOFTMAX, method="all")
    assert set(softmax.by_method) == {
        "auto", "cl-pbnr", "cl-pbc", "cl-both", "cl-joint", "argmax", "low-self-confidence",
        "low-normalized-margin",
    }  # fmt: skip
    assert softmax.method == "auto"
    passes = uqled.find_label_errors(LABELS, passes=PASSES, method="all")
    assert set(passes.by_method) == {"auto", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "argmax-mean"}
    assert passes.method == "auto"
    results = uqled.find_label_errors(LABELS, SOFTMAX, PASSES, method="all")
    assert results.method == "auto"
    assert len(results.by_method) == 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method is 'magic'. Choose one of auto, cl-pbnr"),
        ({"method": "alg-ens", "agreement": 0}, "agreement is 0. Pass one of 1 to 4"),
        ({"method": "alg-ens", "agreement": 5}, "agreement is 5"),
        ({"method": "alg-ens", "agreement": 2.5}, "agreement is 2.5"),
        ({"method": "cl-pbnr", "agreement": 2}, "agreement is 2 with method 'cl-pbnr'"),
        ({"method": "cl-mcd-e", "entropy_class": "x"}, "entropy_class is 'x'"),
        ({"method": "cl-pbnr", "frac_noise": 1.5}, "frac_noise is 1.5"),
        ({"method": "cl-pbnr", "frac_noise": float("nan")}, "frac_noise is nan"),
        ({"method": "argmax", "frac_noise": 0.5}, "frac_noise is 0.5 with method 'argmax'"),
        ({"method": "cl-pbnr", "min_examples_per_class": -1}, "min_examples_per_class is -1"),
        ({"method": "cl-pbnr", "threads": 0}, "threads is 0"),
        ({"method": "cl-pbnr", "threads": True}, "threads is True"),
        ({"method": "cl-pbnr", "classes": ["a", "b"]}, "classes has 2 entries for 4 columns"),
        ({"method": "cl-pbnr", "classes": ["a", "b", "b", "c"]}, "classes name 'b' twice"),
        ({"method": "cl-pbnr", "classes": "abcd"}, "classes has no entries for 4 columns"),
        ({"method": []}, "method is []"),
        ({"method": ["x"]}, "method is 'x'"),
        ({"method": [["cl-pbnr"]]}, "method is ['cl-pbnr']"),
        ({"method": 3}, "method is 3"),
        ({"method": ["alg-ens"], "agreement": 2}, "method is ['alg-ens'] with other options"),
    ],
)
def test_options_are_refused_by_name(options, message):
    with pytest.raises(uqled.InputError, match=re.escape(message)):
        uqled.find_label_errors(LABELS, SOFTMAX, PASSES, **options)


def test_a_label_that_is_no_class_is_named():
    names = np.array(["ant", "bee", "cat", "dog"])
    labels = names[LABELS].astype(object)
    labels[9] = "elk"
    with pytest.raises(uqled.InputError, match="labels contain 'elk' at index 9"):
        uqled.find_label_errors(labels, SOFTMAX, method="cl-pbnr", classes=names)


def test_the_first_bad_row_is_named_whatever_the_threads():
    data = make_predictions(N=5_000, K=4)
    probs = data.softmax.copy()
    probs[[4_800, 1_234, 3_000]] = 0.5
    for threads in (1, 2, 4):
        with pytest.raises(uqled.InputError, match="at row 1234 "):
            uqled.find_label_errors(data.labels, probs, method="cl-pbnr", threads=threads)


def test_sums_of_a_block_cannot_overflow():
    """The largest block of the largest entropy stays within 64 bits of units of 2^-40."""
    assert MAX_BLOCK_ROWS * np.log(2**23) / 2.0**-40 < 2**63


@pytest.mark.parametrize("function", [uqled.uncertainty.entropy, uqled.label_quality_scores])
def test_the_pieces_refuse_too(function):
    arguments = (LABELS,) if function is uqled.label_quality_scores else ()
    with pytest.raises(uqled.InputError, match=r"sums to 0\.8"):
        function(*arguments, put(SOFTMAX, 7, slice(None), 0.2))


@st.composite
def make_malformed_arrays(draw):
    """Arrays of any shape, type and content."""
    shape = draw(st.lists(st.integers(0, 5), max_size=4).map(tuple))
    dtype = draw(
        st.sampled_from(["f2", "f4", "f8", ">f4", "i8", "u1", "?", "c16", "U3", "O", "M8[s]"])
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["ones", "normalised", "wild"]))
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 30)
    if kind == "ones":
        values = np.ones(shape)
    elif kind == "normalised" and len(shape) and shape[-1]:
        values = np.abs(values) + 1e-3
        values /= values.sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        array = values.astype(dtype) if dtype != "M8[s]" else np.zeros(shape, dtype)
    if dtype[-2:] in ("f2", "f4", "f8") and array.size and draw(st.booleans()):
        array.flat[rng.integers(array.size)] = draw(
            st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 1e300])
        )
    return array


@settings(max_examples=400)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(
    make_malformed_arrays(),
    make_malformed_arrays(),
    make_malformed_arrays(),
    st.sampled_from([*METHODS.names(), "all"]),
)
def test_malformed_arrays_are_refused_or_answered_right(labels, softmax, passes, method):
    """Never a crash, never a silent answer: what is not refused satisfies the definition."""
    try:
        errors = uqled.find_label_errors(labels, softmax, passes, method=method)
    except uqled.InputError:
        return
    wide = np.asarray(softmax if errors.scores.size == len(softmax) else passes, dtype=float)
    assert np.isfinite(wide).all()
    assert len(errors) == len(labels)
    assert (np.abs(wide.sum(axis=-1) - 1) < 0.03).all()
    assert ((errors.scores >= 0) & (errors.scores <= 1.03)).all()
