"""Arrow files of strangers: what they claim to unpack to is counted before it is unpacked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from uqled.data.readers.arrow import read_arrow
from uqled.errors import FileError, LimitError
from uqled.limits import override_limits
from uqled.storage.arrow_messages import measure_messages

TABLE = pa.table(
    {
        "number": np.arange(1_000) / 7,
        "text": [f"text {i}" for i in range(1_000)],
        "label": pa.array(["a", "b"] * 500).dictionary_encode(),
        "list": [[1, 2]] * 1_000,
        "image": [{"bytes": b"x", "path": "p"}] * 1_000,
    }
)


def write(path, table, *, is_stream=False, compression=None, rows=300):
    make_writer = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make_writer(str(path), table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_claims_are_counted_and_tables_read_as_arrow_does(tmp_path, is_stream, compression):
    path = write(tmp_path / "t.arrow", TABLE, is_stream=is_stream, compression=compression)
    with path.open("rb") as file:
        file.seek(0 if is_stream else 8)
        rows, sizes = zip(*measure_messages(file), strict=True)
    assert sum(rows) == 1_000 + 2  # and the dictionary
    assert 0 <= sum(sizes) - sum(batch.nbytes for batch in TABLE.to_batches(300)) < 1_000
    assert read_arrow(path).equals(TABLE)


def test_a_packed_bomb_is_refused_before_it_is_unpacked(tmp_path):
    zeros = pa.table({"x": np.zeros(2**25, np.uint8)})
    path = write(tmp_path / "t.arrow", zeros, compression="zstd", rows=2**25)
    assert path.stat().st_size < 2**25 // 50
    before = pa.default_memory_pool().max_memory()
    with override_limits(memory_bytes=2**24), pytest.raises(LimitError, match="memory_bytes"):
        read_arrow(path)
    assert pa.default_memory_pool().max_memory() == before


def test_rows_without_bytes_are_counted_too(tmp_path):
    path = write(tmp_path / "t.arrow", pa.table({"nothing": pa.nulls(2**22)}), rows=2**22)
    with override_limits(memory_bytes=2**24), pytest.raises(LimitError, match="memory_bytes"):
        read_arrow(path)


def test_a_file_whose_list_says_something_else_is_refused(tmp_path):
    """Its batches are read one after the other, so that all of them were counted."""
    whole = write(tmp_path / "whole.arrow", TABLE.slice(0, 300)).read_bytes()  # one batch
    path = write(tmp_path / "t.arrow", TABLE.slice(0, 600), is_stream=True)
    end = whole[-10 - int.from_bytes(whole[-10:-6], "little") :]
    path.write_bytes(b"ARROW1\0\0" + path.read_bytes() + end)
    with pytest.raises(FileError, match="it lists 1 batches and holds 2"):
        read_arrow(path)
