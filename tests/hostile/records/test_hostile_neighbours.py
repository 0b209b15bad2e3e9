"""A stranger's neighbours and vectors: what does not fit is left out, whatever a file claims."""

from __future__ import annotations

import numpy as np
import pytest

from uqled.report.similar_samples import SimilarSamples

N = 60


@pytest.fixture
def run(tmp_path):
    (tmp_path / "neighbours").mkdir()
    return tmp_path


def open_samples(run):
    codes = np.arange(N) % 3
    return SimilarSamples(codes, np.full((N, 3), 1 / 3, np.float32), np.zeros(N, np.bool_), run)


def write_sparse(path, dtype, shape):
    """A file that claims so much and takes no place."""
    np.lib.format.open_memmap(path, "w+", dtype, shape)


def test_sound_files_are_used(run):
    vectors = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    np.save(run / "neighbours" / "vectors.npy", vectors)
    np.save(run / "neighbours" / "duplicates.npy", np.array([[0, 1], [0, 5]]))
    samples = open_samples(run)
    assert (samples.vectors == vectors).all()
    assert samples.list_duplicates(0) == [1, 5]


@pytest.mark.parametrize(
    "vectors",
    [
        np.full((N, 4), np.nan, np.float32),
        np.full((N, 4), 3e38, np.float32),  # whose squares are infinite
        np.full((N, 4), 1.0),
        np.full((N - 1, 4), 1, np.float32),
        np.zeros((N, 0), np.float32),
        np.array(1, np.float32),
    ],
)
def test_vectors_that_cannot_be_compared_are_left_out(run, vectors):
    np.save(run / "neighbours" / "vectors.npy", vectors)
    assert open_samples(run).vectors is None


def test_vectors_of_any_length_are_not_read(run):
    write_sparse(run / "neighbours" / "vectors.npy", np.float32, (N, 2**30))
    assert open_samples(run).vectors is None


def test_more_pairs_than_there_can_be_are_not_read(run):
    write_sparse(run / "neighbours" / "duplicates.npy", np.int64, (2**34, 2))
    assert open_samples(run).list_duplicates(3) == []
