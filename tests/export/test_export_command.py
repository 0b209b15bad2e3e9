"""`uqled export`: what it says, writes, replaces and refuses."""

from __future__ import annotations

import json
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import uqled
from exports import command, export, hashes, image_run, make_run
from uqled import registry
from uqled.errors import FileError, InputError
from uqled.export.formats import EXPORT_FORMATS
from uqled.export.plan import plan_export
from uqled.export.record import read_corrections, restore_given_labels
from uqled.storage.run import Run

# ---- the command


def test_a_dry_run_says_and_writes_nothing(tmp_path):
    run = image_run(tmp_path, decisions=[(1, "keep", None)])
    before = hashes(tmp_path)
    for to, out in [("csv", "c.csv"), ("folder", "f"), ("label-studio", "l"), ("huggingface", "h")]:
        words = ["--to", to, "--out", tmp_path / out, "--dry-run"]
        words += [] if to == "label-studio" else ["--unreviewed", "drop"]
        result = command("export", run, *words)
        assert result.exit_code == 0, result.output
        assert "Nothing was written" in result.output
        assert hashes(tmp_path) == before
    words = ["--out", tmp_path / "c.csv", "--dry-run", "--method", "alg-ens"]
    result = command("export", run, "--to", "csv", *words, "--unreviewed", "drop")
    text = " ".join(result.output.split())
    assert "3 of 24 samples change, 21 are left" in text
    assert "3 dropped by alg-ens-3" in text
    assert "2 ship -> (dropped)" in text
    assert "dog/1.png: dog -> (dropped), by alg-ens-3" in text


def test_the_command_writes_and_names_what_it_wrote(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    words = ["--unreviewed", "relabel", "--method", "cl-mcd"]
    result = command("export", run, "--to", "csv", "--out", out, *words)
    assert result.exit_code == 0, result.output
    assert f"Written: {out}" in result.output
    assert pd.read_csv(out)["label"].tolist().count("cat") == 9
    assert not (run / "decisions.sqlite").exists()


def test_an_existing_file_is_refused_unless_it_may_be_replaced(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    out.write_text("mine")
    result = command("export", run, "--to", "csv", "--out", out)
    assert result.exit_code == 2
    assert "--overwrite" in result.output
    assert out.read_text() == "mine"
    words = ["--overwrite", "--unreviewed", "keep"]
    assert command("export", run, "--to", "csv", "--out", out, *words).exit_code == 0
    assert len(pd.read_csv(out)) == 24


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "xls", "--out", "a.xls"], "Choose one of cleanlab, csv"),
        (["--to", "csv", "--out", "a.txt"], "has the ending '.txt'"),
        (["--to", "csv", "--out", "no/a.csv"], "Make the folder first"),
        (
            ["--to", "csv", "--out", "a.csv", "--unreviewed", "burn"],
            "Choose one of keep, drop, relabel",
        ),
        (["--to", "csv", "--out", "a.csv", "--method", "magic"], "method is 'magic'"),
        (["--to", "csv", "--out", "a.csv", "--link"], "link is not an option for csv"),
        (["--to", "csv", "--out", "a.csv", "--url", "x"], "url is not an option for csv"),
        (["--to", "folder", "--out", "a", "--overwrite"], "overwrite is not an option for folder"),
        (["--to", "folder", "--out", "run"], "already holds"),
        (["--to", "folder", "--out", "run/run.json"], "is a file"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, words, message):
    run = image_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = hashes(tmp_path)
    result = command("export", run, *words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert hashes(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "csv", "--out", "there.csv"], "'there.csv' exists"),
        (["--to", "csv", "--out", "new.txt"], "new.txt"),
        (["--to", "csv", "--out", "new.csv", "--link"], "--link"),
        (["--to", "folder", "--out", "full"], "full"),
        (
            ["--to", "folder", "--out", "new", "--overwrite"],
            "--overwrite is not an option",
        ),
    ],
)
def test_targets_are_refused_before_the_run_is_read(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("there.csv").write_text("mine")
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    result = command("export", "nowhere", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "holds no run" not in result.stderr


def test_other_methods_and_agreements(tmp_path):
    run = image_run(tmp_path)
    predictions = Run.open(run).predictions()
    stands_for_all = uqled.find_label_errors(predictions, method="all").method
    assert plan_export(run, "csv").corrected.method == stands_for_all
    for method, name in [
        ("alg-ens", "alg-ens-3"),
        ("alg-ens-2", "alg-ens-2"),
        ("cl-mcd", "cl-mcd"),
    ]:
        plan = plan_export(run, "csv", method=method, unreviewed="drop")
        assert (plan.corrected.method, len(plan.corrected.corrections)) == (name, 4)


def test_nothing_left_is_refused(tmp_path):
    data = uqled.Dataset.from_arrays(np.zeros((4, 2)), [0, 0, 1, 1])
    run = make_run(tmp_path / "run", data, {}, decisions=[(i, "drop", None) for i in range(4)])
    with pytest.raises(InputError, match="no sample would stay"):
        plan_export(run, "csv")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    before = hashes(tmp_path)

    def fails(_, path, **__):
        path.write_text("half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(pd.DataFrame, "to_csv", fails)
        with pytest.raises(OSError, match="disk full"):
            export(run, "csv", out, overwrite=True)
    assert hashes(tmp_path) == before
    with monkeypatch.context() as patch:
        patch.setattr("uqled.export.record.version", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(run, "csv", out, overwrite=True)
    assert hashes(tmp_path) == before


def test_old_data_are_there_until_new_data_are(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    before, rename = out.read_bytes(), Path.replace

    def stops_at_the_data(path, target):
        if Path(target) == out:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", stops_at_the_data)
    with pytest.raises(KeyboardInterrupt):
        export(run, "csv", out, overwrite=True, unreviewed="keep")
    assert out.read_bytes() == before
    # Beside a record that is not theirs, and says so.
    assert json.loads((tmp_path / "clean.csv.changes.json").read_text())["unreviewed"] == "keep"
    for read in (restore_given_labels, read_corrections):
        with pytest.raises(FileError, match=r"clean\.csv' was interrupted.*--overwrite"):
            read(out)


def test_another_package_adds_a_format(tmp_path, monkeypatch):
    """The example of docs/extending.md, found by its entry point."""
    text = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    example = text.split("## Add an export format")[1].split("```python\n")[1].split("```")[0]
    lines = [line[4:] for line in example.splitlines() if line[:3] in (">>>", "...")]
    assert len(lines) <= 30
    module = types.ModuleType("my_package")
    exec("\n".join(lines), vars(module))
    monkeypatch.setitem(sys.modules, "my_package", module)
    entry = EntryPoint("jsonl", "my_package:JsonLines", "uqled.exports")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] * (group == entry.group))
    try:
        run = image_run(tmp_path, decisions=[(1, "drop", None), (9, "relabel", 2)])
        out = tmp_path / "clean.jsonl"
        assert command("export", run, "--to", "jsonl", "--out", out).exit_code == 0
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert (len(rows), rows[8]) == (23, {"id": "dog/1.png", "label": "ship"})
        assert len(read_corrections(out)) == 2
        result = command("export", run, "--to", "jsonl", "--out", tmp_path / "clean.txt")
        assert "Use .jsonl for this format" in result.output
        with pytest.raises(FileError, match="keeps the given labels"):
            restore_given_labels(out)
    finally:
        EXPORT_FORMATS._loaded_entries.pop("jsonl", None)
