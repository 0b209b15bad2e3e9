"""`load`: read labelled data from files, from the hub, or from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.data.dataset import Dataset, Kind, draw_stratified
from uqled.data.image_cache import EncodedImages, decode_images, resize_images
from uqled.data.memory import is_path_or_name, read_object
from uqled.data.raw_dataset import ObjectName, RawDataset, is_dataset_name, name_source
from uqled.data.reader import ReadRequest, Source
from uqled.data.readers import read_source
from uqled.data.spellings import Spellings, check_spellings
from uqled.data.tables.columns import Role, find_label_column
from uqled.data.tables.header import check_header
from uqled.errors import FileError, InputError
from uqled.progress import Progress
from uqled.storage.reading import explain_file_problems
from uqled.terminal import escape_controls

_MAX_LISTED = 50  # unreadable files in a message
_ENDINGS = (
    *(".gz", ".zst", ".bz2", ".xz", ".zip", ".tar", ".tgz", ".txt", ".data", ".csv", ".tsv"),
    *(".tab", ".parquet", ".pq", ".jsonl", ".ndjson", ".json", ".npz", ".arrow", ".feather"),
    *(".ipc", ".xlsx", ".xls", ".ods"),
)


def load(
    place: Any,
    *,
    label: Any = None,
    inputs: str | Sequence[str] | None = None,
    kind: Kind | None = None,
    columns: Mapping[str, Role] | None = None,
    group: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    sheet: str | None = None,
    header: str | None = None,
    spellings: Spellings = "merge",
    image_size: int | tuple[int, int] | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    skip_unreadable: bool = False,
    cache: Path | str | bool | None = None,
    progress: Progress | bool | None = None,
    check_kind: Callable[[Kind], None] | None = None,
) -> Dataset:
    """Load labelled samples from files in many formats, or from objects in memory.

    Parameters
    ----------
    place
        Files: a folder with one folder of images or text files per class (or a zip of it); a table
        (`.csv`, `.tsv`, `.txt`, `.parquet`, `.json`, `.jsonl`, Excel, Arrow, Feather; compressed or
        not); a folder of Parquet files in the layout of the Hugging Face hub, or one written by
        `save_to_disk`; MNIST's idx files; CIFAR's archive for Python or its folder; Tiny-ImageNet's
        zip or folder; an `.npz`. By name: `"digits"`, or `"hf:NAME"` for a data set on the hub. In
        memory: a pandas, polars or Arrow frame, a Hugging Face `Dataset`, a torch `Dataset` or
        `DataLoader` of (input, label), an array, a list of texts, a list of image paths.
    label
        The column of a table, or the array of an `.npz`, that holds the labels. For an object in
        memory also the labels themselves, one per sample. Default: `"label"`, or the only column
        called labels, target, class or y, or the only column of classes; for image paths, the name
        of the folder.
    inputs
        The table column that holds paths, images or texts, or the columns of features; the array of
        an `.npz`.
    kind
        `"images"`, `"texts"` or `"table"`, if a table could be read as more than one of them.
    columns
        The roles of table columns that cannot be inferred from their values: `{"title": "text",
        "v3": "ignore"}`. Roles are number, category, text, image, date and ignore.
    group
        The table column that names groups, such as patients: rows of one group share a fold.
    encoding, separator
        How a text file is written. Default: detected from the file.
    header
        `"yes"` if the first line of a text file names the columns, `"no"` if it is data; the
        columns are then called `column 1`, `column 2` and so on. Default: detected from the file.
    sheet
        The sheet of an Excel file. Default: the first one that is not empty.
    spellings
        `"merge"` treats class names as one class if they differ only in spaces or Unicode form, or
        in case and one of them is rare; the most common spelling becomes the name. `"keep"` keeps
        every spelling as a class of its own.
    image_size
        Pixels, or (height, width). Default: the most common size, or the medians if no size has
        half of the images, with the longer side at most 224.
    split
        `"train"`, `"test"`, ... if the data has splits. Default: train.
    limit, seed
        Load at most `limit` samples, drawn at random and stratified by class. Default: all.
    skip_unreadable
        Leave out images that cannot be read, and list them in `skipped`. Default: raise an error.
    cache
        Folder for decoded images; False keeps them in memory. Default: the environment's
        UQLED_CACHE, or `uqled` in the user's cache folder.
    check_kind
        Called with the kind of the samples before images are decoded; it may raise an error.
    """
    in_files = is_path_or_name(place)
    if in_files:
        arrays.check_writable(str(place), "path")
    if in_files and not isinstance(label, str | None):
        raise InputError(
            "label", f"is a {type(label).__name__}", "Name the column of the file that holds them"
        )
    request = ReadRequest(
        label=label if in_files else None,
        inputs=inputs if inputs is None or isinstance(inputs, str) else list(inputs),
        kind=kind,
        split=split,
        columns=dict(columns or {}),
        encoding=encoding,
        separator=separator,
        group=group,
        sheet=sheet,
        header=header,
        spellings=spellings,
    )
    check_spellings(spellings)
    check_header(header)
    bar = progress if isinstance(progress, Progress) else Progress(progress)
    with bar.stage(f"reading {name_source(place) if in_files else 'samples'}"):
        raw = (
            read_source(Source(place), request) if in_files else read_object(place, request, label)
        )
    if check_kind is not None:
        check_kind(raw.kind)
    full_raw = raw
    raw = raw.take(choose_rows(raw, limit, seed))
    labels_name = f"the labels of {name_source(place)}" if in_files else "labels"
    arrays.check_two_classes(raw.labels, labels_name)
    source_name = place if in_files else ObjectName(f"the {type(place).__name__}")
    raw, skipped = decode_raw(
        raw,
        source_name,
        image_size=image_size,
        skip_unreadable=skip_unreadable,
        cache=cache,
        progress=bar,
        fix="Repair or remove them, or go on without them (`skip_unreadable`)",
    )
    arrays.check_two_classes(raw.labels, labels_name)
    missing, missing_inputs = read_unlabelled(full_raw, raw, source_name, skipped, cache)
    source, name = None, type(place).__name__
    if in_files:
        with explain_file_problems(place, "Check the path"):
            where, name = _resolve_place(place), name_dataset(place)
        source = asdict(request) | {
            "place": where,
            "label": find_label_column(raw.columns) or label,
            "image_size": image_size,
            "limit": limit,
            "seed": seed,
            "skip_unreadable": skip_unreadable,
        }
    return Dataset(
        raw.kind,
        raw.inputs,
        raw.labels,
        raw.ids,
        name,
        raw.truth,
        skipped,
        source,
        columns=raw.columns,
        groups=raw.groups,
        unlabelled=missing,
        unlabelled_inputs=missing_inputs,
        unlabelled_rows=_find_unlabelled_rows(full_raw, is_whole=limit is None and not skipped),
        notes=raw.notes,
        index=raw.index,
    )


def list_unlabelled_ids(raw: RawDataset) -> tuple[str, ...]:
    """The ids of the samples without a label."""
    return () if raw.is_unlabelled is None else tuple(raw.ids[raw.is_unlabelled].tolist())


def _find_unlabelled_rows(raw: RawDataset, *, is_whole: bool) -> tuple[int, ...] | None:
    if raw.is_unlabelled is None or not is_whole:
        return None
    return tuple(np.flatnonzero(raw.is_unlabelled).tolist())


def read_unlabelled(
    whole: RawDataset, labelled: RawDataset, place: Any, skipped: dict[str, str], cache: Any
) -> tuple[tuple[str, ...], Any]:
    """Read the (ids, inputs) of samples without a label; images get the labelled ones' size.

    Those that cannot be read are added to `skipped`.
    """
    if whole.is_unlabelled is None:
        return (), None
    raw = whole.take(np.flatnonzero(whole.is_unlabelled))
    size = labelled.inputs.shape[1:3] if raw.kind == "images" else None
    raw, unreadable = decode_raw(raw, place, image_size=size, skip_unreadable=True, cache=cache)
    skipped |= unreadable
    return tuple(raw.ids.tolist()), raw.inputs


def choose_rows(raw: RawDataset, limit: int | None, seed: int) -> NDArray[np.intp]:
    """Choose the labelled samples, or a stratified sample of `limit` of them."""
    labelled_rows = raw.labelled_rows
    if limit is None:
        return labelled_rows
    return labelled_rows[draw_stratified(raw.labels.codes[labelled_rows], limit, seed=seed)]


def decode_raw(
    raw: RawDataset,
    place: Any,
    *,
    image_size: Any,
    skip_unreadable: bool,
    cache: Path | str | bool | None = None,
    progress: Progress | bool | None = None,
    fix: str = "Repair or remove them",
) -> tuple[RawDataset, dict[str, str]]:
    """Decode images; return the samples as a `Dataset` needs them, and the unreadable ones.

    The arguments are those of `load`. `fix` tells the user what to do about unreadable images.
    """
    skipped: dict[str, str] = {}
    if isinstance(raw.inputs, EncodedImages):
        bar = progress if isinstance(progress, Progress) else Progress(progress)
        images = decode_images(raw.inputs, size=image_size, cache=cache, progress=bar)
        skipped = {raw.ids[i]: why for i, why in images.unreadable.items()}
        if skipped and not skip_unreadable:
            raise _describe_unreadable(place, skipped, len(raw.ids), fix)
        readable = np.setdiff1d(np.arange(len(raw.ids)), list(images.unreadable))
        raw = replace(raw.take(readable), inputs=images.images)
    elif image_size is not None:
        if raw.kind != "images":
            raise InputError(
                "image_size", f"is {image_size!r}, but the data is {raw.kind}", "Leave it out"
            )
        raw = replace(raw, inputs=resize_images(raw.inputs, image_size))
    return raw, skipped


def name_dataset(place: Any) -> str:
    """Derive a name from a path: both `cats.tar.gz` and `cats/` become cats."""
    name = Path(str(place).removeprefix("hf:")).expanduser().resolve().name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def _resolve_place(place: Any) -> str:
    """The absolute path, or the name of a data set."""
    return str(place if is_dataset_name(place) else Path(place).expanduser().resolve())


def _describe_unreadable(place: Any, skipped: dict[str, str], total: int, fix: str) -> FileError:
    first = list(skipped.items())[:_MAX_LISTED]
    lines = ["\n  " + escape_controls(f"{name}: {why}") for name, why in first]
    if len(skipped) > _MAX_LISTED:
        lines.append(f"\n  and {len(skipped) - _MAX_LISTED:,} more")
    return FileError(
        name_source(place),
        f"has {len(skipped):,} unreadable of {total:,} images",
        f"{fix}:{''.join(lines)}",
    )
