"""Files that nobody prepared: no names of columns, a few foreign bytes, an empty class folder."""

from __future__ import annotations

import csv
import gzip
import zipfile
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import uqled
from made_tables import make_news, make_penguins
from pictures import photo
from uqled.cli import app
from uqled.data.tables.header import is_header
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
    assert is_header([line.split(",") for line in lines]) is expected


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
    table = "text,label\n" + "\n".join(f"{text},good" for text in texts)
    (folder / "w.csv").write_bytes(table.encode("cp1252"))
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
    assert (result.exit_code, "--sheet is for --data only" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "t.csv",
            gzip.compress(b"a,label\n1,x\n", mtime=0),
            r"is compressed \(gzip\). Call it t.csv.gz",
        ),
        ("t.csv", b"PK\x03\x04\0\0", "is a zip, as Excel files are. Give it its ending: .xlsx"),
        ("t.tsv", b"PAR1\0\0", "is a Parquet file. Give it its ending: .parquet"),
        ("t.csv", b"SQLite format 3\0", "is an SQLite database. Export the table as .csv"),
        ("t.csv", b"\xd0\xcf\x11\xe0\0", "is an old Excel file. Save it as .xlsx"),
        ("t.csv", b"\n<!DOCTYPE html><html>", "is a web page. Download the file itself"),
        ("t.csv", b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS. Fetch"),
        ("t.csv", b'[{"text": "a", "label": "x"}]', "is JSON. Give it its ending: .json"),
        ("t.csv", b"\xef\xbb\xbfsep=;\na;label\n1;x\n", "'sep=', a hint for Excel. Remove the fir"),
        ("t.csv", b"", "is empty. Name a table with samples"),
        ("t.csv", b"\n \n", "is empty. Name a table with samples"),
        ("t.csv", b'a,label\n1,x\n"2,y\n3 and 4\n', "in line 3 that is never closed. Close it"),
        ("t.csv", b'a,label\n"1' + b"2\n" * 200_000, "in line 2 that is never closed"),
        ("t.csv", b"birds of 2020\na,b,label\n1,2,x\n", "Remove line 1 if it stands above the col"),
        (
            "t.csv",
            b"birds\nof 2020\n\na,b,label\n1,2,x\n",
            "Remove lines 1 to 2 if they stand above",
        ),
        ("t.csv", b"a,label\n1,2,x\n", "Give every column a name"),
        ("t.csv", b"a b label\n1 2 x\n", "Say what separates its columns: separator=' '$"),
        ("t.txt", b"1 2 x\n" * 9, "Say what separates its columns: separator=' '$"),
        ("t.txt", b"a:b:label\n1:2:x\n", "Say what separates its columns: separator=':'$"),
        ("t.txt", b" a  b label\n10 20     x\n", "by commas in place of several spaces"),
        ("t.txt", b"1 1:0.5 2:3\n0 1:0.25 7:3\n", "load_svmlight_file"),
        ("t.csv", b"review\ngood and fine\nbad\n", "Add a column of labels to the samples"),
        ("t", b"a,label\n1,x\n", "file 't' has no ending that tells its format"),
        ("t.tar.gz", b"", r"file 't.tar.gz', which is read as CIFAR's .tar.gz, has no columns"),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,
)
def test_what_cannot_be_read_is_said_with_its_cause(folder, name, content, problem):
    (folder / name).write_bytes(content)
    with pytest.raises(uqled.UqledError, match=problem):
        uqled.load(name, label="label")


def test_columns_separated_by_spaces(folder):
    """The advice of the errors works."""
    (folder / "t.txt").write_text("a b label\n" + "1 2 x\n3 4 y\n" * 9)
    assert uqled.load("t.txt", separator=" ").labels.names == ("x", "y")
    (folder / "t.txt").write_text(" a  b label\n" + "10  2    x\n 3 40    y\n" * 9)
    with pytest.raises(uqled.FileError, match="has columns aligned by several spaces"):
        uqled.load("t.txt", separator=" ")
    pd.read_csv("t.txt", sep=r"\s+").to_csv("t.csv", index=False)
    assert uqled.load("t.csv").labels.names == ("x", "y")


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
def test_quotation_marks_that_quote_nothing(folder, separator):
    """As in the published file of text messages, in which rows would be lost."""
    frame = make_news()
    texts = frame.title.tolist()
    texts[10], texts[11], texts[40] = '"Hello there', 'He said "no"', '"so" he said'
    rows = [f"{label}{separator}{text}\n" for label, text in zip(frame.label, texts, strict=True)]
    content = "".join([f"label{separator}text\n", *rows])
    (folder / "messages.tsv").write_text(content)
    data = uqled.load("messages.tsv")
    assert data.inputs.tolist() == texts
    assert data.notes[0][0] == (
        "quotation marks are read as part of the texts: the one in line 12 is not closed there"
    )
    codes = data.labels.codes.copy()
    codes[[11, 40]] = (codes[[11, 40]] + 1) % 3
    probs = 0.1 + 0.7 * np.eye(3)[codes]
    uqled.make_run(None, probs, out="run", data="messages.tsv")
    ending = "tsv" if separator == "\t" else "csv"
    invoke("export", "run", "--to", "csv", "--out", f"same.{ending}")
    assert (folder / f"same.{ending}").read_text() == content
    invoke("detect", "run")
    words = ["export", "run", "--to", "csv", "--unreviewed", "relabel", "--out"]
    invoke(*words, f"new.{ending}")
    lines = (folder / f"new.{ending}").read_text().splitlines(keepends=True)
    changed_rows = [
        z for z, (new, old) in enumerate(zip(lines[1:], rows, strict=True)) if new != old
    ]
    assert changed_rows == [11, 40]
    assert all(lines[z + 1].endswith(separator + texts[z] + "\n") for z in changed_rows)


@pytest.mark.usefixtures("folder")
def test_quotation_marks_that_quote():
    frame = make_news()
    frame.loc[3, "title"] = 'two, "lines"\nof text'
    frame.loc[5, "title"] = '5" screen'
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC):
        frame.to_csv("n.csv", index=False, quoting=quoting)
        data = uqled.load("n.csv")
        assert data.notes == ()
        assert data.inputs[3].startswith('two, "lines"\nof text\n')
        assert data.inputs[5].startswith('5" screen\n')


def test_a_quoted_text_whose_lines_have_as_many_separators(folder):
    """Each line has one, as the header, so that the marks might quote nothing."""
    rows = [f"{'ab'[z % 2]},text number {z} of all\n" for z in range(30)]
    rows[7] = 'b,"the first line\nand, the second"\n'
    (folder / "t.csv").write_text("".join(["label,text\n", *rows]))
    data = uqled.load("t.csv", label="label")
    assert (len(data), data.notes) == (30, ())
    assert data.inputs[7] == "the first line\nand, the second"


def test_a_zip_of_one_table_and_of_several(folder):
    table = make_penguins().to_csv(index=False)
    for name, members in {"one": ["data/p.csv"], "two": ["train.csv", "test.csv"]}.items():
        with zipfile.ZipFile(f"{name}.zip", "w") as archive:
            archive.writestr("__MACOSX/data/._p.csv", "x")
            for member in members:
                archive.writestr(member, table)
    assert len(uqled.load("one.zip", label="species")) == 120
    with pytest.raises(
        uqled.FileError, match=r"two.zip' holds tables \(test.csv, train.csv\). Unp"
    ):
        uqled.load("two.zip", label="species")
    (folder / "tables").mkdir()
    (folder / "tables" / "a.csv").write_text(table)
    with pytest.raises(uqled.FileError, match=r"'tables' holds a table \(a.csv\). Name it"):
        uqled.load("tables", label="species")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("layout", ["records", "columns", "index", "split"])
def test_json_as_pandas_writes_it(layout):
    frame = make_news()
    frame.to_json("news.json", orient=layout)
    data = uqled.load("news.json")
    assert data.inputs.tolist() == (frame.title + "\n" + frame.description).tolist()
    assert [data.labels.names[k] for k in data.labels.codes] == frame.label.tolist()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["t.txt", "t.data", "t.tab", "T.TXT.gz"])
def test_tables_under_other_endings(name):
    frame = make_penguins()
    compression = "gzip" if name.endswith(".gz") else None
    frame.to_csv(name, sep="\t", index=False, compression=compression)
    data = uqled.load(name, label="species")
    assert data.inputs.columns.tolist() == frame.columns[1:].tolist()
    frame.to_parquet("t.pq")
    assert len(uqled.load("t.pq", label="species")) == 120


@pytest.mark.usefixtures("folder")
def test_the_split_that_is_read_is_said():
    frame = make_news()
    parts = {"test": frame[:40], "train": frame[40:]}
    splits = datasets.DatasetDict(
        {name: datasets.Dataset.from_pandas(part) for name, part in parts.items()}
    )
    splits.save_to_disk("saved")
    Path("hub").mkdir()
    for name, part in parts.items():
        part.to_parquet(f"hub/{name}-00000-of-00001.parquet")
    expected = ("the split 'train' is read, not 'test'", "Choose another one with --split NAME")
    for place in ("saved", "hub", splits):
        data = uqled.load(place)
        assert (len(data), data.notes) == (80, (expected,))
        data = uqled.load(place, split="test")
        assert (len(data), data.notes) == (40, ())


@pytest.mark.usefixtures("folder")
def test_a_label_that_was_not_named_is_said():
    make_penguins().rename(columns={"species": "Class"}).to_csv("p.csv", index=False)
    assert "label: Class (recognised by its name)\n" in invoke("inspect", "p.csv")
    make_news().rename(columns={"label": "topic"}).to_csv("n.csv", index=False)
    assert "label: topic (the only column of classes)\n" in invoke("inspect", "n.csv")
    assert "label: topic\n" in invoke("inspect", "n.csv", "--label", "topic")


def test_images_that_cannot_be_read_are_among_what_is_found(folder):
    for name in ("cat", "dog"):
        for z in range(5):
            path = folder / "pets" / name / f"{z}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            photo(z + 100 * (name == "dog")).save(path)
    (folder / "pets" / "cat" / "9.jpg").write_bytes(b"<html>not found</html>")
    output = invoke("inspect", "pets")
    assert "warning: 1 image cannot be read (sample cat/9.jpg). It is left out:" in output
    assert {one.check for one in uqled.inspect("pets").findings} == {"unreadable-images"}
    with pytest.raises(uqled.FileError, match="1 unreadable of 11 images"):
        uqled.load("pets")


def test_folders_called_like_sets(folder):
    for split, n in (("training_set", 4), ("test_set", 2)):
        for name in ("cats", "dogs"):
            for z in range(n):
                path = folder / "pets" / split / name / f"{z}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                photo(z).save(path)
    data = uqled.load("pets", cache=False)
    assert (len(data), data.labels.names) == (8, ("cats", "dogs"))
    assert data.notes[0][0] == "the split 'training_set' is read, not 'test_set'"
    assert len(uqled.load("pets", split="test", cache=False)) == 4
