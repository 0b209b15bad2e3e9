"""Uncertainty has known values, and agrees with SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from made_predictions import make_predictions
from uqled import uncertainty


def test_known_values():
    assert uncertainty.entropy([[0.5, 0.5]])[0] == pytest.approx(math.log(2), abs=1e-15)
    assert uncertainty.entropy([[0.25] * 4])[0] == pytest.approx(math.log(4), abs=1e-15)
    assert uncertainty.entropy([[1.0, 0.0]])[0] == 0
    agree = [[[0.5, 0.5]], [[0.5, 0.5]]]
    assert uncertainty.mutual_information(agree)[0] == 0
    disagree = [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert uncertainty.mutual_information(disagree)[0] == pytest.approx(math.log(2), abs=1e-15)
    assert uncertainty.margin([[0.5, 0.5], [0.25, 0.75]]).tolist() == [0.0, 0.5]
    assert uncertainty.standard_deviation(agree)[0] == 0
    assert uncertainty.standard_deviation(disagree)[0] == 0.5
    assert uncertainty.variation_ratio(agree)[0] == 0
    assert uncertainty.variation_ratio(disagree)[0] == 0.5
    assert uncertainty.mean(disagree).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_scipy(dtype):
    data = make_predictions(N=20_000, K=6, dtype=dtype)
    wide = data.passes.astype(float)
    mean = wide.mean(axis=0)
    total, within = stats.entropy(mean, axis=1), stats.entropy(wide, axis=2).mean(axis=0)
    # SciPy divides each row by its sum, which float32 misses by a little
    close = 1e-12 if dtype == np.float64 else 1e-5
    assert uncertainty.entropy(mean) == pytest.approx(total, abs=close)
    assert uncertainty.mutual_information(data.passes) == pytest.approx(total - within, abs=close)
    ordered = np.sort(mean, axis=1)
    assert uncertainty.margin(mean) == pytest.approx(ordered[:, -1] - ordered[:, -2], abs=1e-15)
    top_probability = np.take_along_axis(wide, mean.argmax(axis=1)[None, :, None], axis=2)[:, :, 0]
    assert uncertainty.standard_deviation(data.passes) == pytest.approx(
        top_probability.std(axis=0), abs=1e-12
    )
    votes = data.passes.argmax(axis=2)
    ratio = 1 - stats.mode(votes, axis=0).count / len(votes)
    assert uncertainty.variation_ratio(data.passes) == pytest.approx(ratio, abs=1e-15)
    assert uncertainty.mean(data.passes) == pytest.approx(mean, abs=1e-15)
