"""One case, from the copy of a target's input to its outcome."""

from __future__ import annotations

import os
import shutil
import stat
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import Any, Literal

from fuzzing.watch import Watch, measure_peak, place_bystanders, reset_peak, take_snapshot
from uqled.errors import UqledError

Kind = Literal["answer", "refusal", "failure"]
#: Bytes that one case may need: the limits of `LIMITS` and a few copies.
PEAK_BYTES = 700 * 2**20
#: Small enough that a case stays quick and a reader without a limit is noticed.
LIMITS = {
    "UQLED_LIMIT_MEMORY_BYTES": 2**27,
    "UQLED_LIMIT_IMAGE_PIXELS": 2**24,
    "UQLED_LIMIT_JSON_BYTES": 2**24,
}
_HUGE_SIZE = 2**40  # bytes: an allocation that fails at once everywhere, and costs nothing


class WrongAnswerError(Exception):
    """A reader gave an answer that cannot be right."""


def require(holds: Any, what: str) -> None:
    """Check an answer."""
    if not holds:
        raise WrongAnswerError(what)


@dataclass(frozen=True)
class Scene:
    """What a reader is given."""

    rng: Random
    input: Path
    """The folder of the damaged input."""
    out: Path
    """An empty folder to write to."""


@dataclass(frozen=True)
class Target:
    """A reader of foreign bytes, with input to damage."""

    name: str
    make: Callable[[Path], Any]
    """Write sound input into an empty folder."""
    damage: Callable[[Random, Path, Sequence[str]], str]
    """Damage the input in a folder, in place; the paths are files to aim at. Says what it did."""
    read: Callable[[Scene], Any]
    """Read the input, check the answer with `require`."""
    writes: tuple[str, ...] = ()
    """Patterns of what reading may write among the input."""
    cases: int = 60
    """Of a short run."""


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended."""

    target: str
    seed: int
    number: int
    kind: Kind
    seconds: float = 0.0
    problem: str = ""
    """Of a failure: what went wrong, in short; the same for the same fault."""
    detail: str = ""
    damage: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Bench:
    """A folder in which cases of any target are run, one after the other."""

    def __init__(self, scratch: Path, templates: Path, watch: Watch) -> None:
        self.scratch, self.templates, self.watch = scratch, templates, watch
        self.input, self.out = scratch / "input", scratch / "out"
        self.outside, self.work = scratch / "outside", scratch / "work"

    def run(
        self,
        target: Target,
        seed: int,
        number: int,
        tell_damage: Callable[[str], None] = lambda _: None,
    ) -> CaseOutcome:
        rng = Random(f"{target.name} {seed} {number}")
        self._prepare(target)
        damage = ""
        if number:  # the first is sound
            damage = target.damage(
                rng, self.input, [str(self.outside), str(self.outside / "x.npy")]
            )
        tell_damage(damage)
        before, outside_content = take_snapshot(self.input), take_snapshot(self.outside)
        reset_peak()
        start, peak = time.perf_counter(), measure_peak()
        kind, problem, detail = self._read(target, rng)
        seconds = time.perf_counter() - start
        if kind == "refusal" and not number:
            kind, problem = "failure", "sound input is refused"
        violations = self._look_around(target, before, outside_content)
        if measure_peak() - peak > PEAK_BYTES:
            violations.append(f"takes {(measure_peak() - peak) >> 20} MiB")
        if violations:
            kind, problem, detail = "failure", violations[0], "\n".join([*violations, detail])
        return CaseOutcome(target.name, seed, number, kind, seconds, problem, detail, damage)

    def _prepare(self, target: Target) -> None:
        for folder in (self.input, self.out, self.work, self.scratch / "cache"):
            remove_tree(folder)
        template = self.templates / target.name
        shutil.copytree(template, self.input, symlinks=True)
        for file in self.input.rglob("*.json"):  # runs say where their data lies
            content = file.read_bytes()
            if str(template).encode() in content:
                file.write_bytes(content.replace(str(template).encode(), str(self.input).encode()))
        self.out.mkdir()
        self.work.mkdir()
        if not self.outside.exists():
            place_bystanders(self.outside)
        os.chdir(self.work)

    def _read(self, target: Target, rng: Random) -> tuple[Kind, str, str]:
        may_write = [self.out, self.scratch / "cache", self.scratch / "temporary"]
        if target.writes:
            may_write.append(self.input)
        try:
            with self.watch.watch_folders(may_write):
                target.read(Scene(rng, self.input, self.out))
        except UqledError as error:
            if (allocation := _find_allocation(error)) is not None:
                return "failure", f"memory: {allocation}", traceback.format_exc()
            if "\x1b" in str(error):
                return "failure", f"escape code in an error {_locate(error)}", repr(error)
            return "refusal", "", f"{type(error).__name__}: {error}"
        except BaseException as error:
            problem = f"{type(error).__name__} {_locate(error)}"
            if isinstance(error, WrongAnswerError):
                problem = f"wrong answer: {error}"
            return "failure", problem, traceback.format_exc()
        return "answer", "", ""

    def _look_around(
        self, target: Target, before: dict[str, str], outside_content: dict[str, str]
    ) -> list[str]:
        """What was touched that must not be, and what was left behind."""
        violations = [f"touches {what}" for what in self.watch.violations]
        if (now := take_snapshot(self.outside)) != outside_content:
            violations.append(f"changes files outside: {_compare(outside_content, now)}")
            remove_tree(self.outside)
        after = take_snapshot(self.input)
        after_all = [name for name in _compare(before, after) if not _is_any(name, target.writes)]
        if after_all:
            violations.append(f"changes its input: {after_all}")
        for folder in (self.input, self.out, self.scratch / "cache"):
            left = [n for n in take_snapshot(folder) if n.rpartition("/")[2].startswith(".uqled-")]
            if left:
                violations.append(f"leaves {left[0].rpartition('/')[2][:12]} behind")
        for folder in (self.work, self.scratch / "temporary"):
            if left := list(take_snapshot(folder)):
                violations.append(f"leaves {left[0]} in the {folder.name} folder")
                remove_tree(folder)
                folder.mkdir()
        return violations


def remove_tree(folder: Path) -> None:
    """Remove a folder, whatever a case made of it."""
    if not folder.is_symlink() and folder.is_dir():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def save_input(source: Path, target: Path) -> None:
    """Keep what a case read; pipes and links as they are."""
    remove_tree(target)
    target.mkdir(parents=True)
    for parent, folders, files in os.walk(source):
        for name in (*folders, *files):
            path = Path(parent, name)
            copy = target / path.relative_to(source)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                copy.symlink_to(path.readlink())
            elif stat.S_ISDIR(mode):
                copy.mkdir()
            elif stat.S_ISREG(mode):
                shutil.copyfile(path, copy)
            else:
                os.mkfifo(copy)


def _compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _locate(error: BaseException) -> str:
    """The last line of ours on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [one for one in frames if f"{os.sep}uqled{os.sep}" in one.filename] or frames
    last = own_frames[-1]
    return f"in {Path(last.filename).name} {last.name}: {last.line or ''}"[:160]


def _find_allocation(error: BaseException | None) -> str | None:
    """The allocation that failed and became an error of ours, if a machine might have had it."""
    while error is not None:
        size = getattr(error, "_total_size", 0)  # NumPy's
        if isinstance(error, MemoryError) and size < _HUGE_SIZE and not _is_parser(error):
            return f"{error} {_locate(error)}"
        error = error.__cause__ or error.__context__
    return None


def _is_parser(error: BaseException) -> bool:
    """If Python's parser ended at its own depth, which it calls a lack of memory."""
    return traceback.extract_tb(error.__traceback__)[-1].name in (
        "parse",
        "compile",
        "literal_eval",
    )
