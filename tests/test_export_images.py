"""Cleaned image folders, Hugging Face data sets and FiftyOne's layout, opened by other readers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_files
from typer.testing import CliRunner

import uqled
from exports import HOSTILE, hashes, image_folder, image_run, make_run, table_run
from pictures import encoded, photo
from uqled.cli import app
from uqled.errors import FileError, InputError
from uqled.export.file_names import name_class_folders, sanitize_file_name, sanitize_name
from uqled.export.plan import plan_export, write_export
from uqled.storage.run import Run

#: What `image_run` makes wrong, and what becomes of it.
MOVED = {"cat/1.png": "dog", "dog/1.png": "ship", "ship/1.png": "cat", "ship/2.jpg": "cat"}


def export(run, to, out, *, unreviewed=None, **options):
    if unreviewed is None and to in ("csv", "parquet", "folder", "huggingface"):
        unreviewed = "drop"
    return write_export(
        plan_export(run, to, method="alg-ens", unreviewed=unreviewed), out, **options
    )


def files_of(out):
    """index -> (id, file) as the record has it."""
    frame = pd.read_csv(out / "files.csv", dtype={"id": str, "file": str}, keep_default_na=False)
    return {row.index: (row.id, row.file) for row in frame.itertuples(index=False)}


def images_below(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.suffix in (".jpg", ".png")}


# ---- folders


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_holds_the_original_bytes(tmp_path, packed):
    source = image_folder(tmp_path / "data")
    if packed:
        archive = shutil.make_archive(str(tmp_path / "packed"), "zip", source)
    place = Path(archive) if packed else source
    run = image_run(tmp_path, place=place, decisions=[(0, "drop", None), (18, "keep", None)])
    before = hashes(source) | {"zip": place.read_bytes() if packed else None}
    export(run, "folder", tmp_path / "clean", unreviewed="relabel")
    assert hashes(source) | {"zip": place.read_bytes() if packed else None} == before

    found = load_files(tmp_path / "clean", shuffle=False)  # scikit-learn's reader
    assert found.target_names == ["cat", "dog", "ship"]
    there = {
        found.target_names[k]: {
            data for data, t in zip(found.data, found.target, strict=True) if t == k
        }
        for k in range(3)
    }
    expected: dict[str, set[bytes]] = {"cat": set(), "dog": set(), "ship": set()}
    for name in before:
        if name not in ("zip", "cat/0.jpg"):
            label = (
                name.split("/")[0] if name == "ship/2.jpg" else MOVED.get(name, name.split("/")[0])
            )
            expected[label].add((source / name).read_bytes())
    assert there == expected
    assert len(found.data) == 23


def test_a_cleaned_folder_loads_again(tmp_path):
    run = image_run(tmp_path)
    export(run, "folder", tmp_path / "clean")
    again = uqled.load(tmp_path / "clean", cache=False)
    first = uqled.load(tmp_path / "data", cache=False)
    kept = [i for i in range(24) if i not in (1, 9, 17, 18)]
    assert again.fingerprint == first.subset(kept).fingerprint


def test_links_lead_to_the_source(tmp_path):
    run = image_run(tmp_path)
    words = ["--to", "folder", "--out", str(tmp_path / "clean"), "--link", "--method", "cl-mcd"]
    words += ["--unreviewed", "drop"]
    result = CliRunner().invoke(app, ["export", str(run), *words])
    assert result.exit_code == 0, result.output
    for name, file in files_of(tmp_path / "clean").values():
        path = tmp_path / "clean" / file
        assert path.is_symlink()
        assert path.resolve() == (tmp_path / "data" / name).resolve()
    assert len(load_files(tmp_path / "clean").data) == 20


def test_links_need_files(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", image_folder(tmp_path / "data"))
    run = image_run(tmp_path, place=Path(archive))
    with pytest.raises(InputError, match="images are then copied"):
        export(run, "folder", tmp_path / "clean", link=True)
    assert not (tmp_path / "clean").exists()
    assert not list(tmp_path.glob(".uqled-*"))


def test_pixels_without_files_become_pngs(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
    np.savez(tmp_path / "data.npz", X=pixels, y=[0, 0, 0, 1, 1, 1])
    data = uqled.load(tmp_path / "data.npz")
    run = make_run(tmp_path / "run", data, {2: 1})
    export(run, "folder", tmp_path / "clean", unreviewed="relabel")
    for index, (_, file) in files_of(tmp_path / "clean").items():
        assert file.split("/")[0] == str(int(index >= 2))
        with Image.open(tmp_path / "clean" / file) as picture:
            assert np.array_equal(np.asarray(picture), pixels[index])


def test_tables_of_paths_limits_and_splits(tmp_path):
    image_folder(tmp_path / "pictures", n=6)
    files = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "pictures").rglob("*.*g"))
    frame = pd.DataFrame({"file": files, "label": [f.split("/")[1] for f in files]})
    frame["split"] = ["train", "test"] * 9
    (tmp_path / "pictures/cat/0.jpg").write_bytes(b"no picture")
    options = {"split": "train", "limit": 8, "skip_unreadable": True}
    run = table_run(tmp_path, frame, wrong={1: 1}, **options)
    export(run, "folder", tmp_path / "clean")
    ids = Run.open(run).predictions().ids
    found = files_of(tmp_path / "clean")
    assert len(found) == len(ids) - 1
    for index, (name, file) in found.items():
        assert name == ids[index] != ids[1]
        assert (tmp_path / "clean" / file).read_bytes() == (tmp_path / name).read_bytes()
    export(run, "folder", tmp_path / "links", link=True)
    for name, file in files_of(tmp_path / "links").values():
        assert (tmp_path / "links" / file).resolve() == (tmp_path / name).resolve()


def test_class_folders_are_called_as_the_source_calls_them(tmp_path):
    """Tiny-ImageNet shows words and has folders of synsets."""
    place = tmp_path / "tiny"
    (place / "val").mkdir(parents=True)
    (place / "wnids.txt").write_text("n01\nn02\n")
    (place / "words.txt").write_text("n01\tgoldfish, carp\nn02\tsalamander\n")
    for wnid in ("n01", "n02"):
        image_folder(place / "train" / wnid, ["images"], n=4)
    run = image_run(tmp_path, place=place, wrong={1: 1})
    assert Run.open(run).predictions().labels.names == ("goldfish", "salamander")
    export(run, "folder", tmp_path / "clean", unreviewed="relabel")
    assert load_files(tmp_path / "clean").target_names == ["n01", "n02"]
    assert sorted(p.name for p in (tmp_path / "clean/n02").iterdir()) == [
        "0.jpg", "1.png", "1~2.png", "2.jpg", "3.png"
    ]  # fmt: skip


def test_hostile_classes_and_files_stay_inside(tmp_path):
    names = ["..a.png", 'quo"te.png', "x;y.png", "$(rm).png", "ü.png", "a b.png", "CON.png", ".png"]
    folders = ["one", "two"]
    rows = []
    for k, label in enumerate((*HOSTILE, "cat", "Cat", "files.csv")):
        for folder in folders:
            name = names[k % len(names)]
            path = tmp_path / "pictures" / folder / str(k) / name
            path.parent.mkdir(parents=True)
            path.write_bytes(encoded(photo(len(rows))))
            rows.append((f"pictures/two/../{folder}/{k}/{name}", label))
    frame = pd.DataFrame(rows, columns=["file", "label"])
    (tmp_path / "work").mkdir()
    run = table_run(tmp_path, frame, wrong={}, inputs="file", kind="images")
    before = hashes(tmp_path)
    out = tmp_path / "work" / "clean"
    export(run, "folder", out)
    after = hashes(tmp_path)
    assert {name for name in after if not name.startswith("work/clean/")} == set(before)
    assert all(after[name] == digest for name, digest in before.items())
    found = load_files(out, shuffle=False)
    assert len(found.target_names) == len({label for _, label in rows}) == 10
    assert len({name.casefold() for name in found.target_names}) == 10
    assert np.bincount(found.target).tolist() == [2] * 10
    assert sorted(found.data) == sorted((tmp_path / file).read_bytes() for file, _ in rows)
    for _, file in files_of(out).values():
        assert len(Path(file).parts) == 2
        assert not any(part.startswith(".") for part in Path(file).parts)


@pytest.mark.parametrize("name", [*HOSTILE, "", " ", "...", "x" * 300, "\ud800", "a\0b", "é" * 90])
def test_safe_names_are_one_visible_part_of_a_path(tmp_path, name):
    safe = sanitize_name(name)
    folder = tmp_path / safe
    folder.mkdir()
    assert folder.resolve().parent == tmp_path.resolve()
    assert not safe.startswith(".")
    assert not set(safe) & set('<>:"/\\|?*')
    file = sanitize_file_name(f"{name}.jpg")
    assert file.endswith(".jpg")
    (tmp_path / file).write_bytes(b"")


def test_classes_never_share_a_folder():
    folders = name_class_folders(["a/b", "a_b", "A_B", "a_b~2", "changes.csv"])
    assert len({name.casefold() for name in folders}) == 5
    assert "changes.csv" not in folders
    assert folders[0] == "a_b"


def test_texts_make_no_folder_of_images(tmp_path):
    frame = pd.DataFrame({"text": ["a text"] * 6, "label": [0, 0, 0, 1, 1, 1]})
    run = table_run(tmp_path, frame, wrong={})
    for to in ("folder", "fiftyone"):
        with pytest.raises(InputError, match="of texts"):
            export(run, to, tmp_path / "clean")
        assert not (tmp_path / "clean").exists()


# ---- places


def test_the_source_is_never_a_target(tmp_path):
    run = image_run(tmp_path)
    for out in (tmp_path / "data" / "clean", tmp_path / "data" / "cat" / "clean"):
        with pytest.raises(FileError, match="lies in the data"):
            export(run, "folder", out)
    with pytest.raises(FileError, match="lies in the data"):
        export(run, "csv", tmp_path / "data" / "clean.csv")
    table = tmp_path / "other"
    table.mkdir()
    frame = pd.DataFrame({"text": ["a text"] * 6, "label": [0, 0, 0, 1, 1, 1]})
    run = table_run(table, frame, wrong={})
    with pytest.raises(FileError, match="lies in the data"):
        export(run, "csv", table / "data.csv", overwrite=True)


def test_a_folder_that_holds_something_is_refused(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean"
    out.mkdir()
    export(run, "folder", out)
    with pytest.raises(FileError, match="already holds"):
        export(run, "folder", out)
    assert out.stat().st_mode & 0o777 == 0o777 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


SLOWLY = """
import sys, time
from uqled.export.source_samples import SourceSamples
from uqled.export.plan import plan_export, write_export
original = SourceSamples.read_image
def slow(self, index):
    time.sleep(0.05)
    return original(self, index)
SourceSamples.read_image = slow
write_export(plan_export(sys.argv[1], sys.argv[2], method="alg-ens"), sys.argv[3])
"""


@pytest.mark.parametrize("to", ["folder", "label-studio"])
def test_killed_in_the_middle_leaves_no_half_folder(tmp_path, to):
    wrong = {i: (i // 8 + 1) % 3 for i in range(0, 24, 3)}
    run = image_run(tmp_path, wrong=wrong)
    out = tmp_path / "clean"
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, str(run), to, str(out)])
    try:
        deadline = time.monotonic() + 60
        while len([*tmp_path.glob(".uqled-export-*/**/*.png")]) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            assert not out.exists()
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not out.exists()
    # What was left behind is hidden, and goes with the next export.
    (left,) = tmp_path.glob(".uqled-export-*")
    export(run, to, out)
    assert (out / "changes.json").exists()
    assert not left.exists()


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    file = tmp_path / "data/ship/7.png"
    content = file.read_bytes()
    file.write_bytes(b"no picture")
    before = hashes(tmp_path)
    with pytest.raises(FileError, match=r"ship/7\.png"):
        export(run, "folder", tmp_path / "clean")
    file.write_bytes(content)
    plan = plan_export(run, "huggingface")
    monkeypatch.setattr("uqled.export.plan.write_record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_export(plan, tmp_path / "clean")
    file.write_bytes(b"no picture")
    assert hashes(tmp_path) == before
    assert not list(tmp_path.glob(".uqled-*"))


# ---- Hugging Face


def hub(out, tmp_path, split="train"):
    from datasets import load_dataset

    return load_dataset(str(out), split=split, cache_dir=str(tmp_path / "hub-cache"))


def test_a_hub_data_set_of_images(tmp_path):
    from datasets import ClassLabel
    from datasets import Image as ImageFeature

    run = image_run(tmp_path, decisions=[(0, "drop", None)])
    export(run, "huggingface", tmp_path / "clean", unreviewed="relabel")
    found = hub(tmp_path / "clean", tmp_path)
    assert found.features["label"] == ClassLabel(names=["cat", "dog", "ship"])
    assert found.features["image"] == ImageFeature()
    raw = found.cast_column("image", ImageFeature(decode=False))
    seen = {row["id"]: row for row in raw}
    assert len(seen) == 23
    for name, row in seen.items():
        assert row["image"]["bytes"] == (tmp_path / "data" / name).read_bytes()
        assert row["image"]["path"].endswith(name.split("/")[1])
        label = MOVED.get(name, name.split("/")[0])
        assert found.features["label"].int2str(row["label"]) == label
    with Image.open(tmp_path / "data" / found[3]["id"]) as original:
        assert np.array_equal(np.asarray(found[3]["image"]), np.asarray(original))


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
        "img": [{"bytes": encoded(photo(i)), "path": None} for i in range(9)],
        "fine": [0, 0, 0, 1, 1, 1, 2, 2, 2],
        "coarse": [0, 1] * 4 + [0],
        "tags": [["t"] * i for i in range(9)],
    }
    (tmp_path / "data").mkdir()
    whole = HubDataset.from_dict(rows, features=features)
    whole.to_parquet(str(tmp_path / "data/test-00000-of-00001.parquet"))
    data = uqled.load(tmp_path / "data", label="fine", split="test", cache=False)
    run = make_run(tmp_path / "run", data, {4: 2}, decisions=[(0, "drop", None)])
    export(run, "huggingface", tmp_path / "clean", unreviewed="relabel")
    found = hub(tmp_path / "clean", tmp_path, "test")
    assert found.features == features
    assert found["fine"][:] == [0, 0, 1, 2, 1, 2, 2, 2]
    assert found["coarse"][:] == rows["coarse"][1:]
    assert found["tags"][:] == rows["tags"][1:]
    raw = found.cast_column("img", ImageFeature(decode=False))
    assert [row["img"]["bytes"] for row in raw] == [cell["bytes"] for cell in rows["img"][1:]]


def test_paths_in_a_table_become_images(tmp_path):
    image_folder(tmp_path / "pictures", n=4)
    files = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "pictures").rglob("*.*g"))
    frame = pd.DataFrame({"note": [f"n{i}" for i in range(12)], "where": files})
    frame["label"] = [f.split("/")[1] for f in files]
    run = table_run(tmp_path, frame, wrong={1: 1})
    export(run, "huggingface", tmp_path / "clean")
    found = hub(tmp_path / "clean", tmp_path)
    assert found.column_names == ["note", "where", "label"]
    assert found["note"][:] == [f"n{i}" for i in range(12) if i != 1]
    with Image.open(tmp_path / files[0]) as original:
        assert np.array_equal(np.asarray(found[0]["where"]), np.asarray(original))


def test_texts_and_features_as_a_hub_data_set(tmp_path):
    frame = pd.DataFrame(
        {"text": [f"text {i}" for i in range(9)], "label": list("aaabbbccc"), "n": range(9)}
    )
    (tmp_path / "t").mkdir()
    run = table_run(tmp_path / "t", frame, wrong={0: 1}, decisions=[(8, "drop", None)])
    export(run, "huggingface", tmp_path / "texts", unreviewed="relabel")
    found = hub(tmp_path / "texts", tmp_path)
    assert found["text"][:] == [f"text {i}" for i in range(8)]
    assert found.features["label"].int2str(found["label"][:]) == list("baabbbcc")
    assert found["n"][:] == list(range(8))

    numbers = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=numbers, y=[3, 3, 3, 7, 7, 7])
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.npz"), {0: 1})
    export(run, "huggingface", tmp_path / "numbers")
    found = hub(tmp_path / "numbers", tmp_path)
    np.testing.assert_array_equal(np.array(found["features"][:], np.float32), numbers[1:])
    assert found.features["label"].names == ["3", "7"]


def test_a_data_set_of_the_hub_by_name(tmp_path, monkeypatch):
    from datasets import ClassLabel, Features, Value
    from datasets import Dataset as HubDataset

    features = Features({"text": Value("string"), "label": ClassLabel(names=["n", "p"])})
    rows = {"text": [f"text {i}" for i in range(6)], "label": [0, 0, 0, 1, 1, 1]}
    whole = HubDataset.from_dict(rows, features=features)
    with monkeypatch.context() as patch:
        patch.setattr("datasets.load_dataset", lambda *_, **__: whole)
        run = make_run(tmp_path / "run", uqled.load("hf:someone/texts", split="test"), {1: 1})
        export(run, "huggingface", tmp_path / "clean", unreviewed="relabel")
    found = hub(tmp_path / "clean", tmp_path, "test")
    assert found.features == features
    assert found["label"][:] == [0, 1, 0, 1, 1, 1]
    assert found["text"][:] == rows["text"]


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
    found = json.loads((tmp_path / "clean/labels.json").read_text())
    assert found["classes"] == ["cat", "dog", "ship"]
    assert set(found["labels"]) == {
        Path(name).stem for name in images_below(tmp_path / "clean/data")
    }
    assert len(found["labels"]) == 23
    flagged = found["labels"]["00000017"]
    assert flagged["label"] == 2
    assert flagged["attributes"]["mistakenness"] == pytest.approx(0.98)
    assert flagged["attributes"]["is_label_issue"] is True
    decided = found["labels"]["00000001"]
    assert decided["label"] == 2
    assert decided["attributes"] | {"mistakenness": 0} == {
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
    given = predictions.labels.codes.copy()
    given[1] = 2
    seen = set()
    with importers.FiftyOneImageClassificationDatasetImporter(str(tmp_path / "clean")) as importer:
        assert importer.get_dataset_info() == {"classes": list(names)}
        for path, _, label in importer:
            index = int(Path(path).stem)
            seen.add(index)
            assert label.label == names[given[index]]
            assert label["sample"] == ids[index]
            suspect = index in (1, 17, 18)
            assert label["mistakenness"] == pytest.approx(0.98 if suspect else 0.1)
            assert Path(path).read_bytes() == (source / ids[index]).read_bytes()
    assert seen == set(range(24)) - {9}
