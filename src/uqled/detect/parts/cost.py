"""The cost of a detection in parts: bytes, memory and time, estimated before it begins.

Bytes to read and memory follow from shapes, at the most. Time and bytes to write follow from a
short trial on the engine that will do the work: each worker reads some rows twice, and then treats
them as if they were a whole data set.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from uqled.detect.core.cuts import bound_round_counts
from uqled.detect.core.inputs import BLOCK_BYTES
from uqled.detect.core.joint import DENSE_CLASSES
from uqled.detect.core.rows import MAX_BLOCK_ROWS
from uqled.detect.parts import tasks
from uqled.detect.parts.context import Part, TaskContext
from uqled.detect.parts.prepare import PreparedDetection
from uqled.detect.parts.store import Store
from uqled.engines import Engine
from uqled.engines.local import Threads
from uqled.errors import InputError
from uqled.storage.location import Location

#: Rows of the trial in total: a small share of all, but enough to measure time.
_TRIAL_SHARE, _TRIAL_ROWS = 0.05, 2_000
#: The share of these that is run first, to compile everything.
_FIRST_SHARE = 0.1
#: Memory of an interpreter with NumPy, Numba and the compiled sweeps.
_PROCESS_BYTES = 350 * 2**20
#: The share of free memory that is used: the rest is for the page cache and other programs.
_FREE_SHARE = 0.8
#: Bytes per sample in a part's arrays: self-confidence and uncertainty (8 each), predicted classes
#: (4), agreement (1 per source), and a disagreement or a selected sample for some.
_SAMPLE_BYTES, _LEAD_BYTES = 48, 40
#: The share of samples that is flagged at most, and so the number of pairs with a quota.
_FLAGGED_SHARE = 0.1
#: Bytes of a sample in the result.
_RESULT_BYTES = 40
#: Samples that parts write for each one in a quota, as measured: about three in each of the later
#: waves, and one in the first, if there are few parts.
_OFFERS = 7
#: Bytes of `auto` per sample: the alternative of each source, and the score.
_ALTERNATIVE_BYTES, _SCORE_BYTES = 12, 8


@dataclass(frozen=True)
class CostPlan:
    """The expected cost, in bytes and seconds."""

    samples: int
    parts: int
    workers: int
    stored: int
    """Bytes of labels, probabilities and passes."""
    to_read: int
    """In all sweeps."""
    to_write: int
    """The result and the temporary files."""
    worker: int
    """The most memory of one worker."""
    driver: int
    """Memory of the driver."""
    in_one_process: bool
    reading_rate: float
    """Reading rate in bytes per second, of all workers together."""
    sweeping_rate: float
    """Bytes per second that the sweeps process, once they are read."""
    seconds: float

    @property
    def memory(self) -> int:
        """The memory of driver and workers, on one machine."""
        if self.in_one_process:
            return self.driver + self.workers * self.worker
        return self.driver + self.workers * (self.worker + _PROCESS_BYTES)

    def text(self) -> str:
        """The plan in a few lines."""
        unit = "thread" if self.in_one_process else "worker"
        parts = "1 part" if self.parts == 1 else f"{self.parts:,} parts"
        workers = f"1 {unit}" if self.workers == 1 else f"{self.workers} {unit}s"
        return "\n".join(
            [
                f"{self.samples:,} samples in {parts}, {workers}",
                f"to read: {show_bytes(self.to_read)} ({show_bytes(self.stored)} in three sweeps)",
                f"to write: about {show_bytes(self.to_write)}",
                f"memory: {show_bytes(self.worker)} per {unit}, {show_bytes(self.driver)} for the "
                f"driver, {show_bytes(self.memory)} in all",
                f"time: about {max(1.0, self.seconds):,.0f} s (measured: reading "
                f"{show_bytes(self.reading_rate)}/s, sweeping {show_bytes(self.sweeping_rate)}/s)",
            ]
        )

    def refuse_what_cannot_fit(self, out: Any, memory: int | None = None) -> None:
        """Raise if there is not enough memory, or no room for the result."""
        limit = memory if memory is not None else int(measure_free_memory() * _FREE_SHARE)
        needed_memory = self.memory
        if memory is None and not self.in_one_process:  # workers may be on other machines
            needed_memory = max(self.driver, self.worker + _PROCESS_BYTES)
        if needed_memory > limit:
            name = "part_rows" if memory is None else "memory"
            raise InputError(
                name,
                f"makes a plan of {show_bytes(needed_memory)} ({self.workers} workers), but "
                f"{show_bytes(limit)} is available",
                "Use fewer workers or smaller parts (part_rows)",
            )
        place = Location.of(out)
        if place.is_local:
            folder = place.path
            while not folder.exists():
                folder = folder.parent
            room = shutil.disk_usage(folder).free
            if self.to_write > room:
                raise InputError(
                    "out",
                    f"{str(place)!r} has {show_bytes(room)} of free space, and the detection needs "
                    f"about {show_bytes(self.to_write)}",
                    "Choose another folder",
                )


def estimate_cost(detection: PreparedDetection, engine: Engine) -> CostPlan:
    """Bytes and memory from the shapes, without a trial; the least number of bytes to write."""
    context, rows = detection.context, detection.rows
    context.store.refuse_another(detection.fingerprint)
    N, row_bytes = rows[0].shape[-2], sum(r.row_bytes for r in rows)
    stored_bytes = sum(
        _count_stored_bytes(a) for a in (context.labels, context.softmax, context.passes)
    )
    return CostPlan(
        samples=N,
        parts=len(detection.parts),
        workers=engine.workers,
        stored=stored_bytes,
        to_read=3 * stored_bytes,
        to_write=N * (_count_sample_bytes(context) - _LEAD_BYTES + _RESULT_BYTES),
        worker=_estimate_worker_bytes(detection, row_bytes),
        driver=_PROCESS_BYTES + _estimate_driver_bytes(detection, engine.workers),
        in_one_process=not engine.is_distributed,
        reading_rate=0.0,
        sweeping_rate=0.0,
        seconds=0.0,
    )


def plan_cost(detection: PreparedDetection, engine: Engine) -> CostPlan:
    """The cost with time and bytes to write, measured by a trial."""
    estimate = estimate_cost(detection, engine)
    trial, size = _run_trials(detection, engine)
    # What fits in memory is read from the disk once; what does not, in every sweep.
    cold = 3 if estimate.stored > _FREE_SHARE * measure_free_memory() else 1
    per_trial = trial.task_seconds + cold * max(
        0.0, trial.first_read_seconds - trial.second_read_seconds
    )
    trials, trial_bytes = estimate.samples / size, size * sum(r.row_bytes for r in detection.rows)
    return replace(
        estimate,
        to_write=int(trials * trial.bytes_written),
        reading_rate=trial_bytes / max(trial.first_read_seconds, 1e-6),
        sweeping_rate=3 * trial_bytes / max(trial.task_seconds, 1e-6),
        seconds=trials * per_trial + trial.driver_seconds,
    )


def _estimate_worker_bytes(detection: PreparedDetection, row_bytes: int) -> int:
    """Memory of a worker: a block's rows and their mean, pair counts and bounds of every member, a
    part's columns."""
    context = detection.context
    K, members = len(context.values), len(context.plan.members)
    block = min(max(1, BLOCK_BYTES // row_bytes), MAX_BLOCK_ROWS)
    buffers = block * row_bytes * 2 + block * K * 8
    most = max(part.stop - part.start for part in detection.parts)
    pairs = K * K if K <= DENSE_CLASSES else most
    per_pair = 8 * 3  # one after the other: counts; bounds; the list of pairs
    heap_bytes = min(most, pairs) * members * 16
    columns = most * (_count_sample_bytes(context) + members * 2) * 3  # raw, and compressed
    return buffers + pairs * per_pair * members + heap_bytes + columns


def _count_sample_bytes(context: TaskContext) -> int:
    """Bytes of a sample in a part's arrays."""
    sources = (context.softmax is not None) + (context.passes is not None)
    auto = sources * _ALTERNATIVE_BYTES + _SCORE_BYTES
    auto *= context.request.asks_for_probabilities
    return _SAMPLE_BYTES + _LEAD_BYTES + auto


def _estimate_driver_bytes(detection: PreparedDetection, workers: int) -> int:
    """Memory of the driver: pair counts and quotas of every member, the counts of a round that wait
    to be merged, and a few copies."""
    K, N = len(detection.context.values), detection.rows[0].shape[-2]
    members = len(detection.context.plan.members)
    pairs, groups = min(K * K, N), min(K * K, int(_FLAGGED_SHARE * N)) * members
    waiting_results = 2 * workers + len(detection.parts).bit_length() + 6
    return pairs * 8 * 3 * 4 * members + waiting_results * 8 * bound_round_counts(groups)


@dataclass(frozen=True)
class Trial:
    """The time and bytes of a trial on some rows."""

    first_read_seconds: float
    """Seconds to read the rows for the first time."""
    second_read_seconds: float
    """Seconds to read them again: less if the system cached them."""
    task_seconds: float
    """Seconds of all tasks of a detection after that."""
    driver_seconds: float
    """Seconds of the driver between them, which more rows hardly change."""
    bytes_written: int
    """About how many bytes as many rows of a whole run would write."""

    def merge_with(self, other: Trial) -> Trial:
        """The trials of two workers at the same time."""
        return Trial(
            max(self.first_read_seconds, other.first_read_seconds),
            max(self.second_read_seconds, other.second_read_seconds),
            max(self.task_seconds, other.task_seconds),
            max(self.driver_seconds, other.driver_seconds),
            self.bytes_written + other.bytes_written,
        )


def _run_trials(detection: PreparedDetection, engine: Engine) -> tuple[Trial, int]:
    """Run a trial on every worker at the same time; returns the merged trial and its rows."""
    N, W = detection.rows[0].shape[-2], engine.workers
    part = detection.parts[0].stop - detection.parts[0].start
    size = max(int(_TRIAL_SHARE * N), _TRIAL_ROWS) // W
    size = max(1, min(size, part, N // W))
    starts = np.linspace(0, N - size, W).astype(int).tolist()
    parts = [Part(0, start, start + size) for start in starts]
    sent_detection = replace(detection, rows=[], parts=[], fingerprint={})
    return engine.reduce(run_trial, parts, Trial.merge_with, arguments=(sent_detection,)), W * size


def run_trial(detection: PreparedDetection, part: Part) -> Trial:
    """Read some rows twice, and treat them as a whole data set."""
    reading_seconds, again = (
        _measure_seconds(tasks.read_part, detection.context, part) for _ in range(2)
    )
    samples = part.stop - part.start
    with TemporaryDirectory() as folder:  # where the task runs
        for size in (max(1, int(_FIRST_SHARE * samples)), samples):
            engine, store = _TimedThread(1), Store(Location.of(folder) / str(size))
            began = time.perf_counter()
            detection.run_alone(replace(part, stop=part.start + size), store, engine)
            seconds = time.perf_counter() - began
        sizes = {path.name: path.stat().st_size for path in Path(folder, str(size)).rglob("0*")}
    written_bytes = sum(sizes.values()) + (_OFFERS - 1) * sizes.get("000000-sweep-3.bin", 0)
    return Trial(reading_seconds, again, engine.seconds, seconds - engine.seconds, written_bytes)


class _TimedThread(Threads):
    """One thread that measures how long its tasks take."""

    seconds = 0.0

    def reduce(self, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        result = super().reduce(*arguments, **options)
        self.seconds += time.perf_counter() - began
        return result


def _measure_seconds(function: Callable[..., Any], *arguments: Any) -> float:
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def _count_stored_bytes(source: Any) -> int:
    if source is None:
        return 0
    return int(source.bytes if hasattr(source, "bytes") else getattr(source, "nbytes", 0))


def measure_free_memory() -> int:
    """Bytes of memory that are available on this machine."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def show_bytes(number: float) -> str:
    """A number of bytes as people write it.

    >>> show_bytes(38_600_000_000), show_bytes(2_600_000)
    ('38.6 GB', '3 MB')
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
