"""Small pictures of samples, as a page holds them."""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Pixels of a thumbnail's longer side at the most.
SIDE = 160
#: Up to here every pixel is kept: JPEG would blur what is hardly there.
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
        """Enlarged on the page, pixel by pixel."""
        return max(self.width, self.height) <= SIDE // 2


def thumbnail(image: NDArray[np.uint8], side: int = SIDE) -> Thumbnail:
    """A picture [H,W,C] with one or three channels, its longer side at most `side` pixels."""
    from PIL import Image

    pixels: NDArray[Any] = image[..., 0] if image.shape[2] == 1 else image
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    form = "png" if max(picture.size) <= _LOSSLESS else "jpeg"
    file = io.BytesIO()
    picture.save(file, form, optimize=True, **({"quality": 82} if form == "jpeg" else {}))
    return Thumbnail(file.getvalue(), form, *picture.size)
