"""Shows long work: what it is, how far it is, and how long it will still take.

A bar on a terminal, plain lines elsewhere; both on standard error, and updated by a thread, so that
a step that reports nothing for an hour is shown from its first second.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, ClassVar, Protocol

_QUIET_SECONDS = 1.0  # work that takes less shows nothing
_LINE_SECONDS = 10.0  # between two lines where there is no terminal, at least
_LINE_SHARE = 0.1  # of the time so far, between two lines: a day of work is not 8,640 lines
_UPDATE_SECONDS = 0.2  # between two updates of the screen
_WATCH_SECONDS = 0.5  # between two looks at what was downloaded
_MAX_POINTS = 128  # past points used to estimate the speed
_MAX_ERROR = 1 / 3  # relative standard error of the speed, above which no time left is shown

_screen = Lock()  # one stage is shown at a time
_running: list[Stage] = []  # the innermost last


class Progress:
    """Shows the stages of long work on standard error.

    `show=None` follows the enclosing stage; without one, it shows a bar on a terminal, prints plain
    lines in a notebook and is silent elsewhere. `True` prints plain lines elsewhere, too; `False`
    is silent.
    """

    def __init__(self, show: bool | None = None) -> None:
        on_terminal = sys.stderr.isatty()
        self._make_view: Callable[[Stage], _View] | None = None
        if show is None and _running:
            self._make_view = _running[-1].make_view
        elif on_terminal and show is not False:
            self._make_view = _Bar
        elif show or (show is None and _is_notebook()):
            self._make_view = _Lines

    @contextmanager
    def stage(
        self,
        name: str,
        total: float | None = None,
        *,
        done: float = 0.0,
        cycle: float | None = None,
        says_end: bool = True,
    ) -> Iterator[Callable[[float], None]]:
        """Show a stage while the block runs, and yield a function that is told how much more is
        done. A stage within it takes its place on the screen meanwhile.

        Parameters
        ----------
        total
            How much there is to do; None where that cannot be known.
        done
            How much of it was done before.
        cycle
            After so much the work repeats, such as a fold: within it, equal amounts may take
            unequal times, so that only whole cycles tell the speed.
        says_end
            Whether a line is left that says how long it took.
        """
        stage = Stage(name, total, done=done, cycle=cycle)
        stage.make_view, stage.says_end = self._make_view, says_end
        note_activity("")  # of the stage around it
        _running.append(stage)
        try:
            with nullcontext() if self._make_view is None else _show_later(stage):
                try:
                    yield stage.advance
                except BaseException:  # an interrupted stage has no duration to report
                    stage.says_end = False
                    raise
        finally:
            _running.remove(stage)


def _is_notebook() -> bool:
    """Whether a notebook shows what is printed."""
    return type(sys.stderr).__module__.startswith("ipykernel.")


def note_activity(text: str) -> None:
    """Say what the running stage is doing until it advances, such as compiling."""
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
    """The progress of a stage, and the time it still needs; the arguments are those of
    `Progress.stage`."""

    def __init__(
        self,
        name: str,
        total: float | None = None,
        *,
        done: float = 0.0,
        cycle: float | None = None,
    ) -> None:
        self.name, self.total, self.done, self.cycle = name, total, done, cycle
        self.make_view: Callable[[Stage], _View] | None = None
        self.says_end = True
        self.is_due = False
        """Whether it has run long enough to be shown."""
        self.view: _View | None = None
        """The display, once it is due."""
        self.activity = ""
        """What it is doing, if that is not its own work."""
        self.began = time.monotonic()
        self._points = [(self.began, done)]

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.activity = ""
        self.done += amount
        if self.done - self._points[-1][1] > (0 if self.cycle is None else 0.999 * self.cycle):
            self._points.append((time.monotonic(), self.done))
        if len(self._points) > _MAX_POINTS:
            del self._points[1:-1:2]

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """The seconds left, from the speed of the later half of the work; None if that is not known
        yet.

        So neither a slow beginning counts, nor what an interrupted run had done before and reports
        at once. Between two reports, the time left runs down, but no further than what is left
        after the next one; if that is late, the work is slower than it was.
        """
        points = self._select_points()
        if self.total is None or len(points) < 2:
            return None
        (then, before), (last, done) = points[0], points[-1]
        pace, step = (last - then) / (done - before), (done - before) / (len(points) - 1)
        if pace <= 0 or _measure_error(points, pace) > _MAX_ERROR * pace:
            return None
        since, left = time.monotonic() - last, self.total - done
        if since <= step * pace:
            rest = left * pace - since  # below 0 where the last report is of less than the others
            return rest if rest > 0 else None
        return (
            (left - step) * (since + last - then) / (done + step - before) if left > step else None
        )

    def _select_points(self) -> list[tuple[float, float]]:
        """(time, amount) of the reports that tell the speed; none where they are too few."""
        points = list(self._points)
        if self.cycle is not None:
            return points
        half = next(i for i, (_, done) in enumerate(points) if 2 * done >= points[-1][1])
        points = points[max(1, min(half, len(points) - 3)) :]
        return points if len(points) > 2 else []


def _measure_error(points: list[tuple[float, float]], pace: float) -> float:
    """Standard error of the pace, in seconds per amount, by how much it varies between reports."""
    n, amount, variance = len(points) - 1, points[-1][1] - points[0][1], 0.0
    for (then, before), (now, done) in pairwise(points):
        own_pace = (now - then) / (done - before)
        variance += (own_pace - pace) ** 2 * (done - before) / amount
    return math.sqrt(variance / max(1, n - 1))


class _View(Protocol):
    """Shows a stage."""

    def __init__(self, stage: Stage) -> None: ...

    def update(self) -> None:
        """Show how far it is."""

    def hide(self) -> None:
        """Clear the screen for something else until the next update."""

    def close(self) -> None:
        """Leave the screen, and say how long the stage took if that was long."""


@contextmanager
def _show_later(stage: Stage) -> Iterator[None]:
    """Show the stage from a thread, unless it ends before anybody would notice."""

    def show(is_over: Event) -> None:
        if is_over.wait(_QUIET_SECONDS):
            return
        stage.is_due = True
        while True:
            with _screen:
                _update_screen(stage)
            if is_over.wait(_UPDATE_SECONDS):
                break
        with _screen:
            stage.is_due = False
            if stage.view is not None:
                stage.view.close()

    with run_beside(show):
        yield


def _update_screen(stage: Stage) -> None:
    """Show the stage, unless a stage within it is shown."""
    due = [one for one in _running if one.is_due]
    if due[-1] is not stage:
        return
    for other in due[:-1]:
        if other.view is not None:
            other.view.hide()
    if stage.view is None:
        assert stage.make_view is not None
        stage.view = stage.make_view(stage)
    stage.view.update()


class _Bar:
    """A bar with the time that is left, on one line."""

    def __init__(self, stage: Stage) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        one_line = Column(no_wrap=True, overflow="ellipsis")
        self._stage = stage
        self._progress = RichProgress(
            TextColumn("{task.description}", markup=False, table_column=one_line),
            BarColumn(20),
            TaskProgressColumn(),
            TextColumn("{task.fields[time]}", markup=False, table_column=one_line.copy()),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # what goes to a file stays off the screen
        )
        self._task = self._progress.add_task(stage.name, total=stage.total, time="")

    def update(self) -> None:
        stage = self._stage
        fields: dict[str, Any] = {"completed": stage.done, "time": describe_time(stage)}
        self._progress.start()
        self._progress.update(self._task, **fields, refresh=True)

    def hide(self) -> None:
        self._progress.stop()

    def close(self) -> None:
        self.hide()
        if self._stage.says_end and self._stage.elapsed_seconds >= _QUIET_SECONDS:
            _print_line(describe_end(self._stage))


class _Lines:
    """Plain lines, rarer as the work takes longer; they tell the time left once it is known."""

    _last: ClassVar[float] = -math.inf
    """When the last line of any stage was printed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_first = True
        self._told_time = False

    def update(self) -> None:
        stage = self._stage
        pause = max(_LINE_SECONDS, _LINE_SHARE * stage.elapsed_seconds)
        left = stage.seconds_left
        tells_time_now = left is not None and left >= _LINE_SECONDS and not self._told_time
        if self._is_first and not tells_time_now:
            self._print(stage.name + (f" ({stage.activity})" if stage.activity else ""))
        elif tells_time_now or time.monotonic() - _Lines._last >= pause:
            self._told_time |= left is not None
            share = "" if not stage.total else f" {min(stage.done / stage.total, 1):.0%},"
            self._print(f"{stage.name}:{share} {describe_time(stage)}")
        self._is_first = False

    def hide(self) -> None:
        pass

    def close(self) -> None:
        if self._stage.says_end and self._stage.elapsed_seconds >= _LINE_SECONDS:
            self._print(describe_end(self._stage))

    def _print(self, text: str) -> None:
        _print_line(text)
        _Lines._last = time.monotonic()


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def describe_end(stage: Stage) -> str:
    """Describe how long a finished stage took."""
    return f"{stage.name}: took {describe_seconds(stage.elapsed_seconds)}"


def describe_time(stage: Stage) -> str:
    """Describe how long a stage has taken and will still take."""
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
