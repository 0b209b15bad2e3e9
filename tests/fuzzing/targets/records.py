"""Targets: small files that describe: suites, matrices, records of exports, benchmark cells."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.case import Scene, Target, require
from fuzzing.formats import mutate_content
from fuzzing.mutations import damage_tree
from fuzzing.targets.data import damage_files
from fuzzing.targets.runs import make_image_run, make_table_run, run_command
from uqled.bench.cell_graph import (
    describe_cell,
    list_pilot_cells,
    list_stage1_cells,
    list_stage2_cells,
    list_unfinished_cells,
)
from uqled.bench.cells import Cell, Cells
from uqled.bench.results.collection import collect_results
from uqled.bench.runner import Benchmark, write_tables
from uqled.bench.suite import Suite, read_suite
from uqled.errors import UqledError
from uqled.export.record import read_corrections, restore_given_labels
from uqled.noise.transition import TransitionMatrix

SUITE = """
about = "one small data set"
rates = [0.1, 0.2]
seeds = [0, 1]
folds = 2
passes = 2
methods = ["cl-pbnr", "cl-mcd"]
noise = { kind = "symmetric" }

[stage2]
methods = ["cl-pbnr"]
seeds = { "0.1" = [0, 1] }

[[data]]
name = "digits"
title = "Digits"
place = "digits"
test_share = 0.5
limit = 200
model = "small"
training = { epochs = 2, batch_size = 32 }
"""


def _make_suite(folder: Path) -> None:
    (folder / "suite.toml").write_text(SUITE)


def _read_suite(scene: Scene) -> None:
    suite = read_suite(str(scene.input / "suite.toml"))
    require(isinstance(suite, Suite) and len(suite.data) > 0, "a suite without data")
    cells = [*list_stage1_cells(suite), *list_stage2_cells(suite, suite.methods)]
    require(all(isinstance(cell.name, str) for cell in cells), "a cell without a name")
    for cell in cells:
        require(
            ".." not in cell.name.split("/") and not cell.name.startswith("/"), "a cell elsewhere"
        )


def _make_matrices(folder: Path) -> None:
    matrix = TransitionMatrix([[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0, 0, 1]], ["ant", "bee", "cat"])
    matrix.save(folder / "matrix.csv")
    matrix.save(folder / "matrix.json")


def _read_matrix(scene: Scene) -> None:
    matrix = TransitionMatrix.load(scene.input / scene.rng.choice(("matrix.csv", "matrix.json")))
    K = len(matrix.classes)
    require(matrix.probabilities.shape == (K, K), "a matrix that is not square")
    require(
        np.allclose(matrix.probabilities.sum(axis=1), 1, atol=1e-3), "rows that do not sum to 1"
    )


# -- exports ---------------------------------------------------------------------------------------


def _make_exports(folder: Path) -> None:
    (folder / "table").mkdir()
    (folder / "images").mkdir()
    make_table_run(folder / "table")
    make_image_run(folder / "images")
    for kind, run, name in (
        ("csv", "table", "clean.csv"), ("parquet", "table", "clean.parquet"),
        ("huggingface", "table", "hub"), ("folder", "images", "folder"),
    ):  # fmt: skip
        out = folder / name
        run_command(
            "export", folder / run / "run", "--to", kind, "--out", out, "--unreviewed", "relabel"
        )
    shutil.rmtree(folder / "table")
    shutil.rmtree(folder / "images")


def _damage_exports(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    """Anything but the images, which are only looked up in a list."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    names = [name for name in files if not name.endswith((".png", ".jpg"))]
    return damage_tree(rng, folder, partial(mutate_content, paths=paths), names=names, paths=paths)


def _read_exports(scene: Scene) -> None:
    refusal = None
    for name in ("clean.csv", "clean.parquet", "hub", "folder"):
        try:
            labels = restore_given_labels(scene.input / name)
            require(labels.ndim == 1 and len(labels) > 0, "labels of another shape")
            for change in read_corrections(scene.input / name):
                require(0 <= change.index < len(labels), "a change out of range")
        except UqledError as error:
            refusal = error
    if refusal is not None:
        raise refusal


# -- benchmarks ------------------------------------------------------------------------------------


def _make_cells(folder: Path) -> None:
    """Every result of the suite, with numbers that nobody computed."""
    _make_suite(folder)
    suite = read_suite(str(folder / "suite.toml"))
    cells = Cells(folder / "out")
    origin = {"code": "abc", "cpu": "a processor", "cores": 2, "memory_gib": 1.0, "python": "3.11"}
    origin |= {"versions": {"numpy": "2"}, "seconds": 36.0}
    expected = [
        *list_pilot_cells(suite),
        *list_stage1_cells(suite),
        *list_stage2_cells(suite, suite.methods),
    ]
    for cell in list_unfinished_cells(suite, cells, expected):
        arrays: dict[str, Any] = {}
        content: dict[str, Any] = {"accuracy": 0.9 + cell.seed / 100}
        if cell.kind == "pretraining":
            content |= {"train": 100, "test": 100, "monitored_accuracy": 0.9, "classes": ["a", "b"]}
            arrays["test_probs"] = np.full((4, 2), 0.5, np.float32)
        elif cell.kind in ("pilot", "detection"):
            numbers = dict.fromkeys(
                ("precision", "recall", "f1", "f05", "aupr"), 0.5 + cell.seed / 50
            )
            content = {"n": 100, "wrong": 10, "given_accuracy": 0.8, "true_accuracy": 0.9}
            content |= {"methods": {name: {**numbers, "flagged": 9} for name in suite.methods}}
            content |= {"classes": ["a", "b"], "matrix": [[0.9, 0.1], [0.2, 0.8]]}
            content |= {"sources": dict.fromkeys(suite.methods)}
        elif cell.kind == "retraining":
            content |= {"trained_on": 90, "changed": 10}
        cells.write(cell, describe_cell(suite, cell), content, arrays, origin)
    cells.check_fingerprint("digits", "abc")


def _damage_cells(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    return damage_tree(rng, folder / "out", partial(mutate_content, paths=paths), paths=paths)


def _read_cells(scene: Scene) -> None:
    suite = read_suite(str(scene.input / "suite.toml"))
    cells, what = Cells(scene.input / "out"), scene.rng.random()
    if what < 0.05:
        write_tables(Benchmark(suite, scene.input, scene.input / "out"))
    elif what < 0.25:
        n_merged = Cells(scene.out / "merged").merge(scene.input / "out")
        require(n_merged >= 0, "a negative number of cells")
    elif what < 0.45:
        for cell in list_stage1_cells(suite):
            for required_cell in (cell, Cell("pretraining", cell.data, cell.seed)):
                if cells.has_arrays(required_cell):
                    cells.read_arrays(required_cell)
    elif what < 0.6:
        cells.check_fingerprint("digits", "abc")
        expected = [*list_stage1_cells(suite), *list_stage2_cells(suite, suite.methods)]
        list_unfinished_cells(suite, cells, expected)
    else:
        results = collect_results(suite, cells)
        require(len(results.stage1.columns) > 0, "no columns")


RECORD_TARGETS = [
    Target("suite", _make_suite, damage_files, _read_suite, cases=250),
    Target("matrix", _make_matrices, damage_files, _read_matrix, cases=250),
    Target("export-record", _make_exports, _damage_exports, _read_exports, cases=200),
    Target(
        "bench-cells", _make_cells, _damage_cells, _read_cells, cases=120,
        writes=("out/*.md", "out/*.csv", "out/*.tex", "out/*.html", "out/figures*", "out/*.json"),
    ),
]  # fmt: skip
