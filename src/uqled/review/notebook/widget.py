"""The widget: what a notebook shows, and the decisions made in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from uqled.detect.result import LabelErrors
from uqled.errors import MissingInputError
from uqled.report.samples import SampleSource
from uqled.review.decisions import Decisions
from uqled.review.notebook.messages import ReviewMessages

try:
    import anywidget
except ImportError as error:
    raise MissingInputError(
        "review", f"in a notebook needs {error.name}", "Install it: pip install 'uqled[notebook]'"
    ) from error

if TYPE_CHECKING:
    import pandas as pd

_STATIC = Path(__file__).resolve().parent / "static"


class ReviewWidget(anywidget.AnyWidget):
    """The flagged samples, a page at a time, with buttons to keep, relabel or drop each."""

    _esm = _STATIC / "widget.js"
    _css = _STATIC / "widget.css"

    def __init__(
        self, errors: LabelErrors, source: SampleSource, decisions: Decisions, reviewer: str
    ) -> None:
        super().__init__()
        self._errors, self._source, self._decisions = errors, source, decisions
        self._messages = ReviewMessages(errors, source, decisions, reviewer)
        self.on_msg(self._answer)

    def _answer(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self.send(self._messages.answer(content))

    def to_frame(self) -> pd.DataFrame:
        """The decisions so far, one row per decided sample: its id, the action (`keep`, `relabel`
        or `drop`), the given label and the label it has now (missing for `drop`)."""
        import pandas as pd

        names, codes = self._errors.labels.names, self._errors.labels.codes
        rows = []
        for index, decision in sorted(self._decisions.current().items()):
            code = codes[index] if decision.label is None else decision.label
            label = None if decision.action == "drop" else names[code]
            identity = str(self._source.data.ids[index])
            rows.append((index, identity, decision.action, names[codes[index]], label))
        columns = ["index", "id", "action", "given_label", "label"]
        return pd.DataFrame(rows, columns=columns).set_index("index")
