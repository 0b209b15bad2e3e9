"""Arrays in the forms that well-known data sets are published in: idx, CIFAR, `.npz`, digits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.classes import encode_labels
from uqled.data.dataset import Dataset, as_images
from uqled.data.raw_dataset import RawDataset, choose_split, make_ids, quoted, refuse_split
from uqled.errors import FileError, InputError
from uqled.storage.arrays.numpy_files import ArrayArchive, open_npz
from uqled.storage.plain_pickle import read_plain_pickle
from uqled.storage.reading import decompress, explain_file_problems, open_regular, read_file
from uqled.storage.tar_files import read_tar

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_IDX_NAME = re.compile(r"(.*?)(train|t10k|test)[-.]?(images|labels)[-.]idx\d[-.]ubyte(\.gz)?$")
_CIFAR = {
    "CIFAR-10": ("batches.meta", "label_names", "labels"),
    "CIFAR-100": ("meta", "fine_label_names", "fine_labels"),
}
_CIFAR_MEMBERS = (
    "batches.meta",
    "meta",
    "train",
    "test",
    "test_batch",
    *(f"data_batch_{n}" for n in range(1, 6)),
)
_CIFAR_PIXELS = 3 * 32 * 32
_GET_CIFAR = "Get the archive again, in the version for Python"
_NPZ_INPUTS = ("X", "x", "inputs", "images", "data")
_NPZ_LABELS = ("y", "labels", "label", "target")
_NPZ_SPLITS = (("x_{}", "y_{}"), ("X_{}", "y_{}"), ("{}_images", "{}_labels"))
_NPZ_NAMES = ("class_names", "classes", "names")


def digits() -> RawDataset:
    """scikit-learn's 1,797 handwritten digits, 8 x 8."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = encode_labels(found.target)
    return RawDataset("images", images, labels, make_ids(range(len(images))), truth=labels.codes)


def is_idx_file(path: Path) -> bool:
    return _IDX_NAME.match(path.name) is not None


def has_idx_files(folder: Path) -> bool:
    return any(is_idx_file(Path(name)) for name in _list_names(folder))


def idx(place: Path, split: str | None) -> RawDataset:
    """Images and labels as MNIST's authors write them; `place` is the folder or the images."""
    names = _list_names(place) if place.is_dir() else [place.name]
    folder = place if place.is_dir() else place.parent
    images = {}
    for name in names:
        match = _IDX_NAME.match(name)
        if match is not None and match[3] == "images":
            images[match[1] + {"t10k": "test"}.get(match[2], match[2])] = name
    if not images:
        raise FileError(quoted(place), "has no file of images", "Name ...-images-idx3-ubyte(.gz)")
    name = images[choose_split(split, list(images), place)]
    stem = name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    there = [path for path in (folder / stem, folder / f"{stem}.gz") if path.exists()]
    if not there:
        raise FileError(f"file {str(folder / stem)!r}", "is not there", "Put it beside the images")
    pixels, labels = _idx_array(folder / name), _idx_array(there[0])
    if len(pixels) != len(labels):
        raise FileError(
            quoted(folder / name),
            f"has {len(pixels)} images, and {there[0].name} {len(labels)} labels",
            "Get both again",
        )
    return RawDataset(
        "images", as_images(pixels), encode_labels(labels), make_ids(range(len(pixels)))
    )


def is_cifar(place: Path) -> bool:
    """Whether this is a CIFAR archive, or the folder that it unpacks to, or one around that."""
    if place.is_dir():
        return _cifar_folder(place) is not None
    return place.name.lower().endswith((".tar.gz", ".tgz", ".tar"))


def cifar(place: Path, split: str | None) -> RawDataset:
    """CIFAR-10, or CIFAR-100 with its fine labels: the archives for Python, packed or not."""
    folder = _cifar_folder(place) if place.is_dir() else None
    members = _packed(place) if folder is None else _unpacked(folder)
    kind = "CIFAR-10" if "batches.meta" in members else "CIFAR-100"
    meta, names_key, labels_key = _CIFAR[kind]
    chosen = choose_split(split, ["train", "test"], place)
    if kind == "CIFAR-100":
        batches = [chosen]
    elif chosen == "test":
        batches = ["test_batch"]
    else:
        batches = [f"data_batch_{n}" for n in range(1, 6)]
    if missing := [name for name in [meta, *batches] if name not in members]:
        raise FileError(quoted(place), f"lacks {', '.join(missing)}", _GET_CIFAR)
    path = folder or place
    with explain_file_problems(path / meta, _GET_CIFAR):
        names = _texts_of(_plain_content(members[meta]()), names_key)
    parts = []
    for name in batches:
        with explain_file_problems(path / name, _GET_CIFAR):
            parts.append(_cifar_batch(_plain_content(members[name]()), labels_key))
    pixels = np.concatenate([part[0] for part in parts]).reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    labels = encode_labels(np.concatenate([part[1] for part in parts]), names=names)
    ids = make_ids(f"{chosen}/{name}" for part in parts for name in part[2])
    return RawDataset("images", images, labels, ids)


def npz(place: Path, *, label: str | None, inputs: str | None, split: str | None) -> RawDataset:
    """Two arrays of a NumPy archive, found by their usual names or by those given."""
    with explain_file_problems(place), open_npz(place) as archive:
        x, y = _npz_keys(place, archive.keys, label=label, inputs=inputs, split=split)
        names = _npz_names(place, archive)
        found = Dataset.from_arrays(archive.read(x), archive.read(y), classes=names)
    return RawDataset(found.kind, found.inputs, found.labels, found.ids)


def _npz_names(place: Path, archive: ArrayArchive) -> list[str] | None:
    """The names of the classes, where an array says them."""
    key = next((key for key in _NPZ_NAMES if key in archive.keys), None)
    if key is None:
        return None
    names = archive.read(key)
    if names.ndim != 1:
        raise FileError(
            quoted(place), f"has {key!r} of shape {names.shape}", "Save one name per class, [K]"
        )
    return list(map(str, names.tolist()))


def _npz_keys(
    place: Path, keys: list[str], *, label: str | None, inputs: str | None, split: str | None
) -> tuple[str, str]:
    splits = {
        name: (x.format(name), y.format(name))
        for name in ("train", "test", "val")
        for x, y in _NPZ_SPLITS
        if x.format(name) in keys and y.format(name) in keys
    }
    if splits and label is None and inputs is None:
        return splits[choose_split(split, list(splits), place)]
    refuse_split(split, place)
    x = inputs or next((key for key in _NPZ_INPUTS if key in keys), _NPZ_INPUTS[0])
    y = label or next((key for key in _NPZ_LABELS if key in keys), _NPZ_LABELS[0])
    for argument, key in (("inputs", x), ("label", y)):
        if key not in keys:
            raise InputError(
                argument,
                f"is {key!r}, and {quoted(place)} holds the arrays {', '.join(keys)}",
                f"Say which one is meant: {argument}='...'",
            )
    return x, y


def _idx_array(path: Path) -> NDArray[Any]:
    with explain_file_problems(path):
        if path.suffix == ".gz":
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                data = decompress(file, size, quoted(path))
        else:
            data = read_file(path)
        if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
            raise FileError(quoted(path), "does not begin like an idx file", "Get it again")
        axes = data[3]
        shape = np.frombuffer(data, ">u4", axes, 4).tolist() if len(data) >= 4 + 4 * axes else [-1]
        dtype, start = np.dtype(_IDX_TYPES[data[2]]), 4 + 4 * axes
        if len(data) - start != prod(shape) * dtype.itemsize or not shape:
            raise FileError(
                quoted(path),
                f"has {len(data)} bytes, which do not fit its shape {shape}",
                "Get it again",
            )
        found: NDArray[Any] = np.frombuffer(data, dtype, prod(shape), start).reshape(shape)
        return found.astype(dtype.newbyteorder("="), copy=False)


def _list_names(folder: Path) -> list[str]:
    with explain_file_problems(folder, "Check your rights"):
        return sorted(path.name for path in folder.iterdir())


def _cifar_folder(place: Path) -> Path | None:
    inside = [place / name for name in _list_names(place) if name.startswith("cifar-10")]
    for folder in [place, *(path for path in inside if path.is_dir())]:
        names = set(_list_names(folder))
        if names >= {"batches.meta"} or names >= {"meta", "train", "test"}:
            members = names & set(_CIFAR_MEMBERS)
            if not any((folder / name).is_dir() for name in members):
                return folder
    return None


def _unpacked(folder: Path) -> dict[str, Callable[[], bytes]]:
    def reader(path: Path) -> Callable[[], bytes]:
        return lambda: read_file(path)

    names = set(_list_names(folder)) & set(_CIFAR_MEMBERS)
    return {name: reader(folder / name) for name in names}


def _packed(place: Path) -> dict[str, Callable[[], bytes]]:
    contents = read_tar(place, _CIFAR_MEMBERS)
    if not {"batches.meta", "meta"} & contents.keys():
        raise FileError(
            quoted(place),
            "is no CIFAR archive for Python",
            "Unpack other archives and name the folder",
        )
    return {name: lambda data=data: data for name, data in contents.items()}  # type: ignore[misc]


def _plain_content(data: bytes) -> dict[str, Any]:
    """What a file of the archive holds; keys are texts, or bytes as Python 2 wrote them."""
    content = read_plain_pickle(data)
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}")
    return {_text(key): value for key, value in content.items() if isinstance(key, str | bytes)}


def _cifar_batch(
    content: Mapping[str, Any], labels_key: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Pixels [n,3072], labels [n] and files' names [n]."""
    pixels, labels = _entry(content, "data"), _entry(content, labels_key)
    if not isinstance(pixels, np.ndarray):
        raise ValueError(f"data is a {type(pixels).__name__}")
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _CIFAR_PIXELS:
        raise ValueError(f"data is {pixels.dtype} {pixels.shape}")
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        labels = np.array(labels)  # of objects, where one is larger than any integer type
    is_column = isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iu"
    if not is_column:
        raise ValueError(f"{labels_key} are no whole numbers")
    files = _texts_of(content, "filenames")
    for key, entries in ((labels_key, labels), ("filenames", files)):
        if len(entries) != len(pixels):
            raise ValueError(f"it has {len(entries)} {key} for {len(pixels)} images")
    return pixels, labels, files


def _entry(content: Mapping[str, Any], key: str) -> Any:
    if key not in content:
        raise ValueError(f"it has no {key}")
    return content[key]


def _texts_of(content: Mapping[str, Any], key: str) -> list[str]:
    texts = _entry(content, key)
    if not isinstance(texts, list) or not all(isinstance(one, str | bytes) for one in texts):
        raise ValueError(f"{key} are no texts")
    return list(map(_text, texts))


def _text(entry: str | bytes) -> str:
    return entry if isinstance(entry, str) else entry.decode()
