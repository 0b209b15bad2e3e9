"""Arrays in files that somebody else made: .npy, .npz, Parquet, Zarr and matrices, hostile or
damaged, end in our own errors."""

from __future__ import annotations

import json
import os
import pickle
import struct
import time

import numcodecs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from archive_files import HEADERS, pack_npy
from uqled.data.prediction_files import open_labels, open_probabilities
from uqled.errors import FileError, InputError, LimitError, UqledError
from uqled.limits import override_limits
from uqled.noise import TransitionMatrix
from uqled.storage.arrays.shards import open_shards

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(3), 60).astype(np.float32)
LABELS = RNG.integers(0, 3, 60)
TABLE = pa.table({f"class {k}": PROBS[:, k] for k in range(3)})


def read_all(path, ndim):
    """Open and read as detection does."""
    open_array = open_labels(str(path)) if ndim == 1 else open_probabilities(str(path), ndim=ndim)
    return np.asarray(open_array)


# --- .npy


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.filterwarnings("ignore")
def test_headers_that_are_none(tmp_path, case, ndim):
    folder = tmp_path / "shards"
    folder.mkdir()
    for path in (tmp_path / "a.npy", folder / "0.npy"):
        path.write_bytes(pack_npy(HEADERS[case], bytes(32)))
        driver = time.monotonic()
        with pytest.raises(FileError, match=path.name):
            read_all(path if path.parent == tmp_path else folder, ndim)
        assert time.monotonic() - driver < 2


def test_labels_that_claim_terabytes_in_a_sparse_file(tmp_path):
    path = tmp_path / "labels.npy"
    head = b"{'descr': '<i8', 'fortran_order': False, 'shape': (549755813888,), }"
    path.write_bytes(pack_npy(head.ljust(117) + b"\n"))
    with path.open("r+b") as file:
        file.truncate(128 + 2**42)
    with pytest.raises(LimitError, match=r"labels\.npy' has 4,398,046,511,104 bytes"):
        open_labels(str(path))
    (tmp_path / "in").mkdir()
    path.rename(tmp_path / "in" / "0.npy")
    labels = open_labels(str(tmp_path / "in"))  # whose rows are read when they are asked for
    with pytest.raises(LimitError, match=r"in' has 4,398,046,511,104 bytes"):
        np.asarray(labels)


def test_rows_of_no_classes_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 0), np.float32))
    with pytest.raises(FileError, match=r"a\.npy' has 5 rows of no classes"):
        open_shards(tmp_path / "a.npy", ndim=2, name="x")
    np.save(tmp_path / "b.npy", np.zeros((2, 5, 0), np.float32))
    with pytest.raises(FileError, match=r"b\.npy' has 5 rows of no classes"):
        open_shards(tmp_path / "b.npy", ndim=3, name="x")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, name, kind):
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    for ndim in (1, 2):
        with pytest.raises(FileError, match=rf"{name}' is (not a regular file|empty)"):
            read_all(path, ndim)


# --- tables


def test_rows_longer_than_the_header_do_not_shift(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\ngood film,pos,ana\nbad film,neg,ben\n")
    with pytest.raises(FileError, match=r"a\.csv' has 3 entries in line 2, but its header has 2"):
        open_labels(str(tmp_path / "a.csv"))
    (tmp_path / "b.csv").write_text("cat,dog\n0.5,0.5,0.1\n")
    with pytest.raises(FileError, match="3 entries in line 2"):
        open_probabilities(str(tmp_path / "b.csv"), ndim=2)


def parquet_with(path, metadata):
    pq.write_table(TABLE.replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    "note",
    [
        *(b"{", b"\xff\xfe", b"[1]", b"7", b"[" * 100_000, b'{"index_columns": 3}'),
        *(b'{"index_columns": [{"kind": "x"}]}', b'{"index_columns": ["none"]}'),
    ],
    ids=lambda note: str(note[:20]),
)
def test_what_pandas_noted_in_a_table_may_be_anything(tmp_path, note):
    (tmp_path / "in").mkdir()
    parquet_with(tmp_path / "in" / "0.parquet", {b"pandas": note})
    for ndim, address in ((2, tmp_path / "in"), (1, f"{tmp_path / 'in' / '0.parquet'}::class 1")):
        try:
            rows = read_all(address, ndim)
        except FileError as error:
            message = str(error)
        else:
            message = ""
            assert (rows == (PROBS if ndim == 2 else PROBS[:, 1])).all()
        assert not message or "0.parquet" in message


def test_metadata_that_is_no_text_is_ours(tmp_path):
    path = parquet_with(tmp_path / "a.parquet", {b"pandas": b"\xff{"})
    with pytest.raises(FileError, match=r"a\.parquet' cannot be read \("):
        open_probabilities(str(path), ndim=2)


def test_a_footer_that_counts_other_rows(tmp_path):
    """The number of rows stands twice in a footer: of the file, and of its groups."""
    table = pa.table({"a": np.zeros(60, np.float32)})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    sound = (tmp_path / "a.parquet").read_bytes()
    length = int.from_bytes(sound[-8:-4], "little")
    start = len(sound) - 8 - length
    n_refused = 0
    for at in range(start, len(sound) - 8):
        if sound[at] == 120:  # 60, as numbers are written there
            content = bytearray(sound)
            content[at] = 118
            (tmp_path / "a.parquet").write_bytes(content)
            try:
                read_all(tmp_path / "a.parquet", 2)
            except FileError:
                n_refused += 1
    assert n_refused >= 2


def test_classes_are_counted(tmp_path):
    lists = pa.array([[0.5] * 500], pa.list_(pa.float32(), 500))
    pq.write_table(pa.table({"probs": lists}), tmp_path / "a.parquet")
    pq.write_table(pa.table({f"{k}": [0.5] for k in range(500)}), tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        assert open_probabilities(str(tmp_path / name), ndim=2).shape == (1, 500)
        with (
            override_limits(table_columns=499),
            pytest.raises(LimitError, match="has 500 columns, and at most 499"),
        ):
            open_probabilities(str(tmp_path / name), ndim=2)


def test_many_equal_rows_in_a_few_bytes(tmp_path):
    """Ten million rows in a few kB: read in blocks, or refused where all are needed at once."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"label": np.zeros(10**7, np.int64)}), tmp_path / "in" / "0.parquet")
    labels = open_labels(str(tmp_path / "in"))
    assert labels[5:9].tolist() == [0] * 4
    with override_limits(memory_bytes=10**6):
        for address in ("in", "in/0.parquet"):
            with pytest.raises(LimitError, match="memory_bytes"):
                read_all(tmp_path / address, 1)


# --- Zarr


def zarr_of(path, array=PROBS, **options):
    stored_array = zarr.create_array(str(path), shape=array.shape, dtype=array.dtype, **options)
    stored_array[...] = array
    return path


def test_a_codec_that_unpickles_is_refused(tmp_path, monkeypatch):
    """Newer versions of numcodecs refuse it themselves; the older ones run it."""
    module = numcodecs.pickles
    if hasattr(module, "ALLOW_UNSAFE_PICKLE_DECODE"):
        monkeypatch.setattr(module, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    ran = tmp_path / "ran"

    class ForgedCodec:
        def __reduce__(self):
            return os.mkdir, (str(ran),)

    for place in ("filters", "compressor"):
        path = zarr_of(tmp_path / f"{place}.zarr", LABELS, zarr_format=2, compressors=None)
        about = json.loads((path / ".zarray").read_text())
        about |= {"dtype": "|O", "fill_value": "", "filters": [{"id": "vlen-utf8"}]}
        bad = {"id": "pickle"}
        about |= {"compressor": bad} if place == "compressor" else {}
        about["filters"] += [bad] if place == "filters" else []
        (path / ".zarray").write_text(json.dumps(about))
        (path / "0").write_bytes(pickle.dumps(ForgedCodec()))
        with pytest.raises(FileError, match="is packed with 'pickle', which is not unpacked"):
            read_all(path, 1)
    assert not ran.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"zarr_format": 2},
        {"zarr_format": 2, "compressors": numcodecs.Blosc("lz4")},
        {"zarr_format": 2, "filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.LZMA()},
        {"compressors": zarr.codecs.BloscCodec()},
        {"compressors": zarr.codecs.GzipCodec()},
        {"compressors": None},
        {"chunks": (10, 3), "shards": (30, 3)},
        {"filters": zarr.codecs.TransposeCodec(order=(1, 0))},
    ],
)  # fmt: skip
def test_the_usual_codecs_are_read(tmp_path, options):
    path = zarr_of(tmp_path / "a.zarr", **options)
    np.testing.assert_array_equal(read_all(path, 2), PROBS)


def test_pipes_in_a_zarr_group_are_refused(tmp_path):
    group = zarr.create_group(str(tmp_path / "a.zarr"))
    group.create_array("probs", shape=PROBS.shape, dtype="f4")[...] = PROBS
    (tmp_path / "a.zarr" / "other").mkdir()
    os.mkfifo(tmp_path / "a.zarr" / "other" / "zarr.json")
    with pytest.raises(FileError, match=r"other/zarr\.json' is not a regular file"):
        open_probabilities(f"{tmp_path / 'a.zarr'}::probs", ndim=2)
    (tmp_path / "a.zarr" / "other" / "zarr.json").unlink()
    (tmp_path / "a.zarr" / "other" / "zarr.json").symlink_to("/dev/zero")
    with pytest.raises(FileError, match=r"other/zarr\.json' is not a regular file"):
        open_probabilities(f"{tmp_path / 'a.zarr'}::probs", ndim=2)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [-1, 3]},
        {"shape": "x"},
        {"shape": [2**62, 2**62]},
        {"shape": []},
        {"data_type": "object"},
        {"data_type": {"name": "x"}},
        {"codecs": []},
        {"codecs": [{"name": "pickle"}]},
        {"codecs": 7},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40, 2**20]}}},
        {"shape": [2**62, 3]},
        {"shape": [2**40, 2**20]},
        {"chunk_key_encoding": {"name": "x"}},
        {"zarr_format": 9},
        {"node_type": "x"},
        {"fill_value": "x"},
        {"storage_transformers": [{"name": "x"}]},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_zarr_metadata_that_is_none(tmp_path, change):
    path = zarr_of(tmp_path / "a.zarr")
    about = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps({**about, **change}))
    with pytest.raises(FileError, match=r"a\.zarr'"):
        read_all(path, 2)


def test_zarr_metadata_is_limited(tmp_path):
    path = zarr_of(tmp_path / "a.zarr")
    with override_limits(json_bytes=100), pytest.raises(LimitError, match=r"zarr\.json' has \d+ b"):
        read_all(path, 2)
    with override_limits(memory_bytes=100), pytest.raises(LimitError, match=r"a\.zarr' has 720 by"):
        read_all(path, 2)


# --- damage


def sound_files(folder):
    np.save(folder / "a.npy", PROBS)
    np.savez_compressed(folder / "a.npz", PROBS)
    pq.write_table(TABLE, folder / "a.parquet")
    pq.write_table(pa.table({"p": list(PROBS)}), folder / "b.parquet", compression="none")
    pd.DataFrame(PROBS, columns=list("abc")).to_csv(folder / "a.csv", index=False)
    zarr_of(folder / "a.zarr", chunks=(20, 3))
    zarr_of(folder / "b.zarr", chunks=(20, 3), zarr_format=2)
    shards = folder / "shards"
    shards.mkdir()
    np.save(shards / "0.npy", PROBS)
    pairs = [(folder / name, folder / name) for name in ("a.npy", "a.npz", "a.parquet")]
    pairs += [(folder / "b.parquet", folder / "b.parquet"), (folder / "a.csv", folder / "a.csv")]
    pairs += [(folder / "a.zarr" / "zarr.json", folder / "a.zarr")]
    pairs += [(folder / "b.zarr" / ".zarray", folder / "b.zarr")]
    pairs += [(folder / "a.zarr" / "c" / "1" / "0", folder / "a.zarr")]
    return [*pairs, (shards / "0.npy", shards)]


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_end_in_our_own_errors(tmp_path):
    rng = np.random.default_rng(0)
    for file, address in sound_files(tmp_path):
        sound, n_refused = file.read_bytes(), 0
        np.testing.assert_allclose(read_all(address, 2), PROBS, rtol=1e-6)
        for n in range(70):
            content = bytearray(sound)
            for _ in range(1 + n % 3):
                at = rng.integers(len(content)) if n % 2 else rng.integers(-300, 300)
                content[max(min(at, len(content) - 1), -len(content))] = rng.integers(256)
            if n % 9 == 0:
                del content[int(rng.integers(len(content))) :]
            file.write_bytes(content)
            driver = time.monotonic()
            with override_limits(memory_bytes=2**27):
                try:
                    read_all(address, 2)
                except UqledError:
                    n_refused += 1
            assert time.monotonic() - driver < 5, file
        file.write_bytes(sound)
        assert n_refused > 5, file


# --- transition matrices


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.json", b'{"matrix": [[1, 0], [0, 1]], "classes": 10000000000000}'),
        ("m.json", b'{"matrix": [[1, 0], [0, 1]], "classes": "ab"}'),
        ("m.json", b'{"matrix": [[1, 0], [0, 1]], "classes": {"a": 1, "b": 2}}'),
        ("m.json", b'{"matrix": [[1, 1' + b"0" * 400 + b'], [0, 1]], "classes": ["a", "b"]}'),
        ("m.json", b'{"matrix": [[1, 1' + b"0" * 5000 + b'], [0, 1]], "classes": ["a", "b"]}'),
        ("m.json", b"[" * 100_000),
        ("m.json", b'{"matrix": ' + b"[" * 100 + b"]" * 100 + b', "classes": ["a", "b"]}'),
        ("m.json", b'{"matrix": null, "classes": null}'),
        ("m.json", b"\xff\xfe"),
        ("m.csv", b"\xff\xfe"),
        ("m.csv", b"x" * 200_000),
        ("m.csv", b'"' + b"x" * 1000),
        ("m.csv", b"a\0b,c\n"),
        ("m.csv", b"1e400,0\n0,1\n"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_files_that_are_no_matrices(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    driver = time.monotonic()
    with pytest.raises(FileError, match=rf"{name}' is not a transition matrix \(.+\)"):
        TransitionMatrix.load(tmp_path / name)
    assert time.monotonic() - driver < 2


def test_matrices_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "m.csv")
    with pytest.raises(
        FileError, match=r"m\.csv' is not a transition matrix \(is not a regular file\)"
    ):
        TransitionMatrix.load(tmp_path / "m.csv")
    (tmp_path / "m.json").write_text("{" + " " * 1000)
    with override_limits(json_bytes=100), pytest.raises(FileError, match="has 1,001 bytes"):
        TransitionMatrix.load(tmp_path / "m.json")


def test_a_number_of_classes_is_compared_before_they_are_named():
    with pytest.raises(InputError, match="classes has 1000000000000 names for a matrix of 2 rows"):
        TransitionMatrix(np.eye(2), 10**12)
    assert TransitionMatrix(np.eye(2), 2).classes == ("0", "1")


def test_the_length_of_a_header_is_not_believed(tmp_path):
    (tmp_path / "in").mkdir()
    content = b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"{}"
    for path in (tmp_path / "a.npy", tmp_path / "in" / "a.npy"):
        path.write_bytes(content)
        with pytest.raises(FileError, match=r"a\.npy'"):
            read_all(path if path.parent == tmp_path else path.parent, 2)
