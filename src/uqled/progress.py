"""Long work shows how far it is and how long it still takes: a bar, or lines off a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_QUIET_SECONDS = 1.0  # work that takes less shows nothing
_LINE_SECONDS = 10.0  # between two lines where there is no terminal


class Progress:
    """Shows stages of known length on standard error.

    `show=None` shows a bar on a terminal and is silent elsewhere, `True` also prints plain lines
    elsewhere, `False` is silent.
    """

    def __init__(self, show: bool | None = None) -> None:
        on_terminal = sys.stderr.isatty()
        self._bar = on_terminal and show is not False
        self._lines = not on_terminal and show is True

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[float], None]]:
        """Yield a function to be told how much more is done."""
        shown: _Bar | _Lines | None = None
        began, done = time.monotonic(), 0.0

        def advance(amount: float) -> None:
            nonlocal shown, done
            done += amount
            if shown is None and done < total and time.monotonic() - began > _QUIET_SECONDS:
                if self._bar:
                    shown = _Bar(name, total)
                elif self._lines:
                    shown = _Lines(name, total, began)
            if shown is not None:
                shown.to(done)

        try:
            yield advance
        finally:
            if shown is not None:
                shown.close()


class _Bar:
    def __init__(self, name: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._progress.start()
        self._task = self._progress.add_task(name, total=total)

    def to(self, done: float) -> None:
        self._progress.update(self._task, completed=done)

    def close(self) -> None:
        self._progress.stop()


class _Lines:
    def __init__(self, name: str, total: int, began: float) -> None:
        self._name, self._total, self._began = name, total, began
        self._last = -_LINE_SECONDS

    def to(self, done: float) -> None:
        now = time.monotonic()
        if now - self._last < _LINE_SECONDS and done < self._total:
            return
        self._last = now
        elapsed = now - self._began
        left = elapsed * (self._total - done) / max(done, 1)
        print(
            f"{self._name}: {done / self._total:4.0%}, {elapsed:.0f} s so far, "
            f"about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Lines need no closing."""
