"""The review page attacked: what docs/review.md promises, held against requests made for it."""

from __future__ import annotations

import itertools
import json
import re
import time

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from http_raw import DROP, PageServer, request_decision
from uqled.limits import override_limits
from uqled.review.serve import serve_review

# ---- who may ask


def test_only_the_right_token_host_and_origin_get_in(page):
    """Every combination of right and wrong ones, for the page, a picture and a decision."""
    port = page.place[1]
    t = page.token
    tokens = {t: True, "": False, "x": False, t[:-1]: False, f"{t}x": False, t.swapcase(): False,
              f"%{ord(t[0]):02x}{t[1:]}": False, f"{t}%00": False, f"x/../{t}": False}  # fmt: skip
    hosts = {page.host: True, f"localhost:{port}": True, f"[::1]:{port}": True,
             "evil.example": False, f"evil.example:{port}": False, "localhost.evil.example": False,
             f"127.0.0.1:{port}.evil.example": False, f"evil@127.0.0.1:{port}": False,
             "127.0.0.1:evil": False, "127.1": False, "0x7f000001": False}  # fmt: skip
    origins = {"own": True, None: True, "null": False, "http://evil.example": False,
               "https://own": False, "own.evil.example": False}  # fmt: skip
    sites = {None: True, "same-origin": True, "cross-site": False, "same-site": False}
    counts = {True: 0, False: 0}
    for (token, is_token), (host, is_host), (origin, is_origin), (
        site,
        is_site,
    ) in itertools.product(*(choices.items() for choices in (tokens, hosts, origins, sites))):
        n_wrong = [is_token, is_host, is_origin, is_site].count(False)
        if n_wrong > 2:
            continue
        pairs = [("Host", host), ("Connection", "close")]
        if origin is not None:
            own = f"http://{host}"
            pairs.append(("Origin", origin.replace("own", own.split("//")[1])
                          if "://" in origin else origin.replace("own", own)))  # fmt: skip
        if site is not None:
            pairs.append(("Sec-Fetch-Site", site))
        for path in ("", "thumbnail/0"):
            status = page.status(page.head(target=f"/{token}/{path}", headers=pairs))
            assert (status == 200) == (n_wrong == 0), (token, pairs, path, status)
            assert status in (200, 403, 404, 421)
            counts[status == 200] += 1
    assert counts[True] >= 12
    assert counts[False] >= 500


def test_a_decision_needs_an_origin_and_a_type(page):
    own_origin = ("Origin", f"http://{page.host}")
    host = ("Host", page.host)
    hang_up = ("Connection", "close")
    body = DROP.replace("[0,", "[10000,")  # refused at the end, so that nothing is decided
    kind = ("Content-Type", "application/json")
    size = ("Content-Length", str(len(body)))

    def status(*pairs):
        head = page.head("api/decide", method="POST", headers=[*pairs, hang_up])
        return page.status(head + body.encode())

    assert status(host, own_origin, kind, size) == 400  # there is no such sample
    assert status(host, kind, size) == 403
    for origin in ("null", "", "http://evil.example", f"http://{page.host}.evil.example",
                   f"http://{page.host}/", f"HTTP://{page.host}", f"http://{page.host} "
                   "http://evil.example"):  # fmt: skip
        assert status(host, ("Origin", origin), kind, size) == 403, origin
    for other in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "",
                  "application/json-patch", "text/plain, application/json"):  # fmt: skip
        assert status(host, own_origin, ("Content-Type", other), size) == 415, other


@pytest.mark.parametrize(
    "name", ["Host", "Origin", "Content-Type", "Sec-Fetch-Site", "Sec-Fetch-Mode"]
)
def test_a_header_that_is_there_twice_is_refused(page, name):
    """Which of the two would count?"""
    right = {"Host": page.host, "Origin": f"http://{page.host}", "Content-Type": "application/json",
             "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}  # fmt: skip
    wrong = {"Host": "evil.example", "Origin": "http://evil.example", "Content-Type": "text/plain",
             "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}  # fmt: skip
    for first, second in ((right, wrong), (wrong, right), (right, right)):
        pairs = [*right.items(), ("Content-Length", str(len(DROP))), ("Connection", "close")]
        at = [one for one, _ in pairs].index(name)
        pairs[at : at + 1] = [(name, first[name]), (name.lower(), second[name])]
        head = page.head("api/decide", method="POST", headers=pairs)
        assert page.status(head + DROP.encode()) == 400


def test_other_forms_of_an_address_are_refused(page):
    origin = f"http://{page.host}"
    for target in (
        f"{origin}{page.page}", f"http://evil.example{page.page}", page.host, "*",
        f"/%2F{page.token}/", f"//{page.token}/", f"/./{page.token}/", f"/x/..{page.page}",
        f"/{page.token}%2F", f"/{page.token}%2fapi%2fstart", f"\\{page.token}\\",
        f"/{page.token};/", f"/{page.token}?/", f"/?/{page.token}/", f"/#/{page.token}/",
        f"{page.page}api%2Fstart", f"{page.page}%61pi/start", f"{page.page}/api/start",
        f"{page.page}./api/start", f"{page.page}api/../api/start", f"{page.page}api/start%00",
        f"/{page.token}/\xff",
    ):  # fmt: skip
        answers = page.ask(page.head(target=target))
        assert answers[0].status in (400, 403, 404), target
        assert b"classes" not in answers[0].body


def test_old_http_needs_a_host_too(page):
    for version in ("HTTP/1.0", "HTTP/1.1"):
        assert page.status(page.head(version=version, headers=[])) in (400, 421)
        assert page.status(page.head(version=version, headers=[("Host", "")])) in (400, 421)
    assert page.status(page.head(version="HTTP/1.0")) == 200
    for version in ("HTTP/3", "HTTP", "ICY/1.0", "HTTP/1.1 x"):
        assert page.status(page.head(version=version)) == 400, version


def test_requests_in_one_go_are_answered_one_by_one(page):
    """Also where a refused one is among them: then it hangs up."""
    one = page.head("api/start", headers=[("Host", page.host)])
    foreign_request = page.head(target="/", headers=[("Host", page.host)])
    last = page.head("api/start")
    assert [answer.status for answer in page.ask(one * 40 + last)] == [200] * 41
    assert [answer.status for answer in page.ask(one + foreign_request + last)] == [200, 403]
    smuggled_request = page.head("api/decide", method="POST", headers=[
        ("Host", page.host), ("Content-Length", str(len(last))), ("Transfer-Encoding", "chunked"),
    ])  # fmt: skip
    assert [answer.status for answer in page.ask(smuggled_request + last)] in ([400], [403])


def test_no_upgrade_is_made(page):
    for kind in ("websocket", "h2c", "TLS/1.0"):
        pairs = [("Host", page.host), ("Upgrade", kind), ("Connection", "Upgrade, close"),
                 ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
                 ("Sec-WebSocket-Version", "13")]  # fmt: skip
        assert page.status(page.head(headers=pairs)) == 200  # the page, as if nothing was said
        assert page.status(page.head(target="/", headers=pairs)) == 403


# ---- bodies and heads without end


BODIES = {
    "deep lists": ("[" * 500_000, 400),
    "deep objects": ('{"a":' * 100_000, 400),
    "many keys": (json.dumps({str(i): i for i in range(50_000)}), 400),
    "many items": (json.dumps({"items": [[0, "drop", None]] * 30_000, "seen": {}}), 400),
    "a long number": ('{"items":[[' + "9" * 100_000 + ',"drop",null]],"seen":{}}', 400),
    "a long name": (json.dumps(json.loads(DROP) | {"reviewer": "x" * 900_000}), 400),
    "one byte too many": (" " * (2**20 + 1 - len(DROP)) + DROP, 413),
    "twice a key": (DROP[:-1] + ', "items": []}', 400),
    "not a number": ('{"items": NaN, "seen": Infinity}', 400),
}


@pytest.mark.parametrize("name", BODIES)
def test_impossible_bodies_are_refused(page, name):
    body, status = BODIES[name]
    pairs = [("Host", page.host), ("Origin", f"http://{page.host}"), ("Connection", "close")]
    began = time.monotonic()
    assert page.status(request_decision(page, body=body, pairs=pairs)) == status
    assert time.monotonic() - began < 5


def test_bodies_in_chunks_have_the_same_limit(page):
    pairs = [("Host", page.host), ("Origin", f"http://{page.host}"), ("Connection", "close"),
             ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]  # fmt: skip
    head = page.head("api/decide", method="POST", headers=pairs)
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    assert page.status(head + b"2\r\n{}\r\n0\r\n\r\n") == 400  # read, and nothing in it
    assert page.status(head + chunk * 16 + b"1\r\n \r\n0\r\n\r\n") in (413, None)
    for bad in (b"x\r\n", b"-1\r\n", b"f" * 21 + b"\r\n", b"2;" + b"a" * 20_000):
        assert page.status(head + bad) == 400, bad[:20]
    assert page.status(head + chunk * 17 + b"x\r\n") in (400, 413, None)


def test_heads_have_a_limit(page):
    host = [("Host", page.host), ("Connection", "close")]
    assert page.status(page.head(headers=[*host, ("Cookie", "y" * 10_000)])) == 200
    for data in (page.head(headers=[*host, ("X", "y" * 100_000)]),
                 page.head(headers=[*host, *[("X", "y")] * 20_000]),
                 page.head(f"?{'y' * 100_000}"), page.head(target="/" + "a" * 100_000),
                 page.head(method="A" * 100_000), b"A" * 1_000_000):  # fmt: skip
        assert page.status(data) in (400, 431, None)
    junk = np.random.default_rng(0).integers(0, 256, (200, 300)).astype(np.uint8)
    for line in junk:
        assert page.status(line.tobytes() + b"\r\n\r\n") in (400, None)


def test_the_limit_of_bodies_can_be_raised(run):
    with override_limits(request_bytes=len(DROP) - 1), serve_review(run, port=0) as address:
        page = PageServer(address)
        pairs = [("Host", page.host), ("Origin", f"http://{page.host}"), ("Connection", "close")]
        assert page.status(request_decision(page, pairs=pairs)) == 413


# ---- what answers carry


def test_every_answer_forbids_scripts_frames_and_referrers(page):
    host = [("Host", page.host), ("Connection", "close")]
    own_headers = [*host, ("Origin", f"http://{page.host}")]
    requests = {
        "the page": page.head(),
        "a script": page.head("static/page.js"),
        "a style": page.head("static/review.css"),
        "the icon": page.head("static/icon.svg"),
        "an answer": page.head("api/start"),
        "a picture": page.head("picture/0"),
        "no such sample": page.head("picture/60"),
        "no such address": page.head("nothing"),
        "no such file": page.head("static/nothing"),
        "without a slash": page.head(target=f"/{page.token}"),
        "no token": page.head(target="/"),
        "another host": page.head(headers=[("Host", "evil.example"), ("Connection", "close")]),
        "another origin": page.head(headers=[*host, ("Origin", "null")]),
        "two origins": page.head(headers=[*own_headers, ("Origin", "null")]),
        "another method": page.head(method="PUT", headers=own_headers),
        "a bad question": page.head("api/samples?size=x"),
        "a bad body": request_decision(page, body="[]", pairs=own_headers),
        "another type": page.head("api/decide", method="POST", headers=own_headers),
        "a huge body": page.head("api/decide", method="POST", headers=[
            *own_headers, ("Content-Type", "application/json"), ("Content-Length", str(1 << 40))]),
        "no HTTP": b"hello\r\n\r\n",
        "a huge head": page.head(headers=[*host, ("X", "y" * 100_000)]),
    }  # fmt: skip
    statuses = {}
    for name, data in requests.items():
        answer = page.ask(data)[0]
        statuses[name] = answer.status
        headers = answer.headers
        policy = dict(
            part.strip().partition(" ")[::2]
            for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'", name
        assert policy["script-src"] == "'self'", name
        assert policy["require-trusted-types-for"] == "'script'", name
        assert policy["trusted-types"] == "'none'", name
        for part in ("base-uri", "form-action", "frame-ancestors"):
            assert policy[part] == "'none'", name
        assert "unsafe" not in headers["content-security-policy"]
        assert "camera=()" in headers["permissions-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] in ("no-store", "no-cache") or "picture" in name
        for forbidden in ("server", "access-control-allow-origin", "location", "set-cookie"):
            assert forbidden not in headers, name
    assert set(statuses.values()) == {200, 400, 403, 404, 405, 413, 415, 421, 431}
    assert [name for name, status in statuses.items() if status == 200] == [
        "the page", "a script", "a style", "the icon", "an answer", "a picture"
    ]  # fmt: skip


def test_the_page_holds_no_script_of_its_own(page):
    body = page.ask(page.head())[0].body.decode()
    assert body.count("<script") == 1
    assert '<script type="module" src="static/page.js">' in body
    assert "<style" not in body
    assert "javascript:" not in body
    assert re.search(r"<[^>]*\son\w+=", body) is None


def test_answers_do_not_hold_the_token(page):
    for path in ("", "api/start", "api/samples", "static/page.js", "nothing", "api/changes"):
        answer = page.ask(page.head(path))[0]
        assert page.token.encode() not in answer.body
        assert page.token not in str(answer.headers)
