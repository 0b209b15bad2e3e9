"""This machine: items go to a few threads, results come back in the order of the items."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from uqled.engines import MergeTree

Result = TypeVar("Result")


def count_cores() -> int:
    """The number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Threads:
    """A few threads that map functions over items, one map after the other."""

    is_distributed = False

    def __init__(self, threads: int) -> None:
        self.threads = self.workers = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

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
        if self._pool is None:
            for item in items:
                yield function(*arguments, item)
            return
        futures: deque[Future[Result]] = deque()
        try:
            for item in items:
                futures.append(self._pool.submit(function, *arguments, item))
                if len(futures) > 2 * self.threads:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            for future in futures:
                future.cancel()

    def reduce(
        self,
        function: Callable[..., Result],
        items: Iterable[Any],
        merge: Callable[[Result, Result], Result],
        *,
        arguments: tuple[Any, ...] = (),
        advance: Callable[[Any], None] | None = None,
    ) -> Result:
        """The results of all items, merged as a tree in their order.

        `advance` is called with each item when it is done.
        """
        tree = MergeTree(merge)
        pending: deque[Any] = deque()

        def note_items() -> Iterator[Any]:
            for item in items:
                pending.append(item)
                yield item

        for result in self.map(function, note_items(), arguments=arguments):
            tree.add(result)
            if advance is not None:
                advance(pending.popleft())
        total: Result = tree.merge_all()
        return total
