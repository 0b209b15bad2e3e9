"""The inner loops of `auto`. They look at a few classes per sample only: its candidates.

Slot 0 of a sample's candidates is its given class, the others are the most probable of the rest, in
that order. `classes` [N,M] are their numbers, `probs` [N,M] their probabilities. What is missing to
1 is the share of all other classes together, the bucket.

A transition matrix T (true x given) is sparse: row t has the columns `columns[start[t]:start[t+1]]`
with the `extra` that they have above the row's `base`; the diagonal, `stay`, is apart. Where it is
small, `table` [K,K] is the same in full, else it is empty. Kernels get it as one tuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.compiler import compile_kernel

Rows = NDArray[Any]
Ints = NDArray[Any]
Matrix = tuple[Ints, Ints, Rows, Rows, Rows, Rows]

#: Probabilities below this count as this: the logarithm of 0 has no use here.
LEAST = 1e-12
#: A class that is less probable than this is not asked if it is the true one: even if three of four
#: labels were wrong, the true class would be given to a quarter of such samples.
NEGLIGIBLE = 1e-3
#: A row whose probabilities move by less than this in a round is done.
SETTLED = 1e-4
#: The logarithm of so many probabilities is taken at once: their product is no less than 1e-192.
FACTORS = 16
#: So many rows are unmixed together. Loops over half as many are unrolled, and not in vectors.
TOGETHER = 64
#: Log-odds are told apart from -9 to 9 (0.01 % to 99.99 %), in steps of a quarter.
STEPS = 74


@compile_kernel
def candidates(rows: Rows, labels: Ints, classes: Ints, probs: Rows) -> None:
    """Write each row's given class and its most probable others; of equals the lower first."""
    n, K = rows.shape
    M = classes.shape[1]
    for r in range(n):
        row, given = rows[r], labels[r]
        classes[r, 0], probs[r, 0] = given, row[given]
        size = 0
        for j in range(K):
            value = np.float32(row[j])  # as it is kept, or equals would not be equal
            if j == given or (size == M - 1 and value <= probs[r, M - 1]):
                continue
            at = min(size + 1, M - 1)
            while at > 1 and value > probs[r, at - 1]:
                probs[r, at], classes[r, at] = probs[r, at - 1], classes[r, at - 1]
                at -= 1
            probs[r, at], classes[r, at] = value, j
            size = min(size + 1, M - 1)


@compile_kernel
def step_of(log_odds: float) -> int:
    """The number of the quarter, from 0 to `STEPS` - 1."""
    return int(min(max(np.floor(log_odds * 4.0) + 37.0, 0.0), 73.0))


@compile_kernel
def leads(p: Rows, out: Rows) -> None:
    """Write each candidate's log-odds against the best of the others."""
    first = second = 0.0
    where = -1
    for c in range(p.size):
        if p[c] > first:
            first, second, where = p[c], first, c
        elif p[c] > second:
            second = p[c]
    for c in range(p.size):
        other = second if c == where else first
        out[c] = np.log(max(p[c], LEAST)) - np.log(max(other, LEAST))


@compile_kernel
def leads_of_rows(probs: Rows, out: Rows) -> None:
    """`leads` of every row."""
    for r in range(probs.shape[0]):
        leads(probs[r], out[r])


@compile_kernel
def vote_truth(lead: Rows, shares: Rows, truth: Rows) -> None:
    """Write each candidate's vote share, of sum 1 in a row."""
    n, M = lead.shape
    for r in range(n):
        total = 0.0
        for c in range(M):
            truth[r, c] = shares[step_of(lead[r, c])]
            total += truth[r, c]
        for c in range(M):
            truth[r, c] /= total


@compile_kernel
def count_votes(
    flat: Rows, first: int, step: int, F: int, classes: Ints, votes: Ints, seen: Ints
) -> None:
    """Ask each pass for its class, and count by what the mean of the other passes thinks of it.

    `seen` [STEPS] counts candidates by their log-odds under the others' mean, `votes` [STEPS] those
    that the pass left out has chosen.
    """
    n, M = classes.shape
    mean, lead = np.empty(M), np.empty(M)
    for r in range(n):
        for f in range(F):
            mean[:] = 0.0
            best, chosen = -1.0, 0
            for g in range(F):
                row = flat[first + g * step + r]
                for c in range(M):
                    value = row[classes[r, c]]
                    if g != f:
                        mean[c] += value / (F - 1)
                    elif value > best or (value == best and classes[r, c] < classes[r, chosen]):
                        best, chosen = value, c
            leads(mean, lead)
            for c in range(M):
                at = step_of(lead[c])
                seen[at] += 1
                votes[at] += c == chosen


@compile_kernel
def logs_of(probs: Rows, others: int, out: Rows) -> None:
    """Write the logarithms of the probabilities, and last that of each of the `others` in the
    bucket, as if these were alike."""
    n, M = probs.shape
    for r in range(n):
        rest = 1.0
        for c in range(M):
            rest -= probs[r, c]
            out[r, c] = np.log(max(probs[r, c], LEAST))
        out[r, M] = np.log(max(rest, LEAST) / max(others, 1))


@compile_kernel
def power_sums(logs: Rows, others: int, power: float, sums: Rows) -> None:
    """Add to `sums` the log-likelihood of the labels under powers of the probabilities, its slope
    and the slope's own."""
    n, M = logs.shape[0], logs.shape[1] - 1
    for r in range(n):
        top = logs[r, M] if others > 0 else -np.inf
        for c in range(M):
            top = max(top, logs[r, c])
        total = mean = square = 0.0
        for c in range(M + 1):
            if c == M and others == 0:
                continue
            x = logs[r, c]
            w = np.exp(power * (x - top)) * (others if c == M else 1)
            total += w
            mean += w * x
            square += w * x * x
        mean /= total
        own = logs[r, 0]
        sums[0] += power * (own - top) - np.log(total)
        sums[1] += own - mean
        sums[2] += square / total - mean * mean


@compile_kernel
def powered(logs: Rows, others: int, power: float, out: Rows) -> None:
    """Write the probabilities to a power, of sum 1 with the bucket."""
    n, M = out.shape
    for r in range(n):
        total = others * np.exp(power * logs[r, M]) if others > 0 else 0.0
        for c in range(M):
            out[r, c] = np.exp(power * logs[r, c])
            total += out[r, c]
        for c in range(M):
            out[r, c] /= total


@compile_kernel
def _flips(true: Ints, given: Ints, T: Matrix, out: Rows) -> None:
    """Write T[t,y] of all these true classes and all these given ones.

    Once for many, because to take the matrix apart costs far more than a look-up.
    """
    start, columns, extra, base, stay, table = T
    for i in range(true.size):
        t = true[i]
        for j in range(given.size):
            y = given[j]
            if table.size > 0:
                out[i, j] = table[t, y]
            elif t == y:
                out[i, j] = stay[t]
            else:
                low, high = start[t], start[t + 1]
                while low < high:
                    middle = (low + high) >> 1
                    if columns[middle] < y:
                        low = middle + 1
                    else:
                        high = middle
                out[i, j] = base[t]
                if low < start[t + 1] and columns[low] == y:
                    out[i, j] += extra[low]


@compile_kernel
def flips_to_given(classes: Ints, T: Matrix, out: Rows) -> None:
    """Write how often each candidate, if it is the truth, is given as the label that is given."""
    n, M = classes.shape
    flips = np.empty((M, 1))
    for r in range(n):
        _flips(classes[r], classes[r, :1], T, flips)
        for t in range(M):
            out[r, t] = flips[t, 0]


@compile_kernel
def mixed_fit(probs: Rows, flips: Rows, shares: Rows, fits: Rows) -> None:
    """Add to `fits` the log-likelihood of the labels, if such `shares` of them were mixed."""
    n, M = probs.shape
    product = np.ones(shares.size)
    for r in range(n):
        plain, mixed = probs[r, 0], 0.0
        for t in range(M):
            if probs[r, t] >= NEGLIGIBLE:
                mixed += probs[r, t] * flips[r, t]
        for k in range(shares.size):
            product[k] *= max((1 - shares[k]) * plain + shares[k] * mixed, LEAST)
        if r % FACTORS == FACTORS - 1 or r == n - 1:
            for k in range(shares.size):
                fits[k] += np.log(product[k])
                product[k] = 1.0


@compile_kernel
def _candidates_that_count(p: Rows) -> int:
    """How many of a row may be the truth: so many of the first, for probabilities fall, nearly."""
    M = p.size
    while M > 1 and p[M - 1] < NEGLIGIBLE:
        M -= 1
    return M


@compile_kernel
def mix(classes: Ints, probs: Rows, T: Matrix, share: float, out: Rows) -> None:
    """Write the probabilities, a share of them mixed by T."""
    n, M = classes.shape
    flips, mixed = np.empty((M, M)), np.empty(M)
    for r in range(n):
        mixed[:] = 0.0
        if share > 0:
            some = _candidates_that_count(probs[r])
            _flips(classes[r, :some], classes[r], T, flips)
            for t in range(some):
                if probs[r, t] >= NEGLIGIBLE:
                    for c in range(M):
                        mixed[c] += probs[r, t] * flips[t, c]
        for c in range(M):
            out[r, c] = (1 - share) * probs[r, c] + share * mixed[c]


@compile_kernel
def unmix(
    classes: Ints, probs: Rows, matrix: Matrix, rounds: int, truth: Rows, wrong: Rows
) -> None:
    """What the true class is, if the probabilities are the truth's, mixed by T.

    Expectation maximisation for `probs` = `truth` T, beginning with `truth` = `probs`. Writes
    `truth` [n,M], before the given label is looked at, and `wrong` [n], after.
    """
    slots = classes.shape[1]
    order, ends = _by_candidates(probs)
    T = np.empty((slots, slots + 1, TOGETHER))
    p, q = np.empty((slots + 1, TOGETHER)), np.empty((slots, TOGETHER))
    flips = np.empty((slots, slots))
    for M in range(1, slots + 1):
        for first in range(ends[M - 1], ends[M], TOGETHER):
            some = min(TOGETHER, ends[M] - first)
            for i in range(TOGETHER):
                r = order[first + min(i, some - 1)]  # where there are no more, the last again
                _flips(classes[r, :M], classes[r, :M], matrix, flips)
                p[M, i] = 1.0
                for t in range(M):
                    p[t, i] = probs[r, t]
                    p[M, i] -= probs[r, t]
                    T[t, M, i] = 1.0
                    for c in range(M):
                        T[t, c, i] = flips[t, c]
                        T[t, M, i] -= flips[t, c]
                    T[t, M, i] = max(T[t, M, i], LEAST)
                p[M, i] = max(p[M, i], LEAST)
            _unmix_together(M, p, T, rounds, q)
            for i in range(some):
                r = order[first + i]
                for t in range(slots):
                    truth[r, t] = q[t, i] if t < M else 0.0
                right, total = q[0, i] * T[0, 0, i], 0.0
                for t in range(1, M):
                    total += q[t, i] * T[t, 0, i]
                wrong[r] = total / max(total + right, LEAST)


@compile_kernel
def _by_candidates(probs: Rows) -> tuple[Ints, Ints]:
    """Rows by how many of their candidates may be the truth, and where rows with one more begin."""
    n, slots = probs.shape
    number, ends = np.empty(n, np.int64), np.zeros(slots + 1, np.int64)
    for r in range(n):
        number[r] = _candidates_that_count(probs[r])
        ends[number[r]] += 1
    for M in range(1, slots + 1):
        ends[M] += ends[M - 1]
    order, at = np.empty(n, np.int64), ends.copy()
    for r in range(n - 1, -1, -1):
        at[number[r]] -= 1
        order[at[number[r]]] = r
    return order, ends


@compile_kernel
def _unmix_together(M: int, p: Rows, T: Rows, rounds: int, q: Rows) -> None:
    """Write the truth `q` [M,TOGETHER] that, mixed by each row's own `T` [M,M + 1,TOGETHER], is
    near `p` [M + 1,TOGETHER]; the last of `p` is the bucket. Arrays may have room for more.

    The innermost loops are over rows, so that vector registers do many at a time.
    """
    mixed, gain = np.empty((M + 1, TOGETHER)), np.empty((M, TOGETHER))
    total, moved, busy = np.empty(TOGETHER), np.empty(TOGETHER), np.ones(TOGETHER)
    for t in range(M):
        for i in range(TOGETHER):
            q[t, i] = max(p[t, i], LEAST) / (1.0 - p[M, i])
    for _ in range(rounds):
        for c in range(M + 1):
            for i in range(TOGETHER):
                mixed[c, i] = q[0, i] * T[0, c, i]
            for t in range(1, M):
                for i in range(TOGETHER):
                    mixed[c, i] += q[t, i] * T[t, c, i]
            for i in range(TOGETHER):
                mixed[c, i] = p[c, i] / mixed[c, i]
        total[:], moved[:] = 0.0, 0.0
        for t in range(M):
            for i in range(TOGETHER):
                gain[t, i] = mixed[0, i] * T[t, 0, i]
            for c in range(1, M + 1):
                for i in range(TOGETHER):
                    gain[t, i] += mixed[c, i] * T[t, c, i]
            for i in range(TOGETHER):
                moved[i] += q[t, i] * abs(gain[t, i] - 1.0)
                total[i] += q[t, i] * gain[t, i]
        for t in range(M):
            for i in range(TOGETHER):
                q[t, i] = q[t, i] * gain[t, i] / total[i] if busy[i] else q[t, i]
        for i in range(TOGETHER):
            busy[i] = 0.0 if moved[i] < SETTLED else busy[i]
        if busy.sum() == 0:
            break


@compile_kernel
def judge(classes: Ints, truth: Rows, T: Matrix, wrong: Rows) -> None:
    """Write the probability that the label is wrong, given `truth` and T."""
    n, M = classes.shape
    flips = np.empty((M, 1))
    for r in range(n):
        _flips(classes[r], classes[r, :1], T, flips)
        total = 0.0
        for t in range(1, M):
            total += truth[r, t] * flips[t, 0]
        right = truth[r, 0] * flips[0, 0]
        wrong[r] = total / max(total + right, LEAST)


@compile_kernel
def _even_step(p: float, flip: float) -> int:
    """The step of a class's probability over how often the guess is given as that class."""
    return step_of(np.log(max(p, LEAST)) - np.log(max(flip, LEAST)))


@compile_kernel
def _guess(p: Rows) -> int:
    """The slot of the most probable candidate: the given class, or else the first of the others,
    which are in order."""
    return 1 if p.size > 1 and p[1] > p[0] else 0


@compile_kernel
def count_even(
    classes: Ints, probs: Rows, others: int, T: Matrix, unit: float, labels: Ints, expected: Ints
) -> None:
    """Of classes that are not the guess, add how many are labels and how many T lets expect, the
    latter in so many units each, to [STEPS]. The bucket counts as so many `others` that are alike.
    """
    n, M = classes.shape
    flips = np.empty((1, M))
    for r in range(n):
        guess = _guess(probs[r])
        _flips(classes[r, guess : guess + 1], classes[r], T, flips)
        rest = spread = 1.0
        for c in range(M):
            p, flip = probs[r, c], flips[0, c]
            rest -= p
            spread -= flip
            if c != guess:
                at = _even_step(p, flip)
                expected[at] += np.int64(np.rint(flip * unit))
                labels[at] += c == 0
        if others > 0:
            spread = max(spread, 0.0)
            at = _even_step(rest / others, spread / others)
            expected[at] += np.int64(np.rint(spread * unit))


@compile_kernel
def read_even(classes: Ints, probs: Rows, T: Matrix, shares: Rows, wrong: Rows) -> None:
    """Write the share [STEPS] of each label that is not the guess; leave the others."""
    flips = np.empty((1, 1))
    for r in range(classes.shape[0]):
        guess = _guess(probs[r])
        if guess > 0:
            _flips(classes[r, guess : guess + 1], classes[r, :1], T, flips)
            wrong[r] = shares[_even_step(probs[r, 0], flips[0, 0])]
