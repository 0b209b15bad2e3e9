"""How good flags are where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, fbeta_score, precision_recall_fscore_support


def score_detection(
    mask: NDArray[np.bool_], ranking: NDArray[Any], is_error: NDArray[np.bool_]
) -> dict[str, float | int]:
    """Precision, recall, F1, F0.5, and the area under precision-recall of the ranking.

    Without flags the precision is 0; without errors the area is 0.

    >>> scores = score_detection(
    ...     np.array([True, True, False]), np.array([1, 0, 2]), np.array([False, True, False])
    ... )
    >>> scores["precision"], scores["recall"], scores["aupr"]
    (0.5, 1.0, 1.0)
    """
    precision, recall, f1, _ = precision_recall_fscore_support(
        is_error, mask, average="binary", zero_division=0
    )
    suspicion = np.empty(len(ranking))
    suspicion[ranking] = -np.arange(len(ranking))
    return {
        "flagged": int(np.count_nonzero(mask)),
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
        "f05": float(fbeta_score(is_error, mask, beta=0.5, zero_division=0)),
        "aupr": float(average_precision_score(is_error, suspicion)) if is_error.any() else 0.0,
    }
