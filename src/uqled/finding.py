"""`find`: the whole line in one call, from data in files or memory to a result that knows them."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.inspection import Finding, inspect
from uqled.data.inspection.prediction_checks import check_predictions
from uqled.data.loading import load
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.predict.crossval import cross_validate
from uqled.storage.run import Run

Frame = TypeVar("Frame")

_LOADING = (
    *("inputs", "kind", "columns", "group", "encoding", "separator", "image_size", "split"),
    *("limit", "skip_unreadable", "cache"),
)
_DETECTION = ("method", "target", "precision", "recall", "budget", "cost")


@dataclass(frozen=True, eq=False, repr=False)
class DataErrors(LabelErrors):
    """The samples whose label is probably wrong, with the data they came from."""

    data: Dataset | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    """What is plainly wrong with the data, found without and with its predictions."""

    def apply_to(self, frame: Frame) -> Frame:
        """The same kind of frame with columns added: `is_label_issue`, `label_score`,
        `suggested_label` and `error_probability`.

        Rows that were set aside, such as those without a label, have none of these.
        """
        import narwhals as nw

        native = _open_frame(frame)
        rows = self._find_rows(frame, len(native))
        table = self.to_frame()
        added = []
        for name in ("is_label_issue", "label_score", "suggested_label", "error_probability"):
            column = np.full(len(native), False if name == "is_label_issue" else None, dtype=object)
            column[rows] = table[name].to_numpy()
            plain = [None if value is None or value != value else value for value in column]
            series = nw.new_series(name, plain, backend=native.implementation)
            added.append(series)
        return cast(Frame, _restore_index(native.with_columns(*added).to_native(), frame))

    def corrected(self, frame: Frame, label: str | None = None) -> Frame:
        """The same kind of frame with the suggested label in every flagged row."""
        import narwhals as nw

        native = _open_frame(frame)
        name = label or self._name_label()
        if name not in native.columns:
            raise InputError(
                "label", f"is {name!r}, and the frame has the columns {', '.join(native.columns)}",
                "Name the column of labels",
            )  # fmt: skip
        rows = self._find_rows(frame, len(native))
        labels: list[Any] = native[name].to_list()
        for row, suggested in zip(rows[self.mask].tolist(), self.suggested[self.mask], strict=True):
            labels[row] = suggested.item() if hasattr(suggested, "item") else suggested
        series = nw.new_series(name, labels, native[name].dtype, backend=native.implementation)
        return cast(Frame, _restore_index(native.with_columns(series).to_native(), frame))

    def _name_label(self) -> str:
        columns = () if self.data is None else self.data.columns
        return next((column.name for column in columns if column.role == "label"), "label")

    def _find_rows(self, frame: Any, n: int) -> NDArray[np.intp]:
        """[N] where each sample lies in a frame: by the frame's own index, or by its place."""
        index = getattr(frame, "index", None)
        is_named = index is not None and hasattr(index, "is_unique") and index.is_unique
        names = map(str, index) if is_named else map(str, range(n))  # type: ignore[arg-type]
        place = {name: row for row, name in enumerate(names)}
        ids = range(len(self)) if self.data is None else self.data.ids.tolist()
        rows = [place.get(str(name), -1) for name in ids]
        if -1 in rows:
            missing = list(ids)[rows.index(-1)]
            raise InputError(
                "frame", f"has no row {str(missing)!r}", "Pass the frame that the errors are of"
            )
        return np.array(rows, np.intp)


def find(
    data: Any,
    *,
    label: Any = None,
    model: Any = "auto",
    folds: int = 4,
    out: Path | str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> DataErrors:
    """Find wrong labels: load, inspect, predict out of fold and detect, in one call.

    Parameters
    ----------
    data, label
        Whatever `uqled.load` takes, or a `Dataset`.
    model, folds
        What predicts each sample from the others, as `uqled.cross_validate` takes it.
    out
        Keep the run in this folder, for `uqled review` and `uqled export`. Default: it is not kept.
    options
        Of `load` (such as `columns`), of detection (such as `method` or `budget`), and of
        `cross_validate` (such as `passes` or `epochs`).
    """
    reading = {name: options.pop(name) for name in _LOADING if name in options}
    detecting = {name: options.pop(name) for name in _DETECTION if name in options}
    if not isinstance(data, Dataset):
        data = load(data, label=label, seed=seed, progress=progress, **reading)
    elif label is not None or reading:
        raise InputError(
            next(iter(reading), "label"), "is given beside a Dataset, which is read already",
            "Leave it out",
        )  # fmt: skip
    inspection = inspect(data, folds=folds)
    data = data.without_rare_classes(folds)
    place = nullcontext(out) if out is not None else tempfile.TemporaryDirectory()
    with place as folder:
        predictions = cross_validate(
            data, model, folds=folds, seed=seed, progress=progress,
            out=Path(str(folder)) / ("" if out is not None else "run"), **options,
        )  # fmt: skip
        errors = find_label_errors(predictions, progress=progress, **detecting)
        predicted = np.argmax(predictions.pred_probs, axis=1)
        findings = (*inspection.findings, *check_predictions(data.labels, predicted))
        if out is not None:
            run = Run.open(predictions.path)
            run.write_result(errors, {k: v for k, v in detecting.items() if k != "method"})
        known = {one.name: getattr(errors, one.name) for one in fields(errors)}
        return DataErrors(**known, data=data, findings=findings)


def _open_frame(frame: Any) -> Any:
    import narwhals as nw

    native = nw.from_native(frame, pass_through=True, eager_only=False)
    if not isinstance(native, nw.DataFrame):
        raise InputError(
            "frame", f"is a {type(frame).__name__}", "Pass a pandas, polars or Arrow frame"
        )
    if hasattr(frame, "index"):  # narwhals aligns pandas columns by their index
        native = nw.from_native(frame.reset_index(drop=True), eager_only=True)
    return native


def _restore_index(native: Any, frame: Any) -> Any:
    return native.set_axis(frame.index, axis=0) if hasattr(frame, "index") else native
