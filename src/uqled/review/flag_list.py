"""The flagged samples as the page lists them: decided ones first, then the most suspect.

The list changes during the review. Decided samples keep their place, so that nothing moves behind
the reviewer; undecided ones are ordered by the current estimate.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.tiers import TIERS, estimate_tier
from uqled.detect.core.joint import count_confused_pairs, rank_confused_pairs
from uqled.detect.reasons import CONTRADICTED, REASONS, Reason, find_reasons
from uqled.detect.result import LabelErrors
from uqled.report.suspects import describe_duplicate, describe_reason, read_probabilities
from uqled.review.current_errors import CurrentErrors
from uqled.review.decisions.classes import find_merged_flags, find_settled_samples
from uqled.review.decisions.state import DecisionState, State
from uqled.review.orders import Order, list_in_order
from uqled.storage.run import Predictions

_MAX_CLASSES = 5  # of a sample: its most probable ones, the given and the suggested one
_MAX_PAIRS = 400  # in the heat map and its list


@dataclass(frozen=True, eq=False)
class ListQuery:
    """Which of a method's flags to list, and in which order."""

    method: str
    given: int | None = None
    suggested: int | None = None
    reason: Reason | None = None
    state: State | None = None
    tier: str | None = None
    """One of `TIERS`. The last one consists of unflagged samples."""
    order: Order = "suspect"
    chosen: NDArray[np.bool_] | None = None
    """[N] samples to list, whether flagged or not, instead of the flags."""


@dataclass(frozen=True)
class ListPage:
    """Some of the samples that a query lists."""

    indices: NDArray[np.intp]
    places: NDArray[np.intp]
    """Their places in the list without filters: pages begin and end at places, so that a decision
    which takes a sample out of a filtered list does not move the others."""
    before: int
    """The number of samples of the query before these."""
    total: int
    """The total number of samples of the query."""
    undecided: int
    """How many of these are undecided."""


class FlagList:
    """One method's flags."""

    def __init__(
        self,
        method: str,
        errors: CurrentErrors,
        predictions: Predictions,
        state: DecisionState,
    ) -> None:
        self.method = method
        self.state = state
        self._errors = errors
        self._predictions = predictions
        self._reasons = np.full(len(predictions), -1, np.int8)
        self.audit_indices: NDArray[np.intp] = np.empty(0, np.intp)
        """The samples drawn for an audit, those included that need no verdict; none where none was
        drawn."""
        self._lock = threading.Lock()

    @property
    def current(self) -> LabelErrors:
        """The method's current flags."""
        return self._errors.get(self.method)

    @property
    def first(self) -> LabelErrors:
        """The method's flags before any decision."""
        return self._errors.first[self.method]

    @cached_property
    def random_order(self) -> NDArray[np.intp]:
        """The flags before any decision, in a random order that is always the same."""
        ranked_samples = self.first.ranked
        return ranked_samples[np.random.default_rng(0).permutation(len(ranked_samples))].astype(
            np.intp
        )

    def list_random(self) -> NDArray[np.intp]:
        """The random order without flags between merged classes that nobody decided about."""
        return self.random_order[~self._is_merged[self.random_order]]

    def list_audit(self) -> NDArray[np.intp]:
        """The audit's samples without those that are settled and that nobody decided about."""
        is_asked = ~self.is_settled | (self.state.actions > 0)
        return self.audit_indices[is_asked[self.audit_indices]]

    @property
    def is_settled(self) -> NDArray[np.bool_]:
        """[N] samples about which an audit needs no verdict, because classes were merged. By the
        flags that it was drawn from, so that verdicts do not change which these are."""
        drawn_from, state = self._errors.errors_of_audit or self.first, self.state
        codes, suggested = self._predictions.labels.codes, drawn_from.suggested_codes
        return find_settled_samples(
            codes, suggested, state.actions, state.labels, state.class_targets
        )

    @property
    def is_listed(self) -> NDArray[np.bool_]:
        """[N] flagged now and undecided, or flagged at first or now and decided, or labelled unlike
        a duplicate; not between merged classes and undecided."""
        is_decided = self.state.actions > 0
        at_first = self.first.mask.copy()
        at_first[self.first.contradicted_labels.rows] = True
        is_listed: NDArray[np.bool_] = self.current.mask | (at_first & is_decided)
        is_listed[self.current.contradicted_labels.rows] = True
        return is_listed & ~self._is_merged

    @property
    def _is_merged(self) -> NDArray[np.bool_]:
        """[N] undecided, and its two classes were merged into one: there is nothing to decide."""
        codes, suggested = self._predictions.labels.codes, self.current.suggested_codes
        is_open: NDArray[np.bool_] = self.state.actions == 0
        return is_open & find_merged_flags(codes, suggested, self.state.class_targets)

    def list_undecided(self) -> NDArray[np.intp]:
        """What is still to decide: labels that contradict a duplicate, then the most suspect."""
        suspects = self.current.suspects
        is_open = (self.state.actions == 0) & ~self._is_merged
        undecided: NDArray[np.intp] = suspects[is_open[suspects]].astype(np.intp)
        return undecided

    @property
    def tier_numbers(self) -> NDArray[np.int8]:
        """[N] places in TIERS, -1 for none and between merged classes; of a decided sample, before
        any decision."""
        is_decided = self.state.actions > 0
        numbers: NDArray[np.int8] = np.where(
            is_decided, self.first.tier_numbers, self.current.tier_numbers
        )
        numbers[self._is_merged] = -1
        return numbers

    def order(self, query: ListQuery) -> NDArray[np.intp]:
        """The samples that a query lists, before its filters."""
        if query.chosen is not None:
            indices = np.flatnonzero(query.chosen)
            return indices[np.argsort(self.current.scores[indices], kind="stable")]
        tier = None if query.tier is None else TIERS.index(query.tier)
        return list_in_order(self, query.order, tier)

    def matches(self, query: ListQuery, indices: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of the samples the filters of a query let through."""
        matches = np.ones(len(indices), np.bool_)
        if query.given is not None:
            matches &= self._predictions.labels.codes[indices] == query.given
        if query.suggested is not None:
            matches &= self.current.suggested_codes[indices] == query.suggested
        if query.reason is not None:
            matches &= self.get_reasons(indices) == REASONS.index(query.reason)
        if query.state is not None:
            matches &= self.state.is_in_state(indices, query.state)
        return matches

    def find_queue(self, query: ListQuery) -> int:
        """The place of the first undecided sample; the list's length where none is."""
        is_open = self.state.actions[self.order(query)] == 0
        return int(is_open.argmax()) if is_open.any() else len(is_open)

    def select(self, query: ListQuery) -> NDArray[np.intp]:
        """All samples of a query, in its order."""
        indices = self.order(query)
        return indices[self.matches(query, indices)]

    def read_page(
        self, query: ListQuery, *, start: int, size: int, backwards: bool = False
    ) -> ListPage:
        """`size` samples from place `start` on, or the last ones before it."""
        ordered_indices = self.order(query)
        places = np.flatnonzero(self.matches(query, ordered_indices))
        at = int(np.searchsorted(places, start))
        first, last = (max(0, at - size), at) if backwards else (at, at + size)
        shown_places = places[first:last]
        undecided = self.state.is_in_state(ordered_indices[places], "undecided")
        return ListPage(
            ordered_indices[shown_places],
            shown_places,
            first,
            len(places),
            int(np.count_nonzero(undecided)),
        )

    def get_reasons(self, indices: NDArray[np.intp]) -> NDArray[np.int8]:
        """Places in REASONS; each sample's is computed when it is first asked for."""
        with self._lock:
            unknown = indices[self._reasons[indices] < 0]
            if len(unknown):
                about = self._predictions
                names = find_reasons(about.labels.codes, about.pred_probs, about.passes, unknown)
                self._reasons[unknown] = [REASONS.index(name) for name in names]
            reasons = self._reasons[indices]
        is_contradicted = np.isin(
            indices, self.current.contradicted_labels.rows
        )  # follows decisions
        reasons[is_contradicted] = REASONS.index(CONTRADICTED)
        return reasons

    def describe_samples(
        self, indices: NDArray[np.intp], places: NDArray[np.intp]
    ) -> list[dict[str, Any]]:
        """The rows of samples for the page, without their content."""
        about, current = self._predictions, self.current
        names, codes = about.labels.names, about.labels.codes
        probs = read_probabilities(about.pred_probs, about.passes, indices)
        assert probs is not None  # a run has a softmax
        top = _find_top_classes(probs, _MAX_CLASSES).tolist()
        why, tiers = self.get_reasons(indices), self.tier_numbers
        rows = []
        for at, i in enumerate(indices.tolist()):
            label, suggested, p = int(codes[i]), int(current.suggested_codes[i]), probs[at]
            missing = {k for k in (label, suggested) if k not in top[at]}
            classes = [*top[at][: _MAX_CLASSES - len(missing)], *sorted(missing)]
            rows.append(
                {
                    "index": i,
                    "id": about.ids[i],
                    "place": int(places[at]),
                    "given": label,
                    "suggested": suggested,
                    "reason": REASONS[why[at]],
                    "why": describe_reason(
                        REASONS[why[at]],
                        label,
                        suggested,
                        p,
                        names,
                        describe_duplicate(current, i, about.ids),
                    ),
                    "classes": [[k, round(float(p[k]), 4)] for k in classes],
                    "wrong": self._get_error_probability(i),
                    "tier": self._name_tier(REASONS[why[at]], int(tiers[i])),
                    **self.state.describe(i),
                }
            )
        return rows

    def _get_error_probability(self, index: int) -> float | None:
        """The probability that the label is wrong; for a decided sample, before the decision."""
        is_decided = self.state.actions[index] > 0
        errors = self.first if is_decided else self.current
        return None if errors.probability is None else round(float(errors.probability[index]), 4)

    def count_states(self) -> dict[str, int]:
        """The number of listed samples in each state."""
        is_in_list = self.is_listed
        numbers = np.bincount(self.state.actions[is_in_list], minlength=4).tolist()
        keys = ("undecided", "keep", "relabel", "drop")
        return {"flagged": sum(numbers), **dict(zip(keys, numbers, strict=True))}

    def count_overview(self) -> dict[str, Any]:
        """The number of listed samples with each class, pair and reason."""
        K = self._predictions.labels.n_classes
        indices = np.flatnonzero(self.is_listed)
        labels = self._predictions.labels.codes[indices]
        suggested = self.current.suggested_codes[indices]
        pairs = rank_confused_pairs(count_confused_pairs(labels, suggested, K))
        return {
            "given": np.bincount(labels, minlength=K).tolist(),
            "suggested": np.bincount(suggested, minlength=K).tolist(),
            "reasons": np.bincount(self.get_reasons(indices), minlength=len(REASONS)).tolist(),
            "tiers": self._count_tiers(),
            "pairs": [list(pair) for pair in pairs[:_MAX_PAIRS]],
        }

    def _name_tier(self, reason: Reason, number: int) -> str:
        """The name of a sample's tier; labels that contradict a duplicate are a tier of their own,
        before all others."""
        if reason == CONTRADICTED:
            return CONTRADICTED
        return TIERS[number] if number >= 0 else ""

    def _count_tiers(self) -> list[dict[str, Any]]:
        """Each tier with its undecided samples, and the share of them expected to be wrong."""
        estimate = self.current.estimate
        if estimate is None or not self.current.tiers:
            return []
        is_open, numbers, tiers = self.state.actions == 0, self.tier_numbers, []
        for k, name in enumerate(TIERS):
            mask = numbers == k
            if mask.any():  # a fully decided tier keeps its filter
                mask &= is_open
                n = int(np.count_nonzero(mask))
                share = estimate_tier(estimate, k, mask) if n else None
                tiers.append(
                    {"name": name, "n": n, "share": None if share is None else vars(share)}
                )
        return tiers


def _find_top_classes(probs: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """[N,n] the most probable classes of rows [N,K], equal ones in the order of the classes; rows
    of 1,000 classes are not sorted for five of them."""
    remaining_probs, rows = probs.copy(), np.arange(len(probs))
    top = np.empty((len(probs), min(n, probs.shape[1])), np.intp)
    for at in range(top.shape[1]):
        top[:, at] = remaining_probs.argmax(axis=1)
        remaining_probs[rows, top[:, at]] = -1.0
    return top
