"""Files are there whole or not at all: what reaches the disk when, and what is reserved."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from uqled.errors import FileError, InputError
from uqled.storage import run as run_module
from uqled.storage.atomic import create_array, remove_leftovers, replace_file, write_json
from uqled.storage.run import Run


def test_a_file_is_flushed_before_its_name_and_its_name_after(tmp_path, monkeypatch):
    """A power loss between any two of these steps leaves the old file or the new one."""
    events = []
    flush, rename = os.fsync, Path.replace

    def note_flush(descriptor):
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        events.append("flush folder" if name == tmp_path.name else "flush file")
        flush(descriptor)

    def note_rename(source, target):
        events.append("rename")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(Path, "replace", note_rename)
    write_json(tmp_path / "a.json", {"x": 1})
    assert events == ["flush file", "rename", "flush folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a.txt").write_text("old")

    def write_half(path):
        with replace_file(path) as part:
            part.write_text("ne")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_space_of_a_mapped_array_is_reserved(tmp_path):
    """A map of a sparse file ends the process (SIGBUS) when the disk is full."""
    array = create_array(tmp_path / "a.npy", np.float32, (2**18,))
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= array.nbytes
    assert not array.any()


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    program = (
        "import resource, sys\nimport numpy as np\nfrom pathlib import Path\n"
        "from uqled.errors import FileError\nfrom uqled.storage.atomic import create_array\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try:\n    create_array(Path(sys.argv[1]), np.float32, (100_000,))[:] = 1\n"
        "except FileError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.npy")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "a.npy' cannot be written" in process.stdout


def test_only_abandoned_temporary_files_are_removed(tmp_path):
    names = [".notes", ".uqled", "uqled-x", ".cache-1", "x.uqled-1"]
    for name in names:
        (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".uqled-left-1").write_text("half")
    (tmp_path / ".uqled-folder").mkdir()
    (tmp_path / ".uqled-link").symlink_to(tmp_path / ".notes")
    with replace_file(tmp_path / "new.txt") as part:
        remove_leftovers(tmp_path)
        part.write_text("new")
    files_left = {path.name for path in tmp_path.iterdir()}
    assert files_left == {*names, ".uqled-folder", ".uqled-link", "new.txt"}


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(FileError, match="is a folder"):
        write_json(tmp_path, {})


#: Two processes that begin a run with another configuration each, at the same moment.
RACE = """
import os, sys
from pathlib import Path
from uqled.errors import InputError
from uqled.storage.run import Run

def begin(path, name, reader):
    os.read(reader, 1)
    try:
        Run.begin(path, {"model": name})
        return 0
    except InputError:
        return 2

for number in range(20):
    reader, writer = os.pipe()
    children = []
    for name in "ab":
        pid = os.fork()
        if pid == 0:
            os._exit(begin(Path(sys.argv[1], str(number)), name, reader))
        children.append(pid)
    os.write(writer, b"xx")
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sorted(codes) == [0, 2], (number, codes)
    winner = "ab"[codes.index(0)]
    assert Run.open(Path(sys.argv[1], str(number))).configuration() == {"model": winner}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_of_two_runs_begun_at_once_in_one_folder_one_is_refused(tmp_path):
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_a_run_that_another_process_began_just_now_is_not_taken(tmp_path, monkeypatch):
    """Between the first look at the folder and its lock."""
    lock = run_module.lock_folder

    @contextmanager
    def lock_late(folder):
        monkeypatch.setattr(run_module, "lock_folder", lock)
        Run.begin(folder, {"model": "b"})
        with lock(folder):
            yield

    monkeypatch.setattr(run_module, "lock_folder", lock_late)
    with pytest.raises(InputError, match="model: 'b' then, 'a' now"):
        Run.begin(tmp_path / "run", {"model": "a"})
