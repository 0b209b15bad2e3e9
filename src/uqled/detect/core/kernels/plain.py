"""The kernels in NumPy: the names, arguments and results of `compiled`.

What each writes is said there.

Rows are transposed first: NumPy goes through a long row per class many times faster than through a
short one per sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels import LAST_INDEX, SLACK, UNIT

Rows = NDArray[Any]
Ints = NDArray[Any]


# -- rows -----------------------------------------------------------------------------------------


def find_bad_row(rows: Rows, keys: Ints, tolerance: float) -> int:  # noqa: ARG001 - as compiled
    return -1 if tolerance == np.inf else _find_bad_column(_transpose(rows), tolerance)


def read_given_probability(rows: Rows, labels: Ints, out: Rows) -> None:
    out[:] = _take_class(rows, labels)


def find_best_other(rows: Rows, labels: Ints, out: Rows) -> None:
    out[:] = _hide_labels(_transpose(rows), labels).max(axis=0)


def add_class_sums(labels: Ints, values: Rows, sums: Ints) -> None:
    with np.errstate(invalid="ignore"):  # of invalid rows, which the next sweep refuses
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
    within = sum(_compute_entropy(rows) for rows in passes)
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
    lead: Rows,
) -> int:
    columns = _transpose(rows)
    is_view = np.may_share_memory(rows, keys)
    key_columns = columns.view(keys.dtype) if is_view else _transpose(keys)
    predicted[:] = _find_largest(key_columns)
    confident[:] = _choose_confident(key_columns >= thresholds[:, None], predicted)
    given, top = _take_class(rows, labels), _take_class(rows, predicted)
    with np.errstate(invalid="ignore"):  # of infinite values, which are refused below
        lead[:] = top - given if single_precision else top.astype(np.float64) - given
    raised = given + np.float32(SLACK) if single_precision else given.astype(np.float64) + SLACK
    raised, top = raised.astype(np.float64, copy=False), top.astype(np.float64, copy=False)
    agrees[:] = (raised > top) | ((raised == top) & (labels <= predicted))
    return -1 if tolerance == np.inf else _find_bad_column(columns, tolerance)


def find_confident_within_limits(
    keys: Ints, thresholds: Ints, uncertainty: Rows, limits: Rows, predicted: Ints, confident: Ints
) -> None:
    is_reached = _transpose(keys) >= thresholds[:, None]
    is_reached &= uncertainty <= limits[:, None]
    confident[:] = _choose_confident(is_reached, predicted)


def count_pairs(labels: Ints, confident: Ints, counts: Ints) -> None:
    K = len(counts)
    pairs = labels * np.int64(K + 1) + confident + 1  # column 0: no confident class
    counts += np.bincount(pairs, minlength=K * (K + 1)).reshape(K, K + 1)[:, 1:]


def find_alternatives(rows: Rows, labels: Ints, other: Ints, given: Rows, best: Rows) -> None:
    others = _hide_labels(_transpose(rows).astype(np.float32, copy=False), labels)
    top = others.max(axis=0)
    other[:] = _find_first(others == top)
    given[:], best[:] = _take_class(rows, labels), top


def count_votes(keys: Ints, first: int, step: int, F: int, labels: Ints, counts: Ints) -> None:
    votes = _predict_passes(keys, first, step, F, len(labels))
    counts[0] += np.count_nonzero(votes != labels)
    for f in range(1, F):
        counts[1] += np.count_nonzero(votes[:f] != votes[f])


def _transpose(rows: Rows) -> Rows:
    """[K,n] a transposed copy: each class is contiguous."""
    return rows.T.copy()


def _take_class(rows: Rows, classes: Ints) -> Rows:
    """[n] the value of each row's class."""
    n, K = rows.shape
    return rows.reshape(-1).take(np.arange(0, n * K, K) + classes)


def _hide_labels(columns: Rows, labels: Ints) -> Rows:
    """Exclude each sample's label from being its most probable class, in place."""
    columns[labels, np.arange(len(labels))] = -np.inf
    return columns


def _find_bad_column(columns: Rows, tolerance: float) -> int:
    """The first sample [K,n] that is no probability distribution, or -1."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values: their sum is no 1
        is_good = np.abs(columns.sum(axis=0) - 1.0) <= tolerance
        if columns.min() < 0.0:
            is_good &= (columns >= 0.0).all(axis=0)
    return -1 if is_good.all() else int(is_good.argmin())


def _find_first(is_it: Rows) -> Ints:
    """[n] the first class [K,n] that is true, K if none is."""
    K = len(is_it)
    down = np.arange(K, 0, -1, dtype=np.uint8 if K < 256 else np.int32)
    first: Ints = K - np.max(is_it * down[:, None], axis=0).astype(np.int32)
    return first


def _find_largest(columns: Rows) -> Ints:
    """[n] the class of the largest value [K,n], ties to the lower class."""
    return _find_first(columns == columns.max(axis=0))


def _choose_confident(is_reached: Rows, predicted: Ints) -> Ints:
    """[n] the only class that is reached, the predicted class if several are, -1 if none is."""
    hits = is_reached.sum(axis=0, dtype=np.int32)
    return np.where(hits == 1, _find_first(is_reached), np.where(hits > 1, predicted, -1))


def _split_passes(flat: Rows, first: int, step: int, F: int, n: int) -> list[Rows]:
    """The rows [n,K] of each pass."""
    return [flat[first + f * step :][:n] for f in range(F)]


def _predict_passes(flat: Rows, first: int, step: int, F: int, n: int) -> Ints:
    """[F,n] the predicted class of each pass."""
    passes = _split_passes(flat, first, step, F, n)
    return np.stack([_find_largest(_transpose(rows)) for rows in passes])


def _compute_entropy(rows: Rows) -> Rows:
    """[n] of probabilities [n,K]; 0 ln 0 is 0."""
    columns = rows.T.astype(np.float64, order="C")
    terms = np.maximum(columns, np.finfo(np.float64).tiny)
    np.log(terms, out=terms)
    terms *= columns
    if terms.shape[1] == 1:  # which NumPy would add pairwise, unlike rows among others
        terms = np.repeat(terms, 2, axis=1)
    entropy: Rows = -terms.sum(axis=0)[: len(rows)]
    return entropy


# -- the top samples of each pair of classes ------------------------------------------------------


def select_rows(
    rows: Rows,
    labels: Ints,
    is_offered: Ints,
    first_index: int,
    single_precision: bool,
    class_offsets: Ints,
    targets: Ints,
    heap_offsets: Ints,
    cuts: Rows,
    bounds: Rows,  # noqa: ARG001 - the arguments are those of the compiled kernel
    least: Rows,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
) -> None:
    n_pairs = np.diff(class_offsets)
    least = np.full(len(n_pairs), np.inf)  # cut of each class: most rows reach none
    np.minimum.at(least, np.repeat(np.arange(len(n_pairs)), n_pairs), cuts)
    dtype = rows.dtype if single_precision else np.dtype(np.float64)
    samples = np.flatnonzero(is_offered)
    if len(samples) < len(rows):
        rows, labels = rows[samples], labels[samples]
    top, own = _transpose(rows).max(axis=0).astype(dtype), _take_class(rows, labels).astype(dtype)
    reaching = np.flatnonzero(top - own >= least[labels])
    reaching = reaching[_sort_numbers(labels[reaching], len(n_pairs))]
    samples, labels, every = samples[reaching], labels[reaching], _transpose(rows[reaching])
    starts = np.searchsorted(labels, np.arange(len(class_offsets)))
    candidates = [_list_heaps(heap_offsets, sizes, margins, indices)]
    for given in np.flatnonzero(n_pairs * np.diff(starts)):
        some = slice(starts[given], starts[given + 1])
        pairs = slice(class_offsets[given], class_offsets[given + 1])
        columns = every[:, some].astype(dtype, copy=False)
        margin = (columns[targets[pairs]] - columns[given]).astype(np.float64, copy=False)
        is_reached = margin >= cuts[pairs, None]
        room = np.diff(heap_offsets[pairs.start : pairs.stop + 1])
        for q in np.flatnonzero(np.count_nonzero(is_reached, axis=1) > 2 * room):  # sort fewer
            is_reached[q] &= margin[q] >= np.partition(margin[q], -room[q])[-room[q]]
        pair, sample = np.nonzero(is_reached)
        index = samples[some][sample] + first_index
        candidates.append((pair + pairs.start, margin[pair, sample], index))
    _keep_top(candidates, heap_offsets, sizes, margins, indices)
    full = (sizes == np.diff(heap_offsets)) & (sizes > 0)
    cuts[full] = margins[heap_offsets[1:][full] - 1]


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
    order = np.argsort(-lead)
    lead = lead[order[_sort_numbers(at[order], n_pairs)]]
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
    own = _list_heaps(heap_offsets, sizes, margins, indices)
    other = _list_heaps(heap_offsets, other_sizes, other_margins, other_indices)
    _keep_top([own, other], heap_offsets, sizes, margins, indices)


def _sort_numbers(numbers: Ints, n: int) -> Ints:
    """The order of numbers below n, of equals the first: linear in 16 bits."""
    return np.argsort(numbers.astype(np.int16 if n < 2**15 else np.int64), kind="stable")


#: Number of the pair, margin and index of samples.
Samples = tuple[Ints, Rows, Ints]


def _list_heaps(heap_offsets: Ints, sizes: Ints, margins: Rows, indices: Ints) -> Samples:
    """The samples in the heaps."""
    pair = np.repeat(np.arange(len(sizes)), sizes)
    at = np.arange(len(pair)) + np.repeat(heap_offsets[:-1] - np.cumsum(sizes) + sizes, sizes)
    return pair, margins[at], indices[at]


def _keep_top(
    samples: list[Samples], heap_offsets: Ints, sizes: Ints, margins: Rows, indices: Ints
) -> None:
    """Fill each heap with its samples of the largest margins, ties to the lower index.

    Here it is a sorted list rather than a heap, the largest margin first; the first `sizes` entries
    are samples.
    """
    pair, margin, index = (np.concatenate(columns) for columns in zip(*samples, strict=True))
    order = _rank_samples(pair, margin, index, len(sizes))
    pair, margin, index = pair[order], margin[order], index[order]
    counts, room = np.bincount(pair, minlength=len(sizes)), np.diff(heap_offsets)
    rank = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_top = rank < room[pair]
    at = heap_offsets[pair[is_top]] + rank[is_top]
    margins[at], indices[at] = margin[is_top], index[is_top]
    sizes[:] = np.minimum(counts, room)


def _rank_samples(pair: Ints, margin: Rows, index: Ints, n_pairs: int) -> Ints:
    """The order by pair, the largest margin first, of equals the lower index.

    As `np.lexsort((index, -margin, pair))`, many times faster: equal margins are few, and sorted
    afterwards.
    """
    order = np.argsort(-margin)
    order = order[_sort_numbers(pair[order], n_pairs)]
    pair, margin = pair[order], margin[order]
    is_equal = np.zeros(len(order) + 1, np.bool_)  # to the one before
    is_equal[1:-1] = (margin[1:] == margin[:-1]) & (pair[1:] == pair[:-1])
    tied = np.flatnonzero(is_equal[:-1] | is_equal[1:])
    run = np.cumsum(~is_equal[tied])
    order[tied] = order[tied][np.lexsort((index[order[tied]], run))]
    return order


def count_in_ranges(
    group: Ints,
    keys: Ints,
    index: Ints,
    slots: Ints,
    low: Ints,
    high: Ints,
    is_tied: Ints,
    tied_key: Ints,
    range_starts: Ints,
    counts: Ints,
) -> None:
    tied = is_tied[group]
    values = np.where(tied, np.uint64(LAST_INDEX) - index.astype(np.uint64), keys)
    is_counted = (slots[group] >= 0) & (~tied | (keys == tied_key[group]))
    is_counted &= (low[group] <= values) & (values <= high[group])
    values, row = values[is_counted], slots[group[is_counted]]
    n_ranges = range_starts.shape[1]
    first, last = np.zeros(len(row), np.int64), np.full(len(row), n_ranges - 1)
    while (first < last).any():
        middle = (first + last + 1) >> 1
        is_reached = range_starts[row, middle] <= values
        first = np.where(is_reached, middle, first)
        last = np.where(is_reached, last, middle - 1)
    counts += np.bincount(row * n_ranges + first, minlength=counts.size).reshape(counts.shape)
