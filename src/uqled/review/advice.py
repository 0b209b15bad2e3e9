"""What the decisions so far say about the flags, and whether to go on.

Reviewers begin with the most suspect, so the share confirmed so far says nothing by itself about
the rest. Two more numbers do: the share among the decided nearest in rank to the next undecided
one, and an estimate for all the undecided under a rate that changes along the ranking.
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
_VAGUE = 0.5  # width of an interval from which it says little
_Z = 1.959964  # 95 %

# The rate along the ranking, as log odds in 50 equal steps: a straight line plus a random walk.
# Of the line, from the first step to the last: a ranking that works makes the rate fall, from 73 %
# to 27 % in the mean, and by how much is not known, so that from 95 % to 5 % is nothing unusual.
# Of the walk: it may bend, by a factor of 12 in the odds over the whole ranking.
_STEPS = 50
_FALL = -2.0
_FALL_SPREAD = 3.0
_WALK = 0.35  # standard deviation per step
_FIRST = 2.0  # standard deviation at the top: 2 % to 98 % confirmed
_DRAWS = 1000


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
    rest: Share
    """Of the undecided: how many would be confirmed; low and high are shares too."""
    verdict: Verdict
    text: tuple[str, ...]
    """The same in words, one sentence each."""


def wilson(part: int, whole: int) -> Share:
    """95 % interval of a share after Wilson.

    Unlike the textbook's p ± 2 sd it stays within 0 and 1, has a width where all or none were
    confirmed, and covers what it says for few decisions.

    >>> found = wilson(0, 35)
    >>> found.low, round(found.high, 3)
    (0.0, 0.099)
    """
    if whole == 0:
        return Share(0, 0, 0.0, 1.0)
    share, z2 = part / whole, _Z**2
    centre = (share + z2 / (2 * whole)) / (1 + z2 / whole)
    half = _Z * np.sqrt(share * (1 - share) / whole + z2 / (4 * whole**2)) / (1 + z2 / whole)
    low, high = max(0.0, float(centre - half)), min(1.0, float(centre + half))
    return Share(part, whole, 0.0 if part == 0 else low, 1.0 if part == whole else high)


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
    rest = rest_confirmed(outcomes)
    verdict = _verdict(len(decided), len(open_), nearby, worth)
    from_top = bool(len(open_) and len(decided) and np.median(decided) < np.quantile(open_, 0.25))
    text = _in_words(confirmed, nearby, rest, verdict, worth, from_top)
    return Advice(confirmed, nearby, rest, verdict, text)


def rest_confirmed(outcomes: NDArray[Any]) -> Share:
    """How many of the undecided would be confirmed, under a rate that changes along the ranking.

    Where samples were decided, they rule. Further down, the line that they suggest goes on, and
    the interval widens with the distance. A rate that falls abruptly just where nobody looked is
    not foreseen.
    """
    n, n_open = len(outcomes), int(np.sum(outcomes < 0))
    if n_open == 0:
        return Share(0, 0, 0.0, 0.0)
    steps = min(_STEPS, n)
    step = np.arange(n) * steps // n
    wrong = np.bincount(step[outcomes == 1], minlength=steps)
    decided = np.bincount(step[outcomes >= 0], minlength=steps)
    still = np.bincount(step[outcomes < 0], minlength=steps)
    mean, precision = _log_odds(wrong, decided)
    rng = np.random.default_rng(0)  # the same decisions give the same numbers
    normal = rng.standard_normal((steps, _DRAWS))
    # precision = L L^T, so L^-T z has the covariance that precision is the inverse of
    odds = mean[:, None] + np.linalg.solve(np.linalg.cholesky(precision).T, normal)
    drawn = rng.binomial(still[:, None], 1 / (1 + np.exp(-odds))).sum(axis=0) / n_open
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Share(float(np.mean(drawn)) * n_open, n_open, float(low), float(high))


def _log_odds(
    wrong: NDArray[Any], decided: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mode [steps] and precision [steps,steps] of the log odds, given counts per step."""
    at = np.arange(len(decided))
    place = at / len(decided)
    covariance = (
        _FIRST**2
        + _FALL_SPREAD**2 * np.outer(place, place)
        + _WALK**2 * np.minimum.outer(at, at)
        + 1e-6 * np.eye(len(at))  # the first two steps alone would be one
    )
    before: NDArray[np.float64] = _FALL * place
    prior: NDArray[np.float64] = np.linalg.inv(covariance).astype(np.float64)
    odds, precision = before, prior
    for _ in range(50):  # Newton; the posterior is log-concave
        rate = 1 / (1 + np.exp(-odds))
        precision = prior + np.diag(decided * rate * (1.0 - rate)).astype(np.float64)
        move = np.linalg.solve(precision, wrong - decided * rate - prior @ (odds - before))
        odds = odds + np.clip(move, -2, 2)
        if np.abs(move).max() < 1e-8:
            break
    return odds, precision


def _verdict(n_decided: int, n_open: int, nearby: Share, worth: float) -> Verdict:
    if n_open == 0:
        return "done"
    if n_decided < _FEW:
        return "begin"
    if nearby.high < worth:
        return "stop"
    return "accept in bulk" if nearby.low >= _NEARLY_ALL else "go on"


def _in_words(
    confirmed: Share, nearby: Share, rest: Share, verdict: Verdict, worth: float, from_top: bool
) -> tuple[str, ...]:
    if confirmed.whole == 0:
        first = "Nothing is flagged." if verdict == "done" else "Nothing is decided yet."
        return (first,)
    found = [
        f"{confirmed.part:,} of {confirmed.whole:,} decided flags were wrong labels: "
        f"{confirmed.part / confirmed.whole:.0%} ({_interval(confirmed)})."
    ]
    if verdict == "done":
        return (*found, "Every flag is decided.")
    if verdict == "begin":
        missing = _FEW - confirmed.whole
        return (*found, f"After {missing} more, this says whether to go on.")
    if from_top:
        found.append("You began with the most suspect, so expect a lower share in the rest.")
    if nearby.whole < confirmed.whole:
        found.append(
            f"Nearest to the next one it was {nearby.part:,} of {nearby.whole:,} "
            f"({_interval(nearby)})."
        )
    low, high = round(rest.low * rest.whole), round(rest.high * rest.whole)
    found.append(
        f"Going by the decisions alone: of the {rest.whole:,} still open, {low:,} to {high:,} are "
        "probably wrong too, if the share goes on changing along the ranking as it did (95% "
        "interval)."
    )
    if rest.high - rest.low > _VAGUE:
        found.append("To know that better, decide some in random order.")
    found.append(_conclusion(verdict, nearby, worth))
    return tuple(found)


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
