"""From estimates of wrong labels to a judgement: the data passes, fails, or cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from uqled import arrays
from uqled.answer import Estimate
from uqled.detect.result import LabelErrors
from uqled.errors import InputError


class Outcome(Enum):
    """The outcome of a check; its value is the exit code of `uqled check`."""

    PASS = 0
    FAIL = 1
    CANNOT_TELL = 3


@dataclass(frozen=True)
class Check:
    """One question about the data, and its answer."""

    name: str
    """What is judged: the whole data set, or a class."""
    outcome: Outcome
    rate: Estimate | None
    """Share of wrong labels, with an interval; None where there is no estimate."""
    limit: float
    """The check fails if the lower end of the interval exceeds this."""
    reason: str
    """Why, in one sentence."""


@dataclass(frozen=True)
class Judgement:
    """All checks of a run."""

    checks: list[Check]
    n_samples: int
    confidence: float
    """Of the interval of the whole data set, and of the intervals of all classes jointly."""
    unsure: str | None = None
    """Why the estimates would be a guess, or None."""

    @property
    def outcome(self) -> Outcome:
        """FAIL if any check fails, otherwise CANNOT_TELL if any check cannot tell."""
        outcomes = {check.outcome for check in self.checks}
        for outcome in (Outcome.FAIL, Outcome.CANNOT_TELL):
            if outcome in outcomes:
                return outcome
        return Outcome.PASS


def judge_labels(
    errors: LabelErrors,
    *,
    max_error_rate: float | None = None,
    confidence: float = 0.8,
    per_class: bool = False,
    baseline: LabelErrors | None = None,
) -> Judgement:
    """Judge whether too many labels are wrong.

    A check fails only if the lower end of the error rate's interval is above the limit, so that a
    small or difficult data set does not fail for lack of evidence. It cannot tell if there is no
    estimate of the rate, or if the estimate is unreliable (`Answer.unsure`) and the limit is within
    its interval.

    Parameters
    ----------
    errors
        The result of `find_label_errors` with the method `auto`, alone or among others.
    max_error_rate
        The largest share of wrong labels that passes, from 0 to 1.
    confidence
        Confidence level of the intervals, between 0 and 1.
    per_class
        Judge each class too. Their intervals are widened so that all of them hold jointly:
        otherwise some of a hundred classes would fail by chance.
    baseline
        An earlier result: the error rate must not be above its interval.
    """
    check_judging_options(
        max_error_rate, confidence, per_class=per_class, has_baseline=baseline is not None
    )
    checks: list[Check] = []
    if max_error_rate is not None:
        reason = f"the limit is {max_error_rate:.2%}"
        checks.append(_judge("all labels", errors, None, max_error_rate, confidence, reason))
        if per_class:
            checks += _judge_classes(errors, max_error_rate, confidence, reason)
    if baseline is not None:
        checks.append(_compare(errors, baseline, confidence))
    return Judgement(checks, len(errors), confidence, errors.answer.unsure)


def check_judging_options(
    max_error_rate: float | None, confidence: float, *, per_class: bool, has_baseline: bool
) -> None:
    """Refuse options that `judge_labels` cannot use, before the estimates are made."""
    if max_error_rate is None and not has_baseline:
        raise InputError(
            "max_error_rate", "is missing", "Set it, or name an earlier run as `baseline`"
        )
    if not 0 < arrays.check_fraction(confidence, "confidence") < 1:
        raise InputError("confidence", f"is {confidence:g}", "Pass a number between 0 and 1")
    if max_error_rate is not None:
        arrays.check_fraction(max_error_rate, "max_error_rate")
    elif per_class:
        raise InputError("per_class", "needs a limit for the classes", "Set `max_error_rate` too")


def give_no_judgement(
    n_samples: int, reason: str, *, max_error_rate: float | None, confidence: float
) -> Judgement:
    """Return a judgement that says why the data cannot be judged."""
    limit = 1.0 if max_error_rate is None else max_error_rate
    check = Check("all labels", Outcome.CANNOT_TELL, None, limit, reason)
    return Judgement([check], n_samples, confidence)


def _judge_classes(
    errors: LabelErrors, limit: float, confidence: float, reason: str
) -> Iterator[Check]:
    codes, names = errors.labels.codes, errors.labels.names
    present = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    class_confidence = 1 - (1 - confidence) / len(present)  # Bonferroni: all hold jointly
    for k in present.tolist():
        yield _judge(f"class {names[k]}", errors, codes == k, limit, class_confidence, reason)


def _compare(errors: LabelErrors, baseline: LabelErrors, confidence: float) -> Check:
    """Check that the error rate is not above the interval of the earlier one."""
    name, before = "all labels, compared with before", _estimate_rate(baseline, None, confidence)
    if before is None:
        return Check(name, Outcome.CANNOT_TELL, None, 1.0, "The earlier run has no estimate")
    reason = f"it was {describe_rate(before)} before"
    return _judge(name, errors, None, before.high, confidence, reason)


def _judge(
    name: str,
    errors: LabelErrors,
    mask: np.ndarray | None,
    limit: float,
    confidence: float,
    reason: str,
) -> Check:
    rate = _estimate_rate(errors, mask, confidence)
    if rate is None:
        why = "There is no estimate of how many labels are wrong"
        return Check(name, Outcome.CANNOT_TELL, None, limit, why)
    text = f"{describe_rate(rate)} of the labels are wrong, and {reason}"
    if rate.low > limit:
        return Check(name, Outcome.FAIL, rate, limit, text)
    if errors.answer.unsure is not None and rate.high > limit:
        return Check(name, Outcome.CANNOT_TELL, rate, limit, text)
    return Check(name, Outcome.PASS, rate, limit, text)


def _estimate_rate(
    errors: LabelErrors, mask: np.ndarray | None, confidence: float
) -> Estimate | None:
    """Estimate the share of wrong labels among the samples of a mask [N], or among all."""
    if errors.estimate is None or errors.answer.is_at_chance:
        return None
    if mask is None:
        mask = np.ones(len(errors), np.bool_)
    return errors.estimate.precision(mask, confidence=confidence)


def describe_rate(rate: Estimate) -> str:
    """A rate and its interval.

    >>> describe_rate(Estimate(0.031, 0.02, 0.054))
    'about 3.10% (2.00% to 5.40%)'
    """
    return f"about {rate.value:.2%} ({rate.low:.2%} to {rate.high:.2%})"
