"""F fits on resampled data; the first sees the training part as it is and is the softmax too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.predict.uncertainty.source import SeveralFits


class Bootstrap(SeveralFits):
    """Asks nothing of the model. Samples are drawn within each class, so that none is lost."""

    def choose_rows(self, labels: NDArray[Any], member: int, seed: int) -> NDArray[np.intp] | None:
        return (
            draw_within_classes(labels, np.random.default_rng((seed, member))) if member else None
        )


def draw_within_classes(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows drawn with replacement, as many of each class as there are."""
    by_class = np.argsort(labels, kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    starts, sizes = np.repeat(np.cumsum(counts) - counts, counts), np.repeat(counts, counts)
    rows: NDArray[np.intp] = by_class[starts + rng.integers(0, sizes)]
    return rows
