"""A file of decisions to damage."""

from __future__ import annotations

import pytest

from decision_files import write_decisions


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "run" / "decisions.sqlite"
    file.parent.mkdir()
    write_decisions(file)
    return file
