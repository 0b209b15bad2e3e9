"""`auto` in parts: the same readings of each sample, from what all parts found together.

A sample's readings need to know few things of the others: how to calibrate (fitted to a few
thousand rows), two transition matrices, how often passes agree, what the surest samples show, and
how many labels there are beside those that a matrix lets expect.
Each is found out by one task per part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate, choose_confidence
from uqled.detect.auto.estimate import (
    ErrorEstimate,
    OperatingPoint,
    doubt,
    interval,
    lowest_level,
)
from uqled.detect.auto.evidence import (
    SUREST,
    Candidates,
    EvenCounts,
    Shown,
    SurestCounts,
    Transition,
    fit_step,
    sureness,
    surest_numbers,
)
from uqled.detect.auto.levels import UNITS, Levels
from uqled.detect.auto.readings import Found, PlainSource, Reader, better_source, candidates_of
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.cuts import Cuts, GroupedSamples, RoundCounts, find_cuts, values_to_keys
from uqled.detect.core.joint import PairCounter, PairCounts
from uqled.detect.core.sweeps import Member
from uqled.detect.parts.context import Part, TaskContext
from uqled.detect.parts.tasks import collect_part_statistics, merge_results
from uqled.engines.local import Threads

Ints = NDArray[np.int64]

#: Beside the readings, in sums per level.
_MORE = ("mean", "variance")


@dataclass(frozen=True)
class FitSample:
    """What fitting needs of some parts."""

    votes: Ints
    """[2,STEPS]"""
    rows: dict[PlainSource, Candidates]
    """Those to fit to, in the order of the samples."""

    def merge_with(self, other: FitSample) -> FitSample:
        rows = {s: found.followed_by(other.rows[s]) for s, found in self.rows.items()}
        return FitSample(self.votes + other.votes, rows)


def collect_statistics_and_candidates(context: TaskContext, N: int, part: Part) -> ClassStatistics:
    """Sweep 1, and the candidates while the part's rows are still in the file cache."""
    found = collect_part_statistics(context, part)
    candidates(context, N, part)
    return found


def candidates(context: TaskContext, N: int, part: Part) -> FitSample:
    """Each sample's candidates go to the part's file; votes, and rows to fit to, come back."""
    store, stage, step = context.store, "candidates", fit_step(N)
    if not store.has(part.number, stage):
        found, votes = candidates_of(context.make_sweeps(part))
        kept: dict[str, NDArray[Any]] = {"votes": votes}
        for source, one in found.items():
            kept[f"classes {source}"], kept[f"probs {source}"] = one.classes, one.probs
        store.write(part.number, stage, kept)
    votes = store.read(part.number, stage, ["votes"])["votes"]
    some = slice((-part.start) % step, None, step)  # every so many-th sample of all
    rows = {s: _read_candidates(context, s, part).rows(some) for s in _sources(context)}
    return FitSample(votes, rows)


def count_predicted_pairs(context: TaskContext, source: PlainSource, part: Part) -> PairCounts:
    """Counts of (given, most probable)."""
    counter = PairCounter(len(context.values), part.stop - part.start)
    name = f"predicted {source}"
    predicted = context.store.read(part.number, "sweep-2", [name])[name]
    counter.add(context.read_labels(part), predicted)
    return counter.get_counts()


def count_surest_round(
    context: TaskContext, source: PlainSource, cuts: Cuts, part: Part
) -> RoundCounts:
    """One round of looking for the surest samples."""
    found = _read_candidates(context, source, part)
    return cuts.count_samples(_offer_to_all_sets(sureness(found)[0], part))


def shown(
    context: TaskContext, source: PlainSource, power: float, cuts: Cuts, few: Transition, part: Part
) -> Shown:
    """What the samples of a part show, above all the surest."""
    found = _read_candidates(context, source, part)
    sure, differs, guess = sureness(found)
    masks = cuts.select(_offer_to_all_sets(sure, part)).reshape(-1, len(sure))
    surest = SurestCounts.of(differs, guess, list(masks), found.n_classes)
    return Shown(surest, EvenCounts.of_all(found, power, few, Threads(1)))


def _offer_to_all_sets(sure: NDArray[Any], part: Part) -> GroupedSamples:
    """Every sample is offered to each of the sets of the surest."""
    n, sets = len(sure), len(SUREST) + 1
    return GroupedSamples(
        np.repeat(np.arange(sets), n),
        np.tile(values_to_keys(sure), sets),
        np.tile(np.arange(part.start, part.stop), sets),
    )


def readings(context: TaskContext, reader: Reader, part: Part) -> Levels:
    """Every reading goes to the part's file, sums per level come back."""
    store, stage = context.store, "readings"
    if not store.has(part.number, stage):
        voters = _read_candidates(context, "mean", part) if "mean" in _sources(context) else None
        found = reader.readings(_read_candidates(context, reader.source, part), voters, Threads(1))
        store.write(part.number, stage, found)
    return _estimate(context, reader, part).levels


def count_probability_round(
    context: TaskContext, reader: Reader, cuts: Cuts, part: Part
) -> RoundCounts:
    """One round of looking for so many samples that are most probably wrong."""
    return cuts.count_samples(_group_by_probability(_estimate(context, reader, part), part))


def _group_by_probability(estimate: ErrorEstimate, part: Part) -> GroupedSamples:
    n = part.stop - part.start
    keys = values_to_keys(estimate.probability)
    return GroupedSamples(np.zeros(n, np.int64), keys, np.arange(part.start, part.stop))


def _estimate(context: TaskContext, reader: Reader, part: Part) -> ErrorEstimate:
    return reader.estimate(context.store.read(part.number, "readings"))


def _sources(context: TaskContext) -> list[PlainSource]:
    found: list[PlainSource] = ["softmax"] if context.softmax is not None else []
    return [*found, "mean"] if context.passes is not None else found


def _read_candidates(context: TaskContext, source: PlainSource, part: Part) -> Candidates:
    names = [f"classes {source}", f"probs {source}"]
    read = context.store.read(part.number, "candidates", names)
    return Candidates(read[names[0]], read[names[1]], len(context.values))


@dataclass(frozen=True)
class AutoFlags:
    """Which samples `auto` flags, known to every part."""

    reader: Reader
    point: OperatingPoint
    level: int
    """The lowest that is flagged, where the point is a level."""
    cuts: Cuts | None
    """Where it is a number of samples."""

    def read_part(self, context: TaskContext, part: Part) -> tuple[Found, NDArray[np.bool_]]:
        """What is known of a part's samples, and [n] their flags."""
        estimate = _estimate(context, self.reader, part)
        found = _read_candidates(context, self.reader.source, part)
        about = Found(estimate, self.reader.source, found.classes[:, 1].copy())
        if self.cuts is not None:
            return about, self.cuts.select(_group_by_probability(estimate, part))
        return about, estimate.above(self.point, self.level)


def find_auto_flags(
    over_parts: Callable[..., Any],
    context: TaskContext,
    N: int,
    joints: dict[Member, PairCounts],
    point: OperatingPoint,
) -> tuple[AutoFlags, Levels]:
    """Find out, with `over_parts(stage, task, merge, *given)`, what flags follow from all parts."""
    seen: FitSample = over_parts(None, candidates, merge_results, context, N)
    source, power = better_source(seen.rows)
    pairs = PairCounter(len(context.values))
    pairs.merge(over_parts(None, count_predicted_pairs, merge_results, context, source))
    cuts = find_cuts(
        np.array(surest_numbers(N), np.int64),
        lambda c: over_parts(None, count_surest_round, merge_results, context, source, c),
    )
    few = Transition.of_counts(joints[Member(source)])
    counts: Shown = over_parts(None, shown, merge_results, context, source, power, cuts, few)
    reader = Reader.of_counts(
        seen.rows[source], source, power, few, pairs.get_joint(),
        counts.surest, counts.even, seen.votes, Threads(1),
    )  # fmt: skip
    levels: Levels = over_parts("readings", readings, merge_results, context, reader)
    wanted = None
    if point.kind == "budget":
        number = np.array([min(int(point.value), N)], np.int64)
        wanted = find_cuts(
            number,
            lambda c: over_parts(None, count_probability_round, merge_results, context, reader, c),
        )
    names = [name for name in levels.errors if name not in _MORE]
    level = lowest_level(levels, point, reader.weights(names))
    return AutoFlags(reader, point, level, wanted), levels


def estimate_flags(
    levels: Levels, flags: AutoFlags, flagged: Mapping[str, int]
) -> tuple[Estimate, Estimate | None, Estimate | None, str | None]:
    """For the answer: (n_errors, precision, recall, unsure). `flagged` are the number of flags and
    the sums over them, in units as those of `levels`."""
    names = [name for name in levels.errors if name not in _MORE]
    every = {name: int(sums.sum()) for name, sums in levels.errors.items()}
    N, n = int(levels.counts.sum()), flagged["flags"]
    best = levels.best_f1(flags.reader.weights(names))
    at_best = {name: int(sums[best:].sum()) for name, sums in levels.errors.items()}
    n_best = int(levels.counts[best:].sum())
    unsure = doubt(
        _share(_interval(at_best, n_best, names), n_best),
        _share(_interval(at_best, n_best, names, confidence=0.95), n_best),
    )
    real = _share(_interval(flagged, n, names, confidence=choose_confidence(unsure)), n)
    recalls = [flagged[k] / max(every[k], 1) for k in (*names, "mean")]
    n_errors = _interval(every, N, names)
    if not n:
        return n_errors, None, None, unsure
    return n_errors, real, Estimate(recalls[-1], min(recalls), max(recalls)), unsure


def _share(number: Estimate, n: int) -> Estimate:
    return Estimate(*(x / max(n, 1) for x in vars(number).values()))


def _interval(
    sums: Mapping[str, int], n: int, names: list[str], confidence: float = 0.8
) -> Estimate:
    values = {name: sums[name] / UNITS for name in (*names, *_MORE)}
    each = {name: values[name] for name in names}
    spread = dict.fromkeys(names, 1.0)
    return interval(values["mean"], each, spread, values["variance"], float(n), False, confidence)
