"""The inner loops over rows of probabilities.

Each has a twin in `plain`, and a slow, obvious one in `tests/shared/naive.py`.

A kernel calls only kernels of its own file: Numba's cache does not notice a change in another one.
Integers are cast to 32 bits after every operation: Numba widens them to 64 bits, of which a vector
register holds half as many, and for which AVX2 has no maximum.

`rows` [n,K] are probabilities, float32 or float64. `keys` [n,K] are the same bits read as integers:
non-negative numbers keep their order, and integers compare and reduce in vector registers without
special cases for NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.kernels import SLACK, UNIT
from uqled.detect.core.kernels.compiler import compile_kernel, compile_reassociating_kernel

Rows = NDArray[Any]
Ints = NDArray[Any]

_LN2 = 0.6931471805599453
#: Values that a loop over several rows goes through: their sums stay in the first cache.
_CHUNK = 2048


@compile_kernel
def _is_bad(row: Rows, total: float, least_key: int, tolerance: float) -> bool:
    """Whether a row with this sum and this least key is no probability distribution.

    An infinite tolerance accepts any row.
    """
    if tolerance == np.inf:
        return False
    if not abs(total - 1.0) <= tolerance:  # NaN too
        return True
    if least_key < 0:  # a negative value, or -0.0, which is not one
        for j in range(row.size):
            if row[j] < 0.0:
                return True
    return False


@compile_reassociating_kernel
def find_bad_row(rows: Rows, keys: Ints, tolerance: float) -> int:
    """The first row with a NaN, a negative value or a sum other than 1; -1 if there is none."""
    n, K = rows.shape
    for r in range(n):
        row, key = rows[r], keys[r]
        total = rows.dtype.type(0)
        least = key[0]
        for j in range(K):
            total += row[j]
            least = min(least, key[j])
        if _is_bad(row, total, least, tolerance):
            return r
    return -1


@compile_kernel
def read_given_probability(rows: Rows, labels: Ints, out: Rows) -> None:
    """Write the probability of each row's given label."""
    for r in range(rows.shape[0]):
        out[r] = rows[r, labels[r]]


@compile_kernel
def find_best_other(rows: Rows, labels: Ints, out: Rows) -> None:
    """Write the largest probability of a class other than the given one, per row."""
    n, K = rows.shape
    for r in range(n):
        row, given = rows[r], labels[r]
        best = row[1] if given == 0 else row[0]
        for j in range(K):
            if j != given and row[j] > best:
                best = row[j]
        out[r] = best


@compile_kernel
def add_class_sums(labels: Ints, values: Rows, sums: Ints) -> None:
    """Add each value, in whole units, to the sum of its class."""
    for r in range(labels.size):
        sums[labels[r]] += np.int64(np.rint(values[r] / UNIT))


@compile_kernel
def average_passes(flat: Rows, first: int, step: int, F: int, out: Rows) -> None:
    """Write the mean over passes: pass f of row r is `flat[first + f * step + r]`.

    The passes are added one after the other, four per loop, so that a sum stays in a register; rows
    of a pass lie one behind the other, and are short: a loop goes through many of them.
    """
    n, K = out.shape
    values, means = flat.reshape(-1), out.reshape(-1)
    first, step = first * K, step * K
    for start in range(0, n * K, _CHUNK):
        stop = min(start + _CHUNK, n * K)
        mean = means[start:stop]
        size = mean.size
        for i in range(size):
            mean[i] = 0.0
        for f in range(F % 4):
            a = values[first + f * step + start :][:size]
            for i in range(size):
                mean[i] += a[i]
        for f in range(F % 4, F, 4):
            at = first + f * step + start
            a, b = values[at:][:size], values[at + step :][:size]
            c, d = values[at + 2 * step :][:size], values[at + 3 * step :][:size]
            parts = F if f + 4 == F else 1
            for i in range(size):
                mean[i] = ((((mean[i] + a[i]) + b[i]) + c[i]) + d[i]) / parts
        if F < 4:
            for i in range(size):
                mean[i] /= F


@compile_kernel
def _p_log_p(p: float) -> float:
    """p ln p from the exponent and the series of the area tangent, accurate to 1e-15; 0 for 0.

    Without branches, so that the compiler vectorises a loop over it, which it cannot do with the
    library's logarithm.
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


@compile_reassociating_kernel
def measure_uncertainty(
    flat: Rows, first: int, step: int, F: int, mean: Rows, entropy: Rows, mutual_information: Rows
) -> None:
    """Write the entropy of the mean of the passes, and the mutual information of the passes."""
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
        mutual_information[r] = max(total - within / F, 0.0)


@compile_kernel
def _make_key(value: Any) -> Any:
    """A probability as an integer that sorts the same; -0.0 is 0."""
    return np.float64(value).view(np.int64) & np.int64(0x7FFFFFFFFFFFFFFF)


@compile_kernel
def _find_largest(row: Rows) -> Any:
    """The class of the largest value, ties to the lower class; without branches, in vector code."""
    top = np.int64(-1)
    for j in range(row.size):
        top = max(top, _make_key(row[j]))
    first = np.int64(row.size)
    for j in range(row.size):
        first = min(first, np.int64(j) if _make_key(row[j]) == top else np.int64(row.size))
    return first


@compile_kernel
def measure_margins(mean: Rows, out: Rows) -> None:
    """Write the difference of each row's two largest values with a minus sign: more is less
    certain."""
    n, K = mean.shape
    for r in range(n):
        row = mean[r]
        first = max(row[0], row[1])
        second = min(row[0], row[1])
        for j in range(2, K):
            second = max(second, min(first, row[j]))
            first = max(first, row[j])
        out[r] = second - first


@compile_kernel
def measure_variation_ratios(flat: Rows, first: int, step: int, F: int, n: int, out: Rows) -> None:
    """Write the share of passes whose predicted class is not the most frequent one, per row."""
    votes = np.empty(F, np.int64)
    for r in range(n):
        most = 0
        for f in range(F):
            votes[f] = _find_largest(flat[first + f * step + r])
            same = 0
            for g in range(f + 1):
                same += votes[g] == votes[f]
            most = max(most, same)
        out[r] = 1.0 - most / F


@compile_kernel
def measure_deviations(flat: Rows, first: int, step: int, F: int, mean: Rows, out: Rows) -> None:
    """Write the standard deviation over the passes of the predicted class's probability."""
    for r in range(mean.shape[0]):
        predicted = _find_largest(mean[r])
        total = 0.0
        for f in range(F):
            difference = flat[first + f * step + r, predicted] - mean[r, predicted]
            total += difference * difference
        out[r] = np.sqrt(total / F)


@compile_kernel
def _agrees_with_label(row: Rows, given: Any, predicted: Any, single_precision: bool) -> Any:
    """Whether `given` is the most probable class once the slack is added to it."""
    raised = np.float64(row[given]) + SLACK
    if single_precision:
        raised = np.float64(row[given] + np.float32(SLACK))
    top = np.float64(row[predicted])
    return raised > top or (raised == top and given <= predicted)


@compile_reassociating_kernel
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
    """Write each row's confident class, its predicted class, whether that is the label, and how
    much more probable it is.

    The confident class is the one class that reaches its threshold (a key, like the rows), the
    predicted class if several do, and -1 if none does. A row agrees with its label if the label is
    the most probable class once `SLACK` is added to it. That and the lead are in the rows' own
    precision if `single_precision`. Return the first row that is no probability distribution, or
    -1.
    """
    n, K = rows.shape
    for r in range(n):
        row, key = rows[r], keys[r]
        top = least = key[0]
        total = rows.dtype.type(0)
        hits = np.int32(0)
        for j in range(K):
            value = key[j]
            total += row[j]
            least = min(least, value)
            top = max(top, value)
            hits = np.int32(hits + np.int32(value >= thresholds[j]))
        if _is_bad(row, total, least, tolerance):
            return r
        first = np.int32(K)
        for j in range(K):
            first = min(first, np.int32(j) if key[j] == top else np.int32(K))
        predicted[r] = first
        is_hit = key[first] >= thresholds[first]
        confident[r] = first if is_hit or hits > 1 else -1
        if hits == 1 and not is_hit:  # seldom
            for j in range(K):
                if key[j] >= thresholds[j]:
                    confident[r] = j
        agrees[r] = _agrees_with_label(row, labels[r], first, single_precision)
        lead[r] = np.float64(row[first]) - np.float64(row[labels[r]])
        if single_precision:
            lead[r] = np.float64(row[first] - row[labels[r]])
    return -1


@compile_kernel
def find_confident_within_limits(
    keys: Ints,
    thresholds: Ints,
    uncertainty: Rows,
    limits: Rows,
    predicted: Ints,
    confident: Ints,
) -> None:
    """Write each row's confident class, as `scan_rows` does, among the classes whose limit the
    row's uncertainty does not exceed."""
    n, K = keys.shape
    for r in range(n):
        key, u = keys[r], uncertainty[r]
        hits = np.int32(0)
        hit_class = np.int32(0)
        for j in range(K):
            is_hit = np.int32(np.int32(key[j] >= thresholds[j]) & np.int32(u <= limits[j]))
            hits = np.int32(hits + is_hit)
            hit_class = np.int32(hit_class + np.int32(is_hit * np.int32(j)))
        confident[r] = predicted[r] if hits > 1 else (hit_class if hits == 1 else -1)


@compile_kernel
def count_pairs(labels: Ints, confident: Ints, counts: Ints) -> None:
    """Add each row with a confident class to `counts` [K,K], given x true."""
    for r in range(labels.size):
        if confident[r] >= 0:
            counts[labels[r], confident[r]] += 1


@compile_kernel
def _make_single_key(value: Any) -> Any:
    """A single-precision probability as an integer that sorts the same; -0.0 is 0."""
    return np.int32(np.float32(value).view(np.int32) & np.int32(0x7FFFFFFF))


@compile_kernel
def find_alternatives(rows: Rows, labels: Ints, other: Ints, given: Rows, best: Rows) -> None:
    """Write each row's most probable class other than its label (ties to the lower class), and the
    probabilities of both."""
    n, K = rows.shape
    for r in range(n):
        row, label = rows[r], np.int32(labels[r])
        top = np.int32(-1)
        for j in range(K):
            top = max(top, np.int32(-1) if np.int32(j) == label else _make_single_key(row[j]))
        best_class = np.int32(K)
        for j in range(K):
            is_top = (_make_single_key(row[j]) == top) & (np.int32(j) != label)
            best_class = min(best_class, np.int32(j) if is_top else np.int32(K))
        other[r], given[r], best[r] = best_class, row[label], row[best_class]


@compile_kernel
def count_votes(keys: Ints, first: int, step: int, F: int, labels: Ints, counts: Ints) -> None:
    """Count how often a pass predicts another class than the label, and how often two passes
    predict different classes; pass f of row r is `keys[first + f * step + r]`."""
    predicted = np.empty(F, np.int64)
    K = np.int32(keys.shape[1])
    for r in range(labels.size):
        for f in range(F):
            key = keys[first + f * step + r]
            top = key[0]
            for j in range(K):
                top = max(top, key[j])
            best_class = K
            for j in range(K):
                best_class = min(best_class, np.int32(j) if key[j] == top else K)
            predicted[f] = best_class
            counts[0] += best_class != labels[r]
            for g in range(f):
                counts[1] += predicted[g] != best_class
