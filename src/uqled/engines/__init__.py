"""Where the work runs: an engine maps a given function over items and knows nothing of either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar, runtime_checkable

from uqled import arrays
from uqled.errors import InputError

Result = TypeVar("Result")

#: What `make_engine` knows by name.
ENGINES = ("local", "ray")


@runtime_checkable
class Engine(Protocol):
    """Threads of this process, or tasks on a cluster: the same answers from both."""

    workers: int
    """How many items are worked on at a time."""
    is_distributed: bool
    """If each item is worked on in a process of its own, which shares nothing with this one."""

    def map(
        self, function: Callable[..., Result], items: Iterable[Any], *, given: tuple[Any, ...] = ()
    ) -> Iterator[Result]:
        """Yield `function(*given, item)` for each item, in order, few of them waiting at a time.

        The first item that has an error raises it.
        """

    def reduce(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        merge: Callable[[Result, Result], Result],
        *,
        given: tuple[Any, ...] = (),
        advance: Callable[[Any], None] | None = None,
    ) -> Result:
        """The results of all items, merged as a tree: `merge` is associative, the order is kept.

        `advance` is told each item when it is done.
        """


def make_engine(
    engine: str | Engine | None,
    *,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    address: str | None = None,
    store: int = 0,
) -> AbstractContextManager[Engine]:
    """An engine by its name, to be used in a `with`; one that exists is used and left as it is.

    Parameters
    ----------
    engine
        `"local"` (or None): threads. `"ray"`: tasks on a Ray cluster.
    workers
        Items worked on at a time. By default one per core, or as many as the cluster has room for.
    cpus, gpus
        Of Ray: what one task asks for. It computes with so many threads.
    address
        Of Ray: the cluster, such as `"auto"` or `"10.0.0.1:6379"`. By default the one that this
        process is connected to, that of RAY_ADDRESS, or one of its own on this machine.
    store
        Of Ray, if it is started here: bytes of `given`, for which shared memory is set aside.
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


class Tree:
    """Merges what comes in order, so many of the same height at a time: of n, a few times log(n)
    are kept."""

    def __init__(self, merge: Callable[..., Any], at_a_time: int = 2) -> None:
        self._merge, self._most = merge, at_a_time
        self._kept: list[list[Any]] = [[]]  # by height, the lowest first

    def add(self, result: Any) -> None:
        for height, kept in enumerate(self._kept):
            kept.append(result)
            if len(kept) < self._most:
                return
            result = self._merge(*kept)
            self._kept[height] = []
        self._kept.append([result])

    def all(self) -> Any:
        """Everything merged."""
        left = [result for kept in reversed(self._kept) for result in kept]
        self._kept = [[]]
        if not left:
            raise ValueError("nothing was added, so that there is nothing to merge")
        while len(left) > 1:  # the last came last and are the least
            left[-self._most :] = [self._merge(*left[-self._most :])]
        return left[0]
