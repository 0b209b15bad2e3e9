"""CSV, TSV and their like: any separator and encoding, compressed or not."""

from __future__ import annotations

from typing import Any

from uqled.data.raw_dataset import RawDataset
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.table_files import CSV_ENDINGS, find_lines, read_csv
from uqled.data.tables import Table, read_table
from uqled.data.text_dialect import detect_dialect


def _read(source: Source, request: ReadRequest) -> RawDataset:
    path = source.path
    dialect = detect_dialect(path, encoding=request.encoding, separator=request.separator)

    def read_strings(columns: list[str]) -> Any:
        return read_csv(path, dialect, usecols=columns, dtype=str, keep_default_na=False)

    def locate_rows(rows: list[int]) -> str:
        return f"line {', '.join(map(str, find_lines(path, dialect, rows)))}"

    frame = read_csv(path, dialect)
    table = Table(path, path.parent, frame, read_strings, {}, {}, locate_rows)
    return read_table(table, request)


def _read_arrow(source: Source, request: ReadRequest) -> Any:
    import pyarrow as pa

    path = source.path
    dialect = detect_dialect(path, encoding=request.encoding, separator=request.separator)
    try:
        return pa.Table.from_pandas(read_csv(path, dialect), preserve_index=False)
    except pa.ArrowException:  # a column of several types
        plain = read_csv(path, dialect, dtype=str, keep_default_na=False)
        return pa.Table.from_pandas(plain, preserve_index=False)


READER = Reader(
    "a .csv or .tsv",
    lambda source: source.table_name.endswith(CSV_ENDINGS),
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=_read_arrow,
)
