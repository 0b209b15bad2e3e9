"""Pictures for the tests of the data room, made from a seed, sound and broken."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from uqled.data.image_cache import EncodedImages

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255,) * 3, (0,) * 3


def encode(picture, form="PNG", **options):
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def source(*contents):
    return EncodedImages(lambda i: contents[i], np.arange(len(contents)))


def four_corners(width=32, height=16):
    """Red, green, blue and white in the corners, read as text is."""
    picture = Image.new("RGB", (width, height))
    for colour, box in (
        (RED, (0, 0, width // 2, height // 2)),
        (GREEN, (width // 2, 0, width, height // 2)),
        (BLUE, (0, height // 2, width // 2, height)),
        (WHITE, (width // 2, height // 2, width, height)),
    ):
        picture.paste(colour, box)
    return picture


def photo(seed=0, width=32, height=32):
    """A smooth picture with all frequencies that JPEG keeps, and some that it does not."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8)).resize((width, height))
    noise = rng.integers(-20, 21, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(coarse) + noise, 0, 255).astype(np.uint8))


def broken_files():
    """Contents, and what the reason must say."""
    jpeg, png = encode(photo(), "JPEG"), encode(photo())
    return {
        "cut.jpg": (jpeg[:-50], "truncated"),
        "half.jpg": (jpeg[: len(jpeg) // 2], "truncated"),
        "cut.png": (png[: len(png) // 2], "truncated"),
        "empty.png": (b"", "is empty"),
        "page.png": (b"<html>not found</html>", "not an image"),
        "head.jpg": (jpeg[:20], ""),
    }


def folder_of(tmp_path, **files):
    for name, content in files.items():
        path = tmp_path / "data" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "data"


def classes_of(tmp_path, extra=()):
    files = {f"{c}__{n}_dot_png": encode(photo(10 * c + n)) for c in range(2) for n in range(3)}
    folder = folder_of(tmp_path, **files)
    for name, content in extra:
        (folder / "1" / name).write_bytes(content)
    return folder
