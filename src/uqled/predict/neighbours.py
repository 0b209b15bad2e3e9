"""What the review page shows beside a suspect: its nearest samples, and copies with another label.

The folder `neighbours` of a run holds plain arrays:

    given.npy        [N,3] the nearest samples with the same label, nearest first; -1: no more
    suggested.npy    [N,3] the nearest samples of the most probable other class
    duplicates.npy   [M,2] pairs of near duplicates with different labels: one of the two is wrong
    vectors.npy      [N,32] the features along their principal axes, to compare any two samples

A table has only vectors: the nearest rows are found by their columns when they are shown.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.features.components import are_embeddings, reduce_features
from uqled.features.map_layout import COMPARED_DIMENSIONS, reduce_dimensions
from uqled.features.neighbours import find_near_duplicates, find_neighbours_in_class
from uqled.predict.learner import CombiningLearner, FeatureLearner, Learner
from uqled.storage.atomic import write_array

FOLDER = "neighbours"
_PER_SIDE = 3


def find_sample_features(learner: Learner, data: Dataset) -> NDArray[np.float32] | None:
    """[N,D] of the samples: those that the learner has, or the data's own embeddings."""
    features = None
    if isinstance(learner, CombiningLearner):
        features = learner.features
    elif isinstance(learner, FeatureLearner):
        features = learner.sample_features
    if features is not None:
        return features
    if data.embeddings is not None:
        return reduce_features(data.embeddings)
    return reduce_features(data.inputs) if are_embeddings(data) else None


def write_neighbours(
    folder: Path,
    features: NDArray[np.float32],
    labels: NDArray[np.integer],
    pred_probs: NDArray[np.floating],
) -> None:
    """Find each sample's neighbours by its features [N,D], and write them."""
    rows = np.arange(len(labels))
    others = np.array(pred_probs)
    others[rows, labels] = -1
    suggested = others.argmax(axis=1)
    (folder / FOLDER).mkdir(exist_ok=True)
    for name, classes in (("given", labels), ("suggested", suggested)):
        nearest = find_neighbours_in_class(features, labels, rows, classes, _PER_SIDE)
        write_array(folder / FOLDER / f"{name}.npy", nearest)
    duplicates = find_conflicting_duplicates(features, labels)
    write_array(folder / FOLDER / "duplicates.npy", duplicates)
    vectors = reduce_dimensions(features, COMPARED_DIMENSIONS)
    write_array(folder / FOLDER / "vectors.npy", vectors)


def write_table_vectors(folder: Path, data: Dataset) -> None:
    """Encode a table's rows, and write them where they can be encoded."""
    from uqled.features.table_vectors import compute_table_vectors  # loads scikit-learn

    vectors = compute_table_vectors(data)
    if vectors is not None:
        (folder / FOLDER).mkdir(exist_ok=True)
        write_array(folder / FOLDER / "vectors.npy", vectors)


def find_conflicting_duplicates(
    features: NDArray[np.float32], labels: NDArray[np.integer]
) -> NDArray[np.int32]:
    """[M,2] pairs of near duplicates with different labels, the lower index first."""
    pairs = find_near_duplicates(features)
    conflicting_pairs: NDArray[np.int32] = pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]]
    return conflicting_pairs
