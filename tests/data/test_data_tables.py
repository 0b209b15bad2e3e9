"""CSV and Parquet, the hub's layout among them, written by pandas and by the hub's own library."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from uqled import FileError, InputError
from uqled.data import load


@pytest.fixture(autouse=True)
def in_its_own_place(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def png(value):
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (value, 0, 255 - value)).save(file, "PNG")
    return file.getvalue()


def write(frame, path):
    frame.to_csv(path, index=False) if path.endswith(".csv") else frame.to_parquet(path)
    return path


@pytest.fixture(params=["t.csv", "t.parquet"])
def table_file(request):
    return request.param


def test_features(table_file):
    frame = pd.DataFrame(
        {
            "age": [30, 40, 50, 60],
            "city": ["a", "b", None, "b"],
            "member": [True, False, True, True],
            "score": [1.5, None, 2.5, 3.5],
            "label": ["no", "yes", "no", "yes"],
        }
    )
    data = load(write(frame, table_file))
    assert (data.kind, data.name, data.labels.names) == ("table", "t", ("no", "yes"))
    assert data.inputs.columns.tolist() == ["age", "city", "member", "score"]
    assert data.inputs["age"].tolist() == [30, 40, 50, 60]
    assert data.inputs["score"].isna().tolist() == [False, True, False, False]
    assert data.ids.tolist() == ["0", "1", "2", "3"]
    data = load(table_file, inputs=["score", "age"], label="member")
    assert data.inputs.columns.tolist() == ["score", "age"]
    assert data.labels.names == ("False", "True")
    assert load(table_file, limit=2, seed=1).inputs.shape == (2, 4)


def test_texts(table_file):
    frame = pd.DataFrame(
        {"title": ["x", "y", "z"], "text": ["null", "", "caf\u00e9"], "label": [3, 5, 3]}
    )
    data = load(write(frame, table_file))
    assert (data.kind, data.text_columns) == ("table", ["text"])
    assert data.texts.tolist() == ["null", "", "caf\u00e9"]
    assert data.features["title"].tolist() == ["x", "y", "z"]
    assert load(table_file, inputs="text").inputs.tolist() == ["null", "", "caf\u00e9"]
    assert data.labels.values.tolist() == [3, 5]
    dataset_of_two = load(table_file, inputs=["title", "text"], kind="texts")
    assert dataset_of_two.inputs.tolist() == ["x\nnull", "y\n", "z\ncaf\u00e9"]
    assert load(table_file, kind="table").inputs.columns.tolist() == ["title", "text"]
    assert load(write(frame[["title", "label"]], table_file)).inputs.tolist() == ["x", "y", "z"]


def test_paths(table_file):
    for n in range(4):
        Path(f"{n}.png").write_bytes(png(n))
    frame = pd.DataFrame(
        {
            "split": ["train"] * 3 + ["test"],
            "file": ["0.png", "./2.png", "1.png", "3.png"],
            "label": ["b", "a", "b", "a"],
            "width": [4] * 4,
        }
    )
    data = load(write(frame, table_file))
    assert data.kind == "images"
    assert data.inputs[:, 0, 0].tolist() == [[v, 0, 255 - v] for v in (0, 2, 1, 3)]
    assert data.ids.tolist() == ["0.png", "./2.png", "1.png", "3.png"]
    assert data.labels.names == ("a", "b")
    train = load(table_file, split="train")
    assert train.ids.tolist() == ["0.png", "./2.png", "1.png"]
    with pytest.raises(InputError, match="Choose one of test, train"):
        load(table_file, split="val")


def test_paths_that_cannot_be_used(table_file, in_its_own_place):
    for n in range(3):
        Path(f"{n}.png").write_bytes(png(n))
    frame = pd.DataFrame({"file": ["0.png", "1.png", "x/../1.png"], "label": [0, 1, 0]})
    with pytest.raises(InputError, match=r"names 1 files more than once \(1\.png\)"):
        load(write(frame, table_file))
    frame["file"] = ["0.png", None, "2.png"]
    with pytest.raises(InputError, match=r"'file' of file .* in 1 rows \((row 1|line 3)\)"):
        load(write(frame, table_file))
    frame["file"] = ["0.png", "9.png", "2.png"]
    with pytest.raises(FileError, match=r"1 unreadable of 3 images[^$]*9\.png: is not there"):
        load(write(frame, table_file))
    frame["label"] = [0, 1, 1]
    assert load(write(frame, table_file), skip_unreadable=True).ids.tolist() == ["0.png", "2.png"]
    frame["file"] = ["x/0.png", "x/1.png", "x/2.png"]
    with pytest.raises(FileError, match="Paths are relative to the table's folder"):
        load(write(frame, table_file))
    frame["file"] = [str(in_its_own_place / f"{n}.png") for n in range(3)]
    assert len(load(write(frame, table_file))) == 3


def test_a_class_may_be_called_na():
    frame = pd.DataFrame({"text": ["a", "b", "c", "d"], "label": ["NA", "None", "NA", "null"]})
    assert load(write(frame, "t.csv")).labels.names == ("NA", "None", "null")


def test_missing_labels(table_file):
    frame = pd.DataFrame({"text": list("abcd"), "label": ["x", None, "y", None]})
    data = load(write(frame, table_file))
    assert (data.ids.tolist(), data.unlabelled) == (["0", "2"], ("1", "3"))
    assert data.inputs.tolist() == ["a", "c"]
    frame["label"] = [1.0, 2.0, None, 1.0]
    data = load(write(frame, table_file))
    assert (data.labels.values.tolist(), data.unlabelled) == ([1, 2], ("2",))
    with pytest.raises(InputError, match=r"label 'label' of .* is empty"):
        load(write(frame.assign(label=None), table_file))
    frame["label"] = [0.5, 1.5, 1.0, 1.0]
    with pytest.raises(InputError, match="whole"):
        load(write(frame, table_file))


def test_columns_that_are_not_there(table_file):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "kind": [0, 1]})
    with pytest.raises(
        InputError, match=r"label is missing, but file .* has the columns a, b, kind"
    ):
        load(write(frame, table_file))
    with pytest.raises(InputError, match=r"inputs name 'c', but .* has the columns a, b, kind"):
        load(table_file, label="kind", inputs="c")
    with pytest.raises(InputError, match="inputs name 'kind'"):
        load(table_file, label="kind", inputs=["a", "kind"])
    with pytest.raises(InputError, match="of kind 'images' are not clear"):
        load(table_file, label="kind", kind="images")
    with pytest.raises(InputError, match="has no splits"):
        load(table_file, label="kind", split="test")
    with pytest.raises(InputError, match=r"the labels of file '.*' contain one class only"):
        load(write(frame.assign(kind=1), table_file), label="kind")
    with pytest.raises(FileError, match="has no rows"):
        load(write(frame.iloc[:0], table_file), label="kind")


def test_columns_that_are_no_features(table_file):
    frame = pd.DataFrame({"a": [1, 2, 3], "id": ["p", "q", "r"], "label": [0, 1, 0]})
    data = load(write(frame, table_file))
    assert data.inputs.columns.tolist() == ["a"]
    assert data.ids.tolist() == ["p", "q", "r"]
    frame["id"] = ["p", "p", "r"]
    assert load(write(frame, table_file)).ids.tolist() == ["0", "1", "2"]
    pd.DataFrame({"a": [1, 2, 3], "label": [0, 1, 0]}).to_csv("n.csv")
    assert load("n.csv").inputs.columns.tolist() == ["a"]
    dated_frame = frame.assign(day=pd.to_datetime(["2020-01-01", "2020-03-02", "2020-02-03"]))
    assert load(write(dated_frame, "d.parquet")).inputs["day month"].tolist() == [1, 3, 2]


def test_categories_keep_their_order():
    frame = pd.DataFrame({"a": [1, 2, 3]})
    frame["label"] = pd.Categorical(["low", "high", "low"], ["low", "middle", "high"])
    data = load(write(frame, "t.parquet"))
    assert data.labels.names == ("low", "middle", "high")
    assert data.labels.codes.tolist() == [0, 2, 0]


def test_embeddings():
    rows = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    frame = pd.DataFrame({"embedding": list(rows), "label": list("abab")})
    data = load(write(frame, "t.parquet"))
    assert data.kind == "table"
    assert data.inputs.dtype == np.float32
    assert (data.inputs == rows).all()
    frame["embedding"] = [rows[0], rows[1][:3], rows[2], rows[3]]
    with pytest.raises(InputError, match="different lengths"):
        load(write(frame, "t.parquet"))


def test_tabs_compression_and_what_excel_writes():
    frame = pd.DataFrame({"text": ["a,b", "c"], "label": ["x", "y"]})
    frame.to_csv("t.tsv", sep="\t", index=False)
    frame.to_csv("t.csv.gz", index=False)
    frame.to_csv("bom.csv", index=False, encoding="utf-8-sig")
    for name in ("t.tsv", "t.csv.gz", "bom.csv"):
        assert load(name).inputs.tolist() == ["a,b", "c"], name


def test_files_that_are_no_tables(table_file):
    Path(table_file).write_bytes(b"\x00\xff\xfe garbage")
    with pytest.raises(FileError, match="cannot be read"):
        load(table_file)


# --- the layout of the Hugging Face hub


def hub_frame(values, **options):
    images = [{"bytes": png(v), "path": f"{v}.png"} for v in values]
    return pa.table({"image": images, "label": [v % 2 for v in values], **options})


def test_shards_and_splits_of_the_hub():
    Path("set/data").mkdir(parents=True)
    pq.write_table(hub_frame([0, 1, 2]), "set/data/train-00000-of-00002.parquet")
    pq.write_table(hub_frame([3, 4]), "set/data/train-00001-of-00002-0123abcd.parquet")
    pq.write_table(hub_frame([6, 7]), "set/data/test-00000-of-00001.parquet")
    data = load("set")
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert data.ids.tolist() == ["0.png", "1.png", "2.png", "3.png", "4.png"]
    assert data.labels.names == ("0", "1")
    assert load("set", split="test").inputs[:, 0, 0, 0].tolist() == [6, 7]
    with pytest.raises(InputError, match="Choose one of test, train"):
        load("set", split="validation")
    Path("converted/default/train").mkdir(parents=True)
    pq.write_table(hub_frame([0, 1]), "converted/default/train/0000.parquet")
    pq.write_table(hub_frame([2, 3]), "converted/default/train/0001.parquet")
    assert len(load("converted", split="train")) == 4
    Path("loose").mkdir()
    pq.write_table(hub_frame([0, 1]), "loose/a.parquet")
    pq.write_table(hub_frame([2, 3]), "loose/b.parquet")
    assert len(load("loose")) == 4


def test_images_of_the_hub_without_bytes_or_names():
    Path("7.png").write_bytes(png(7))
    cells = [{"bytes": png(1), "path": None}, {"bytes": None, "path": "7.png"}]
    pq.write_table(pa.table({"image": cells, "label": [0, 1]}), "t.parquet")
    data = load("t.parquet")
    assert data.inputs[:, 0, 0, 0].tolist() == [1, 7]
    assert data.ids.tolist() == ["0", "1"]
    pq.write_table(pa.table({"img": [png(3), png(4), b""], "label": [0, 1, 0]}), "bytes.parquet")
    with pytest.raises(FileError, match=r"1 unreadable of 3 images[^$]*2: is empty"):
        load("bytes.parquet")
    data = load("bytes.parquet", skip_unreadable=True)
    assert data.inputs[:, 0, 0, 0].tolist() == [3, 4]
    assert data.skipped == {"2": "is empty"}


def hub_dataset(names=("even", "odd")):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(names))}
    )
    rows = {"image": [{"bytes": png(v), "path": None} for v in range(6)], "label": [0, 1] * 3}
    return datasets.Dataset.from_dict(rows, features=features)


def test_parquet_of_the_hubs_own_library():
    hub_dataset(("even", "odd", "neither")).to_parquet("train.parquet")
    data = load("train.parquet")
    assert data.labels.names == ("even", "odd", "neither")
    assert data.labels.values.tolist() == [0, 1, 2]
    assert data.inputs[:, 0, 0, 0].tolist() == list(range(6))


def test_a_name_on_the_hub_goes_through_its_own_library(monkeypatch):
    whole_set = hub_dataset()
    requests = []

    def load_dataset(path, configuration, *, split):
        requests.append((path, configuration, split))
        return whole_set.select([5, 0, 3])

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    data = load("hf:someone/numbers:small", split="test")
    assert requests == [("someone/numbers", "small", "test")]
    assert data.inputs[:, 0, 0, 0].tolist() == [5, 0, 3]
    assert data.labels.names == ("even", "odd")
    assert data.labels.codes.tolist() == [1, 0, 1]
    load("hf:numbers")
    assert requests[1] == ("numbers", None, "train")


def test_a_name_that_the_hub_does_not_give(monkeypatch):
    pytest.importorskip("datasets")

    def load_dataset(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    with pytest.raises(FileError, match=r"'hf:numbers' cannot be loaded \(no network\)"):
        load("hf:numbers")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"needs the datasets package.*uqled\[hub\]"):
        load("hf:numbers")
