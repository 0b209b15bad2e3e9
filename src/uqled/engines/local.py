"""This machine: blocks go to a few threads, results come back in the order of the blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Block = TypeVar("Block")
Result = TypeVar("Result")


def available_threads() -> int:
    """The number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Threads:
    """A few threads that map functions over blocks, one map after the other."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[Block], Result], blocks: Iterable[Block]) -> Iterator[Result]:
        """Yield `function(block)` for each block, in order, with few results waiting at a time.

        An error stops at its block: that of the first block that has one is raised.
        """
        if self._pool is None:
            yield from map(function, blocks)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for block in blocks:
                waiting.append(self._pool.submit(function, block))
                if len(waiting) > 2 * self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
