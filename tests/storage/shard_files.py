"""One array in every layout of shards, and what must be read from each."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

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
    stored_array = zarr.create_array(str(folder), shape=array.shape, dtype=array.dtype, **options)
    stored_array[...] = array
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


def read_as(result, start, stop, dtype):
    buffer = np.empty(rows(np.empty(result.shape, bool), start, stop).shape, dtype)
    result.read_into(buffer, start, stop)
    return buffer


def check(result, expected):
    """Compare a few hundred ranges with the array that was written."""
    assert result.shape == expected.shape
    assert result.ndim == expected.ndim
    assert len(result) == len(expected)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(result), expected)
    rng = np.random.default_rng(1)
    for start, stop in np.sort(rng.integers(0, N + 1, (60, 2))).tolist():
        np.testing.assert_array_equal(
            read_as(result, start, stop, expected.dtype), rows(expected, start, stop)
        )
    for start in range(0, N, 33):  # one after the other, as detection reads
        np.testing.assert_array_equal(
            rows(result, start, start + 33), rows(expected, start, start + 33)
        )
