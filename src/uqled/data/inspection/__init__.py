"""`inspect`: finds obvious problems in a data set before any model is trained."""

from __future__ import annotations

from typing import Any

from uqled.data.dataset import Dataset
from uqled.data.inspection.class_checks import check_classes
from uqled.data.inspection.column_checks import check_columns
from uqled.data.inspection.copies import check_copies
from uqled.data.inspection.duplicates import check_duplicates
from uqled.data.inspection.findings import Finding, Inspection, sort_findings
from uqled.data.inspection.image_checks import check_images

__all__ = ["Finding", "Inspection", "inspect"]

_FOLDS = 4  # the default of `find`


def inspect(data: Any, *, folds: int = _FOLDS, **options: Any) -> Inspection:
    """Find obvious problems in a data set: duplicates with different labels, variants of a class
    name, rare classes, a column that leaks the label, and the like.

    `data` is a `Dataset`, or whatever `load` accepts, with its `options`. Unreadable images are
    among the findings.

    >>> data = Dataset.from_arrays(["a b", "c d", "a b", "e f"] * 5, ["x", "y", "y", "x"] * 5)
    >>> print(inspect(data).findings[0].message)
    10 samples have the same content as others with a different label
    """
    if not isinstance(data, Dataset):
        from uqled.data.loading import load

        data = load(data, **{"skip_unreadable": True, **options})
    counts = dict.fromkeys(data.labels.names, 0)
    for code in data.labels.codes.tolist():
        counts[data.labels.names[code]] += 1
    findings = [
        *(Finding("reading", "note", message, advice) for message, advice in data.notes),
        *check_duplicates(data),
        *check_copies(data, folds=folds),
        *check_classes(data, folds=folds),
        *check_columns(data),
        *check_images(data),
    ]
    return Inspection(
        data.name, data.kind, len(data), counts, data.columns, sort_findings(findings)
    )
