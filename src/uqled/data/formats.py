"""What lies at a place: the format is found out, and its samples are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Kind
from uqled.data.image_cache import EncodedImages, decode_images, resize_images
from uqled.data.raw_dataset import RawDataset, quoted, refuse_split
from uqled.errors import FileError, InputError
from uqled.progress import Progress
from uqled.storage.reading import explain_file_problems
from uqled.terminal import escape_controls

_KINDS = ("images", "texts", "table")
_LISTED = 50  # unreadable files in a message
_FORMATS = (
    "a folder with one folder of images per class, .csv, .tsv, .parquet, .npz, .zip, idx files, "
    "CIFAR's .tar.gz, 'digits', or 'hf:NAME'"
)


def read_found(
    place: Path | str,
    *,
    label: str | None,
    inputs: str | Sequence[str] | None,
    kind: Kind | None,
    split: str | None,
) -> RawDataset:
    """Find out what lies there, and read it."""
    if kind is not None and kind not in _KINDS:
        raise InputError("kind", f"is {kind!r}", f"Choose one of {', '.join(_KINDS)}")
    with explain_file_problems(place, "Check it, or get it again"):
        found = _read_format(place, label, inputs, kind, split)
    if kind is not None and found.kind != kind:
        raise InputError(
            "kind", f"is {kind!r}, and {name_place(place)} holds {found.kind}", "Leave it out"
        )
    return found


def _read_format(
    place: Path | str,
    label: str | None,
    inputs: str | Sequence[str] | None,
    kind: Kind | None,
    split: str | None,
) -> RawDataset:
    from uqled.data import archives, file_tree, folders, tables
    from uqled.data.table_files import is_csv

    asked = tables.Asked(label, inputs, kind, split)
    if isinstance(place, str) and place.startswith("hf:"):
        from uqled.data.hub import hub_table

        table = hub_table(place.removeprefix("hf:"), split)
        return tables.arrow_table(table, place, replace(asked, split=None))
    if place == "digits":
        _no_columns(place, label, inputs)
        refuse_split(split, place)
        return archives.digits()
    path = Path(place).expanduser()
    name = path.name.lower()
    if not path.exists():
        raise FileError(f"place {str(place)!r}", "does not exist", f"Name {_FORMATS}")
    if is_csv(path) and not path.is_dir():
        return tables.csv_table(path, asked)
    if name.endswith(".parquet") and not path.is_dir():
        return tables.parquet_table(path, [path], asked)
    if name.endswith(".npz"):
        names = [inputs] if isinstance(inputs, str) else list(inputs or [])
        if len(names) > 1:
            raise InputError("inputs", f"are {names!r}", "Name one array of the .npz")
        return archives.npz(path, label=label, inputs=next(iter(names), None), split=split)
    if archives.is_idx_file(path) or (path.is_dir() and archives.has_idx_files(path)):
        _no_columns(place, label, inputs)
        return archives.idx(path, split)
    if archives.is_cifar(path):
        _no_columns(place, label, inputs)
        return archives.cifar(path, split)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        raise FileError(quoted(path), f"has the ending {path.suffix!r}", f"Name {_FORMATS}")
    tree = file_tree.list_folder(path) if path.is_dir() else file_tree.list_zip(path)
    parquet = [path / file for file in tree.files if file.endswith(".parquet")]
    if path.is_dir() and parquet:
        return tables.parquet_table(path, parquet, asked)
    _no_columns(place, label, inputs)
    if tree.top_folders == ["tiny-imagenet-200"] and not tree.top_files:
        tree = tree.subtree("tiny-imagenet-200")
    if folders.is_tiny_imagenet(tree):
        return folders.tiny_imagenet(tree, split)
    return folders.class_folders(tree, split)


def decode_found(
    found: RawDataset,
    place: Path | str,
    *,
    image_size: Any,
    skip_unreadable: bool,
    cache: Path | str | bool | None = None,
    progress: Progress | bool | None = None,
) -> tuple[RawDataset, dict[str, str]]:
    """Samples as a `Dataset` has them, and what could not be read; the arguments are `load`'s."""
    skipped: dict[str, str] = {}
    if isinstance(found.inputs, EncodedImages):
        shown = progress if isinstance(progress, Progress) else Progress(progress)
        images = decode_images(found.inputs, size=image_size, cache=cache, progress=shown)
        skipped = {found.ids[i]: why for i, why in images.unreadable.items()}
        if skipped and not skip_unreadable:
            raise _unreadable_images(place, skipped, len(found.ids))
        kept = np.setdiff1d(np.arange(len(found.ids)), list(images.unreadable))
        found = replace(take_rows(found, kept), inputs=images.images)
    elif image_size is not None:
        if found.kind != "images":
            raise InputError("image_size", f"is {image_size!r}, for {found.kind}", "Leave it out")
        found = replace(found, inputs=resize_images(found.inputs, image_size))
    return found, skipped


def _no_columns(place: Path | str, label: str | None, inputs: str | Sequence[str] | None) -> None:
    for argument, value in (("label", label), ("inputs", inputs)):
        if value is not None:
            raise InputError(
                argument, f"is {value!r}, but {name_place(place)} has no columns", "Leave it out"
            )


def take_rows(found: RawDataset, rows: NDArray[np.intp]) -> RawDataset:
    """Some of the samples."""
    if len(rows) == len(found.ids):
        return found
    by_row = found.inputs.iloc if hasattr(found.inputs, "iloc") else found.inputs
    return RawDataset(
        found.kind,
        by_row[rows],
        replace(found.labels, codes=found.labels.codes[rows]),
        found.ids[rows],
        None if found.truth is None else found.truth[rows],
    )


def _unreadable_images(place: Path | str, skipped: dict[str, str], total: int) -> FileError:
    shown = list(skipped.items())[:_LISTED]
    lines = ["\n  " + escape_controls(f"{name}: {why}") for name, why in shown]
    if len(skipped) > _LISTED:
        lines.append(f"\n  and {len(skipped) - _LISTED:,} more")
    return FileError(
        name_place(place),
        f"has {len(skipped):,} unreadable of {total:,} images",
        "Repair or remove them, or go on without them (skip_unreadable, --skip-unreadable):"
        + "".join(lines),
    )


def name_place(place: Path | str) -> str:
    """A place as errors name it."""
    return repr(place) if is_name(place) else quoted(Path(place).expanduser())


def is_name(place: Path | str) -> bool:
    """If a place is no file or folder, but a data set's name."""
    return isinstance(place, str) and (place == "digits" or place.startswith("hf:"))
