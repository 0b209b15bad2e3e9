"""Reads CSV files, within limits, and with no entry under another's column.

Whatever is wrong with a file becomes a `FileError` that names it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from uqled.data.tables.header import name_unnamed_columns
from uqled.data.tables.text_dialect import Dialect, detect_dialect
from uqled.errors import FileError
from uqled.limits import check_limit, get_limit
from uqled.storage.compression import find_table_name, open_decompressed
from uqled.storage.reading import explain_file_problems, name_file

CSV_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".data")
_MAX_TITLES = 20  # lines above the column names
_WRITE_AGAIN = "Write it again, in UTF-8"


def is_csv(path: Path | str) -> bool:
    """Whether a file of this name is a CSV, whatever its separator, compressed or not."""
    with explain_file_problems(path):
        return find_table_name(Path(path)).endswith(CSV_ENDINGS)


def read_csv(path: Path | str, dialect: Dialect | None = None, **options: Any) -> Any:
    """A CSV as a pandas frame; `options` are those of `pandas.read_csv`.

    A row longer than the header is refused: pandas would take the first column for an index, and
    every entry would stand under its neighbour's name. A shorter one lacks its last entries.
    """
    import pandas as pd

    dialect = dialect or detect_dialect(path)
    common: dict[str, Any] = {
        "sep": dialect.separator,
        "encoding": dialect.encoding,
        "encoding_errors": dialect.errors,
        "index_col": False,
        "low_memory": False,
        "skipinitialspace": dialect.skips_space,
        "quoting": dialect.quoting,
    }
    with explain_file_problems(path, _WRITE_AGAIN):
        with _open_text(path, dialect) as text:  # pandas takes minutes for millions of columns
            _, header = next(_iterate_records(text, dialect), (0, []))
        check_limit("table_columns", len(header), name_file(path))
        if not dialect.has_header and "header" not in options:
            options |= {"header": None, "names": name_unnamed_columns(len(header))}
        try:
            # Without a header pandas compares the first row, too, with the line of names.
            with open_decompressed(path) as stream:
                pd.read_csv(stream, **{**common, "header": None, "nrows": 2, "dtype": str})
            with open_decompressed(path) as stream:
                frame = pd.read_csv(stream, **{**common, **options})
        except pd.errors.EmptyDataError as error:
            raise FileError(name_file(path), "is empty", "Name a table with samples") from error
        except pd.errors.ParserError as error:
            if "EOF inside string" in str(error):
                with _open_text(path, dialect) as text:
                    line = _find_last_record(text, dialect.separator)
                raise FileError(
                    name_file(path),
                    f"has a quotation mark in line {line} that is never closed",
                    'Close it, or write "" for one that belongs to the text',
                ) from error
            with _open_text(path, dialect) as text:
                _refuse_long_rows(text, dialect, path)
            raise
        check_cells(frame, name_file(path))
    return frame


def find_lines(path: Path | str, dialect: Dialect, rows: list[int]) -> list[int]:
    """The lines of a CSV in which some of its rows begin, counted from 1; a header is no row."""
    row_numbers, lines = set(rows), {}
    with explain_file_problems(path, _WRITE_AGAIN), _open_text(path, dialect) as text:
        records = _iterate_records(text, dialect)
        if dialect.has_header:
            next(records, None)
        for row, (line, _) in enumerate(records):
            if row in row_numbers:
                lines[row] = line
            if len(lines) == len(row_numbers):
                break
    return [lines[row] for row in rows if row in lines]


def read_csv_start(path: Path | str, size: int) -> bytes:
    """The first bytes of a CSV, decompressed."""
    with explain_file_problems(path, _WRITE_AGAIN), open_decompressed(path) as stream:
        return stream.read(size)


def check_cells(table: Any, subject: str) -> None:
    """Refuse texts longer than the limit, in a pandas frame or an Arrow table."""
    longest = _measure_frame_texts if hasattr(table, "iloc") else _measure_arrow_texts
    for name, length in longest(table):
        check_limit("table_cell_characters", length, f"column {name!r} of {subject}")


def _measure_frame_texts(frame: Any) -> Iterator[tuple[str, int]]:
    """The length of the longest text, of each column of texts."""
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if column.dtype == object:
            yield name, max((len(text) for text in column if isinstance(text, str)), default=0)
        elif str(column.dtype) in ("str", "string") and len(column):
            longest = column.str.len().max()
            yield name, 0 if longest != longest else int(longest)  # NaN where all are missing


def _measure_arrow_texts(table: Any) -> Iterator[tuple[str, int]]:
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
            if longest > get_limit("table_cell_characters"):  # in bytes, so count the characters
                longest = pc.max(pc.utf8_length(texts)).as_py()
            yield field.name, longest


@contextmanager
def _open_text(path: Path | str, dialect: Dialect) -> Iterator[TextIO]:
    """A CSV as text, for looking only: bytes of another encoding are replaced."""
    with (
        open_decompressed(path) as stream,
        io.TextIOWrapper(stream, dialect.encoding, errors="replace", newline="") as text,
    ):
        yield text


def _refuse_long_rows(text: TextIO, dialect: Dialect, path: Path | str) -> None:
    records = _iterate_records(text, dialect)
    top, header = next(records, (0, []))
    previous_line, only_short = top, True
    for row_number, (line, row) in enumerate(records):
        if len(row) > len(header):
            # R leaves out the name of the first column; a title above the names is shorter.
            is_title = row_number == 0 and len(row) > len(header) + 1
            is_title |= row_number <= _MAX_TITLES and only_short and len(header) == 1 < len(row) - 1
            lines = f"line {top}" if previous_line == top else f"lines {top} to {previous_line}"
            raise FileError(
                name_file(path),
                f"has {len(row)} entries in line {line}, but its header has {len(header)}",
                f"Remove {lines} if {'it stands' if previous_line == top else 'they stand'} above "
                "the column names"
                if is_title
                else "Give every column a name, and quote entries that hold the separator",
            )
        previous_line, only_short = line, only_short and len(row) == 1


def _find_last_record(text: TextIO, separator: str) -> int:
    """The line in which the last record begins, or the first that is too long to read."""
    reader, line, last = csv.reader(text, delimiter=separator), 1, 1
    try:
        for _ in reader:
            last, line = line, reader.line_num + 1
    except csv.Error:
        return line
    return last


def _iterate_records(text: TextIO, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """(the line that it begins in, entries) of every row; lines of white space are none."""
    reader = csv.reader(text, delimiter=dialect.separator, quoting=dialect.quoting)
    line = 1
    for row in reader:
        if len(row) > 1 or (row and row[0].strip()):
            yield line, row
        line = reader.line_num + 1
