"""Vectors of the user's own beside a table: each goes with its row, or all are refused."""

from __future__ import annotations

import numpy as np
import pytest

from uqled import InputError
from uqled.data import load
from uqled.features.embedding_files import attach_embeddings

VECTORS = np.arange(20, dtype=np.float32)[:, None]


def write_table(path, *, ids):
    """A table of 20 rows whose last one has no label."""
    rows = [f"{i + 1},{i * 1.7 % 3:.2f},{'' if i == 19 else 'ab'[i % 2]}" for i in range(20)]
    path.write_text("\n".join([f"{ids},x,label", *rows]) + "\n")
    return load(path, cache=False)


def test_a_vector_for_each_row_of_the_table_goes_with_its_row(tmp_path):
    data = write_table(tmp_path / "table.csv", ids="y")
    data_with_embeddings = attach_embeddings(data, VECTORS)
    assert data_with_embeddings.embeddings.ravel().tolist() == list(range(19))


def test_ids_are_not_taken_for_rows(tmp_path):
    """Counted from 1, each sample would get the vector of the next one."""
    data = write_table(tmp_path / "table.csv", ids="id")
    with pytest.raises(InputError, match="have 20 rows, and the data has 19 samples"):
        attach_embeddings(data, VECTORS)
    assert len(attach_embeddings(data, VECTORS[:19]).embeddings) == 19
