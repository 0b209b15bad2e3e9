"""Commands killed at random moments, and repeated: `python -m fuzzing.kills --kills 200`.

After a kill, every file under its final name can be read. After the repetition, the files are
those of a run that nobody disturbed, with the same arrays, and no temporary file is left.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from fuzzing.array_targets import make_predictions
from fuzzing.case import require
from fuzzing.children import ANSWER, Child, run_child
from fuzzing.run_targets import (
    make_annotated_run,
    make_image_run,
    make_table,
    make_table_run,
    request,
    run_command,
)

_BENCHMARK = """
rates = [0.1]
seeds = [0]
folds = 2
passes = 2
methods = ["cl-pbnr", "cl-mcd"]

[stage2]
methods = ["cl-pbnr"]

[[data]]
name = "digits"
place = "digits"
test_share = 0.5
limit = 200
model = "forest"
"""


@dataclass(frozen=True)
class Scenario:
    """A command to kill."""

    name: str
    prepare: Callable[[Path], Any]
    """Write what the command needs into an empty folder."""
    run: Callable[[Path], Any]
    """The command; may be repeated."""
    check: Callable[[Path], Any] = lambda _: None
    """What must hold at any time, beside that every file is whole."""
    varies: tuple[str, ...] = ()
    """Files that say when or where they were made, and so differ each time."""


# -- what must hold --------------------------------------------------------------------------------


def check_whole(folder: Path) -> None:
    """Read every file below that has its final name."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not _is_temporary(path):
            try:
                _read_whole(path)
            except Exception as error:
                raise AssertionError(f"{path.name} is half-written: {error!r}") from error


def _is_temporary(path: Path) -> bool:
    return any(part.startswith(".uqled-") for part in path.parts)


def _read_whole(path: Path) -> None:
    if path.suffix == ".npy":
        np.array(np.load(path))
    elif path.suffix == ".npz":
        with np.load(path) as archive:
            _ = dict(archive)
    elif path.suffix == ".json":
        json.loads(path.read_text())
    elif path.suffix == ".parquet":
        pq.read_table(path)
    elif path.suffix in (".png", ".jpg"):
        Image.open(path).load()
    elif path.suffix == ".html":
        require(path.read_text().rstrip().endswith("</html>"), "no end")
    elif path.suffix in (".csv", ".md", ".tex"):
        require(path.read_bytes().endswith(b"\n"), "no end")
    elif path.suffix == ".sqlite":
        connection = sqlite3.connect(path)
        found = connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()
        require(found == [("ok",)], f"{found}")


def read_result(folder: Path, varies: tuple[str, ...]) -> dict[str, Any]:
    """Every file below and what it holds, arrays and tables as such."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.endswith(("-wal", "-shm")):
            continue
        if any(path.match(pattern) for pattern in varies):
            found[name] = "..."
        elif path.suffix == ".npz":
            with np.load(path) as archive:
                found[name] = {key: archive[key].tolist() for key in archive}
        elif path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pylist()
        elif path.suffix == ".sqlite":
            connection = sqlite3.connect(path)
            found[name] = connection.execute("SELECT sample, number FROM latest").fetchall()
            connection.close()
        else:
            found[name] = path.read_bytes()
    return found


def compare_results(expected: dict[str, Any], now: dict[str, Any]) -> None:
    missing, more = expected.keys() - now.keys(), now.keys() - expected.keys()
    require(not missing, f"{sorted(missing)} are missing after the repetition")
    require(not more, f"{sorted(more)} are left after the repetition")
    other = [name for name in expected if repr(expected[name]) != repr(now[name])]
    require(not other, f"{other} differ after the repetition")


# -- commands --------------------------------------------------------------------------------------


def _prepare_arrays(folder: Path) -> None:
    for name, array in zip(("labels", "pred_probs", "passes"), make_predictions(), strict=True):
        np.save(folder / f"{name}.npy", array)


def _detect_in_parts(folder: Path) -> None:
    files = [
        f"--{name.replace('_', '-')}={folder / name}.npy"
        for name in ("labels", "pred_probs", "passes")
    ]
    options = ("--method", "all", "--part-rows", 7, "--workers", 1)
    run_command("detect", *files, "--out", folder / "out", *options)


def _prepare_old_export(folder: Path) -> None:
    """A run, and an earlier export that is to be replaced."""
    make_table_run(folder)
    (folder / "out").mkdir()
    options = ("--to", "csv", "--out", folder / "out" / "clean.csv")
    run_command("export", folder / "run", *options, "--flags", "keep")


def _replace_export(folder: Path) -> None:
    options = ("--to", "csv", "--out", folder / "out" / "clean.csv", "--overwrite")
    run_command("export", folder / "run", *options, "--flags", "relabel")


def _check_old_export(folder: Path) -> None:
    require((folder / "out" / "clean.csv").exists(), "the old export is gone")


def _export_folder(folder: Path) -> None:
    if not (folder / "out").exists():  # an export is there whole or not at all
        run_command("export", folder / "run", "--to", "folder", "--out", folder / "out")


def _prepare_benchmark(folder: Path) -> None:
    (folder / "suite.toml").write_text(_BENCHMARK)


def _import(folder: Path) -> None:
    run_command("import", folder / "run", folder / "annotations.json")


def _check_import(folder: Path) -> None:
    """All of the annotations, or none: three decisions are the run's own."""
    connection = sqlite3.connect(folder / "run" / "decisions.sqlite")
    (changes,) = connection.execute("SELECT count(*) FROM changes WHERE number > 5").fetchone()
    connection.close()
    tasks = len(json.loads((folder / "annotations.json").read_text()))
    require(changes == 0 or changes >= tasks - 3, f"{changes} of {tasks} annotations are decisions")


_LOGISTIC = ("--model", "logistic", "--folds", 2, "--passes", 2)
_NETWORK = ("--model", "small", "--folds", 2, "--passes", 2, "--epochs", 3, "--limit", 120)

SCENARIOS = [
    Scenario(
        "predict",
        make_table,
        lambda f: run_command("predict", f / "data.csv", "--out", f / "out", *_LOGISTIC),
    ),
    Scenario(
        "find",
        make_table,
        lambda f: run_command("find", f / "data.csv", "--out", f / "out", *_LOGISTIC),
        varies=("report.html",),
    ),
    Scenario("parts", _prepare_arrays, _detect_in_parts),
    Scenario(
        "detect", make_table_run, lambda f: run_command("detect", f / "run")
    ),
    Scenario(
        "export-overwrite",
        _prepare_old_export,
        _replace_export,
        check=_check_old_export,
        varies=("*.changes.json",),
    ),
    Scenario("export-folder", make_image_run, _export_folder, varies=("changes.json",)),
    Scenario("import", make_annotated_run, _import, check=_check_import),
    Scenario(
        "find-network",
        lambda _: None,
        lambda f: run_command("find", "digits", "--out", f / "out", *_NETWORK),
        varies=("report.html", "training.png"),
    ),
    Scenario(
        "bench",
        _prepare_benchmark,
        lambda f: run_command("bench", f / "suite.toml", "--out", f / "out", "--jobs", 1),
        varies=(
            "cells/*/*/*.json", "cells/*/*/*/*.json", "cells/*/*/*/*/*.json", "*.html", "*.png"
        ),
    ),
]  # fmt: skip


def kill_command(scenario: Scenario, kills: int, seed: int, scratch: Path) -> dict[str, Any]:
    """Kill a command so often; what came of it. Raises where something is lost."""
    rng = Random(f"{scenario.name} {seed}")
    template = scratch / "template"
    template.mkdir(parents=True)
    scenario.prepare(template)
    folder = scratch / "folder"  # the same for all: results say where they are
    os.environ["UQLED_CACHE"] = str(scratch / "cache")

    def begin() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        for file in folder.rglob("*.json"):
            content = file.read_bytes()
            file.write_bytes(content.replace(str(template).encode(), str(folder).encode()))

    begin()
    scenario.run(folder)  # what it loads and compiles, children inherit
    begin()
    start = time.monotonic()
    code, output = run_child(lambda: scenario.run(folder), scratch / "log")
    duration = time.monotonic() - start
    require(code == ANSWER, f"undisturbed: exit code {code}: {output}")
    expected = read_result(folder, scenario.varies)
    struck = 0
    for number in range(kills):
        begin()
        for _ in range(rng.choice((1, 1, 2, 3))):  # a repetition may be killed, too
            moment = rng.random() * duration
            code = Child(lambda: scenario.run(folder), scratch / "log").kill_after(moment)
            struck += code == -signal.SIGKILL
            try:
                check_whole(folder)
                scenario.check(folder)
            except Exception as error:
                raise AssertionError(f"kill {number} after {moment:.3f} s: {error}") from error
        code, output = run_child(lambda: scenario.run(folder), scratch / "log")
        require(code == ANSWER, f"kill {number}, repeated: exit code {code}: {output}")
        check_whole(folder)
        try:
            compare_results(expected, read_result(folder, scenario.varies))
        except Exception as error:
            raise AssertionError(f"kill {number} after {moment:.3f} s: {error}") from error
    return {"kills": kills, "struck": struck, "seconds": round(duration, 3)}


# -- review ----------------------------------------------------------------------------------------


def kill_review(kills: int, seed: int, scratch: Path) -> dict[str, Any]:
    """Kill the page's application while it writes decisions; count what it had answered."""
    from uqled.review.decisions import Decisions
    from uqled.run import Run

    rng = Random(f"review {seed}")
    scratch.mkdir(parents=True)
    make_table_run(scratch)
    predictions = Run.open(scratch / "run").predictions()
    answered, struck = 0, 0
    for number in range(kills):
        reader, writer = os.pipe()
        child = Child(
            lambda writer=writer: _decide_forever(scratch / "run", writer), scratch / "log"
        )
        os.close(writer)
        first = os.read(reader, 8)  # it is up
        code = child.kill_after(rng.random() * 0.15)
        require(code == -signal.SIGKILL, f"exit code {code}: {child.output}")
        said = bytearray(first)
        while piece := os.read(reader, 2**16):
            said += piece
        os.close(reader)
        struck += 1
        acknowledged = [
            (said[i], int.from_bytes(said[i + 1 : i + 8], "little"))
            for i in range(0, len(said) - 7, 8)
        ][1:]
        with Decisions.of(predictions) as decisions:
            history = {(one.index, one.version) for one in decisions.history()}
        lost = [one for one in acknowledged if one not in history]
        require(not lost, f"kill {number}: {len(lost)} of {len(acknowledged)} answers are lost")
        answered += len(acknowledged)
    return {"kills": kills, "struck": struck, "answered": answered}


def _decide_forever(run: Path, writer: int) -> None:
    """Decide sample after sample; say (sample, version) when the page has answered."""
    from uqled.report.page import all_errors
    from uqled.review.decisions import Decisions
    from uqled.review.server import Room, application
    from uqled.run import Run

    opened = Run.open(run)
    predictions = opened.predictions()
    with Decisions.of(predictions) as decisions:
        errors = all_errors(opened, predictions, None)
        page = application(Room(predictions, errors, decisions, None, reviewer="ana"))
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzzing.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="Of all commands together.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", action="append", help="Default: all.")
    parser.add_argument("--result", type=Path, help="Write what came of each as JSON.")
    arguments = parser.parse_args()
    names = arguments.scenario or [*(one.name for one in SCENARIOS), "review"]
    scratch = Path(tempfile.mkdtemp(prefix="uqled-kills-"))
    results: dict[str, Any] = {}
    for place, name in enumerate(names):
        kills = arguments.kills // len(names) + (place < arguments.kills % len(names))
        try:
            if name == "review":
                results[name] = kill_review(kills, arguments.seed, scratch / name)
            else:
                scenario = next(one for one in SCENARIOS if one.name == name)
                results[name] = kill_command(scenario, kills, arguments.seed, scratch / name)
        except Exception as error:
            results[name] = {"failure": f"{error}", "kills": kills}
        print(name, results[name], flush=True)
    if arguments.result:
        arguments.result.write_text(json.dumps(results))
    failed = any("failure" in one for one in results.values())
    if not failed:
        shutil.rmtree(scratch, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
