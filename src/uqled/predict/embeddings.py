"""Out-of-fold probabilities from features alone: somebody's embeddings, and their labels."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled import arrays
from uqled.data.classes import encode_column
from uqled.data.dataset import Dataset
from uqled.errors import InputError
from uqled.predict.crossval import cross_validate

_FOLDS = 4


def predict_from_features(
    labels: Any,
    features: ArrayLike,
    *,
    classes: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[arrays.Labels, NDArray[np.float32], NDArray[np.float32]]:
    """(labels, softmax [N,K], members [H,N,K]) of a committee on features [N,D]."""
    X = arrays.to_numpy(features, "features")
    if X.ndim != 2 or X.dtype.kind not in "fiu" or not X.shape[1]:
        raise InputError(
            "features", f"are {X.dtype} of shape {X.shape}", "Pass numbers of the shape [N,D]"
        )
    if not np.isfinite(X).all():
        row = int(np.argmin(np.isfinite(X).all(axis=1)))
        raise InputError("features", f"have a NaN or infinity in row {row}", "Replace it")
    given_labels = encode_column(labels, names=classes)
    if len(given_labels) != len(X):
        raise InputError(
            "features",
            f"have {len(X)} rows for {len(given_labels)} labels",
            "Pass one row per label",
        )
    data = Dataset(
        "table",
        X.astype(np.float32),
        given_labels,
        np.arange(len(X)).astype(str).astype(object),
        "features",
    )
    fewest = int(np.bincount(given_labels.codes)[np.unique(given_labels.codes)].min())
    with TemporaryDirectory() as folder:
        predictions = cross_validate(
            data,
            "committee:features",
            folds=max(2, min(_FOLDS, fewest)),
            out=Path(folder) / "run",
            seed=seed,
            progress=progress,
        )
        assert predictions.passes is not None
        return given_labels, np.array(predictions.pred_probs), np.array(predictions.passes)
