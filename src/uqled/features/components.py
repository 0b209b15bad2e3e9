"""Principal components of features, and which data is features already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from uqled.data.dataset import Dataset

_EMBEDDING_WIDTH = 32  # columns without names, from which numbers count as an encoder's features
_DIMENSIONS = 512  # that features are reduced to
_OVERSAMPLES = 10  # more directions that are searched for than are kept: the last ones are inexact


def are_embeddings(data: Dataset) -> bool:
    """If the samples are many numbers without names, which a network made, not a person."""
    inputs = data.inputs
    return (
        data.kind == "table"
        and not hasattr(inputs, "columns")
        and inputs.shape[1] >= _EMBEDDING_WIDTH
        and bool(np.isfinite(inputs).all())
    )


def reduce_features(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Principal components [N,d], with a mean variance of 1; labels play no part."""
    centred = features - features.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = centred @ _find_directions(centred)
    scale = float(np.sqrt(np.mean(centred**2))) or 1.0
    return np.ascontiguousarray(centred / scale, np.float32)


def _find_directions(centred: NDArray[np.float32]) -> NDArray[np.float32]:
    """[D,d] orthonormal, the direction of the largest variance first."""
    N, D = centred.shape
    if min(N, D) > _DIMENSIONS:
        from sklearn.utils.extmath import randomized_range_finder

        basis = randomized_range_finder(
            centred, size=_DIMENSIONS + _OVERSAMPLES, n_iter=2, random_state=0
        )
        shadow = basis.T @ centred  # [d,D]: few rows, whose products cost less than their SVD
        values, vectors = eigh((shadow @ shadow.T).astype(np.float64))
        largest = slice(None, -_DIMENSIONS - 1, -1)
        rows = (vectors[:, largest] / np.sqrt(values[largest])).T @ shadow
        return np.asarray(rows.T, np.float32)
    if D <= N:
        return np.asarray(eigh(centred.T @ centred)[1][:, ::-1], np.float32)
    # Fewer samples than dimensions: N directions hold all there is.
    values, vectors = eigh((centred @ centred.T).astype(np.float64))
    is_kept = values > values[-1] * 1e-6
    rows = (vectors[:, is_kept] / np.sqrt(values[is_kept])).T @ centred
    return np.asarray(rows[::-1].T, np.float32)
