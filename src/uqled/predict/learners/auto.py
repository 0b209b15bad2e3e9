"""The default model: chosen by the kind of data."""

from __future__ import annotations

from typing import Any

from uqled.data.dataset import Dataset
from uqled.predict.learner import Learner


def make_learner(model: Any, data: Dataset, *, uncertainty: str, training: Any) -> Learner:  # noqa: ARG001
    """`small` for images, `logistic` for texts, `forest` for tables."""
    from uqled.predict.learners import choose_learner

    names = {"images": "small", "texts": "logistic", "table": "forest"}
    return choose_learner(names[data.kind], data, uncertainty=uncertainty, **training)
