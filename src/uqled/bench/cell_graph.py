"""The cells of a suite, what each cell needs first, and what identifies it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from uqled.bench.cells import Cell, Cells, Treatment
from uqled.bench.method_flags import hash_method_source
from uqled.bench.suite import Suite, SuiteData


def list_pilot_cells(suite: Suite) -> list[Cell]:
    """Detection on the test sets, for every data set, rate and seed."""
    return [
        Cell("pilot", data.name, seed, rate)
        for data in suite.data
        for seed in suite.seeds
        for rate in suite.rates
    ]


def list_stage1_cells(suite: Suite) -> list[Cell]:
    """Detection on the training sets, for every data set, rate and seed."""
    return [replace(cell, kind="detection") for cell in list_pilot_cells(suite)]


def list_stage2_cells(suite: Suite, methods: Iterable[str]) -> list[Cell]:
    """The trainings of stage 2, the clean and noisy ones first."""
    if suite.stage2 is None:
        return []
    method_names = set(methods)
    trainings, methods = [], [m for m in suite.stage2.methods or suite.methods if m in method_names]
    for data in suite.data:
        for seed in suite.seeds:
            trainings.append(Cell("retraining", data.name, seed, treatment="clean"))
        for rate in suite.rates:
            seeds = suite.stage2.seeds.get(str(rate), suite.seeds)
            for seed in seeds:
                trainings.append(Cell("retraining", data.name, seed, rate, treatment="noisy"))
                treatments: list[Treatment] = ["remove"]
                relabel_seeds = suite.stage2.relabel_seeds
                if rate in suite.stage2.relabel and (
                    relabel_seeds is None or seed in relabel_seeds
                ):
                    treatments.append("relabel")
                trainings += [
                    Cell("retraining", data.name, seed, rate, treatment=treatment, method=method)
                    for treatment in treatments
                    for method in methods
                ]
    return trainings


def list_needed_cells(suite: Suite, cell: Cell) -> list[Cell]:
    """The cells whose arrays this cell reads."""
    pretraining = Cell("pretraining", cell.data, cell.seed)
    clean = Cell("detection", cell.data, cell.seed)
    kind = suite.noise["kind"]
    if cell.kind == "pilot":
        return [pretraining]
    if cell.kind == "detection":
        folds = range(suite.count_folds(cell.data))
        return [Cell("fold", cell.data, cell.seed, cell.rate, fold) for fold in folds]
    if cell.kind == "fold" and cell.rate is not None:
        first_cells = [pretraining] if kind in ("similarity", "confusion") else []
        return first_cells + [clean] * (kind == "instance" or suite.clean_first is not None)
    if cell.kind == "retraining":
        if cell.rate is None:
            return [clean] if suite.clean_first is not None else []
        return [Cell("detection", cell.data, cell.seed, cell.rate)]
    return []


def list_unfinished_cells(suite: Suite, cells: Cells, targets: Iterable[Cell]) -> list[Cell]:
    """The requested cells that are not finished and the cells they need, in an order that can be
    computed. A finished cell counts as missing only where another cell needs its arrays and they
    are gone.
    """
    missing: dict[Cell, None] = {}

    def add(cell: Cell, *, for_arrays: bool) -> None:
        is_done = cells.is_finished(cell, describe_cell(suite, cell)) and _has_all_methods(
            suite, cells, cell
        )
        if cell in missing or (is_done and (not for_arrays or cells.has_arrays(cell))):
            return
        for needed_cell in list_needed_cells(suite, cell):
            add(needed_cell, for_arrays=True)
        missing[cell] = None

    for cell in targets:
        add(cell, for_arrays=False)
    return list(missing)


def _has_all_methods(suite: Suite, cells: Cells, cell: Cell) -> bool:
    """Whether a finished detection has all the suite's methods, with the current source of your own
    functions. Otherwise it is repeated from its folds, which needs no training.
    """
    if cell.kind not in ("pilot", "detection"):
        return True
    stored_sources: dict[str, str | None] = cells.read(cell)["sources"]
    sources = {name: hash_method_source(name) for name in list_compared_methods(suite)}
    return sources.items() <= stored_sources.items()


def list_compared_methods(suite: Suite) -> list[str]:
    """The methods of stage 1, and the one that cleans before noise is added."""
    first = suite.clean_first
    return [*suite.methods, *([first] if first and first not in suite.methods else [])]


def describe_cell(suite: Suite, cell: Cell) -> dict[str, Any]:
    """Everything that determines the cell's result: data, network, noise, methods."""
    data = suite.get_data(cell.data)
    configuration: dict[str, Any] = {
        "data": _describe_samples(data),
        "model": data.model,
        "training": dict(data.training),
        "passes": suite.count_passes(cell.data),
        "seed": cell.seed,
    }
    if cell.kind == "pretraining" or (cell.rate is None and cell.treatment is None):
        noise: dict[str, Any] = {}
    else:
        noise = {"noise": dict(suite.noise), "rate": cell.rate, "clean_first": suite.clean_first}
    if cell.kind in ("fold", "detection") or cell.method:
        noise["folds"] = suite.count_folds(cell.data)
    if cell.kind == "retraining":
        noise |= {"treatment": cell.treatment, "method": cell.method}
        if source := hash_method_source(cell.method):
            noise["source"] = source
        noise["retraining_limit"] = data.retraining_limit
    return configuration | noise


def count_trained_samples(data: SuiteData, suite: Suite, cell: Cell, N: int) -> float:
    """The number of samples the cell trains on, for a training set of N; its running time grows
    with it."""
    if cell.kind == "pretraining":
        return 0.8 * N
    if cell.kind == "fold":
        return N * (1 - 1 / suite.count_folds(cell.data))
    if cell.kind == "retraining":
        return min(N, data.retraining_limit or N)
    return 0.0


def _describe_samples(data: SuiteData) -> dict[str, Any]:
    leave = {"title", "model", "training", "reduced", "contaminated", "retraining_limit"}
    leave |= {"passes", "folds"}  # those of the cell itself
    return {k: v for k, v in asdict(data).items() if k not in leave and v is not None}
