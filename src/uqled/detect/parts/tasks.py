"""What is done in one part of the rows, wherever that is: a thread, or a machine of a cluster.

A part's task reads its rows block by block with the same sweeps as an array in memory, writes what
is per sample into the part's own file, and returns what is per class or per pair, which merges with
what other parts return. A task that finds its file written does nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.answer import MAX_SUSPECTS, FlaggedSample
from uqled.arrays import Labels
from uqled.detect.core.class_statistics import ClassStatistics, ExactSums, Measure
from uqled.detect.core.cuts import Cuts, GroupedSamples, RoundCounts, values_to_keys
from uqled.detect.core.inputs import Inputs, Source
from uqled.detect.core.joint import PairCounts, Quotas, count_confused_pairs
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.core.selection import TopPerPair
from uqled.detect.core.sweeps import (
    Bools,
    ConfidentJoints,
    Member,
    Sweeps,
    list_measures,
    list_sources,
)
from uqled.detect.methods.method import Evidence, Ranking, Score
from uqled.detect.parts.store import Store
from uqled.detect.request import DetectionRequest, SweepPlan
from uqled.engines.local import Threads
from uqled.errors import InputError
from uqled.progress import Progress


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop`."""

    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class Asked:
    """What every task must know: where the rows are, what to look for, where files go."""

    store: Store
    labels: Any
    """[N] shards or an array, of class numbers or of class values."""
    softmax: Any | None
    passes: Any | None
    values: NDArray[Any]
    """[K] the classes, as labels write them."""
    names: tuple[str, ...]
    request: DetectionRequest
    plan: SweepPlan
    n_passes: int

    @property
    def plain_sources(self) -> list[Source]:
        """Sources of which something is kept per sample."""
        sources = dict.fromkeys(list_sources(self.plan.members))
        if any(source != "softmax" for source in sources):
            sources["mean"] = None
        return [source for source in sources if not isinstance(source, int)]

    @property
    def measures(self) -> list[Measure]:
        """Uncertainties that are kept per sample."""
        if "mean" not in self.plain_sources:
            return []
        every: list[Measure] = ["entropy", "mutual-information", *list_measures(self.plan.members)]
        return list(dict.fromkeys(every))

    def inputs(self, part: Part) -> Inputs:
        """Labels and rows of a part, counted from its first row."""
        rows = part.start, part.stop
        softmax = passes = None
        if self.softmax is not None:
            softmax = ProbabilityRows(
                self.softmax, name="pred_probs", ndim=2, part=rows, sequential=True
            )
        if self.passes is not None:
            passes = ProbabilityRows(self.passes, name="passes", ndim=3, part=rows, sequential=True)
        return Inputs(Labels(self.codes(part), self.values, self.names), softmax, passes)

    def codes(self, part: Part) -> NDArray[np.int32]:
        column = np.asarray(self.labels[part.start : part.stop])
        try:
            return arrays.as_labels(
                column, n_classes=len(self.values), classes=self.values.tolist()
            ).codes
        except InputError as error:
            where = f"{error.problem}, counted from row {part.start}"
            raise InputError(error.argument, where, error.fix) from error

    def sweeps(self, part: Part) -> Sweeps:
        return Sweeps(self.inputs(part), Threads(1), Progress(False))


def merge_results(left: Any, right: Any) -> Any:
    """What two parts found, together."""
    return left.merge_with(right)


# -- which classes there are ----------------------------------------------------------------------


def distinct(labels: Any, n_classes: int, part: Part) -> set[Any]:
    """The values that occur in a part; too many are refused here, before they are sent."""
    column = arrays.label_column(labels[part.start : part.stop], "labels")
    found = set(column.tolist())
    if len(found) > n_classes:
        raise InputError(
            "labels",
            f"have {len(found)} different values from row {part.start} on, but the probabilities "
            f"have {n_classes} columns",
            "Name the column of labels, or the probabilities of all classes",
        )
    return found


def read_only(asked: Asked, part: Part) -> int:
    """Read a part and do nothing with it: for the plan."""
    inputs = asked.inputs(part)
    blocks = inputs.split_blocks()
    for start, stop in blocks:
        for rows in (inputs.softmax, inputs.passes):
            if rows is not None:
                rows.read(start, stop)
    return len(blocks)


# -- sweep 1 --------------------------------------------------------------------------------------


def class_statistics(asked: Asked, part: Part) -> ClassStatistics:
    """Class counts and sums of a part; what is known per sample goes to its file."""
    store, stage = asked.store, "sweep-1"
    if not store.has(part.number, stage):
        found = asked.sweeps(part).collect_class_statistics(asked.plan.members)
        kept: dict[str, NDArray[Any]] = {"counts": found.class_counts}
        for name, sums in [*found.confidence_sums.items(), *found.uncertainty_sums.items()]:
            kept[f"sums {name}"] = sums.words
        for source, values in found.self_confidence.items():
            kept[f"confidence {source}"] = values
        for measure, values in found.uncertainty.items():
            kept[f"uncertainty {measure}"] = values
        store.write(part.number, stage, kept)
    sources, measures = list_sources(asked.plan.members), list_measures(asked.plan.members)
    if any(source != "softmax" for source in sources):
        sources = list(dict.fromkeys([*sources, "mean"]))
    names = [f"sums {name}" for name in [*sources, *measures]]
    read = store.read(part.number, stage, ["counts", *names])
    return ClassStatistics(
        read["counts"],
        {source: ExactSums.from_words(read[f"sums {source}"]) for source in sources},
        {measure: ExactSums.from_words(read[f"sums {measure}"]) for measure in measures},
    )


def _with_columns(asked: Asked, limits: ClassStatistics, part: Part) -> ClassStatistics:
    """The thresholds of all parts with what is per sample of this one."""
    names = [f"confidence {source}" for source in asked.plain_sources]
    names += [f"uncertainty {measure}" for measure in asked.measures]
    read = asked.store.read(part.number, "sweep-1", names)
    return replace(
        limits,
        self_confidence={s: read[f"confidence {s}"] for s in asked.plain_sources},
        uncertainty={measure: read[f"uncertainty {measure}"] for measure in asked.measures},
    )


# -- sweep 2 --------------------------------------------------------------------------------------

Counted = dict[Member, PairCounts]


def confident_joints(asked: Asked, limits: ClassStatistics, part: Part) -> Counted:
    """Pair counts of a part; guesses, and samples whose guess is not the label, go to its file."""
    store, stage = asked.store, "sweep-2"
    if not store.has(part.number, stage):
        sweeps = asked.sweeps(part)
        found = sweeps.count_confident_joints(
            asked.plan.members,
            _with_columns(asked, limits, part),
            keep_confident=asked.plan.keep_confident,
            with_margin=asked.plan.with_margin,
        )
        kept: dict[str, NDArray[Any]] = {}
        for at, member in enumerate(asked.plan.members):
            counts = found.counters[member].get_counts()
            kept[f"pairs {at}"] = np.stack([counts.given, counts.true, counts.counts])
        for source, best in found.predicted.items():
            kept[f"best {source}"] = best
        for source, agrees in found.agrees.items():
            leads = found.disagreements[source]
            kept[f"agrees {source}"] = agrees
            kept[f"lead index {source}"] = leads.index
            kept[f"lead given {source}"] = sweeps.inputs.labels.codes[leads.index]
            kept[f"lead best {source}"] = leads.predicted
            kept[f"lead margin {source}"] = leads.margin
        for at, member in enumerate(asked.plan.keep_confident):
            kept[f"guess {at}"] = found.confident_class[member]
        if found.margin is not None:
            kept["margin"] = found.margin
        store.write(part.number, stage, kept)
    names = [f"pairs {at}" for at in range(len(asked.plan.members))]
    read = store.read(part.number, stage, names)
    K = len(asked.values)
    return {m: PairCounts(K, *read[f"pairs {at}"]) for at, m in enumerate(asked.plan.members)}


def merge_pair_counts(left: Counted, right: Counted) -> Counted:
    return {member: counts.merge_with(right[member]) for member, counts in left.items()}


# -- sweep 3 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Groups:
    """The pairs of all members in one list, so that their cuts are found together."""

    quotas: dict[Member, PairCounts]
    first: dict[Member, int] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [len(pairs.counts) for pairs in self.quotas.values()]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        object.__setattr__(self, "first", dict(zip(self.quotas, starts, strict=False)))

    @property
    def wanted(self) -> NDArray[np.int64]:
        every = [pairs.counts for pairs in self.quotas.values()]
        return np.concatenate([np.zeros(0, np.int64), *every]).astype(np.int64)

    def of(self, values: NDArray[Any], member: Member) -> NDArray[Any]:
        """A member's part of an array over all groups."""
        at = self.first[member]
        return values[at : at + len(self.quotas[member].counts)]


def lead_round(asked: Asked, groups: Groups, cuts: Cuts, part: Part) -> RoundCounts:
    """One round of looking for a bound that each pair's best must reach."""
    names = [
        f"lead {what} {source}"
        for source in dict.fromkeys(member.source for member in groups.quotas)
        for what in ("index", "given", "best", "margin")
    ]
    read = asked.store.read(part.number, "sweep-2", names)
    offers: list[GroupedSamples] = []
    for member, pairs in groups.quotas.items():
        given, best = (read[f"lead {what} {member.source}"] for what in ("given", "best"))
        keys = given.astype(np.int64) * pairs.n_classes + best
        at = np.minimum(np.searchsorted(pairs.keys, keys), max(len(pairs.keys) - 1, 0))
        here = pairs.keys[at] == keys if len(pairs.keys) else np.zeros(len(keys), np.bool_)
        offers.append(
            GroupedSamples(
                groups.first[member] + at[here],
                values_to_keys(read[f"lead margin {member.source}"][here]),
                part.start + read[f"lead index {member.source}"][here],
            )
        )
    return cuts.count_samples(_together(offers))


def select(asked: Asked, groups: Groups, bounds: NDArray[np.float64], part: Part) -> int:
    """Keep the best that the part has to offer to each pair in its file; their number."""
    store, stage = asked.store, "sweep-3"
    if not store.has(part.number, stage):
        sweeps = asked.sweeps(part)
        there = np.bincount(sweeps.inputs.labels.codes, minlength=sweeps.K)
        first: dict[Member, TopPerPair] = {}
        for member, pairs in groups.quotas.items():
            room = np.minimum(pairs.counts, there[pairs.given])
            first[member] = TopPerPair(replace(pairs, counts=room))
            first[member].cuts[:] = groups.of(bounds, member)
        offers = []
        for member, best in sweeps.fill_heaps(first).items():
            group, margins, indices = best.list_samples()
            offers.append(
                GroupedSamples(
                    groups.first[member] + group, values_to_keys(margins), part.start + indices
                )
            )
        every = _together(offers)
        store.write(
            part.number, stage, {"group": every.group, "keys": every.keys, "index": every.index}
        )
    return len(store.read(part.number, stage, ["index"])["index"])


def selection_round(asked: Asked, cuts: Cuts, part: Part) -> RoundCounts:
    """One round of looking for the pairs' cuts."""
    return cuts.count_samples(GroupedSamples(**asked.store.read(part.number, "sweep-3")))


def _together(offers: list[GroupedSamples]) -> GroupedSamples:
    return GroupedSamples(
        np.concatenate([np.zeros(0, np.int64), *(o.group for o in offers)]),
        np.concatenate([np.zeros(0, np.uint64), *(o.keys for o in offers)]),
        np.concatenate([np.zeros(0, np.int64), *(o.index for o in offers)]),
    )


# -- rankings of all samples ----------------------------------------------------------------------


def off_diagonal(asked: Asked, limits: ClassStatistics, part: Part) -> int:
    """How many samples are off the diagonal of the confident joint."""
    return int(np.count_nonzero(_evidence(asked, limits, part).find_off_diagonal()))


def ranking_round(
    asked: Asked, limits: ClassStatistics, ranking: Ranking, cuts: Cuts, part: Part
) -> RoundCounts:
    """One round of looking for the cut of a ranking."""
    return cuts.count_samples(_ranked(_evidence(asked, limits, part), ranking, part))


def _ranked(evidence: Evidence, ranking: Ranking, part: Part) -> GroupedSamples:
    """All samples of the part: per class, or all in one group; the lowest score is the best."""
    n = part.stop - part.start
    score: Score = "self-confidence" if ranking == "by-class" else ranking
    group = evidence.labels if ranking == "by-class" else np.zeros(n, np.int32)
    return GroupedSamples(
        group.astype(np.int64),
        values_to_keys(-evidence.get_scores(score)),
        np.arange(part.start, part.stop),
    )


# -- the end --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """What the flags of some parts add up to."""

    flagged: dict[str, int]
    """Method -> number of flags."""
    confused: PairCounts
    """Flags per (given, suggested) pair."""
    suspects: list[FlaggedSample]
    """The most suspect ones."""
    as_predicted: dict[str, int]
    """Source -> number of samples whose predicted class is the label."""
    real: dict[str, int]
    """The number of flags, and how many each reading expects to be real, where `auto` is run."""

    def merge_with(self, other: Tally) -> Tally:
        suspects = sorted(
            [*self.suspects, *other.suspects], key=lambda one: (-one.votes, one.score, one.index)
        )

        def add(mine: dict[str, int], others: dict[str, int]) -> dict[str, int]:
            return {name: n + others[name] for name, n in mine.items()}

        return Tally(
            add(self.flagged, other.flagged),
            self.confused.merge_with(other.confused),
            suspects[:MAX_SUSPECTS],
            add(self.as_predicted, other.as_predicted),
            add(self.real, other.real),
        )


@dataclass(frozen=True)
class Decided:
    """What the driver found out from all parts together."""

    quotas: Mapping[Member, Quotas]
    joints: Mapping[Member, PairCounts]
    groups: Groups
    cuts: Cuts
    """Of the groups."""
    rankings: Mapping[Ranking, Cuts]
    auto: Any = None
    """Where `auto` is asked for: what tells a part its probabilities and flags."""


@dataclass(frozen=True)
class _Evidence(Evidence):
    """Of one part: where a method ranks all samples, the cut is known already."""

    part: Part = field(kw_only=True)
    rankings: Mapping[Ranking, Cuts] = field(kw_only=True, default_factory=dict)
    flagged: Bools | None = field(kw_only=True, default=None)
    """[n] by `auto`."""

    def flag_by_probability(self) -> Bools:
        assert self.flagged is not None
        return self.flagged

    def prune_by_class(self) -> Bools:
        offers = _ranked(self, "by-class", self.part)
        return self.rankings["by-class"].select(offers) & self.disagrees("softmax")

    def find_lowest(self, score: Score) -> Bools:
        return self.rankings[score].select(_ranked(self, score, self.part))


def write_issues(asked: Asked, limits: ClassStatistics, decided: Decided, part: Part) -> Tally:
    """Write the part's rows of the result."""
    from uqled.detect.find import result_of

    store = asked.store
    evidence = _evidence(asked, limits, part, decided)
    labels = Labels(evidence.labels, asked.values, asked.names)
    found = [result_of(choice, evidence, labels) for choice in asked.request.choices]
    if not store.has_issues(part.number):
        frame = found[0].to_frame()
        frame.insert(0, "index", np.arange(part.start, part.stop))
        if asked.request.is_comparison:
            for one in found:
                frame[one.method] = one.mask
        store.write_issues(part.number, frame)
    first = found[0]
    given, suggested = evidence.labels[first.mask], first.best[first.mask]
    return Tally(
        {one.method: one.n_flagged for one in found},
        count_confused_pairs(given, suggested, len(asked.values)),
        first.list_most_suspect(first_index=part.start),
        evidence.n_as_predicted,
        {} if first.estimate is None else first.estimate.units_over(first.mask),
    )


def _evidence(
    asked: Asked, limits: ClassStatistics, part: Part, decided: Decided | None = None
) -> _Evidence:
    """What the sweeps found of the part's samples, as the methods take it."""
    store, n = asked.store, part.stop - part.start
    sources = list_sources(asked.plan.members)
    names = [
        *(f"best {s}" for s in sources if not isinstance(s, int)),
        *(f"agrees {s}" for s in sources),
        *(f"guess {at}" for at in range(len(asked.plan.keep_confident))),
    ]
    names += ["margin"] if asked.plan.with_margin else []
    read = store.read(part.number, "sweep-2", names)
    selected = {}
    if decided is not None and decided.groups.quotas:
        offers = GroupedSamples(**store.read(part.number, "sweep-3"))
        taken = decided.cuts.select(offers)
        for member, pairs in decided.groups.quotas.items():
            at = decided.groups.first[member]
            mine = taken & (offers.group >= at) & (offers.group < at + len(pairs.counts))
            selected[member] = np.zeros(n, np.bool_)
            selected[member][offers.index[mine] - part.start] = True
    found = ConfidentJoints(
        pairs={} if decided is None else dict(decided.joints),
        predicted={s: read[f"best {s}"] for s in sources if not isinstance(s, int)},
        agrees={s: read[f"agrees {s}"] for s in sources},
        confident_class={m: read[f"guess {at}"] for at, m in enumerate(asked.plan.keep_confident)},
        margin=read.get("margin"),
    )
    auto, flagged = None, None
    if decided is not None and decided.auto is not None:
        auto, flagged = decided.auto.of(asked, part)
    return _Evidence(
        asked.codes(part),
        _with_columns(asked, limits, part),
        found,
        {} if decided is None else dict(decided.quotas),
        selected,
        asked.request.entropy_class,
        asked.n_passes,
        auto,
        part=part,
        rankings={} if decided is None else decided.rankings,
        flagged=flagged,
    )
