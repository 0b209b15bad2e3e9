"""Rows of a table as vectors: what makes two of them alike, and that a run keeps them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

from uqled.data import Dataset
from uqled.data.tables.columns import Column
from uqled.features import map_layout, table_vectors
from uqled.features.table_vectors import compute_table_vectors
from uqled.predict.crossval import cross_validate
from uqled.predict.own_predictions import make_run


def make_table(frame):
    return Dataset.from_arrays(frame, np.arange(len(frame)) % 2)


def make_kinds(N=300):
    """Rows of three kinds, told apart by two columns; a third says nothing."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, N)
    frame = pd.DataFrame(
        {
            "length": 20 * kind + rng.normal(size=N),
            "colour": np.array(["red", "green", "blue"])[kind],
            "noise": rng.normal(size=N),
        }
    )
    return frame, kind


def test_a_category_counts_as_much_as_a_number():
    frame = pd.DataFrame(
        {"length": [-1.0, 1.0, -1.0, 1.0], "colour": ["red", "red", "blue", "blue"]}
    )
    vectors = compute_table_vectors(make_table(frame))
    distances = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    # Scaled lengths are -1 and 1, two apart; two columns of a category differ by 1 each.
    expected = np.sqrt([[0, 4, 2, 6], [4, 0, 6, 2], [2, 6, 0, 4], [6, 2, 4, 0]])
    np.testing.assert_allclose(distances, expected, atol=1e-5)


def test_rows_of_a_kind_are_neighbours_and_missing_values_are_allowed():
    frame, kind = make_kinds()
    frame.loc[3, "length"], frame.loc[4, "colour"] = np.nan, None
    vectors = compute_table_vectors(make_table(frame))
    assert vectors.dtype == np.float32
    assert vectors.shape == (300, 6)  # two numbers, three colours and a missing one
    model = KNeighborsClassifier(5).fit(vectors, kind)
    assert (model.predict(vectors) == kind).mean() > 0.99


def test_one_odd_number_does_not_outweigh_the_other_columns():
    frame, kind = make_kinds()
    frame["noise"] = np.r_[1e9, np.zeros(299)]
    vectors = compute_table_vectors(make_table(frame))
    distance = np.linalg.norm(vectors[0] - vectors[1:], axis=1)
    assert kind[1:][distance.argmin()] == kind[0]
    assert distance.min() < 3.3


def test_rows_in_blocks_with_categories_that_the_sample_has_not(monkeypatch):
    frame, _ = make_kinds()
    expected = compute_table_vectors(make_table(frame))
    monkeypatch.setattr(table_vectors, "_BLOCK", 7)
    np.testing.assert_allclose(compute_table_vectors(make_table(frame)), expected, atol=1e-5)
    monkeypatch.setattr(table_vectors, "_FIT_ROWS", 40)
    sample = map_layout.choose_sample_rows(300, 40)
    unseen = np.setdiff1d(np.arange(300), sample)[0]
    frame.loc[unseen, "colour"] = "purple"
    vectors = compute_table_vectors(make_table(frame))
    assert np.isfinite(vectors).all()
    assert len(vectors) == 300


@pytest.mark.parametrize(
    "column", [[np.inf, 1.0, 2.0, 3.0], pd.array([None] * 4, "Float64"), ["a", "a", "a", "a"]]
)
def test_columns_that_say_nothing(column):
    vectors = compute_table_vectors(make_table(pd.DataFrame({"odd": column, "same": [1.0] * 4})))
    if isinstance(column, list) and column[0] == np.inf:
        assert vectors is None  # it cannot be scaled
    else:
        assert not vectors.any()


def test_columns_of_texts_are_compared_by_their_words():
    texts = ["a good film", "a good film", "train to the north", "train to the south"] * 20
    frame = pd.DataFrame({"review": texts, "stars": [1.0, 2.0] * 40})
    columns = (Column("review", "text", True), Column("stars", "number", True))
    data = Dataset.from_arrays(frame, np.arange(80) % 2)
    object.__setattr__(data, "columns", columns)
    vectors = compute_table_vectors(data)
    near_distance, far_distance = np.linalg.norm(vectors[[4, 2]] - vectors[0], axis=1)
    assert near_distance < 1e-5
    assert far_distance > 0.5
    object.__setattr__(data, "inputs", frame.assign(review="..."))
    assert compute_table_vectors(data) is None  # no words in it


def test_a_run_keeps_them(tmp_path):
    frame, kind = make_kinds()
    data = Dataset.from_arrays(frame, kind)
    predictions = cross_validate(data, "logistic", out=tmp_path / "run", folds=3, progress=False)
    stored_vectors = np.load(tmp_path / "run" / "neighbours" / "vectors.npy")
    np.testing.assert_allclose(stored_vectors, compute_table_vectors(data), atol=1e-5)
    make_run(kind, predictions.pred_probs, out=tmp_path / "own", data=data)
    own_vectors = np.load(tmp_path / "own" / "neighbours" / "vectors.npy")
    np.testing.assert_array_equal(own_vectors, stored_vectors)
