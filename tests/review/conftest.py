"""A small run, and its review server."""

from __future__ import annotations

import pytest

from review_client import Client
from review_runs import image_run
from uqled.review.serve import serve_review


@pytest.fixture
def run(tmp_path):
    return image_run(tmp_path)


@pytest.fixture
def client(run):
    with serve_review(run, port=0) as address:
        yield Client(address)
