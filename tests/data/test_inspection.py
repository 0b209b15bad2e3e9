"""The pre-check: plain faults are found before any model is asked, and sound data has none."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import uqled
from made_tables import make_news, make_penguins, make_spam, make_titanic
from uqled import Dataset, find_label_errors, load
from uqled.answer import describe_answer, is_at_chance
from uqled.arrays import Labels
from uqled.cli import app
from uqled.data.inspection.prediction_checks import check_predictions
from uqled.predict.crossval import split_stratified


def checks(data, **options):
    return {finding.check: finding for finding in uqled.inspect(data, **options).findings}


def test_sound_data_has_no_findings(tmp_path):
    for name, frame, label in (
        ("news", make_news(), "label"),
        ("penguins", make_penguins(), "species"),
        ("titanic", make_titanic().drop(columns="alive"), "survived"),
    ):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        assert checks(tmp_path / f"{name}.csv", label=label) == {}, name


def test_duplicates_with_different_labels_head_the_list(tmp_path):
    frame = make_spam()
    again = frame.iloc[[3, 7]].assign(v1=lambda f: np.where(f.v1 == "ham", "spam", "ham"))
    close = frame.iloc[[11]].assign(
        v1=lambda f: np.where(f.v1 == "ham", "spam", "ham"), v2=lambda f: f.v2.str.upper() + "  !"
    )
    same = frame.iloc[[20]]  # with the same label: no fault
    pd.concat([frame, again, close, same]).to_csv(tmp_path / "s.csv", index=False)
    first, second = uqled.inspect(tmp_path / "s.csv", label="v1").findings[:2]
    assert (first.check, first.severity) == ("duplicates", "error")
    assert first.ids == ("3", "7", "120", "121")
    assert (second.check, second.ids) == ("near-duplicates", ("11", "122"))


def test_rows_that_repeat_because_columns_do_not_decide():
    rows = pd.DataFrame({"size": [1, 2, 3] * 20, "shape": ["a", "b"] * 30})
    result = checks(Dataset.from_arrays(rows, ["x", "y", "z", "x"] * 15))["duplicates"]
    assert result.severity == "warning"
    assert "100% of all rows occur more than once" in result.message


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Adelie", "adelie", "Gentoo"], "'Adelie' and 'adelie'"),
        (["new york", "new_york", "paris"], "'new york' and 'new_york'"),
        (["caf\u00e9", "cafe\u0301", "bar"], "'cafe\u0301' and 'caf\u00e9'"),
        (["Chinstrap", "Chinstap", "Gentoo"], "'Chinstap' and 'Chinstrap'"),
    ],
)
def test_variants_of_one_name(names, expected):
    labels = [names[0]] * 30 + [names[1]] * 2 + [names[2]] * 30
    inputs = np.random.default_rng(0).normal(size=(62, 3))
    result = checks(Dataset.from_arrays(inputs, labels))
    assert expected in result["class-names"].message
    assert result["class-names"].severity == "error"
    large = [names[0]] * 30 + ["class 1"] * 2 + ["class 2"] * 30  # no slip of the pen
    assert "class-names" not in checks(Dataset.from_arrays(inputs, large))


def test_rare_classes_missing_labels_and_numbers(tmp_path):
    frame = make_penguins()
    frame.loc[0, "species"], frame.loc[[5, 6], "species"] = "Emperor", None
    frame.to_csv(tmp_path / "p.csv", index=False)
    result = checks(tmp_path / "p.csv", label="species")
    assert "'Emperor' (1)" in result["rare-classes"].message
    assert result["missing-labels"].ids == ("5", "6")
    data = load(tmp_path / "p.csv", label="species").without_rare_classes(4)
    assert data.labels.names == ("Adelie", "Chinstrap", "Gentoo")
    assert (len(data), data.ids[0], data.source["label"]) == (117, "1", "species")
    prices = Dataset.from_arrays(np.zeros((60, 1)), np.arange(60) * 3)
    assert "looks like a regression" in checks(prices)["numeric-target"].advice


def test_a_column_that_gives_the_label_away(tmp_path):
    make_titanic().to_csv(tmp_path / "t.csv", index=False)
    result = checks(tmp_path / "t.csv", label="survived")
    assert result["leak"].message == "the column predicts the label alone: 'alive'"
    assert "--columns alive=ignore" in result["leak"].advice
    assert "leak" not in checks(tmp_path / "t.csv", label="survived", columns={"alive": "ignore"})


@pytest.mark.parametrize(("n_wrong", "expected"), [(15, True), (60, False)])
def test_a_column_that_gives_the_label_away_but_for_wrong_labels(tmp_path, n_wrong, expected):
    frame = make_titanic(300)
    frame.loc[: n_wrong - 1, "survived"] ^= 1
    frame.to_csv(tmp_path / "t.csv", index=False)
    findings = uqled.inspect(tmp_path / "t.csv", label="survived").findings
    leaks = [one for one in findings if one.check == "leak"]
    assert bool(leaks) == expected
    if expected:
        assert leaks[0].message == (
            "column 'alive' has one value per class, which agrees with 95% of the labels"
        )
        assert leaks[0].advice.endswith("--columns alive=ignore")


def test_a_column_of_groups(tmp_path):
    frame = make_penguins().assign(nest_id=np.random.default_rng(0).permutation(120) // 4)
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "'nest_id'" in checks(tmp_path / "t.csv", label="species")["groups"].message
    data = load(tmp_path / "t.csv", label="species", group="nest_id")
    assert "groups" not in checks(data)
    parts = split_stratified(data.labels, 4, seed=0, groups=data.groups)
    sets = [set(data.groups[part]) for part in parts]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 30
    with pytest.raises(uqled.InputError, match="folds is 31, but there are 30 groups"):
        split_stratified(data.labels, 31, seed=0, groups=data.groups)


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(8):
            small = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
            picture = Image.fromarray(small).resize((48, 48), Image.Resampling.BILINEAR)
            picture.save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def test_images(photos):
    assert checks(photos, cache=False) == {}
    with Image.open(photos / "cat" / "1.png") as picture:
        picture.save(photos / "dog" / "copy.png")
    with Image.open(photos / "cat" / "2.png") as picture:
        picture.save(photos / "dog" / "again.jpg", quality=80)
    Image.new("RGB", (48, 48)).save(photos / "dog" / "black.png")
    with Image.open(photos / "dog" / "3.png") as picture:
        picture.save(photos / "dog" / "3.jpg", format="PNG")
    (photos / "dog" / "cut.png").write_bytes((photos / "dog" / "4.png").read_bytes()[:200])
    (photos / "dog" / "empty.png").write_bytes(b"")
    result = checks(photos, cache=False, skip_unreadable=True)
    assert result["duplicates"].ids == ("cat/1.png", "dog/copy.png")
    assert result["near-duplicates"].ids == ("cat/2.png", "dog/again.jpg")
    assert result["plain-images"].ids == ("dog/black.png",)
    assert result["wrong-endings"].ids == ("dog/3.jpg",)
    assert set(result["unreadable-images"].ids) == {"dog/cut.png", "dog/empty.png"}


def test_folders_of_splits_and_nested_folders(photos):
    (photos / "cat").rename(photos / "train")
    assert checks(photos, cache=False)["split-folders"].severity == "error"
    for name in ("train", "dog"):
        for i, path in enumerate(sorted((photos / name).glob("*.png"))):
            inner = photos / name / ("red", "blue")[i % 2]
            inner.mkdir(exist_ok=True)
            path.rename(inner / path.name)
    (photos / "train").rename(photos / "cat")
    assert "nested-folders" in checks(photos, cache=False)


def test_a_model_at_chance_gives_no_number():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    probs = rng.dirichlet(np.ones(3), 600)
    errors = find_label_errors(labels, probs)
    assert errors.answer.is_at_chance
    assert errors.answer.n_errors is None
    assert "the number of wrong labels cannot be estimated" in describe_answer(errors.answer)
    assert "labels are wrong (" not in describe_answer(errors.answer)
    probs = probs * 0.5 + 0.5 * np.eye(3)[labels]
    assert not find_label_errors(labels, probs).answer.is_at_chance
    many_flags = find_label_errors(labels, probs, budget=600).answer  # however many it flags
    assert not many_flags.is_at_chance
    assert many_flags.n_errors == find_label_errors(labels, probs).answer.n_errors
    skewed_labels = (np.arange(600) < 60).astype(int)
    assert is_at_chance(skewed_labels, np.zeros(600, int), 2)
    assert not is_at_chance(skewed_labels, np.where(np.arange(600) < 80, 1, 0), 2)


def test_predictions_at_chance_perfect_and_of_twins():
    codes = np.arange(200) % 4
    labels = Labels(codes, np.arange(4), ("a", "b", "c", "d"))
    assert [f.check for f in check_predictions(labels, codes)] == ["perfect"]
    rng = np.random.default_rng(0)
    mixed_predictions = np.where(codes < 2, rng.integers(2, size=200), codes)
    (twins,) = check_predictions(labels, mixed_predictions)
    assert twins.check == "twin-classes"
    assert "'a' and 'b'" in twins.message
    assert check_predictions(labels, rng.integers(4, size=200))[0].check == "chance"


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_titanic().to_csv("t.csv", index=False)
    result = CliRunner().invoke(app, ["inspect", "t.csv", "--label", "survived"])
    assert result.exit_code == 0
    assert "used: numbers pclass, age; texts name; categories sex, alive" in result.stdout
    assert "the column predicts the label alone: 'alive'" in result.stdout
    result = CliRunner().invoke(app, ["inspect", "t.csv", "--label", "survived", "--json"])
    assert json.loads(result.stdout)["result"]["findings"][0]["check"] == "leak"


def test_the_report_says_what_was_understood(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_titanic().to_csv("t.csv", index=False)
    words = ["predict", "t.csv", "--label", "survived", "--model", "logistic", "--folds", "2"]
    result = CliRunner().invoke(app, [*words, "--uncertainty", "none", "--out", "run"])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, ["report", "run"]).exit_code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "numbers pclass, age; texts name; categories sex, alive" in page
    assert "The column predicts the label alone" in page
    for content in ("[]", '{"findings": 1}', '{"findings": [{"message": 1}]}', "{"):
        (tmp_path / "run" / "inspection.json").write_text(content)
        result = CliRunner().invoke(app, ["report", "run"])
        assert (result.exit_code, "inspection.json" in result.output) == (2, True)


def test_rows_that_are_nearly_the_same(tmp_path):
    rng = np.random.default_rng(0)
    frame = make_penguins().assign(
        mass=rng.normal(4000, 300, 120).round(2),
        wing=rng.normal(20, 3, 120).round(3),
        tail=rng.normal(8, 1, 120).round(3),
        day=rng.permutation(pd.date_range("2020-01-01", periods=120)).astype(str),
        code=rng.permutation(120) * 7919 % 9973,
    )
    copies = frame.iloc[[3, 50, 70]].assign(
        species=["Gentoo", "Adelie", "Gentoo"], code=[5, 6, 7], day="2021-03-04"
    )
    copies.loc[3, "mass"] = round(copies.loc[3, "mass"])  # rounded
    pd.concat([frame, copies]).to_csv(tmp_path / "p.csv", index=False)
    near_check = checks(tmp_path / "p.csv", label="species", columns={"code": "ignore"})[
        "near-duplicates"
    ]
    assert near_check.ids == ("3", "50", "70", "120", "121", "122")
    assert near_check.severity == "warning"
    copies["day"] = frame.loc[[3, 50, 70], "day"]  # but for a number that is an id by no name
    pd.concat([frame, copies]).to_csv(tmp_path / "p.csv", index=False)
    near_check = checks(tmp_path / "p.csv", label="species", columns={"code": "number"})
    assert near_check["near-duplicates"].ids == ("3", "50", "70", "120", "121", "122")
    frame.to_csv(tmp_path / "p.csv", index=False)
    assert checks(tmp_path / "p.csv", label="species") == {}


def test_the_same_text_beside_other_columns(tmp_path):
    frame = make_news().assign(size=np.arange(120) % 7)
    copy = frame.iloc[[4]].assign(label="sport" if frame.label[4] != "sport" else "money", size=9)
    pd.concat([frame, copy]).to_csv(tmp_path / "n.csv", index=False)
    assert checks(tmp_path / "n.csv")["near-duplicates"].ids == ("4", "120")


def save_picture(path, seed, size=(48, 48)):
    path.parent.mkdir(parents=True, exist_ok=True)
    small = np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(small).resize(size, Image.Resampling.BILINEAR).save(path)


def test_tiny_images_are_named(photos):
    save_picture(photos / "cat" / "dot.png", 99, (3, 3))
    tiny = checks(photos, cache=False)["tiny-images"]
    assert (tiny.message, tiny.ids) == ("1 image is smaller than 8 pixels", ("cat/dot.png",))
    images = np.random.default_rng(0).integers(0, 255, (20, 4, 4, 3), dtype=np.uint8)
    small = checks(Dataset.from_arrays(images, ["a", "b"] * 10))["tiny-images"]
    assert small.message == "all images are smaller than 8 pixels"


def test_splits_of_a_folder_are_said(tmp_path):
    for i, split in enumerate(("train", "val")):
        for j, name in enumerate(("cat", "dog")):
            for k in range(4):
                save_picture(tmp_path / split / name / f"{k}.png", 100 * i + 10 * j + k)
    (note,) = uqled.inspect(tmp_path, cache=False).findings
    assert note.message == "the split 'train' is read, not 'val'"
    assert "--split" in note.advice
    assert uqled.inspect(tmp_path, cache=False, split="val").findings == ()


def test_a_folder_around_the_classes_is_said(photos):
    with pytest.raises(
        uqled.FileError, match=r"has one folder, 'photos', with the folders cat, dog"
    ):
        load(photos.parent, cache=False)


def test_many_copies_straddle_folds(tmp_path):
    frame = make_news()
    pd.concat([frame, frame.iloc[:10]]).assign(topic="x").to_csv(tmp_path / "n.csv", index=False)
    copies = checks(tmp_path / "n.csv")["copies"]
    assert copies.message == "20 samples occur more than once (15%)"
    assert "--group" in copies.advice
    pd.concat([frame, frame.iloc[:1]]).to_csv(tmp_path / "n.csv", index=False)
    assert checks(tmp_path / "n.csv") == {}
