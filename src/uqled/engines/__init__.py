"""Where the work runs: an engine maps a function over items, without knowing anything about
either."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar, runtime_checkable

from uqled import arrays
from uqled.errors import InputError

Result = TypeVar("Result")

#: The engines that `make_engine` makes by name.
ENGINES = ("local", "ray")


@runtime_checkable
class Engine(Protocol):
    """Threads of this process, or tasks on a cluster: the same answers from both."""

    workers: int
    """The number of items processed at a time."""
    is_distributed: bool
    """Whether each item is processed in its own process, which shares nothing with this one."""

    def map(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        *,
        arguments: tuple[Any, ...] = (),
    ) -> Iterator[Result]:
        """Yield `function(*arguments, item)` for each item, in order, with few of them waiting.

        The first item that has an error raises it.
        """

    def reduce(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        merge: Callable[[Result, Result], Result],
        *,
        arguments: tuple[Any, ...] = (),
        advance: Callable[[Any], None] | None = None,
    ) -> Result:
        """The results of all items, merged as a tree: `merge` is associative, the order is kept.

        `advance` is called with each item when it is done.
        """


def check_ray_is_installed() -> None:
    """Refuse the engine `ray` where the package is missing, without importing it."""
    if "ray" in sys.modules:
        is_there = sys.modules["ray"] is not None
    else:
        is_there = find_spec("ray") is not None
    if not is_there:
        raise InputError("engine", "is 'ray', which is not installed", "pip install 'uqled[ray]'")


def make_engine(
    engine: str | Engine | None,
    *,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    address: str | None = None,
    store: int = 0,
) -> AbstractContextManager[Engine]:
    """Make an engine by its name, as a context manager; an existing engine is used and left open.

    Parameters
    ----------
    engine
        `"local"` (or None): threads. `"ray"`: tasks on a Ray cluster.
    workers
        Items worked on at a time. By default one per core, or as many as the cluster has room for.
    cpus, gpus
        Of Ray: what one task asks for. It computes with this many threads.
    address
        Of Ray: the cluster, such as `"auto"` or `"10.0.0.1:6379"`. By default the one that this
        process is connected to, that of RAY_ADDRESS, or one of its own on this machine.
    store
        Of Ray, if it is started here: bytes of `arguments`, for which shared memory is set aside.
    """
    if engine is not None and not isinstance(engine, str):
        return nullcontext(engine)
    if engine == "ray":
        from uqled.engines.ray import RayTasks

        return RayTasks(workers, cpus=cpus, gpus=gpus, address=address, store=store)
    if engine not in (None, "local"):
        raise InputError("engine", f"is {engine!r}", f"Choose one of {', '.join(ENGINES)}")
    from uqled.engines.local import Threads, count_cores

    if workers is not None:
        workers = arrays.check_whole_number(workers, "workers", low=1)
    return Threads(workers or count_cores())


class MergeTree:
    """Merges results that arrive in order, `fan_in` results of the same height at a time: of n
    results, only a few times log(n) are held."""

    def __init__(self, merge: Callable[..., Any], fan_in: int = 2) -> None:
        self._merge, self._fan_in = merge, fan_in
        self._levels: list[list[Any]] = [[]]  # by height, the lowest first

    def add(self, result: Any) -> None:
        for height, level in enumerate(self._levels):
            level.append(result)
            if len(level) < self._fan_in:
                return
            result = self._merge(*level)
            self._levels[height] = []
        self._levels.append([result])

    def merge_all(self) -> Any:
        """All results, merged into one."""
        results = [result for level in reversed(self._levels) for result in level]
        self._levels = [[]]
        if not results:
            raise ValueError("nothing was added, so there is nothing to merge")
        while len(results) > 1:  # the last ones cover the fewest items
            results[-self._fan_in :] = [self._merge(*results[-self._fan_in :])]
        return results[0]
