"""Labels and predictions to report on."""

from __future__ import annotations

import pytest

from made_predictions import make_predictions


@pytest.fixture
def data():
    return make_predictions(4, N=600)
