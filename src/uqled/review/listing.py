"""The flagged samples as the page lists them: most suspect first, filtered, page by page."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.detect.reasons import REASONS, Reason, reasons
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.report.suspects import shown_probabilities, told
from uqled.review.decisions import Change, Decisions, action_number
from uqled.storage.run import Predictions

State = Literal["undecided", "decided", "keep", "relabel", "drop"]
Order = Literal["suspect", "random", "hundred"]
STATES: tuple[State, ...] = get_args(State)
ORDERS: tuple[Order, ...] = get_args(Order)

_SHOWN_CLASSES = 6  # of a sample: its most probable ones, the given and the suggested one
_SHOWN_PAIRS = 400  # in the heat map and its list
_HUNDRED = 100  # flags at random, to know how many are real: the share is then known to 0.1


@dataclass(frozen=True)
class Asked:
    """Which of a method's flags, and in which order."""

    method: str
    given: int | None = None
    suggested: int | None = None
    reason: Reason | None = None
    state: State | None = None
    order: Order = "suspect"


@dataclass(frozen=True)
class Page:
    """Some of the flags that were asked for."""

    places: NDArray[np.intp]
    """Places in the order asked for: pages begin and end at places, so that a decision which
    takes a sample out of the list does not move the others."""
    indices: NDArray[np.intp]
    """The samples at these places."""
    ranks: NDArray[np.intp]
    """Their places in the ranking, 0 = most suspect."""
    before: int
    """How many of those asked for come before these."""
    total: int
    """How many there are in all."""
    undecided: int
    """How many of these are undecided."""


class Standing:
    """The decisions as arrays, kept up with the file: also others may write to it."""

    def __init__(self, decisions: Decisions, N: int) -> None:
        self.decisions = decisions
        self.actions = np.zeros(N, np.int8)
        """[N] 0 undecided, 1 keep, 2 relabel, 3 drop."""
        self.labels = np.full(N, -1, np.int32)
        """[N] the class number of a relabel, -1 elsewhere."""
        self.latest: dict[int, Change] = {}
        """The last change of every sample that has one."""
        self.number = 0
        """The last change that was read."""
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        with self._lock:
            for change in self.decisions.history(self.number):
                self.actions[change.index] = action_number(change.action)
                self.labels[change.index] = -1 if change.label is None else change.label
                self.latest[change.index] = change
                self.number = change.number

    def verdicts(self) -> tuple[int, NDArray[np.int8], NDArray[np.int32]]:
        """(number of the last change, actions [N], labels [N]), which stay as they are."""
        with self._lock:
            return self.number, self.actions.copy(), self.labels.copy()

    def mask(self, indices: NDArray[np.intp], state: State) -> NDArray[np.bool_]:
        """Which of the samples are in that state."""
        actions = self.actions[indices]
        if state == "decided":
            found: NDArray[np.bool_] = actions > 0
        else:
            found = actions == (0 if state == "undecided" else action_number(state))
        return found


class Flags:
    """One method's flags, most suspect first."""

    def __init__(self, errors: LabelErrors, predictions: Predictions) -> None:
        self.method = errors.method
        self.mask = errors.mask
        """[N] True = flagged."""
        self.indices: NDArray[np.intp] = errors.ranked
        """[n]"""
        self.given = errors.labels.codes[self.indices]
        self.suggested = errors.best[self.indices]
        self._pairs = errors.ranked_pairs
        self._predictions = predictions

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def reasons(self) -> NDArray[np.int8]:
        """[n] places in REASONS."""
        about = self._predictions
        found = reasons(about.labels.codes, about.pred_probs, about.passes, self.indices)
        return np.array([REASONS.index(reason) for reason in found], np.int8)

    @cached_property
    def shuffled(self) -> NDArray[np.intp]:
        """[n] the ranks in an order that has nothing to do with them, always the same."""
        return np.random.default_rng(0).permutation(len(self))

    def ordered(self, order: Order) -> NDArray[np.intp]:
        """The ranks that an order lists, in this order; `hundred` are the first of `random`."""
        if order == "suspect":
            return np.arange(len(self))
        return self.shuffled[:_HUNDRED] if order == "hundred" else self.shuffled

    def probabilities(self, indices: NDArray[np.intp]) -> NDArray[np.float64]:
        """[len(indices),K] those that the reasons are read from."""
        about = self._predictions
        found = shown_probabilities(about.pred_probs, about.passes, indices)
        assert found is not None  # a run has a softmax
        return found

    def fitting(self, asked: Asked, standing: Standing) -> NDArray[np.bool_]:
        """[n] along the ranking: whether the flag fits what was asked for."""
        matching = np.ones(len(self), np.bool_)
        for column, value in ((self.given, asked.given), (self.suggested, asked.suggested)):
            if value is not None:
                matching &= column == value
        if asked.reason is not None:
            matching &= self.reasons == REASONS.index(asked.reason)
        if asked.state is not None:
            matching &= standing.mask(self.indices, asked.state)
        if asked.order == "hundred":
            listed = np.zeros(len(self), np.bool_)
            listed[self.ordered("hundred")] = True
            matching &= listed
        return matching

    def page(
        self, asked: Asked, standing: Standing, *, start: int, size: int, backwards: bool = False
    ) -> Page:
        """`size` flags from place `start` on, or the last ones before it."""
        matching = self.fitting(asked, standing)
        ranks = self.ordered(asked.order)
        places = np.flatnonzero(matching[ranks])
        at = int(np.searchsorted(places, start))
        first, last = (max(0, at - size), at) if backwards else (at, at + size)
        shown = ranks[places[first:last]]
        undecided = int(np.sum(matching & standing.mask(self.indices, "undecided")))
        return Page(places[first:last], self.indices[shown], shown, first, len(places), undecided)

    def rows(self, page: Page, standing: Standing) -> list[dict[str, Any]]:
        """What the page shows of each sample, beside the sample itself and its probability."""
        names, given = self._predictions.labels.names, self.given[page.ranks]
        suggested, why = self.suggested[page.ranks], self.reasons[page.ranks]
        probs = self.probabilities(page.indices)
        top = np.argsort(-probs, axis=1, kind="stable")[:, :_SHOWN_CLASSES]
        found = []
        for at, i in enumerate(page.indices.tolist()):
            g, s, p = int(given[at]), int(suggested[at]), probs[at]
            asked = {k for k in (g, s) if k not in top[at]}
            shown = [*top[at].tolist()[: _SHOWN_CLASSES - len(asked)], *asked]
            found.append(
                {
                    "index": i,
                    "id": self._predictions.ids[i],
                    "place": int(page.places[at]),
                    "rank": int(page.ranks[at]),
                    "given": g,
                    "suggested": s,
                    "reason": REASONS[why[at]],
                    "why": told(REASONS[why[at]], g, p, names),
                    "classes": [[k, round(float(p[k]), 4)] for k in shown],
                    **standing_of(i, standing),
                }
            )
        return found

    def counts(self, standing: Standing) -> dict[str, int]:
        """How many flags are in each state."""
        found = np.bincount(standing.actions[self.indices], minlength=4)
        return {
            "flagged": len(self),
            "undecided": int(found[0]),
            "keep": int(found[1]),
            "relabel": int(found[2]),
            "drop": int(found[3]),
        }

    def outcomes(self, standing: Standing) -> NDArray[np.int8]:
        """[n] along the ranking: 1 the label was wrong, 0 it was kept, -1 undecided."""
        return np.array([-1, 0, 1, 1], np.int8)[standing.actions[self.indices]]

    @cached_property
    def overview(self) -> dict[str, Any]:
        """How many flags have each class, pair and reason."""
        K = self._predictions.labels.n_classes
        return {
            "given": np.bincount(self.given, minlength=K).tolist(),
            "suggested": np.bincount(self.suggested, minlength=K).tolist(),
            "reasons": np.bincount(self.reasons, minlength=len(REASONS)).tolist(),
            "pairs": self._pairs[:_SHOWN_PAIRS],
        }


class Listing:
    """The flags of every method that a run allows; each is looked at when first asked for."""

    def __init__(self, errors: LabelErrors, predictions: Predictions) -> None:
        self._errors: Mapping[str, LabelErrors] = errors.each_method
        self._predictions = predictions
        self._flags: dict[str, Flags] = {}
        self._lock = threading.Lock()
        self.headline = errors.method
        self.methods = dict(errors.answer.flags_by_method)
        """Name -> the number flagged."""

    def of(self, method: str) -> Flags:
        if method not in self._errors:
            raise InputError("method", f"is {method!r}", f"Choose one of {', '.join(self._errors)}")
        with self._lock:
            if method not in self._flags:
                self._flags[method] = Flags(self._errors[method], self._predictions)
                _ = self._flags[method].overview  # once, before threads ask for it
            return self._flags[method]


def standing_of(index: int, standing: Standing) -> dict[str, Any]:
    """A sample's decision for the page."""
    change = standing.latest.get(index)
    if change is None:
        return {"action": None, "label": None, "version": 0}
    return {
        "action": change.action,
        "label": change.label,
        "version": change.version,
        "reviewer": change.reviewer,
        "at": change.at,
    }
