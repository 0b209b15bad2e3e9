"""A run's samples once more, from where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.loading import decode_raw, find_missing_labels, name_dataset, select_rows
from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import ReadRequest, Source
from uqled.data.readers import read_source
from uqled.errors import FileError
from uqled.storage.run import Predictions

_SHOWN = 3  # changed labels in a message


@dataclass(frozen=True, eq=False)
class ReopenedSource:
    """The source of a run as it is now."""

    data: Dataset
    """The run's samples, with the run's labels."""
    raw: RawDataset
    """All that the source holds; images still encoded where files hold them so."""
    rows: NDArray[np.intp]
    """[N] where each sample lies in `raw`, ascending."""
    codes: NDArray[np.int32]
    """[N] the run's class number of the label that the source has now; -1 for a class it lacks."""
    predictions: Predictions

    @property
    def before(self) -> NDArray[np.int32]:
        """[N] class numbers that the source had when the run was made.

        Where labels were made wrong on purpose, it is the truth that lies in the source.
        """
        given, truth = self.predictions.labels.codes, self.predictions.truth
        if truth is None or np.sum(self.codes != given) <= np.sum(self.codes != truth):
            return given
        return truth

    @cached_property
    def relabelled(self) -> NDArray[np.intp]:
        """Samples whose label in the source is another one than when the run was made."""
        return np.flatnonzero(self.codes != self.before)

    def describe_changes(self) -> str:
        """How many labels have changed, and the first of them."""
        changed, before = self.relabelled.tolist(), self.before
        names, now = self.predictions.labels.names, self.raw.labels
        shown = [
            f"{self.predictions.ids[index]!r} was {names[before[index]]!r} and is "
            f"{now.names[now.codes[self.rows[index]]]!r}"
            for index in changed[:_SHOWN]
        ]
        more = ", ..." if len(changed) > _SHOWN else ""
        return f"{len(changed):,} of {len(self.rows):,} labels ({', '.join(shown)}{more})"


def reopen_samples(predictions: Predictions) -> Dataset | None:
    """The samples that a run predicted, with the run's labels; None if they did not come of files.

    Refused where the files have changed so that a sample would be taken for another one.
    """
    again = reopen_source(predictions)
    return None if again is None else again.data


def reopen_source(predictions: Predictions) -> ReopenedSource | None:
    """The same, with what the source holds besides, and the labels that it has now."""
    source = predictions.source
    if source is None:
        return None
    place = source["place"]
    raw = read_source(Source(place), make_request(source))
    rows = _choose_rows(raw, predictions)
    if rows is None:
        raise _describe_other_samples(predictions, raw)
    samples, skipped = decode_raw(
        raw.take(rows),
        place,
        image_size=source["image_size"],
        skip_unreadable=source["skip_unreadable"],
    )
    rows = np.array([row for row in rows.tolist() if raw.ids[row] not in skipped], np.intp)
    if samples.ids.tolist() != predictions.ids:
        raise _describe_other_samples(predictions, raw)
    data = Dataset(
        samples.kind,
        samples.inputs,
        predictions.labels,
        samples.ids,
        name_dataset(place),
        predictions.truth,
        skipped,
        source,
        columns=samples.columns,
        groups=samples.groups,
        unlabelled=find_missing_labels(raw),
    )
    known = predictions.source_fingerprint  # empty where whoever made the run did not say
    if known not in ("", data.inputs_fingerprint):
        raise _describe_other_samples(predictions, raw)
    return ReopenedSource(data, raw, rows, _class_numbers(raw, rows, predictions), predictions)


def make_request(source: Mapping[str, Any]) -> ReadRequest:
    """The request that a run's source stands for."""
    names = ("label", "inputs", "kind", "split", "columns", "encoding", "separator", "group")
    return ReadRequest(**{name: source[name] for name in names})


def _choose_rows(raw: RawDataset, predictions: Predictions) -> NDArray[np.intp] | None:
    """Where the run's samples lie, and those that it left out as unreadable; None if some do not.

    Labels that have changed since then would make a limit choose other samples.
    """
    source = predictions.source or {}
    wanted = set(predictions.ids)
    rows = select_rows(raw, source["limit"], source["seed"])
    if source["skip_unreadable"] and wanted <= set(raw.ids[rows].tolist()):
        return rows[_class_numbers(raw, rows, predictions) >= 0]
    rows = np.flatnonzero([name in wanted for name in raw.ids.tolist()])
    return rows if len(rows) == len(predictions) else None


def _class_numbers(
    raw: RawDataset, rows: NDArray[np.intp], predictions: Predictions
) -> NDArray[np.int32]:
    """[N] the source's labels in the run's class numbers, -1 where it has no such class."""
    known, now = predictions.labels, raw.labels
    classes = zip(known.values.tolist(), known.names, strict=True)
    number = {(str(value), name): code for code, (value, name) in enumerate(classes)}
    classes = zip(now.values.tolist(), now.names, strict=True)
    codes = np.array([number.get((str(value), name), -1) for value, name in classes], np.int32)
    numbers = codes[now.codes[rows]]
    return numbers if raw.is_unlabelled is None else np.where(raw.is_unlabelled[rows], -1, numbers)


def _describe_other_samples(predictions: Predictions, raw: RawDataset) -> FileError:
    source, there = predictions.source or {}, set(raw.ids.tolist())
    gone = next((f" ({name!r} is gone)" for name in predictions.ids if name not in there), "")
    return FileError(
        name_source(source["place"]),
        f"no longer holds the {len(predictions):,} samples of run {str(predictions.path)!r}{gone}",
        "Put the data back as it was, or find its errors anew in another folder",
    )
