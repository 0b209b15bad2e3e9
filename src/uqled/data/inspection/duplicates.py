"""Samples that are the same, or nearly so, and have different labels: one of them is wrong."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.inspection.findings import Finding

_NEAR_DIFFERENCE = 6.0  # of 255 per pixel, on average, that a copy saved again may differ
_WORD = re.compile(r"\w+")
_FEW_COLUMNS_SHARE = 0.05  # of rows that are duplicates, from which on columns do not decide


def find_duplicates(data: Dataset) -> list[Finding]:
    """Exact duplicates and then near ones, where their labels differ."""
    exact_keys = _make_exact_keys(data)
    exact = _find_contradictions(exact_keys, data.labels.codes)
    findings = []
    if len(exact):
        findings.append(_describe_exact(data, exact, exact_keys))
    near = np.setdiff1d(_find_near_contradictions(data), exact)
    if len(near):
        findings.append(
            Finding(
                "near-duplicates",
                "warning",
                f"{len(near):,} samples are nearly the same as others with a different label",
                "Look at each pair: one of the labels is most likely wrong",
                tuple(data.ids[near].tolist()),
            )
        )
    return findings


def _describe_exact(data: Dataset, rows: NDArray[np.intp], keys: Sequence[Hashable]) -> Finding:
    message = f"{len(rows):,} samples have the same content as others with a different label"
    ids = tuple(data.ids[rows].tolist())
    counts = Counter(keys)
    repeated = sum(n for n in counts.values() if n > 1) / len(keys)
    if data.kind == "table" and data.texts is None and repeated > _FEW_COLUMNS_SHARE:
        return Finding(
            "duplicates",
            "warning",
            f"{message}, and {repeated:.0%} of all rows occur more than once",
            "The columns do not decide the class here: add the column that does",
            ids,
        )
    return Finding(
        "duplicates",
        "error",
        message,
        "One label of each set is wrong for certain: correct these first",
        ids,
    )


def _make_exact_keys(data: Dataset) -> Sequence[Hashable]:
    """[N] equal for samples with equal content."""
    if data.kind == "texts":
        return list(data.inputs)
    if hasattr(data.inputs, "columns"):
        from pandas.util import hash_pandas_object

        plain = data.inputs.astype(object).map(str)
        return list(hash_pandas_object(plain, index=False))
    return [hash(np.ascontiguousarray(row).tobytes()) for row in data.inputs]


def _find_contradictions(keys: Sequence[Hashable], codes: NDArray[Any]) -> NDArray[np.intp]:
    """The samples whose key another one has with a different label."""
    labels = defaultdict(set)
    for key, code in zip(keys, codes.tolist(), strict=True):
        labels[key].add(code)
    return np.flatnonzero([len(labels[key]) > 1 for key in keys])


def _find_near_contradictions(data: Dataset) -> NDArray[np.intp]:
    codes = data.labels.codes
    if data.kind == "texts":
        return _find_contradictions([_simplify(text) for text in data.inputs], codes)
    if data.kind == "images":
        return _find_near_images(data.inputs, codes)
    return np.array([], np.intp)


def _simplify(text: str) -> str:
    """A text without case, punctuation, spacing and accents; itself where nothing is left."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return " ".join(_WORD.findall(plain)) or text


def _find_near_images(images: NDArray[np.uint8], codes: NDArray[Any]) -> NDArray[np.intp]:
    """Images that are the same at a small size, but for what saving them again changes."""
    groups = defaultdict(list)
    for row, image in enumerate(images):
        small = _shrink(image)
        if small.max() - small.min() > 8:  # plain areas are alike without being copies
            signature = (np.diff(small[:8], axis=1) > 0).tobytes()
            groups[signature].append((row, small))
    rows = []
    for members in groups.values():
        if len({int(codes[row]) for row, _ in members}) < 2:
            continue
        first = members[0][1].astype(np.float64)
        alike = [r for r, small in members if np.abs(small - first).mean() <= _NEAR_DIFFERENCE]
        if len({int(codes[row]) for row in alike}) > 1:
            rows += alike
    return np.array(sorted(rows), np.intp)


def _shrink(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """[9,9] mean grey levels."""
    step = max(1, min(image.shape[:2]) // 36)  # large ones need not be read whole
    grey = image[::step, ::step].mean(axis=2)
    rows = np.linspace(0, len(grey), 10).astype(int)
    columns = np.linspace(0, grey.shape[1], 10).astype(int)
    if len(set(rows)) < 10 or len(set(columns)) < 10:  # smaller than that already
        return np.resize(grey, (9, 9))
    sums = np.add.reduceat(np.add.reduceat(grey, rows[:-1], axis=0), columns[:-1], axis=1)
    return np.asarray(sums / np.outer(np.diff(rows), np.diff(columns)))
