"""From files to a `Dataset`: inputs, given labels, class names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uqled.data.dataset import Dataset
    from uqled.data.loading import load
    from uqled.data.reopening import reopen_samples

__all__ = ["Dataset", "load", "reopen_samples"]

#: Loaded when first used, so that importing stays quick.
_HOMES = {
    "Dataset": "uqled.data.dataset",
    "load": "uqled.data.loading",
    "reopen_samples": "uqled.data.reopening",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'uqled.data' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
