"""Two versions of the source: is detection as fast as it was, with the same flags?

    git worktree add ../before COMMIT
    PYTHONPATH=benchmarks python -m detection_speed.compare_versions --before ../before/src

The two take turns, each in a process of its own that compiles first; every round measures every
case in both. Writes `benchmarks/results/compare_versions.*`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import machine
import predictions

BENCHMARKS = Path(__file__).parents[1]
SOURCE = BENCHMARKS.parent / "src"
#: Case: (N, K, F, method, in parts, calls per round). Only methods whose flags must stay the same.
CASES = {
    "cl-pbnr": (1_000_000, 100, 0, "cl-pbnr", False, 10),
    "cl-pbnr, small": (50_000, 10, 0, "cl-pbnr", False, 30),
    "six algorithms": (200_000, 200, 5, "alg-ens", False, 3),
    "six algorithms, in parts": (500_000, 200, 5, "alg-ens", True, 3),
}


def measure_case(name: str) -> dict[str, Any]:
    """Seconds of each call and the number of flags, with whatever `uqled` is imported."""
    import uqled

    N, K, F, method, in_parts, calls = CASES[name]
    labels, true = predictions.encode_labels(N, K)
    probs = predictions.fill(np.empty((N, K), np.float32), true)
    passes = None
    if F:
        passes = np.empty((F, N, K), np.float32)
        for f in range(F):
            predictions.fill(passes[f], true, f + 1)

    def detect(rows: slice, part_rows: int) -> int:
        part_passes = None if passes is None else passes[:, rows]
        if not in_parts:
            return int(
                uqled.find_label_errors(
                    labels[rows], probs[rows], part_passes, method=method
                ).n_flagged
            )
        with tempfile.TemporaryDirectory() as folder:
            return int(
                uqled.find_label_errors_in_parts(
                    labels[rows], probs[rows], part_passes, method=method,
                    out=Path(folder) / "out", part_rows=part_rows, progress=False,
                ).n_flagged
            )  # fmt: skip

    detect(slice(0, 2_000), 500)  # compiled from here on
    flags = detect(slice(0, N), N // 8)
    run: Callable[[], int] = lambda: detect(slice(0, N), N // 8)  # noqa: E731
    return {"seconds": machine.time_repeats(run, calls), "flags": flags}


def run_version(source: Path, name: str) -> dict[str, Any]:
    """Measure one case in a process that imports `uqled` from `source`."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{BENCHMARKS}"}
    command = [sys.executable, __file__, "--measure", name]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(output.stdout.splitlines()[-1])
    return result


def write_table(result: dict[str, Any]) -> str:
    lines = [
        "# Two versions of the source, taking turns",
        "",
        f"Before: {result['before']}. After: {result['after']}. "
        "Made by `benchmarks/detection_speed/compare_versions.py`.",
        machine.format_machine(result["machine"]),
        "Seconds: median (least to most, n). Ratio of the medians: below 1 is faster than before.",
        "",
        "| case | N x K, passes | before | after | ratio | flags before, after |",
        "|---|---|---|---|---:|---|",
    ]
    for name, case in result["cases"].items():
        N, K, F, *_ = CASES[name]
        before, after = (
            machine.summarize_times(case["before"]),
            machine.summarize_times(case["after"]),
        )
        cells = [
            f"{s['median']:.3g} ({s['least']:.3g} to {s['most']:.3g}, n = {s['n']})"
            for s in (before, after)
        ]
        ratio = after["median"] / before["median"]
        flags = " / ".join(f"{n:,}" for n in case["flags"])
        lines.append(
            f"| {name} | {N:,} x {K}, {F} | {cells[0]} | {cells[1]} | {ratio:.3f} | {flags} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="the other version's src folder")
    parser.add_argument("--before-name", help="how the table names it: its commit")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_case(options.measure)))
        return
    if options.before is None or not (options.before / "uqled").is_dir():
        parser.error(
            f"--before {options.before}: name the folder that holds the other version's uqled/"
        )
    about = machine.describe_machine()
    result: dict[str, Any] = {
        "machine": about,
        "before": options.before_name or "another version",
        "after": about["code"],
        "cases": {name: {"before": [], "after": [], "flags": [0, 0]} for name in CASES},
    }
    for turn in range(options.rounds):
        for name, case in result["cases"].items():
            order = ("before", "after") if turn % 2 == 0 else ("after", "before")
            for side in order:
                version = run_version(options.before if side == "before" else SOURCE, name)
                case[side] += version["seconds"]
                case["flags"][("before", "after").index(side)] = version["flags"]
            print(f"round {turn + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
    text = write_table(result)
    machine.save("compare_versions", result, text)
    print(text)


if __name__ == "__main__":
    main()
