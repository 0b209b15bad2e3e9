"""Checks of what a benchmark cell may hold, made where it is read.

Cells are merged from other machines, sent by other people and edited by hand. Tables, figures and
later cells rely on what these functions let through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import show_value
from uqled.errors import FileError
from uqled.limits import MAX_COUNT
from uqled.storage.run_checks import is_list_of, is_string

FieldCheck = Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= MAX_COUNT


def _is_share(value: Any) -> bool:
    return _is_number(value) and value <= 1


def _is_share_or_nan(value: Any) -> bool:
    return _is_share(value) or (type(value) is float and math.isnan(value))


def _is_mapping_to(check: FieldCheck) -> FieldCheck:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _make_fields_check(fields: Mapping[str, FieldCheck]) -> FieldCheck:
    return lambda value: isinstance(value, dict) and not _find_wrong_field(value, fields)


def _find_wrong_field(content: Mapping[str, Any], fields: Mapping[str, FieldCheck]) -> str:
    """The name of the first entry that is missing or wrong; "" if none is."""
    return next((k for k, check in fields.items() if k not in content or not check(content[k])), "")


def _is_matrix(value: Any) -> bool:
    """A square matrix without a zero."""
    return is_list_of(is_list_of(_is_share))(value) and all(
        len(row) == len(value) and sum(row) > 0 for row in value
    )


_METHOD = {
    "flagged": _is_count,
    **dict.fromkeys(("precision", "recall", "f1", "f05", "aupr"), _is_share),
}
_DETECTION: dict[str, FieldCheck] = {
    "n": _is_count,
    "wrong": _is_count,
    "given_accuracy": _is_share,
    "true_accuracy": _is_share,
    "methods": _is_mapping_to(_make_fields_check(_METHOD)),
    "sources": _is_mapping_to(lambda value: value is None or is_string(value)),
    "classes": is_list_of(is_string),
}
_OPTIONAL: dict[str, FieldCheck] = {
    "passes_given_accuracy": _is_share,
    "passes_true_accuracy": _is_share,
    "passes_differ": lambda value: isinstance(value, bool),
}
FIELDS: dict[str, dict[str, FieldCheck]] = {
    "pretraining": {
        "accuracy": _is_share,
        "monitored_accuracy": _is_share_or_nan,  # too few samples to monitor anything
        "train": _is_count,
        "test": _is_count,
        "classes": is_list_of(is_string),
    },
    "pilot": _DETECTION,
    "detection": _DETECTION,
    "clean detection": {
        "flagged": _is_mapping_to(_is_count),
        "sources": _is_mapping_to(lambda value: value is None or is_string(value)),
    },
    "fold": {"accuracy": _is_share},
    "retraining": {"accuracy": _is_share, "trained_on": _is_count, "changed": _is_count},
    "made": {
        "code": is_string,
        "cpu": is_string,
        "cores": _is_count,
        "memory_gib": _is_number,
        "python": is_string,
        "versions": _is_mapping_to(is_string),
        "seconds": _is_number,
    },
}
"""Kind of cell -> its results; `made`: the provenance."""


def check_fields(content: Any, kind: str, subject: str, fix: str) -> dict[str, Any]:
    """A section of a cell's file, if it is complete for this kind of cell."""
    if not isinstance(content, dict):
        raise FileError(subject, f"holds {show_value(content)} instead of its results", fix)
    if wrong_field := _find_wrong_field(content, FIELDS[kind]):
        value = show_value(content[wrong_field]) if wrong_field in content else "missing"
        raise FileError(subject, f"is not a finished cell: {wrong_field!r} is {value}", fix)
    for key, check in _OPTIONAL.items():  # which cells of older versions lack
        if key in content and not check(content[key]):
            value = show_value(content[key])
            raise FileError(subject, f"is not a finished cell: {key!r} is {value}", fix)
    for key in ("matrix", "realised", "similarity"):
        if key not in content:
            continue
        classes = content.get("classes")
        if not _is_matrix(content[key]) or len(content[key]) != len(classes or ()):
            raise FileError(
                subject, f"is not a finished cell: its {key!r} does not fit its classes", fix
            )
    return content


def take_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    shape: tuple[int | None, ...],
    kinds: str,
    subject: str,
) -> NDArray[Any]:
    """One of a cell's arrays, if it has this shape (None: any length) and one of these dtypes."""
    if name not in arrays:
        raise FileError(subject, f"lacks its array {name!r}", "Remove it, and it is computed again")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        expected in (None, length) for expected, length in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in kinds:
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise FileError(
            subject,
            f"has an array {name!r} that is {array.dtype} of shape {array.shape}, not [{expected}]",
            "Remove it, and it is computed again",
        )
    return array


def take_numbers(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    shape: tuple[int | None, ...],
    most: int,
    subject: str,
) -> NDArray[Any]:
    """The same for whole numbers from 0 up to, but not including, `most`."""
    array = take_array(arrays, name, shape, "iu", subject)
    if array.size and not (int(array.min()) >= 0 and int(array.max()) < most):
        raise FileError(
            subject,
            f"has an array {name!r} with numbers from {array.min()} to {array.max()}, of {most}",
            "Remove it, and it is computed again",
        )
    return array


def take_probabilities(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], subject: str
) -> NDArray[Any]:
    """The same for probabilities, none of them missing."""
    array = take_array(arrays, name, shape, "f", subject)
    if not (np.isfinite(array).all() and array.min(initial=0.0) >= 0):
        raise FileError(
            subject,
            f"has an array {name!r} that holds no probabilities",
            "Remove it, and it is computed again",
        )
    return array
