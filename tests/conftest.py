"""Data for the tests: made from a seed, small, and of the shapes that go wrong."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks: a second thread only waits
# Some virtual machines announce AMX units that they do not have: using one ends the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def make_predictions(seed=0, *, N=400, K=5, F=5, noise=0.2, dtype=np.float64, sharpness=2.5):
    """Labels with a known share of errors, and the softmax and passes of a plausible model."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, K, N)
    wrong = rng.random(N) < noise
    labels = np.where(wrong, (true + rng.integers(1, K, N)) % K, true)
    shared = rng.normal(size=(N, K))
    shared[np.arange(N), true] += sharpness
    logits = shared + 0.7 * rng.normal(size=(F + 1, N, K))
    probs = np.exp(logits - logits.max(axis=2, keepdims=True))
    probs /= probs.sum(axis=2, keepdims=True)
    probs = probs.astype(dtype)
    return SimpleNamespace(
        labels=labels, true=true, is_error=labels != true, softmax=probs[0], passes=probs[1:]
    )


#: Files whose tests take longest begin first, so that no process waits for one at the end.
LONGEST = ("test_ray", "test_fuzzing", "test_accidents")


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """DecodedImages images of tests stay among their temporary files."""
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def predictions():
    return make_predictions()
