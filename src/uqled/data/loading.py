"""`load`: labelled data from wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.data.dataset import Dataset, Kind, draw_stratified
from uqled.data.image_cache import EncodedImages, decode_images, resize_images
from uqled.data.memory import is_place, read_object
from uqled.data.raw_dataset import ObjectName, RawDataset, is_data_name, name_source
from uqled.data.reader import ReadRequest, Source
from uqled.data.readers import read_source
from uqled.data.spellings import Spellings, check_spellings
from uqled.data.tables.columns import Role
from uqled.data.tables.header import check_header
from uqled.errors import FileError, InputError
from uqled.progress import Progress
from uqled.storage.reading import explain_file_problems
from uqled.terminal import escape_controls

_LISTED = 50  # unreadable files in a message
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
    """Labelled samples, from files in many forms or from objects in memory.

    Parameters
    ----------
    place
        A folder with one folder of images or text files per class (or a zip of it); a table
        (`.csv`, `.tsv`, `.txt`, `.parquet`, `.json`, `.jsonl`, Excel, Arrow, Feather; compressed or
        not); a folder of Parquet files as the Hugging Face hub has them, or one of `save_to_disk`;
        MNIST's idx files; CIFAR's archive for Python or its folder; Tiny-ImageNet's zip or folder;
        an `.npz`; `"digits"`; `"hf:NAME"` for a data set on the hub. In memory: a pandas, polars or
        Arrow frame, a Hugging Face `Dataset`, a torch `Dataset` or `DataLoader` of (input, label),
        an array, a list of texts, a list of paths of images.
    label
        Of tables: the column of labels. Default: `"label"`, or the only one called labels, target,
        class or y, or the only column of classes. Of an `.npz`: the array. Of an object in memory
        also the labels themselves, one per sample; of paths by default the folder's name.
    inputs
        Of tables: the column of paths, images or texts, or the columns of features. Of an `.npz`:
        the array.
    kind
        `"images"`, `"texts"` or `"table"`, where a table could be read as more than one.
    columns
        Of tables: what some columns are, where their values do not show it: `{"title": "text",
        "v3": "ignore"}`. Roles are number, category, text, image, date and ignore.
    group
        Of tables: a column whose rows with one value belong together, such as a patient.
    encoding, separator
        Of text files: how they are written. Default: what the file shows.
    header
        Of text files: `"yes"` if the first line names the columns, `"no"` if it is data and they
        are called `column 1`, `column 2` and so on. Default: what the file shows.
    sheet
        Of Excel files: the name of the sheet. Default: the first that is not empty.
    spellings
        `"merge"` reads names of classes as one that differ only in spaces or Unicode form, or in
        case where one of them is rare: the most common spelling names the class. `"keep"` keeps
        them apart.
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
    check_kind
        Called with the kind of the samples before images are decoded; it may refuse them.
    """
    in_files = is_place(place)
    if in_files:
        arrays.check_writable(str(place), "path")
    if in_files and not isinstance(label, str | None):
        raise InputError(
            "label", f"is a {type(label).__name__}", "Name the column of the file that holds them"
        )
    request = ReadRequest(
        label if in_files else None,
        inputs,
        kind,
        split,
        dict(columns or {}),
        encoding,
        separator,
        group,
        sheet,
        header,
        spellings,
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
    arrays.check_two_classes(raw.labels)
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
    if skipped:
        arrays.check_two_classes(raw.labels)
    missing, missing_inputs = read_unlabelled(full_raw, raw, source_name, skipped, cache)
    where, name = "", type(place).__name__
    if in_files:
        with explain_file_problems(place, "Check the path"):
            where, name = _resolve_place(place), name_dataset(place)
    source = (
        None
        if not in_files
        else {
            "place": where,
            "label": _find_label(raw) or label,
            "inputs": inputs if inputs is None or isinstance(inputs, str) else list(inputs),
            "kind": kind,
            "columns": dict(columns or {}),
            "group": group,
            "encoding": encoding,
            "separator": separator,
            "sheet": sheet,
            "header": header,
            "spellings": spellings,
            "image_size": image_size,
            "split": split,
            "limit": limit,
            "seed": seed,
            "skip_unreadable": skip_unreadable,
        }
    )
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
    )


def find_missing_labels(raw: RawDataset) -> tuple[str, ...]:
    """The ids of samples without a label, which are set aside."""
    return () if raw.is_unlabelled is None else tuple(raw.ids[raw.is_unlabelled].tolist())


def _find_unlabelled_rows(raw: RawDataset, *, is_whole: bool) -> tuple[int, ...] | None:
    if raw.is_unlabelled is None or not is_whole:
        return None
    return tuple(np.flatnonzero(raw.is_unlabelled).tolist())


def read_unlabelled(
    whole: RawDataset, labelled: RawDataset, place: Any, skipped: dict[str, str], cache: Any
) -> tuple[tuple[str, ...], Any]:
    """(ids, inputs) of the samples without a label, images as large as the labelled ones.

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
    """The labelled samples, or as many of them as the limit says."""
    labelled = raw.labelled_rows
    if limit is None:
        return labelled
    return labelled[draw_stratified(raw.labels.codes[labelled], limit, seed=seed)]


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
    """Samples as a `Dataset` has them, and what could not be read; the arguments are `load`'s.

    `fix` is what the caller can do about images that cannot be read.
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
            raise InputError("image_size", f"is {image_size!r}, for {raw.kind}", "Leave it out")
        raw = replace(raw, inputs=resize_images(raw.inputs, image_size))
    return raw, skipped


def name_dataset(place: Any) -> str:
    """What the data set is called: `cats.tar.gz` and `cats/` are cats."""
    name = Path(str(place).removeprefix("hf:")).expanduser().resolve().name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def _find_label(raw: RawDataset) -> str | None:
    """The column of labels of a table."""
    return next((column.name for column in raw.columns if column.role == "label"), None)


def _resolve_place(place: Any) -> str:
    """What leads there from any folder."""
    return str(place if is_data_name(place) else Path(place).expanduser().resolve())


def _describe_unreadable(place: Any, skipped: dict[str, str], total: int, fix: str) -> FileError:
    first = list(skipped.items())[:_LISTED]
    lines = ["\n  " + escape_controls(f"{name}: {why}") for name, why in first]
    if len(skipped) > _LISTED:
        lines.append(f"\n  and {len(skipped) - _LISTED:,} more")
    return FileError(
        name_source(place),
        f"has {len(skipped):,} unreadable of {total:,} images",
        f"{fix}:{''.join(lines)}",
    )
