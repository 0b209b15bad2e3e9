"""Tables as nobody prepared them: what is read is right, and what cannot be read says why."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from typer.testing import CliRunner

import uqled
from made_tables import WORDS, make_adult, make_mushrooms, make_news, make_penguins, make_sentence
from uqled import InputError, load
from uqled.cli import app
from uqled.data.tables.columns import describe_columns
from uqled.data.tables.number_texts import detect_number_format


def roles(data):
    return {column.name: column.role if column.is_used else f"no {column.role}"
            for column in data.columns}  # fmt: skip


def make_iris():
    iris = load_iris(as_frame=True)
    frame = iris.frame.drop(columns="target").assign(Species=iris.target_names[iris.target])
    return frame.assign(Id=np.arange(1, 151))


def make_wine():
    return load_wine(as_frame=True).frame.rename(columns={"target": "quality"})


def make_questions(n=150):
    """`text,category`, as sets of intents have them."""
    rng = np.random.default_rng(0)
    labels = rng.choice(list(WORDS), n)
    return pd.DataFrame(
        {"text": [make_sentence(rng, topic, 8) for topic in labels], "category": labels}
    )


#: Name -> (table, label or None where it is recognised, roles of the other columns, to_csv).
KNOWN_TABLES = {
    "iris": (make_iris(), None, {"Id": "no id", "petal length (cm)": "number"}, {}),
    "wine": (make_wine(), "quality", {"alcohol": "number", "proline": "number"}, {"sep": ";"}),
    "mushrooms": (make_mushrooms(), None, {"odour": "category", "ring": "category"}, {}),
    "questions": (make_questions(), None, {"text": "text"}, {}),
    "reviews": (
        make_news().assign(
            review=lambda f: f.title + "<br />" + f.description,
            sentiment=lambda f: np.where(f.label == "sport", "positive", "negative"),
        )[["review", "sentiment"]],
        None,
        {"review": "text"},
        {"quoting": 1},
    ),
}  # news, spam, penguins and titanic are in test_columns.py


@pytest.mark.parametrize("name", KNOWN_TABLES)
def test_known_sets_are_read_as_what_they_are(tmp_path, name):
    frame, label, expected, options = KNOWN_TABLES[name]
    frame.to_csv(tmp_path / "t.csv", index=False, **options)
    data = load(tmp_path / "t.csv", label=label)
    result = roles(data)
    assert {column: result[column] for column in expected} == expected
    assert len(data) == len(frame)
    names = [data.labels.names[k] for k in data.labels.codes]
    assert names == frame[data.source["label"]].astype(str).tolist()


def test_a_space_behind_each_comma(tmp_path):
    frame = make_adult()
    rows = [frame.columns.tolist(), *frame.to_numpy().tolist()]
    content = "".join(", ".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "adult.csv").write_text(content)
    data = load(tmp_path / "adult.csv", label="income")
    assert data.labels.names == ("<=50K", ">50K")
    assert set(data.inputs["workclass"]) == {"Private", "Self-emp-inc", "?"}
    assert data.inputs["age"].tolist() == frame["age"].tolist()
    codes = data.labels.codes.copy()
    codes[7] = 1 - codes[7]
    probs = 0.1 + 0.8 * np.eye(2)[codes]
    uqled.make_run(None, probs, out=tmp_path / "run", data=tmp_path / "adult.csv", label="income")
    words = ["export", str(tmp_path / "run"), "--to", "csv", "--out", str(tmp_path / "o.csv")]
    result = CliRunner().invoke(app, [*words, "--unreviewed", "relabel"])
    assert result.exit_code == 0, result.output
    before, after = content.split("\n"), (tmp_path / "o.csv").read_text().split("\n")
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [8]


@pytest.mark.parametrize(
    ("texts", "thousands", "decimal", "unit"),
    [
        (["1,234", "12", "1,234,567.5"], ",", ".", ""),
        (["1.234,5", "7,25", "12"], ".", ",", ""),
        (["0,123", "1,5", "22"], "", ",", ""),
        (["$5", "$ 1,200.00", "-$3"], ",", ".", "$"),
        (["12 kg", "3.5 kg"], "", ".", "kg"),
        (["12%", "3.5 %"], "", ".", "%"),
        (["1e-3", "5"], "", ".", ""),
    ],
)
def test_numbers_as_people_write_them(texts, thousands, decimal, unit):
    form = detect_number_format(texts)
    assert (form.thousands, form.decimal, form.unit) == (thousands, decimal, unit)
    plain_texts = [t.replace(thousands, "") if thousands else t for t in texts]
    plain_texts = [t.replace(decimal, ".").replace(unit, "").replace(" ", "") for t in plain_texts]
    assert [form.parse(text) for text in texts] == [float(text) for text in plain_texts]


@pytest.mark.parametrize(
    "texts",
    [
        ["P001", "P002"],
        ["1.2.3", "1.2.4"],
        ["12:30", "13:00"],
        ["10.0.0.1", "10.0.0.2"],
        ["5 kg", "3 m"],
        ["a", "b"],
        [],
    ],
)
def test_what_is_no_number(texts):
    assert detect_number_format(texts) is None


def test_numbers_and_dates_of_many_forms(tmp_path):
    rng, frame = np.random.default_rng(0), make_penguins()
    days = pd.DatetimeIndex(rng.permutation(pd.date_range("2020-01-01", periods=120, freq="37h")))
    frame = frame.assign(
        salary=[f"{x:,.2f}" for x in rng.normal(50_000, 9_000, 120)],
        share=[f"{x:.1f}%" for x in rng.normal(50, 9, 120)],
        mark=[str(x) if x % 9 else "unknown" for x in rng.permutation(120)],
        code=rng.choice(["12", "abc", "3.5", "x9"], 120),
        long=days.strftime("%d %B %Y"),
        us=days.strftime("%m/%d/%Y"),
        mixed=[day.strftime(rng.choice(["%Y-%m-%d", "%d.%m.%Y", "%b %d, %Y"])) for day in days],
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv", label="species")
    expected = {"salary": "number", "share": "number", "mark": "number", "code": "category",
                "long": "date", "us": "date", "mixed": "date"}  # fmt: skip
    assert {name: roles(data)[name] for name in expected} == expected
    assert data.inputs["salary"].iloc[0] == float(frame["salary"][0].replace(",", ""))
    assert data.inputs["mark"].isna().sum() == 14
    for name in ("long", "us", "mixed"):
        assert data.inputs[f"{name} month"].tolist() == days.month.tolist()
        assert data.inputs[f"{name} weekday"].tolist() == days.day_of_week.tolist()
    used_columns = describe_columns(data.columns)[1]
    assert "salary (with thousands separators)" in used_columns
    assert "mark ('unknown' read as missing)" in used_columns
    assert "us (as month, weekday)" in used_columns


@pytest.mark.parametrize("values", [[0.0, 1.0, 2.0], [True, False, True], ["0", "1", "2"]])
def test_labels_of_other_types(tmp_path, values):
    kinds = dict(zip(["Adelie", "Chinstrap", "Gentoo"], values, strict=True))
    frame = make_penguins().assign(label=lambda f: f.species.map(kinds)).drop(columns="species")
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv")
    assert data.n_classes == len(set(values))
    assert len(data) == 120


def test_awkward_columns(tmp_path):
    frame = make_penguins()
    frame_with_doubles = frame.set_axis(["species", "x", "size", "size", "x"], axis=1)
    frame_with_doubles.to_csv(tmp_path / "t.csv", index=False)
    assert load(tmp_path / "t.csv", label="species").inputs.columns.tolist() == [
        "x", "size", "size.1", "x.1",
    ]  # fmt: skip
    (tmp_path / "t.csv").write_text(frame.to_csv(index=False).replace("\n", ",,\n"))
    data = load(tmp_path / "t.csv", label="species")
    assert data.inputs.columns.tolist() == frame.columns[1:].tolist()
    frame.to_csv(tmp_path / "t.csv")  # with row numbers in front
    assert "row numbers" in str(
        describe_columns(load(tmp_path / "t.csv", label=" Species").columns)
    )
    news = make_news()
    news.loc[7, "description"] = "word " * 200_000
    news.to_csv(tmp_path / "t.csv", index=False)
    assert len(load(tmp_path / "t.csv").texts[7]) > 10**6


@pytest.mark.parametrize(
    ("write", "label", "message"),
    [
        (
            lambda f: f.to_csv(index=False, header=False),
            None,
            "has the columns column 1, .* such as label='column 1'",
        ),
        (
            lambda f: "Report,,,,\n\n" + f.to_csv(index=False),
            "species",
            "remove the lines above them",
        ),
        (
            lambda f: f.rename(columns={"species": ""}).to_csv(index=False),
            None,
            "such as label='Unnamed: 0' or 'island' or 'sex'",
        ),
        (
            lambda f: f.assign(price=np.arange(120) / 7).to_csv(index=False),
            "price",
            r"holds numbers such as 0.142857. Classes are .* this looks like a regression",
        ),
    ],
)
def test_what_cannot_be_read_says_what_to_do(tmp_path, write, label, message):
    (tmp_path / "t.csv").write_text(write(make_penguins()))
    with pytest.raises(InputError, match=message):
        load(tmp_path / "t.csv", label=label)


def test_a_guessed_encoding_is_said(tmp_path):
    frame = make_news()
    frame.loc[3, "title"] = "caf\u00e9 \u20ac"
    (tmp_path / "t.csv").write_bytes(frame.to_csv(index=False).encode("cp1252"))
    (note,) = uqled.inspect(tmp_path / "t.csv").findings
    assert note.message == ("line 5 is not UTF-8, so the file is read as cp1252, which is a guess")
    assert "--encoding" in note.advice
    assert uqled.inspect(tmp_path / "t.csv", encoding="cp1252").findings == ()


@pytest.mark.parametrize("name", ["patient", "subject_id", "code"])
def test_columns_that_look_like_groups(tmp_path, name):
    groups = [f"P{i // 4:03d}" for i in np.random.default_rng(0).permutation(120)]
    make_penguins().assign(**{name: groups}).to_csv(tmp_path / "t.csv", index=False)
    findings = {
        one.check: one for one in uqled.inspect(tmp_path / "t.csv", label="species").findings
    }
    assert f"--group {name}" in findings["groups"].advice
