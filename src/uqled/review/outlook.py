"""How many labels are probably wrong, how many flags are real, how many errors are still to find.

All of it is detection's own estimate, brought up to date by the decisions: see `with_verdicts` in
`uqled.detect.auto.estimate`. What is decided is certain, so no interval reaches below the errors
that were found, and what is still to find is the number in all less those.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.review.listing import Flags, Standing


@dataclass(frozen=True)
class Outlook:
    """What one method's flags are worth, after so many decisions; every interval is of 80 %."""

    method: str
    number: int
    """The last change of a decision that is in it."""
    verdicts: int
    """How many samples are decided, flagged or not."""
    samples: int
    flagged: int
    wrong: Estimate
    """How many labels are wrong in all."""
    real: Estimate
    """How many of the flags are."""
    recall: Estimate
    """What part of all errors is flagged."""
    left: Estimate
    """How many labels are wrong among all that nobody decided about."""
    left_flagged: Estimate
    """The same among the flags."""
    open_hundred: int
    """How many of the hundred flags that were chosen at random are undecided."""
    doubt: str | None
    """Why these numbers are unsure; None where they are not."""


def outlook(estimate: ErrorEstimate, flags: Flags, *, number: int = 0) -> Outlook:
    """What `estimate`, after the verdicts up to that change, says of the flags."""
    mask, known = flags.mask, estimate.known
    if known is None:
        known = np.full(len(mask), -1, np.int8)
    found, open_ = known == 1, known < 0
    wrong = _at_least(estimate.number, found, open_)
    real = _at_least(estimate.sum_over(mask), found & mask, open_ & mask)
    to_decide = int(np.count_nonzero(open_[flags.indices[flags.ordered("hundred")]]))
    return Outlook(
        method=flags.method,
        number=number,
        verdicts=int(np.count_nonzero(~open_)),
        samples=len(mask),
        flagged=len(flags),
        wrong=wrong,
        real=real,
        recall=estimate.recall(mask),
        left=_less(wrong, found),
        left_flagged=_less(real, found & mask),
        open_hundred=to_decide,
        doubt=doubt(estimate, wrong, to_decide),
    )


def doubt(estimate: ErrorEstimate, wrong: Estimate, to_decide: int) -> str | None:
    """Why the numbers are unsure: the estimate's own words, or that the interval is wide.

    `to_decide` of the hundred flags chosen at random are open: deciding them helps.
    """
    own: str | None = getattr(estimate, "unsure", None)
    if own is not None or wrong.high <= 2 * wrong.low:
        return own
    wide = "The interval is wide: it ends at more than twice its beginning."
    return f"{wide} Deciding flags chosen at random makes it narrower." if to_decide else wide


class Outlooks:
    """Every method's outlook, computed anew when it is asked for after a decision.

    That takes a while where there are many samples, so it is asked for apart from the decisions,
    which do not wait for it.
    """

    def __init__(
        self, estimate: ErrorEstimate | None, given: NDArray[Any], standing: Standing
    ) -> None:
        self._before = self._after = estimate
        self._given = given
        self._standing = standing
        self._number = 0
        self._known: dict[str, Outlook] = {}
        self._lock = threading.Lock()

    def of(self, flags: Flags) -> Outlook | None:
        """With all decisions so far; None where no method estimated anything."""
        if self._before is None:
            return None
        with self._lock:  # others who ask meanwhile get the same one
            number, actions, labels = self._standing.verdicts()
            after = self._after
            if number != self._number:
                after = self._before.with_verdicts(actions, labels, self._given)
            assert after is not None
            last = self._known.get(flags.method)
            if last is None or last.number != number:
                last = outlook(after, flags, number=number)
                self._known[flags.method] = last
            # Only now, when all of it is computed, so that `probability` never waits.
            self._after, self._number = after, number
            return last

    def probability(self, index: int) -> float | None:
        """How probable it is that an undecided sample's label is wrong, as far as computed.

        Of a decided one, how probable it was before: that it is certain now goes without saying.
        """
        if self._before is None or self._after is None:
            return None
        decided = self._standing.actions[index] > 0
        return float((self._before if decided else self._after).probability[index])


def _at_least(number: Estimate, found: NDArray[np.bool_], open_: NDArray[np.bool_]) -> Estimate:
    """No fewer than were found, no more than those and the undecided."""
    least = float(np.count_nonzero(found))
    most = least + float(np.count_nonzero(open_))
    low, value, high = (
        min(max(one, least), most) for one in (number.low, number.value, number.high)
    )
    return Estimate(value, low, high)


def _less(number: Estimate, found: NDArray[np.bool_]) -> Estimate:
    """What is still to find."""
    n = float(np.count_nonzero(found))
    return Estimate(number.value - n, number.low - n, number.high - n)
