"""A data set of a suite: training and test samples together, and the network that learns them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.bench.suite import SuiteData
from uqled.data.dataset import Dataset, draw_stratified, join_inputs
from uqled.data.loading import load
from uqled.data.raw_dataset import is_dataset_name
from uqled.errors import InputError
from uqled.predict.learner import Learner
from uqled.predict.learners import choose_learner
from uqled.predict.learners.estimator import CLASSIFIERS


@dataclass(frozen=True)
class BenchmarkData:
    """Training and test samples in one data set, so that one network predicts either."""

    data: Dataset
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    learner: Learner

    @property
    def true_labels(self) -> NDArray[np.int32]:
        """[N] labels of the training samples as published."""
        return self.data.labels.codes[self.train]


def load_benchmark_data(data: SuiteData, folder: Path, device: str = "auto") -> BenchmarkData:
    """The data set of a suite, its training samples first, and its network on a device."""
    return _load_benchmark_data(_make_hashable(data), folder, device)


def load_samples(data: SuiteData, folder: Path) -> tuple[Dataset, int]:
    """(training samples, then test samples; how many are the former), without a network."""
    return _load_samples(_make_hashable(data), folder)


def _make_hashable(data: SuiteData) -> SuiteData:
    return replace(data, training=tuple(data.training.items()))  # type: ignore[arg-type]


@cache
def _load_samples(data: SuiteData, folder: Path) -> tuple[Dataset, int]:
    train, test = _read_parts(data, folder)
    if train.labels.names != test.labels.names:
        raise InputError(
            "test_place",
            f"of {data.name!r} has the classes {test.labels.names[:5]} ..., and the training part "
            f"{train.labels.names[:5]} ...",
            "Name a test set of the same classes",
        )
    all_samples = Dataset(
        train.kind,
        _stack_inputs(train.inputs, test.inputs),
        replace(train.labels, codes=np.concatenate([train.labels.codes, test.labels.codes])),
        np.concatenate([train.ids, test.ids]),
        data.name,
    )
    return all_samples, len(train)


@cache
def _load_benchmark_data(data: SuiteData, folder: Path, device: str) -> BenchmarkData:
    all_samples, N = _load_samples(data, folder)
    learner = choose_learner(data.model, all_samples, **list_training_options(data, device))
    if data.dropout is not None:
        learner = _set_dropout(learner, data.dropout)
    all_rows = np.arange(len(all_samples))
    return BenchmarkData(all_samples, all_rows[:N], all_rows[N:], learner)


def _read_parts(data: SuiteData, folder: Path) -> tuple[Dataset, Dataset]:
    """(training part, test part)."""
    options: dict[str, Any] = {
        "label": data.label, "inputs": data.inputs, "image_size": data.image_size
    }  # fmt: skip
    place, test_place = (
        one if is_dataset_name(one) or "://" in one else folder / one
        for one in (data.place, data.test_place or data.place)
    )
    if data.test_share is None:
        if data.test_place is None and data.test_split is None:
            raise InputError(
                "test_split", f"of {data.name!r} is missing", "Set it, test_place or test_share"
            )
        train = load(place, split=data.split, limit=data.limit, **options)
        test = load(test_place, split=data.test_split, limit=data.test_limit, **options)
        return train, test
    dataset = load(place, split=data.split, limit=data.limit, **options)
    test_rows = draw_stratified(dataset.labels.codes, round(data.test_share * len(dataset)), seed=0)
    train_rows = np.setdiff1d(np.arange(len(dataset)), test_rows)
    return dataset.subset(train_rows), dataset.subset(test_rows)


def _stack_inputs(train: Any, test: Any) -> Any:
    if train.ndim == 4 and train.shape[1:] != test.shape[1:]:
        raise InputError(
            "image_size",
            f"differs: {train.shape[1:]} in training, {test.shape[1:]} in test images",
            "Give image_size in the suite",
        )
    return join_inputs(train, test)


def _set_dropout(learner: Any, rate: float) -> Any:
    """The network with this rate in each of its dropout layers."""
    from uqled.models.dropout import dropout_layers

    def make(seed: int) -> Any:
        network = learner.make(seed)
        for layer in dropout_layers(network):
            layer.p = rate
        return network

    return replace(learner, make=make)


def list_training_options(data: SuiteData, device: str) -> dict[str, Any]:
    """What the network's training is told: the suite's options, and where it runs."""
    options = dict(data.training)
    is_network = data.model not in CLASSIFIERS
    return {"device": device, **options} if is_network and device != "auto" else options
