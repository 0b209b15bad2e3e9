"""A file of decisions to damage."""

from __future__ import annotations

import pytest

from decision_files import make_decision_file


@pytest.fixture
def path(tmp_path):
    return make_decision_file(tmp_path)
