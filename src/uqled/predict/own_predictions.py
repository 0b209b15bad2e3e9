"""Predictions that the user has already, as a run: report, review and export work on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.data.dataset import Dataset
from uqled.data.loading import load
from uqled.data.raw_dataset import make_ids
from uqled.errors import InputError
from uqled.storage.run import Predictions, Run


def make_run(
    labels: Any,
    pred_probs: Any,
    passes: Any = None,
    *,
    out: Path | str,
    data: Any = None,
    classes: list[Any] | None = None,
    ids: Any = None,
    **options: Any,
) -> Predictions:
    """A run of predictions that you have, so that `report`, `review` and `export` work on it.

    Parameters
    ----------
    labels
        [N] given labels, or None for those of `data`.
    pred_probs, passes
        [N,K] and [F,N,K] out-of-sample probabilities.
    out
        The run's folder.
    data
        The samples, in the same order: whatever `uqled.load` takes, with its `options`. Without
        it, pages show the samples' ids alone.
    classes
        [K] what the columns of `pred_probs` stand for. Default: the sorted labels.
    ids
        [N] what you call the samples. Default: those of the data, or row numbers.
    """
    softmax = arrays.check_pred_probs(pred_probs).astype(np.float32)
    own_passes = None if passes is None else arrays.check_passes(passes).astype(np.float32)
    N, K = softmax.shape
    dataset = data if data is None or isinstance(data, Dataset) else load(data, **options)
    _check_rows(dataset, N)
    given = _choose_labels(labels, dataset, K, classes)
    arrays.check_shapes_match(
        len(given), softmax.shape, None if own_passes is None else own_passes.shape
    )
    names = make_ids(ids if ids is not None else range(N) if dataset is None else dataset.ids)
    configuration = {
        "model": "your own predictions",
        "samples": N,
        "classes": list(given.names),
        "passes": 0 if own_passes is None else len(own_passes),
    }
    with Run.hold(Path(out), configuration) as run:
        run.write_data(
            given,
            names.tolist(),
            None if dataset is None else dataset.truth,
            np.zeros(N, np.int32),
            None if dataset is None else dataset.source,
            "" if dataset is None else dataset.inputs_fingerprint,
        )
        run.write_fold(0, softmax, own_passes)
        run.write_predictions([np.arange(N)], K)
    return run.predictions()


def _check_rows(dataset: Dataset | None, n: int) -> None:
    if dataset is not None and len(dataset) != n:
        missing = len(dataset.unlabelled)
        without = f" and {missing:,} without a label" if missing else ""
        raise InputError(
            "data",
            f"has {len(dataset):,} labelled samples{without}, and pred_probs has {n:,} rows",
            "Predict the same samples in the same order",
        )


def _choose_labels(
    labels: Any, dataset: Dataset | None, n_classes: int, classes: list[Any] | None
) -> Labels:
    """The labels as class numbers of the columns; those of the data must be the same."""
    if labels is None:
        if dataset is None:
            raise InputError("labels", "are missing", "Pass them, or data that has them")
        labels = dataset.labels.values[dataset.labels.codes]
    given = arrays.encode_labels(labels, n_classes=n_classes, classes=classes)
    if dataset is not None and len(given) == len(dataset):
        _refuse_other_labels(given, dataset)
    return given


def _refuse_other_labels(given: Labels, dataset: Dataset) -> None:
    """Refuse labels in another order than the data's: a sample would be shown as another one."""
    own: NDArray[Any] = np.array(dataset.labels.names, dtype=object)[dataset.labels.codes]
    theirs: NDArray[Any] = np.array(given.names, dtype=object)[given.codes]
    values = dataset.labels.values.astype(str)[dataset.labels.codes]
    wrong = np.flatnonzero((own != theirs) & (values != theirs))
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            "labels",
            f"differ from the data's in {len(wrong):,} rows (sample {dataset.ids[at]!r} is "
            f"{theirs[at]!r}, and {own[at]!r} in the data)",
            "Pass both in the same order",
        )
