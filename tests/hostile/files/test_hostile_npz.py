"""Hostile `.npz` files end in an error that names the file."""

from __future__ import annotations

import shutil
import struct
import time
import warnings
import zipfile

import numpy as np
import pytest

from archive_files import HEADERS, npz_of, pack_npy, with_member
from uqled import FileError
from uqled.data import load
from uqled.errors import LimitError
from uqled.limits import override_limits
from uqled.storage.arrays.numpy_files import open_npz


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.filterwarnings("ignore")
def test_headers_that_are_none(tmp_path, case):
    path = with_member(tmp_path / "a.npz", "y.npy", pack_npy(HEADERS[case], bytes(32)))
    driver = time.monotonic()
    with pytest.raises(FileError, match=r"a\.npz"):
        load(path)
    assert time.monotonic() - driver < 2


def test_a_header_of_gigabytes(tmp_path):
    content = b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"{}"
    path = with_member(tmp_path / "a.npz", "y.npy", content)
    with pytest.raises(FileError, match=r"array 'y' in file .*a\.npz' is not an \.npy file"):
        load(path)


def test_an_npz_is_limited(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((100_000, 10)), y=np.arange(100_000) % 2)
    assert load(tmp_path / "a.npz").inputs.shape == (100_000, 10)
    with (
        override_limits(memory_bytes=10**6),
        pytest.raises(LimitError, match=r"array 'X' in file .*a\.npz' has 8,000,000 bytes, and"),
    ):
        load(tmp_path / "a.npz")
    monkeypatch.setattr("uqled.storage.reading._SMALL_CONTENT", 10**6)
    with pytest.raises(LimitError, match=r"array 'X' .* times its compressed size"):
        load(tmp_path / "a.npz")


def test_what_an_npz_holds_beside_arrays(tmp_path):
    path = with_member(tmp_path / "a.npz", "X.npy", b"no array")
    with pytest.raises(FileError, match="array 'X' in file"):
        load(path)
    np.save(tmp_path / "b.npy", np.zeros(3))
    shutil.move(tmp_path / "b.npy", tmp_path / "b.npz")
    with pytest.raises(FileError, match=r"b\.npz' cannot be read \(File is not a zip file\)"):
        load(tmp_path / "b.npz")
    for names in (np.array("x"), np.array([["a", "b"]])):
        with pytest.raises(FileError, match=r"c\.npz' has 'classes' of shape \("):
            load(npz_of(tmp_path / "c.npz", classes=names))
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("X.npy", "X"):
            archive.writestr(name, b"x")
    with pytest.raises(FileError, match=r"d\.npz' holds two arrays called 'X'"):
        load(tmp_path / "d.npz")


def test_arrays_of_an_npz_are_what_numpy_reads(tmp_path):
    arrays = {
        "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "texts": np.array([["a", "é"], ["longer", ""]]),
        "bytes": np.array([b"x", b"yz"]),
        "big-endian": np.arange(5, dtype=">i4"),
        "empty": np.zeros((0, 7), np.float32),
        "scalar": np.array(3.5),
        "large": np.random.default_rng(0).normal(size=(300, 1000)),
        "flags": np.array([True, False]),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        with open_npz(tmp_path / "a.npz") as archive, np.load(tmp_path / "a.npz") as expected:
            assert archive.keys == expected.files
            for key in expected.files:
                array = archive.read(key)
                assert array.dtype == expected[key].dtype
                assert array.flags.writeable
                assert array.flags.f_contiguous == expected[key].flags.f_contiguous
                np.testing.assert_array_equal(array, expected[key])
