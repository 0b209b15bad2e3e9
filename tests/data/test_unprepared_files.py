"""Files that nobody prepared: no names of columns, a few foreign bytes, an empty class folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import uqled
from made_tables import make_news, make_penguins
from pictures import photo
from uqled.cli import app
from uqled.data.tables.header import names_columns
from uqled.data.tables.text_dialect import detect_dialect
from uqled.export.record import restore_given_labels
from uqled.storage.run import Run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*words):
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("first", "row", "expected"),
    [
        ("39, State-gov, 77516, <=50K", "38, State-gov, 215646, <=50K", False),
        ("5.1,3.5,1.4,0.2,setosa", "4.9,3.0,1.4,0.2,setosa", False),
        ("6,148,72,33.6,1", "1,85,66,26.6,0", False),
        ("ham,Go until jurong point", "ham,Ok lar joking", False),
        ("v1,v2", "ham,Ok lar joking", True),
        ("country,2019,2020", "Norway,5.3,5.4", True),
        ("0,1,2,3", "4.9,3.0,1.4,0.2", True),
        ("label,1,2", "cat,3,4", True),
        ("a,b", "x,y", True),
    ],
)
def test_whether_the_first_line_is_data(first, row, expected):
    lines = [first, *[row] * 4, *[row.replace("0", "7") for _ in range(4)]]
    assert names_columns([line.split(",") for line in lines]) is expected


def test_a_table_without_names(folder):
    frame = make_penguins()
    frame.to_csv("penguins.data.csv", index=False, header=False)
    number = frame.columns.tolist().index("species") + 1
    data = uqled.load("penguins.data.csv", label=f"column {number}")
    assert (len(data), data.labels.names) == (120, ("Adelie", "Chinstrap", "Gentoo"))
    assert uqled.load("penguins.data.csv", label=str(number)).labels.names == data.labels.names
    output = invoke("inspect", "penguins.data.csv", "--label", str(number))
    assert (
        "the first line is data, so the columns are called column 1, column 2 and so on" in output
    )
    result = CliRunner().invoke(app, ["inspect", "penguins.data.csv", "--header", "yes"])
    assert (result.exit_code, "looks like data" in result.output) == (2, True)
    words = ["find", "penguins.data.csv", "--label", str(number), "--model", "logistic"]
    invoke(*words, "--uncertainty", "none", "--out", "run")
    invoke("export", "run", "--to", "csv", "--out", "clean.csv")
    assert (folder / "clean.csv").read_bytes() == (folder / "penguins.data.csv").read_bytes()
    assert restore_given_labels("clean.csv").tolist() == frame.species.tolist()


@pytest.mark.usefixtures("folder")
def test_names_can_be_said_to_be_data():
    make_news().to_csv("news.csv", index=False)
    assert len(uqled.load("news.csv", header="no", label="column 1", inputs="column 2")) == 121
    with pytest.raises(uqled.InputError, match="header is 'maybe'"):
        uqled.load("news.csv", header="maybe")


def test_a_few_foreign_bytes_in_utf_8(folder):
    texts = [f"café und Straße número {z}" for z in range(40)]
    rows = [f"{text},{['good', 'bad'][z % 2]}".encode() for z, text in enumerate(texts)]
    rows[6] = b"caf\xe9 \x80 n\xfamero,good"
    content = b"text,label\n" + b"\n".join(rows) + b"\n"
    (folder / "t.csv").write_bytes(content)
    data = uqled.load("t.csv")
    assert (data.inputs[0], data.inputs[6]) == (texts[0], "café € número")
    assert data.notes[0][0] == "the file is UTF-8 but for bytes in line 8, which are read as cp1252"
    probs = 0.1 + 0.8 * np.eye(2)[data.labels.codes]
    uqled.make_run(None, probs, out="run", data="t.csv")
    invoke("export", "run", "--to", "csv", "--out", "clean.csv")
    assert (folder / "clean.csv").read_bytes() == content
    whole = "text,label\n" + "\n".join(f"{text},good" for text in texts)
    (folder / "w.csv").write_bytes(whole.encode("cp1252"))
    assert detect_dialect("w.csv").encoding == "cp1252"


def test_an_empty_class_folder_is_named(folder):
    for name in ("cat", "dog"):
        for z in range(3):
            (folder / "pets" / name).mkdir(parents=True, exist_ok=True)
            photo(z).save(folder / "pets" / name / f"{z}.png")
            (folder / "notes" / name).mkdir(parents=True, exist_ok=True)
            (folder / "notes" / name / f"{z}.txt").write_text(f"{name} {z}")
    for kind, what in (("pets", "images"), ("notes", "texts")):
        (folder / kind / "bird").mkdir()
        data = uqled.load(folder / kind, cache=False)
        assert data.labels.names == ("cat", "dog")
        assert data.notes[0][0] == f"1 folder without {what} left out: bird"


@pytest.mark.usefixtures("folder")
def test_predictions_of_rows_without_a_label():
    frame = make_news()
    classes = sorted(set(frame.label))
    codes = frame.label.map(classes.index).to_numpy()
    probs = np.full((120, 3), 0.05) + 0.85 * np.eye(3)[codes]
    missing = [2, 50, 119]
    truth = frame.label[missing].tolist()
    frame.loc[missing, "label"] = None
    frame.to_csv("news.csv", index=False)
    np.save("probs.npy", probs)
    frame[["label"]].to_csv("labels.csv", index=False)
    words = ["detect", "--pred-probs", "probs.npy"]
    for number, source in enumerate(
        [
            ["--labels", "labels.csv", "--data", "news.csv"],
            ["--data", "news.csv", "--sep", ",", "--encoding", "utf-8"],
            ["--labels", "labels.csv", "--run"],
        ]
    ):
        output = invoke(*words, *source, "--out", f"run{number}")
        assert "of 117 labels flagged" in output
        assert f"predicted in run{number}/unlabelled.csv" in output
        table = pd.read_csv(f"run{number}/unlabelled.csv")
        assert table["id"].tolist() == missing
        assert table["predicted_label"].tolist() == truth
        assert len(Run.open(f"run{number}").predictions()) == 117
    invoke("export", "run0", "--to", "csv", "--out", "clean.csv")
    assert Path("clean.csv").read_bytes() == Path("news.csv").read_bytes()
    frame.loc[2, "label"] = "sport"
    with pytest.raises(uqled.InputError, match="labels have 'sport' in row 2, and the data no"):
        uqled.make_run(frame["label"], probs, out="run", data="news.csv")


@pytest.mark.usefixtures("folder")
def test_reading_options_go_with_data():
    np.save("probs.npy", np.full((4, 2), 0.5))
    np.save("labels.npy", np.array([0, 1, 0, 1]))
    words = ["detect", "--labels", "labels.npy", "--pred-probs", "probs.npy", "--sheet", "a"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "--sheet goes with --data only" in result.output) == (2, True)
