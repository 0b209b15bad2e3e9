"""Arrow and Feather files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.readers.hub import read_class_names
from uqled.data.tables.table import explain_table_problems, make_arrow_table, read_table
from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.reading import name_file, read_file
from uqled.storage.tables.arrow_messages import measure_messages
from uqled.storage.tables.arrow_sizes import check_expanded_size

_ENDINGS = (".arrow", ".feather", ".ipc")
_MAGIC = b"ARROW1"
_OLD_FEATHER = b"FEA1"
_FILE_START = 8  # bytes of an Arrow file before its stream


def read_arrow(path: Path) -> Any:
    """The table of an Arrow file or stream, its buffers checked against each other."""
    import pyarrow as pa

    # In memory, so that a message is a slice: reading a file would allocate whatever it claims.
    data = read_file(path)
    with explain_table_problems(path):
        if data.startswith(_OLD_FEATHER):
            raise FileError(
                name_file(path),
                "is a Feather file of version 1, whose reader does not check offsets",
                "Write it again with pyarrow 0.17 or later, or as Parquet",
            )
        table = _read_stream(pa.py_buffer(data), path, is_file=data.startswith(_MAGIC))
        table.validate(full=True)  # untrusted bytes: offsets may point anywhere
        check_expanded_size(table, name_file(path))
        return table


def _read_stream(data: Any, path: Path, *, is_file: bool) -> Any:
    """The batches of a stream; an Arrow file is one, with a list of them at its end."""
    import pyarrow as pa

    n_batches = pa.ipc.open_file(data).num_record_batches if is_file else None
    stream = data.slice(_FILE_START) if is_file else data
    n_bytes = n_rows = 0
    for rows, size in measure_messages(pa.BufferReader(stream)):
        n_rows, n_bytes = n_rows + rows, n_bytes + size
        check_limit("memory_bytes", max(n_bytes, 8 * n_rows), name_file(path))
    reader = pa.ipc.open_stream(stream)
    check_limit("table_columns", len(reader.schema), name_file(path))
    batches = list(reader)
    if n_batches not in (None, len(batches)):
        raise ValueError(f"it lists {n_batches} batches and holds {len(batches)}")
    return pa.Table.from_batches(batches, reader.schema)


def _read(source: Source, request: ReadRequest) -> RawDataset:
    table = read_arrow(source.path)
    names = read_class_names(table.schema, name_source(source.place))
    return read_table(make_arrow_table(table, source.path, names), request)


READER = Reader(
    "an .arrow or .feather file",
    lambda source: not source.is_folder and source.path.name.lower().endswith(_ENDINGS),
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=lambda source, _: read_arrow(source.path),
)
