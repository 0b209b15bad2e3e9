"""Made-up predictions of a plausible classifier, in blocks, from a seed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 4096


def labels_of(
    N: int, K: int, seed: int = 0, noise: float = 0.1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(given, true): a tenth of the labels belong to one of five neighbouring classes."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, K, N)
    wrong = rng.random(N) < noise
    given = np.where(wrong, (true + rng.integers(1, min(K, 6), N)) % K, true)
    return given, true


def fill(out: NDArray[Any], true: NDArray[np.int64], seed: int = 0) -> NDArray[Any]:
    """Fill `out` [N,K] with softmax of logits: normal, and higher for the true class.

    About 78 % of the rows have the true class on top, whatever K.
    """
    N, K = out.shape

    def block(start: int) -> None:
        stop = min(start + BLOCK, N)
        rng = np.random.default_rng([seed, start])
        logits = rng.standard_normal((stop - start, K), dtype=np.float32) * np.float32(1.5)
        lead = np.log(K) + 2 * rng.standard_normal(stop - start)
        logits[np.arange(stop - start), true[start:stop]] += lead.astype(np.float32)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        out[start:stop] = logits

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(block, range(0, N, BLOCK)))
    return out
