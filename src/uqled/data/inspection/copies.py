"""Copies of a sample: they share a fold, and an unlabelled copy gets the label of the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.inspection.duplicates import find_equal_samples, repeats_by_chance
from uqled.data.inspection.equal_samples import Sets, count_members, join_sets
from uqled.data.inspection.findings import Finding, format_count

_LARGEST_SHARE = 0.05  # of the samples: a larger set is not copies, and would unbalance the folds
_FEW_SETS_SHARE = 0.5  # distinct rows of a table, below which its columns are too few to tell


def group_copies(data: Dataset) -> NDArray[Any] | None:
    """[N] groups of samples that must share a fold: the user's groups, joined with copies.

    Returns the user's groups (or None) unchanged if there are no copies.
    """
    sets = find_equal_samples(data)
    sizes = count_members(sets)
    is_copy = (sizes > 1) & (sizes <= max(2, _LARGEST_SHARE * len(sets)))
    contents = join_sets(np.where(is_copy, sets, -1))
    few_sets = len(np.unique(contents)) < _FEW_SETS_SHARE * len(sets)
    if not is_copy.any() or (data.kind == "table" and few_sets):
        return data.groups
    if data.groups is None:
        return contents
    _, first, number = np.unique(data.groups.astype(str), return_index=True, return_inverse=True)
    return join_sets(contents, np.stack([np.arange(len(sets)), first[number]], axis=1))


def find_labelled_copies(data: Dataset) -> NDArray[np.intp]:
    """[n] for each unlabelled sample, a labelled sample of the same content whose copies all have
    the same label; -1 if there is none."""
    n = len(data.unlabelled)
    copies = np.full(n, -1, np.intp)
    if data.unlabelled_inputs is None or len(data.unlabelled_inputs) != n:
        return copies
    together = data.with_unlabelled()
    sets = find_equal_samples(together)
    if repeats_by_chance(together, sets):
        return copies
    labelled_sets, unknown = np.split(sets, [len(data)])
    order = np.argsort(labelled_sets, kind="stable")
    starts = np.searchsorted(labelled_sets[order], unknown, "left")
    ends = np.searchsorted(labelled_sets[order], unknown, "right")
    for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        rows = order[start:end]
        if unknown[at] >= 0 and len(np.unique(data.labels.codes[rows])) == 1:
            copies[at] = rows[0]
    return copies


def choose_unlabelled_classes(
    data: Dataset, probs: NDArray[np.floating]
) -> tuple[NDArray[np.integer], list[str]]:
    """Choose classes for the unlabelled samples from their probabilities [n,K].

    Returns (class numbers, the id of the labelled sample that each is a copy of, or ""). A copy
    gets the class of the labelled sample.
    """
    copies = find_labelled_copies(data)
    codes = np.where(copies >= 0, data.labels.codes[copies], probs.argmax(axis=1))
    return codes, np.where(copies >= 0, data.ids[copies], "").tolist()


def check_copies(data: Dataset, *, folds: int) -> list[Finding]:
    """Check for copies of which one has no label, or belongs to a rare class."""
    findings = []
    copies = find_labelled_copies(data)
    if (copies >= 0).any():
        at = int(np.argmax(copies >= 0))
        label = data.labels.names[data.labels.codes[copies[at]]]
        number = format_count(int(np.sum(copies >= 0)), "sample has", "samples have")
        findings.append(
            Finding(
                "labelled-copies",
                "note",
                f"{number} no label and the same content as a labelled one, such as "
                f"{data.unlabelled[at]} (as {data.ids[copies[at]]}, labelled {label!r})",
                "`find` suggests that label",
                tuple(np.array(data.unlabelled, object)[copies >= 0].tolist()),
            )
        )
    return [*findings, *_check_rare_copies(data, find_equal_samples(data), folds)]


def _check_rare_copies(data: Dataset, sets: Sets, folds: int) -> list[Finding]:
    codes = data.labels.codes
    sizes = np.bincount(codes, minlength=data.n_classes)
    is_rare = (sizes[codes] < folds) & (count_members(sets) > 1)
    if not is_rare.any() or repeats_by_chance(data, sets):
        return []
    common = {int(sets[row]): row for row in np.flatnonzero(sizes[codes] >= folds)[::-1].tolist()}
    pairs = [
        (row, common[int(sets[row])])
        for row in np.flatnonzero(is_rare).tolist()
        if int(sets[row]) in common
    ]
    if not pairs:
        return []
    (rare, other), names = pairs[0], data.labels.names
    number = format_count(len(pairs), "sample of a rare class has", "samples of rare classes have")
    return [
        Finding(
            "rare-copies",
            "error",
            f"{number} the same content as one of another class, such as {data.ids[rare]} "
            f"(labelled {names[codes[rare]]!r}) as {data.ids[other]} ({names[codes[other]]!r})",
            "Its class is set aside, so that no list shows it: correct its label",
            tuple(data.ids[[row for row, _ in pairs]].tolist()),
        )
    ]
