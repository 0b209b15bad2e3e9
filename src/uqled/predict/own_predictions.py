"""Makes a run from the user's own predictions: report, review and export work on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.data.dataset import Dataset
from uqled.data.inspection import inspect
from uqled.data.inspection.copies import choose_unlabelled_classes
from uqled.data.inspection.duplicates import find_contradictions
from uqled.data.inspection.prediction_checks import add_prediction_findings
from uqled.data.loading import load
from uqled.data.raw_dataset import make_ids
from uqled.errors import InputError
from uqled.predict.neighbours import write_table_vectors
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
    """Make a run from your own predictions, for `report`, `review`, `audit`, `export` and `check`.

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
    probs = arrays.check_pred_probs(pred_probs).astype(np.float32)
    own_passes = None if passes is None else arrays.check_passes(passes).astype(np.float32)
    K = probs.shape[1]
    options.setdefault("spellings", "keep")  # the columns of pred_probs are the classes
    dataset = data if data is None or isinstance(data, Dataset) else load(data, **options)
    labels, is_missing = _separate_unlabelled(labels, dataset, len(probs))
    softmax, unlabelled_probs = probs[~is_missing], probs[is_missing]
    if own_passes is not None and own_passes.shape[1] == len(probs):
        own_passes = own_passes[:, ~is_missing]
    N = len(softmax)
    _check_sample_count(dataset, N)
    chosen_labels = _choose_labels(labels, dataset, K, classes)
    arrays.check_shapes_match(
        len(chosen_labels), softmax.shape, None if own_passes is None else own_passes.shape
    )
    names, missing_names = _name_samples(ids, dataset, is_missing)
    configuration = {
        "model": "your own predictions",
        "samples": N,
        "classes": list(chosen_labels.names),
        "passes": 0 if own_passes is None else len(own_passes),
    }
    with Run.hold(Path(out), configuration) as run:
        run.write_data(
            chosen_labels,
            names.tolist(),
            None if dataset is None else dataset.truth,
            np.zeros(N, np.int32),
            None if dataset is None else dataset.source,
            "" if dataset is None else dataset.inputs_fingerprint,
            None
            if dataset is None
            else find_contradictions(replace(dataset, labels=chosen_labels)),
        )
        run.write_fold(0, softmax, own_passes)
        run.write_predictions([np.arange(N)], K)
        if len(unlabelled_probs):
            predicted = unlabelled_probs.argmax(axis=1), [""] * len(unlabelled_probs)
            if dataset is not None:
                labelled_dataset = replace(dataset, labels=chosen_labels)
                predicted = choose_unlabelled_classes(labelled_dataset, unlabelled_probs)
            run.write_unlabelled(
                missing_names.tolist(), chosen_labels, unlabelled_probs, *predicted
            )
        if dataset is not None:
            if dataset.kind == "table" and len(dataset) == N:
                write_table_vectors(run.path, dataset)
            inspection = add_prediction_findings(inspect(dataset), chosen_labels, softmax)
            run.write_inspection(inspection.to_json())
    return run.predictions()


def _separate_unlabelled(
    labels: Any, dataset: Dataset | None, n: int
) -> tuple[Any, NDArray[np.bool_]]:
    """(the labels that there are, [n] which of the predicted samples have none).

    Those are the samples without a label of the data, where all of its samples are predicted, or
    else the missing ones of `labels`.
    """
    import pandas as pd

    is_missing = np.zeros(n, np.bool_)
    column = None if labels is None or isinstance(labels, Labels) else _read_column(labels)
    if dataset is not None:
        rows = dataset.unlabelled_rows
        if rows is None or n != len(dataset) + len(rows):
            return labels, is_missing
        is_missing[list(rows)] = True
    elif column is not None and len(column) == n:
        is_missing = column.isna().to_numpy() | (column.astype(str).str.strip() == "").to_numpy()
    if column is None or not is_missing.any() or len(column) != n:
        return labels, is_missing
    present = column[~is_missing]
    if column[is_missing].notna().any() and dataset is not None:
        at = int(np.flatnonzero(is_missing & column.notna().to_numpy())[0])
        raise InputError(
            "labels",
            f"have {column.iloc[at]!r} in row {at}, and the data no label",
            "Pass both in the same order",
        )
    if pd.api.types.is_float_dtype(present.dtype) and (present % 1 == 0).all():
        present = present.astype(np.int64)  # floats because some were missing
    return present.to_numpy(), is_missing


def _read_column(labels: Any) -> Any:
    """Labels as a pandas column; None where they are larger than memory may be."""
    import pandas as pd

    if isinstance(labels, pd.Series):
        return labels.reset_index(drop=True)
    is_plain = isinstance(labels, list | tuple) or (
        isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "OUf"
    )
    return pd.Series(labels) if is_plain else None


def _name_samples(
    ids: Any, dataset: Dataset | None, is_missing: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ids of the samples with a label, and of those without."""
    if ids is None and dataset is not None:
        return make_ids(dataset.ids), make_ids(dataset.unlabelled)
    names = make_ids(range(len(is_missing)) if ids is None else ids)
    if len(names) != len(is_missing):  # refused later, when compared with the labels
        return names, names[:0]
    return names[~is_missing], names[is_missing]


def _check_sample_count(dataset: Dataset | None, n: int) -> None:
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
    chosen_labels = arrays.encode_labels(labels, n_classes=n_classes, classes=classes)
    if dataset is not None and len(chosen_labels) == len(dataset):
        _refuse_other_labels(chosen_labels, dataset)
    return chosen_labels


def _refuse_other_labels(chosen_labels: Labels, dataset: Dataset) -> None:
    """Refuse labels in a different order from the data's: samples would be shown with the labels of
    others."""
    own_names: NDArray[Any] = np.array(dataset.labels.names, dtype=object)[dataset.labels.codes]
    theirs: NDArray[Any] = np.array(chosen_labels.names, dtype=object)[chosen_labels.codes]
    values = dataset.labels.values.astype(str)[dataset.labels.codes]
    differences = np.flatnonzero((own_names != theirs) & (values != theirs))
    if len(differences):
        at = int(differences[0])
        raise InputError(
            "labels",
            f"differ from the data's in {len(differences):,} rows (sample {dataset.ids[at]!r} is "
            f"{theirs[at]!r}, and {own_names[at]!r} in the data)",
            "Pass both in the same order",
        )
