"""A command in a forked process, to be killed, starved or raced; a fork starts quickly."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uqled.errors import UqledError

#: Exit codes of a child.
ANSWER, FAILURE, REFUSAL = 0, 1, 2


class Child:
    """A forked process that calls a function; what it prints is in `log`."""

    def __init__(self, function: Callable[[], Any], log: Path) -> None:
        self.log = log
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = FAILURE
            try:
                code = _call(function, log)
            finally:
                os._exit(code)

    def kill_after(self, seconds: float) -> int:
        """Kill it if it is still there then; its exit code, -9 if it was killed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.0005)
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def wait(self, seconds: float = 120.0) -> int:
        code = self.kill_after(seconds)
        if code == -signal.SIGKILL:
            raise AssertionError(f"no end after {seconds:g} s: {self.output}")
        return code

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")[-4_000:]


def _call(function: Callable[[], Any], log: Path) -> int:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    warnings.simplefilter("ignore")
    try:
        function()
        code = ANSWER
    except UqledError as error:
        print(f"{type(error).__name__}: {error}")
        code = REFUSAL
    except BaseException:
        traceback.print_exc()
        code = FAILURE
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def run_child(function: Callable[[], Any], log: Path, seconds: float = 120.0) -> tuple[int, str]:
    """(exit code, output) of a function that is called in a process of its own."""
    child = Child(function, log)
    return child.wait(seconds), child.output
