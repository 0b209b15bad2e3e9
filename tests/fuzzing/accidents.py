"""Commands that are killed, starved of disk space or raced, and then repeated: `make accidents`.

After an accident, every file under its final name can be read, and a command that did not succeed
said why in one line. After the repetition, the files are those of a run that nobody disturbed, with
the same arrays, and no temporary file is left.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.case import require
from fuzzing.children import ANSWER, REFUSAL, Child, run_child
from fuzzing.scenarios import SCENARIOS, ScenarioStage
from fuzzing.targets.runs import make_table_run, request
from fuzzing.watch import take_snapshot

_CAPABILITY_VERSION = 0x2008_0522  # of the system call, 64 bits of rights
_DAY = 86_400.0


def kill_command(stage: ScenarioStage, rounds: int, rng: Random) -> dict[str, int]:
    """SIGKILL at random moments, some of them while a killed command is repeated."""
    kills = attempts = 0
    while kills < rounds:
        attempts += 1
        require(attempts <= 20 * rounds, f"it ends before it is killed: {kills} of {attempts}")
        stage.begin()
        for _ in range(rng.choice((1, 1, 2, 3))):
            moment = rng.random() * stage.seconds
            code = Child(stage.run, stage.log).kill_after(moment)
            require(code in (ANSWER, -signal.SIGKILL), f"exit code {code}: {read_log(stage)}")
            kills += code == -signal.SIGKILL
            explain(stage.check_files, f"kill {kills} after {moment:.3f} s")
        explain(stage.repeat, f"kill {kills} after {moment:.3f} s")
    return {"kills": kills}


def fill_disk(stage: ScenarioStage, rounds: int, rng: Random) -> dict[str, int]:
    """No room for all that the command writes; some of it may fit."""
    refusals = 0
    for _ in range(rounds):
        size = int(10 ** (rng.random() * 4.5))
        stage.begin()
        with DiskLimit(stage.folder, size) as limit:
            code, output = run_child(lambda limit=limit: limit.call(stage.run), stage.log)
        require(code in (ANSWER, REFUSAL), f"{size} bytes of room: exit code {code}: {output}")
        if code == REFUSAL:
            is_disk_named = (
                "No space left" in output or "File too large" in output or "disk" in output
            )
            require(is_disk_named, f"{size} bytes of room: {output}")
        refusals += code == REFUSAL
        explain(stage.check_files, f"{size} bytes of room")
        explain(stage.repeat, f"{size} bytes of room")
    return {"refusals": refusals}


class DiskLimit:
    """A disk with little room: a small one that is filled, or else short files."""

    def __init__(self, folder: Path, size: int) -> None:
        self._size = size
        self._filler = folder.parent / "filler"
        about = os.statvfs(folder)
        self._free_bytes = about.f_bavail * about.f_frsize
        self._is_small = self._free_bytes < 2**26

    def __enter__(self) -> DiskLimit:
        if self._is_small:
            with self._filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(self._free_bytes - self._size, 1))
        return self

    def __exit__(self, *_: object) -> None:
        self._filler.unlink(missing_ok=True)

    def call(self, function: Callable[[], Any]) -> None:
        if self._is_small:
            return function()
        hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, hard_limit))
        try:
            return function()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard_limit, hard_limit))


def forbid_writing(stage: ScenarioStage, rounds: int, rng: Random) -> dict[str, int]:  # noqa: ARG001
    """A folder that its owner may read but not write."""
    stage.begin()
    before = take_snapshot(stage.folder)
    paths = [stage.folder, *stage.folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        code, output = run_child(lambda: without_privileges(stage.run), stage.log)
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)
    require(code == REFUSAL, f"a read-only folder: exit code {code}: {output}")
    require(str(stage.folder) in output, f"a read-only folder is not named: {output}")
    require(take_snapshot(stage.folder) == before, "a read-only folder was changed")
    explain(stage.repeat, "a read-only folder")
    return {"refusals": 1}


def without_privileges(function: Callable[[], Any]) -> None:
    """Call a function as root without the right to write everywhere, if this is root."""
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        require(ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0, "capset failed")
    function()


def run_twice(stage: ScenarioStage, rounds: int, rng: Random) -> dict[str, int]:
    """Two processes at once: each gets its result, or is told that another one is at work."""
    refusals = 0
    for _ in range(rounds):
        stage.begin()
        first = Child(stage.run, stage.log)
        time.sleep(rng.choice((0.0, rng.random() * stage.seconds)))
        second = Child(stage.run, stage.log.with_name("log-2"))
        codes = first.wait(), second.wait()
        outputs = f"{first.output} {second.output}"
        require(set(codes) <= {ANSWER, REFUSAL}, f"two at once: exit codes {codes}: {outputs}")
        require(ANSWER in codes, f"two at once: both are refused: {outputs}")
        refusals += codes.count(REFUSAL)
        explain(stage.check_files, "two at once")
        explain(stage.repeat, "two at once")
    return {"refusals": refusals}


def set_clock_back(stage: ScenarioStage, rounds: int, rng: Random) -> dict[str, int]:
    """A killed command is continued when it is earlier than it was, and ever earlier."""
    for _ in range(rounds):
        stage.begin()
        Child(stage.run, stage.log).kill_after(rng.random() * stage.seconds)
        for path in stage.list_outputs():
            new_time = path.stat().st_mtime + _DAY * rng.choice((0.01, 1, 400))
            os.utime(path, (new_time, new_time))
        code, output = run_child(lambda: with_clock_going_back(stage.run), stage.log)
        require(code == ANSWER, f"a clock that goes back: exit code {code}: {output}")
        explain(stage.repeat, "a clock that goes back")
    return {"repetitions": rounds}


def with_clock_going_back(function: Callable[[], Any]) -> None:
    """Call a function while the time of day falls by an hour whenever somebody asks for it."""
    true_time, n_reads = time.time, 0

    def read_clock() -> float:
        nonlocal n_reads
        n_reads += 1
        return true_time() - 3_600 * n_reads

    time.time = read_clock
    time.time_ns = lambda: int(read_clock() * 1e9)
    function()


def read_log(stage: ScenarioStage) -> str:
    return stage.log.read_text(errors="replace")[-4_000:]


def explain(check: Callable[[], Any], accident: str) -> None:
    """Call a check; its failure names the accident."""
    try:
        check()
    except Exception as error:
        raise AssertionError(f"{accident}: {error}") from error


ACCIDENTS: dict[str, Callable[[ScenarioStage, int, Random], dict[str, int]]] = {
    "kills": kill_command,
    "full-disk": fill_disk,
    "read-only": forbid_writing,
    "two-processes": run_twice,
    "clock-back": set_clock_back,
}

# -- review ----------------------------------------------------------------------------------------


def kill_review(kills: int, rng: Random, scratch: Path, log: Path) -> dict[str, int]:
    """Kill the page's application while it writes decisions; count what it had answered."""
    from uqled.review.decisions import Decisions
    from uqled.storage.run import Run

    scratch.mkdir(parents=True)
    make_table_run(scratch)
    predictions = Run.open(scratch / "run").predictions()
    n_answers = 0
    for number in range(kills):
        reader, writer = os.pipe()
        child = Child(lambda writer=writer: _decide_forever(scratch / "run", writer), log)
        os.close(writer)
        first = os.read(reader, 8) + os.read(reader, 8)  # it is up, and has answered once
        code = child.kill_after(rng.random() * 0.15)
        require(code == -signal.SIGKILL, f"exit code {code}: {child.output}")
        answers = bytearray(first)
        while piece := os.read(reader, 2**16):
            answers += piece
        os.close(reader)
        acknowledged_changes = [
            (answers[i], int.from_bytes(answers[i + 1 : i + 8], "little"))
            for i in range(0, len(answers) - 7, 8)
        ][1:]
        with Decisions.of(predictions) as decisions:
            history = {(one.index, one.version) for one in decisions.history()}
        lost_changes = [one for one in acknowledged_changes if one not in history]
        require(
            not lost_changes,
            f"kill {number}: {len(lost_changes)} of {len(acknowledged_changes)} answers are lost",
        )
        n_answers += len(acknowledged_changes)
    return {"kills": kills, "answers": n_answers}


def _decide_forever(run: Path, writer: int) -> None:
    """Decide sample after sample; say (sample, version) when the page has answered."""
    from uqled.detect.find import find_errors_in_run
    from uqled.review.decisions import Decisions
    from uqled.review.server.application import make_application
    from uqled.review.session import ReviewSession
    from uqled.storage.run import Run

    opened_run = Run.open(run)
    predictions = opened_run.predictions()
    with Decisions.of(predictions) as decisions:
        errors = find_errors_in_run(predictions)
        page = make_application(ReviewSession(predictions, errors, decisions, None, reviewer="ana"))
        os.write(writer, bytes(8))
        step = 0
        while True:
            index, action = step % 60, ("keep", "drop")[step // 60 % 2]
            body = {"items": [[index, action, None]], "seen": {str(index): 2**40}}
            status, content = request(page, "/api/decide", body | {"reviewer": "ana", "tab": "t"})
            require(status == 200, f"status {status}: {content!r}")
            (row,) = json.loads(content)["decided"]
            os.write(writer, bytes([index]) + int(row["version"]).to_bytes(7, "little"))
            step += 1


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzzing.accidents", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="Of all commands together.")
    parser.add_argument("--rounds", type=int, default=5, help="Of each other accident.")
    parser.add_argument("--seed", type=int, default=0, help="The same seed, the same moments.")
    parser.add_argument("--command", action="append", help="Default: all, and the review page.")
    parser.add_argument("--kind", action="append", choices=list(ACCIDENTS), help="Default: all.")
    parser.add_argument("--scratch", type=Path, help="An empty folder, such as a small disk.")
    return parser.parse_args()


def main() -> int:
    arguments = read_arguments()
    names = arguments.command or [*(one.name for one in SCENARIOS), "review"]
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="uqled-accidents-"))
    is_sound = True
    with tempfile.TemporaryDirectory() as logs:  # not on a disk that is to be full
        for place, name in enumerate(names):
            kills = arguments.kills // len(names) + (place < arguments.kills % len(names))
            rng = Random(f"{name} {arguments.seed}")
            try:
                for line in disturb(name, kills, arguments, rng, scratch / name, Path(logs)):
                    print(name, line, flush=True)
                shutil.rmtree(scratch / name, ignore_errors=True)
            except Exception as error:
                is_sound = False
                print(f"{name} FAILED: {error}", flush=True)
    if is_sound:
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        print(f"The files after a failed check are in {scratch}")
    return int(not is_sound)


def disturb(
    name: str,
    kills: int,
    arguments: argparse.Namespace,
    rng: Random,
    scratch: Path,
    logs: Path,
) -> Iterator[str]:
    """Let every accident happen to one command; a line for each."""
    kinds = arguments.kind or list(ACCIDENTS)
    if name == "review":
        yield f"kills {kill_review(kills, rng, scratch, logs / 'log')}"
        return
    stage = ScenarioStage(next(one for one in SCENARIOS if one.name == name), scratch, logs / "log")
    for kind in kinds:
        counts = ACCIDENTS[kind](stage, kills if kind == "kills" else arguments.rounds, rng)
        yield f"{kind} {counts}"


if __name__ == "__main__":
    sys.exit(main())
