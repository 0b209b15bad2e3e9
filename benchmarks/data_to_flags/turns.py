"""Ours and the peer's runs, each in a process of its own, taking turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

Runs = dict[str, list[dict[str, float]]]


def take_turns(module: str, options: Sequence[str], repeats: int) -> Runs:
    """What each run of `python -m module OPTIONS --run WHO` printed last; its cache is empty."""
    runs: Runs = {"peer": [], "ours": []}
    for _ in range(repeats):
        for who, results in runs.items():
            with tempfile.TemporaryDirectory() as cache:
                process = subprocess.run(
                    [sys.executable, "-m", module, *options, "--run", who],
                    stdout=subprocess.PIPE, check=True, text=True,
                    env={**os.environ, "XDG_CACHE_HOME": cache, "UQLED_CACHE": cache},
                )  # fmt: skip
            results.append(json.loads(process.stdout.splitlines()[-1]))
            print(*options, who, results[-1], flush=True)
    return runs


def format_spread(values: list[float], digits: int = 1) -> str:
    """The median, and the least to the most."""
    numbers = (f"{number:.{digits}f}" for number in (min(values), max(values)))
    return f"{statistics.median(values):.{digits}f} ({' to '.join(numbers)})"
