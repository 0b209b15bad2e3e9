"""Arrays in the forms that well-known data sets are published in: idx, CIFAR, `.npz`, digits."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from uqled.data.classes import labels_of
from uqled.data.dataset import Dataset, as_images
from uqled.data.found import Found, as_ids, chosen_split, no_split, quoted, unreadable
from uqled.errors import FileError, InputError

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_IDX_NAME = re.compile(r"(.*?)(train|t10k|test)[-.]?(images|labels)[-.]idx\d[-.]ubyte(\.gz)?$")
_CIFAR = {
    "CIFAR-10": ("batches.meta", "label_names", "labels"),
    "CIFAR-100": ("meta", "fine_label_names", "fine_labels"),
}
_NPZ_INPUTS = ("X", "x", "inputs", "images", "data")
_NPZ_LABELS = ("y", "labels", "label", "target")
_NPZ_SPLITS = (("x_{}", "y_{}"), ("X_{}", "y_{}"), ("{}_images", "{}_labels"))
_NPZ_NAMES = ("class_names", "classes", "names")


def digits() -> Found:
    """scikit-learn's 1,797 handwritten digits, 8 x 8."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = labels_of(found.target)
    return Found("images", images, labels, as_ids(range(len(images))), truth=labels.codes)


def is_idx_file(path: Path) -> bool:
    return _IDX_NAME.match(path.name) is not None


def has_idx_files(folder: Path) -> bool:
    return any(is_idx_file(path) for path in folder.iterdir())


def idx(place: Path, split: str | None) -> Found:
    """Images and labels as MNIST's authors write them; `place` is the folder or the images."""
    names = [place.name] if place.is_file() else sorted(path.name for path in place.iterdir())
    folder = place.parent if place.is_file() else place
    images = {}
    for name in names:
        match = _IDX_NAME.match(name)
        if match is not None and match[3] == "images":
            images[match[1] + {"t10k": "test"}.get(match[2], match[2])] = name
    if not images:
        raise FileError(quoted(place), "has no file of images", "Name ...-images-idx3-ubyte(.gz)")
    name = images[chosen_split(split, list(images), place)]
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
    return Found("images", as_images(pixels), labels_of(labels), as_ids(range(len(pixels))))


def is_cifar(place: Path) -> bool:
    """Whether this is a CIFAR archive, or the folder that it unpacks to, or one around that."""
    if place.is_dir():
        return _cifar_folder(place) is not None
    return place.name.lower().endswith((".tar.gz", ".tgz", ".tar"))


def cifar(place: Path, split: str | None) -> Found:
    """CIFAR-10, or CIFAR-100 with its fine labels: the archives for Python, packed or not."""
    members = _unpacked(place) if place.is_dir() else _packed(place)
    kind = "CIFAR-10" if "batches.meta" in members else "CIFAR-100"
    meta, names_key, labels_key = _CIFAR[kind]
    chosen = chosen_split(split, ["train", "test"], place)
    if kind == "CIFAR-100":
        batches = [chosen]
    elif chosen == "test":
        batches = ["test_batch"]
    else:
        batches = [f"data_batch_{n}" for n in range(1, 6)]
    if missing := [name for name in [meta, *batches] if name not in members]:
        raise FileError(
            quoted(place),
            f"lacks {', '.join(missing)}",
            "Get the archive again, in the version for Python",
        )
    parts = [_unpickled(members[name](), place) for name in batches]
    about = _unpickled(members[meta](), place)
    try:
        names = [name.decode() for name in about[names_key.encode()]]
        pixels = np.concatenate([part[b"data"] for part in parts]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([part[labels_key.encode()] for part in parts])
        files = [name.decode() for part in parts for name in part[b"filenames"]]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise unreadable(
            place, error, "Get the archive again, in the version for Python"
        ) from error
    images = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    ids = as_ids(f"{chosen}/{name}" for name in files)
    return Found("images", images, labels_of(labels, names=names), ids)


def npz(place: Path, *, label: str | None, inputs: str | None, split: str | None) -> Found:
    """Two arrays of a NumPy archive, found by their usual names or by those given."""
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            keys = list(archive.keys())
            x, y = _npz_keys(place, keys, label=label, inputs=inputs, split=split)
            names = next((archive[key].tolist() for key in _NPZ_NAMES if key in keys), None)
            found = Dataset.from_arrays(archive[x], archive[y], classes=names)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise unreadable(place, error) from error
    return Found(found.kind, found.inputs, found.labels, found.ids)


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
        return splits[chosen_split(split, list(splits), place)]
    no_split(split, place)
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
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
        raise FileError(quoted(path), "does not begin like an idx file", "Get it again")
    axes = data[3]
    shape = np.frombuffer(data, ">u4", axes, 4).tolist() if len(data) >= 4 + 4 * axes else [-1]
    dtype, start = np.dtype(_IDX_TYPES[data[2]]), 4 + 4 * axes
    if len(data) - start != int(np.prod(shape)) * dtype.itemsize:
        raise FileError(
            quoted(path),
            f"has {len(data)} bytes, which do not fit its shape {shape}",
            "Get it again",
        )
    found = np.frombuffer(data, dtype, -1, start).reshape(shape)
    return found.astype(dtype.newbyteorder("="), copy=False)


def _cifar_folder(place: Path) -> Path | None:
    inside = [place, *(path for path in place.glob("cifar-10*") if path.is_dir())]
    for folder in inside:
        names = {path.name for path in folder.iterdir() if path.is_file()}
        if names >= {"batches.meta"} or names >= {"meta", "train", "test"}:
            return folder
    return None


def _unpacked(place: Path) -> dict[str, Callable[[], bytes]]:
    folder = _cifar_folder(place)
    return {} if folder is None else {p.name: p.read_bytes for p in folder.iterdir() if p.is_file()}


def _packed(place: Path) -> dict[str, Callable[[], bytes]]:
    try:
        with tarfile.open(place) as archive:
            contents = {
                Path(member.name).name: file.read()
                for member in archive
                if member.isfile() and (file := archive.extractfile(member)) is not None
            }
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise unreadable(place, error) from error
    if not {"batches.meta", "meta"} & contents.keys():
        raise FileError(
            quoted(place),
            "is no CIFAR archive for Python",
            "Unpack other archives and name the folder",
        )
    return {name: lambda data=data: data for name, data in contents.items()}  # type: ignore[misc]


class _ArraysOnly(pickle.Unpickler):
    """Reads lists, numbers, strings and NumPy arrays; an archive that asks for more is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if module.split(".")[0] == "numpy" and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, _: text.encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _unpickled(data: bytes, place: Path) -> dict[bytes, Any]:
    try:
        found = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # any bytes may ask a pickle machine for anything
        raise unreadable(place, error) from error
    if not isinstance(found, dict):
        raise FileError(quoted(place), f"holds a {type(found).__name__}", "Get it again")
    return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}
