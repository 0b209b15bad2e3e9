"""Rows of a Zarr array, wherever it lies: its metadata is checked before a chunk is decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.arrays.row_files import WRITE_AGAIN, convert_into
from uqled.storage.location import Entry, Location
from uqled.storage.reading import explain_file_problems, name_file

#: One of these says that a folder is an array or a group of arrays.
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
#: The codecs that chunks may use. There are others, and one of them unpickles.
_CODECS = frozenset(
    [
        *("bytes", "transpose", "sharding_indexed", "vlen-utf8", "shuffle", "delta", "astype"),
        *("blosc", "gzip", "zlib", "zstd", "lz4", "bz2", "lzma", "zfpy", "pcodec", "packbits"),
        *("fixedscaleoffset", "bitround", "quantize"),
        *("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"),
    ]
)


@dataclass(frozen=True)
class ZarrArray:
    """A Zarr array, or one of a group."""

    place: Location
    key: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_rows: int | None
    stamp: str

    group_rows = None

    def read_into(self, target: NDArray[Any], start: int) -> None:
        stop = start + target.shape[-2 if target.ndim > 1 else 0]
        rows = slice(start, stop)
        problem = f"has rows {start} to {stop} that cannot be read"
        with explain_file_problems(self.place, WRITE_AGAIN, problem=problem):
            array = _open_zarr(self.place, self.key, self.stamp, os.getpid())
            values = array[rows] if len(self.shape) < 3 else array[:, rows]
        convert_into(np.asarray(values), target)


def open_zarr_array(
    place: Location, key: str | None, *, ndim: int, tree: Sequence[Entry], stamp: str
) -> ZarrArray:
    """A Zarr array by what its metadata says; `tree` is what its folder holds."""
    if not {entry.name for entry in tree} & set(ZARR_FILES):
        raise FileError(
            name_file(place),
            f"is not a Zarr array: it holds no {', '.join(ZARR_FILES)}",
            "Write it again",
        )
    _refuse_odd_files(place, tree)
    with explain_file_problems(place, WRITE_AGAIN):
        array = _open_zarr(place, key, stamp, os.getpid())
        shape, chunks = tuple(array.shape), tuple(array.chunks)
        if array.dtype.kind in "V" or (array.dtype.hasobject and len(shape) > 1):
            raise FileError(name_file(place), f"holds {array.dtype}", "Save numbers or strings")
        # A chunk is decoded whole, however few of its rows are asked for.
        check_limit("memory_bytes", prod(chunks) * array.dtype.itemsize, name_file(place))
        if ndim > 1 and len(shape) == ndim:
            _refuse_missing_chunk(place, key, array, tree)
        rows = chunks[-2] if len(chunks) > 1 else chunks[0] if chunks else None
        return ZarrArray(place, key, shape, np.dtype(array.dtype), rows, stamp)


def _refuse_odd_files(place: Location, tree: Sequence[Entry]) -> None:
    """Refuse metadata of gigabytes, and what is no file: Zarr would wait for a pipe forever."""
    for entry in tree:
        if entry.name.rpartition("/")[2] in (*ZARR_FILES, ".zattrs", ".zmetadata"):
            check_limit("json_bytes", entry.size, name_file(place / entry.name))
    if not place.is_local:
        return
    files = {entry.name for entry in tree}
    for name in _walk_files(place.path):
        if name not in files and not (place.path / name).is_file():
            raise FileError(
                name_file(place / name), "is not a regular file", "Write the array again"
            )


def _walk_files(folder: Path) -> Iterator[str]:
    """Everything in a folder that is no folder, named from there; each folder once."""
    seen_places = set[str]()
    for parent, below, names in os.walk(folder, followlinks=True):
        real_path = os.path.realpath(parent)
        if real_path in seen_places:
            below.clear()
            continue
        seen_places.add(real_path)
        start = os.path.relpath(parent, folder)
        yield from (name if start == "." else f"{start}/{name}" for name in names)


def _refuse_codecs(place: Location, array: Any) -> None:
    """Refuse an array whose chunks are packed in a way that is not known to be harmless."""
    about = array.metadata.to_dict()
    for codec in _list_codecs(
        [*(about.get("codecs") or ()), *(about.get("filters") or ()), about.get("compressor")]
    ):
        if codec.removeprefix("numcodecs.") not in _CODECS:
            raise FileError(
                name_file(place),
                f"is packed with {codec!r}, which is not unpacked",
                "Write it again with the default compressors of Zarr",
            )


def _list_codecs(codecs: Sequence[Any]) -> Iterator[str]:
    """The names of codecs, and of those within them."""
    for codec in codecs:
        if codec is not None:
            yield str(codec.get("name") or codec.get("id"))
            inner = codec.get("configuration") or {}
            yield from _list_codecs([*inner.get("codecs", ()), *inner.get("index_codecs", ())])


def _refuse_missing_chunk(
    place: Location, key: str | None, array: Any, tree: Sequence[Entry]
) -> None:
    """Zarr reads a chunk that is not there as zeros, which no probabilities are."""
    names = {entry.name for entry in tree}
    file_shape = array.shards or array.chunks  # what one file holds
    grid = tuple(ceil(n / of) for n, of in zip(array.shape, file_shape, strict=True))
    for index in _iterate_grid(grid):
        name = array.metadata.encode_chunk_key(index)
        if (name if key is None else f"{key}/{name}") not in names:
            row = index[-2] * file_shape[-2]
            raise FileError(
                name_file(place),
                f"has no chunk {name!r}, which holds rows from {row} on",
                "Write the array again",
            )


def _iterate_grid(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every index of a grid in turn; NumPy's own allocates what a grid of any size claims."""
    if not grid:
        yield ()
        return
    for first in range(grid[0]):
        for rest in _iterate_grid(grid[1:]):
            yield first, *rest


@lru_cache(maxsize=32)
def _open_zarr(place: Location, key: str | None, stamp: str, process: int) -> Any:  # noqa: ARG001
    """The array, opened once per process; another stamp is another array."""
    try:
        import zarr
    except ImportError as error:
        raise FileError(
            name_file(place), "needs the zarr package", "pip install 'uqled[zarr]'"
        ) from error
    node = zarr.open(str(place), mode="r")
    if isinstance(node, zarr.Array):
        if key is not None:
            raise FileError(name_file(place), f"is one array, not {key!r}", "Leave the key out")
        _refuse_codecs(place, node)
        return node
    keys = sorted(name for name, _ in node.arrays())
    if key is None or key not in keys:
        raise FileError(
            name_file(place),
            f"is a group{'' if key is None else f' without an array {key!r}'}",
            f"Say which array: {place.name}::KEY with KEY one of {', '.join(keys)}",
        )
    array = node[key]
    _refuse_codecs(place, array)
    return array
