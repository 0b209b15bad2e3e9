"""A page that is attacked, on which nothing may ever be decided."""

from __future__ import annotations

import pytest

from http_raw import PageServer
from review_runs import image_run
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return image_run(tmp_path_factory.mktemp("attacked"), N=60)


@pytest.fixture(scope="module")
def page(run):
    with serve_review(run, port=0) as address:
        yield PageServer(address)


@pytest.fixture(autouse=True)
def nothing_is_decided(run):
    yield
    with Decisions(run.path / "decisions.sqlite") as decisions:
        assert decisions.history() == []
