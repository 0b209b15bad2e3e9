"""Principal components of features, and which data is features already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from uqled.data.dataset import Dataset, is_frame

_EMBEDDING_WIDTH = 32  # columns without names, from which numbers count as an encoder's features
_DIMENSIONS = 512  # that features are reduced to
_LEAST_SHARE = 1e-10  # of the largest variance: less than that is how single precision rounds
_OVERSAMPLES = 10  # more directions that are searched for than are kept: the last ones are inexact


def are_embeddings(data: Dataset) -> bool:
    """Whether the samples look like embeddings: many numbers without column names."""
    inputs = data.inputs
    return (
        data.kind == "table"
        and not is_frame(inputs)
        and inputs.shape[1] >= _EMBEDDING_WIDTH
        and bool(np.isfinite(inputs).all())
    )


def reduce_features(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Principal components [N,d], with a mean variance of 1; labels play no part."""
    centred = features - features.mean(axis=0, dtype=np.float64).astype(np.float32)
    # Sums over several threads differ in the last bit, which turns the sign of a direction.
    with threadpool_limits(1, user_api="blas"):
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
        # [d,D]: few rows, whose products cost less than their SVD
        projections = (basis.T @ centred).astype(np.float64)
        values, vectors = (part[..., -_DIMENSIONS:] for part in eigh(projections @ projections.T))
        return _keep_directions(values, vectors, projections)
    if D <= N:
        return np.asarray(eigh(centred.T @ centred)[1][:, ::-1], np.float32)
    # Fewer samples than dimensions: N directions hold all there is.
    rows = centred.astype(np.float64)
    return _keep_directions(*eigh(rows @ rows.T), rows)


def _keep_directions(
    values: NDArray[np.float64], vectors: NDArray[np.float64], rows: NDArray[np.float64]
) -> NDArray[np.float32]:
    """[D,d] from the eigenvalues, ascending, and eigenvectors of `rows @ rows.T`, without the
    directions in which the rows [n,D] do not vary."""
    is_kept = values > values[-1] * _LEAST_SHARE
    directions = (vectors[:, is_kept] / np.sqrt(values[is_kept])).T @ rows
    return np.asarray(directions[::-1].T, np.float32)
