"""Turns what the sweeps collected about one part into its rows of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uqled.answer import MAX_SUSPECTS, FlaggedSample
from uqled.arrays import Labels
from uqled.detect.auto.tiers import TIERS, assign_tiers
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.cuts import Cuts, GroupedSamples, RoundCounts, values_to_keys
from uqled.detect.core.inputs import PlainSource
from uqled.detect.core.joint import PairCounts, Quotas
from uqled.detect.core.sweeps import Bools, ConfidentJoints, Member, list_sources
from uqled.detect.find import make_result
from uqled.detect.methods.method import Ranking, Score, SweepEvidence
from uqled.detect.parts.context import Part, TaskContext
from uqled.detect.parts.tasks import PairGroups, read_statistics


@dataclass(frozen=True)
class Tally:
    """Totals over the flags of some parts."""

    flags_by_method: dict[str, int]
    """Method -> number of flags."""
    pair_counts: PairCounts
    """Flags per (given, suggested) pair."""
    suspects: list[FlaggedSample]
    """The most suspect ones."""
    flag_sums: dict[str, int]
    """The number of flags, and how many each reading expects to be real, where `auto` is run."""
    tiers: list[dict[str, int]]
    """The same of each tier."""

    def merge_with(self, other: Tally) -> Tally:
        suspects = sorted(
            [*self.suspects, *other.suspects], key=lambda one: (-one.votes, one.score, one.index)
        )

        def add(counts: dict[str, int], other_counts: dict[str, int]) -> dict[str, int]:
            return {name: n + other_counts[name] for name, n in counts.items()}

        return Tally(
            add(self.flags_by_method, other.flags_by_method),
            self.pair_counts.merge_with(other.pair_counts),
            suspects[:MAX_SUSPECTS],
            add(self.flag_sums, other.flag_sums),
            [add(mine, others) for mine, others in zip(self.tiers, other.tiers, strict=True)],
        )


@dataclass(frozen=True)
class GlobalResults:
    """What the driver computed from all parts together."""

    quotas: Mapping[Member, Quotas]
    joints: Mapping[Member, PairCounts]
    at_chance: Mapping[str, bool]
    """Source -> whether its predicted classes are no better than chance."""
    groups: PairGroups
    cuts: Cuts
    """The cuts of the groups."""
    rankings: Mapping[Ranking, Cuts]
    auto: Any = None
    """`AutoFlags`, if a method is probabilistic."""


@dataclass(frozen=True)
class PartEvidence(SweepEvidence):
    """The evidence of one part. Where a method ranks all samples, the cut is known already, and so
    is whether the model is at chance on the whole data set."""

    part: Part = field(kw_only=True)
    rankings: Mapping[Ranking, Cuts] = field(kw_only=True, default_factory=dict)
    auto_flags: Bools | None = field(kw_only=True, default=None)
    """[n] by `auto`."""
    at_chance: Mapping[str, bool] = field(kw_only=True, default_factory=dict)

    def is_at_chance(self, source: PlainSource) -> bool:
        return self.at_chance[source]

    def flag_by_probability(self) -> Bools:
        assert self.auto_flags is not None
        return self.auto_flags

    def prune_by_class(self) -> Bools:
        offers = group_by_ranking(self, "by-class", self.part)
        return self.rankings["by-class"].select(offers) & self.disagrees("softmax")

    def find_lowest(self, score: Score) -> Bools:
        return self.rankings[score].select(group_by_ranking(self, score, self.part))


def write_part_issues(
    context: TaskContext, statistics: ClassStatistics, results: GlobalResults, part: Part
) -> Tally:
    """Write the part's rows of the result."""
    store = context.store
    evidence = _read_evidence(context, statistics, part, results)
    labels = Labels(evidence.labels, context.values, context.names)
    by_method = [make_result(choice, evidence, labels) for choice in context.request.choices]
    if not store.has_issues(part.number):
        frame = by_method[0].to_frame()
        frame.insert(0, "index", np.arange(part.start, part.stop))
        if context.request.is_comparison:
            for one in by_method:
                frame[one.method] = one.mask
        store.write_issues(part.number, frame)
    first = by_method[0]
    estimate, tiers = first.estimate, []
    if estimate is not None:
        numbers = assign_tiers(estimate, first.mask)
        tiers = [estimate.sum_units(numbers == number) for number in range(len(TIERS))]
    return Tally(
        {one.method: one.n_flagged for one in by_method},
        first.count_pairs(),
        first.list_most_suspect(first_index=part.start),
        {} if estimate is None else estimate.sum_units(first.mask),
        tiers,
    )


def _read_evidence(
    context: TaskContext,
    statistics: ClassStatistics,
    part: Part,
    results: GlobalResults | None = None,
) -> PartEvidence:
    """The evidence about the part's samples, as methods use it."""
    store, n = context.store, part.stop - part.start
    sources, predicted = list_sources(context.plan.members), context.predicted_sources
    names = [
        *(f"predicted {s}" for s in predicted),
        *(f"agrees {s}" for s in sources),
        *(f"confident {at}" for at in range(len(context.plan.keep_confident))),
    ]
    names += ["margin"] if context.plan.with_margin else []
    read = store.read(part.number, "sweep-2", names)
    selected = {}
    if results is not None and results.groups.quotas:
        offers = GroupedSamples(**store.read(part.number, "sweep-3"))
        is_selected = results.cuts.select(offers)
        for member, pairs in results.groups.quotas.items():
            at = results.groups.first[member]
            is_of_member = (
                is_selected & (offers.group >= at) & (offers.group < at + len(pairs.counts))
            )
            selected[member] = np.zeros(n, np.bool_)
            selected[member][offers.index[is_of_member] - part.start] = True
    joints = ConfidentJoints(
        pairs={} if results is None else dict(results.joints),
        predicted={s: read[f"predicted {s}"] for s in predicted},
        agrees={s: read[f"agrees {s}"] for s in sources},
        confident_class={
            m: read[f"confident {at}"] for at, m in enumerate(context.plan.keep_confident)
        },
        margin=read.get("margin"),
    )
    auto, auto_flags = None, None
    if results is not None and results.auto is not None:
        auto, auto_flags = results.auto.read_part(context, part)
    return PartEvidence(
        context.read_labels(part),
        read_statistics(context, statistics, part),
        joints,
        {} if results is None else dict(results.quotas),
        selected,
        context.request.entropy_class,
        context.n_passes,
        auto,
        part=part,
        rankings={} if results is None else results.rankings,
        auto_flags=auto_flags,
        at_chance={} if results is None else results.at_chance,
    )


def count_off_diagonal(context: TaskContext, statistics: ClassStatistics, part: Part) -> int:
    """How many samples are off the diagonal of the confident joint."""
    return int(np.count_nonzero(_read_evidence(context, statistics, part).find_off_diagonal()))


def count_ranking_round(
    context: TaskContext, statistics: ClassStatistics, ranking: Ranking, cuts: Cuts, part: Part
) -> RoundCounts:
    """One round of the search for the cut of a ranking."""
    evidence = _read_evidence(context, statistics, part)
    return cuts.count_samples(group_by_ranking(evidence, ranking, part), context.kernels)


def group_by_ranking(evidence: SweepEvidence, ranking: Ranking, part: Part) -> GroupedSamples:
    """The samples of the part for a ranking, grouped by class or in a single group; the lowest
    score is the best."""
    n = part.stop - part.start
    score: Score = "self-confidence" if ranking == "by-class" else ranking
    group = evidence.labels if ranking == "by-class" else np.zeros(n, np.int32)
    return GroupedSamples(
        group.astype(np.int64),
        values_to_keys(-evidence.get_scores(score)),
        np.arange(part.start, part.stop),
    )
