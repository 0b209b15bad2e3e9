"""The content of a sample for reviewers: its picture, its text, or its row."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from uqled.data.images import identify_format
from uqled.report.samples import SampleSource
from uqled.report.thumbnails import make_thumbnail

_CACHE_BYTES = 1 << 26  # of thumbnails in memory
_THUMBNAIL = 256  # pixels of the longer side: sharp on a card, also on a screen of double density
_PREVIEW = 280  # characters of a text in the grid
_PREVIEW_FIELDS = 6  # of a row in the grid
_TEXT = 20_000  # characters of a text by itself
_FIELDS = 400  # of a row by itself

#: Formats that every browser shows as they are; others are sent as JPEG.
_BROWSER_FORMATS = {"JPEG": "jpeg", "PNG": "png", "GIF": "gif", "WEBP": "webp", "BMP": "bmp"}


class Pictures:
    """Images for a browser: the files themselves where there are some, not the model's input."""

    def __init__(self, source: SampleSource) -> None:
        self._source = source
        self._cache: OrderedDict[int, tuple[bytes, str]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read_thumbnail(self, index: int) -> tuple[bytes, str]:
        """(bytes, format) of a small picture, cached."""
        with self._lock:
            if index in self._cache:
                self._cache.move_to_end(index)
                return self._cache[index]
        small = self._source.make_thumbnail(index, _THUMBNAIL)
        with self._lock:
            if index not in self._cache:
                self._cache[index] = small.content, small.form
                self._bytes += len(small.content)
            while self._bytes > _CACHE_BYTES:
                self._bytes -= len(self._cache.popitem(last=False)[1][0])
        return small.content, small.form

    def read_whole(self, index: int) -> tuple[bytes, str]:
        """(bytes, format) of a picture in its own resolution."""
        data = self._source.read_file(index)
        form = None if data is None else _BROWSER_FORMATS.get(identify_format(data) or "")
        if data is not None and form is not None:
            return data, form
        pixels = self._source.data.inputs[index]
        side = max(pixels.shape[:2]) if data is None else 1 << 16
        picture = make_thumbnail(pixels if data is None else data, side)
        return picture.content, picture.form


def read_preview(source: SampleSource | None, index: int, *, leading: Sequence[str] = ()) -> Any:
    """For the grid: the beginning of a text, or some fields of a row, those of the columns in
    `leading` first; None for images."""
    return _read(source, index, _PREVIEW, _PREVIEW_FIELDS, leading)


def read_content(source: SampleSource | None, index: int) -> Any:
    """A text, or a row as [[name, value], ...]; None for images."""
    return _read(source, index, _TEXT, _FIELDS)


def _read(
    source: SampleSource | None,
    index: int,
    characters: int,
    fields: int,
    leading: Sequence[str] = (),
) -> Any:
    if source is None or source.kind == "images":
        return None
    if source.kind == "texts":
        return source.read_text(index, characters)
    return [list(pair) for pair in source.read_fields(index, fields, leading=leading)]
