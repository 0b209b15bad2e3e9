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

from uqled.bench.provenance import describe_provenance

PACKAGES = ("uqled", "numpy", "numba", "scipy", "cleanlab")
RESULTS = Path(__file__).parent / "results"


def described(packages: tuple[str, ...] = PACKAGES) -> dict[str, Any]:
    """The date, the machine and the versions."""
    return {"date": date.today().isoformat(), **describe_provenance(packages)}


def resident() -> int:
    """Bytes of this process that are in memory now, mapped pages among them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """The largest resident size seen while the block runs, sampled every two milliseconds."""

    def __enter__(self) -> PeakMemory:
        self.before = self.peak = resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.peak = max(self.peak, resident())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def extra(self) -> int:
        return self.peak - self.before


def seconds(function: Callable[[], Any], repeats: int) -> list[float]:
    """The time of each of several calls."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return found


def spread(times: list[float]) -> dict[str, Any]:
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


def made_on(about: dict[str, Any]) -> str:
    """A line about the machine, the day and the versions, as `described` gives them."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return f"{about['cpu']}, {about['cores']} cores, {about['date']}; {versions}."


def save(name: str, result: dict[str, Any], text: str) -> None:
    """Write the result as JSON and as a table to read."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
