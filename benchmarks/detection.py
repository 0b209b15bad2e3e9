"""Speed and memory of detection, beside cleanlab in the same run.

    python benchmarks/detection.py            everything; some fifteen minutes, 20 GB of memory
    python benchmarks/detection.py --small    the same at a hundredth of the size, to try it out

Each part runs in a process of its own. The goals stated in the table are the project's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import machine
import predictions

SIZES = {
    "imagenet": (1_281_167, 1_000),
    "hundred": (1_000_000, 100),
    "cifar": (50_000, 10),
    "six": (200_000, 1_000),
}


def against_cleanlab(N: int, K: int, *, repeats: int, cleanlab_repeats: int) -> dict[str, Any]:
    """CL-PBNR, ours and cleanlab's, and `auto`, taking turns on the same array."""
    from cleanlab.filter import find_label_issues

    import uqled

    labels, true = predictions.encode_labels(N, K)
    probs = predictions.fill(np.empty((N, K), np.float32), true)

    def ours() -> Any:
        return uqled.find_label_errors(labels, probs, method="cl-pbnr")

    def auto() -> Any:
        return uqled.find_label_errors(labels, probs)

    def theirs(jobs: int) -> Any:
        return find_label_issues(labels, probs, n_jobs=jobs)

    uqled.find_label_errors(labels[:1000], probs[:1000], method="all")  # compiled from here on
    with machine.PeakMemory() as memory:
        found = ours()
    with machine.PeakMemory() as memory_of_auto:
        auto()
    times: dict[str, list[float]] = {k: [] for k in ("ours", "auto", "max", "jobs 1", "jobs 2")}
    for _ in range(cleanlab_repeats):
        times["ours"] += machine.seconds(ours, repeats)
        times["auto"] += machine.seconds(auto, repeats)
        times["max"] += machine.seconds(lambda: probs.max(axis=1), repeats)
        for jobs in (1, 2):
            times[f"jobs {jobs}"] += machine.seconds(lambda jobs=jobs: theirs(jobs), 1)
    return {
        "N": N,
        "K": K,
        "accuracy": float((probs[:50_000].argmax(axis=1) == true[:50_000]).mean()),
        "seconds": {name: machine.spread(taken) for name, taken in times.items()},
        "extra_memory_share": memory.extra / probs.nbytes,
        "extra_memory_of_auto": memory_of_auto.extra / N,
        "flags_that_differ": int(np.count_nonzero(found.mask != theirs(1))),
        "flagged": found.n_flagged,
    }


def six_from_disk(N: int, K: int, *, folder: Path, repeats: int) -> dict[str, Any]:
    """All six algorithms with five passes, read from disk by a process with little memory."""
    _, true = predictions.encode_labels(N, K)
    files = {name: folder / f"{name}.npy" for name in ("labels", "probs", "passes")}
    np.save(files["labels"], predictions.encode_labels(N, K)[0])
    for name, shape in (("probs", (N, K)), ("passes", (5, N, K))):
        out = np.lib.format.open_memmap(files[name], "w+", np.float32, shape)
        for f, rows in enumerate(out.reshape(-1, N, K)):
            predictions.fill(rows, true, seed=f + (1 if name == "passes" else 0))
        out.flush()
        del out
    warm = [_child("six-child", "--folder", str(folder)) for _ in range(repeats)]
    read_cold, cold = [], []
    for _ in range(repeats):
        _drop(files)
        read_cold += machine.seconds(lambda: _read_all(files), 1)
        _drop(files)
        cold.append(_child("six-child", "--folder", str(folder))["seconds"])
    read_warm = machine.seconds(lambda: _read_all(files), repeats)

    theirs = {
        jobs: [
            _child(f"six-peer-{jobs}", "--folder", str(folder))["seconds"] for _ in range(repeats)
        ]
        for jobs in (1, 2)
    }
    return {
        "N": N,
        "K": K,
        "F": 5,
        "bytes": sum(path.stat().st_size for path in files.values()),
        "peak_memory": max(one["peak_memory"] for one in warm),
        "seconds": {
            "ours, warm": machine.spread([one["seconds"] for one in warm]),
            "ours, cold": machine.spread(cold),
            "reading once, warm": machine.spread(read_warm),
            "reading once, cold": machine.spread(read_cold),
            "cleanlab, one model in memory, n_jobs 1": machine.spread(theirs[1]),
            "cleanlab, one model in memory, n_jobs 2": machine.spread(theirs[2]),
        },
    }


def six_child(folder: Path) -> dict[str, Any]:
    import uqled

    labels = np.load(folder / "labels.npy")
    probs = np.load(folder / "probs.npy", mmap_mode="r")
    passes = np.load(folder / "passes.npy", mmap_mode="r")
    few = slice(0, 500)
    uqled.find_label_errors(  # compiled from here on
        labels[few], np.array(probs[few]), np.array(passes[:, few]), method="alg-ens"
    )
    with machine.PeakMemory() as memory:
        taken = machine.seconds(
            lambda: uqled.find_label_errors(labels, probs, passes, method="alg-ens"), 1
        )[0]
    return {"seconds": taken, "peak_memory": memory.peak}


def six_peer(folder: Path, jobs: int) -> dict[str, Any]:
    """One call of cleanlab's, like ours in a process of its own and after a small first one."""
    from cleanlab.filter import find_label_issues

    labels, probs = np.load(folder / "labels.npy"), np.load(folder / "probs.npy")
    find_label_issues(labels[:2000], probs[:2000], n_jobs=1)
    with machine.PeakMemory() as memory:
        taken = machine.seconds(lambda: find_label_issues(labels, probs, n_jobs=jobs), 1)[0]
    return {"seconds": taken, "peak_memory": memory.peak}


def _read_all(files: dict[str, Path]) -> None:
    buffer = bytearray(16 * 2**20)
    for path in files.values():
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _drop(files: dict[str, Path]) -> None:
    for path in files.values():
        machine.drop_from_page_cache(path)


def small_calls(N: int, K: int) -> dict[str, Any]:
    """A small set when everything is loaded and compiled."""
    from cleanlab.filter import find_label_issues

    import uqled

    labels, true = predictions.encode_labels(N, K)
    probs = predictions.fill(np.empty((N, K), np.float32), true)
    passes = np.stack([predictions.fill(np.empty((N, K), np.float32), true, f) for f in range(5)])
    calls = {
        "cl-pbnr": lambda: uqled.find_label_errors(labels, probs, method="cl-pbnr"),
        "auto": lambda: uqled.find_label_errors(labels, probs),
        "auto, five passes": lambda: uqled.find_label_errors(labels, probs, passes),
        "all methods, five passes": lambda: uqled.find_label_errors(
            labels, probs, passes, method="all"
        ),
        "cleanlab, n_jobs 1": lambda: find_label_issues(labels, probs, n_jobs=1),
        "cleanlab, n_jobs 2": lambda: find_label_issues(labels, probs, n_jobs=2),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(33):
        for name, call in calls.items():
            taken = machine.seconds(call, 1)
            times[name] += taken if turn >= 3 else []
    return {"N": N, "K": K, "seconds": {name: machine.spread(t) for name, t in times.items()}}


def start_up() -> dict[str, Any]:
    """Importing, and the first call on a machine and in a process."""
    call = (
        "import time, numpy as np, uqled\n"
        "rng = np.random.default_rng(0)\n"
        "p = rng.dirichlet(np.ones(10), (6, 50_000)).astype(np.float32)\n"
        "y = rng.integers(0, 10, 50_000)\n"
        "began = time.perf_counter()\n"
        "uqled.find_label_errors(y, p[0], METHOD)\n"
        "print(time.perf_counter() - began)\n"
    )
    pbnr = call.replace("METHOD", "method='cl-pbnr'")
    auto = call.replace("p[0], METHOD", "p[0]")
    everything = call.replace("METHOD", "p[1:], method='all'")
    importing = "import time\nbegan = time.perf_counter()\n{}\nprint(time.perf_counter() - began)"
    found: dict[str, list[float]] = {}
    for _ in range(3):
        for name, code in (
            ("import uqled", importing.format("import uqled")),
            ("import numpy alone", importing.format("import numpy")),
        ):
            found.setdefault(name, []).append(_printed(code))
        for name, code in (
            ("cl-pbnr", pbnr), ("auto", auto), ("all methods", everything),
        ):  # fmt: skip
            with tempfile.TemporaryDirectory() as cache:
                first = _printed(code, NUMBA_CACHE_DIR=cache)
                again = _printed(code, NUMBA_CACHE_DIR=cache)
            found.setdefault(f"{name}: first call on a machine", []).append(first)
            found.setdefault(f"{name}: first call in a process", []).append(again)
    return {"seconds": {name: machine.spread(times) for name, times in found.items()}}


def growth(scale: float) -> dict[str, Any]:
    """Times for growing N and growing K, and the exponents that fit them."""
    import uqled

    def taken(N: int, K: int, F: int, method: str) -> float:
        labels, true = predictions.encode_labels(N, K)
        probs = predictions.fill(np.empty((N, K), np.float32), true)
        passes = None
        if F:
            passes = np.stack(
                [predictions.fill(np.empty((N, K), np.float32), true, f) for f in range(F)]
            )
        uqled.find_label_errors(labels, probs, passes, method=method)
        return min(
            machine.seconds(
                lambda: uqled.find_label_errors(labels, probs, passes, method=method), 7
            )
        )

    found: dict[str, Any] = {}
    many = [int(n * scale) for n in (100_000, 200_000, 400_000, 800_000, 1_600_000)]
    few = [int(n * scale) for n in (50_000, 100_000, 200_000, 400_000)]
    classes = (125, 250, 500, 1000)
    for name, method, F, points in (
        ("cl-pbnr, growing N at K = 200", "cl-pbnr", 0, [(n, 200) for n in many]),
        (
            "cl-pbnr, growing K at the second N", "cl-pbnr", 0,
            [(many[1], k) for k in (*classes, 2000)],
        ),
        ("auto, growing N at K = 10", "auto", 0, [(n, 10) for n in many]),
        ("auto, growing K at the second N", "auto", 0, [(many[1], k) for k in classes]),
        ("six algorithms, growing N at K = 100", "alg-ens", 5, [(n, 100) for n in few]),
        ("six algorithms, growing K at the first N", "alg-ens", 5, [(few[0], k) for k in classes]),
    ):  # fmt: skip
        times = [taken(N, K, F, method) for N, K in points]
        sizes = [N if "growing N" in name else K for N, K in points]
        exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        found[name] = {"points": points, "seconds": times, "exponent": exponent}
    return found


def _printed(code: str, **variables: str) -> float:
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    return float(out.stdout)


def _child(part: str, *arguments: str) -> dict[str, Any]:
    """Run one part in a process of its own."""
    command = [sys.executable, __file__, "--part", part, *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return result


def part(name: str, scale: float, folder: Path) -> dict[str, Any]:
    if name == "six-child":
        return six_child(folder)
    if name.startswith("six-peer"):
        return six_peer(folder, int(name[-1]))
    if name == "start-up":
        return start_up()
    if name == "growth":
        return growth(scale)
    N, K = SIZES[name]
    N = int(N * scale)
    if name == "six":
        return six_from_disk(N, K, folder=folder, repeats=3)
    if name == "cifar":
        return small_calls(N, K)
    return against_cleanlab(N, K, repeats=5, cleanlab_repeats=3)


def table(result: dict[str, Any]) -> str:
    """The result as a page."""
    m = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in m["versions"].items())
    lines = [
        "# Detection: speed and memory",
        "",
        f"{m['date']}, code {m['code']}; {m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB; "
        f"Python {m['python']}, {versions}. Made by `benchmarks/detection.py`. Times in seconds: "
        "median (least to most, n). Ratios are of medians.",
        "",
        "| what | measured | goal | |",
        "|---|---|---|---|",
    ]

    def row(what: str, measured: str, goal: str = "", met: bool | None = None) -> None:
        mark = "" if met is None else ("met" if met else "**missed**")
        lines.append(f"| {what} | {measured} | {goal} | {mark} |")

    def shown(s: dict[str, Any]) -> str:
        return f"{s['median']:.3g} ({s['least']:.3g} to {s['most']:.3g}, n = {s['n']})"

    for name, least in (("imagenet", 30), ("hundred", 15)):
        r = result[name]
        s = r["seconds"]
        size = f"{r['N']:,} x {r['K']:,} float32"
        best = min(s["jobs 1"]["median"], s["jobs 2"]["median"])
        ratio = best / s["ours"]["median"]
        row(f"CL-PBNR, {size}: ours", shown(s["ours"]))
        row(f"CL-PBNR, {size}: cleanlab, n_jobs 1", shown(s["jobs 1"]))
        row(f"CL-PBNR, {size}: cleanlab, n_jobs 2", shown(s["jobs 2"]))
        row(f"CL-PBNR, {size}: times faster than the better", f"{ratio:.1f}", f">= {least}",
            ratio >= least)  # fmt: skip
        if name == "imagenet":
            reads = s["ours"]["median"] / s["max"]["median"]
            row(f"`pred_probs.max(axis=1)`, {size}", shown(s["max"]))
            row("CL-PBNR in units of that", f"{reads:.2f}", "<= 3", reads <= 3)
            share = r["extra_memory_share"]
            row("extra peak memory, share of the input", f"{share:.1%}", "<= 10 %", share <= 0.1)
        row(
            f"flags that differ from cleanlab's, {size}",
            f"{r['flags_that_differ']} of {r['flagged']:,}",
        )
        beside = best / s["auto"]["median"]
        row(f"`auto`, the default, {size}", shown(s["auto"]))
        row(f"the better of cleanlab's times over `auto`'s, {size}", f"{beside:.2f}")
        row(f"`auto`, {size}: extra peak memory per sample",
            f"{r['extra_memory_of_auto']:.0f} bytes")  # fmt: skip
    r = result["six"]
    s = r["seconds"]
    size = f"{r['N']:,} x {r['K']:,}, F = 5 ({r['bytes'] / 1e9:.1f} GB on disk)"
    better = min(s[f"cleanlab, one model in memory, n_jobs {jobs}"]["median"] for jobs in (1, 2))
    ratio = s["ours, warm"]["median"] / better
    for name, times in s.items():
        row(f"six algorithms, {size}: {name}", shown(times))
    row("six algorithms in units of one cleanlab call", f"{ratio:.2f}", "<= 2", ratio <= 2)
    gigabytes = r["peak_memory"] / 1e9
    row("six algorithms: peak resident size", f"{gigabytes:.2f} GB", "< 2 GB", gigabytes < 2)
    r = result["cifar"]
    for name, times in r["seconds"].items():
        goal = name == "cl-pbnr"
        row(f"{r['N']:,} x {r['K']}, warm: {name}", shown(times), "< 0.03" if goal else "",
            times["median"] < 0.03 if goal else None)  # fmt: skip
    s = r["seconds"]
    beside = min(s[f"cleanlab, n_jobs {jobs}"]["median"] for jobs in (1, 2)) / s["auto"]["median"]
    row(
        f"{r['N']:,} x {r['K']}, warm: the better of cleanlab's times over `auto`'s",
        f"{beside:.2f}",
    )
    for name, times in result["start-up"]["seconds"].items():
        goal = name == "import uqled"
        row(name, shown(times), "< 0.5" if goal else "", times["median"] < 0.5 if goal else None)
    for name, g in result["growth"].items():
        row(f"exponent of {name}", f"{g['exponent']:.2f}", "linear: 1", g["exponent"] < 1.1)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--part")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(part(arguments.part, arguments.scale, arguments.folder)))
        return
    scale = 0.01 if arguments.small else 1.0
    result: dict[str, Any] = {"machine": machine.described(), "scale": scale}
    for name in ("start-up", "cifar", "hundred", "imagenet", "six", "growth"):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            result[name] = _child(name, "--scale", str(scale), "--folder", folder)
            print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    if arguments.small:
        print(table(result))
    else:
        machine.save("detection", result, table(result))


if __name__ == "__main__":
    main()
