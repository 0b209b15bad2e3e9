"""Finds duplicates and near duplicates with different labels: one of the labels is wrong."""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset, is_frame
from uqled.data.inspection.equal_samples import (
    Sets,
    count_members,
    join_sets,
    list_contradictions,
    number_keys,
)
from uqled.data.inspection.findings import Finding
from uqled.data.inspection.near_images import find_near_images
from uqled.data.inspection.near_rows import count_chance_pairs, hash_rows, list_near_keys
from uqled.data.inspection.near_texts import find_near_texts
from uqled.data.inspection.text_keys import fold_text

_COPIES_SHARE = 0.02  # of repeated samples, below which they do no harm
_CHANCE_PAIRS = 0.5  # expected pairs of rows that are equal by chance
_FEW_COLUMNS_SHARE = 0.05  # of duplicate rows, beyond which the columns do not determine the class

_EQUAL_SAMPLES: WeakKeyDictionary[Dataset, Sets] = WeakKeyDictionary()


class Contradictions(NamedTuple):
    """Duplicates with different labels."""

    sets: NDArray[np.int32]
    """[N] the number of each sample's set of duplicates, or -1."""
    contents: NDArray[np.int32]
    """[N] equal for samples of exactly the same content; -1 for a sample in no set."""


def find_contradictions(data: Dataset) -> Contradictions | None:
    """Find samples that are (nearly) the same as others with a different label.

    At least one label of each such set is wrong. Rows of a table must be equal in every column.
    None if there is no such set, or if the columns of a table do not determine the class.
    """
    contents = find_equal_samples(data)
    if repeats_by_chance(data, contents):
        return None
    near_pairs = _find_near_pairs(data)
    sets = join_sets(contents, near_pairs)
    rows = list_contradictions(sets, data.labels.codes)
    if not len(rows):
        return None
    contradictions = Contradictions(*(np.full(len(data), -1, np.int32) for _ in range(2)))
    contradictions.sets[rows] = number_keys(sets[rows])
    contradictions.contents[rows] = number_keys(join_sets(contents)[rows])
    return contradictions


def check_duplicates(data: Dataset) -> list[Finding]:
    """Check for exact and near duplicates with different labels, and for many copies."""
    sets = find_equal_samples(data)
    exact = list_contradictions(sets, data.labels.codes)
    findings = []
    if len(exact):
        findings.append(_describe_exact(data, exact, sets))
    pairs = _find_near_pairs(data)
    near_rows = np.setdiff1d(_find_near_rows(data) if data.kind == "table" else pairs, exact)
    if len(near_rows):
        example = next((pair for pair in pairs.tolist() if pair[0] in near_rows), None)
        findings.append(
            Finding(
                "near-duplicates",
                "warning",
                f"{len(near_rows):,} samples are nearly the same as others with a different label"
                f"{'' if example is None else f', such as {_describe_pair(data, example)}'}",
                "Look at each pair: one of the labels is most likely wrong",
                tuple(data.ids[near_rows].tolist()),
            )
        )
    return [*findings, *_check_repeats(data, sets)]


def _describe_pair(data: Dataset, pair: list[int]) -> str:
    """Two samples with their labels."""
    names = data.labels.names
    return " and ".join(f"{data.ids[row]} ({names[data.labels.codes[row]]})" for row in pair)


def _check_repeats(data: Dataset, sets: Sets) -> list[Finding]:
    """Check whether many samples occur more than once."""
    rows = np.flatnonzero(count_members(sets) > 1)
    is_few = len(rows) < max(2, _COPIES_SHARE * len(sets))
    if is_few or data.groups is not None or repeats_by_chance(data, sets):
        return []
    return [
        Finding(
            "copies",
            "warning",
            f"{len(rows):,} samples occur more than once ({len(rows) / len(sets):.0%})",
            "Copies share a fold, so that none gives another's label away. If rows belong together "
            "that are not the same, say so with --group COLUMN",
            tuple(data.ids[rows].tolist()),
        )
    ]


def _describe_exact(data: Dataset, rows: NDArray[np.intp], sets: Sets) -> Finding:
    message = f"{len(rows):,} samples have the same content as others with a different label"
    ids = tuple(data.ids[rows].tolist())
    if repeats_by_chance(data, sets):
        return Finding(
            "duplicates",
            "warning",
            f"{message}, and {_measure_repeats(sets):.0%} of all rows occur more than once",
            "The columns do not determine the class: add the column that does",
            ids,
        )
    return Finding(
        "duplicates",
        "error",
        message,
        "One label of each set is certainly wrong: correct these first",
        ids,
    )


def repeats_by_chance(data: Dataset, sets: Sets) -> bool:
    """Whether rows are equal because there are few columns, not because they are copies."""
    if data.kind != "table" or data.texts is not None:
        return False
    return _measure_repeats(sets) > _FEW_COLUMNS_SHARE or count_chance_pairs(data) > _CHANCE_PAIRS


def _measure_repeats(sets: Sets) -> float:
    """The share of samples that share their set with others."""
    return float(np.mean(count_members(sets) > 1))


def find_equal_samples(data: Dataset) -> Sets:
    """[N] set numbers, the same for samples that look the same to an annotator; -1 if empty.

    The result is cached per data set.
    """
    if data not in _EQUAL_SAMPLES:
        _EQUAL_SAMPLES[data] = _number_equal_samples(data)
    return _EQUAL_SAMPLES[data]


def _number_equal_samples(data: Dataset) -> Sets:
    """[N] set numbers of equal samples.

    Texts may differ in case and spacing. Images of a single colour are not compared: they show
    nothing that a label could contradict.
    """
    if data.kind == "texts":
        return number_keys([fold_text(text) or None for text in data.inputs])
    if is_frame(data.inputs):
        return number_keys(hash_rows(data))
    is_image = data.kind == "images"
    return number_keys(
        [
            None
            if is_image and np.ptp(row) == 0
            else hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
            for row in data.inputs
        ]
    )


def _find_near_pairs(data: Dataset) -> NDArray[np.intp]:
    """[M,2] images or texts with different labels that are nearly the same."""
    codes = data.labels.codes
    if data.kind == "images":
        return find_near_images(data.inputs, codes)
    if data.kind == "texts":
        return find_near_texts(data.inputs, codes)
    return np.empty((0, 2), np.intp)


def _find_near_rows(data: Dataset) -> NDArray[np.intp]:
    """Find rows of a table that equal others with a different label, up to rounding and such."""
    codes = data.labels.codes
    rows = [list_contradictions(number_keys(keys), codes) for keys in list_near_keys(data)]
    return np.unique(np.concatenate(rows)) if rows else np.array([], np.intp)
