"""Decodes single pictures to bytes [H,W,C], and reads their headers.

JPEGs are decoded by simplejpeg if it is installed (the same pixels, many times faster for small
ones). Everything else, and whatever it refuses, goes to Pillow, which may open only the formats
listed here: PostScript, for one, would be handed to an external interpreter.
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

from uqled.data.dataset import blend_on_white
from uqled.limits import exceed_limit, get_limit
from uqled.storage.reading import first_line

try:
    import simplejpeg
except ImportError:
    simplejpeg = None

IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".tif", ".tiff"),
    *(".jp2", ".tga", ".pbm", ".pgm", ".pnm", ".ppm"),
)

#: Pillow's names for the formats of these endings, and its module for each. Targa comes last,
#: because its files have no signature.
_FORMATS = {
    **{"JPEG": "Jpeg", "PNG": "Png", "WEBP": "WebP", "AVIF": "Avif", "GIF": "Gif", "BMP": "Bmp"},
    **{"TIFF": "Tiff", "JPEG2000": "Jpeg2K", "PPM": "Ppm", "TGA": "Tga"},
}

_DEEP_MODES = frozenset(["I", "F", "I;16", "I;16B", "I;16L", "I;16N"])  # more than eight bits
_GREY_MODES = _DEEP_MODES | {"1", "L", "LA", "La"}
_ORIENTATION = ExifTags.Base.Orientation
_SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap height and width
_ORIENTATION_MARKS = (b"Exif", b"eXIf", b"EXIF", b":Orientation", b"Raw profile type")
"""Files with an orientation contain one of these near their beginning or end."""
_APP1 = b"\xff\xe1"  # marker of the JPEG segment that holds the orientation
_MAX_SCANS = 200  # of a progressive JPEG, which has about ten; each costs an attacker 31 bytes
_MAX_SEGMENTS = 1000  # before a JPEG's first scan, where there are about ten
_COUNTED_PIXELS = 1 << 18  # size from which a scan is slow enough that scans are counted
_SCRATCH_BYTES = 1 << 18
_SEARCHED_BYTES = 1 << 16  # at each end of a file, searched for orientation marks


def is_image_name(file: str) -> bool:
    """Whether a file name has the ending of an image."""
    return file[file.rfind(".") :].lower() in IMAGE_ENDINGS


class ImageHeader(NamedTuple):
    """What is known about a picture before it is decoded."""

    height: int
    width: int
    """As displayed, after the EXIF rotation."""
    grey: bool
    peak: float = 0.0
    """The largest value of a picture with more than eight bits, otherwise 0."""
    plain: bool = False
    """Whether simplejpeg returns the pixels as displayed."""


class UnreadableError(Exception):
    """A picture cannot be read; the text says why."""


@cache
def list_picture_formats() -> tuple[str, ...]:
    """Formats of `IMAGE_ENDINGS` that the installed Pillow supports, for its `formats` argument."""
    for plugin in _FORMATS.values():
        with suppress(ImportError):
            import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def identify_format(data: bytes) -> str | None:
    """Pillow's name for the format of an encoded picture; None if it is not supported."""
    return identify_image(data)[0]


def identify_image(data: bytes) -> tuple[str | None, tuple[int, int]]:
    """(format, width and height) of an encoded picture; (None, (0, 0)) if it is not one."""
    try:
        with Image.open(io.BytesIO(data), formats=list_picture_formats()) as picture:
            return picture.format, picture.size
    except Exception:  # third-party parsers may raise anything on damaged bytes
        return None, (0, 0)


@contextmanager
def allow_large_pictures() -> Iterator[None]:
    """Let Pillow open pictures up to the limit `image_pixels`, if that has been raised."""
    before, limit = Image.MAX_IMAGE_PIXELS, get_limit("image_pixels")
    if before is not None and limit > 2 * before:  # beyond that, Pillow refuses
        Image.MAX_IMAGE_PIXELS = limit
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def read_header(data: bytes) -> ImageHeader:
    """Read the size and colour of an encoded picture.

    A picture of more than eight bits is decoded to find its peak. One that exceeds the limits, or
    is crafted to take forever, is refused without decoding.
    """
    if not data:
        raise UnreadableError("is empty")
    try:
        if (header := _read_jpeg_header(data)) is not None:
            return header
        with _open_picture(data) as picture:
            return _read_picture_header(picture, data)
    except Exception as error:  # third-party parsers may raise anything on damaged bytes
        raise UnreadableError(_explain_failure(error)) from error


def decode_into(row: NDArray[np.uint8], data: bytes, header: ImageHeader, *, white: float) -> None:
    """Fill `row` [H,W,C] with a picture, resized if its size differs.

    `white` is the value that becomes 255 in pictures with more than eight bits.
    """
    height, width, channels = row.shape
    if header.plain and (header.height, header.width) == (height, width):
        try:
            simplejpeg.decode_jpeg(data, "RGB" if channels == 3 else "GRAY", buffer=row)
        except ValueError:
            pass  # Pillow tolerates some errors, and explains the rest
        else:
            return
    try:
        picture = _open_resized(
            data, header, (height, width), "RGB" if channels == 3 else "L", white
        )
        _fill_row(row, picture)
    except Exception as error:
        raise UnreadableError(_explain_failure(error)) from error


def decode_equal_jpegs(rows: NDArray[np.uint8], contents: list[bytes]) -> list[int]:
    """Fill rows [n,H,W,3] with JPEGs of exactly that size; return the rows left unfilled.

    This is the inner loop for small images. Rows aligned to 32 bytes (those of a `.npy`) are
    decoded into an unaligned buffer and copied: see `allocate_unaligned`.
    """
    is_aligned = rows.ctypes.data % 32 == 0
    step = max(1, _SCRATCH_BYTES // rows[0].nbytes) if is_aligned else len(rows)
    scratch = allocate_unaligned((step, *rows.shape[1:])) if is_aligned else rows
    shape, unfilled_rows, decode = rows.shape[1:], [], simplejpeg.decode_jpeg
    counts_scans, max_bytes = (
        shape[0] * shape[1] >= _COUNTED_PIXELS,
        2 * rows[0].nbytes + _SEARCHED_BYTES,
    )
    for start in range(0, len(rows), step):
        part = contents[start : start + step]
        for at, (row, data) in enumerate(zip(scratch, part, strict=False), start):
            try:
                # Tables right after the JFIF header, or no EXIF segment at all: it is not rotated.
                plain = data[20:22] == b"\xff\xdb" or data.find(_APP1, 0, _SEARCHED_BYTES) < 0
                if (
                    not plain
                    or len(data) > max_bytes
                    or (counts_scans and _has_many_scans(data))
                    or decode(data, buffer=row).shape != shape
                ):
                    unfilled_rows.append(at)
            except ValueError:
                unfilled_rows.append(at)
        if is_aligned:
            rows[start : start + len(part)] = scratch[: len(part)]
    return unfilled_rows


def allocate_unaligned(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Allocate memory for images that JPEGs decode into fastest.

    libjpeg-turbo bypasses the processor's cache if a line of pixels is aligned to 32 bytes, which
    costs a small image a sixth of its time.
    """
    size = math.prod(shape)
    memory = np.empty(size + 48, np.uint8)
    begin = (16 - memory.ctypes.data) % 32
    return memory[begin : begin + size].reshape(shape)


def resize_into(row: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> None:
    """Fill `row` [H,W,C] with pixels [h,w,C], resized."""
    _fill_row(row, Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0]))


def choose_white_level(peak: float) -> float:
    """Choose the value of white for pictures with more than eight bits, from their peak.

    It is the full scale of the smallest bit depth that holds the peak (8, 10, 12, 14 or 16), so
    that 12-bit pictures in 16-bit files do not come out dark. Floats up to 1 have white at 1.
    """
    if 0 < peak <= 1:
        return 1.0
    return next((2.0**bits - 1 for bits in (8, 10, 12, 14, 16) if peak < 2**bits), peak)


def _fill_row(row: NDArray[np.uint8], picture: Image.Image) -> None:
    height, width, _ = row.shape
    if picture.size != (width, height):
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    row[...] = np.asarray(picture).reshape(row.shape)


def _read_jpeg_header(data: bytes) -> ImageHeader | None:
    """Read the header of a JPEG that simplejpeg can decode; None for anything else."""
    if simplejpeg is None or data[:2] != b"\xff\xd8":
        return None
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return None
    _check_picture(data, height, width)
    if space not in ("YCbCr", "RGB", "Gray"):
        return None
    orientation = _read_orientation(data)
    if orientation in _SIDEWAYS:
        height, width = width, height
    return ImageHeader(height, width, space == "Gray", plain=orientation == 1)


def _open_picture(data: bytes) -> Image.Image:
    """Open a picture without decoding it, and check its size against the limit."""
    picture = Image.open(io.BytesIO(data), formats=list_picture_formats())
    try:
        _check_picture(data, picture.height, picture.width)
    except UnreadableError:
        picture.close()
        raise
    return picture


def _check_picture(data: bytes, height: int, width: int) -> None:
    """Refuse a picture that exceeds the pixel limit or takes very long to decode."""
    if height * width > get_limit("image_pixels"):
        raise UnreadableError(exceed_limit("image_pixels", f"{height * width:,}", "").problem)
    if height * width >= _COUNTED_PIXELS and data[:2] == b"\xff\xd8" and _has_many_scans(data):
        raise UnreadableError(f"has more than {_MAX_SCANS} scans, and a JPEG needs about ten")


def _has_many_scans(data: bytes) -> bool:
    """Whether a JPEG has too many scans: a few MB can hold a hundred thousand."""
    at, scans, components = 2, 0, 0
    for segment in itertools.count():
        at = data.find(b"\xff", at)
        if at < 0 or at + 10 > len(data):
            return False
        marker = data[at + 1]
        if marker == 0xD9:  # end of image; anything after it is not decoded
            return False
        if marker == 0xFF or marker <= 0x01 or 0xD0 <= marker <= 0xD8:  # markers without a length
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xC0, 0xC1):
            components = data[at + 9]
        elif marker == 0xDA:
            if not scans and data[at + 4] == components:  # not progressive, everything in one scan
                return False
            scans += 1
        if scans > _MAX_SCANS or (not scans and segment > _MAX_SEGMENTS):
            return True
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _read_picture_header(picture: Image.Image, data: bytes) -> ImageHeader:
    width, height = picture.size
    grey, peak = picture.mode in _GREY_MODES, 0.0
    if picture.mode in _DEEP_MODES:
        values = np.asarray(picture)
        if not np.isfinite(values).all():
            raise UnreadableError("holds values that are not finite")
        peak = float(values.max())
    if _read_orientation(data, picture) in _SIDEWAYS:
        height, width = width, height
    return ImageHeader(height, width, grey, peak)


def _open_resized(
    data: bytes, header: ImageHeader, size: tuple[int, int], mode: str, white: float
) -> Image.Image:
    """Decode the picture as displayed, in `mode`; a JPEG far larger than `size` is downscaled."""
    if simplejpeg is not None and data[:2] == b"\xff\xd8":
        orientation = 1 if header.plain else _read_orientation(data)
        raw = (
            (header.width, header.height)
            if orientation in _SIDEWAYS
            else (header.height, header.width)
        )
        target_size = size[::-1] if orientation in _SIDEWAYS else size
        shrink = _choose_shrink_factor(raw, target_size)
        try:
            pixels = simplejpeg.decode_jpeg(
                data,
                "RGB" if mode == "RGB" else "GRAY",
                min_height=-(-raw[0] // shrink),
                min_width=-(-raw[1] // shrink),
            )
        except ValueError:
            pass  # CMYK, broken, or unusual: left to Pillow
        else:
            picture = Image.fromarray(pixels if mode == "RGB" else pixels[..., 0])
            return _rotate_picture(picture, orientation)
    with _open_picture(data) as picture:
        if picture.format in ("JPEG", "MPO"):
            orientation = _read_orientation(data, picture)
            target_size = size[::-1] if orientation in _SIDEWAYS else size
            shrink = _choose_shrink_factor(picture.size[::-1], target_size)
            picture.draft(None, (picture.width // shrink, picture.height // shrink))
        picture.load()
        return _flatten_picture(ImageOps.exif_transpose(picture), mode, white)


def _flatten_picture(picture: Image.Image, mode: str, white: float) -> Image.Image:
    """Convert to eight bits per channel, without transparency."""
    if picture.mode in _DEEP_MODES:
        levels = np.asarray(picture).astype(np.float64) * (255 / white)
        return Image.fromarray(np.clip(np.rint(levels), 0, 255).astype(np.uint8)).convert(mode)
    if picture.has_transparency_data:
        picture = Image.fromarray(blend_on_white(np.asarray(picture.convert("RGBA"))))
    return picture.convert(mode)


def _choose_shrink_factor(raw: tuple[int, int], target_size: tuple[int, int]) -> int:
    """Choose the factor a JPEG decoder can shrink by and still give twice the target size."""
    room = min(raw[0] // (2 * target_size[0]), raw[1] // (2 * target_size[1]))
    return next((factor for factor in (8, 4, 2) if room >= factor), 1)


def _read_orientation(data: bytes, picture: Image.Image | None = None) -> int:
    """Read the EXIF orientation, 1 to 8. Pillow rotates TIFFs itself, so theirs is 1."""
    ends = (
        data
        if len(data) <= 2 * _SEARCHED_BYTES
        else data[:_SEARCHED_BYTES] + data[-_SEARCHED_BYTES:]
    )
    if not any(mark in ends for mark in _ORIENTATION_MARKS):
        return 1
    if picture is None:
        with _open_picture(data) as image_file:
            return _read_orientation(data, image_file)
    orientation: Any = 1 if picture.format == "TIFF" else picture.getexif().get(_ORIENTATION, 1)
    return int(orientation) if orientation in range(1, 9) else 1


def _rotate_picture(picture: Image.Image, orientation: int) -> Image.Image:
    if orientation == 1:
        return picture
    picture.getexif()[_ORIENTATION] = orientation
    return ImageOps.exif_transpose(picture)


def _explain_failure(error: Exception) -> str:
    if isinstance(error, UnreadableError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return "is not an image that Pillow can read"
    if isinstance(error, Image.DecompressionBombError):
        amount = f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,}"
        return exceed_limit("image_pixels", amount, "").problem
    return first_line(error)
