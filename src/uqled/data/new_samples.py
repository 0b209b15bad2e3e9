"""Reads new samples the same way as the samples of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.data.dataset import Dataset, is_frame
from uqled.data.loading import decode_raw, list_unlabelled_ids, name_dataset
from uqled.data.memory import is_path_or_name, read_object
from uqled.data.raw_dataset import ObjectName, RawDataset, name_source
from uqled.data.reader import ReadRequest, Source
from uqled.data.readers import find_reader, read_source
from uqled.data.reopening import make_request
from uqled.data.spellings import match_names
from uqled.data.tables.columns import find_label_column
from uqled.errors import InputError
from uqled.progress import Progress

_ARGUMENT = "new_data"
_MAX_NAMES = 8  # names in a message


def load_new_samples(
    new_data: Any,
    run_data: Dataset,
    *,
    label: Any = None,
    progress: Progress | bool | None = None,
) -> Dataset:
    """Load samples with the columns, classes and image size of `run_data`.

    Raises an error if a column is missing or a label is an unknown class. Columns that
    `run_data` does not have are left out, and so are samples without a label.

    Parameters
    ----------
    new_data
        A file, a folder or an object in memory, as `load` takes it.
    label
        The column of labels, or the labels of an object without columns, one per sample. Default:
        the column of `run_data`.
    """
    bar = progress if isinstance(progress, Progress) else Progress(progress)
    place = new_data if is_path_or_name(new_data) else ObjectName(f"the {type(new_data).__name__}")
    with bar.stage(f"reading {name_source(place)}"):
        raw = _read_new(new_data, place, run_data, label)
    if raw.kind != run_data.kind:
        raise InputError(
            _ARGUMENT,
            f"is {name_source(place)}, which holds {raw.kind}, and the run is of {run_data.kind}",
            "Name data of the same kind",
        )
    merges = (run_data.source or {}).get("spellings") == "merge"
    labels = _match_classes(raw, run_data.labels, place, merges_spellings=merges)
    missing = list_unlabelled_ids(raw)
    raw = replace(raw, labels=labels).take(raw.labelled_rows)
    size = run_data.inputs.shape[1:3] if run_data.kind == "images" else None
    raw, skipped = decode_raw(
        raw,
        place,
        image_size=size,
        skip_unreadable=(run_data.source or {}).get("skip_unreadable", False),
        cache=False,
        progress=bar,
    )
    return Dataset(
        raw.kind,
        _match_inputs(raw.inputs, run_data, place),
        raw.labels,
        raw.ids,
        name_dataset(place),
        skipped=skipped,
        columns=raw.columns,
        unlabelled=missing,
    )


def _read_new(new_data: Any, place: Path | str, run_data: Dataset, label: Any) -> RawDataset:
    label = find_label_column(run_data.columns) if label is None else label
    required_names = [column.name for column in run_data.columns if column.is_used]
    required_names += [label] if isinstance(label, str) else []
    request = _make_request(run_data, label)
    if not is_path_or_name(new_data):
        names = getattr(new_data, "column_names", getattr(new_data, "columns", None))
        if names is not None and not isinstance(names, Mapping):  # a mapping of splits
            _refuse_missing_columns(place, required_names, list(map(str, names)))
        return read_object(new_data, replace(request, split=None), label)
    source = Source(new_data)
    read_arrow = find_reader(source).read_arrow if source.is_named or source.path.exists() else None
    if read_arrow is not None and run_data.columns:
        _refuse_missing_columns(place, required_names, read_arrow(source, request).column_names)
    return read_source(source, request)


def _make_request(run_data: Dataset, label: Any) -> ReadRequest:
    """Repeat the request of the run, with the columns and roles that were inferred for it."""
    if run_data.source is None:
        request = ReadRequest(label if isinstance(label, str) else None)
    else:
        request = replace(make_request(run_data.source), group=None)
        request = replace(request, label=label) if isinstance(label, str) else request
    used_columns = [column for column in run_data.columns if column.is_used]
    if not used_columns:
        return request
    # A column may look different in a few rows: a category that occurs once looks like an id.
    roles = (
        {column.name: column.role for column in used_columns} if is_frame(run_data.inputs) else {}
    )
    names = [column.name for column in used_columns]
    return replace(request, inputs=names, kind=run_data.kind, columns=roles)


def _refuse_missing_columns(place: Path | str, names: list[str], present: list[str]) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise InputError(
            _ARGUMENT,
            f"is {name_source(place)}, which lacks {_list_names('column', missing)} of the "
            f"run and has {_list_names('column', present)}",
            "Name a table with the columns of the run",
        )


def _match_classes(
    raw: RawDataset, run_labels: Labels, place: Path | str, *, merges_spellings: bool
) -> Labels:
    """Convert labels to the run's class numbers; unlabelled samples get an arbitrary one."""
    number = {name: code for code, name in enumerate(run_labels.names)}
    codes = np.array([number.get(name, -1) for name in raw.labels.names], np.int32)
    if merges_spellings:
        codes = np.array(match_names(raw.labels.names, run_labels.names), np.int32)
    class_codes = raw.labels.codes[raw.labelled_rows]
    present = np.unique(class_codes)
    unknown = present[codes[present] < 0]
    if len(unknown):
        names = [raw.labels.names[code] for code in unknown.tolist()]
        rows = int(np.isin(class_codes, unknown).sum())
        raise InputError(
            _ARGUMENT,
            f"is {name_source(place)}, in which {rows:,} of {len(class_codes):,} samples have "
            f"{_list_names('class', names)}, and the run has "
            f"{_list_names('class', run_labels.names)}",
            "Correct or remove them, or look for errors in the new data alone with uqled find",
        )
    return replace(run_labels, codes=np.maximum(codes, 0)[raw.labels.codes])


def _match_inputs(inputs: Any, run_data: Dataset, place: Path | str) -> Any:
    """Bring the inputs to the columns or channels of the run."""
    if run_data.kind == "texts":
        return inputs
    if run_data.kind == "images":
        return _match_channels(inputs, run_data.inputs.shape[3], place)
    if is_frame(run_data.inputs):
        return inputs[list(run_data.inputs.columns)]
    width = run_data.inputs.shape[1]
    if inputs.shape[1] != width:
        raise InputError(
            _ARGUMENT,
            f"is {name_source(place)}, with {inputs.shape[1]} numbers for each sample, and the run "
            f"has {width}",
            "Name data with the same features",
        )
    return inputs.astype(run_data.inputs.dtype)


def _match_channels(images: NDArray[np.uint8], channels: int, place: Path | str) -> Any:
    if images.shape[3] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=3)
    raise InputError(
        _ARGUMENT,
        f"is {name_source(place)}, whose images have colours, and those of the run are grey",
        "Convert them to grey images",
    )


def _list_names(noun: str, names: Sequence[str]) -> str:
    """
    >>> _list_names("class", ["a"]), _list_names("column", ["a", "b"])
    ("the class 'a'", "the columns 'a', 'b'")
    """
    plural = {"class": "classes", "column": "columns"}[noun]
    text = ", ".join(map(repr, names[:_MAX_NAMES]))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"the {noun if len(names) == 1 else plural} {text}{more}"
