"""The inner loops of selection: a heap per pair of classes, and counts by ranges of keys.

Each kernel has a slow, obvious twin in the tests. A kernel calls only kernels of its own file:
Numba's cache does not notice a change in another one. Counts are cast to 32 bits explicitly: Numba
widens them to 64 bits, of which a vector register holds half as many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels import BOUND_SLACK, LAST_INDEX, MANY_PAIRS, SOME_PAIRS
from uqled.detect.core.kernels.compiler import compile_kernel, prefetch_value

Rows = NDArray[Any]
Ints = NDArray[Any]

#: So many rows before it is its turn, the values of a row that is offered are asked for.
_ROWS_AHEAD = 16


@compile_kernel
def _is_worse(margin: float, index: int, other_margin: float, other_index: int) -> bool:
    return margin < other_margin or (margin == other_margin and index > other_index)


@compile_kernel
def _push_sample(
    margins: Rows, indices: Ints, start: int, stop: int, size: int, margin: float, index: int
) -> int:
    """Offer one sample to the heap in [start, stop), whose worst is on top; return its new size."""
    if size < stop - start:
        at = size
        while at > 0:
            above = (at - 1) >> 1
            if not _is_worse(margin, index, margins[start + above], indices[start + above]):
                break
            margins[start + at] = margins[start + above]
            indices[start + at] = indices[start + above]
            at = above
        margins[start + at] = margin
        indices[start + at] = index
        return size + 1
    if _is_worse(margin, index, margins[start], indices[start]):
        return size
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        left, right = start + below, start + below + 1
        if below + 1 < size and _is_worse(
            margins[right], indices[right], margins[left], indices[left]
        ):
            below += 1
        child = start + below
        if not _is_worse(margins[child], indices[child], margin, index):
            break
        margins[start + at] = margins[child]
        indices[start + at] = indices[child]
        at = below
    margins[start + at] = margin
    indices[start + at] = index
    return size


@compile_kernel
def _compute_margin(row: Rows, target: int, given: int, single_precision: bool) -> float:
    """The margin of the target over the given class."""
    if single_precision:
        return np.float64(row[target] - row[given])
    return np.float64(row[target]) - np.float64(row[given])


@compile_kernel
def _reaches(row: Rows, own: Any, bounds: Rows) -> Any:
    """Whether some class's margin reaches its bound: one comparison per class, in vector code."""
    n_reached = np.int32(0)
    for j in range(row.size):
        n_reached = np.int32(n_reached + np.int32(row[j] - own >= bounds[j]))
    return n_reached > 0


@compile_kernel
def _reaches_least(row: Rows, own: Any, least: Any) -> Any:
    """Whether some other class's margin reaches the class's least bound.

    The bounds themselves are not read: they are larger than a cache.
    """
    n_reached = np.int32(0)
    for j in range(row.size):
        n_reached = np.int32(n_reached + np.int32(row[j] - own >= least))
    return n_reached > np.int32(own - own >= least)  # the given class has margin 0


@compile_kernel
def _prefetch_row(
    flat: Rows, r: int, K: int, given: int, class_offsets: Ints, targets: Ints
) -> None:
    """Ask for what a row's margins are computed from, where that is little of the row."""
    start, stop = class_offsets[given], class_offsets[given + 1]
    if (stop - start) * SOME_PAIRS >= K:
        return
    prefetch_value(flat, r * K + given)
    for q in range(start, stop):
        prefetch_value(flat, r * K + targets[q])


@compile_kernel
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
    bounds: Rows,
    least: Rows,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
) -> None:
    """Offer rows to the heaps of their class's pairs, by the margin of the pair's target.

    The pairs of class i are `class_offsets[i]` to `class_offsets[i + 1]`. Pair q has the target
    `targets[q]` and keeps its top samples in `heap_offsets[q]` to `heap_offsets[q + 1]` of
    `margins` and `indices`; a sample below `cuts[q]` is not one of them. `bounds` [K,K] are the
    cuts, a little lower, as a matrix (or empty), and `least` [K] is the least bound of each class:
    most rows of a class with many pairs are below all bounds, and are skipped at once.
    """
    n, K = rows.shape
    flat = rows.reshape(-1)
    for r in range(n):
        ahead = r + _ROWS_AHEAD
        if ahead < n and is_offered[ahead]:
            _prefetch_row(flat, ahead, K, labels[ahead], class_offsets, targets)
        if not is_offered[r]:
            continue
        given, row = labels[r], rows[r]
        start, stop = class_offsets[given], class_offsets[given + 1]
        pairs = stop - start
        if pairs * SOME_PAIRS >= K and not _reaches_least(row, row[given], least[given]):
            continue
        has_many_pairs = bounds.size > 0 and pairs * MANY_PAIRS >= K
        if has_many_pairs and not _reaches(row, row[given], bounds[given]):
            continue
        has_higher_cut = False
        for q in range(start, stop):
            margin = _compute_margin(row, targets[q], given, single_precision)
            if margin < cuts[q]:
                continue
            first, last = heap_offsets[q], heap_offsets[q + 1]
            sizes[q] = _push_sample(
                margins, indices, first, last, sizes[q], margin, first_index + r
            )
            if sizes[q] == last - first and margins[first] > cuts[q]:
                cuts[q] = margins[first]
                has_higher_cut = True
                if bounds.size > 0:
                    bounds[given, targets[q]] = cuts[q] - BOUND_SLACK
        if has_higher_cut:
            lowest = cuts[start]
            for q in range(start + 1, stop):
                lowest = min(lowest, cuts[q])
            least[given] = lowest - BOUND_SLACK


@compile_kernel
def raise_cuts(
    given: Ints,
    predicted: Ints,
    lead: Rows,
    class_offsets: Ints,
    targets: Ints,
    heap_offsets: Ints,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
    cuts: Rows,
) -> None:
    """Raise each pair's cut to a margin that enough samples predicted as its target reach.

    `lead` are the margins of samples labelled `given` and predicted as `predicted`, another class.
    The heaps are used as scratch space and left empty.
    """
    for z in range(given.size):
        low, high = class_offsets[given[z]], class_offsets[given[z] + 1]
        while low < high:
            middle = (low + high) >> 1
            if targets[middle] < predicted[z]:
                low = middle + 1
            else:
                high = middle
        if low < class_offsets[given[z] + 1] and targets[low] == predicted[z]:
            start, stop = heap_offsets[low], heap_offsets[low + 1]
            sizes[low] = _push_sample(margins, indices, start, stop, sizes[low], lead[z], z)
    for q in range(sizes.size):
        if sizes[q] == heap_offsets[q + 1] - heap_offsets[q]:
            cuts[q] = margins[heap_offsets[q]]
        sizes[q] = 0


@compile_kernel
def merge_heaps(
    heap_offsets: Ints,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
    other_sizes: Ints,
    other_margins: Rows,
    other_indices: Ints,
) -> None:
    """Offer every sample of the other heaps to these."""
    for q in range(sizes.size):
        start, stop = heap_offsets[q], heap_offsets[q + 1]
        for at in range(start, start + other_sizes[q]):
            sizes[q] = _push_sample(
                margins, indices, start, stop, sizes[q], other_margins[at], other_indices[at]
            )


@compile_kernel
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
    """Count samples by the range of their key; in a tied group, the samples with `tied_key` by the
    range of their reversed index.

    Group g is row `slots[g]` of `range_starts` (ascending) and `counts`, or is skipped if that is
    -1. Only values from `low[g]` to `high[g]` are counted.
    """
    for z in range(group.size):
        g, value = group[z], keys[z]
        slot = slots[g]
        if slot < 0:
            continue
        if is_tied[g]:
            if value != tied_key[g]:
                continue
            value = np.uint64(LAST_INDEX - index[z])
        if value < low[g] or value > high[g]:
            continue
        row = range_starts[slot]
        first, last = 0, row.size - 1
        while first < last:
            middle = (first + last + 1) >> 1
            if row[middle] <= value:
                first = middle
            else:
                last = middle - 1
        counts[slot, first] += 1
