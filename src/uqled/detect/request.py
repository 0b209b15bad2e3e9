"""The detection request: checked once, for arrays, parts and a cluster alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uqled import arrays
from uqled.detect.auto.operating_point import OperatingPoint, make_operating_point
from uqled.detect.core.sweeps import EntropyClass, Member
from uqled.detect.methods.method import Ranking
from uqled.detect.methods.registry import (
    ALL,
    DEFAULT_METHOD,
    MethodChoice,
    choose_methods,
    list_methods,
)
from uqled.errors import InputError
from uqled.uncertainty import PassesKind, check_passes_kind

#: The options that say which flags a probabilistic method gives.
POINT_OPTIONS = ("target", "precision", "recall", "budget", "cost")

#: The default of every option that a run records; the best F1 needs no number.
_DEFAULTS = {
    "f1": 0.0,
    "entropy_class": "candidate",
    "min_examples_per_class": 1,
    "frac_noise": 1.0,
}


@dataclass(frozen=True)
class SweepPlan:
    """The plan of the three sweeps for all methods of a request: what to count, select and keep."""

    selecting_members: list[Member]
    """Members whose flags are needed."""
    members: list[Member]
    """These members, and those whose joint is reported."""
    keep_confident: list[Member]
    """Members whose confident class is kept for every sample."""
    rankings: list[Ranking]
    """Rankings of all samples that some method needs."""

    @property
    def with_margin(self) -> bool:
        """Whether the normalised margin is kept for every sample."""
        return "normalized-margin" in self.rankings


@dataclass(frozen=True)
class DetectionRequest:
    """The methods, their options, and which flags are wanted."""

    choices: tuple[MethodChoice, ...]
    """The methods; the first one's result leads."""
    is_comparison: bool
    """Whether several methods (or all) were named, so that each has a result of its own."""
    entropy_class: EntropyClass
    min_examples_per_class: int
    frac_noise: float
    point: OperatingPoint
    """Which flags a probabilistic method gives."""
    verdicts: tuple[Any, Any] | None = None
    """The reviewers' verdicts: (actions [N], labels [N])."""
    passes_kind: PassesKind | None = None
    """The kind of the passes, if it is known."""

    @property
    def headline(self) -> MethodChoice:
        return self.choices[0]

    @property
    def asks_for_probabilities(self) -> bool:
        """Whether some method needs the probability that each label is wrong."""
        return any(choice.method.is_probabilistic for choice in self.choices)

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults, as `find_label_errors` takes them; verdicts
        are not among them, because a run keeps those in a file of their own."""
        point: Any = self.point.value
        if self.point.kind == "cost":
            point = (self.point.value, self.point.missed_cost)
        options = {
            self.point.kind: point,
            "entropy_class": self.entropy_class,
            "min_examples_per_class": self.min_examples_per_class,
            "frac_noise": self.frac_noise,
        }
        return {name: value for name, value in options.items() if value != _DEFAULTS.get(name)}

    def plan_sweeps(self, n_passes: int, *, has_softmax: bool) -> SweepPlan:
        """The plan for this number of passes, with or without a softmax."""
        methods = [choice.method for choice in self.choices]
        selecting_members = _drop_repeats(
            m for one in methods for m in one.members(n_passes, self.entropy_class)
        )
        reported_methods = [
            one.joint_member(self.entropy_class) for one in methods if not one.is_probabilistic
        ]
        if self.asks_for_probabilities:
            reported_methods += [Member("softmax")] * has_softmax + [Member("mean")] * (
                n_passes > 0
            )
        return SweepPlan(
            selecting_members,
            _drop_repeats([*selecting_members, *reported_methods]),
            [Member("softmax")] * any(one.needs_confident_class for one in methods),
            _drop_repeats(one.ranks_by for one in methods if one.ranks_by is not None),
        )


def check_request(
    method: str | Sequence[str] = DEFAULT_METHOD,
    *,
    inputs: tuple[str, ...],
    headline: str | None = None,
    target: str | None = None,
    precision: float | None = None,
    recall: float | None = None,
    budget: int | None = None,
    cost: tuple[float, float] | None = None,
    verdicts: tuple[Any, Any] | None = None,
    agreement: int | None = None,
    entropy_class: EntropyClass = "candidate",
    min_examples_per_class: int = 1,
    frac_noise: float = 1.0,
    passes_kind: str | None = None,
) -> DetectionRequest:
    """The options of `find_label_errors` as a request; whatever cannot be done is refused here.

    `inputs` names the available ones of `pred_probs` and `passes`.
    """
    if not inputs:
        raise InputError(
            "pred_probs", "and `passes` are both missing", "Pass out-of-sample probabilities"
        )
    frac_noise = arrays.check_fraction(frac_noise, "frac_noise")
    arrays.check_whole_number(min_examples_per_class, "min_examples_per_class", low=0)
    if entropy_class not in ("candidate", "given"):
        raise InputError("entropy_class", f"is {entropy_class!r}", "Pass 'candidate' or 'given'")
    choices = tuple(choose_methods(method, agreement, inputs=inputs, headline=headline))
    is_comparison = method == ALL or not isinstance(method, str)
    if frac_noise != 1.0 and not is_comparison and not choices[0].method.takes_frac_noise:
        takers = [name for name, one in list_methods().items() if one.takes_frac_noise]
        raise InputError(
            "frac_noise",
            f"is {frac_noise} with method {method!r}, which has no counts to take a part of",
            f"Leave it at 1.0, or use {' or '.join(takers)}",
        )
    point = make_operating_point(target, precision, recall, budget, cost)
    if verdicts is not None and not (isinstance(verdicts, tuple | list) and len(verdicts) == 2):
        raise InputError("verdicts", "are not a pair", "Pass (actions [N], labels [N])")
    request = DetectionRequest(
        choices,
        is_comparison,
        entropy_class,
        min_examples_per_class,
        frac_noise,
        point or OperatingPoint("f1"),
        verdicts,
        check_passes_kind(passes_kind),
    )
    if not request.asks_for_probabilities and (point is not None or verdicts is not None):
        takers = [repr(name) for name, one in list_methods().items() if one.is_probabilistic]
        raise InputError(
            "method",
            f"{method!r} gives no probabilities",
            f"Use {' or '.join(takers)} with such an option",
        )
    return request


def _drop_repeats(entries: Any) -> list[Any]:
    """Each entry once, in the order in which they first occur."""
    return list(dict.fromkeys(entries))


def name_inputs(pred_probs: Any, passes: Any) -> tuple[str, ...]:
    """The names of the inputs that are not None."""
    inputs: Sequence[tuple[str, Any]] = (("pred_probs", pred_probs), ("passes", passes))
    return tuple(name for name, array in inputs if array is not None)
