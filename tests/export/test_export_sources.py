"""A source that was edited, moved or replaced after the run: nothing is undone silently."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uqled
from export_sources import KINDS, digits, save
from exports import command, export, hashes, image_run, make_run, table_run
from uqled.data.reopening import reopen_samples, reopen_source
from uqled.errors import FileError, InputError
from uqled.export.plan import plan_export
from uqled.export.record import read_corrections, restore_given_labels
from uqled.storage.run import Run

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
    text = " ".join(result.output.split())
    assert f"{name}' has other labels than when run" in text
    assert "Put them back as they were, or run the detection again" in text
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
    cleaned_table = pd.read_csv(tmp_path / "out.csv")
    assert cleaned_table["label"].tolist() == frame["label"][[int(name) for name in ids]].tolist()


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
    assert "This report shows those of the run" in page


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
    assert len(reopen_source(Run.open(run).predictions()).relabelled_rows) == 0
    out = tmp_path / f"out{Path(name).suffix}"
    export(run, out.suffix[1:], out, unreviewed="relabel")
    read = pd.read_csv if out.suffix == ".csv" else pd.read_parquet
    expected = frame["label"].tolist()
    expected[0] = "d8"  # as the run was told; sample 1 is back where it was
    assert read(out)["label"].tolist() == expected
    given_labels = restore_given_labels(out).tolist()
    assert given_labels == data.labels.values[noisy].tolist()
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
    kept_rows = [i for i in range(12) if i % 3]
    assert pd.read_csv(tmp_path / "out.csv", dtype=str)["split"].tolist() == ["01"] * 8
    assert pd.read_csv(tmp_path / "out.csv")["x"].tolist() == kept_rows
    assert pd.read_parquet(tmp_path / "out.parquet")["x"].tolist() == kept_rows


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
    moved_folder = (tmp_path / "data").rename(tmp_path / "elsewhere")
    (moved_folder / "dog" / "new.png").write_bytes((moved_folder / "dog" / "1.png").read_bytes())
    (moved_folder / "ship" / "2.jpg").unlink()
    missing_index = Run.open(run).predictions().ids.index("ship/2.jpg")
    result = command("export", run, "--to", "folder", "--out", tmp_path / "clean")
    assert result.exit_code == 2
    message = " ".join(result.output.split())
    assert f"is not at {str(tmp_path / 'data')!r}" in message
    assert "Name the place where it is now with --data" in message
    result = command(
        "export", run, "--to", "folder", "--out", tmp_path / "clean", "--data", moved_folder
    )
    assert result.exit_code == 0, result.output
    assert "1 file is gone: 'ship/2.jpg'." in result.output
    assert "1 file is new and not part of this run: 'dog/new.png'." in result.output
    changes = {c.index: (c.action, c.because) for c in read_corrections(tmp_path / "clean")}
    assert changes == {1: ("relabel", "decision"), missing_index: ("drop", "missing file")}
    assert len(list((tmp_path / "clean").glob("*/*"))) == 23
    result = command("report", run, "--data", moved_folder)
    assert result.exit_code == 0, result.output
    page = (run / "report.html").read_text()
    assert "1 file is gone: &#39;ship/2.jpg&#39;." in page
    assert "1 file is new and not part of this run: &#39;dog/new.png&#39;." in page
    assert "The samples cannot be shown" not in page


def test_moved_data_is_refused_where_there_were_no_files(tmp_path):
    data = uqled.Dataset.from_arrays(np.zeros((6, 2)), list("aabbab"))
    run = make_run(tmp_path / "run", data, {0: 1})
    with pytest.raises(InputError, match="made from arrays in memory"):
        plan_export(run, "csv", data=tmp_path)
