"""Detection in parts: more than memory, on Ray, and how time grows.

    python benchmarks/scale.py --work FOLDER                 everything; about an hour
    python benchmarks/scale.py --work FOLDER --only n k      some sections, merged with the others
    python benchmarks/scale.py --work FOLDER --small         tiny, to try it out; kept in FOLDER
    python benchmarks/scale.py --tables-only                 the tables again, of what was measured

Sections: `out-of-core` (arrays of 1.5 times the memory, beside plain reading), `ray` (beside the
local engine), growth with `n`, `k`, `f` and `workers`, and `driver` (its memory on Ray;
`driver-few-classes`: where no new pairs of classes turn up as N grows). Each
detection runs in a process of its own, after a small one that loads and compiles everything. What
was measured is saved after each section, to `benchmarks/results/scale.*` and `docs/scale.md`.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import machine
import predictions
import scale_page

#: It needs every member of the six algorithms of the paper.
METHOD = "alg-ens"
PACKAGES = ("uqled", "numpy", "numba", "pandas", "pyarrow", "ray")
#: Of a file, about; and of the trial.
SHARD_BYTES, SMALL_SHARD_BYTES = 10**9, 10**7
MEMORY_SHARE = 1.5
#: Sizes of the growth with N.
ROWS = (200_000, 400_000, 800_000, 1_600_000, 3_200_000)


@dataclass(frozen=True)
class Data:
    """Labels [N], probabilities [N,K] and passes [F,N,K], float32, in `.npy` shards."""

    folder: Path
    N: int
    K: int
    F: int

    @property
    def inputs(self) -> tuple[str, str, str]:
        """Addresses, as detection takes them."""
        return tuple(str(self.folder / name) for name in ("labels", "probs", "passes"))  # type: ignore[return-value]

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.npy"))

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files)

    def drop(self) -> None:
        """The next read of each file comes from the disk."""
        for path in self.files:
            machine.drop_from_page_cache(path)

    def told(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "N": self.N, "K": self.K, "F": self.F}


def made(work: Path, N: int, K: int, F: int, shard_rows: int) -> Data:
    """Make the shards, unless they are there."""
    data = Data(work / f"{N}-{K}-{F}-{shard_rows}", N, K, F)
    if (data.folder / "made").exists():
        say(f"  {data.folder.name} is there already")
        return data
    needed, room = 4 * N * K * (F + 1), shutil.disk_usage(work).free
    if needed > 0.95 * room:
        raise SystemExit(f"{needed / 1e9:.0f} GB would not fit in {work}: lower --bytes")
    shutil.rmtree(data.folder, ignore_errors=True)
    names = ["probs", *(f"passes/{f}" for f in range(F))]
    for name in ("labels", *names):
        (data.folder / name).mkdir(parents=True)
    labels, true = predictions.encode_labels(N, K)
    starts = range(0, N, shard_rows)
    for shard, start in enumerate(starts):
        rows = slice(start, min(start + shard_rows, N))
        np.save(data.folder / "labels" / f"part-{shard}.npy", labels[rows])
        for f, name in enumerate(names):
            out = np.empty((len(true[rows]), K), np.float32)
            predictions.fill(out, true[rows], seed=shard * 1000 + f)
            np.save(data.folder / name / f"part-{shard}.npy", out)
        say(f"  made shard {shard + 1} of {len(starts)}")
    (data.folder / "made").touch()
    return data


def first(data: Data, *, shards: int | None = None, F: int | None = None) -> Data:
    """The first shards, or the first passes, of what was made: other names for the same files."""
    F = data.F if F is None else F
    some = sorted((data.folder / "labels").iterdir(), key=lambda path: int(path.stem[5:]))[:shards]
    N = sum(np.load(path, mmap_mode="r").shape[0] for path in some)
    found = Data(data.folder.with_name(f"{data.folder.name}-first-{N}-{F}"), N, data.K, F)
    shutil.rmtree(found.folder, ignore_errors=True)
    for name in ("labels", "probs", *(f"passes/{f}" for f in range(F))):
        (found.folder / name).mkdir(parents=True)
        for path in some:
            os.link(data.folder / name / path.name, found.folder / name / path.name)
    return found


@contextmanager
def gone_after(data: Data, keep: bool) -> Iterator[Data]:
    yield data
    if not keep:
        shutil.rmtree(data.folder)


# -- in a process of its own ----------------------------------------------------------------------


def detect(data: Data, engine: Any, workers: int | None, out: Path, **options: Any) -> Any:
    from uqled.detect.parts.prepare import find_label_errors_in_parts

    return find_label_errors_in_parts(
        *data.inputs, method=METHOD, out=out, engine=engine, workers=workers, progress=False,
        **options,
    )  # fmt: skip


def warm(K: int, F: int, engine: Any, workers: int | None) -> None:
    """A small detection that loads and compiles everything, in every worker."""
    from uqled.detect.parts.prepare import find_label_errors_in_parts

    N = 2_000
    labels, true = predictions.encode_labels(N, K)
    rows = [predictions.fill(np.empty((N, K), np.float32), true, f) for f in range(F + 1)]
    with tempfile.TemporaryDirectory() as folder:
        find_label_errors_in_parts(
            labels, rows[0], np.stack(rows[1:]), method=METHOD, out=Path(folder) / "out",
            engine=engine, workers=workers, part_rows=N // 10, progress=False,
        )  # fmt: skip


def peak_memory() -> int:
    """Largest resident size of this process so far.

    Not `ru_maxrss`: that of a new process begins with its parent's.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def transferred() -> tuple[int, int]:
    """(bytes read, bytes written) by this process so far, from the file cache or not."""
    lines = Path("/proc/self/io").read_text().splitlines()
    found = dict(line.split(": ") for line in lines)
    return int(found["rchar"]), int(found["wchar"])


def one_detection(data: Data, *, engine: str, workers: int, out: str) -> dict[str, Any]:
    """Time, memory and bytes of one detection."""
    from uqled.engines import make_engine

    with make_engine(engine, workers=workers) as running:
        warm(data.K, data.F, running, None)
        before = transferred()
        began = time.perf_counter()
        found = detect(data, running, None, Path(out))
        seconds = time.perf_counter() - began
        after = transferred()
    return {
        "seconds": seconds,
        "peak_memory": peak_memory(),
        "read": after[0] - before[0],
        "written": after[1] - before[1],
        "flagged": found.n_flagged,
        "result_bytes": sum(p.stat().st_size for p in Path(out).rglob("*") if p.is_file()),
    }


def one_plan(data: Data, *, engine: str, workers: int, out: str) -> dict[str, Any]:
    """What `uqled detect --plan` says, and how long it took to say so."""
    from uqled.detect.parts.cost import plan_cost
    from uqled.engines import make_engine

    with make_engine(engine, workers=workers) as running:
        began = time.perf_counter()
        found = plan_cost(prepared(*data.inputs, out=out, engine=running), running)
        return {
            **asdict(found), "memory": found.memory, "took": time.perf_counter() - began
        }  # fmt: skip


def prepared(labels: Any, softmax: Any, passes: Any, *, out: Any, engine: Any) -> Any:
    """A detection as the plan wants it."""
    from uqled.detect.parts.prepare import prepare
    from uqled.detect.request import check_request, name_inputs

    request = check_request(METHOD, given=name_inputs(softmax, passes))
    return prepare(labels, softmax, passes, request, out=out, engine=engine, progress=False)


def ray_beside_local(data: Data, *, workers: int, out: str, repeats: int) -> dict[str, Any]:
    """Both engines taking turns on files that are in the file cache."""
    from uqled.engines import make_engine

    times: dict[str, list[float]] = {"local": [], "ray": []}
    flags: dict[str, Any] = {}
    with (
        make_engine("local", workers=workers) as threads,
        make_engine("ray", workers=workers) as tasks,
    ):
        engines = {"local": threads, "ray": tasks}
        for engine in engines.values():
            warm(data.K, data.F, engine, None)
        read_all(data.files, workers, times=1)
        for number in range(repeats):
            for name, engine in engines.items():
                began = time.perf_counter()
                found = detect(data, engine, None, Path(out))
                times[name].append(time.perf_counter() - began)
                flags[name] = found.mask()
                shutil.rmtree(out)
                say(f"  {name}, repeat {number + 1}: {times[name][-1]:.2f} s")
    ratios = [r / own for r, own in zip(times["ray"], times["local"], strict=True)]
    return {
        "seconds": {name: machine.spread(taken) for name, taken in times.items()},
        "ratio": machine.spread(ratios),
        "flags_that_differ": int(np.count_nonzero(flags["ray"] != flags["local"])),
    }


def read_all(files: list[Path], threads: int, *, times: int) -> None:
    """Read all bytes, several times over: each thread into a buffer of its own, as large as a
    block of detection, taking the next piece of a file, as large as a part."""
    from uqled.detect.core.inputs import BLOCK_BYTES

    piece = 32 * BLOCK_BYTES
    for _ in range(times):
        pieces: queue.SimpleQueue[tuple[Path, int, int]] = queue.SimpleQueue()
        for path in files:
            size = path.stat().st_size
            for start in range(0, size, piece):
                pieces.put((path, start, min(start + piece, size)))

        def read(pieces: queue.SimpleQueue[tuple[Path, int, int]] = pieces) -> None:
            buffer = memoryview(bytearray(BLOCK_BYTES))
            while True:
                try:
                    path, at, stop = pieces.get_nowait()
                except queue.Empty:
                    return
                file = os.open(path, os.O_RDONLY)
                while at < stop:
                    at += os.preadv(file, [buffer[: stop - at]], at)
                os.close(file)

        running = [threading.Thread(target=read) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


def thrice_read(data: Data, *, workers: int) -> dict[str, Any]:
    """Plainly, through the file cache."""
    began = time.perf_counter()
    read_all(data.files, workers, times=3)
    return {"seconds": time.perf_counter() - began}


def thrice_read_as_detection_does(data: Data, *, workers: int) -> dict[str, Any]:
    """Past the file cache, where the system can."""
    from uqled.detect.parts.tasks import read_part
    from uqled.engines import make_engine

    with make_engine("local", workers=workers) as running:
        ready = prepared(*data.inputs, out="nowhere", engine=running)
        began = time.perf_counter()
        for _ in range(3):
            running.reduce(read_part, ready.parts, operator.add, given=(ready.asked,))
    return {"seconds": time.perf_counter() - began}


CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    "detection": one_detection,
    "plan": one_plan,
    "ray beside local": ray_beside_local,
    "reading": thrice_read,
    "reading past the cache": thrice_read_as_detection_does,
}


def child(name: str, data: Data, **options: Any) -> dict[str, Any]:
    """Run a function of the above in a process of its own."""
    asked = json.dumps({"name": name, "data": data.told(), "options": options})
    command = [sys.executable, __file__, "--child", asked]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    if process.returncode:
        raise SystemExit(f"{name} failed")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def as_child(asked: str) -> None:
    given = json.loads(asked)
    data = Data(**{**given["data"], "folder": Path(given["data"]["folder"])})
    print(json.dumps(CHILDREN[given["name"]](data, **given["options"])))


# -- the sections ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
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

    def detection(self, data: Data, *, engine: str = "local", workers: int = 0) -> dict[str, Any]:
        out = self.work / "out"
        shutil.rmtree(out, ignore_errors=True)
        found = child(
            "detection", data, engine=engine, workers=workers or self.workers, out=str(out)
        )
        shutil.rmtree(out)
        return found

    def repeated(self, data: Data, **options: Any) -> dict[str, Any]:
        """Several detections of what is in the file cache."""
        return self.in_turn([data], **options)[0]

    def in_turn(self, sets: list[Data], **options: Any) -> list[dict[str, Any]]:
        """Several rounds of detections of what is in the file cache, of one set after the other: a
        machine that is slower for a while is so for all of them."""
        for data in sets:
            read_all(data.files, self.workers, times=1)
        rounds = [[self.detection(data, **options) for data in sets] for _ in range(self.repeats)]
        found = []
        for data, every in zip(sets, zip(*rounds, strict=True), strict=True):
            seconds = [one["seconds"] for one in every]
            found.append(
                {
                    "N": data.N,
                    "K": data.K,
                    "F": data.F,
                    "bytes": data.bytes,
                    "seconds": machine.spread(seconds),
                    "rounds": seconds,
                    "peak_memory": machine.spread([one["peak_memory"] for one in every]),
                }
            )
            say(
                f"  N {data.N:,} K {data.K:,} F {data.F}: {machine.spread(seconds)['median']:.3g} s"
            )
        return found


def out_of_core(setting: Setting) -> dict[str, Any]:
    K, F = 1_000, 5
    N = -(-setting.bytes // (4 * K * (F + 1)))
    plans: dict[str, Any] = {"engine": "local", "workers": setting.workers}
    with gone_after(
        made(setting.work, N, K, F, setting.shard_bytes // (4 * K)), setting.keep
    ) as data:
        data.drop()
        planned = child("plan", data, out=str(setting.work / "out"), **plans)
        say(f"  planned: {planned['seconds']:.1f} s, {planned['memory'] / 1e9:.2f} GB")
        reading, direct, detections = [], [], []
        for number in range(setting.repeats):
            data.drop()
            reading.append(child("reading", data, workers=setting.workers)["seconds"])
            data.drop()
            direct.append(child("reading past the cache", data, workers=setting.workers)["seconds"])
            data.drop()
            detections.append(setting.detection(data))
            say(
                f"  repeat {number + 1}: reading three times {reading[-1]:.1f} s, "
                f"past the cache {direct[-1]:.1f} s, "
                f"detection {detections[-1]['seconds']:.1f} s, "
                f"{detections[-1]['peak_memory'] / 1e9:.2f} GB"
            )
        size = data.bytes
    taken = [one["seconds"] for one in detections]
    measured = {
        "to_read": max(one["read"] for one in detections),
        "to_write": max(one["written"] for one in detections),
        "memory": max(one["peak_memory"] for one in detections),
        "seconds": machine.spread(taken)["median"],
    }
    return {
        "N": N,
        "K": K,
        "F": F,
        "bytes": size,
        "workers": setting.workers,
        "memory_share": size / total_memory(),
        "result_bytes": detections[0]["result_bytes"],
        "seconds": {
            "reading three times": machine.spread(reading),
            "reading past the cache": machine.spread(direct),
            "detection": machine.spread(taken),
        },
        "ratio": machine.spread([d / r for d, r in zip(taken, reading, strict=True)]),
        "ratio_past_cache": machine.spread([d / r for d, r in zip(taken, direct, strict=True)]),
        "peak_memory": machine.spread([one["peak_memory"] for one in detections]),
        "plan": {
            name: {
                "planned": planned[name],
                "measured": number,
                "error": planned[name] / number - 1,
            }
            for name, number in measured.items()
        },
        "planning_seconds": planned["took"],
    }


def ray_section(setting: Setting) -> dict[str, Any]:
    K, F = 1_000, 5
    (N,) = setting.sizes(200_000)
    with gone_after(
        made(setting.work, N, K, F, setting.shard_bytes // (8 * K)), setting.keep
    ) as data:
        found = child(
            "ray beside local", data, workers=2, out=str(setting.work / "out"),
            repeats=max(3, setting.repeats),
        )  # fmt: skip
        return {"N": N, "K": K, "F": F, "bytes": data.bytes, "workers": 2, **found}


def growth_with_n(setting: Setting) -> dict[str, Any]:
    points = [lambda n=n: _first_rows(setting, n) for n in setting.sizes(*ROWS)]
    return _growth(points, setting, against=lambda p: p["N"])


def growth_with_k(setting: Setting) -> dict[str, Any]:
    (N,) = setting.sizes(100_000)
    points = [
        lambda K=K: made(setting.work, N, K, 5, N // 4) for K in (50, 100, 200, 400, 800, 1600)
    ]
    return _growth(points, setting, against=lambda p: p["K"])


def growth_with_f(setting: Setting) -> dict[str, Any]:
    (N,) = setting.sizes(400_000)

    def some(F: int) -> Data:
        return first(made(setting.work, N, 100, 15, N // 4), F=F)

    points = [lambda F=F: some(F) for F in (1, 3, 7, 15)]
    # F passes and the softmax are read.
    return _growth(points, setting, against=lambda p: p["F"] + 1)


def _first_rows(setting: Setting, n: int, K: int = 100) -> Data:
    """The first n of one large set of F = 5."""
    least, *_, most = setting.sizes(*ROWS)
    shard = least // 2
    return first(made(setting.work, most, K, 5, shard), shards=n // shard)


def _growth(
    points: list[Callable[[], Data]], setting: Setting, *, against: Callable[[Any], int]
) -> dict[str, Any]:
    """Times of growing data, and the exponents that fit each round: over all, and at the end."""
    sets = [make() for make in points]
    found = setting.in_turn(sets)
    for data in sets:
        if not (data.folder / "made").exists() or not setting.keep:
            shutil.rmtree(data.folder)
    sizes = np.log([against(p) for p in found])
    rounds = np.log([p["rounds"] for p in found]).T
    return {
        "points": found,
        "workers": setting.workers,
        "exponent": machine.spread([float(np.polyfit(sizes, r, 1)[0]) for r in rounds]),
        "last_doubling": machine.spread(
            [float((r[-1] - r[-2]) / (sizes[-1] - sizes[-2])) for r in rounds]
        ),
    }


def growth_with_workers(setting: Setting) -> dict[str, Any]:
    data = _first_rows(setting, setting.sizes(*ROWS)[-2])
    found: dict[str, Any] = {}
    for engine in ("local", "ray"):
        for workers in (1, 2):
            say(f"  {engine}, {workers}")
            found[f"{engine} {workers}"] = setting.repeated(data, engine=engine, workers=workers)
    shutil.rmtree(data.folder)
    return found


def driver_memory(setting: Setting, K: int = 100) -> dict[str, Any]:
    """The driver's largest resident size, on Ray with two workers, against N."""
    points = []
    for n in setting.sizes(*ROWS):
        data = _first_rows(setting, n, K)
        points.append(setting.repeated(data, engine="ray", workers=2))
        shutil.rmtree(data.folder)
    peaks = [p["peak_memory"]["median"] for p in points]
    return {"points": points, "growth": peaks[-1] / peaks[0] - 1}


def driver_memory_of_few_classes(setting: Setting) -> dict[str, Any]:
    """So few that every pair of them is there from the least N on."""
    return driver_memory(setting, K=20)


SECTIONS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "ray": ray_section,
    "n": growth_with_n,
    "driver": driver_memory,
    "driver-few-classes": driver_memory_of_few_classes,
    "workers": growth_with_workers,
    "k": growth_with_k,
    "f": growth_with_f,
    "out-of-core": out_of_core,
}


def needs() -> dict[str, Any]:
    """Memory that sets nobody has here would take, by the plan's own arithmetic."""
    from uqled.detect.parts import cost as plan
    from uqled.engines.local import Threads

    found = {}
    for name, N, K in scale_page.IMAGINED:
        imagined = prepared(
            _Imagined((N,), np.int64), _Imagined((N, K)), _Imagined((5, N, K)),
            out="nowhere", engine=Threads(1),
        )  # fmt: skip
        row_bytes = 4 * K * 6
        found[name] = {
            "N": N,
            "K": K,
            "F": 5,
            "parts": len(imagined.parts),
            "worker": plan._worker_bytes(imagined, row_bytes),
            "driver": plan._driver_bytes(imagined, 2),
        }
    return found


class _Imagined:
    """The shape of an array, and zeros where it is looked at."""

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Any:
        return np.zeros(len(range(*rows.indices(self.shape[0]))), self.dtype)


def total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        as_child(options.child)
        return
    if options.tables_only:
        result = json.loads((machine.RESULTS / "scale.json").read_text())
        scale_page.save({**result, "needs": needs()}, machine.RESULTS, into_documents=True)
        return
    if options.work is None:
        parser.error("--work is missing: name a folder with room for the arrays")
    options.work.mkdir(parents=True, exist_ok=True)
    size = options.bytes or (6e7 if options.small else MEMORY_SHARE * total_memory())
    setting = Setting(
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
            found = SECTIONS[name](setting)
            result[name] = {"machine": machine.described(PACKAGES), **found}
            result["needs"] = needs()
            scale_page.save(result, place, into_documents=not options.small)
            say(f"{name}: {time.perf_counter() - began:.0f} s")
    if not options.keep:
        for mark in options.work.glob("*/made"):
            shutil.rmtree(mark.parent)
    say((place / "scale.md").read_text())


if __name__ == "__main__":
    main()
