"""Nearest samples by cosine similarity, near duplicates, and groups that must share a fold."""

from __future__ import annotations

import weakref
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from uqled.data.inspection.equal_samples import join_sets
from uqled.engines.local import Threads, count_cores

_MOST_THREADS = 16  # each has a block of similarities and its order in memory
_BLOCK_BYTES = 1 << 25  # of similarities, at a time: what a processor's cache holds
_EXACT_PRODUCTS = 100_000**2  # of two samples: up to here, all are computed sooner than an index
_STRIDES = 16  # columns whose maximum is looked at first
_LINKS, _EXPLORED = 32, 128  # of the index: what finds more than 95 % of the nearest samples
_GROUP = 64  # samples of a query's own group, at most, that it finds beside its neighbours
_QUERIES = 8_192  # at a time
_SHARED = 32  # nearest rows that are searched at least, for all that ask: more take no longer
#: Cosine similarity of centred features from which two samples count as copies of each other.
NEAR_DUPLICATE = 0.995
_MANY_DIMENSIONS = 16
_CLOSEST = 5  # neighbours that are looked at for duplicates

Nearest = tuple[NDArray[np.int32], NDArray[np.float32]]
#: What was found for arrays that are in use, by their identity.
_NEAREST: dict[int, Nearest] = {}


def find_neighbours(
    X: NDArray[np.float32], k: int, *, groups: NDArray[np.integer] | None = None
) -> Nearest:
    """([N,k] indices, nearest first, and [N,k] similarities) of each row's nearest other rows.

    Rows of the same group are left out. Where there are fewer than k, the index is -1 and the
    similarity -1.
    """
    group_numbers = (
        np.arange(len(X)) if groups is None else np.unique(groups, return_inverse=True)[1]
    )
    k = min(k, len(X) - 1)
    largest_group = int(np.bincount(group_numbers).max())
    if largest_group > _GROUP and not _wants_index(len(X), len(X)):
        Z = normalise_rows(X)
        return _compare_all(Z, Z, k, groups=group_numbers)
    n = min(max(k + min(largest_group, _GROUP), _SHARED), len(X))
    return _leave_out_groups(*_find_nearest(X, n), group_numbers, group_numbers, k)


def find_neighbours_in_class(
    X: NDArray[np.float32],
    labels: NDArray[np.integer],
    rows: NDArray[np.intp],
    classes: NDArray[np.integer],
    k: int,
) -> NDArray[np.int32]:
    """[n,k] the nearest samples of the class `classes` [n] to each of `rows` [n]; -1 if too few."""
    Z = normalise_rows(X)
    nearest = np.full((len(rows), k), -1, np.int32)
    itself = np.arange(len(X))
    for one in np.unique(classes):
        at = np.flatnonzero(classes == one)
        at_rows = rows[at]
        members = np.flatnonzero(labels == one)
        if len(members):
            n = min(k + 1, len(members))  # itself among them
            columns, values = _search(Z[members], Z[at_rows], n)
            indices, _ = _leave_out_groups(members[columns], values, itself, at_rows, min(k, n))
            nearest[at, : indices.shape[1]] = indices
    return nearest


def _search(candidates: NDArray[np.float32], queries: NDArray[np.float32], n: int) -> Nearest:
    """([q,n] rows of `candidates`, [q,n] similarities) nearest to each of `queries`, itself among
    them.

    Exact up to a size; beyond it by an index, where the package is installed, which misses a
    neighbour here and there.
    """
    if _wants_index(len(queries), len(candidates)):
        return _search_index(candidates, queries, n)
    return _compare_all(candidates, queries, n)


def _compare_all(
    candidates: NDArray[np.float32],
    queries: NDArray[np.float32],
    n: int,
    groups: NDArray[np.integer] | None = None,
) -> Nearest:
    """Like `_search`, by computing all products; with `groups`, rows of the query's own group are
    left out."""
    rows = np.empty((len(queries), n), np.int32)
    similarities = np.empty((len(queries), n), np.float32)
    # Two blocks at least, so that two threads have work; never as many as there are cores, because
    # a product's last bits depend on the block.
    block = max(1, min(_BLOCK_BYTES // (4 * len(candidates)), -(-len(queries) // 2)))

    def compare(begin: int) -> None:
        part = slice(begin, begin + block)
        products = queries[part] @ candidates.T
        if groups is not None:
            products[groups[part, None] == groups] = -np.inf
        largest = _find_largest(products, n)
        values = np.take_along_axis(products, largest, axis=1)
        _sort_nearest(largest, values, rows[part], similarities[part])

    begins = range(0, len(queries), block)
    # Each thread has a block and multiplies alone: no other waits while it sorts.
    with (
        _find_blas().limit(limits=1, user_api="blas"),
        Threads(min(count_cores(), _MOST_THREADS)) as engine,
    ):
        for _ in engine.map(compare, begins):
            pass
    return rows, similarities


@cache
def _find_blas() -> ThreadpoolController:
    """NumPy's library of products; to look for it takes longer than a small search."""
    return ThreadpoolController()


def _find_largest(products: NDArray[np.float32], n: int) -> NDArray[np.intp]:
    """[q,n] columns of the n largest in each row.

    They are in the n strides with the largest maxima, so that little is left to partition.
    """
    q, m = products.shape
    width = m // _STRIDES
    if width < 2 * n:
        return np.argpartition(products, m - n, axis=1)[:, m - n :]
    maxima = products[:, : _STRIDES * width].reshape(q, _STRIDES, width).max(axis=1)
    best = np.argpartition(maxima, width - n, axis=1)[:, width - n :]
    columns = best[:, None, :] + np.arange(0, _STRIDES * width, width)[:, None]
    rest = np.broadcast_to(np.arange(_STRIDES * width, m), (q, m % _STRIDES))
    columns = np.concatenate([columns.reshape(q, -1), rest], axis=1)
    values = np.take_along_axis(products, columns, axis=1)
    largest = np.argpartition(values, values.shape[1] - n, axis=1)[:, values.shape[1] - n :]
    return np.take_along_axis(columns, largest, axis=1)


def _wants_index(queries: int, candidates: int) -> bool:
    return queries * candidates > _EXACT_PRODUCTS and find_spec("usearch") is not None


def _find_nearest(X: NDArray[np.float32], n: int) -> Nearest:
    """([N,m] rows, [N,m] similarities) nearest to each row, m at least n.

    Searched once as long as the array is in use, and so not to be changed: copies, conflicts and
    votes all ask for the same.
    """
    nearest = _NEAREST.get(id(X))
    if nearest is None:
        weakref.finalize(X, _NEAREST.pop, id(X), None)
    if nearest is None or nearest[0].shape[1] < n:
        Z = normalise_rows(X)
        nearest = _NEAREST[id(X)] = _search(Z, Z, n)
    return nearest


def _search_index(candidates: NDArray[np.float32], queries: NDArray[np.float32], n: int) -> Nearest:
    """([q,n] rows of `candidates`, [q,n] similarities) nearest to each of `queries`, itself among
    them: by a graph of neighbours, in time that grows little faster than the samples."""
    from usearch.index import Index

    index = Index(
        ndim=candidates.shape[1], metric="ip", connectivity=_LINKS, expansion_search=_EXPLORED
    )
    # One thread: several would link the samples in an order that differs between runs.
    index.add(np.arange(len(candidates), dtype=np.uint64), candidates, threads=1)
    rows, similarities = np.empty((len(queries), n), np.int32), np.empty((len(queries), n), "f4")
    for begin in range(0, len(queries), _QUERIES):
        part = slice(begin, begin + _QUERIES)
        matches = index.search(queries[part], n)
        rows[part] = matches.keys
        similarities[part] = 1 - np.asarray(matches.distances, np.float32)
    return rows, similarities


def _leave_out_groups(
    rows: NDArray[np.integer],
    values: NDArray[np.float32],
    groups: NDArray[np.integer],
    query_groups: NDArray[np.integer],
    k: int,
) -> Nearest:
    """([q,k] rows, [q,k] similarities) of the nearest `rows` [q,n] that are not of the query's
    group, `query_groups` [q]."""
    indices, similarities = np.empty((len(rows), k), np.int32), np.empty((len(rows), k), "f4")
    for begin in range(0, len(rows), _QUERIES):
        part = slice(begin, begin + _QUERIES)
        is_own = groups[rows[part]] == query_groups[part, None]
        others = np.where(is_own, np.float32(-np.inf), values[part])
        _sort_nearest(rows[part], others, indices[part], similarities[part])
    return indices, similarities


def _sort_nearest(
    rows: NDArray[np.integer],
    values: NDArray[np.float32],
    indices: NDArray[np.int32],
    similarities: NDArray[np.float32],
) -> None:
    """Write the first k, nearest first and equal ones by the lower index; -1 where none is left."""
    order = np.lexsort((rows, -values), axis=1)[:, : indices.shape[1]]
    similarities[:] = np.take_along_axis(values, order, axis=1)
    indices[:] = np.take_along_axis(rows, order, axis=1)
    absent = ~np.isfinite(similarities)
    indices[absent], similarities[absent] = -1, -1


def find_near_duplicates(X: NDArray[np.float32]) -> NDArray[np.int32]:
    """[M,2] pairs of near duplicates among the rows, the lower index first.

    In few dimensions many rows point the same way, so that only equal rows count there.
    """
    if X.shape[1] < _MANY_DIMENSIONS:
        _, value = np.unique(X, axis=0, return_inverse=True)
        order = np.argsort(value.reshape(-1), kind="stable")
        same = np.diff(value.reshape(-1)[order]) == 0
        pairs = np.stack([order[:-1][same], order[1:][same]], axis=1)
    else:
        nearest, similarity = find_neighbours(X, _CLOSEST)
        rows, at = np.nonzero(similarity >= NEAR_DUPLICATE)
        pairs = np.stack([rows, nearest[rows, at]], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0).reshape(-1, 2).astype(np.int32)


def group_near_duplicates(
    X: NDArray[np.float32], groups: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """[N] group numbers: near duplicates, and what belongs to one of `groups`, share a number."""
    group_numbers = (
        np.full(len(X), -1) if groups is None else np.unique(groups, return_inverse=True)[1]
    )
    return join_sets(group_numbers, find_near_duplicates(X)).astype(np.int32)


def number_groups(groups: NDArray[Any] | None) -> NDArray[np.intp] | None:
    """[N] a number for each of the user's groups, whatever they are called."""
    return None if groups is None else np.unique(groups.astype(str), return_inverse=True)[1]


def normalise_rows(X: NDArray[np.floating]) -> NDArray[np.float32]:
    """Centred rows of length 1."""
    centred = (X - X.mean(axis=0)).astype(np.float32)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    normalised: NDArray[np.float32] = centred / np.maximum(lengths, 1e-12)
    return normalised
