"""What a reviewer sees of a sample: its picture, its text, or its row. Nothing but the data set's
own arrays is read, by the sample's number."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from uqled.data.dataset import Dataset
from uqled.report.thumbnails import Thumbnail, thumbnail

_KEPT_BYTES = 1 << 26  # of thumbnails in memory
_PREVIEW = 280  # characters of a text in the grid
_PREVIEW_FIELDS = 6  # of a row in the grid
_TEXT = 20_000  # characters of a text by itself
_FIELDS = 400  # of a row by itself


class Pictures:
    """Images as files for a browser, made when first asked for."""

    def __init__(self, data: Dataset) -> None:
        self._images = data.inputs
        self._kept: OrderedDict[int, Thumbnail] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def thumbnail(self, index: int) -> Thumbnail:
        """A small picture, kept for the next time."""
        with self._lock:
            if index in self._kept:
                self._kept.move_to_end(index)
                return self._kept[index]
        made = thumbnail(self._images[index])
        with self._lock:
            if index not in self._kept:
                self._kept[index] = made
                self._bytes += len(made.content)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1].content)
        return made

    def whole(self, index: int) -> Thumbnail:
        """The picture as the model saw it."""
        return thumbnail(self._images[index], max(self._images.shape[1:3]))


def preview(data: Dataset | None, index: int) -> Any:
    """For the grid: the beginning of a text, some fields of a row; None for images."""
    return _content(data, index, _PREVIEW, _PREVIEW_FIELDS)


def content(data: Dataset | None, index: int) -> Any:
    """A text, or a row as [[name, value], ...]; None for images."""
    return _content(data, index, _TEXT, _FIELDS)


def _content(data: Dataset | None, index: int, characters: int, fields: int) -> Any:
    if data is None or data.kind == "images":
        return None
    if data.kind == "texts":
        return _shortened(str(data.inputs[index]), characters)
    if hasattr(data.inputs, "columns"):
        names = [str(name) for name in data.inputs.columns[:fields]]
        values = [data.inputs.iat[index, at] for at in range(len(names))]
    else:
        values = data.inputs[index, :fields].tolist()
        names = [str(at) for at in range(len(values))]
    return [[name, _cell(value)] for name, value in zip(names, values, strict=True)]


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    return _shortened(text, _PREVIEW)


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
