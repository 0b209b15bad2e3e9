"""The tasks on one part of the rows, wherever they run: in a thread, or on a machine of a cluster.

A task reads the rows of its part block by block with the same sweeps as an array in memory, writes
columns per sample to the part's own file, and returns counts per class or per pair, which are
merged with those of other parts. A task whose file exists is not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.answer import count_right
from uqled.detect.core.class_statistics import ClassStatistics, ExactSums
from uqled.detect.core.cuts import Cuts, GroupedSamples, RoundCounts, values_to_keys
from uqled.detect.core.joint import PairCounts
from uqled.detect.core.selection import TopPerPair
from uqled.detect.core.sweeps import Member, list_measures, list_sources
from uqled.detect.parts.context import Part, TaskContext
from uqled.errors import InputError


def merge_results(first: Any, second: Any) -> Any:
    """The results of two parts together."""
    return first.merge_with(second)


# -- which classes there are ----------------------------------------------------------------------


def find_distinct_labels(labels: Any, n_classes: int, part: Part) -> set[Any]:
    """The values that occur in a part; too many are refused here, before they are sent."""
    column = arrays.read_label_column(labels[part.start : part.stop], "labels")
    values = set(column.tolist())
    if len(values) > n_classes:
        raise InputError(
            "labels",
            f"have {len(values)} different values from row {part.start} on, but the probabilities "
            f"have {n_classes} columns",
            "Name the column of labels, or the probabilities of all classes",
        )
    return values


def read_part(context: TaskContext, part: Part) -> int:
    """Read a part and do nothing with it: for the plan."""
    inputs = context.open_inputs(part)
    blocks = inputs.split_blocks()
    for start, stop in blocks:
        for rows in (inputs.softmax, inputs.passes):
            if rows is not None:
                rows.read(start, stop)
    return len(blocks)


# -- sweep 1 --------------------------------------------------------------------------------------


def collect_part_statistics(context: TaskContext, part: Part) -> ClassStatistics:
    """Compute the class counts and sums of a part; columns per sample go to its file."""
    store, stage = context.store, "sweep-1"
    if not store.has(part.number, stage):
        sweeps = context.make_sweeps(part, list_sources(context.plan.members))
        statistics = sweeps.collect_class_statistics(context.plan.members)
        columns: dict[str, NDArray[Any]] = {"counts": statistics.class_counts}
        for source, sums in statistics.confidence_sums.items():
            columns[f"sums {source}"] = sums.words
        for measure, sums in statistics.uncertainty_sums.items():
            columns[f"sums {measure}"] = sums.words
        for source, values in statistics.self_confidence.items():
            columns[f"confidence {source}"] = values
        for measure, values in statistics.uncertainty.items():
            columns[f"uncertainty {measure}"] = values
        store.write(part.number, stage, columns)
    sources, measures = list_sources(context.plan.members), list_measures(context.plan.members)
    if any(source != "softmax" for source in sources):
        sources = list(dict.fromkeys([*sources, "mean"]))
    names = [f"sums {name}" for name in [*sources, *measures]]
    read = store.read(part.number, stage, ["counts", *names])
    return ClassStatistics(
        read["counts"],
        {source: ExactSums.from_words(read[f"sums {source}"]) for source in sources},
        {measure: ExactSums.from_words(read[f"sums {measure}"]) for measure in measures},
    )


def read_statistics(
    context: TaskContext, statistics: ClassStatistics, part: Part
) -> ClassStatistics:
    """The thresholds of all parts with the columns per sample of this one."""
    names = [f"confidence {source}" for source in context.plain_sources]
    names += [f"uncertainty {measure}" for measure in context.measures]
    read = context.store.read(part.number, "sweep-1", names)
    return replace(
        statistics,
        self_confidence={s: read[f"confidence {s}"] for s in context.plain_sources},
        uncertainty={measure: read[f"uncertainty {measure}"] for measure in context.measures},
    )


# -- sweep 2 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointCounts:
    """What sweep 2 counts in some parts."""

    pairs: dict[Member, PairCounts]
    right: dict[str, NDArray[np.int64]]
    """Source -> [K] number of samples of each class whose predicted class is the label."""

    def merge_with(self, other: JointCounts) -> JointCounts:
        return JointCounts(
            {
                member: counts.merge_with(other.pairs[member])
                for member, counts in self.pairs.items()
            },
            {source: right + other.right[source] for source, right in self.right.items()},
        )


def count_part_joints(context: TaskContext, statistics: ClassStatistics, part: Part) -> JointCounts:
    """Compute the pair counts of a part; predicted classes and disagreements go to its file."""
    store, stage, K = context.store, "sweep-2", len(context.values)
    if not store.has(part.number, stage):
        sweeps = context.make_sweeps(part, list_sources(context.plan.members))
        joints = sweeps.count_confident_joints(
            context.plan.members,
            read_statistics(context, statistics, part),
            keep_confident=context.plan.keep_confident,
            with_margin=context.plan.with_margin,
        )
        columns: dict[str, NDArray[Any]] = {}
        for at, member in enumerate(context.plan.members):
            counts = joints.counters[member].get_counts()
            columns[f"pairs {at}"] = np.stack([counts.given, counts.true, counts.counts])
        for source, predicted in joints.predicted.items():
            columns[f"predicted {source}"] = predicted
            columns[f"right {source}"] = count_right(sweeps.inputs.labels.codes, predicted, K)
        for source, agrees in joints.agrees.items():
            entries = joints.disagreements[source]
            columns[f"agrees {source}"] = agrees
            columns[f"disagreement index {source}"] = entries.index
            columns[f"disagreement given {source}"] = sweeps.inputs.labels.codes[entries.index]
            columns[f"disagreement predicted {source}"] = entries.predicted
            columns[f"disagreement margin {source}"] = entries.margin
        for at, member in enumerate(context.plan.keep_confident):
            columns[f"confident {at}"] = joints.confident_class[member]
        if joints.margin is not None:
            columns["margin"] = joints.margin
        store.write(part.number, stage, columns)
    names = [f"pairs {at}" for at in range(len(context.plan.members))]
    sources = context.predicted_sources
    read = store.read(part.number, stage, [*names, *(f"right {source}" for source in sources)])
    return JointCounts(
        {m: PairCounts(K, *read[f"pairs {at}"]) for at, m in enumerate(context.plan.members)},
        {source: read[f"right {source}"] for source in sources},
    )


# -- sweep 3 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairGroups:
    """The pairs of all members in one list, so that their cuts are found together."""

    quotas: dict[Member, PairCounts]
    first: dict[Member, int] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [len(pairs.counts) for pairs in self.quotas.values()]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        object.__setattr__(self, "first", dict(zip(self.quotas, starts, strict=False)))

    @property
    def counts(self) -> NDArray[np.int64]:
        all_counts = [pairs.counts for pairs in self.quotas.values()]
        return np.concatenate([np.zeros(0, np.int64), *all_counts]).astype(np.int64)

    def slice_of(self, values: NDArray[Any], member: Member) -> NDArray[Any]:
        """A member's part of an array over all groups."""
        at = self.first[member]
        return values[at : at + len(self.quotas[member].counts)]


def count_bound_round(
    context: TaskContext, groups: PairGroups, cuts: Cuts, part: Part
) -> RoundCounts:
    """One round of the search for a bound that each pair's largest margins reach."""
    names = [
        f"disagreement {what} {source}"
        for source in dict.fromkeys(member.source for member in groups.quotas)
        for what in ("index", "given", "predicted", "margin")
    ]
    read = context.store.read(part.number, "sweep-2", names)
    offers: list[GroupedSamples] = []
    for member, pairs in groups.quotas.items():
        labels, predicted = (
            read[f"disagreement {what} {member.source}"] for what in ("given", "predicted")
        )
        keys = labels.astype(np.int64) * pairs.n_classes + predicted
        at = np.minimum(np.searchsorted(pairs.keys, keys), max(len(pairs.keys) - 1, 0))
        is_equal = pairs.keys[at] == keys if len(pairs.keys) else np.zeros(len(keys), np.bool_)
        offers.append(
            GroupedSamples(
                groups.first[member] + at[is_equal],
                values_to_keys(read[f"disagreement margin {member.source}"][is_equal]),
                part.start + read[f"disagreement index {member.source}"][is_equal],
            )
        )
    return cuts.count_samples(concatenate_groups(offers), context.kernels)


def select_part_samples(
    context: TaskContext, groups: PairGroups, bounds: NDArray[np.float64], part: Part
) -> int:
    """Write the part's largest margins of each pair to its file; returns their number."""
    store, stage = context.store, "sweep-3"
    if not store.has(part.number, stage):
        sweeps = context.make_sweeps(part, list_sources(groups.quotas))
        counts = np.bincount(sweeps.inputs.labels.codes, minlength=sweeps.K)
        first: dict[Member, TopPerPair] = {}
        for member, pairs in groups.quotas.items():
            room = np.minimum(pairs.counts, counts[pairs.given])
            first[member] = TopPerPair(replace(pairs, counts=room), sweeps.inputs.kernels)
            first[member].cuts[:] = groups.slice_of(bounds, member)
        offers = []
        for member, best in sweeps.fill_heaps(first).items():
            group, margins, indices = best.list_samples()
            offers.append(
                GroupedSamples(
                    groups.first[member] + group, values_to_keys(margins), part.start + indices
                )
            )
        all_offers = concatenate_groups(offers)
        store.write(
            part.number,
            stage,
            {"group": all_offers.group, "keys": all_offers.keys, "index": all_offers.index},
        )
    return len(store.read(part.number, stage, ["index"])["index"])


def count_selection_round(context: TaskContext, cuts: Cuts, part: Part) -> RoundCounts:
    """One round of the search for the pairs' cuts."""
    samples = GroupedSamples(**context.store.read(part.number, "sweep-3"))
    return cuts.count_samples(samples, context.kernels)


def concatenate_groups(offers: list[GroupedSamples]) -> GroupedSamples:
    return GroupedSamples(
        np.concatenate([np.zeros(0, np.int64), *(o.group for o in offers)]),
        np.concatenate([np.zeros(0, np.uint64), *(o.keys for o in offers)]),
        np.concatenate([np.zeros(0, np.int64), *(o.index for o in offers)]),
    )
