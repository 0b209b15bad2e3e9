"""What people pass for arrays: masked, endless or foreign ones are read right or refused."""

from __future__ import annotations

import time
from collections import UserList, deque

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

import uqled
from made_predictions import make_predictions
from uqled import arrays
from uqled.noise import apply_noise, symmetric_matrix

DATA = make_predictions(N=60, K=4, F=3)
LABELS, SOFTMAX, PASSES = DATA.labels, DATA.softmax, DATA.passes
EXPECTED_MASK = uqled.find_label_errors(LABELS, SOFTMAX, PASSES, method="cl-mcd").mask


def detect(labels=LABELS, softmax=SOFTMAX, passes=PASSES):
    return uqled.find_label_errors(labels, softmax, passes, method="cl-mcd").mask


# -- masked ---------------------------------------------------------------------------------------


def mask_first(array):
    mask = np.zeros(array.shape, bool)
    mask.reshape(-1)[5] = True
    return np.ma.masked_array(array, mask)


def test_masked_values_are_refused_wherever_they_come_in():
    for change, name in (
        ({"labels": mask_first(LABELS)}, "labels"),
        ({"labels": mask_first(LABELS.astype(float))}, "labels"),
        ({"labels": mask_first(np.array(list("abcd"))[LABELS])}, "labels"),
        ({"softmax": mask_first(SOFTMAX)}, "pred_probs"),
        ({"passes": mask_first(PASSES)}, "passes"),
    ):
        with pytest.raises(uqled.InputError, match=f"{name} has masked values"):
            detect(**change)
    for function, arguments in (
        (uqled.Dataset.from_arrays, (SOFTMAX, mask_first(LABELS))),
        (uqled.Dataset.from_arrays, (mask_first(SOFTMAX), LABELS)),
        (uqled.label_quality_scores, (mask_first(LABELS), SOFTMAX)),
        (uqled.label_quality_scores, (LABELS, mask_first(SOFTMAX))),
        (uqled.confident_joint, (mask_first(LABELS), SOFTMAX)),
        (uqled.uncertainty.entropy, (mask_first(SOFTMAX),)),
        (arrays.check_passes, (mask_first(PASSES),)),
        (arrays.read_label_column, (mask_first(LABELS), "truth")),
    ):
        with pytest.raises(uqled.InputError, match="has masked values"):
            function(*arguments)
    with pytest.raises(uqled.InputError, match="has masked values"):
        apply_noise(mask_first(LABELS), symmetric_matrix(4, rate=0.1), seed=0)


def test_a_mask_that_masks_nothing_is_none():
    errors = detect(np.ma.masked_array(LABELS), np.ma.masked_array(SOFTMAX))
    assert (errors == EXPECTED_MASK).all()


# -- endless --------------------------------------------------------------------------------------


class EndlessDataset(TorchDataset):
    """A map-style data set without a stop, as most are: it answers any number."""

    def __init__(self, values):
        self.values, self.n_reads = values, 0

    def __getitem__(self, index):
        self.n_reads += 1
        assert self.n_reads < 10_000, "asked without end"
        return self.values[index % len(self.values)]


class EndlessWithLength(EndlessDataset):
    def __len__(self):
        return len(self.values)


class RefusedStream(IterableDataset):
    def __iter__(self):
        raise AssertionError("iterated")


class Loud:
    """An object that looks like an array, and raises."""

    def __array__(self, dtype=None, copy=None):
        raise OSError("the disk is gone")

    def __len__(self):
        return 60


def naturals():
    n = 0
    while True:
        assert n < 10_000, "iterated without end"
        yield n % 4
        n += 1


ENDLESS = {
    "a data set without a length": lambda: EndlessDataset(LABELS),
    "a stream": RefusedStream,
    "a generator": naturals,
    "an iterator": lambda: iter(naturals()),
    "a loader": lambda: DataLoader(EndlessWithLength(LABELS)),
    "a list of data sets": lambda: [EndlessWithLength(LABELS)] * 60,
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_does_not_end_is_refused_and_not_iterated(kind):
    for function in (
        lambda array: detect(labels=array),
        lambda array: detect(softmax=array),
        lambda array: detect(passes=array),
        lambda array: uqled.Dataset.from_arrays(array, LABELS),
        lambda array: uqled.Dataset.from_arrays(SOFTMAX, array),
        lambda array: uqled.label_quality_scores(array, SOFTMAX),
        uqled.uncertainty.entropy,
    ):
        with pytest.raises(uqled.InputError) as error_info:
            function(ENDLESS[kind]())
        assert error_info.value.fix


def test_a_data_set_with_a_length_is_read_within_it():
    labels = EndlessWithLength(LABELS.tolist())
    assert (detect(labels=labels, softmax=EndlessWithLength(SOFTMAX)) == EXPECTED_MASK).all()
    assert labels.n_reads <= 2 * len(LABELS)
    data = uqled.Dataset.from_arrays(EndlessWithLength(SOFTMAX), EndlessWithLength(LABELS))
    assert (data.inputs == SOFTMAX).all()


@pytest.mark.parametrize("kind", [list, tuple, deque, UserList, np.array, torch.tensor])
def test_sequences_of_any_kind_are_read(kind):
    assert (detect(labels=kind(LABELS.tolist())) == EXPECTED_MASK).all()


# -- tensors --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_tensors_that_hold_something_else_are_refused():
    dense = torch.tensor(SOFTMAX)
    for tensor, message in (
        (dense.to_sparse(), "pred_probs is a sparse tensor. Pass tensor.to_dense"),
        (
            torch.quantize_per_tensor(dense.float(), 0.01, 0, torch.quint8),
            "pred_probs is a quantised tensor. Pass tensor.dequantize",
        ),
        (torch.empty(60, 4, device="meta"), "pred_probs is a tensor on the meta device"),
    ):
        with pytest.raises(uqled.InputError, match=message):
            detect(softmax=tensor)
        with pytest.raises(uqled.InputError, match="tensor"):
            uqled.uncertainty.entropy(tensor)
    with pytest.raises(uqled.InputError, match="labels is a sparse tensor"):
        detect(labels=torch.tensor(LABELS).to_sparse())


def test_tensors_of_other_kinds_are_read():
    exact = torch.tensor(SOFTMAX, requires_grad=True)
    assert (detect(torch.tensor(LABELS), exact, torch.tensor(PASSES)) == EXPECTED_MASK).all()
    assert (arrays.to_numpy(torch.tensor([1.5], dtype=torch.bfloat16)) == [1.5]).all()
    conjugate = torch.tensor([1 + 2j]).conj().imag  # negative without having been computed
    assert arrays.to_numpy(conjugate).tolist() == [-2]


# -- objects, sizes, texts ------------------------------------------------------------------------


def test_objects_that_raise_are_named():
    for function in (
        lambda: detect(labels=Loud()),
        lambda: detect(softmax=Loud()),
        lambda: uqled.Dataset.from_arrays(Loud(), LABELS),
    ):
        with pytest.raises(uqled.InputError, match=r"is a Loud that cannot be read \(the disk"):
            function()


def test_arrays_without_axes_are_refused():
    for zero in (np.array(3), np.float64(0.5), torch.tensor(1)):
        with pytest.raises(uqled.InputError, match="labels"):
            detect(labels=zero)
        with pytest.raises(uqled.InputError, match="pred_probs"):
            detect(softmax=zero)
        with pytest.raises(uqled.InputError):
            uqled.Dataset.from_arrays(SOFTMAX, zero)


@pytest.mark.parametrize(
    "huge",
    [
        np.uint64(2**63), np.uint64(2**64 - 1), np.int64(2**63 - 1), np.int64(-(2**63)), 2**63,
        2**70, -(2**70), 10**5_000, 1e300, -1e300, np.longdouble(2) ** 80, 2**31, 2**32 + 1,
    ],
    ids=lambda value: str(type(value).__name__),
)  # fmt: skip
def test_labels_beyond_any_class_are_refused(huge):
    for labels in (
        [huge, *LABELS[1:].tolist()],
        np.array([huge, *LABELS[1:].tolist()], dtype=object),
        np.where(np.arange(60) == 0, huge, LABELS) if not isinstance(huge, int) else [huge] * 60,
    ):
        with pytest.raises(uqled.InputError, match="labels"):
            detect(labels=labels)


def test_texts_that_numpy_would_confuse():
    names = np.array(["a", "a\0", "b", "c"], dtype=object)
    with pytest.raises(uqled.InputError, match=r"labels contain 'a\\x00' at index"):
        detect(labels=names[LABELS].tolist())
    halves = np.array(["\ud800", "a\udce9", "b", "c"], dtype=object)
    assert detect(labels=np.array(["d", "e", "b", "c"])[LABELS]).sum() > 0
    with pytest.raises(uqled.InputError, match="UTF-8 cannot write"):  # no file could hold them
        uqled.find_label_errors(
            halves[LABELS].tolist(), SOFTMAX, PASSES, method="cl-mcd", classes=halves.tolist()
        )


def test_classes_of_other_shapes_are_refused():
    for classes in ([{}] * 4, [[1], [2, 3], [4], [5]], naturals(), Loud(), 3):
        with pytest.raises(uqled.InputError, match="classes"):
            uqled.find_label_errors(LABELS, SOFTMAX, method="argmax", classes=classes)


def test_many_class_names_take_no_time():
    names = [f"class {k}" for k in range(60_000)]
    began = time.monotonic()
    labels = arrays.encode_labels(names[:100], n_classes=60_000, classes=names)
    assert labels.codes.tolist() == list(range(100))
    assert time.monotonic() - began < 5
    with pytest.raises(uqled.InputError, match="'class 7' twice"):
        arrays.encode_labels(names[:100], n_classes=60_001, classes=[*names, "class 7"])


def test_numbers_that_python_does_not_print_are_refused():
    with pytest.raises(uqled.InputError, match="folds is a int that cannot be printed"):
        arrays.check_whole_number(10**5_000, "folds", low=1, high=5)
    with pytest.raises(uqled.InputError, match="rate is a int that cannot be printed"):
        arrays.check_fraction(10**5_000, "rate")
    with pytest.raises(uqled.InputError, match=r"\.\.\."):
        arrays.check_fraction("x" * 10_000, "rate")
