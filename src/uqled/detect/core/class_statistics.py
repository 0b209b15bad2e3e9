"""What the first sweep collects: per class, counts and sums; per sample, a few columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.inputs import BlockProbabilities, ProbabilitySource
from uqled.detect.core.kernels import SLACK, UNIT

Floats = NDArray[np.float64]

#: Measures of the passes' uncertainty; more is less certain. The margin is the negative difference
#: of the two largest mean probabilities; the standard deviation is that of the predicted class's
#: probability over the passes.
Measure = Literal[
    "entropy", "mutual-information", "margin", "variation-ratio", "standard-deviation"
]

#: No class has a lower confidence threshold; a class without samples has one that none reaches.
_MIN_THRESHOLD, _UNREACHABLE = 2 * SLACK, 2.0


class ExactSums:
    """Sums per class that do not depend on the order of addition: integer units, in two words."""

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

    def merge_with(self, other: ExactSums) -> ExactSums:
        return ExactSums.from_words(self.words + other.words)

    def compute_means(self, counts: NDArray[np.int64]) -> Floats:
        """[K] sum over count; 0 for a class without samples."""
        total = self._high * (2.0**32 * UNIT) + self._low * UNIT
        return total / np.maximum(counts, 1)


@dataclass
class ClassStatistics:
    """The result of the first sweep."""

    class_counts: NDArray[np.int64]
    """[K] samples labelled as each class."""
    confidence_sums: dict[ProbabilitySource, ExactSums] = field(default_factory=dict)
    """The sum of the self-confidence per class, for each source."""
    uncertainty_sums: dict[Measure, ExactSums] = field(default_factory=dict)
    """The sum of each limited uncertainty per class."""
    thresholds: dict[ProbabilitySource, Floats] = field(default_factory=dict)
    """[K] the least probability at which a sample counts as confident."""
    limits: dict[Measure, Floats] = field(default_factory=dict)
    """[K] the largest uncertainty at which a sample counts as confident."""
    self_confidence: dict[ProbabilitySource, Floats] = field(default_factory=dict)
    """[N] self-confidence of the softmax and of the mean, not of single passes."""
    uncertainty: dict[Measure, Floats] = field(default_factory=dict)
    """[N] entropy, mutual information and any other limited measure; empty without passes."""

    def merge_with(self, other: ClassStatistics) -> ClassStatistics:
        """The counts and sums of both; columns per sample are not merged."""
        return ClassStatistics(
            self.class_counts + other.class_counts,
            {
                s: one.merge_with(other.confidence_sums[s])
                for s, one in self.confidence_sums.items()
            },
            {
                measure: one.merge_with(other.uncertainty_sums[measure])
                for measure, one in self.uncertainty_sums.items()
            },
        )

    def compute_thresholds(self) -> None:
        """Set thresholds and limits from the sums."""
        counts = self.class_counts
        for source, sums in self.confidence_sums.items():
            mean = np.maximum(sums.compute_means(counts), _MIN_THRESHOLD)
            self.thresholds[source] = np.where(counts > 0, mean, _UNREACHABLE) - SLACK
        for measure, sums in self.uncertainty_sums.items():
            self.limits[measure] = sums.compute_means(counts) + SLACK


def measure_block(
    data: BlockProbabilities, F: int, columns: dict[Measure, Floats], kernels: ModuleType
) -> None:
    """Write the uncertainty of a block's rows into columns [n]; entropy and mutual information are
    always among them."""
    block, mean = data.passes, data.rows["mean"]
    assert block is not None
    passes = block.flat, block.first, block.step, F
    kernels.measure_uncertainty(*passes, mean, columns["entropy"], columns["mutual-information"])
    if "margin" in columns:
        kernels.measure_margins(mean, columns["margin"])
    if "variation-ratio" in columns:
        kernels.measure_variation_ratios(*passes, len(mean), columns["variation-ratio"])
    if "standard-deviation" in columns:
        kernels.measure_deviations(*passes, mean, columns["standard-deviation"])
