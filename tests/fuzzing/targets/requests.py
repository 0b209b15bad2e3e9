"""Targets: what browsers and notebooks send, and new data judged by a stranger's run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.case import Scene, Target, require
from fuzzing.formats import mutate_content
from fuzzing.mutations import damage_tree
from fuzzing.targets.runs import (
    OUTPUTS,
    check_decisions,
    damage_run,
    make_table,
    make_table_run,
    request,
    run_command,
)
from uqled.detect.find import find_errors_in_run
from uqled.report.samples import open_sample_source
from uqled.review.decisions import Decisions
from uqled.review.notebook.messages import ReviewMessages
from uqled.review.session import ReviewSession
from uqled.storage.run import Run

_WHO = {"reviewer": "ana", "tab": "t"}
#: (address, body) as the page sends them; None for a body that is none.
_REQUESTS: list[tuple[str, Any]] = [
    ("/api/decide", {"items": [[3, "relabel", 1], [7, "keep", None]], "seen": {"3": 9}, **_WHO}),
    ("/api/decide-all", {"kind": "next", "n": 5, "number": 9, **_WHO}),
    ("/api/undo", {"method": None, **_WHO}),
    ("/api/opinion", {"items": [[5, "relabel", 0]], "reviewer": "bo"}),
    ("/api/class", {"index": 2, "action": "rename", "target": None, "name": "x", **_WHO}),
    ("/api/class", {"index": 0, "action": None, "target": None, "name": None, **_WHO}),
    ("/api/audit", {"method": "auto"}),
    ("/api/samples?from=0&size=9&given=1&suggested=2&reason=x&state=open&tier=sure&order=x", None),
    ("/api/samples?lasso=0,0,900,0,0,900&only=3&second=bo&differ=1&before=9&method=auto", None),
    ("/api/groups?like=3&from=0", None),
    ("/api/changes?after=0", None),
    ("/api/map/values?by=probability", None),
    ("/api/agreement?reviewer=bo", None),
    ("/api/class/2", None),
    ("/api/sample/3", None),
]
_MESSAGES: list[Any] = [
    {"kind": "page", "start": 8},
    {"kind": "decide", "index": 3, "action": "relabel", "label": 1, "version": 1},
    {"kind": "decide", "index": 4, "action": "drop", "label": None, "version": 0},
    {"kind": "undo"},
]
_STATUSES = (200, 400, 404, 405, 409, 413, 415)


def _make_requests(folder: Path) -> None:
    make_table_run(folder)
    (folder / "requests.json").write_text(json.dumps(_REQUESTS))
    (folder / "messages.json").write_text(json.dumps(_MESSAGES))


def _damage_requests(rng: Random, folder: Path, paths: Sequence[str], *, name: str) -> str:
    return damage_tree(rng, folder, partial(mutate_content, paths=paths), names=(name,))


def _read_list(path: Path) -> list[Any]:
    """What is to be sent; a text that is no list of it is sent as it is."""
    text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = text
    return content if isinstance(content, list) else [content]


def _send_requests(scene: Scene) -> None:
    from uqled.review.server.application import make_application

    predictions = Run.open(scene.input / "run").predictions()
    errors, source = find_errors_in_run(predictions), open_sample_source(predictions)
    with Decisions.of(predictions) as decisions:
        session = ReviewSession(predictions, errors, decisions, source, reviewer="ana")
        session.map.wait()
        page = make_application(session)
        for one in _read_list(scene.input / "requests.json"):
            is_pair = isinstance(one, list) and len(one) == 2 and isinstance(one[0], str)
            path, body = one if is_pair else ("/api/decide", one)
            route = "".join(c for c in path if c.isascii() and c.isprintable())
            status, content = request(page, f"/{route.removeprefix('/')}", body)
            require(status in _STATUSES, f"status {status} for {route[:40]}: {content[:200]!r}")
        check_decisions(decisions)


def _send_messages(scene: Scene) -> None:
    predictions = Run.open(scene.input / "run").predictions()
    errors, source = find_errors_in_run(predictions), open_sample_source(predictions)
    assert source is not None
    with Decisions.of(predictions) as decisions:
        messages = ReviewMessages(errors, source, decisions, "ana")
        for one in _read_list(scene.input / "messages.json"):
            answer = messages.answer(one)
            require(answer["kind"] == "page" and answer["samples"], "an answer without a page")
            json.dumps(answer, allow_nan=False)
        check_decisions(decisions)


# -- new data --------------------------------------------------------------------------------------


def _make_committee_run(folder: Path) -> None:
    make_table(folder)
    run = folder / "run"
    run_command(
        "predict", folder / "data.csv", "--out", run, "--folds", "2", "--model", "committee"
    )
    run_command("detect", run)
    lines = (folder / "data.csv").read_text().splitlines(keepends=True)
    (folder / "new.csv").write_text("".join([lines[0], *lines[20:45]]))


def _damage_run_or_new_data(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    if rng.random() < 0.4:
        mutate = partial(mutate_content, paths=paths)
        return damage_tree(rng, folder, mutate, names=("new.csv",), paths=paths)
    names = ("run.json", "folds.npy", "folds/0/passes.npy", "folds/1/pred_probs.npy", "ids.json")
    return damage_run(rng, folder, paths, names=names)


def _check_new_data(scene: Scene) -> None:
    run_command(
        "check", scene.input / "run", "--against", scene.input / "new.csv", "--max-error-rate",
        "0.1", codes=(0, 1, 2, 3),
    )  # fmt: skip


_DAMAGED_REQUESTS = partial(_damage_requests, name="requests.json")
_DAMAGED_MESSAGES = partial(_damage_requests, name="messages.json")
REQUEST_TARGETS = [
    Target("page-requests", _make_requests, _DAMAGED_REQUESTS, _send_requests, OUTPUTS, 60),
    Target("widget-messages", _make_requests, _DAMAGED_MESSAGES, _send_messages, OUTPUTS, 60),
    Target("new-data", _make_committee_run, _damage_run_or_new_data, _check_new_data, OUTPUTS, 30),
]
