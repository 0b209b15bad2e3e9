"""What a detection method is: the inputs it needs, what the sweeps count for it, and which samples
it flags.

A method looks at the samples through `SweepEvidence`, whose arrays are of all samples or of a part:
a method that judges each sample by itself works in memory, in parts and on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uqled.answer import beats_largest_class, is_at_chance
from uqled.detect.auto.explanations import AutoResult
from uqled.detect.auto.operating_point import OperatingPoint
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.inputs import PlainSource
from uqled.detect.core.joint import Quotas
from uqled.detect.core.sweeps import Bools, ConfidentJoints, EntropyClass, Member

Score = Literal["self-confidence", "normalized-margin"]
Ranking = Literal["by-class"] | Score

SOFTMAX = Member("softmax")
MEAN = Member("mean")


@dataclass(frozen=True)
class SweepEvidence:
    """The results of the three sweeps, as methods use them."""

    labels: NDArray[np.int32]
    statistics: ClassStatistics
    joints: ConfidentJoints
    quotas: dict[Member, Quotas]
    selected: dict[Member, Bools]
    """[N] for each member, whether a sample is in the quota of some pair, by margin."""
    entropy_class: EntropyClass
    n_passes: int
    auto: AutoResult | None = None
    """The probability that each label is wrong, if a method is probabilistic."""
    point: OperatingPoint = field(default_factory=lambda: OperatingPoint("f1"))
    """The operating point of probabilistic methods."""

    @cached_property
    def n_as_predicted(self) -> dict[str, int]:
        """`softmax`, `mean` -> number of samples whose predicted class is the label."""
        return {
            str(source): int(np.count_nonzero(predicted == self.labels))
            for source, predicted in self.joints.predicted.items()
        }

    def is_at_chance(self, source: PlainSource) -> bool:
        """Whether the predicted classes are no better than chance."""
        counts = self.statistics.class_counts
        if beats_largest_class(counts, self.n_as_predicted[source]):  # free to compute
            return False
        return is_at_chance(self.labels, self.joints.predicted[source], len(counts))

    def disagrees(self, source: PlainSource | int) -> Bools:
        """[N] whether the predicted class (by the softmax, the mean or one pass) differs from the
        label."""
        agrees: Bools = self.joints.agrees[source]
        return ~agrees

    def prune(self, member: Member) -> Bools:
        """[N] prune by noise rate: selected for some pair, and not agreeing with the label."""
        return self.selected[member] & self.disagrees(member.source)

    def prune_by_class(self) -> Bools:
        """[N] per class, its quota of the lowest self-confidences of the softmax."""
        return self._lowest_by_class & self.disagrees("softmax")

    @cached_property
    def _lowest_by_class(self) -> Bools:
        quota = self.quotas[SOFTMAX].per_class
        counts = self.statistics.class_counts
        labels = self.labels
        if len(counts) <= np.iinfo(np.int16).max:
            labels = labels.astype(np.int16)  # which NumPy sorts by digits, in linear time
        order = np.argsort(labels, kind="stable")
        scores = self.get_scores("self-confidence")[order]
        flags = np.zeros(len(order), np.bool_)
        ends = np.cumsum(counts)
        for label in np.flatnonzero(quota):
            class_rows = slice(ends[label] - counts[label], ends[label])
            flags[order[class_rows]] = flag_lowest(scores[class_rows], int(quota[label]))
        return flags

    def find_off_diagonal(self) -> Bools:
        """[N] off the diagonal of the confident joint, and not agreeing with the label."""
        confident = self.joints.confident_class[SOFTMAX]
        flags: Bools = (confident >= 0) & (confident != self.labels) & self.disagrees("softmax")
        return flags

    def find_lowest(self, score: Score) -> Bools:
        """[N] True for as many of the lowest scores as there are samples off the diagonal of the
        confident joint."""
        number = int(np.count_nonzero(self.find_off_diagonal()))
        return flag_lowest(self.get_scores(score), number)

    def flag_by_probability(self) -> Bools:
        """[N] the flags of the operating point."""
        assert self.auto is not None
        return self.auto.estimate.flags(self.point)

    def get_scores(self, score: Score) -> NDArray[np.float64]:
        """[N] the score, from the softmax; lower = more suspect."""
        if score == "self-confidence":
            return self.statistics.self_confidence["softmax"]
        assert self.joints.margin is not None
        return self.joints.margin


def flag_lowest(scores: NDArray[np.float64], number: int) -> Bools:
    """[N] True for the `number` lowest scores; ties go to the lower index.

    >>> flag_lowest(np.array([0.3, 0.1, 0.3, 0.3]), 3).tolist()
    [True, True, True, False]
    """
    if not 0 < number < len(scores):
        return np.full(len(scores), number > 0)
    limit = np.partition(scores, number - 1)[number - 1]
    flags: Bools = scores < limit
    at_limit = np.flatnonzero(scores == limit)
    flags[at_limit[: number - np.count_nonzero(flags)]] = True
    return flags


def select_nothing(_passes: int, _entropy_class: EntropyClass) -> list[Member]:
    """The members of a method that does not select samples by pair."""
    return []


def need_one_vote(_passes: int, _agreement: int) -> int:
    return 1


@dataclass(frozen=True)
class Method:
    """One way to flag samples."""

    votes: Callable[[SweepEvidence], NDArray[np.int16] | Bools]
    """[N] number of members that flag each sample; True or False for a method without members. A
    function of the evidence, not a method of the class: the evidence of a part overrides some."""
    members: Callable[[int, EntropyClass], list[Member]] = select_nothing
    """(number of passes, entropy class) -> members whose pairs it selects samples from."""
    source: PlainSource = "softmax"
    """The source whose self-confidence, predicted class and joint it reports."""
    needs: tuple[str, ...] = ("pred_probs",)
    """The inputs that it requires."""
    joint_limit: Callable[[EntropyClass], Member] | None = None
    """Entropy class -> the member whose joint it reports, if not the plain member of its source."""
    least_votes: Callable[[int, int], int] = need_one_vote
    """(number of passes, agreement) -> the votes that a flag needs."""
    ranks_by: Ranking | None = None
    """How it ranks samples: all of them by a score, or those of each class."""
    needs_confident_class: bool = False
    """Whether it needs each sample's class in the confident joint of the softmax."""
    takes_frac_noise: bool = True
    is_probabilistic: bool = False
    """Whether it estimates the probability that a label is wrong. Then it takes an operating point
    and reviewers' verdicts, and reads both the softmax and the mean of the passes."""
    agreements: tuple[int, ...] = ()
    """The possible agreements (how many algorithms must flag a sample), which are part of the name:
    `alg-ens-2`."""
    usual_agreements: tuple[int, ...] = ()
    """The agreements included in `all`, the default first."""
    is_in_all: bool = False
    """Whether `all` includes it; otherwise it is run only by name."""
    title: str | None = None
    """As the UQ-LED paper writes it, such as `CL-MCD-E`; None if it is not of that family."""
    cleanlab_filter: str | None = None
    """The `filter_by` with which cleanlab flags by the same rule."""

    @property
    def reads_passes(self) -> bool:
        """Whether passes change its flags."""
        return self.is_probabilistic or "passes" in self.needs

    @property
    def reads_entropy_class(self) -> bool:
        """Whether its flags depend on the entropy class."""
        return self.members(1, "candidate") != self.members(1, "given")

    def choose_source(self, auto: PlainSource | None) -> PlainSource:
        """The source that it reports; `auto` is the source that a probabilistic method chose."""
        return auto if self.is_probabilistic and auto is not None else self.source

    def joint_member(
        self, entropy_class: EntropyClass, source: PlainSource | None = None
    ) -> Member:
        """The member whose joint it reports; `source` replaces its own."""
        if self.joint_limit is not None:
            return self.joint_limit(entropy_class)
        return Member(source or self.source)
