"""Decodes images once into a `.npy` file, which is memory-mapped from then on.

The file is named by a hash of the encoded bytes of all images, in order, and of the target size. It
can be deleted at any time, and changed images never match an old cache. A `.json` file next to it
lists the images that cannot be read.
"""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from uqled.arrays import check_whole_number
from uqled.data.images import (
    ImageHeader,
    UnreadableError,
    allocate_unaligned,
    allow_large_pictures,
    choose_white_level,
    decode_equal_jpegs,
    decode_into,
    read_header,
    resize_into,
)
from uqled.engines.local import Threads, count_cores
from uqled.errors import FileError, InputError
from uqled.limits import exceed_limit, get_limit
from uqled.progress import Progress
from uqled.storage.arrays.numpy_files import open_array
from uqled.storage.atomic import create_array, remove_leftovers, replace_file, write_json
from uqled.storage.reading import first_line, read_json

MAX_SIDE = 224
"""Pixels of the longer side, unless the user chooses an image size."""

_FORMAT = "1"  # version of the cache; changing it makes all images decode again
_BLOCK = 64  # images that a thread takes at once, at most
_KEPT_BYTES = 1 << 28  # of encoded images, kept in memory between hashing and decoding
_KEPT_IMAGE_BYTES = 1 << 20  # larger images are read again

AllocateImages = Callable[[tuple[int, ...]], NDArray[np.uint8]]
Out = TypeVar("Out")


@dataclass(frozen=True)
class EncodedImages:
    """Images that are still encoded, such as JPEG files."""

    read: Callable[[Any], bytes]
    """Returns the bytes of one image, or raises an `OSError` or `FileError`."""
    keys: NDArray[Any]
    """[N] the arguments of `read`."""
    find_file: Callable[[Any], Path | None] = lambda _: None
    """Returns the local path of a key's image, or None if it is not a file of its own."""

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, rows: Any) -> EncodedImages:
        return EncodedImages(self.read, self.keys[rows], self.find_file)

    def read_image(self, row: int, name: str) -> bytes:
        """Read the bytes of one image and check its header; `name` is used in error messages.

        A table can name any file on this machine, so only valid images are returned.
        """
        try:
            data = self.read(self.keys[row])
            read_header(data)
        except (OSError, FileError, UnreadableError) as error:
            why = error.problem if isinstance(error, FileError) else error
            raise FileError(
                f"sample {name!r}", f"cannot be read ({why})", "Put the file back"
            ) from error
        return data


@dataclass(frozen=True)
class DecodedImages:
    """Images, all of the same size."""

    images: NDArray[np.uint8]
    """[n,H,W,C] the images that can be read."""
    unreadable: dict[int, str]
    """Index among all images -> why it cannot be read."""


def find_cache_folder(cache: Path | str | None = None) -> Path:
    """Return `cache`, or else the environment's UQLED_CACHE, or `uqled` in the user's cache."""
    if cache is None:
        cache = os.environ.get("UQLED_CACHE") or user_cache_path("uqled", appauthor=False)
    return Path(cache).expanduser()


def decode_images(
    encoded_images: EncodedImages,
    *,
    size: int | tuple[int, int] | None = None,
    cache: Path | str | bool | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> DecodedImages:
    """Decode all images and resize them to `size`, or to the result of `choose_size`.

    The result has one channel if every image is grey, otherwise three. `cache=False` decodes into
    memory.
    """
    target_size = None if size is None else _as_size(size)
    with (
        Threads(threads or count_cores()) as engine,
        warnings.catch_warnings(),
        allow_large_pictures(),
    ):
        warnings.filterwarnings("ignore", module=r"PIL\.")  # real problems are reported per image
        decoder = _ImageDecoder(encoded_images, target_size, engine, progress or Progress(False))
        if cache is False:
            images, unreadable = decoder.decode(allocate_unaligned)
            readable = np.delete(images, list(unreadable), axis=0) if unreadable else images
            return DecodedImages(readable, unreadable)
        folder = find_cache_folder(None if cache is True else cache) / "images"
        return _decode_to_disk(folder / f"{decoder.make_key()}.npy", decoder)


class _ImageDecoder:
    """Reads, hashes and decodes images on several threads."""

    def __init__(
        self,
        encoded_images: EncodedImages,
        size: tuple[int, int] | None,
        engine: Threads,
        progress: Progress,
    ) -> None:
        self._read_key, self._keys, self._size = (
            encoded_images.read,
            encoded_images.keys.tolist(),
            size,
        )
        self._all_rows = range(len(encoded_images))
        self._engine, self._progress = engine, progress
        self._encoded_bytes: dict[int, bytes] = {}
        self.read_errors: dict[int, str] = {}
        """Index -> why the bytes of an image could not be read."""

    def __len__(self) -> int:
        return len(self._keys)

    def make_key(self) -> str:
        """Hash the encoded bytes and the target size, and keep the bytes while there is room."""

        def read(i: int) -> tuple[bytes, bytes]:
            try:
                data = hashed_bytes = self._read(i)
            except UnreadableError as error:
                data, hashed_bytes = b"", str(error).encode()
            small = len(data) <= _KEPT_IMAGE_BYTES  # many large images would fill the memory
            return hashlib.blake2b(hashed_bytes, digest_size=16).digest(), data if small else b""

        hasher = hashlib.blake2b(repr((_FORMAT, self._size)).encode(), digest_size=16)
        room = _KEPT_BYTES
        for i, (digest, data) in enumerate(self._map_rows("reading images", self._all_rows, read)):
            hasher.update(digest)
            room -= len(data)
            if data and room >= 0:
                self._encoded_bytes[i] = data
        return hasher.hexdigest()

    def decode(self, allocate: AllocateImages) -> tuple[NDArray[np.uint8], dict[int, str]]:
        """Fill `allocate(shape)` with all images; also return the unreadable ones and why."""
        decoded_images = self._decode_equal_jpegs(allocate)
        if decoded_images is None:
            images, odd_images = None, list(self._all_rows)
        else:
            images, odd_images = decoded_images
        results = self._read_headers(odd_images)
        headers = {i: header for i, header in results.items() if isinstance(header, ImageHeader)}
        unreadable = {i: reason for i, reason in results.items() if isinstance(reason, str)}
        if images is None:
            images = allocate(self._choose_shape(list(headers.values())))
        rows = images.view(np.ndarray)
        white = choose_white_level(max((one.peak for one in headers.values()), default=0.0))

        def fill(i: int) -> str | None:
            try:
                decode_into(rows[i], self._read(i), headers[i], white=white)
            except UnreadableError as error:
                return str(error)
            return None

        rows_to_fill = [i for i in odd_images if i in headers]
        reasons = self._map_rows("decoding images", rows_to_fill, fill)
        unreadable |= {i: why for i, why in zip(rows_to_fill, reasons, strict=True) if why}
        return images, dict(sorted(unreadable.items()))

    def _decode_equal_jpegs(
        self, allocate: AllocateImages
    ) -> tuple[NDArray[np.uint8], list[int]] | None:
        """Take a shortcut if more than half are colour JPEGs of the same size as the first.

        It skips reading their headers. Returns the images and the rows that still need filling.
        """
        first = self._read_headers([0])[0]
        if isinstance(first, str) or not first.plain or first.grey:
            return None
        shape = self._choose_shape([first])
        if shape[1:3] != (first.height, first.width):
            return None
        images = allocate(shape)
        rows = images.view(np.ndarray)

        def fill(block: Sequence[int]) -> list[int]:
            kept, read, keys = self._encoded_bytes, self._read_key, self._keys
            try:
                contents = [kept[i] if i in kept else read(keys[i]) for i in block]
            except (OSError, FileError):
                return list(block)
            unfilled_rows = decode_equal_jpegs(rows[block[0] : block[-1] + 1], contents)
            return [block[at] for at in unfilled_rows]

        other_rows = [*self._map_blocks("decoding images", self._all_rows, fill)]
        return (images, other_rows) if 2 * len(other_rows) < len(rows) else None

    def _choose_shape(self, headers: list[ImageHeader]) -> tuple[int, int, int, int]:
        height, width = self._size or (choose_size(headers) if headers else (1, 1))
        return len(self._keys), height, width, 1 if all(one.grey for one in headers) else 3

    def _read_headers(self, rows: Sequence[int]) -> dict[int, ImageHeader | str]:
        def read_one(i: int) -> ImageHeader | str:
            try:
                return read_header(self._read(i))
            except UnreadableError as error:
                return str(error)

        return dict(zip(rows, self._map_rows("reading image headers", rows, read_one), strict=True))

    def _read(self, i: int) -> bytes:
        try:
            data = self._encoded_bytes.get(i) or self._read_key(self._keys[i])
        except FileNotFoundError as error:
            self.read_errors[i] = "is not there"
            raise UnreadableError(self.read_errors[i]) from error
        except OSError as error:
            self.read_errors[i] = first_line(error)
            raise UnreadableError(self.read_errors[i]) from error
        except (
            FileError
        ) as error:  # a pipe, a device, a file that is too large, a damaged archive member
            self.read_errors[i] = error.problem
            raise UnreadableError(self.read_errors[i]) from error
        if len(data) > get_limit("image_bytes"):
            raise UnreadableError(exceed_limit("image_bytes", f"{len(data):,}", "").problem)
        return data

    def _map_rows(
        self, stage: str, rows: Sequence[int], function: Callable[[int], Out]
    ) -> Iterator[Out]:
        """Yield `function` of each row, in order."""
        return self._map_blocks(stage, rows, lambda block: [function(i) for i in block])

    def _map_blocks(
        self, stage: str, rows: Sequence[int], function: Callable[[Sequence[int]], list[Out]]
    ) -> Iterator[Out]:
        """Yield the results of `function` for blocks of rows, in order, computed by threads."""
        size = max(1, min(_BLOCK, len(rows) // (4 * self._engine.threads)))
        blocks = (rows[start : start + size] for start in range(0, len(rows), size))
        with self._progress.stage(stage, len(rows)) as advance:
            for block, part in self._engine.map(lambda block: (block, function(block)), blocks):
                yield from part
                advance(len(block))


def resize_images(images: NDArray[np.uint8], size: int | tuple[int, int]) -> NDArray[np.uint8]:
    """Resize images [N,H,W,C] that are in memory."""
    height, width = _as_size(size)
    if images.shape[1:3] == (height, width):
        return images
    result = np.empty((len(images), height, width, images.shape[3]), np.uint8)
    for row, image in zip(result, images, strict=True):
        resize_into(row, image)
    return result


def choose_size(headers: list[ImageHeader]) -> tuple[int, int]:
    """Return the (height, width) of most images, or the medians if no size has half of them.

    The size is scaled down so that the longer side is at most `MAX_SIDE`.
    """
    counts = Counter((height, width) for height, width, *_ in headers)
    most = max(counts.values())
    height, width = min(size for size in counts if counts[size] == most)
    if 2 * most < len(headers):
        height, width = np.median([one[:2] for one in headers], axis=0).tolist()
    scale = min(1.0, MAX_SIDE / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def _as_size(size: int | tuple[int, int]) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int | np.integer) else tuple(size)
    if len(sides) != 2:
        raise InputError("image_size", f"is {size!r}", "Pass pixels, or (height, width)")
    height, width = (check_whole_number(side, "image_size", low=1) for side in sides)
    return height, width


def _decode_to_disk(path: Path, decoder: _ImageDecoder) -> DecodedImages:
    """Open the images in `path`; decode them first unless the file is already complete."""
    cached_images = _open_cached(path, len(decoder))
    if cached_images is not None:
        return cached_images
    _make_folder(path.parent)
    missing_before = set(decoder.read_errors)
    with replace_file(path) as part:
        images, unreadable = decoder.decode(lambda shape: _create_cached_array(part, shape))
        # Images that vanished after hashing do not match the key.
        if vanished_files := sorted(set(decoder.read_errors) - missing_before):
            reason = decoder.read_errors[vanished_files[0]]
            raise FileError("images", f"changed while they were read ({reason})", "Try again")
        shape = (len(images) - len(unreadable), *images.shape[1:])
        if unreadable:
            _close_gaps(images, unreadable)
        images.flush()  # type: ignore[attr-defined]
        del images
        if unreadable:
            _truncate_array(part, shape)
        write_json(path.with_suffix(".json"), {"shape": shape, "unreadable": unreadable})
    cached_images = _open_cached(path, len(decoder))
    if cached_images is None:
        raise FileError(f"cache {str(path)!r}", "cannot be read back", "Pass cache=False")
    return cached_images


def _open_cached(path: Path, total: int) -> DecodedImages | None:
    """Open a complete cache of `total` images; None for a missing or invalid one."""
    try:
        about = read_json(path.with_suffix(".json"))
        shape = tuple(check_whole_number(n, "shape", low=0) for n in about["shape"])
        unreadable = {int(i): str(why) for i, why in about["unreadable"].items()}
        is_whole = len(shape) == 4 and shape[0] + len(unreadable) == total and shape[3] in (1, 3)
        if not is_whole or not unreadable.keys() <= set(range(total)):
            return None
        if 0 in shape:
            return DecodedImages(np.empty(shape, np.uint8), unreadable)
        images = open_array(path)
    except (FileError, InputError, ValueError, LookupError, TypeError, AttributeError):
        return None
    is_same = images.shape == shape and images.dtype == np.uint8
    return DecodedImages(images, unreadable) if is_same else None


def _create_cached_array(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.uint8]]:
    """Create an array on disk and reserve its space: a full disk fails now, not later."""
    try:
        return create_array(path, np.uint8, shape)
    except (OSError, FileError) as error:
        reason = error.__cause__ if isinstance(error, FileError) else error
        raise FileError(
            f"cache folder {str(path.parent)!r}",
            f"has no room for {np.prod(shape) / 2**20:,.0f} MiB ({first_line(reason or error)})",
            "Free some, choose another folder (cache, or UQLED_CACHE), or a smaller image_size",
        ) from error


def _close_gaps(images: NDArray[np.uint8], unreadable: dict[int, str]) -> None:
    """Move the readable rows to the front; the rest is truncated afterwards."""
    readable_rows = (row for row in range(len(images)) if row not in unreadable)
    for to, row in enumerate(readable_rows):
        if to != row:
            images[to] = images[row]


def _truncate_array(path: Path, shape: tuple[int, ...]) -> None:
    """Shorten an array on disk to `shape`."""
    with path.open("r+b") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        start = file.tell()
        file.seek(0)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        if file.tell() != start:
            raise FileError(f"cache {str(path)!r}", "has an unexpected header", "Pass cache=False")
        file.truncate(start + math.prod(shape))


def _make_folder(folder: Path) -> None:
    """Create the folder, and remove temporary files of killed processes from it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = None if os.access(folder, os.W_OK) else "cannot be written"
    except OSError as error:
        problem = f"cannot be created ({error.strerror})"
    if problem is not None:
        raise FileError(
            f"cache folder {str(folder)!r}",
            problem,
            "Choose another one (cache, or the environment's UQLED_CACHE), or none (cache=False)",
        )
    remove_leftovers(folder)
