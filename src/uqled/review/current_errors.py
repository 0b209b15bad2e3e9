"""The flags after the decisions so far: decisions are certain, and the estimate is updated.

The sweeps over the probabilities are not repeated: the estimate of `auto` is brought up to date by
the verdicts, and its flags and ranking are read from it again. The result equals
`find_label_errors(..., verdicts=...)`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.operating_point import OperatingPoint
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.review.decisions.state import DecisionState


class CurrentErrors:
    """The flags of every method, updated on demand after a decision."""

    def __init__(self, errors: LabelErrors, point: OperatingPoint, state: DecisionState) -> None:
        self.headline = errors.method
        self.first: Mapping[str, LabelErrors] = errors.by_method or {errors.method: errors}
        """Every method's flags before any decision."""
        self.number = 0
        """The last change that the current flags follow."""
        self._point = point
        self._state = state
        self._current = dict(self.first)
        self._lock = threading.Lock()

    @property
    def errors_of_audit(self) -> LabelErrors | None:
        """The flags before any decision that an audit is drawn from; None where no method knows
        error probabilities."""
        return next((one for one in self.first.values() if one.estimate), None)

    def get(self, method: str) -> LabelErrors:
        """A method's flags as last computed; never waits."""
        if method not in self.first:
            raise InputError("method", f"is {method!r}", f"Choose one of {', '.join(self.first)}")
        return self._current[method]

    def update(self) -> None:
        """Update the flags to the last decision; may take a second for many samples."""
        with self._lock:  # concurrent requests share one result
            number, actions, labels = self._state.copy_verdicts()
            if number == self.number:
                return
            estimates: dict[int, ErrorEstimate] = {}
            current = {}
            for name, errors in self.first.items():
                before = errors.estimate
                if before is None:
                    current[name] = errors
                    continue
                if id(before) not in estimates:  # all methods share one
                    codes = errors.labels.codes
                    estimates[id(before)] = before.with_verdicts(actions, labels, codes)
                current[name] = errors.with_estimate(estimates[id(before)], self._point)
            self._current, self.number = current, number
