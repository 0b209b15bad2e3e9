"""Images are decoded once, into a `.npy` on disk that is memory-mapped from then on.

The file's name is a hash of the encoded bytes of all images in their order and of the size they
are brought to, so it can be deleted at any time, and changed files never meet an old cache.
Beside it lies a `.json` with the images that cannot be read.
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
    allow_large_pictures,
    decode_alike,
    decode_into,
    off_boundary,
    read_header,
    resize_into,
    white_level,
)
from uqled.engines.local import Threads, count_cores
from uqled.errors import FileError, InputError
from uqled.limits import exceed_limit, get_limit
from uqled.progress import Progress
from uqled.storage.arrays.numpy_files import open_array
from uqled.storage.atomic import create_array, remove_leftovers, replace_file, write_json
from uqled.storage.reading import first_line, read_json

MAX_SIDE = 224
"""Pixels of the longer side, where the data chooses the size itself."""

_FORMAT = "1"  # of the cache: another number, and images are decoded again
_BLOCK = 64  # images that a thread takes at a time, at most
_HELD_BYTES = 1 << 28  # of encoded images, kept from hashing to decoding
_HELD_EACH = 1 << 20  # larger images are read again

New = Callable[[tuple[int, ...]], NDArray[np.uint8]]
Out = TypeVar("Out")


@dataclass(frozen=True)
class EncodedImages:
    """Images as files hold them."""

    read: Callable[[Any], bytes]
    """The bytes of one; an `OSError` or a `FileError` says why they cannot be had."""
    keys: NDArray[Any]
    """[N] what `read` takes."""
    find_file: Callable[[Any], Path | None] = lambda _: None
    """Where the image of a key lies on this machine, if it is a file."""

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, chosen: Any) -> EncodedImages:
        return EncodedImages(self.read, self.keys[chosen], self.find_file)

    def read_image(self, row: int, name: str) -> bytes:
        """The bytes of one, which are an image within the limits; `name` is for messages.

        A table can name any file of this machine: none gets out but as the image it is.
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
    """Images of one size."""

    images: NDArray[np.uint8]
    """[n,H,W,C], those that can be read."""
    unreadable: dict[int, str]
    """The others: index among all, and the reason."""


def cache_folder(cache: Path | str | None = None) -> Path:
    """`cache`, or the environment's UQLED_CACHE, or `uqled` in the user's cache folder."""
    if cache is None:
        cache = os.environ.get("UQLED_CACHE") or user_cache_path("uqled", appauthor=False)
    return Path(cache).expanduser()


def decode_images(
    encoded: EncodedImages,
    *,
    size: int | tuple[int, int] | None = None,
    cache: Path | str | bool | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> DecodedImages:
    """All images, resized to `size` or else to what `choose_size` says.

    One channel where every image is grey, otherwise three. `cache=False` decodes into memory.
    """
    target_size = None if size is None else _as_size(size)
    with (
        Threads(threads or count_cores()) as engine,
        warnings.catch_warnings(),
        allow_large_pictures(),
    ):
        warnings.filterwarnings("ignore", module=r"PIL\.")  # what matters is among the reasons
        work = _Work(encoded, target_size, engine, progress or Progress(False))
        if cache is False:
            images, unreadable = work.decode(off_boundary)
            readable = np.delete(images, list(unreadable), axis=0) if unreadable else images
            return DecodedImages(readable, unreadable)
        folder = cache_folder(None if cache is True else cache) / "images"
        return _on_disk(folder / f"{work.key()}.npy", work)


class _Work:
    """Images on their way from bytes to pixels."""

    def __init__(
        self,
        encoded: EncodedImages,
        size: tuple[int, int] | None,
        engine: Threads,
        progress: Progress,
    ) -> None:
        self._from, self._keys, self._size = encoded.read, encoded.keys.tolist(), size
        self._everything = range(len(encoded))
        self._engine, self._progress = engine, progress
        self._held: dict[int, bytes] = {}
        self.lost: dict[int, str] = {}
        """Images whose bytes could not be had, and why."""

    def __len__(self) -> int:
        return len(self._keys)

    def key(self) -> str:
        """A hash of the encoded bytes and the wanted size. Bytes are held while there is room."""

        def read(i: int) -> tuple[bytes, bytes]:
            try:
                data = hashed = self._read(i)
            except UnreadableError as error:
                data, hashed = b"", str(error).encode()
            small = len(data) <= _HELD_EACH  # many large ones wait for each other in memory
            return hashlib.blake2b(hashed, digest_size=16).digest(), data if small else b""

        whole = hashlib.blake2b(repr((_FORMAT, self._size)).encode(), digest_size=16)
        room = _HELD_BYTES
        for i, (digest, data) in enumerate(self._over("reading images", self._everything, read)):
            whole.update(digest)
            room -= len(data)
            if data and room >= 0:
                self._held[i] = data
        return whole.hexdigest()

    def decode(self, new: New) -> tuple[NDArray[np.uint8], dict[int, str]]:
        """`new(shape)` filled with all images, and which could not be read, and why."""
        n_filled = self._decode_alike(new)
        if n_filled is None:
            images, odd_images = None, list(self._everything)
        else:
            images, odd_images = n_filled
        looks = self._look(odd_images)
        headers = {i: header for i, header in looks.items() if isinstance(header, ImageHeader)}
        unreadable = {i: header for i, header in looks.items() if isinstance(header, str)}
        if images is None:
            images = new(self._shape(list(headers.values())))
        rows = images.view(np.ndarray)
        white = white_level(max((one.peak for one in headers.values()), default=0.0))

        def fill(i: int) -> str | None:
            try:
                decode_into(rows[i], self._read(i), headers[i], white=white)
            except UnreadableError as error:
                return str(error)
            return None

        filled_rows = [i for i in odd_images if i in headers]
        reasons = self._over("decoding images", filled_rows, fill)
        unreadable |= {i: why for i, why in zip(filled_rows, reasons, strict=True) if why}
        return images, dict(sorted(unreadable.items()))

    def _decode_alike(self, new: New) -> tuple[NDArray[np.uint8], list[int]] | None:
        """The short way where more than half are colour JPEGs like the first one.

        No header is read twice. Returns the images and the rows that are still to be filled.
        """
        first = self._look([0])[0]
        if isinstance(first, str) or not first.plain or first.grey:
            return None
        shape = self._shape([first])
        if shape[1:3] != (first.height, first.width):
            return None
        images = new(shape)
        rows = images.view(np.ndarray)

        def fill(block: Sequence[int]) -> list[int]:
            contents_of, read, keys = self._held, self._from, self._keys
            try:
                contents = [contents_of[i] if i in contents_of else read(keys[i]) for i in block]
            except (OSError, FileError):
                return list(block)
            unfilled_rows = decode_alike(rows[block[0] : block[-1] + 1], contents)
            return [block[at] for at in unfilled_rows]

        odd = [*self._over_blocks("decoding images", self._everything, fill)]
        return (images, odd) if 2 * len(odd) < len(rows) else None

    def _shape(self, headers: list[ImageHeader]) -> tuple[int, int, int, int]:
        height, width = self._size or (choose_size(headers) if headers else (1, 1))
        return len(self._keys), height, width, 1 if all(one.grey for one in headers) else 3

    def _look(self, rows: Sequence[int]) -> dict[int, ImageHeader | str]:
        def look_at(i: int) -> ImageHeader | str:
            try:
                return read_header(self._read(i))
            except UnreadableError as error:
                return str(error)

        return dict(zip(rows, self._over("looking at images", rows, look_at), strict=True))

    def _read(self, i: int) -> bytes:
        try:
            data = self._held.get(i) or self._from(self._keys[i])
        except FileNotFoundError as error:
            self.lost[i] = "is not there"
            raise UnreadableError(self.lost[i]) from error
        except OSError as error:
            self.lost[i] = first_line(error)
            raise UnreadableError(self.lost[i]) from error
        except FileError as error:  # a pipe, a device, too large, a damaged member of an archive
            self.lost[i] = error.problem
            raise UnreadableError(self.lost[i]) from error
        if len(data) > get_limit("image_bytes"):
            raise UnreadableError(exceed_limit("image_bytes", f"{len(data):,}", "").problem)
        return data

    def _over(
        self, stage: str, rows: Sequence[int], function: Callable[[int], Out]
    ) -> Iterator[Out]:
        """Yield `function` of each row, in order."""
        return self._over_blocks(stage, rows, lambda block: [function(i) for i in block])

    def _over_blocks(
        self, stage: str, rows: Sequence[int], function: Callable[[Sequence[int]], list[Out]]
    ) -> Iterator[Out]:
        """Yield what `function` makes of the rows, in order; blocks of rows go to threads."""
        size = max(1, min(_BLOCK, len(rows) // (4 * self._engine.threads)))
        blocks = (rows[start : start + size] for start in range(0, len(rows), size))
        with self._progress.stage(stage, len(rows)) as advance:
            for block, part in self._engine.map(lambda block: (block, function(block)), blocks):
                yield from part
                advance(len(block))


def resize_images(images: NDArray[np.uint8], size: int | tuple[int, int]) -> NDArray[np.uint8]:
    """Images [N,H,W,C] in memory at another size."""
    height, width = _as_size(size)
    if images.shape[1:3] == (height, width):
        return images
    result = np.empty((len(images), height, width, images.shape[3]), np.uint8)
    for row, image in zip(result, images, strict=True):
        resize_into(row, image)
    return result


def choose_size(headers: list[ImageHeader]) -> tuple[int, int]:
    """(height, width) of most images, or the medians where no size has half of them.

    Shrunk in proportion so that the longer side is at most `MAX_SIDE`.
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


def _on_disk(path: Path, work: _Work) -> DecodedImages:
    """The images in `path`, decoded into it unless it is there and whole."""
    cached_images = _open(path, len(work))
    if cached_images is not None:
        return cached_images
    _make_folder(path.parent)
    lost_images = set(work.lost)
    with replace_file(path) as part:
        images, unreadable = work.decode(lambda shape: _new_array(part, shape))
        if late := sorted(
            set(work.lost) - lost_images
        ):  # nothing that could be kept under this key
            raise FileError(
                "images", f"changed while they were read ({work.lost[late[0]]})", "Try again"
            )
        shape = (len(images) - len(unreadable), *images.shape[1:])
        if unreadable:
            _move_together(images, unreadable)
        images.flush()  # type: ignore[attr-defined]
        del images
        if unreadable:
            _cut_array(part, shape)
        write_json(path.with_suffix(".json"), {"shape": shape, "unreadable": unreadable})
    cached_images = _open(path, len(work))
    if cached_images is None:
        raise FileError(f"cache {str(path)!r}", "cannot be read back", "Pass cache=False")
    return cached_images


def _open(path: Path, total: int) -> DecodedImages | None:
    """A whole cache of `total` images, or None: whatever else lies there is not believed."""
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


def _new_array(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.uint8]]:
    """An array on disk whose space is reserved: a full disk is an error now, not a crash later."""
    try:
        return create_array(path, np.uint8, shape)
    except (OSError, FileError) as error:
        reason = error.__cause__ if isinstance(error, FileError) else error
        raise FileError(
            f"cache folder {str(path.parent)!r}",
            f"has no room for {np.prod(shape) / 2**20:,.0f} MiB ({first_line(reason or error)})",
            "Free some, choose another folder (cache, or UQLED_CACHE), or a smaller image_size",
        ) from error


def _move_together(images: NDArray[np.uint8], unreadable: dict[int, str]) -> None:
    """Close the gaps that some rows leave; what remains at the end is to be cut off."""
    readable_rows = (row for row in range(len(images)) if row not in unreadable)
    for to, row in enumerate(readable_rows):
        if to != row:
            images[to] = images[row]


def _cut_array(path: Path, shape: tuple[int, ...]) -> None:
    """Make an array on disk as short as `shape` says."""
    with path.open("r+b") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        start = file.tell()
        file.seek(0)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        if file.tell() != start:
            raise FileError(f"cache {str(path)!r}", "has another header", "Pass cache=False")
        file.truncate(start + math.prod(shape))


def _make_folder(folder: Path) -> None:
    """Make the folder, and remove what processes that were killed left in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = None if os.access(folder, os.W_OK) else "cannot be written"
    except OSError as error:
        problem = f"cannot be made ({error.strerror})"
    if problem is not None:
        raise FileError(
            f"cache folder {str(folder)!r}",
            problem,
            "Choose another one (cache, or the environment's UQLED_CACHE), or none (cache=False)",
        )
    remove_leftovers(folder)
