"""Runs a benchmark: lists the missing cells and computes them in several processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from uqled.bench.benchmark_data import BenchmarkData, load_benchmark_data
from uqled.bench.cell_graph import (
    count_trained_samples,
    describe_cell,
    list_needed_cells,
    list_pilot_cells,
    list_stage1_cells,
    list_stage2_cells,
    list_unfinished_cells,
)
from uqled.bench.cells import Cell, Cells
from uqled.bench.phases import compute_cell
from uqled.bench.provenance import describe_provenance
from uqled.bench.results.collection import (
    Results,
    collect_results,
    rank_pilot,
)
from uqled.bench.suite import Suite
from uqled.bench.workers import Workers, list_gpus, start_workers, wait_for_workers
from uqled.engines import make_engine
from uqled.errors import InputError
from uqled.progress import Progress
from uqled.storage.lock import lock_folder
from uqled.storage.reading import first_line

_WORK = "work"  # the folder of checkpoints
_UNITS = 1_000  # of progress per unit of work, so that whole numbers are fine enough


@dataclass(frozen=True)
class Benchmark:
    """A suite, where its data is, and where its cells go."""

    suite: Suite
    data: Path
    out: Path
    only: str = "*"
    """Pattern of the names of cells that run here: `mnist/*`."""
    keep_all_methods: bool = False
    """Keep methods that the pilot found no better than the baseline."""
    device: str = "auto"
    """Where networks are trained, unless a data set's `training` says it: auto, cpu, cuda, mps."""

    @property
    def cells(self) -> Cells:
        return Cells(self.out)

    def load_data(self, name: str) -> BenchmarkData:
        """One of the suite's data sets, and its network."""
        return load_benchmark_data(self.suite.get_data(name), self.data, self.device)

    def list_cells(self, *, pilot: bool = False) -> list[Cell]:
        """The cells whose results are shown, as far as is known before the pilot."""
        cells = list_pilot_cells(self.suite) if pilot or self.suite.pilot else []
        if not pilot:
            cells += list_stage1_cells(self.suite)
            cells += list_stage2_cells(self.suite, self.list_stage2_methods())
        chosen_cells = [cell for cell in cells if fnmatch(cell.name, self.only)]
        if not chosen_cells:
            examples = f"{cells[0].name}, {cells[-1].name}"
            raise InputError(
                "only",
                f"is {self.only!r}, which matches no cell",
                f"Cells have names such as {examples}",
            )
        return chosen_cells

    def list_stage2_methods(self) -> list[str]:
        """The methods of stage 2: all, or those that won the pilot, if the suite has one."""
        if not self.suite.pilot or self.keep_all_methods:
            return list(self.suite.methods)
        ranking = rank_pilot(self.suite, self.cells)
        return list(self.suite.methods) if ranking is None else ranking.kept_methods


def run_benchmark(
    benchmark: Benchmark,
    *,
    pilot: bool = False,
    workers: Workers | None = None,
    progress: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Results, list[Path]]:
    """Compute the missing cells, then write tables, figures and the page.

    `tell` gets what a person should know: which methods the pilot dropped, and where the softmax
    and the passes differ.
    """
    # Figures are for the process that shows results, not for those that compute cells.
    from uqled.bench.results.result_files import write_results

    out = benchmark.out
    if out.exists() and not out.is_dir():
        raise InputError("out", f"{str(out)!r} is a file", "Name a folder")
    try:
        (out / _WORK).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "out", f"{str(out)!r} cannot be made ({first_line(error)})", "Choose another folder"
        ) from error
    with lock_folder(out, "benchmark"):
        wait_for_workers(out / _WORK)
        workers = workers or Workers()
        if benchmark.suite.pilot and not pilot:  # its winners decide what comes after
            first = [cell for cell in benchmark.list_cells() if cell.kind == "pilot"]
            _run_cells(benchmark, first, workers, progress)
            ranking = rank_pilot(benchmark.suite, benchmark.cells)
            if ranking is not None and not benchmark.keep_all_methods:
                tell(ranking.describe())
        _run_cells(benchmark, benchmark.list_cells(pilot=pilot), workers, progress)
        results = collect_results(benchmark.suite, benchmark.cells)
        for sentence in results.about["passes_differ"]:
            tell(f"warning: {sentence}; they differ by more than noise.")
        paths = write_results(results, out)
        benchmark.cells.remove_finished_work()
    return results, paths


def write_tables(benchmark: Benchmark) -> tuple[Results, list[Path]]:
    """Write tables, figures and the page of the cells that are there; needs no data."""
    from uqled.bench.results.result_files import write_results

    if not (benchmark.out / "cells").is_dir():
        raise InputError("out", f"{str(benchmark.out)!r} holds no cells", "Run the benchmark first")
    results = collect_results(benchmark.suite, benchmark.cells)
    return results, write_results(results, benchmark.out)


def _run_cells(benchmark: Benchmark, cells: list[Cell], workers: Workers, progress: bool) -> None:
    todo = list_unfinished_cells(benchmark.suite, benchmark.cells, cells)
    if not todo:
        return
    bar = Progress(progress)
    for name in {cell.data: None for cell in todo}:
        # Refuse missing or changed data before anything runs, and fill the caches once.
        with bar.stage(f"reading {name}"):
            bench_data = benchmark.load_data(name)
            benchmark.cells.check_fingerprint(name, bench_data.data.fingerprint)
    costs = {cell: _estimate_work(benchmark, cell) for cell in todo}
    total = max(1, round(sum(costs.values()) * _UNITS))
    name = f"benchmark {benchmark.suite.name}, {len(todo)} cells"
    with bar.stage(name, total) as advance:
        compute = _compute_on_ray if workers.engine == "ray" else _compute_here
        for cell in compute(benchmark, todo, workers):
            advance(costs[cell] * _UNITS)


def _compute_here(benchmark: Benchmark, todo: list[Cell], workers: Workers) -> Iterator[Cell]:
    """Compute cells in processes, each after those it needs; yield those that are finished."""
    jobs, gpus = workers.count(benchmark.device), list_gpus(benchmark.device)
    waiting_cells, unfinished_cells = dict.fromkeys(todo), set(todo)
    cells_by_future = dict[Future[None], Cell]()
    with start_workers(jobs, gpus, benchmark.out / _WORK) as submit:
        while waiting_cells or cells_by_future:
            for cell in list(waiting_cells):
                if len(cells_by_future) == jobs:
                    break
                if not unfinished_cells.intersection(list_needed_cells(benchmark.suite, cell)):
                    del waiting_cells[cell]
                    cells_by_future[submit(_compute, benchmark, cell)] = cell
            done_futures, _ = wait(cells_by_future, return_when=FIRST_COMPLETED)
            for future in done_futures:
                cell = cells_by_future.pop(future)
                future.result()
                unfinished_cells.remove(cell)
                yield cell


def _compute_on_ray(benchmark: Benchmark, todo: list[Cell], workers: Workers) -> Iterator[Cell]:
    """Compute cells as tasks of a cluster, all those at a time that need no other of them."""
    gpus = 0.0 if benchmark.device == "cpu" else len(list_gpus("auto")) and 1 / workers.jobs_per_gpu
    with make_engine("ray", workers=workers.jobs, gpus=gpus, address=workers.address) as engine:
        waiting_cells = list(todo)
        while waiting_cells:
            unfinished_cells = set(waiting_cells)
            ready_cells = [
                cell
                for cell in waiting_cells
                if not unfinished_cells.intersection(list_needed_cells(benchmark.suite, cell))
            ]
            for cell, _ in zip(
                ready_cells, engine.map(_compute, ready_cells, arguments=(benchmark,)), strict=True
            ):
                yield cell
            waiting_cells = [cell for cell in waiting_cells if cell not in ready_cells]


def _estimate_work(benchmark: Benchmark, cell: Cell) -> float:
    """Work of a cell, in thousands of samples trained on; detection costs a little too."""
    data = benchmark.suite.get_data(cell.data)
    N = len(benchmark.load_data(cell.data).train)
    epochs = float(dict(data.training).get("epochs", 1))
    return 0.5 + count_trained_samples(data, benchmark.suite, cell, N) * epochs / 1_000


def _compute(benchmark: Benchmark, cell: Cell) -> None:
    """Compute one cell and write it; runs in a process of its own."""
    began = time.perf_counter()
    with use_one_thread():
        result, arrays = compute_cell(
            benchmark.suite, cell, benchmark.cells, benchmark.load_data(cell.data)
        )
    provenance = describe_provenance() | {"seconds": round(time.perf_counter() - began, 2)}
    benchmark.cells.write(cell, describe_cell(benchmark.suite, cell), result, arrays, provenance)


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Networks train with one thread: sums then do not depend on how many there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
