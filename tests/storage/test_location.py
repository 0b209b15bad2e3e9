"""Places behave alike on the disk, in fsspec's memory and on an S3-compatible server."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from stores import s3_address
from uqled.errors import FileError
from uqled.storage import file_reads, location, remote_location
from uqled.storage.location import Location


@pytest.fixture(scope="module")
def s3():
    with s3_address() as address:
        yield address


@pytest.fixture(params=["disk", "memory", "s3"])
def folder(request, tmp_path):
    """An empty folder of each kind."""
    if request.param == "disk":
        return Location.of(tmp_path)
    base = request.getfixturevalue("s3") if request.param == "s3" else "memory:/"
    return Location.of(f"{base}/{uuid4().hex}")


def fill_buffer(place, start, length):
    buffer = bytearray(length)
    place.read_into(memoryview(buffer), start)
    return bytes(buffer)


def test_what_is_written_is_read(folder):
    place = folder / "deep" / "file.bin"
    place.write(b"0123456789")
    assert place.exists()
    assert not place.is_folder()
    assert place.parent.is_folder()
    assert place.size() == 10
    assert place.read() == b"0123456789"
    assert place.read(3) == b"3456789"
    assert place.read(3, 4) == b"3456"
    assert place.read(8, 4) == b"89"
    assert place.read(12) == b""
    assert place.read(0, 0) == b""
    assert fill_buffer(place, 2, 5) == b"23456"
    with place.open() as file:
        file.seek(5)
        assert file.read() == b"56789"


def test_names_are_in_natural_order_without_hidden_ones(folder):
    for name in ("part-10", "part-9", "part-2", "_SUCCESS", ".hidden", "a", "part-2b"):
        (folder / name).write(b"x")
    (folder / "z" / "below").write(b"xy")
    assert folder.names() == ["a", "part-2", "part-2b", "part-9", "part-10", "z"]
    assert [entry.is_folder for entry in folder.entries()] == [False] * 5 + [True]
    assert len(folder.entries(with_hidden=True)) == 8
    sizes = {entry.name: entry.size for entry in folder.tree()}
    assert sizes["z/below"] == 2
    assert len(sizes) == 8


def test_a_stamp_follows_the_content(folder):
    place = folder / "a"
    place.write(b"one")
    first = place.stamp()
    assert place.stamp() == first
    assert {entry.name: entry.stamp for entry in folder.entries()}["a"] == first
    place.write(b"two")
    assert place.stamp() != first


def test_a_replaced_file_is_read_anew(folder):
    place = folder / "a"
    place.write(b"before")
    assert fill_buffer(place, 0, 6) == b"before"
    place.write(b"behind")
    assert fill_buffer(place, 0, 6) == b"behind"


def test_what_others_write_is_seen(folder):
    place = folder / "a"
    place.write(b"before")
    assert fill_buffer(place, 0, 6) == b"before"
    assert folder.names() == ["a"]
    if place.is_local:
        (place.path.parent / "x").write_bytes(b"another")
        (place.path.parent / "x").rename(place.path)
        (place.path.parent / "b").write_bytes(b"")
    else:  # a client of its own, which knows nothing of this one's listings
        system, path = remote_location.find_file_system(place)
        other = type(system)(skip_instance_cache=True)
        other.pipe_file(path, b"another")
        other.pipe_file(f"{path[:-1]}b", b"")
    assert place.size() == 7
    assert (folder / "b").exists()
    assert fill_buffer(place, 0, 7) == b"another"
    assert folder.names() == ["a", "b"]


def test_removing_is_done_once_and_harmless_twice(folder):
    (folder / "a" / "b").write(b"x")
    (folder / "a" / "c" / "d").write(b"x")
    (folder / "a" / "b").remove()
    (folder / "a" / "b").remove()
    assert not (folder / "a" / "b").exists()
    (folder / "a").remove_folder()
    (folder / "a").remove_folder()
    assert not (folder / "a").exists()


def test_errors_name_the_file(folder):
    place = folder / "short.npy"
    place.write(b"0123456789")
    for start in (5, 10, 30):
        with pytest.raises(FileError, match=r"short.npy' ends at byte 10, before its array does"):
            fill_buffer(place, start, 6)
    none = folder / "none"
    for act in (
        none.size,
        none.stamp,
        none.read,
        none.open,
        none.names,
        lambda: fill_buffer(none, 0, 1),
    ):
        with pytest.raises(FileError, match=r"none' does not exist"):
            act()
    (folder / "sub" / "a").write(b"")
    with pytest.raises(FileError, match="sub' is a folder"):
        (folder / "sub").size()
    with pytest.raises(
        FileError, match=r"sub' (does not exist|is not a regular file|cannot be read)"
    ):
        fill_buffer(folder / "sub", 0, 1)


def test_ranges_of_many_files(folder):
    files = [folder / f"{n}" for n in range(5)]
    for n, place in enumerate(files):
        place.write(bytes([n]) * (n + 1))
    result = list(remote_location.read_ranges([(place, 1, 3) for place in files[1:]]))
    assert result == [b"\1", b"\2\2", b"\3\3\3", b"\4\4\4"]
    with pytest.raises(FileError, match="missing' does not exist"):
        list(remote_location.read_ranges([(files[0], 0, 1), (folder / "missing", 0, 1)]))


def test_made_folders(folder):
    (folder / "a" / "b").make_folder()
    (folder / "a" / "b").make_folder()
    assert (folder / "a" / "b").exists() == (not str(folder).startswith("s3:"))
    assert not (folder / "c").exists()


def test_another_process_reads_what_was_pickled(folder):
    if str(folder).startswith("memory:"):
        pytest.skip("another process has another memory")
    (folder / "a").write(b"hello")
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read().decode())"
    pickled_location = pickle.dumps(folder / "a")
    assert len(pickled_location) < 300
    process = subprocess.run(
        [sys.executable, "-c", code], input=pickled_location, capture_output=True, check=True
    )
    assert process.stdout == b"hello\n"


def test_threads_read_at_the_same_time(folder):
    for n in range(3):
        (folder / f"{n}").write(bytes([n]) * 1000)
    failures = []

    def read_often():
        for n in range(30):
            if fill_buffer(folder / f"{n % 3}", n, 900) != bytes([n % 3]) * 900:
                failures.append(n)

    threads = [threading.Thread(target=read_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_addresses():
    assert Location.of("a/b") == Location.of(Path("a/b")) == Location.of(Path.cwd() / "a" / "b")
    assert Location.of("file:///x/y").path == Path("/x/y")
    assert hash(Location.of("/x")) == hash(Location.of(Path("/x")))
    remote = Location.of("s3://bucket/some/part-1.npy/")
    assert Location.of(remote) is remote
    assert (remote.name, remote.suffix, str(remote)) == (
        "part-1.npy", ".npy", "s3://bucket/some/part-1.npy",
    )  # fmt: skip
    assert str(remote.parent / "x") == "s3://bucket/some/x"
    assert not remote.is_local
    assert Location.of("C:x").is_local
    with pytest.raises(FileError, match=r"part-1.npy' is not on this machine"):
        _ = remote.path


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["a10", "a9", "a1"], ["a1", "a9", "a10"]),
        (["10", "9", "b", "1a"], ["1a", "9", "10", "b"]),
        (["x-02-3", "x-2-1", "x-10-0"], ["x-2-1", "x-02-3", "x-10-0"]),
    ],
)
def test_natural_order(names, ordered):
    assert sorted(names, key=location.make_natural_key) == ordered


def test_local_places_do_not_import_fsspec(tmp_path):
    code = """
import sys
from uqled.storage import file_reads, location
from uqled.storage.location import Location
place = Location.of("x") / "a.bin"
place.write(b"abc")
assert place.read(1) == b"bc" and place.parent.names() == ["a.bin"]
assert "fsspec" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_without_the_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    with pytest.raises(FileError, match=r"s3://b/x' needs a package for s3.*uqled\[cloud\]"):
        Location.of("s3://b/x").exists()
    with pytest.raises(FileError, match=r"xyz://b/x' cannot be reached \(Protocol not known"):
        Location.of("xyz://b/x").exists()
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(FileError, match=r"s3://b/x' needs the fsspec package.*uqled\[cloud\]"):
        Location.of("s3://b/x").read()


@pytest.mark.usefixtures("s3")
def test_a_store_that_refuses_is_named():
    with pytest.raises(FileError, match="s3://no-such-bucket/x' does not exist"):
        Location.of("s3://no-such-bucket/x").write(b"x")
    assert not Location.of("s3://no-such-bucket").exists()


def test_errors_of_any_kind_are_named(monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    def fail(*_, **__):
        raise RuntimeError("no credentials\nat all")

    place = Location.of("memory://broken/x")
    for method, act in (
        ("info", place.exists),
        ("cat_file", place.read),
        ("pipe_file", lambda: place.write(b"")),
        ("ls", place.names),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(MemoryFileSystem, method, fail)
            with pytest.raises(FileError, match=r"broken/x' cannot be \w+ \(no credentials\)"):
                act()


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    place = Location.of(tmp_path) / "a"
    place.write(b"old")

    def full(self, content):
        with self.open("wb") as file:
            file.write(content[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FileError, match=r"a' cannot be written .No space left on device"):
        place.write(b"new")
    assert place.read() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_rights_are_asked_for(tmp_path):
    place = Location.of(tmp_path) / "a"
    place.write(b"x")
    place.path.chmod(0)
    with pytest.raises(FileError, match=r"a' cannot be read .Permission denied"):
        place.read()


def test_few_files_are_kept_open(tmp_path):
    def list_open_files():
        result = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()]
        return sum(path.startswith(str(tmp_path)) for path in result)

    files = [Location.of(tmp_path) / f"{n}" for n in range(200)]
    for place in files:
        place.write(b"abc")
        assert fill_buffer(place, 0, 3) == b"abc"
    assert 0 < list_open_files() <= file_reads._OPEN_FILES
    Location.of(tmp_path).remove_folder()
    assert list_open_files() == 0  # whose disk space is free again


def test_a_fork_reads_on(tmp_path):
    code = """
import os
from uqled.storage import file_reads, location
place = location.Location.of("a")
place.write(b"abc")
assert place.read() == b"abc"
with file_reads.DESCRIPTORS._lock:  # as if another thread were about to read
    child = os.fork()
    if child == 0:
        os._exit(0 if place.read() == b"abc" else 1)
    assert os.waitpid(child, 0)[1] == 0
"""
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=20).returncode == 0


@pytest.mark.parametrize(("start", "length"), [(0, 1), (4096, 8192), (777, 5_000_001), (128, 300)])
def test_reads_past_the_file_cache_are_the_same(tmp_path, monkeypatch, start, length):
    content = np.random.default_rng(0).integers(0, 256, 6_000_000, np.uint8).tobytes()
    place = Location.of(tmp_path / "x.bin")
    place.write(content)
    monkeypatch.setattr(file_reads, "_DIRECT_BYTES", 1)
    result = bytearray(length)
    place.read_into(memoryview(result), start, direct_io=True)
    assert bytes(result) == content[start : start + length]
    with pytest.raises(FileError, match="ends at byte 6000000"):
        place.read_into(memoryview(bytearray(500)), 5_999_900, direct_io=True)
    place.write(content[::-1])  # another file of this name
    place.read_into(memoryview(result), start, direct_io=True)
    assert bytes(result) == content[::-1][start : start + length]


@pytest.mark.parametrize("start", [0, 128, 512, 700, 5_000_000])
@pytest.mark.parametrize("length", [512, 1024, 1000, 900_001])
def test_what_lies_as_its_file_does_is_read_without_a_copy(tmp_path, monkeypatch, start, length):
    content = np.random.default_rng(0).integers(0, 256, 5_900_001, np.uint8)
    place = Location.of(tmp_path / "x.bin")
    place.write(content.tobytes())
    memory = np.zeros(length + 3 * file_reads.SECTOR, np.uint8)
    at = (start - memory.ctypes.data) % file_reads.SECTOR + file_reads.SECTOR
    read: list[list[int]] = []
    system = os.preadv

    def note_read(descriptor, buffers, offset):
        read.append([len(b) for b in buffers])
        return system(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", note_read)
    monkeypatch.setattr(file_reads, "_DIRECT_BYTES", 1)
    place.read_into(memoryview(memory)[at : at + length], start, direct_io=True)
    assert (memory[at : at + length] == content[start : start + length]).all()
    assert not memory[:at].any()
    assert not memory[at + length :].any()
    if length >= 2 * file_reads.SECTOR:
        assert len(read) == 1
        assert max(read[0]) >= length - 2 * file_reads.SECTOR
