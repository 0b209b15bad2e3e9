"""The answer of a detection: how many labels are wrong, how many flags are real, which classes are
confused and which samples are most suspect.

Plain data that detection fills in (`LabelErrors.answer` for arrays, the driver for a detection in
parts) and that the command line, the report and the review page show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.model_quality import ModelQuality
from uqled.terminal import escape_controls

Bools = NDArray[np.bool_]

#: How many pairs of classes and how many samples an answer holds at most.
MAX_PAIRS = 100
MAX_SUSPECTS = 100
#: A share with a wider interval is a range: a number is read as right to within five points.
SINGLE_NUMBER = 0.1


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, of 80 % unless said otherwise."""

    value: float
    low: float
    high: float

    def as_share_of(self, n: int) -> Estimate:
        """This number of `n` as a share, with its interval; 0 is treated as 1."""
        n = max(n, 1)
        return Estimate(self.value / n, self.low / n, self.high / n)


@dataclass(frozen=True)
class FlagMetrics:
    """How good flags are, where the true labels are known; a ratio is 0 where its base is 0."""

    n_flagged: int
    n_errors: int
    """How many labels are wrong."""
    n_real: int
    """How many of these are flagged."""

    @property
    def precision(self) -> float:
        return self.n_real / max(self.n_flagged, 1)

    @property
    def recall(self) -> float:
        return self.n_real / max(self.n_errors, 1)

    @property
    def f1(self) -> float:
        return 2 * self.n_real / max(self.n_flagged + self.n_errors, 1)


@dataclass(frozen=True)
class Tier:
    """Samples of which about the same share is wrong."""

    name: str
    n_samples: int
    precision: Estimate
    """The share that is wrong, with an 80% interval."""


@dataclass(frozen=True)
class FlaggedSample:
    """One flagged sample."""

    index: int
    given: str
    suggested: str
    score: float
    """Lower = more suspect."""
    votes: int
    error_probability: float | None
    """None where `auto` was not run."""
    tier: str = ""
    """The name of its tier, such as `probably wrong`; empty where `auto` was not run."""
    duplicate: int | None = None
    """The index of a sample with the same content, or nearly so, and the suggested label, where
    there is one."""
    is_exact: bool = True
    """Whether that duplicate has exactly the same content."""


@dataclass(frozen=True)
class Answer:
    """What a detection says about the whole data set."""

    method: str
    n_samples: int
    flags_by_method: Mapping[str, int]
    """Method -> number of flags; `method` is one of them."""
    n_errors: Estimate | None
    """How many labels are wrong, with an 80% interval; None where `auto` was not run."""
    precision: Estimate | None
    """The share of flags that are real, with an interval of `precision_confidence`; None where
    `auto` was not run or nothing is flagged."""
    recall: Estimate | None
    """The share of errors that are flagged, with the range of all readings; None as above."""
    unsure: str | None
    """Why a single number would be a guess; None where it would not."""
    n_off_diagonal: int
    """How many labels are wrong as the noise matrix counts them: samples off its diagonal."""
    n_as_predicted: Mapping[str, int]
    """`softmax` or `mean` of the passes -> number of samples whose predicted class is the label."""
    confused_pairs: list[tuple[str, str, int]]
    """(given, suggested, number flagged), the most frequent first."""
    most_suspect: list[FlaggedSample]
    n_verdicts: int = 0
    """How many samples reviewers have decided."""
    is_at_chance: bool = False
    """Whether the model predicts no better than chance: no number of wrong labels is given then."""
    tiers: Sequence[Tier] = ()
    """The most certain first; empty where `auto` was not run."""
    model: ModelQuality | None = None
    """How good the model is that judged the labels; None where only its predictions are known."""
    n_contradicted: int = 0
    """How many samples have the same content as others that have another label; they head
    `most_suspect`, flagged or not."""
    n_nearly_contradicted: int = 0
    """The same for nearly the same content; these samples come next."""

    @property
    def n_flagged(self) -> int:
        return self.flags_by_method[self.method]

    @property
    def precision_confidence(self) -> float:
        return choose_confidence(self.unsure)

    @property
    def prediction_source(self) -> str:
        """The source whose predicted classes `predicted_as_labelled` counts: the softmax, if it was
        read."""
        return "softmax" if "softmax" in self.n_as_predicted else "mean"

    @property
    def predicted_as_labelled(self) -> float | None:
        """The share of samples whose predicted class is the label."""
        number = self.n_as_predicted.get(self.prediction_source)
        return None if number is None else number / self.n_samples

    def withhold_estimates(self) -> Answer:
        """The same where the model predicts no better than chance: nothing can be estimated."""
        return replace(
            self,
            n_errors=None,
            precision=None,
            recall=None,
            unsure=UNSURE_AT_CHANCE,
            tiers=[],
            is_at_chance=True,
        )

    def to_json(self) -> dict[str, Any]:
        """The answer as a detection in parts stores it in `result.json`."""
        estimates = {"number": self.n_errors, "precision": self.precision, "recall": self.recall}
        return {
            "samples": self.n_samples,
            "method": self.method,
            "flagged": dict(self.flags_by_method),
            "confused": self.confused_pairs,
            "suspects": [list(vars(sample).values())[:7] for sample in self.most_suspect],
            "estimate": None
            if self.n_errors is None and self.unsure is None
            else {
                **{name: None if one is None else vars(one) for name, one in estimates.items()},
                "unsure": self.unsure,
            },
            "off_diagonal": self.n_off_diagonal,
            "as_predicted": dict(self.n_as_predicted),
            "at_chance": self.is_at_chance,
            "tiers": [
                {"name": tier.name, "samples": tier.n_samples, "precision": vars(tier.precision)}
                for tier in self.tiers
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Answer:
        """The inverse of `to_json`; what does not fit raises KeyError, TypeError or ValueError."""
        estimate = content["estimate"] or {}

        def read_estimate(one: Mapping[str, Any] | None) -> Estimate | None:
            return None if one is None else Estimate(*(float(one[k]) for k in _ESTIMATE_KEYS))

        answer = cls(
            method=str(content["method"]),
            n_samples=int(content["samples"]),
            flags_by_method={str(name): int(n) for name, n in content["flagged"].items()},
            n_errors=read_estimate(estimate.get("number")),
            precision=read_estimate(estimate.get("precision")),
            recall=read_estimate(estimate.get("recall")),
            unsure=None if estimate.get("unsure") is None else str(estimate["unsure"]),
            n_off_diagonal=int(content["off_diagonal"]),
            n_as_predicted={str(name): int(n) for name, n in content["as_predicted"].items()},
            confused_pairs=[(str(i), str(j), int(n)) for i, j, n in content["confused"]],
            most_suspect=[
                FlaggedSample(
                    int(index), str(label), str(suggested), float(score), int(votes),
                    None if probability is None else float(probability), "".join(map(str, tier)),
                )
                for index, label, suggested, score, votes, probability, *tier in content["suspects"]
            ],
            is_at_chance=bool(content.get("at_chance", False)),
            tiers=[
                Tier(
                    str(tier["name"]), int(tier["samples"]),
                    Estimate(*(float(tier["precision"][k]) for k in _ESTIMATE_KEYS)),
                )
                for tier in content.get("tiers", [])
            ],
        )  # fmt: skip
        _ = answer.n_flagged  # refuses a method without a number of flags
        return answer


_ESTIMATE_KEYS = ("value", "low", "high")


#: Why nothing is estimated where the model has learnt nothing.
AT_CHANCE = "the model predicts no better than chance; check its inputs, or try another model"
#: The same, as a sentence.
UNSURE_AT_CHANCE = f"{AT_CHANCE[0].upper()}{AT_CHANCE[1:]}."
_CHANCE_SAMPLES = 50  # with fewer samples, a poor accuracy may be chance


def is_at_chance(codes: NDArray[Any], predicted: NDArray[Any], n_classes: int) -> bool:
    """Whether predicted class numbers [N] are no better than guessing."""
    counts = np.bincount(codes, minlength=n_classes)
    return are_counts_at_chance(counts, count_right(codes, predicted, n_classes))


def count_right(codes: NDArray[Any], predicted: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """[K] how many samples of each class are predicted as labelled."""
    return np.bincount(codes[predicted == codes], minlength=n_classes).astype(np.int64)


def beats_largest_class(counts: NDArray[Any], n_right: int) -> bool:
    """Whether `n_right` correct predictions are clearly more than always predicting the largest
    class would give; `counts` [K] are the numbers of samples."""
    N = int(counts.sum())
    share = counts.max() / N
    standard_error = np.sqrt(share * (1 - share) / N)
    return bool(n_right / N > share + 2 * standard_error)


def are_counts_at_chance(counts: NDArray[Any], right: NDArray[Any]) -> bool:
    """Whether predictions are no better than guessing, from the number of samples [K] of each class
    and how many of them are predicted as labelled [K].

    At chance, the accuracy is no better than that of always predicting the largest class, and the
    balanced accuracy no better than 1/K.
    """
    N, present = int(counts.sum()), counts > 0
    K = int(present.sum())
    if N < _CHANCE_SAMPLES or K < 2:
        return False
    if beats_largest_class(counts, int(right.sum())):
        return False
    balanced_accuracy = float(np.mean(right[present] / counts[present]))
    balanced_spread = np.sqrt(np.sum(1 / counts[present]) / K * (1 - 1 / K)) / K
    return bool(balanced_accuracy <= 1 / K + 3 * balanced_spread)


def choose_confidence(unsure: str | None) -> float:
    """The confidence of the interval of the flags' precision: wider where a single number would be
    a guess."""
    return 0.8 if unsure is None else 0.95


def measure_flags(mask: Bools, is_error: Bools) -> FlagMetrics:
    """Compare flags [N] with the truth [N].

    >>> metrics = measure_flags(np.array([True, True, False]), np.array([True, False, False]))
    >>> metrics.precision, metrics.recall, round(metrics.f1, 3)
    (0.5, 1.0, 0.667)
    """
    return FlagMetrics(*(int(np.count_nonzero(m)) for m in (mask, is_error, mask & is_error)))


def describe_answer(
    answer: Answer,
    *,
    ids: list[str] | None = None,
    metrics: Mapping[str, FlagMetrics] | None = None,
    pairs: int = 5,
    suspects: int = 10,
) -> str:
    """The answer in a few lines of text; `ids` [N] name the samples, `metrics` has one entry per
    method."""
    n, N = answer.n_flagged, answer.n_samples
    headline = f"{n:,} of {N:,} labels flagged ({n / N:.2%}) by {answer.method}"
    lines = [] if answer.is_at_chance else [headline]
    lines += describe_contradictions(answer)
    lines += [*describe_estimates(answer), *describe_doubt(answer)]
    if answer.is_at_chance:
        lines.append(f"{headline}, which says nothing about the labels")
    for tier, line in zip(answer.tiers, describe_tiers(answer), strict=True):
        lines.append(f"  {tier.n_samples:>9,}  {line.partition(' ')[2]}")
    if answer.predicted_as_labelled is not None:
        source = "" if answer.prediction_source == "softmax" else " by the mean of the passes"
        share = f"{answer.predicted_as_labelled:.2%}"
        lines.append(f"{share} of the samples are predicted as labelled{source}")
    if len(answer.flags_by_method) > 1:
        lines += ["", "flagged by each method:"]
        lines += [f"  {number:>9,}  {name}" for name, number in answer.flags_by_method.items()]
    if answer.confused_pairs and not answer.is_at_chance:
        lines += ["", "most confused (given -> suggested):"]
        for label, suggested, number in answer.confused_pairs[:pairs]:
            lines.append(f"  {number:>9,}  {escape_controls(f'{label} -> {suggested}')}")
    samples = answer.most_suspect
    if answer.is_at_chance:
        samples = [one for one in samples if one.duplicate is not None]
    if samples:
        lines += ["", "most suspect:", *tabulate_suspects(samples[:suspects], ids)]
    if metrics:
        lines += ["", "against the true labels:", f"  {'':22} precision  recall     F1"]
        for name, one in metrics.items():
            lines.append(f"  {name:22} {one.precision:9.3f} {one.recall:7.3f} {one.f1:6.3f}")
    return "\n".join(lines)


def describe_contradictions(answer: Answer) -> list[str]:
    """How many labels contradict a duplicate or a near one, and what that means."""
    kinds = (
        (answer.n_contradicted, "duplicate", "certainly wrong: correct these first"),
        (answer.n_nearly_contradicted, "near duplicate", "most likely wrong: look at these first"),
    )
    return [
        f"{'1 label contradicts' if n == 1 else f'{n:,} labels contradict'} a {noun}, so one of "
        f"the two is {consequence}"
        for n, noun, consequence in kinds
        if n
    ]


def describe_tiers(answer: Answer) -> list[str]:
    """How many samples are in each tier, and what share of them to expect to be wrong."""
    lines = []
    for tier in answer.tiers:
        words = f"{describe_range(tier.precision)} of them are wrong"
        if words.startswith("all "):  # no estimated probability is 1: only reviewers are certain
            words = "all of them are wrong, as reviewers decided"
        lines.append(f"{tier.n_samples:,} {tier.name} ({words})")
    return lines


def describe_range(share: Estimate) -> str:
    """The interval of a share in words: one number where both ends look the same, and no number
    where everything is decided.

    >>> describe_range(Estimate(0.9, 0.85, 0.95)), describe_range(Estimate(0.998, 0.996, 0.999))
    ('85% to 95%', 'about 100%')
    >>> describe_range(Estimate(1, 1, 1)), describe_range(Estimate(0, 0, 0))
    ('all', 'none')
    """
    low, high = f"{share.low:.0%}", f"{share.high:.0%}"
    if share.low == share.high and share.low in (0, 1):
        return "all" if share.low else "none"
    return f"{low} to {high}" if low != high else f"about {low}"


def describe_estimates(answer: Answer) -> list[str]:
    """How many labels are wrong and how many flags are real, as far as that is known."""
    number, precision, recall = answer.n_errors, answer.precision, answer.recall
    if answer.is_at_chance:
        return [f"the number of wrong labels cannot be estimated: {AT_CHANCE}"]
    if number is None:
        n_errors, share = answer.n_off_diagonal, answer.n_off_diagonal / answer.n_samples
        return [f"about {n_errors:,} labels are wrong ({share:.2%}), by the noise matrix"]
    amount = "1 label is" if round(number.value) == 1 else f"{number.value:,.0f} labels are"
    lines = [
        f"about {amount} wrong ({number.value / answer.n_samples:.2%}); "
        f"80% interval {number.low:,.0f} to {number.high:,.0f}"
    ]
    if precision is not None and recall is not None:
        lines.append(
            f"{_describe_precision(precision, answer.unsure is not None)}; "
            f"they include {_describe_recall(recall)}"
        )
    elif number.value < 0.5:
        lines.append("nothing is flagged")
    else:
        lines.append("nothing is flagged: no choice of flags reaches what was asked for")
    return lines


def _describe_precision(share: Estimate, is_unsure: bool) -> str:
    words = describe_range(share)
    if words in ("all", "none"):
        return "all flags are real" if words == "all" else "no flag is real"
    if not is_unsure and " to " in words and share.high - share.low <= SINGLE_NUMBER:
        words = f"about {share.value:.0%} ({words})"
    return f"{words} of the flags are real"


def _describe_recall(share: Estimate) -> str:
    words = describe_range(share)
    if " to " in words:
        return f"{share.value:.0%} of all wrong labels ({words})"
    return "all wrong labels" if words == "all" else f"{words} of all wrong labels"


def describe_doubt(answer: Answer) -> list[str]:
    """Why a single number would be a guess, where it would be and the estimates do not say so."""
    return [] if answer.unsure is None or answer.is_at_chance else [f"unsure: {answer.unsure}"]


def tabulate_suspects(samples: list[FlaggedSample], ids: list[str] | None) -> list[str]:
    """One line per sample, below a line of column names.

    Shows the error probability, or the score where there is none.
    """
    with_votes = any(one.votes > 1 for one in samples)  # of a method that has members
    name = "index" if ids is None else "sample"
    by_probability = all(one.error_probability is not None for one in samples)
    with_tiers = any(one.tier for one in samples)
    worth = "P(wrong)" if by_probability else "score"
    with_duplicates = any(one.duplicate is not None for one in samples)
    last = ["votes"] * with_votes + ["same content as"] * with_duplicates
    rows = [(name, "given", "suggested", worth, *["tier"] * with_tiers, *last)]
    for one in samples:
        names = _name_sample(one.index, ids), one.given, one.suggested
        duplicate = "" if one.duplicate is None else _name_sample(one.duplicate, ids)
        duplicate += "" if one.is_exact else " (nearly)"
        last = [str(one.votes)] * with_votes + [escape_controls(duplicate)] * with_duplicates
        quality = f"{one.error_probability:.0%}" if by_probability else f"{one.score:.4f}"
        rows.append((*map(escape_controls, names), quality, *[one.tier] * with_tiers, *last))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _name_sample(index: int, ids: list[str] | None) -> str:
    return str(index) if ids is None else ids[index]
