"""Dataset: labelled samples in memory, parts of them, and what tells two of them apart."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from uqled import InputError
from uqled.data import Dataset, load
from uqled.data.classes import encode_column
from uqled.data.dataset import draw_stratified


def table(N=20, K=2):
    rng = np.random.default_rng(0)
    return Dataset.from_arrays(rng.normal(size=(N, 3)), np.arange(N) % K)


def test_importing_the_room_loads_nothing_heavy():
    heavy_packages = "PIL", "pandas", "pyarrow"
    code = f"import sys, uqled.data; print([m for m in {heavy_packages} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("inputs", "kind", "shape"),
    [
        (np.zeros((2, 5, 7), np.uint8), "images", (2, 5, 7, 1)),
        (np.zeros((2, 5, 7, 3), np.uint8), "images", (2, 5, 7, 3)),
        (np.zeros((2, 3, 5, 7), np.uint8), "images", (2, 5, 7, 3)),
        (np.zeros((2, 5, 7, 4), np.uint8), "images", (2, 5, 7, 3)),
        (["a", "b"], "texts", (2,)),
        (np.zeros((2, 4), np.int16), "table", (2, 4)),
        (np.zeros((2, 4), np.uint8), "table", (2, 4)),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "table", (2, 2)),
    ],
)
def test_from_arrays_knows_the_kind(inputs, kind, shape):
    data = Dataset.from_arrays(inputs, ["x", "y"])
    assert (data.kind, data.inputs.shape, data.labels.names) == (kind, shape, ("x", "y"))
    assert data.ids.tolist() == ["0", "1"]


def test_channels_second_become_channels_last():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 7), np.uint8)
    data = Dataset.from_arrays(images, [0, 1])
    assert data.inputs[1, 4, 6, 2] == images[1, 2, 4, 6]


def test_transparent_images_lie_on_white():
    images = np.array([[10, 20, 30, 0], [10, 20, 30, 255], [10, 20, 30, 51]], np.uint8)
    result = Dataset.from_arrays(np.tile(images[:, None, None, :], (1, 2, 2, 1)), [0, 1, 1]).inputs
    assert result[:, 0, 0].tolist() == [[255, 255, 255], [10, 20, 30], [206, 208, 210]]


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (np.zeros((2, 5, 7, 3)), [0, 1], r"uint8 \[N,H,W\]"),
        (np.zeros((2, 5, 7, 2), np.uint8), [0, 1], "1, 3 or 4 channels"),
        (np.zeros(2), [0, 1], "Pass uint8 images"),
        (np.zeros((3, 2)), [0, 1], "3 entries for 2 labels"),
        (np.zeros((2, 2)), [0, None], "missing"),
        (np.zeros((2, 2)), [0.5, 1], "whole"),
    ],
)
def test_from_arrays_refuses(inputs, labels, message):
    with pytest.raises(InputError, match=message):
        Dataset.from_arrays(inputs, labels)


@pytest.mark.parametrize(
    ("kind", "inputs"), [("images", np.zeros((2, 4, 4), np.uint8)), ("texts", [1, 2]), ("x", [1])]
)
def test_inputs_of_another_form_are_refused(kind, inputs):
    with pytest.raises(InputError, match=r"from_arrays|Choose one of"):
        Dataset(kind, inputs, encode_column([0, 1]), np.array(["0", "1"], object), "data")


@pytest.mark.parametrize(
    ("column", "options", "codes", "values", "names"),
    [
        ([3, 7, 3], {}, [0, 1, 0], [3, 7], ("3", "7")),
        (["b", "a"], {}, [1, 0], ["a", "b"], ("a", "b")),
        ([0, 2], {"names": ["x", "y", "z"]}, [0, 2], [0, 1, 2], ("x", "y", "z")),
        (["z", "x"], {"names": ["x", "y", "z"]}, [2, 0], ["x", "y", "z"], ("x", "y", "z")),
        (
            ["n2"],
            {"values": ["n1", "n2"], "names": ["cat", "dog"]},
            [1],
            ["n1", "n2"],
            ("cat", "dog"),
        ),
        (np.array([True, False]), {}, [1, 0], [False, True], ("False", "True")),
        (pd.Categorical(["b", "a"], ["b", "c", "a"]), {}, [0, 2], ["b", "c", "a"], ("b", "c", "a")),
        (pd.Series([2.0, 1.0]), {}, [1, 0], [1, 2], ("1", "2")),
    ],
)
def test_labels_of(column, options, codes, values, names):
    labels = encode_column(column, **options)
    assert labels.codes.dtype == np.int32
    assert (labels.codes.tolist(), labels.values.tolist(), labels.names) == (codes, values, names)


@pytest.mark.parametrize("labels", [[0, -1], [0, 3]])
def test_labels_outside_of_the_names_are_refused(labels):
    with pytest.raises(InputError, match=f"contain {labels[1]} at index 1"):
        encode_column(labels, names=["x", "y", "z"])


def test_a_subset_that_is_evenly_spaced_is_a_view():
    data = table()
    for indices in ([2, 3, 4], range(0, 20, 4), slice(5, 9), np.arange(20) < 3):
        part = data.subset(indices)
        assert np.shares_memory(part.inputs, data.inputs)
        expected = np.arange(20)[list(indices) if not isinstance(indices, slice) else indices]
        assert part.ids.tolist() == [str(i) for i in expected]
        assert (part.inputs == data.inputs[expected]).all()
    part = data.subset([7, 1, -1, 7])
    assert part.ids.tolist() == ["7", "1", "19", "7"]
    assert part.labels.codes.tolist() == [1, 1, 1, 1]
    assert part.n_classes == 2


def test_a_subset_of_a_frame_keeps_truth_and_order():
    frame = pd.DataFrame({"a": range(6)})
    data = Dataset("table", frame, encode_column([0, 1] * 3), np.arange(6).astype(str), "x",
                   truth=np.arange(6, dtype=np.int32) % 2)  # fmt: skip
    part = data.subset([5, 0])
    assert part.inputs["a"].tolist() == [5, 0]
    assert part.truth.tolist() == [1, 0]


@pytest.mark.parametrize("indices", [[20], [-21], [0.5], [[1]], np.ones(19, bool)])
def test_wrong_indices_are_refused(indices):
    with pytest.raises(InputError, match="indices"):
        table().subset(indices)


def test_a_limit_keeps_the_shares():
    codes = np.repeat([0, 1, 2], [800, 150, 50]).astype(np.int32)
    np.random.default_rng(1).shuffle(codes)
    chosen_samples = draw_stratified(codes, 100, seed=3)
    assert np.bincount(codes[chosen_samples]).tolist() == [80, 15, 5]
    assert (np.diff(chosen_samples) > 0).all()
    assert (chosen_samples == draw_stratified(codes, 100, seed=3)).all()
    assert set(chosen_samples) != set(draw_stratified(codes, 100, seed=4))


def test_a_limit_keeps_every_class():
    codes = np.repeat([0, 1, 2, 4], [900, 1, 1, 1]).astype(np.int32)
    assert np.bincount(codes[draw_stratified(codes, 4, seed=0)]).tolist() == [1, 1, 1, 0, 1]
    assert len(draw_stratified(codes, 5000, seed=0)) == 903
    with pytest.raises(InputError, match="limit"):
        draw_stratified(codes, 1, seed=0)


def test_every_sample_is_drawn_as_often_as_any_other():
    codes = np.repeat([0, 1], [30, 10]).astype(np.int32)
    n_draws = np.sum(
        [np.isin(np.arange(40), draw_stratified(codes, 20, seed=s)) for s in range(400)], axis=0
    )
    assert (np.abs(n_draws - 200) < 50).all()  # five standard deviations of a fair coin


def test_the_fingerprint_is_of_the_content():
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), np.uint8)
    data = Dataset.from_arrays(images, [0, 1] * 3, classes=["x", "y"])
    same = Dataset.from_arrays(np.repeat(images, 2, axis=0)[::2], [0, 1] * 3, classes=["x", "y"])
    assert data.fingerprint == same.fingerprint
    one_pixel = images.copy()
    one_pixel[3, 2, 1, 0] ^= 1
    others = [
        Dataset.from_arrays(one_pixel, [0, 1] * 3, classes=["x", "y"]),
        Dataset.from_arrays(images, [0, 1, 0, 1, 1, 1], classes=["x", "y"]),
        Dataset.from_arrays(images, [0, 1] * 3, classes=["x", "z"]),
        Dataset.from_arrays(images.reshape(6, 2, 8, 3), [0, 1] * 3, classes=["x", "y"]),
    ]
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_the_fingerprint_of_texts_and_frames():
    def prints(*inputs):
        return {Dataset.from_arrays(one, [0, 1]).fingerprint for one in inputs}

    assert len(prints(["ab", "c"], ["a", "bc"], ["ab", "d"])) == 3
    assert len(prints(["ab", "c"], np.array(["ab", "c"]))) == 1
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", "y"])})
    assert len(prints(frame, frame.rename(columns={"a": "c"}), frame.assign(a=[1, 3]))) == 3
    assert len(prints(frame, frame.copy().set_index(pd.Index([5, 6])))) == 1


def test_other_labels_keep_the_truth():
    data = load("digits")
    noisy = data.with_labels((data.labels.codes + 1) % 10)
    assert (noisy.truth == data.labels.codes).all()
    assert noisy.labels.codes[0] == 1
    assert noisy.fingerprint != data.fingerprint
    for wrong_truth in ([0, 1], np.full(len(data), 10), np.full(len(data), -1)):
        with pytest.raises(InputError, match="codes"):
            data.with_labels(wrong_truth)


def test_digits_are_scikit_learns():
    data, theirs = load("digits", limit=500, seed=1), load_digits()
    rows = data.ids.astype(int)
    assert data.inputs.dtype == np.uint8
    assert data.inputs.shape == (500, 8, 8, 1)
    assert (np.rint(data.inputs[..., 0] / 255 * 16) == theirs.images[rows]).all()
    assert (data.labels.codes == theirs.target[rows]).all()
    assert (data.truth == data.labels.codes).all()
