"""Rows of a table as vectors, to compare any two of them: scaled numbers, a column per category."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.features.columns import make_transformer, take_samples
from uqled.features.map_layout import COMPARED_DIMENSIONS, choose_sample_rows

_FIT_ROWS = 20_000  # rows that scales, categories and axes are read from
_BLOCK = 16_384  # rows at a time: with a column per category, all of them could fill the memory
_FARTHEST = 3.0  # standard deviations: beyond, one odd number would outweigh all other columns


def compute_table_vectors(data: Dataset) -> NDArray[np.float32] | None:
    """[N,d] the rows along their principal axes, d at the most `COMPARED_DIMENSIONS`; None if the
    columns cannot be encoded, because one holds infinite values or texts without words."""
    from sklearn.decomposition import PCA

    sample = choose_sample_rows(len(data), _FIT_ROWS)
    try:
        transformer = make_transformer(data, takes_sparse=False, name="the map")
        rows = _encode_rows(data, sample, transformer.fit_transform)
    except ValueError:  # only a pipeline of the user's own can learn from such columns
        return None
    n_axes = min(COMPARED_DIMENSIONS, *rows.shape)
    with np.errstate(invalid="ignore"):  # rows that are all the same have no variance to share
        axes = PCA(n_axes, random_state=0).fit(rows)
    vectors = np.empty((len(data), n_axes), np.float32)
    for begin in range(0, len(data), _BLOCK):
        part = np.arange(begin, min(begin + _BLOCK, len(data)))
        vectors[part] = axes.transform(_encode_rows(data, part, transformer.transform))
    return vectors


def _encode_rows(
    data: Dataset, rows: NDArray[np.intp], encode: Callable[[Any], Any]
) -> NDArray[np.float32]:
    """[n,D] these rows: two that differ in a category are as far apart as two numbers usually."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a category that the sample has not
        vectors = np.asarray(encode(take_samples(data, rows)), np.float32)
    clipped_vectors: NDArray[np.float32] = np.clip(vectors, -_FARTHEST, _FARTHEST)
    return clipped_vectors
