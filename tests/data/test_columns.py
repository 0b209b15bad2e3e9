"""Columns are understood from their values: the right ones are used, as what they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from made_tables import make_news, make_penguins, make_spam, make_titanic
from uqled import FileError, InputError, load
from uqled.data.tables.columns import describe_columns
from uqled.predict.crossval import cross_validate


def roles(data):
    return {c.name: c.role if c.is_used else f"no {c.role}" for c in data.columns}


def save(tmp_path, frame, name="t.csv", **options):
    frame.to_csv(tmp_path / name, index=False, **options)
    return tmp_path / name


def accuracy(tmp_path, data, name="run"):
    model = ExtraTreesClassifier(60, random_state=0)
    return cross_validate(data, model, folds=3, passes=1, uncertainty="none",
                          out=tmp_path / name, progress=False).accuracy  # fmt: skip


def test_titles_and_descriptions_are_texts(tmp_path):
    data = load(save(tmp_path, make_news()))
    assert roles(data) == {"label": "no label", "title": "text", "description": "text"}
    assert data.kind == "texts"
    assert data.inputs[0] == "\n".join(make_news().loc[0, ["title", "description"]])
    assert describe_columns(data.columns) == ["label: label", "used: texts title, description"]


def test_spam_in_latin_1_with_nearly_empty_columns(tmp_path):
    path = save(tmp_path, make_spam(), encoding="latin-1")
    data = load(path, label="v1")
    assert (data.kind, data.labels.names) == ("texts", ("ham", "spam"))
    assert data.inputs[0].endswith("\u00a35")
    assert {role for name, role in roles(data).items() if "Unnamed" in name} == {"no constant"}
    lines = describe_columns(data.columns)
    assert lines[2].startswith("left out: Unnamed: 2 (empty in 98% of the rows)")


def test_penguins_and_titanic(tmp_path):
    data = load(save(tmp_path, make_penguins()), label="species")
    assert roles(data) == {
        "species": "no label",
        "island": "category",
        "bill_length_mm": "number",
        "flipper_length_mm": "number",
        "sex": "category",
    }
    data = load(save(tmp_path, make_titanic()), label="survived")
    assert roles(data) == {
        "survived": "no label",
        "PassengerId": "no id",
        "pclass": "number",
        "name": "text",
        "sex": "category",
        "age": "number",
        "ticket": "no id",
        "alive": "category",
    }
    assert data.text_columns == ["name"]
    assert data.features.columns.tolist() == ["pclass", "sex", "age", "alive"]
    assert data.texts[0] == make_titanic().loc[0, "name"]


def test_dates_become_what_comes_again(tmp_path):
    frame = make_penguins()
    days = pd.date_range("2020-01-01", periods=len(frame), freq="3D")
    frame["day"] = np.random.default_rng(0).permutation(days.strftime("%d/%m/%Y"))
    data = load(save(tmp_path, frame), label="species")
    assert roles(data)["day"] == "date"
    expected = pd.to_datetime(frame["day"], format="%d/%m/%Y")
    assert data.inputs["day month"].tolist() == expected.dt.month.tolist()
    assert data.inputs["day weekday"].tolist() == expected.dt.day_of_week.tolist()
    assert "day hour" not in data.inputs


def test_numbers_with_commas_and_marks_for_missing_ones(tmp_path):
    frame = pd.DataFrame(
        {
            "label": ["a", "b"] * 20,
            "width": [f"{i / 4:.2f}".replace(".", ",") for i in range(39, -1, -1)],
            "hours": [str(i * 7 % 11) if i % 5 else "?" for i in range(40)],
        }
    )
    data = load(save(tmp_path, frame, sep=";"))
    assert roles(data) == {"label": "no label", "width": "number", "hours": "number"}
    assert data.inputs["width"].tolist() == [i / 4 for i in range(39, -1, -1)]
    assert data.inputs["hours"].isna().sum() == 8
    assert {c.name: c.reason for c in data.columns}["hours"] == "'?' read as missing"


def test_the_user_knows_better(tmp_path):
    path = save(tmp_path, make_titanic())
    data = load(path, label="survived", columns={"name": "ignore", "pclass": "category"})
    assert roles(data)["name"] == "no ignore"
    assert set(data.inputs["pclass"]) == {"1", "2", "3"}
    data = load(path, label="survived", columns={"PassengerId": "number", "alive": "ignore"})
    assert data.inputs.columns.tolist()[0] == "PassengerId"
    texts = load(path, label="survived", kind="texts")
    assert texts.inputs[0] == make_titanic().loc[0, "name"]
    with pytest.raises(InputError, match=r"columns name 'nme', but .* has the columns PassengerId"):
        load(path, label="survived", columns={"nme": "text"})
    with pytest.raises(InputError, match=r"give 'name' the role 'prose'. Choose one of"):
        load(path, label="survived", columns={"name": "prose"})


def test_the_label_is_found_by_its_name(tmp_path):
    frame = make_penguins().rename(columns={"species": "Target"})
    data = load(save(tmp_path, frame))
    assert data.source["label"] == "Target"
    assert data.columns[0].reason == "recognised by its name"
    with pytest.raises(InputError, match=r"label is missing, but .* has the columns"):
        load(save(tmp_path, frame.assign(**{"class": 1})))


def test_groups_come_from_their_column(tmp_path):
    frame = make_penguins().assign(nest=[f"n{i // 4}" for i in range(120)])
    data = load(save(tmp_path, frame), label="species", group="nest")
    assert data.groups[:5].tolist() == ["n0"] * 4 + ["n1"]
    assert "nest" not in data.inputs
    assert data.subset([0, 4]).groups.tolist() == ["n0", "n1"]
    with pytest.raises(InputError, match="group is 'nets'"):
        load(tmp_path / "t.csv", label="species", group="nets")


def test_texts_beside_features_are_one_models_input(tmp_path):
    frame = make_news().assign(size=lambda f: np.arange(len(f)) % 7, source=["a", "b"] * 60)
    data = load(save(tmp_path, frame))
    assert (data.kind, data.text_columns) == ("table", ["title", "description"])
    assert data.features.columns.tolist() == ["size", "source"]
    assert accuracy(tmp_path, data) > 0.9
    for model in ("boosting", "logistic"):
        run, again = (
            cross_validate(data, model, folds=3, passes=1, uncertainty="none",
                           out=tmp_path / f"{model}{at}", progress=False)
            for at in range(2)
        )  # fmt: skip
        assert run.accuracy > 0.9
        assert np.array_equal(run.pred_probs, again.pred_probs)


def test_binary_files_are_no_tables(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"label,x\n1,\0\n")
    with pytest.raises(FileError, match="holds zero bytes"):
        load(tmp_path / "a.csv")
