"""The samples as they are shown to people: a picture in its own resolution, a text, or a row."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset, Kind, is_frame
from uqled.data.image_cache import EncodedImages
from uqled.data.reopening import reopen_source
from uqled.errors import FileError
from uqled.report.thumbnails import SIDE, Thumbnail, make_thumbnail
from uqled.storage.run import Predictions

_CELL = 280  # characters of a table's value


@dataclass(frozen=True, eq=False)
class SampleSource:
    """N samples, read by index."""

    data: Dataset
    files: EncodedImages | None = None
    """Images as they are in files, not resized to the model's input."""
    rows: NDArray[Any] | None = None
    """[N] the position of each sample in `files`."""
    notes: list[str] = field(default_factory=list)
    """The changes in the source since the run was made, one sentence each."""

    @property
    def kind(self) -> Kind:
        return self.data.kind

    def read_file(self, index: int) -> bytes | None:
        """The file of an image; None where it has none, or it can no longer be read."""
        if self.files is None:
            return None
        with suppress(FileError):
            row = index if self.rows is None else int(self.rows[index])
            if row < 0:
                return None
            return self.files.read_image(row, str(self.data.ids[index]))
        return None

    def make_thumbnail(self, index: int, side: int = SIDE) -> Thumbnail:
        """A small picture of an image."""
        return make_thumbnail(self.read_file(index) or np.asarray(self.data.inputs[index]), side)

    def read_text(self, index: int, characters: int) -> str:
        """The beginning of a text."""
        return _shorten(str(self.data.inputs[index]), characters)

    def read_fields(
        self, index: int, n: int, *, leading: Sequence[str] = ()
    ) -> list[tuple[str, str]]:
        """(column, value) of `n` columns of a row, those in `leading` before the others."""
        inputs = self.data.inputs
        has_names = is_frame(inputs)
        names = list(map(str, inputs.columns if has_names else range(inputs.shape[1])))
        places = [names.index(name) for name in leading if name in names]
        places += [at for at in range(min(len(names), n)) if at not in places]
        cells = [
            (names[at], inputs.iat[index, at] if has_names else inputs[index, at].item())
            for at in places[:n]
        ]
        return [(name, _format_cell(value)) for name, value in cells]


def open_sample_source(predictions: Predictions) -> SampleSource | None:
    """The samples of a run, read again; None where they did not come from files."""
    source = reopen_source(predictions)
    if source is None:
        return None
    files = source.raw.inputs if isinstance(source.raw.inputs, EncodedImages) else None
    notes = source.describe_files()
    if len(source.relabelled_rows):
        notes.append(
            f"The data has other labels than when the run was made: {source.describe_changes()}. "
            "This report shows those of the run: detect again to see what is left."
        )
    return SampleSource(source.data, files, source.rows, notes)


def _format_cell(value: Any) -> str:
    return _shorten(f"{value:.6g}" if isinstance(value, float | np.floating) else str(value), _CELL)


def _shorten(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"
