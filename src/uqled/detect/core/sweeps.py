"""Three sweeps over blocks of rows, for all members of all methods at once.

1. class statistics: per class, the number of samples and the sums of self-confidence and entropy;
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

from uqled.arrays import Labels
from uqled.detect.core import row_kernels
from uqled.detect.core.joint import PairCounter, PairCounts
from uqled.detect.core.rows import (
    MAX_BLOCK_ROWS,
    Block,
    ProbabilityRows,
    align_to_chunks,
    make_signed_keys,
    make_threshold_keys,
    view_as_keys,
)
from uqled.detect.core.selection import Disagreements, TopPerPair
from uqled.engines.local import Threads
from uqled.progress import Progress

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
EntropyClass = Literal["candidate", "given"]
Result = TypeVar("Result")

#: Whose probabilities: the softmax, the mean of the passes, or one pass by its number.
Source = Literal["softmax", "mean"] | int

BLOCK_BYTES = 16 * 2**20
#: No class has a lower confidence threshold; a class without samples has one that none reaches.
_MIN_THRESHOLD, _UNREACHABLE = 2 * row_kernels.SLACK, 2.0


@dataclass(frozen=True)
class Member:
    """One run of confident learning: on whose probabilities, with or without an entropy limit."""

    source: Source
    entropy_class: EntropyClass | None = None


def list_sources(members: Collection[Member]) -> list[Source]:
    """Whose probabilities the members use, each once."""
    return list(dict.fromkeys(member.source for member in members))


@dataclass(frozen=True)
class Inputs:
    """Labels and the probabilities of the same samples."""

    labels: Labels
    softmax: ProbabilityRows | None
    passes: ProbabilityRows | None
    single_precision: bool = False
    """Compute margins in the rows' own precision."""
    are_distributions: bool = True
    """Rows must be probability distributions."""

    def split_blocks(self) -> list[tuple[int, int]]:
        """(start, stop) of blocks of a few megabytes that cover all rows."""
        sources = [rows for rows in (self.softmax, self.passes) if rows is not None]
        size = max(1, BLOCK_BYTES // sum(rows.row_bytes for rows in sources))
        size = min(align_to_chunks(sources, size), MAX_BLOCK_ROWS)
        N = len(self.labels)
        return [(start, min(start + size, N)) for start in range(0, N, size)]

    def read_block(
        self, sources: Collection[Source], start: int, stop: int, *, check_passes: bool = False
    ) -> BlockProbabilities:
        """The labels of a block and its probabilities from these sources."""
        rows: dict[Source, NDArray[Any]] = {}
        block = None
        if "softmax" in sources:
            assert self.softmax is not None
            rows["softmax"] = self.softmax.read(start, stop).get_pass(0)
        if any(source != "softmax" for source in sources):
            assert self.passes is not None
            block = self.passes.read(start, stop)
            if check_passes:
                self.passes.check_block(block, start)
            for f in range(self.passes.n_passes):
                rows[f] = block.get_pass(f)
        if "mean" in sources:
            assert block is not None
            assert self.passes is not None
            shape = stop - start, self.passes.n_classes
            mean = self.passes.get_buffer("mean", shape, np.dtype(np.float64))
            row_kernels.average_passes(
                block.flat, block.first, block.step, self.passes.n_passes, mean
            )
            mean.flags.writeable = False
            rows["mean"] = mean
        return BlockProbabilities(self.labels.codes[start:stop], rows, block)

    def get_tolerance(self, source: Source) -> float:
        """How far a row's sum may be from 1. Sweep 2 checks only the softmax: sweep 1 has checked
        the passes."""
        if source != "softmax" or not self.are_distributions:
            return np.inf
        assert self.softmax is not None
        return self.softmax.tolerance

    def make_keys(self, rows: NDArray[Any]) -> NDArray[Any]:
        return view_as_keys(rows) if self.are_distributions else make_signed_keys(rows)


@dataclass(frozen=True)
class BlockProbabilities:
    labels: NDArray[np.int32]
    rows: Mapping[Source, NDArray[Any]]
    passes: Block | None


class ExactSums:
    """Sums per class that do not depend on the order: whole units, in two words."""

    def __init__(self, n_classes: int) -> None:
        self._high = np.zeros(n_classes, np.int64)
        self._low = np.zeros(n_classes, np.int64)

    def add(self, sums: NDArray[np.int64]) -> None:
        self._high += sums >> 32
        self._low += sums & 0xFFFFFFFF

    @property
    def words(self) -> NDArray[np.int64]:
        """[2,K] the sums in a form that can be stored and added."""
        return np.stack([self._high, self._low])

    @classmethod
    def from_words(cls, words: NDArray[np.int64]) -> ExactSums:
        sums = cls(words.shape[1])
        sums._high += words[0]
        sums._low += words[1]
        return sums

    def compute_means(self, counts: NDArray[np.int64]) -> Floats:
        """[K] sum over count; 0 for a class without samples."""
        total = self._high * (2.0**32 * row_kernels.UNIT) + self._low * row_kernels.UNIT
        return total / np.maximum(counts, 1)


@dataclass
class ClassStatistics:
    """The result of the first sweep."""

    class_counts: NDArray[np.int64]
    """[K] samples labelled as each class."""
    sums: dict[Source | Literal["entropy"], ExactSums] = field(default_factory=dict)
    """Per class, of the self-confidence by each source, and of the entropy."""
    thresholds: dict[Source, Floats] = field(default_factory=dict)
    """[K] probability from which on a sample counts as confident."""
    self_confidence: dict[Source, Floats] = field(default_factory=dict)
    """[N] of the softmax and of the mean, not of single passes."""
    entropy: Floats | None = None
    """[N] of the mean."""
    mutual_information: Floats | None = None
    """[N] of the passes."""
    entropy_limits: Floats | None = None
    """[K] entropy up to which a sample counts as confident."""

    def merge_with(self, other: ClassStatistics) -> ClassStatistics:
        """Counts and sums of both together; columns per sample are not merged."""
        return ClassStatistics(
            self.class_counts + other.class_counts,
            {
                name: ExactSums.from_words(sums.words + other.sums[name].words)
                for name, sums in self.sums.items()
            },
        )

    def compute_thresholds(self) -> None:
        """Set thresholds and entropy limits from the sums."""
        counts = self.class_counts
        for name, sums in self.sums.items():
            if name == "entropy":
                self.entropy_limits = sums.compute_means(counts) + row_kernels.SLACK
                continue
            mean = np.maximum(sums.compute_means(counts), _MIN_THRESHOLD)
            self.thresholds[name] = np.where(counts > 0, mean, _UNREACHABLE) - row_kernels.SLACK


@dataclass
class ConfidentJoints:
    """The result of the second sweep."""

    pairs: dict[Member, PairCounts] = field(default_factory=dict)
    """Samples per (given, confident) pair, before calibration."""
    counters: dict[Member, PairCounter] = field(default_factory=dict)
    """The same counts without the one sample per class that the diagonal has at least."""
    predicted: dict[Source, NDArray[np.int32]] = field(default_factory=dict)
    """[N] predicted class, of the softmax and of the mean."""
    agrees: dict[Source, Bools] = field(default_factory=dict)
    """[N] the predicted class is the label: never flagged."""
    confident_class: dict[Member, NDArray[np.int32]] = field(default_factory=dict)
    """[N] class that the sample is counted in, or -1; of the members that were named."""
    margin: Floats | None = None
    """[N] self-confidence minus the largest other probability of the softmax, if requested."""
    disagreements: dict[Source, Disagreements] = field(default_factory=dict)
    """First cuts of the third sweep."""


class Sweeps:
    """The three sweeps over one set of inputs."""

    def __init__(self, inputs: Inputs, engine: Threads, progress: Progress) -> None:
        self.inputs = inputs
        self.engine = engine
        self.progress = progress
        self.N, self.K = len(inputs.labels), inputs.labels.n_classes

    def collect_class_statistics(self, sources: Collection[Source]) -> ClassStatistics:
        """Sweep 1. If passes are read, their uncertainty is measured too."""
        N, K = self.N, self.K
        with_passes = any(source != "softmax" for source in sources)
        read: list[Source] = list(sources)
        if with_passes and "mean" not in read:
            read.append("mean")
        statistics = ClassStatistics(
            np.bincount(self.inputs.labels.codes, minlength=K).astype(np.int64)
        )
        statistics.self_confidence = {s: np.empty(N) for s in read if not isinstance(s, int)}
        if with_passes:
            statistics.entropy, statistics.mutual_information = np.empty(N), np.empty(N)
        summed: list[Any] = [*read, *["entropy"] * with_passes]
        statistics.sums = {name: ExactSums(K) for name in summed}

        def process_block(block: tuple[int, int]) -> dict[Any, NDArray[np.int64]]:
            """The block's class sums; its columns are written in place."""
            at = slice(*block)
            data = self.inputs.read_block(read, *block, check_passes=with_passes)
            sums = {name: np.zeros(K, np.int64) for name in summed}
            for source in read:
                column = statistics.self_confidence.get(source)
                values = np.empty(len(data.labels)) if column is None else column[at]
                row_kernels.read_given_probability(data.rows[source], data.labels, values)
                row_kernels.add_class_sums(data.labels, values, sums[source])
            if statistics.entropy is not None and statistics.mutual_information is not None:
                passes, entropy = data.passes, statistics.entropy[at]
                assert passes is not None
                assert self.inputs.passes is not None
                row_kernels.measure_uncertainty(
                    passes.flat, passes.first, passes.step, self.inputs.passes.n_passes,
                    data.rows["mean"], entropy, statistics.mutual_information[at],
                )  # fmt: skip
                row_kernels.add_class_sums(data.labels, entropy, sums["entropy"])
            return sums

        for _, sums in self.map_blocks("sweep 1 of 3, class statistics", process_block):
            for name, total in statistics.sums.items():
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
    ) -> ConfidentJoints:
        """Sweep 2. `keep_confident` names members whose confident class per sample is needed."""
        N, K, single_precision = self.N, self.K, self.inputs.single_precision
        sources = list_sources(members)
        joints = ConfidentJoints(
            counters={member: PairCounter(K, N) for member in members},
            predicted={s: np.empty(N, np.int32) for s in sources if not isinstance(s, int)},
            agrees={source: np.empty(N, np.bool_) for source in sources},
            confident_class={member: np.empty(N, np.int32) for member in keep_confident},
            margin=np.empty(N) if with_margin else None,
        )

        def process_block(block: tuple[int, int]) -> tuple[dict[Any, Any], dict[Any, Any]]:
            """The block's confident classes by member and disagreements by source; its columns are
            written in place."""
            start, stop = block
            at, n = slice(start, stop), stop - start
            data = self.inputs.read_block(sources, start, stop)
            confident: dict[Any, Any] = {}
            disagreements: dict[Any, Any] = {}
            for source in sources:
                rows = data.rows[source]
                keys = self.inputs.make_keys(rows)
                thresholds = make_threshold_keys(statistics.thresholds[source], rows.dtype)
                column = joints.predicted.get(source)
                predicted = np.empty(n, np.int32) if column is None else column[at]
                without_limit = np.empty(n, np.int32)
                bad = row_kernels.scan_rows(
                    rows, keys, data.labels, thresholds, self.inputs.get_tolerance(source),
                    single_precision, without_limit, predicted, joints.agrees[source][at],
                )  # fmt: skip
                if bad >= 0:
                    assert self.inputs.softmax is not None  # passes were checked in sweep 1
                    raise self.inputs.softmax.describe_bad_row(rows[bad], start + bad)
                disagreements[source] = Disagreements.from_block(
                    rows, data.labels, predicted, start, single_precision
                )
                for member in members:
                    if member.source == source:
                        confident[member] = without_limit
                        if member.entropy_class is not None:
                            confident[member] = self._apply_entropy_limits(
                                member.entropy_class, statistics, at, keys, thresholds, predicted,
                                without_limit,
                            )  # fmt: skip
            if joints.margin is not None:
                other = np.empty(n)
                row_kernels.find_best_other(data.rows["softmax"], data.labels, other)
                joints.margin[at] = statistics.self_confidence["softmax"][at] - other
            return confident, disagreements

        blocks: dict[Source, list[Disagreements]] = {source: [] for source in sources}
        for block, (confident, disagreements) in self.map_blocks(
            "sweep 2 of 3, confident joint", process_block
        ):
            at = slice(*block)
            for member, counter in joints.counters.items():
                counter.add(self.inputs.labels.codes[at], confident[member])
            for member, column in joints.confident_class.items():
                column[at] = confident[member]
            for source, entries in disagreements.items():
                blocks[source].append(entries)
        joints.pairs = {member: counter.get_joint() for member, counter in joints.counters.items()}
        joints.disagreements = {s: Disagreements.concatenate(parts) for s, parts in blocks.items()}
        return joints

    def _apply_entropy_limits(
        self,
        entropy_class: EntropyClass,
        statistics: ClassStatistics,
        at: slice,
        keys: NDArray[Any],
        thresholds: NDArray[Any],
        predicted: NDArray[np.int32],
        without_limit: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """[n] confident class if the entropy is within the limit of the class counted, or given."""
        assert statistics.entropy is not None
        assert statistics.entropy_limits is not None
        entropy, limits = statistics.entropy[at], statistics.entropy_limits
        if entropy_class == "given":
            within = entropy <= limits[self.inputs.labels.codes[at]]
            return np.where(within, without_limit, np.int32(-1))
        confident = np.empty_like(without_limit)
        row_kernels.find_confident_within_limits(
            keys, thresholds, entropy, limits, predicted, confident
        )
        return confident

    def select_top_margins(
        self, quotas: Mapping[Member, PairCounts], joints: ConfidentJoints
    ) -> dict[Member, TopPerPair]:
        """Sweep 3: for every pair of a member's quotas, the samples with the largest margins."""
        labels = self.inputs.labels.codes
        return self.fill_heaps(
            {
                member: TopPerPair(pairs).raise_cuts(joints.disagreements[member.source], labels)
                for member, pairs in quotas.items()
            }
        )

    def fill_heaps(self, heaps: dict[Member, TopPerPair]) -> dict[Member, TopPerPair]:
        """Sweep 3, given heaps with their first cuts."""
        sources = list_sources(heaps)
        pool: SimpleQueue[dict[Member, TopPerPair]] = SimpleQueue()
        pool.put(heaps)
        for _ in range(self.engine.threads - 1):
            pool.put({member: top.copy_empty() for member, top in heaps.items()})

        def process_block(block: tuple[int, int]) -> None:
            data = self.inputs.read_block(sources, *block)
            own = pool.get()
            try:
                for member, top in own.items():
                    rows = data.rows[member.source]
                    top.add_rows(rows, data.labels, block[0], self.inputs.single_precision)
            finally:
                pool.put(own)

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
        blocks = self.inputs.split_blocks()
        with self.progress.stage(stage, self.N) as advance:
            for block, result in zip(blocks, self.engine.map(function, blocks), strict=True):
                yield block, result
                advance(block[1] - block[0])
