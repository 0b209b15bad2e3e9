"""A server that is killed in a storm of group decisions: nothing that was acknowledged is lost, and
no group is there in part."""

from __future__ import annotations

import random
import sys
import threading
import time
from http.client import HTTPException

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from http_raw import process
from review_client import Client
from review_runs import image_run
from uqled.review.decisions import Decisions

GROUP = 12  # samples decided at once
REVIEWERS = 4
PATIENCE = 30.0  # seconds for the first answer
SCRIPT = """
import sys, time
from uqled.review.serve import serve_review
with serve_review(sys.argv[1], port=0) as address:
    print(address, flush=True)
    time.sleep(600)
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


class Storm:
    """Reviewers who decide group after group, each with samples of their own, until the line is
    cut; what was sent and what was acknowledged is noted."""

    def __init__(self, address, n_samples, round_number):
        self.sent_groups = {}  # group -> (samples, action)
        self.acknowledged_actions = {}  # sample -> action
        self.last = {}  # sample -> the action that was sent last
        self._client = Client(address)
        part = n_samples // REVIEWERS
        self._threads = [
            threading.Thread(target=self._decide, args=(f"{round_number}-{who}", who * part, part))
            for who in range(REVIEWERS)
        ]
        for thread in self._threads:
            thread.start()

    def _decide(self, name, first, part):
        n_groups = part // GROUP
        for turn in range(100_000):
            begin = first + GROUP * (turn % n_groups)
            samples = range(begin, begin + GROUP)
            group, action = f"{name}-{turn}", ("keep", "drop")[turn // n_groups % 2]
            self.sent_groups[group] = set(samples), action
            self.last |= dict.fromkeys(samples, action)
            body = {"items": [[i, action, None] for i in samples], "reviewer": group, "tab": ""}
            body["seen"] = {str(i): 10**6 for i in samples}  # nobody else decides these
            try:
                status, _ = self._client.post("api/decide", body)
            except (OSError, HTTPException):
                return
            assert status == 200
            self.acknowledged_actions |= dict.fromkeys(samples, action)

    def wait(self):
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


def kill_in_a_storm(run, rounds, seed):
    """Returns how many groups were written."""
    rng = random.Random(seed)
    N, groups = len(run.predictions()), {}
    for round_number in range(rounds):
        with process(SCRIPT, run.path) as server:
            storm = Storm(server.stdout.readline().strip(), N, round_number)
            until = time.monotonic() + PATIENCE
            while len(storm.acknowledged_actions) < GROUP and time.monotonic() < until:
                time.sleep(0.01)
            assert len(storm.acknowledged_actions) >= GROUP, "the server acknowledges nothing"
            time.sleep(rng.random() / 2)
            server.kill()  # SIGKILL
            server.wait()
            storm.wait()
        groups |= storm.sent_groups
        with Decisions(run.path / "decisions.sqlite") as decisions:
            current, history = decisions.current(), decisions.history()
        samples_of = {}
        for change in history:
            samples_of.setdefault(change.reviewer, set()).add(change.index)
        # All samples of a group have the same decision before it, so that all of them change.
        assert all(groups[group][0] == samples for group, samples in samples_of.items())
        for index, action in storm.acknowledged_actions.items():
            # The last one may have been written without an answer.
            assert current[index].action in (action, storm.last[index])
    return len(samples_of)


def test_a_kill_in_a_storm_of_group_decisions(tmp_path):
    assert kill_in_a_storm(image_run(tmp_path, N=200), rounds=2, seed=0) > 10


@pytest.mark.slow
def test_many_kills_in_a_storm_of_group_decisions(tmp_path):
    assert kill_in_a_storm(image_run(tmp_path, N=200), rounds=25, seed=1) > 100
