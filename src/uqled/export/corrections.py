"""The outcome for every sample: reviewers' decisions, and flags where nobody decided.

Pure functions of labels, flags and decisions. Nothing here reads or writes a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.data.dataset import Dataset
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.review.decisions import Decision, Decisions
from uqled.review.decisions.classes import find_merged_flags, read_class_decisions
from uqled.review.decisions.rows import ClassAction, ClassDecision
from uqled.terminal import escape_controls

Unreviewed = Literal["keep", "drop", "relabel"]
UNREVIEWED: tuple[Unreviewed, ...] = get_args(Unreviewed)
BY_DECISION = "decision"
MISSING_FILE = "missing file"
BY_CLASS: dict[ClassAction, str] = {"merge": "merged class", "rename": "renamed class"}
_MAX_PAIRS, _MAX_EXAMPLES = 8, 5  # of a description in text


@dataclass(frozen=True)
class Correction:
    """One sample that is dropped or gets another label."""

    index: int
    id: str
    action: Literal["relabel", "drop"]
    given: int
    """Class number before."""
    label: int | None
    """The new class number; None for a sample that was dropped."""
    because: str
    """`decision`, `missing file`, one of `BY_CLASS`, or the method that flagged it."""
    reviewer: str | None
    score: float | None
    """The method's label quality; lower = more suspect."""


@dataclass(frozen=True, eq=False)
class CorrectedLabels:
    """The outcome for every sample."""

    labels: Labels
    """The given labels; the new name of a renamed class is one more class at the end."""
    codes: NDArray[np.int32]
    """[N] the new class numbers; for a dropped sample, the given one."""
    is_kept: NDArray[np.bool_]
    """[N] False = dropped."""
    corrections: list[Correction]
    """In the order of the samples."""
    unreviewed: Unreviewed
    method: str | None
    n_overruled: int
    """Flagged samples whose label a reviewer kept."""
    n_unreviewed: int
    """Flagged samples without a decision."""
    moved_classes: tuple[int, ...] = ()
    """Classes that were merged or renamed: no sample has them afterwards."""

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Indices of the samples that stay."""
        return np.flatnonzero(self.is_kept)

    @cached_property
    def values(self) -> NDArray[Any]:
        """The labels of the samples that stay, as the user writes them."""
        return self.labels.values[self.codes[self.is_kept]]

    @cached_property
    def class_numbers(self) -> NDArray[np.intp]:
        """The remaining classes: all but those that were merged or renamed."""
        return np.setdiff1d(np.arange(self.labels.n_classes), self.moved_classes)

    @cached_property
    def empty_classes(self) -> list[str]:
        """The names of classes that have lost all their samples."""
        K = self.labels.n_classes
        before = np.bincount(self.labels.codes, minlength=K)
        after = np.bincount(self.codes[self.is_kept], minlength=K)
        return [self.labels.names[k] for k in np.flatnonzero((before > 0) & (after == 0))]


def correct_labels(
    labels: Labels,
    errors: LabelErrors | None = None,
    decisions: Mapping[int, Decision] | None = None,
    *,
    unreviewed: Unreviewed = "keep",
    ids: Sequence[str] | None = None,
    missing: Sequence[int] = (),
    classes: Mapping[int, ClassDecision] | None = None,
) -> CorrectedLabels:
    """Apply reviewers' decisions; flagged samples without one are treated as `unreviewed` says.

    `keep` leaves such a sample as it is, `drop` removes it, `relabel` gives it the suggested label.
    Samples that are `missing` are dropped. Of `classes` that were merged or renamed, all samples
    move to the other class, or to one of the new name.
    """
    if unreviewed not in UNREVIEWED:
        raise InputError(
            "unreviewed", f"is {unreviewed!r}", f"Choose one of {', '.join(UNREVIEWED)}"
        )
    decisions = {i: d for i, d in (decisions or {}).items() if d.action is not None}
    _check_inputs(labels, errors, decisions)
    labels, targets = _add_class_names(labels, classes or {})
    codes, is_kept = labels.codes.copy(), np.ones(len(labels), np.bool_)
    flagged = set() if errors is None else set(np.flatnonzero(errors.mask).tolist())
    if errors is not None:  # a flag between merged classes means nothing
        merged = find_merged_flags(labels.codes, errors.suggested_codes, targets)
        flagged -= set(np.flatnonzero(merged).tolist())
    undecided, missing_samples = flagged - decisions.keys(), set(missing)
    moved_samples = (
        set(np.flatnonzero(np.isin(codes, list(targets))).tolist()) if targets else set()
    )
    corrections = []
    for index in sorted(undecided | decisions.keys() | missing_samples | moved_samples):
        decision, label_before = decisions.get(index), int(labels.codes[index])
        label: int | None = label_before
        cause, reviewer = "", None
        if index in missing_samples:
            label, cause = None, MISSING_FILE
        elif decision is not None and decision.action != "keep":
            label, cause, reviewer = decision.label, BY_DECISION, decision.reviewer
        elif decision is None and index in undecided and unreviewed != "keep":
            assert errors is not None
            label = int(errors.suggested_codes[index]) if unreviewed == "relabel" else None
            cause = errors.method
        if label in targets:
            move = (classes or {})[label]
            if label == label_before:
                assert move.action is not None
                cause, reviewer = BY_CLASS[move.action], move.reviewer
            label = targets[label]
        if label == label_before:
            continue
        if label is None:
            is_kept[index] = False
        else:
            codes[index] = label
        name = str(index) if ids is None else ids[index]
        score = None if errors is None else float(errors.scores[index])
        action: Literal["relabel", "drop"] = "drop" if label is None else "relabel"
        corrections.append(
            Correction(index, name, action, label_before, label, cause, reviewer, score)
        )
    return CorrectedLabels(
        labels,
        codes,
        is_kept,
        corrections,
        unreviewed,
        None if errors is None else errors.method,
        sum(decisions[index].action == "keep" for index in flagged & decisions.keys()),
        len(undecided - missing_samples),
        tuple(sorted(targets)),
    )


def _add_class_names(
    labels: Labels, classes: Mapping[int, ClassDecision]
) -> tuple[Labels, dict[int, int]]:
    """(the labels with one more class for each new name, class -> the class its samples go to).

    New names are values of the labels' own type where they can be, such as numbers; else all values
    become text.
    """
    targets = {k: one.target for k, one in classes.items() if one.target is not None}
    new_names = {k: one.name for k, one in classes.items() if one.name is not None}
    if new_names:
        names, values = list(new_names.values()), labels.values
        try:
            new = np.array(names).astype(values.dtype) if values.dtype.kind in "iuf" else names
        except (ValueError, OverflowError):
            values, new = values.astype(str), names
        if len({str(one) for one in new} | {str(one) for one in values}) < len(new) + len(values):
            values, new = values.astype(str), names
        targets |= {k: labels.n_classes + at for at, k in enumerate(new_names)}
        together = np.array(
            [*values.tolist(), *np.asarray(new).tolist()],
            None if values.dtype.kind == "U" else values.dtype,
        )
        labels = replace(labels, values=together, names=(*labels.names, *names))
    # A class merged into a renamed class gets its new name.
    return labels, {k: targets.get(target, target) for k, target in targets.items()}


def clean(
    dataset: Dataset,
    errors: LabelErrors | None = None,
    decisions: Decisions | Mapping[int, Decision] | None = None,
    *,
    unreviewed: Unreviewed = "drop",
) -> Dataset:
    """Clean a data set: correct labels, and leave out the dropped samples.

    Parameters
    ----------
    dataset
        The samples that the errors were found in; it is not changed.
    errors
        The result of `find_label_errors`, or one of its `by_method` for another method's flags.
    decisions
        Reviewers' decisions, which override flags: `Decisions(path)`, or its `current()`.
    unreviewed
        What happens to a flagged sample without a decision: `"drop"` removes it, `"relabel"` gives
        it the suggested label, `"keep"` leaves it as it is.

    Examples
    --------
    >>> import numpy as np
    >>> import uqled
    >>> data = uqled.Dataset.from_arrays(np.zeros((5, 2)), ["cat", "cat", "dog", "dog", "dog"])
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.95, 0.05]]
    >>> errors = uqled.find_label_errors(data.labels, probs, method="cl-pbnr")
    >>> len(clean(data, errors)), clean(data, errors, unreviewed="relabel").labels.codes.tolist()
    (4, [0, 0, 1, 1, 0])
    """
    current = decisions.current() if isinstance(decisions, Decisions) else decisions or {}
    classes = read_class_decisions(decisions) if isinstance(decisions, Decisions) else {}
    if not isinstance(current, Mapping) or not all(
        isinstance(one, Decision) for one in current.values()
    ):
        raise InputError(
            "decisions",
            f"are {type(decisions).__name__}",
            "Pass Decisions(path), or its current()",
        )
    if errors is not None and not np.array_equal(errors.labels.codes, dataset.labels.codes):
        raise InputError(
            "errors",
            f"were found in {len(errors):,} other labels than the {len(dataset):,} of the data",
            "Pass the data that they were found in",
        )
    ids = dataset.ids.tolist()
    corrected = correct_labels(
        dataset.labels, errors, current, unreviewed=unreviewed, ids=ids, classes=classes
    )
    result = replace(dataset, labels=replace(corrected.labels, codes=corrected.codes))
    return result.subset(corrected.rows) if corrected.corrections else result


def restore_labels(corrections: Sequence[Correction], codes: NDArray[Any]) -> NDArray[np.int32]:
    """Restore the given class numbers [N] from those of the samples that stayed, in order.

    The inverse of `correct_labels`.
    """
    dropped_indices = [one.index for one in corrections if one.label is None]
    if len({one.index for one in corrections}) < len(corrections):
        raise InputError("changes", "name a sample twice", "Pass those of one export")
    N = len(codes) + len(dropped_indices)
    if any(not 0 <= one.index < N for one in corrections):
        raise InputError(
            "changes",
            f"reach to sample {max(one.index for one in corrections)} of {N}",
            "Pass the labels of exactly the samples that stayed",
        )
    is_kept = np.ones(N, np.bool_)
    is_kept[dropped_indices] = False
    labels = np.empty(N, np.int32)
    labels[is_kept] = codes
    for one in corrections:
        labels[one.index] = one.given
    return labels


def describe_corrections(corrected: CorrectedLabels) -> str:
    """The changes, in a few lines: by action and cause, by pair of classes, and the first few."""
    changes = corrected.corrections
    N, n = len(corrected), len(changes)
    names = [escape_controls(name) for name in corrected.labels.names]
    verbs = {"drop": "dropped", "relabel": "relabelled"}
    lines = [f"{n:,} of {N:,} samples change, {len(corrected.rows):,} are left"]
    for (action, cause), m in Counter((c.action, c.because) for c in changes).most_common():
        lines.append(f"  {m:>9,}  {verbs[action]} by {cause}")
    if corrected.n_overruled:
        lines.append(
            f"  {corrected.n_overruled:>9,}  flagged by {corrected.method}, kept by decision"
        )
    n_changed = sum(c.because == corrected.method for c in changes)
    if n_left := corrected.n_unreviewed - n_changed:
        lines.append(f"  {n_left:>9,}  flagged by {corrected.method}, left as they are")
    if corrected.empty_classes:
        classes = escape_controls(", ".join(corrected.empty_classes))
        lines.append(f"  No samples are left of class {classes}")
    if not n:
        return "\n".join(lines)
    by_pair = Counter((c.given, c.label) for c in changes)
    lines += ["", "given -> afterwards:"]
    for (old_label, label), m in by_pair.most_common(_MAX_PAIRS):
        lines.append(
            f"  {m:>9,}  {names[old_label]} -> {'(dropped)' if label is None else names[label]}"
        )
    if len(by_pair) > _MAX_PAIRS:
        lines.append(f"  and {len(by_pair) - _MAX_PAIRS:,} pairs more")
    lines += ["", "the first of them:"]
    for c in changes[:_MAX_EXAMPLES]:
        to = "(dropped)" if c.label is None else names[c.label]
        who = c.because if c.reviewer is None else f"{c.because} of {c.reviewer}"
        lines.append(f"  {escape_controls(c.id)}: {names[c.given]} -> {to}, by {who}")
    return "\n".join(lines)


def _check_inputs(
    labels: Labels, errors: LabelErrors | None, decisions: Mapping[int, Decision]
) -> None:
    N, K = len(labels), labels.n_classes
    if errors is not None and (len(errors) != N or errors.labels.n_classes != K):
        raise InputError(
            "errors",
            f"are of {len(errors):,} samples and {errors.labels.n_classes:,} classes, the labels "
            f"of {N:,} and {K:,}",
            "Pass what was found in these labels",
        )
    for index, decision in decisions.items():
        label = -1 if decision.label is None else decision.label
        if not 0 <= index < N or (decision.action == "relabel") != (0 <= label < K):
            raise InputError(
                "decisions",
                f"name sample {index} and class {decision.label}, of {N:,} samples and {K:,} "
                "classes",
                "Pass the decisions on these samples",
            )
