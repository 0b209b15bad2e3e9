"""Checks what is read back from a run folder.

A run may have been edited, damaged or made by a stranger. Compiled loops, the page and the exports
rely on what these functions let through.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.storage.arrays.numpy_files import open_array, read_array
from uqled.storage.reading import name_file, read_json
from uqled.uncertainty import PassesKind

_START_OVER = "Begin the run again in a new folder"
_YEAR_10000 = 253_402_300_800  # seconds since 1970


def is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_none_or(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def is_list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


#: The only arguments of `load` that a run may record, to load its samples again: it must not choose
#: where a cache goes or what else is done with the samples.
SOURCE: dict[str, Callable[[Any], bool]] = {
    "place": is_string,
    "label": _is_none_or(is_string),
    "inputs": _is_none_or(lambda value: is_string(value) or is_list_of(is_string)(value)),
    "kind": lambda value: value in (None, "images", "texts", "table"),
    "columns": lambda value: (
        isinstance(value, dict) and all(map(is_string, [*value, *value.values()]))
    ),
    "group": _is_none_or(is_string),
    "encoding": _is_none_or(is_string),
    "separator": _is_none_or(is_string),
    "sheet": _is_none_or(is_string),
    "header": lambda value: value in (None, "yes", "no"),
    "spellings": lambda value: value in (None, "merge", "keep"),
    "image_size": _is_none_or(
        lambda value: _is_whole(value) or (is_list_of(_is_whole)(value) and len(value) == 2)
    ),
    "split": _is_none_or(is_string),
    "limit": _is_none_or(_is_whole),
    "seed": _is_whole,
    "skip_unreadable": lambda value: isinstance(value, bool),
}
_ABOUT: dict[str, Callable[[Any], bool]] = {
    "classes": lambda value: (
        isinstance(value, list)
        and len({type(one) for one in value}) == 1
        and type(value[0]) in (str, int, bool, float)
    ),
    "names": is_list_of(is_string),
    "ids": is_list_of(is_string),
    "source": _is_none_or(lambda value: isinstance(value, dict)),
    "source_fingerprint": is_string,
}
_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "entropy_class": is_string,
    "min_examples_per_class": _is_whole,
    "frac_noise": lambda value: type(value) in (int, float),
    "precision": lambda value: type(value) in (int, float),
    "recall": lambda value: type(value) in (int, float),
    "budget": _is_whole,
    "cost": lambda value: (
        isinstance(value, list)
        and len(value) == 2
        and all(type(one) in (int, float) for one in value)
    ),
}


def check_stored_passes_kind(content: Any, path: Path) -> PassesKind:
    """Check the content of `passes.json`: the kind of the passes."""
    kind: Any = _as_object(content, path).get("kind")
    if kind not in get_args(PassesKind):
        raise FileError(name_file(path), f"names passes of the kind {kind!r}", _START_OVER)
    return cast("PassesKind", kind)


def check_about(content: Any, path: Path) -> dict[str, Any]:
    """Check the content of `ids.json`: classes, names, ids, and where the samples came from."""
    about = {"source": None, "source_fingerprint": ""} | _as_object(content, path)
    _check_fields(about, _ABOUT, path)
    classes, names = about["classes"], about["names"]
    if len(classes) < 2 or len(set(classes)) < len(classes) or len(names) != len(classes):
        raise FileError(
            name_file(path),
            f"has {len(classes)} classes, {len(set(classes))} different ones, {len(names)} names",
            _START_OVER,
        )
    if not all(-(2**63) <= one < 2**63 for one in classes if isinstance(one, int)):
        raise FileError(name_file(path), "has a class number beyond 64 bits", _START_OVER)
    if any("\0" in one for one in (*classes, *names) if isinstance(one, str)):
        # NumPy drops zeros at the end of a text: two classes would become one.
        raise FileError(name_file(path), "has a class with a zero byte in its name", _START_OVER)
    if about["source"] is not None:
        about["source"] = _check_source(about["source"], path)
    return about


def check_detection(content: Any, path: Path) -> tuple[str, dict[str, Any]]:
    """Check the content of `detection.json`: the method and its options as `find_label_errors`
    takes them."""
    fix = "Remove it, and detect again"
    detection = _as_object(content, path, fix)
    method, options = detection.get("method"), detection.get("options", {})
    if not isinstance(method, str) or not isinstance(options, dict):
        raise FileError(name_file(path), "does not name a method and its options", fix)
    _refuse_unknown(options, _OPTIONS, path, fix)
    for name, value in options.items():
        if not _OPTIONS[name](value):
            raise _describe_wrong_field(name, value, path, fix)
    return method, {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}


def read_sets(path: Path, n: int) -> NDArray[np.int32]:
    """Check the content of `contradictions.npy` and `contents.npy`: [N] numbers of sets, -1 for
    none."""
    sets = read_array(path, _START_OVER)
    fits = sets.ndim == 1 and len(sets) == n and sets.dtype == np.int32
    if not fits or (n and sets.min() < -1):
        raise FileError(name_file(path), f"does not number the sets of {n:,} samples", "Remove it")
    return sets


def check_findings(content: Any, path: Path) -> list[str]:
    """Check the content of `inspection.json`: its findings, one sentence each."""
    findings = _as_object(content, path).get("findings")
    if not isinstance(findings, list):
        raise FileError(name_file(path), "is not a list of findings", "Remove it")
    sentences = []
    for finding in findings:
        parts = [_as_object(finding, path).get(name) for name in ("message", "advice")]
        if not all(map(is_string, parts)):
            raise FileError(name_file(path), "has a finding without text", "Remove it")
        message, advice = (str(part) for part in parts)
        sentences.append(f"{message[:1].upper()}{message[1:]}. {advice}.")
    return sentences


def open_run_array(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """A run's probabilities as a memory map of that shape; -1 stands for any length but 0.

    The values are checked when a sweep first reads them, as a user's own are.
    """
    array = open_array(path, _START_OVER)
    fits = array.ndim == len(shape) and all(
        n == expected_n or (expected_n == -1 and n > 0)
        for n, expected_n in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype.kind != "f":
        expected_shape = ", ".join("F" if n == -1 else str(n) for n in shape)
        raise FileError(
            name_file(path),
            f"holds {array.dtype} of shape {array.shape}, for [{expected_shape}] in ids.json",
            _START_OVER,
        )
    return array


def read_classes(path: Path, N: int, K: int) -> NDArray[np.int32]:
    """[N] whole numbers from 0 on and below `K`: of classes, or of folds."""
    array = read_array(path, _START_OVER)
    if array.shape != (N,) or array.dtype.kind not in "iu":
        raise FileError(
            name_file(path),
            f"holds {array.dtype} of shape {array.shape}, for {N} samples",
            _START_OVER,
        )
    if N and (array.min() < 0 or array.max() >= K):
        at = int(np.argmax((array < 0) | (array >= K)))
        raise FileError(
            name_file(path),
            f"holds {array[at]} at index {at}, which is not one of 0 to {K - 1}",
            _START_OVER,
        )
    return array.astype(np.int32, copy=False)


def _check_source(source: dict[str, Any], path: Path) -> dict[str, Any]:
    _refuse_unknown(source, SOURCE, path, _START_OVER)
    full_source = (
        dict.fromkeys(SOURCE) | {"seed": 0, "skip_unreadable": False, "columns": {}} | source
    )
    _check_fields(full_source, SOURCE, path)
    size = full_source["image_size"]
    return full_source | {"image_size": tuple(size) if isinstance(size, list) else size}


def _as_object(content: Any, path: Path, fix: str = _START_OVER) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise FileError(name_file(path), f"holds a {type(content).__name__}", fix)
    return content


def _check_fields(
    content: dict[str, Any], fields: dict[str, Callable[[Any], bool]], path: Path
) -> None:
    for name, is_valid in fields.items():
        if not is_valid(content.get(name)):
            raise _describe_wrong_field(name, content.get(name), path, _START_OVER)


def _refuse_unknown(
    content: dict[str, Any], known_keys: dict[str, Any], path: Path, fix: str
) -> None:
    for name in content:
        if name not in known_keys:
            raise FileError(name_file(path), f"has {name!r:.40}, which no run has", fix)


def _describe_wrong_field(name: str, value: Any, path: Path, fix: str) -> FileError:
    return FileError(name_file(path), f"has {value!r:.40} as {name!r}", fix)


def read_begin_time(path: Path) -> int | None:
    """When a run was begun, in seconds since 1970, whatever copying did to its files; None in runs
    of earlier versions."""
    content = read_json(path / "run.json", _START_OVER)
    begin_time = content.get("begun") if isinstance(content, dict) else None
    return begin_time if type(begin_time) is int and 0 <= begin_time < _YEAR_10000 else None
