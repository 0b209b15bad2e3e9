"""What becomes of every sample: decisions first, a method's flags where none was made.

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
from uqled.terminal import escape_controls

Flags = Literal["remove", "relabel", "keep"]
FLAGS: tuple[Flags, ...] = get_args(Flags)
BY_DECISION = "decision"


@dataclass(frozen=True)
class Change:
    """One sample that is not what it was."""

    index: int
    id: str
    action: Literal["relabel", "drop"]
    given: int
    """Class number before."""
    label: int | None
    """Class number after; None for a sample that was dropped."""
    because: str
    """`decision`, or the method that flagged it."""
    reviewer: str | None
    score: float | None
    """The method's label quality; lower = more suspect."""


@dataclass(frozen=True, eq=False)
class Cleaning:
    """What becomes of every sample."""

    labels: Labels
    """As they were given."""
    codes: NDArray[np.int32]
    """[N] class numbers afterwards; of a dropped sample the given one."""
    kept: NDArray[np.bool_]
    """[N] False = dropped."""
    changes: list[Change]
    """In the order of the samples."""
    flags: Flags
    method: str | None
    n_overruled: int
    """Flagged samples whose label somebody decided to keep."""
    n_undecided: int
    """Flagged samples without a decision."""

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Indices of the samples that stay."""
        return np.flatnonzero(self.kept)

    @cached_property
    def values(self) -> NDArray[Any]:
        """The labels of the samples that stay, as the user writes them."""
        return self.labels.values[self.codes[self.kept]]

    @cached_property
    def emptied(self) -> list[str]:
        """Names of classes that had samples and have none left."""
        K = self.labels.n_classes
        before = np.bincount(self.labels.codes, minlength=K)
        after = np.bincount(self.codes[self.kept], minlength=K)
        return [self.labels.names[k] for k in np.flatnonzero((before > 0) & (after == 0))]


def cleaning(
    labels: Labels,
    errors: LabelErrors | None = None,
    decisions: Mapping[int, Decision] | None = None,
    *,
    flags: Flags = "remove",
    ids: Sequence[str] | None = None,
) -> Cleaning:
    """Decide for every sample: what somebody decided holds, a flag where nobody did.

    `flags` says what a flag does: `remove` drops the sample, `relabel` gives it the suggested
    label, `keep` nothing. A relabel to the label that the sample has is no change.
    """
    if flags not in FLAGS:
        raise InputError("flags", f"is {flags!r}", f"Choose one of {', '.join(FLAGS)}")
    decisions = {i: d for i, d in (decisions or {}).items() if d.action is not None}
    _check(labels, errors, decisions)
    codes, kept = labels.codes.copy(), np.ones(len(labels), np.bool_)
    flagged = set() if errors is None else set(np.flatnonzero(errors.mask).tolist())
    undecided = flagged - decisions.keys()
    changes = []

    def change(index: int, label: int | None, because: str, reviewer: str | None) -> None:
        given = int(labels.codes[index])
        if label == given:
            return
        if label is None:
            kept[index] = False
        else:
            codes[index] = label
        name = str(index) if ids is None else ids[index]
        score = None if errors is None else float(errors.scores[index])
        action: Literal["relabel", "drop"] = "drop" if label is None else "relabel"
        changes.append(Change(index, name, action, given, label, because, reviewer, score))

    for index in sorted(undecided | decisions.keys()):
        decision = decisions.get(index)
        if decision is not None and decision.action != "keep":
            change(index, decision.label, BY_DECISION, decision.reviewer)
        elif decision is None and flags != "keep":
            assert errors is not None
            best = int(errors.best[index]) if flags == "relabel" else None
            change(index, best, errors.method, None)
    return Cleaning(
        labels,
        codes,
        kept,
        changes,
        flags,
        None if errors is None else errors.method,
        sum(decisions[index].action == "keep" for index in flagged & decisions.keys()),
        len(undecided),
    )


def clean(
    dataset: Dataset,
    errors: LabelErrors | None = None,
    decisions: Decisions | Mapping[int, Decision] | None = None,
    *,
    flags: Flags = "remove",
) -> Dataset:
    """The samples that stay, with their corrected labels; `dataset` stays as it is.

    Parameters
    ----------
    dataset
        The samples that the errors were found in.
    errors
        What `find_label_errors` found; one of its `by_method` for another method's flags.
    decisions
        What reviewers decided: they win over flags. `Decisions(path)`, or its `current()`.
    flags
        What a flag without a decision does: `"remove"` drops the sample, `"relabel"` gives it the
        suggested label, `"keep"` nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import uqled
    >>> data = uqled.Dataset.from_arrays(np.zeros((5, 2)), ["cat", "cat", "dog", "dog", "dog"])
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.95, 0.05]]
    >>> errors = uqled.find_label_errors(data.labels, probs, method="cl-pbnr")
    >>> len(clean(data, errors)), clean(data, errors, flags="relabel").labels.codes.tolist()
    (4, [0, 0, 1, 1, 0])
    """
    current = decisions.current() if isinstance(decisions, Decisions) else decisions or {}
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
    done = cleaning(dataset.labels, errors, current, flags=flags, ids=dataset.ids.tolist())
    corrected = replace(dataset, labels=replace(dataset.labels, codes=done.codes))
    return corrected if not done.changes else corrected.subset(done.rows)


def restored(changes: Sequence[Change], codes: NDArray[Any]) -> NDArray[np.int32]:
    """The given class numbers [N], of the class numbers of the samples that stayed, in order.

    What `cleaning` did, backwards.
    """
    dropped = [change.index for change in changes if change.label is None]
    if len({change.index for change in changes}) < len(changes):
        raise InputError("changes", "name a sample twice", "Pass those of one export")
    N = len(codes) + len(dropped)
    if any(not 0 <= change.index < N for change in changes):
        raise InputError(
            "changes",
            f"reach to sample {max(change.index for change in changes)} of {N}",
            "Pass the labels of exactly the samples that stayed",
        )
    stayed = np.ones(N, np.bool_)
    stayed[dropped] = False
    given = np.empty(N, np.int32)
    given[stayed] = codes
    for change in changes:
        given[change.index] = change.given
    return given


def summary(done: Cleaning, *, pairs: int = 8, first: int = 5) -> str:
    """What changes, in a few lines: by action and reason, by pair of classes, and the first few."""
    N, n = len(done), len(done.changes)
    names = [escape_controls(name) for name in done.labels.names]
    kinds = Counter((c.action, c.because) for c in done.changes)
    verbs = {"drop": "dropped", "relabel": "relabelled"}
    lines = [f"{n:,} of {N:,} samples change, {len(done.rows):,} are left"]
    lines += [f"  {m:>9,}  {verbs[a]} by {why}" for (a, why), m in kinds.most_common()]
    if done.n_overruled:
        lines.append(f"  {done.n_overruled:>9,}  flagged by {done.method}, kept by decision")
    if left := done.n_undecided - sum(c.because != BY_DECISION for c in done.changes):
        lines.append(f"  {left:>9,}  flagged by {done.method}, left as they are")
    if done.emptied:
        emptied = escape_controls(", ".join(done.emptied))
        lines.append(f"  No samples are left of class {emptied}")
    if not n:
        return "\n".join(lines)
    counted = Counter((c.given, c.label) for c in done.changes)
    lines += ["", "given -> afterwards:"]
    for (given, label), m in counted.most_common(pairs):
        lines.append(
            f"  {m:>9,}  {names[given]} -> {'(dropped)' if label is None else names[label]}"
        )
    if len(counted) > pairs:
        lines.append(f"  and {len(counted) - pairs:,} pairs more")
    lines += ["", "the first of them:"]
    for c in done.changes[:first]:
        to = "(dropped)" if c.label is None else names[c.label]
        who = c.because if c.reviewer is None else f"{c.because} of {c.reviewer}"
        lines.append(f"  {escape_controls(c.id)}: {names[c.given]} -> {to}, by {who}")
    return "\n".join(lines)


def _check(labels: Labels, errors: LabelErrors | None, decisions: Mapping[int, Decision]) -> None:
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
