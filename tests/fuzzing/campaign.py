"""Many cases: who runs what, what failed, and what to print."""

from __future__ import annotations

import gc
import json
import select
import shutil
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.case import CaseOutcome, Scene, Target
from fuzzing.workers import Worker

_BATCH_SECONDS = 15.0  # of a worker, about: then another target's turn
_WARM_CASES = 2  # readings of a sound input: some choose at random what they read
_FIRST_BATCH, _LARGEST_BATCH = (
    25,
    2_000,
)  # cases of a target's first batch, and of any: all have a turn early on
#: A worker that has so much more at its end than after its first cases loses memory. Allocators
#: keep some of what they once had.
GROWTH_BYTES = 250 * 2**20


def load_fonts() -> None:
    """Let Matplotlib make its folders in the user's home, before cases are watched."""
    import matplotlib.font_manager  # noqa: F401


@dataclass
class CaseTally:
    """What became of a target's cases."""

    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, 0)
    """Seconds, and the number of the case."""
    growth: int = 0

    @property
    def cases(self) -> int:
        return sum(self.kinds.values())


class Campaign:
    """A run of the fuzzer."""

    def __init__(self, targets: Sequence[Target], seed: int, scratch: Path, failures: Path) -> None:
        self.targets, self.seed = list(targets), seed
        self.scratch, self.failures_folder = scratch, failures
        self.tallies = {target.name: CaseTally() for target in targets}
        self.failures: list[CaseOutcome] = []
        self.files: set[str] = set()
        """Sources that reading sound input called."""
        self._next = dict.fromkeys(self.tallies, 0)

    def make_templates(self) -> None:
        """Write each target's sound input; a target that cannot is a failure."""
        for target in list(self.targets):
            folder = self.scratch / "templates" / target.name
            folder.mkdir(parents=True)
            try:
                target.make(folder)
            except Exception as error:
                problem, detail = f"its input cannot be made: {error}", traceback.format_exc()
                self.failures.append(
                    CaseOutcome(target.name, self.seed, 0, "failure", 0, problem, detail)
                )
                self.tallies[target.name].kinds["failure"] += 1
                self.targets.remove(target)

    def warm_up(self) -> None:
        """Read every sound input in this process, so that workers begin with what that loads."""
        load_fonts()
        for target in self.targets:
            copy, out = self.scratch / "warm", self.scratch / "warm-out"
            template = self.scratch / "templates" / target.name
            for folder in (copy, out):
                shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(template, copy, symlinks=True)
            for number in range(_WARM_CASES):
                (out / str(number)).mkdir(parents=True)
            for file in copy.rglob("*.json"):
                content = file.read_bytes()
                file.write_bytes(content.replace(str(template).encode(), str(copy).encode()))
            for number in range(_WARM_CASES):
                with (
                    suppress(Exception),
                    self._note_files(),
                ):  # its first case will say what is wrong
                    target.read(Scene(Random(number), copy, out / str(number)))

    @contextmanager
    def _note_files(self) -> Iterator[None]:
        """Note every file of ours in which a function is called."""

        def note(frame: Any, _event: str, _argument: Any) -> None:  # None: not line by line
            code = frame.f_code
            if code.co_name != "<module>":
                self.files.add(code.co_filename)

        threading.settrace(note)
        sys.settrace(note)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    def run(
        self, batches: Iterator[tuple[Target, int]], jobs: int, tell: Callable[[], None]
    ) -> None:
        """Run batches (a target and how many of its next cases), `jobs` at a time."""
        gc.freeze()  # forked processes look through what they make, not through what they inherit
        workers: dict[int, Worker] = {}
        pending = True
        while pending or workers:
            for slot in range(jobs):
                if pending and slot not in workers:
                    batch = next(batches, None)
                    if batch is None:
                        pending = False
                        break
                    workers[slot] = self._start(slot, *batch)
            if workers:
                select.select(list(workers.values()), [], [], 0.5)
            for slot, worker in list(workers.items()):
                worker.poll()
                self._take(worker)
                if worker.is_finished:
                    del workers[slot]
            tell()

    def _start(self, slot: int, target: Target, count: int) -> Worker:
        first = self._next[target.name]
        self._next[target.name] += count
        return Worker(
            target, self.seed, range(first, first + count), self.scratch / f"worker-{slot}",
            self.scratch / "templates", self.failures_folder,
        )  # fmt: skip

    def _take(self, worker: Worker) -> None:
        tally = self.tallies[worker.target.name]
        for outcome in worker.outcomes:
            tally.kinds[outcome.kind] += 1
            tally.seconds += outcome.seconds
            tally.slowest = max(tally.slowest, (outcome.seconds, outcome.number))
            if outcome.kind == "failure":
                self.failures.append(outcome)
        worker.outcomes.clear()
        if worker.is_finished:
            tally.growth = max(tally.growth, worker.growth)
            if worker.growth > GROWTH_BYTES:
                problem = f"memory grows by {worker.growth >> 20} MiB"
                self.failures.append(
                    CaseOutcome(worker.target.name, self.seed, -1, "failure", 0, problem)
                )
                tally.kinds["failure"] += 1

    def count_batches(self, share: float) -> Iterator[tuple[Target, int]]:
        """Each target's own number of cases, times `share`, the longest first."""
        for target in sorted(self.targets, key=lambda one: -one.cases):
            yield target, max(2, round(target.cases * share))

    def time_batches(self, until: float) -> Iterator[tuple[Target, int]]:
        """Each target in turn, for about the same time, until the time is over."""
        while True:
            for target in self.targets:
                if time.monotonic() > until:
                    return
                tally = self.tallies[target.name]
                if not tally.cases:
                    yield target, _FIRST_BATCH
                    continue
                mean = tally.seconds / tally.cases
                left = min(_BATCH_SECONDS, max(until - time.monotonic(), 1.0))
                yield target, min(_LARGEST_BATCH, max(10, int(left / max(mean * 1.3, 0.002))))

    def summarise(self) -> str:
        lines = [f"{'target':<20}{'cases':>8}{'answers':>9}{'refusals':>10}{'failures':>10}"
                 f"{'slowest':>10}{'growth':>10}"]  # fmt: skip
        for name, tally in self.tallies.items():
            kinds = tally.kinds
            lines.append(
                f"{name:<20}{tally.cases:>8,}{kinds['answer']:>9,}{kinds['refusal']:>10,}"
                f"{kinds['failure']:>10,}{tally.slowest[0]:>8.2f} s{tally.growth >> 20:>6} MiB"
            )
        total = sum(tally.cases for tally in self.tallies.values())
        lines.append(f"\n{total:,} cases, {len(self.failures):,} failures, seed {self.seed}")
        groups: dict[tuple[str, str], list[CaseOutcome]] = {}
        for outcome in self.failures:
            groups.setdefault((outcome.target, outcome.problem), []).append(outcome)
        for (target, problem), same in groups.items():
            first = same[0]
            lines.append(f"\n{len(same)} x {target}: {problem}")
            lines.append(f"  --target {target} --seed {first.seed} --case {first.number}"
                         f"   ({first.damage or 'undamaged'})")  # fmt: skip
        if self.failures:
            lines.append(f"\nThe inputs are in {self.failures_folder}")
        return "\n".join(lines)

    def write_result(self, path: Path) -> None:
        """Every target's counts and failures, for the tests."""
        result = {
            name: {
                "cases": tally.cases,
                **tally.kinds,
                "failures": [one.as_dict() for one in self.failures if one.target == name],
            }
            for name, tally in self.tallies.items()
        }
        path.write_text(json.dumps(result))
