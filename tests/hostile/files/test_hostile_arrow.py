"""Arrow files of strangers: what they claim to unpack to is counted before it is unpacked."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from uqled.data import load
from uqled.data.readers.arrow import read_arrow
from uqled.errors import FileError, LimitError
from uqled.limits import override_limits
from uqled.storage.tables.arrow_messages import measure_messages
from uqled.storage.tables.arrow_sizes import measure_expanded_bytes

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
    content = write(tmp_path / "whole.arrow", TABLE.slice(0, 300)).read_bytes()  # one batch
    path = write(tmp_path / "t.arrow", TABLE.slice(0, 600), is_stream=True)
    end = content[-10 - int.from_bytes(content[-10:-6], "little") :]
    path.write_bytes(b"ARROW1\0\0" + path.read_bytes() + end)
    with pytest.raises(FileError, match="it lists 1 batches and holds 2"):
        read_arrow(path)


N = 100  # rows or values, each of them long when it is written out


def forge_columns(length):
    """Columns of `N` values of so many bytes each, all of which are the same bytes of the file."""
    text = "x" * length
    indices = pa.array(np.zeros(N, np.int32))
    codes = pa.DictionaryArray.from_arrays(indices, pa.array([text]))
    numbers = pa.array(np.zeros(length, np.uint8))
    columns = {
        "dictionary": codes,
        "list of a dictionary": pa.ListArray.from_arrays(pa.array([0, N], pa.int32()), codes),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([N], pa.int32()), pa.array([text])),
        "dictionary of lists": pa.DictionaryArray.from_arrays(
            indices, pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), numbers)
        ),
    }
    if hasattr(pa, "list_view"):
        starts, sizes = np.zeros(N, np.int32), np.full(N, length, np.int32)
        columns["lists that overlap"] = pa.ListViewArray.from_arrays(starts, sizes, numbers)
    if hasattr(pa, "string_view"):
        view = pa.array([text], pa.string_view()).buffers()
        one = np.frombuffer(view[1], np.uint8)[:16]
        views = pa.py_buffer(np.tile(one, N).tobytes())
        columns["views"] = pa.Array.from_buffers(pa.string_view(), N, [None, views, *view[2:]])
    return columns


FORGED_COLUMNS, SHORT_COLUMNS = forge_columns(2**20), forge_columns(2**14)


@pytest.mark.parametrize("kind", FORGED_COLUMNS)
def test_values_that_share_their_bytes_are_counted_each(tmp_path, kind):
    path = write(tmp_path / "t.arrow", pa.table({"x": FORGED_COLUMNS[kind]}), rows=N)
    assert path.stat().st_size < 2**22
    with override_limits(memory_bytes=2**24), pytest.raises(LimitError, match="memory_bytes"):
        read_arrow(path)
    assert read_arrow(path).num_rows == len(FORGED_COLUMNS[kind])


@pytest.mark.parametrize("kind", FORGED_COLUMNS)
def test_measured_sizes_are_those_of_the_values_written_out(kind):
    """Against the values as Python has them, and slices of them."""

    def measure(value):
        return sum(map(measure, value)) if isinstance(value, list) else len(value) if isinstance(
            value, str
        ) else 1  # fmt: skip

    for array in (SHORT_COLUMNS[kind], SHORT_COLUMNS[kind].slice(N // 4, N // 2)):
        expected = sum(map(measure, array.to_pylist()))
        assert 0 <= measure_expanded_bytes(array) - expected <= 64 * (N + 2)


def test_a_saved_data_set_that_names_one_file_again_and_again(tmp_path):
    write(tmp_path / "data.arrow", pa.table({"x": np.zeros(2**17), "label": np.arange(2**17) % 2}))
    files = [{"filename": "data.arrow"}] * 1_000
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": files}))
    with override_limits(memory_bytes=2**24), pytest.raises(LimitError, match="memory_bytes"):
        load(tmp_path)


def test_the_first_version_of_feather_is_refused(tmp_path):
    """A changed offset in it ends the process: Arrow's reader does not look at them."""
    (tmp_path / "t.feather").write_bytes(b"FEA1" + bytes(200) + b"FEA1")
    with pytest.raises(FileError, match="is a Feather file of version 1"):
        load(tmp_path / "t.feather")
