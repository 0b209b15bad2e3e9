"""Reads the samples of a run again, from their source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.image_cache import EncodedImages
from uqled.data.loading import decode_raw, list_unlabelled_ids, name_dataset
from uqled.data.raw_dataset import RawDataset, is_dataset_name, name_source
from uqled.data.reader import ReadRequest, Source
from uqled.data.readers import read_source
from uqled.data.spellings import match_names
from uqled.errors import FileError, InputError, list_first
from uqled.storage.run import Predictions

_LONGEST = 300  # characters of a path in a message: a run's file may claim any length
_MAX_EXAMPLES = 3  # changed labels in a message


@dataclass(frozen=True, eq=False)
class ReopenedSource:
    """The source of a run as it is now."""

    data: Dataset
    """The run's samples, with the run's labels."""
    raw: RawDataset
    """All that the source holds; images still encoded where files hold them so."""
    rows: NDArray[np.intp]
    """[N] the position of each sample in `raw`, ascending."""
    codes: NDArray[np.int32]
    """[N] the run's class number of the label that the source has now; -1 for a class it lacks."""
    predictions: Predictions
    missing: list[str] = field(default_factory=list)
    """The names of the run's image files that no longer exist."""
    added: list[str] = field(default_factory=list)
    """Names of image files that the run does not have."""

    @property
    def before(self) -> NDArray[np.int32]:
        """[N] class numbers that the source had when the run was made.

        Where labels were made wrong on purpose, it is the truth that lies in the source.
        """
        labels, truth = self.predictions.labels.codes, self.predictions.truth
        if truth is None or np.sum(self.codes != labels) <= np.sum(self.codes != truth):
            return labels
        return truth

    @cached_property
    def relabelled_rows(self) -> NDArray[np.intp]:
        """Samples whose label in the source has changed since the run was made."""
        return np.flatnonzero(self.codes != self.before)

    def describe_changes(self) -> str:
        """How many labels have changed, and the first of them."""
        changed_rows, before = self.relabelled_rows.tolist(), self.before
        names, now = self.predictions.labels.names, self.raw.labels
        examples = [
            f"{self.predictions.ids[index]!r} was {names[before[index]]!r} and is "
            f"{now.names[now.codes[self.rows[index]]]!r}"
            for index in changed_rows[:_MAX_EXAMPLES]
        ]
        more = ", ..." if len(changed_rows) > _MAX_EXAMPLES else ""
        return f"{len(changed_rows):,} of {len(self.rows):,} labels ({', '.join(examples)}{more})"

    def describe_files(self) -> list[str]:
        """Which files no longer exist and which were added, one sentence each."""
        sentences = []
        for names, verb in ((self.missing, "gone"), (self.added, "new and not part of this run")):
            if names:
                text = list_first([repr(name) for name in names], _MAX_EXAMPLES)
                count = "1 file is" if len(names) == 1 else f"{len(names):,} files are"
                sentences.append(f"{count} {verb}: {text}.")
        return sentences


def reopen_samples(predictions: Predictions) -> Dataset | None:
    """The samples that a run predicted, with the run's labels; None if they came from memory.

    An error if the files have changed so that a sample would be mistaken for another one.
    """
    again = reopen_source(predictions)
    return None if again is None else again.data


def relocate_source(predictions: Predictions, place: Path | str | None) -> Predictions:
    """The predictions with their samples at another place: a folder that was moved."""
    if place is None:
        return predictions
    if predictions.source is None:
        raise InputError(
            "data",
            f"is {str(place)!r}, and run {str(predictions.path)!r} was made from arrays in memory",
            "Leave it out",
        )
    where = str(place if is_dataset_name(place) else Path(place).expanduser().resolve())
    return replace(predictions, source={**predictions.source, "place": where})


def reopen_source(predictions: Predictions) -> ReopenedSource | None:
    """The same, with what the source holds besides, and the labels that it has now.

    Image files that were added since are left out, and those that are gone are tolerated; both are
    named in the result.
    """
    source = predictions.source
    if source is None:
        return None
    place = source["place"]
    # Not Path.exists: it raises an error of its own for a name that no file can have.
    if not ("://" in place or is_dataset_name(place) or os.path.exists(place)):  # noqa: PTH110
        raise FileError(
            f"the data of run {str(predictions.path)!r}",
            f"is not at {place[:_LONGEST]!r}",
            "Name the place where it is now with --data",
        )
    raw = read_source(Source(place), make_request(source))
    run_ids, row_of = set(predictions.ids), {name: row for row, name in enumerate(raw.ids.tolist())}
    other_rows = [row for name, row in row_of.items() if name not in run_ids]
    missing = [name for name in predictions.ids if name not in row_of]
    is_files = isinstance(raw.inputs, EncodedImages)
    if len(row_of) < len(raw.ids) or (missing and (not is_files or len(missing) == len(run_ids))):
        raise _describe_changed_source(predictions, raw)
    present = np.array([row_of[name] for name in predictions.ids if name in row_of], np.intp)
    if (np.diff(present) < 0).any():  # in another order, so the names are ambiguous
        raise _describe_changed_source(predictions, raw)
    size = source["image_size"]
    samples, _ = decode_raw(raw.take(present), place, image_size=size, skip_unreadable=False)
    rows = np.array([row_of.get(name, -1) for name in predictions.ids], np.intp)
    added_ids, skipped_ids = _check_other_images(raw, other_rows, source)
    inputs = samples.inputs
    if missing:
        inputs = PartialImages(inputs, np.cumsum(rows >= 0) - 1, rows >= 0)
    data = Dataset(
        samples.kind,
        inputs,
        predictions.labels,
        np.array(predictions.ids, object),
        name_dataset(place),
        predictions.truth,
        skipped_ids,
        source,
        columns=samples.columns,
        groups=samples.groups if not missing else None,
        unlabelled=list_unlabelled_ids(raw),
    )
    fingerprint = predictions.source_fingerprint  # empty if the run does not record it
    if not missing and fingerprint not in ("", data.inputs_fingerprint):
        raise _describe_changed_source(predictions, raw)
    codes = np.where(
        rows < 0, predictions.labels.codes, _encode_current_labels(raw, rows, predictions)
    )
    return ReopenedSource(data, raw, rows, codes, predictions, missing, added_ids)


def _check_other_images(
    raw: RawDataset, other_rows: list[int], source: Mapping[str, Any]
) -> tuple[list[str], dict[str, str]]:
    """(added, skipped): samples that the run does not have, which can be read, and which cannot.

    Where the run has a part of the data only, nobody can tell which were added.
    """
    if source["limit"] is not None or not isinstance(raw.inputs, EncodedImages):
        return [], {}
    skipped_ids = {}
    for row in other_rows:
        try:
            raw.inputs.read_image(row, raw.ids[row])
        except FileError as error:
            skipped_ids[raw.ids[row]] = error.problem
    return [raw.ids[row] for row in other_rows if raw.ids[row] not in skipped_ids], skipped_ids


class PartialImages:
    """Images [N,H,W,C] of which some are gone: those are black."""

    def __init__(
        self, images: NDArray[np.uint8], positions: NDArray[np.intp], is_present: NDArray[np.bool_]
    ) -> None:
        self._images, self._positions, self._is_present = images, positions, is_present
        self.shape: tuple[int, ...] = (len(positions), *images.shape[1:])
        self.dtype = images.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        if self._is_present[index]:
            return np.asarray(self._images[self._positions[index]])
        return np.zeros(self.shape[1:], np.uint8)


def make_request(source: Mapping[str, Any]) -> ReadRequest:
    """The request that a run's source stands for."""
    names = (one.name for one in fields(ReadRequest))
    return ReadRequest(**{name: source[name] for name in names})


def _encode_current_labels(
    raw: RawDataset, rows: NDArray[np.intp], predictions: Predictions
) -> NDArray[np.int32]:
    """[N] the source's labels in the run's class numbers, -1 where it has no such class."""
    run_labels, now = predictions.labels, raw.labels
    classes = zip(run_labels.values.tolist(), run_labels.names, strict=True)
    number = {(str(value), name): code for code, (value, name) in enumerate(classes)}
    classes = zip(now.values.tolist(), now.names, strict=True)
    codes = np.array([number.get((str(value), name), -1) for value, name in classes], np.int32)
    if (predictions.source or {}).get(
        "spellings"
    ) == "merge":  # the most common spelling may have changed
        codes = np.where(codes < 0, match_names(now.names, run_labels.names), codes)
    numbers = codes[now.codes[rows]]
    return numbers if raw.is_unlabelled is None else np.where(raw.is_unlabelled[rows], -1, numbers)


def _describe_changed_source(predictions: Predictions, raw: RawDataset) -> FileError:
    source, ids = predictions.source or {}, set(raw.ids.tolist())
    example = next((f" ({name!r} is gone)" for name in predictions.ids if name not in ids), "")
    return FileError(
        name_source(source["place"]),
        f"no longer holds the {len(predictions):,} samples of run {str(predictions.path)!r}"
        f"{example}",
        "Put the data back as it was, name where it is with --data, or make a new run",
    )
