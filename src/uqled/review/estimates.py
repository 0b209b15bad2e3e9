"""The page's estimates: how many labels are wrong, how many flags are real, how many errors are
left, and what may be decided at once.

The numbers are those of the answer after the decisions so far, the same that the command line and
the report give. Reviewers begin with the most suspect samples, so the share of errors among the
decided ones says nothing about the rest, and is never used as if it did.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate
from uqled.detect.auto.promises import bound_errors, find_alike_verdicts, promise_errors
from uqled.detect.result import LabelErrors
from uqled.review.flag_list import FlagList
from uqled.review.orders import list_in_order

BulkKind = Literal["next", "above"]

#: The next samples of the queue, whose expected number of errors shows whether to go on.
NEXT = 20
#: "The next N" that may be accepted at once.
BULK_SIZES = (10, 25, 50, 100, 250)
#: Error probability from which "all above" may be accepted at once.
BULK_PROBABILITY = 0.95
#: Accepting many at once is offered if, with `BULK_CONFIDENCE`, at least this share of them are
#: errors.
BULK_SHARE = 0.9
#: The confidence of that bound. The 80% of the page's other numbers would be too low for a promise:
#: on some tables more of the accepted labels were right than it said.
BULK_CONFIDENCE = 0.95
#: Nothing is offered before this many decisions: the probabilities are the model's word alone.
BULK_VERDICTS = 20
#: After this many verdicts on random flags, the estimate need not agree with the one before any
#: decision: fewer rarely include enough samples as suspect as the offered ones.
BULK_RANDOM = 50


@dataclass(frozen=True)
class BulkOffer:
    """Undecided flags whose suggestions may be accepted without a look at each."""

    kind: BulkKind
    """`next`: the most suspect; `above`: all with an error probability of `BULK_PROBABILITY`."""
    n: int
    errors: Estimate
    """How many of these labels are wrong; at least as many as the lower end says, with
    `BULK_CONFIDENCE`."""
    indices: tuple[int, ...] = field(repr=False)
    """The samples."""


@dataclass(frozen=True)
class Estimates:
    """The estimates for one method's flags after the decisions so far; intervals are of 80%, that
    of `real` of `real_confidence`."""

    method: str
    number: int
    """The number of the last change that is included."""
    verdicts: int
    """How many samples are decided, flagged or not."""
    samples: int
    flagged: int
    """How many labels are flagged, decided ones that were wrong among them."""
    wrong: Estimate
    """How many labels are wrong in all."""
    real: Estimate | None
    """The share of the flags that is real; None if nothing is flagged."""
    real_confidence: float
    recall: Estimate | None
    """The share of all errors that is flagged."""
    left: Estimate
    """The number of wrong labels among those that nobody decided about."""
    left_flagged: float
    """How many of these are flagged."""
    next_errors: tuple[int, float]
    """(n, how many errors to expect) of the next few samples in the queue."""
    open_hundred: int
    """How many of the hundred flags that were chosen at random are undecided."""
    unsure: str | None
    """Why a single number would be a guess; None where it would not."""
    bulk: list[BulkOffer]


def compute_estimates(flags: FlagList, number: int) -> Estimates | None:
    """The estimates of a method's current flags; None where no error probability is known."""
    current, state = flags.current, flags.state
    estimate, answer = current.estimate, current.answer
    if estimate is None or answer.n_errors is None:
        return None
    verdicts = estimate.known
    is_open = np.ones(len(current), np.bool_) if verdicts is None else verdicts < 0
    n_found = 0 if verdicts is None else int(np.count_nonzero(verdicts == 1))
    queue = flags.list_undecided()
    probability = estimate.probability
    next_ones = queue[:NEXT]
    random_hundred = list_in_order(flags, "hundred", None)
    return Estimates(
        method=flags.method,
        number=number,
        verdicts=answer.n_verdicts,
        samples=len(current),
        flagged=answer.n_flagged,
        wrong=answer.n_errors,
        real=answer.precision,
        real_confidence=answer.precision_confidence,
        recall=answer.recall,
        left=_subtract(answer.n_errors, n_found, int(np.count_nonzero(is_open))),
        left_flagged=float(probability[current.mask & is_open].sum()),
        next_errors=(len(next_ones), float(probability[next_ones].sum())),
        open_hundred=int(np.count_nonzero(state.actions[random_hundred] == 0)),
        unsure=answer.unsure,
        bulk=offer_bulk(queue, flags.first, current, list_random_verdicts(flags)),
    )


def list_random_verdicts(flags: FlagList) -> NDArray[np.intp]:
    """The flags that were decided in the random order, from its start, after a look at each."""
    random_order = flags.list_random()
    is_open = flags.state.actions[random_order] == 0
    n = int(is_open.argmax()) if is_open.any() else len(is_open)
    return random_order[:n][~flags.state.in_bulk[random_order[:n]]]


def offer_bulk(
    queue: NDArray[np.intp],
    first: LabelErrors,
    current: LabelErrors,
    decided_at_random: NDArray[np.intp],
) -> list[BulkOffer]:
    """The offers to accept many undecided flags at once.

    Nothing before `BULK_VERDICTS` decisions, and nothing where the estimate is unsure. What was
    accepted at once counts for neither: it is the model's own word, and taking it for verdicts
    would make every offer support the next one. Decisions
    from the top of the list make the current estimate hopeful, so the one before any decision must
    be sure and expect as many errors too; or else flags at random that are as suspect as these.
    """
    before, after = first.estimate, current.estimate
    if before is None or after is None or after.unsure or after.known is None:
        return []
    if np.count_nonzero(after.evidence >= 0) < BULK_VERDICTS:  # type: ignore[operator]
        return []
    has_random = len(decided_at_random) >= BULK_RANDOM
    if before.unsure and not has_random:
        return []
    lowest = np.minimum(before.probability[queue], after.probability[queue])
    if has_random:
        lowest = after.probability[queue]
    candidates: list[tuple[BulkKind, NDArray[np.intp]]] = [
        ("next", queue[:n]) for n in BULK_SIZES if n <= len(queue)
    ]
    candidates.append(("above", queue[lowest >= BULK_PROBABILITY]))
    candidates = [one for one in candidates if len(one[1])]
    promises = promise_errors(
        after, [samples for _, samples in candidates], confidence=BULK_CONFIDENCE
    )
    offers = []
    for (kind, samples), promise in zip(candidates, promises, strict=True):
        least, low = BULK_SHARE * len(samples), promise.low
        if before.unsure or before.probability[samples].sum() < least:
            if not has_random:
                continue
            similar_verdicts = find_alike_verdicts(after, samples, decided_at_random)
            low = min(low, bound_errors(similar_verdicts, len(samples), confidence=BULK_CONFIDENCE))
        if low >= least:
            errors = replace(promise, low=low)
            offers.append(BulkOffer(kind, len(samples), errors, tuple(samples.tolist())))
    return offers


def _subtract(number: Estimate, n_found: int, n_open: int) -> Estimate:
    """The errors still to be found: at least none, at most as many as are undecided."""
    value, low, high = (
        min(max(one - n_found, 0.0), float(n_open))
        for one in (number.value, number.low, number.high)
    )
    return Estimate(value, low, high)
