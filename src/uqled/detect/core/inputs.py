"""Labels and the probabilities of the same samples, read block by block."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.detect.core.kernels import choose_kernels, is_small
from uqled.detect.core.rows import (
    MAX_BLOCK_ROWS,
    ProbabilityRows,
    RowBlock,
    align_to_chunks,
    make_signed_keys,
    view_as_keys,
)

#: A source of probabilities: the softmax or the mean of the passes.
PlainSource = Literal["softmax", "mean"]
#: The same, or the number of one pass.
ProbabilitySource = PlainSource | int

BLOCK_BYTES = 16 * 2**20
#: Data of one block is divided among the threads, into blocks of at least this size: less takes no
#: longer than handing it out does.
_LEAST_BLOCK_BYTES = 2 * 2**20


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
    _means: dict[tuple[int, int], NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """(start, stop) -> [n,K] the mean of the passes of that block, of small data."""

    @cached_property
    def kernels(self) -> ModuleType:
        """By the size of the whole arrays, also where these are the inputs of a part."""
        return choose_kernels(count_values(self.softmax, self.passes))

    @property
    def are_small(self) -> bool:
        """The kernels are those in NumPy."""
        return is_small(count_values(self.softmax, self.passes))

    def split_blocks(self, threads: int = 1) -> list[tuple[int, int]]:
        """(start, stop) of blocks of a few megabytes that cover all rows, several blocks per
        thread."""
        sources = [rows for rows in (self.softmax, self.passes) if rows is not None]
        return split_blocks(sources, len(self.labels), threads)

    def read_block(
        self,
        sources: Collection[ProbabilitySource],
        start: int,
        stop: int,
        *,
        check_passes: bool = False,
    ) -> BlockProbabilities:
        """The labels of a block and its probabilities from these sources."""
        rows: dict[ProbabilitySource, NDArray[Any]] = {}
        block = None
        if "softmax" in sources:
            assert self.softmax is not None
            rows["softmax"] = self.softmax.read(start, stop).get_pass(0)
        if any(source != "softmax" for source in sources):
            assert self.passes is not None
            block = self.passes.read(start, stop)
            if check_passes:
                self.passes.check_block(block, start, self.kernels)
            for f in range(self.passes.n_passes):
                rows[f] = block.get_pass(f)
        if "mean" in sources:
            assert block is not None
            assert self.passes is not None
            rows["mean"] = self._average_passes(block, start, stop)
        return BlockProbabilities(self.labels.codes[start:stop], rows, block)

    def _average_passes(self, block: RowBlock, start: int, stop: int) -> NDArray[np.float64]:
        """[n,K] the mean of the passes of a block; of small data it is kept for the next sweep."""
        assert self.passes is not None
        if (start, stop) in self._means:
            return self._means[start, stop]
        shape = stop - start, self.passes.n_classes
        mean: NDArray[np.float64]
        if self.are_small:
            mean = self._means[start, stop] = np.empty(shape)
        else:
            mean = self.passes.get_buffer("mean", shape, np.dtype(np.float64))
        self.kernels.average_passes(block.flat, block.first, block.step, self.passes.n_passes, mean)
        mean.flags.writeable = False
        return mean

    def get_tolerance(self, source: ProbabilitySource) -> float:
        """How far a row's sum may be from 1. Sweep 2 checks only the softmax, because sweep 1 has
        checked the passes."""
        if source != "softmax" or not self.are_distributions:
            return np.inf
        assert self.softmax is not None
        return self.softmax.tolerance

    def make_keys(self, rows: NDArray[Any]) -> NDArray[Any]:
        return view_as_keys(rows) if self.are_distributions else make_signed_keys(rows)


def split_blocks(
    sources: Sequence[ProbabilityRows], N: int, threads: int = 1
) -> list[tuple[int, int]]:
    """(start, stop) of blocks of a few megabytes that cover N rows, some for each thread."""
    row_bytes, size = sum(rows.row_bytes for rows in sources), BLOCK_BYTES
    if threads > 1:
        size = min(size, max(N * row_bytes // (2 * threads), _LEAST_BLOCK_BYTES))
    size = min(align_to_chunks(sources, max(1, size // row_bytes)), MAX_BLOCK_ROWS)
    return [(start, min(start + size, N)) for start in range(0, N, size)]


def count_values(*sources: Any) -> int:
    """The probabilities of the whole arrays that are there, passes included."""
    return sum(prod(source.shape) for source in sources if source is not None)


@dataclass(frozen=True)
class BlockProbabilities:
    labels: NDArray[np.int32]
    rows: Mapping[ProbabilitySource, NDArray[Any]]
    passes: RowBlock | None
