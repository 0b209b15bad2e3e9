"""The kernels in NumPy: the names, arguments and results of `compiled`.

What each writes is said there.

Rows are transposed first: NumPy goes through a long row per class many times faster than through a
short one per sample. A block is processed in pieces, so that what is computed from a piece stays in
the core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels import LAST_INDEX, SLACK, UNIT

Rows = NDArray[Any]
Ints = NDArray[Any]

#: Values of a piece: a few arrays of this size, in double precision, stay in the second cache.
_PIECE_VALUES = 2**16


# -- rows -----------------------------------------------------------------------------------------


def find_bad_row(rows: Rows, keys: Ints, tolerance: float) -> int:  # noqa: ARG001 - as compiled
    if tolerance == np.inf:
        return -1
    for at in _split_rows(rows):
        bad_column = _find_bad_column(_transpose(rows[at]), tolerance)
        if bad_column >= 0:
            return int(at.start + bad_column)
    return -1


def read_given_probability(rows: Rows, labels: Ints, out: Rows) -> None:
    out[:] = _take_class(rows, labels)


def find_best_other(rows: Rows, labels: Ints, out: Rows) -> None:
    for at in _split_rows(rows):
        out[at] = _hide_labels(_transpose(rows[at]), labels[at]).max(axis=0)


def add_class_sums(labels: Ints, values: Rows, sums: Ints) -> None:
    with np.errstate(invalid="ignore"):  # of invalid rows, which the next sweep refuses
        np.add.at(sums, labels, np.rint(values / UNIT).astype(np.int64))


def average_passes(flat: Rows, first: int, step: int, F: int, out: Rows) -> None:
    passes = _split_passes(flat, first, step, F, len(out))
    for at in _split_rows(out):
        mean = out[at]
        mean[:] = 0.0
        for rows in passes:
            mean += rows[at]
        mean /= F


def measure_uncertainty(
    flat: Rows, first: int, step: int, F: int, mean: Rows, entropy: Rows, mutual_information: Rows
) -> None:
    passes = _split_passes(flat, first, step, F, len(mean))
    for at in _split_rows(mean):
        total = _compute_entropy(mean[at])
        within = sum(_compute_entropy(rows[at]) for rows in passes)
        entropy[at] = np.maximum(total, 0.0)
        mutual_information[at] = np.maximum(total - within / F, 0.0)


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
    with np.errstate(invalid="ignore"):  # of infinite values, which are refused
        for at in _split_rows(rows):
            bad_row = _scan_piece(
                rows[at], keys[at], labels[at], thresholds, tolerance, single_precision,
                confident[at], predicted[at], agrees[at], lead[at],
            )  # fmt: skip
            if bad_row >= 0:
                return int(at.start + bad_row)
    return -1


def _scan_piece(
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
    largest = key_columns.max(axis=0)
    predicted[:] = _find_first(key_columns == largest)
    _choose_confident(key_columns >= thresholds[:, None], predicted, confident)
    given, top = _take_class(rows, labels), largest.view(rows.dtype)
    if not is_view:
        top = _take_class(rows, predicted)
    if not single_precision:
        given, top = given.astype(np.float64, copy=False), top.astype(np.float64, copy=False)
    np.subtract(top, given, out=lead)
    raised = given + (np.float32(SLACK) if single_precision else SLACK)
    np.greater(raised, top, out=agrees)
    is_tied = raised == top
    if is_tied.any():
        agrees |= is_tied & (labels <= predicted)
    return -1 if tolerance == np.inf else _find_bad_column(columns, tolerance)


def find_confident_within_limits(
    keys: Ints, thresholds: Ints, uncertainty: Rows, limits: Rows, predicted: Ints, confident: Ints
) -> None:
    for at in _split_rows(keys):
        is_reached = _transpose(keys[at]) >= thresholds[:, None]
        is_reached &= uncertainty[at] <= limits[:, None]
        _choose_confident(is_reached, predicted[at], confident[at])


def count_pairs(labels: Ints, confident: Ints, counts: Ints) -> None:
    K = len(counts)
    pairs = labels * np.int64(K + 1) + confident + 1  # column 0: no confident class
    counts += np.bincount(pairs, minlength=K * (K + 1)).reshape(K, K + 1)[:, 1:]


def find_alternatives(rows: Rows, labels: Ints, other: Ints, given: Rows, best: Rows) -> None:
    given[:] = _take_class(rows, labels)
    for at in _split_rows(rows):
        others = _hide_labels(_transpose(rows[at]).astype(np.float32, copy=False), labels[at])
        best[at] = top = others.max(axis=0)
        other[at] = _find_first(others == top)


def count_votes(keys: Ints, first: int, step: int, F: int, labels: Ints, counts: Ints) -> None:
    votes = _predict_passes(keys, first, step, F, len(labels))
    counts[0] += np.count_nonzero(votes != labels)
    for f in range(1, F):
        counts[1] += np.count_nonzero(votes[:f] != votes[f])


def _split_rows(rows: Rows) -> Iterator[slice]:
    """The rows of each piece."""
    n, K = rows.shape
    size = max(1, _PIECE_VALUES // K)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


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
    K, dtype = len(is_it), _choose_counter(len(is_it))
    first: Ints = dtype(K) - (is_it * np.arange(K, 0, -1, dtype=dtype)[:, None]).max(axis=0)
    return first


def _choose_counter(K: int) -> type[np.uint8 | np.int32]:
    """The integers that hold numbers up to K."""
    return np.uint8 if K < 256 else np.int32


def find_largest(columns: Rows) -> Ints:
    """[n] the class of the largest value [K,n], ties to the lower class."""
    return _find_first(columns == columns.max(axis=0))


def _choose_confident(is_reached: Rows, predicted: Ints, out: Ints) -> None:
    """Write the only class that is reached, the predicted class if several are, -1 if none is."""
    hits = is_reached.sum(axis=0, dtype=_choose_counter(len(is_reached)))
    out[:] = _find_first(is_reached)
    np.copyto(out, predicted, where=hits > 1)
    np.copyto(out, -1, where=hits == 0)


def _split_passes(flat: Rows, first: int, step: int, F: int, n: int) -> list[Rows]:
    """The rows [n,K] of each pass."""
    return [flat[first + f * step :][:n] for f in range(F)]


def _predict_passes(flat: Rows, first: int, step: int, F: int, n: int) -> Ints:
    """[F,n] the predicted class of each pass."""
    votes = np.empty((F, n), np.int32)
    for rows, predicted in zip(_split_passes(flat, first, step, F, n), votes, strict=True):
        for at in _split_rows(rows):
            predicted[at] = find_largest(_transpose(rows[at]))
    return votes


def _compute_entropy(rows: Rows) -> Rows:
    """[n] of probabilities [n,K]; 0 ln 0 is 0."""
    columns = rows.T.astype(np.float64, order="C")
    tiny = np.finfo(np.float64).tiny
    terms = np.log(columns if columns.min() >= tiny else np.maximum(columns, tiny))
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
        rows, labels = rows.take(samples, axis=0), labels[samples]
    top, own = _transpose(rows).max(axis=0).astype(dtype), _take_class(rows, labels).astype(dtype)
    reaching = np.flatnonzero(top - own >= least[labels])
    reaching = reaching[_sort_numbers(labels[reaching], len(n_pairs))]
    samples, labels = samples[reaching] + first_index, labels[reaching]
    columns = _transpose(rows.take(reaching, axis=0)).astype(dtype, copy=False)
    starts = np.searchsorted(labels, np.arange(len(class_offsets)))
    room = np.diff(heap_offsets)
    candidates = [_list_heaps(heap_offsets, sizes, margins, indices)]
    for given in np.flatnonzero(n_pairs * np.diff(starts)).tolist():
        some = slice(starts[given], starts[given + 1])
        pairs = slice(class_offsets[given], class_offsets[given + 1])
        margin = columns[:, some].take(targets[pairs], axis=0)
        margin = (margin - columns[given, some]).astype(np.float64, copy=False)
        is_reached = margin >= cuts[pairs, None]
        crowded_pairs = np.flatnonzero(np.count_nonzero(is_reached, axis=1) > 2 * room[pairs])
        if len(crowded_pairs):  # sort fewer below
            largest = np.sort(margin[crowded_pairs], axis=1)
            least_margin = largest[np.arange(len(crowded_pairs)), -room[pairs][crowded_pairs]]
            is_reached[crowded_pairs] &= margin[crowded_pairs] >= least_margin[:, None]
        reached_indices = np.flatnonzero(is_reached)
        pair, sample = np.divmod(reached_indices, margin.shape[1])
        index = samples[some].take(sample)
        candidates.append((pair + pairs.start, margin.reshape(-1).take(reached_indices), index))
    _keep_top(candidates, heap_offsets, sizes, margins, indices)
    full = (sizes == room) & (sizes > 0)
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
    K, quotas = len(class_offsets) - 1, np.diff(heap_offsets)
    pairs = np.repeat(np.arange(K), np.diff(class_offsets)) * K + targets
    samples = given.astype(np.int64) * K + predicted
    order = np.argsort(-lead)
    order = order[_sort_numbers(samples[order], K * K)]
    samples = samples[order]  # by pair, the largest margin first
    starts, ends = np.searchsorted(samples, pairs), np.searchsorted(samples, pairs, "right")
    full = (ends - starts >= quotas) & (quotas > 0)
    cuts[full] = lead[order[(starts + quotas - 1)[full]]]


def merge_heaps(
    heap_offsets: Ints,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
    other_sizes: Ints,
    other_margins: Rows,
    other_indices: Ints,
) -> None:
    own_heaps = _list_heaps(heap_offsets, sizes, margins, indices)
    other = _list_heaps(heap_offsets, other_sizes, other_margins, other_indices)
    _keep_top([own_heaps, other], heap_offsets, sizes, margins, indices)


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
    tied_rows = np.flatnonzero(is_equal[:-1] | is_equal[1:])
    run = np.cumsum(~is_equal[tied_rows])
    order[tied_rows] = order[tied_rows][np.lexsort((index[order[tied_rows]], run))]
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
    is_in_tie = is_tied[group]
    values = np.where(is_in_tie, np.uint64(LAST_INDEX) - index.astype(np.uint64), keys)
    is_counted = (slots[group] >= 0) & (~is_in_tie | (keys == tied_key[group]))
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
