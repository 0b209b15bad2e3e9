"""What each method is: the inputs it needs and, from what the sweeps found, whom it flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.detect.auto import Found
from uqled.detect.joint import Quotas
from uqled.detect.probability import OperatingPoint
from uqled.detect.sweeps import Bools, EntropyClass, Joints, Member, Source, Statistics
from uqled.errors import InputError, MissingInputError

Score = Literal["self-confidence", "normalized-margin"]

SOFTMAX = Member("softmax")
MEAN = Member("mean")


@dataclass(frozen=True)
class Evidence:
    """Everything the three sweeps found, for the methods to draw on."""

    labels: NDArray[np.int32]
    statistics: Statistics
    joints: Joints
    quotas: dict[Member, Quotas]
    selected: dict[Member, Bools]
    entropy_class: EntropyClass
    n_passes: int
    auto: Found | None = None
    """How probable it is that each label is wrong, where `auto` was asked for."""
    point: OperatingPoint = field(default_factory=lambda: OperatingPoint("f1"))
    """Which flags `auto` is to give."""

    @property
    def sure(self) -> Member:
        """The mean of the passes with the entropy limit."""
        return Member("mean", self.entropy_class)

    def pruned(self, member: Member) -> Bools:
        """[N] prune by noise rate: selected by some pair, and not agreeing with the label."""
        return self.selected[member] & ~self.joints.agrees[member.source]

    def pass_votes(self) -> NDArray[np.int16]:
        """[N] number of single passes that flag the sample."""
        votes = np.zeros(len(self.labels), np.int16)
        for f in range(self.n_passes):
            votes += self.pruned(Member(f))
        return votes

    def most_passes(self) -> Bools:
        """[N] more than half of the passes flag the sample."""
        return 2 * self.pass_votes() > self.n_passes

    def algorithm_votes(self) -> NDArray[np.int16]:
        """[N] how many of the four algorithms flag the sample."""
        four = self.pruned(SOFTMAX), self.pruned(MEAN), self.pruned(self.sure), self.most_passes()
        votes: NDArray[np.int16] = np.sum(four, axis=0, dtype=np.int16)
        return votes

    def pruned_by_class(self) -> Bools:
        """[N] per class, its quota of the lowest self-confidences."""
        confidence = self.statistics.self_confidence["softmax"]
        agrees: Bools = self.joints.agrees["softmax"]
        quota = self.quotas[SOFTMAX].per_class
        counts = self.statistics.class_counts
        order = np.lexsort((confidence, self.labels))  # stable: ties to the lower index
        first = np.cumsum(counts) - counts
        rank = np.arange(len(order)) - np.repeat(first, counts)
        found = np.zeros(len(order), np.bool_)
        found[order[rank < np.repeat(quota, counts)]] = True
        found &= ~agrees
        return found

    def off_diagonal(self) -> Bools:
        """[N] counted off the diagonal of the confident joint, and not agreeing with the label."""
        guess = self.joints.guess[SOFTMAX]
        found: Bools = (guess >= 0) & (guess != self.labels) & ~self.joints.agrees["softmax"]
        return found

    def lowest(self, score: Score) -> Bools:
        """[N] as many of the lowest scores as are off the diagonal of the confident joint."""
        scores = self.scores(score)
        number = int(np.count_nonzero(self.off_diagonal()))
        found = np.zeros(len(scores), np.bool_)
        found[np.argsort(scores, kind="stable")[:number]] = True
        return found

    def probable(self) -> Bools:
        """[N] flagged by `auto`."""
        assert self.auto is not None
        return self.auto.estimate.flags(self.point)

    def scores(self, score: Score) -> NDArray[np.float64]:
        """[N] of the softmax; lower = more suspect."""
        if score == "self-confidence":
            return self.statistics.self_confidence["softmax"]
        assert self.joints.margin is not None
        return self.joints.margin


@dataclass(frozen=True)
class Method:
    """One way to flag samples."""

    members: Callable[[int, EntropyClass], list[Member]]
    """Members whose pairs it selects from, for so many passes."""
    votes: Callable[[Evidence], NDArray[np.int16] | Bools]
    """[N] number of members that flag each sample; True or False for a method without members."""
    source: Literal["softmax", "mean"] = "softmax"
    """Whose self-confidence, most probable class and joint it reports."""
    needs: tuple[str, ...] = ("pred_probs",)
    takes_frac_noise: bool = True
    counted: Callable[[EntropyClass], Member] | None = None
    """Member whose joint it reports, if not the plain one of its source."""
    least_votes: Callable[[int, int], int] = lambda _passes, _agreement: 1
    """Votes needed to be flagged, of so many passes and with the agreement asked for."""

    def joint_member(self, entropy_class: EntropyClass) -> Member:
        return self.counted(entropy_class) if self.counted else Member(self.source)


def _passes(F: int, _: EntropyClass) -> list[Member]:
    return [Member(f) for f in range(F)]


def _four(F: int, entropy_class: EntropyClass) -> list[Member]:
    return [SOFTMAX, MEAN, Member("mean", entropy_class), *_passes(F, entropy_class)]


METHODS: dict[str, Method] = {
    "auto": Method(lambda *_: [], lambda e: e.probable(), needs=(), takes_frac_noise=False),
    "cl-pbnr": Method(lambda *_: [SOFTMAX], lambda e: e.pruned(SOFTMAX)),
    "cl-mcd": Method(lambda *_: [MEAN], lambda e: e.pruned(MEAN), "mean", ("passes",)),
    "cl-mcd-e": Method(
        lambda _, entropy_class: [Member("mean", entropy_class)],
        lambda e: e.pruned(e.sure),
        "mean",
        ("passes",),
        counted=lambda entropy_class: Member("mean", entropy_class),
    ),
    "cl-mcd-ens": Method(
        _passes,
        lambda e: e.pass_votes(),
        "mean",
        ("passes",),
        least_votes=lambda passes, _: passes // 2 + 1,
    ),
    "alg-ens": Method(
        _four,
        lambda e: e.algorithm_votes(),
        "mean",
        ("pred_probs", "passes"),
        least_votes=lambda _, agreement: agreement,
    ),
    "cl-pbc": Method(lambda *_: [], lambda e: e.pruned_by_class()),
    "cl-both": Method(lambda *_: [SOFTMAX], lambda e: e.pruned(SOFTMAX) & e.pruned_by_class()),
    "cl-joint": Method(lambda *_: [], lambda e: e.off_diagonal(), takes_frac_noise=False),
    "argmax": Method(lambda *_: [], lambda e: ~e.joints.agrees["softmax"], takes_frac_noise=False),
    "low-self-confidence": Method(
        lambda *_: [],
        lambda e: e.lowest("self-confidence"),
        takes_frac_noise=False,
    ),
    "low-normalized-margin": Method(
        lambda *_: [], lambda e: e.lowest("normalized-margin"), takes_frac_noise=False
    ),
}

#: Of all methods, the one whose result stands for all of them.
_HEADLINE = "auto"


@dataclass(frozen=True)
class Choice:
    """A method as it was asked for."""

    name: str
    """As shown: `alg-ens` with its agreement."""
    method: Method
    agreement: int = 0


def check_method(method: str, *, with_passes: bool = True) -> None:
    """Refuse a name that no method has, and one that needs passes where there will be none."""
    if not isinstance(method, str) or (method != "all" and method not in METHODS):
        raise InputError(
            "method", f"is {method!r}", f"Choose one of {', '.join([*METHODS, 'all'])}"
        )

    if not with_passes and method != "all" and "passes" in METHODS[method].needs:
        raise MissingInputError(
            "method",
            f"{method!r} needs stochastic passes, but uncertainty is 'none'",
            "Choose a source of uncertainty, or a method such as cl-pbnr",
        )


def chosen(
    method: str, agreement: int | None, frac_noise: float, *, given: tuple[str, ...]
) -> list[Choice]:
    """The methods that `method` stands for, the one that stands for all of them first."""
    check_method(method)
    if agreement is not None:
        agreement = arrays.whole_number(agreement, "agreement", low=1, high=4)
        if method not in ("alg-ens", "all"):
            raise InputError(
                "agreement", f"is {agreement} with method {method!r}", "It goes with 'alg-ens'"
            )
    if method != "all":
        found = METHODS[method]
        missing = [name for name in found.needs if name not in given]
        if missing:
            raise MissingInputError(
                "method",
                f"{method!r} needs {' and '.join(found.needs)}, but {' and '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing",
                "Pass the out-of-sample probabilities of several stochastic passes [F,N,K] as "
                "`passes`" if "passes" in missing
                else "Pass the out-of-sample softmax probabilities [N,K] as `pred_probs`",
            )  # fmt: skip
        if frac_noise != 1.0 and not found.takes_frac_noise:
            raise InputError(
                "frac_noise",
                f"is {frac_noise} with method {method!r}, which has no counts to take a part of",
                "Leave it at 1.0, or use cl-pbnr, cl-pbc, cl-both or a method built on them",
            )
        names = [method]
    else:
        names = [name for name, m in METHODS.items() if all(need in given for need in m.needs)]
        names = [_HEADLINE, *(name for name in names if name != _HEADLINE)]
    return [
        Choice(name if name != "alg-ens" else f"alg-ens-{m}", METHODS[name], m)
        for name in names
        for m in (_agreements(agreement, method) if name == "alg-ens" else [0])
    ]


def _agreements(agreement: int | None, method: str) -> list[int]:
    if agreement is not None:
        return [agreement]
    return [3, 2] if method == "all" else [3]


def needed_sources(members: list[Member]) -> list[Source]:
    """Whose probabilities the members look at, each once."""
    return list(dict.fromkeys(member.source for member in members))
