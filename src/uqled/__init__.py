"""uqled finds wrong labels in classification data, using the model's uncertainty."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uqled import compat, data, models, noise, uncertainty
    from uqled.cleaner import LabelCleaner
    from uqled.data.dataset import Dataset
    from uqled.data.inspection import inspect
    from uqled.data.loading import load
    from uqled.detect.auto.audit import audit_sample, estimate_audit
    from uqled.detect.core.joint import noise_matrix
    from uqled.detect.find import find_label_errors
    from uqled.detect.parts.prepare import find_label_errors_in_parts
    from uqled.detect.parts.result import ErrorsInParts
    from uqled.detect.quality import confident_joint, label_quality_scores
    from uqled.detect.result import LabelErrors
    from uqled.errors import FileError, InputError, MissingInputError, UqledError
    from uqled.export.corrections import clean
    from uqled.finding import find
    from uqled.predict.crossval import cross_validate
    from uqled.predict.own_predictions import make_run
    from uqled.review.serve import open_review

#: Where each public name lives; loaded when it is first used, so that importing stays quick.
_HOMES = {
    "ErrorsInParts": "uqled.detect.parts.result",
    "FileError": "uqled.errors",
    "InputError": "uqled.errors",
    "Dataset": "uqled.data.dataset",
    "LabelCleaner": "uqled.cleaner",
    "LabelErrors": "uqled.detect.result",
    "MissingInputError": "uqled.errors",
    "UqledError": "uqled.errors",
    "audit_sample": "uqled.detect.auto.audit",
    "clean": "uqled.export.corrections",
    "confident_joint": "uqled.detect.quality",
    "cross_validate": "uqled.predict.crossval",
    "estimate_audit": "uqled.detect.auto.audit",
    "find": "uqled.finding",
    "find_label_errors": "uqled.detect.find",
    "find_label_errors_in_parts": "uqled.detect.parts.prepare",
    "inspect": "uqled.data.inspection",
    "label_quality_scores": "uqled.detect.quality",
    "load": "uqled.data.loading",
    "make_run": "uqled.predict.own_predictions",
    "noise_matrix": "uqled.detect.core.joint",
    "open_review": "uqled.review.serve",
}
_ROOMS = ("compat", "data", "models", "noise", "review", "uncertainty")

__all__ = [
    "Dataset",
    "ErrorsInParts",
    "FileError",
    "InputError",
    "LabelCleaner",
    "LabelErrors",
    "MissingInputError",
    "UqledError",
    "audit_sample",
    "clean",
    "compat",
    "confident_joint",
    "cross_validate",
    "data",
    "estimate_audit",
    "find",
    "find_label_errors",
    "find_label_errors_in_parts",
    "inspect",
    "label_quality_scores",
    "load",
    "make_run",
    "models",
    "noise",
    "noise_matrix",
    "open_review",
    "uncertainty",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("uqled")
    if name in _ROOMS:
        return import_module(f"uqled.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'uqled' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
