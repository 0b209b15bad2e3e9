"""The first call of a process waits for no compiler."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import uqled
from made_predictions import make_predictions
from uqled.detect.core import kernels

START = """
import sys
import numpy as np
import uqled
rng = np.random.default_rng(0)
labels, rows = rng.integers(0, 10, {n}), rng.dirichlet(np.ones(10), (6, {n}))
"""
SMALL_DETECTION = """
for method in ("auto", "cl-pbnr", "all"):
    uqled.find_label_errors(labels, rows[0], method=method)
print("numba" in sys.modules, "pandas" in sys.modules)
"""
WITH_PASSES = """
for method in ("all", "alg-ens", "cl-mcd-e", ["cl-mcd-m", "cl-mcd-mi", "cl-mcd-vr", "cl-mcd-sd"]):
    uqled.find_label_errors(labels, rows[0], rows[1:], method=method)
print("numba" in sys.modules, "pandas" in sys.modules)
"""
IN_PARTS = """
for method in ("auto", "alg-ens", "cl-pbc"):
    uqled.find_label_errors_in_parts(
        labels, rows[0], rows[1:], method=method, out=sys.argv[1] + method, workers=1
    )
print("numba" in sys.modules)
"""


@pytest.mark.parametrize("n", [500, 50_000])
@pytest.mark.parametrize("calls", [SMALL_DETECTION, WITH_PASSES])
def test_small_data_is_detected_without_loading_numba(calls, n):
    answer = subprocess.run(
        [sys.executable, "-c", START.format(n=n) + calls],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.split() == ["False", "False"], answer.stderr


def test_small_data_in_parts_is_detected_without_loading_numba(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-c", START.format(n=20_000) + IN_PARTS, f"{tmp_path}/"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.split() == ["False"], answer.stderr


def test_the_kernels_follow_from_the_size_of_the_whole_data_set():
    assert kernels.choose_kernels(kernels.SMALL_VALUES).__name__.endswith("plain")
    assert kernels.choose_kernels(kernels.SMALL_VALUES + 1).__name__.endswith("compiled")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_kernels_flag_the_same_samples(monkeypatch, dtype):
    data = make_predictions(5, N=3_000, K=12, dtype=dtype)
    results = []
    for limit in (-1, sys.maxsize):
        monkeypatch.setattr(kernels, "SMALL_VALUES", limit)
        results.append(
            uqled.find_label_errors(data.labels, data.softmax, data.passes, method="all")
        )
    compiled, plain_result = results
    for name, one in compiled.by_method.items():
        np.testing.assert_array_equal(one.mask, plain_result.by_method[name].mask, err_msg=name)
        np.testing.assert_allclose(one.scores, plain_result.by_method[name].scores, rtol=1e-12)
