"""Pickles made to do more than hold data are refused: nothing of a CIFAR archive is ever run."""

from __future__ import annotations

import pickle
import struct
import time

import numpy as np
import pytest

from format_files import cifar_folder, python2_pickle
from uqled import FileError
from uqled.data import load

PIXELS = np.arange(4 * 3072, dtype=np.uint8).reshape(4, 3072)


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def text(content):
    if len(content) < 256:
        return b"U" + bytes([len(content)]) + content
    return b"T" + struct.pack("<I", len(content)) + content


def number(value):
    return b"J" + struct.pack("<i", value)


NDARRAY, DTYPE = name("numpy", "ndarray"), name("numpy", "dtype")
RECONSTRUCT = name("numpy.core.multiarray", "_reconstruct")
U1 = DTYPE + text(b"u1") + number(0) + number(1) + b"\x87R"
U1 += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"


def array(shape, payload, dtype=U1, *, order=b"\x89"):
    """An array as Python 2 pickles it."""
    head = RECONSTRUCT + NDARRAY + number(0) + b"\x85" + text(b"b") + b"\x87R"
    axes = b"(" + b"".join(map(number, shape)) + b"t"
    return head + b"(" + number(1) + axes + dtype + order + text(payload) + b"tb"


def batch(data, before=b""):
    """A training batch of CIFAR-10 whose pixels are what `data` makes."""
    labels = b"](" + b"".join(map(number, [0, 1, 2, 0])) + b"e"
    files = b"](" + b"".join(text(b"%d.png" % n) for n in range(4)) + b"e"
    entries = text(b"labels") + labels + text(b"filenames") + files + text(b"data") + data
    return b"\x80\x02" + before + b"}(" + entries + b"u."


@pytest.fixture
def cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    cifar_folder(folder, 10)
    return folder


def load_with(folder, content):
    (folder / "data_batch_1").write_bytes(content)
    return load(folder)


def test_the_forger_knows_the_format(cifar):
    data = load_with(cifar, batch(array((4, 3072), PIXELS.tobytes())))
    assert (data.inputs[:4].transpose(0, 3, 1, 2).reshape(4, -1) == PIXELS).all()


# An array over the memory of another, written to through the opcode that fills dictionaries: so
# memory that is nobody's array can be overwritten, and with it the process is taken over.
OVER_ANOTHER = (
    NDARRAY + number(4) + number(3072) + b"\x86" + text(b"u1") + b"\x86Rq\x01"
    + NDARRAY + b"(" + number(12288) + b"\x85" + text(b"u1") + b"h\x01" + number(0) + b"tR"
    + number(7) + number(65) + b"s0" + b"h\x01"
)  # fmt: skip
# The type grows after its array was made: what lies beyond the array becomes its content.
GROWN_TYPE = (
    DTYPE + text(b"V4") + number(0) + number(1) + b"\x87Rq\x02" + NDARRAY + number(4)
    + b"\x85h\x02\x86Rq\x03" + b"h\x02(" + number(3) + text(b"|") + b"NNN" + number(8) + number(1)
    + number(0) + b"tb0" + b"h\x03"
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (OVER_ANOTHER, r"calls numpy\.ndarray"),
        (GROWN_TYPE, r"has an array of 'V4'"),
        (array((4, 3072), PIXELS.tobytes()[:-1]), r"12,287 bytes .* shape \(4, 3072\)"),
        (array((2**30, 2**30), b"x" * 100), r"100 bytes .* shape \(1073741824, 1073741824\)"),
        (array((-4, -3072), PIXELS.tobytes()), r"shape \(-4, -3072\)"),
        (array((), b"x"), r"shape \(\)"),
        (array((4, 3072), PIXELS.tobytes(), number(0)), "no plain type"),
        (array((4, 768), PIXELS.tobytes(), U1.replace(b"u1", b"O8")), "has an array of 'O8'"),
        (array((4, 768), PIXELS.tobytes(), U1.replace(b"u1", b"f4")), "has an array of 'f4'"),
        (array((4, 3072), PIXELS.tobytes()) + b"}b", "BUILD"),
        (RECONSTRUCT + NDARRAY + number(9**9) + b"\x85" + text(b"b") + b"\x87R", "_reconstruct"),
        (RECONSTRUCT + NDARRAY + number(0) + b"\x85" + text(b"b") + b"\x87R", "without content"),
        (name("numpy", "load") + text(b"/tmp/x") + b"\x85R", r"asks for numpy\.load"),
        (name("builtins", "eval") + text(b"1") + b"\x85R", r"asks for builtins\.eval"),
        (name("_codecs", "encode") + b"X\x01\0\0\0aX\x03\0\0\0rot\x86R", r"calls _codecs\.encode"),
        (name("_codecs", "decode") + text(b"1") + b"\x85R", r"asks for _codecs\.decode"),
        (NDARRAY + b")\x81", "NEWOBJ"),
        (b"(" + NDARRAY + b"o", "OBJ"),
        (b"(inumpy\nndarray\n", "INST"),
        (b"Pid\n", "PERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x97", "NEXT_BUFFER"),
        (b"h\x09", "memo"),
        (b"R", "REDUCE"),
        (b"}]Ns", "a list as a key"),
        (b"]" * 300 + b"a" * 299, "nested"),
        (b"]u", "MARK"),
        (b"t", "nested"),
    ],
)
def test_forged_batches_are_refused_by_name(cifar, data, message):
    with pytest.raises(FileError, match=message) as error_info:
        load_with(cifar, batch(data))
    assert "data_batch_1" in str(error_info.value)


def test_a_dictionary_cannot_be_filled_with_one_of_many_keys(cifar):
    pairs = b"}(" + b"".join(number(n) + number(n) for n in range(2000)) + b"u"
    with pytest.raises(FileError, match="a dictionary of more than 1,000 keys"):
        load_with(cifar, batch(pairs))


def test_the_same_text_encoded_again_and_again_is_refused(cifar):
    """A few bytes each make another copy: 100 kB of file, and gigabytes of memory."""
    head = name("_codecs", "encode") + b"q\1X" + struct.pack("<I", 50_000) + b"a" * 50_000 + b"q\2"
    head += b"X\x06\0\0\0latin1q\x03"
    with pytest.raises(FileError, match="more bytes than the file has"):
        load_with(cifar, batch(b"](" + b"h\1h\2h\3\x86R" * 5000 + b"e", before=head))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("keys", [bytes, str])
def test_archives_that_somebody_pickled_again(cifar, protocol, order, keys):
    def of(value):
        return value.decode() if keys is str else value

    content = {
        of(b"data"): np.array(PIXELS, order=order),
        of(b"labels"): np.array([0, 1, 2, 0], ">i4"),
        of(b"filenames"): [of(b"%d.png" % n) for n in range(3)] + [of(b"")],
        of(b"batch_label"): of(b"training batch 1 of 5"),
        of(b"more"): (1.5, None, True, 2**40, -(2**40)),
    }
    data = load_with(cifar, pickle.dumps(content, protocol))
    assert (data.inputs[:4].transpose(0, 3, 1, 2).reshape(4, -1) == PIXELS).all()
    assert data.labels.codes[:4].tolist() == [0, 1, 2, 0]
    assert data.ids[:4].tolist() == ["train/0.png", "train/1.png", "train/2.png", "train/"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"data": PIXELS[:, :-1]}, r"data is uint8 \(4, 3071\)"),
        ({b"data": PIXELS.astype(np.int16)}, r"data is int16 \(4, 3072\)"),
        ({b"data": [1, 2]}, "data is a list"),
        ({b"labels": [0, 1, 2]}, "3 labels for 4 images"),
        ({b"labels": [0, 1, 2, b"x"]}, "labels are not whole numbers"),
        ({b"labels": [0, 1, 2, 2**70]}, "labels are not whole numbers"),
        ({b"labels": np.zeros((4, 1), int)}, "labels are not whole numbers"),
        ({b"labels": 7}, "labels are not whole numbers"),
        ({b"filenames": [b"a", b"b", b"c", 4]}, "filenames are not texts"),
        ({b"filenames": [b"a"] * 3}, "3 filenames for 4 images"),
    ],
)
def test_batches_of_another_shape(cifar, change, message):
    sound = {b"data": PIXELS, b"labels": [0, 1, 2, 0], b"filenames": [b"a", b"b", b"c", b"d"]}
    with pytest.raises(FileError, match=message) as error_info:
        load_with(cifar, python2_pickle(sound | change))
    assert "data_batch_1" in str(error_info.value)


def test_damaged_batches_are_refused_or_read(cifar):
    """Mutations of a sound file: our own error or data of the right shape, and quickly."""
    sound = (cifar / "data_batch_1").read_bytes()
    short = sound[:200] + sound[-700:]  # most bytes are pixels, which may be anything
    rng, refused_batches, driver = np.random.default_rng(0), [], time.monotonic()
    for n in range(300):
        content = bytearray(sound if n % 2 else short)
        for at in rng.integers(0, len(content), 1 + n % 4):
            content[at if n % 2 else at % len(content)] = rng.integers(256)
        if n % 5 == 0:
            del content[int(rng.integers(len(content))) :]
        try:
            assert load_with(cifar, bytes(content)).inputs.shape == (20, 32, 32, 3)
        except FileError as error:
            refused_batches.append(str(error))
    assert len(refused_batches) > 150
    assert all("data_batch_1" in message for message in refused_batches)
    assert time.monotonic() - driver < 30
