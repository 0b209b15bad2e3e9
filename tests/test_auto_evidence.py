"""What `auto` counts and fits, beside plain NumPy and other people's code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from sklearn.isotonic import IsotonicRegression

from uqled.detect.auto import evidence as auto_evidence
from uqled.detect.auto import kernels as auto_kernels
from uqled.detect.auto import readings as auto
from uqled.detect.auto.evidence import Candidates, Transition
from uqled.detect.auto.levels import UNITS
from uqled.detect.core.joint import PairCounts
from uqled.engines.local import Threads


def distributions(rng, *shape):
    return rng.dirichlet(np.full(shape[-1], 0.4), shape[:-1])


def candidates_of(probs, labels, M):
    classes = np.empty((len(probs), M), np.int32)
    found = np.empty((len(probs), M), np.float32)
    auto_kernels.candidates(probs, labels.astype(np.int32), classes, found)
    return Candidates(classes, found, probs.shape[1])


def dense(transition, K):
    """[K,K] true x given."""
    T = np.repeat(transition.base[:, None], K, axis=1)
    for t in range(K):
        some = slice(transition.start[t], transition.start[t + 1])
        T[t, transition.columns[some]] += transition.extra[some]
        T[t, t] = transition.stay[t]
    return T


def test_candidates_are_the_given_class_and_the_most_probable_others():
    rng = np.random.default_rng(0)
    probs = np.round(distributions(rng, 300, 12), 2)  # with ties
    labels = rng.integers(0, 12, 300)
    found = candidates_of(probs, labels, 5)
    for r in range(300):
        order = [j for j in np.argsort(-probs[r], kind="stable") if j != labels[r]]
        assert found.classes[r].tolist() == [labels[r], *order[:4]]
    assert found.probs == pytest.approx(np.take_along_axis(probs, found.classes, axis=1))
    assert found.others == 7


def transition_of(counts):
    """From an array given x true."""
    given, true = np.nonzero(counts)
    pairs = PairCounts(len(counts), given, true, counts[given, true])
    return Transition.of_counts(pairs)


def test_a_transition_matrix_of_flips_with_favourites_is_its_counts():
    """Or nearly: of one sample of the mean, and of one pair of flips, nothing is known."""
    counts = np.array([[50, 0, 3], [5, 20, 0], [0, 0, 0]])  # given x true
    T = dense(transition_of(counts), 3)
    share, met = 8 / 78, (26 + 0.5) / (26 + 1)  # 5 * 4 + 3 * 2 pairs of flips, all met
    even, rate = max((1 - met) / (met - 1 / 2), share), (5 + share) / 56
    row = [1 - rate, rate * (5 + even / 2) / (5 + even), rate * even / 2 / (5 + even)]
    assert T[0] == pytest.approx(row)
    assert T.sum(axis=1) == pytest.approx(1)
    half = dense(transition_of(counts).scaled(0.5), 3)
    assert np.diag(half) == pytest.approx(1 - (1 - np.diag(T)) / 2)
    never = dense(transition_of(np.diag([5, 5, 0])), 3)
    assert never == pytest.approx(np.eye(3))


def test_flips_that_go_anywhere_are_spread_evenly():
    rng = np.random.default_rng(31)
    counts = 200 * np.eye(6, dtype=int)
    for t in range(6):  # each class to any other, but twice as often to the next
        others = [k for k in range(6) if k != t] + [(t + 1) % 6]
        np.add.at(counts[:, t], rng.choice(others, 12), 1)
    T = dense(transition_of(counts), 6)
    same = pairs = 0
    for t in range(6):
        to = [k for k in range(6) if k != t for _ in range(counts[k, t])]
        for i in range(len(to)):
            for j in range(len(to)):
                pairs += i != j
                same += i != j and to[i] == to[j]
    met = (same + 0.5) / (pairs + 1)
    even = (1 - met) / (met - 1 / 5)
    share = 72 / 1272
    for t in range(6):
        rate = (12 + share) / 213
        assert T[t, t] == pytest.approx(1 - rate)
        for k in range(6):
            if k != t:
                assert T[t, k] == pytest.approx(rate * (counts[k, t] + even / 5) / (12 + even))
    # Of few flips little is known, whatever they are.
    for to in ([(1, 0), (2, 0)], [(1, 0), (1, 0)], [(1, 0), (2, 1)]):
        counts = 20 * np.eye(10, dtype=int)
        for given, true in to:
            counts[given, true] += 1
        T = dense(transition_of(counts), 10)
        assert 1.5 * T[0, 5] < T[0, 1] < 100 * T[0, 5]
    uniform = np.full((6, 6), 20) + 100 * np.eye(6, dtype=int)
    T = dense(transition_of(uniform), 6)
    off = T[~np.eye(6, dtype=bool)]
    assert off == pytest.approx(off[0], rel=1e-4)


@pytest.mark.parametrize("K", [2, 4, 9])
def test_unmixing_finds_what_was_mixed(K):
    """Where all classes are candidates, against the plain iteration; many rounds find the truth."""
    rng = np.random.default_rng(K)
    C = rng.integers(0, 20, (K, K)) + 60 * np.eye(K, dtype=int)
    given, true = np.nonzero(C)
    transition = Transition.of_counts(PairCounts(K, given, true, C[given, true]))
    T = dense(transition, K)
    truth = 0.05 / K + 0.95 * distributions(rng, 200, K)
    probs = truth @ T
    labels = rng.integers(0, K, 200)
    found = candidates_of(probs, labels, K)
    mixed = np.take_along_axis(probs, found.classes, axis=1)
    q, wrong = np.empty((200, K)), np.empty(200)
    auto_kernels.unmix(found.classes, mixed, transition.parts, 12, q, wrong)
    plain, busy = probs.copy(), np.ones(200, np.bool_)
    for _ in range(12):
        gain = (probs / (plain @ T)) @ T.T
        moved = (plain * np.abs(gain - 1)).sum(axis=1)
        plain[busy] *= gain[busy]
        busy &= moved >= auto_kernels.SETTLED
    assert q == pytest.approx(np.take_along_axis(plain, found.classes, axis=1), abs=1e-9)
    post = plain * T[:, labels].T
    right = post[np.arange(200), labels] / post.sum(axis=1)
    assert wrong == pytest.approx(1 - right, abs=1e-9)
    auto_kernels.unmix(found.classes, mixed, transition.parts, 4000, q, wrong)
    assert q == pytest.approx(np.take_along_axis(truth, found.classes, axis=1), abs=0.05)


def plain_unmix(classes, probs, T, rounds):
    """(truth, wrong) of one row."""
    M = len(probs)
    while M > 1 and probs[M - 1] < auto_kernels.NEGLIGIBLE:
        M -= 1
    flips = T[np.ix_(classes[:M], classes[:M])]
    flips = np.column_stack([flips, np.maximum(1 - flips.sum(axis=1), auto_kernels.LEAST)])
    p = np.append(probs[:M], max(1 - probs[:M].sum(), auto_kernels.LEAST))
    q = np.maximum(p[:M], auto_kernels.LEAST) / (1 - p[M])
    for _ in range(rounds):
        gain = flips @ (p / (q @ flips))
        moved = (q * np.abs(gain - 1)).sum()
        q = q * gain / (q * gain).sum()
        if moved < auto_kernels.SETTLED:
            break
    post = q * flips[:, 0]
    return np.append(q, np.zeros(len(probs) - M)), post[1:].sum() / post.sum()


@pytest.mark.parametrize("table", [0, 1024])
@pytest.mark.parametrize("n", [1, 63, 200])
def test_rows_are_unmixed_and_mixed_together_as_each_alone(n, table, monkeypatch):
    """Also where some have many candidates that count, some few, and each its own classes."""
    monkeypatch.setattr(auto_evidence, "TABLE_CLASSES", table)
    rng = np.random.default_rng(n)
    transition = some_pairs(rng, 20)
    T = dense(transition, 20)
    probs = rng.dirichlet(np.full(20, 0.05), n)  # most next to 0
    probs[::3] = 0.02 + 0.6 * probs[::3]
    found = candidates_of(probs, rng.integers(0, 20, n), 9)
    rows = found.probs.astype(np.float64)
    truth, wrong, mixed = np.empty((n, 9)), np.empty(n), np.empty((n, 9))
    auto_kernels.unmix(found.classes, rows, transition.parts, 12, truth, wrong)
    auto_kernels.mix(found.classes, rows, transition.parts, 0.25, mixed)
    for r in range(n):
        q, w = plain_unmix(found.classes[r], rows[r], T, 12)
        assert truth[r] == pytest.approx(q, abs=1e-9)
        assert wrong[r] == pytest.approx(w, abs=1e-9)
        counts = np.where(rows[r] >= auto_kernels.NEGLIGIBLE, rows[r], 0)
        flips = T[np.ix_(found.classes[r], found.classes[r])]
        assert mixed[r] == pytest.approx(0.75 * rows[r] + 0.25 * counts @ flips)
    if n > 1:  # or all would be alike
        assert len(np.unique((truth > 0).sum(axis=1))) > 3


@pytest.mark.parametrize("n", [1, 15, 16, 17, 100])
def test_the_likelihood_of_mixed_labels_is_the_sum_of_logarithms(n):
    """Also of labels that are impossible, all of them."""
    rng = np.random.default_rng(n)
    probs, flips = distributions(rng, n, 4), rng.random((n, 4))
    shares = np.array([0.0, 0.25, 1.0])
    for scale in (1.0, 0.0):
        given, fits = scale * probs, np.zeros(3)
        auto_kernels.mixed_fit(given, flips, shares, fits)
        counts = np.where(given >= auto_kernels.NEGLIGIBLE, given, 0)
        mixed = (counts * flips).sum(axis=1)
        each = [(1 - s) * given[:, 0] + s * mixed for s in shares]
        expected = np.log(np.maximum(each, auto_kernels.LEAST)).sum(axis=1)
        assert fits == pytest.approx(expected)


def test_the_power_is_that_of_the_greatest_likelihood():
    rng = np.random.default_rng(3)
    probs = distributions(rng, 4000, 6)
    flat = probs**0.6
    flat /= flat.sum(axis=1, keepdims=True)
    labels = (flat.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1).clip(0, 5)
    fit, power = auto.calibrated_to_labels(candidates_of(probs, labels, 6))

    def loss(b):
        logs = b * np.log(np.maximum(probs, 1e-12))
        return -(logs[np.arange(4000), labels] - np.log(np.exp(logs).sum(axis=1))).sum()

    best = optimize.minimize_scalar(loss, bounds=(0.1, 4), method="bounded")
    assert power == pytest.approx(best.x, abs=1e-4)
    assert fit == pytest.approx(-best.fun, rel=1e-5)


def test_vote_shares_are_the_isotonic_regression():
    rng = np.random.default_rng(4)
    seen = rng.integers(0, 300, auto_kernels.STEPS)
    votes = rng.binomial(seen, np.linspace(0, 1, len(seen)) ** 3)
    found = auto_evidence.vote_shares(votes, seen, 10)
    values = (votes + 0.05) / (seen + 0.5)
    steps = np.arange(len(seen))
    expected = IsotonicRegression().fit(steps, values, seen + 0.5).predict(steps)
    assert found == pytest.approx(expected, abs=1e-12)


def test_mixing_is_a_matrix_product_and_the_labels_tell_its_share():
    """Probabilities of the truth and labels mixed by T: all of the mixing is still to be done."""
    rng = np.random.default_rng(11)
    K, N = 5, 8000
    C = np.full((K, K), 25) + 400 * np.eye(K, dtype=int)
    given, true = np.nonzero(C)
    transition = Transition.of_counts(PairCounts(K, given, true, C[given, true]))
    T = dense(transition, K)
    truth = distributions(rng, N, K)

    def drawn(rows):
        return (rows.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)

    labels = drawn(truth @ T)
    found = candidates_of(truth, labels, K)
    out = np.empty((N, K))
    auto_kernels.mix(found.classes, found.probs, transition.parts, 0.25, out)
    expected = np.take_along_axis(0.75 * truth + 0.25 * truth @ T, found.classes, axis=1)
    assert out == pytest.approx(expected, abs=2e-3)  # negligible classes are not mixed
    [(power, share)] = auto.calibrated_with_mixing(found, transition, Threads(1))
    assert share == 1
    assert power == pytest.approx(1, abs=0.15)
    learnt = candidates_of(truth @ T, labels, K)
    [(power, share)] = auto.calibrated_with_mixing(learnt, transition, Threads(1))
    assert share <= 0.25
    assert power == pytest.approx(1, abs=0.2)


def test_a_scaled_matrix_is_fitted_like_its_scale():
    """One fit for several scales is what each matrix alone would get."""
    rng = np.random.default_rng(13)
    probs = distributions(rng, 3000, 6)
    C = rng.integers(1, 40, (6, 6)) + 200 * np.eye(6, dtype=int)
    given, true = np.nonzero(C)
    transition = Transition.of_counts(PairCounts(6, given, true, C[given, true]))
    mixed = (0.6 * probs + 0.4 * probs @ dense(transition, 6)).cumsum(axis=1)
    labels = (mixed < rng.random((3000, 1))).sum(axis=1).clip(0, 5)
    found = candidates_of(probs, labels, 6)
    with Threads(2) as threads:
        together = auto.calibrated_with_mixing(found, transition, threads, (1.0, 0.4))
    alone = [
        auto.calibrated_with_mixing(found, transition.scaled(s), Threads(1))[0] for s in (1.0, 0.4)
    ]
    assert together == alone
    assert together[0] != together[1]


@pytest.mark.parametrize("K", [3, 12])
def test_a_matrix_in_full_and_in_parts_are_the_same(K, monkeypatch):
    rng = np.random.default_rng(K)
    C = rng.integers(0, 4, (K, K)) + 30 * np.eye(K, dtype=int)
    given, true = np.nonzero(C)
    counts = PairCounts(K, given, true, C[given, true])
    full = Transition.of_counts(counts)
    assert full.parts[-1] == pytest.approx(dense(full, K))
    monkeypatch.setattr(auto_evidence, "TABLE_CLASSES", 0)
    parts = Transition.of_counts(counts)
    assert parts.parts[-1].size == 0
    probs = distributions(rng, 100, K)
    found = candidates_of(probs, rng.integers(0, K, 100), min(K, 9))
    wrong = np.empty((2, 100))
    for row, transition in zip(wrong, (full, parts), strict=True):
        auto_kernels.judge(found.classes, found.probs, transition.parts, row)
    assert wrong[0] == pytest.approx(wrong[1])


def plain_surest(probs, labels, stay):
    """(share, level), sample by sample."""
    rows = []
    for row, label in zip(probs, labels, strict=True):
        guess = int(np.argmax(row))
        second = max(np.delete(row, guess))
        rows.append((-row[guess] / second, len(rows), guess != label, 1 - stay[guess]))
    rows.sort()
    n = max(len(rows) // 10, 100)

    def share(some, more):
        return (sum(r[2] for r in some) + more) / (sum(r[3] for r in some) + 0.5)

    level = share(rows[:n], 0) / share(rows[n : 2 * n], 0.5)
    return min(1, share(rows[:n], 0.5)), min(1, level)


@pytest.mark.parametrize("N", [600, 3000])
def test_the_surest_beside_the_next_surest(N):
    rng = np.random.default_rng(N)
    probs = distributions(rng, N, 5).astype(np.float32).astype(np.float64)
    labels = np.where(rng.random(N) < 0.3, rng.integers(0, 5, N), probs.argmax(axis=1))
    pairs = PairCounts(5, labels, probs.argmax(axis=1), np.ones(N))
    transition = Transition.of_counts(pairs)
    found = auto_evidence.Surest.of(candidates_of(probs, labels, 5), transition)
    share, level = plain_surest(probs, labels, transition.stay)
    assert found.share == pytest.approx(share)
    assert found.level == pytest.approx(level)


def plain_even(probs, labels, T):
    """Labels and expected labels by step, class by class: none is left out, all are candidates."""
    counted, expected = np.zeros((2, auto_kernels.STEPS))
    for row, label in zip(probs, labels, strict=True):
        guess = int(np.argmax(row))
        for k in range(len(row)):
            if k != guess:
                step = np.floor(4 * (np.log(row[k]) - np.log(T[guess, k]))) + 37
                step = int(np.clip(step, 0, auto_kernels.STEPS - 1))
                counted[step] += k == label
                expected[step] += T[guess, k]
    return counted, expected


def some_pairs(rng, K):
    C = rng.integers(0, 9, (K, K)) + 80 * np.eye(K, dtype=int)
    given, true = np.nonzero(C)
    return Transition.of_counts(PairCounts(K, given, true, C[given, true]))


def test_labels_are_counted_beside_those_that_a_matrix_lets_expect():
    rng = np.random.default_rng(21)
    transition = some_pairs(rng, 6)
    probs = 0.001 + 0.994 * distributions(rng, 500, 6)
    labels = rng.integers(0, 6, 500)
    found = auto_evidence.EvenCounts.of(candidates_of(probs, labels, 6), 1.0, transition)
    counted, expected = plain_even(probs, labels, dense(transition, 6))
    # A probability that is kept in single precision may be on the other side of a step.
    assert np.abs(found.labels - counted).sum() <= 2
    assert np.abs(found.expected / UNITS - expected).sum() < 0.5
    assert found.labels.sum() == (probs.argmax(axis=1) != labels).sum()
    halves = [
        auto_evidence.EvenCounts.of(candidates_of(p, y, 6), 1.0, transition)
        for p, y in ((probs[:200], labels[:200]), (probs[200:], labels[200:]))
    ]
    together = halves[0].merge_with(halves[1])
    assert (together.labels == found.labels).all()
    assert (together.expected == found.expected).all()
    assert together.samples == found.samples == 500


def test_classes_that_are_no_candidates_are_expected_too():
    rng = np.random.default_rng(22)
    transition, probs = some_pairs(rng, 12), distributions(rng, 300, 12)
    labels = rng.integers(0, 12, 300)
    few, every = (
        auto_evidence.EvenCounts.of(candidates_of(probs, labels, M), 1.0, transition)
        for M in (4, 12)
    )
    assert few.expected.sum() == pytest.approx(every.expected.sum(), rel=1e-6)
    assert few.labels.sum() == every.labels.sum()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_few_candidates_of_many_classes_show_nearly_what_all_show(noise):
    """Labels that are no candidate's are less probable than the mean of those is."""
    rng = np.random.default_rng(24)
    N, K = 20_000, 40
    truth = rng.dirichlet(np.full(K, 0.03), N)
    true = (truth.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, K - 1)
    labels = np.where(rng.random(N) < noise, (true + 1) % K, true)
    probs = (1 - noise) * truth + noise * np.roll(truth, 1, axis=1)
    counts = (K * np.eye(K) * 100 * (1 - noise)).astype(int)
    counts[(np.arange(K) + 1) % K, np.arange(K)] = K * 100 * noise
    transition = transition_of(counts)
    few, every = (
        auto_evidence.Even.counted(
            auto_evidence.EvenCounts.of(candidates_of(probs, labels, M), 1.0, transition)
        )
        for M in (9, K)
    )
    assert few.differ == every.differ == np.mean(probs.argmax(axis=1) != labels)
    assert few.share == pytest.approx(every.share, abs=0.03)


def test_the_even_part_is_a_level_over_an_isotonic_regression():
    rng = np.random.default_rng(23)
    expected = rng.random(auto_kernels.STEPS) * 40
    ratio = np.concatenate([np.full(40, 0.9), np.linspace(0.9, 30, auto_kernels.STEPS - 40)])
    labels = rng.poisson(expected * ratio)
    units = np.rint(expected * UNITS).astype(np.int64)
    N = 2 * int(labels.sum())
    found = auto_evidence.Even.counted(auto_evidence.EvenCounts(labels, units, N))
    steps = np.arange(len(labels))
    fitted = IsotonicRegression().fit(steps, labels / expected, expected).predict(steps)
    half = np.searchsorted(np.cumsum(expected), expected.sum() / 2)
    level = fitted[:half] @ expected[:half] / expected[:half].sum()
    assert found.differ == 0.5
    assert found.wrong == pytest.approx(np.minimum(1, level / fitted), abs=0.02)
    assert found.share == pytest.approx(found.wrong @ labels / labels.sum())
    none = auto_evidence.EvenCounts(np.zeros_like(labels), np.zeros_like(units), 5)
    assert auto_evidence.Even.counted(none).share == 0


def test_votes_are_counted_by_what_the_other_passes_think():
    rng = np.random.default_rng(6)
    F, N, K = 3, 50, 4
    passes = distributions(rng, F, N, K)
    labels = rng.integers(0, K, N)
    found = candidates_of(passes.mean(axis=0), labels, K)
    votes, seen = (np.zeros(auto_kernels.STEPS, np.int64) for _ in range(2))
    auto_kernels.count_votes(passes.reshape(-1, K), 0, N, F, found.classes, votes, seen)
    expected_votes, expected_seen = np.zeros_like(votes), np.zeros_like(seen)
    for f in range(F):
        rest = passes[np.arange(F) != f].mean(axis=0)
        for r in range(N):
            for k in range(K):
                odds = np.log(rest[r, k] / np.delete(rest[r], k).max())
                step = int(np.clip(np.floor(4 * odds) + 37, 0, auto_kernels.STEPS - 1))
                expected_seen[step] += 1
                expected_votes[step] += passes[f, r].argmax() == k
    assert (seen == expected_seen).all()
    assert (votes == expected_votes).all()
