"""Cleaned image folders, Hugging Face data sets and FiftyOne's layout, opened by other readers."""

from __future__ import annotations

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
from exports import (
    HOSTILE,
    MOVED_IMAGES,
    export,
    files_of,
    hashes,
    image_folder,
    image_run,
    make_run,
    table_run,
)
from pictures import encode, photo
from uqled.cli import app
from uqled.errors import FileError, InputError
from uqled.export.file_names import name_class_folders, sanitize_file_name, sanitize_name
from uqled.export.plan import plan_export, write_export
from uqled.storage.run import Run

# ---- folders


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_folder_holds_the_original_bytes(tmp_path, is_packed):
    source = image_folder(tmp_path / "data")
    if is_packed:
        archive = shutil.make_archive(str(tmp_path / "packed"), "zip", source)
    place = Path(archive) if is_packed else source
    run = image_run(tmp_path, place=place, decisions=[(0, "drop", None), (18, "keep", None)])
    before = hashes(source) | {"zip": place.read_bytes() if is_packed else None}
    export(run, "folder", tmp_path / "clean", unreviewed="relabel")
    assert hashes(source) | {"zip": place.read_bytes() if is_packed else None} == before

    result = load_files(tmp_path / "clean", shuffle=False)  # scikit-learn's reader
    assert result.target_names == ["cat", "dog", "ship"]
    written_files = {
        result.target_names[k]: {
            data for data, t in zip(result.data, result.target, strict=True) if t == k
        }
        for k in range(3)
    }
    expected: dict[str, set[bytes]] = {"cat": set(), "dog": set(), "ship": set()}
    for name in before:
        if name not in ("zip", "cat/0.jpg"):
            label = (
                name.split("/")[0]
                if name == "ship/2.jpg"
                else MOVED_IMAGES.get(name, name.split("/")[0])
            )
            expected[label].add((source / name).read_bytes())
    assert written_files == expected
    assert len(result.data) == 23


def test_a_cleaned_folder_loads_again(tmp_path):
    run = image_run(tmp_path)
    export(run, "folder", tmp_path / "clean")
    again = uqled.load(tmp_path / "clean", cache=False)
    first = uqled.load(tmp_path / "data", cache=False)
    kept_samples = [i for i in range(24) if i not in (1, 9, 17, 18)]
    assert again.fingerprint == first.subset(kept_samples).fingerprint


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
    result = files_of(tmp_path / "clean")
    assert len(result) == len(ids) - 1
    for index, (name, file) in result.items():
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
            path.write_bytes(encode(photo(len(rows))))
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
    result = load_files(out, shuffle=False)
    assert len(result.target_names) == len({label for _, label in rows}) == 10
    assert len({name.casefold() for name in result.target_names}) == 10
    assert np.bincount(result.target).tolist() == [2] * 10
    assert sorted(result.data) == sorted((tmp_path / file).read_bytes() for file, _ in rows)
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
        with pytest.raises(InputError, match="but the data is texts"):
            export(run, to, tmp_path / "clean")
        assert not (tmp_path / "clean").exists()


# ---- places


def test_the_source_is_never_a_target(tmp_path):
    run = image_run(tmp_path)
    for out in (tmp_path / "data" / "clean", tmp_path / "data" / "cat" / "clean"):
        with pytest.raises(FileError, match="is inside the data"):
            export(run, "folder", out)
    with pytest.raises(FileError, match="is inside the data"):
        export(run, "csv", tmp_path / "data" / "clean.csv")
    table = tmp_path / "other"
    table.mkdir()
    frame = pd.DataFrame({"text": ["a text"] * 6, "label": [0, 0, 0, 1, 1, 1]})
    run = table_run(table, frame, wrong={})
    with pytest.raises(FileError, match="is inside the data"):
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
    wrong_labels = {i: (i // 8 + 1) % 3 for i in range(0, 24, 3)}
    run = image_run(tmp_path, wrong=wrong_labels)
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
