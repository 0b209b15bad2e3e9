"""`load`: labelled data from wherever it lies, and `reopen_samples`: a run's samples once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.data.dataset import Dataset, Kind, draw_stratified
from uqled.data.formats import decode_found, is_name, name_place, read_found, take_rows
from uqled.data.raw_dataset import RawDataset
from uqled.errors import FileError
from uqled.progress import Progress
from uqled.storage.reading import explain_file_problems
from uqled.storage.run import Predictions

_SHOWN = 3  # changed labels in a message


def load(
    place: Path | str,
    *,
    label: str | None = None,
    inputs: str | Sequence[str] | None = None,
    kind: Kind | None = None,
    image_size: int | tuple[int, int] | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    skip_unreadable: bool = False,
    cache: Path | str | bool | None = None,
    progress: Progress | bool | None = None,
) -> Dataset:
    """Labelled samples, from files in many forms.

    Parameters
    ----------
    place
        A folder with one folder of images per class (or a zip of it); a `.csv`, `.tsv` or
        `.parquet`; a folder of Parquet files as the Hugging Face hub has them; MNIST's idx files;
        CIFAR's archive for Python or its folder; Tiny-ImageNet's zip or folder; an `.npz`;
        `"digits"`; `"hf:NAME"` for a data set on the hub.
    label
        Of tables: the column of labels, `"label"` unless given. Of an `.npz`: the array.
    inputs
        Of tables: the column of paths, images or texts, or the columns of features. Of an `.npz`:
        the array.
    kind
        `"images"`, `"texts"` or `"table"`, where a table could be read as more than one.
    image_size
        Pixels, or (height, width). Default: the size of most images, or the medians where no size
        has half of them, with the longer side at most 224.
    split
        `"train"`, `"test"`, ... of data that has splits. Default: train.
    limit, seed
        At most so many samples, drawn with the classes' shares.
    skip_unreadable
        Go on without images that cannot be read; they are in `skipped`. Otherwise refused.
    cache
        Folder for decoded images; False keeps them in memory. Default: the environment's
        UQLED_CACHE, or `uqled` in the user's cache folder.
    """
    found = read_found(place, label=label, inputs=inputs, kind=kind, split=split)
    arrays.at_least_two_classes(found.labels)
    if limit is not None:
        found = take_rows(found, draw_stratified(found.labels.codes, limit, seed=seed))
    found, skipped = decode_found(
        found,
        place,
        image_size=image_size,
        skip_unreadable=skip_unreadable,
        cache=cache,
        progress=progress,
    )
    if skipped:
        arrays.at_least_two_classes(found.labels)
    with explain_file_problems(place, "Check the path"):
        where, name = _place(place), name_dataset(place)
    source = {
        "place": where,
        "label": label,
        "inputs": inputs if inputs is None or isinstance(inputs, str) else list(inputs),
        "kind": kind,
        "image_size": image_size,
        "split": split,
        "limit": limit,
        "seed": seed,
        "skip_unreadable": skip_unreadable,
    }
    return Dataset(
        found.kind, found.inputs, found.labels, found.ids, name, found.truth, skipped, source
    )


@dataclass(frozen=True, eq=False)
class ReopenedSource:
    """The source of a run as it is now."""

    data: Dataset
    """The run's samples, with the run's labels."""
    found: RawDataset
    """All that the source holds; images still encoded where files hold them so."""
    rows: NDArray[np.intp]
    """[N] where each sample lies in `found`, ascending."""
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
        names, now = self.predictions.labels.names, self.found.labels
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
    found = read_found(
        place,
        label=source["label"],
        inputs=source["inputs"],
        kind=source["kind"],
        split=source["split"],
    )
    rows = _choose_rows(found, predictions)
    if rows is None:
        raise _other_samples(predictions, found)
    samples, skipped = decode_found(
        take_rows(found, rows),
        place,
        image_size=source["image_size"],
        skip_unreadable=source["skip_unreadable"],
    )
    rows = np.array([row for row in rows.tolist() if found.ids[row] not in skipped], np.intp)
    if samples.ids.tolist() != predictions.ids:
        raise _other_samples(predictions, found)
    data = Dataset(
        samples.kind,
        samples.inputs,
        predictions.labels,
        samples.ids,
        name_dataset(place),
        predictions.truth,
        skipped,
        source,
    )
    known = predictions.source_fingerprint  # empty where whoever made the run did not say
    if known not in ("", data.inputs_fingerprint):
        raise _other_samples(predictions, found)
    return ReopenedSource(data, found, rows, _class_numbers(found, rows, predictions), predictions)


def _choose_rows(found: RawDataset, predictions: Predictions) -> NDArray[np.intp] | None:
    """Where the run's samples lie, and those that it left out as unreadable; None if some do not.

    Labels that have changed since then would make a limit choose other samples.
    """
    source = predictions.source or {}
    wanted, rows = set(predictions.ids), np.arange(len(found.ids))
    if source["limit"] is not None:
        rows = draw_stratified(found.labels.codes, source["limit"], seed=source["seed"])
    if wanted <= set(found.ids[rows].tolist()):
        return rows
    rows = np.flatnonzero([name in wanted for name in found.ids.tolist()])
    return rows if len(rows) == len(predictions) else None


def _class_numbers(
    found: RawDataset, rows: NDArray[np.intp], predictions: Predictions
) -> NDArray[np.int32]:
    """[N] the source's labels in the run's class numbers, -1 where it has no such class."""
    known, now = predictions.labels, found.labels
    classes = zip(known.values.tolist(), known.names, strict=True)
    number = {(str(value), name): code for code, (value, name) in enumerate(classes)}
    classes = zip(now.values.tolist(), now.names, strict=True)
    codes = np.array([number.get((str(value), name), -1) for value, name in classes], np.int32)
    return codes[now.codes[rows]]


def _other_samples(predictions: Predictions, found: RawDataset) -> FileError:
    source, there = predictions.source or {}, set(found.ids.tolist())
    gone = next((f" ({name!r} is gone)" for name in predictions.ids if name not in there), "")
    return FileError(
        name_place(source["place"]),
        f"no longer holds the {len(predictions):,} samples of run {str(predictions.path)!r}{gone}",
        "Put the data back as it was, or find its errors anew in another folder",
    )


def _place(place: Path | str) -> str:
    """What leads there from any folder."""
    return str(place if is_name(place) else Path(place).expanduser().resolve())


def name_dataset(place: Path | str) -> str:
    """What the data set is called: `cats.tar.gz` and `cats/` are cats."""
    name = Path(str(place).removeprefix("hf:")).expanduser().resolve().name
    for ending in (".gz", ".tar", ".csv", ".tsv", ".parquet", ".npz", ".zip", ".tgz"):
        name = name.removesuffix(ending)
    return name
