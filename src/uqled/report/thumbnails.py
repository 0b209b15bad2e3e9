"""Small pictures of samples, as a page holds them."""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from uqled.data.images import allow_large_pictures, list_picture_formats

#: Pixels of a thumbnail's longer side at the most.
SIDE = 160
_TINY_SIDE = (
    40  # pixels up to which each is drawn as a square; larger pictures are clearer smoothed
)
#: Pixels up to which a picture is a PNG: JPEG would blur what little there is to see.
_LOSSLESS = 64


@dataclass(frozen=True)
class Thumbnail:
    """An encoded picture."""

    content: bytes
    form: str
    """`png` or `jpeg`."""
    width: int
    height: int

    @property
    def data_uri(self) -> str:
        return f"data:image/{self.form};base64,{b64encode(self.content).decode()}"

    @property
    def is_small(self) -> bool:
        """Whether the page enlarges it without smoothing."""
        return max(self.width, self.height) <= _TINY_SIDE


def make_thumbnail(image: NDArray[np.uint8] | bytes, side: int = SIDE) -> Thumbnail:
    """A picture whose longer side has at most `side` pixels.

    `image` is pixels [H,W,C] with one or three channels, or a file's bytes: those that
    `EncodedImages.read_image` returned, within the limits.
    """
    picture = _open_file(image, side) if isinstance(image, bytes) else _open_pixels(image)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    form = "png" if max(picture.size) <= _LOSSLESS else "jpeg"
    file = io.BytesIO()
    picture.save(file, form, optimize=True, **({"quality": 82} if form == "jpeg" else {}))
    return Thumbnail(file.getvalue(), form, *picture.size)


def _open_pixels(pixels: NDArray[np.uint8]) -> Image.Image:
    image: NDArray[Any] = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(image))


def _open_file(data: bytes, side: int) -> Image.Image:
    """A file's picture as it is meant to be seen, not much larger than needed."""
    with (
        allow_large_pictures(),
        Image.open(io.BytesIO(data), formats=list_picture_formats()) as picture,
    ):
        picture.draft("RGB", (side, side))  # decodes a JPEG at half its size or less
        upright = ImageOps.exif_transpose(picture)
        return upright.convert("L" if upright.mode in ("1", "L", "LA") else "RGB")
