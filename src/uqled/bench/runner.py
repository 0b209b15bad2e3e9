"""Running a benchmark: what is to do, and doing it in several processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from uqled import arrays
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
from uqled.bench.phases import compute_cell, load_benchmark_data
from uqled.bench.provenance import describe_provenance
from uqled.bench.results.collection import Results, collect_results, find_pilot_winners
from uqled.bench.suite import Suite
from uqled.engines.local import available_threads
from uqled.errors import BusyError, InputError
from uqled.progress import Progress
from uqled.storage.lock import lock_folder
from uqled.storage.reading import first_line

if sys.platform != "win32":  # which has no such locks
    import fcntl

_WORK = "work"  # the folder of checkpoints
_LAST_WORDS = 10.0  # seconds after which the workers of a killed benchmark have noticed
_UNITS = 1_000  # of progress per unit of work, so that whole numbers are fine enough


@dataclass(frozen=True)
class Benchmark:
    """A suite, where its data lies, and where its cells go."""

    suite: Suite
    data: Path
    out: Path
    only: str = "*"
    """Pattern of the names of cells that run here: `mnist/*`."""
    everyone: bool = False
    """Keep methods that the pilot found no better than the baseline."""

    @property
    def cells(self) -> Cells:
        return Cells(self.out)

    def wanted(self, *, pilot: bool = False) -> list[Cell]:
        """The cells whose results are shown, as far as is known before the pilot."""
        found = list_pilot_cells(self.suite) if pilot or self.suite.pilot else []
        if not pilot:
            found += list_stage1_cells(self.suite)
            found += list_stage2_cells(self.suite, self.methods())
        chosen = [cell for cell in found if fnmatch(cell.name, self.only)]
        if not chosen:
            shown = f"{found[0].name}, {found[-1].name}"
            raise InputError("only", f"is {self.only!r}, which no cell is called", f"As in {shown}")
        return chosen

    def methods(self) -> list[str]:
        """Those that stage 2 looks at: of a suite with a pilot, those that won it."""
        if not self.suite.pilot or self.everyone:
            return list(self.suite.methods)
        winners = find_pilot_winners(self.suite, self.cells)
        return list(self.suite.methods) if winners is None else winners


def run_benchmark(
    benchmark: Benchmark, *, pilot: bool = False, jobs: int | None = None, progress: bool = True
) -> tuple[Results, list[Path]]:
    """Compute the cells that are missing, then write tables, figures and the page."""
    from uqled.bench.results.result_files import (
        write_results,  # figures: not for those who compute cells
    )

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
        _wait_for_workers(out / _WORK)
        if benchmark.suite.pilot and not pilot:  # its winners decide what comes after
            first = [cell for cell in benchmark.wanted() if cell.kind == "pilot"]
            _run_cells(benchmark, first, jobs, progress)
        _run_cells(benchmark, benchmark.wanted(pilot=pilot), jobs, progress)
        results = collect_results(benchmark.suite, benchmark.cells)
        written = write_results(results, out)
        benchmark.cells.remove_finished_work()
    return results, written


def write_tables(benchmark: Benchmark) -> tuple[Results, list[Path]]:
    """Write tables, figures and the page of the cells that are there; needs no data."""
    from uqled.bench.results.result_files import write_results

    if not (benchmark.out / "cells").is_dir():
        raise InputError("out", f"{str(benchmark.out)!r} holds no cells", "Run the benchmark first")
    results = collect_results(benchmark.suite, benchmark.cells)
    return results, write_results(results, benchmark.out)


def _run_cells(benchmark: Benchmark, wanted: list[Cell], jobs: int | None, progress: bool) -> None:
    todo = list_unfinished_cells(benchmark.suite, benchmark.cells, wanted)
    if not todo:
        return
    for name in {cell.data: None for cell in todo}:
        # Refuse missing or other data before anything runs, and fill the caches once.
        found = load_benchmark_data(benchmark.suite.data_named(name), benchmark.data)
        benchmark.cells.check_fingerprint(name, found.data.fingerprint)
    costs = {cell: _estimate_work(benchmark, cell) for cell in todo}
    total = max(1, round(sum(costs.values()) * _UNITS))
    name = f"benchmark {benchmark.suite.name}, {len(todo)} cells"
    jobs = available_threads() if jobs is None else arrays.whole_number(jobs, "jobs", low=1)
    work = benchmark.out / _WORK
    with Progress(progress).stage(name, total) as advance, _start_workers(jobs, work) as submit:
        waiting, running = dict.fromkeys(todo), dict[Future[None], Cell]()
        while waiting or running:
            for cell in list(waiting):
                if len(running) == jobs:
                    break
                if not any(n in costs for n in list_needed_cells(benchmark.suite, cell)):
                    del waiting[cell]
                    running[submit(_compute, benchmark, cell)] = cell
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                future.result()
                advance(costs.pop(cell) * _UNITS)


def _estimate_work(benchmark: Benchmark, cell: Cell) -> float:
    """Work of a cell, in thousands of samples trained on; detection costs a little too."""
    data = benchmark.suite.data_named(cell.data)
    N = len(load_benchmark_data(data, benchmark.data).train)
    epochs = float(dict(data.training).get("epochs", 1))
    return 0.5 + count_trained_samples(data, benchmark.suite, cell, N) * epochs / 1_000


def _compute(benchmark: Benchmark, cell: Cell) -> None:
    """Compute one cell and write it; runs in a process of its own."""
    began = time.perf_counter()
    with use_one_thread():
        found, arrays = compute_cell(benchmark.suite, cell, benchmark.cells, benchmark.data)
    made = describe_provenance() | {"seconds": round(time.perf_counter() - began, 2)}
    benchmark.cells.write(cell, describe_cell(benchmark.suite, cell), found, arrays, made)


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


@contextmanager
def _start_workers(jobs: int, work: Path) -> Iterator[Any]:
    """A function that computes cells in so many processes; in this one if it is one."""
    if jobs == 1:
        yield _run_here
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin_worker, (work,)) as pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_here(function: Any, *arguments: Any) -> Future[None]:
    future: Future[None] = Future()
    future.set_result(function(*arguments))
    return future


def _begin_worker(work: Path) -> None:
    """Hold the folder of checkpoints, with other workers, as long as this process lives."""
    if sys.platform != "win32":
        with suppress(OSError):  # a file system without locks
            fcntl.flock(os.open(work, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    _end_with_parent()


def _wait_for_workers(work: Path) -> None:
    """Wait until the workers of a killed benchmark have ended, who would remove what we write."""
    deadline = time.monotonic() + _LAST_WORDS
    while True:
        try:
            with lock_folder(work, "benchmark"):
                return
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _end_with_parent() -> None:
    """End this process when the one that made it is gone, so that no cell is computed twice."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
