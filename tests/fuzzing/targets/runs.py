"""Targets: the run folder, edited by a stranger, and every command that reads it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from fuzzing.case import Scene, Target, require
from fuzzing.formats import mutate_content
from fuzzing.mutations import damage_tree
from fuzzing.targets.data import CLASSES, make_picture
from uqled.cli import app
from uqled.detect.find import find_errors_in_run
from uqled.errors import UqledError
from uqled.export.record import restore_given_labels
from uqled.predict.neighbours import write_neighbours
from uqled.report.samples import open_sample_source
from uqled.review.decisions import Decisions
from uqled.review.decisions.classes import decide_class
from uqled.review.decisions.opinions import give_opinions
from uqled.review.session import ReviewSession
from uqled.storage.run import Run

_MODEL = ("--model", "logistic", "--folds", "2", "--passes", "2")
#: Every file of a run that is read again, and the data it was made of.
_RUN_FILES = (
    "run.json", "ids.json", "labels.npy", "folds.npy", "truth.npy", "pred_probs.npy", "passes.npy",
    "detection.json", "decisions.sqlite", "folds/0/pred_probs.npy", "folds/1/passes.npy",
    "model.json", "passes.json", "inspection.json", "audit.json", "audit.csv",
    "neighbours/given.npy", "neighbours/suggested.npy", "neighbours/duplicates.npy",
    "neighbours/vectors.npy", "contradictions.npy", "contents.npy", "map.npy",
)  # fmt: skip
#: What commands write into a run.
OUTPUTS = (
    "run/detection.json", "run/issues.parquet", "run/report.html", "run/decisions.sqlite*",
    "run/audit.json", "run/audit.csv", "run/map.npy",
)  # fmt: skip


#: What some runs have, as they have it.
_RECORDS: dict[str, Any] = {
    "model.json": {
        "model": "logistic", "accuracy": 0.9, "base_rate": 0.4, "passes_accuracy": 0.9,
        "passes_differ": False, "weak_classes": [["ant", 3, 0.2]],
        "members": [{"name": "forest", "accuracy": 0.8, "weight": 0.5}],
    },
    "passes.json": {"kind": "mc-dropout"},
    "inspection.json": {
        "name": "data", "kind": "table", "n_samples": 60, "class_counts": {"ant": 60},
        "columns": [{"name": "label", "role": "label", "is_used": False, "reason": ""}],
        "findings": [
            {"kind": "rare", "severity": "note", "message": "a class is rare", "advice": "Look"}
        ],
    },
}  # fmt: skip


class CommandRefusalError(UqledError):
    """A command ended with exit code 2 and one line."""


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def run_command(*arguments: Any, codes: tuple[int, ...] = (0, 2)) -> str:
    """What a command prints; its refusal is raised. `codes` are those that it may end with."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _command().main(list(map(str, arguments)), standalone_mode=False)
    require(code is None or code in codes, f"exit code {code}")
    require("\x1b" not in out.getvalue(), "an escape code is printed")
    if code == 2:
        message = err.getvalue()  # after what it said of its progress
        require("error: " in message, f"a refusal without a line that says why: {message}")
        raise CommandRefusalError(message)
    return out.getvalue()


# -- runs ------------------------------------------------------------------------------------------


def make_table(folder: Path) -> None:
    """A small table that a logistic regression learns, but for every ninth label."""
    at = np.arange(60)
    true = at % 3
    label = np.where(at % 9 == 4, (true + 1) % 3, true)
    pd.DataFrame(
        {
            "id": [f"s{i}" for i in at],
            "length": true + at * 0.37 % 0.5,
            "width": true * 2 + at * 1.7 % 0.7,
            "label": np.array(CLASSES)[label],
        }
    ).to_csv(folder / "data.csv", index=False)


def make_table_run(folder: Path) -> None:
    make_table(folder)
    run_command("predict", folder / "data.csv", "--out", folder / "run", *_MODEL)
    frame = pd.read_csv(folder / "data.csv")
    _write_neighbours(folder / "run", frame[["length", "width"]].to_numpy(np.float32))
    _finish_run(folder)


def make_image_run(folder: Path) -> None:
    """A run of images, whose predictions nobody had to train."""
    for k, name in enumerate(CLASSES):
        (folder / "data" / name).mkdir(parents=True)
        for i in range(6):
            make_picture(10 * k + i).save(folder / "data" / name / f"{i}.{('png', 'jpg')[i % 2]}")
    from uqled.data import load

    data = load(folder / "data", cache=False)
    codes = data.labels.codes
    probs = np.full((len(codes), 3), 0.1, np.float32)
    probs[np.arange(len(codes)), np.where(np.arange(len(codes)) % 5, codes, (codes + 1) % 3)] = 0.8
    run = Run.begin(folder / "run", {"model": "none"})
    fold_of = np.zeros(len(data), np.int32)
    run.write_data(
        data.labels, data.ids.tolist(), None, fold_of, data.source, data.inputs_fingerprint
    )
    run.write_fold(0, probs, np.stack([probs, probs]))
    run.write_predictions([np.arange(len(data))], 3)
    _write_neighbours(folder / "run", data.inputs.reshape(len(data), -1).astype(np.float32))
    _finish_run(folder)


def _write_neighbours(run: Path, features: NDArray[np.float32]) -> None:
    """What a run of a pretrained encoder has beside its predictions."""
    predictions = Run.open(run).predictions()
    write_neighbours(run, features, predictions.labels.codes, np.asarray(predictions.pred_probs))
    pairs = np.array([[0, 1], [2, 4]], np.int32)
    np.save(run / "neighbours" / "duplicates.npy", pairs)


def _finish_run(folder: Path) -> None:
    """What detection and a reviewer add to a run; the truth, as noise with a known truth has it."""
    run = folder / "run"
    np.save(run / "truth.npy", np.load(run / "labels.npy"))
    run_command("detect", run, "--budget", "5")
    predictions = Run.open(run).predictions()
    with Decisions.of(predictions) as decisions:
        code = int(predictions.labels.codes[4])
        items: Any = [(3, "keep", None), (4, "relabel", (code + 1) % 3), (5, "drop", None)]
        decisions.decide(items, reviewer="ana")
        decisions.decide([(6, "keep", None)], reviewer="bo")
        decisions.undo("bo")
        decide_class(decisions, 0, "rename", name="emmet", reviewer="ana")
        decide_class(decisions, 1, "merge", target=2, reviewer="bo")
        give_opinions(decisions, [(4, "drop", None)], reviewer="bo")
    N = len(predictions)
    np.save(run / "contradictions.npy", np.where(np.arange(N) < 4, 0, -1).astype(np.int32))
    np.save(run / "contents.npy", np.arange(N, dtype=np.int32) // 2)
    np.save(run / "map.npy", np.linspace(-1, 1, 2 * N, dtype=np.float32).reshape(N, 2))
    run_command("audit", run, "--size", "8")
    notes = (run / "audit.csv").read_text().splitlines()
    lines = [line + ("yes", "no", "")[i % 3] for i, line in enumerate(notes[1:])]
    (run / "audit.csv").write_text("\n".join([notes[0], *lines]) + "\n")
    for name in ("model.json", "passes.json", "inspection.json"):
        if not (run / name).exists():
            (run / name).write_text(json.dumps(_RECORDS[name]))
    (run / ".notes").write_text("of somebody else\n")


def damage_run(
    rng: Random, folder: Path, paths: Sequence[str], *, names: Sequence[str] = _RUN_FILES
) -> str:
    mutate = partial(mutate_content, paths=paths)
    files = names
    if rng.random() < 0.1 and (folder / "data.csv").exists():  # its data instead
        return damage_tree(rng, folder, mutate, names=("data.csv",), paths=paths)
    return damage_tree(rng, folder / "run", mutate, names=files, paths=paths)


# -- commands --------------------------------------------------------------------------------------


def _detect(scene: Scene) -> None:
    run = scene.input / "run"
    how = scene.rng.choice(((), ("--method", "all"), ("--method", "cl-pbnr"), ("--no-decisions",)))
    table = scene.rng.choice(((), ("--out", str(scene.out / "issues.csv"))))
    run_command("detect", run, *how, *table)
    frame = (
        pd.read_csv(scene.out / "issues.csv") if table else pd.read_parquet(run / "issues.parquet")
    )
    require(len(frame) == len(np.load(run / "labels.npy")), "a table of another length")


def _report(scene: Scene) -> None:
    run_command("report", scene.input / "run", "--top", scene.rng.choice((0, 5)))
    page = (scene.input / "run" / "report.html").read_text(encoding="utf-8")
    require(page.rstrip().endswith("</html>"), "a page that does not end")


_KINDS = ("parquet", "csv", "folder", "huggingface", "label-studio", "fiftyone", "cleanlab")
_RESTORABLE = ("csv", "parquet", "folder", "huggingface", "fiftyone")


def _export(scene: Scene) -> None:
    is_images = (scene.input / "data").is_dir()
    kinds = _KINDS if is_images else [one for one in _KINDS if one not in ("folder", "fiftyone")]
    kind = scene.rng.choice(kinds)
    name = f"clean.{kind if kind in ('csv', 'parquet') else 'csv'}"
    target = scene.out / (name if kind in ("csv", "parquet", "cleanlab") else "clean")
    flags = (
        ()
        if kind == "label-studio"
        else ("--unreviewed", scene.rng.choice(("drop", "relabel", "keep")))
    )
    run_command("export", scene.input / "run", "--to", kind, "--out", target, *flags)
    if kind in _RESTORABLE:
        about = json.loads((scene.input / "run" / "ids.json").read_text())
        expected = np.asarray(about["classes"])[np.load(scene.input / "run" / "labels.npy")]
        require(
            restore_given_labels(target).tolist() == expected.tolist(),
            "labels that do not come back",
        )


def _resume(scene: Scene) -> None:
    """Repeat the command that began the run, before and after its end."""
    if scene.rng.random() < 0.6:
        for name in ("pred_probs.npy", "passes.npy"):
            with contextlib.suppress(OSError):
                (scene.input / "run" / name).unlink()
    run_command("predict", scene.input / "data.csv", "--out", scene.input / "run", *_MODEL)
    predictions = Run.open(scene.input / "run").predictions()
    require(predictions.pred_probs.shape == (len(predictions), 3), "predictions of another shape")


def make_annotated_run(folder: Path) -> None:
    """A run, and what Label Studio would give back of its tasks."""
    make_table_run(folder)
    run_command("export", folder / "run", "--to", "label-studio", "--out", folder / "tasks")
    tasks = json.loads((folder / "tasks" / "tasks.json").read_text())
    for number, task in enumerate(tasks):
        value = {"choices": [CLASSES[number % 3]]}
        answer = {"from_name": "label", "to_name": "text", "type": "choices", "value": value}
        who: Any = ({"email": "ana@example.org"}, 3, None)[number % 3]
        task["annotations"] = [{"result": [answer], "completed_by": who, "was_cancelled": False}]
    (folder / "annotations.json").write_text(json.dumps(tasks))
    shutil.rmtree(folder / "tasks")


def _damage_annotations(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    names = ("annotations.json",)
    return damage_tree(rng, folder, partial(mutate_content, paths=paths), names=names, paths=paths)


def _import(scene: Scene) -> None:
    options = scene.rng.choice(((), ("--overwrite",), ("--dry-run",)))
    run_command("import", scene.input / "run", scene.input / "annotations.json", *options)
    with Decisions.of(Run.open(scene.input / "run").predictions()) as decisions:
        check_decisions(decisions)


# -- the review page, without a socket -------------------------------------------------------------


def check_decisions(decisions: Decisions) -> None:
    for index, decision in decisions.current().items():
        require(0 <= index < 60, "a decision on a sample out of range")
        require(decision.action in ("keep", "relabel", "drop"), "a decision of another kind")
        is_class = decision.label is not None and 0 <= decision.label < 3
        require(is_class == (decision.action == "relabel"), "a label out of range")


def request(application: Any, path: str, body: Any = None) -> tuple[int, bytes]:
    """(status, body) that the page's application answers."""
    route, _, query = path.partition("?")
    content = b"" if body is None else json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": "GET" if body is None else "POST", "path": route, "raw_path": route.encode(),
        "query_string": query.encode(), "headers": headers, "root_path": "",
    }  # fmt: skip
    answer: dict[str, Any] = {"body": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        answer["status"] = message.get("status", answer.get("status"))
        answer["body"] += message.get("body", b"")

    async def call() -> None:
        await application(scope, receive, send)

    asyncio.run(call())
    return answer["status"], answer["body"]


def check_answer(status: int, content: bytes, what: str) -> None:
    """An answer, or the refusal of a file by its name."""
    if status == 503 and b'"error": "file ' in content:
        raise CommandRefusalError(content.decode())
    require(status == 200, f"status {status} for {what}: {content[:200]!r}")


def _review(scene: Scene) -> None:
    from uqled.review.server.application import make_application

    predictions = Run.open(scene.input / "run").predictions()
    errors = find_errors_in_run(predictions)
    source = open_sample_source(predictions)
    with Decisions.of(predictions) as decisions:
        session = ReviewSession(predictions, errors, decisions, source, reviewer="ana")
        page = make_application(session)
        status, content = request(page, "/api/samples?size=20")
        check_answer(status, content, "samples")
        first = json.loads(content)["samples"]
        paths = [
            "/",
            "/api/start",
            "/api/estimates",
            "/api/groups",
            "/api/changes?after=0",
            "/api/sample/3",
        ]
        if source is not None and source.kind == "images":
            paths += ["/thumbnail/3", "/picture/3"]
        paths += ["/api/classes", "/api/class/1", "/api/agreement", "/api/samples?second=bo"]
        paths += ["/api/samples?differ=1", "/api/map/values?by=suggested"]
        if scene.rng.random() < 0.1:  # it computes a map where the run has none that fits
            session.map.wait()
            paths += ["/api/map", "/api/map/places", "/api/samples?lasso=0,0,900,0,0,900"]
        for path in scene.rng.sample(paths, 3):
            status, content = request(page, path)
            check_answer(status, content, path)
        if first:
            index = first[0]["index"]
            body = {"items": [[index, "drop", None]], "seen": {str(index): 2**40}}
            body |= {"reviewer": "ana", "tab": "t"}
            status, content = request(page, "/api/decide", body)
            check_answer(status, content, "a decision")
            current = decisions.current()
            require(current[index].action == "drop", "a decision that was answered is not there")
            request(page, "/api/undo", {"reviewer": "ana", "tab": "t"})
        check_decisions(decisions)


def _make_target(
    name: str,
    make: Callable[[Path], Any],
    read: Callable[[Scene], Any],
    cases: int,
    **more: Any,
) -> Target:
    return Target(
        name, make, more.pop("damage", damage_run), read, more.pop("writes", OUTPUTS), cases
    )


_DATABASE = partial(damage_run, names=("decisions.sqlite",))
_ARRAYS = partial(damage_run, names=("labels.npy", "truth.npy", "pred_probs.npy", "ids.json"))

RUN_TARGETS = [
    _make_target("run-detect", make_table_run, _detect, 180),
    _make_target("run-arrays", make_table_run, _detect, 120, damage=_ARRAYS),
    _make_target("run-report", make_table_run, _report, 80),
    _make_target("run-review", make_table_run, _review, 100),
    _make_target("run-review-images", make_image_run, _review, 50),
    _make_target("run-decisions", make_table_run, _review, 120, damage=_DATABASE),
    _make_target("run-export", make_table_run, _export, 130),
    _make_target("run-export-images", make_image_run, _export, 60),
    _make_target("run-resume", make_table_run, _resume, 60, writes=("run/*",)),
    _make_target("annotations", make_annotated_run, _import, 100, damage=_damage_annotations),
]
