"""What a measurement needs beside the number: the machine, the versions, memory, repeats."""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("uqled", "numpy", "numba", "scipy", "cleanlab")
RESULTS = Path(__file__).parent / "results"


def describe_machine(packages: tuple[str, ...] = PACKAGES) -> dict[str, Any]:
    """The date, the machine and the versions."""
    from uqled.bench.provenance import describe_provenance  # not in every version compared

    return {"date": date.today().isoformat(), **describe_provenance(packages)}


def compile_kernels(n_classes: int = 10, n_passes: int = 0) -> None:
    """Compile what a large data set needs, on a small one that would otherwise go without."""
    import uqled
    from uqled.detect.core import kernels

    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(n_classes), (1 + n_passes, 500)).astype(np.float32)
    labels, limit = rng.integers(0, n_classes, 500), kernels.SMALL_VALUES
    kernels.SMALL_VALUES = -1
    try:
        uqled.find_label_errors(labels, rows[0], rows[1:] if n_passes else None, method="all")
    finally:
        kernels.SMALL_VALUES = limit


def measure_resident_bytes() -> int:
    """Bytes of this process that are in memory now, mapped pages among them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """The largest resident size seen while the block runs, sampled every two milliseconds."""

    def __enter__(self) -> PeakMemory:
        self.before = self.peak = measure_resident_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.peak = max(self.peak, measure_resident_bytes())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def extra(self) -> int:
        return self.peak - self.before


def time_repeats(function: Callable[[], Any], repeats: int) -> list[float]:
    """The time of each of several calls."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return seconds


def summarize_times(times: list[float]) -> dict[str, Any]:
    """n, median, least and most."""
    return {
        "n": len(times),
        "median": statistics.median(times),
        "least": min(times),
        "most": max(times),
    }


def drop_from_page_cache(path: Path) -> None:
    """Make the next read of the file come from the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def format_machine(about: dict[str, Any]) -> str:
    """A line about the machine, the day and the versions, as `described` gives them."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    parts = (about["cpu"], about.get("instructions"), f"{about['cores']} cores")
    processor = ", ".join(filter(None, parts))  # older results do not name the instructions
    return f"{processor}, {about['date']}; {versions}."


def save(name: str, result: dict[str, Any], text: str) -> None:
    """Write the result as JSON and as a table to read."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
