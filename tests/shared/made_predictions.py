"""Labels and predictions made from a seed, and where real data is, if it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def make_predictions(seed=0, *, N=400, K=5, F=5, noise=0.2, dtype=np.float64, sharpness=2.5):
    """Labels with a known share of errors, and the softmax and passes of a plausible model."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, K, N)
    is_wrong = rng.random(N) < noise
    labels = np.where(is_wrong, (true + rng.integers(1, K, N)) % K, true)
    noise_of_all = rng.normal(size=(N, K))
    noise_of_all[np.arange(N), true] += sharpness
    logits = noise_of_all + 0.7 * rng.normal(size=(F + 1, N, K))
    probs = np.exp(logits - logits.max(axis=2, keepdims=True))
    probs /= probs.sum(axis=2, keepdims=True)
    probs = probs.astype(dtype)
    return SimpleNamespace(
        labels=labels, true=true, is_error=labels != true, softmax=probs[0], passes=probs[1:]
    )
