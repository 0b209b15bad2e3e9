"""Checks of out-of-fold predictions: no better than chance, perfect, inseparable classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import is_at_chance
from uqled.arrays import Labels
from uqled.data.inspection.findings import Finding, Inspection

_TWINS = 0.65  # accuracy between two classes below which they are hardly separable
_MIN_CLASS_SIZE = 10  # samples of a class, below which it is not judged
_MAX_PAIRS = 5  # in a message
_MANY_CLASSES = 2_000


def add_prediction_findings(
    inspection: Inspection, labels: Labels, pred_probs: NDArray[Any]
) -> Inspection:
    """The same inspection with what the predictions [N,K] of the data show as well."""
    findings = check_predictions(labels, pred_probs.argmax(axis=1))
    return replace(inspection, findings=(*inspection.findings, *findings))


def check_predictions(labels: Labels, predicted: NDArray[Any]) -> list[Finding]:
    """Check the predicted class numbers [N]."""
    codes = labels.codes
    accuracy = float(np.mean(predicted == codes))
    findings = []
    if is_at_chance(codes, predicted, labels.n_classes):
        findings.append(
            Finding(
                "chance",
                "error",
                f"the model predicts {accuracy:.1%} as labelled, which is no better than chance",
                "Nothing can be said about the labels: check which columns are used, or try "
                "another model",
            )
        )
    elif accuracy == 1 and len(codes) >= 50:
        findings.append(
            Finding(
                "perfect",
                "warning",
                "every sample is predicted as labelled",
                "Check that no input is another form of the label",
            )
        )
    if twins := _find_twins(labels, predicted):
        examples = ", ".join(f"{a!r} and {b!r}" for a, b in twins[:_MAX_PAIRS])
        more = f" and {len(twins) - _MAX_PAIRS} more pairs" if len(twins) > _MAX_PAIRS else ""
        findings.append(
            Finding(
                "twin-classes",
                "note",
                f"the model can hardly tell some classes apart: {examples}{more}",
                "Their labels cannot be judged by this model: merge them, or use a better one",
            )
        )
    return findings


def _find_twins(labels: Labels, predicted: NDArray[Any]) -> list[tuple[str, str]]:
    """Find pairs of classes that the model cannot separate."""
    if labels.n_classes > _MANY_CLASSES:
        return []
    K = labels.n_classes
    counts = np.bincount(labels.codes * K + predicted, minlength=K * K).reshape(K, K)
    sizes = counts.sum(axis=1)
    twins = []
    for a, b in zip(*np.nonzero(np.triu(counts + counts.T, 1)), strict=True):
        total = counts[a, a] + counts[a, b] + counts[b, a] + counts[b, b]
        if min(sizes[a], sizes[b]) < _MIN_CLASS_SIZE or total < 0.5 * (sizes[a] + sizes[b]):
            continue
        share = (counts[a, a] + counts[b, b]) / total
        smaller_share = min(counts[a, a] / max(counts[a, a] + counts[a, b], 1),
                            counts[b, b] / max(counts[b, b] + counts[b, a], 1))  # fmt: skip
        if share < _TWINS and smaller_share < _TWINS:
            twins.append((float(share), labels.names[a], labels.names[b]))
    return [(a, b) for _, a, b in sorted(twins)]
