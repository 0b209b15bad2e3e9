"""Reads the user's own embeddings, `.npy` or Parquet, and a file of their labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from uqled.data.dataset import Dataset
from uqled.data.prediction_files import open_labels
from uqled.errors import InputError
from uqled.storage.arrays.numpy_files import read_array
from uqled.storage.reading import explain_file_problems
from uqled.storage.tables.parquet_tables import read_parquet


def load_embeddings(
    place: Path | str, labels: Path | str, *, limit: int | None = None, seed: int = 0
) -> Dataset:
    """Numbers [N,D] of a file, and one label per row of another."""
    path = Path(place)
    if path.suffix not in (".npy", ".parquet"):
        raise InputError(
            "labels",
            f"is {str(labels)!r}, which is for embeddings, but {path.name!r} holds none",
            "Name an .npy or .parquet file of numbers [N,D], or leave out labels",
        )
    data = Dataset.from_arrays(
        read_embeddings(path, "data"), np.asarray(open_labels(str(labels))), name=path.stem
    )
    return data if limit is None else data.draw_samples(limit, seed)


def attach_embeddings(data: Dataset, features: Any) -> Dataset:
    """The same samples with vectors [N,D] of a file or array, one row per sample as it was read.

    Where rows of a table were set aside, a row per row of the table is right too.
    """
    is_file = isinstance(features, str | Path)
    vectors = read_embeddings(Path(features), "features") if is_file else np.asarray(features)
    if not is_file:
        _check_vectors(vectors, "features", "the array")
    if len(vectors) != len(data):
        rows = [_read_row_number(str(name), len(vectors)) for name in data.ids]
        # Samples that are called by a column of ids do not say which row they were.
        has_ids = any(column.name.lower() == "id" for column in data.columns)
        if has_ids or len(vectors) < len(data) or max(rows) >= len(vectors):
            raise InputError(
                "features",
                f"have {len(vectors):,} rows, and the data has {len(data):,} samples",
                "Pass one row per sample, in the same order",
            )
        vectors = vectors[rows]
    return replace(data, embeddings=vectors.astype(np.float32), unlabelled_inputs=None)


def _read_row_number(name: str, n_rows: int) -> int:
    """The row of a sample that is called by its row; `n_rows` if it is none below that."""
    is_row = name.isdecimal() and len(name) <= len(str(n_rows))
    return min(int(name), n_rows) if is_row else n_rows


def read_embeddings(path: Path, argument: str) -> Any:
    """Numbers [N,D] of an .npy or Parquet file."""
    if path.suffix == ".npy":
        features: Any = read_array(path)
    elif path.suffix == ".parquet":
        with explain_file_problems(path):
            features = read_parquet(path).to_pandas().to_numpy()
    else:
        raise InputError(argument, f"is {str(path)!r}", "Name an .npy or .parquet file")
    _check_vectors(features, argument, repr(str(path)))
    return features.astype(np.float32)


def _check_vectors(vectors: Any, argument: str, name: str) -> None:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.shape[1]:
        raise InputError(
            argument,
            f"{name} holds {vectors.dtype} of shape {vectors.shape}",
            "Embeddings are numbers [N,D]",
        )
    with np.errstate(over="ignore"):  # of numbers too large for 32 bits
        is_number = np.isfinite(vectors.astype(np.float32)).all(axis=1)
    if not is_number.all():
        row = int(np.argmin(is_number))
        raise InputError(
            argument, f"{name} has a NaN or infinity in row {row}, in 32 bits", "Replace it"
        )
