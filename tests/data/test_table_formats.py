"""Tables in every format, encoding and quoting come back as they were; errors name the line."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import zipfile

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import uqled
from made_tables import make_news, make_penguins
from uqled import FileError, InputError, load
from uqled.cli import app
from uqled.data.tables.text_dialect import detect_dialect

#: Encoding -> letters that it has; the first ones are detected, the rest must be said.
LETTERS = {
    "utf-8": "aZ\u00e9\u0416\u4e2d\U0001f600",
    "utf-8-sig": "aZ\u00e9\u0416",
    "utf-16": "aZ\u00e9\u4e2d",
    "cp1252": "aZ\u00e9\u00fc\u20ac",
    "latin-1": "aZ\u00e9\u00fc\u00a3",
    "cp1251": "aZ\u0416\u0434",
}
DETECTED_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16")


@st.composite
def text_tables(draw):
    encoding = draw(st.sampled_from(list(LETTERS)))
    letters = st.text(LETTERS[encoding] + " ,;|\t\"'\n", max_size=12)
    # A letter at both ends: spaces there are a matter of taste of whoever reads.
    cells = letters.map(lambda text: f"x{text}y")
    n = draw(st.integers(4, 12))
    texts = draw(st.lists(cells, min_size=n, max_size=n))
    labels = draw(st.lists(st.sampled_from(["cat", "dog, big", "NA"]), min_size=n, max_size=n))
    labels[:2] = ["cat", "NA"]
    return encoding, texts, labels


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text_tables(),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", ".gz", ".zst", ".bz2", ".xz", ".zip"]),
)
def test_csv_of_any_kind_comes_back(tmp_path_factory, table, separator, quoting, end, packing):
    encoding, texts, labels = table
    path = tmp_path_factory.mktemp("csv") / f"t.csv{packing}"
    frame = pd.DataFrame({"text": texts, "label": labels})
    data = frame.to_csv(sep=separator, index=False, quoting=quoting, lineterminator=end)
    content = data.encode(encoding)
    if packing == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("t.csv", content)
    else:
        pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": pack_zst}
        path.write_bytes(pack.get(packing, bytes)(content))
    options = {} if encoding in DETECTED_ENCODINGS else {"encoding": encoding}
    dataset = load(path, label="label", inputs="text", separator=separator, **options)
    assert dataset.inputs.tolist() == texts
    assert [dataset.labels.names[k] for k in dataset.labels.codes] == labels


FORMATS = (
    *("t.xlsx", "t.feather", "t.arrow", "t.parquet", "t.json", "t.jsonl", "t.json.gz"),
    *("t.jsonl.zst", "t.jsonl.bz2", "t.json.zip", "t.csv", "t.tsv", "saved"),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.data(),
    st.sampled_from(FORMATS),
)
def test_every_format_gives_back_what_was_written(tmp_path_factory, draw, name):
    n = draw.draw(st.integers(4, 10))
    # A letter at both ends, and nothing that XML cannot hold.
    cells = st.text("aZ\u00e9\u0416\u4e2d\U0001f600 ,;|\"'&<\n\t", max_size=12).map(
        lambda text: f"x{text}y"
    )
    numbers = st.one_of(st.none(), st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6, width=32))
    labels = draw.draw(st.lists(st.sampled_from(["cat", "NA", "1"]), min_size=n, max_size=n))
    labels[:2] = ["cat", "NA"]
    frame = pd.DataFrame(
        {
            "text": draw.draw(st.lists(cells, min_size=n, max_size=n)),
            "size": pd.Series(
                draw.draw(st.lists(numbers, min_size=n, max_size=n)), dtype=np.float64
            ),
            "label": labels,
        }
    )
    path = tmp_path_factory.mktemp("t") / name
    write_any(frame, path)
    dataset = load(path, label="label", inputs="text")
    assert dataset.inputs.tolist() == frame["text"].tolist()
    assert [dataset.labels.names[k] for k in dataset.labels.codes] == labels
    assert len(dataset.unlabelled) == 0
    if frame["size"].notna().any():
        table = load(path, label="label", inputs=["size"], columns={"size": "number"})
        np.testing.assert_array_equal(table.inputs["size"].astype(float), frame["size"])


def write_any(frame, path):
    """By the ending of a path, compressed or not."""
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pack_zst}.get(path.suffix)
    if path.suffix == ".zip":
        inner = path.with_suffix("")
        write_any(frame, inner)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(inner.name, inner.read_bytes())
    elif pack is not None:
        inner = path.with_suffix("")
        write_any(frame, inner)
        path.write_bytes(pack(inner.read_bytes()))
    elif path.suffix in (".json", ".jsonl"):
        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        text = "\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]"
        path.write_text(text, encoding="utf-8")
    else:
        WRITERS[path.name](frame, path)


def pack_zst(content):
    return pa.compress(content, "zstd", asbytes=True)


def write_excel(frame, path):
    write_sheets({"a": frame}, path)


def write_sheets(frames, path):
    """A spreadsheet as small as can be, by hand: nothing here writes them."""

    def cell(value):
        if isinstance(value, str):
            escaped = value.replace("&", "&amp;").replace("<", "&lt;")
            return f'<c t="inlineStr"><is><t>{escaped}</t></is></c>'
        return "<c/>" if value is None or value != value else f"<c><v>{value}</v></c>"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    }
    names = relations = ""
    for at, (name, frame) in enumerate(frames.items(), 1):
        rows = [frame.columns.tolist(), *frame.astype(object).to_numpy().tolist()]
        cells = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        files[f"xl/worksheets/sheet{at}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
        )
        names += f'<sheet name="{name}" sheetId="{at}" r:id="r{at}"/>'
        target = f"worksheets/sheet{at}.xml"
        relations += f'<Relationship Id="r{at}" Type="{office}/worksheet" Target="{target}"/>'
    files["xl/workbook.xml"] = (
        f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{names}</sheets></workbook>'
    )
    files["xl/_rels/workbook.xml.rels"] = (
        f'<Relationships xmlns="{package}/relationships">{relations}</Relationships>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_sheets_of_a_spreadsheet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    empty, news, penguins = pd.DataFrame(), make_news(), make_penguins()
    write_sheets({"cover": empty, "news": news, "birds": penguins}, tmp_path / "t.xlsx")
    data = load("t.xlsx")  # the first that is not empty, and that is said
    assert data.labels.names == ("money", "sport", "world")
    (note,) = uqled.inspect(data).findings
    assert str(note) == (
        "note: the sheet 'news' is read, not 'cover', 'birds'. Choose another one with "
        "--sheet NAME."
    )
    words = ["inspect", "t.xlsx", "--sheet", "birds", "--label", "species"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "120 rows, 3 classes" in result.stdout) == (0, True)
    assert "sheet" not in result.stdout
    result = CliRunner().invoke(app, ["inspect", "t.xlsx", "--sheet", "fish"])
    assert result.exit_code == 2
    assert "--sheet is 'fish', and file 't.xlsx' has 'cover', 'news', 'birds'" in result.output
    with pytest.raises(FileError, match="has nothing in the sheet 'cover'"):
        load("t.xlsx", sheet="cover")
    write_sheets({"cover": empty}, tmp_path / "e.xlsx")
    with pytest.raises(FileError, match="has no sheet with a table"):
        load("e.xlsx")
    news.to_csv("t.csv", index=False)
    with pytest.raises(InputError, match=r"sheet is 'news', but file 't.csv' is not a spreadsheet"):
        load("t.csv", sheet="news")
    probs = np.repeat(np.eye(3), 40, axis=0)
    run = uqled.make_run(None, probs, out="run", data="t.xlsx", sheet="birds", label="species")
    result = CliRunner().invoke(app, ["export", "run", "--to", "csv", "--out", "birds.csv"])
    assert result.exit_code == 0, result.output
    assert pd.read_csv("birds.csv")["species"].tolist() == penguins["species"].tolist()
    assert run.source["sheet"] == "birds"


def test_columns_of_one_name_in_a_spreadsheet(tmp_path):
    frame = make_penguins().iloc[:, :3].set_axis(["species", "size", "size"], axis=1)
    write_excel(frame, tmp_path / "t.xlsx")
    assert load(tmp_path / "t.xlsx", label="species").inputs.columns.tolist() == ["size", "size.1"]


WRITERS = {
    "t.csv": lambda f, p: f.to_csv(p, index=False),
    "t.tsv": lambda f, p: f.to_csv(p, index=False, sep="\t"),
    "t.jsonl": lambda f, p: f.to_json(p, orient="records", lines=True),
    "t.json": lambda f, p: f.to_json(p, orient="records"),
    "columns.json": lambda f, p: p.write_text(json.dumps(f.to_dict("list")).replace("NaN", "null")),
    "t.jsonl.gz": lambda f, p: f.to_json(p, orient="records", lines=True),
    "t.parquet": lambda f, p: f.to_parquet(p),
    "t.feather": lambda f, p: feather.write_feather(f, str(p)),
    "t.arrow": lambda f, p: feather.write_feather(f, str(p), compression="uncompressed"),
    "t.xlsx": write_excel,
    "saved": lambda f, p: datasets.Dataset.from_pandas(f).save_to_disk(str(p)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_reads_alike(tmp_path, name):
    for frame, label in ((make_penguins(), "species"), (make_news(), "label")):
        WRITERS[name](frame, tmp_path / name)
        data = load(tmp_path / name, label=label)
        assert [data.labels.names[k] for k in data.labels.codes] == frame[label].tolist()
        if label == "label":
            expected = (frame["title"] + "\n" + frame["description"]).tolist()
            assert data.inputs.tolist() == expected
        else:
            assert data.inputs.columns.tolist() == frame.columns[1:].tolist()
            result = data.inputs["bill_length_mm"].astype(float)
            np.testing.assert_array_equal(result, frame["bill_length_mm"])
        if (tmp_path / name).is_file():
            (tmp_path / name).unlink()
        else:
            for path in (tmp_path / name).iterdir():
                path.unlink()


def test_splits_of_save_to_disk(tmp_path):
    rows = datasets.Dataset.from_dict({"text": list("abcd"), "label": [0, 1, 0, 1]})
    datasets.DatasetDict({"train": rows, "test": rows.select([0, 1])}).save_to_disk(tmp_path / "d")
    assert len(load(tmp_path / "d")) == 4
    assert load(tmp_path / "d", split="test").inputs.tolist() == ["a", "b"]
    state = json.loads((tmp_path / "d/train/state.json").read_text())
    for change in (
        {"_indices_files": [{"filename": "x"}]},
        {"_data_files": [{"filename": "../x"}]},
    ):
        (tmp_path / "d/train/state.json").write_text(json.dumps(state | change))
        with pytest.raises(FileError, match=r"Save it again: dataset\.flatten_indices"):
            load(tmp_path / "d")


def test_folders_of_text_files(tmp_path):
    for name, text in (("pos/1.txt", b"gut"), ("neg/2.txt", "schön".encode("cp1252")),
                       ("neg/3.txt", "мир".encode("utf-16"))):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    data = load(tmp_path)
    assert (data.kind, data.labels.names) == ("texts", ("neg", "pos"))
    assert data.inputs.tolist() == ["schön", "мир", "gut"]
    assert data.ids.tolist() == ["neg/2.txt", "neg/3.txt", "pos/1.txt"]


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("text,label\ncaf\u00e9 cr\u00e8me,a\nna\u00efve,b\n" * 5, "latin-1", "cp1252"),
        ("text,label\n\u20ac 5,a\n\u201cquoted\u201d,b\n" * 5, "cp1252", "cp1252"),
        ("text,label\n" + "Съешь ещё этих мягких французских булок,a\n" * 20, "cp1251", "cp1251"),
        ("text,label\nmi\u0440,a\n", "utf-8", "utf-8-sig"),
    ],
)
def test_encodings_are_detected(tmp_path, text, encoding, expected):
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    dialect = detect_dialect(tmp_path / "t.csv")
    assert dialect.encoding == expected
    assert bool(dialect.foreign_lines) == (encoding != "utf-8")


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a;b;label\n1,5;2;x\n2,5;3;y\n", ";"),
        ("a|label\nx|1\ny|2\n", "|"),
        ('text,label\n"a; b; c",x\n"d; e",y\n', ","),
        ("label\tname\n1\tSmith, John\n", "\t"),
        ("text\nno separator at all; really\n", ","),
    ],
)
def test_separators_are_detected(tmp_path, text, separator):
    (tmp_path / "t.csv").write_text(text)
    assert detect_dialect(tmp_path / "t.csv").separator == separator


def test_what_the_user_says_is_checked(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\na b,x\nc d,y\n")
    with pytest.raises(InputError, match="encoding is 'utf-9'"):
        load(tmp_path / "t.csv", encoding="utf-9")
    with pytest.raises(InputError, match="encoding is 'base64'"):
        load(tmp_path / "t.csv", encoding="base64")
    with pytest.raises(InputError, match="sep is 'ab'"):
        load(tmp_path / "t.csv", separator="ab")


def test_line_numbers_are_the_files(tmp_path):
    (tmp_path / "t.csv").write_text('file,label\n"a\n.png",x\n\n,y\nb.png,x\n')
    with pytest.raises(InputError, match=r"missing in 1 rows \(line 5\)"):
        load(tmp_path / "t.csv", kind="images", inputs="file")
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": 1}\n\n{"text": \n')
    with pytest.raises(FileError, match="has invalid JSON in line 3"):
        load(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").write_text('{"file": "", "label": 1}\n\n{"file": "a.png", "label": 2}\n')
    with pytest.raises(InputError, match=r"\(line 1\)"):
        load(tmp_path / "t.jsonl", kind="images", inputs="file")
