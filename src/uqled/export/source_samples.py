"""The samples of a run in their original form: original bytes and columns, nothing resized."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Kind, take_rows
from uqled.data.image_cache import EncodedImages
from uqled.data.images import IMAGE_ENDINGS, identify_format
from uqled.data.raw_dataset import RawDataset, is_dataset_name, name_source
from uqled.data.reader import Source
from uqled.data.readers import find_reader
from uqled.data.reopening import make_request, reopen_source
from uqled.data.tables.byte_columns import decode_byte_columns
from uqled.data.tables.table import select_split
from uqled.data.tables.table_files import is_csv, read_csv, read_csv_start
from uqled.data.tables.table_images import list_image_types
from uqled.data.tables.text_dialect import Dialect, detect_dialect
from uqled.errors import FileError, InputError
from uqled.storage.reading import explain_file_problems
from uqled.storage.run import Predictions

_STYLE_BYTES = 1 << 16  # bytes of a CSV that show how it is written
_ENDINGS = {"JPEG": ".jpg", "MPO": ".jpg", "TIFF": ".tif", "JPEG2000": ".jp2", "PPM": ".ppm"}


@dataclass(frozen=True, eq=False)
class SourceSamples:
    """The samples of a run, read again."""

    ids: list[str]
    raw: RawDataset
    """All that the source holds; images still encoded where files hold them so."""
    rows: NDArray[np.intp]
    """[N] the position of each sample in `raw`, ascending."""
    codes: NDArray[np.int32]
    """[N] the run's class number of the label that the source has now."""
    source: dict[str, Any]
    missing: list[int] = field(default_factory=list)
    """The samples whose file no longer exists."""
    notes: list[str] = field(default_factory=list)
    """Which files no longer exist and which were added since the run was made, one sentence
    each."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def kind(self) -> Kind:
        return self.raw.kind

    def read_image(self, index: int) -> tuple[bytes, str]:
        """An image as a file: its own bytes and their ending, or a PNG of its pixels."""
        inputs, row = self.raw.inputs, self.rows[index]
        if not isinstance(inputs, EncodedImages):
            return _encode_png(inputs[row]), ".png"
        data = inputs.read_image(row, self.ids[index])
        return data, _choose_ending(self.ids[index], data)

    def list_table_rows(
        self, kept_samples: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """(rows of `raw` that a table keeps, ascending; which of them the run had set aside).

        `kept_samples` are those that stay. Rows without a label, of a class that is too rare or
        whose image cannot be read stay as they are. Of a part of the data, only that part is kept.
        """
        source_rows = self.rows[kept_samples]
        is_aside = np.ones(len(self.raw.ids), np.bool_)
        is_aside[self.rows[self.rows >= 0]] = False
        if self.source["limit"] is not None:
            is_aside[:] = False
        rows = np.sort(np.concatenate([source_rows, np.flatnonzero(is_aside)]))
        return rows, is_aside[rows]

    def find_file(self, index: int) -> Path | None:
        """The path of a sample's own file on this machine, if it has one."""
        inputs = self.raw.inputs
        if not isinstance(inputs, EncodedImages):
            return None
        return inputs.find_file(inputs.keys[self.rows[index]])

    def get_file_name(self, index: int) -> str:
        """The name of a sample's file, without folders; empty if it has none."""
        name = PurePosixPath(self.ids[index].replace("\\", "/")).name
        return name if name.lower().endswith(IMAGE_ENDINGS) else ""

    def read_inputs(self, rows: NDArray[np.intp]) -> Any:
        """Texts, features or pixels of some samples."""
        return take_rows(self.raw.inputs, self.rows[rows])


def read_source_samples(predictions: Predictions) -> SourceSamples:
    """The samples of a run; refused where they did not come of files, or have changed since."""
    source = predictions.source
    if source is None:
        raise InputError(
            f"run {str(predictions.path)!r}",
            "was made from arrays in memory, so its samples cannot be read again",
            "Export csv, parquet or cleanlab, or use uqled.clean(dataset, errors, decisions)",
        )
    again = reopen_source(predictions)
    assert again is not None
    if len(again.relabelled_rows):
        raise FileError(
            name_source(source["place"]),
            f"has other labels than when run {str(predictions.path)!r} was made: "
            f"{again.describe_changes()}",
            "Put them back as they were, or run the detection again in another folder: an export "
            "would undo your corrections",
        )
    missing = np.flatnonzero(again.rows < 0).tolist()
    return SourceSamples(
        predictions.ids,
        again.raw,
        again.rows,
        again.codes,
        source,
        missing,
        again.describe_files(),
    )


@dataclass(frozen=True, eq=False)
class SourceTable:
    """The table that samples came from, with all its columns."""

    table: Any
    """pyarrow; its rows are those of `SourceSamples.raw`."""
    label: str

    def iterate_batches(self, rows: NDArray[np.intp], size: int) -> Iterator[Any]:
        """The given rows, ascending, in parts of at most `size` rows of the source."""
        is_kept = np.zeros(self.table.num_rows, np.bool_)
        is_kept[rows] = True
        for start in range(0, len(is_kept), size):
            mask = is_kept[start : start + size]
            if mask.any():
                yield self.table.slice(start, size).filter(mask)


def read_source_table(samples: SourceSamples | None) -> SourceTable | None:
    """The table that a run's samples came from; None where it was no table."""
    if samples is None:
        return None
    source = samples.source
    with explain_file_problems(source["place"]):
        table = _read_arrow(source)
        if table is None:
            return None
        in_place = not str(source["place"]).startswith("hf:") and not Path(source["place"]).is_dir()
        if in_place and source["split"] is not None and "split" in table.column_names:
            column = table.column("split").to_pandas()
            table = table.take(select_split(column, source["split"], source["place"]))
    _check_unchanged(table.num_rows, samples)
    return SourceTable(table, "label" if source["label"] is None else source["label"])


def find_image_column(source_table: SourceTable, samples: SourceSamples) -> str:
    """The column of a table that its images came from: bytes, or paths."""
    column = samples.source["inputs"]
    if column is not None:
        return column if isinstance(column, str) else str(column[0])
    names = find_image_columns(source_table.table)
    if names:
        return names[0]
    folder, keys = Path(samples.source["place"]).parent, samples.raw.inputs.keys.tolist()
    for name in source_table.table.column_names:
        column = source_table.table.column(name).to_pylist()
        if [os.path.normpath(folder / str(path).strip()) for path in column] == keys:
            return str(name)
    raise InputError("inputs", "are in no column of the table", "Name the column: inputs='...'")


def find_image_columns(table: Any) -> list[str]:
    """Columns of encoded images: bytes that are no text, or the hub's pairs of bytes and path."""
    return list_image_types(decode_byte_columns(table).schema)


@dataclass(frozen=True, eq=False)
class CsvText:
    """A CSV as it is written, all texts."""

    frame: Any
    """pandas, its columns numbered; its rows are those of `SourceSamples.raw`."""
    header: list[str] | None
    """None where the file does not name its columns."""
    label: str
    """The column of labels, as pandas calls it."""
    label_column: int
    """Its number."""
    dialect: Dialect
    positions: NDArray[np.intp]
    """Where the rows lie among all rows of the file."""


def read_csv_text(samples: SourceSamples | None) -> CsvText | None:
    """The rows of a CSV as they are written; None where the source is no CSV."""
    if samples is None or not is_csv(samples.source["place"]):
        return None
    source, file = samples.source, samples.source["place"]
    dialect = detect_dialect(
        file,
        encoding=source["encoding"],
        separator=source["separator"],
        header=source["header"],
    )
    frame = read_csv(file, dialect, header=None, dtype=str, keep_default_na=False)
    header = None
    if dialect.has_header:
        header, frame = frame.iloc[0].tolist(), frame.iloc[1:].reset_index(drop=True)
    positions = np.arange(len(frame))
    if source["split"] is not None:
        column = read_csv(file, dialect, usecols=["split"])["split"]
        positions = select_split(column, source["split"], file)
        frame = frame.iloc[positions].reset_index(drop=True)
    _check_unchanged(len(frame), samples)
    # As pandas names the columns: columns with the same name are numbered.
    names = read_csv(file, dialect, nrows=0).columns.tolist()
    label = "label" if source["label"] is None else source["label"]
    return CsvText(frame, header, label, names.index(label), dialect, positions)


def detect_csv_style(source: dict[str, Any] | None) -> dict[str, str]:
    """How a CSV ends its lines and begins: what `to_csv` needs to write one like it."""
    if source is None or not is_csv(source["place"]):
        return {}
    start = read_csv_start(source["place"], _STYLE_BYTES)
    encoding = "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"
    first_line = start[: start.find(b"\n") + 1]
    return {
        "encoding": encoding,
        "lineterminator": "\r\n" if first_line.endswith(b"\r\n") else "\n",
    }


def is_table(source: dict[str, Any]) -> bool:
    """Whether the samples are rows of a table, even of one that no longer exists."""
    place = source["place"]
    with explain_file_problems(place, "Check where the run says its data is"):
        if not is_dataset_name(place) and not Path(place).exists():
            return is_csv(place) or str(place).lower().endswith(".parquet")
        return find_reader(Source(place)).read_arrow is not None


def _read_arrow(source: dict[str, Any]) -> Any | None:
    reader = find_reader(Source(source["place"]))
    if reader.read_arrow is None:
        return None
    return reader.read_arrow(Source(source["place"]), make_request(source))


def _check_unchanged(n_rows: int, samples: SourceSamples) -> None:
    """Refuse a table whose rows changed while it was being read."""
    if n_rows != len(samples.raw.ids):
        raise FileError(
            name_source(samples.source["place"]), "changed while it was read", "Export again"
        )


def _encode_png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    image = np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def _choose_ending(name: str, data: bytes) -> str:
    """The ending that the name has, or else what the bytes are."""
    ending = PurePosixPath(name).suffix.lower()
    if ending in IMAGE_ENDINGS:
        return ending
    kind = identify_format(data) or "PNG"
    return _ENDINGS.get(kind, f".{kind.lower()}")
