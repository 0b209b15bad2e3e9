"""What was decided about a run; no file is made where nobody reviewed."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from uqled.review.decisions.rows import Decision
from uqled.review.decisions.store import DECISIONS_FILE, Decisions
from uqled.storage.run import Predictions


def read_verdicts(predictions: Predictions) -> tuple[NDArray[np.int8], NDArray[np.int32]] | None:
    """A run's (actions [N], labels [N]), as `find_label_errors` takes verdicts; None where nothing
    is decided. No file is made where nobody reviewed."""
    if not has_decisions(predictions):
        return None
    with Decisions.of(predictions) as decisions:
        actions, labels = decisions.verdicts(len(predictions))
    return (actions, labels) if actions.any() else None


def read_decisions(predictions: Predictions) -> dict[int, Decision]:
    """The current decisions about a run; no file is created if nobody has reviewed."""
    if not has_decisions(predictions):
        return {}
    with Decisions.of(predictions) as store:
        return store.current()


def has_decisions(predictions: Predictions) -> bool:
    """Whether the run has a file of decisions, or something in its place that opening will
    refuse."""
    return os.path.lexists(predictions.path / DECISIONS_FILE)
