"""Archives that were made to do harm."""

from __future__ import annotations

import struct
import warnings
import zipfile

import numpy as np

from pictures import encode, photo

PICTURES = {f"{c}/{n}.png": encode(photo(10 * ord(c) + n)) for c in "ab" for n in range(2)}


def zip_of(path, extra=(), *, method=zipfile.ZIP_STORED):
    """A zip of two classes, and of other members (name, content)."""
    with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that come twice
        for name, content in [*PICTURES.items(), *extra]:
            archive.writestr(name, content)
    return path


# --- npz


def npz_of(path, **arrays):
    arrays = {"X": np.zeros((4, 2)), "y": np.array([0, 1, 0, 1]), **arrays}
    np.savez(path, **arrays)
    return path


def pack_npy(header, content=b"", version=b"\1\0"):
    """An `.npy` with a header of ours."""
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + content


def with_member(path, name, content):
    npz_of(path)
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for one, before in members.items():
            archive.writestr(one, content if one == name else before)
    return path


HEADERS = {
    "terabytes": b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }\n",
    "no width": b"{'descr': '<U0', 'fortran_order': False, 'shape': (1099511627776,), }\n",
    "negative": b"{'descr': '<f8', 'fortran_order': False, 'shape': (-4,), }\n",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (4,), }\n",
    "unclosed": b"{'descr': '<f8', 'fortran_order': False, 'shape': (4,",
    "tokens": b"{'descr': '''<f8, 'fortran_order': False, 'shape': (4,), }\n",
    "indents": b"  {\n 1L\n   \n",
    "deep": b"(" * 5000,
    "minus": b"-" * 9000 + b"1\n",
    "no text": b"{'descr': '\xff\xfe', 'fortran_order': False, 'shape': (4,), }\n",
    "a call": b"__import__('os').mkdir('owned')\n",
    "a number": b"7\n",
    "other keys": b"{'descr': '<f8'}\n",
    "a large shape": b"{'descr': '<f8', 'fortran_order': False, 'shape': (1%s,)}\n" % (b"0" * 4400),
    "fields": b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }\n",
    "nothing": b"",
}  # fmt: skip
