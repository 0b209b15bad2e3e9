"""Arrow and Feather files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.readers.hub import read_class_names
from uqled.data.tables import explain_table_problems, make_arrow_table, read_table
from uqled.limits import check_limit
from uqled.storage.reading import name_file, open_regular

_ENDINGS = (".arrow", ".feather", ".ipc")
_MAGIC = b"ARROW1"


def read_arrow(path: Path) -> Any:
    """The table of an Arrow file or stream, its buffers checked against each other."""
    import pyarrow as pa
    from pyarrow import feather

    with open_regular(path) as file, explain_table_problems(path):
        check_limit("memory_bytes", os.fstat(file.fileno()).st_size, name_file(path))
        start = file.read(len(_MAGIC))
        file.seek(0)
        if start[:4] == b"FEA1":
            table = feather.read_table(file)
        else:
            is_file = start == _MAGIC
            reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
            check_limit("table_columns", len(reader.schema), name_file(path))
            batches, total = [], 0
            for batch in (
                map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            ):
                total += batch.nbytes
                check_limit("memory_bytes", total, name_file(path))
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)  # bytes of a stranger: offsets that lead anywhere
        return table


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
