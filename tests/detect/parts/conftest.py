"""Labels and probabilities in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from part_arrays import make_inputs, shards


@pytest.fixture
def in_shards(tmp_path: Path) -> Any:
    labels, softmax, passes = make_inputs(6)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])
    return (
        (names[labels], softmax, passes),
        (
            shards(tmp_path / "labels", names[labels], [100, 130]),
            shards(tmp_path / "probs", softmax, [50]),
            shards(tmp_path / "passes", passes, [7, 200], axis=1),
        ),
    )
