"""Encoded pictures of any kind to bytes [H,W,C]: what a header says, and one picture decoded.

JPEGs go to simplejpeg where it is installed (the same pixels, many times faster for small ones),
everything else and whatever it refuses to Pillow, which opens these few formats and no others:
PostScript, for one, would be handed to an interpreter of its own.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from uqled.data.dataset import on_white
from uqled.limits import exceed_limit, get_limit
from uqled.storage.reading import first_line

try:
    import simplejpeg
except ImportError:
    simplejpeg = None

ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".tif", ".tiff"),
    *(".jp2", ".tga", ".pbm", ".pgm", ".pnm", ".ppm"),
)

#: What Pillow calls the formats of these endings, and its module for each. Targa comes last: its
#: files do not say what they are.
_FORMATS = {
    **{"JPEG": "Jpeg", "PNG": "Png", "WEBP": "WebP", "AVIF": "Avif", "GIF": "Gif", "BMP": "Bmp"},
    **{"TIFF": "Tiff", "JPEG2000": "Jpeg2K", "PPM": "Ppm", "TGA": "Tga"},
}

_DEEP_MODES = frozenset(["I", "F", "I;16", "I;16B", "I;16L", "I;16N"])  # more than eight bits
_GREY_MODES = _DEEP_MODES | {"1", "L", "LA", "La"}
_ORIENTATION = ExifTags.Base.Orientation
_ON_THE_SIDE = (5, 6, 7, 8)  # orientations that swap height and width
_TURNED = (b"Exif", b"eXIf", b"EXIF", b":Orientation", b"Raw profile type")
"""What files that say how they are turned contain, near their beginning or end."""
_APP1 = b"\xff\xe1"  # the part of a JPEG where it is said
_MOST_SCANS = 200  # of a progressive JPEG, which has about ten; 31 bytes can be one more
_MOST_SEGMENTS = 1000  # before a JPEG's first scan, where there are about ten
_COUNTED_PIXELS = 1 << 18  # from which on a scan takes long enough to count them
_SCRATCH_BYTES = 1 << 18
_ENDS = 1 << 16  # bytes searched for that


def is_image_name(file: str) -> bool:
    """Whether a file's name ends like an image's."""
    return file[file.rfind(".") :].lower() in ENDINGS


class ImageHeader(NamedTuple):
    """What is known of a picture before it is decoded."""

    height: int
    width: int
    """As it is shown: after the EXIF rotation."""
    grey: bool
    peak: float = 0.0
    """The largest value of a picture with more than eight bits, otherwise 0."""
    plain: bool = False
    """simplejpeg gives the pixels as they are shown."""


class UnreadableError(Exception):
    """Why a picture cannot be read, for people."""


@cache
def list_picture_formats() -> tuple[str, ...]:
    """The formats that are opened, for Pillow's `formats`: those of `ENDINGS` that it has here."""
    for plugin in _FORMATS.values():
        with suppress(ImportError):
            import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def identify_format(data: bytes) -> str | None:
    """What Pillow calls the format of an encoded picture; None if it is none that is opened."""
    return identify_image(data)[0]


def identify_image(data: bytes) -> tuple[str | None, tuple[int, int]]:
    """(format, width and height) of an encoded picture; (None, (0, 0)) if it is none."""
    try:
        with Image.open(io.BytesIO(data), formats=list_picture_formats()) as picture:
            return picture.format, picture.size
    except Exception:  # parsers of third parties on any bytes
        return None, (0, 0)


@contextmanager
def allow_large_pictures() -> Iterator[None]:
    """Let Pillow open what the limit `image_pixels` allows where somebody has raised it."""
    before, most = Image.MAX_IMAGE_PIXELS, get_limit("image_pixels")
    if before is not None and most > 2 * before:  # from which on Pillow refuses
        Image.MAX_IMAGE_PIXELS = most
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def read_header(data: bytes) -> ImageHeader:
    """Size and colour of an encoded picture; deeper than eight bits is decoded for its peak.

    One that is larger than the limits, or made to take forever, is not decoded at all.
    """
    if not data:
        raise UnreadableError("is empty")
    try:
        if (header := _look_at_jpeg(data)) is not None:
            return header
        with _open_picture(data) as picture:
            return _look_at(picture, data)
    except Exception as error:  # parsers of third parties on any bytes
        raise UnreadableError(_reason(error)) from error


def decode_into(row: NDArray[np.uint8], data: bytes, header: ImageHeader, *, white: float) -> None:
    """Fill `row` [H,W,C] with a picture, resized where its size is another.

    `white` is the value that becomes 255 in pictures with more than eight bits.
    """
    height, width, channels = row.shape
    if header.plain and (header.height, header.width) == (height, width):
        try:
            simplejpeg.decode_jpeg(data, "RGB" if channels == 3 else "GRAY", buffer=row)
        except ValueError:
            pass  # Pillow forgives some, and explains the rest
        else:
            return
    try:
        picture = _open_resized(
            data, header, (height, width), "RGB" if channels == 3 else "L", white
        )
        _fill(row, picture)
    except Exception as error:
        raise UnreadableError(_reason(error)) from error


def decode_alike(rows: NDArray[np.uint8], contents: list[bytes]) -> list[int]:
    """Fill rows [n,H,W,3] with JPEGs of just that size; those that are not so stay unfilled.

    Returns which did. The inner loop for small images. Rows that lie on a boundary of 32 bytes
    (those of a `.npy`) are decoded a few at a time beside it, and copied: see `off_boundary`.
    """
    is_on_boundary = rows.ctypes.data % 32 == 0
    step = max(1, _SCRATCH_BYTES // rows[0].nbytes) if is_on_boundary else len(rows)
    scratch = off_boundary((step, *rows.shape[1:])) if is_on_boundary else rows
    shape, unfilled_rows, decode = rows.shape[1:], [], simplejpeg.decode_jpeg
    counts_scans, most = shape[0] * shape[1] >= _COUNTED_PIXELS, 2 * rows[0].nbytes + _ENDS
    for start in range(0, len(rows), step):
        part = contents[start : start + step]
        for at, (row, data) in enumerate(zip(scratch, part, strict=False), start):
            try:
                # Tables right after the JFIF header, or no EXIF part anywhere: nothing turns it.
                plain = data[20:22] == b"\xff\xdb" or data.find(_APP1, 0, _ENDS) < 0
                if (
                    not plain
                    or len(data) > most
                    or (counts_scans and _has_many_scans(data))
                    or decode(data, buffer=row).shape != shape
                ):
                    unfilled_rows.append(at)
            except ValueError:
                unfilled_rows.append(at)
        if is_on_boundary:
            rows[start : start + len(part)] = scratch[: len(part)]
    return unfilled_rows


def off_boundary(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """New memory for images, where a JPEG decodes fastest.

    libjpeg-turbo writes past the processor's cache where a line of pixels begins on a boundary of
    32 bytes. That costs a small image a sixth of its time.
    """
    size = math.prod(shape)
    memory = np.empty(size + 48, np.uint8)
    begin = (16 - memory.ctypes.data) % 32
    return memory[begin : begin + size].reshape(shape)


def resize_into(row: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> None:
    """Fill `row` [H,W,C] with pixels [h,w,C] of another size."""
    _fill(row, Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0]))


def white_level(peak: float) -> float:
    """The value of white among pictures with more than eight bits, of their largest value.

    The full scale of the fewest bits that hold it (8, 10, 12, 14 or 16): 12-bit pictures in
    16-bit files are not all dark. Floats up to 1 have white at 1.
    """
    if 0 < peak <= 1:
        return 1.0
    return next((2.0**bits - 1 for bits in (8, 10, 12, 14, 16) if peak < 2**bits), peak)


def _fill(row: NDArray[np.uint8], picture: Image.Image) -> None:
    height, width, _ = row.shape
    if picture.size != (width, height):
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    row[...] = np.asarray(picture).reshape(row.shape)


def _look_at_jpeg(data: bytes) -> ImageHeader | None:
    """What simplejpeg can decode itself."""
    if simplejpeg is None or data[:2] != b"\xff\xd8":
        return None
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return None
    _check_picture(data, height, width)
    if space not in ("YCbCr", "RGB", "Gray"):
        return None
    orientation = _orientation(data)
    if orientation in _ON_THE_SIDE:
        height, width = width, height
    return ImageHeader(height, width, space == "Gray", plain=orientation == 1)


def _open_picture(data: bytes) -> Image.Image:
    """A picture whose header is read, and no pixel: it is not larger than the limit."""
    picture = Image.open(io.BytesIO(data), formats=list_picture_formats())
    try:
        _check_picture(data, picture.height, picture.width)
    except UnreadableError:
        picture.close()
        raise
    return picture


def _check_picture(data: bytes, height: int, width: int) -> None:
    """Refuse what would take more memory than the limit allows, or very long."""
    if height * width > get_limit("image_pixels"):
        raise UnreadableError(exceed_limit("image_pixels", f"{height * width:,}", "").problem)
    if height * width >= _COUNTED_PIXELS and data[:2] == b"\xff\xd8" and _has_many_scans(data):
        raise UnreadableError(f"has more than {_MOST_SCANS} scans, and a JPEG needs about ten")


def _has_many_scans(data: bytes) -> bool:
    """If a JPEG goes over its pixels again and again: a hundred thousand times in a few MB."""
    at, scans, components = 2, 0, 0
    for segment in itertools.count():
        at = data.find(b"\xff", at)
        if at < 0 or at + 10 > len(data):
            return False
        marker = data[at + 1]
        if marker == 0xD9:  # the end; what is behind it is not decoded
            return False
        if marker == 0xFF or marker <= 0x01 or 0xD0 <= marker <= 0xD8:  # without a length
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xC0, 0xC1):
            components = data[at + 9]
        elif marker == 0xDA:
            if not scans and data[at + 4] == components:  # not progressive, and all in one scan
                return False
            scans += 1
        if scans > _MOST_SCANS or (not scans and segment > _MOST_SEGMENTS):
            return True
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _look_at(picture: Image.Image, data: bytes) -> ImageHeader:
    width, height = picture.size
    grey, peak = picture.mode in _GREY_MODES, 0.0
    if picture.mode in _DEEP_MODES:
        values = np.asarray(picture)
        if not np.isfinite(values).all():
            raise UnreadableError("holds values that are not finite")
        peak = float(values.max())
    if _orientation(data, picture) in _ON_THE_SIDE:
        height, width = width, height
    return ImageHeader(height, width, grey, peak)


def _open_resized(
    data: bytes, header: ImageHeader, size: tuple[int, int], mode: str, white: float
) -> Image.Image:
    """The picture as it is shown, in `mode`; a JPEG far larger than `size` is decoded smaller."""
    if simplejpeg is not None and data[:2] == b"\xff\xd8":
        orientation = 1 if header.plain else _orientation(data)
        raw = (
            (header.width, header.height)
            if orientation in _ON_THE_SIDE
            else (header.height, header.width)
        )
        target_size = size[::-1] if orientation in _ON_THE_SIDE else size
        shrink = _shrink(raw, target_size)
        try:
            pixels = simplejpeg.decode_jpeg(
                data,
                "RGB" if mode == "RGB" else "GRAY",
                min_height=-(-raw[0] // shrink),
                min_width=-(-raw[1] // shrink),
            )
        except ValueError:
            pass  # CMYK, broken, or unusual: Pillow's
        else:
            picture = Image.fromarray(pixels if mode == "RGB" else pixels[..., 0])
            return _rotate(picture, orientation)
    with _open_picture(data) as picture:
        if picture.format in ("JPEG", "MPO"):
            orientation = _orientation(data, picture)
            target_size = size[::-1] if orientation in _ON_THE_SIDE else size
            shrink = _shrink(picture.size[::-1], target_size)
            picture.draft(None, (picture.width // shrink, picture.height // shrink))
        picture.load()
        return _flat(ImageOps.exif_transpose(picture), mode, white)


def _flat(picture: Image.Image, mode: str, white: float) -> Image.Image:
    """Eight bits per channel, grey or colours, nothing transparent."""
    if picture.mode in _DEEP_MODES:
        levels = np.asarray(picture).astype(np.float64) * (255 / white)
        return Image.fromarray(np.clip(np.rint(levels), 0, 255).astype(np.uint8)).convert(mode)
    if picture.has_transparency_data:
        picture = Image.fromarray(on_white(np.asarray(picture.convert("RGBA"))))
    return picture.convert(mode)


def _shrink(raw: tuple[int, int], target_size: tuple[int, int]) -> int:
    """By what a JPEG can be shrunk while it is decoded, twice as large as wanted or larger."""
    room = min(raw[0] // (2 * target_size[0]), raw[1] // (2 * target_size[1]))
    return next((factor for factor in (8, 4, 2) if room >= factor), 1)


def _orientation(data: bytes, picture: Image.Image | None = None) -> int:
    """The EXIF orientation, 1 to 8; nearly free where none is given. TIFFs are turned by Pillow."""
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
    if not any(mark in ends for mark in _TURNED):
        return 1
    if picture is None:
        with _open_picture(data) as opened:
            return _orientation(data, opened)
    orientation: Any = 1 if picture.format == "TIFF" else picture.getexif().get(_ORIENTATION, 1)
    return int(orientation) if orientation in range(1, 9) else 1


def _rotate(picture: Image.Image, orientation: int) -> Image.Image:
    if orientation == 1:
        return picture
    picture.getexif()[_ORIENTATION] = orientation
    return ImageOps.exif_transpose(picture)


def _reason(error: Exception) -> str:
    if isinstance(error, UnreadableError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return "is no image that Pillow knows"
    if isinstance(error, Image.DecompressionBombError):
        amount = f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,}"
        return exceed_limit("image_pixels", amount, "").problem
    return first_line(error)
