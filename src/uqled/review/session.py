"""A run under review: the state that all requests to its page share."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import numpy as np

from uqled.detect.auto.audit import SIZE as AUDIT_SIZE
from uqled.detect.auto.audit import Audit, estimate_audit
from uqled.detect.auto.operating_point import OperatingPoint
from uqled.detect.methods.registry import DEFAULT_METHOD
from uqled.detect.result import LabelErrors
from uqled.errors import FileError, InputError
from uqled.report.samples import SampleSource
from uqled.report.similar_samples import SimilarSamples
from uqled.report.suspects import read_table_rows
from uqled.review.audits import AUDIT_FILE, open_audit, read_audit_verdicts
from uqled.review.current_errors import CurrentErrors
from uqled.review.decisions import Decisions
from uqled.review.decisions.opinions import Agreement, measure_agreement, read_opinions
from uqled.review.decisions.rows import Opinion
from uqled.review.decisions.state import DecisionState
from uqled.review.estimates import Estimates, compute_estimates
from uqled.review.evidence import Evidence
from uqled.review.flag_list import FlagList
from uqled.review.sample_content import Pictures
from uqled.review.sample_map import SampleMap
from uqled.storage.run import Predictions


class ReviewSession:
    """The run, its samples, and its current flags."""

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
        rows = read_table_rows(source, predictions.labels.codes)
        self.similar = SimilarSamples(
            predictions.labels.codes,
            predictions.pred_probs,
            errors.mask,
            predictions.path,
            predictions.contradictions,
            rows,
        )
        self.map = SampleMap(predictions, self.similar)
        self.evidence = Evidence(predictions, source, self.state, self.similar, rows)
        self._lists = {
            name: FlagList(name, self.errors, predictions, self.state) for name in self.errors.first
        }
        self._estimates: dict[str, tuple[Any, Estimates | None]] = {}
        self._overviews: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._audit: Audit | None = None
        self._lock = threading.Lock()
        self.errors.update()
        if (predictions.path / AUDIT_FILE).exists():
            with suppress(FileError):  # a file that cannot be used is reported when it is requested
                self.begin_audit()

    def get_list(self, method: str | None) -> FlagList:
        """A method's flags; the headline's where none is named."""
        name = self.errors.headline if method is None else method
        self.errors.get(name)  # refuses an unknown one
        return self._lists[name]

    def update(self) -> None:
        """Update the lists to the last decision."""
        self.state.refresh()
        self.errors.update()

    def estimate(self, flags: FlagList) -> Estimates | None:
        """The estimates with all decisions so far, cached per decision and method.

        They take a while for many samples, so the page requests them separately from the decisions,
        which do not wait.
        """
        self.update()
        with self._lock:
            now = self.errors.number, self.state.class_targets
            before, estimates = self._estimates.get(flags.method, (None, None))
            if before != now:
                estimates = compute_estimates(flags, self.errors.number)
                self._estimates[flags.method] = now, estimates
            return estimates

    def begin_audit(self) -> Audit:
        """Draw the samples of an audit, or go on with the one that was begun."""
        self.state.refresh()
        with self._lock:
            if self._audit is None:
                drawn_from = self.errors.errors_of_audit
                if drawn_from is None:
                    raise InputError(
                        "method",
                        "has no error probabilities",
                        f"Detect with method {DEFAULT_METHOD}",
                    )
                self._audit = open_audit(
                    self.predictions.path,
                    drawn_from,
                    self.predictions.ids,
                    AUDIT_SIZE,
                    0,
                    settled=self.get_list(None).is_settled,
                )
                for flags in self._lists.values():
                    flags.audit_indices = self._audit.indices.astype(np.intp)
            return self._audit

    def estimate_audit(self, flags: FlagList) -> dict[str, Any] | None:
        """The result of the audit's verdicts so far; None if no audit was begun."""
        if self._audit is None:
            return None
        _, actions, labels = self.state.copy_verdicts()
        verdicts = read_audit_verdicts(self.predictions, (actions, labels))
        is_settled = flags.is_settled
        drawn_samples = self._audit.indices[~is_settled[self._audit.indices]].tolist()
        n_judged = sum(z in verdicts for z in drawn_samples)
        content: dict[str, Any] = {"n": len(drawn_samples), "judged": n_judged}
        if n_judged and flags.first.estimate is not None:
            result = estimate_audit(
                flags.first, self._audit, verdicts, mask=flags.current.mask, settled=is_settled
            )
            content |= {
                "wrong": result.n_wrong,
                "errors": vars(result.n_errors[0.8]),
                "precision": vars(result.precision[0.8]),
                "advice": result.advice,
            }
        return content

    def read_opinions(self) -> dict[int, dict[str, Opinion]]:
        """Second opinions: sample -> reviewer -> opinion."""
        return read_opinions(self.decisions)

    def list_second_opinions(self, reviewer: str) -> list[int]:
        """The samples that others decided and on which this reviewer has given no opinion."""
        self.state.refresh()
        opinions = self.read_opinions()
        return [
            i
            for i, change in self.state.latest.items()
            if change.action is not None
            and change.reviewer != reviewer
            and reviewer not in opinions.get(i, {})
        ]

    def measure_agreement(self) -> list[Agreement]:
        """How far each pair of reviewers agrees."""
        return measure_agreement(self.decisions, self.predictions.labels.codes)

    def count_overview(self, flags: FlagList) -> dict[str, Any]:
        """The number of flags with each class, pair and reason, cached per list."""
        with self._lock:
            now = self.errors.number, self.state.class_targets
            before, overview = self._overviews.get(flags.method, (None, {}))
            if before != now:
                overview = flags.count_overview()
                self._overviews[flags.method] = now, overview
            return overview

    def describe_progress(self, flags: FlagList) -> dict[str, Any]:
        """Counts, and the last change that they include."""
        return {"counts": flags.count_states(), "number": self.state.number}
