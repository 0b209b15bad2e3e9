"""A small run, and its review server."""

from __future__ import annotations

import pytest

from review_client import Client
from review_runs import image_run
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review


@pytest.fixture
def run(tmp_path):
    return image_run(tmp_path)


@pytest.fixture
def client(run):
    with serve_review(run, port=0) as address:
        yield Client(address)


@pytest.fixture
def decisions(tmp_path):
    path = tmp_path / "decisions.sqlite"
    with Decisions(path, n_samples=50, classes=["a", "b", "c", "d"]) as decision_file:
        yield decision_file
