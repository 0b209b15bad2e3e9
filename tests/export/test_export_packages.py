"""Exports that other packages open: data sets of Hugging Face, and FiftyOne's layout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import uqled
from exports import (
    MOVED_IMAGES,
    export,
    files_of,
    image_folder,
    image_run,
    images_below,
    make_run,
    table_run,
)
from pictures import encode, photo
from uqled.storage.run import Run

# ---- Hugging Face


def hub(out, tmp_path, split="train"):
    from datasets import load_dataset

    return load_dataset(str(out), split=split, cache_dir=str(tmp_path / "hub-cache"))


def test_a_hub_data_set_of_images(tmp_path):
    from datasets import ClassLabel
    from datasets import Image as ImageFeature

    run = image_run(tmp_path, decisions=[(0, "drop", None)])
    export(run, "huggingface", tmp_path / "clean", unreviewed="relabel")
    result = hub(tmp_path / "clean", tmp_path)
    assert result.features["label"] == ClassLabel(names=["cat", "dog", "ship"])
    assert result.features["image"] == ImageFeature()
    raw = result.cast_column("image", ImageFeature(decode=False))
    row_of_id = {row["id"]: row for row in raw}
    assert len(row_of_id) == 23
    for name, row in row_of_id.items():
        assert row["image"]["bytes"] == (tmp_path / "data" / name).read_bytes()
        assert row["image"]["path"].endswith(name.split("/")[1])
        label = MOVED_IMAGES.get(name, name.split("/")[0])
        assert result.features["label"].int2str(row["label"]) == label
    with Image.open(tmp_path / "data" / result[3]["id"]) as original:
        assert np.array_equal(np.asarray(result[3]["image"]), np.asarray(original))


def test_a_hub_data_set_keeps_its_columns(tmp_path):
    from datasets import ClassLabel, Features, Sequence, Value
    from datasets import Dataset as HubDataset
    from datasets import Image as ImageFeature

    names = ["<img src=x onerror=alert(1)>", "b", "B"]
    features = Features(
        {
            "img": ImageFeature(),
            "fine": ClassLabel(names=names),
            "coarse": ClassLabel(names=["x", "y"]),
            "tags": Sequence(Value("string")),
        }
    )
    rows = {
        "img": [{"bytes": encode(photo(i)), "path": None} for i in range(9)],
        "fine": [0, 0, 0, 1, 1, 1, 2, 2, 2],
        "coarse": [0, 1] * 4 + [0],
        "tags": [["t"] * i for i in range(9)],
    }
    (tmp_path / "data").mkdir()
    hub_data = HubDataset.from_dict(rows, features=features)
    hub_data.to_parquet(str(tmp_path / "data/test-00000-of-00001.parquet"))
    data = uqled.load(tmp_path / "data", label="fine", split="test", cache=False)
    run = make_run(tmp_path / "run", data, {4: 2}, decisions=[(0, "drop", None)])
    export(run, "huggingface", tmp_path / "clean", unreviewed="relabel")
    result = hub(tmp_path / "clean", tmp_path, "test")
    assert result.features == features
    assert result["fine"][:] == [0, 0, 1, 2, 1, 2, 2, 2]
    assert result["coarse"][:] == rows["coarse"][1:]
    assert result["tags"][:] == rows["tags"][1:]
    raw = result.cast_column("img", ImageFeature(decode=False))
    assert [row["img"]["bytes"] for row in raw] == [cell["bytes"] for cell in rows["img"][1:]]


def test_paths_in_a_table_become_images(tmp_path):
    image_folder(tmp_path / "pictures", n=4)
    files = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "pictures").rglob("*.*g"))
    frame = pd.DataFrame({"note": [f"n{i}" for i in range(12)], "where": files})
    frame["label"] = [f.split("/")[1] for f in files]
    run = table_run(tmp_path, frame, wrong={1: 1})
    export(run, "huggingface", tmp_path / "clean")
    result = hub(tmp_path / "clean", tmp_path)
    assert result.column_names == ["note", "where", "label"]
    assert result["note"][:] == [f"n{i}" for i in range(12) if i != 1]
    with Image.open(tmp_path / files[0]) as original:
        assert np.array_equal(np.asarray(result[0]["where"]), np.asarray(original))


def test_texts_and_features_as_a_hub_data_set(tmp_path):
    frame = pd.DataFrame(
        {"text": [f"text {i}" for i in range(9)], "label": list("aaabbbccc"), "n": range(9)}
    )
    (tmp_path / "t").mkdir()
    run = table_run(tmp_path / "t", frame, wrong={0: 1}, decisions=[(8, "drop", None)])
    export(run, "huggingface", tmp_path / "texts", unreviewed="relabel")
    result = hub(tmp_path / "texts", tmp_path)
    assert result["text"][:] == [f"text {i}" for i in range(8)]
    assert result.features["label"].int2str(result["label"][:]) == list("baabbbcc")
    assert result["n"][:] == list(range(8))

    numbers = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=numbers, y=[3, 3, 3, 7, 7, 7])
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.npz"), {0: 1})
    export(run, "huggingface", tmp_path / "numbers")
    result = hub(tmp_path / "numbers", tmp_path)
    np.testing.assert_array_equal(np.array(result["features"][:], np.float32), numbers[1:])
    assert result.features["label"].names == ["3", "7"]


def test_a_data_set_of_the_hub_by_name(tmp_path, monkeypatch):
    from datasets import ClassLabel, Features, Value
    from datasets import Dataset as HubDataset

    features = Features({"text": Value("string"), "label": ClassLabel(names=["n", "p"])})
    rows = {"text": [f"text {i}" for i in range(6)], "label": [0, 0, 0, 1, 1, 1]}
    hub_data = HubDataset.from_dict(rows, features=features)
    with monkeypatch.context() as patch:
        patch.setattr("datasets.load_dataset", lambda *_, **__: hub_data)
        run = make_run(tmp_path / "run", uqled.load("hf:someone/texts", split="test"), {1: 1})
        export(run, "huggingface", tmp_path / "clean", unreviewed="relabel")
    result = hub(tmp_path / "clean", tmp_path, "test")
    assert result.features == features
    assert result["label"][:] == [0, 1, 0, 1, 1, 1]
    assert result["text"][:] == rows["text"]


def test_a_large_hub_data_set_is_cut_into_shards(tmp_path, monkeypatch):
    monkeypatch.setattr("uqled.export.formats.huggingface._SHARD_BYTES", 10_000)
    monkeypatch.setattr("uqled.export.formats.huggingface._BATCH_IMAGES", 3)
    run = image_run(tmp_path)
    export(run, "huggingface", tmp_path / "clean")
    assert len([*(tmp_path / "clean/data").iterdir()]) > 2
    assert hub(tmp_path / "clean", tmp_path)["id"][:] == [
        name for i, name in enumerate(Run.open(run).predictions().ids) if i not in (1, 9, 17, 18)
    ]


# ---- FiftyOne


def test_the_layout_of_fiftyone(tmp_path):
    run = image_run(tmp_path, decisions=[(1, "relabel", 2), (9, "drop", None)])
    export(run, "fiftyone", tmp_path / "clean")
    result = json.loads((tmp_path / "clean/labels.json").read_text())
    assert result["classes"] == ["cat", "dog", "ship"]
    assert set(result["labels"]) == {
        Path(name).stem for name in images_below(tmp_path / "clean/data")
    }
    assert len(result["labels"]) == 23
    flagged = result["labels"]["00000017"]
    assert flagged["label"] == 2
    assert flagged["attributes"]["mistakenness"] == pytest.approx(0.98)
    assert flagged["attributes"]["is_label_issue"] is True
    decided_label = result["labels"]["00000001"]
    assert decided_label["label"] == 2
    assert decided_label["attributes"] | {"mistakenness": 0} == {
        "mistakenness": 0, "is_label_issue": False, "is_decided": True, "given_label": "cat",
        "suggested_label": "dog", "sample": "cat/1.png",
    }  # fmt: skip
    for name, file in files_of(tmp_path / "clean").values():
        assert (tmp_path / "clean" / file).read_bytes() == (tmp_path / "data" / name).read_bytes()


@pytest.mark.filterwarnings("ignore")  # of a package that is not ours
def test_fiftyones_importer_opens_it(tmp_path):
    importers = pytest.importorskip("fiftyone.utils.data.importers")
    source = image_folder(tmp_path / "data", ("<img src=x onerror=alert(1)>", "dog", "it's"))
    run = image_run(tmp_path, place=source, decisions=[(1, "relabel", 2), (9, "drop", None)])
    export(run, "fiftyone", tmp_path / "clean")
    predictions = Run.open(run).predictions()
    names, ids = predictions.labels.names, predictions.ids
    codes = predictions.labels.codes.copy()
    codes[1] = 2
    class_names = set()
    with importers.FiftyOneImageClassificationDatasetImporter(str(tmp_path / "clean")) as importer:
        assert importer.get_dataset_info() == {"classes": list(names)}
        for path, _, label in importer:
            index = int(Path(path).stem)
            class_names.add(index)
            assert label.label == names[codes[index]]
            assert label["sample"] == ids[index]
            suspect = index in (1, 17, 18)
            assert label["mistakenness"] == pytest.approx(0.98 if suspect else 0.1)
            assert Path(path).read_bytes() == (source / ids[index]).read_bytes()
    assert class_names == set(range(24)) - {9}
