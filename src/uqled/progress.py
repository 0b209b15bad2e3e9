"""Long work says what it is, how far it is and how long it still takes.

A bar on a terminal, plain lines elsewhere; both on standard error, and from a clock of their own:
a step that reports nothing for an hour is on the screen from its first second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol

_QUIET_SECONDS = 1.0  # work that takes less shows nothing
_LINE_SECONDS = 10.0  # between two lines where there is no terminal, at least
_LINE_SHARE = 0.1  # of the time so far, between two lines: a day of work is not 8,640 lines
_WATCH_SECONDS = 0.5  # between two looks at what was downloaded
_MAX_POINTS = 128  # of the past that the speed is estimated from

_screen = Lock()  # one stage is shown at a time
_running: list[Stage] = []  # the innermost last


class Progress:
    """Shows the stages of long work on standard error.

    `show=None` shows a bar on a terminal, prints plain lines in a notebook and is silent elsewhere,
    `True` prints plain lines elsewhere, too, `False` is silent.
    """

    def __init__(self, show: bool | None = None) -> None:
        on_terminal = sys.stderr.isatty()
        self._view: Callable[[Stage], _View] | None = None
        if on_terminal and show is not False:
            self._view = _Bar
        elif show or (show is None and _is_notebook()):
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


def _is_notebook() -> bool:
    """Whether a notebook shows what is printed."""
    return type(sys.stderr).__module__.startswith("ipykernel.")


def note_activity(text: str) -> None:
    """Say what the running stage is busy with until it advances, such as compiling."""
    if _running:
        _running[-1].activity = text


@contextmanager
def run_beside(work: Callable[[Event], None]) -> Iterator[None]:
    """Run `work` in a thread while the block runs; its event is set when the block has ended."""
    is_over = Event()
    thread = Thread(target=work, args=(is_over,), name="uqled progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def note_download(folder: Path, total: int | None) -> Iterator[None]:
    """While the block downloads into a folder, say how many bytes came and how long the rest takes.

    `total` is their number, None where it is not known. For packages that download by themselves.
    """
    before, download = _measure_folder(folder), Stage("download", total)

    def watch(is_over: Event) -> None:
        while not is_over.wait(_WATCH_SECONDS):
            size = max(0, _measure_folder(folder) - before)
            download.advance(size - download.done)
            note_activity(describe_download(download))

    note_activity(describe_download(download))
    with run_beside(watch):
        yield


def describe_download(download: Stage) -> str:
    """How many bytes came, of how many, and how long the rest takes.

    >>> download = Stage("download", 3_000_000)
    >>> download.done = 1_500_000
    >>> describe_download(download)
    'downloaded 1.5 of 3.0 MB'
    """
    total = "" if download.total is None else f" of {download.total / 1e6:,.1f}"
    left = download.seconds_left
    rest = "" if left is None else f", about {describe_seconds(left)} left"
    return f"downloaded {download.done / 1e6:,.1f}{total} MB{rest}"


def _measure_folder(folder: Path) -> int:
    """Bytes of the files in a folder, which may change meanwhile."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        with suppress(OSError):
            total += 0 if path.is_symlink() else path.stat().st_size
    return total


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
    def elapsed_seconds(self) -> float:
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
        seconds = (self.total - done) * (last - then) / (done - before)
        return max(0.0, seconds - (time.monotonic() - last))


class _View(Protocol):
    """Shows a stage; `close` is called at its end, if it was shown at all."""

    def __init__(self, stage: Stage) -> None: ...

    def update(self) -> float:
        """Show how far it is; seconds until the next update."""

    def close(self) -> None: ...


@contextmanager
def _show_later(make_view: Callable[[Stage], _View], stage: Stage) -> Iterator[None]:
    """Show the stage from a thread, unless it ends before anybody would notice."""

    def show(is_over: Event) -> None:
        if is_over.wait(_QUIET_SECONDS):
            return
        while not _screen.acquire(timeout=_QUIET_SECONDS):  # a stage around this one is shown
            if is_over.is_set():
                return
        try:
            view = make_view(stage)
            while not is_over.wait(view.update()):
                pass
            view.close()
        finally:
            _screen.release()

    with run_beside(show):
        yield


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
        return max(_LINE_SECONDS, _LINE_SHARE * stage.elapsed_seconds)

    def close(self) -> None:
        self._print(f"{self._stage.name}: took {describe_seconds(self._stage.elapsed_seconds)}")

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def describe_time(stage: Stage) -> str:
    """How long a stage has taken and still takes."""
    left = stage.seconds_left
    text = f"{describe_seconds(stage.elapsed_seconds)} so far"
    if left is not None:
        text += f", about {describe_seconds(left)} left"
    return f"{text} ({stage.activity})" if stage.activity else text


def describe_seconds(seconds: float) -> str:
    """A duration as people write it.

    >>> describe_seconds(7.4), describe_seconds(125), describe_seconds(7_300)
    ('7 s', '2:05 min', '2:01:40 h')
    """
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    text = str(timedelta(seconds=whole_seconds)).removeprefix("0:")
    return f"{text.removeprefix('0')} min" if whole_seconds < 3600 else f"{text} h"
