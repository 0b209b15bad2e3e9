"""What the decisions so far say about the flags, and whether to go on.

Reviewers begin with the most suspect, so the share confirmed so far says nothing by itself about
the rest. The share among the decided nearest in rank to the next undecided one says whether to go
on; how many of the undecided are wrong is estimated in `outlook.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled import arrays

Verdict = Literal["begin", "go on", "accept in bulk", "stop", "done"]

#: Worth looking at while at least so many of the flags ahead are wrong labels.
WORTH = 0.1

_FEW = 20  # decisions before which nothing is said: the interval is wider than half the scale
_NEAREST = 100  # decided samples that stand for the next ones: 0.05 to 0.1 wide where it matters
_NEARLY_ALL = 0.9  # lower limit from which single decisions are hardly needed


@dataclass(frozen=True)
class Share:
    """`part` of `whole`, with a 95 % interval for the share."""

    part: float
    whole: int
    low: float
    high: float


@dataclass(frozen=True)
class Advice:
    """What is known after so many decisions."""

    confirmed: Share
    """Of the decided: relabelled or dropped. Wilson interval."""
    nearby: Share
    """The same of the decided nearest in rank to the first undecided. Wilson interval."""
    verdict: Verdict
    text: tuple[str, ...]
    """The same in words, one sentence each."""


def wilson(part: int, whole: int) -> Share:
    """95 % interval of a share after Wilson.

    Unlike the textbook's p ± 2 sd it stays within 0 and 1, has a width where all or none were
    confirmed, and covers what it says for few decisions.

    >>> share = wilson(0, 35)
    >>> share.low, round(share.high, 3)
    (0.0, 0.099)
    """
    if whole == 0:
        return Share(0, 0, 0.0, 1.0)
    from scipy.stats import binomtest  # takes a moment to import

    low, high = binomtest(part, whole).proportion_ci(method="wilson")
    return Share(part, whole, float(low), float(high))


def advice(outcomes: NDArray[Any], *, worth: float = WORTH) -> Advice:
    """What the decisions say; `outcomes` [n] along the ranking: 1 wrong label, 0 kept, -1 open.

    >>> advice(np.array([1] * 60 + [-1] * 40)).verdict
    'accept in bulk'
    """
    worth = arrays.fraction(worth, "worth")
    outcomes = np.asarray(outcomes)
    decided, open_ = np.flatnonzero(outcomes >= 0), np.flatnonzero(outcomes < 0)
    confirmed = wilson(int(np.sum(outcomes[decided] == 1)), len(decided))
    nearby = confirmed
    if len(open_) and len(decided):
        distance = np.abs(decided - open_[0])
        nearest = decided[np.argsort(distance, kind="stable")[:_NEAREST]]
        nearby = wilson(int(np.sum(outcomes[nearest] == 1)), len(nearest))
    verdict = _verdict(len(decided), len(open_), nearby, worth)
    from_top = bool(len(open_) and len(decided) and np.median(decided) < np.quantile(open_, 0.25))
    text = _in_words(confirmed, nearby, len(open_), verdict, worth, from_top)
    return Advice(confirmed, nearby, verdict, text)


def _verdict(n_decided: int, n_open: int, nearby: Share, worth: float) -> Verdict:
    if n_open == 0:
        return "done"
    if n_decided < _FEW:
        return "begin"
    if nearby.high < worth:
        return "stop"
    return "accept in bulk" if nearby.low >= _NEARLY_ALL else "go on"


def _in_words(
    confirmed: Share, nearby: Share, n_open: int, verdict: Verdict, worth: float, from_top: bool
) -> tuple[str, ...]:
    if confirmed.whole == 0:
        first = "Nothing is flagged." if verdict == "done" else "Nothing is decided yet."
        return (first,)
    sentences = [
        f"{confirmed.part:,} of {confirmed.whole:,} decided flags were wrong labels: "
        f"{confirmed.part / confirmed.whole:.0%} ({_interval(confirmed)})."
    ]
    if verdict == "done":
        return (*sentences, "Every flag is decided.")
    if verdict == "begin":
        missing = _FEW - confirmed.whole
        return (*sentences, f"After {missing} more, this says whether to go on.")
    if from_top:
        sentences.append(
            f"You began with the most suspect, so expect fewer in the {n_open:,} still open."
        )
    if nearby.whole < confirmed.whole:
        sentences.append(
            f"Nearest to the next one it was {nearby.part:,} of {nearby.whole:,} "
            f"({_interval(nearby)})."
        )
    sentences.append(_conclusion(verdict, nearby, worth))
    return tuple(sentences)


def _conclusion(verdict: Verdict, nearby: Share, worth: float) -> str:
    if verdict == "stop":
        return f"Fewer than 1 in {1 / worth:.0f} of the next ones are wrong: you can stop here."
    if verdict == "accept in bulk":
        return (
            "Nearly all flags around here are right, so looking at each is hardly worth it: check "
            "some in random order, then select many and decide at once."
        )
    next_ones = round(10 * nearby.part / nearby.whole)
    about = f"about {next_ones}" if next_ones else "perhaps one"
    return f"Going on is worth it: of the next 10, {about} will be wrong."


def _interval(share: Share) -> str:
    return f"95% interval {share.low:.0%} to {share.high:.0%}"
