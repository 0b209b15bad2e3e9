"""The review page's server, by plain HTTP: what it answers, and whom it refuses."""

from __future__ import annotations

import http.client
import io
import json
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

from review_runs import (
    HOSTILE_CLASS,
    HOSTILE_FILE,
    hostile_run,
    image_run,
    memory_run,
    table_data,
    text_data,
)
from uqled import InputError
from uqled.cli import app
from uqled.data import reopen_samples
from uqled.detect.find import find_label_errors
from uqled.review import serve
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review


class Client:
    """Requests as a browser on the page sends them, unless told otherwise."""

    def __init__(self, address):
        parts = urlsplit(address)
        self.host, self.path = parts.netloc, parts.path

    def request(self, method, path, body=None, *, headers=(), whole_path=False):
        """(status, headers, body); a header that is None is left out."""
        sent = {"Host": self.host, "Origin": f"http://{self.host}"} if body is not None else {}
        sent |= {"Content-Type": "application/json"} if body is not None else {}
        sent |= dict(headers)
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.putrequest(
                method, path if whole_path else self.path + path, skip_host="Host" in sent
            )
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            if body is not None:
                sent.setdefault("Content-Length", str(len(content)))
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(content if body is not None else None)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def json(self, path):
        status, _, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path, body, **options):
        status, _, answer = self.request("POST", path, body, **options)
        return status, json.loads(answer) if answer.startswith(b"{") else answer

    def decide(self, *items, seen=None, reviewer="ana", **options):
        body = {"items": items, "seen": seen or {}, "reviewer": reviewer, "tab": "t"}
        return self.post("api/decide", body, **options)


@pytest.fixture
def run(tmp_path):
    return image_run(tmp_path)


@pytest.fixture
def client(run):
    with serve_review(run, port=0) as address:
        yield Client(address)


def stored(run):
    with Decisions(run.path / "decisions.sqlite") as decisions:
        return {i: (one.action, one.label) for i, one in decisions.current().items()}


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
    found = client.json("api/samples?size=5")
    assert [row["index"] for row in found["samples"]] == errors.ranked[:5].tolist()
    assert found["total"] == found["counts"]["flagged"] == errors.n_flagged
    start = client.json("api/start")
    assert start["classes"] == ["cat", "dog", "frog", "ship"]
    assert start["queue"] == 0
    assert start["methods"] == {name: one.n_flagged for name, one in errors.by_method.items()}
    other = client.json("api/samples?size=5&method=argmax")
    ranked = errors.by_method["argmax"].ranked
    assert [row["index"] for row in other["samples"]] == ranked[:5].tolist()


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
    assert stored(run) == {a: ("keep", None), b: ("relabel", label), c: ("drop", None)}
    assert [row["version"] for row in answer["decided"]] == [1, 1, 1]
    assert answer["counts"]["undecided"] == answer["counts"]["flagged"] - 3
    status, answer = client.post("api/undo", {"reviewer": "ana", "tab": "t"})
    assert status == 200
    assert sorted(row["index"] for row in answer["undone"]) == sorted((a, b, c))
    assert stored(run) == {}


def test_relabelling_with_the_given_label_is_keeping(client, run):
    codes = run.predictions().labels.codes
    assert client.decide([5, "relabel", int(codes[5])])[0] == 200
    assert stored(run) == {5: ("keep", None)}


def test_a_conflict_shows_the_others_decision(client, run):
    assert client.decide([1, "keep", None], reviewer="ana")[0] == 200
    status, answer = client.decide([1, "drop", None], [2, "drop", None], reviewer="bo")
    assert status == 409
    assert [(one["index"], one["action"], one["reviewer"]) for one in answer["now"]] == [
        (1, "keep", "ana")
    ]
    assert stored(run) == {1: ("keep", None)}
    assert client.decide([1, "drop", None], seen={"1": 1}, reviewer="bo")[0] == 200


def test_what_others_decide_is_seen(client, run):
    number = client.json("api/changes?after=0")["number"]
    with Decisions.of(run.predictions()) as another:  # another process would do the same
        another.decide([(3, "drop", None)], reviewer="bo")
    found = client.json(f"api/changes?after={number}")
    assert [(row["index"], row["action"], row["reviewer"]) for row in found["changed"]] == [
        (3, "drop", "bo")
    ]
    assert client.json(f"api/changes?after={found['number']}")["changed"] == []


def test_many_requests_at_once_lose_nothing(client, run):
    def some(first):
        for i in range(first, 60, 4):
            assert client.decide([i, "drop", None])[0] == 200

    threads = [threading.Thread(target=some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(run) == dict.fromkeys(range(60), ("drop", None))


def test_texts_and_rows_are_shown(tmp_path):
    for name, data in (("texts", text_data()), ("table", table_data())):
        (tmp_path / name).mkdir()
        run = memory_run(tmp_path / name, data)
        with serve_review(run, data=data, port=0) as address:
            client = Client(address)
            assert client.json("api/start")["kind"] == name
            row = client.json("api/samples?size=1")["samples"][0]
            whole = client.json(f"api/sample/{row['index']}")["content"]
            if name == "texts":
                assert whole == data.inputs[row["index"]]
                assert len(row["preview"]) <= 280
            else:
                assert whole[0][0] == "length <cm>"
                assert float(whole[0][1]) == pytest.approx(
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


# ---- refusals


def test_every_address_needs_the_token(client, run):
    token = client.path.strip("/")
    for path in ("/", "/api/start", f"/{token[:-1]}/api/start", f"/{token}x/", "/static/page.js",
                 "/thumbnail/0", "/%C3%A9%FF/", f"/{token.swapcase()}/", f"/x/{token}/",
                 "//", f"/?{token}"):  # fmt: skip
        assert client.request("GET", path, whole_path=True)[0] == 403, path
    body = {"items": [[0, "drop", None]], "seen": {}, "reviewer": "eve", "tab": ""}
    assert client.request("POST", "/api/decide", body, whole_path=True)[0] == 403
    assert stored(run) == {}
    assert len(token) >= 32


def test_tokens_differ_each_time(run):
    with serve_review(run, port=0) as one, serve_review(run, port=0) as two:
        assert urlsplit(one).path != urlsplit(two).path
        assert urlsplit(one).hostname == "127.0.0.1"


def test_it_listens_on_loopback_only(client):
    port = int(client.host.split(":")[1])
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in {a for a in addresses if not a.startswith("127.") and a != "::1"}:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as other:
            other.settimeout(2)
            assert other.connect_ex((address, port)) != 0


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example",
             "", "[::1", "localhost@evil.example", "2130706433"]
)  # fmt: skip
def test_other_host_names_are_refused(client, run, host):
    assert client.get("api/start", headers={"Host": host})[0] in (400, 421)
    assert client.decide([0, "drop", None], headers={"Host": host, "Origin": f"http://{host}"})[
        0
    ] in (400, 421)
    assert stored(run) == {}


def test_names_of_this_machine_are_accepted(client):
    port = client.host.split(":")[1]
    for host in ("localhost", f"localhost:{port}", "LOCALHOST:9", f"[::1]:{port}", "127.0.0.1"):
        assert client.get("api/start", headers={"Host": host})[0] == 200, host


def test_other_origins_are_refused(client, run):
    port = client.host.split(":")[1]
    for origin in ("http://evil.example", "null", f"https://{client.host}", f"http://localhost:{port}",
                   "http://127.0.0.1:1", "", None):  # fmt: skip
        assert client.decide([0, "drop", None], headers={"Origin": origin})[0] == 403, origin
    assert client.get("api/start", headers={"Origin": "http://evil.example"})[0] == 403
    for site in ("cross-site", "same-site"):
        assert client.get("thumbnail/0", headers={"Sec-Fetch-Site": site})[0] == 403
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert client.decide([0, "drop", None], headers=headers)[0] == 403
    assert client.get("thumbnail/0", headers={"Sec-Fetch-Site": "same-origin"})[0] == 200
    assert stored(run) == {}


def test_odd_methods_are_refused(client, run):
    for path in ("", "api/start", "api/samples", "thumbnail/0", "static/page.js"):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            status = client.request(method, path, {})[0]
            assert 400 <= status < 500, (method, path)
    for path in ("api/decide", "api/undo"):
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            assert client.request(method, path)[0] in (403, 405)
    assert stored(run) == {}


def test_bad_bodies_are_refused_and_change_nothing(client, run):
    good = {"items": [[0, "drop", None]], "seen": {}, "reviewer": "ana", "tab": "t"}
    bad = [
        b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"items": NaN}',
        b'{"items":[[' + b"9" * 6000 + b',"drop",null]],"seen":{},"reviewer":"a","tab":"t"}',
        {}, {"items": []},
        good | {"items": "all"}, good | {"items": [[0, "drop"]]}, good | {"items": [0]},
        good | {"items": [[0.5, "drop", None]]}, good | {"items": [["0", "drop", None]]},
        good | {"items": [[True, "drop", None]]}, good | {"items": [[200, "drop", None]]},
        good | {"items": [[-1, "drop", None]]}, good | {"items": [[0, "burn", None]]},
        good | {"items": [[0, {}, None]]}, good | {"items": [[0, ["drop"], None]]},
        good | {"items": [[0, "relabel", 4]]}, good | {"items": [[0, "relabel", "cat"]]},
        good | {"items": [[0, "relabel", None]]}, good | {"items": [[0, "relabel", True]]},
        good | {"items": [[0, "relabel", [1, 2]]]},
        good | {"items": [[0, "drop", None], [0, "keep", None]]},
        good | {"items": [[1 << 70, "drop", None]]},
        good | {"seen": []}, good | {"seen": {"x": 1}}, good | {"seen": {"0": "1"}},
        good | {"seen": None}, good | {"reviewer": ""}, good | {"reviewer": "x" * 81},
        good | {"reviewer": 7}, good | {"reviewer": "a\ud800"}, good | {"tab": None},
        good | {"tab": "x" * 200}, good | {"method": "magic"}, good | {"method": []},
    ]  # fmt: skip
    for body in bad:
        status, _ = client.post("api/decide", body)
        assert status == 400, body if not isinstance(body, bytes) else body[:40]
    assert client.decide([0, "drop", None], headers={"Content-Type": "text/plain"})[0] == 415
    assert client.decide([0, "drop", None], headers={"Content-Type": None})[0] == 415
    assert stored(run) == {}
    assert client.post("api/decide", good)[0] == 200  # it still serves


def test_huge_bodies_are_refused(client, run):
    padded = {"items": [[0, "drop", None]], "seen": {}, "reviewer": "ana", "tab": "t", "x": ""}
    padded["x"] = "y" * (2 << 20)
    assert client.post("api/decide", padded)[0] == 413
    # One that only says that it is huge, and one that does not say how long it is.
    assert client.post("api/decide", b"{}", headers={"Content-Length": str(1 << 40)})[0] == 413
    connection = http.client.HTTPConnection(client.host, timeout=20)
    headers = {"Content-Type": "application/json", "Origin": f"http://{client.host}"}
    whole = json.dumps(padded).encode()
    parts = (whole[start : start + 65_536] for start in range(0, len(whole), 65_536))
    try:
        connection.request("POST", f"{client.path}api/decide", parts, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may hang up before all is sent
    finally:
        connection.close()
    assert stored(run) == {}


def test_bad_questions_are_refused(client):
    for query in ("method=magic", "given=4", "given=-1", "given=x", "suggested=1.5", "reason=why",
                  "state=lost", "order=up", "from=-1", "from=1e3", "size=501", "size=x",
                  "before=x", "given=%D9%A3"):  # fmt: skip
        assert client.get(f"api/samples?{query}")[0] == 400, query
    for path in ("api/nothing", "api", "api/start/", "api/sample/200", "api/sample/x", "%2e%2e/x"):
        assert client.get(path)[0] == 404, path
    assert client.request("GET", client.path.rstrip("/"), whole_path=True)[0] == 404


def test_answers_forbid_scripts_frames_and_referrers(client):
    for path, status in (("", 200), ("api/start", 200), ("thumbnail/0", 200), ("nothing", 404)):
        found, headers, _ = client.get(path)
        assert found == status
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
    refused = client.request("GET", "/", whole_path=True)[1]
    assert refused["referrer-policy"] == "no-referrer"
    assert client.get("api/start")[1]["cache-control"] == "no-store"
    assert "immutable" in client.get("thumbnail/0")[1]["cache-control"]


def test_hostile_names_stay_text(tmp_path):
    run = hostile_run(tmp_path)
    with serve_review(run, port=0) as address:
        client = Client(address)
        start = client.json("api/start")
        assert HOSTILE_CLASS in start["classes"]
        samples = client.json("api/samples?size=500&method=argmax")["samples"]
        assert any(row["id"].endswith(HOSTILE_FILE) for row in samples)
        headers = client.get("api/samples")[1]
        assert headers["content-type"] == "application/json"
        assert b"onerror" not in client.get("")[2]


def test_the_name_of_the_run_is_escaped(run):
    named = run.path.rename(run.path.parent / "<script>alert(1)<")
    with serve_review(named, port=0) as address:
        page = Client(address).get("")[2]
    assert b"<script>alert(1)" not in page
    assert b"&lt;script&gt;alert(1)&lt;" in page


# ---- the command

KILLED = """
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
        [sys.executable, "-c", KILLED, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    client = Client(server.stdout.readline().strip())
    answered: dict[int, str] = {}
    heard: set[str] = set()
    enough = threading.Event()

    def groups(first):
        mine = list(range(first, 200, 2))
        return [mine[start : start + size] for start in range(0, len(mine), size)]

    def storm(first, action):
        try:
            for group in groups(first):
                items = [[i, action, None] for i in group]
                status, _ = client.decide(*items, reviewer=action)
                assert status == 200
                answered.update(dict.fromkeys(group, action))
                heard.add(action)
                if len(answered) > 30 and len(heard) == 2:
                    enough.set()
        except (OSError, http.client.HTTPException):
            return

    threads = [
        threading.Thread(target=storm, args=(first, action))
        for first, action in enumerate(("keep", "drop"))
    ]
    with server:
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        server.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert server.returncode == -signal.SIGKILL
    found = stored(run)
    assert set(answered.values()) == {"keep", "drop"}
    for i, action in answered.items():
        assert found[i] == (action, None)
    for group in [*groups(0), *groups(1)]:
        assert len(found.keys() & set(group)) in (0, len(group))
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
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
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
    assert stored(run) == {0: ("drop", None)}


def test_the_browser_is_opened_without_the_token_on_a_command_line(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with serve._open_browser("http://127.0.0.1:1/secret/"):
        while not opened:
            time.sleep(0.01)
        assert "secret" not in opened[0]
        file = Path(unquote(urlsplit(opened[0]).path))
        assert "url=http://127.0.0.1:1/secret/" in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()
