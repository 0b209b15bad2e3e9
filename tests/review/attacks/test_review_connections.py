"""Connections that say nothing, too slowly or too often: the page stays open for people."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, suppress

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from http_raw import SERVER, PageServer, process, read_answers, request_decision, wait_until
from uqled.limits import override_limits
from uqled.review.serve import serve_review
from uqled.review.server import connections

FLOOD = """
import socket, sys
place, half, held = (sys.argv[1], int(sys.argv[2])), sys.argv[3].encode(), []
print("begins", flush=True)
while True:
    try:
        held.append(socket.create_connection(place, timeout=5))
        held[-1].sendall(half)
    except OSError:
        pass
    if len(held) > 300:
        held.pop(0).close()
"""


def is_open(connection):
    connection.settimeout(0)
    try:
        while connection.recv(65_536):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        connection.settimeout(20)


def test_half_open_connections_do_not_block_the_page(run):
    """1,100 of them, in which nothing, half a head or half a body was sent."""
    resource = pytest.importorskip("resource")
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard_limit != resource.RLIM_INFINITY and hard_limit < 1300:
        pytest.skip("too few open files are allowed")
    with process(SERVER, run.path) as server, ExitStack() as stack:
        page = PageServer(server.stdout.readline().strip())
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft_limit, 1300), hard_limit))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft_limit, hard_limit))
        half = page.head("api/start")[:-2]
        body = request_decision(
            page, pairs=[("Host", page.host), ("Origin", "http://evil.example")]
        )[:-1]
        connections = []
        for number in range(1100):
            connections.append(stack.enter_context(closing(page.connect())))
            with suppress(OSError):  # it may have hung up already
                connections[-1].sendall((b"", half, half[:5], body)[number % 4])
        for _ in range(5):
            began = time.monotonic()
            assert page.status(page.head("api/start")) == 200
            assert time.monotonic() - began < 10
        wait_until(lambda: sum(map(is_open, connections)) <= 100, 20)
        _, output = server.communicate("", timeout=30)
    assert output == ""


def test_the_number_of_connections_is_a_limit(run):
    with override_limits(connections=5), serve_review(run, port=0) as address, ExitStack() as stack:
        page = PageServer(address)
        connections = [stack.enter_context(closing(page.connect())) for _ in range(30)]
        wait_until(lambda: sum(map(is_open, connections)) <= 5)
        assert [is_open(one) for one in connections[-4:]] == [True] * 4  # the oldest make room
        assert page.status(page.head("api/start")) == 200


def test_a_person_gets_in_while_somebody_opens_connections_all_the_time(page):
    question = page.head("api/changes", headers=[("Host", page.host)])

    def ask(connection):
        content = b""
        connection.sendall(question)
        while b'"number"' not in content:
            piece = connection.recv(65_536)
            assert piece, "the person's connection was closed"
            content += piece

    with closing(page.connect()) as idle_connection:  # as a browser keeps one between requests
        ask(idle_connection)
        with process(FLOOD, *page.place, "GET / HTTP/1.1\r\n") as flood:
            assert flood.stdout.readline() == "begins\n"
            time.sleep(0.3)
            for _ in range(20):
                began = time.monotonic()
                ask(idle_connection)
                status = page.status(page.head("api/start"))
                while status is None:  # not heard in time: a browser tries again
                    status = page.status(page.head("api/start"))
                assert status == 200
                assert time.monotonic() - began < 20
            assert flood.poll() is None


def test_slow_heads_and_bodies_are_cut_off(run, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    with serve_review(run, port=0) as address:
        page = PageServer(address)
        headers = [("Host", page.host), ("Origin", f"http://{page.host}")]
        starts = {
            "nothing": b"",
            "half a head": page.head("api/start")[:-2],
            "half a body": request_decision(page, pairs=headers)[:-1],
            "half a chunk": page.head("api/decide", method="POST", headers=[
                *headers, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")
            ]) + b"5\r\n{",
            "one after another": page.head("api/start", headers=headers) + b"GET /",
            "a body nobody reads": page.head("api/start", headers=[
                *headers, ("Content-Length", "100")]) + b"x",
        }  # fmt: skip
        with ExitStack() as stack:
            slow_connections = {
                name: stack.enter_context(closing(page.connect())) for name in starts
            }
            for name, connection in slow_connections.items():
                connection.sendall(starts[name])
            began = time.monotonic()
            while slow_connections and time.monotonic() - began < 10:
                time.sleep(0.1)
                for name, connection in list(slow_connections.items()):
                    try:
                        connection.sendall(b" " if "head" in name else b"")  # drop by drop
                        connection.settimeout(0)
                        while piece := connection.recv(65_536):
                            assert piece
                        del slow_connections[name]
                    except BlockingIOError:
                        connection.settimeout(20)
                    except OSError:
                        del slow_connections[name]
            assert slow_connections == {}
            assert time.monotonic() - began < 5
        assert page.status(page.head("api/start")) == 200


def test_a_slow_request_within_its_time_is_answered(page):
    data = page.head("api/start")
    with closing(page.connect()) as connection:
        for at in range(0, len(data), 20):
            connection.sendall(data[at : at + 20])
            time.sleep(0.02)
        assert [answer.status for answer in read_answers(connection)] == [200]
