"""Labels and probabilities for detection in parts, in memory and in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = [
    "is_label_issue", "label_score", "given_label", "suggested_label", "votes", "entropy",
    "mutual_information", "error_probability", "tier",
]  # fmt: skip


def make_inputs(seed: int, N: int = 300, K: int = 5, F: int = 3, *, ties: bool = False) -> Any:
    """(labels [N], softmax [N,K], passes [F,N,K]) with a third of the labels at random."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, K, N)
    labels = np.where(rng.random(N) < 0.3, rng.integers(0, K, N), true)

    def probs(*shape: int) -> Any:
        p = rng.dirichlet(np.full(K, 0.5), shape) + np.eye(K)[true] * rng.random((N, 1)) * 2
        p = np.round(p * 4) / 4 + 0.01 if ties else p
        return (p / p.sum(-1, keepdims=True)).astype(np.float32)

    return labels, probs(N), probs(F, N)


def shards(folder: Path, array: Any, cuts: list[int], axis: int = 0) -> Path:
    folder.mkdir()
    for k, part in enumerate(np.split(array, cuts, axis=axis)):
        np.save(folder / f"part-{k}.npy", part)
    return folder
