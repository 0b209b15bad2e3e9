"""Long work says what it is, how far it is and how long it still takes.

A bar on a terminal, plain lines elsewhere; both on standard error, and from a clock of their own:
a step that reports nothing for an hour is on the screen from its first second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from threading import Event, Lock, Thread
from typing import Any, Protocol

_QUIET_SECONDS = 1.0  # work that takes less shows nothing
_LINE_SECONDS = 10.0  # between two lines where there is no terminal, at least
_LINE_SHARE = 0.1  # of the time so far, between two lines: a day of work is not 8,640 lines
_MAX_POINTS = 128  # of the past that the speed is estimated from

_screen = Lock()  # one stage is shown at a time
_running: list[Stage] = []  # the innermost last


class Progress:
    """Shows the stages of long work on standard error.

    `show=None` shows a bar on a terminal and is silent elsewhere, `True` also prints plain lines
    elsewhere, `False` is silent.
    """

    def __init__(self, show: bool | None = None) -> None:
        on_terminal = sys.stderr.isatty()
        self._view: Callable[[Stage], _View] | None = None
        if on_terminal and show is not False:
            self._view = _Bar
        elif show:
            self._view = _Lines

    @contextmanager
    def stage(self, name: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
        """Show a stage while the block runs, and yield a function that is told how much more is
        done; `total` is None where that cannot be known."""
        stage = Stage(name, total)
        _running.append(stage)
        try:
            with nullcontext() if self._view is None else _show_later(self._view, stage):
                yield stage.advance
        finally:
            _running.remove(stage)


def note_activity(text: str) -> None:
    """Say what the running stage is busy with until it advances, such as compiling."""
    if _running:
        _running[-1].activity = text


class Stage:
    """How far a stage is, and how long it still takes."""

    def __init__(self, name: str, total: float | None = None) -> None:
        self.name, self.total, self.done = name, total, 0.0
        self.activity = ""
        """What it is busy with, where that is not its own work."""
        self.began = time.monotonic()
        self._points = [(self.began, 0.0)]

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.activity = ""
        self.done += amount
        self._points.append((time.monotonic(), self.done))
        if len(self._points) > _MAX_POINTS:
            del self._points[1:-1:2]

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """By the speed of the later half of what is done; None where there is no telling yet.

        So neither a slow beginning counts, nor what an interrupted run had done before and reports
        at once. Between two reports, the time left runs down.
        """
        points = list(self._points)
        last, done = points[-1]
        then, before = next(point for point in points if 2 * point[1] >= done)
        if self.total is None or done <= before or last <= then:
            return None
        left = (self.total - done) * (last - then) / (done - before)
        return max(0.0, left - (time.monotonic() - last))


class _View(Protocol):
    """Shows a stage; `close` is called at its end, if it was shown at all."""

    def __init__(self, stage: Stage) -> None: ...

    def update(self) -> float:
        """Show how far it is; seconds until the next update."""

    def close(self) -> None: ...


@contextmanager
def _show_later(make_view: Callable[[Stage], _View], stage: Stage) -> Iterator[None]:
    """Show the stage from a thread, unless it ends before anybody would notice."""
    ended = Event()

    def show() -> None:
        if ended.wait(_QUIET_SECONDS):
            return
        while not _screen.acquire(timeout=_QUIET_SECONDS):  # a stage around this one is shown
            if ended.is_set():
                return
        try:
            view = make_view(stage)
            while not ended.wait(view.update()):
                pass
            view.close()
        finally:
            _screen.release()

    thread = Thread(target=show, name="uqled progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _Bar:
    """A bar with the time that is left."""

    _SECONDS = 0.2  # between two updates

    def __init__(self, stage: Stage) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._stage = stage
        self._progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[time]}"),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._progress.start()
        self._task = self._progress.add_task(stage.name, total=stage.total, time="")

    def update(self) -> float:
        stage = self._stage
        fields: dict[str, Any] = {"completed": stage.done, "time": describe_time(stage)}
        self._progress.update(self._task, **fields, refresh=True)
        return self._SECONDS

    def close(self) -> None:
        self.update()
        self._progress.stop()


class _Lines:
    """Plain lines, the rarer the longer the work takes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def update(self) -> float:
        stage = self._stage
        share = "" if not stage.total else f" {min(stage.done / stage.total, 1):.0%},"
        self._print(f"{stage.name}:{share} {describe_time(stage)}")
        return max(_LINE_SECONDS, _LINE_SHARE * stage.elapsed)

    def close(self) -> None:
        self._print(f"{self._stage.name}: took {describe_seconds(self._stage.elapsed)}")

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def describe_time(stage: Stage) -> str:
    """How long a stage has taken and still takes."""
    left = stage.seconds_left
    text = f"{describe_seconds(stage.elapsed)} so far"
    if left is not None:
        text += f", about {describe_seconds(left)} left"
    return f"{text} ({stage.activity})" if stage.activity else text


def describe_seconds(seconds: float) -> str:
    """A duration as people write it.

    >>> describe_seconds(7.4), describe_seconds(125), describe_seconds(7_300)
    ('7 s', '2:05 min', '2:01:40 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    text = str(timedelta(seconds=whole)).removeprefix("0:")
    return f"{text.removeprefix('0')} min" if whole < 3600 else f"{text} h"
