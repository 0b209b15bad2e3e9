"""CSV, TSV and their like: any separator and encoding, compressed or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from uqled.data.raw_dataset import RawDataset
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.tables.table import Table, read_table
from uqled.data.tables.table_files import CSV_ENDINGS, find_lines, read_csv
from uqled.data.tables.text_dialect import FOREIGN_BYTES, Dialect, detect_dialect


def _read(source: Source, request: ReadRequest) -> RawDataset:
    path = source.path
    dialect = _detect_dialect(source, request)

    def read_strings(columns: list[str]) -> Any:
        return read_csv(path, dialect, usecols=columns, dtype=str, keep_default_na=False)

    def locate_rows(rows: list[int]) -> str:
        return f"line {', '.join(map(str, find_lines(path, dialect, rows)))}"

    frame = read_csv(path, dialect)
    table = Table(path, path.parent, frame, read_strings, {}, {}, locate_rows)
    raw = read_table(table, request)
    return replace(raw, notes=(*raw.notes, *_describe_dialect(dialect)))


def _detect_dialect(source: Source, request: ReadRequest) -> Dialect:
    return detect_dialect(
        source.path,
        encoding=request.encoding,
        separator=request.separator,
        header=request.header,
    )


def _describe_dialect(dialect: Dialect) -> list[tuple[str, str]]:
    """Notes on how the file was read, where it could be read differently."""
    notes = []
    if not dialect.has_header:
        notes.append(
            (
                "the first line is data, so the columns are called column 1, column 2 and so on",
                "If it names the columns: --header yes",
            )
        )
    if dialect.stray_quote_line:
        notes.append(
            (
                "quotation marks are read as part of the texts: the one in line "
                f"{dialect.stray_quote_line:,} is not closed there",
                "If an entry spans several lines, quote every entry of that column",
            )
        )
    if dialect.foreign_lines and dialect.errors == FOREIGN_BYTES:
        lines = ", ".join(f"{line:,}" for line in dialect.foreign_lines)
        notes.append(
            (
                f"the file is UTF-8 but for bytes in line {lines}, which are read as cp1252",
                "If letters look wrong there, write the file in UTF-8 throughout",
            )
        )
    elif dialect.foreign_lines:
        notes.append(
            (
                f"line {dialect.foreign_lines[0]:,} is not UTF-8, so the file is read as "
                f"{dialect.encoding}, which is a guess",
                "If letters look wrong, name its --encoding, or write it in UTF-8",
            )
        )
    return notes


def _read_arrow(source: Source, request: ReadRequest) -> Any:
    import pyarrow as pa

    path = source.path
    dialect = _detect_dialect(source, request)
    try:
        return pa.Table.from_pandas(read_csv(path, dialect), preserve_index=False)
    except pa.ArrowException:  # a column of several types
        frame = read_csv(path, dialect, dtype=str, keep_default_na=False)
        return pa.Table.from_pandas(frame, preserve_index=False)


READER = Reader(
    "a .csv, .tsv or .txt",
    lambda source: source.table_name.endswith(CSV_ENDINGS),
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=_read_arrow,
)
