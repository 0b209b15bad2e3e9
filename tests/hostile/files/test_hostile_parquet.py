"""Parquet files of strangers: a few bytes that stand for more than memory holds are refused."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from uqled.data import load
from uqled.data.prediction_files import open_probabilities
from uqled.detect.parts.store import Store
from uqled.errors import FileError, LimitError
from uqled.limits import override_limits
from uqled.storage.location import Location
from uqled.storage.tables.parquet_pages import list_pages, parse_footer, read_footer
from uqled.storage.tables.parquet_tables import read_parquet

LIMIT = 2**24
LONG_TEXT = "x" * 2**20
N = 100  # texts that are all the same one: six times the limit


def repeat_text(n=N):
    """A column of one text, `n` times."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([LONG_TEXT]))


def put_in_one_row(values):
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def write(path, column, **options):
    table = pa.table({"label": ["a"] * len(column), "x": column})
    pq.write_table(table, path, store_schema=False, **options)
    return path


TEXTS_IN_A_ROW = {
    "list": lambda: put_in_one_row(repeat_text()),
    "list of lists": lambda: put_in_one_row(put_in_one_row(repeat_text())),
    "struct": lambda: pa.StructArray.from_arrays([put_in_one_row(repeat_text())], ["a"]),
    "list of structs": lambda: put_in_one_row(pa.StructArray.from_arrays([repeat_text()], ["a"])),
    "map": lambda: pa.MapArray.from_arrays([0, N], np.arange(N), repeat_text()),
}


@pytest.mark.parametrize("kind", TEXTS_IN_A_ROW)
def test_one_row_that_refers_to_a_long_text_again_and_again(tmp_path, kind):
    path = write(tmp_path / "t.parquet", TEXTS_IN_A_ROW[kind]())
    assert path.stat().st_size < LIMIT // 100
    before = pa.default_memory_pool().max_memory()
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        load(path)
    assert pa.default_memory_pool().max_memory() - before < LIMIT
    assert read_parquet(path).num_rows == 1  # within the limit of this machine


@pytest.mark.parametrize("kind", ["numbers", "bytes of one length", "rows without values"])
def test_one_row_of_more_numbers_than_memory_holds(tmp_path, kind):
    n = 2**21 + 1
    values = {
        "numbers": np.zeros(n, np.int64),
        "bytes of one length": pa.array([bytes(16)] * n, pa.binary(16)),
        "rows without values": pa.nulls(n, pa.int64()),
    }[kind]
    path = write(tmp_path / "t.parquet", put_in_one_row(pa.array(values)))
    assert path.stat().st_size < LIMIT // 50
    before = pa.default_memory_pool().max_memory()
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        load(path)
    assert pa.default_memory_pool().max_memory() == before  # refused before it is decoded


@pytest.mark.parametrize("is_listed", [False, True])
def test_texts_that_repeat_the_beginning_of_the_one_before(tmp_path, is_listed):
    """Without a dictionary, a hundred texts of a megabyte in little more than one."""
    texts = pa.array([LONG_TEXT] * N)
    path = write(
        tmp_path / "t.parquet",
        put_in_one_row(texts) if is_listed else texts,
        use_dictionary=False,
        column_encoding={"x.list.element" if is_listed else "x": "DELTA_BYTE_ARRAY"},
    )
    assert path.stat().st_size < LIMIT // 100
    del texts
    before = pa.default_memory_pool().max_memory()
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        read_parquet(path)
    assert pa.default_memory_pool().max_memory() - before < LIMIT
    assert read_parquet(path)["x"].to_pylist() == (
        [[LONG_TEXT] * N] if is_listed else [LONG_TEXT] * N
    )


def test_bytes_of_one_length_are_counted_row_by_row(tmp_path):
    column = pa.array([bytes(2**20)] * N, pa.binary(2**20))
    path = write(tmp_path / "t.parquet", column)
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        read_parquet(path)


def test_a_page_that_unpacks_to_more_than_memory(tmp_path):
    """Two columns, each page of which is within the limit."""
    zeros = pa.array(np.zeros(2**20, np.int64))
    table = pa.table({"a": zeros, "b": zeros, "c": zeros})
    pq.write_table(
        table, tmp_path / "t.parquet", use_dictionary=False, compression="zstd",
        data_page_size=2**30, max_rows_per_page=2**30, row_group_size=2**20,
    )  # fmt: skip
    before = pa.default_memory_pool().max_memory()
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        read_parquet(tmp_path / "t.parquet")
    assert pa.default_memory_pool().max_memory() == before


TABLE = pa.table(
    {
        "text": ["a", "b", None] * 100,
        "list": [["x", "y"], None, []] * 100,
        "map": pa.array([[("k", "v")], None, []] * 100, pa.map_(pa.string(), pa.string())),
        "struct": [{"a": ["p", None], "b": 1}, None, {"a": [], "b": None}] * 100,
        "lists": [[["x"], ["y"]], None, [[]]] * 100,
        "numbers": pa.array([[1.0, 2.0]] * 300, pa.list_(pa.float32(), 2)),
        "label": pa.array(["q", "w", "e"] * 100).dictionary_encode(),
        "large": pa.array([["a"], None, []] * 100, pa.large_list(pa.large_string())),
        "image": [{"bytes": b"x", "path": "p"}] * 300,
        "fixed": pa.array([b"ab"] * 300, pa.binary(2)),
    },
    metadata={b"huggingface": b"{}"},
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"data_page_version": "2.0", "compression": "zstd"},
        {"row_group_size": 70, "max_rows_per_page": 7, "compression": "none"},
        {"store_schema": False},
        {"use_dictionary": False, "column_encoding": {"list.list.element": "DELTA_BYTE_ARRAY"}},
    ],
)
def test_sound_files_are_read_as_arrow_reads_them(tmp_path, options):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path, **options)
    arrow = pq.ParquetFile(path)
    assert read_parquet(path).equals(expected := arrow.read())
    assert read_parquet(path).schema.equals(expected.schema, check_metadata=True)
    readable_columns = ["list", "text"]
    assert read_parquet(path, readable_columns).equals(
        arrow.read(readable_columns).select(readable_columns)
    )
    with path.open("rb") as file:
        groups = parse_footer(read_footer(file))
        assert len(groups) == arrow.num_row_groups
        for number, columns in enumerate(groups):
            group = arrow.metadata.row_group(number)
            assert len(columns) == group.num_columns
            for at, column in enumerate(columns):
                assert column.packed_bytes == group.column(at).total_compressed_size
                pages = list(list_pages(column, file))
                counts = [page.n_values for page in pages if not page.is_dictionary]
                assert sum(counts) == group.column(at).num_values == column.n_values


def test_no_rows_are_a_table_too(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet").schema.equals(TABLE.schema)


# ---- lists of probabilities


def encode_number(number):
    """As a footer writes it: in pieces of seven bits, twice its value."""
    value, content = 2 * number, b""
    while value > 0x7F:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def test_a_row_of_probabilities_with_more_values_than_the_footer_counts(tmp_path):
    rows, K, n = 820, 10, 2**20 - 1
    lists = pa.ListArray.from_arrays(
        pa.array([0, *range(n - rows + 1, n + 1)], pa.int32()), np.zeros(n)
    )
    pq.write_table(pa.table({"p": lists}), path := tmp_path / "p.parquet")
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    forged = content[footer:].replace(encode_number(n), encode_number(rows * K))
    path.write_bytes(content[:footer] + forged)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).num_values == rows * K
    with pytest.raises(FileError, match=r"1,048,575 values in row group 0, where .* 8,200"):
        open_probabilities(str(path), ndim=2)[:]


def test_lists_that_are_no_bomb_are_read_within_any_memory(tmp_path):
    """A row group may be larger than memory: a few rows of it are decoded at a time."""
    probs = np.random.default_rng(0).random((3_000, 4))
    table = pa.table({"p": pa.FixedSizeListArray.from_arrays(probs.ravel(), 4)})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=1_000)
    with override_limits(memory_bytes=20_000):
        read = open_probabilities(str(tmp_path / "p.parquet"), ndim=2)
        np.testing.assert_array_equal(read[900:1_200], probs[900:1_200])


# ---- the folder of a detection in parts


def test_a_table_and_counts_of_a_detection_in_parts_are_limited(tmp_path):
    store = Store(Location.of(tmp_path))
    (tmp_path / "issues").mkdir()
    write(tmp_path / "issues" / "000000.parquet", put_in_one_row(repeat_text()))
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        store.read_issues(0)
    file = io.BytesIO()
    zeros = np.zeros(2**22, np.int64)
    np.savez_compressed(file, shape=np.array([3, 3]), given=zeros, true=zeros, counts=zeros)
    (tmp_path / "joint.npz").write_bytes(file.getvalue())
    with override_limits(memory_bytes=LIMIT), pytest.raises(LimitError, match="memory_bytes"):
        store.read_joint()
    store.write_joint((2**62, 2**62), [0], [0], [1])
    with pytest.raises(LimitError, match="memory_bytes"):
        store.read_joint()


def test_a_column_that_does_not_fit_its_schema_does_not_end_the_process(tmp_path):
    """Counts of missing values for a column that the schema says has none: pyarrow aborts when it
    is asked about such a column."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"label": [1, 2, None]}), path)
    optional, required_field = (bytes([0x15, 4, 0x25, x, 0x18, 5]) + b"label" for x in (2, 0))
    content = path.read_bytes()
    assert content.count(optional) == 1
    path.write_bytes(content.replace(optional, required_field))
    with pytest.raises(FileError, match=r"t\.parquet' cannot be read \(.*histogram size mismatch"):
        read_parquet(path)
