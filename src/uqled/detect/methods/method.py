"""What a detection method is: which inputs it needs, what the sweeps count for it, whom it flags.

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
from uqled.detect.auto.estimate import OperatingPoint
from uqled.detect.auto.explanations import AutoResult
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
    """What the three sweeps collected, for the methods to draw on."""

    labels: NDArray[np.int32]
    statistics: ClassStatistics
    joints: ConfidentJoints
    quotas: dict[Member, Quotas]
    selected: dict[Member, Bools]
    """[N] per member of the methods: in the quota of some pair, by margin."""
    entropy_class: EntropyClass
    n_passes: int
    auto: AutoResult | None = None
    """How probable it is that each label is wrong, if a method is probabilistic."""
    point: OperatingPoint = field(default_factory=lambda: OperatingPoint("f1"))
    """Which flags a probabilistic method gives."""

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
        if beats_largest_class(counts, self.n_as_predicted[source]):  # which takes no time
            return False
        return is_at_chance(self.labels, self.joints.predicted[source], len(counts))

    def disagrees(self, source: PlainSource | int) -> Bools:
        """[N] the predicted class, by the softmax, the mean or one pass, is not the label."""
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
        for given in np.flatnonzero(quota):
            some = slice(ends[given] - counts[given], ends[given])
            flags[order[some]] = flag_lowest(scores[some], int(quota[given]))
        return flags

    def find_off_diagonal(self) -> Bools:
        """[N] off the diagonal of the confident joint, and not agreeing with the label."""
        confident = self.joints.confident_class[SOFTMAX]
        flags: Bools = (confident >= 0) & (confident != self.labels) & self.disagrees("softmax")
        return flags

    def find_lowest(self, score: Score) -> Bools:
        """[N] as many of the lowest scores as are off the diagonal of the confident joint."""
        number = int(np.count_nonzero(self.find_off_diagonal()))
        return flag_lowest(self.get_scores(score), number)

    def flag_by_probability(self) -> Bools:
        """[N] the flags of the operating point."""
        assert self.auto is not None
        return self.auto.estimate.flags(self.point)

    def get_scores(self, score: Score) -> NDArray[np.float64]:
        """[N] of the softmax; lower = more suspect."""
        if score == "self-confidence":
            return self.statistics.self_confidence["softmax"]
        assert self.joints.margin is not None
        return self.joints.margin


def flag_lowest(scores: NDArray[np.float64], number: int) -> Bools:
    """[N] so many of the lowest scores; of equals the lower index.

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
    """The members of a method that selects no pairs' samples."""
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
    """Whose self-confidence, predicted class and joint it reports."""
    needs: tuple[str, ...] = ("pred_probs",)
    """The inputs it cannot do without."""
    joint_limit: Callable[[EntropyClass], Member] | None = None
    """Entropy class -> member whose joint it reports, if not the plain one of its source."""
    least_votes: Callable[[int, int], int] = need_one_vote
    """(number of passes, agreement) -> votes needed to be flagged."""
    ranks_by: Ranking | None = None
    """What it ranks all samples by, or all of a class."""
    needs_confident_class: bool = False
    """If it needs each sample's place in the confident joint of the softmax."""
    takes_frac_noise: bool = True
    is_probabilistic: bool = False
    """If it knows how probable it is that a label is wrong: then it takes an operating point and
    reviewers' verdicts, and reads the softmax and the mean of the passes alike."""
    agreements: tuple[int, ...] = ()
    """Numbers of algorithms that may have to agree: part of the name, as in `alg-ens-2`."""
    usual_agreements: tuple[int, ...] = ()
    """Those that `all` stands for, the default first."""
    is_in_all: bool = False
    """If `all` stands for it; otherwise it is run when asked for by name."""
    title: str | None = None
    """As the UQ-LED paper writes it, such as `CL-MCD-E`; None if it is not of that family."""
    cleanlab_filter: str | None = None
    """The `filter_by` by which cleanlab flags by the same rule."""

    @property
    def reads_passes(self) -> bool:
        """If passes change its flags."""
        return self.is_probabilistic or "passes" in self.needs

    @property
    def reads_entropy_class(self) -> bool:
        """If its flags depend on whose threshold of uncertainty counts."""
        return self.members(1, "candidate") != self.members(1, "given")

    def choose_source(self, auto: PlainSource | None) -> PlainSource:
        """Whose probabilities it reports; `auto` are those that a probabilistic method chose."""
        return auto if self.is_probabilistic and auto is not None else self.source

    def joint_member(
        self, entropy_class: EntropyClass, source: PlainSource | None = None
    ) -> Member:
        """The member whose joint it reports; `source` replaces its own."""
        if self.joint_limit is not None:
            return self.joint_limit(entropy_class)
        return Member(source or self.source)
