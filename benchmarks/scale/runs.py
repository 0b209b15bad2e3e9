"""One detection in parts, in a process of its own: what `scale.py` measures."""

from __future__ import annotations

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

#: It needs every member of the six algorithms of the paper.
METHOD = "alg-ens"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class ScaleData:
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

    def to_json(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "N": self.N, "K": self.K, "F": self.F}


def make_data(work: Path, N: int, K: int, F: int, shard_rows: int) -> ScaleData:
    """Make the shards, unless they are there."""
    data = ScaleData(work / f"{N}-{K}-{F}-{shard_rows}", N, K, F)
    if (data.folder / "made").exists():
        say(f"  {data.folder.name} is there already")
        return data
    needed_bytes, room = 4 * N * K * (F + 1), shutil.disk_usage(work).free
    if needed_bytes > 0.95 * room:
        raise SystemExit(f"{needed_bytes / 1e9:.0f} GB would not fit in {work}: lower --bytes")
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


def select_first(data: ScaleData, *, shards: int | None = None, F: int | None = None) -> ScaleData:
    """The first shards, or the first passes, of what was made: other names for the same files."""
    F = data.F if F is None else F
    label_files = sorted((data.folder / "labels").iterdir(), key=lambda path: int(path.stem[5:]))[
        :shards
    ]
    N = sum(np.load(path, mmap_mode="r").shape[0] for path in label_files)
    part = ScaleData(data.folder.with_name(f"{data.folder.name}-first-{N}-{F}"), N, data.K, F)
    shutil.rmtree(part.folder, ignore_errors=True)
    for name in ("labels", "probs", *(f"passes/{f}" for f in range(F))):
        (part.folder / name).mkdir(parents=True)
        for path in label_files:
            os.link(data.folder / name / path.name, part.folder / name / path.name)
    return part


@contextmanager
def remove_after(data: ScaleData, keep: bool) -> Iterator[ScaleData]:
    yield data
    if not keep:
        shutil.rmtree(data.folder)


def detect(data: ScaleData, engine: Any, workers: int | None, out: Path, **options: Any) -> Any:
    from uqled.detect.parts.prepare import find_label_errors_in_parts

    return find_label_errors_in_parts(
        *data.inputs, method=METHOD, out=out, engine=engine, workers=workers, progress=False,
        **options,
    )  # fmt: skip


def warm_up(K: int, F: int, engine: Any, workers: int | None) -> None:
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


def measure_peak_memory() -> int:
    """Largest resident size of this process so far.

    Not `ru_maxrss`: that of a new process begins with its parent's.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def count_transferred_bytes() -> tuple[int, int]:
    """(bytes read, bytes written) by this process so far, from the file cache or not."""
    lines = Path("/proc/self/io").read_text().splitlines()
    counters = dict(line.split(": ") for line in lines)
    return int(counters["rchar"]), int(counters["wchar"])


def run_detection(data: ScaleData, *, engine: str, workers: int, out: str) -> dict[str, Any]:
    """Time, memory and bytes of one detection."""
    from uqled.engines import make_engine

    with make_engine(engine, workers=workers) as running:
        warm_up(data.K, data.F, running, None)
        before = count_transferred_bytes()
        began = time.perf_counter()
        result = detect(data, running, None, Path(out))
        seconds = time.perf_counter() - began
        after = count_transferred_bytes()
    return {
        "seconds": seconds,
        "peak_memory": measure_peak_memory(),
        "read": after[0] - before[0],
        "written": after[1] - before[1],
        "flagged": result.n_flagged,
        "result_bytes": sum(p.stat().st_size for p in Path(out).rglob("*") if p.is_file()),
    }


def run_plan(data: ScaleData, *, engine: str, workers: int, out: str) -> dict[str, Any]:
    """What `uqled detect --plan` says, and how long it took to say so."""
    from uqled.detect.parts.cost import plan_cost
    from uqled.engines import make_engine

    with make_engine(engine, workers=workers) as running:
        began = time.perf_counter()
        result = plan_cost(prepare_parts(*data.inputs, out=out, engine=running), running)
        return {
            **asdict(result), "memory": result.memory, "took": time.perf_counter() - began
        }  # fmt: skip


def prepare_parts(labels: Any, softmax: Any, passes: Any, *, out: Any, engine: Any) -> Any:
    """A detection as the plan wants it."""
    from uqled.detect.parts.prepare import prepare
    from uqled.detect.request import check_request, name_inputs

    request = check_request(METHOD, inputs=name_inputs(softmax, passes))
    return prepare(labels, softmax, passes, request, out=out, engine=engine, progress=False)


def compare_ray_with_local(
    data: ScaleData, *, workers: int, out: str, repeats: int
) -> dict[str, Any]:
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
            warm_up(data.K, data.F, engine, None)
        read_all(data.files, workers, times=1)
        for number in range(repeats):
            for name, engine in engines.items():
                began = time.perf_counter()
                result = detect(data, engine, None, Path(out))
                times[name].append(time.perf_counter() - began)
                flags[name] = result.mask()
                shutil.rmtree(out)
                say(f"  {name}, repeat {number + 1}: {times[name][-1]:.2f} s")
    ratios = [r / local for r, local in zip(times["ray"], times["local"], strict=True)]
    return {
        "seconds": {name: machine.summarize_times(seconds) for name, seconds in times.items()},
        "ratio": machine.summarize_times(ratios),
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


def read_three_times(data: ScaleData, *, workers: int) -> dict[str, Any]:
    """Plainly, through the file cache."""
    began = time.perf_counter()
    read_all(data.files, workers, times=3)
    return {"seconds": time.perf_counter() - began}


def read_three_times_directly(data: ScaleData, *, workers: int) -> dict[str, Any]:
    """Past the file cache, where the system can."""
    from uqled.detect.parts.tasks import read_part
    from uqled.engines import make_engine

    with make_engine("local", workers=workers) as running:
        prepared = prepare_parts(*data.inputs, out="nowhere", engine=running)
        began = time.perf_counter()
        for _ in range(3):
            running.reduce(read_part, prepared.parts, operator.add, arguments=(prepared.context,))
    return {"seconds": time.perf_counter() - began}


CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    "detection": run_detection,
    "plan": run_plan,
    "ray beside local": compare_ray_with_local,
    "reading": read_three_times,
    "reading past the cache": read_three_times_directly,
}


def run_child(name: str, data: ScaleData, **options: Any) -> dict[str, Any]:
    """Run a function of the above in a process of its own."""
    request = json.dumps({"name": name, "data": data.to_json(), "options": options})
    command = [sys.executable, "-m", "scale.runs", request]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    if process.returncode:
        raise SystemExit(f"{name} failed")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def answer_parent(request: str) -> None:
    """Run the function that the parent asks for, and print what it measured."""
    options = json.loads(request)
    data = ScaleData(**{**options["data"], "folder": Path(options["data"]["folder"])})
    print(json.dumps(CHILDREN[options["name"]](data, **options["options"])))


if __name__ == "__main__":
    answer_parent(sys.argv[1])
