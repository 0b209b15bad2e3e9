"""How right flags are, when the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def score_detection(
    mask: NDArray[np.bool_], ranking: NDArray[Any], is_error: NDArray[np.bool_]
) -> dict[str, float | int]:
    """Precision, recall, F1, F0.5, and the area under precision-recall of the ranking.

    Nothing flagged has precision 0, as scikit-learn says with `zero_division=0`.

    >>> found = detection_metrics(
    ...     np.array([True, True, False]), np.array([1, 0, 2]), np.array([False, True, False])
    ... )
    >>> found["precision"], found["recall"], found["aupr"]
    (0.5, 1.0, 1.0)
    """
    both = int(np.count_nonzero(mask & is_error))
    flagged, wrong = int(np.count_nonzero(mask)), int(np.count_nonzero(is_error))
    precision, recall = both / max(flagged, 1), both / max(wrong, 1)
    return {
        "flagged": flagged,
        "precision": precision,
        "recall": recall,
        "f1": compute_f_beta(precision, recall, 1.0),
        "f05": compute_f_beta(precision, recall, 0.5),
        "aupr": compute_average_precision(is_error[ranking]),
    }


def compute_f_beta(precision: float, recall: float, beta: float) -> float:
    """The weighted harmonic mean: beta below 1 weighs precision more."""
    weight = beta * beta
    below = weight * precision + recall
    return (1 + weight) * precision * recall / below if below else 0.0


def compute_average_precision(is_error: NDArray[np.bool_]) -> float:
    """Area under precision-recall of errors in their ranked order [N], most suspect first."""
    at = np.flatnonzero(is_error)  # ranks of the errors, from 0
    if not len(at):
        return 0.0
    return float(np.mean(np.arange(1, len(at) + 1) / (at + 1)))
