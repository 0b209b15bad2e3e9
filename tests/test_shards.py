"""Shards read as one array: beside NumPy, Zarr and PyArrow reading the same files whole."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from stores import s3_address
from uqled.errors import FileError, InputError
from uqled.storage.arrays import parquet_files, row_files
from uqled.storage.arrays.shards import Shards, open_shards
from uqled.storage.location import Location

N, K, F = 400, 5, 3
CUTS = [0, 90, 90, 91, 250, 400]  # one shard is empty, one has a row
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(K), N).astype(np.float32)
PASSES = RNG.dirichlet(np.ones(K), (F, N)).astype(np.float32)
LABELS = RNG.integers(0, K, N)
NAMES = np.array(["cat", "dog", "horse", "cow", "é"])[LABELS]


def fresh(folder):
    folder.mkdir()
    return folder


def parts(array, axis=0):
    for number, (start, stop) in enumerate(pairwise(CUTS)):
        yield number + 8, np.take(array, range(start, stop), axis=axis)  # 8, 9, 10, 11, 12


def npy_folder(folder, array, axis=0):
    folder.mkdir(parents=True)
    for number, part in parts(array, axis):
        np.save(folder / f"part-{number}.npy", part)
    return folder


def parquet_folder(folder, table_of, array, **options):
    folder.mkdir(parents=True)
    for number, part in parts(array):
        pq.write_table(table_of(part), folder / f"part-{number}.parquet", **options)
    return folder


def columns(part):
    return pa.table({f"class {k}": part[:, k] for k in range(part.shape[1])})


def lists(part, kind):
    return pa.table({"probs": pa.array(list(part), type=kind)})


def zarr_folder(folder, array, **options):
    made = zarr.create_array(str(folder), shape=array.shape, dtype=array.dtype, **options)
    made[...] = array
    return folder


def pass_folders(folder):
    for f in range(F):
        npy_folder(folder / f"pass-{f + 8}", PASSES[f])
    return folder


def pass_tables(folder):
    for f in range(F):
        parquet_folder(folder / f"{f}", columns, PASSES[f], row_group_size=70)
    return folder


def zarr_group(folder):
    group = zarr.create_group(str(folder))
    group.create_array("probs", shape=PROBS.shape, chunks=(64, K), dtype="f4")[...] = PROBS
    return f"{folder}::probs"


def one_file(path, array):
    np.save(path, array)
    return path


LAYOUTS = {
    "npy folder": (PROBS, lambda d: npy_folder(d / "a", PROBS)),
    "npy file": (PROBS, lambda d: one_file(d / "a.npy", PROBS)),
    "columns": (PROBS, lambda d: parquet_folder(d / "a", columns, PROBS, row_group_size=37)),
    "lists": (
        PROBS,
        lambda d: parquet_folder(
            d / "a", lambda p: lists(p, pa.list_(pa.float32())), PROBS, row_group_size=37
        ),
    ),
    "large lists": (
        PROBS,
        lambda d: parquet_folder(d / "a", lambda p: lists(p, pa.large_list(pa.float32())), PROBS),
    ),
    "lists of fixed size": (
        PROBS,
        lambda d: parquet_folder(d / "a", lambda p: lists(p, pa.list_(pa.float32(), K)), PROBS),
    ),
    "zarr": (PROBS, lambda d: zarr_folder(d / "a.zarr", PROBS, chunks=(64, 3))),
    "zarr 2": (PROBS, lambda d: zarr_folder(d / "a", PROBS, chunks=(64, K), zarr_format=2)),
    "zarr in shards": (
        PROBS,
        lambda d: zarr_folder(d / "a", PROBS, chunks=(16, K), shards=(64, K)),
    ),
    "zarr group": (PROBS, lambda d: zarr_group(d / "a.zarr")),
    "npy passes": (PASSES, lambda d: npy_folder(d / "a", PASSES, axis=1)),
    "pass folders": (PASSES, lambda d: pass_folders(d / "a")),
    "pass tables": (PASSES, lambda d: pass_tables(d / "a")),
    "zarr passes": (PASSES, lambda d: zarr_folder(d / "a.zarr", PASSES, chunks=(1, 64, K))),
    "labels": (LABELS, lambda d: npy_folder(d / "a", LABELS)),
    "label column": (
        LABELS,
        lambda d: parquet_folder(d / "a", lambda p: pa.table({"label": p}), LABELS),
    ),
    "zarr labels": (LABELS, lambda d: zarr_folder(d / "a.zarr", LABELS, chunks=(64,))),
    "names": (NAMES, lambda d: npy_folder(d / "a", NAMES)),
    "name column": (
        NAMES.astype(object),
        lambda d: parquet_folder(d / "a", lambda p: pa.table({"x": p, "label": p}), NAMES),
    ),
    "name categories": (
        NAMES.astype(object),
        lambda d: parquet_folder(
            d / "a", lambda p: pa.table({"y": pa.array(p).dictionary_encode()}), NAMES
        ),
    ),
}  # fmt: skip


def rows(array, start, stop):
    return array[:, start:stop] if array.ndim == 3 else array[start:stop]


def read_as(found, start, stop, dtype):
    buffer = np.empty(rows(np.empty(found.shape, bool), start, stop).shape, dtype)
    found.read_into(buffer, start, stop)
    return buffer


def check(found, whole):
    """Compare a few hundred ranges with the array that was written."""
    assert found.shape == whole.shape
    assert found.ndim == whole.ndim
    assert len(found) == len(whole)
    assert found.dtype == whole.dtype
    np.testing.assert_array_equal(np.asarray(found), whole)
    rng = np.random.default_rng(1)
    for start, stop in np.sort(rng.integers(0, N + 1, (60, 2))).tolist():
        np.testing.assert_array_equal(
            read_as(found, start, stop, whole.dtype), rows(whole, start, stop)
        )
    for start in range(0, N, 33):  # one after the other, as detection reads
        np.testing.assert_array_equal(
            rows(found, start, start + 33), rows(whole, start, start + 33)
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_read_as_one_array(tmp_path, layout):
    whole, make = LAYOUTS[layout]
    check(open_shards(make(tmp_path), ndim=whole.ndim, name="x"), whole)


def test_the_files_are_what_other_readers_see(tmp_path):
    """The expected arrays above are those that others read from the same files."""
    folder = npy_folder(tmp_path / "npy", PROBS)
    whole = np.concatenate([np.load(folder / f"part-{n}.npy") for n in range(8, 13)])
    check(open_shards(folder, ndim=2, name="x"), whole)
    folder = parquet_folder(tmp_path / "pq", columns, PROBS)
    whole = np.concatenate(
        [pq.read_table(folder / f"part-{n}.parquet").to_pandas().to_numpy() for n in range(8, 13)]
    )
    check(open_shards(folder, ndim=2, name="x"), whole)
    folder = zarr_folder(tmp_path / "z.zarr", PASSES, chunks=(2, 64, K))
    check(open_shards(folder, ndim=3, name="x"), zarr.open_array(str(folder), mode="r")[...])


@pytest.fixture(scope="module")
def s3():
    with s3_address() as address:
        yield address


@pytest.mark.parametrize("store", ["memory", "s3"])
def test_all_layouts_read_the_same_from_a_store(tmp_path, store, request):
    base = request.getfixturevalue("s3") if store == "s3" else "memory:/"
    for layout, (whole, make) in LAYOUTS.items():
        address = str(make(fresh(tmp_path / layout)))
        there = f"{base}/{uuid4().hex}"
        for entry in Location.of(tmp_path / layout).tree():
            (Location.of(there) / entry.name).write((tmp_path / layout / entry.name).read_bytes())
        found = open_shards(
            address.replace(str(tmp_path / layout), there), ndim=whole.ndim, name="x"
        )
        assert found.dtype == whole.dtype
        np.testing.assert_array_equal(np.asarray(found), whole)
        np.testing.assert_array_equal(rows(found, 85, 260), rows(whole, 85, 260))


@pytest.mark.parametrize("stored_as", ["f2", "f4", "f8", ">f4", ">f8", "i1", "u2", ">i8"])
@pytest.mark.parametrize("wanted", ["f2", "f4", "f8"])
def test_numbers_are_converted_as_numpy_does(tmp_path, stored_as, wanted):
    whole = (PASSES * 100).astype(stored_as)
    found = open_shards(npy_folder(tmp_path / "a", whole, axis=1), ndim=3, name="passes")
    assert found.dtype == whole.dtype.newbyteorder("=")
    assert found.dtype.isnative
    assert read_as(found, 30, 333, wanted).dtype == wanted
    np.testing.assert_array_equal(read_as(found, 30, 333, wanted), whole[:, 30:333].astype(wanted))


def test_conversion_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_PIECE_BYTES", 64)
    monkeypatch.setattr(row_files, "_PIECE_BYTES", 64)  # three rows at a time, then batches of them
    found = open_shards(npy_folder(tmp_path / "a", PROBS), ndim=2, name="x")
    np.testing.assert_array_equal(read_as(found, 3, 398, np.float64), PROBS[3:398])
    table = LAYOUTS["columns"][1](fresh(tmp_path / "b"))
    check(open_shards(table, ndim=2, name="x"), PROBS)


def test_fractions_do_not_become_integers(tmp_path):
    found = open_shards(npy_folder(tmp_path / "a", PROBS), ndim=2, name="x")
    with pytest.raises(InputError, match="buffer has type int64, which cannot hold float32"):
        read_as(found, 0, 10, np.int64)


def test_half_precision_in_parquet(tmp_path):
    half = PROBS.astype(np.float16)
    folder = parquet_folder(tmp_path / "a", columns, half)
    check(open_shards(folder, ndim=2, name="x"), half)


def test_columns_of_different_types(tmp_path):
    table = pa.table({"a": pa.array([0.5, 1.0], pa.float32()), "b": pa.array([0.5, 0.0])})
    pq.write_table(table, tmp_path / "a.parquet")
    found = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    assert found.dtype == np.float64
    assert np.asarray(found).tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert found.columns == ("a", "b")


def test_a_frame_with_an_index(tmp_path):
    frame = pd.DataFrame({"cat": [0.5, 1.0], "dog": [0.5, 0.0]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "a.parquet")
    found = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    assert found.columns == ("cat", "dog")


def test_what_a_plan_needs(tmp_path):
    folder = npy_folder(tmp_path / "a", PROBS)
    found = open_shards(folder, ndim=2, name="x")
    assert found.starts.tolist() == [0, 90, 91, 250, 400]  # of the shards that hold rows
    assert found.bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert found.chunks is None
    assert found.group_rows == 1
    assert open_shards(folder, ndim=2, name="x").fingerprint == found.fingerprint
    np.save(folder / "part-8.npy", PROBS[:90] * 0.5)
    assert open_shards(folder, ndim=2, name="x").fingerprint != found.fingerprint
    table = LAYOUTS["columns"][1](fresh(tmp_path / "b"))
    assert open_shards(table, ndim=2, name="x").chunks == (37, K)
    assert open_shards(table, ndim=2, name="x").group_rows == 37
    array = zarr_folder(tmp_path / "z", PASSES, chunks=(1, 64, K))
    assert open_shards(array, ndim=3, name="x").chunks == (1, 64, K)


def test_a_large_row_group_is_no_block(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_CHUNK_BYTES", 1000)
    pq.write_table(columns(PROBS), tmp_path / "a.parquet")
    found = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    assert found.chunks == (50, K)
    assert found.group_rows == N


def test_reading_on_decodes_nothing_twice(tmp_path, monkeypatch):
    pq.write_table(columns(PROBS), tmp_path / "a.parquet", row_group_size=200)
    found = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    begun = []
    original = parquet_files._Cursor._begin
    monkeypatch.setattr(
        parquet_files._Cursor,
        "_begin",
        lambda self, group: (begun.append(group), original(self, group)),
    )
    for start in range(0, N, 25):
        assert np.array_equal(found[start : start + 25], PROBS[start : start + 25])
    assert begun == [0, 1]
    assert np.array_equal(found[30:40], PROBS[30:40])
    assert np.array_equal(found[90:140], PROBS[90:140])
    assert begun == [0, 1, 0]


def test_opening_reads_headers_only(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros((100_000, 10), np.float32))
    pq.write_table(columns(np.zeros((100_000, 10))), tmp_path / "a.parquet")
    read = []
    original = row_files.read_ranges

    def counted(ranges):
        read.extend(length for _, _, length in ranges)
        return original(ranges)

    monkeypatch.setattr(row_files, "read_ranges", counted)
    monkeypatch.setattr(parquet_files, "read_ranges", counted)
    for name in ("a.npy", "a.parquet"):
        open_shards(tmp_path / name, ndim=2, name="x")
    assert len(read) == 2
    assert sum(read) < 100_000


def test_a_long_footer_is_read_whole(tmp_path):
    wide = RNG.dirichlet(np.ones(900), 20).astype(np.float32)
    pq.write_table(columns(wide), tmp_path / "a.parquet")
    footer = int.from_bytes((tmp_path / "a.parquet").read_bytes()[-8:-4], "little")
    assert footer > parquet_files._FOOTER_BYTES
    found = open_shards(tmp_path / "a.parquet", ndim=2, name="x")
    np.testing.assert_array_equal(np.asarray(found), wide)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_process_reads_what_was_pickled(tmp_path, layout):
    whole, make = LAYOUTS[layout]
    found = open_shards(make(tmp_path), ndim=whole.ndim, name="x")
    _ = rows(found, 0, 10)  # whatever reading left open stays here
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(found))), whole)
    if layout not in ("npy folder", "columns", "zarr passes"):
        return
    code = (
        "import pickle, sys, numpy as np; found = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(np.asarray(found).tobytes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(found),
        capture_output=True,
        check=True,
        cwd="/",
    )
    assert done.stdout == whole.tobytes()


def test_many_shards_pickle_small(tmp_path):
    wide = RNG.dirichlet(np.ones(50), 200)
    for n in range(200):
        pq.write_table(columns(wide[n : n + 1]), tmp_path / f"{n}.parquet")
    found = open_shards(tmp_path, ndim=2, name="x")
    assert len(pickle.dumps(found)) < 200 * 300  # the columns' names once, not 200 times


@pytest.mark.parametrize("layout", ["npy folder", "columns", "zarr", "pass tables", "names"])
def test_threads_read_at_the_same_time(tmp_path, layout):
    whole, make = LAYOUTS[layout]
    found = open_shards(make(tmp_path), ndim=whole.ndim, name="x")
    ranges = np.sort(np.random.default_rng(2).integers(0, N + 1, (100, 2))).tolist()
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda r: rows(found, *r), ranges))
    for (start, stop), part in zip(ranges, read, strict=True):
        np.testing.assert_array_equal(part, rows(whole, start, stop))


def test_keys_that_cannot_be_read(tmp_path):
    found = open_shards(npy_folder(tmp_path / "a", PROBS), ndim=2, name="x")
    stacked = open_shards(npy_folder(tmp_path / "b", PASSES, axis=1), ndim=3, name="x")
    for array, key in [
        (found, 3), (found, slice(0, 9, 2)), (found, (slice(3), slice(2))), (found, [1, 2]),
        (stacked, slice(3)), (stacked, 0), (stacked, (0, slice(3))),
    ]:  # fmt: skip
        with pytest.raises(IndexError, match="shards are read by"):
            _ = array[key]
    assert found[:0].shape == (0, K)
    assert found[300:100].shape == (0, K)
    np.testing.assert_array_equal(found[-10:], PROBS[-10:])
    np.testing.assert_array_equal(stacked[...], PASSES)
    np.testing.assert_array_equal(stacked[:, 5:7], PASSES[:, 5:7])
    with pytest.raises(InputError, match="rows 390 to 401 are not among 400"):
        found.read_into(np.empty((11, K)), 390, 401)
    with pytest.raises(InputError, match=r"buffer has shape \(10, 4\). Pass \(10, 5\)"):
        found.read_into(np.empty((10, 4)), 0, 10)
    with pytest.raises(InputError, match="in C order"):
        found.read_into(np.empty((10, K), order="F"), 0, 10)
    with pytest.raises(ValueError, match="reading them is a copy"):
        np.asarray(found, copy=False)


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


# -- what is refused -------------------------------------------------------------------------------


def shards_in(tmp_path, **files):
    """A folder of `.npy` shards by number."""
    for name, array in files.items():
        np.save(tmp_path / f"part-{name[1:]}.npy", array)
    return tmp_path


def truncated(path, to):
    path.write_bytes(path.read_bytes()[:to])


def cut_npy(d):
    npy_folder(d / "a", PROBS)
    truncated(d / "a" / "part-11.npy", 1000)
    return d / "a"


def cut_parquet(d):
    parquet_folder(d / "a", columns, PROBS)
    truncated(d / "a" / "part-11.parquet", 1000)
    return d / "a"


def without_chunk(d):
    zarr_folder(d / "a.zarr", PROBS, chunks=(64, K))
    (d / "a.zarr" / "c" / "3" / "0").unlink()
    return d / "a.zarr"


def without_chunk_of_group(d):
    zarr_group(d / "a.zarr")
    (d / "a.zarr" / "probs" / "c" / "0" / "0").unlink()
    return f"{d / 'a.zarr'}::probs"


def with_file(d, name, content):
    npy_folder(d / "a", PROBS)
    (d / "a" / name).write_bytes(content)
    return d / "a"


def only(d, name, content):
    (d / name).write_bytes(content)
    return d / name


def tables(d, *made):
    for number, table in enumerate(made):
        pq.write_table(pa.table(table), d / f"{number}.parquet")
    return d


def passes_of(d, *arrays):
    for f, files in enumerate(arrays):
        for n, array in enumerate(files):
            (d / f"{f}").mkdir(exist_ok=True)
            np.save(d / f"{f}" / f"{n}.npy", array)
    return d


def same(n, of=PROBS):
    return {f"_{number}": of[number : number + 3] for number in range(n)}


def without(names, gone):
    return {name: array for name, array in names.items() if name not in gone}


REFUSED = {
    "nothing there": (2, lambda d: d / "none", "none' does not exist"),
    "an empty folder": (2, lambda d: d, "holds no shards"),
    "only hidden files": (2, lambda d: only(d, "_SUCCESS", b"x").parent, "holds no shards"),
    "a gap": (
        2,
        lambda d: shards_in(d, **without(same(4), ["_2"])),
        r"part-2.npy' does not exist, but 'part-0.npy' and 'part-3.npy' do",
    ),
    "two gaps": (
        2,
        lambda d: shards_in(d, **without(same(12), ["_3", "_10"])),
        r"part-3.npy' does not exist, nor do 1 others, but 'part-0.npy' and 'part-11.npy' do",
    ),
    "a gap in numbers of one width": (
        2,
        lambda d: shards_in(d, _0009=PROBS, _0011=PROBS),
        r"part-0010.npy' does not exist",
    ),
    "a gap among counted": (
        2,
        lambda d: shards_in(d, **{"_00000-of-00003": PROBS, "_00001-of-00003": PROBS}),
        r"part-00002-of-00003.npy' does not exist",
    ),
    "a missing pass": (
        3,
        lambda d: pass_folders(d / "a") and (d / "a/pass-9").rename(d / "x") and d / "a",
        "pass-9' does not exist",
    ),
    "a truncated .npy": (2, cut_npy, r"part-11.npy' ends at byte 1000, before its array does"),
    "half a header": (2, lambda d: with_file(d, "part-13.npy", b"\x93NUMPY\x01\x00v\x00{'d"),
                      r"part-13.npy' is no .npy file"),
    "an empty file": (2, lambda d: with_file(d, "part-13.npy", b""), r"part-13.npy' is empty"),
    "no .npy": (2, lambda d: with_file(d, "part-13.npy", b"x" * 500), r"part-13.npy' is no .npy"),
    "something else": (
        2, lambda d: with_file(d, "part-13.npy.tmp", b"x"), r"part-13.npy.tmp' is no shard",
    ),
    "two kinds": (
        2, lambda d: with_file(d, "part-13.parquet", b"x"), r"a' holds .npy and .parquet files",
    ),
    "folders among shards": (
        2, lambda d: fresh(npy_folder(d / "a", PROBS) / "x").parent, "holds a folder, 'x'",
    ),
    "objects": (
        1, lambda d: one_file(d / "a.npy", np.array([1, "a"], object)), "a.npy' holds object",
    ),
    "other classes": (
        2, lambda d: shards_in(d, _0=PROBS, _1=PROBS[:, :4]),
        r"part-1.npy' has 4 classes \(shape \(400, 4\)\), where 'part-0.npy' has 5",
    ),
    "other passes": (
        3, lambda d: shards_in(d, _0=PASSES, _1=PASSES[:2]), r"part-1.npy' has 2 passes",
    ),
    "another type": (
        2, lambda d: shards_in(d, _0=PROBS, _1=PROBS.astype("f8")),
        r"part-1.npy' holds float64, where 'part-0.npy' holds float32",
    ),
    "other axes": (
        2, lambda d: shards_in(d, _0=PROBS, _1=LABELS),
        r"part-1.npy' has shape \(400,\), but x must be \[N,K\]",
    ),
    "passes as probabilities": (
        2, lambda d: npy_folder(d / "a", PASSES, axis=1), r"has shape \(3, 90, 5\), but x must be",
    ),
    "text as probabilities": (
        2, lambda d: one_file(d / "a.npy", np.full((3, 2), "x")), "a.npy' holds <U1",
    ),
    "a key of .npy": (
        2, lambda d: f"{one_file(d / 'a.npy', PROBS)}::p", r"a.npy' holds one array, not 'p'",
    ),
    "a truncated table": (2, cut_parquet, r"part-11.parquet' does not end as a Parquet file does"),
    "an empty table file": (
        2, lambda d: only(d, "a.parquet", b""), "a.parquet' is empty",
    ),
    "a broken footer": (
        2, lambda d: only(d, "a.parquet", b"x" * 50 + b"\x14\0\0\0PAR1"),
        "a.parquet' cannot be read",
    ),
    "a column of text": (
        2, lambda d: tables(d, {"a": [0.5], "b": ["x"]}),
        r"0.parquet' has a column of something else than probabilities: 'b'",
    ),
    "a list of text": (
        2, lambda d: tables(d, {"a": [["x"]]}), "something else than probabilities: 'a'",
    ),
    "another column": (
        2, lambda d: tables(d, {"a": [0.5], "b": [0.5]}, {"a": [0.5], "c": [0.5]}),
        r"1.parquet' has no column 'b', which '0.parquet' has",
    ),
    "one more column": (
        2, lambda d: tables(d, {"a": [0.5], "b": [0.5]}, {"a": [0.5], "b": [0.5], "c": [0.0]}),
        r"1.parquet' has a column 'c', which '0.parquet' has not",
    ),
    "another order of columns": (
        2, lambda d: tables(d, {"a": [0.5], "b": [0.5]}, {"b": [0.5], "a": [0.5]}),
        r"1.parquet' has its columns in another order than '0.parquet'",
    ),
    "lists of different lengths": (
        2, lambda d: tables(d, {"a": [[0.5, 0.5], [1.0]]}), "has lists of different lengths",
    ),
    "shorter lists in one shard": (
        2, lambda d: tables(d, {"a": [[0.5, 0.5]]}, {"a": [[1.0]]}), r"1.parquet' has 1 classes",
    ),
    "which column": (
        1, lambda d: tables(d, {"a": [1], "b": [2]}),
        r"0.parquet' has the columns a, b. Say which holds the labels: 0.parquet::a",
    ),
    "no such column": (
        1, lambda d: f"{tables(d, {'a': [1]})}::z",
        r"0.parquet' has no column 'z'. Choose one of a",
    ),
    "passes in a table": (
        3, lambda d: tables(d, {"a": [1.0]}), r"0.parquet' is a table, which has no passes",
    ),
    "a missing chunk": (
        2, without_chunk, r"a.zarr' has no chunk 'c/3/0', which holds rows from 192 on",
    ),
    "a missing chunk of a group": (2, without_chunk_of_group, r"has no chunk 'c/0/0'"),
    "which array": (
        2, lambda d: zarr_group(d / "a.zarr").partition("::")[0],
        r"a.zarr' is a group. Say which array: a.zarr::KEY with KEY one of probs",
    ),
    "no such array": (
        2, lambda d: zarr_group(d / "a.zarr") + "x", "is a group without an array 'probsx'",
    ),
    "a key of one array": (
        2, lambda d: f"{zarr_folder(d / 'a.zarr', PROBS, chunks=(64, K))}::p",
        "a.zarr' is one array, not 'p'",
    ),
    "no Zarr": (2, lambda d: fresh(d / "a.zarr"), "a.zarr' is no Zarr array: it holds no zarr"),
    "broken Zarr": (
        2, lambda d: only(fresh(d / "a.zarr"), "zarr.json", b"{").parent, "a.zarr' cannot be read",
    ),
    "passes with other rows": (
        3, lambda d: passes_of(d, [PROBS[:9], PROBS], [PROBS[:9], PROBS[:7]]),
        r"1/1.npy' has 7 rows, where 400 of the same samples are in '.*0/1.npy'",
    ),
    "passes with other shards": (
        3, lambda d: passes_of(d, [PROBS, PROBS], [PROBS]), r"1' has 1 shards, where '0' has 2",
    ),
    "passes of other types": (
        3, lambda d: passes_of(d, [PROBS], [PROBS.astype("f8")]), r"1' holds float64 \(400, 5\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(tmp_path, case):
    ndim, make, message = REFUSED[case]
    address = make(tmp_path)
    with pytest.raises(FileError, match=message) as caught:
        open_shards(address, ndim=ndim, name="x")
    assert caught.value.fix


@pytest.mark.parametrize(
    "numbers",
    [
        ["2019", "2024"],  # years
        ["0", "1000", "2000", "4000"],  # first rows
        ["0", "1", "2"],
        ["1", "2"],
        ["0-b", "3-c"],  # other texts
        ["0-1", "2-0"],  # two numbers vary
        ["1-of-2", "2-of-2"],
        ["7"],
    ],
)
def test_numbers_without_a_gap(tmp_path, numbers):
    folder = shards_in(tmp_path, **{f"_{number}": PROBS for number in numbers})
    assert open_shards(folder, ndim=2, name="x").shape == (N * len(numbers), K)


def test_a_shard_cut_after_it_was_opened(tmp_path):
    for layout, ending in (("npy folder", "npy"), ("columns", "parquet")):
        folder = LAYOUTS[layout][1](fresh(tmp_path / ending))
        found = open_shards(folder, ndim=2, name="x")
        truncated(folder / f"part-11.{ending}", 700)
        np.testing.assert_array_equal(found[:91], PROBS[:91])
        with pytest.raises(FileError, match=rf"part-11\.{ending}' (ends at byte 700|cannot be)"):
            _ = found[80:240]
        (folder / f"part-12.{ending}").unlink()
        with pytest.raises(FileError, match=rf"part-12\.{ending}' (does not exist|cannot be)"):
            _ = found[399:]


def test_a_chunk_cut_after_it_was_opened(tmp_path):
    found = open_shards(zarr_folder(tmp_path / "a", PROBS, chunks=(64, K)), ndim=2, name="x")
    truncated(tmp_path / "a" / "c" / "3" / "0", 20)
    np.testing.assert_array_equal(found[:192], PROBS[:192])
    with pytest.raises(FileError, match=r"a' has rows 190 to 200 that cannot be read \("):
        _ = found[190:200]


def test_missing_values_in_tables(tmp_path):
    for table, message in (
        ({"a": [0.5, None], "b": [0.5, 1.0]}, "nothing in column 'a' at row 1"),
        ({"a": [[0.5, 0.5], None]}, "nothing in column 'a' at row 1|lists of different lengths"),
        ({"a": [[0.5, 0.5], [1.0, None]]}, "a list with nothing in it at row 1"),
        ({"a": [[0.5, 0.5], [1.0], [0.2, 0.3, 0.5]]}, "a list of 1 values at row 1, where"),
    ):
        pq.write_table(pa.table(table), tmp_path / "a.parquet")
        with pytest.raises(FileError, match=message):
            np.asarray(open_shards(tmp_path / "a.parquet", ndim=2, name="x"))
    pq.write_table(pa.table({"a": ["x", None]}), tmp_path / "a.parquet")
    with pytest.raises(FileError, match="nothing in column 'a' at row 1"):
        np.asarray(open_shards(tmp_path / "a.parquet", ndim=1, name="labels"))


def test_without_the_zarr_package(tmp_path, monkeypatch):
    zarr_folder(tmp_path / "a.zarr", PROBS, chunks=(64, K))
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(FileError, match=re.escape("needs the zarr package. pip install 'uqled[z")):
        open_shards(tmp_path / "a.zarr", ndim=2, name="x")


def test_nothing_but_empty_shards(tmp_path):
    found = open_shards(shards_in(tmp_path, _0=PROBS[:0], _1=PROBS[:0]), ndim=2, name="x")
    assert isinstance(found, Shards)
    assert found.shape == (0, K)
    assert found[:].shape == (0, K)
    assert "shape=(0, 5)" in repr(found)
