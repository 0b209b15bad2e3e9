"""An index finds nearly the same neighbours as comparing all samples, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from threadpoolctl import threadpool_limits

from uqled.features import neighbours
from uqled.features.components import reduce_features
from uqled.features.neighbours import (
    find_near_duplicates,
    find_neighbours,
    find_neighbours_in_class,
)

pytest.importorskip("usearch")


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 64))
    return (centres[rng.integers(0, 20, 1_500)] + rng.normal(size=(1_500, 64))).astype(np.float32)


def test_the_index_finds_what_comparing_all_finds(vectors, monkeypatch):
    groups = np.arange(1_500) // 2
    exact, similarities = find_neighbours(vectors, 10, groups=groups)
    monkeypatch.setattr(neighbours, "_EXACT_PRODUCTS", 0)
    indices, index_similarities = find_neighbours(vectors.copy(), 10, groups=groups)
    again, _ = find_neighbours(vectors.copy(), 10, groups=groups)  # searched anew
    np.testing.assert_array_equal(indices, again)
    assert (groups[indices] != groups[:, None]).all()
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact, indices, strict=True)])
    assert recall > 0.98
    np.testing.assert_allclose(index_similarities[:, 0], similarities[:, 0], atol=0.05)


@pytest.mark.parametrize("group_size", [1, 3, 200])
@pytest.mark.parametrize("n", [40, 1_500])
def test_all_are_compared_as_scikit_learn_does(vectors, n, group_size):
    """Few columns, whose products are partitioned at once, and so many that strides come first."""
    X, groups = vectors[:n], np.arange(n) % -(-n // group_size)
    indices, similarities = find_neighbours(X, 10, groups=groups)
    products = cosine_similarity(X - X.mean(axis=0))
    products[groups[:, None] == groups] = -np.inf
    for row, self_similarity in enumerate(products):
        expected = np.argsort(-self_similarity, kind="stable")[:10]
        expected = expected[np.isfinite(self_similarity[expected])]
        np.testing.assert_array_equal(indices[row, : len(expected)], expected)
        assert (indices[row, len(expected) :] == -1).all()
        np.testing.assert_allclose(
            similarities[row, : len(expected)], self_similarity[expected], atol=1e-5
        )


def test_blocks_of_samples_side_by_side_find_what_one_block_finds(vectors, monkeypatch):
    expected = find_neighbours(vectors.copy(), 10)
    monkeypatch.setattr(neighbours, "_BLOCK_BYTES", 4 * len(vectors) * 70)  # 22 blocks, one short
    monkeypatch.setattr(neighbours, "count_cores", lambda: 3)
    in_blocks = find_neighbours(vectors.copy(), 10)
    np.testing.assert_array_equal(expected[0], in_blocks[0])
    np.testing.assert_allclose(expected[1], in_blocks[1], rtol=1e-5)


def test_neighbours_of_a_class_are_of_that_class(vectors, monkeypatch):
    labels = np.arange(1_500) % 3
    rows, classes = np.arange(300), (np.arange(300) + 1) % 3
    exact = find_neighbours_in_class(vectors, labels, rows, classes, 3)
    monkeypatch.setattr(neighbours, "_EXACT_PRODUCTS", 0)
    indices = find_neighbours_in_class(vectors, labels, rows, classes, 3)
    assert (labels[indices] == classes[:, None]).all()
    assert np.mean(indices[:, 0] == exact[:, 0]) > 0.98


@pytest.mark.parametrize("shape", [(200, 40), (30, 90), (700, 600)])
def test_components_keep_the_distances(shape):
    """Of 700 x 600, the 512 components with the largest variance are kept."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=shape) * np.linspace(3, 0.01, shape[1]) ** 2).astype(np.float32)
    reduced = reduce_features(X)
    assert reduced.shape[1] == min(*shape, 512) - (shape[0] < shape[1])
    assert np.mean(reduced**2) == pytest.approx(1, abs=1e-3)
    covariance = reduced.T @ reduced / len(X)
    off_diagonal = covariance - np.diag(np.diag(covariance))
    assert np.abs(off_diagonal).max() < 1e-2 * covariance.max()
    before = np.linalg.norm(X[0] - X[1:20], axis=1)
    after = np.linalg.norm(reduced[0] - reduced[1:20], axis=1)
    np.testing.assert_allclose(after / after[0], before / before[0], rtol=1e-3)


@pytest.mark.parametrize("shape", [(3_000, 384), (700, 600)])
def test_components_do_not_depend_on_the_number_of_threads(shape):
    X = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(reduce_features(X))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("live", [400, 550])
def test_features_that_repeat_others_have_no_direction_of_their_own(live):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, live)).astype(np.float32)
    reduced = reduce_features(np.hstack([X, X, np.zeros((800, 20), np.float32)]))
    assert np.isfinite(reduced).all()
    assert reduced.shape == (800, min(live, 512))
    assert reduced.var(axis=0).min() > 1e-3


def test_many_features_keep_the_variance_that_principal_components_keep():
    rng = np.random.default_rng(0)
    scales = np.exp(-np.arange(600) / 100)
    X = (rng.normal(size=(700, 600)) * scales).astype(np.float32)
    reduced = reduce_features(X)
    assert reduced.shape == (700, 512)
    axes = PCA(512).fit(X)
    kept_variance = reduced.var(axis=0) * (
        axes.explained_variance_.sum() / reduced.var(axis=0).sum()
    )
    np.testing.assert_allclose(kept_variance[:100], axes.explained_variance_[:100], rtol=0.01)
    cosines = reduced.T @ reduced / len(X)
    np.testing.assert_allclose(cosines, np.diag(np.diag(cosines)), atol=1e-3)


def test_nearest_rows_are_searched_once_while_their_array_is_in_use(monkeypatch):
    monkeypatch.setattr(neighbours, "_EXACT_PRODUCTS", 0)
    searches, in_use = [], set(neighbours._NEAREST)
    search = neighbours._search_index
    monkeypatch.setattr(
        neighbours,
        "_search_index",
        lambda *arguments: searches.append(arguments) or search(*arguments),
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)).astype(np.float32)
    X[1] = X[0]
    assert find_near_duplicates(X).tolist() == [[0, 1]]
    first, _ = find_neighbours(X, 20)
    assert first[0, 0] == 1
    others, _ = find_neighbours(X, 20, groups=np.r_[0, 0, np.arange(2, 300)])
    assert 1 not in others[0]
    assert len(searches) == 1
    find_neighbours(X, 40)  # more than were searched
    assert len(searches) == 2
    searches.clear()  # which hold the array
    del X
    assert set(neighbours._NEAREST) == in_use
