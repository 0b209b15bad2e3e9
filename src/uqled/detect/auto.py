"""How probable it is that each label is wrong: several readings of the same predictions.

A model that was trained on wrong labels predicts the labels, not the truth. Where it is not sure of
a label there are two explanations: people labelled such samples now one way, now another (noise),
or the model cannot tell (its own error). Predictions and labels alone do not tell them apart, so
this makes several readings of them, from one that trusts the model little to one that trusts it
much, and takes their mean. Where they agree, the answer is sure; where not, the spread says so.

One thing the data do show. Noise that depends on the class only is everywhere: however sure the
model, as many labels differ from its guess. Where the surest samples differ less and less, it is
the hard ones that differ, by noise or by the model's own error. So the two extreme readings share
their weight by how level the rate of differing is among the surest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.detect import auto_kernels as kernels
from uqled.detect.joint import PairCounter, PairCounts
from uqled.detect.probability import ErrorEstimate
from uqled.detect.sweeps import Joints, Member, Sweeps
from uqled.engines.local import Threads

Floats = NDArray[np.float64]
Ints32 = NDArray[np.int32]
PlainSource = Literal["softmax", "mean"]

#: Candidates beside the given class. With few classes these are all of them; with many, the ninth
#: most probable class has no influence worth its time.
OTHERS = 8
#: Rounds of expectation maximisation: more change no probability by a hundredth.
ROUNDS = 12
POWER_STEPS = 8
#: Shares of mixing that are tried, and rows that power and share are fitted to.
MIXED, FIT_ROWS = (0.0, 0.25, 0.5, 0.75, 1.0), 20_000
ROWS = 2**14
#: Classes up to which a transition matrix is kept in full: half a megabyte stays in the cache.
TABLE_CLASSES = 256
#: Sets of samples, those of the highest log-odds, in which a model has hardly any errors of its own
#: (a weak model only in the smallest of them); and so many at the least, which are enough to count
#: in: up to a thousand samples, all sets are the same.
SUREST, SUREST_SAMPLES = (0.01, 0.02, 0.05, 0.1), 100


@dataclass(frozen=True)
class Candidates:
    """The few classes of each sample that matter, the given one first."""

    classes: Ints32
    """[N,M]"""
    probs: NDArray[np.float32]
    """[N,M]"""
    n_classes: int

    @property
    def others(self) -> int:
        """Number of classes that are no candidates."""
        return self.n_classes - int(self.classes.shape[1])

    @property
    def some(self) -> slice:
        """Rows, evenly spread, that are enough to fit two numbers to."""
        return slice(None, None, fit_step(len(self.classes)))

    def rows(self, some: slice) -> Candidates:
        """Those of some samples."""
        return Candidates(self.classes[some], self.probs[some], self.n_classes)

    def followed_by(self, other: Candidates) -> Candidates:
        """With those of other samples behind them."""
        classes = np.concatenate([self.classes, other.classes])
        return Candidates(classes, np.concatenate([self.probs, other.probs]), self.n_classes)


def fit_step(N: int) -> int:
    """Every so many-th of N samples is fitted to."""
    return max(1, N // FIT_ROWS)


@dataclass(frozen=True)
class Transition:
    """How often a true class is given as another, sparse."""

    start: NDArray[np.int64]
    columns: NDArray[np.int64]
    extra: Floats
    base: Floats
    stay: Floats

    @classmethod
    def of_counts(cls, counts: PairCounts) -> Transition:
        """From counts (given, true). Each row is its own counts and one sample that is spread as
        the mean of all rows: a class of a few samples says little about its rates."""
        K = counts.n_classes
        total = np.bincount(counts.true, counts.counts, K)
        off = counts.given != counts.true
        share = float(counts.counts[off].sum() / max(total.sum(), 1))
        order = np.lexsort((counts.given[off], counts.true[off]))
        rows, columns = counts.true[off][order], counts.given[off][order]
        right = np.bincount(counts.true[~off], counts.counts[~off], K)
        return cls(
            start=np.searchsorted(rows, np.arange(K + 1)).astype(np.int64),
            columns=columns.astype(np.int64),
            extra=counts.counts[off][order] / (total[rows] + 1),
            base=share / max(K - 1, 1) / (total + 1),
            stay=(right + 1 - share) / (total + 1),
        )

    def scaled(self, share: float | Floats) -> Transition:
        """The same with only a share of the flips, of all classes or of each [K]."""
        each = np.broadcast_to(np.asarray(share, np.float64), self.stay.shape)
        extra = self.extra * np.repeat(each, np.diff(self.start))
        stay = 1 - each * (1 - self.stay)
        return Transition(self.start, self.columns, extra, self.base * each, stay)

    def capped(self, rate: float) -> Transition:
        """The same, where no class is flipped more often than at this rate."""
        return self.scaled(np.minimum(1.0, rate / np.maximum(1 - self.stay, 1e-12)))

    @cached_property
    def parts(self) -> kernels.Matrix:
        """As the kernels take it: with the same in full, where that is small enough to be fast."""
        K = len(self.stay)
        table = np.empty((0, 0))
        if K <= TABLE_CLASSES:
            table = np.repeat(self.base[:, None], K, axis=1)
            rows = np.repeat(np.arange(K), np.diff(self.start))
            table[rows, self.columns] += self.extra
            np.fill_diagonal(table, self.stay)
        return self.start, self.columns, self.extra, self.base, self.stay, table


def calibrated_to_labels(found: Candidates) -> tuple[float, float]:
    """Log-likelihood of the labels, and the power of the probabilities that makes it the most.

    Newton's steps on a concave function, none further than a factor of 2.
    """
    probs, power, sums = found.probs[found.some], 1.0, np.zeros(3)
    for step in range(POWER_STEPS + 1):
        sums[:] = 0
        kernels.power_sums(probs, found.others, power, sums)
        if step < POWER_STEPS:
            change = sums[1] / max(sums[2], 1e-9 * len(probs))
            power = float(np.clip(power + change, power / 2, power * 2))
            power = min(max(power, 1 / 16), 16.0)
    return float(sums[0]), power


def calibrated_with_mixing(
    found: Candidates, transition: Transition, scales: Sequence[float] = (1.0,)
) -> list[tuple[float, float]]:
    """Per scale of T's flips, the (power, share) that make the labels most likely, if a share of
    them is mixed by T so scaled.

    A model trained on these labels has learnt their mixing, one trained on better labels has not,
    and most have in part. The labels tell.
    """
    classes, raw = found.classes[found.some], found.probs[found.some]
    out = np.empty(raw.shape)
    # To mix a share by a scaled T is to mix a smaller share by T.
    shares = np.outer(scales, MIXED)

    def fits(power: float) -> Floats:
        kernels.powered(raw, found.others, power, out)
        sums = np.zeros(shares.size)
        kernels.mixed_fit(classes, out, transition.parts, shares.ravel(), sums)
        return sums.reshape(shares.shape)

    powers = 2.0 ** np.arange(-3, 3.1, 0.5)
    every = np.array([fits(power) for power in powers])  # [powers,scales,shares]
    best = []
    for k in range(len(scales)):
        at, share = np.unravel_index(int(every[:, k].argmax()), every[:, k].shape)
        finer = powers[at] * 2.0 ** np.arange(-0.375, 0.4, 0.125)
        power = finer[int(np.argmax([fits(power)[k, share] for power in finer]))]
        best.append((float(power), MIXED[share]))
    return best


def vote_shares(votes: NDArray[np.int64], seen: NDArray[np.int64], K: int) -> Floats:
    """[STEPS] how often a pass chooses a class that the other passes give such log-odds.

    Rises with the log-odds (pooled where the counts do not), and half a vote was seen for all.
    """
    values = (votes + 0.5 / K) / (seen + 0.5)
    weights = seen + 0.5
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (v, w, n), (x, u, m) = pools[-2], pools[-1]
            pools[-2:] = [((v * w + x * u) / (w + u), w + u, n + m)]
    return np.concatenate([np.full(n, v) for v, _, n in pools])


@dataclass(frozen=True)
class Surest:
    """What the samples that the model is surest of say about the noise."""

    share: float
    """Their labels that are not the guess, over those that a transition matrix lets expect."""
    level: float
    """The same over that of the next surest: 1 if the rate is level, 0 if it falls to nothing."""
    least: float
    """The lowest share of labels that are not the guess, and its standard error, in any set."""

    @classmethod
    def of(cls, found: Candidates, transition: Transition) -> Surest:
        return cls.counted(SurestCounts.of_all(found), transition)

    @classmethod
    def counted(cls, counts: SurestCounts, transition: Transition) -> Surest:
        *_, guessed, more_guessed = counts.guessed
        *_, differ, more_differ = counts.differ.tolist()

        def share(differ: float, guessed: NDArray[np.int64]) -> float:
            return differ / (float(guessed @ (1 - transition.stay)) + 0.5)

        own, beside = share(differ + 0.5, guessed), more_differ - differ + 0.5
        # Where none of the surest differs, there is nothing that could be level.
        level = share(differ, guessed) / share(beside, more_guessed - guessed)
        sizes = counts.guessed[:-1].sum(axis=1) + 0.5
        each = np.minimum((counts.differ[:-1] + 0.5) / sizes, 1.0)
        # Of a small set, a low rate may be chance.
        each = each + np.sqrt(each * (1 - each) / sizes)
        return cls(min(1.0, own), min(1.0, level), float(each.min()))


@dataclass(frozen=True)
class SurestCounts:
    """Of each set of the surest, and of twice the largest; adds up over parts of the samples."""

    guessed: NDArray[np.int64]
    """[sets + 1,K] by the most probable class."""
    differ: NDArray[np.int64]
    """[sets + 1] whose label is another."""

    @classmethod
    def of_all(cls, found: Candidates) -> SurestCounts:
        sure, differs, guess = sureness(found)
        rank = np.empty(len(sure), np.int64)
        rank[np.argsort(-sure, kind="stable")] = np.arange(len(sure))
        masks = [rank < n for n in surest_numbers(len(sure))]
        return cls.of(differs, guess, masks, found.n_classes)

    @classmethod
    def of(
        cls, differs: NDArray[np.bool_], guess: Ints32, masks: Sequence[NDArray[np.bool_]], K: int
    ) -> SurestCounts:
        """From [N] masks of the sets."""
        return cls(
            np.array([np.bincount(guess[some], minlength=K) for some in masks]),
            np.array([np.count_nonzero(differs[some]) for some in masks]),
        )

    def merged(self, other: SurestCounts) -> SurestCounts:
        return SurestCounts(self.guessed + other.guessed, self.differ + other.differ)


def sureness(found: Candidates) -> tuple[NDArray[Any], NDArray[np.bool_], Ints32]:
    """[N] how much more probable the most probable class is than the next, whether it is another
    than the given one, and which it is."""
    own, other = found.probs[:, 0], found.probs[:, 1]
    third = found.probs[:, 2] if found.probs.shape[1] > 2 else np.zeros_like(own)
    differs = own < other
    second = np.where(differs, np.maximum(own, third), other)
    sure = np.maximum(own, other) / np.maximum(second, np.float32(kernels.LEAST))
    return sure, differs, np.where(differs, found.classes[:, 1], found.classes[:, 0])


def surest_numbers(N: int) -> list[int]:
    """How many of N samples are in each set of the surest, and in twice the largest."""
    sets = [min(max(int(share * N), SUREST_SAMPLES), N // 2) for share in SUREST]
    return [*sets, 2 * sets[-1]]


@dataclass(frozen=True)
class Found:
    """What `auto` found."""

    estimate: ErrorEstimate
    source: PlainSource
    """Whose probabilities predict the labels better."""
    other: Ints32
    """[N] the most probable class beside the given one."""


def error_probabilities(sweeps: Sweeps, joints: Joints) -> Found:
    """One more sweep, after that of the confident joint, whose counts are calibrated already."""
    candidates, votes = candidates_of(sweeps)
    source, power = better_source(candidates)
    guessed = PairCounter(sweeps.K)
    guessed.add(sweeps.inputs.labels.codes, joints.best[source])
    found = candidates[source]
    reader = Reader.of_counts(
        found, source, power, joints.pairs[Member(source)], guessed.pairs(),
        SurestCounts.of_all(found), votes,
    )  # fmt: skip
    estimate = reader.estimate(reader.readings(found, candidates.get("mean"), sweeps.engine))
    return Found(estimate, source, found.classes[:, 1].copy())


def better_source(candidates: Mapping[PlainSource, Candidates]) -> tuple[PlainSource, float]:
    """Whose probabilities predict the labels better, and the power that calibrates them."""
    fits = {s: calibrated_to_labels(found) for s, found in candidates.items()}
    source = max(fits, key=lambda s: (fits[s][0], s == "mean"))
    return source, fits[source][1]


def weights(names: Iterable[str], level: float) -> dict[str, float]:
    """How much each reading counts in the mean: all the same, but for the two extremes, which share
    the weight of two, and `least`, which is for intervals only."""
    own = {"floor": 2 * level, "trusting": 2 * (1 - level), "least": 0.0}
    return {name: own.get(name, 1.0) for name in names}


def candidates_of(
    sweeps: Sweeps,
) -> tuple[dict[PlainSource, Candidates], NDArray[np.int64]]:
    """Each sample's candidates by source, and [2,STEPS] votes and how often they were asked for."""
    inputs, N, K = sweeps.inputs, sweeps.N, sweeps.K
    M, passes = min(OTHERS + 1, K), inputs.passes
    sources: list[PlainSource] = []
    sources += ["softmax"] if inputs.softmax is not None else []
    sources += ["mean"] if passes is not None else []
    found = {
        s: Candidates(np.empty((N, M), np.int32), np.empty((N, M), np.float32), K) for s in sources
    }

    def of_block(block: tuple[int, int]) -> NDArray[np.int64]:
        data, at = inputs.read(sources, *block), slice(*block)
        for s in sources:
            kernels.candidates(data.rows[s], data.labels, found[s].classes[at], found[s].probs[at])
        votes = np.zeros((2, kernels.STEPS), np.int64)
        if passes is not None and passes.n_passes > 1:
            b = data.passes
            kernels.count_votes(
                b.flat, b.first, b.step, passes.n_passes, found["mean"].classes[at], *votes
            )
        return votes

    votes = np.zeros((2, kernels.STEPS), np.int64)
    for _, some in sweeps._map("probabilities", of_block):
        votes += some
    return found, votes


@dataclass(frozen=True)
class Reader:
    """All that the readings of a sample need to know of the others.

    `few` is by the calibrated confident joint, which takes few of the model's own errors for noise,
    `many` by the counts of (given, most probable), which take all of them for noise.

    `confident`, `guessed`: the true class is what, mixed by `few` or by `many`, makes the predicted
    probabilities. With `few` it is also asked how much of the mixing the model has learnt.
    `half`: half way between `guessed` and a model that is always right.
    `votes`: the true class is what a pass that was left out says, given what the others say.
    `floor`: as `confident`, with no more noise than there is among the surest samples.
    `trusting`: the model is always right.
    `least`: as far below `floor` as `trusting` is above it, by factors; and of no class more noise
    than in the set of the surest where there is least.
    """

    source: PlainSource
    power: float
    """Calibrates the probabilities to the labels."""
    few: Transition
    many: Transition
    surest: Surest
    fits: tuple[tuple[float, float], ...]
    """(power, share of the mixing) for `few`, for the part of it that the surest show, and for no
    more than they show."""
    shares: Floats | None
    """[STEPS] vote shares, for the log-odds of the mean of the passes."""

    @classmethod
    def of_counts(
        cls,
        rows: Candidates,
        source: PlainSource,
        power: float,
        confident: PairCounts,
        guessed: PairCounts,
        surest: SurestCounts,
        votes: NDArray[np.int64],
    ) -> Reader:
        """From what was counted in all samples, and rows to fit to."""
        few = Transition.of_counts(confident)
        seen = Surest.counted(surest, few)
        fits = [
            *calibrated_with_mixing(rows, few, (1.0, seen.share)),
            *calibrated_with_mixing(rows, few.capped(seen.least)),
        ]
        shares = vote_shares(votes[0], votes[1], rows.n_classes) if votes.any() else None
        many = Transition.of_counts(guessed)
        return cls(source, power, few, many, seen, tuple(fits), shares)

    @cached_property
    def low(self) -> Transition:
        """`few` with as much noise as there is among the surest samples."""
        return self.few.scaled(self.surest.share)

    @cached_property
    def lowest(self) -> Transition:
        """`few` with no class noisier than the set of the surest where there is least noise."""
        return self.few.capped(self.surest.least)

    def estimate(self, found: Mapping[str, Floats]) -> ErrorEstimate:
        """From readings of some samples."""
        level = self.surest.level
        return ErrorEstimate(found, weights(found, level), dict.fromkeys(found, 1.0))

    def readings(
        self, found: Candidates, voters: Candidates | None, engine: Threads
    ) -> dict[str, Floats]:
        """[N] per reading: the probability that each label is wrong."""
        names = ["confident", "guessed", "half", "floor", "trusting", "least"]
        names += ["votes"] if self.shares is not None else []
        result = {name: np.empty(len(found.classes)) for name in names}
        for _ in engine.map(_read_block, _blocks(len(found.classes)), given=(
            self, found, voters, result
        )):  # fmt: skip
            pass
        return result


def _read_block(
    reader: Reader,
    found: Candidates,
    voters: Candidates | None,
    result: dict[str, Floats],
    at: slice,
) -> None:
    """Fill in the readings of a block of samples."""
    few, many, power, shares = reader.few, reader.many, reader.power, reader.shares
    classes, raw = found.classes[at], found.probs[at]
    probs, lead, truth = np.empty(raw.shape), np.empty(raw.shape), np.empty(raw.shape)
    wrong = {name: reading[at] for name, reading in result.items()}
    for name, matrix, (own_power, share) in zip(
        ("confident", "floor", "least"), (few, reader.low, reader.lowest), reader.fits, strict=True
    ):
        kernels.powered(raw, found.others, own_power, lead)
        kernels.mix(classes, lead, matrix.parts, share, probs)
        kernels.unmix(classes, probs, matrix.parts, ROUNDS, truth, wrong[name])
    np.minimum(wrong["least"], np.square(wrong["floor"]), out=wrong["least"])
    kernels.powered(raw, found.others, power, probs)
    kernels.leads_of_rows(probs, lead)
    kernels.unmix(classes, probs, many.parts, ROUNDS, truth, wrong["guessed"])
    wrong["trusting"][:] = np.where(lead[:, 0] < 0, 1.0, wrong["guessed"])
    truth *= 0.5
    truth[np.arange(len(truth)), probs.argmax(axis=1)] += 0.5
    kernels.judge(classes, truth, many.parts, wrong["half"])
    if shares is not None and voters is not None:
        kernels.leads_of_rows(voters.probs[at], lead)
        kernels.vote_truth(lead, shares, truth)
        kernels.judge(voters.classes[at], truth, many.parts, wrong["votes"])


def _blocks(N: int) -> list[slice]:
    """Rows in parts that do not depend on the threads, and so neither does the order of sums."""
    return [slice(start, min(start + ROWS, N)) for start in range(0, N, ROWS)]
