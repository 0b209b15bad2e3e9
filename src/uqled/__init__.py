"""uqled finds wrong labels in classification data, and asks how sure the model is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uqled import compat, noise, uncertainty
    from uqled.detect.find import find_label_errors
    from uqled.detect.joint import noise_matrix
    from uqled.detect.quality import confident_joint, label_quality_scores
    from uqled.detect.result import LabelErrors
    from uqled.errors import FileError, InputError, MissingInputError, UqledError

#: Where each public name lives; loaded when it is first used, so that importing stays quick.
_HOMES = {
    "FileError": "uqled.errors",
    "InputError": "uqled.errors",
    "LabelErrors": "uqled.detect.result",
    "MissingInputError": "uqled.errors",
    "UqledError": "uqled.errors",
    "confident_joint": "uqled.detect.quality",
    "find_label_errors": "uqled.detect.find",
    "label_quality_scores": "uqled.detect.quality",
    "noise_matrix": "uqled.detect.joint",
}
_ROOMS = ("compat", "noise", "uncertainty")

__all__ = [
    "FileError",
    "InputError",
    "LabelErrors",
    "MissingInputError",
    "UqledError",
    "compat",
    "confident_joint",
    "find_label_errors",
    "label_quality_scores",
    "noise",
    "noise_matrix",
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
