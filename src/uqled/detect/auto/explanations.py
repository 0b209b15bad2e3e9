"""The probability that each label is wrong.

A sample's label is y, and its most probable other class is t. Where labels are wrong independently
of the sample, by a rate that depends on t and y, Bayes' rule gives the odds that this one is wrong:

    rate(t -> y) x p_t / p_y

with the model's calibrated probabilities p. So there is one score for the ranking,

    score = log p_t - log p_y + log of how much more often t is mistaken for y than pairs are

and one unknown number: the rate, or how many labels are wrong in all. Predictions and labels do not
determine it, because a contradiction may be the model's own error. So several explanations of the
data each give a number, and thereby a probability for every label:

- `level`: noise is everywhere what it is where the model finds the label impossible.
- `confident`: what the confident joint counts off its diagonal is wrong.
- `members`: members and label err independently, but for how alike members of a kind are.
- `trusting`: the model is always right; it tells how large the number may be at most.
- `labels`: the labels are right. It is left out unless the model contradicts more than half of
  them: then it may be the model that is of no use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.evidence import (
    Alternatives,
    BandCounts,
    Calibration,
    Floats,
    Ints,
    Ints32,
    Quantiles,
    SampleRows,
    Structure,
    VoteCounts,
    choose_step,
)
from uqled.detect.core.inputs import PlainSource
from uqled.detect.core.joint import PairCounts
from uqled.detect.core.rows import view_as_keys
from uqled.detect.core.sweeps import ConfidentJoints, Member, Sweeps
from uqled.engines.local import Threads
from uqled.uncertainty import PassesKind

#: Beyond this score a label is certain. Scores above it grow slowly, so that the ranking continues
#: where probabilities would all be 1.
CERTAIN_SCORE = 12.0
#: Scores are counted in steps of 1/32, from -32 to 32, to find each explanation's rate.
STEPS_PER_UNIT, LARGEST = 32, 32.0
#: The least number of errors of an explanation: from none, nothing could be learnt.
LEAST_ERRORS = 0.5


@dataclass(frozen=True)
class AutoResult:
    """The result of `auto`."""

    estimate: ErrorEstimate
    source: PlainSource
    """The source whose probabilities predict the labels better."""
    other: Ints32
    """[N] the most probable class other than the label."""


def estimate_error_probabilities(
    sweeps: Sweeps, joints: ConfidentJoints, passes_kind: PassesKind | None = None
) -> AutoResult:
    """One more sweep, after that of the confident joint, whose counts are calibrated already."""
    scan = scan_alternatives(sweeps, choose_step(sweeps.N, sweeps.K), votes=joints.votes)
    source, calibration = choose_calibrated_source(scan.rows, sweeps.engine)
    alternatives, quantiles = scan.alternatives[source], Quantiles.of(scan.rows[source])
    bands = BandCounts.of(alternatives, quantiles)
    least = scan.rows[source].least_probability
    scorer = Scorer(calibration.power, least, Structure.of(bands, quantiles))
    scores = scorer.score(alternatives)
    numbers = explain(scorer, bands, joints.pairs[Member(source)], scan.votes, passes_kind)
    evenness = scorer.structure.evenness
    explanations = Explanations.of(numbers, count_scores(scores), evenness)
    return AutoResult(explanations.estimate(scores), source, alternatives.other)


@dataclass(frozen=True)
class Scan:
    """The result of the sweep; all but the columns per sample adds up over parts."""

    alternatives: Mapping[PlainSource, Alternatives]
    rows: Mapping[PlainSource, SampleRows]
    votes: VoteCounts | None
    """None without at least two passes."""


def scan_alternatives(
    sweeps: Sweeps, step: int, first: int = 0, *, votes: Ints | None = None
) -> Scan:
    """One sweep. The samples are `first` and those that follow; every `step`-th one of all is kept
    with its whole row. `votes` are the counts of the passes' votes, if they are known."""
    inputs, N, labels = sweeps.inputs, sweeps.N, sweeps.inputs.labels.codes
    passes = inputs.passes
    sources: list[PlainSource] = ["softmax"] if inputs.softmax is not None else []
    sources += ["mean"] if passes is not None else []
    alternatives = {
        s: Alternatives(
            labels, np.empty(N, np.int32), np.empty(N, np.float32), np.empty(N, np.float32)
        )
        for s in sources
    }
    n_passes = 0 if passes is None else passes.n_passes

    def scan_block(block: tuple[int, int]) -> tuple[dict[PlainSource, Any], Ints]:
        data, at = inputs.read_block(sources, *block), slice(*block)
        rows: dict[PlainSource, Any] = {}
        for s in sources:
            one = alternatives[s]
            inputs.kernels.find_alternatives(
                data.rows[s], data.labels, one.other[at], one.given[at], one.best[at]
            )
            rows_of_step = slice((-first - block[0]) % step, None, step)
            rows[s] = np.array(data.rows[s][rows_of_step], np.float32)
        counts = np.zeros(2, np.int64)
        if n_passes > 1 and votes is None:
            pass_rows = data.passes
            assert pass_rows is not None
            keys = view_as_keys(pass_rows.flat)
            inputs.kernels.count_votes(
                keys, pass_rows.first, pass_rows.step, n_passes, data.labels, counts
            )
        return rows, counts

    columns: dict[PlainSource, list[Any]] = {s: [] for s in sources}
    counts = np.zeros(2, np.int64) if votes is None else votes
    for _, (rows, more) in sweeps.map_blocks("probabilities", scan_block):
        counts = counts + more
        for s in sources:
            columns[s].append(rows[s])
    sampled_labels = labels[(-first) % step :: step]
    return Scan(
        alternatives,
        {s: SampleRows(np.concatenate(blocks), sampled_labels) for s, blocks in columns.items()},
        VoteCounts(int(counts[0]), int(counts[1]), n_passes, N) if n_passes > 1 else None,
    )


def choose_calibrated_source(
    rows: Mapping[PlainSource, SampleRows], engine: Threads
) -> tuple[PlainSource, Calibration]:
    """The source whose probabilities predict the labels better, and its calibration."""
    fits = dict(zip(rows, engine.map(Calibration.fit, rows.values()), strict=True))
    source = max(fits, key=lambda s: (fits[s].log_likelihood, s == "mean"))
    return source, fits[source]


@dataclass(frozen=True)
class Scorer:
    """What the score of a sample depends on besides its own probabilities."""

    power: float
    least_probability: float
    """What a probability of 0 counts as."""
    structure: Structure

    def score(self, alternatives: Alternatives) -> Floats:
        """[N] log-odds that the label is wrong, up to a constant that is the same for all
        samples."""
        score = alternatives.compute_log_ratio(self.least_probability)
        score *= self.power
        if self.structure.log_ratio is not None:
            score += self.structure.log_ratio[alternatives.other, alternatives.labels]
        is_certain = np.flatnonzero(np.abs(score) > CERTAIN_SCORE)
        scores_of_certain = score[is_certain]
        score[is_certain] = np.copysign(
            CERTAIN_SCORE + np.log1p(np.abs(scores_of_certain) - CERTAIN_SCORE), scores_of_certain
        )
        return score


def explain(
    scorer: Scorer,
    bands: BandCounts,
    joint: PairCounts,
    votes: VoteCounts | None,
    passes_kind: PassesKind | None,
) -> dict[str, float]:
    """Explanation -> its number of wrong labels."""
    most = float(bands.differing)
    off_diagonal = joint.counts[joint.given != joint.true].sum()
    numbers = {"level": scorer.structure.level, "confident": float(off_diagonal), "trusting": most}
    by_members = 0.0 if votes is None else votes.estimate_errors(passes_kind)
    if by_members > 0:  # otherwise the members are more alike than usual and show nothing
        numbers["members"] = by_members
    if most > int(bands.predicted.sum()) / 2:
        numbers["labels"] = 0.0
    least = min(LEAST_ERRORS, most)  # if the model contradicts no label, there is nothing to flag
    return {name: max(min(number, most), least) for name, number in numbers.items()}


def count_scores(scores: Floats) -> Ints:
    """[steps] the histogram of scores."""
    at = np.clip((scores + LARGEST) * STEPS_PER_UNIT, 0, _N_STEPS - 1).astype(np.int64)
    return np.bincount(at, minlength=_N_STEPS)


_N_STEPS = int(2 * LARGEST * STEPS_PER_UNIT)
_MIDDLES = (np.arange(_N_STEPS) + 0.5) / STEPS_PER_UNIT - LARGEST


@dataclass(frozen=True)
class Explanations:
    """The probability that a label is wrong, given its score, by each explanation."""

    shifts: Mapping[str, float]
    """The number to add to the scores to make them log-odds."""
    weights: Mapping[str, float]
    """The weight of each explanation when flags are chosen."""
    agreement: float
    """As in `ErrorEstimate`."""

    @classmethod
    def of(cls, numbers: Mapping[str, float], counts: Ints, evenness: float) -> Explanations:
        """Choose shifts so that the probabilities of all samples add up to each explanation's
        number; `counts` [steps] is the histogram of scores, `evenness` says how even the noise
        is."""
        n_samples, is_counted = int(counts.sum()), counts > 0
        counts, odds_against = counts[is_counted].astype(np.float64), np.exp(-_MIDDLES[is_counted])
        shifts = {}
        for name, number in numbers.items():
            low, high = -2 * LARGEST, 2 * LARGEST
            for _ in range(40):
                middle = (low + high) / 2
                if counts @ (1 / (1 + odds_against * math.exp(-middle))) < number:
                    low = middle
                else:
                    high = middle
            shifts[name] = middle if number > 0 else -np.inf
        level, confident = numbers["level"], numbers["confident"]
        agreement = min(1.0, level / confident) if confident else 1.0
        return cls(shifts, weigh(numbers, n_samples, evenness), agreement)

    def estimate(self, scores: Floats) -> ErrorEstimate:
        """The probabilities [N] by each explanation, with their weights."""
        odds_against = np.exp(-scores)
        readings = {
            name: to_probability(odds_against, shift) for name, shift in self.shifts.items()
        }
        equal = dict.fromkeys(readings, 1.0)
        return ErrorEstimate(readings, self.weights, equal, agreement=self.agreement)


def weigh(numbers: Mapping[str, float], n_samples: int, evenness: float) -> dict[str, float]:
    """The weight of each explanation when flags are chosen, from the numbers of errors.

    - Where noise by class explains more than half of what the model contradicts, the model has few
      errors of its own, and `level` takes over from `confident`.
    - `confident` counts the more, the less of what the model contradicts it takes for wrong: one
      that takes all of it for wrong has not told anything apart. Where the model contradicts more
      than half of all labels, there are few that it could have told apart, and `confident` counts
      all the same.
    - Where the noise is even, `level` is right, and `confident` hardly counts.
    - `trusting` is a bound only, unless hardly any label is found where the model holds it for
      impossible: then noise is on hard samples, and those are what the model contradicts.
    """
    level, confident, most = (
        max(numbers[name], LEAST_ERRORS) for name in ("level", "confident", "trusting")
    )
    share_explained = max(0.0, 2 * level / most - 1)
    share_told_apart = max(0.0, 1 - confident / most) + max(0.0, 2 * most / n_samples - 1)
    weights = {
        "level": 1 + share_explained,
        "confident": (0.1 + 5 * share_told_apart) * (1 - share_explained) * (1 - 0.9 * evenness),
        "members": 1.0,
        "trusting": 8 * max(0.0, 1 - 10 * level / confident),
        "labels": 0.0,
    }
    return {name: weights[name] for name in numbers}


def to_probability(odds_against: Floats, shift: float) -> Floats:
    """[N] probabilities from the odds exp(-score), after adding a shift to the scores."""
    probability: Floats = odds_against * np.exp(-shift)
    probability += 1
    return np.divide(1, probability, out=probability)
