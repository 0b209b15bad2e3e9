"""Parquet files as tables, within limits: a few bytes can stand for any number of long values.

The footer's sizes are not believed: decoding relies on the header in front of each page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from uqled.limits import check_limit, get_limit
from uqled.storage.reading import explain_file_problems, name_file, open_regular
from uqled.storage.tables.arrow_sizes import check_expanded_size
from uqled.storage.tables.parquet_pages import (
    StoredColumn,
    list_pages,
    parse_footer,
    read_footer,
)

_MAX_ROWS = 65_536  # decoded at a time

#: Bytes of a value in memory, at the least, by how Parquet stores it.
_WIDTHS = {"INT64": 8, "DOUBLE": 8, "INT96": 8, "FLOAT": 4, "BYTE_ARRAY": 4, "BOOLEAN": 0}
_LEVEL_BYTES = 8  # for a value in a list: where it stands, and its number in a dictionary


def read_parquet(path: Path | str, columns: list[str] | None = None) -> Any:
    """A Parquet file as an Arrow table, all of it or some columns."""
    with open_regular(path) as file, explain_file_problems(path):
        return read_parquet_stream(file, name_file(path), columns)


def read_parquet_stream(file: BinaryIO, subject: str, columns: list[str] | None = None) -> Any:
    """The Arrow table of an open Parquet file; `subject` is the file as errors name it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_limit("memory_bytes", file.seek(0, os.SEEK_END), subject)
    parquet = pq.ParquetFile(file)
    check_limit("table_columns", parquet.metadata.num_columns, subject)
    groups = list(survey_row_groups(parquet, file))
    # A few bytes can stand for any number of equal values.
    width = sum(chunk.value_bytes for chunk in groups[0]) if groups else 0
    check_limit("memory_bytes", parquet.metadata.num_rows * width, subject)
    schema = parquet.schema_arrow
    if columns is not None:
        fields = [schema.field(schema.get_field_index(name)) for name in columns]
        schema = pa.schema(fields, schema.metadata)
    # Texts in lists stay dictionary indices until their total length is known.
    if encoded_paths := {chunk.path for group in groups for chunk in group if chunk.stays_encoded}:
        parquet = pq.ParquetFile(file, read_dictionary=sorted(encoded_paths))
    tables, total = [schema.empty_table()], 0
    for number, group in enumerate(groups):
        decoded_bytes = max(sum(c.longest_page for c in group), sum(c.listed_bytes for c in group))
        check_limit("memory_bytes", decoded_bytes, subject)
        longest = max((chunk.longest_cell for chunk in group), default=0)
        rows = min(max(get_limit("memory_bytes") // 8 // (longest + 1), 1), _MAX_ROWS)
        for batch in parquet.iter_batches(rows, row_groups=[number], columns=columns):
            total = check_expanded_size(batch, subject, total)
            tables.append(pa.Table.from_batches([batch]).cast(schema))
    return pa.concat_tables(tables)


@dataclass(frozen=True)
class ColumnChunk:
    """A column in a row group, by the headers of its pages."""

    path: str
    is_listed: bool
    is_text: bool
    value_bytes: int
    """Of one value in memory, at the least."""
    n_values: int
    longest_page: int
    """Bytes of the largest page, unpacked."""
    longest_entry: int
    """Bytes that one text may have that others share: an entry of the dictionary, or a text whose
    beginning the next ones repeat."""
    repeats_beginnings: bool

    @property
    def stays_encoded(self) -> bool:
        """Whether it can be read as numbers of a dictionary, and needs to."""
        return self.is_listed and self.is_text and not self.repeats_beginnings

    @property
    def longest_cell(self) -> int:
        """Bytes that each cell may have; those of lists are counted by `listed_bytes`."""
        if self.is_listed:
            return 0
        return self.longest_entry if self.is_text else self.value_bytes

    @property
    def listed_bytes(self) -> int:
        """Bytes of all values of lists: a row is decoded whole, and one may have all of them."""
        if not self.is_listed:
            return 0
        is_expanded = self.is_text and not self.stays_encoded
        width = self.longest_entry if is_expanded else self.value_bytes
        return self.n_values * (width + _LEVEL_BYTES)


def survey_row_groups(parquet: Any, file: BinaryIO) -> Iterator[list[ColumnChunk]]:
    """The columns of each row group of an open `pyarrow.parquet.ParquetFile`."""
    schema = [parquet.schema.column(at) for at in range(parquet.metadata.num_columns)]
    for columns in parse_footer(read_footer(file)):
        yield [
            _survey_column(about, column, file)
            for about, column in zip(schema, columns, strict=True)
        ]


def _survey_column(about: Any, column: StoredColumn, file: BinaryIO) -> ColumnChunk:
    pages = list(list_pages(column, file))
    kind = about.physical_type
    shared_pages = [page for page in pages if page.is_dictionary or page.repeats_beginnings]
    return ColumnChunk(
        about.path,
        is_listed=about.max_repetition_level > 0,
        is_text=kind == "BYTE_ARRAY",
        value_bytes=about.length if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind, 1),
        n_values=sum(page.n_values for page in pages if not page.is_dictionary),
        longest_page=max((page.unpacked_bytes for page in pages), default=0),
        longest_entry=max((page.unpacked_bytes for page in shared_pages), default=0),
        repeats_beginnings=any(page.repeats_beginnings for page in pages),
    )
