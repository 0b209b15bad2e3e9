"""Arrow and Feather files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.readers.hub import read_class_names
from uqled.data.tables import explain_table_problems, make_arrow_table, read_table
from uqled.limits import check_limit
from uqled.storage.arrow_messages import measure_messages
from uqled.storage.reading import name_file, read_file

_ENDINGS = (".arrow", ".feather", ".ipc")
_MAGIC = b"ARROW1"
_FILE_START = 8  # bytes of an Arrow file before its stream


def read_arrow(path: Path) -> Any:
    """The table of an Arrow file or stream, its buffers checked against each other."""
    import pyarrow as pa
    from pyarrow import feather

    # In memory, so that a message is a piece of it: from a file, as much is allocated as it claims.
    data = read_file(path)
    with explain_table_problems(path):
        if data[:4] == b"FEA1":
            table = feather.read_table(pa.BufferReader(data))
        else:
            table = _read_stream(pa.py_buffer(data), path, is_file=data.startswith(_MAGIC))
        table.validate(full=True)  # bytes of a stranger: offsets that lead anywhere
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
