"""Images and labels in the idx files of MNIST's authors."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.classes import encode_column
from uqled.data.dataset import convert_images
from uqled.data.file_tree import list_folder_names
from uqled.data.raw_dataset import RawDataset, choose_split, make_ids, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.errors import FileError
from uqled.storage.compression import read_decompressed
from uqled.storage.reading import (
    explain_file_problems,
    name_file,
)

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_NAME = re.compile(r"(.*?)(train|t10k|test)[-.]?(images|labels)[-.]idx\d[-.]ubyte(\.gz)?$")


def _matches(source: Source) -> bool:
    if source.is_folder:
        return any(_NAME.match(name) for name in list_folder_names(source.path))
    return not source.is_named and _NAME.match(source.path.name) is not None


def _read(source: Source, request: ReadRequest) -> RawDataset:
    """The source is the folder or the file of images."""
    place = source.path
    names = list_folder_names(place) if place.is_dir() else [place.name]
    folder = place if place.is_dir() else place.parent
    images = {}
    for name in names:
        match = _NAME.match(name)
        if match is not None and match[3] == "images":
            images[match[1] + {"t10k": "test"}.get(match[2], match[2])] = name
    if not images:
        raise FileError(
            name_source(place), "has no file of images", "Name ...-images-idx3-ubyte(.gz)"
        )
    name = images[choose_split(request.split, list(images), place)]
    stem = name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    files = [path for path in (folder / stem, folder / f"{stem}.gz") if path.exists()]
    if not files:
        raise FileError(name_file(folder / stem), "does not exist", "Put it beside the images")
    pixels, labels = _read_array(folder / name), _read_array(files[0])
    if len(pixels) != len(labels):
        raise FileError(
            name_source(folder / name),
            f"has {len(pixels)} images, and {files[0].name} {len(labels)} labels",
            "Download both again",
        )
    return RawDataset(
        "images", convert_images(pixels), encode_column(labels), make_ids(range(len(pixels)))
    )


def _read_array(path: Path) -> NDArray[Any]:
    with explain_file_problems(path):
        data = read_decompressed(path)
        if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
            raise FileError(
                name_source(path), "does not start like an idx file", "Download it again"
            )
        axes = data[3]
        shape = np.frombuffer(data, ">u4", axes, 4).tolist() if len(data) >= 4 + 4 * axes else [-1]
        dtype, start = np.dtype(_TYPES[data[2]]), 4 + 4 * axes
        if len(data) - start != prod(shape) * dtype.itemsize or not shape:
            raise FileError(
                name_source(path),
                f"has {len(data)} bytes, which do not fit its shape {shape}",
                "Download it again",
            )
        array: NDArray[Any] = np.frombuffer(data, dtype, prod(shape), start).reshape(shape)
        return array.astype(dtype.newbyteorder("="), copy=False)


READER = Reader("idx files", _matches, _read, has_splits=True)
