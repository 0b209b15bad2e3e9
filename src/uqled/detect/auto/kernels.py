"""The inner loops of `auto`: one pass over the rows, and the likelihood that calibrates them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.compiler import compile_kernel

Rows = NDArray[Any]
Ints = NDArray[Any]

#: Probabilities below this count as this, the least that single precision tells apart from 0.
LEAST = 1e-35


@compile_kernel
def find_alternatives(rows: Rows, labels: Ints, other: Ints, given: Rows, best: Rows) -> None:
    """Write each row's most probable class beside its label (of equals the lower one), and the
    probabilities of both."""
    n, K = rows.shape
    for r in range(n):
        row, label = rows[r], labels[r]
        chosen, highest = -1, np.float32(-1.0)
        for j in range(K):
            value = np.float32(row[j])
            if value > highest and j != label:
                chosen, highest = j, value
        other[r], given[r], best[r] = chosen, row[label], highest


@compile_kernel
def count_votes(flat: Rows, first: int, step: int, F: int, labels: Ints, counts: Ints) -> None:
    """Add how often a pass predicts another class than the label, and how often two passes predict
    different classes."""
    predicted = np.empty(F, np.int64)
    for r in range(labels.size):
        for f in range(F):
            row = flat[first + f * step + r]
            chosen = 0
            for j in range(1, row.size):
                if row[j] > row[chosen]:
                    chosen = j
            predicted[f] = chosen
            counts[0] += chosen != labels[r]
            for g in range(f):
                counts[1] += predicted[g] != chosen


@compile_kernel
def powered_given(logs: Rows, labels: Ints, power: float, out: Rows) -> None:
    """Write the label's probability [n], where probabilities of these logarithms [n,K] are raised
    to a power and their sum is 1 again."""
    n, K = logs.shape
    for r in range(n):
        top = logs[r, 0]
        for j in range(1, K):
            top = max(top, logs[r, j])
        total = 0.0
        for j in range(K):
            total += np.exp(power * (logs[r, j] - top))
        out[r] = np.exp(power * (logs[r, labels[r]] - top)) / total
