"""A finished cross-validation."""

from __future__ import annotations

import pytest

from small_training import QUICK_TRAINING, digits, tiny
from uqled.predict.crossval import cross_validate


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    return cross_validate(digits(), tiny, out=out, **QUICK_TRAINING)
