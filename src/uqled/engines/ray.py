"""A Ray cluster: each item is a task, which is repeated elsewhere when its worker is lost.

What all tasks share is stored once and read by the workers of a machine from shared memory; of a
memory map only the file's name is sent. Merges are tasks too, so that results stay where they were
made and only the last comes to the driver.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from uqled import arrays
from uqled.engines import MergeTree
from uqled.engines.local import count_cores
from uqled.errors import InputError
from uqled.storage.arrays.mapped_file import MappedFile, open_if_mapped

Result = TypeVar("Result")

_WAITING_TASKS = 4  # tasks per worker that run or wait, so that no worker waits for the driver
_RETRIES = 4  # retries of a task whose worker was lost
_MERGED_RESULTS = 8  # results merged by one task: a task costs more than most merges
_STORE = 200 << 20  # bytes of shared memory for what tasks return, if Ray is started here
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


class RayTasks:
    """Tasks on a Ray cluster: the one this process is connected to, one by address, or its own."""

    is_distributed = True

    def __init__(
        self,
        workers: int | None = None,
        *,
        cpus: float = 1,
        gpus: float = 0,
        address: str | None = None,
        store: int = 0,
    ) -> None:
        if workers is not None:
            workers = arrays.check_whole_number(workers, "workers", low=1)
        for name, value, least in (("cpus", cpus, 0.01), ("gpus", gpus, 0)):
            if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
                raise InputError(
                    name, f"is {value!r}", "Pass how many one task asks for, such as 1"
                )
        self._ray = _import_ray()
        self._started_here = not self._ray.is_initialized()
        if self._started_here:
            self._start_ray(address or os.environ.get("RAY_ADDRESS"), workers, cpus, gpus, store)
        else:
            self._check_address(address)
        try:
            room = self._count_free_slots(cpus, gpus)
        except BaseException:
            self.__exit__()
            raise
        self._ray.util.register_serializer(
            np.memmap, serializer=MappedFile.from_array, deserializer=open_if_mapped
        )
        self.workers = room if workers is None else workers
        # Where the cluster would run more than the workers asked for, tasks must not wait there.
        self._max_tasks = self.workers * (_WAITING_TASKS if room <= self.workers else 1)
        self._options = {
            "num_cpus": cpus,
            "max_retries": _RETRIES,
            "retry_exceptions": False,
            "runtime_env": {"env_vars": _make_environment(cpus, gpus)},
        }
        self._gpus = gpus

    def __enter__(self) -> RayTasks:
        return self

    def __exit__(self, *_: object) -> None:
        if self._started_here:
            self._ray.shutdown()

    def map(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        *,
        arguments: tuple[Any, ...] = (),
    ) -> Iterator[Result]:
        """Yield `function(*arguments, item)` for each item, in order, with few of them waiting.

        An error stops at its item: that of the first item that has one is raised.
        """
        call = self._ray.put((function, arguments))
        task = self._ray.remote(_call_task).options(**self._options, num_gpus=self._gpus)
        futures: deque[Any] = deque()
        try:
            for item in items:
                if len(futures) >= self._max_tasks:
                    yield self._get_result(futures.popleft())
                futures.append(task.remote(call, item))
            while futures:
                yield self._get_result(futures.popleft())
        finally:
            self._cancel_tasks(futures)

    def reduce(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        merge: Callable[[Result, Result], Result],
        *,
        arguments: tuple[Any, ...] = (),
        advance: Callable[[Any], None] | None = None,
    ) -> Result:
        """The results of all items, merged as a tree in their order; merges are tasks too.

        `advance` is told each item when it is done.
        """
        call, merging = self._ray.put((function, arguments)), self._ray.put(merge)
        # Each task also returns a small token when it is done; the driver never sees its result.
        work = self._ray.remote(_call_and_sign).options(
            **self._options, num_gpus=self._gpus, num_returns=2
        )
        join = self._ray.remote(_merge_in_task).options(**self._options, num_returns=2)
        pending: dict[
            Any, tuple[int, tuple[Any, ...]]
        ] = {}  # token: (place, the item if there is one)
        place = 0

        def merge_group(*results: Any) -> Any:
            token, result = join.remote(merging, *results)
            pending[token] = (place, ())
            return result

        tree = MergeTree(merge_group, _MERGED_RESULTS)
        try:
            for item in items:
                self._collect_finished(pending, self._max_tasks - 1, advance)
                token, result = work.remote(call, item)
                pending[token] = (place, (item,))
                tree.add(result)
                place += 1
                del result  # only the tree keeps it, so that it is freed when merged
            last = tree.merge_all()
            self._collect_finished(pending, 0, advance)
            total: Result = self._get_result(last)
            return total
        finally:
            self._cancel_tasks(pending)

    def _check_address(self, address: str | None) -> None:
        """Refuse to work on another cluster than the one that was asked for."""
        cluster_address = self._ray.get_runtime_context().gcs_address
        if not address or address == "auto" or address.startswith("ray://"):
            return  # any cluster, or a client's, which has another port
        if self._split_address(address) != self._split_address(cluster_address):
            raise InputError(
                "address",
                f"is {address!r}, but this process is connected to {cluster_address}",
                "Leave it out, or disconnect first with ray.shutdown()",
            )

    def _split_address(self, address: str) -> tuple[str, str]:
        """Host, as Ray names it, and port."""
        host, _, port = address.rpartition(":")
        if host in ("localhost", "127.0.0.1", "[::1]", "::1"):
            return str(self._ray.util.get_node_ip_address()), port
        try:
            return socket.gethostbyname(host), port
        except OSError:
            return host, port

    def _start_ray(
        self, address: str | None, workers: int | None, cpus: float, gpus: float, store: int
    ) -> None:
        """Connect to the cluster, or start one on this machine with room for the workers."""
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if address not in (None, "local"):
            try:
                self._ray.init(address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    "address",
                    f"is {address!r}, where no Ray cluster answers ({str(error).splitlines()[0]})",
                    "Start one there with `ray start --head`, or name another",
                ) from error
            return
        number = workers or max(1, int(count_cores() // cpus))
        for more in (1, 0):  # Ray gives its processes 30 seconds, which a busy machine may not have
            try:
                self._ray.init(
                    "local",
                    num_cpus=ceil(number * cpus),
                    num_gpus=None if gpus else 0,
                    include_dashboard=False,
                    object_store_memory=_STORE + int(1.1 * store),
                    **quiet,
                )
                return
            except Exception as error:
                self._ray.shutdown()
                if not more:
                    raise InputError(
                        "engine",
                        f"is 'ray', which does not start here ({str(error).splitlines()[0]})",
                        "Try again, or run `ray start --head` first and pass the address 'auto'",
                    ) from error

    def _count_free_slots(self, cpus: float, gpus: float) -> int:
        """How many tasks the cluster can run at a time."""
        number = 0
        for node in self._ray.nodes():
            if node["Alive"]:
                has = node["Resources"]
                room = has.get("CPU", 0) // cpus
                number += int(min(room, has.get("GPU", 0) // gpus) if gpus else room)
        if not number:
            raise InputError(
                "gpus" if gpus else "cpus",
                f"is {gpus or cpus:g}, but no machine of the cluster has {cpus:g} CPUs"
                + (f" and {gpus:g} GPUs" if gpus else ""),
                "Ask for less, or add such a machine first",
            )
        return number

    def _collect_finished(
        self,
        pending: dict[Any, tuple[int, tuple[Any, ...]]],
        most: int,
        advance: Callable[[Any], None] | None,
    ) -> None:
        """Wait until at most this many are in flight."""
        while len(pending) > most:
            tokens, _ = self._ray.wait(list(pending), num_returns=len(pending) - most)
            for token in tokens:
                try:
                    self._get_result(token)
                except Exception:
                    self._raise_first(pending, token)
                    raise
                _, item = pending.pop(token)
                if item and advance is not None:
                    advance(*item)

    def _raise_first(
        self, pending: dict[Any, tuple[int, tuple[Any, ...]]], failed_task: Any
    ) -> None:
        """Raise the error of an item before the one that failed, where there is one."""
        place, _ = pending[failed_task]
        # The tasks of an item are submitted in the order: itself, then the merges that it allowed.
        for token in [
            token for token, (place_of_task, _) in pending.items() if place_of_task <= place
        ]:
            self._get_result(token)

    def _get_result(self, reference: Any) -> Any:
        """What a task returned; its own error, if it raised one."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error.cause, "client_exc", error.cause)  # in the arguments, if any
            raise (cause if isinstance(cause, Exception) else error) from error
        except self._ray.exceptions.RayError as error:
            raise InputError(
                "engine",
                f"lost the workers of a task, the last of {1 + _RETRIES} with "
                f"{type(error).__name__} ({str(error).splitlines()[0]})",
                "If memory ran out, give each task more of the machine (cpus) or less to do",
            ) from error

    def _cancel_tasks(self, references: Iterable[Any]) -> None:
        for reference in references:
            self._ray.cancel(reference, force=False)


def _call_task(call: tuple[Callable[..., Any], tuple[Any, ...]], item: Any) -> Any:
    function, arguments = call
    return function(*arguments, item)


def _call_and_sign(call: tuple[Callable[..., Any], tuple[Any, ...]], item: Any) -> tuple[None, Any]:
    return None, _call_task(call, item)


def _merge_in_task(merge: Callable[[Any, Any], Any], *results: Any) -> tuple[None, Any]:
    return None, functools.reduce(merge, results)


def _make_environment(cpus: float, gpus: float) -> dict[str, str]:
    """Environment variables of the workers: as many threads as cores, and modules from the same
    paths as here."""
    variables = dict.fromkeys(_THREADS, str(max(1, int(cpus))))
    package_folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    folders = [Path(folder).resolve() for folder in sys.path if Path(folder).is_dir()]
    source_folders = [
        str(f) for f in folders if not any(f.is_relative_to(place) for place in package_folders)
    ]
    if source_folders:
        variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(source_folders))
    if not gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    return variables


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # we say which GPUs are seen
    try:
        import ray
        import ray.exceptions
        import ray.util
    except ImportError as error:
        raise InputError(
            "engine", "is 'ray', which is not installed", "pip install 'uqled[ray]'"
        ) from error
    return ray
