"""CIFAR-10 and CIFAR-100: the archives for Python, packed or not; their pickles are never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.classes import encode_column
from uqled.data.file_tree import list_folder_names
from uqled.data.raw_dataset import RawDataset, choose_split, make_ids, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.errors import FileError
from uqled.storage.plain_pickle import read_plain_pickle
from uqled.storage.reading import explain_file_problems, read_file
from uqled.storage.tar_files import read_tar

_LAYOUTS = {
    "CIFAR-10": ("batches.meta", "label_names", "labels"),
    "CIFAR-100": ("meta", "fine_label_names", "fine_labels"),
}
_MEMBERS = (
    "batches.meta",
    "meta",
    "train",
    "test",
    "test_batch",
    *(f"data_batch_{n}" for n in range(1, 6)),
)
_PIXELS = 3 * 32 * 32
_GET_AGAIN = "Download the archive again, in the version for Python"


def _matches(source: Source) -> bool:
    """Whether this is a CIFAR archive, or the folder that it unpacks to, or one around that."""
    if source.is_folder:
        return _find_folder(source.path) is not None
    return source.path.name.lower().endswith((".tar.gz", ".tgz", ".tar"))


def _read(source: Source, request: ReadRequest) -> RawDataset:
    """CIFAR-10, or CIFAR-100 with its fine labels."""
    place = source.path
    folder = _find_folder(place) if source.is_folder else None
    members = _list_archive(place) if folder is None else _list_folder(folder)
    kind = "CIFAR-10" if "batches.meta" in members else "CIFAR-100"
    meta, names_key, labels_key = _LAYOUTS[kind]
    split = choose_split(request.split, ["train", "test"], place)
    if kind == "CIFAR-100":
        batches = [split]
    elif split == "test":
        batches = ["test_batch"]
    else:
        batches = [f"data_batch_{n}" for n in range(1, 6)]
    if missing := [name for name in [meta, *batches] if name not in members]:
        raise FileError(name_source(place), f"lacks {', '.join(missing)}", _GET_AGAIN)
    path = folder or place
    with explain_file_problems(path / meta, _GET_AGAIN):
        names = _read_texts(_unpickle(members[meta]()), names_key)
    parts = []
    for name in batches:
        with explain_file_problems(path / name, _GET_AGAIN):
            parts.append(_read_batch(_unpickle(members[name]()), labels_key))
    pixels = np.concatenate([part[0] for part in parts]).reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    labels = encode_column(np.concatenate([part[1] for part in parts]), names=names)
    ids = make_ids(f"{split}/{name}" for part in parts for name in part[2])
    return RawDataset("images", images, labels, ids)


def _find_folder(place: Path) -> Path | None:
    inside = [place / name for name in list_folder_names(place) if name.startswith("cifar-10")]
    for folder in [place, *(path for path in inside if path.is_dir())]:
        names = set(list_folder_names(folder))
        if names >= {"batches.meta"} or names >= {"meta", "train", "test"}:
            members = names & set(_MEMBERS)
            if not any((folder / name).is_dir() for name in members):
                return folder
    return None


def _list_folder(folder: Path) -> dict[str, Callable[[], bytes]]:
    def defer_reading(path: Path) -> Callable[[], bytes]:
        return lambda: read_file(path)

    names = set(list_folder_names(folder)) & set(_MEMBERS)
    return {name: defer_reading(folder / name) for name in names}


def _list_archive(place: Path) -> dict[str, Callable[[], bytes]]:
    contents = read_tar(place, _MEMBERS)
    if not {"batches.meta", "meta"} & contents.keys():
        raise FileError(
            name_source(place),
            "is not a CIFAR archive for Python",
            "Unpack other archives and name the folder",
        )
    return {name: lambda data=data: data for name, data in contents.items()}  # type: ignore[misc]


def _unpickle(data: bytes) -> dict[str, Any]:
    """What a file of the archive holds; keys are texts, or bytes as Python 2 wrote them."""
    content = read_plain_pickle(data)
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}")
    return {
        _decode_text(key): value for key, value in content.items() if isinstance(key, str | bytes)
    }


def _read_batch(
    content: Mapping[str, Any], labels_key: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Pixels [n,3072], labels [n] and files' names [n]."""
    pixels, labels = _get_entry(content, "data"), _get_entry(content, labels_key)
    if not isinstance(pixels, np.ndarray):
        raise ValueError(f"data is a {type(pixels).__name__}")
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise ValueError(f"data is {pixels.dtype} {pixels.shape}")
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        labels = np.array(labels)  # an object array if a label is larger than any integer type
    is_column = isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iu"
    if not is_column:
        raise ValueError(f"{labels_key} are not whole numbers")
    files = _read_texts(content, "filenames")
    for key, entries in ((labels_key, labels), ("filenames", files)):
        if len(entries) != len(pixels):
            raise ValueError(f"it has {len(entries)} {key} for {len(pixels)} images")
    return pixels, labels, files


def _get_entry(content: Mapping[str, Any], key: str) -> Any:
    if key not in content:
        raise ValueError(f"it has no {key}")
    return content[key]


def _read_texts(content: Mapping[str, Any], key: str) -> list[str]:
    texts = _get_entry(content, key)
    if not isinstance(texts, list) or not all(isinstance(one, str | bytes) for one in texts):
        raise ValueError(f"{key} are not texts")
    return list(map(_decode_text, texts))


def _decode_text(entry: str | bytes) -> str:
    return entry if isinstance(entry, str) else entry.decode()


READER = Reader("CIFAR's .tar.gz", _matches, _read, has_splits=True)
