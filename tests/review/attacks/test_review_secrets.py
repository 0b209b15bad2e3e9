"""What leaves the server: no file by its name, no token in logs or commands, errors as answers."""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
import webbrowser
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from PIL import Image, PngImagePlugin

from http_raw import DROP, SERVER, PageServer, process, request_decision, wait_until
from review_runs import finish, image_run
from uqled.data import load
from uqled.review import serve
from uqled.review.serve import serve_review


def test_no_address_gives_a_file_by_its_name(page, run):
    secret = run.path.parent / "secret.txt"
    secret.write_text("the secret of this machine")
    up = run.path.parent
    names = ["secret.txt", str(secret), str(secret)[1:], "run.json", "ids.json", "labels.npy",
             "decisions.sqlite", "page.html", "server.py", "__init__.py", "etc/passwd"]  # fmt: skip
    ways = ["", "/", "../", "../" * 9, "..%2f", "%2e%2e/", "..\\", "....//", "%2f", "%5c", "file:",
            "file://", "//", "./", f"{up}/", ".%00/", "0/../", "0%00", "static/../",
            "~/"]  # fmt: skip
    rooms = ["", "static/", "picture/", "thumbnail/", "api/sample/", "templates/", "run/", "api/"]
    content = [b"the secret of", b"root:", b"SQLite format", b"\x93NUMPY", b"import ", b'"source"']
    n_requests = 0
    for room, way, name in itertools.product(rooms, ways, names):
        answer = page.ask(page.head(f"{room}{way}{name}"))[0]
        assert answer.status in (400, 404), (room, way, name)
        assert not any(part in answer.body for part in content)
        n_requests += 1
    assert n_requests == 1760


def test_pictures_are_what_was_read_whatever_the_files_are_now(tmp_path):
    """A path column may lead anywhere; the page has the pixels, never the file."""
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", "the secret of this picture")
    outside, inside = tmp_path / "outside", tmp_path / "table"
    outside.mkdir()
    inside.mkdir()
    paths, pixels = [], np.random.default_rng(0).integers(0, 255, (30, 8, 8, 3)).astype(np.uint8)
    for i, image in enumerate(pixels):
        file = outside / f"{i}.png"
        Image.fromarray(image).save(file, pnginfo=about)
        link = inside / f"{i}.png"
        link.symlink_to(file)
        paths.append([str(file), link.name, f"../outside/{i}.png"][i % 3])
    table = pd.DataFrame({"path": paths, "label": np.array(["a", "b"])[np.arange(30) % 2]})
    table.to_csv(inside / "table.csv", index=False)
    data = load(inside / "table.csv", cache=False)
    run = finish(tmp_path / "run", data, wrong=0.4)
    with serve_review(run, port=0) as address:
        page = PageServer(address)
        for i in range(30):  # what the page was started with
            (outside / f"{i}.png").unlink()
            (outside / f"{i}.png").symlink_to("/etc/passwd")
        for i, image in enumerate(pixels):
            for size in ("picture", "thumbnail"):
                answer = page.ask(page.head(f"{size}/{i}"))[0]
                assert answer.status == 200
                assert answer.headers["content-type"] == "image/png"
                assert b"secret" not in answer.body
                assert b"root:" not in answer.body
                (tmp_path / "shown.png").write_bytes(answer.body)
                page_image = np.asarray(Image.open(tmp_path / "shown.png"))
                np.testing.assert_array_equal(page_image, image)


# ---- accidents and hostile runs


def edit(run, statement):
    """As somebody else's program changes the file."""
    with closing(
        sqlite3.connect(run.path / "decisions.sqlite", isolation_level=None)
    ) as connection:
        connection.execute(statement)


def test_a_damaged_file_is_answered_as_an_error(tmp_path):
    """503, so that the page keeps the decision and says why, and goes on when it is mended."""
    run = image_run(tmp_path, N=60)
    with serve_review(run, port=0) as address:
        page = PageServer(address)
        headers = [("Host", page.host), ("Origin", f"http://{page.host}"), ("Connection", "close")]
        assert page.status(request_decision(page, pairs=headers)) == 200
        edit(run, "UPDATE changes SET sample = 99 WHERE number = 1")
        edit(run, "INSERT INTO changes VALUES (2, 2, 99, 'keep', NULL, 'eve', '', 1e9, 7, NULL)")
        for data in (request_decision(page, body=DROP.replace("drop", "keep"), pairs=headers),
                     page.head("api/changes?after=0"), page.head("api/samples")):  # fmt: skip
            answer = page.ask(data)[0]
            assert answer.status == 503
            error = json.loads(answer.body)["error"]
            assert "decisions.sqlite" in error
            assert "change 1 has sample 99" in error or "change 2 has sample 99" in error
        edit(run, "DELETE FROM changes WHERE number = 2")
        edit(run, "UPDATE changes SET sample = 0 WHERE number = 1")
        assert page.status(page.head("api/samples")) == 200
        edit(run, "CREATE TRIGGER t AFTER INSERT ON latest BEGIN DELETE FROM changes; END")
        other = request_decision(page, body=DROP.replace("[0,", "[1,"), pairs=headers)
        assert page.status(other) == 503
        edit(run, "DROP TRIGGER t")
        assert (
            page.status(request_decision(page, body=DROP.replace("[0,", "[1,"), pairs=headers))
            == 200
        )


def test_the_token_is_in_no_log_whatever_goes_wrong(run):
    """The server says nothing of refused requests, and of its own mistakes not the address."""
    with process(SERVER, run.path) as server:
        page = PageServer(server.stdout.readline().strip())
        headers = [("Host", page.host), ("Origin", f"http://{page.host}")]
        command = Path(f"/proc/{server.pid}/cmdline")
        assert not command.exists() or page.token not in command.read_text()
        assert page.ask(page.head("api/sample/0"))[0].status == 500
        chunks = page.head("api/decide", method="POST", headers=[
            *headers, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")
        ])  # fmt: skip
        for data in (
            b"hello\r\n\r\n", page.head("nothing"), page.head("api/start")[:-2],
            page.head(headers=[("Host", page.token), ("X", page.token)]),
            page.head(headers=[*headers, ("X", "y" * 100_000)]),
            page.head(headers=[*headers, ("Upgrade", "websocket"), ("Connection", "Upgrade")]),
            request_decision(page, pairs=headers)[:-5],
            request_decision(page, body=page.token, pairs=headers),
            chunks + b"5\r\n{", chunks + b"x\r\n",
            page.head("nothing", headers=[*headers, ("Transfer-Encoding", "chunked")]) + b"x\r\n",
            page.head("thumbnail/0", headers=headers) * 50,
        ):  # fmt: skip
            with closing(page.connect()) as connection:
                connection.sendall(data)
                connection.settimeout(0.1)
                with suppress(OSError):
                    connection.recv(10)
        assert page.status(page.head("api/start")) == 200
        out, log = server.communicate("", timeout=30)
    assert out == ""
    assert "a mistake of ours" in log  # else nothing was logged at all
    assert page.token not in log
    assert log.count("Traceback") == 1


BROWSER = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(repr([sys.argv, dict(os.environ)]))
"""


def test_the_browser_is_started_without_the_token(run, tmp_path, monkeypatch):
    script, environment_file = tmp_path / "browser.py", tmp_path / "seen"
    script.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} {environment_file} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})
    with serve_review(run, port=0) as address, serve._open_browser(address):
        wait_until(lambda: environment_file.exists() and environment_file.read_text().endswith("]"))
        text = environment_file.read_text()
        assert "uqled-review-" in text
        assert PageServer(address).token not in text


def test_the_file_that_opens_the_browser_is_removed(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    with serve._open_browser("http://127.0.0.1:1/secret/"):
        [file] = tmp_path.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(serve, "_FILE_SECONDS", 0.05)  # also while the page is served
    with serve._open_browser("http://127.0.0.1:1/secret/"):
        wait_until(lambda: not any(tmp_path.iterdir()))
