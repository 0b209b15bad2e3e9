"""Made-up predictions of a plausible classifier, in blocks, from a seed.

Classes are points on a sphere. A sample is its class's point and some noise, its logits are the
products with all classes' points, and a wrong label is one of the classes nearest to the true one:
so errors of the model and of the labels both go where classes are alike, and not anywhere.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 4096
DIMENSIONS = 40
DEVIATION = 0.235  # of a sample around its class's point, per dimension
SHARPNESS = 11.0  # of the softmax


def choose_classes(K: int) -> NDArray[np.float32]:
    """[K,D] a point on the sphere for each class."""
    points = np.random.default_rng(K).standard_normal((K, DIMENSIONS), dtype=np.float32)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def encode_labels(
    N: int, K: int, seed: int = 0, noise: float = 0.1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(given, true): a tenth of the labels are one of the ten classes nearest to the true one."""
    rng = np.random.default_rng(seed)
    points = choose_classes(K)
    nearest = np.argsort(-points @ points.T, axis=1)[:, 1 : 1 + min(10, K - 1)]
    true = rng.integers(0, K, N)
    is_wrong = rng.random(N) < noise
    other = nearest[true, rng.integers(0, nearest.shape[1], N)]
    return np.where(is_wrong, other, true), true


def fill(out: NDArray[Any], true: NDArray[np.int64], seed: int = 0) -> NDArray[Any]:
    """Fill `out` [N,K] with the softmax of a sample's likeness to each class."""
    N, K = out.shape
    points = choose_classes(K)

    def block(start: int) -> None:
        stop = min(start + BLOCK, N)
        rng = np.random.default_rng([seed, start])
        around = rng.standard_normal((stop - start, DIMENSIONS), dtype=np.float32)
        logits = (points[true[start:stop]] + np.float32(DEVIATION) * around) @ points.T
        logits *= np.float32(SHARPNESS)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        out[start:stop] = logits

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(block, range(0, N, BLOCK)))
    return out
