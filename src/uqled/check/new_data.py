"""Label errors in new data, found by the model of a finished run."""

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

_MOST_SUSPECT = 0.5  # share of a class that may be left out of training


def find_errors_in_new_data(
    new_data: Any,
    predictions: Predictions,
    run_errors: LabelErrors,
    *,
    data: Any = None,
    label: Any = None,
    progress: Progress | bool | None = None,
) -> tuple[Dataset, LabelErrors | None]:
    """(the samples of `new_data`, their label errors) by the model of the run of `predictions`.

    The model is fitted on the run's samples but for its suspects, `run_errors`. None for the errors
    of samples of one class: how many errors to expect cannot be told from these.

    Parameters
    ----------
    data
        The samples of the run: a `Dataset`, or the place that they were moved to. Default: read
        from where the run found them.
    label
        As `load_new_samples` takes it.
    """
    bar = progress if isinstance(progress, Progress) else Progress(progress)
    with bar.stage("reading the samples of the run"):
        known = open_run_samples(predictions, data, label=label)
    new = load_new_samples(new_data, known, label=label, progress=bar)
    if len(np.unique(new.labels.codes)) < 2:
        return new, None
    is_trusted = select_trusted(run_errors)
    new_predictions = predict_new_samples(predictions, known, new, is_trusted, progress=bar)
    errors = find_label_errors(
        new.labels,
        new_predictions.pred_probs,
        new_predictions.passes,
        passes_kind=predictions.passes_kind,
        method="auto",
        progress=False,
    )
    return new, errors


def open_run_samples(predictions: Predictions, data: Any, *, label: Any = None) -> Dataset:
    """The samples of a run, from where they are now; `data` as for `find_errors_in_new_data`.

    `label` is the column of labels, where the run was made of data in memory.
    """
    if isinstance(data, Dataset):
        known = data
    elif predictions.source is not None:
        samples = reopen_samples(relocate_source(predictions, data))
        assert samples is not None
        return samples
    elif data is None:
        raise InputError(
            "data",
            f"is missing, and run {str(predictions.path)!r} was made of data in memory",
            "Name a file of the same samples, or use errors.find_errors_in(new_data) in Python",
        )
    else:
        known = load(data, label=label).without_rare_classes(int(predictions.folds.max()) + 1)
    labels = predictions.labels
    is_same = len(known) == len(labels) and known.labels.names == labels.names
    if not is_same or (known.labels.codes != labels.codes).any():
        raise InputError(
            "data",
            f"has other labels than run {str(predictions.path)!r}",
            "Pass the data that the run was made of",
        )
    return known


def select_trusted(errors: LabelErrors) -> NDArray[np.bool_]:
    """[N] samples to train on: all but the flagged ones, and at least half of each class."""
    codes, n_classes = errors.labels.codes, errors.labels.n_classes
    allowed = np.bincount(codes, minlength=n_classes) * _MOST_SUSPECT
    is_trusted = np.ones(len(codes), np.bool_)
    for index in errors.ranked:  # most suspect first
        if allowed[codes[index]] >= 1:
            is_trusted[index] = False
            allowed[codes[index]] -= 1
    return is_trusted
