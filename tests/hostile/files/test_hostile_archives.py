"""Archives made to do harm, or damaged: zip, tar, idx, npz and folders end in our own errors."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import time
import warnings
import zipfile
import zlib

import numpy as np
import pytest

from archive_files import PICTURES, zip_of
from format_files import cifar_folder, idx_bytes, write_idx
from pictures import encode, photo
from uqled import FileError
from uqled.data import load
from uqled.errors import LimitError, UqledError
from uqled.limits import override_limits


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path_factory.mktemp("cache")))


# --- zip


@pytest.mark.parametrize("method", [0, 8, 12, 14], ids=["stored", "deflate", "bzip2", "lzma"])
def test_every_way_to_pack(tmp_path, method):
    data = load(zip_of(tmp_path / "a.zip", method=method))
    assert data.ids.tolist() == list(PICTURES)


@pytest.mark.parametrize(
    "name",
    [
        *("../x.png", "a/../../x.png", "a/..", "/etc/x.png", "C:/x.png", "c:x.png", "a\\x.png"),
        *("..\\x.png", "\\\\host\\x.png"),
    ],
)
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    path = zip_of(tmp_path / "a.zip", [(name, b"x")])
    with pytest.raises(FileError, match="whose name leads outside of the archive") as error_info:
        load(path)
    assert repr(name) in str(error_info.value)


def test_names_without_end_are_refused(tmp_path):
    """Each folder on the way is listed: a name of 60 kB would be 900 MB."""
    path = zip_of(tmp_path / "a.zip", [("x/" * 30_000 + "x.png", b"x")])
    driver = time.monotonic()
    with pytest.raises(FileError, match="name of 60,005 characters in 30,001 folders"):
        load(path)
    assert time.monotonic() - driver < 2


def test_a_name_that_comes_twice_is_refused(tmp_path):
    path = zip_of(tmp_path / "a.zip", [("a/0.png", encode(photo(5)))])
    with pytest.raises(FileError, match=r"a\.zip' holds 'a/0\.png' 2 times"):
        load(path)


def test_members_are_counted(tmp_path):
    path = zip_of(tmp_path / "a.zip")
    with (
        override_limits(archive_members=3),
        pytest.raises(LimitError, match="has 4 members, and at most 3"),
    ):
        load(path)
    with override_limits(archive_members=4):
        assert len(load(path)) == 4


def test_a_zip_that_unpacks_to_much_more_than_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("uqled.storage.zip_files._SMALL_CONTENT", 10_000)
    monkeypatch.setattr("uqled.storage.reading._SMALL_CONTENT", 10_000)
    with zipfile.ZipFile(tmp_path / "one.zip", "w", 8) as archive:
        archive.writestr("a/0.png", bytes(2**20))
        archive.writestr("b/0.png", b"x")
    with pytest.raises(LimitError, match=r"one\.zip' has \d+ times its compressed size"):
        load(tmp_path / "one.zip")


def test_members_that_share_their_bytes_are_a_bomb(tmp_path, monkeypatch):
    """One compressed member under many names: each alone is harmless."""
    monkeypatch.setattr("uqled.storage.zip_files._SMALL_CONTENT", 10**6)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", 8) as archive:
        archive.writestr("a/0.png", bytes(20_000))
        (member,) = archive.filelist
        for n in range(1, 400):
            other = zipfile.ZipInfo(f"{'ab'[n % 2]}/{n}.png")
            for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset"):
                setattr(other, field, getattr(member, field))
            archive.filelist.append(other)
    with pytest.raises(LimitError, match="times its compressed size"):
        load(tmp_path / "a.zip")


def test_a_member_that_is_longer_than_the_archive_says(tmp_path):
    path = zip_of(tmp_path / "a.zip", [("b/2.png", bytes(2**26))], method=8)
    content = bytearray(path.read_bytes())
    for at in (content.rindex(b"b/2.png") - 46 + 24, content.index(b"b/2.png") - 30 + 22):
        content[at : at + 4] = struct.pack("<I", 1000)
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"1 unreadable of 5 images[^$]*b/2\.png: cannot be read"):
        load(path)


def test_a_list_of_members_as_long_as_the_file_says(tmp_path, monkeypatch):
    monkeypatch.setattr("uqled.storage.zip_files._LARGE_LIST", 100)
    path = zip_of(tmp_path / "a.zip")
    with (
        override_limits(archive_members=3),
        pytest.raises(LimitError, match="has 4 members, and at most 3"),
    ):
        load(path)
    with (
        override_limits(memory_bytes=150),
        pytest.raises(LimitError, match=r"has \d+ bytes, and at most 150 .*memory_bytes"),
    ):
        load(path)


def test_encrypted_and_foreign_members_are_unreadable_images(tmp_path):
    path = zip_of(tmp_path / "a.zip")
    content = bytearray(path.read_bytes())
    at = content.rindex(b"a/1.png") - 46  # the entry in the list, then the member's own
    content[at + 8] |= 1
    at = content.index(b"a/1.png") - 30
    content[at + 6] |= 1
    for at in (content.rindex(b"b/0.png") - 46 + 10, content.index(b"b/0.png") - 30 + 8):
        content[at] = 97  # a way to pack that Python does not know
    path.write_bytes(content)
    with pytest.raises(FileError, match="2 unreadable of 4 images") as error_info:
        load(path)
    assert "a/1.png: is encrypted" in str(error_info.value)
    assert "b/0.png: cannot be read (That compression method is not supported)" in str(
        error_info.value
    )
    assert load(path, skip_unreadable=True).ids.tolist() == ["a/0.png", "b/1.png"]


def test_a_text_of_a_zip_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "tiny.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("wnids.txt", "n01\n")
        archive.writestr("words.txt", "n01\tcat\n" * 50)
        archive.writestr("train/n01/images/0.png", encode(photo()))
        archive.writestr("train/n02/images/0.png", encode(photo(1)))
    content = path.read_bytes().replace(b"n01\tcat", b"n01\tdog", 1)
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"'words\.txt' in file .*tiny\.zip' cannot be read"):
        load(path)


# --- tar


def tar_of(folder, path, change=lambda _: None, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        archive.add(folder, folder.name)
        change(archive)
    return path


@pytest.fixture
def cifar(tmp_path):
    cifar_folder(tmp_path / "cifar-10-batches-py", 10)
    return tmp_path / "cifar-10-batches-py"


def member(name, content=b"x", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(content)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:\\x"])
def test_names_in_a_tar_that_leave_the_folder(cifar, tmp_path, name):
    path = tar_of(cifar, tmp_path / "a.tar.gz", lambda a: a.addfile(*member(name)))
    with pytest.raises(FileError, match="whose name leads outside of the archive"):
        load(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE]
)
def test_links_and_special_members_of_a_tar_are_never_followed(cifar, tmp_path, kind):
    (cifar / "data_batch_2").unlink()

    def change(archive):
        info, _ = member("x/data_batch_2", b"", type=kind, linkname=str(cifar / "data_batch_1"))
        archive.addfile(info)

    with pytest.raises(FileError, match="lacks data_batch_2"):
        load(tar_of(cifar, tmp_path / "a.tar.gz", change))


def test_a_member_of_a_tar_that_comes_twice(cifar, tmp_path):
    path = tar_of(cifar, tmp_path / "a.tar", lambda a: a.addfile(*member("y/test_batch")), "w")
    with pytest.raises(FileError, match=r"a\.tar' holds 'test_batch' twice"):
        load(path)


def test_a_tar_is_limited(cifar, tmp_path, monkeypatch):
    path = tar_of(cifar, tmp_path / "a.tar.gz")
    expected = load(path)
    with override_limits(archive_members=5), pytest.raises(LimitError, match="has 6 members"):
        load(path)
    with override_limits(memory_bytes=50_000), pytest.raises(LimitError, match="memory_bytes"):
        load(path)
    monkeypatch.setattr("uqled.storage.reading._SMALL_CONTENT", 10**6)
    assert load(path).fingerprint == expected.fingerprint
    bomb = tar_of(cifar, tmp_path / "b.tar.gz", lambda a: a.addfile(*member("z", bytes(10**8))))
    with pytest.raises(LimitError, match=r"b\.tar\.gz' has at least 2\d\d times its compressed"):
        load(bomb)


def test_a_tar_that_claims_terabytes(cifar, tmp_path):
    def change(archive):
        info, _ = member("x/data_batch_1", b"", size=2**42)
        archive.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))

    (cifar / "data_batch_1").unlink()
    path = tar_of(cifar, tmp_path / "a.tar", change, "w")
    with pytest.raises(LimitError, match=r"'x/data_batch_1' in file .* has 4,398,046,511,104 byt"):
        load(path)


# --- idx


def test_idx_bombs_are_refused(tmp_path, monkeypatch):
    write_idx(tmp_path, "train", 12)
    monkeypatch.setattr("uqled.storage.reading._SMALL_CONTENT", 10**6)
    bomb = idx_bytes(np.zeros((20, 1000, 1000), np.uint8))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bomb))
    with pytest.raises(LimitError, match=r"images-idx3-ubyte\.gz' has at least \d+ times its com"):
        load(tmp_path)


def test_an_idx_file_that_is_sparse_or_claims_too_much(tmp_path):
    write_idx(tmp_path, "train", 12, is_packed=False)
    path = tmp_path / "train-images-idx3-ubyte"
    with path.open("r+b") as file:
        file.truncate(2**42)
    with pytest.raises(LimitError, match=r"has 4,398,046,511,104 bytes"):
        load(tmp_path)
    for shape in ([2**31, 2**31, 4], [2**32 - 1] * 3, [2**16] * 4, [0, 5, 5], [1] * 200):
        head = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
        path.write_bytes(head)
        with pytest.raises(FileError, match="train-images-idx3-ubyte"):
            load(tmp_path)


# --- what is no file at all


@pytest.mark.parametrize(
    "name", ["a.zip", "a.npz", "a.tar", "a.tar.gz", "train-images-idx3-ubyte", "a.csv", "a.parquet"]
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, name, kind):
    write_idx(tmp_path, "train", 12, is_packed=False)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(FileError, match="is not a regular file"):
        load(path)


def test_pipes_among_the_files_of_a_format(cifar, tmp_path):
    write_idx(tmp_path / "idx", "train", 12)
    (tmp_path / "idx" / "train-labels-idx1-ubyte.gz").unlink()
    os.mkfifo(tmp_path / "idx" / "train-labels-idx1-ubyte.gz")
    with pytest.raises(FileError, match=r"idx1-ubyte\.gz' is not a regular file"):
        load(tmp_path / "idx")
    (cifar / "data_batch_3").unlink()
    os.mkfifo(cifar / "data_batch_3")
    with pytest.raises(FileError, match=r"data_batch_3' is not a regular file"):
        load(cifar)
    (cifar / "data_batch_3").unlink()
    (cifar / "data_batch_3").symlink_to("/dev/zero")
    with pytest.raises(FileError, match=r"data_batch_3' is not a regular file"):
        load(cifar)


def test_files_of_a_folder_are_counted(tmp_path):
    zip_of(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(tmp_path / "in")
    with (
        override_limits(archive_members=5),
        pytest.raises(LimitError, match=r"folder '.*in' has 6 members, and at most 5"),
    ):
        load(tmp_path / "in")
    with override_limits(archive_members=6):  # four files in two folders
        assert len(load(tmp_path / "in")) == 4


def test_folders_that_lead_to_each_other(tmp_path):
    with zipfile.ZipFile(zip_of(tmp_path / "a.zip")) as archive:
        archive.extractall(tmp_path / "in")
    for name in "ab":
        for n in range(5):
            (tmp_path / "in" / name / f"link{n}").symlink_to(tmp_path / "in")
    driver = time.monotonic()
    assert len(load(tmp_path / "in")) == 4
    assert time.monotonic() - driver < 2


def test_a_folder_that_may_not_be_listed(tmp_path, monkeypatch):
    with zipfile.ZipFile(zip_of(tmp_path / "a.zip")) as archive:
        archive.extractall(tmp_path / "in")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(FileError, match=r"in/b' cannot be read \(Permission denied\)"):
        load(tmp_path / "in")


# --- damage


def sound_archives(folder, cifar):
    features = np.random.default_rng(0).normal(size=(40, 3))
    np.savez_compressed(folder / "a.npz", X=features, y=np.arange(40) % 3)
    np.savez(folder / "b.npz", X=features, y=np.arange(40) % 3)
    zip_of(folder / "a.zip")
    zip_of(folder / "b.zip", method=8)
    zip_of(folder / "c.zip", method=14)
    tar_of(cifar, folder / "a.tar.gz")
    tar_of(cifar, folder / "a.tar", mode="w")
    write_idx(folder / "idx", "train", 12)
    names = ["a.npz", "b.npz", "a.zip", "b.zip", "c.zip", "a.tar.gz", "a.tar"]
    return [folder / name for name in names] + sorted((folder / "idx").iterdir())


def mutate(content, rng, n):
    content = bytearray(content)
    ends = np.concatenate([np.arange(min(400, len(content))), np.arange(-400, 0)])
    for _ in range(1 + n % 3):
        at = rng.choice(ends) if n % 2 else rng.integers(len(content))
        content[max(at, -len(content))] = rng.integers(256)
    if n % 9 == 0:
        del content[int(rng.integers(len(content))) :]
    return bytes(content)


def test_damaged_archives_end_in_our_own_errors(tmp_path, cifar):
    (tmp_path / "all").mkdir()
    rng = np.random.default_rng(0)
    for path in sound_archives(tmp_path / "all", cifar):
        sound, n_refused = path.read_bytes(), 0
        place = path.parent if path.parent.name == "idx" else path
        for n in range(60):
            path.write_bytes(mutate(sound, rng, n))
            driver = time.monotonic()
            with warnings.catch_warnings(), override_limits(memory_bytes=2**27):
                warnings.simplefilter("ignore")
                try:
                    load(place, cache=False, skip_unreadable=True)
                except UqledError:
                    n_refused += 1
            assert time.monotonic() - driver < 5, path.name
        assert n_refused > 5, path.name
        path.write_bytes(sound)


def test_zlib_errors_of_a_member_are_ours(tmp_path):
    """`zlib.error` is no OSError, and no ValueError."""
    noise = np.random.default_rng(0).integers(0, 4, 20_000, np.uint8).tobytes()
    path = zip_of(tmp_path / "a.zip", [("b/9.png", noise)], method=8)
    content = bytearray(path.read_bytes())
    at = content.index(b"b/9.png") + 7 + 10
    content[at : at + 200] = b"\xff" * 200
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive, pytest.raises(zlib.error):
        archive.read("b/9.png")
    with pytest.raises(FileError, match=r"b/9\.png: cannot be read \(Error -3 while decompressing"):
        load(path)
