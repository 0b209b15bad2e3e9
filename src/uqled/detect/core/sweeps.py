"""Three sweeps over blocks of rows, for all members of all methods at once.

1. class statistics: per class, the number of samples and the sums of self-confidence and of the
   uncertainty that members limit;
2. confident joint: the number of samples per pair of given and confident class;
3. selection: for every pair, the samples with the largest margins.

The results of two blocks merge in any order: sums are of whole units, counts are counts, and the
top samples of a pair are the same however they were collected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.class_statistics import (
    ClassStatistics,
    ExactSums,
    Measure,
    measure_block,
)
from uqled.detect.core.inputs import Inputs, ProbabilitySource
from uqled.detect.core.joint import PairCounter, PairCounts
from uqled.detect.core.rows import make_threshold_keys
from uqled.detect.core.selection import Disagreements, TopPerPair
from uqled.engines.local import Threads
from uqled.progress import Progress

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
EntropyClass = Literal["candidate", "given"]
Result = TypeVar("Result")
#: Bytes of a row (four cache lines) above which skipping the row saves memory traffic.
_LONG_ROW = 256


@dataclass(frozen=True)
class UncertaintyLimit:
    """A sample counts for a class only if its uncertainty is at most the mean of a class."""

    measure: Measure
    of: EntropyClass = "candidate"
    """Whose mean is the limit: that of the class being counted, or of the sample's given class."""


@dataclass(frozen=True)
class Member:
    """One run of confident learning: its source of probabilities, with or without a limit."""

    source: ProbabilitySource
    limit: UncertaintyLimit | None = None


def list_sources(members: Collection[Member]) -> list[ProbabilitySource]:
    """The distinct sources that the members use."""
    return list(dict.fromkeys(member.source for member in members))


def list_measures(members: Collection[Member]) -> list[Measure]:
    """The distinct measures of uncertainty that the members limit."""
    return list(dict.fromkeys(m.limit.measure for m in members if m.limit is not None))


@dataclass
class ConfidentJoints:
    """The result of the second sweep."""

    counters: dict[Member, PairCounter] = field(default_factory=dict)
    """Counts samples per (given, confident) pair."""
    pairs: dict[Member, PairCounts] = field(default_factory=dict)
    """The calibrated joints, once they were calibrated."""
    predicted: dict[ProbabilitySource, NDArray[np.int32]] = field(default_factory=dict)
    """[N] predicted class, of the softmax and of the mean."""
    agrees: dict[ProbabilitySource, Bools] = field(default_factory=dict)
    """[N] the predicted class is the label: never flagged."""
    confident_class: dict[Member, NDArray[np.int32]] = field(default_factory=dict)
    """[N] the class that a sample is counted in, or -1; for the members that were asked for."""
    margin: Floats | None = None
    """[N] self-confidence minus the largest other probability of the softmax, if requested."""
    disagreements: dict[ProbabilitySource, Disagreements] = field(default_factory=dict)
    """First cuts of the third sweep."""
    votes: NDArray[np.int64] | None = None
    """How often a pass predicts another class than the label, and how often two passes predict
    different classes; if requested."""


class Sweeps:
    """The three sweeps over one set of inputs."""

    def __init__(self, inputs: Inputs, engine: Threads, progress: Progress) -> None:
        self.inputs = inputs
        self.engine = engine
        self.progress = progress
        self.N, self.K = len(inputs.labels), inputs.labels.n_classes

    def collect_class_statistics(self, members: Collection[Member]) -> ClassStatistics:
        """Sweep 1. If passes are read, their entropy and mutual information are measured too."""
        sources = list_sources(members)
        measures_with_limits = list_measures(members)
        N, K = self.N, self.K
        with_passes = any(source != "softmax" for source in sources)
        read: list[ProbabilitySource] = list(sources)
        if with_passes and "mean" not in read:
            read.append("mean")
        statistics = ClassStatistics(
            np.bincount(self.inputs.labels.codes, minlength=K).astype(np.int64)
        )
        statistics.self_confidence = {s: np.empty(N) for s in read if not isinstance(s, int)}
        if with_passes:
            measures: list[Measure] = ["entropy", "mutual-information", *measures_with_limits]
            statistics.uncertainty = {measure: np.empty(N) for measure in measures}
        statistics.confidence_sums = {source: ExactSums(K) for source in read}
        statistics.uncertainty_sums = {measure: ExactSums(K) for measure in measures_with_limits}
        every: dict[Any, ExactSums] = {**statistics.confidence_sums, **statistics.uncertainty_sums}

        def process_block(block: tuple[int, int]) -> dict[Any, NDArray[np.int64]]:
            """The block's class sums; its columns are written in place."""
            at = slice(*block)
            data = self.inputs.read_block(read, *block, check_passes=with_passes)
            sums = {name: np.zeros(K, np.int64) for name in every}
            for source in read:
                column = statistics.self_confidence.get(source)
                values = np.empty(len(data.labels)) if column is None else column[at]
                self.inputs.kernels.read_given_probability(data.rows[source], data.labels, values)
                self.inputs.kernels.add_class_sums(data.labels, values, sums[source])
            if with_passes:
                assert self.inputs.passes is not None
                columns = {name: column[at] for name, column in statistics.uncertainty.items()}
                measure_block(data, self.inputs.passes.n_passes, columns, self.inputs.kernels)
                for measure in measures_with_limits:
                    self.inputs.kernels.add_class_sums(data.labels, columns[measure], sums[measure])
            return sums

        for _, sums in self.map_blocks("sweep 1 of 3, class statistics", process_block):
            for name, total in every.items():
                total.add(sums[name])
        statistics.compute_thresholds()
        return statistics

    def count_confident_joints(
        self,
        members: Collection[Member],
        statistics: ClassStatistics,
        *,
        keep_confident: Collection[Member] = (),
        with_margin: bool = False,
        with_votes: bool = False,
    ) -> ConfidentJoints:
        """Sweep 2. `keep_confident` names members whose confident class per sample is needed;
        votes need a member of each pass."""
        N, K, single_precision = self.N, self.K, self.inputs.single_precision
        sources = list_sources(members)
        joints = ConfidentJoints(
            counters={member: PairCounter(K, N) for member in members},
            predicted={s: np.empty(N, np.int32) for s in sources if not isinstance(s, int)},
            agrees={source: np.empty(N, np.bool_) for source in sources},
            confident_class={member: np.empty(N, np.int32) for member in keep_confident},
            margin=np.empty(N) if with_margin else None,
            votes=np.zeros(2, np.int64) if with_votes else None,
        )

        def process_block(block: tuple[int, int]) -> tuple[dict[Any, Any], dict[Any, Any], Any]:
            """The block's confident classes by member, disagreements by source and votes; its
            columns are written in place."""
            start, stop = block
            at, n = slice(start, stop), stop - start
            data = self.inputs.read_block(sources, start, stop)
            confident: dict[Any, Any] = {}
            disagreements: dict[Any, Any] = {}
            predictions: list[NDArray[np.int32]] = []  # of the passes before
            votes = np.zeros(2, np.int64)
            for source in sources:
                rows = data.rows[source]
                keys = self.inputs.make_keys(rows)
                thresholds = make_threshold_keys(statistics.thresholds[source], rows.dtype)
                column = joints.predicted.get(source)
                predicted = np.empty(n, np.int32) if column is None else column[at]
                without_limit, lead = np.empty(n, np.int32), np.empty(n)
                bad_row = self.inputs.kernels.scan_rows(
                    rows, keys, data.labels, thresholds, self.inputs.get_tolerance(source),
                    single_precision, without_limit, predicted, joints.agrees[source][at], lead,
                )  # fmt: skip
                if bad_row >= 0:
                    assert self.inputs.softmax is not None  # passes were checked in sweep 1
                    raise self.inputs.softmax.describe_bad_row(rows[bad_row], start + bad_row)
                disagreements[source] = Disagreements.from_block(
                    data.labels, predicted, lead, start
                )
                if with_votes and isinstance(source, int):
                    votes[0] += len(disagreements[source].index)
                    votes[1] += sum(np.count_nonzero(predicted != other) for other in predictions)
                    predictions.append(predicted)
                for member in members:
                    if member.source == source:
                        confident[member] = without_limit
                        if member.limit is not None:
                            confident[member] = self._apply_limit(
                                member.limit, statistics, at, keys, thresholds, predicted,
                                without_limit,
                            )  # fmt: skip
            if joints.margin is not None:
                other = np.empty(n)
                self.inputs.kernels.find_best_other(data.rows["softmax"], data.labels, other)
                joints.margin[at] = statistics.self_confidence["softmax"][at] - other
            return confident, disagreements, votes

        blocks: dict[ProbabilitySource, list[Disagreements]] = {source: [] for source in sources}
        for block, (confident, disagreements, votes) in self.map_blocks(
            "sweep 2 of 3, confident joint", process_block
        ):
            at = slice(*block)
            for member, counter in joints.counters.items():
                counter.add(self.inputs.labels.codes[at], confident[member], self.inputs.kernels)
            for member, column in joints.confident_class.items():
                column[at] = confident[member]
            for source, entries in disagreements.items():
                blocks[source].append(entries)
            if joints.votes is not None:
                joints.votes += votes
        joints.disagreements = {s: Disagreements.concatenate(parts) for s, parts in blocks.items()}
        return joints

    def _apply_limit(
        self,
        limit: UncertaintyLimit,
        statistics: ClassStatistics,
        at: slice,
        keys: NDArray[Any],
        thresholds: NDArray[Any],
        predicted: NDArray[np.int32],
        without_limit: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """[n] confident class if the uncertainty is within the limit of the class counted, or
        given."""
        values, limits = statistics.uncertainty[limit.measure][at], statistics.limits[limit.measure]
        if limit.of == "given":
            within = values <= limits[self.inputs.labels.codes[at]]
            return np.where(within, without_limit, np.int32(-1))
        confident = np.empty_like(without_limit)
        self.inputs.kernels.find_confident_within_limits(
            keys, thresholds, values, limits, predicted, confident
        )
        return confident

    def select_top_margins(
        self, quotas: Mapping[Member, PairCounts], joints: ConfidentJoints
    ) -> dict[Member, TopPerPair]:
        """Sweep 3: for every pair of a member's quotas, the samples with the largest margins."""
        labels = self.inputs.labels.codes
        heaps = {
            member: TopPerPair(pairs, self.inputs.kernels).raise_cuts(
                joints.disagreements[member.source], labels
            )
            for member, pairs in quotas.items()
        }
        if not all(self._can_skip_rows(source) for source in list_sources(heaps)):
            return self.fill_heaps(heaps)
        # Samples predicted as labelled have the smallest margins. Offered last, most are not read.
        heaps = self.fill_heaps(heaps, {m: ~joints.agrees[m.source] for m in heaps})
        open_classes = {member: top.find_open_classes() for member, top in heaps.items()}
        if not any(is_open.any() for is_open in open_classes.values()):
            return heaps
        rest = {
            member: joints.agrees[member.source] & is_open[labels]
            for member, is_open in open_classes.items()
        }
        if any(is_offered.any() for is_offered in rest.values()):
            heaps = self.fill_heaps(heaps, rest)
        return heaps

    def _can_skip_rows(self, source: ProbabilitySource) -> bool:
        """Whether rows that are not looked at cost nothing: in memory, and longer than what is read
        from memory with their neighbours. NumPy gathers rows, however short."""
        rows = self.inputs.softmax if source == "softmax" else self.inputs.passes
        if rows is None or not rows.is_zero_copy:
            return False
        if self.inputs.are_small:
            return True
        return source != "mean" and self.K * rows.dtype.itemsize >= _LONG_ROW

    def fill_heaps(
        self, heaps: dict[Member, TopPerPair], is_offered: Mapping[Member, Bools] | None = None
    ) -> dict[Member, TopPerPair]:
        """Sweep 3, given heaps with their first cuts, over all rows or those `is_offered` [N]."""
        sources = list_sources(heaps)
        pool: SimpleQueue[dict[Member, TopPerPair]] = SimpleQueue()
        pool.put(heaps)
        for _ in range(self.engine.threads - 1):
            pool.put({member: top.copy_empty() for member, top in heaps.items()})

        if is_offered is None:
            is_offered = dict.fromkeys(heaps, np.ones(self.N, np.bool_))

        def process_block(block: tuple[int, int]) -> None:
            data = self.inputs.read_block(sources, *block)
            own_heaps = pool.get()
            try:
                for member, top in own_heaps.items():
                    top.add_rows(
                        data.rows[member.source], data.labels, is_offered[member][slice(*block)],
                        block[0], self.inputs.single_precision,
                    )  # fmt: skip
            finally:
                pool.put(own_heaps)

        for _ in self.map_blocks("sweep 3 of 3, selection", process_block):
            pass
        total = pool.get()
        for _ in range(self.engine.threads - 1):
            for member, top in pool.get().items():
                total[member].merge(top)
        return total

    def map_blocks(
        self, stage: str, function: Callable[[tuple[int, int]], Result]
    ) -> Iterator[tuple[tuple[int, int], Result]]:
        """(block, result) of every block, in order, with a progress bar."""
        blocks = self.inputs.split_blocks(self.engine.threads)
        with self.progress.stage(stage, self.N) as advance:
            for block, result in zip(blocks, self.engine.map(function, blocks), strict=True):
                yield block, result
                advance(block[1] - block[0])
