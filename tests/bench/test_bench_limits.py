"""The bound of benchmarks/auto/limits.py beside all flags that there are."""

from __future__ import annotations

import importlib
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("auto.limits")


@pytest.mark.parametrize("seed", range(8))
def test_no_flags_gain_more_than_the_bound_and_some_gain_nearly_as_much(
    limits: ModuleType, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    probabilities = rng.random((3, 10)) ** rng.integers(1, 6, (3, 1))
    to_beat = rng.uniform(0.2, 0.6, 3)

    flag_sets = (np.array(flags, bool) for flags in product((False, True), repeat=10))
    best = max(
        min(
            limits.compute_expected_f1(r, flags) - b
            for r, b in zip(probabilities, to_beat, strict=True)
        )
        for flags in flag_sets
    )

    bound = limits.bound_gain(probabilities, to_beat)
    assert best <= bound + 1e-12
    # Flags are whole; ten labels leave gaps that more would fill.
    assert bound - best < 0.1


def test_readings_that_contradict_each_other_leave_no_good_flags(limits: ModuleType) -> None:
    """One half is wrong, or the other: whoever must serve both flags all, or a half."""
    probabilities = np.repeat([[1.0, 0.0], [0.0, 1.0]], 50, axis=1)
    assert limits.bound_gain(probabilities, np.array([1.0, 1.0])) == pytest.approx(2 / 3 - 1)
    assert limits.bound_gain(probabilities, np.array([0.5, 0.5])) == pytest.approx(2 / 3 - 0.5)
