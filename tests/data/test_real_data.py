"""On real data, where it is: MNIST from files to flags. Minutes, so `make test-slow` runs it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sklearn.metrics import f1_score

import uqled
from made_predictions import SHARED_DATA
from uqled import noise

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the folder of real data is not here"),
]


def test_mnist_from_files_to_flags(tmp_path):
    """The network learns the digits, and CL-MCD-E finds 5 % similarity noise in them."""
    data = uqled.load(
        str(SHARED_DATA / "mnist"), split="train", limit=20_000, cache=tmp_path / "cache"
    )
    clean = uqled.cross_validate(data, "small", out=tmp_path / "clean")
    assert clean.accuracy > 0.98
    matrix = noise.similarity_matrix(data.labels.codes, clean.pred_probs, rate=0.05)
    noisy, is_error = noise.apply_noise(data.labels.codes, matrix, rate=0.05, seed=0)
    assert is_error.sum() == 1_000
    noisy_data = replace(data.with_labels(noisy), truth=data.labels.codes)
    result = uqled.cross_validate(noisy_data, "small", out=tmp_path / "noisy")
    errors = uqled.find_label_errors(result, method="cl-mcd-e")
    assert f1_score(is_error, errors.mask) > 0.92
