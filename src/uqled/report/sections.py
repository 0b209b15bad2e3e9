"""The sections of a report as plain data; the page only lays them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Answer, FlagMetrics
from uqled.detect.reasons import CONTRADICTED, REASONS, Reason
from uqled.detect.result import LabelErrors

#: Classes up to which the noise matrix is shown whole.
WHOLE_MATRIX = 40
#: With more classes, this many are shown: the most confused ones.
_CONFUSED_CLASSES = 30
_PAIRS = 12
_CLASSES = 300  # rows of the table of classes: with thousands of classes the rest says little
_BINS = 32

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Tile:
    """One headline number."""

    title: str
    value: str
    note: str


@dataclass(frozen=True)
class MethodRow:
    name: str
    flagged: int
    share: float
    """Of all samples."""
    is_headline: bool
    metrics: FlagMetrics | None
    """The quality of its flags, if the truth is known and some label is wrong."""


@dataclass(frozen=True)
class HeatMap:
    """Shares from 0 to 1, by row and column."""

    rows: list[str]
    columns: list[str]
    cells: list[list[float]]
    strengths: list[list[float]]
    """How strongly each cell is coloured, from 0 to 1."""
    kind: Literal["noise", "agreement"]


@dataclass(frozen=True)
class PairRow:
    given: str
    suggested: str
    number: int
    share: float
    """Of the samples given that class."""


@dataclass(frozen=True)
class Distribution:
    """One number per sample, as two histograms with the same bins."""

    title: str
    note: str
    low: float
    high: float
    is_cut: bool
    """The last bin holds what is above `high`, too."""
    flagged: list[float]
    """Heights from 0 to 1: each histogram's highest bin has 1."""
    unflagged: list[float]
    counts: list[tuple[str, int, int]]
    """(range, number flagged, number unflagged) of each bin."""
    medians: tuple[float | None, float | None]
    """The medians of flagged and unflagged samples; None if there are none."""


@dataclass(frozen=True)
class ClassRow:
    name: str
    given: int
    flagged: int
    share: float
    suggested: str | None
    """The class most often suggested for its flags."""
    wrong: int | None
    """The number of labels that are in fact wrong, if the truth is known."""


@dataclass(frozen=True)
class ReasonRow:
    reason: Reason
    number: int
    share: float
    """Of all samples that the report lists."""
    wrong: int | None
    """How many of these labels are in fact wrong, if the truth is known."""


def list_method_rows(answer: Answer, metrics: Mapping[str, FlagMetrics]) -> list[MethodRow]:
    """Every method's number of flags, that of the report first."""
    return [
        MethodRow(name, n, n / answer.n_samples, name == answer.method, metrics.get(name))
        for name, n in answer.flags_by_method.items()
    ]


def compare_methods(errors: LabelErrors) -> HeatMap | None:
    """For every pair of methods, the number of samples flagged by both as a share of those flagged
    by either.

    None if there is nothing to compare: a single method, or none that flags anything.
    """
    methods = errors.each_method
    if len(methods) < 2 or not any(one.n_flagged for one in methods.values()):
        return None
    masks = [one.mask for one in methods.values()]
    cells = np.array([[_measure_overlap(a, b) for b in masks] for a in masks])
    # Squared: methods that share only half of their flags differ a lot, so they should look pale.
    return HeatMap(list(methods), list(methods), cells.tolist(), (cells**2).tolist(), "agreement")


def count_times_flagged(errors: LabelErrors) -> list[int]:
    """[M+1] how many samples are flagged by none, one, ... all of the methods."""
    masks = [one.mask for one in errors.each_method.values()]
    times = np.sum(masks, axis=0, dtype=np.int16)
    numbers: list[int] = np.bincount(times, minlength=len(masks) + 1).tolist()
    return numbers


def map_noise(errors: LabelErrors) -> HeatMap:
    """P(given | true) as the method estimates it; of many classes, the most confused ones."""
    joint, K = errors.joint, errors.labels.n_classes
    classes = np.arange(K) if K <= WHOLE_MATRIX else _find_most_confused(joint)
    per_true = np.asarray(joint.sum(axis=0), np.float64).ravel()[classes]
    part = joint[classes][:, classes]
    counts = np.asarray(part.toarray() if hasattr(part, "toarray") else part, np.float64)
    cells = (counts / np.maximum(per_true, 1)).T  # transposed to [true, given]
    empty = np.flatnonzero(per_true == 0)
    cells[empty, empty] = 1.0  # a class without samples keeps its labels, as in `noise_matrix`
    names = [errors.labels.names[k] for k in classes.tolist()]
    off = cells * ~np.eye(len(cells), dtype=np.bool_)
    # The power makes small flips visible; the diagonal holds correct labels and stays pale.
    strengths = (off / max(off.max(), 1e-12)) ** 0.6 + 0.25 * np.diag(cells.diagonal())
    return HeatMap(names, names, cells.tolist(), strengths.tolist(), "noise")


def _find_most_confused(joint: Any) -> NDArray[np.intp]:
    """The classes with the largest counts off the diagonal, in the order of the classes."""
    from scipy.sparse import coo_array

    pairs = coo_array(joint)
    labels, true = pairs.coords
    off = labels != true
    labels, true, counts = labels[off], true[off], pairs.data[off]
    classes: dict[int, None] = {}
    for at in np.lexsort((true, labels, -counts))[: _CONFUSED_CLASSES**2].tolist():
        pair_classes = {int(labels[at]): None, int(true[at]): None}
        if len(classes | pair_classes) > _CONFUSED_CLASSES:
            break
        classes |= pair_classes
    return np.array(sorted(classes), np.intp) if classes else np.arange(_CONFUSED_CLASSES)


def list_pair_rows(errors: LabelErrors) -> list[PairRow]:
    """The pairs with most flags."""
    names, n_labels = errors.labels.names, errors.labels_by_class
    return [
        PairRow(names[i], names[j], number, number / int(n_labels[i]))
        for i, j, number in errors.ranked_pairs[:_PAIRS]
    ]


def list_class_rows(errors: LabelErrors, is_error: Bools | None) -> list[ClassRow]:
    """The classes with labels, by the share of flags, the largest first."""
    K, names = errors.labels.n_classes, errors.labels.names
    n_labels, n_flags = errors.labels_by_class, errors.flags_by_class
    n_wrong = None if is_error is None else np.bincount(errors.labels.codes[is_error], minlength=K)
    suggestions = _find_usual_suggestions(errors)
    share = n_flags / np.maximum(n_labels, 1)
    order = [k for k in np.lexsort((-n_flags, -share)).tolist() if n_labels[k]]
    return [
        ClassRow(
            names[k],
            int(n_labels[k]),
            int(n_flags[k]),
            float(share[k]),
            names[suggestions[k]] if k in suggestions else None,
            None if n_wrong is None else int(n_wrong[k]),
        )
        for k in order[:_CLASSES]
    ]


def _find_usual_suggestions(errors: LabelErrors) -> dict[int, int]:
    """Class -> the class most often suggested for its flags."""
    suggestions: dict[int, int] = {}
    for label, suggested, _ in errors.ranked_pairs:
        suggestions.setdefault(label, suggested)
    return suggestions


def list_distributions(errors: LabelErrors) -> list[Distribution]:
    """Score and, where there are passes, entropy and mutual information."""
    quantities = (
        ("score", "how well the label fits: low is suspect", errors.scores, 1.0),
        (
            "entropy",
            "how undecided the model is, in nats",
            errors.entropy,
            float(np.log(errors.labels.n_classes)),
        ),
        (
            "mutual information",
            "how much the passes disagree, in nats",
            errors.mutual_information,
            None,
        ),
    )
    return [
        _make_distribution(title, note, values, high, errors.mask)
        for title, note, values, high in quantities
        if values is not None
    ]


def _make_distribution(
    title: str, note: str, values: Floats, high: float | None, mask: Bools
) -> Distribution:
    if (
        high is None
    ):  # no upper bound: a few extreme values must not squeeze all others into one bin
        high = float(np.quantile(values, 0.995)) or float(values.max()) or 1.0
    is_cut = bool((values > high * (1 + 1e-9)).any())
    flagged_values, others = values[mask], values[~mask]
    edges = np.linspace(0, high, _BINS + 1)
    ranges = [f"{a:.2g} to {b:.2g}" for a, b in pairwise(edges.tolist())]
    n_flagged, n_others = _count_bins(flagged_values, high), _count_bins(others, high)
    return Distribution(
        title,
        note,
        0.0,
        high,
        is_cut,
        [n / max(1, *n_flagged) for n in n_flagged],
        [n / max(1, *n_others) for n in n_others],
        list(zip(ranges, n_flagged, n_others, strict=True)),
        (_compute_median(flagged_values), _compute_median(others)),
    )


def _compute_median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


def _count_bins(values: Floats, high: float) -> list[int]:
    numbers: list[int] = np.histogram(np.clip(values, 0, high), _BINS, (0, high))[0].tolist()
    return numbers


def list_reason_rows(
    reasons: NDArray[np.object_] | None, is_error: Bools | None
) -> list[ReasonRow]:
    """The number of samples with each reason; `is_error` is about the same samples."""
    if reasons is None:
        return []
    rows = []
    for reason in REASONS:
        these: Bools = reasons == reason
        number = int(np.count_nonzero(these))
        if reason == CONTRADICTED and not number:
            continue  # rare, so it is only listed where it occurs
        n_wrong = None if is_error is None else int(np.count_nonzero(is_error[these]))
        rows.append(ReasonRow(reason, number, number / max(1, len(reasons)), n_wrong))
    return rows


def _measure_overlap(a: Bools, b: Bools) -> float:
    either = int(np.count_nonzero(a | b))
    return int(np.count_nonzero(a & b)) / either if either else 1.0
