"""Running a benchmark: what is to do, what it costs, and doing it in several processes."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from uqled import arrays
from uqled.bench.cells import Cell, Cells
from uqled.bench.collected import Results, collected, pilot_winners
from uqled.bench.made import made_by
from uqled.bench.matrix import (
    configuration_of,
    needs,
    pilot_cells,
    stage1_cells,
    stage2_cells,
    trained_samples,
    unfinished,
)
from uqled.bench.phases import computed, whole
from uqled.bench.suite import Data, Suite
from uqled.engines.local import available_threads
from uqled.errors import FileError, InputError
from uqled.progress import Progress

_TRIED = 1_024  # samples trained on to measure how fast a network is
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
        found = pilot_cells(self.suite) if pilot or self.suite.pilot else []
        if not pilot:
            found += stage1_cells(self.suite)
            found += stage2_cells(self.suite, self.methods())
        chosen = [cell for cell in found if fnmatch(cell.name, self.only)]
        if not chosen:
            shown = f"{found[0].name}, {found[-1].name}"
            raise InputError("only", f"is {self.only!r}, which no cell is called", f"As in {shown}")
        return chosen

    def methods(self) -> list[str]:
        """Those that stage 2 looks at: of a suite with a pilot, those that won it."""
        if not self.suite.pilot or self.everyone:
            return list(self.suite.methods)
        winners = pilot_winners(self.suite, self.cells)
        return list(self.suite.methods) if winners is None else winners


def run_benchmark(
    benchmark: Benchmark, *, pilot: bool = False, jobs: int | None = None, progress: bool = True
) -> tuple[Results, list[Path]]:
    """Compute the cells that are missing, then write tables, figures and the page."""
    from uqled.bench.writing import write_results  # figures: not for those who compute cells

    if benchmark.out.exists() and not benchmark.out.is_dir():
        raise InputError("out", f"{str(benchmark.out)!r} is a file", "Name a folder")
    benchmark.out.mkdir(parents=True, exist_ok=True)
    if benchmark.suite.pilot and not pilot:  # its winners decide what comes after
        first = [cell for cell in benchmark.wanted() if cell.kind == "pilot"]
        _run(benchmark, first, jobs, progress)
    _run(benchmark, benchmark.wanted(pilot=pilot), jobs, progress)
    results = collected(benchmark.suite, benchmark.cells)
    return results, write_results(results, benchmark.out)


def _run(benchmark: Benchmark, wanted: list[Cell], jobs: int | None, progress: bool) -> None:
    todo = unfinished(benchmark.suite, benchmark.cells, wanted)
    if not todo:
        return
    for name in {cell.data: None for cell in todo}:
        # Refuse missing or other data before anything runs, and fill the caches once.
        found = whole(benchmark.suite.data_named(name), benchmark.data)
        benchmark.cells.keep_fingerprint(name, found.data.fingerprint)
    costs = {cell: _cost(benchmark, cell) for cell in todo}
    total = max(1, round(sum(costs.values()) * _UNITS))
    name = f"benchmark {benchmark.suite.name}, {len(todo)} cells"
    jobs = available_threads() if jobs is None else arrays.whole_number(jobs, "jobs", low=1)
    with Progress(progress).stage(name, total) as advance, _workers(jobs) as submit:
        waiting, running = dict.fromkeys(todo), dict[Future[None], Cell]()
        while waiting or running:
            for cell in list(waiting):
                if len(running) == jobs:
                    break
                if not any(n in costs for n in needs(benchmark.suite, cell)):
                    del waiting[cell]
                    running[submit(_compute, benchmark, cell)] = cell
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                future.result()
                advance(costs.pop(cell) * _UNITS)


def _cost(benchmark: Benchmark, cell: Cell) -> float:
    """Work of a cell, in thousands of samples trained on; detection costs a little too."""
    data = benchmark.suite.data_named(cell.data)
    N = len(whole(data, benchmark.data).train)
    epochs = float(dict(data.training).get("epochs", 1))
    return 0.5 + trained_samples(data, benchmark.suite, cell, N) * epochs / 1_000


def _compute(benchmark: Benchmark, cell: Cell) -> None:
    """Compute one cell and write it; runs in a process of its own."""
    began = time.perf_counter()
    with _one_thread():
        found, arrays = computed(benchmark.suite, cell, benchmark.cells, benchmark.data)
    made = made_by() | {"seconds": round(time.perf_counter() - began, 2)}
    benchmark.cells.write(cell, configuration_of(benchmark.suite, cell), found, arrays, made)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks train with one thread: sums then do not depend on how many there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _workers(jobs: int) -> Iterator[Any]:
    """A function that computes cells in so many processes; in this one if it is one."""
    if jobs == 1:
        yield _here
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), _end_with_parent) as pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _here(function: Any, *arguments: Any) -> Future[None]:
    future: Future[None] = Future()
    future.set_result(function(*arguments))
    return future


def _end_with_parent() -> None:
    """End this process when the one that made it is gone, so that no cell is computed twice."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# -- what it would cost ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is to do, and about how long it takes."""

    rows: list[tuple[str, str, int, int, float | None]]
    """Data set, kind of cell, cells, of them unfinished, seconds of one process for these; None
    where the data is missing."""
    jobs: int

    @property
    def seconds(self) -> float:
        return sum(row[4] or 0 for row in self.rows) / self.jobs

    def text(self) -> str:
        """A table to read."""
        lines = [f"  {'data set':20} {'cells':22} {'all':>6} {'to do':>6}  time of one process"]
        for data, kind, total, todo, seconds in self.rows:
            shown = "unknown: data missing" if seconds is None else duration(seconds)
            lines.append(f"  {data:20} {kind:22} {total:>6} {todo:>6}  {shown}")
        todo = sum(row[3] for row in self.rows)
        known = all(row[4] is not None for row in self.rows)
        lines.append("")
        lines.append(
            f"{todo:,} cells to do, about {duration(self.seconds)} in {self.jobs} processes"
            f"{'' if known else ' for those whose data is there'}. Estimated from a short training "
            "of each network on this machine."
        )
        return "\n".join(lines)


def plan(benchmark: Benchmark, *, pilot: bool = False, jobs: int | None = None) -> Plan:
    """Count the cells and measure a short training of each network."""
    wanted = benchmark.wanted(pilot=pilot)
    suite, cells = benchmark.suite, benchmark.cells
    everything = unfinished(suite, Cells(Path(os.devnull)), wanted)
    todo = set(unfinished(suite, cells, wanted))
    rows: list[tuple[str, str, int, int, float | None]] = []
    for data in suite.data:
        own = [cell for cell in everything if cell.data == data.name]
        left = Counter(_shown_kind(cell) for cell in own if cell in todo)
        speed, N = _speed(data, benchmark.data, suite.passes)
        for kind, total in Counter(_shown_kind(cell) for cell in own).items():
            seconds = None
            if speed is not None:
                work = sum(
                    trained_samples(data, suite, cell, N)
                    for cell in own
                    if cell in todo and _shown_kind(cell) == kind
                )
                seconds = work * speed
            rows.append((data.name, kind, total, left[kind], seconds))
    return Plan(rows, available_threads() if jobs is None else jobs)


def _shown_kind(cell: Cell) -> str:
    if cell.kind != "retraining":
        return cell.kind
    return f"retraining, {cell.treatment}"


def _speed(data: Data, folder: Path, passes: int) -> tuple[float | None, int]:
    """(seconds per sample of a whole training, number of training samples)."""
    try:
        found = whole(data, folder)
    except FileError:  # the data is not here
        return None, 0
    n = min(_TRIED, len(found.train))
    train, asked = found.train[:n], found.train[-64:]
    epochs = getattr(getattr(found.learner, "training", None), "epochs", None)
    learner: Any = found.learner
    if epochs is not None:
        learner = replace(learner, training=replace(learner.training, epochs=1))
    times = []
    for _ in range(2):  # the first one warms up
        with TemporaryDirectory() as work, _one_thread():
            began = time.perf_counter()
            learner.fit_predict(
                found.data, train, asked, passes=passes, seed=0, folder=Path(work),
                advance=lambda _: None,
            )  # fmt: skip
            times.append(time.perf_counter() - began)
    return times[-1] * (epochs or 1) / n, len(found.train)


def duration(seconds: float) -> str:
    """Seconds as a person would say them.

    >>> duration(40), duration(4_000), duration(400_000)
    ('40 s', '67 min', '111 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
