"""A run under review: what all requests to its page share."""

from __future__ import annotations

import threading
from typing import Any

from uqled.detect.auto.estimate import OperatingPoint
from uqled.detect.result import LabelErrors
from uqled.report.samples import SampleSource
from uqled.review.current_errors import CurrentErrors
from uqled.review.decision_state import DecisionState
from uqled.review.decisions import Decisions
from uqled.review.estimates import Estimates, compute_estimates
from uqled.review.evidence import Evidence
from uqled.review.flag_list import FlagList
from uqled.review.sample_content import Pictures
from uqled.storage.run import Predictions


class ReviewSession:
    """The run, its samples, and its flags as they follow the decisions."""

    def __init__(
        self,
        predictions: Predictions,
        errors: LabelErrors,
        decisions: Decisions,
        source: SampleSource | None,
        *,
        reviewer: str,
        point: OperatingPoint | None = None,
    ) -> None:
        self.predictions = predictions
        self.decisions = decisions
        self.source = source
        self.reviewer = reviewer
        self.state = DecisionState(decisions, len(predictions))
        self.errors = CurrentErrors(errors, point or OperatingPoint("f1"), self.state)
        self.pictures = Pictures(source) if source and source.kind == "images" else None
        self.evidence = Evidence(predictions, source, self.state)
        self._lists = {
            name: FlagList(name, self.errors, predictions, self.state) for name in self.errors.first
        }
        self._estimates: dict[str, Estimates | None] = {}
        self._overviews: dict[str, tuple[int, dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self.errors.update()

    def get_list(self, method: str | None) -> FlagList:
        """A method's flags; the headline's where none is named."""
        name = self.errors.headline if method is None else method
        self.errors.get(name)  # refuses an unknown one
        return self._lists[name]

    def update(self) -> None:
        """Bring the lists up to the last decision."""
        self.state.refresh()
        self.errors.update()

    def estimate(self, flags: FlagList) -> Estimates | None:
        """The estimates with all decisions so far; computed once per decision and method.

        That takes a while where samples are many, so the page asks for it apart from the
        decisions, which do not wait for it.
        """
        self.update()
        with self._lock:
            last = self._estimates.get(flags.method)
            if last is None or last.number != self.errors.number:
                last = compute_estimates(flags, self.errors.number)
                self._estimates[flags.method] = last
            return last

    def count_overview(self, flags: FlagList) -> dict[str, Any]:
        """How many flags have each class, pair and reason; counted once per list."""
        with self._lock:
            number, overview = self._overviews.get(flags.method, (-1, {}))
            if number != self.errors.number:
                number, overview = self.errors.number, flags.count_overview()
                self._overviews[flags.method] = number, overview
            return overview

    def describe_progress(self, flags: FlagList) -> dict[str, Any]:
        """Counts, and the last change that they include."""
        return {"counts": flags.count_states(), "number": self.state.number}
