"""`load`: labelled data from wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.data.cache import Encoded, decoded, resized
from uqled.data.dataset import Dataset, Kind, stratified
from uqled.data.found import Found, no_split, quoted
from uqled.errors import FileError, InputError
from uqled.progress import Progress
from uqled.run import Predictions

_KINDS = ("images", "texts", "table")
_LISTED = 50  # unreadable files in a message
_FORMATS = (
    "a folder with one folder of images per class, .csv, .tsv, .parquet, .npz, .zip, idx files, "
    "CIFAR's .tar.gz, 'digits', or 'hf:NAME'"
)


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
    if kind is not None and kind not in _KINDS:
        raise InputError("kind", f"is {kind!r}", f"Choose one of {', '.join(_KINDS)}")
    found = read_found(place, label=label, inputs=inputs, kind=kind, split=split)
    if kind is not None and found.kind != kind:
        raise InputError(
            "kind", f"is {kind!r}, and {_named(place)} holds {found.kind}", "Leave it out"
        )
    arrays.at_least_two_classes(found.labels)
    if limit is not None:
        found = _subset(found, stratified(found.labels.codes, limit, seed=seed))
    skipped: dict[str, str] = {}
    if isinstance(found.inputs, Encoded):
        shown = progress if isinstance(progress, Progress) else Progress(progress)
        images = decoded(found.inputs, size=image_size, cache=cache, progress=shown)
        skipped = {found.ids[i]: why for i, why in images.unreadable.items()}
        if skipped and not skip_unreadable:
            raise _unreadable_images(place, skipped, len(found.ids))
        kept = np.setdiff1d(np.arange(len(found.ids)), list(images.unreadable))
        found = replace(_subset(found, kept), inputs=images.images)
        if skipped:
            arrays.at_least_two_classes(found.labels)
    elif image_size is not None:
        if found.kind != "images":
            raise InputError("image_size", f"is {image_size!r}, for {found.kind}", "Leave it out")
        found = replace(found, inputs=resized(found.inputs, image_size))
    source = {
        "place": _place(place),
        "label": label,
        "inputs": inputs if inputs is None or isinstance(inputs, str) else list(inputs),
        "kind": kind,
        "image_size": image_size,
        "split": split,
        "limit": limit,
        "seed": seed,
        "skip_unreadable": skip_unreadable,
    }
    name = _name(place)
    return Dataset(
        found.kind, found.inputs, found.labels, found.ids, name, found.truth, skipped, source
    )


def reopened(predictions: Predictions) -> Dataset | None:
    """The samples that a run predicted, with the run's labels; None if they did not come of files.

    Refused where the files have changed so that a sample would be taken for another one.
    """
    if predictions.source is None:
        return None
    data = load(**predictions.source)
    known = predictions.source_fingerprint  # empty where whoever made the run did not say
    if data.ids.tolist() != predictions.ids or known not in ("", data.inputs_fingerprint):
        there = set(data.ids.tolist())
        gone = next((f" ({name!r} is gone)" for name in predictions.ids if name not in there), "")
        raise FileError(
            _named(predictions.source["place"]),
            f"no longer holds the {len(predictions):,} samples of run {str(predictions.path)!r}"
            f"{gone}",
            "Put the data back as it was, or find its errors anew in another folder",
        )
    return replace(data, labels=predictions.labels, truth=predictions.truth)


def read_found(
    place: Path | str,
    *,
    label: str | None,
    inputs: str | Sequence[str] | None,
    kind: Kind | None,
    split: str | None,
) -> Found:
    """Find out what lies there, and read it."""
    from uqled.data import archives, folders, tables, trees

    asked = tables.Asked(label, inputs, kind, split)
    if isinstance(place, str) and place.startswith("hf:"):
        from uqled.data.hub import hub_table

        table = hub_table(place.removeprefix("hf:"), split)
        return tables.arrow_table(table, place, replace(asked, split=None))
    if place == "digits":
        _no_columns(place, label, inputs)
        no_split(split, place)
        return archives.digits()
    path = Path(place).expanduser()
    name = path.name.lower()
    if not path.exists():
        raise FileError(f"place {str(place)!r}", "does not exist", f"Name {_FORMATS}")
    if name.endswith(tables.CSV_ENDINGS):
        return tables.csv_table(path, asked)
    if name.endswith(".parquet") and path.is_file():
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
    tree = trees.folder_tree(path) if path.is_dir() else trees.zip_tree(path)
    parquet = [path / file for file in tree.files if file.endswith(".parquet")]
    if path.is_dir() and parquet:
        return tables.parquet_table(path, parquet, asked)
    _no_columns(place, label, inputs)
    if tree.top_folders == ["tiny-imagenet-200"] and not tree.top_files:
        tree = tree.below("tiny-imagenet-200")
    if folders.is_tiny_imagenet(tree):
        return folders.tiny_imagenet(tree, split)
    return folders.class_folders(tree, split)


def _no_columns(place: Path | str, label: str | None, inputs: str | Sequence[str] | None) -> None:
    for argument, value in (("label", label), ("inputs", inputs)):
        if value is not None:
            raise InputError(
                argument, f"is {value!r}, but {_named(place)} has no columns", "Leave it out"
            )


def _subset(found: Found, rows: NDArray[np.intp]) -> Found:
    if len(rows) == len(found.ids):
        return found
    by_row = found.inputs.iloc if hasattr(found.inputs, "iloc") else found.inputs
    return Found(
        found.kind,
        by_row[rows],
        replace(found.labels, codes=found.labels.codes[rows]),
        found.ids[rows],
        None if found.truth is None else found.truth[rows],
    )


def _unreadable_images(place: Path | str, skipped: dict[str, str], total: int) -> FileError:
    lines = [f"\n  {name}: {why}" for name, why in list(skipped.items())[:_LISTED]]
    if len(skipped) > _LISTED:
        lines.append(f"\n  and {len(skipped) - _LISTED:,} more")
    return FileError(
        _named(place),
        f"has {len(skipped):,} unreadable of {total:,} images",
        "Repair or remove them, or go on without them (skip_unreadable, --skip-unreadable):"
        + "".join(lines),
    )


def _named(place: Path | str) -> str:
    return repr(place) if _is_name(place) else quoted(Path(place).expanduser())


def _is_name(place: Path | str) -> bool:
    return isinstance(place, str) and (place == "digits" or place.startswith("hf:"))


def _place(place: Path | str) -> str:
    """What leads there from any folder."""
    return str(place if _is_name(place) else Path(place).expanduser().resolve())


def _name(place: Path | str) -> str:
    """What the data set is called: `cats.tar.gz` and `cats/` are cats."""
    name = Path(str(place).removeprefix("hf:")).expanduser().resolve().name
    for ending in (".gz", ".tar", ".csv", ".tsv", ".parquet", ".npz", ".zip", ".tgz"):
        name = name.removesuffix(ending)
    return name
