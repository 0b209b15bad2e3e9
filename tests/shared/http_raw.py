"""HTTP by hand: requests that no client library would send, and all that comes back."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

DROP = json.dumps({"items": [[0, "drop", None]], "seen": {}, "reviewer": "eve", "tab": ""})

#: Serves a run, and makes a mistake where a sample is asked for at its full length.
SERVER = """
import sys
from uqled.review.server import lists as server
from uqled.review.serve import serve_review

def fail(*_):
    raise RuntimeError("a mistake of ours")

server.read_content = fail
with serve_review(sys.argv[1], port=0) as address:
    print(address, flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class RawAnswer:
    """One answer; a header that was sent twice has its values in a list."""

    status: int
    headers: dict[str, str]
    body: bytes


class PageServer:
    """Where a page is served, and the pieces of a right request to it."""

    def __init__(self, address):
        parts = urlsplit(address)
        self.place = (parts.hostname, parts.port)
        self.host = parts.netloc
        self.token = parts.path.strip("/")
        self.page = parts.path

    def connect(self, timeout=20):
        return socket.create_connection(self.place, timeout=timeout)

    def head(self, path="", *, method="GET", target=None, version="HTTP/1.1", headers=None):
        """The bytes of a request's head; `headers` are pairs, so that one may be there twice."""
        target = self.page + path if target is None else target
        pairs = [("Host", self.host), ("Connection", "close")] if headers is None else headers
        lines = [f"{method} {target} {version}", *(f"{name}: {value}" for name, value in pairs)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def ask(self, data, *, timeout=20):
        """Send bytes, and read answers until the server hangs up."""
        with closing(self.connect(timeout)) as connection:
            connection.sendall(data)
            return read_answers(connection)

    def status(self, data):
        """The status of the first answer; None if there is none."""
        answers = self.ask(data)
        return answers[0].status if answers else None


def read_answers(connection):
    content = b""
    try:
        while piece := connection.recv(65_536):
            content += piece
    except ConnectionResetError:  # it hung up while we were sending
        pass
    return split_answers(content)


def split_answers(content):
    answers = []
    while b"\r\n\r\n" in content:
        head, content = content.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), f"a header twice in {lines}"
        if headers.get("transfer-encoding") == "chunked":
            body, content = split_chunks(content)
        else:
            length = int(headers.get("content-length", len(content)))
            body, content = content[:length], content[length:]
        answers.append(RawAnswer(int(first.split()[1]), headers, body))
    return answers


def split_chunks(content):
    body = b""
    while True:
        size, content = content.split(b"\r\n", 1)
        number = int(size, 16)
        piece, content = content[:number], content[number + 2 :]
        if not number:
            return body, content
        body += piece


def request_decision(page, *, body=DROP, pairs=(), **options):
    """A request that would decide, if it were the page's."""
    pairs = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *pairs]
    return page.head("api/decide", method="POST", headers=pairs, **options) + body.encode()


@contextmanager
def process(script, *words):
    """A Python process with the files that a system allows by default; it ends with the block."""
    resource = pytest.importorskip("resource")
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),  # noqa: PLW1509
    ) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
