"""The kernels in NumPy: the names, arguments and results of `compiled`.

What each writes is said there. `count_in_ranges` is missing: only detection in parts needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels import SLACK, UNIT

Rows = NDArray[Any]
Ints = NDArray[Any]


# -- rows -----------------------------------------------------------------------------------------


def find_bad_row(rows: Rows, keys: Ints, tolerance: float) -> int:
    if tolerance == np.inf:
        return -1
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values: their sum is no 1
        is_good = np.abs(rows.sum(axis=1) - 1.0) <= tolerance
    if keys.min(initial=0) < 0:  # a negative value, or -0.0, which is not one
        is_good &= (rows >= 0.0).all(axis=1)
    return -1 if is_good.all() else int(is_good.argmin())


def read_given_probability(rows: Rows, labels: Ints, out: Rows) -> None:
    out[:] = rows[np.arange(len(rows)), labels]


def find_best_other(rows: Rows, labels: Ints, out: Rows) -> None:
    out[:] = _hide_labels(rows, labels).max(axis=1)


def add_class_sums(labels: Ints, values: Rows, sums: Ints) -> None:
    with np.errstate(invalid="ignore"):  # of rows that the next sweep refuses
        np.add.at(sums, labels, np.rint(values / UNIT).astype(np.int64))


def average_passes(flat: Rows, first: int, step: int, F: int, out: Rows) -> None:
    out[:] = 0.0
    for rows in _split_passes(flat, first, step, F, len(out)):
        out += rows
    out /= F


def measure_uncertainty(
    flat: Rows, first: int, step: int, F: int, mean: Rows, entropy: Rows, mutual_information: Rows
) -> None:
    total = _compute_entropy(mean)
    passes = _split_passes(flat, first, step, F, len(mean))
    within = sum(_compute_entropy(rows.astype(np.float64)) for rows in passes)
    entropy[:] = np.maximum(total, 0.0)
    mutual_information[:] = np.maximum(total - within / F, 0.0)


def measure_margins(mean: Rows, out: Rows) -> None:
    largest = np.partition(mean, mean.shape[1] - 2, axis=1)[:, -2:]
    out[:] = largest[:, 0] - largest[:, 1]


def measure_variation_ratios(flat: Rows, first: int, step: int, F: int, n: int, out: Rows) -> None:
    votes = _predict_passes(flat, first, step, F, n)
    most = np.zeros(n, np.int64)
    for one in votes:
        np.maximum(most, (votes == one).sum(axis=0), out=most)
    out[:] = 1.0 - most / F


def measure_deviations(flat: Rows, first: int, step: int, F: int, mean: Rows, out: Rows) -> None:
    at = np.arange(len(mean)), mean.argmax(axis=1)
    passes = _split_passes(flat, first, step, F, len(mean))
    out[:] = np.sqrt(sum((rows[at] - mean[at]) ** 2 for rows in passes) / F)


def scan_rows(
    rows: Rows,
    keys: Ints,
    labels: Ints,
    thresholds: Ints,
    tolerance: float,
    single_precision: bool,
    confident: Ints,
    predicted: Ints,
    agrees: Ints,
) -> int:
    predicted[:] = keys.argmax(axis=1)
    confident[:] = _choose_confident(keys >= thresholds, predicted)
    every = np.arange(len(rows))
    slack = np.float32(SLACK) if single_precision else SLACK
    given = rows[every, labels] if single_precision else rows[every, labels].astype(np.float64)
    raised, top = (given + slack).astype(np.float64), rows[every, predicted].astype(np.float64)
    agrees[:] = (raised > top) | ((raised == top) & (labels <= predicted))
    return find_bad_row(rows, keys, tolerance)


def find_confident_within_limits(
    keys: Ints, thresholds: Ints, uncertainty: Rows, limits: Rows, predicted: Ints, confident: Ints
) -> None:
    reached = (keys >= thresholds) & (uncertainty[:, None] <= limits)
    confident[:] = _choose_confident(reached, predicted)


def count_pairs(labels: Ints, confident: Ints, counts: Ints) -> None:
    some = confident >= 0
    np.add.at(counts, (labels[some], confident[some]), 1)


def find_alternatives(rows: Rows, labels: Ints, other: Ints, given: Rows, best: Rows) -> None:
    every = np.arange(len(rows))
    others = _hide_labels(rows.astype(np.float32, copy=False), labels)
    other[:] = others.argmax(axis=1)
    given[:], best[:] = rows[every, labels], others[every, other]


def count_votes(flat: Rows, first: int, step: int, F: int, labels: Ints, counts: Ints) -> None:
    votes = _predict_passes(flat, first, step, F, len(labels))
    counts[0] += np.count_nonzero(votes != labels)
    for f in range(1, F):
        counts[1] += np.count_nonzero(votes[:f] != votes[f])


def _hide_labels(rows: Rows, labels: Ints) -> Rows:
    """A copy in which no label is the most probable class of its row."""
    others = rows.copy()
    others[np.arange(len(rows)), labels] = -np.inf
    return others


def _choose_confident(reached: Rows, predicted: Ints) -> Ints:
    """[n] the class that is reached, the predicted one of several, -1 of none."""
    hits = np.count_nonzero(reached, axis=1)
    return np.where(hits == 1, reached.argmax(axis=1), np.where(hits > 1, predicted, -1))


def _split_passes(flat: Rows, first: int, step: int, F: int, n: int) -> list[Rows]:
    """The rows [n,K] of each pass."""
    return [flat[first + f * step :][:n] for f in range(F)]


def _predict_passes(flat: Rows, first: int, step: int, F: int, n: int) -> Ints:
    """[F,n] the predicted class of each pass."""
    return np.stack([rows.argmax(axis=1) for rows in _split_passes(flat, first, step, F, n)])


def _compute_entropy(rows: Rows) -> Rows:
    """[n] of probabilities [n,K]; 0 ln 0 is 0."""
    positive = rows > 0
    entropy: Rows = -(rows * np.log(rows, out=np.zeros_like(rows), where=positive)).sum(axis=1)
    return entropy


# -- the top samples of each pair of classes ------------------------------------------------------


def select_rows(
    rows: Rows,
    labels: Ints,
    first_index: int,
    single_precision: bool,
    class_offsets: Ints,
    targets: Ints,
    heap_offsets: Ints,
    cuts: Rows,
    bounds: Rows,  # noqa: ARG001 - the arguments are those of the compiled kernel
    least: Rows,  # noqa: ARG001
    sizes: Ints,
    margins: Rows,
    indices: Ints,
) -> None:
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(class_offsets)))
    for given in np.flatnonzero(np.diff(class_offsets) * np.diff(starts)):
        some = order[starts[given] : starts[given + 1]]
        own = np.ascontiguousarray(rows[some].T, rows.dtype if single_precision else np.float64)
        for q in range(class_offsets[given], class_offsets[given + 1]):
            margin = (own[targets[q]] - own[given]).astype(np.float64, copy=False)
            reaches = np.flatnonzero(margin >= cuts[q])
            heap = slice(heap_offsets[q], heap_offsets[q + 1])
            sizes[q] = _keep_top(
                margins[heap], indices[heap], sizes[q], margin[reaches], some[reaches] + first_index
            )
            if sizes[q] == heap.stop - heap.start:
                cuts[q] = margins[heap].min()


def raise_cuts(
    given: Ints,
    predicted: Ints,
    lead: Rows,
    class_offsets: Ints,
    targets: Ints,
    heap_offsets: Ints,
    sizes: Ints,  # noqa: ARG001
    margins: Rows,  # noqa: ARG001
    indices: Ints,  # noqa: ARG001
    cuts: Rows,
) -> None:
    K, n_pairs = len(class_offsets) - 1, len(targets)
    if not n_pairs:
        return
    pairs = np.repeat(np.arange(K), np.diff(class_offsets)) * K + targets
    samples = given.astype(np.int64) * K + predicted
    at = np.minimum(np.searchsorted(pairs, samples), n_pairs - 1)
    counted = pairs[at] == samples
    at, lead = at[counted], lead[counted]
    lead = lead[np.lexsort((-lead, at))]
    counts, quotas = np.bincount(at, minlength=n_pairs), np.diff(heap_offsets)
    full = (counts >= quotas) & (quotas > 0)
    cuts[full] = lead[(np.cumsum(counts) - counts + quotas - 1)[full]]


def merge_heaps(
    heap_offsets: Ints,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
    other_sizes: Ints,
    other_margins: Rows,
    other_indices: Ints,
) -> None:
    for q in np.flatnonzero(other_sizes):
        heap = slice(heap_offsets[q], heap_offsets[q + 1])
        more = slice(heap.start, heap.start + other_sizes[q])
        sizes[q] = _keep_top(
            margins[heap], indices[heap], sizes[q], other_margins[more], other_indices[more]
        )


def _keep_top(
    margins: Rows, indices: Ints, size: int, more_margins: Rows, more_indices: Ints
) -> int:
    """Keep the samples with the largest margins, of equals the lower index; return their number.

    Not a heap: a list in any order, of which the first `size` are samples.
    """
    margin = np.concatenate([margins[:size], more_margins])
    index = np.concatenate([indices[:size], more_indices])
    if len(margin) > len(margins):
        top = np.lexsort((index, -margin))[: len(margins)]
        margin, index = margin[top], index[top]
    margins[: len(margin)], indices[: len(margin)] = margin, index
    return len(margin)
