"""Features in fewer dimensions: some dozens to compare samples by, and two to draw them as a map.

The map is t-SNE of a sample of the rows; the others lie between their nearest rows of that sample.
So a million rows take hardly longer than some thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import MissingInputError

#: Dimensions that hold what tells samples apart; more only repeat it.
COMPARED_DIMENSIONS = 32
_FIT_ROWS = 20_000  # rows that the principal axes are read from: more do not move them
_FEW_DIMENSIONS = 1_000  # of which the covariance takes less time than the rows
_MAP_ROWS = 5_000  # rows laid out by t-SNE: an island of one in a thousand has five of them
_BLOCK = 16_384  # rows at a time
_BETWEEN = 5  # rows of the map between which another row lies
_ITERATIONS = {"early_exaggeration_iter": 250, "n_iter": 500}  # the defaults of openTSNE
_REPORT = 10  # iterations between two reports
# Seconds of one core, measured once: there is a time left before any speed is known.
_ITERATION_SECONDS = 3e-6  # of a row that is laid out, its share of finding neighbours included
_BETWEEN_SECONDS = 2e-5  # of a row that lies between others


@dataclass(frozen=True)
class MapPlan:
    """How much there is to do for a map of N rows."""

    n_laid_out: int
    """Rows laid out by t-SNE."""
    n_between: int
    """Rows placed between them."""

    @property
    def layout_seconds(self) -> float:
        """Of the first part, on an ordinary core."""
        return self.n_laid_out * _ITERATION_SECONDS * sum(_ITERATIONS.values())

    @property
    def seconds(self) -> float:
        """Of both parts."""
        return self.layout_seconds + self.n_between * _BETWEEN_SECONDS


def plan_map(N: int) -> MapPlan:
    """How a map of N rows is computed."""
    n_laid_out = min(N, _MAP_ROWS)
    return MapPlan(n_laid_out, N - n_laid_out)


def reduce_dimensions(
    X: NDArray[np.floating], dimensions: int, *, root: bool = False
) -> NDArray[np.float32]:
    """[N,d] the rows of X [N,D] along the principal axes, d at the most `dimensions`.

    With `root`, of the square roots of X: for probabilities.
    """
    from sklearn.decomposition import PCA

    def read_rows(rows: Any) -> NDArray[np.float32]:
        part = np.asarray(X[rows], np.float32)
        return np.sqrt(part) if root else part

    N, D = X.shape
    rows = choose_sample_rows(N, _FIT_ROWS)
    d = min(dimensions, D, len(rows))
    with np.errstate(invalid="ignore"):  # rows that are all the same have no variance to share
        solver = "covariance_eigh" if D <= _FEW_DIMENSIONS else "auto"
        axes = PCA(d, svd_solver=solver, random_state=0).fit(read_rows(rows))
    result = np.empty((N, d), np.float32)
    for begin in range(0, N, _BLOCK):
        result[begin : begin + _BLOCK] = axes.transform(read_rows(slice(begin, begin + _BLOCK)))
    return result


def lay_out_map(
    X: NDArray[np.floating],
    *,
    quick: bool = False,
    advance: Callable[[float], None] = lambda _: None,
) -> NDArray[np.float32]:
    """[N,2] a place for each row of X [N,D], rows alike side by side; the same for the same rows.

    With `quick`, along the two principal axes: a first draft. `advance` is called with the seconds
    of `plan_map` that are done.
    """
    N = len(X)
    rows = choose_sample_rows(N, plan_map(N).n_laid_out)
    sample = np.asarray(X[rows], np.float32)
    if quick or len(rows) < 10 or not np.ptp(sample, axis=0).any():  # there are no neighbourhoods
        return _fill_square(reduce_dimensions(X, 2))
    places = _embed_rows(sample, advance)
    positions = np.empty((N, 2), np.float32)
    positions[rows] = places
    other_rows = np.setdiff1d(np.arange(N), rows, assume_unique=True)
    if len(other_rows):
        from sklearn.neighbors import KNeighborsRegressor

        regressor = KNeighborsRegressor(_BETWEEN, weights="distance", algorithm="brute")
        regressor.fit(sample, places)
        for begin in range(0, len(other_rows), _BLOCK):
            part = other_rows[begin : begin + _BLOCK]
            positions[part] = regressor.predict(np.asarray(X[part], np.float32))
            advance(len(part) * _BETWEEN_SECONDS)
    return _fill_square(positions)


def _embed_rows(
    sample: NDArray[np.float32], advance: Callable[[float], None]
) -> NDArray[np.float32]:
    """[n,2] t-SNE of all rows."""
    try:
        import openTSNE
    except ImportError as error:
        raise MissingInputError(
            "map", f"needs {error.name}", "Install it: pip install 'uqled[review]'"
        ) from error
    from threadpoolctl import threadpool_limits

    n = len(sample)

    def report(_iteration: int, _error: float, _embedding: Any) -> None:
        advance(_REPORT * n * _ITERATION_SECONDS)

    with threadpool_limits(1):  # sums over threads have another order each time
        embedder = openTSNE.TSNE(
            perplexity=min(30.0, (n - 1) / 3),
            random_state=0,
            n_jobs=1,
            callbacks=report,
            callbacks_every_iters=_REPORT,
            **_ITERATIONS,
        )
        return np.asarray(embedder.fit(sample), np.float32)


def choose_sample_rows(N: int, most: int) -> NDArray[np.intp]:
    """At most this many row numbers, always the same."""
    if most >= N:
        return np.arange(N)
    return np.sort(np.random.default_rng(0).choice(N, most, replace=False))


def _fill_square(places: NDArray[np.floating]) -> NDArray[np.float32]:
    """Scaled to -1 to 1; a second column of zeros where there is none."""
    square = np.zeros((len(places), 2), np.float32)
    centre = (places.min(axis=0) + places.max(axis=0)) / 2
    half = max(float(np.ptp(places, axis=0).max()) / 2, 1e-12)
    square[:, : places.shape[1]] = (places - centre) / half
    return square
