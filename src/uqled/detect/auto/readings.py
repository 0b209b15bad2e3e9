"""How probable it is that each label is wrong: several readings of the same predictions.

A model that was trained on wrong labels predicts the labels, not the truth. Where it is not sure of
a label there are two explanations: people labelled such samples now one way, now another (noise),
or the model cannot tell (its own error). Predictions and labels alone do not tell them apart, so
this makes several readings of them, from one that trusts the model little to one that trusts it
much, and takes their mean. Where they agree, the answer is sure; where not, the spread says so.

One thing the data do show. Noise that depends on the class only is everywhere: however sure the
model, as many labels differ from its guess. Where the surest samples differ less and less, it is
the hard ones that differ, by noise or by the model's own error. So the readings that need noise by
class, and the one that needs that there is none, count by how level the rate of differing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto import kernels
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.evidence import (
    Candidates,
    Even,
    EvenCounts,
    Floats,
    Logs,
    Surest,
    SurestCounts,
    Transition,
    blocks,
    vote_shares,
)
from uqled.detect.core.joint import PairCounter, PairCounts
from uqled.detect.core.sweeps import ConfidentJoints, Member, Sweeps
from uqled.engines.local import Threads

Ints32 = NDArray[np.int32]
PlainSource = Literal["softmax", "mean"]

#: Candidates beside the given class. With few classes these are all of them; with many, the ninth
#: most probable class has no influence worth its time.
OTHERS = 8
#: Rounds of expectation maximisation: more change no probability by a hundredth.
ROUNDS = 12
POWER_STEPS = 8
#: Shares of mixing that are tried.
MIXED = (0.0, 0.25, 0.5, 0.75, 1.0)


def calibrated_to_labels(found: Candidates) -> tuple[float, float]:
    """Log-likelihood of the labels, and the power of the probabilities that makes it the most.

    Newton's steps on a concave function, none further than a factor of 2.
    """
    logs, power, sums = found.rows(found.some).logs(), 1.0, np.zeros(3)
    for step in range(POWER_STEPS + 1):
        sums[:] = 0
        kernels.power_sums(logs.values, logs.others, power, sums)
        if step < POWER_STEPS:
            change = sums[1] / max(sums[2], 1e-9 * len(logs.values))
            power = float(np.clip(power + change, power / 2, power * 2))
            power = min(max(power, 1 / 16), 16.0)
    return float(sums[0]), power


def calibrated_with_mixing(
    found: Candidates, transition: Transition, engine: Threads, scales: Sequence[float] = (1.0,)
) -> list[tuple[float, float]]:
    """Per scale of T's flips, the (power, share) that make the labels most likely, if a share of
    them is mixed by T so scaled.

    A model trained on these labels has learnt their mixing, one trained on better labels has not,
    and most have in part. The labels tell.
    """
    rows = found.rows(found.some)
    logs, flips = rows.logs(), np.empty(rows.classes.shape)
    kernels.flips_to_given(rows.classes, transition.parts, flips)
    # To mix a share by a scaled T is to mix a smaller share by T.
    shares = np.outer(scales, MIXED)
    given = logs, flips, shares.ravel()
    powers = 2.0 ** np.arange(-3, 3.1, 0.5)
    every = np.array(list(engine.map(_fits, powers, given=given)))  # [powers,scales x shares]
    best = []
    for k, fits in enumerate(every.reshape(len(powers), *shares.shape).swapaxes(0, 1)):
        at, share = np.unravel_index(int(fits.argmax()), fits.shape)
        finer = powers[at] * 2.0 ** np.arange(-0.375, 0.4, 0.125)
        again = np.array(list(engine.map(_fits, finer, given=(logs, flips, shares[k, [share]]))))
        best.append((float(finer[int(again.argmax())]), MIXED[share]))
    return best


def _fits(logs: Logs, flips: Floats, shares: Floats, power: float) -> Floats:
    """[shares] the log-likelihood of the labels."""
    sums = np.zeros(len(shares))
    kernels.mixed_fit(logs.to_power(power), flips, shares, sums)
    return sums


@dataclass(frozen=True)
class Found:
    """What `auto` found."""

    estimate: ErrorEstimate
    source: PlainSource
    """Whose probabilities predict the labels better."""
    other: Ints32
    """[N] the most probable class beside the given one."""


def error_probabilities(sweeps: Sweeps, joints: ConfidentJoints) -> Found:
    """One more sweep, after that of the confident joint, whose counts are calibrated already."""
    candidates, votes = candidates_of(sweeps)
    source, power = better_source(candidates)
    guessed = PairCounter(sweeps.K)
    guessed.add(sweeps.inputs.labels.codes, joints.predicted[source])
    found = candidates[source]
    few = Transition.of_counts(joints.pairs[Member(source)])
    engine = sweeps.engine
    even = EvenCounts.of_all(found, power, few, engine)
    reader = Reader.of_counts(
        found,
        source,
        power,
        few,
        guessed.get_joint(),
        SurestCounts.of_all(found),
        even,
        votes,
        engine,
    )
    estimate = reader.estimate(reader.readings(found, candidates.get("mean"), engine))
    return Found(estimate, source, found.classes[:, 1].copy())


def better_source(candidates: Mapping[PlainSource, Candidates]) -> tuple[PlainSource, float]:
    """Whose probabilities predict the labels better, and the power that calibrates them."""
    fits = {s: calibrated_to_labels(found) for s, found in candidates.items()}
    source = max(fits, key=lambda s: (fits[s][0], s == "mean"))
    return source, fits[source][1]


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
        data, at = inputs.read_block(sources, *block), slice(*block)
        for s in sources:
            kernels.candidates(data.rows[s], data.labels, found[s].classes[at], found[s].probs[at])
        votes = np.zeros((2, kernels.STEPS), np.int64)
        if passes is not None and passes.n_passes > 1:
            b = data.passes
            assert b is not None
            kernels.count_votes(
                b.flat, b.first, b.step, passes.n_passes, found["mean"].classes[at], *votes
            )
        return votes

    votes = np.zeros((2, kernels.STEPS), np.int64)
    for _, some in sweeps.map_blocks("probabilities", of_block):
        votes += some
    return found, votes


@dataclass(frozen=True)
class Reader:
    """All that the readings of a sample need to know of the others.

    `few` is by the calibrated confident joint, which takes few of the model's own errors for noise,
    `many` by the counts of (given, most probable), which take all of them for noise.

    `confident`, `guessed`: the true class is what, mixed by `few` or by `many`, makes the predicted
    probabilities. With `few` it is also asked how much of the mixing the model has learnt.
    `votes`: the true class is what a pass that was left out says, given what the others say.
    `floor`: as `confident`, with no more noise than there is among the surest samples.
    `trusting`: the model is always right.
    `even`: labels that the model finds improbable are noise, and of those that it finds probable as
    many as `few` then lets expect; the others are its doubt. Where it agrees with the label, as
    `floor`.
    `least`: as far below `floor` as `trusting` is above it, by factors; and of no class more noise
    than in the set of the surest where there is least.
    """

    source: PlainSource
    power: float
    """Calibrates the probabilities to the labels."""
    few: Transition
    many: Transition
    surest: Surest
    even: Even
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
        few: Transition,
        guessed: PairCounts,
        surest: SurestCounts,
        even: EvenCounts,
        votes: NDArray[np.int64],
        engine: Threads,
    ) -> Reader:
        """From what was counted in all samples, and rows to fit to."""
        seen = Surest.counted(surest, few)
        fits = [
            *calibrated_with_mixing(rows, few, engine, (1.0, seen.share)),
            *calibrated_with_mixing(rows, few.capped(seen.least), engine),
        ]
        shares = vote_shares(votes[0], votes[1], rows.n_classes) if votes.any() else None
        many = Transition.of_counts(guessed)
        return cls(source, power, few, many, seen, Even.counted(even), tuple(fits), shares)

    @cached_property
    def low(self) -> Transition:
        """`few` with as much noise as there is among the surest samples."""
        return self.few.scaled(self.surest.share)

    @cached_property
    def lowest(self) -> Transition:
        """`few` with no class noisier than the set of the surest where there is least noise."""
        return self.few.capped(self.surest.least)

    def weights(self, names: Iterable[str]) -> dict[str, float]:
        """How much each of these readings counts in the mean.

        All the same to begin with. `floor` and `even`, which need noise by class, and `trusting`,
        which needs that there is none, count by how level the rate of differing is. `least` counts
        the more, the more labels the model contradicts: labels are seldom worse than models. And
        where `even` takes most of those for errors, the model has few errors of its own: what other
        readings take for its doubt is unevenness, and `even`, which does not, takes over from them.
        """
        level, over = self.surest.level, max(0.0, 2 * self.even.share - 1)
        own = {
            "confident": 1 - over,
            "guessed": 1 - over,
            "floor": 2 * level * (1 - over),
            "even": 2 * level + over * (2 + 2 * level),
            "trusting": 2 * (1 - level),
            "least": 2 * self.even.differ * (1 - over),
        }
        return {name: own.get(name, 1.0) for name in names}

    def estimate(self, found: Mapping[str, Floats]) -> ErrorEstimate:
        """From readings of some samples."""
        return ErrorEstimate(found, self.weights(found), dict.fromkeys(found, 1.0))

    def readings(
        self, found: Candidates, voters: Candidates | None, engine: Threads
    ) -> dict[str, Floats]:
        """[N] per reading: the probability that each label is wrong."""
        names = ["confident", "guessed", "floor", "even", "trusting", "least"]
        names += ["votes"] if self.shares is not None else []
        result = {name: np.empty(len(found.classes)) for name in names}
        for _ in engine.map(_read_block, blocks(len(found.classes)), given=(
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
    rows = found.rows(at)
    classes, logs = rows.classes, rows.logs()
    probs, truth = np.empty(classes.shape), np.empty(classes.shape)
    wrong = {name: reading[at] for name, reading in result.items()}
    powered = {own: logs.to_power(own) for own in {own for own, _ in reader.fits}}
    for name, matrix, (own, share) in zip(
        ("confident", "floor", "least"), (few, reader.low, reader.lowest), reader.fits, strict=True
    ):
        kernels.mix(classes, powered[own], matrix.parts, share, probs)
        kernels.unmix(classes, probs, matrix.parts, ROUNDS, truth, wrong[name])
    np.minimum(wrong["least"], np.square(wrong["floor"]), out=wrong["least"])
    probs = logs.to_power(power)
    wrong["even"][:] = wrong["floor"]
    kernels.read_even(classes, probs, few.parts, reader.even.wrong, wrong["even"])
    kernels.unmix(classes, probs, many.parts, ROUNDS, truth, wrong["guessed"])
    differs = probs[:, 0] < probs[:, 1]
    wrong["trusting"][:] = np.where(differs, 1.0, wrong["guessed"])
    if shares is not None and voters is not None:
        lead = np.empty(classes.shape)
        kernels.leads_of_rows(voters.probs[at], lead)
        kernels.vote_truth(lead, shares, truth)
        kernels.judge(voters.classes[at], truth, many.parts, wrong["votes"])
