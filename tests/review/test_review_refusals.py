"""What the review server refuses: strangers, other origins, bad bodies."""

from __future__ import annotations

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
from review_client import Client
from review_runs import HOSTILE_CLASS, HOSTILE_FILE, hostile_run, list_decisions, open_session
from uqled.review.serve import serve_review
from uqled.review.server.application import make_application

# ---- refusals


def test_every_address_needs_the_token(client, run):
    token = client.path.strip("/")
    for path in ("/", "/api/start", f"/{token[:-1]}/api/start", f"/{token}x/", "/static/page.js",
                 "/thumbnail/0", "/%C3%A9%FF/", f"/{token.swapcase()}/", f"/x/{token}/",
                 "//", f"/?{token}"):  # fmt: skip
        assert client.request("GET", path, whole_path=True)[0] == 403, path
    body = {"items": [[0, "drop", None]], "seen": {}, "reviewer": "eve", "tab": ""}
    assert client.request("POST", "/api/decide", body, whole_path=True)[0] == 403
    assert list_decisions(run) == {}
    assert len(token) >= 32


def list_addresses(run):
    """(method, path) of every address of the page."""
    session, _ = open_session(run)
    session.decisions.close()
    routes = make_application(session).routes
    values = {"name": "page.js", "index": "0"}
    return [
        (method, route.path.format(**values))
        for route in routes
        for method in route.methods - {"HEAD"}
    ]


def test_every_address_is_behind_the_same_guard(client, run):
    addresses = list_addresses(run)
    assert ("POST", "/api/decide-all") in addresses
    assert ("GET", "/api/map/places") in addresses
    token = client.path.strip("/")
    evil = {"Origin": "http://evil.example"}
    for method, path in addresses:
        body = {} if method == "POST" else None

        def ask(path, headers=(), *, method=method, body=body):
            return client.request(method, path, body, headers=headers, whole_path=True)[0]

        assert ask(path) == ask(f"/{token[:-1]}{path}") == 403, path
        assert ask(f"/{token}{path}", evil) == 403, path
        assert ask(f"/{token}{path}", {"Host": "evil.example"}) == 421, path
        assert ask(f"/{token}{path}") not in (403, 404, 421), path
        if method == "POST":  # sent by no page
            assert ask(f"/{token}{path}", {"Origin": None}) == 403, path
    assert list_decisions(run) == {}


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
    assert list_decisions(run) == {}


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
    assert list_decisions(run) == {}


def test_odd_methods_are_refused(client, run):
    for path in ("", "api/start", "api/samples", "thumbnail/0", "static/page.js"):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            status = client.request(method, path, {})[0]
            assert 400 <= status < 500, (method, path)
    for path in ("api/decide", "api/undo"):
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            assert client.request(method, path)[0] in (403, 405)
    assert list_decisions(run) == {}


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
    assert list_decisions(run) == {}
    assert client.post("api/decide", good)[0] == 200  # it still serves


def test_huge_bodies_are_refused(client, run):
    padded = {"items": [[0, "drop", None]], "seen": {}, "reviewer": "ana", "tab": "t", "x": ""}
    padded["x"] = "y" * (2 << 20)
    assert client.post("api/decide", padded)[0] == 413
    # One that only says that it is huge, and one that does not say how long it is.
    assert client.post("api/decide", b"{}", headers={"Content-Length": str(1 << 40)})[0] == 413
    connection = http.client.HTTPConnection(client.host, timeout=20)
    headers = {"Content-Type": "application/json", "Origin": f"http://{client.host}"}
    body = json.dumps(padded).encode()
    parts = (body[start : start + 65_536] for start in range(0, len(body), 65_536))
    try:
        connection.request("POST", f"{client.path}api/decide", parts, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may hang up before all is sent
    finally:
        connection.close()
    assert list_decisions(run) == {}


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
        answer, headers, _ = client.get(path)
        assert answer == status
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
    response = client.request("GET", "/", whole_path=True)[1]
    assert response["referrer-policy"] == "no-referrer"
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
    moved_run = run.path.rename(run.path.parent / "<script>alert(1)<")
    with serve_review(moved_run, port=0) as address:
        page = Client(address).get("")[2]
    assert b"<script>alert(1)" not in page
    assert b"&lt;script&gt;alert(1)&lt;" in page
