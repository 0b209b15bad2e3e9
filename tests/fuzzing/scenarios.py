"""Commands that accidents happen to, and what must hold of their files before and after."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from bench_frames import SMALLEST
from fuzzing.case import require
from fuzzing.children import ANSWER, run_child
from fuzzing.targets.arrays import make_predictions
from fuzzing.targets.runs import (
    make_annotated_run,
    make_image_run,
    make_table,
    make_table_run,
    run_command,
)
from uqled.storage.atomic import is_temporary

_BENCHMARK = SMALLEST.replace("logistic", "forest")


@dataclass(frozen=True)
class Scenario:
    """A command to disturb."""

    name: str
    prepare: Callable[[Path], Any]
    """Write what the command needs into an empty folder."""
    run: Callable[[Path], Any]
    """The command; may be repeated."""
    check: Callable[[Path], Any] = lambda _: None
    """What must hold at any time, beside that every file is whole."""
    varying_files: tuple[str, ...] = ()
    """Files that say when or where they were made, and so differ each time."""


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
    run_command("export", folder / "run", *options, "--unreviewed", "keep")


def _replace_export(folder: Path) -> None:
    options = ("--to", "csv", "--out", folder / "out" / "clean.csv", "--overwrite")
    run_command("export", folder / "run", *options, "--unreviewed", "relabel")


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
        varying_files=("report.html",),
    ),
    Scenario("parts", _prepare_arrays, _detect_in_parts),
    Scenario("detect", make_table_run, lambda f: run_command("detect", f / "run")),
    Scenario(
        "export-overwrite",
        _prepare_old_export,
        _replace_export,
        check=_check_old_export,
        varying_files=("*.changes.json",),
    ),
    Scenario("export-folder", make_image_run, _export_folder, varying_files=("changes.json",)),
    Scenario("import", make_annotated_run, _import, check=_check_import),
    Scenario(
        "find-network",
        lambda _: None,
        lambda f: run_command("find", "digits", "--out", f / "out", *_NETWORK),
        varying_files=("report.html", "training.png"),
    ),
    Scenario(
        "bench",
        _prepare_benchmark,
        lambda f: run_command("bench", f / "suite.toml", "--out", f / "out", "--jobs", 1),
        varying_files=("cells/**/*.json", "*.html", "*.png"),
    ),
]


# -- what must hold --------------------------------------------------------------------------------


def check_files_whole(folder: Path) -> None:
    """Read every file below that has its final name."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(map(is_temporary, path.parts)):
            try:
                _read_whole(path)
            except Exception as error:
                raise AssertionError(f"{path.name} is half-written: {error!r}") from error


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
        verdict = connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()
        require(verdict == [("ok",)], f"{verdict}")


def read_result(folder: Path, varying_files: tuple[str, ...]) -> dict[str, Any]:
    """Every file below and what it holds, arrays and tables as such."""
    content: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.endswith(("-wal", "-shm")):
            continue
        if _is_any(path.relative_to(folder), varying_files):
            content[name] = "..."
        elif path.name == "run.json":
            content[name] = json.loads(path.read_bytes())
            content[name].pop("begun", None)  # the time
        elif path.suffix == ".npz":
            with np.load(path) as archive:
                content[name] = {key: archive[key].tolist() for key in archive}
        elif path.suffix == ".parquet":
            content[name] = pq.read_table(path).to_pylist()
        elif path.suffix == ".sqlite":
            connection = sqlite3.connect(path)
            content[name] = connection.execute("SELECT sample, number FROM latest").fetchall()
            connection.close()
        else:
            content[name] = path.read_bytes()
    return content


def _is_any(path: Path, patterns: tuple[str, ...]) -> bool:
    """If a pattern matches; `cells/**/*.json` means all below a folder of that name."""
    for pattern in patterns:
        parent, deep, name = pattern.rpartition("/**/")
        if path.match(name) and (not deep or parent in path.parts):
            return True
    return False


def compare_results(expected: dict[str, Any], result: dict[str, Any]) -> None:
    missing, added_files = expected.keys() - result.keys(), result.keys() - expected.keys()
    require(not missing, f"{sorted(missing)} are missing after the repetition")
    require(not added_files, f"{sorted(added_files)} are left after the repetition")
    other = [name for name in expected if repr(expected[name]) != repr(result[name])]
    require(not other, f"{other} differ after the repetition")


class ScenarioStage:
    """A scenario that can be begun anew, and the result of a run that nobody disturbed."""

    def __init__(self, scenario: Scenario, scratch: Path, log: Path) -> None:
        self.scenario = scenario
        self.log = log
        self.folder = scratch / "folder"  # the same for all: results say where they are
        self._template = scratch / "template"
        self._template.mkdir(parents=True)
        os.environ["UQLED_CACHE"] = str(scratch / "cache")
        scenario.prepare(self._template)
        self.begin()
        scenario.run(self.folder)  # what it loads and compiles, children inherit
        gc.freeze()  # and need not look through
        self.begin()
        start = time.monotonic()
        code, output = run_child(self.run, self.log)
        self.seconds = time.monotonic() - start
        require(code == ANSWER, f"undisturbed: exit code {code}: {output}")
        self._expected_result = read_result(self.folder, scenario.varying_files)

    def begin(self) -> None:
        """Write the input of the command into an otherwise empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._template, self.folder)
        template, folder = str(self._template).encode(), str(self.folder).encode()
        for file in self.folder.rglob("*.json"):
            file.write_bytes(file.read_bytes().replace(template, folder))

    def run(self) -> None:
        self.scenario.run(self.folder)

    def list_outputs(self) -> list[Path]:
        """What the command has written so far."""
        inputs = {path.relative_to(self._template) for path in self._template.rglob("*")}
        paths = self.folder.rglob("*")
        return [path for path in paths if path.relative_to(self.folder) not in inputs]

    def check_files(self) -> None:
        """What must hold after an accident."""
        check_files_whole(self.folder)
        self.scenario.check(self.folder)

    def repeat(self) -> None:
        """Run the command to its end, and compare its result with the undisturbed one."""
        start = time.monotonic()
        code, output = run_child(self.run, self.log)
        self.seconds = min(self.seconds, time.monotonic() - start)
        require(code == ANSWER, f"repeated: exit code {code}: {output}")
        self.check_files()
        compare_results(
            self._expected_result, read_result(self.folder, self.scenario.varying_files)
        )
