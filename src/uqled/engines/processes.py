"""This machine, in processes of their own: what is worked on in one does not wait for the others.

For work that threads cannot share, such as training networks: a network's layers are too small to
keep several cores busy, and two networks side by side are not.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, reduce
from typing import Any, TypeVar

Result = TypeVar("Result")

_LOOK_SECONDS = 0.2  # between two looks at whether the process that began the work is still there


class Processes:
    """A few processes that map functions over items; each has an equal share of the threads.

    They begin with the first item, see what this process sees, and end with it.
    """

    is_distributed = True

    def __init__(self, workers: int, threads: int) -> None:
        self.workers, self.threads = workers, max(1, threads // workers)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)

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
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("loky", n_jobs=self.workers, inner_max_num_threads=self.threads):
            calls = Parallel(return_as="generator", pre_dispatch="all", batch_size=1)
            task, parent = delayed(_call_in_worker), os.getpid()
            yield from calls(task(parent, function, arguments, item) for item in items)

    def reduce(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        merge: Callable[[Result, Result], Result],
        *,
        arguments: tuple[Any, ...] = (),
        advance: Callable[[Any], None] | None = None,
    ) -> Result:
        """The results of all items, merged in their order.

        `advance` is called with each item when it is done.
        """
        listed_items = list(items)

        def note_items() -> Iterator[Result]:
            results = self.map(function, listed_items, arguments=arguments)
            for item, result in zip(listed_items, results, strict=True):
                if advance is not None:
                    advance(item)
                yield result

        return reduce(merge, note_items())


def end_with_parent() -> None:
    """End this process when the one that made it is gone, so that nothing is computed twice."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call_in_worker(
    parent: int, function: Callable[..., Any], arguments: tuple[Any, ...], item: Any
) -> Any:
    if os.getpid() != parent:  # as it is where processes may have none of their own
        _prepare_worker(parent)
    return function(*arguments, item)


@cache
def _prepare_worker(parent: int) -> None:
    if os.getppid() != parent:  # which has ended meanwhile
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends this process
    end_with_parent()
