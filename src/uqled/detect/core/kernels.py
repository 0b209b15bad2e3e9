"""The inner loops. Each has a slow, obvious twin in `tests/naive.py`.

All kernels stay in this one file: Numba's cache does not notice changes in a function of another
file that a kernel calls.

`rows` [n,K] are probabilities, float32 or float64. `keys` [n,K] are the same bits read as integers:
for numbers that are not negative the order is the same, and integers compare and reduce in vector
registers without any allowance for NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.compiled import compiled, compiled_in_any_order

Rows = NDArray[Any]
Ints = NDArray[Any]

#: Values are summed as multiples of this, so that a sum is the same in any order.
UNIT = 2.0**-40
#: A sample is confident in a class that misses the threshold by this much, and counts as agreeing
#: with its label if the best class is ahead by no more.
SLACK = 1e-6

#: How far below its cut the bound of a pair is: more than the rounding of a margin in float32.
BOUND_SLACK = 2.0**-22
#: Of K classes, a class with a pair to one in so many others: it is quicker to look at all classes
#: of a row in vector code first than at one pair after the other; and with a bound for each, too,
#: although that is read from memory.
SOME_PAIRS, MANY_PAIRS = 128, 8

#: No sample's index is higher: subtracted from it, a lower index is the larger number.
LAST_INDEX = 2**48 - 1

_LN2 = 0.6931471805599453


@compiled
def _is_bad(row: Rows, total: float, signs: int, tolerance: float) -> bool:
    """If a row of this sum, whose keys have these signs, is no probability distribution.

    An infinite tolerance takes any row.
    """
    if tolerance == np.inf:
        return False
    if not abs(total - 1.0) <= tolerance:  # NaN too
        return True
    if signs < 0:  # a negative value, or -0.0, which is none
        for j in range(row.size):
            if row[j] < 0.0:
                return True
    return False


@compiled_in_any_order
def first_bad_row(rows: Rows, keys: Ints, tolerance: float) -> int:
    """The first row with a NaN, a negative value or a sum other than 1; -1 if there is none."""
    n, K = rows.shape
    for r in range(n):
        row, key = rows[r], keys[r]
        total = rows.dtype.type(0)
        signs = key[0]
        for j in range(K):
            total += row[j]
            signs |= key[j]
        if _is_bad(row, total, signs, tolerance):
            return r
    return -1


@compiled
def given_probability(rows: Rows, labels: Ints, out: Rows) -> None:
    """Write each row's probability of its given label."""
    for r in range(rows.shape[0]):
        out[r] = rows[r, labels[r]]


@compiled
def best_other(rows: Rows, labels: Ints, out: Rows) -> None:
    """Write each row's largest probability of a class that is not the given one."""
    n, K = rows.shape
    for r in range(n):
        row, given = rows[r], labels[r]
        best = row[1] if given == 0 else row[0]
        for j in range(K):
            if j != given and row[j] > best:
                best = row[j]
        out[r] = best


@compiled
def add_class_sums(labels: Ints, values: Rows, sums: Ints) -> None:
    """Add each value, in whole units, to the sum of its class."""
    for r in range(labels.size):
        sums[labels[r]] += np.int64(np.rint(values[r] / UNIT))


@compiled
def mean_rows(flat: Rows, first: int, step: int, F: int, out: Rows) -> None:
    """Mean over passes: pass f of row r is `flat[first + f * step + r]`.

    The passes are added one after the other, but four at a time while a sum is at hand.
    """
    n, K = out.shape
    for r in range(n):
        mean = out[r]
        for j in range(K):
            mean[j] = 0.0
        for f in range(F % 4):
            row = flat[first + f * step + r]
            for j in range(K):
                mean[j] += row[j]
        for f in range(F % 4, F, 4):
            at = first + f * step + r
            a, b, c, d = flat[at], flat[at + step], flat[at + 2 * step], flat[at + 3 * step]
            parts = F if f + 4 == F else 1
            for j in range(K):
                mean[j] = ((((mean[j] + a[j]) + b[j]) + c[j]) + d[j]) / parts
        if F < 4:
            for j in range(K):
                mean[j] /= F


@compiled
def _p_log_p(p: float) -> float:
    """p ln p by powers of 2 and the series of the area tangent, accurate to 1e-15.

    Without branches, and so that 0 gives 0: the compiler turns a loop over it into vector code,
    which it cannot do with the library's logarithm.
    """
    # Split p into 2^e * m with m from sqrt(1/2) to sqrt(2), on its bits.
    bits = np.float64(p).view(np.int64) & np.int64(0x7FFFFFFFFFFFFFFF)  # -0.0 is 0
    shifted = bits + np.int64(0x00095F619980C433)
    m = np.int64((shifted & np.int64(0x000FFFFFFFFFFFFF)) + np.int64(0x3FE6A09E667F3BCD))
    e = np.int64((shifted >> np.int64(52)) | np.int64(0x4330000000000000))  # 2^52 + e + 1023
    mantissa, exponent = m.view(np.float64), e.view(np.float64) - 4503599627371519.0
    s = (mantissa - 1.0) / (mantissa + 1.0)  # ln m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172
    z = s * s
    series = 1 / 21
    series = series * z + 1 / 19
    series = series * z + 1 / 17
    series = series * z + 1 / 15
    series = series * z + 1 / 13
    series = series * z + 1 / 11
    series = series * z + 1 / 9
    series = series * z + 1 / 7
    series = series * z + 1 / 5
    series = series * z + 1 / 3
    return p * (exponent * _LN2 + 2.0 * s * (1.0 + z * series))


@compiled_in_any_order
def uncertainty_rows(
    flat: Rows, first: int, step: int, F: int, mean: Rows, entropy: Rows, information: Rows
) -> None:
    """Write the entropy of the mean of the passes, and what the mean hides: mutual information."""
    n, K = mean.shape
    for r in range(n):
        total = 0.0
        row = mean[r]
        for j in range(K):
            total -= _p_log_p(row[j])
        within = 0.0
        for f in range(F):
            one = flat[first + f * step + r]
            for j in range(K):
                within -= _p_log_p(np.float64(one[j]))
        entropy[r] = max(total, 0.0)
        information[r] = max(total - within / F, 0.0)


@compiled
def _agrees(row: Rows, given: Any, first: Any, in_single: bool) -> Any:
    """If `given` is the most probable class once the slack is added; `first` is it without."""
    raised = np.float64(row[given]) + SLACK
    if in_single:
        raised = np.float64(row[given] + np.float32(SLACK))
    top = np.float64(row[first])
    return raised > top or (raised == top and given <= first)


@compiled_in_any_order
def scan_rows(
    rows: Rows,
    keys: Ints,
    labels: Ints,
    thresholds: Ints,
    tolerance: float,
    in_single: bool,
    guess: Ints,
    best: Ints,
    agrees: Ints,
) -> int:
    """Write each row's guess at the true class, its most probable class, and if that is the label.

    The guess is the one class that reaches its threshold (keys, like the rows), the most probable
    class where several do, and -1 where none does. A row agrees with its label if the label is the
    most probable class once `SLACK` is added to it (`in_single`: added in the rows' own precision).
    Return the first row that is no probability distribution, as `first_bad_row` does.
    """
    n, K = rows.shape
    for r in range(n):
        row, key = rows[r], keys[r]
        top = signs = key[0]
        total = rows.dtype.type(0)
        confident = np.int32(0)
        where = np.int32(0)
        for j in range(K):
            value = key[j]
            total += row[j]
            signs |= value
            top = max(top, value)
            hit = np.int32(value >= thresholds[j])
            confident += hit
            where += hit * np.int32(j)
        if _is_bad(row, total, signs, tolerance):
            return r
        first = np.int32(K)
        for j in range(K):
            first = min(first, np.int32(j) if key[j] == top else np.int32(K))
        best[r] = first
        guess[r] = first if confident > 1 else (where if confident == 1 else -1)
        agrees[r] = _agrees(row, labels[r], first, in_single)
    return -1


@compiled
def guess_if_sure(
    keys: Ints,
    thresholds: Ints,
    entropy: Rows,
    limits: Rows,
    best: Ints,
    guess: Ints,
) -> None:
    """As the guess of `scan_rows`, but a class counts only up to its limit of a row's entropy."""
    n, K = keys.shape
    for r in range(n):
        key, h = keys[r], entropy[r]
        confident = np.int32(0)
        where = np.int32(0)
        for j in range(K):
            hit = np.int32(key[j] >= thresholds[j]) & np.int32(h <= limits[j])
            confident += hit
            where += hit * np.int32(j)
        guess[r] = best[r] if confident > 1 else (where if confident == 1 else -1)


@compiled
def count_pairs(labels: Ints, guess: Ints, counts: Ints) -> None:
    """Count each row with a guess in `counts` [K,K], given x true."""
    for r in range(labels.size):
        if guess[r] >= 0:
            counts[labels[r], guess[r]] += 1


@compiled
def _is_worse(margin: float, index: int, other_margin: float, other_index: int) -> bool:
    return margin < other_margin or (margin == other_margin and index > other_index)


@compiled
def _keep_best(
    margins: Rows, indices: Ints, start: int, stop: int, size: int, margin: float, index: int
) -> int:
    """Offer one sample to a heap of the best, whose worst is on top; return the heap's new size."""
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


@compiled
def _margin(row: Rows, target: int, given: int, in_single: bool) -> float:
    """By how much the target is more probable than the given class."""
    if in_single:
        return np.float64(row[target] - row[given])
    return np.float64(row[target]) - np.float64(row[given])


@compiled
def _reaches(row: Rows, own: Any, bounds: Rows) -> Any:
    """If some class's margin is at its bound or above: one comparison per class, vector code."""
    reached = np.int32(0)
    for j in range(row.size):
        reached += np.int32(row[j] - own >= bounds[j])
    return reached > 0


@compiled
def _reaches_least(row: Rows, own: Any, least: Any) -> Any:
    """If some other class's margin is at the least bound or above: without a look at the bounds,
    which are more than a cache holds."""
    reached = np.int32(0)
    for j in range(row.size):
        reached += np.int32(row[j] - own >= least)
    return reached > np.int32(own - own >= least)  # the given class's own is 0


@compiled
def select_rows(
    rows: Rows,
    labels: Ints,
    first_index: int,
    in_single: bool,
    by_class: Ints,
    targets: Ints,
    offsets: Ints,
    cuts: Rows,
    bounds: Rows,
    least: Rows,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
) -> None:
    """Offer each row to the heaps of its class's pairs, by margin of the pair's target.

    The pairs of class i are `by_class[i]` to `by_class[i + 1]`; pair q is about class `targets[q]`
    and keeps its best in `offsets[q]` to `offsets[q + 1]` of `margins` and `indices`. No sample
    below `cuts[q]` is among its best. `bounds` [K,K] are the same cuts, a little lower, as a matrix
    (or empty), and `least` [K] the least of each class: most rows of a class with many pairs are
    below it, or below all bounds, and are done at once.
    """
    n, K = rows.shape
    for r in range(n):
        given, row = labels[r], rows[r]
        start, stop = by_class[given], by_class[given + 1]
        pairs = stop - start
        if pairs * SOME_PAIRS >= K and not _reaches_least(row, row[given], least[given]):
            continue
        many = bounds.size > 0 and pairs * MANY_PAIRS >= K
        if many and not _reaches(row, row[given], bounds[given]):
            continue
        raised = False
        for q in range(start, stop):
            margin = _margin(row, targets[q], given, in_single)
            if margin < cuts[q]:
                continue
            first, last = offsets[q], offsets[q + 1]
            sizes[q] = _keep_best(margins, indices, first, last, sizes[q], margin, first_index + r)
            if sizes[q] == last - first and margins[first] > cuts[q]:
                cuts[q] = margins[first]
                raised = True
                if bounds.size > 0:
                    bounds[given, targets[q]] = cuts[q] - BOUND_SLACK
        if raised:
            lowest = cuts[start]
            for q in range(start + 1, stop):
                lowest = min(lowest, cuts[q])
            least[given] = lowest - BOUND_SLACK


@compiled
def raise_cuts(
    given: Ints,
    best: Ints,
    leads: Rows,
    by_class: Ints,
    targets: Ints,
    offsets: Ints,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
    cuts: Rows,
) -> None:
    """Raise each pair's cut to what samples are known to reach: those with the target on top.

    `leads` are the margins of samples given `given` whose most probable class is `best`. The heaps
    are used and left empty.
    """
    for z in range(given.size):
        low, high = by_class[given[z]], by_class[given[z] + 1]
        while low < high:
            middle = (low + high) >> 1
            if targets[middle] < best[z]:
                low = middle + 1
            else:
                high = middle
        if low < by_class[given[z] + 1] and targets[low] == best[z]:
            start, stop = offsets[low], offsets[low + 1]
            sizes[low] = _keep_best(margins, indices, start, stop, sizes[low], leads[z], z)
    for q in range(sizes.size):
        if sizes[q] == offsets[q + 1] - offsets[q]:
            cuts[q] = margins[offsets[q]]
        sizes[q] = 0


@compiled
def merge_heaps(
    offsets: Ints,
    sizes: Ints,
    margins: Rows,
    indices: Ints,
    other_sizes: Ints,
    other_margins: Rows,
    other_indices: Ints,
) -> None:
    """Offer everything that the other heaps kept to these."""
    for q in range(sizes.size):
        start, stop = offsets[q], offsets[q + 1]
        for at in range(start, start + other_sizes[q]):
            sizes[q] = _keep_best(
                margins, indices, start, stop, sizes[q], other_margins[at], other_indices[at]
            )


@compiled
def count_in_ranges(
    group: Ints,
    keys: Ints,
    index: Ints,
    slots: Ints,
    low: Ints,
    high: Ints,
    tied: Ints,
    key: Ints,
    begins: Ints,
    counts: Ints,
) -> None:
    """Count samples by the range that their key is in; of a tied group, those with the group's own
    key by the range that their index, counted backwards, is in.

    Group g is row `slots[g]` of `begins` (rising) and `counts`, or in none if that is -1; only what
    is from `low[g]` to `high[g]` is counted.
    """
    for z in range(group.size):
        g, place = group[z], keys[z]
        slot = slots[g]
        if slot < 0:
            continue
        if tied[g]:
            if place != key[g]:
                continue
            place = np.uint64(LAST_INDEX - index[z])
        if place < low[g] or place > high[g]:
            continue
        row = begins[slot]
        first, last = 0, row.size - 1
        while first < last:
            middle = (first + last + 1) >> 1
            if row[middle] <= place:
                first = middle
            else:
                last = middle - 1
        counts[slot, first] += 1
