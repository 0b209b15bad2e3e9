"""Where cells are computed: processes of this machine, each with its GPU, or a Ray cluster."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from uqled import arrays
from uqled.engines.local import count_cores
from uqled.errors import BusyError, InputError
from uqled.storage.lock import lock_folder

if sys.platform != "win32":  # which has no such locks
    import fcntl

_GPUS = "CUDA_VISIBLE_DEVICES"
_LAST_WORDS = 10.0  # seconds in which the workers of a killed benchmark notice and stop

Submit = Callable[..., "Future[None]"]


@dataclass(frozen=True)
class Workers:
    """How many cells are computed at a time, and where."""

    jobs: int | None = None
    """Processes; unless given, one per core, or `jobs_per_gpu` for each GPU."""
    jobs_per_gpu: int = 1
    """Processes that share a GPU: small networks leave most of it idle."""
    engine: str | None = None
    """`ray` for a cluster whose machines all see the benchmark's folder and data."""
    address: str | None = None
    """Of the Ray cluster."""

    def __post_init__(self) -> None:
        if self.jobs is not None:
            arrays.check_whole_number(self.jobs, "jobs", low=1)
        arrays.check_whole_number(self.jobs_per_gpu, "jobs_per_gpu", low=1)
        if self.address is not None and self.engine != "ray":
            raise InputError("ray_address", "is for Ray only", "Add --engine ray")

    def count(self, device: str) -> int:
        """Cells computed at a time on this machine."""
        if self.jobs is not None:
            return self.jobs
        return len(list_gpus(device)) * self.jobs_per_gpu or count_cores()


def list_gpus(device: str) -> list[str]:
    """The GPUs that training on this device may use, as CUDA_VISIBLE_DEVICES names them."""
    if device not in ("auto", "cuda"):
        return []
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    visible = os.environ.get(_GPUS)
    return visible.split(",")[:count] if visible else [str(i) for i in range(count)]


@contextmanager
def start_workers(jobs: int, gpus: list[str], work: Path) -> Iterator[Submit]:
    """A function that computes cells in this many processes; in this process if it is one.

    Each process has one of the GPUs, in turn.
    """
    if jobs == 1:
        yield _run_here
        return
    context = get_context("spawn")
    turns = context.Queue()
    for job in range(jobs):
        turns.put(gpus[job % len(gpus)] if gpus else None)
    with ProcessPoolExecutor(jobs, context, _begin_worker, (work, turns)) as pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_here(function: Any, *arguments: Any) -> Future[None]:
    future: Future[None] = Future()
    future.set_result(function(*arguments))
    return future


def _begin_worker(work: Path, turns: Any = None) -> None:
    """Reserve a GPU and lock the folder of checkpoints, shared with other workers, while this
    process lives.

    CUDA has not begun here, so that it sees the one GPU only.
    """
    gpu = turns.get() if turns is not None else None
    if gpu is not None:
        os.environ[_GPUS] = gpu
    if sys.platform != "win32":
        with suppress(OSError):  # a file system without locks
            fcntl.flock(os.open(work, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    _end_with_parent()


def wait_for_workers(work: Path) -> None:
    """Wait until the workers of a killed benchmark have ended; they would remove what we write."""
    deadline = time.monotonic() + _LAST_WORDS
    while True:
        try:
            with lock_folder(work, "benchmark"):
                return
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _end_with_parent() -> None:
    """End this process when its parent is gone, so that no cell is computed twice."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
