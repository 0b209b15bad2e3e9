"""Noise beside cleanlab's where the definitions meet, examples that run, and a light import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from cleanlab.benchmarking.noise_generation import (
    generate_noise_matrix_from_trace,
    generate_noisy_labels,
    noise_matrix_is_valid,
)
from cleanlab.internal.util import confusion_matrix

from uqled import noise
from uqled.errors import InputError

K = 10
EQUAL = np.full(K, 1 / K)
OFF_DIAGONAL = ~np.eye(K, dtype=bool)


def cleanlab_matrix(zeros: float, seed: int = 3) -> np.ndarray:
    """[given, true]: cleanlab's convention, the transpose of ours."""
    matrix = generate_noise_matrix_from_trace(
        K, trace=8, frac_zero_noise_rates=zeros, py=EQUAL, valid_noise_matrix=True, seed=seed
    )
    assert matrix is not None
    return matrix


def test_their_matrix_is_ours_transposed():
    theirs = cleanlab_matrix(0.4)
    with pytest.raises(InputError, match=r"given x true as in cleanlab: pass its transpose"):
        noise.TransitionMatrix(theirs)
    assert (noise.TransitionMatrix(theirs.T).probabilities == theirs.T).all()


@pytest.mark.parametrize("zeros", [0.0, 0.2, 0.4, 0.6])
def test_sparse_matrices_have_the_same_noise_and_zeros(zeros):
    theirs = cleanlab_matrix(zeros).T
    ours = noise.sparse_matrix(K, noise=0.2, zeros=zeros, seed=3).probabilities
    for T in (theirs, ours):
        assert np.trace(T) == pytest.approx(8)
        np.testing.assert_allclose(T.sum(axis=1), 1)
        assert (T[OFF_DIAGONAL] == 0).sum() == round(zeros * K * (K - 1))


def test_ours_can_be_learned_from_by_their_measure():
    for matrix in (
        noise.symmetric_matrix(K, rate=0.2),
        noise.pair_matrix(K, rate=0.2),
        noise.sparse_matrix(K, noise=0.2, zeros=0.4, seed=0),
    ):
        assert noise_matrix_is_valid(matrix.probabilities.T, EQUAL)
    upside_down = noise.pair_matrix(K, rate=0.95)
    assert not noise_matrix_is_valid(upside_down.probabilities.T, EQUAL)


def test_both_realise_the_same_matrix():
    labels = np.repeat(np.arange(K), 10_000)
    matrix = noise.TransitionMatrix(cleanlab_matrix(0.4).T)
    np.random.seed(0)  # theirs draws from the global generator
    theirs = noise.realised_matrix(labels, generate_noisy_labels(labels, matrix.probabilities.T), K)
    noisy, is_error = noise.apply_noise(labels, matrix, seed=0)
    ours = noise.realised_matrix(labels, noisy, K)
    # Theirs rounds every count down; ours draws, so five standard deviations of a draw.
    np.testing.assert_allclose(theirs.probabilities, matrix.probabilities, atol=K / 10_000)
    sigma = np.sqrt(matrix.probabilities * (1 - matrix.probabilities) / 10_000)
    assert (np.abs(ours.probabilities - matrix.probabilities) <= 5 * sigma + 1e-12).all()
    assert abs(is_error.mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / len(labels))


def test_counts_are_theirs():
    rng = np.random.default_rng(0)
    true, noisy = rng.integers(0, K, 5000), rng.integers(0, K, 5000)
    counts = confusion_matrix(true, noisy)
    ours = noise.realised_matrix(true, noisy, K).probabilities
    np.testing.assert_allclose(ours, counts / counts.sum(axis=1, keepdims=True))


def test_importing_loads_nothing_heavy():
    heavy_packages = {"pandas", "matplotlib", "scipy", "sklearn", "numba", "torch", "typer"}
    code = f"import uqled.noise.kinds, sys; print(sorted({heavy_packages} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
