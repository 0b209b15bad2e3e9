"""Exports after accidents and edits: of changed sources, killed halfway, on a full disk; nothing
wrong is written, nothing is lost, and no file leaves the machine that is no image."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exports import export, hashes, image_folder, image_run, table_run
from uqled.errors import FileError, InputError
from uqled.export.plan import plan_export, write_export
from uqled.export.record import read_corrections, restore_given_labels

# ---- killed while a file is replaced


class KilledError(BaseException):
    pass


def kill_at_rename(monkeypatch, number):
    """Stop at the rename of this number, counted from 1; returns what was renamed before."""
    rename, renames = os.replace, []

    def count(old, new):
        if len(renames) + 1 == number:
            raise KilledError
        renames.append(Path(new).name)
        rename(old, new)

    monkeypatch.setattr(os, "replace", count)
    return renames


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_kill_at_any_rename_loses_nothing(tmp_path, monkeypatch, number):
    run = image_run(tmp_path)
    out, note = tmp_path / "clean.csv", tmp_path / "clean.csv.changes.json"
    export(run, "csv", out)
    old, given_labels = out.read_bytes(), restore_given_labels(out).tolist()
    with monkeypatch.context() as patch:
        was_killed = kill_at_rename(patch, number)
        try:
            export(run, "csv", out, overwrite=True, unreviewed="relabel")
        except KilledError:
            assert number < 5
    names = [note.name, out.name, f"{out.name}.changes.csv", note.name]
    assert was_killed == names[: number - 1]
    if number in (2, 3, 4):  # what is there belongs together or not: nobody is misled
        with pytest.raises(FileError, match="was interrupted"):
            restore_given_labels(out)
    else:
        assert restore_given_labels(out).tolist() == given_labels
        assert json.loads(note.read_text())["unreviewed"] == ("drop" if number == 1 else "relabel")
    assert (out.read_bytes() == old) == (number <= 2)
    assert len(pd.read_csv(out)) == (20 if number <= 2 else 24)
    export(run, "csv", out, overwrite=True)
    assert out.read_bytes() == old
    assert restore_given_labels(out).tolist() == given_labels
    assert not list(tmp_path.glob(".uqled-*"))


DIES = """
import os, signal, sys
from uqled.export.plan import plan_export, write_export
rename, done = os.replace, []
def dies(old, new):
    if len(done) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(new)
    rename(old, new)
os.replace = dies
plan = plan_export(sys.argv[1], "csv", method="alg-ens", unreviewed="relabel")
write_export(plan, sys.argv[2], overwrite=True)
"""


def test_a_killed_process_leaves_the_old_data(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    old = out.read_bytes()
    process = subprocess.run([sys.executable, "-c", DIES, str(run), str(out)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert out.read_bytes() == old
    assert len(list(tmp_path.glob(".uqled-*"))) == 3
    export(run, "csv", out, overwrite=True, unreviewed="keep")
    assert not list(tmp_path.glob(".uqled-*"))  # nobody writes them any more
    assert len(pd.read_csv(out)) == 24


def test_all_is_on_the_disk_before_anything_is_renamed(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    table, folder = plan_export(run, "csv"), plan_export(run, "folder", method="alg-ens")
    steps = []

    def record(name, original):
        def call(*arguments):
            steps.append(name)
            return original(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", record("flush", os.fsync))
    monkeypatch.setattr(os, "replace", record("rename", os.replace))
    write_export(table, tmp_path / "clean.csv")
    assert steps.index("rename") >= 3
    steps.clear()
    monkeypatch.setattr(Path, "rename", record("rename", Path.rename))
    write_export(folder, tmp_path / "clean")
    at = steps.index("rename")
    assert steps[:at].count("flush") >= 20 + 3  # images, records
    assert steps[at:] == ["rename", "flush"]  # the folder's entry


# ---- hidden folders


def test_folders_that_somebody_builds_stay(tmp_path):
    run = image_run(tmp_path)
    mine = [tmp_path / name for name in (".clean-abc.part", ".uqled-other", ".uqled-export-file")]
    for folder in mine[:2]:
        folder.mkdir()
        os.utime(folder, (0, 0))
    mine[2].write_text("a file")
    (tmp_path / ".uqled-export-link").symlink_to(tmp_path / "data")
    live_folder, abandoned_folder = tmp_path / ".uqled-export-busy", tmp_path / ".uqled-export-left"
    for folder in (live_folder, abandoned_folder):
        (folder / "cat").mkdir(parents=True)
        os.utime(folder, (0, 0))
    lock = os.open(live_folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        export(run, "folder", tmp_path / "clean")
        assert live_folder.is_dir()
        assert not abandoned_folder.exists()
        assert all(path.exists() for path in mine)
        assert (tmp_path / ".uqled-export-link").is_symlink()
        assert len(list((tmp_path / "data").rglob("*.*g"))) == 24
    finally:
        os.close(lock)
    export(run, "folder", tmp_path / "again")
    assert not live_folder.exists()


def test_a_folder_has_the_rights_that_a_new_one_has(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("other threads make files meanwhile"))
    export(run, "folder", tmp_path / "clean")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "clean").stat().st_mode == (tmp_path / "plain").stat().st_mode


# ---- a full disk


@contextmanager
def no_file_larger_than(size):
    """The system refuses to write more to a file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("csv", "clean.csv"),
        ("parquet", "clean.parquet"),
        ("folder", "clean"),
        ("huggingface", "clean"),
    ],
)
def test_a_full_disk_is_our_error(tmp_path, to, name):
    place = image_folder(
        tmp_path / "data", [f"class number {k} of a long name" for k in range(4)], 12
    )
    run = image_run(tmp_path, place=place, wrong={1: 1})
    out = tmp_path / name
    if to in ("csv", "parquet"):
        export(run, to, out, unreviewed="keep")
    before = hashes(tmp_path)
    plan = plan_export(run, to, method="alg-ens")
    with (
        no_file_larger_than(300),
        pytest.raises(
            FileError, match=rf"file '.*{name}.*' cannot be written \(.*File too large\)"
        ),
    ):
        write_export(plan, out, overwrite=to in ("csv", "parquet"))
    assert hashes(tmp_path) == before
    assert not list(tmp_path.glob(".uqled-*"))


# ---- what leaves the machine


def path_table(tmp_path):
    """A run on a table of paths to nine pictures."""
    image_folder(tmp_path / "pictures", n=3)
    files = sorted(str(path) for path in (tmp_path / "pictures").rglob("*.*g"))
    frame = pd.DataFrame({"file": files, "label": ["cat"] * 3 + ["dog"] * 3 + ["ship"] * 3})
    return table_run(tmp_path, frame, wrong={0: 1}), files


@pytest.mark.parametrize("to", ["folder", "huggingface", "label-studio", "fiftyone"])
def test_a_file_that_is_no_image_is_not_copied(tmp_path, to):
    """A table may name any file; only what is an image leaves by way of an export."""
    run, files = path_table(tmp_path)
    plan = plan_export(
        run, to, method="alg-ens", unreviewed=None if to == "label-studio" else "keep"
    )
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----"
    Path(files[0]).write_text(secret)
    with pytest.raises(FileError, match=r"sample '.*0\.jpg' cannot be read"):
        write_export(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileError, match="1 unreadable of 9 images"):
        plan_export(run, to)
    copies = [path for path in tmp_path.rglob("*") if path.is_file() and path != Path(files[0])]
    assert not any(secret.encode() in path.read_bytes() for path in copies)


@pytest.mark.parametrize("to", ["folder", "huggingface"])
def test_a_pipe_in_the_place_of_an_image_is_refused_at_once(tmp_path, to):
    run, files = path_table(tmp_path)
    plan = plan_export(run, to, method="alg-ens", unreviewed="keep")
    Path(files[0]).unlink()
    os.mkfifo(files[0])
    with pytest.raises(FileError, match=r"cannot be read \(is not a regular file\)"):
        write_export(plan, tmp_path / "out")


def test_links_lead_to_regular_files_only(tmp_path):
    run, files = path_table(tmp_path)
    plan = plan_export(run, "folder", method="alg-ens", unreviewed="keep")
    export(run, "folder", tmp_path / "links", unreviewed="keep", link=True)
    assert sorted(os.path.realpath(path) for path in (tmp_path / "links").rglob("*.*g")) == files
    Path(files[0]).unlink()
    os.mkfifo(files[0])
    with pytest.raises(InputError, match="needs files"):
        write_export(plan, tmp_path / "out", link=True)
    assert not (tmp_path / "out").exists()


# ---- records that were edited


@pytest.mark.parametrize("to", ["csv", "folder"])
def test_a_note_of_another_shape_is_refused(tmp_path, to):
    run = image_run(tmp_path)
    out = tmp_path / f"clean.{to}"
    export(run, to, out)
    note = out / "changes.json" if to == "folder" else tmp_path / "clean.csv.changes.json"
    about = json.loads(note.read_text())
    changes = [
        {"format": 2},
        {"classes": "cat"},
        {"classes": [["cat"]]},
        {"classes": ["cat", "cat", "dog"]},
        {"left": "20"},
        {"label": 3},
        {"to": {}},
    ]
    without = {key: value for key, value in about.items() if key != "to"}
    wrong_notes = [[], {"format": 1}, without, *(about | one for one in changes)]
    if to == "csv":
        wrong_notes.append(about | {"label": "no such column"})
    for content in wrong_notes:
        note.write_text(json.dumps(content))
        with pytest.raises(FileError, match=r"clean\.(csv|folder)"):
            restore_given_labels(out)
    note.write_text(json.dumps(about))
    assert len(restore_given_labels(out)) == 24


def test_changes_of_another_shape_are_refused(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    table = tmp_path / "clean.csv.changes.csv"
    text = table.read_text().replace("\r\n", "\n")
    for old, new in (
        ("index,id", "number,id"),
        (",drop,", ",drop,more,"),
        ("drop,cat,", "drop"),
        ("drop,cat", "drop,wolf"),
        ("\n1,", "\n-1,"),
        ("\n1,", "\n99,"),
        ("\n1,", "\nx,"),
        ("\n9,", "\n1,"),
        ("cat", "c" * 200_000),
        ("cat", "\udcff"),
    ):
        assert old in text
        table.write_bytes(text.replace(old, new).encode("utf-8", "surrogateescape"))
        with pytest.raises(InputError):
            restore_given_labels(out)
    table.write_text(text)
    assert len(restore_given_labels(out)) == 24


def test_class_numbers_that_no_class_has(tmp_path):
    run = image_run(tmp_path)
    export(run, "huggingface", tmp_path / "out")
    (shard,) = (tmp_path / "out/data").iterdir()
    for values in ([9] * 20, [-1] * 20, [0.5] * 20, ["cat"] * 20):
        pq.write_table(pa.table({"label": values}), shard)
        with pytest.raises(FileError, match="its labels are not class numbers below 3"):
            restore_given_labels(tmp_path / "out")


def test_records_that_are_no_files(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    for name in ("clean.csv.changes.json", "clean.csv.changes.csv", "clean.csv"):
        path = tmp_path / name
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(FileError, match="is not a regular file"):
            restore_given_labels(out)
        path.unlink()
        path.write_bytes(content)
    assert len(read_corrections(out)) == 4
