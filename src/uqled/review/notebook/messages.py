"""The messages between the widget and the kernel, as plain JSON.

The widget sends one of

    {"kind": "page", "start": 0}
    {"kind": "decide", "index": 3, "action": "relabel", "label": 1, "version": 0}
    {"kind": "undo"}

and every answer has the page that the widget shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uqled.detect.result import LabelErrors
from uqled.errors import UqledError
from uqled.report.samples import SampleSource
from uqled.review.decisions import Decision, Decisions

PAGE = 8  # samples shown at a time
_SIDE = 128  # pixels of the longer side of a picture
_CHARACTERS = 600  # of a text
_FIELDS = 12  # columns of a row


class ReviewMessages:
    """Answers the messages of one widget; decisions are on the disk before the answer."""

    def __init__(
        self, errors: LabelErrors, source: SampleSource, decisions: Decisions, reviewer: str
    ) -> None:
        self._errors, self._source = errors, source
        self._decisions, self._reviewer = decisions, reviewer
        self._start = 0

    def answer(self, message: Any) -> dict[str, Any]:
        """The page to show after a message, and why the message was refused, if it was."""
        refusal = None
        try:
            self._obey(message if isinstance(message, Mapping) else {})
        except UqledError as error:
            refusal = f"{error}."
        return self._describe_page() | {"error": refusal}

    def _obey(self, message: Mapping[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "page":
            start = message.get("start")
            last = max(0, (self._errors.n_flagged - 1) // PAGE * PAGE)
            if type(start) is int:
                self._start = min(max(0, start // PAGE * PAGE), last)
        elif kind == "decide":
            index: Any = message.get("index")
            version = message.get("version")
            seen_versions = (
                {index: version} if type(version) is int and type(index) is int else None
            )
            action, label = message.get("action"), message.get("label")
            self._decisions.decide(
                [(index, action, label)], reviewer=self._reviewer, seen_versions=seen_versions
            )
        elif kind == "undo":
            self._decisions.undo(self._reviewer)

    def _describe_page(self) -> dict[str, Any]:
        ranked_samples = self._errors.ranked.tolist()
        current = self._decisions.current()
        return {
            "kind": "page",
            "start": self._start,
            "size": PAGE,
            "total": len(ranked_samples),
            "decided": sum(index in current for index in ranked_samples),
            "reviewer": self._reviewer,
            "classes": list(self._errors.labels.names),
            "samples": [
                self._describe_sample(index, current.get(index))
                for index in ranked_samples[self._start : self._start + PAGE]
            ],
        }

    def _describe_sample(self, index: int, decision: Decision | None) -> dict[str, Any]:
        errors, data = self._errors, self._source.data
        probability = errors.probability
        return {
            "index": index,
            "id": str(data.ids[index]),
            "given": int(errors.labels.codes[index]),
            "suggested": int(errors.suggested_codes[index]),
            "probability": None if probability is None else float(probability[index]),
            "tier": str(errors.tier[index]),
            "action": None if decision is None else decision.action,
            "label": None if decision is None else decision.label,
            "version": 0 if decision is None else decision.version,
            **self._describe_content(index),
        }

    def _describe_content(self, index: int) -> dict[str, Any]:
        if self._source.kind == "images":
            return {"picture": self._source.make_thumbnail(index, _SIDE).data_uri}
        if self._source.kind == "texts":
            return {"text": self._source.read_text(index, _CHARACTERS)}
        return {"fields": self._source.read_fields(index, _FIELDS)}
