"""What a detection in parts will cost: bytes, memory and time, known before it begins.

Bytes to read and memory follow from shapes, at the most. Time and bytes to write follow from a
short trial on the engine that will do the work: each worker reads a part twice, and sweeps it.
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

from uqled.detect import parts as tasks
from uqled.detect.auto_parts import candidates
from uqled.detect.joint import DENSE_CLASSES
from uqled.detect.parts import Asked, Groups, Part
from uqled.detect.rows import MAX_BLOCK_ROWS
from uqled.detect.sharded import Prepared
from uqled.detect.store import Store
from uqled.detect.sweeps import BLOCK_BYTES
from uqled.engines import Engine
from uqled.errors import InputError
from uqled.places import Place

#: Of the trial, per worker: as much as a part, whose own cost is not that of its rows alone; first
#: less, so that all is compiled.
_TRIED_BYTES, _FIRST_TRIED_BYTES = 512 * 2**20, 16 * 2**20
#: An interpreter with NumPy, Numba and the compiled sweeps.
_PROCESS_BYTES = 350 * 2**20
#: Of the memory that is free: the rest is for the file cache and for others.
_FREE_SHARE = 0.8
#: Per sample in a part's arrays: self-confidence and uncertainty (8 bytes each), guesses (4),
#: agreement (1 per source), and a lead or a kept sample for some.
_SAMPLE_BYTES, _LEAD_BYTES = 48, 40
#: Of an offer to a pair in a part's file; each pair keeps its own number of them once in the first
#: wave and three times in either of the others; and of a sample in the result.
_OFFER_BYTES, _OFFERS, _RESULT_BYTES = 24, 7, 40
#: Of `auto`: candidates of a source, and readings.
_CANDIDATE_BYTES, _READING_BYTES = 9 * 8, 7 * 8


@dataclass(frozen=True)
class Plan:
    """What is to be expected. Bytes, and seconds."""

    samples: int
    parts: int
    workers: int
    stored: int
    """Of labels, probabilities and passes."""
    to_read: int
    """In all sweeps."""
    to_write: int
    """Result and what lies beside it on the way."""
    worker: int
    """Memory of one worker, at the most."""
    driver: int
    """Memory of the driver."""
    in_one_process: bool
    reading_rate: float
    """Bytes per second, of all workers together."""
    sweeping_rate: float
    """Bytes per second of the sweeps, over what was read before."""
    seconds: float

    @property
    def memory(self) -> int:
        """All together, on one machine."""
        if self.in_one_process:
            return self.driver + self.workers * self.worker
        return self.driver + self.workers * (self.worker + _PROCESS_BYTES)

    def text(self) -> str:
        """To be read by a person."""
        each = "thread" if self.in_one_process else "worker"
        return "\n".join(
            [
                f"{self.samples:,} samples in {self.parts:,} parts, {self.workers} {each}s",
                f"to read: {gb(self.to_read)} ({gb(self.stored)} in three sweeps)",
                f"to write: about {gb(self.to_write)}",
                f"memory: {gb(self.worker)} per {each}, {gb(self.driver)} for the driver, "
                f"{gb(self.memory)} in all",
                f"time: about {max(1.0, self.seconds):,.0f} s (tried: reading "
                f"{gb(self.reading_rate)}/s, sweeping {gb(self.sweeping_rate)}/s)",
            ]
        )

    def refuse_what_cannot_fit(self, out: Any, memory: int | None = None) -> None:
        """Raise if there is not enough memory, or no room for the result."""
        limit = memory if memory is not None else int(free_memory() * _FREE_SHARE)
        needed = self.memory
        if memory is None and not self.in_one_process:  # workers may be on other machines
            needed = max(self.driver, self.worker + _PROCESS_BYTES)
        if needed > limit:
            name = "part_rows" if memory is None else "memory"
            raise InputError(
                name,
                f"makes a plan of {gb(needed)} ({self.workers} workers), and {gb(limit)} is "
                "to be had",
                "Use fewer workers or smaller parts (part_rows)",
            )
        place = Place.of(out)
        if place.is_local:
            folder = place.path
            while not folder.exists():
                folder = folder.parent
            room = shutil.disk_usage(folder).free
            if self.to_write > room:
                raise InputError(
                    "out",
                    f"{str(place)!r} has room for {gb(room)}, and about {gb(self.to_write)} is "
                    "to be written",
                    "Choose another place",
                )


def plan(prepared: Prepared, engine: Engine) -> Plan:
    """Work out bytes and memory, and try the engine."""
    asked, rows = prepared.asked, prepared.rows
    asked.store.refuse_another(prepared.fingerprint)
    N, row_bytes = rows[0].shape[-2], sum(r.row_bytes for r in rows)
    stored = sum(_stored_bytes(a) for a in (asked.labels, asked.softmax, asked.passes))
    tried, size = _tried(prepared, engine, row_bytes)
    # What fits in memory is read from the disk once; what does not, in every sweep.
    cold = 3 if stored > _FREE_SHARE * free_memory() else 1
    per_trial = tried.sweeping + cold * max(0.0, tried.reading - tried.again)
    trials = N / size
    bytes_tried = size * row_bytes
    return Plan(
        samples=N,
        parts=len(prepared.parts),
        workers=engine.workers,
        stored=stored,
        to_read=3 * stored,
        to_write=int(trials * tried.written),
        worker=_worker_bytes(prepared, row_bytes),
        driver=_PROCESS_BYTES + _driver_bytes(prepared),
        in_one_process=not engine.apart,
        reading_rate=bytes_tried / max(tried.reading, 1e-6),
        sweeping_rate=3 * bytes_tried / max(tried.sweeping, 1e-6),
        seconds=trials * per_trial,
    )


def _worker_bytes(prepared: Prepared, row_bytes: int) -> int:
    """A block's rows and their mean, pair counts and bounds of every member, a part's columns."""
    asked = prepared.asked
    K, members = len(asked.values), len(asked.members)
    block = min(max(1, BLOCK_BYTES // row_bytes), MAX_BLOCK_ROWS)
    buffers = block * row_bytes * 2 + block * K * 8
    most = max(part.stop - part.start for part in prepared.parts)
    pairs = K * K if K <= DENSE_CLASSES else most
    per_pair = 8 * 3  # in turn: counts; bounds; the list of pairs
    kept = min(most, pairs) * members * 16
    columns = most * (_per_sample(asked) + members * 2) * 3  # as they are, and packed
    return buffers + pairs * per_pair * members + kept + columns


def _per_sample(asked: Asked) -> int:
    """Bytes of a sample in a part's arrays."""
    sources = (asked.softmax is not None) + (asked.passes is not None)
    auto = sources * _CANDIDATE_BYTES + _READING_BYTES if asked.asks_for("auto") else 0
    return _SAMPLE_BYTES + _LEAD_BYTES + auto


def _driver_bytes(prepared: Prepared) -> int:
    """Pair counts and quotas of every member, and the counts of a round."""
    K, N = len(prepared.asked.values), prepared.rows[0].shape[-2]
    pairs = min(K * K, N)
    return pairs * 8 * 3 * 4 * len(prepared.asked.members) + 2 * 2**25


@dataclass(frozen=True)
class Trial:
    """What some rows took."""

    reading: float
    """Seconds, for the first time."""
    again: float
    """Seconds, for the second: less where the system keeps what was read."""
    sweeping: float
    """Seconds of the three sweeps, after that."""
    written: int
    """Bytes, about, as there would be of so many rows of a whole run."""

    def beside(self, other: Trial) -> Trial:
        """Two workers at the same time."""
        return Trial(
            max(self.reading, other.reading),
            max(self.again, other.again),
            max(self.sweeping, other.sweeping),
            self.written + other.written,
        )


def _tried(prepared: Prepared, engine: Engine, row_bytes: int) -> tuple[Trial, int]:
    """A trial of every worker at the same time, and how many rows it was of."""
    N, W = prepared.rows[0].shape[-2], engine.workers
    size = max(1, min(_TRIED_BYTES // row_bytes, N // W))
    starts = np.linspace(0, N - size, W).astype(int).tolist()
    parts = [Part(k, start, start + size) for k, start in enumerate(starts)]
    first = max(1, _FIRST_TRIED_BYTES // row_bytes)
    found = engine.reduce(trial, parts, Trial.beside, given=(prepared.asked, first))
    return found, W * size


def trial(asked: Asked, first: int, part: Part) -> Trial:
    """Read a part twice and sweep it; before that `first` of its rows, so that all is compiled."""
    reading, again = (_seconds(tasks.read_only, asked, part) for _ in range(2))
    samples = part.stop - part.start
    with TemporaryDirectory() as folder:  # where the task runs
        for number, size in enumerate((min(first, samples), samples)):
            part = replace(part, stop=part.start + size)
            here = replace(asked, store=Store(Place.of(folder) / str(number)))
            began = time.perf_counter()
            limits = tasks.class_statistics(here, part)
            if asked.asks_for("auto"):
                candidates(here, part.stop - part.start, part)
            limits.settle()
            counted = tasks.confident_joints(here, limits, part)
            written = sum(path.stat().st_size for path in Path(folder, str(number)).rglob("*.bin"))
            groups = Groups({member: counted[member] for member in asked.selecting})
            if groups.quotas:
                tasks.select(here, groups, np.full(len(groups.wanted), 0.5), part)
            seconds = time.perf_counter() - began
    off_diagonal = sum(
        int(pairs.counts[pairs.given != pairs.true].sum()) for pairs in groups.quotas.values()
    )
    readings = _READING_BYTES if asked.asks_for("auto") else 0
    offers = off_diagonal * _OFFERS * _OFFER_BYTES
    return Trial(
        reading,
        again,
        seconds,
        written + offers + samples * (readings + _RESULT_BYTES),
    )


def _seconds(function: Callable[..., Any], *given: Any) -> float:
    began = time.perf_counter()
    function(*given)
    return time.perf_counter() - began


def _stored_bytes(source: Any) -> int:
    if source is None:
        return 0
    return int(source.bytes if hasattr(source, "bytes") else getattr(source, "nbytes", 0))


def free_memory() -> int:
    """Bytes that this machine could still give."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gb(number: float) -> str:
    """Bytes as a person says them.

    >>> gb(38_600_000_000), gb(2_600_000)
    ('38.6 GB', '3 MB')
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
