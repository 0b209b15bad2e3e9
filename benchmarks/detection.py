"""Speed and memory of detection, beside cleanlab in the same run.

    python benchmarks/detection.py                           everything, 20 GB of memory
    python benchmarks/detection.py --parts cifar start-up    these alone; the others' results stay
    python benchmarks/detection.py --small                   at a hundredth of the size, to try it

On two cores about: `cifar` 1 minute, `hundred` 2, `start-up` 3, `imagenet` 6, `six` 4, `growth` 4;
`avx2` 3, which repeats the first two with AVX2 alone where the processor has AVX-512.

Each part runs in a process of its own, and its result carries the machine, its instruction set, the
date and the code it was measured with. It is written when it is there, so that an interruption
costs one part. The goals stated in the table are the project's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np

import machine
import predictions
from detection_speed.instructions import limit_to_avx2
from detection_speed.page import render_page
from uqled.engines.local import count_cores

SIZES = {
    "imagenet": (1_281_167, 1_000),
    "hundred": (1_000_000, 100),
    "cifar": (50_000, 10),
    "six": (200_000, 1_000),
}
#: What is called first, with five passes where it says so.
FIRST_CALLS = {
    "cl-pbnr": "uqled.find_label_errors(y, p[0], method='cl-pbnr')",
    "auto": "uqled.find_label_errors(y, p[0])",
    "all methods, five passes": "uqled.find_label_errors(y, p[0], p[1:], method='all')",
    "cl-mcd-e, five passes": "uqled.find_label_errors(y, p[0], p[1:], method='cl-mcd-e')",
    "alg-ens, five passes": "uqled.find_label_errors(y, p[0], p[1:], method='alg-ens')",
    "cl-mcd-m, -mi, -vr and -sd, five passes": (
        "uqled.find_label_errors("
        "y, p[0], p[1:], method=['cl-mcd-m', 'cl-mcd-mi', 'cl-mcd-vr', 'cl-mcd-sd'])"
    ),
    "auto in parts, five passes": (
        "uqled.find_label_errors_in_parts(y, p[0], p[1:], out=OUT, progress=False)"
    ),
}
#: In the order in which they are measured.
PARTS = ("cifar", "hundred", "start-up", "imagenet", "six", "growth", "avx2")


def compare_with_cleanlab(N: int, K: int, *, repeats: int, cleanlab_repeats: int) -> dict[str, Any]:
    """CL-PBNR, ours and cleanlab's, and `auto`, taking turns on the same array."""
    from cleanlab.filter import find_label_issues

    import uqled

    labels, true = predictions.encode_labels(N, K)
    probs = predictions.fill(np.empty((N, K), np.float32), true)

    def detect_with_uqled() -> Any:
        return uqled.find_label_errors(labels, probs, method="cl-pbnr")

    def auto() -> Any:
        return uqled.find_label_errors(labels, probs)

    def detect_with_cleanlab(jobs: int) -> Any:
        return find_label_issues(labels, probs, n_jobs=jobs)

    machine.compile_kernels(K)
    read_with_threads(probs[:100])
    with machine.PeakMemory() as memory:
        errors = detect_with_uqled()
    with machine.PeakMemory() as memory_of_auto:
        auto()
    times: dict[str, list[float]] = {
        k: [] for k in ("ours", "auto", "max", "read", "jobs 1", "jobs 2")
    }
    for _ in range(cleanlab_repeats):
        times["ours"] += machine.time_repeats(detect_with_uqled, repeats)
        times["auto"] += machine.time_repeats(auto, repeats)
        times["max"] += machine.time_repeats(lambda: probs.max(axis=1), repeats)
        times["read"] += machine.time_repeats(lambda: read_with_threads(probs), repeats)
        for jobs in (1, 2):
            times[f"jobs {jobs}"] += machine.time_repeats(
                lambda jobs=jobs: detect_with_cleanlab(jobs), 1
            )
    return {
        "N": N,
        "K": K,
        "bytes": probs.nbytes,
        "threads": count_cores(),
        "accuracy": float((probs[:50_000].argmax(axis=1) == true[:50_000]).mean()),
        "seconds": {name: machine.summarize_times(seconds) for name, seconds in times.items()},
        "extra_memory_share": memory.extra / probs.nbytes,
        "extra_memory_of_auto": memory_of_auto.extra / N,
        "flags_that_differ": int(np.count_nonzero(errors.mask != detect_with_cleanlab(1))),
        "flagged": errors.n_flagged,
    }


@numba.njit(nogil=True)
def find_largest_bits(values: Any) -> int:
    """Reads every value once and does next to nothing with it, in vector code."""
    most = values[0]
    for i in range(values.size):
        most = max(most, values[i])
    return most


def read_with_threads(probs: Any) -> None:
    """Read all bytes once, with a thread per core: no method that looks at each probability can
    take less time."""
    threads, values = count_cores(), probs.reshape(-1).view(np.int32)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(find_largest_bits, np.array_split(values, threads)))


def measure_six_from_disk(N: int, K: int, *, folder: Path, repeats: int) -> dict[str, Any]:
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
    warm = [_run_child("six-child", "--folder", str(folder)) for _ in range(repeats)]
    read_cold, cold = [], []
    for _ in range(repeats):
        _drop(files)
        read_cold += machine.time_repeats(lambda: _read_all(files), 1)
        _drop(files)
        cold.append(_run_child("six-child", "--folder", str(folder))["seconds"])
    read_warm = machine.time_repeats(lambda: _read_all(files), repeats)

    theirs = {
        jobs: [
            _run_child(f"six-peer-{jobs}", "--folder", str(folder))["seconds"]
            for _ in range(repeats)
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
            "ours, warm": machine.summarize_times([one["seconds"] for one in warm]),
            "ours, cold": machine.summarize_times(cold),
            "reading once, warm": machine.summarize_times(read_warm),
            "reading once, cold": machine.summarize_times(read_cold),
            "cleanlab, one model in memory, n_jobs 1": machine.summarize_times(theirs[1]),
            "cleanlab, one model in memory, n_jobs 2": machine.summarize_times(theirs[2]),
        },
    }


def measure_six_in_child(folder: Path) -> dict[str, Any]:
    import uqled

    labels = np.load(folder / "labels.npy")
    probs = np.load(folder / "probs.npy", mmap_mode="r")
    passes = np.load(folder / "passes.npy", mmap_mode="r")
    machine.compile_kernels(probs.shape[1], len(passes))
    with machine.PeakMemory() as memory:
        seconds = machine.time_repeats(
            lambda: uqled.find_label_errors(labels, probs, passes, method="alg-ens"), 1
        )[0]
    return {"seconds": seconds, "peak_memory": memory.peak}


def measure_peer_in_child(folder: Path, jobs: int) -> dict[str, Any]:
    """One call of cleanlab's, like ours in a process of its own and after a small first one."""
    from cleanlab.filter import find_label_issues

    labels, probs = np.load(folder / "labels.npy"), np.load(folder / "probs.npy")
    find_label_issues(labels[:2000], probs[:2000], n_jobs=1)
    with machine.PeakMemory() as memory:
        seconds = machine.time_repeats(lambda: find_label_issues(labels, probs, n_jobs=jobs), 1)[0]
    return {"seconds": seconds, "peak_memory": memory.peak}


def _read_all(files: dict[str, Path]) -> None:
    buffer = bytearray(16 * 2**20)
    for path in files.values():
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _drop(files: dict[str, Path]) -> None:
    for path in files.values():
        machine.drop_from_page_cache(path)


def measure_small_calls(N: int, K: int) -> dict[str, Any]:
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
            seconds = machine.time_repeats(call, 1)
            times[name] += seconds if turn >= 3 else []
    return {
        "N": N,
        "K": K,
        "seconds": {name: machine.summarize_times(t) for name, t in times.items()},
    }


def start_up() -> dict[str, Any]:
    """Importing, and the first call on a machine and in a process, imports included."""
    call = (
        "import time\n"
        "began = time.perf_counter()\n"
        "import numpy as np, uqled\n"
        "loaded = time.perf_counter()\n"
        "rng = np.random.default_rng(0)\n"
        "p = rng.dirichlet(np.ones(10), (6, {N})).astype(np.float32)\n"
        "y = rng.integers(0, 10, {N})\n"
        "made = time.perf_counter()\n"
        "{call}\n"
        "print(time.perf_counter() - made + loaded - began)\n"
    )
    importing = "import time\nbegan = time.perf_counter()\n{}\nprint(time.perf_counter() - began)"
    results: dict[str, list[float]] = {}
    for _ in range(3):
        for name, code in (
            ("import uqled", importing.format("import uqled")),
            ("import numpy alone", importing.format("import numpy")),
        ):
            results.setdefault(name, []).append(_run_part(code))
        for N, (name, one) in itertools.product((600, 50_000), FIRST_CALLS.items()):
            with tempfile.TemporaryDirectory() as cache:
                code = call.format(N=N, call=one.replace("OUT", f"'{cache}/out'"))
                first = _run_part(code, NUMBA_CACHE_DIR=cache)
                shutil.rmtree(f"{cache}/out", ignore_errors=True)
                again = _run_part(code, NUMBA_CACHE_DIR=cache)
            what = f"{name}, {N:,} x 10"
            results.setdefault(f"{what}: first call on a machine", []).append(first)
            results.setdefault(f"{what}: first call in a process", []).append(again)
        results.setdefault("`uqled detect`: first call on a machine", []).append(_time_command())
    return {"seconds": {name: machine.summarize_times(times) for name, times in results.items()}}


def _time_command() -> float:
    """Seconds of `uqled detect` on 50,000 x 10 with an empty cache of compiled code."""
    labels, true = predictions.encode_labels(50_000, 10)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/labels.npy", labels)
        np.save(f"{folder}/probs.npy", predictions.fill(np.empty((50_000, 10), np.float32), true))
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "uqled", "detect", "--labels", "labels.npy",
             "--pred-probs", "probs.npy", "--out", "flags.parquet"],
            cwd=folder, check=True, capture_output=True,
            env={**os.environ, "NUMBA_CACHE_DIR": f"{folder}/1", "UQLED_CACHE": f"{folder}/2"},
        )  # fmt: skip
        return time.perf_counter() - began


def measure_growth(scale: float) -> dict[str, Any]:
    """Times for growing N and growing K, and the exponents that fit them."""
    import uqled

    def time_calls(N: int, K: int, F: int, method: str) -> float:
        labels, true = predictions.encode_labels(N, K)
        probs = predictions.fill(np.empty((N, K), np.float32), true)
        passes = None
        if F:
            passes = np.stack(
                [predictions.fill(np.empty((N, K), np.float32), true, f) for f in range(F)]
            )
        uqled.find_label_errors(labels, probs, passes, method=method)
        return min(
            machine.time_repeats(
                lambda: uqled.find_label_errors(labels, probs, passes, method=method), 7
            )
        )

    results: dict[str, Any] = {}
    large_n = [int(n * scale) for n in (100_000, 200_000, 400_000, 800_000, 1_600_000)]
    small_n = [int(n * scale) for n in (50_000, 100_000, 200_000, 400_000)]
    classes = (125, 250, 500, 1000)
    for name, method, F, points in (
        ("cl-pbnr, growing N at K = 200", "cl-pbnr", 0, [(n, 200) for n in large_n]),
        (
            "cl-pbnr, growing K at the second N", "cl-pbnr", 0,
            [(large_n[1], k) for k in (*classes, 2000)],
        ),
        ("auto, growing N at K = 10", "auto", 0, [(n, 10) for n in large_n]),
        ("auto, growing K at the second N", "auto", 0, [(large_n[1], k) for k in classes]),
        ("six algorithms, growing N at K = 100", "alg-ens", 5, [(n, 100) for n in small_n]),
        (
            "six algorithms, growing K at the first N", "alg-ens", 5,
            [(small_n[0], k) for k in classes],
        ),
    ):  # fmt: skip
        times = [time_calls(N, K, F, method) for N, K in points]
        sizes = [N if "growing N" in name else K for N, K in points]
        exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        results[name] = {"points": points, "seconds": times, "exponent": exponent}
    return {"exponents": results}


def _run_part(code: str, **variables: str) -> float:
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    return float(out.stdout)


def _run_child(part: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """Run one part in a process of its own."""
    command = [sys.executable, __file__, "--child", part, *arguments]
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    result: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return result


def part(name: str, scale: float, folder: Path) -> dict[str, Any]:
    if name == "six-child":
        return measure_six_in_child(folder)
    if name.startswith("six-peer"):
        return measure_peer_in_child(folder, int(name[-1]))
    if name == "start-up":
        return start_up()
    if name == "growth":
        return measure_growth(scale)
    N, K = SIZES[name]
    N = int(N * scale)
    if name == "six":
        return measure_six_from_disk(N, K, folder=folder, repeats=3)
    if name == "cifar":
        return measure_small_calls(N, K)
    return compare_with_cleanlab(N, K, repeats=5, cleanlab_repeats=3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(part(arguments.child, arguments.scale, arguments.folder)))
        return
    if arguments.small:
        result: dict[str, Any] = {}
        measure_parts(arguments.parts, 0.01, result)
        print(render_page(result))
        return
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in arguments.parts:
        measure_parts([name], 1.0, result)
        machine.save("detection", result, render_page(result))


RESULT = machine.RESULTS / "detection.json"


def measure_parts(names: Sequence[str], scale: float, result: dict[str, Any]) -> None:
    """Measure some parts, and put what was found in their place."""
    about, limits = machine.describe_machine(), limit_to_avx2()
    for name in names:
        began = time.perf_counter()
        print(f"{name} ...", file=sys.stderr, flush=True)
        own_machine = about
        if name != "avx2":
            measurement = measure_part(name, scale)
        elif limits:
            settings = " ".join(f"{k}='{v}'" for k, v in limits.items())
            repetitions = {k: measure_part(k, scale, **limits) for k in ("cifar", "hundred")}
            measurement = {"limits": settings, **repetitions}
            own_machine = {**about, "instructions": f"{about['instructions']}, limited to AVX2"}
        else:  # a processor without AVX-512 was measured as it is
            result.pop(name, None)
            continue
        minutes = (time.perf_counter() - began) / 60
        result[name] = {"machine": own_machine, "minutes": minutes, **measurement}
        print(f"{name}: {minutes:.1f} minutes", file=sys.stderr, flush=True)


def measure_part(name: str, scale: float, **variables: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return _run_child(name, "--scale", str(scale), "--folder", folder, **variables)


if __name__ == "__main__":
    main()
