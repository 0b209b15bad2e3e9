"""Exports after accidents and edits: of changed sources, killed halfway, on a full disk; nothing
wrong is written, nothing is lost, and no file leaves the machine that is no image."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import uqled
from exports import hashes, image_folder, image_run, make_run, table_run
from uqled.cli import app
from uqled.data.reopening import reopen_samples, reopen_source
from uqled.errors import FileError, InputError
from uqled.export.plan import plan_export, write_export
from uqled.export.record import read_corrections, restore_given_labels
from uqled.storage.run import Run

KINDS = [
    ("csv", "out.csv"),
    ("parquet", "out.parquet"),
    ("huggingface", "out"),
    ("label-studio", "out"),
]


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def export(run, to, out, *, unreviewed=None, **options):
    if unreviewed is None and to in ("csv", "parquet", "folder", "huggingface"):
        unreviewed = "drop"
    unreviewed = None if to == "label-studio" else unreviewed
    return write_export(
        plan_export(run, to, method="alg-ens", unreviewed=unreviewed), out, **options
    )


def digits(N=30):
    """Rows whose classes are d3, d5 and d8."""
    return pd.DataFrame(
        {"x": np.arange(float(N)), "y": 1.5, "label": ["d3", "d5", "d8"] * (N // 3)}
    )


def save(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(
        path, index=False
    )


# ---- a source whose labels were edited after the run


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
@pytest.mark.parametrize("unreviewed", ["relabel", "keep", "drop"])
def test_labels_that_were_edited_are_not_undone(tmp_path, name, unreviewed):
    """A relabel to d3 was written as d8, and a correction by hand was taken back."""
    frame = digits()
    run = table_run(tmp_path, frame, name, wrong={1: 0, 4: 0})
    frame.loc[0, "label"] = "d8"
    save(frame, tmp_path / name)
    before = hashes(tmp_path)
    for to, out in KINDS:
        with pytest.raises(FileError, match=r"1 of 30 labels \('0' was 'd3' and is 'd8'\)"):
            export(run, to, tmp_path / out, unreviewed=unreviewed)
    result = command(
        "export", run, "--to", "csv", "--out", tmp_path / "out.csv", "--unreviewed", unreviewed
    )
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert f"{name}' has other labels than when run" in said
    assert "Put them back as they were, or find the errors anew" in said
    assert hashes(tmp_path) == before


def test_more_labels_than_fit_in_a_message(tmp_path):
    frame = digits()
    frame["id"] = [f"row-{i}" for i in range(30)]
    run = table_run(tmp_path, frame, wrong={})
    frame["label"] = ["d5", "d8", "new"] * 10
    save(frame, tmp_path / "data.csv")
    with pytest.raises(
        FileError,
        match=r"30 of 30 labels \('row-0' was 'd3' and is 'd5', 'row-1' was 'd5' and is 'd8', "
        r"'row-2' was 'd8' and is 'new', \.\.\.\)",
    ):
        export(run, "csv", tmp_path / "out.csv")


def test_edited_labels_and_a_limit(tmp_path):
    """With other labels the same limit would draw other samples."""
    frame = digits(300)
    run = table_run(tmp_path, frame, wrong={}, limit=30, seed=1)
    ids = Run.open(run).predictions().ids
    frame.loc[int(ids[0]), "label"] = "d5" if frame["label"][int(ids[0])] != "d5" else "d8"
    others = frame.index[(frame["label"] == "d3") & ~frame.index.astype(str).isin(ids)]
    frame.loc[others[:40], "label"] = "d5"
    save(frame, tmp_path / "data.csv")
    with pytest.raises(FileError, match=rf"1 of 30 labels \('{ids[0]}' was"):
        export(run, "csv", tmp_path / "out.csv")
    assert reopen_samples(Run.open(run).predictions()).ids.tolist() == ids


def test_labels_edited_outside_of_the_run_are_no_harm(tmp_path):
    frame = digits(300)
    run = table_run(tmp_path, frame, wrong={0: 1}, limit=30, seed=1)
    ids = Run.open(run).predictions().ids
    frame.loc[~frame.index.astype(str).isin(ids), "label"] = "d5"
    save(frame, tmp_path / "data.csv")
    export(run, "csv", tmp_path / "out.csv", unreviewed="keep")
    cleaned = pd.read_csv(tmp_path / "out.csv")
    assert cleaned["label"].tolist() == frame["label"][[int(name) for name in ids]].tolist()


def test_names_of_classes_that_changed_places(tmp_path):
    """The same class numbers, and another description of what they stand for."""

    def write_table(names):
        about = {"info": {"features": {"label": {"_type": "ClassLabel", "names": names}}}}
        table = pa.table({"text": [f"text {i}" for i in range(9)], "label": [0, 1, 2] * 3})
        about = {"huggingface": json.dumps(about)}
        pq.write_table(table.replace_schema_metadata(about), tmp_path / "data.parquet")

    write_table(["cat", "dog", "ship"])
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.parquet"), {1: 0})
    write_table(["dog", "cat", "ship"])
    with pytest.raises(FileError, match=r"6 of 9 labels \('0' was 'cat' and is 'dog'"):
        export(run, "parquet", tmp_path / "out.parquet")


def test_arrays_whose_labels_were_edited(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
    np.savez(tmp_path / "data.npz", X=pixels, y=[0, 0, 0, 1, 1, 1])
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.npz"), {2: 1})
    np.savez(tmp_path / "data.npz", X=pixels, y=[0, 0, 0, 1, 1, 0])
    with pytest.raises(FileError, match=r"1 of 6 labels \('5' was '1' and is '0'\)"):
        export(run, "folder", tmp_path / "out")


def test_a_report_goes_on_with_the_labels_of_the_run(tmp_path):
    frame = digits()
    run = table_run(tmp_path, frame, wrong={0: 1})
    frame.loc[0, "label"] = "d8"
    save(frame, tmp_path / "data.csv")
    predictions = Run.open(run).predictions()
    data = reopen_samples(predictions)
    assert data.labels is predictions.labels
    assert data.inputs["x"].tolist() == list(range(30))
    result = command("report", run)
    assert result.exit_code == 0, result.output
    page = (run / "report.html").read_text()
    assert "1 of 30 labels (&#39;0&#39; was &#39;d3&#39; and is &#39;d8&#39;)" in page
    assert "Shown are those of the run" in page


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_labels_made_wrong_on_purpose_are_no_edit(tmp_path, name):
    """The run's labels are noisy, the source's are the truth: each is spelled as its own class."""
    frame = digits()
    save(frame, tmp_path / name)
    data = uqled.load(tmp_path / name)
    noisy = data.labels.codes.copy()
    noisy[[0, 1]] = [2, 0]  # d3 is called d8, and d5 is called d3
    run = make_run(
        tmp_path / "run",
        replace(data.with_labels(noisy), truth=data.labels.codes),
        {1: 1},
    )
    assert len(reopen_source(Run.open(run).predictions()).relabelled) == 0
    out = tmp_path / f"out{Path(name).suffix}"
    export(run, out.suffix[1:], out, unreviewed="relabel")
    read = pd.read_csv if out.suffix == ".csv" else pd.read_parquet
    expected = frame["label"].tolist()
    expected[0] = "d8"  # as the run was told; sample 1 is back where it was
    assert read(out)["label"].tolist() == expected
    given = restore_given_labels(out).tolist()
    assert given == data.labels.values[noisy].tolist()
    frame.loc[2, "label"] = "d5"
    save(frame, tmp_path / name)
    with pytest.raises(FileError, match=r"1 of 30 labels \('2' was 'd8' and is 'd5'\)"):
        export(run, out.suffix[1:], tmp_path / f"again{out.suffix}")


# ---- rows that moved


def test_rows_in_another_order_are_refused(tmp_path):
    frame = digits().assign(id=[f"r{i}" for i in range(30)])
    for options in ({}, {"limit": 12}):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        run = table_run(tmp_path, frame, "data.parquet", wrong={}, **options)
        save(frame[::-1], tmp_path / "data.parquet")
        with pytest.raises(FileError, match=r"no longer holds the (30|12) samples"):
            export(run, "parquet", tmp_path / "out.parquet")


@pytest.mark.parametrize("ids", [["r0"] * 30, [f"s{i}" for i in range(30)]])
def test_other_ids_are_refused(tmp_path, ids):
    frame = digits().assign(id=[f"r{i}" for i in range(30)])
    run = table_run(tmp_path, frame, wrong={})
    save(frame.assign(id=ids), tmp_path / "data.csv")
    with pytest.raises(FileError, match=r"no longer holds the 30 samples.*'r0' is gone"):
        export(run, "csv", tmp_path / "out.csv")


def test_columns_of_one_name_keep_their_places(tmp_path):
    lines = ["x,label,label,x", *(f"{i},{'ab'[i % 2]},other,{-i}" for i in range(12))]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.csv", inputs=["x", "x.1"]), {0: 1})
    export(run, "csv", tmp_path / "out.csv", unreviewed="relabel")
    lines[1] = lines[1].replace("0,a,", "0,b,")
    assert (tmp_path / "out.csv").read_text() == "\n".join(lines) + "\n"
    assert restore_given_labels(tmp_path / "out.csv").tolist() == ["a", "b"] * 6


def test_a_split_is_chosen_as_it_was(tmp_path):
    lines = ["x,label,split", *(f"{i},{'ab'[i % 2]},{['01', '2'][i % 3 == 0]}" for i in range(12))]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.csv", split="1"), {})
    for to in ("csv", "parquet"):
        export(run, to, tmp_path / f"out.{to}")
    wanted = [i for i in range(12) if i % 3]
    assert pd.read_csv(tmp_path / "out.csv", dtype=str)["split"].tolist() == ["01"] * 8
    assert pd.read_csv(tmp_path / "out.csv")["x"].tolist() == wanted
    assert pd.read_parquet(tmp_path / "out.parquet")["x"].tolist() == wanted


# ---- killed while a file is replaced


class Killed(BaseException):
    pass


def kill_at_rename(monkeypatch, number):
    """Stop at the rename of this number, counted from 1; returns what was renamed before."""
    rename, done = os.replace, []

    def count(old, new):
        if len(done) + 1 == number:
            raise Killed
        done.append(Path(new).name)
        rename(old, new)

    monkeypatch.setattr(os, "replace", count)
    return done


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_kill_at_any_rename_loses_nothing(tmp_path, monkeypatch, number):
    run = image_run(tmp_path)
    out, note = tmp_path / "clean.csv", tmp_path / "clean.csv.changes.json"
    export(run, "csv", out)
    old, given = out.read_bytes(), restore_given_labels(out).tolist()
    with monkeypatch.context() as patch:
        done = kill_at_rename(patch, number)
        try:
            export(run, "csv", out, overwrite=True, unreviewed="relabel")
        except Killed:
            assert number < 5
    names = [note.name, out.name, f"{out.name}.changes.csv", note.name]
    assert done == names[: number - 1]
    if number in (2, 3, 4):  # what is there belongs together or not: nobody is misled
        with pytest.raises(FileError, match="was interrupted"):
            restore_given_labels(out)
    else:
        assert restore_given_labels(out).tolist() == given
        assert json.loads(note.read_text())["unreviewed"] == ("drop" if number == 1 else "relabel")
    assert (out.read_bytes() == old) == (number <= 2)
    assert len(pd.read_csv(out)) == (20 if number <= 2 else 24)
    export(run, "csv", out, overwrite=True)
    assert out.read_bytes() == old
    assert restore_given_labels(out).tolist() == given
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
    done = subprocess.run([sys.executable, "-c", DIES, str(run), str(out)], check=False)
    assert done.returncode == -signal.SIGKILL
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
    busy, abandoned = tmp_path / ".uqled-export-busy", tmp_path / ".uqled-export-left"
    for folder in (busy, abandoned):
        (folder / "cat").mkdir(parents=True)
        os.utime(folder, (0, 0))
    lock = os.open(busy, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        export(run, "folder", tmp_path / "clean")
        assert busy.is_dir()
        assert not abandoned.exists()
        assert all(path.exists() for path in mine)
        assert (tmp_path / ".uqled-export-link").is_symlink()
        assert len(list((tmp_path / "data").rglob("*.*g"))) == 24
    finally:
        os.close(lock)
    export(run, "folder", tmp_path / "again")
    assert not busy.exists()


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
    with pytest.raises(FileError, match=r"cannot be read \(is no regular file\)"):
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
    changed = [[], {"format": 1}, *(about | one for one in changes)]
    if to == "csv":
        changed.append(about | {"label": "no such column"})
    for content in changed:
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
        with pytest.raises(FileError, match="is no regular file"):
            restore_given_labels(out)
        path.unlink()
        path.write_bytes(content)
    assert len(read_corrections(out)) == 4


# ---- a run whose source leads elsewhere


@pytest.mark.parametrize(
    "place",
    [
        "/a\0b",
        "a\0b.csv",
        "x" * 5_000,
        f"/{'x' * 5_000}.csv",
        "loop.csv",
        "~nobody/x.csv",
        "hf:../x",
        "/dev/zero",
        "pipe.parquet",
        "pipe",
        "",
    ],
)
def test_a_source_that_cannot_be_is_our_error(tmp_path, place):
    run = table_run(tmp_path, digits(), wrong={0: 1})
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.parquet")
    about = json.loads((run / "ids.json").read_text())
    local = (tmp_path / place) if place.startswith(("loop", "pipe")) else place
    about["source"]["place"] = str(local)
    (run / "ids.json").write_text(json.dumps(about))
    for to, out in (("folder", "out"), ("huggingface", "out"), ("label-studio", "out")):
        with pytest.raises(InputError):
            export(run, to, tmp_path / out)
    for to, out in (("csv", "out.csv"), ("cleanlab", "issues.csv")):  # which may do without it
        result = command("export", run, "--to", to, "--out", tmp_path / out)
        assert result.exit_code in (0, 2), result.exception
        assert "refused" not in result.output
    assert command("report", run).exit_code == 0
    assert "The samples cannot be shown" in (run / "report.html").read_text()


def test_a_moved_folder_can_be_named_and_changed_files_are_tolerated(tmp_path):
    run = image_run(tmp_path, decisions=[(1, "relabel", 2)])
    moved = (tmp_path / "data").rename(tmp_path / "elsewhere")
    (moved / "dog" / "new.png").write_bytes((moved / "dog" / "1.png").read_bytes())
    (moved / "ship" / "2.jpg").unlink()
    gone = Run.open(run).predictions().ids.index("ship/2.jpg")
    result = command("export", run, "--to", "folder", "--out", tmp_path / "clean")
    assert result.exit_code == 2
    result = command("export", run, "--to", "folder", "--out", tmp_path / "clean", "--data", moved)
    assert result.exit_code == 0, result.output
    changes = {c.index: (c.action, c.because) for c in read_corrections(tmp_path / "clean")}
    assert changes == {1: ("relabel", "decision"), gone: ("drop", "missing file")}
    assert len(list((tmp_path / "clean").glob("*/*"))) == 23
    result = command("report", run, "--data", moved)
    assert result.exit_code == 0, result.output
    page = (run / "report.html").read_text()
    assert "1 file is gone: &#39;ship/2.jpg&#39;." in page
    assert "1 file is new and not part of this run: &#39;dog/new.png&#39;." in page
    assert "The samples cannot be shown" not in page


def test_moved_data_is_refused_where_there_were_no_files(tmp_path):
    data = uqled.Dataset.from_arrays(np.zeros((6, 2)), list("aabbab"))
    run = make_run(tmp_path / "run", data, {0: 1})
    with pytest.raises(InputError, match="made of arrays in memory"):
        plan_export(run, "csv", data=tmp_path)
