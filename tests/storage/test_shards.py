"""Shards read as one array: beside NumPy, Zarr and PyArrow reading the same files whole."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from shard_files import (
    LAYOUTS,
    PASSES,
    PROBS,
    RNG,
    K,
    N,
    check,
    columns,
    fresh,
    npy_folder,
    parquet_folder,
    read_as,
    rows,
    zarr_folder,
)
from stores import s3_address
from uqled.errors import FileError, InputError
from uqled.storage.arrays import parquet_files, row_files
from uqled.storage.arrays.shards import open_shards
from uqled.storage.location import Location


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_read_as_one_array(tmp_path, layout):
    expected, make = LAYOUTS[layout]
    check(open_shards(make(tmp_path), ndim=expected.ndim, name="x"), expected)


def test_the_files_are_what_other_readers_see(tmp_path):
    """The expected arrays above are those that others read from the same files."""
    folder = npy_folder(tmp_path / "npy", PROBS)
    expected = np.concatenate([np.load(folder / f"part-{n}.npy") for n in range(8, 13)])
    check(open_shards(folder, ndim=2, name="x"), expected)
    folder = parquet_folder(tmp_path / "pq", columns, PROBS)
    expected = np.concatenate(
        [pq.read_table(folder / f"part-{n}.parquet").to_pandas().to_numpy() for n in range(8, 13)]
    )
    check(open_shards(folder, ndim=2, name="x"), expected)
    folder = zarr_folder(tmp_path / "z.zarr", PASSES, chunks=(2, 64, K))
    check(open_shards(folder, ndim=3, name="x"), zarr.open_array(str(folder), mode="r")[...])


@pytest.fixture(scope="module")
def s3():
    with s3_address() as address:
        yield address


@pytest.mark.parametrize("store", ["memory", "s3"])
def test_all_layouts_read_the_same_from_a_store(tmp_path, store, request):
    base = request.getfixturevalue("s3") if store == "s3" else "memory:/"
    for layout, (expected, make) in LAYOUTS.items():
        address = str(make(fresh(tmp_path / layout)))
        folder = f"{base}/{uuid4().hex}"
        for entry in Location.of(tmp_path / layout).tree():
            (Location.of(folder) / entry.name).write((tmp_path / layout / entry.name).read_bytes())
        result = open_shards(
            address.replace(str(tmp_path / layout), folder), ndim=expected.ndim, name="x"
        )
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(result), expected)
        np.testing.assert_array_equal(rows(result, 85, 260), rows(expected, 85, 260))


@pytest.mark.parametrize("stored_as", ["f2", "f4", "f8", ">f4", ">f8", "i1", "u2", ">i8"])
@pytest.mark.parametrize("expected", ["f2", "f4", "f8"])
def test_numbers_are_converted_as_numpy_does(tmp_path, stored_as, expected):
    array = (PASSES * 100).astype(stored_as)
    result = open_shards(npy_folder(tmp_path / "a", array, axis=1), ndim=3, name="passes")
    assert result.dtype == array.dtype.newbyteorder("=")
    assert result.dtype.isnative
    assert read_as(result, 30, 333, expected).dtype == expected
    np.testing.assert_array_equal(
        read_as(result, 30, 333, expected), array[:, 30:333].astype(expected)
    )


def test_conversion_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_PIECE_BYTES", 64)
    monkeypatch.setattr(row_files, "_PIECE_BYTES", 64)  # three rows at a time, then batches of them
    result = open_shards(npy_folder(tmp_path / "a", PROBS), ndim=2, name="x")
    np.testing.assert_array_equal(read_as(result, 3, 398, np.float64), PROBS[3:398])
    table = LAYOUTS["columns"][1](fresh(tmp_path / "b"))
    check(open_shards(table, ndim=2, name="x"), PROBS)


def test_fractions_do_not_become_integers(tmp_path):
    result = open_shards(npy_folder(tmp_path / "a", PROBS), ndim=2, name="x")
    with pytest.raises(InputError, match="buffer has type int64, which cannot hold float32"):
        read_as(result, 0, 10, np.int64)


def test_half_precision_in_parquet(tmp_path):
    half = PROBS.astype(np.float16)
    folder = parquet_folder(tmp_path / "a", columns, half)
    check(open_shards(folder, ndim=2, name="x"), half)


def test_columns_of_different_types(tmp_path):
    table = pa.table({"a": pa.array([0.5, 1.0], pa.float32()), "b": pa.array([0.5, 0.0])})
    pq.write_table(table, tmp_path / "a.parquet")
    result = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    assert result.dtype == np.float64
    assert np.asarray(result).tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert result.columns == ("a", "b")


def test_a_frame_with_an_index(tmp_path):
    frame = pd.DataFrame({"cat": [0.5, 1.0], "dog": [0.5, 0.0]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "a.parquet")
    result = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    assert result.columns == ("cat", "dog")


def test_what_a_plan_needs(tmp_path):
    folder = npy_folder(tmp_path / "a", PROBS)
    result = open_shards(folder, ndim=2, name="x")
    assert result.starts.tolist() == [0, 90, 91, 250, 400]  # of the shards that hold rows
    assert result.bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert result.chunks is None
    assert result.group_rows == 1
    assert open_shards(folder, ndim=2, name="x").fingerprint == result.fingerprint
    np.save(folder / "part-8.npy", PROBS[:90] * 0.5)
    assert open_shards(folder, ndim=2, name="x").fingerprint != result.fingerprint
    table = LAYOUTS["columns"][1](fresh(tmp_path / "b"))
    assert open_shards(table, ndim=2, name="x").chunks == (37, K)
    assert open_shards(table, ndim=2, name="x").group_rows == 37
    array = zarr_folder(tmp_path / "z", PASSES, chunks=(1, 64, K))
    assert open_shards(array, ndim=3, name="x").chunks == (1, 64, K)


def test_a_large_row_group_is_no_block(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_CHUNK_BYTES", 1000)
    pq.write_table(columns(PROBS), tmp_path / "a.parquet")
    result = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    assert result.chunks == (50, K)
    assert result.group_rows == N


def test_reading_on_decodes_nothing_twice(tmp_path, monkeypatch):
    pq.write_table(columns(PROBS), tmp_path / "a.parquet", row_group_size=200)
    result = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    beginnings = []
    original = parquet_files._Cursor._start_group
    monkeypatch.setattr(
        parquet_files._Cursor,
        "_start_group",
        lambda self, group: (beginnings.append(group), original(self, group)),
    )
    for start in range(0, N, 25):
        assert np.array_equal(result[start : start + 25], PROBS[start : start + 25])
    assert beginnings == [0, 1]
    assert np.array_equal(result[30:40], PROBS[30:40])
    assert np.array_equal(result[90:140], PROBS[90:140])
    assert beginnings == [0, 1, 0]


def test_opening_reads_headers_only(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros((100_000, 10), np.float32))
    pq.write_table(columns(np.zeros((100_000, 10))), tmp_path / "a.parquet")
    read = []
    original = row_files.read_ranges

    def count_bytes(ranges):
        read.extend(length for _, _, length in ranges)
        return original(ranges)

    monkeypatch.setattr(row_files, "read_ranges", count_bytes)
    monkeypatch.setattr(parquet_files, "read_ranges", count_bytes)
    for name in ("a.npy", "a.parquet"):
        open_shards(tmp_path / name, ndim=2, name="x")
    assert len(read) == 2
    assert sum(read) < 100_000


def test_a_long_footer_is_read_whole(tmp_path):
    wide = RNG.dirichlet(np.ones(900), 20).astype(np.float32)
    pq.write_table(columns(wide), tmp_path / "a.parquet")
    footer = int.from_bytes((tmp_path / "a.parquet").read_bytes()[-8:-4], "little")
    assert footer > parquet_files._FOOTER_BYTES
    result = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    np.testing.assert_array_equal(np.asarray(result), wide)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_process_reads_what_was_pickled(tmp_path, layout):
    expected, make = LAYOUTS[layout]
    result = open_shards(make(tmp_path), ndim=expected.ndim, name="x")
    _ = rows(result, 0, 10)  # whatever reading left open stays here
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(result))), expected)
    if layout not in ("npy folder", "columns", "zarr passes"):
        return
    code = (
        "import pickle, sys, numpy as np; found = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(np.asarray(found).tobytes())"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(result),
        capture_output=True,
        check=True,
        cwd="/",
    )
    assert process.stdout == expected.tobytes()


def test_many_shards_pickle_small(tmp_path):
    wide = RNG.dirichlet(np.ones(50), 200)
    for n in range(200):
        pq.write_table(columns(wide[n : n + 1]), tmp_path / f"{n}.parquet")
    result = open_shards(tmp_path, ndim=2, name="x")
    assert len(pickle.dumps(result)) < 200 * 300  # the columns' names once, not 200 times


@pytest.mark.parametrize("layout", ["npy folder", "columns", "zarr", "pass tables", "names"])
def test_threads_read_at_the_same_time(tmp_path, layout):
    expected, make = LAYOUTS[layout]
    result = open_shards(make(tmp_path), ndim=expected.ndim, name="x")
    ranges = np.sort(np.random.default_rng(2).integers(0, N + 1, (100, 2))).tolist()
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda r: rows(result, *r), ranges))
    for (start, stop), part in zip(ranges, read, strict=True):
        np.testing.assert_array_equal(part, rows(expected, start, stop))


def test_keys_that_cannot_be_read(tmp_path):
    result = open_shards(npy_folder(tmp_path / "a", PROBS), ndim=2, name="x")
    stacked = open_shards(npy_folder(tmp_path / "b", PASSES, axis=1), ndim=3, name="x")
    for array, key in [
        (result, 3), (result, slice(0, 9, 2)), (result, (slice(3), slice(2))), (result, [1, 2]),
        (stacked, slice(3)), (stacked, 0), (stacked, (0, slice(3))),
    ]:  # fmt: skip
        with pytest.raises(IndexError, match="shards are read by"):
            _ = array[key]
    assert result[:0].shape == (0, K)
    assert result[300:100].shape == (0, K)
    np.testing.assert_array_equal(result[-10:], PROBS[-10:])
    np.testing.assert_array_equal(stacked[...], PASSES)
    np.testing.assert_array_equal(stacked[:, 5:7], PASSES[:, 5:7])
    with pytest.raises(InputError, match="rows 390 to 401 are not within 0 to 400"):
        result.read_into(np.empty((11, K)), 390, 401)
    with pytest.raises(InputError, match=r"buffer has shape \(10, 4\). Pass \(10, 5\)"):
        result.read_into(np.empty((10, 4)), 0, 10)
    with pytest.raises(InputError, match="in C order"):
        result.read_into(np.empty((10, K), order="F"), 0, 10)
    with pytest.raises(ValueError, match="reading them makes a copy"):
        np.asarray(result, copy=False)


def test_fortran_order(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(PROBS))
    with pytest.raises(FileError, match=r"a.npy' is in Fortran order.*np.ascontiguousarray"):
        open_shards(tmp_path / "a.npy", ndim=2, name="x")
    np.save(tmp_path / "b.npy", np.asfortranarray(PROBS[:1]))  # in which both orders are one
    np.testing.assert_array_equal(open_shards(tmp_path / "b.npy", ndim=2, name="x"), PROBS[:1])


def test_a_newer_npy_header(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, PROBS, version=(2, 0))
    check(open_shards(tmp_path / "a.npy", ndim=2, name="x"), PROBS)
