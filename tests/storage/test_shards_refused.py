"""Shards that do not make one array are refused by the file's name."""

from __future__ import annotations

import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shard_files import (
    LABELS,
    LAYOUTS,
    PASSES,
    PROBS,
    K,
    N,
    columns,
    fresh,
    npy_folder,
    one_file,
    parquet_folder,
    pass_folders,
    zarr_folder,
    zarr_group,
)
from uqled.errors import FileError
from uqled.storage.arrays.shards import Shards, open_shards

# -- what is refused -------------------------------------------------------------------------------


def shards_in(tmp_path, **files):
    """A folder of `.npy` shards by number."""
    for name, array in files.items():
        np.save(tmp_path / f"part-{name[1:]}.npy", array)
    return tmp_path


def truncate(path, to):
    path.write_bytes(path.read_bytes()[:to])


def cut_npy(d):
    npy_folder(d / "a", PROBS)
    truncate(d / "a" / "part-11.npy", 1000)
    return d / "a"


def cut_parquet(d):
    parquet_folder(d / "a", columns, PROBS)
    truncate(d / "a" / "part-11.parquet", 1000)
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


def tables(d, *frames):
    for number, table in enumerate(frames):
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


def without(names, missing_names):
    return {name: array for name, array in names.items() if name not in missing_names}


REFUSED_FILES = {
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
                      r"part-13.npy' is not an .npy file"),
    "an empty file": (2, lambda d: with_file(d, "part-13.npy", b""), r"part-13.npy' is empty"),
    "no .npy": (2, lambda d: with_file(d, "part-13.npy", b"x" * 500),
                r"part-13.npy' is not an .npy"),
    "something else": (
        2, lambda d: with_file(d, "part-13.npy.tmp", b"x"), r"part-13.npy.tmp' is not a shard",
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
    "a truncated table": (2, cut_parquet, r"part-11.parquet' does not end like a Parquet file"),
    "an empty table file": (
        2, lambda d: only(d, "a.parquet", b""), "a.parquet' is empty",
    ),
    "a broken footer": (
        2, lambda d: only(d, "a.parquet", b"x" * 50 + b"\x14\0\0\0PAR1"),
        "a.parquet' cannot be read",
    ),
    "a column of text": (
        2, lambda d: tables(d, {"a": [0.5], "b": ["x"]}),
        r"0.parquet' has a column that does not hold probabilities: 'b'",
    ),
    "a list of text": (
        2, lambda d: tables(d, {"a": [["x"]]}), "does not hold probabilities: 'a'",
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
    "no Zarr": (2, lambda d: fresh(d / "a.zarr"), "a.zarr' is not a Zarr array: it holds no zarr"),
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


@pytest.mark.parametrize("case", REFUSED_FILES)
def test_refused_by_name(tmp_path, case):
    ndim, make, message = REFUSED_FILES[case]
    address = make(tmp_path)
    with pytest.raises(FileError, match=message) as error_info:
        open_shards(address, ndim=ndim, name="x")
    assert error_info.value.fix


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
        result = open_shards(folder, ndim=2, name="x")
        truncate(folder / f"part-11.{ending}", 700)
        np.testing.assert_array_equal(result[:91], PROBS[:91])
        with pytest.raises(FileError, match=rf"part-11\.{ending}' (ends at byte 700|cannot be)"):
            _ = result[80:240]
        (folder / f"part-12.{ending}").unlink()
        with pytest.raises(FileError, match=rf"part-12\.{ending}' (does not exist|cannot be)"):
            _ = result[399:]


def test_a_chunk_cut_after_it_was_opened(tmp_path):
    result = open_shards(zarr_folder(tmp_path / "a", PROBS, chunks=(64, K)), ndim=2, name="x")
    truncate(tmp_path / "a" / "c" / "3" / "0", 20)
    np.testing.assert_array_equal(result[:192], PROBS[:192])
    with pytest.raises(FileError, match=r"a' has rows 190 to 200 that cannot be read \("):
        _ = result[190:200]


def test_missing_values_in_tables(tmp_path):
    for table, message in (
        ({"a": [0.5, None], "b": [0.5, 1.0]}, "no value in column 'a' at row 1"),
        ({"a": [[0.5, 0.5], None]}, "no value in column 'a' at row 1|lists of different lengths"),
        ({"a": [[0.5, 0.5], [1.0, None]]}, "a list with an empty value at row 1"),
        ({"a": [[0.5, 0.5], [1.0], [0.2, 0.3, 0.5]]}, "a list of 1 values at row 1, where"),
    ):
        pq.write_table(pa.table(table), tmp_path / "a.parquet")
        with pytest.raises(FileError, match=message):
            np.asarray(open_shards(tmp_path / "a.parquet", ndim=2, name="x"))
    pq.write_table(pa.table({"a": ["x", None]}), tmp_path / "a.parquet")
    with pytest.raises(FileError, match="no value in column 'a' at row 1"):
        np.asarray(open_shards(tmp_path / "a.parquet", ndim=1, name="labels"))


def test_without_the_zarr_package(tmp_path, monkeypatch):
    zarr_folder(tmp_path / "a.zarr", PROBS, chunks=(64, K))
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(FileError, match=re.escape("needs the zarr package. pip install 'uqled[z")):
        open_shards(tmp_path / "a.zarr", ndim=2, name="x")


def test_nothing_but_empty_shards(tmp_path):
    result = open_shards(shards_in(tmp_path, _0=PROBS[:0], _1=PROBS[:0]), ndim=2, name="x")
    assert isinstance(result, Shards)
    assert result.shape == (0, K)
    assert result[:].shape == (0, K)
    assert "shape=(0, 5)" in repr(result)
