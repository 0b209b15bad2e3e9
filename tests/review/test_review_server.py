"""The review page's server, by plain HTTP: what it answers, and whom it refuses."""

from __future__ import annotations

import http.client
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
from review_client import Client
from review_runs import list_decisions, memory_run, table_data, text_data
from uqled import InputError
from uqled.cli import app
from uqled.data import reopen_samples
from uqled.detect.find import find_label_errors
from uqled.review import serve
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review

# ---- answers


def test_the_page_and_its_parts_are_served(client):
    status, headers, body = client.get("")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert b"Review" in body
    for name in ("review.css", "page.js", "api.js", "saving.js", "list.js", "zoom.js"):
        assert client.get(f"static/{name}")[0] == 200
    assert client.get("static/../server.py")[0] == 404
    assert client.get("static/nothing.js")[0] == 404


def test_samples_come_most_suspect_first(client, run):
    errors = find_label_errors(run.predictions(), method="all")
    page = client.json("api/samples?size=5")
    assert [row["index"] for row in page["samples"]] == errors.ranked[:5].tolist()
    assert page["total"] == page["counts"]["flagged"] == errors.n_flagged
    start = client.json("api/start")
    assert start["classes"] == ["cat", "dog", "frog", "ship"]
    assert start["queue"] == 0
    assert start["methods"] == {name: one.n_flagged for name, one in errors.by_method.items()}
    other = client.json("api/samples?size=5&method=argmax")
    ranked_samples = errors.by_method["argmax"].ranked
    assert [row["index"] for row in other["samples"]] == ranked_samples[:5].tolist()


def test_pictures_are_the_data_sets_own(client, run):
    data = reopen_samples(run.predictions())
    for i in (0, 7):
        for size in ("thumbnail", "picture"):
            status, headers, body = client.get(f"{size}/{i}")
            assert status == 200
            assert headers["content-type"] == "image/png"
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(body))), data.inputs[i])
    for path in ("thumbnail/200", "thumbnail/-1", "thumbnail/..%2Frun.json", "picture/0x1",
                 "picture/%2Fetc%2Fpasswd", "thumbnail/", "thumbnail/1.5", "picture/%D9%A3",
                 f"picture/{'9' * 5000}"):  # fmt: skip
        assert client.get(path)[0] in (400, 404), path


def test_a_decision_is_on_disk_before_the_answer(client, run):
    a, b, c = (row["index"] for row in client.json("api/samples?size=3")["samples"])
    label = (int(run.predictions().labels.codes[b]) + 1) % 4
    status, answer = client.decide([a, "keep", None], [b, "relabel", label], [c, "drop", None])
    assert status == 200
    assert list_decisions(run) == {a: ("keep", None), b: ("relabel", label), c: ("drop", None)}
    assert [row["version"] for row in answer["decided"]] == [1, 1, 1]
    assert answer["counts"]["undecided"] == answer["counts"]["flagged"] - 3
    status, answer = client.post("api/undo", {"reviewer": "ana", "tab": "t"})
    assert status == 200
    assert sorted(row["index"] for row in answer["undone"]) == sorted((a, b, c))
    assert list_decisions(run) == {}


def test_relabelling_with_the_given_label_is_keeping(client, run):
    codes = run.predictions().labels.codes
    assert client.decide([5, "relabel", int(codes[5])])[0] == 200
    assert list_decisions(run) == {5: ("keep", None)}


def test_a_conflict_shows_the_others_decision(client, run):
    assert client.decide([1, "keep", None], reviewer="ana")[0] == 200
    status, answer = client.decide([1, "drop", None], [2, "drop", None], reviewer="bo")
    assert status == 409
    assert [(one["index"], one["action"], one["reviewer"]) for one in answer["now"]] == [
        (1, "keep", "ana")
    ]
    assert list_decisions(run) == {1: ("keep", None)}
    assert client.decide([1, "drop", None], seen_versions={"1": 1}, reviewer="bo")[0] == 200


def test_what_others_decide_is_seen(client, run):
    number = client.json("api/changes?after=0")["number"]
    with Decisions.of(run.predictions()) as other_file:  # another process would do the same
        other_file.decide([(3, "drop", None)], reviewer="bo")
    changes = client.json(f"api/changes?after={number}")
    assert [(row["index"], row["action"], row["reviewer"]) for row in changes["changed"]] == [
        (3, "drop", "bo")
    ]
    assert client.json(f"api/changes?after={changes['number']}")["changed"] == []


def test_many_requests_at_once_lose_nothing(client, run):
    def decide_some(first):
        for i in range(first, 60, 4):
            assert client.decide([i, "drop", None])[0] == 200

    threads = [threading.Thread(target=decide_some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list_decisions(run) == dict.fromkeys(range(60), ("drop", None))


def test_texts_and_rows_are_shown(tmp_path):
    for name, data in (("texts", text_data()), ("table", table_data())):
        (tmp_path / name).mkdir()
        run = memory_run(tmp_path / name, data)
        with serve_review(run, data=data, port=0) as address:
            client = Client(address)
            assert client.json("api/start")["kind"] == name
            row = client.json("api/samples?size=1")["samples"][0]
            content = client.json(f"api/sample/{row['index']}")["content"]
            if name == "texts":
                assert content == data.inputs[row["index"]]
                assert len(row["preview"]) <= 280
            else:
                assert content[0][0] == "length <cm>"
                assert float(content[0][1]) == pytest.approx(
                    data.inputs.iat[row["index"], 0], rel=1e-5
                )
            assert client.get("thumbnail/0")[0] == 404
        with serve_review(run, port=0) as address:  # without the data: names and probabilities
            assert Client(address).json("api/start")["kind"] == "none"
        with (
            pytest.raises(InputError, match="other samples"),
            serve_review(run, data=data.subset([0, 1])),
        ):
            pass


# ---- the command

KILLED_SERVER = """
import sys
from uqled.review import serve
from uqled.review.serve import serve_review
with serve_review(sys.argv[1], port=0) as address:
    print(address, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("size", [1, 8])
def test_a_killed_server_loses_nothing_that_it_answered(run, size):
    """Two reviewers decide as fast as they can, one by one or in groups, and the server is killed
    with SIGKILL: what was answered is there, and never half a group."""
    server = subprocess.Popen(
        [sys.executable, "-c", KILLED_SERVER, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    client = Client(server.stdout.readline().strip())
    acknowledged_actions: dict[int, str] = {}
    messages: set[str] = set()
    is_enough = threading.Event()

    def groups(first):
        mine = list(range(first, 200, 2))
        return [mine[start : start + size] for start in range(0, len(mine), size)]

    def storm(first, action):
        try:
            for group in groups(first):
                items = [[i, action, None] for i in group]
                status, _ = client.decide(*items, reviewer=action)
                assert status == 200
                acknowledged_actions.update(dict.fromkeys(group, action))
                messages.add(action)
                if len(acknowledged_actions) > 30 and len(messages) == 2:
                    is_enough.set()
        except (OSError, http.client.HTTPException):
            return

    threads = [
        threading.Thread(target=storm, args=(first, action))
        for first, action in enumerate(("keep", "drop"))
    ]
    with server:
        for thread in threads:
            thread.start()
        assert is_enough.wait(60)
        server.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert server.returncode == -signal.SIGKILL
    rows = list_decisions(run)
    assert set(acknowledged_actions.values()) == {"keep", "drop"}
    for i, action in acknowledged_actions.items():
        assert rows[i] == (action, None)
    for group in [*groups(0), *groups(1)]:
        assert len(rows.keys() & set(group)) in (0, len(group))
    with serve_review(run, port=0) as address:  # and it goes on from there
        counts = Client(address).json("api/start?method=argmax")["counts"]
    assert counts["undecided"] < counts["flagged"]


def test_the_command_refuses_what_it_cannot_serve(tmp_path, run):
    result = CliRunner().invoke(app, ["review", str(tmp_path)])
    assert result.exit_code == 2
    assert "holds no run" in result.output
    result = CliRunner().invoke(app, ["review", str(run.path), "--method", "magic"])
    assert result.exit_code == 2
    assert "magic" in result.output
    result = CliRunner().invoke(app, ["review", str(run.path), "--host", "256.1.1.1"])
    assert result.exit_code == 2
    with socket.socket() as occupied_socket:
        occupied_socket.bind(("127.0.0.1", 0))
        occupied_socket.listen()
        port = str(occupied_socket.getsockname()[1])
        result = CliRunner().invoke(app, ["review", str(run.path), "--port", port])
        assert result.exit_code == 2
        assert port in result.output


def test_the_command_prints_the_address_and_ends_with_ctrl_c(run):
    command = [sys.executable, "-c", "from uqled.cli import app; app()"]
    command += ["review", str(run.path), "--no-browser", "--reviewer", "zoe"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # Where the tests run in the background, Ctrl+C is ignored, and so by all that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        try:
            line = process.stdout.readline()
            client = Client(line.split()[-1])
            assert client.json("api/start")["reviewer"] == "zoe"
            assert client.decide([0, "drop", None])[0] == 200
            process.send_signal(signal.SIGINT)
            _, trouble = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0, trouble
    assert "Traceback" not in trouble
    assert list_decisions(run) == {0: ("drop", None)}


def test_the_browser_is_opened_without_the_token_on_a_command_line(monkeypatch):
    addresses = []
    monkeypatch.setattr("webbrowser.open", addresses.append)
    with serve._open_browser("http://127.0.0.1:1/secret/"):
        while not addresses:
            time.sleep(0.01)
        assert "secret" not in addresses[0]
        file = Path(unquote(urlsplit(addresses[0]).path))
        assert "url=http://127.0.0.1:1/secret/" in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()
