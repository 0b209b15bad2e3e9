"""Nearest samples by cosine similarity, near duplicates, and groups that must share a fold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_BLOCK_BYTES = 1 << 27  # of similarities, at a time
#: Cosine similarity of centred features from which two samples count as copies of each other.
NEAR_DUPLICATE = 0.995
_MANY_DIMENSIONS = 16
_CLOSEST = 5  # neighbours that are looked at for duplicates


def find_neighbours(
    X: NDArray[np.float32], k: int, *, groups: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """([N,k] indices, nearest first, and [N,k] similarities) of each row's nearest other rows.

    Rows of the same group are left out. Where there are fewer than k, the index is -1 and the
    similarity -1.
    """
    N = len(X)
    k = min(k, N - 1)
    Z = normalise_rows(X)
    indices, similarities = np.empty((N, k), np.int32), np.empty((N, k), np.float32)
    block = max(1, _BLOCK_BYTES // (4 * N))
    for begin in range(0, N, block):
        rows = np.arange(begin, min(begin + block, N))
        products = Z[rows] @ Z.T
        if groups is None:
            products[np.arange(len(rows)), rows] = -np.inf
        else:
            products[groups[rows, None] == groups] = -np.inf
        top = np.argpartition(products, N - k, axis=1)[:, N - k :]
        values = np.take_along_axis(products, top, axis=1)
        order = np.lexsort((top, -values), axis=1)  # equal similarities by the lower index
        indices[rows] = np.take_along_axis(top, order, axis=1)
        similarities[rows] = np.take_along_axis(values, order, axis=1)
    absent = ~np.isfinite(similarities)
    indices[absent], similarities[absent] = -1, -1
    return indices, similarities


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
    for one in np.unique(classes):
        at = np.flatnonzero(classes == one)
        members = np.flatnonzero(labels == one)
        if not len(members):
            continue
        block = max(1, _BLOCK_BYTES // (4 * len(members)))
        for begin in range(0, len(at), block):
            some = at[begin : begin + block]
            products = Z[rows[some]] @ Z[members].T
            products[rows[some, None] == members] = -np.inf
            order = np.argsort(-products, axis=1, kind="stable")[:, :k]
            chosen = np.where(
                np.isfinite(np.take_along_axis(products, order, axis=1)), members[order], -1
            )
            nearest[some, : chosen.shape[1]] = chosen
    return nearest


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
    N = len(X)
    copies = find_near_duplicates(X)
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = [(copies[:, 0], copies[:, 1])]
    if groups is not None:
        first = np.unique(groups, return_index=True)[1]
        pairs.append((np.arange(N), first[np.unique(groups, return_inverse=True)[1]]))
    left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
    graph = coo_array((np.ones(len(left), bool), (left, right)), shape=(N, N))
    return connected_components(graph, directed=False)[1].astype(np.int32)


def normalise_rows(X: NDArray[np.floating]) -> NDArray[np.float32]:
    """Centred rows of length 1."""
    centred = (X - X.mean(axis=0)).astype(np.float32)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    normalised: NDArray[np.float32] = centred / np.maximum(lengths, 1e-12)
    return normalised
