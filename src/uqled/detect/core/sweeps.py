"""Three sweeps over blocks of rows, for all members of a method at once.

1. class statistics: per class, the number of samples and the sums of self-confidence and entropy;
2. confident joint: the number of samples per pair of given and guessed class;
3. selection: for every pair, the samples with the largest margins.

What a sweep makes of a block merges with what it makes of another, in any order: sums are of whole
units, counts are counts, and the best of each pair are the same however they were collected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.detect.core import kernels
from uqled.detect.core.joint import PairCounter, PairCounts
from uqled.detect.core.rows import (
    MAX_BLOCK_ROWS,
    ProbabilityRows,
    keys_of,
    keys_of_signed,
    threshold_keys,
    whole_chunks,
)
from uqled.detect.core.selection import Best, Leads
from uqled.engines.local import Threads
from uqled.progress import Progress

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
EntropyClass = Literal["candidate", "given"]

#: Whose probabilities: the softmax, the mean of the passes, or one pass by its number.
Source = Literal["softmax", "mean"] | int

BLOCK_BYTES = 16 * 2**20
#: No class has a smaller confidence threshold; one that nobody was given has this one.
_LEAST_THRESHOLD, _NEVER = 2 * kernels.SLACK, 2.0


@dataclass(frozen=True)
class Member:
    """One run of confident learning: on whose probabilities, and with an entropy limit or not."""

    source: Source
    entropy_class: EntropyClass | None = None


@dataclass(frozen=True)
class Inputs:
    """Labels and rows of probabilities that belong together."""

    labels: Labels
    softmax: ProbabilityRows | None
    passes: ProbabilityRows | None
    in_single: bool = False
    """Compute margins in the rows' own precision."""
    normalised: bool = True
    """Rows must be probability distributions."""

    def blocks(self) -> list[tuple[int, int]]:
        """(start, stop) of blocks of a few megabytes that cover all rows."""
        given = [rows for rows in (self.softmax, self.passes) if rows is not None]
        size = max(1, BLOCK_BYTES // sum(rows.row_bytes for rows in given))
        size = min(whole_chunks(given, size), MAX_BLOCK_ROWS)
        N = len(self.labels)
        return [(start, min(start + size, N)) for start in range(0, N, size)]

    def read(
        self, sources: Collection[Source], start: int, stop: int, *, check_passes: bool = False
    ) -> BlockProbabilities:
        """The probabilities of the given sources."""
        rows: dict[Source, NDArray[Any]] = {}
        block = None
        if "softmax" in sources:
            assert self.softmax is not None
            rows["softmax"] = self.softmax.read(start, stop).of_pass(0)
        if any(source != "softmax" for source in sources):
            assert self.passes is not None
            block = self.passes.read(start, stop)
            if check_passes:
                self.passes.refuse_bad_rows(block, start)
            for f in range(self.passes.n_passes):
                rows[f] = block.of_pass(f)
        if "mean" in sources:
            assert block is not None
            assert self.passes is not None
            shape = stop - start, self.passes.n_classes
            mean = self.passes.buffer("mean", shape, np.dtype(np.float64))
            kernels.mean_rows(block.flat, block.first, block.step, self.passes.n_passes, mean)
            mean.flags.writeable = False
            rows["mean"] = mean
        return BlockProbabilities(self.labels.codes[start:stop], rows, block)

    def tolerance(self, source: Source) -> float:
        """How far a row's sum may be from 1: only the softmax is left to be checked by sweep 2."""
        if source != "softmax" or not self.normalised:
            return np.inf
        assert self.softmax is not None
        return self.softmax.tolerance

    def keys(self, rows: NDArray[Any]) -> NDArray[Any]:
        return keys_of(rows) if self.normalised else keys_of_signed(rows)


@dataclass(frozen=True)
class BlockProbabilities:
    labels: NDArray[np.int32]
    rows: Mapping[Source, NDArray[Any]]
    passes: Any


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
        """[2,K] the sums as they are kept, to store them."""
        return np.stack([self._high, self._low])

    @classmethod
    def of_words(cls, words: NDArray[np.int64]) -> ExactSums:
        found = cls(words.shape[1])
        found._high += words[0]
        found._low += words[1]
        return found

    def mean(self, counts: NDArray[np.int64]) -> Floats:
        """[K] sum over count; 0 for a class without samples."""
        total = self._high * (2.0**32 * kernels.UNIT) + self._low * kernels.UNIT
        return total / np.maximum(counts, 1)


@dataclass
class Statistics:
    """What the first sweep found."""

    class_counts: NDArray[np.int64]
    """[K] samples given each class."""
    sums: dict[Source | Literal["entropy"], ExactSums] = field(default_factory=dict)
    """Per class, of the self-confidence by each source, and of the entropy."""
    thresholds: dict[Source, Floats] = field(default_factory=dict)
    """[K] self-confidence at which a sample counts as confident."""
    self_confidence: dict[Source, Floats] = field(default_factory=dict)
    """[N] of the softmax and of the mean, not of single passes."""
    entropy: Floats | None = None
    """[N] of the mean."""
    information: Floats | None = None
    """[N] mutual information of the passes."""
    entropy_limits: Floats | None = None
    """[K] entropy above which a sample is not sure."""

    def merged(self, other: Statistics) -> Statistics:
        """Counts and sums together with those of other samples; what is per sample stays apart."""
        return Statistics(
            self.class_counts + other.class_counts,
            {
                name: ExactSums.of_words(sums.words + other.sums[name].words)
                for name, sums in self.sums.items()
            },
        )

    def settle(self) -> None:
        """Thresholds and limits that follow from the sums."""
        counts = self.class_counts
        for name, sums in self.sums.items():
            if name == "entropy":
                self.entropy_limits = sums.mean(counts) + kernels.SLACK
                continue
            mean = np.maximum(sums.mean(counts), _LEAST_THRESHOLD)
            self.thresholds[name] = np.where(counts > 0, mean, _NEVER) - kernels.SLACK


@dataclass
class Joints:
    """What the second sweep found."""

    pairs: dict[Member, PairCounts] = field(default_factory=dict)
    """Samples per (given, guessed) pair, before calibration."""
    counters: dict[Member, PairCounter] = field(default_factory=dict)
    """The same as they were counted: without a sample of every class on the diagonal."""
    best: dict[Source, NDArray[np.int32]] = field(default_factory=dict)
    """[N] most probable class, of the softmax and of the mean."""
    agrees: dict[Source, Bools] = field(default_factory=dict)
    """[N] the most probable class is the given one: never flagged."""
    guess: dict[Member, NDArray[np.int32]] = field(default_factory=dict)
    """[N] guessed class or -1, of the members asked for."""
    margin: Floats | None = None
    """[N] self-confidence minus the best other class's, of the softmax, if asked for."""
    leads: dict[Source, Leads] = field(default_factory=dict)
    """Where the third sweep begins."""


class Sweeps:
    """The three sweeps over one set of inputs."""

    def __init__(self, inputs: Inputs, engine: Threads, progress: Progress) -> None:
        self.inputs = inputs
        self.engine = engine
        self.progress = progress
        self.N, self.K = len(inputs.labels), inputs.labels.n_classes

    def class_statistics(self, sources: Collection[Source]) -> Statistics:
        """Sweep 1. Where passes are read, their uncertainty is measured too."""
        N, K = self.N, self.K
        with_passes = any(source != "softmax" for source in sources)
        read = [*sources, "mean"] if with_passes and "mean" not in sources else list(sources)
        found = Statistics(np.bincount(self.inputs.labels.codes, minlength=K).astype(np.int64))
        found.self_confidence = {s: np.empty(N) for s in read if not isinstance(s, int)}
        if with_passes:
            found.entropy, found.information = np.empty(N), np.empty(N)
        summed: list[Any] = [*read, *["entropy"] * with_passes]
        found.sums = {name: ExactSums(K) for name in summed}

        def of_block(block: tuple[int, int]) -> dict[Any, Any]:
            data = self.inputs.read(read, *block, check_passes=with_passes)
            partial: dict[Any, Any] = {}

            def add(name: Any, values: Floats) -> None:
                partial[name] = np.zeros(K, np.int64)
                kernels.add_class_sums(data.labels, values, partial[name])
                if not isinstance(name, int):
                    partial[name, "rows"] = values

            for source in read:
                values = np.empty(len(data.labels))
                kernels.given_probability(data.rows[source], data.labels, values)
                add(source, values)
            if with_passes:
                entropy, information = np.empty(len(data.labels)), np.empty(len(data.labels))
                b, mean = data.passes, data.rows["mean"]
                F = self.inputs.passes.n_passes if self.inputs.passes else 0
                kernels.uncertainty_rows(b.flat, b.first, b.step, F, mean, entropy, information)
                add("entropy", entropy)
                partial["information"] = information
            return partial

        for (start, stop), partial in self._map("sweep 1 of 3, class statistics", of_block):
            for name, total in found.sums.items():
                total.add(partial[name])
            for source, values in found.self_confidence.items():
                values[start:stop] = partial[source, "rows"]
            if found.entropy is not None and found.information is not None:
                found.entropy[start:stop] = partial["entropy", "rows"]
                found.information[start:stop] = partial["information"]
        found.settle()
        return found

    def confident_joints(
        self,
        members: Collection[Member],
        statistics: Statistics,
        *,
        keep_guess: Collection[Member] = (),
        with_margin: bool = False,
    ) -> Joints:
        """Sweep 2. `keep_guess` names members whose guess per sample is wanted."""
        N, K = self.N, self.K
        sources = list(dict.fromkeys(member.source for member in members))
        counters = {member: PairCounter(K, N) for member in members}
        found = Joints()
        found.best = {s: np.empty(N, np.int32) for s in sources if not isinstance(s, int)}
        found.agrees = {source: np.empty(N, np.bool_) for source in sources}
        found.guess = {member: np.empty(N, np.int32) for member in keep_guess}
        found.margin = np.empty(N) if with_margin else None
        leads: dict[Source, list[Leads]] = {source: [] for source in sources}

        def of_block(block: tuple[int, int]) -> dict[Any, Any]:
            start, stop = block
            data = self.inputs.read(sources, start, stop)
            n = stop - start
            partial: dict[Any, Any] = {}
            for source in sources:
                rows = data.rows[source]
                keys = self.inputs.keys(rows)
                thresholds = threshold_keys(statistics.thresholds[source], rows.dtype)
                guess, best = np.empty(n, np.int32), np.empty(n, np.int32)
                agrees = np.empty(n, np.bool_)
                bad = kernels.scan_rows(
                    rows, keys, data.labels, thresholds, self.inputs.tolerance(source),
                    self.inputs.in_single, guess, best, agrees,
                )  # fmt: skip
                if bad >= 0:
                    assert self.inputs.softmax is not None  # passes were checked in sweep 1
                    raise self.inputs.softmax.problem(rows[bad], start + bad)
                partial["best", source], partial["agrees", source] = best, agrees
                partial["leads", source] = Leads.of_block(
                    rows, data.labels, best, start, self.inputs.in_single
                )
                for member in members:
                    if member.source != source:
                        continue
                    partial["guess", member] = guess
                    if member.entropy_class is not None:
                        partial["guess", member] = self._sure_guess(
                            member.entropy_class, statistics, block, keys, thresholds, best, guess
                        )
            if with_margin:
                other, rows = np.empty(n), data.rows["softmax"]
                kernels.best_other(rows, data.labels, other)
                partial["margin", ""] = statistics.self_confidence["softmax"][start:stop] - other
            return partial

        for (start, stop), partial in self._map("sweep 2 of 3, confident joint", of_block):
            for member, counter in counters.items():
                guess = partial["guess", member]
                counter.add(self.inputs.labels.codes[start:stop], guess)
                if member in found.guess:
                    found.guess[member][start:stop] = guess
            for source, best in found.best.items():
                best[start:stop] = partial["best", source]
            for source, agrees in found.agrees.items():
                agrees[start:stop] = partial["agrees", source]
                leads[source].append(partial["leads", source])
            if found.margin is not None:
                found.margin[start:stop] = partial["margin", ""]
        found.counters = counters
        found.pairs = {member: counter.pairs() for member, counter in counters.items()}
        found.leads = {source: Leads.together(parts) for source, parts in leads.items()}
        return found

    def _sure_guess(
        self,
        entropy_class: EntropyClass,
        statistics: Statistics,
        block: tuple[int, int],
        keys: NDArray[Any],
        thresholds: NDArray[Any],
        best: NDArray[np.int32],
        guess: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """[n] the guess where the entropy is within the limit of the class counted, or given."""
        assert statistics.entropy is not None
        assert statistics.entropy_limits is not None
        entropy, limits = statistics.entropy[slice(*block)], statistics.entropy_limits
        if entropy_class == "given":
            sure = entropy <= limits[self.inputs.labels.codes[slice(*block)]]
            return np.where(sure, guess, np.int32(-1))
        found = np.empty_like(guess)
        kernels.guess_if_sure(keys, thresholds, entropy, limits, best, found)
        return found

    def select(self, quotas: Mapping[Member, PairCounts], joints: Joints) -> dict[Member, Best]:
        """Sweep 3: for every pair of a member's quotas, the samples with the largest margins."""
        first = {
            member: Best(pairs).with_cuts(joints.leads[member.source], self.inputs.labels.codes)
            for member, pairs in quotas.items()
        }
        return self.collect(first)

    def collect(self, first: dict[Member, Best]) -> dict[Member, Best]:
        """Sweep 3 from cuts that are known."""
        sources = list(dict.fromkeys(member.source for member in first))
        pool: SimpleQueue[dict[Member, Best]] = SimpleQueue()
        pool.put(first)
        for _ in range(self.engine.threads - 1):
            pool.put({member: best.empty_copy() for member, best in first.items()})

        def of_block(block: tuple[int, int]) -> None:
            data = self.inputs.read(sources, *block)
            kept = pool.get()
            try:
                for member, best in kept.items():
                    rows = data.rows[member.source]
                    best.offer(rows, data.labels, block[0], self.inputs.in_single)
            finally:
                pool.put(kept)

        for _ in self._map("sweep 3 of 3, selection", of_block):
            pass
        merged = pool.get()
        for _ in range(self.engine.threads - 1):
            for member, best in pool.get().items():
                merged[member].merge(best)
        return merged

    def _map(self, stage: str, function: Any) -> Iterator[tuple[tuple[int, int], Any]]:
        """(block, result) of every block, in order, with progress shown."""
        blocks = self.inputs.blocks()
        with self.progress.stage(stage, self.N) as advance:
            for block, result in zip(blocks, self.engine.map(function, blocks), strict=True):
                yield block, result
                advance(block[1] - block[0])
