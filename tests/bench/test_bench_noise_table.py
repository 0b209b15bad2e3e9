"""The noise of a benchmark as a table: similarity, flips, and what came of them."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd

from bench_frames import build_results
from uqled.bench.results.noise_table import build_noise_table, format_noise_csv, list_flips
from uqled.noise.transition import TransitionMatrix

CLASSES = ["cat", "dog", "car"]
INTENDED_MATRIX = TransitionMatrix([[0.8, 0.15, 0.05], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]], CLASSES)
REALISED_MATRIX = TransitionMatrix(
    [[0.79, 0.16, 0.05], [0.1, 0.9, 0.0], [0.0, 0.02, 0.98]], CLASSES
)
SIMILARITY = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.0, 0.1, 0.9]])


def test_each_pair_of_classes_has_a_row() -> None:
    results = build_results(
        matrices={"pets": {0.1: INTENDED_MATRIX}},
        realised={"pets": {0.1: REALISED_MATRIX}},
        similarity={"pets": SIMILARITY},
    )
    flips = list_flips(results).set_index(["true", "given"])
    assert list(flips.index) == [("cat", "dog"), ("cat", "car"), ("dog", "cat"), ("car", "dog")]
    first = flips.loc[("cat", "dog"), ["similarity", "flip", "intended", "realised"]]
    np.testing.assert_allclose(first.to_numpy(float), [0.2, 0.75, 0.15, 0.16])
    assert flips.at[("car", "dog"), "intended"] == 0.0  # realised, though nobody meant it
    table = build_noise_table(results)
    assert table.groups[0] == ("Pair", ("similarity", "flip"))
    assert table.groups[1:] == (("Intended", ("0.1",)), ("Realised", ("0.1",)))
    first = table.blocks[0].rows[0]
    assert first.name == "cat \N{RIGHTWARDS ARROW} dog"
    assert [cell.text for cell in first.cells] == ["20.0", "75.0", "15.0", "16.0"]
    frame = pd.read_csv(StringIO(format_noise_csv(results)))
    assert len(frame) == 4
    assert frame["realised"].tolist() == [0.16, 0.05, 0.1, 0.02]


def test_what_older_cells_do_not_tell_has_no_column() -> None:
    results = build_results(matrices={"pets": {0.1: INTENDED_MATRIX, 0.2: INTENDED_MATRIX}})
    table = build_noise_table(results)
    assert table.groups == (("Pair", ("flip",)), ("Intended", ("0.1", "0.2")))
    assert [len(row.cells) for row in table.blocks[0].rows] == [3, 3, 3]
    empty = build_noise_table(replace(results, matrices={}))
    assert empty.blocks == ()


def test_many_classes_are_cut_short_and_the_file_has_all() -> None:
    K = 20
    names = [f"class {k}" for k in range(K)]
    matrix_of_twenty = TransitionMatrix(
        np.full((K, K), 0.1 / (K - 1)) + np.eye(K) * (0.9 - 0.1 / 19), names
    )
    results = build_results(matrices={"many": {0.1: matrix_of_twenty}})
    (block,) = build_noise_table(results).blocks
    assert len(block.rows) == 40
    assert block.note == "40 of 380 pairs; all are in noise.csv"
    assert len(format_noise_csv(results).splitlines()) == 381
