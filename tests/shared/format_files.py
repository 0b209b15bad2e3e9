"""Small data sets in the formats of MNIST and CIFAR."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
from typing import ClassVar

import numpy as np

RNG = np.random.default_rng(0)


# --- idx


def idx_bytes(array):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder, prefix, N, *, is_packed=True):
    images, labels = RNG.integers(0, 256, (N, 6, 5), np.uint8), np.arange(N) % 3
    folder.mkdir(exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        name, content = f"{prefix}-{kind}-ubyte", idx_bytes(array)
        path = folder / (f"{name}.gz" if is_packed else name)
        path.write_bytes(gzip.compress(content) if is_packed else content)
    return images, labels


# --- CIFAR


class Python2Pickler(pickle._Pickler):
    """Writes bytes as the strings of Python 2, as the published archives have them."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, value):
        long = len(value) > 255
        self.write(b"T" + struct.pack("<I", len(value)) if long else b"U" + bytes([len(value)]))
        self.write(value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def python2_pickle(value):
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def cifar_folder(root, kind, n_each=4):
    """A small data set in the layout of the archives; returns its images [N,32,32,3], labels."""
    fine, rng = kind == 100, np.random.default_rng(kind)
    root.mkdir(parents=True)
    names = [b"apple", b"bear", b"cloud"] if fine else [b"airplane", b"bird", b"cat"]
    meta = {b"fine_label_names" if fine else b"label_names": names, b"coarse_label_names": [b"x"]}
    (root / ("meta" if fine else "batches.meta")).write_bytes(python2_pickle(meta))
    batches = (
        ["train", "test"] if fine else [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    )
    images, labels = [], []
    for name in batches:
        pixels = rng.integers(0, 256, (n_each, 3 * 32 * 32), np.uint8)
        classes = [0, 2, *rng.integers(0, 3, n_each - 2).tolist()]
        batch = {
            b"data": pixels,
            b"fine_labels" if fine else b"labels": classes,
            b"coarse_labels": [0] * n_each,
            b"filenames": [f"{name}_{n}.png".encode() for n in range(n_each)],
        }
        (root / name).write_bytes(python2_pickle(batch))
        images.append(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.append(classes)
    return images, labels
