"""CSV and Parquet files, read in one place: within limits, and no entry under another's column.

Whatever is wrong with a file becomes a `FileError` that names it.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from uqled.errors import FileError
from uqled.limits import check_limit, get_limit
from uqled.storage.reading import (
    check_expansion,
    explain_file_problems,
    name_file,
    open_regular,
)

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_ENCODING = "utf-8-sig"  # with or without the mark that Excel writes
_WRITE_AGAIN = "Write it again, in UTF-8"
#: Bytes that a value takes in memory at the least, by how Parquet stores it.
_WIDTHS = {"INT64": 8, "DOUBLE": 8, "INT96": 8, "FLOAT": 4, "BYTE_ARRAY": 4, "BOOLEAN": 0}


def is_csv(path: Path | str) -> bool:
    """If a file of this name is a CSV, by commas or tabs, packed or not."""
    return Path(path).name.lower().endswith(CSV_ENDINGS)


def read_csv(path: Path | str, **options: Any) -> Any:
    """A CSV as a pandas frame; `options` are those of `pandas.read_csv`.

    A row longer than the header is refused: pandas would take the first column for an index, and
    every entry would stand under its neighbour's name. A shorter one lacks its last entries.
    """
    import pandas as pd

    separator = "\t" if ".tsv" in Path(path).name else ","
    common: dict[str, Any] = {
        "sep": separator,
        "encoding": _ENCODING,
        "index_col": False,
        "low_memory": False,
    }
    with explain_file_problems(path, _WRITE_AGAIN):
        with _open_text(path) as text:  # pandas takes minutes for millions of columns
            _, header = next(_records(text, separator), (0, []))
        check_limit("table_columns", len(header), name_file(path))
        try:
            # Without a header pandas compares the first row, too, with the line of names.
            with _open_csv(path) as stream:
                pd.read_csv(stream, **{**common, "header": None, "nrows": 2, "dtype": str})
            with _open_csv(path) as stream:
                frame = pd.read_csv(stream, **{**common, **options})
        except pd.errors.ParserError:
            with _open_text(path) as text:
                _refuse_long_rows(text, separator, path)
            raise
        check_cells(frame, name_file(path))
    return frame


def read_csv_start(path: Path | str, size: int) -> bytes:
    """The first bytes of a CSV, unpacked."""
    with explain_file_problems(path, _WRITE_AGAIN), _open_csv(path) as stream:
        return stream.read(size)


def read_parquet(path: Path | str, columns: list[str] | None = None) -> Any:
    """A Parquet file as an Arrow table, all of it or some columns."""
    import pyarrow.parquet as pq

    subject = name_file(path)
    with open_regular(path) as file, explain_file_problems(path):
        check_limit("memory_bytes", os.fstat(file.fileno()).st_size, subject)
        parquet = pq.ParquetFile(file)
        about, schema = parquet.metadata, parquet.schema
        check_limit("table_columns", about.num_columns, subject)
        # A few bytes can stand for any number of equal values.
        width = sum(
            _WIDTHS.get(schema.column(i).physical_type, 1) for i in range(about.num_columns)
        )
        check_limit("memory_bytes", about.num_rows * width, subject)
        return parquet.read(columns)


def check_cells(table: Any, subject: str) -> None:
    """Refuse texts longer than the limit, in a pandas frame or an Arrow table."""
    longest = _longest_of_frame if hasattr(table, "iloc") else _longest_of_arrow
    for name, length in longest(table):
        check_limit("table_cell_characters", length, f"column {name!r} of {subject}")


def _longest_of_frame(frame: Any) -> Iterator[tuple[str, int]]:
    """The length of the longest text, of each column of texts."""
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if column.dtype == object:
            yield name, max((len(text) for text in column if isinstance(text, str)), default=0)
        elif str(column.dtype) in ("str", "string") and len(column):
            longest = column.str.len().max()
            yield name, 0 if longest != longest else int(longest)  # NaN where all are missing


def _longest_of_arrow(table: Any) -> Iterator[tuple[str, int]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for field, column in zip(table.schema, table.columns, strict=True):
        texts = column
        if pa.types.is_dictionary(field.type):
            texts = pa.chunked_array(
                [chunk.dictionary for chunk in column.chunks], field.type.value_type
            )
        if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
            longest = pc.max(pc.binary_length(texts)).as_py() or 0
            if longest > get_limit("table_cell_characters"):  # of bytes, so look again
                longest = pc.max(pc.utf8_length(texts)).as_py()
            yield field.name, longest


@contextmanager
def _open_csv(path: Path | str) -> Iterator[BinaryIO]:
    """The bytes of a CSV, unpacked where they are packed."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        check_limit("memory_bytes", size, name_file(path))
        if Path(path).suffix.lower() == ".gz":
            unpacked: Any = io.BufferedReader(_Unpacked(file, size, name_file(path)), 2**18)
            yield unpacked
        else:
            yield file


@contextmanager
def _open_text(path: Path | str) -> Iterator[TextIO]:
    """The same as text, for looking only: what is no UTF-8 is replaced."""
    with (
        _open_csv(path) as stream,
        io.TextIOWrapper(stream, _ENCODING, errors="replace", newline="") as text,
    ):
        yield text


class _Unpacked(io.RawIOBase):
    """What a gzip stream holds, piece by piece, until it is more than the limits allow."""

    def __init__(self, file: BinaryIO, size: int, subject: str) -> None:
        super().__init__()
        self._gzip = gzip.GzipFile(fileobj=file)
        self._size, self._subject, self._total = size, subject, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._gzip.read(len(buffer))
        self._total += len(piece)
        check_expansion(self._total, self._size, self._subject)
        buffer[: len(piece)] = piece
        return len(piece)


def _refuse_long_rows(text: TextIO, separator: str, path: Path | str) -> None:
    records = _records(text, separator)
    _, header = next(records, (0, []))
    for line, row in records:
        if len(row) > len(header):
            raise FileError(
                name_file(path),
                f"has {len(row)} entries in line {line}, and its header {len(header)}",
                "Give every column a name, and quote entries that hold the separator",
            )


def _records(text: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(the line that it begins in, entries) of every row; lines of white space are none."""
    reader, line = csv.reader(text, delimiter=separator), 1
    for row in reader:
        if len(row) > 1 or (row and row[0].strip()):
            yield line, row
        line = reader.line_num + 1
