"""Processes of this machine: the order of the items, the first error, and none is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

import uqled
from uqled.engines import Engine, processes
from uqled.engines.processes import Processes


def describe(prefix, item):
    return f"{prefix}{item},", os.getpid(), os.environ.get("OMP_NUM_THREADS")


def refuse(item):
    if item >= 2:
        raise uqled.InputError("item", f"is {item}", "Pass less")
    return item


@pytest.fixture(scope="module")
def engine():
    with Processes(2, threads=4) as engine:
        yield engine


def test_items_are_worked_on_elsewhere_and_come_in_order(engine):
    assert isinstance(engine, Engine)
    assert engine.is_distributed
    results = list(engine.map(describe, range(4), arguments=("a",)))
    assert [text for text, _, _ in results] == ["a0,", "a1,", "a2,", "a3,"]
    assert os.getpid() not in {process for _, process, _ in results}
    assert {threads for _, _, threads in results} == {"2"}  # half of four for each


def test_results_are_merged_in_order(engine):
    done = []
    merged = engine.reduce(str, range(5), lambda a, b: a + b, advance=done.append)
    assert merged == "01234"
    assert done == list(range(5))


def test_an_error_is_our_own(engine):
    with pytest.raises(uqled.InputError, match="item is 2"):
        list(engine.map(refuse, range(4)))


def test_a_function_of_a_script_can_be_sent(engine):
    offset = 10
    assert list(engine.map(lambda item: item + offset, [1, 2])) == [11, 12]


def test_a_process_that_may_have_no_others_works_itself(monkeypatch):
    monkeypatch.setattr(processes.os, "_exit", lambda _: pytest.fail("the process would end"))
    items = range(2)
    results = [processes._call_in_worker(os.getpid(), describe, ("a",), i) for i in items]
    assert results == [describe("a", 0), describe("a", 1)]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_workers_end_with_a_process_that_is_killed(tmp_path):
    code = (
        "import os, sys, time, pathlib\n"
        "from uqled.engines.processes import Processes\n"
        "def wait(folder, item):\n"
        "    (pathlib.Path(folder) / str(os.getpid())).touch()\n"
        "    time.sleep(300)\n"
        "with Processes(2, 2) as engine:\n"
        f"    list(engine.map(wait, [1, 2], arguments=({str(tmp_path)!r},)))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert len(workers) == 2
    parent.kill()
    parent.wait()
    while any(map(psutil.pid_exists, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [one for one in workers if psutil.pid_exists(one)]
    for one in left:
        os.kill(one, signal.SIGKILL)
    assert not left
