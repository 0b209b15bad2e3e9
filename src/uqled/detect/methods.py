"""The registry of methods: all that is particular to one is said here, and in no other file.

A method says which inputs it needs, what the sweeps must count and keep for it, and whom it flags
of what they found. `parse_method` reads a name, `alg-ens-2` among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.detect.auto.estimate import OperatingPoint
from uqled.detect.auto.readings import Found
from uqled.detect.core.joint import Quotas
from uqled.detect.core.sweeps import Bools, ClassStatistics, ConfidentJoints, EntropyClass, Member
from uqled.errors import InputError, MissingInputError

Score = Literal["self-confidence", "normalized-margin"]
Ranking = Literal["by-class"] | Score

SOFTMAX = Member("softmax")
MEAN = Member("mean")


@dataclass(frozen=True)
class Evidence:
    """Everything the three sweeps found, for the methods to draw on."""

    labels: NDArray[np.int32]
    statistics: ClassStatistics
    joints: ConfidentJoints
    quotas: dict[Member, Quotas]
    selected: dict[Member, Bools]
    entropy_class: EntropyClass
    n_passes: int
    auto: Found | None = None
    """How probable it is that each label is wrong, where `auto` was asked for."""
    point: OperatingPoint = field(default_factory=lambda: OperatingPoint("f1"))
    """Which flags `auto` is to give."""

    @cached_property
    def n_as_predicted(self) -> dict[str, int]:
        """`softmax`, `mean` -> number of samples whose predicted class is the label."""
        return {
            str(source): int(np.count_nonzero(predicted == self.labels))
            for source, predicted in self.joints.predicted.items()
        }

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
        guess = self.joints.confident_class[SOFTMAX]
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
    counted: Callable[[EntropyClass], Member] | None = None
    """Member whose joint it reports, if not the plain one of its source."""
    least_votes: Callable[[int, int], int] = lambda _passes, _agreement: 1
    """Votes needed to be flagged, of so many passes and with the agreement asked for."""
    ranks_by: Ranking | None = None
    """What it ranks all samples by, or all of a class."""
    needs_guess: bool = False
    """If it needs each sample's place in the confident joint."""
    takes_frac_noise: bool = True
    is_probabilistic: bool = False
    """If it knows how probable it is that a label is wrong: then it takes an operating point and
    reviewers' verdicts, and looks at the softmax and the mean of the passes alike."""
    agreements: tuple[int, ...] = ()
    """Numbers of algorithms that may have to agree: part of the name, as in `alg-ens-2`."""
    usual_agreements: tuple[int, ...] = ()
    """Those that `all` stands for, the default first."""

    def joint_member(self, entropy_class: EntropyClass) -> Member:
        return self.counted(entropy_class) if self.counted else Member(self.source)


def _passes(F: int, _: EntropyClass) -> list[Member]:
    return [Member(f) for f in range(F)]


def _four(F: int, entropy_class: EntropyClass) -> list[Member]:
    return [SOFTMAX, MEAN, Member("mean", entropy_class), *_passes(F, entropy_class)]


METHODS: dict[str, Method] = {
    "auto": Method(
        lambda *_: [],
        lambda e: e.probable(),
        needs=(),
        takes_frac_noise=False,
        is_probabilistic=True,
    ),
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
        agreements=(1, 2, 3, 4),
        usual_agreements=(3, 2),
    ),
    "cl-pbc": Method(lambda *_: [], lambda e: e.pruned_by_class(), ranks_by="by-class"),
    "cl-both": Method(
        lambda *_: [SOFTMAX],
        lambda e: e.pruned(SOFTMAX) & e.pruned_by_class(),
        ranks_by="by-class",
    ),
    "cl-joint": Method(
        lambda *_: [], lambda e: e.off_diagonal(), needs_guess=True, takes_frac_noise=False
    ),
    "argmax": Method(lambda *_: [], lambda e: ~e.joints.agrees["softmax"], takes_frac_noise=False),
    "low-self-confidence": Method(
        lambda *_: [],
        lambda e: e.lowest("self-confidence"),
        ranks_by="self-confidence",
        needs_guess=True,
        takes_frac_noise=False,
    ),
    "low-normalized-margin": Method(
        lambda *_: [],
        lambda e: e.lowest("normalized-margin"),
        ranks_by="normalized-margin",
        needs_guess=True,
        takes_frac_noise=False,
    ),
}

#: Stands for every method that the inputs allow; this one's result leads.
ALL = "all"
HEADLINE = "auto"


@dataclass(frozen=True)
class Choice:
    """A method as it was asked for."""

    name: str
    """As shown: `alg-ens` with its agreement."""
    method: Method
    agreement: int = 0


def parse_method(name: str, agreement: int | None = None) -> Choice:
    """The method of a name, with the agreement that the name or `agreement` asks for.

    >>> parse_method("alg-ens").name, parse_method("alg-ens-2").agreement
    ('alg-ens-3', 2)
    """
    if not isinstance(name, str):
        raise _unknown_method(name)
    base, _, number = name.rpartition("-")
    method = METHODS.get(name)
    if method is None and number.isdecimal() and base in METHODS:
        method = METHODS[base]
        if int(number) not in method.agreements or agreement not in (None, int(number)):
            raise _unknown_method(name)
        return Choice(name, method, int(number))
    if method is None:
        raise _unknown_method(name)
    if agreement is not None and not method.agreements:
        takers = [name for name, one in METHODS.items() if one.agreements]
        raise InputError(
            "agreement", f"is {agreement} with method {name!r}", f"It goes with {takers[0]!r}"
        )
    if not method.agreements:
        return Choice(name, method)
    agreement = method.usual_agreements[0] if agreement is None else agreement
    low, high = min(method.agreements), max(method.agreements)
    agreement = arrays.whole_number(agreement, "agreement", low=low, high=high)
    return Choice(f"{name}-{agreement}", method, agreement)


def choose_methods(
    name: str, agreement: int | None = None, *, given: tuple[str, ...], headline: str | None = None
) -> list[Choice]:
    """The methods that a name stands for, the one whose result leads first.

    `given` are the inputs there are. `headline` leads where all are asked for; an agreement that is
    not among the usual ones joins them.
    """
    if name != ALL:
        choice = parse_method(name, agreement)
        _refuse_missing(name, choice.method, given)
        if headline not in (None, ALL) and parse_method(str(headline)).name != choice.name:
            raise InputError(
                "headline", f"is {headline!r} with method {name!r}", f"It goes with {ALL!r}"
            )
        return [choice]
    first = parse_method(HEADLINE if headline in (None, ALL) else str(headline))
    _refuse_missing(first.name, first.method, given)
    choices = [first]
    for one, method in METHODS.items():
        if all(need in given for need in method.needs):
            numbers = method.usual_agreements if agreement is None else (agreement,)
            choices += [parse_method(one, n) for n in (numbers if method.agreements else (None,))]
    return list({choice.name: choice for choice in choices}.values())


def list_method_names() -> list[str]:
    """Every method's name as results show it."""
    return [
        parse_method(name, number).name
        for name, method in METHODS.items()
        for number in (method.usual_agreements or (None,))
    ]


def _refuse_missing(name: str, method: Method, given: tuple[str, ...]) -> None:
    needs = method.needs
    if missing := [need for need in needs if need not in given]:
        raise MissingInputError(
            "method",
            f"{name!r} needs {' and '.join(needs)}, but {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing",
            "Pass the out-of-sample probabilities of several stochastic passes [F,N,K] as "
            "`passes`" if "passes" in missing
            else "Pass the out-of-sample softmax probabilities [N,K] as `pred_probs`",
        )  # fmt: skip


def _unknown_method(name: object) -> InputError:
    return InputError("method", f"is {name!r}", f"Choose one of {', '.join([*METHODS, ALL])}")
