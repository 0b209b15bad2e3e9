"""Tables from strangers: damaged, endless, shifted, oversized. Refused by name, never misread."""

from __future__ import annotations

import gzip
import io
import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uqled.data import load
from uqled.data.readers.hub import download_table, read_features
from uqled.data.tables.table_files import read_csv
from uqled.errors import FileError, InputError, LimitError
from uqled.features.embedding_files import load_embeddings
from uqled.limits import override_limits
from uqled.storage.tables.parquet_tables import read_parquet

ROWS = "text,label\n" + "".join(f"film number {i},{'pos' if i % 2 else 'neg'}\n" for i in range(60))


def save(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def outcome(path):
    """(what our own error says, None) or (None, number of samples)."""
    try:
        return None, len(load(path))
    except InputError as error:
        return str(error), None


# ---- rows longer than the header


@pytest.mark.parametrize("header", ["text,label", "\ufefftext,label"])
def test_rows_longer_than_the_header_are_refused(tmp_path, header):
    """The first column would become an index, and the labels somebody's name."""
    path = save(tmp_path / "a.csv", f"{header}\ngood film,pos,ana\nbad film,neg,bob\n")
    with pytest.raises(FileError, match=r"a\.csv' has 3 entries in line 2, but its header has 2\."):
        load(path)


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["text,label", "a,x", "b,y", "c,x,more"], 4),
        (["text,label", '"two\nlines",x', "b,y", "c,x,more"], 5),
        (['"te\nxt",label', "a,x", "b,y,more"], 4),
        (["", "text,label", "", "   ", "a,x", "", "b,y,more"], 7),
        (["text,label", "a,x,", "b,y,"], 2),
        (["text,label", '"a, quoted",x', '"b,",y,more'], 3),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_the_line_of_a_long_row_is_named(tmp_path, lines, line, end, name):
    content = end.join(lines).encode()
    path = save(tmp_path / name, gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(FileError, match=rf"has 3 entries in line {line}, but its header has 2"):
        load(path, inputs=None)


def test_a_long_row_far_below_is_refused_too(tmp_path):
    text = "text,label\n" + "a,x\nb,y\n" * 150_000 + "c,x,more\n" + "a,x\n" * 5
    with pytest.raises(FileError, match=r"has 3 entries in line 300002, but its header has 2"):
        load(save(tmp_path / "a.csv", text))


def test_entries_that_are_missing_at_the_end_of_a_row_stay_missing(tmp_path):
    path = save(tmp_path / "a.csv", "label,a,b\nx,1,2\ny,3\nx,5,6\n")
    assert load(path).inputs["b"].isna().tolist() == [False, True, False]
    path = save(tmp_path / "b.csv", "text,label\na,x\nb\nc,y\n")
    assert load(path).unlabelled == ("1",)


# ---- damage


PACKED_ROWS = gzip.compress(ROWS.encode(), mtime=0)


@pytest.mark.parametrize("size", [0, 1, 5, 10, 40, len(PACKED_ROWS) - 8, len(PACKED_ROWS) - 1])
def test_a_packed_table_that_is_cut_is_refused(tmp_path, size):
    path = save(tmp_path / "a.csv.gz", PACKED_ROWS[:size])
    with pytest.raises(FileError, match=r"file '.*a\.csv\.gz' "):
        load(path)


@given(at=st.integers(0, len(PACKED_ROWS) - 1), to=st.integers(0, 255))
@settings(max_examples=150)
def test_a_damaged_packed_table_is_refused_or_right(tmp_path_factory, at, to):
    content = bytearray(PACKED_ROWS)
    content[at] = to
    path = save(tmp_path_factory.getbasetemp() / "damaged.csv.gz", bytes(content))
    problem, samples = outcome(path)
    assert samples == 60 or "damaged.csv.gz" in problem


def parquet_bytes(metadata=None):
    table = pa.table({"text": [f"text {i}" for i in range(20)], "label": [0, 1] * 10})
    if metadata is not None:
        table = table.replace_schema_metadata({"huggingface": metadata})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=150)
def test_a_damaged_parquet_file_is_refused_or_read(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    content = bytearray(parquet_bytes(json.dumps({"info": {"features": {}}})))
    for at in rng.integers(0, len(content), rng.integers(1, 4)):
        content[at] = rng.integers(256)
    path = save(tmp_path_factory.getbasetemp() / "damaged.parquet", bytes(content))
    problem, _ = outcome(path)
    assert problem is None or "damaged.parquet" in problem or problem.startswith("label")


def class_label(names):
    return json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": names}}}})


@pytest.mark.parametrize(
    "metadata",
    [
        b"{",
        b"\xff\xfe{}",
        b"[1, 2]",
        b"null",
        b'{"info": [1]}',
        b'{"info": {"features": [1]}}',
        b'{"info": {"features": {"label": {"_type": "ClassLabel"}}}}',
        class_label("ab"),
        class_label(["a", 1]),
        class_label([None, None]),
        class_label({"a": 1, "b": 2}),
        class_label(["a"]),  # fewer than there are class numbers
        class_label([]),
        b'{"info": ' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
def test_a_description_of_another_shape_is_refused(tmp_path, metadata):
    path = save(tmp_path / "a.parquet", parquet_bytes(metadata))
    with pytest.raises(FileError, match=r"'.*a\.parquet' "):
        load(path)


@pytest.mark.parametrize("metadata", [b"{}", b'{"info": {}}', b'{"info": {"features": null}}'])
def test_a_description_that_says_nothing_is_no_harm(tmp_path, metadata):
    data = load(save(tmp_path / "a.parquet", parquet_bytes(metadata)))
    assert data.labels.names == ("0", "1")


def test_features_of_a_schema_without_a_description():
    assert read_features(pa.schema([("a", pa.int8())]), "somewhere") == {}


def test_columns_of_one_name_twice_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a", "b"]), pa.array([0, 1])] * 2, ["t", "label"] * 2)
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FileError, match=r"'.*a\.parquet' "):
        load(tmp_path / "a.parquet")


def test_shards_that_do_not_fit_together_are_refused(tmp_path):
    (tmp_path / "set").mkdir()
    pq.write_table(
        pa.table({"text": ["a"], "label": [0]}), tmp_path / "set/train-00000-of-00002.parquet"
    )
    pq.write_table(
        pa.table({"text": ["a"], "label": ["x"]}), tmp_path / "set/train-00001-of-00002.parquet"
    )
    with pytest.raises(FileError, match=r"folder '.*set' "):
        load(tmp_path / "set")


@pytest.mark.parametrize(
    "column",
    [
        [["a"], ["b"]],
        [{"a": 1}, {"a": 2}],
        [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")],
    ],
)
def test_labels_of_a_type_that_no_class_has_are_refused(tmp_path, column):
    pq.write_table(pa.table({"text": ["a", "b"], "label": column}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="label"):
        load(tmp_path / "a.parquet")


# ---- what is not a regular file


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.usefixtures("pipe")
@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.parquet"])
@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "/dev/random"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, name, target):
    (tmp_path / name).symlink_to(target)
    with pytest.raises(FileError, match=rf"file '.*{name}' is not a regular file"):
        load(tmp_path / name)
    for read in (read_csv, read_parquet):
        with pytest.raises(FileError, match="is not a regular file"):
            read(tmp_path / name)


@pytest.mark.parametrize("table", ["a.csv", "a.parquet"])
def test_pipes_and_devices_in_a_column_of_paths_are_refused(tmp_path, pipe, table):
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    (tmp_path / "pipe.png").symlink_to(pipe)
    (tmp_path / "text.png").write_text("secret")
    frame = pd.DataFrame(
        {"file": ["zero.png", "pipe.png", "text.png", str(pipe)], "label": [0, 1, 0, 1]}
    )
    frame.to_csv(tmp_path / table) if table == "a.csv" else frame.to_parquet(tmp_path / table)
    with pytest.raises(FileError, match=r"has 4 unreadable of 4 images") as error_info:
        load(tmp_path / table, inputs="file", kind="images", cache=False)
    assert str(error_info.value).count("is not a regular file") == 3
    assert "secret" not in str(error_info.value)


# ---- limits


def test_a_packed_bomb_is_refused(tmp_path):
    path = save(tmp_path / "a.csv.gz", gzip.compress(b"text,label\n" + b"a" * 2**26, 6, mtime=0))
    with pytest.raises(LimitError, match=r"a\.csv\.gz.*UQLED_LIMIT_COMPRESSION_RATIO"):
        load(path)


def test_a_table_larger_than_memory_is_refused(tmp_path):
    packed_path, plain_path = (
        save(tmp_path / "a.csv.gz", PACKED_ROWS),
        save(tmp_path / "a.csv", ROWS),
    )
    parquet_path = save(tmp_path / "a.parquet", parquet_bytes())
    for path in (packed_path, plain_path, parquet_path):
        with override_limits(memory_bytes=100), pytest.raises(LimitError, match="memory_bytes"):
            load(path)


def test_a_parquet_file_that_claims_endless_rows_is_refused(tmp_path):
    pq.write_table(pa.table({"label": np.zeros(2_000_000, np.int8)}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with override_limits(memory_bytes=1_000_000), pytest.raises(LimitError, match="memory_bytes"):
        load(tmp_path / "a.parquet")


def test_a_long_text_that_is_referred_to_again_and_again_is_counted(tmp_path):
    """Less than a kilobyte of Parquet for a gigabyte of text."""
    again = pa.array(np.zeros(1_000, np.int32))
    text = pa.DictionaryArray.from_arrays(again, pa.array(["x" * 1_000_000]))
    table = pa.table({"text": text, "label": ["a", "b"] * 500})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "t.parquet").stat().st_size < 1_000
    with override_limits(memory_bytes=2**25), pytest.raises(LimitError, match="memory_bytes"):
        load(tmp_path / "t.parquet")
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    assert content[4] == 0x15  # where the first page begins
    content[4] = 0x05  # which says the same with one byte more
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(FileError, match=r"a page.s header does not end"):
        load(tmp_path / "t.parquet")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_too_many_columns_are_refused(tmp_path, name):
    frame = pd.DataFrame({f"c{i}": [1, 2] for i in range(12)} | {"label": [0, 1]})
    frame.to_csv(tmp_path / name) if name == "a.csv" else frame.to_parquet(tmp_path / name)
    with (
        override_limits(table_columns=10),
        pytest.raises(
            LimitError, match=rf"{name}' has 1[34] columns, and at most 10 are read.*TABLE_COLUMNS"
        ),
    ):
        load(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_too_long_a_cell_is_refused(tmp_path, name):
    frame = pd.DataFrame({"text": ["a", "é" * 5_000, "b"], "label": [0, 1, 0]})
    if name == "a.parquet":
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False)
    with override_limits(table_cell_characters=5_000):
        assert len(load(tmp_path / name)) == 3
    with (
        override_limits(table_cell_characters=4_999),
        pytest.raises(
            LimitError,
            match=rf"column 'text' of file '.*{name}' has 5,000 characters.*CELL_CHARACTERS",
        ),
    ):
        load(tmp_path / name)


def test_a_long_text_below_the_limit_is_read_whole(tmp_path):
    text = "long " * 60_000
    pd.DataFrame({"text": ["a", text], "label": [0, 1]}).to_csv(tmp_path / "a.csv", index=False)
    assert load(tmp_path / "a.csv").inputs[1] == text


# ---- the hub


@pytest.mark.parametrize("name", ["/etc", "../x", "a/b/c", "~/x", ".", "a/..", "x.py/../y", ""])
def test_a_name_of_the_hub_is_no_path(name, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("was opened"))
    with pytest.raises(InputError, match="Name a data set of the hub"):
        download_table(name, None)


def test_embeddings_are_read_as_tables_are(tmp_path):
    path, labels = tmp_path / "x.parquet", tmp_path / "labels.npy"
    np.save(labels, np.arange(6) % 2)
    pd.DataFrame(np.eye(6), columns=list("abcdef")).to_parquet(path)
    assert load_embeddings(path, labels).features.shape == (6, 6)
    for value in (np.nan, np.inf, 1e300):
        frame = pd.DataFrame(np.eye(6), columns=list("abcdef"))
        frame.iloc[2, 3] = value
        frame.to_parquet(tmp_path / "y.parquet")
        with pytest.raises(InputError, match="has a NaN or infinity in row 2"):
            load_embeddings(tmp_path / "y.parquet", labels)
    with override_limits(table_columns=5), pytest.raises(LimitError, match="table_columns"):
        load_embeddings(path, labels)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FileError, match=r"x\.parquet' cannot be read"):
        load_embeddings(path, labels)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileError, match="is not a regular file"):
        load_embeddings(path, labels)
