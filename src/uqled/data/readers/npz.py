"""Two arrays of a NumPy archive: inputs and labels."""

from __future__ import annotations

from pathlib import Path

from uqled.data.dataset import Dataset
from uqled.data.raw_dataset import RawDataset, choose_split, name_source, refuse_split
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.errors import FileError, InputError
from uqled.storage.arrays.numpy_files import ArrayArchive, open_npz
from uqled.storage.reading import explain_file_problems

_INPUTS = ("X", "x", "inputs", "images", "data")
_LABELS = ("y", "labels", "label", "target")
_SPLITS = (("x_{}", "y_{}"), ("X_{}", "y_{}"), ("{}_images", "{}_labels"))
_NAMES = ("class_names", "classes", "names")


def _read(source: Source, request: ReadRequest) -> RawDataset:
    """The arrays of the usual names, or of those that the user gave."""
    place, split = source.path, request.split
    names = [request.inputs] if isinstance(request.inputs, str) else list(request.inputs or [])
    if len(names) > 1:
        raise InputError("inputs", f"are {names!r}", "Name one array of the .npz")
    with explain_file_problems(place), open_npz(place) as archive:
        x, y = _choose_keys(
            place, archive.keys, label=request.label, inputs=next(iter(names), None), split=split
        )
        classes = _read_class_names(place, archive)
        data = Dataset.from_arrays(archive.read(x), archive.read(y), classes=classes)
    return RawDataset(data.kind, data.inputs, data.labels, data.ids)


def _read_class_names(place: Path, archive: ArrayArchive) -> list[str] | None:
    """The names of the classes, where an array says them."""
    key = next((key for key in _NAMES if key in archive.keys), None)
    if key is None:
        return None
    names = archive.read(key)
    if names.ndim != 1:
        raise FileError(
            name_source(place),
            f"has {key!r} of shape {names.shape}",
            "Save one name per class, [K]",
        )
    return list(map(str, names.tolist()))


def _choose_keys(
    place: Path, keys: list[str], *, label: str | None, inputs: str | None, split: str | None
) -> tuple[str, str]:
    splits = {
        name: (x.format(name), y.format(name))
        for name in ("train", "test", "val")
        for x, y in _SPLITS
        if x.format(name) in keys and y.format(name) in keys
    }
    if splits and label is None and inputs is None:
        return splits[choose_split(split, list(splits), place)]
    refuse_split(split, place)
    x = inputs or next((key for key in _INPUTS if key in keys), _INPUTS[0])
    y = label or next((key for key in _LABELS if key in keys), _LABELS[0])
    for argument, key in (("inputs", x), ("label", y)):
        if key not in keys:
            raise InputError(
                argument,
                f"is {key!r}, and {name_source(place)} holds the arrays {', '.join(keys)}",
                f"Say which one is meant: {argument}='...'",
            )
    return x, y


READER = Reader(
    "an .npz",
    lambda source: source.table_name.endswith(".npz"),
    _read,
    has_columns=True,
    has_splits=True,
)
