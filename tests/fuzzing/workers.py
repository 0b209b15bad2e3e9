"""Cases in forked processes. Each is named before it starts, so that a crash has a name."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fuzzing.case import LIMITS, Bench, CaseOutcome, Target, save_input
from fuzzing.watch import (
    Watch,
    limit_memory,
    measure_computing,
    measure_resident,
    use_folder_for_temporary_files,
)

#: A case that computes for longer, or waits for longer, hangs. What others do on the machine makes
#: a case slow, and is no failure.
CASE_SECONDS, WAIT_SECONDS = 20.0, 300.0
#: Addresses that a worker may use beyond those it is born with.
_ROOM_BYTES = 3 * 2**30


class Worker:
    """A forked process that runs some cases of one target."""

    def __init__(
        self, target: Target, seed: int, numbers: Iterable[int], scratch: Path, templates: Path,
        failures: Path,
    ) -> None:  # fmt: skip
        self.target, self.seed = target, seed
        self.outcomes: list[CaseOutcome] = []
        self.growth = 0
        """Bytes that the process has more at its end than after its first cases."""
        self._left = list(numbers)
        self._scratch, self._templates, self._failures = scratch, templates, failures
        self._log = scratch / "log"
        scratch.mkdir(parents=True, exist_ok=True)
        self._fork()

    def fileno(self) -> int:
        return self._pipe

    @property
    def is_finished(self) -> bool:
        return self._pid is None

    def _fork(self) -> None:
        self._text, self._damage, self._started_at = b"", "", time.monotonic()
        self._computed_before = 0.0
        self._current: int | None = None
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(reader)
                self._work(writer)
                code = 0
            except BaseException:  # of the fuzzer itself
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writer)
        self._pipe: int = reader
        self._pid: int | None = pid

    def poll(self) -> None:
        """Take what the process has said; end it if its case hangs."""
        while select.select([self._pipe], [], [], 0)[0]:
            piece = os.read(self._pipe, 2**16)
            if not piece:
                self._bury()
                return
            self._text += piece
            *lines, self._text = self._text.split(b"\n")
            for line in lines:
                self._take(json.loads(line))
        if self._pid is not None and self._current is not None:
            processor_seconds = measure_computing(self._pid) - self._computed_before
            waiting_seconds = time.monotonic() - self._started_at
            if processor_seconds > CASE_SECONDS or waiting_seconds > WAIT_SECONDS:
                self._kill_hanging(processor_seconds, waiting_seconds)

    def _take(self, message: dict[str, Any]) -> None:
        self._started_at = time.monotonic()
        if self._pid is not None:
            self._computed_before = measure_computing(self._pid)
        if "start" in message:
            self._current, self._damage = message["start"], ""
        elif "damage" in message and len(message) == 1:
            self._damage = message["damage"]
        elif "growth" in message:
            self.growth = message["growth"]
        else:
            outcome = CaseOutcome(**message)
            self._note(outcome)
            self._current = None

    def _note(self, outcome: CaseOutcome) -> None:
        self.outcomes.append(outcome)
        self._left.remove(outcome.number)
        if outcome.kind == "failure":
            name = f"{outcome.target}-{outcome.seed}-{outcome.number}"
            folder = self._failures / name
            if not folder.exists():  # a crash leaves the input where it was
                save_input(self._scratch / "input", folder / "input")
            text = json.dumps(outcome.as_dict(), indent=1) + "\n" + outcome.detail
            (folder / "outcome.txt").write_text(text, errors="backslashreplace")

    def _bury(self) -> None:
        """The process is gone: at the end of its work, or in the middle of a case."""
        assert self._pid is not None
        os.close(self._pipe)
        status = os.waitpid(self._pid, 0)[1]
        self._pid = None
        if self._current is not None or self._left:
            code = os.waitstatus_to_exitcode(status)
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            self._fail(f"crash: {how}")

    def _kill_hanging(self, processor_seconds: float, waiting_seconds: float) -> None:
        assert self._pid is not None
        os.kill(self._pid, signal.SIGUSR1)  # let it say where it is
        time.sleep(0.5)
        os.kill(self._pid, signal.SIGKILL)
        os.close(self._pipe)
        os.waitpid(self._pid, 0)
        self._pid = None
        self._fail(
            f"hang: more than {CASE_SECONDS:g} s of computing"
            if processor_seconds > CASE_SECONDS
            else f"hang: waits for more than {waiting_seconds:.0f} s"
        )

    def _fail(self, problem: str) -> None:
        """Note what became of the current case, and go on with the next one."""
        number = self._left[0] if self._current is None else self._current
        detail = self._log.read_text(errors="replace")[-6_000:] if self._log.exists() else ""
        location = next((line for line in detail.splitlines() if "uqled/" in line), "").strip()[
            -120:
        ]
        seconds = time.monotonic() - self._started_at
        self._note(
            CaseOutcome(
                self.target.name, self.seed, number, "failure", seconds,
                f"{problem} {location}".strip(), detail, self._damage,
            )
        )  # fmt: skip
        if self._left:
            self._fork()

    def _work(self, writer: int) -> None:
        """In the child: run the cases that are left."""
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.enable(2)
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
        warnings.simplefilter("ignore")
        for name, value in LIMITS.items():
            os.environ[name] = str(value)
        os.environ["UQLED_CACHE"] = str(self._scratch / "cache")
        use_folder_for_temporary_files(self._scratch / "temporary")
        limit_memory(_ROOM_BYTES)
        bench = Bench(self._scratch, self._templates, Watch())
        first, n_settled = 0, min(20, len(self._left) // 2)
        for n_done, number in enumerate(list(self._left)):
            _say(writer, {"start": number})
            outcome = bench.run(
                self.target, self.seed, number, lambda what: _say(writer, {"damage": what})
            )
            if outcome.kind == "failure":
                save_input(
                    bench.input,
                    self._failures / f"{self.target.name}-{self.seed}-{number}" / "input",
                )
            _say(writer, outcome.as_dict())
            if n_done == n_settled:
                gc.collect()
                first = measure_resident()
        gc.collect()
        _say(writer, {"growth": measure_resident() - first})


def _say(writer: int, content: dict[str, Any]) -> None:
    data = json.dumps(content).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]
