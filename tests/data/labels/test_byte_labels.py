"""Labels and texts that are bytes: NumPy's S, binary columns, what a database returns."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import uqled
from uqled.errors import InputError
from uqled.noise import kinds

N = 60
CODES = np.random.default_rng(0).integers(0, 2, N)
NAMES = np.array(["cat", "dög"])[CODES]
BYTES = [name.encode() for name in NAMES.tolist()]
LATIN_1 = [name.encode("latin-1") for name in NAMES.tolist()]
FEATURES = np.random.default_rng(1).normal(size=(N, 2)) + 3 * CODES[:, None]
COLUMNS = {"a": FEATURES[:, 0], "b": FEATURES[:, 1]}
PROBS = np.where(CODES[:, None] == np.arange(2), 0.9, 0.1)
PROBS[:3] = PROBS[:3, ::-1]
DICTIONARY = pa.array(BYTES, pa.binary()).dictionary_encode()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(BYTES),
        np.array(BYTES, object),
        BYTES,
        [bytearray(label) for label in BYTES],
        [memoryview(label) for label in BYTES],
        pd.Series(BYTES),
        pd.Series(BYTES).astype("category"),
        pl.Series(BYTES),
        pa.array(BYTES, pa.binary()),
        pa.array(BYTES, pa.large_binary()),
        DICTIONARY,
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_bytes_are_the_text_that_they_hold(labels):
    same = uqled.find_label_errors(NAMES, PROBS)
    errors = uqled.find_label_errors(labels, PROBS)
    assert errors.labels.names == ("cat", "dög")
    assert errors.suggested.tolist() == same.suggested.tolist()
    assert errors.mask.tolist() == same.mask.tolist()


def test_classes_may_be_bytes_or_text():
    for labels in (NAMES, np.array(BYTES)):
        for classes in (["cat", "dög"], np.unique(BYTES)):
            errors = uqled.find_label_errors(labels, PROBS, classes=classes)
            assert errors.labels.names == ("cat", "dög")


@pytest.mark.parametrize("labels", [np.array(LATIN_1), LATIN_1, pa.array(LATIN_1, pa.binary())])
def test_bytes_that_are_no_text_are_refused(labels):
    at = int(np.argmax(CODES == 1))
    with pytest.raises(InputError, match=rf"b'd\\xf6g' at index {at}, which is not text in UTF-8"):
        uqled.find_label_errors(labels, PROBS)


def test_bytes_among_texts_are_refused():
    with pytest.raises(InputError, match="mix types or are not labels"):
        uqled.find_label_errors([*BYTES[:-1], "dög"], PROBS)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(3)])
def test_a_binary_column_of_a_table_holds_labels(tmp_path, kind):
    label = [b"cat" if code else b"dog" for code in CODES] if kind == pa.binary(3) else BYTES
    table = pa.table({**COLUMNS, "species": pa.array(label, kind)})
    pq.write_table(table, tmp_path / "t.parquet")
    names = ("cat", "dog" if kind == pa.binary(3) else "dög")
    for place in (table, tmp_path / "t.parquet"):
        data = uqled.load(place, label="species")
        assert data.labels.names == names
        assert [column.name for column in data.columns if column.is_used] == ["a", "b"]


def test_a_dictionary_of_bytes_keeps_its_order():
    data = uqled.load(pa.table({**COLUMNS, "label": DICTIONARY}))
    assert data.labels.names == tuple(dict.fromkeys(NAMES.tolist()))
    assert data.labels.values[data.labels.codes].tolist() == NAMES.tolist()


def test_texts_written_as_bytes_are_texts():
    texts = [f"sentence {n} of a long enough row, for words".encode() for n in range(N)]
    table = pa.table({"review": pa.array(texts), "label": pa.array(BYTES)})
    for place in (table, table.to_pandas(), pl.DataFrame({"review": texts, "label": BYTES})):
        data = uqled.load(place)
        assert (data.kind, data.texts[0], data.labels.names) == (
            "texts", texts[0].decode(), ("cat", "dög"),
        )  # fmt: skip


def encode(image_format):
    stream = io.BytesIO()
    pixels = np.random.default_rng(2).integers(0, 255, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(stream, image_format)
    return stream.getvalue()


@pytest.mark.parametrize("image_format", ["png", "jpeg", "gif", "bmp", "webp", "tiff", "ppm"])
def test_a_binary_column_of_images_stays_one(image_format):
    images = pa.array([encode(image_format)] * N)
    data = uqled.load(pa.table({"picture": images, "label": pa.array(BYTES)}))
    assert data.kind == "images"
    assert data.labels.names == ("cat", "dög")


@pytest.mark.parametrize("cells", [LATIN_1, [encode("png")] * N], ids=["latin-1", "images"])
def test_a_label_column_of_other_bytes_is_refused_by_name(cells):
    table = pa.table({**COLUMNS, "species": pa.array(cells)})
    with pytest.raises(
        InputError, match=r"label is 'species', .* holds images or other bytes, not text"
    ):
        uqled.load(table, label="species")


def test_corrected_frames_keep_bytes():
    label = list(BYTES)
    label[0] = b"cat" if CODES[0] else "dög".encode()
    frame = pd.DataFrame({**COLUMNS, "species": label})
    errors = uqled.find(frame, label="species", model="forest", progress=False)
    for own in (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame)):
        new = errors.corrected(own)["species"]
        new = new.to_pylist() if hasattr(new, "to_pylist") else new.to_list()
        assert {type(entry) for entry in new} == {bytes}
        assert new[0] == BYTES[0]


@pytest.mark.parametrize("dtype", ["S", object])
@pytest.mark.parametrize("name", ["dog", "dög"])
def test_noise_leaves_bytes_as_bytes(dtype, name):
    names = ["cat", name] * 50
    labels = np.array([one.encode() for one in names], dtype)
    noisy = kinds.apply_noise_kind("symmetric", labels, rate=0.2, seed=3)
    texts = kinds.apply_noise_kind("symmetric", np.array(names), rate=0.2, seed=3)
    assert all(isinstance(one, bytes) for one in noisy.labels.tolist())
    assert [one.decode() for one in noisy.labels.tolist()] == texts.labels.tolist()
    assert noisy.is_error.sum() == 20
