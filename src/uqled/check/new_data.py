"""Finds label errors in new data with the model of a finished run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.loading import load
from uqled.data.new_samples import load_new_samples
from uqled.data.reopening import relocate_source, reopen_samples
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.predict.new_samples import predict_new_samples
from uqled.progress import Progress
from uqled.storage.run import Predictions

_MAX_LEFT_OUT = 0.5  # share of a class that may be left out of training


def find_errors_in_new_data(
    new_data: Any,
    predictions: Predictions,
    run_errors: LabelErrors,
    *,
    data: Any = None,
    label: Any = None,
    progress: Progress | bool | None = None,
) -> tuple[Dataset, LabelErrors | None]:
    """Return the samples of `new_data`, and their label errors by the model of a finished run.

    The model is fitted on the run's samples except the flagged ones, `run_errors`. The errors are
    None if all new samples have the same label: the number of errors cannot be estimated then.

    Parameters
    ----------
    data
        The samples of the run: a `Dataset`, or the path they were moved to. Default: the path that
        the run read them from.
    label
        As for `load_new_samples`.
    """
    bar = progress if isinstance(progress, Progress) else Progress(progress)
    with bar.stage("reading the samples of the run"):
        run_data = open_run_samples(predictions, data, label=label)
    new = load_new_samples(new_data, run_data, label=label, progress=bar)
    if len(np.unique(new.labels.codes)) < 2:
        return new, None
    is_trusted = select_trusted(run_errors)
    new_predictions = predict_new_samples(predictions, run_data, new, is_trusted, progress=bar)
    errors = find_label_errors(
        new.labels,
        new_predictions.pred_probs,
        new_predictions.passes,
        passes_kind=predictions.passes_kind,
        progress=False,
    )
    return new, errors


def open_run_samples(predictions: Predictions, data: Any, *, label: Any = None) -> Dataset:
    """Load the samples of a run; `data` is as for `find_errors_in_new_data`.

    `label` is the column of labels if the run was made from data in memory.
    """
    if isinstance(data, Dataset):
        run_data = data
    elif predictions.source is not None:
        samples = reopen_samples(relocate_source(predictions, data))
        assert samples is not None
        return samples
    elif data is None:
        raise InputError(
            "data",
            f"is missing, and run {str(predictions.path)!r} was made from data in memory",
            "Name a file of the same samples, or use errors.find_errors_in(new_data) in Python",
        )
    else:
        run_data = load(data, label=label).without_rare_classes(int(predictions.folds.max()) + 1)
    labels = predictions.labels
    is_same = len(run_data) == len(labels) and run_data.labels.names == labels.names
    if not is_same or (run_data.labels.codes != labels.codes).any():
        raise InputError(
            "data",
            f"has different labels than run {str(predictions.path)!r}",
            "Pass the data that the run was made from",
        )
    return run_data


def select_trusted(errors: LabelErrors) -> NDArray[np.bool_]:
    """[N] mask of samples to train on: all but the flagged ones, but at least half per class."""
    codes, n_classes = errors.labels.codes, errors.labels.n_classes
    most_left_out = np.bincount(codes, minlength=n_classes) * _MAX_LEFT_OUT
    is_trusted = np.ones(len(codes), np.bool_)
    for index in errors.ranked:  # most suspect first
        if most_left_out[codes[index]] >= 1:
            is_trusted[index] = False
            most_left_out[codes[index]] -= 1
    return is_trusted
