"""Detection in parts: more than memory, on Ray, and how time grows.

In `benchmarks/`:

    python -m scale.measure --work FOLDER                 everything; about an hour
    python -m scale.measure --work FOLDER --only n k      some sections, merged with the others
    python -m scale.measure --work FOLDER --small         tiny, to try it out; kept in FOLDER
    python -m scale.measure --tables-only                 the tables again, of what was measured

Sections: `out-of-core` (arrays of 1.5 times the memory, beside plain reading), `ray` (beside the
local engine), growth with `n`, `k`, `f` and `workers`, and `driver` (its memory on Ray;
`driver-few-classes`: where no new pairs of classes turn up as N grows). Each
detection runs in a process of its own, after a small one that loads and compiles everything. What
was measured is saved after each section, to `benchmarks/results/scale.*` and `docs/scale.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import machine
from scale import page
from scale.runs import (
    ScaleData,
    make_data,
    prepare_parts,
    read_all,
    remove_after,
    run_child,
    say,
    select_first,
)

PACKAGES = ("uqled", "numpy", "numba", "pandas", "pyarrow", "ray")
#: Of a file, about; and of the trial.
SHARD_BYTES, SMALL_SHARD_BYTES = 10**9, 10**7
MEMORY_SHARE = 1.5
#: Sizes of the growth with N.
ROWS = (200_000, 400_000, 800_000, 1_600_000, 3_200_000)


# -- in a process of its own ----------------------------------------------------------------------


# -- the sections ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaleSetting:
    work: Path
    small: bool
    bytes: int
    keep: bool
    repeats: int
    workers: int

    @property
    def shard_bytes(self) -> int:
        return SMALL_SHARD_BYTES if self.small else SHARD_BYTES

    def sizes(self, *numbers: int) -> list[int]:
        """Numbers of samples; of the trial, a fiftieth."""
        return [n // 50 for n in numbers] if self.small else list(numbers)

    def detection(
        self, data: ScaleData, *, engine: str = "local", workers: int = 0
    ) -> dict[str, Any]:
        out = self.work / "out"
        shutil.rmtree(out, ignore_errors=True)
        result = run_child(
            "detection", data, engine=engine, workers=workers or self.workers, out=str(out)
        )
        shutil.rmtree(out)
        return result

    def repeat(self, data: ScaleData, **options: Any) -> dict[str, Any]:
        """Several detections of what is in the file cache."""
        return self.take_turns([data], **options)[0]

    def take_turns(self, sets: list[ScaleData], **options: Any) -> list[dict[str, Any]]:
        """Several rounds of detections of what is in the file cache, of one set after the other: a
        machine that is slower for a while is so for all of them."""
        for data in sets:
            read_all(data.files, self.workers, times=1)
        rounds = [[self.detection(data, **options) for data in sets] for _ in range(self.repeats)]
        result = []
        for data, runs in zip(sets, zip(*rounds, strict=True), strict=True):
            seconds = [one["seconds"] for one in runs]
            result.append(
                {
                    "N": data.N,
                    "K": data.K,
                    "F": data.F,
                    "bytes": data.bytes,
                    "seconds": machine.summarize_times(seconds),
                    "rounds": seconds,
                    "peak_memory": machine.summarize_times([one["peak_memory"] for one in runs]),
                }
            )
            median = machine.summarize_times(seconds)["median"]
            say(f"  N {data.N:,} K {data.K:,} F {data.F}: {median:.3g} s")
        return result


def measure_out_of_core(setting: ScaleSetting) -> dict[str, Any]:
    K, F = 1_000, 5
    N = -(-setting.bytes // (4 * K * (F + 1)))
    plans: dict[str, Any] = {"engine": "local", "workers": setting.workers}
    with remove_after(
        make_data(setting.work, N, K, F, setting.shard_bytes // (4 * K)), setting.keep
    ) as data:
        data.drop()
        plan = run_child("plan", data, out=str(setting.work / "out"), **plans)
        say(f"  planned: {plan['seconds']:.1f} s, {plan['memory'] / 1e9:.2f} GB")
        reading, direct_times, detections = [], [], []
        for number in range(setting.repeats):
            data.drop()
            reading.append(run_child("reading", data, workers=setting.workers)["seconds"])
            data.drop()
            direct_times.append(
                run_child("reading past the cache", data, workers=setting.workers)["seconds"]
            )
            data.drop()
            detections.append(setting.detection(data))
            say(
                f"  repeat {number + 1}: reading three times {reading[-1]:.1f} s, "
                f"past the cache {direct_times[-1]:.1f} s, "
                f"detection {detections[-1]['seconds']:.1f} s, "
                f"{detections[-1]['peak_memory'] / 1e9:.2f} GB"
            )
        size = data.bytes
    times = [one["seconds"] for one in detections]
    memory = {
        "to_read": max(one["read"] for one in detections),
        "to_write": max(one["written"] for one in detections),
        "memory": max(one["peak_memory"] for one in detections),
        "seconds": machine.summarize_times(times)["median"],
    }
    return {
        "N": N,
        "K": K,
        "F": F,
        "bytes": size,
        "workers": setting.workers,
        "memory_share": size / measure_total_memory(),
        "result_bytes": detections[0]["result_bytes"],
        "seconds": {
            "reading three times": machine.summarize_times(reading),
            "reading past the cache": machine.summarize_times(direct_times),
            "detection": machine.summarize_times(times),
        },
        "ratio": machine.summarize_times([d / r for d, r in zip(times, reading, strict=True)]),
        "ratio_past_cache": machine.summarize_times(
            [d / r for d, r in zip(times, direct_times, strict=True)]
        ),
        "peak_memory": machine.summarize_times([one["peak_memory"] for one in detections]),
        "plan": {
            name: {
                "planned": plan[name],
                "measured": number,
                "error": plan[name] / number - 1,
            }
            for name, number in memory.items()
        },
        "planning_seconds": plan["took"],
    }


def measure_ray(setting: ScaleSetting) -> dict[str, Any]:
    K, F = 1_000, 5
    (N,) = setting.sizes(200_000)
    with remove_after(
        make_data(setting.work, N, K, F, setting.shard_bytes // (8 * K)), setting.keep
    ) as data:
        result = run_child(
            "ray beside local", data, workers=2, out=str(setting.work / "out"),
            repeats=max(3, setting.repeats),
        )  # fmt: skip
        return {"N": N, "K": K, "F": F, "bytes": data.bytes, "workers": 2, **result}


def measure_growth_with_n(setting: ScaleSetting) -> dict[str, Any]:
    points = [lambda n=n: _take_first_rows(setting, n) for n in setting.sizes(*ROWS)]
    return _measure_growth(points, setting, measure_reference=lambda p: p["N"])


def measure_growth_with_k(setting: ScaleSetting) -> dict[str, Any]:
    (N,) = setting.sizes(100_000)
    points = [
        lambda K=K: make_data(setting.work, N, K, 5, N // 4) for K in (50, 100, 200, 400, 800, 1600)
    ]
    return _measure_growth(points, setting, measure_reference=lambda p: p["K"])


def measure_growth_with_f(setting: ScaleSetting) -> dict[str, Any]:
    (N,) = setting.sizes(400_000)

    def make_data_of(F: int) -> ScaleData:
        return select_first(make_data(setting.work, N, 100, 15, N // 4), F=F)

    points = [lambda F=F: make_data_of(F) for F in (1, 3, 7, 15)]
    # F passes and the softmax are read.
    return _measure_growth(points, setting, measure_reference=lambda p: p["F"] + 1)


def _take_first_rows(setting: ScaleSetting, n: int, K: int = 100) -> ScaleData:
    """The first n of one large set of F = 5."""
    least, *_, most = setting.sizes(*ROWS)
    shard = least // 2
    return select_first(make_data(setting.work, most, K, 5, shard), shards=n // shard)


def _measure_growth(
    points: list[Callable[[], ScaleData]],
    setting: ScaleSetting,
    *,
    measure_reference: Callable[[Any], int],
) -> dict[str, Any]:
    """Times of growing data, and the exponents that fit each round: over all, and at the end."""
    sets = [make() for make in points]
    result = setting.take_turns(sets)
    for data in sets:
        if not (data.folder / "made").exists() or not setting.keep:
            shutil.rmtree(data.folder)
    sizes = np.log([measure_reference(p) for p in result])
    rounds = np.log([p["rounds"] for p in result]).T
    return {
        "points": result,
        "workers": setting.workers,
        "exponent": machine.summarize_times([float(np.polyfit(sizes, r, 1)[0]) for r in rounds]),
        "last_doubling": machine.summarize_times(
            [float((r[-1] - r[-2]) / (sizes[-1] - sizes[-2])) for r in rounds]
        ),
    }


def measure_growth_with_workers(setting: ScaleSetting) -> dict[str, Any]:
    data = _take_first_rows(setting, setting.sizes(*ROWS)[-2])
    result: dict[str, Any] = {}
    for engine in ("local", "ray"):
        for workers in (1, 2):
            say(f"  {engine}, {workers}")
            result[f"{engine} {workers}"] = setting.repeat(data, engine=engine, workers=workers)
    shutil.rmtree(data.folder)
    return result


def measure_driver_memory(setting: ScaleSetting, K: int = 100) -> dict[str, Any]:
    """The driver's largest resident size, on Ray with two workers, against N."""
    points = []
    for n in setting.sizes(*ROWS):
        data = _take_first_rows(setting, n, K)
        points.append(setting.repeat(data, engine="ray", workers=2))
        shutil.rmtree(data.folder)
    peaks = [p["peak_memory"]["median"] for p in points]
    return {"points": points, "growth": peaks[-1] / peaks[0] - 1}


def measure_driver_memory_of_few_classes(setting: ScaleSetting) -> dict[str, Any]:
    """So few that every pair of them is there from the least N on."""
    return measure_driver_memory(setting, K=20)


SECTIONS: dict[str, Callable[[ScaleSetting], dict[str, Any]]] = {
    "ray": measure_ray,
    "n": measure_growth_with_n,
    "driver": measure_driver_memory,
    "driver-few-classes": measure_driver_memory_of_few_classes,
    "workers": measure_growth_with_workers,
    "k": measure_growth_with_k,
    "f": measure_growth_with_f,
    "out-of-core": measure_out_of_core,
}


def estimate_needs() -> dict[str, Any]:
    """Memory that sets nobody has here would take, by the plan's own arithmetic."""
    from uqled.detect.parts.cost import estimate_cost
    from uqled.engines.local import Threads

    result = {}
    for name, N, K in page.IMAGINED_SETS:
        parts = prepare_parts(
            _ImaginaryInput((N,), np.int64), _ImaginaryInput((N, K)), _ImaginaryInput((5, N, K)),
            out="nowhere", engine=Threads(1),
        )  # fmt: skip
        cost = estimate_cost(parts, Threads(2))
        result[name] = {
            "N": N,
            "K": K,
            "F": 5,
            "parts": len(parts.parts),
            "worker": cost.worker,
            "driver": cost.driver,
        }
    return result


class _ImaginaryInput:
    """The shape of an array, and zeros where it is looked at."""

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Any:
        return np.zeros(len(range(*rows.indices(self.shape[0]))), self.dtype)


def measure_total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, help="a folder with room for the arrays")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--bytes", type=float, help="of out-of-core; 1.5 times the memory")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep the arrays")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--tables-only", action="store_true")
    options = parser.parse_args()
    if options.tables_only:
        result = json.loads((machine.RESULTS / "scale.json").read_text())
        page.save({**result, "needs": estimate_needs()}, machine.RESULTS, into_documents=True)
        return
    if options.work is None:
        parser.error("--work is missing: name a folder with room for the arrays")
    options.work.mkdir(parents=True, exist_ok=True)
    size = options.bytes or (6e7 if options.small else MEMORY_SHARE * measure_total_memory())
    setting = ScaleSetting(
        options.work, options.small, int(size), options.keep, options.repeats, options.workers
    )
    place = options.work / "results" if options.small else machine.RESULTS
    place.mkdir(exist_ok=True)
    file = place / "scale.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    for name in SECTIONS:
        if name in options.only:
            say(name)
            began = time.perf_counter()
            section = SECTIONS[name](setting)
            result[name] = {"machine": machine.describe_machine(PACKAGES), **section}
            result["needs"] = estimate_needs()
            page.save(result, place, into_documents=not options.small)
            say(f"{name}: {time.perf_counter() - began:.0f} s")
    if not options.keep:
        for mark in options.work.glob("*/made"):
            shutil.rmtree(mark.parent)
    say((place / "scale.md").read_text())


if __name__ == "__main__":
    main()
