"""Images are decoded once; what cannot be read is named."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from PIL import Image

from pictures import (
    broken_files,
    classes_of,
    encode,
    folder_of,
    photo,
)
from uqled import FileError, InputError
from uqled.data import image_cache, images, load
from uqled.data.image_cache import EncodedImages, decode_images
from uqled.data.raw_dataset import make_object_array
from uqled.storage.atomic import replace_file


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def test_unreadable_files_are_all_listed(tmp_path, decoder):
    broken = broken_files()
    folder = classes_of(tmp_path, [(name, content) for name, (content, _) in broken.items()])
    with pytest.raises(FileError, match="6 unreadable of 12 images") as error_info:
        load(folder)
    for name, (_, reason) in broken.items():
        lines = [line.strip() for line in str(error_info.value).splitlines()]
        (result,) = [line for line in lines if line.startswith(f"1/{name}: ")]
        assert reason in result.lower(), decoder
        assert len(result) > len(f"1/{name}: ")
    assert "skip_unreadable" in str(error_info.value)


def test_unreadable_files_can_be_skipped(tmp_path, decoder):
    folder = classes_of(
        tmp_path, [(name, content) for name, (content, _) in broken_files().items()]
    )
    expected = load(classes_of(tmp_path / "sound"))
    for _ in range(2):  # the second time from the cache
        data = load(folder, skip_unreadable=True)
        assert data.ids.tolist() == expected.ids.tolist(), decoder
        assert (data.inputs == expected.inputs).all()
        assert data.skipped.keys() == {f"1/{name}" for name in broken_files()}
    assert isinstance(data.inputs, np.memmap)
    in_memory = load(folder, skip_unreadable=True, cache=False)
    assert (in_memory.inputs == expected.inputs).all()


def test_sound_headers_are_not_taken_for_sound_images(tmp_path, own_cache):
    cut = {name: broken_files()[name] for name in ("cut.jpg", "cut.png")}
    folder = classes_of(tmp_path, [(name, content) for name, (content, _) in cut.items()])
    data = load(folder, skip_unreadable=True)
    assert all(
        isinstance(images.read_header(content), images.ImageHeader) for content, _ in cut.values()
    )
    assert data.skipped.keys() == {"1/cut.jpg", "1/cut.png"}
    about = json.loads(next(own_cache.glob("*.json")).read_text())
    assert about["shape"] == [6, 32, 32, 3]


def test_only_so_many_unreadable_files_are_listed(tmp_path):
    folder = classes_of(tmp_path, [(f"{n:03}.png", b"") for n in range(70)])
    with pytest.raises(FileError, match="70 unreadable") as error_info:
        load(folder)
    assert str(error_info.value).count("is empty") == 50
    assert "and 20 more" in str(error_info.value)


def test_nothing_but_unreadable_files(tmp_path):
    folder = folder_of(tmp_path, a__x_dot_png=b"", b__x_dot_png=b"")
    with pytest.raises(FileError, match="2 unreadable of 2"):
        load(folder)
    with pytest.raises(InputError, match="0 sample"):
        load(folder, skip_unreadable=True)


def test_images_are_decoded_once(tmp_path, own_cache, no_decoding):
    folder = classes_of(tmp_path)
    first = load(folder)
    assert isinstance(first.inputs, np.memmap)
    assert not first.inputs.flags.writeable
    no_decoding()
    second = load(folder)
    assert second.fingerprint == first.fingerprint
    for path in folder.rglob("*.png"):  # the same content with another time and another name
        os.utime(path, (0, 0))
    folder.rename(tmp_path / "moved")
    assert load(tmp_path / "moved").fingerprint == first.fingerprint
    assert len(list(own_cache.glob("*.npy"))) == 1
    with pytest.raises(AssertionError, match="decoded again"):
        load(tmp_path / "moved", image_size=16)


def test_other_content_is_decoded_anew_even_at_the_same_size_and_time(tmp_path):
    folder = classes_of(tmp_path)
    first = load(folder)
    path = folder / "0" / "1.png"
    before, times = path.read_bytes(), path.stat()
    pixels = np.asarray(Image.open(path)).copy()
    pixels[0, 0] ^= 1
    path.write_bytes(encode(Image.fromarray(pixels), compress_level=0))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = load(folder)
    assert (second.inputs[1] == pixels).all()
    assert (second.inputs[0] == first.inputs[0]).all()
    path.write_bytes(before)
    assert load(folder).fingerprint == first.fingerprint


@pytest.mark.parametrize(
    "damage",
    [
        *("cut", "empty", "garbage", "other shape", "no json", "bad json", "pipe", "json pipe"),
        *({"shape": [6, 32, 32, 3], "unreadable": {"0": "x"}}, {"shape": 3}, [], {"shape": [0]}),
        *({"shape": [0, 2**62, 2**62, 3], "unreadable": dict.fromkeys(map(str, range(6)), "")},),
        *({"shape": [5, 32, 32, 3], "unreadable": {"6": "x"}},),
    ],
    ids=str,
)
def test_a_broken_cache_is_built_again(tmp_path, own_cache, damage):
    folder = classes_of(tmp_path)
    first = load(folder)
    expected = np.array(first.inputs)
    del first
    (path,) = own_cache.glob("*.npy")
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "garbage":
        path.write_bytes(b"x" * len(content))
    elif damage == "other shape":
        np.save(path, np.zeros((6, 2, 2, 3), np.uint8))
    elif damage in ("pipe", "json pipe"):
        pipe = path if damage == "pipe" else path.with_suffix(".json")
        pipe.unlink()
        os.mkfifo(pipe)
    elif not isinstance(damage, str):
        path.with_suffix(".json").write_text(json.dumps(damage))
    else:
        about = path.with_suffix(".json")
        about.unlink() if damage == "no json" else about.write_text("{")
    assert (load(folder).inputs == expected).all()
    assert (np.load(path) == expected).all()


def test_the_cache_leaves_no_parts(tmp_path, own_cache, monkeypatch):
    folder = classes_of(tmp_path)
    own_cache.mkdir(parents=True)
    (own_cache / ".uqled-old-0123.npy").write_bytes(b"part of a killed process")

    def fail(*_, **__):
        raise RuntimeError("killed")

    monkeypatch.setattr(image_cache, "decode_into", fail)
    with replace_file(own_cache / "other.npy") as part:
        with pytest.raises(RuntimeError, match="killed"):
            load(folder)
        assert list(own_cache.iterdir()) == [part]  # which somebody writes just now


def test_the_cache_removes_nobody_elses_files(tmp_path):
    mine = {".npmrc": "token", ".old.npy": "x", ".hidden/.deep": "y", "notes.txt": "z"}
    folder = tmp_path / "home" / "images"
    for name, content in mine.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
        os.utime(folder / name, (0, 0))
    load(classes_of(tmp_path), cache=tmp_path / "home")
    assert {name: (folder / name).read_text() for name in mine} == mine


def test_a_cache_without_some_images_leaves_no_parts(tmp_path, own_cache):
    folder = classes_of(tmp_path, [("a.png", b""), ("z.png", b"x")])
    data = load(folder, skip_unreadable=True)
    assert (data.inputs == load(classes_of(tmp_path / "sound")).inputs).all()
    assert sorted(path.suffix for path in own_cache.iterdir()) == [".json", ".json", ".npy", ".npy"]
    sizes = [path.stat().st_size for path in own_cache.glob("*.npy")]
    assert sizes == [128 + 6 * 32 * 32 * 3] * 2


def test_no_cache_leaves_no_file(tmp_path, own_cache):
    data = load(classes_of(tmp_path), cache=False)
    assert type(data.inputs) is np.ndarray
    assert not own_cache.exists()


def test_the_cache_folder(tmp_path, monkeypatch):
    data = load(classes_of(tmp_path), cache=tmp_path / "here")
    assert len(list((tmp_path / "here" / "images").glob("*.npy"))) == 1
    assert len(data) == 6
    monkeypatch.delenv("UQLED_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert image_cache.find_cache_folder() == tmp_path / "xdg" / "uqled"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert image_cache.find_cache_folder() == tmp_path / ".cache" / "uqled"


def test_a_cache_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be created.*UQLED_CACHE"):
        load(classes_of(tmp_path), cache=tmp_path / "file")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileError, match=r"no room for .* MiB \(No space left"):
        load(classes_of(tmp_path))


def test_files_that_vanish_while_they_are_read_leave_no_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(image_cache, "_KEPT_BYTES", 0)
    content, reads = encode(photo(), "JPEG"), []

    def read(i):
        reads.append(i)
        if i == 3 and reads.count(3) > 1:
            raise FileNotFoundError(2, "No such file")
        return content

    images = EncodedImages(read, make_object_array(range(5)))
    with pytest.raises(FileError, match=r"changed while they were read \(is not there\)"):
        decode_images(images, cache=tmp_path)
    assert [path.name for path in tmp_path.rglob("*.*")] == []


@pytest.mark.parametrize("room", [0, 1 << 20])
def test_files_are_read_once_while_there_is_room(tmp_path, monkeypatch, room):
    monkeypatch.setattr(image_cache, "_KEPT_BYTES", room)
    contents, reads = [encode(photo(s), "JPEG") for s in range(70)], []

    def read(i):
        reads.append(i)
        return contents[i]

    result = decode_images(EncodedImages(read, make_object_array(range(70))), cache=tmp_path)
    assert len(reads) == (70 if room else 70 + 1 + 70)  # hashed, the first looked at, decoded
    assert (result.images[69] == np.asarray(Image.open(io.BytesIO(contents[69])))).all()
