"""Parts of detection that are useful alone: the confident joint and label quality scores."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.detect.core.joint import calibrate_joint
from uqled.detect.core.kernels import SLACK
from uqled.detect.core.sweeps import Sweeps
from uqled.detect.find import count_threads, read_inputs
from uqled.detect.methods.method import SOFTMAX
from uqled.engines.local import Threads
from uqled.errors import InputError
from uqled.progress import Progress

QualityScore = Literal["self-confidence", "normalized-margin", "confidence-weighted-entropy"]


def confident_joint(
    labels: Any,
    pred_probs: Any,
    *,
    calibrate: bool = True,
    classes: Sequence[Any] | None = None,
    threads: int | None = None,
) -> Any:
    """[K,K] given x true: the number of samples counted in each pair.

    Calibrated, each row sums to the number of samples given that class. scipy.sparse above 2,000
    classes.
    """
    inputs = read_inputs(labels, pred_probs, None, classes=classes)
    arrays.check_two_classes(inputs.labels)
    with Threads(count_threads(threads)) as engine:
        sweeps = Sweeps(inputs, engine, Progress())
        statistics = sweeps.collect_class_statistics([SOFTMAX])
        pairs = sweeps.count_confident_joints([SOFTMAX], statistics).counters[SOFTMAX].get_joint()
    return (calibrate_joint(pairs, statistics.class_counts) if calibrate else pairs).to_matrix()


def label_quality_scores(
    labels: Any,
    pred_probs: Any,
    *,
    method: QualityScore = "self-confidence",
    classes: Sequence[Any] | None = None,
) -> NDArray[np.float64]:
    """[N] how well each given label fits, from 0 to 1; lower = more suspect.

    `self-confidence` is the probability of the given label, `normalized-margin` compares it with
    the best other class, `confidence-weighted-entropy` relates the row's entropy to it.

    >>> label_quality_scores([0, 1], [[0.9, 0.1], [0.7, 0.3]]).tolist()
    [0.9, 0.3]
    """
    if method not in ("self-confidence", "normalized-margin", "confidence-weighted-entropy"):
        raise InputError(
            "method",
            f"is {method!r}",
            "Choose self-confidence, normalized-margin or confidence-weighted-entropy",
        )
    inputs = read_inputs(labels, pred_probs, None, classes=classes)
    assert inputs.softmax is not None
    scores = np.empty(len(inputs.labels))
    for start, stop in inputs.split_blocks():
        block = inputs.softmax.read(start, stop)
        inputs.softmax.check_block(block, start, inputs.kernels)
        rows, codes = block.get_pass(0), inputs.labels.codes[start:stop]
        self_confidence = np.empty(stop - start)
        inputs.kernels.read_given_probability(rows, codes, self_confidence)
        if method == "normalized-margin":
            other = np.empty(stop - start)
            inputs.kernels.find_best_other(rows, codes, other)
            self_confidence = (self_confidence - other + 1) / 2
        elif method == "confidence-weighted-entropy":
            self_confidence = _confidence_weighted_entropy(rows, self_confidence, inputs.kernels)
        scores[start:stop] = self_confidence
    return scores


def _confidence_weighted_entropy(
    rows: NDArray[Any], self_confidence: NDArray[Any], kernels: ModuleType
) -> NDArray[np.float64]:
    """[n] ln(x + 1) / x, where x is the normalised entropy over the self-confidence."""
    n, K = rows.shape
    mean = rows.astype(np.float64)
    entropy, information = np.empty(n), np.empty(n)
    kernels.measure_uncertainty(rows, 0, n, 1, mean, entropy, information)
    ratio = entropy / np.log(K) / np.maximum(self_confidence, SLACK)
    is_certain = ratio < SLACK  # of the label: use the limit, which is 1
    scores: NDArray[np.float64] = np.where(
        is_certain, 1.0, np.log1p(ratio) / np.where(is_certain, 1.0, ratio)
    )
    return scores
