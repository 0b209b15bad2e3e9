"""`auto` in parts: each sample gets the same probability as in memory, from what all parts counted
together.

A sample's probability depends on little besides its own row: the calibration and the classes'
quantiles (from a few thousand rows), how many labels lie beyond these, how often passes contradict
each other, and the histogram of scores. One task per part collects each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate, Tier, choose_confidence
from uqled.detect.auto.estimate import ErrorEstimate, estimate_interval, explain_doubt
from uqled.detect.auto.evidence import (
    Alternatives,
    BandCounts,
    Quantiles,
    SampleRows,
    Structure,
    VoteCounts,
    choose_step,
)
from uqled.detect.auto.explanations import (
    AutoResult,
    Explanations,
    Scorer,
    choose_calibrated_source,
    count_scores,
    explain,
    scan_alternatives,
)
from uqled.detect.auto.levels import UNITS, Levels
from uqled.detect.auto.operating_point import OperatingPoint, find_lowest_level
from uqled.detect.auto.tiers import TIERS, AgreedShare
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.cuts import Cuts, GroupedSamples, RoundCounts, find_cuts, values_to_keys
from uqled.detect.core.inputs import PlainSource
from uqled.detect.core.joint import PairCounts
from uqled.detect.core.sweeps import Member
from uqled.detect.parts.context import Part, TaskContext
from uqled.detect.parts.tasks import collect_part_statistics, merge_results
from uqled.engines.local import Threads

Ints = NDArray[np.int64]

#: Sums per level besides those of the explanations.
_MORE_COLUMNS = ("mean", "variance")


@dataclass(frozen=True)
class FitSample:
    """The rows of some parts that the calibration is fitted to."""

    votes: VoteCounts | None
    rows: dict[PlainSource, SampleRows]
    """In the order of the samples."""

    def merge_with(self, other: FitSample) -> FitSample:
        rows = {s: sample.merge_with(other.rows[s]) for s, sample in self.rows.items()}
        votes = self.votes
        if votes is not None and other.votes is not None:
            votes = votes.merge_with(other.votes)
        return FitSample(votes, rows)


@dataclass(frozen=True)
class ScoreCounts:
    """[steps] the histogram of scores of some parts."""

    counts: Ints

    def merge_with(self, other: ScoreCounts) -> ScoreCounts:
        return ScoreCounts(self.counts + other.counts)


def collect_statistics_and_candidates(context: TaskContext, N: int, part: Part) -> ClassStatistics:
    """Sweep 1, then the alternatives, while the part's rows are still in the page cache."""
    statistics = collect_part_statistics(context, part)
    find_part_alternatives(context, N, part)
    return statistics


def find_part_alternatives(context: TaskContext, N: int, part: Part) -> FitSample:
    """Write each sample's alternative to the part's file; return the votes and the rows to fit
    to."""
    store, stage = context.store, "alternatives"
    if not store.has(part.number, stage):
        scan = scan_alternatives(
            context.make_sweeps(part, context.plain_sources),
            choose_step(N, len(context.values)),
            part.start,
        )
        columns: dict[str, NDArray[Any]] = {}
        if scan.votes is not None:
            columns["votes"] = np.array(list(vars(scan.votes).values()), np.int64)
        for source, one in scan.alternatives.items():
            columns |= {f"{name} {source}": getattr(one, name) for name in _COLUMNS}
            columns[f"rows {source}"] = scan.rows[source].rows
            columns["row labels"] = scan.rows[source].labels
        store.write(part.number, stage, columns)
    sources = _list_sources(context)
    names = [f"rows {source}" for source in sources]
    more = ["votes"] if context.n_passes > 1 else []
    read = store.read(part.number, stage, [*names, "row labels", *more])
    votes = VoteCounts(*read["votes"].tolist()) if more else None
    return FitSample(votes, {s: SampleRows(read[f"rows {s}"], read["row labels"]) for s in sources})


_COLUMNS = ("other", "given", "best")


def count_part_bands(
    context: TaskContext, source: PlainSource, quantiles: Quantiles, part: Part
) -> BandCounts:
    """Count labels by how improbable the model finds them."""
    return BandCounts.of(_read_alternatives(context, source, part), quantiles)


def score_part(
    context: TaskContext, source: PlainSource, scorer: Scorer, part: Part
) -> ScoreCounts:
    """Write each sample's score to the part's file; return their histogram."""
    store, stage = context.store, "scores"
    if not store.has(part.number, stage):
        scores = scorer.score(_read_alternatives(context, source, part))
        store.write(part.number, stage, {"scores": scores})
    return ScoreCounts(count_scores(store.read(part.number, stage)["scores"]))


def count_part_levels(context: TaskContext, explanations: Explanations, part: Part) -> Levels:
    """Sums per level of probability."""
    return _estimate(context, explanations, part).levels


def count_probability_round(
    context: TaskContext, explanations: Explanations, cuts: Cuts, part: Part
) -> RoundCounts:
    """One round of looking for so many samples that are most probably wrong."""
    samples = _group_by_probability(_estimate(context, explanations, part), part)
    return cuts.count_samples(samples, context.kernels)


def _group_by_probability(estimate: ErrorEstimate, part: Part) -> GroupedSamples:
    n = part.stop - part.start
    keys = values_to_keys(estimate.probability)
    return GroupedSamples(np.zeros(n, np.int64), keys, np.arange(part.start, part.stop))


def _estimate(context: TaskContext, explanations: Explanations, part: Part) -> ErrorEstimate:
    return explanations.estimate(context.store.read(part.number, "scores")["scores"])


def _list_sources(context: TaskContext) -> list[PlainSource]:
    sources: list[PlainSource] = ["softmax"] if context.softmax is not None else []
    return [*sources, "mean"] if context.passes is not None else sources


def _read_alternatives(context: TaskContext, source: PlainSource, part: Part) -> Alternatives:
    names = [f"{name} {source}" for name in _COLUMNS]
    read = context.store.read(part.number, "alternatives", names)
    return Alternatives(context.read_labels(part), *(read[name] for name in names))


@dataclass(frozen=True)
class AutoFlags:
    """Which samples `auto` flags, known to every part."""

    source: PlainSource
    explanations: Explanations
    point: OperatingPoint
    level: int
    """The lowest flagged level, if the point is a level."""
    cuts: Cuts | None
    """The cuts, if the point is a number of samples."""

    def read_part(self, context: TaskContext, part: Part) -> tuple[AutoResult, NDArray[np.bool_]]:
        """The `AutoResult` of a part's samples, and their flags [n]."""
        estimate = _estimate(context, self.explanations, part)
        column = f"other {self.source}"
        other = context.store.read(part.number, "alternatives", [column])[column]
        about = AutoResult(estimate, self.source, other)
        if self.cuts is not None:
            return about, self.cuts.select(_group_by_probability(estimate, part))
        return about, estimate.above(self.point, self.level)


def find_auto_flags(
    map_parts: Callable[..., Any],
    context: TaskContext,
    N: int,
    joints: dict[Member, PairCounts],
    point: OperatingPoint,
) -> tuple[AutoFlags, Levels]:
    """Compute the flags from all parts with `map_parts(stage, task, merge, *given)`."""
    sample: FitSample = map_parts(None, find_part_alternatives, merge_results, context, N)
    source, calibration = choose_calibrated_source(sample.rows, Threads(1))
    quantiles = Quantiles.of(sample.rows[source])
    counts: BandCounts = map_parts(
        None, count_part_bands, merge_results, context, source, quantiles
    )
    least = sample.rows[source].least_probability
    scorer = Scorer(calibration.power, least, Structure.of(counts, quantiles))
    by_score: ScoreCounts = map_parts("scores", score_part, merge_results, context, source, scorer)
    kind = context.request.passes_kind
    numbers = explain(scorer, counts, joints[Member(source)], sample.votes, kind)
    explanations = Explanations.of(numbers, by_score.counts, scorer.structure.evenness)
    by_level: Levels = map_parts(None, count_part_levels, merge_results, context, explanations)
    quotas = None
    if point.kind == "budget":
        number = np.array([min(int(point.value), N)], np.int64)
        quotas = find_cuts(
            number,
            lambda c: map_parts(
                None, count_probability_round, merge_results, context, explanations, c
            ),
        )
    level = find_lowest_level(by_level, point, explanations.weights)
    return AutoFlags(source, explanations, point, level, quotas), by_level


def estimate_flags(
    levels: Levels, flags: AutoFlags, flag_sums: Mapping[str, int]
) -> tuple[Estimate, Estimate | None, Estimate | None, str | None]:
    """For the answer: (n_errors, precision, recall, unsure). `flag_sums` are the number of flags
    and the sums over them, in the units of `levels`."""
    names = [name for name in levels.errors if name not in _MORE_COLUMNS]
    error_sums = {name: int(sums.sum()) for name, sums in levels.errors.items()}
    N, n = int(levels.counts.sum()), flag_sums["flags"]
    best = levels.best_f1(flags.explanations.weights)
    at_best = {name: int(sums[best:].sum()) for name, sums in levels.errors.items()}
    n_best = int(levels.counts[best:].sum())
    doubt = explain_doubt(
        _estimate_interval(at_best, n_best, names).as_share_of(n_best),
        _estimate_interval(at_best, n_best, names, confidence=0.95).as_share_of(n_best),
    )
    real_share = _estimate_interval(
        flag_sums, n, names, confidence=choose_confidence(doubt)
    ).as_share_of(n)
    recalls = [flag_sums[k] / max(error_sums[k], 1) for k in (*names, "mean")]
    n_errors = _estimate_interval(error_sums, N, names)
    if not n:
        return n_errors, None, None, doubt
    return n_errors, real_share, Estimate(recalls[-1], min(recalls), max(recalls)), doubt


def estimate_tiers(levels: Levels, flags: AutoFlags, tiers: list[dict[str, int]]) -> list[Tier]:
    """Each tier that has samples; `tiers` are sums as `flag_sums` of `estimate_flags`."""
    names = [name for name in levels.errors if name not in _MORE_COLUMNS]
    agreed = AgreedShare.of_agreement(flags.explanations.agreement)
    return [
        Tier(
            name, n, _estimate_interval(sums, n, names).as_share_of(n) if at else agreed.predict(n)
        )
        for at, (name, sums) in enumerate(zip(TIERS, tiers, strict=True))
        if (n := sums["flags"])
    ]


def _estimate_interval(
    sums: Mapping[str, int], n: int, names: list[str], confidence: float = 0.8
) -> Estimate:
    values = {name: sums[name] / UNITS for name in (*names, *_MORE_COLUMNS)}
    reading_values = {name: values[name] for name in names}
    weights = dict.fromkeys(names, 1.0)
    return estimate_interval(
        values["mean"], reading_values, weights, values["variance"], float(n), False, confidence
    )
