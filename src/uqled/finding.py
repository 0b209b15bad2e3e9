"""`find`: the whole pipeline in one call, from data in files or memory to a result that holds the
data."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from uqled.answer import describe_answer
from uqled.data.dataset import Dataset
from uqled.data.frames import open_frame
from uqled.data.inspection import Finding, inspect
from uqled.data.inspection.prediction_checks import add_prediction_findings
from uqled.data.loading import load
from uqled.data.tables.columns import describe_columns
from uqled.data.tables.table_files import read_csv
from uqled.data.tables.text_dialect import Dialect
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.features.embedding_files import attach_embeddings
from uqled.model_quality import describe_model_quality
from uqled.predict.crossval import cross_validate
from uqled.storage.reading import explain_file_problems
from uqled.storage.run import Run
from uqled.terminal import escape_controls

if TYPE_CHECKING:
    import pandas as pd

Frame = TypeVar("Frame")

_LOADING = (
    *("inputs", "kind", "columns", "group", "encoding", "separator", "sheet"),
    *("header", "spellings", "image_size", "split", "limit", "skip_unreadable", "cache"),
)
_DETECTION = ("method", "target", "precision", "recall", "budget", "cost")


@dataclass(frozen=True, eq=False, repr=False)
class DataErrors(LabelErrors):
    """The samples whose label is probably wrong, with the data they came from."""

    data: Dataset | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    """The findings about the data, with and without its predictions."""
    run: Path | None = field(default=None, repr=False)
    """The folder of the run; None if it was not kept."""
    unlabelled: Any = field(default=None, repr=False)
    """A pandas frame of the samples without a label: `id`, `predicted_label`, `probability` and
    `copy_of`, the labelled sample that it is a copy of (or empty). None if every sample has a
    label."""
    _decision_files: list[Path] = field(default_factory=list, init=False, repr=False)
    """The files that `review` was given; the last one counts."""

    def review(self, decisions: Path | str | None = None, *, reviewer: str | None = None) -> Any:
        """A notebook widget for reviewing the flagged samples.

        Decisions go through the kernel, without a port, into the file that `uqled review` and
        `uqled export` use. The widget's `to_frame()` lists them; `apply_to` and `corrected` follow
        them.

        Parameters
        ----------
        decisions
            The file of decisions, created if it does not exist. Default: that of the run, if
            `find` kept one (`out`).
        reviewer
            The name that decisions are stored under. Default: your user name.
        """
        from uqled.report.samples import SampleSource
        from uqled.review.notebook.widget import ReviewWidget
        from uqled.review.reviewers import get_user

        path = self.decisions_path if decisions is None else Path(decisions)
        if path is None:
            raise InputError(
                "decisions",
                "is missing, and find kept no run to write them to",
                "Pass decisions='decisions.sqlite', or out='runs/NAME' to find",
            )
        assert self.data is not None
        store = self._open_decisions(path)
        if decisions is not None:
            self._decision_files.append(path.absolute())
        return ReviewWidget(self, SampleSource(self.data), store, reviewer or get_user())

    @property
    def decisions_path(self) -> Path | None:
        """The file of decisions: the last one that `review` was given, or that of the run."""
        from uqled.review.decisions import DECISIONS_FILE

        if self._decision_files:
            return self._decision_files[-1]
        return None if self.run is None else self.run / DECISIONS_FILE

    def _open_decisions(self, path: Path) -> Any:
        from uqled.review.decisions import Decisions

        ids = None if self.data is None else self.data.ids.tolist()
        return Decisions(path, n_samples=len(self), classes=self.labels.names, ids=ids)

    def _read_decisions(self) -> dict[int, Any]:
        """The decisions so far, by sample; no file is created if nobody has reviewed."""
        path = self.decisions_path
        if path is None or not os.path.lexists(path):
            return {}
        with self._open_decisions(path) as store:
            decisions: dict[int, Any] = store.current()
        return decisions

    def find_errors_in(
        self, new_data: Any, *, label: Any = None, progress: bool | None = None
    ) -> DataErrors:
        """Find wrong labels in new data with the model of this run.

        The model is fitted again on this data without its flagged samples. `find` must have kept
        the run (`out`). The new labels do not influence the predictions.

        Parameters
        ----------
        new_data
            Whatever `uqled.load` takes, with the same columns and classes.
        label
            The column of labels, if it has another name than in this data; or the labels
            themselves, one per sample, for new data without columns.
        """
        from uqled.check.new_data import find_errors_in_new_data

        if self.run is None:
            raise InputError(
                "out", "was not given to find, which kept no model", "Pass out='runs/NAME' to find"
            )
        predictions = Run.open(self.run).predictions()
        new, errors = find_errors_in_new_data(
            new_data, predictions, self, data=self.data, label=label, progress=progress
        )
        if errors is None:
            raise InputError(
                "new_data", "has labels of one class, which cannot be judged", "Add other classes"
            )
        return DataErrors(**_list_fields(errors), data=new)

    def summary(self, *, pairs: int = 5, suspects: int = 10) -> str:
        """The answer in a few lines, to print: how many labels are wrong, the most suspect samples,
        how the columns were used, and how well each model predicted."""
        ids = None if self.data is None else self.data.ids.tolist()
        columns = () if self.data is None else self.data.columns
        lines = [escape_controls(line) for line in describe_columns(columns)]
        if self.model is not None:
            lines += describe_model_quality(self.model)
        answer = describe_answer(self.answer, ids=ids, pairs=pairs, suspects=suspects)
        return "\n".join([answer, "", *lines] if lines else [answer])

    def to_frame(self) -> pd.DataFrame:
        """One row per sample, in the order of the data, with the columns of `LabelErrors.to_frame`.

        The index is the pandas frame's own; for other data, it holds ids, such as names of files,
        or row numbers where samples have no names.
        """
        frame = super().to_frame()
        return frame if self.data is None else frame.set_axis(self.data.row_names, axis=0)

    def _repr_html_(self) -> str:
        """The answer in one look, with the most suspect samples, in a notebook."""
        from uqled.report.notebook import render_errors

        return render_errors(self, self.data)

    def apply_to(self, frame: Frame) -> Frame:
        """The same kind of frame with columns added: `is_label_issue`, `label_score`,
        `suggested_label` and `error_probability`. Takes a pandas, polars or Arrow frame or a
        Hugging Face `Dataset`, whose images are not read.

        For rows without a label, `suggested_label` is the predicted class. Rows of a class that is
        too rare have empty entries. Once somebody has reviewed samples, a column `decision` says
        `keep`, `relabel` or `drop`, and `is_label_issue` and `suggested_label` follow it.
        """
        table = open_frame(frame)
        rows = self._find_rows(frame, len(table))
        result = self.to_frame()
        ids, predicted = (
            ([], [])
            if self.unlabelled is None
            else (self.unlabelled["id"], self.unlabelled["predicted_label"])
        )
        aside = self._find_rows(frame, len(table), ids)
        names = ["is_label_issue", "label_score", "suggested_label", "error_probability"]
        columns = {name: result[name].to_numpy(object, copy=True) for name in names}
        if decisions := self._read_decisions():
            columns["decision"] = np.full(len(self), None, dtype=object)
        for index, decision in decisions.items():
            columns["decision"][index] = decision.action
            columns["is_label_issue"][index] = decision.action != "keep"
            if decision.label is not None:
                columns["suggested_label"][index] = self.labels.values.tolist()[decision.label]
        new_columns = {}
        for name, entries in columns.items():
            column = np.full(len(table), False if name == "is_label_issue" else None, dtype=object)
            column[rows] = entries
            if name == "suggested_label":
                column[aside] = predicted
            new_columns[name] = [
                None if value is None or value != value else value for value in column
            ]
        return cast(Frame, table.add_columns(new_columns))

    def _get_report_data(self) -> tuple[Any, list[str]]:
        return self.data, [finding.sentence for finding in self.findings]

    def corrected(
        self,
        frame: Frame,
        label: Any = None,
        *,
        unreviewed: Literal["relabel", "keep", "drop"] = "relabel",
    ) -> Frame:
        """The same kind of frame with labels corrected.

        Rows that somebody reviewed follow the decision: they keep their label, get the chosen one,
        or are dropped.

        Parameters
        ----------
        label
            The column of labels. Default: the column that they were read from.
        unreviewed
            What happens to flagged rows that nobody reviewed: `"relabel"` gives them the suggested
            label, `"keep"` leaves them as they are, `"drop"` leaves them out.
        """
        if unreviewed not in ("relabel", "keep", "drop"):
            raise InputError(
                "unreviewed", f"is {unreviewed!r}", "Choose one of relabel, keep, drop"
            )
        table = open_frame(frame)
        name = self._name_label() if label is None else str(label)
        if name not in table.names:
            raise InputError(
                "label", f"is {name!r}, but the frame has the columns {', '.join(table.names)}",
                "Name the column of labels, or add them as a column if they were passed separately",
            )  # fmt: skip
        rows = self._find_rows(frame, len(table))
        labels = table.read_column(name)
        actions = dict.fromkeys(self.ranked.tolist(), unreviewed)
        codes, values = self.suggested_codes.copy(), self.labels.values.tolist()
        for index, decision in self._read_decisions().items():
            actions[index] = decision.action
            codes[index] = codes[index] if decision.label is None else decision.label
        is_kept = np.ones(len(labels), np.bool_)
        for index, action in actions.items():
            row = int(rows[index])
            if action == "relabel":
                new = values[codes[index]]
                is_bytes = isinstance(labels[row], bytes) and isinstance(new, str)
                labels[row] = new.encode() if is_bytes else new
            is_kept[row] = action != "drop"
        return cast(Frame, table.replace_column(name, labels, is_kept))

    def _name_label(self) -> str:
        columns = () if self.data is None else self.data.columns
        return next((column.name for column in columns if column.role == "label"), "label")

    def _find_rows(self, frame: Any, n: int, ids: Any = None) -> NDArray[np.intp]:
        """The row of each sample in a frame: by the frame's own index, or by position.

        `ids` name the samples: all that have a label, unless given.
        """
        index = getattr(frame, "index", None)
        is_named = index is not None and hasattr(index, "is_unique") and index.is_unique
        names = map(str, index) if is_named else map(str, range(n))  # type: ignore[arg-type]
        place = {name: row for row, name in enumerate(names)}
        if len(place) < n:  # 1 and "1" are two names, written alike
            place = {str(row): row for row in range(n)}
        if ids is None:
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
    features: Any = None,
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
    data
        Whatever `uqled.load` takes, or a `Dataset`.
    label
        The column of labels, or the labels themselves, as in `uqled.load`. Default: detected.
    features
        Your own embeddings [N,D], as an array or an `.npy` or Parquet file, one row per sample in
        the same order: the model sees them instead of the samples.
    model
        The model that predicts the samples, as in `uqled.cross_validate`.
    folds
        Number of folds: each fold is predicted by a model trained on the others.
    out
        Keep the run in this folder, for `uqled review` and `uqled export`. Default: it is not kept.
    seed
        Seeds all random choices. The same seed gives the same result.
    options
        Options of `load` (such as `columns`), of `find_label_errors` (such as `method` or
        `budget`), and of `cross_validate` (such as `passes` or `epochs`).
    """
    load_options = {name: options.pop(name) for name in _LOADING if name in options}
    detection_options = {name: options.pop(name) for name in _DETECTION if name in options}
    if not isinstance(data, Dataset):
        try:
            data = load(data, label=label, seed=seed, progress=progress, **load_options)
        except InputError as error:  # it names its own argument
            if error.argument != "place":
                raise
            raise InputError("data", error.problem, error.fix) from error
    elif label is not None or load_options:
        raise InputError(
            next(iter(load_options), "label"),
            "cannot be passed with a Dataset, which is already read",
            "Leave it out",
        )
    if features is not None:
        data = attach_embeddings(data, features)
    inspection = inspect(data, folds=folds)
    data = data.without_rare_classes(folds)
    place = nullcontext(out) if out is not None else tempfile.TemporaryDirectory()
    with place as folder:
        predictions = cross_validate(
            data, model, folds=folds, seed=seed, progress=progress,
            out=Path(str(folder)) / ("" if out is not None else "run"), **options,
        )  # fmt: skip
        errors = find_label_errors(predictions, progress=progress, **detection_options)
        inspection = add_prediction_findings(inspection, data.labels, predictions.pred_probs)
        run = Run.open(predictions.path)
        if out is not None:
            run.write_result(errors, {k: v for k, v in detection_options.items() if k != "method"})
            run.write_inspection(inspection.to_json())
        return DataErrors(
            **_list_fields(errors),
            data=data,
            findings=inspection.findings,
            run=None if out is None else predictions.path,
            unlabelled=_read_unlabelled(run, data),
        )


def _list_fields(errors: LabelErrors) -> dict[str, Any]:
    return {one.name: getattr(errors, one.name) for one in fields(errors)}


def _read_unlabelled(run: Run, data: Dataset) -> Any:
    if not run.unlabelled_path.exists():
        return None
    table = read_csv(
        run.unlabelled_path,
        Dialect("utf-8", ","),
        dtype={"id": str, "predicted_label": str, "copy_of": str},
        keep_default_na=False,
    )
    names = data.labels.values.astype(str)
    values = dict(zip(names.tolist(), data.labels.values.tolist(), strict=True))
    with explain_file_problems(run.unlabelled_path, "Remove it, and repeat the command"):
        table["predicted_label"] = [values[name] for name in table["predicted_label"]]
    return table
