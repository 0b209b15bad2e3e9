"""Embeddings of the user's own, `.npy` or Parquet, and a file of their labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from uqled.data.dataset import Dataset
from uqled.data.prediction_files import open_labels
from uqled.data.table_files import read_parquet
from uqled.errors import InputError
from uqled.storage.arrays.numpy_files import read_array
from uqled.storage.reading import explain_file_problems


def load_embeddings(
    place: Path | str, labels: Path | str, *, limit: int | None = None, seed: int = 0
) -> Dataset:
    """Numbers [N,D] of a file, and one label per row of another."""
    path = Path(place)
    if path.suffix == ".npy":
        features: Any = read_array(path)
    elif path.suffix == ".parquet":
        with explain_file_problems(path):
            features = read_parquet(path).to_pandas().to_numpy()
    else:
        raise InputError(
            "labels",
            f"is {str(labels)!r}, which goes with embeddings, and {path.name!r} is none",
            "Name an .npy or .parquet file of numbers [N,D], or leave out labels",
        )
    if features.ndim != 2 or features.dtype.kind not in "fiu":
        raise InputError(
            "data",
            f"{str(path)!r} holds {features.dtype} of shape {features.shape}",
            "Embeddings are numbers [N,D]",
        )
    data = Dataset.from_arrays(
        features.astype(np.float32), np.asarray(open_labels(str(labels))), name=path.stem
    )
    return data if limit is None else data.limited(limit, seed)
