"""Spellings of one class are read as one, aloud, and an export leaves them as they were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import uqled
from uqled.cli import app
from uqled.data.spellings import choose_spellings, match_names
from uqled.export.record import restore_given_labels
from uqled.review.decisions.store import Decisions

WIDE_FORM = "".join(chr(ord(letter) + 0xFEE0) for letter in "Gentoo")  # full-width forms


@pytest.fixture
def penguins(tmp_path, monkeypatch):
    """Two classes that a column tells apart, some of whose names are written otherwise."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    species = np.array(["Adelie", "Gentoo"] * 60, dtype=object)
    frame = pd.DataFrame(
        {
            "bill": np.where(species == "Adelie", 39.0, 47.0) + random.normal(0, 1, 120).round(3),
            "mass": random.normal(4000, 300, 120).round(1),
        }
    )
    species[[0, 2]] = "Adelie ", " Adelie"
    species[4] = "adelie"
    species[[1, 3]] = "Gen\u200btoo", WIDE_FORM
    frame["species"] = species
    frame.to_csv("penguins.csv", index=False)
    return frame


@pytest.mark.parametrize(
    ("names", "counts", "leaders"),
    [
        (["a", "A"], [50, 1], [0, 1]),  # letters of a handwriting
        (["yes", "Yes"], [50, 40], [0, 1]),
        (["yes", "Yes"], [50, 5], [0, 0]),
        (["yes", "Yes"], [1, 4], [0, 1]),
        (["yes", "Yes"], [1, 5], [1, 1]),
        (["Zoe\u0308", "Zo\u00eb"], [3, 4], [1, 1]),  # decomposed, composed
        (["sci  fi", "sci fi", "scifi"], [1, 1, 1], [1, 1, 2]),
        (["m\u00b2", "m2"], [9, 1], [0, 1]),  # another unit
        (["1", "\uff11"], [2, 9], [1, 1]),
        (["Red ", "red", "RED"], [90, 2, 3], [0, 0, 0]),
    ],
)
def test_what_is_one_class(names, counts, leaders):
    assert choose_spellings(names, counts) == leaders


def test_names_are_matched_with_those_of_a_run():
    assert match_names(["Adelie ", "adelie", "b", "x"], ["Adelie", "B", "b"]) == [0, 0, 2, -1]
    assert match_names(["RED"], ["red", "Red"]) == [-1]


@pytest.mark.usefixtures("penguins")
def test_they_are_read_as_one_class_aloud():
    data = uqled.load("penguins.csv", label="species")
    assert data.labels.names == ("Adelie", "Gentoo")
    assert np.bincount(data.labels.codes).tolist() == [60, 60]
    result = CliRunner().invoke(app, ["inspect", "penguins.csv", "--label", "species"])
    assert "penguins: 120 rows, 2 classes" in result.output
    assert "are read as 'Adelie' (57)" in result.output
    assert "--spellings keep" in result.output
    words = ["inspect", "penguins.csv", "--label", "species", "--spellings", "keep"]
    result = CliRunner().invoke(app, words)
    assert "penguins: 120 rows, 7 classes" in result.output
    assert "some classes look like spellings of one" in result.output


def test_the_same_of_frames_and_folders(penguins, tmp_path):
    assert uqled.load(penguins, label="species").n_classes == 2
    assert uqled.load(penguins, label="species", spellings="keep").n_classes == 7
    with pytest.raises(uqled.InputError, match="spellings is 'both'"):
        uqled.load(penguins, label="species", spellings="both")
    for name, texts in {"good": 12, "good ": 3, "bad": 12}.items():
        (tmp_path / "notes" / name).mkdir(parents=True)
        for z in range(texts):
            (tmp_path / "notes" / name / f"{z}.txt").write_text(f"{name} note {z}")
    data = uqled.load(tmp_path / "notes")
    assert data.labels.names == ("bad", "good")
    assert sum(name.startswith("good /") for name in data.ids) == 3


def test_letters_of_a_handwriting_are_no_finding():
    frame = pd.DataFrame({"x": np.arange(80) % 7, "y": np.arange(80) % 5, "label": ["a", "A"] * 40})
    assert not [one for one in uqled.inspect(frame).findings if one.check == "class-names"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_export_leaves_them_as_they_were(penguins, ending):
    source, clean = f"penguins.{ending}", f"clean.{ending}"
    if ending == "parquet":
        penguins.to_parquet(source, index=False)
    words = ["find", source, "--label", "species", "--model", "logistic", "--out", "run"]
    result = CliRunner().invoke(app, [*words, "--uncertainty", "none"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["export", "run", "--to", ending, "--out", clean])
    assert result.exit_code == 0, result.output
    if ending == "csv":
        assert Path(clean).read_bytes() == Path(source).read_bytes()
    else:
        assert pd.read_parquet(clean).species.tolist() == penguins.species.tolist()
    assert json.loads(Path(f"{clean}.changes.json").read_text())["spellings"]["adelie"] == "Adelie"
    assert (
        restore_given_labels(clean).tolist()
        == uqled.load(source, label="species")
        .labels.values[uqled.load(source, label="species").labels.codes]
        .tolist()
    )


@pytest.mark.usefixtures("penguins")
def test_a_correction_is_written_as_most_are():
    words = ["find", "penguins.csv", "--label", "species", "--model", "logistic", "--out", "run"]
    assert CliRunner().invoke(app, [*words, "--uncertainty", "none"]).exit_code == 0
    decisions = Decisions(
        "run/decisions.sqlite", n_samples=120, classes=("Adelie", "Gentoo"),
        ids=[str(z) for z in range(120)],
    )  # fmt: skip
    decisions.decide([(5, "relabel", 0)], reviewer="anna")
    decisions.close()
    words = ["export", "run", "--to", "csv", "--out", "clean.csv"]
    assert CliRunner().invoke(app, words).exit_code == 0
    species = pd.read_csv("clean.csv").species.tolist()
    assert species[:6] == ["Adelie ", "Gen\u200btoo", " Adelie", WIDE_FORM, "adelie", "Adelie"]


def test_new_data_may_have_other_spellings(penguins):
    words = ["find", "penguins.csv", "--label", "species", "--model", "logistic", "--out", "run"]
    assert CliRunner().invoke(app, [*words, "--uncertainty", "none"]).exit_code == 0
    new = penguins.iloc[10:40].assign(species=lambda frame: frame.species.str.upper() + " ")
    new.to_csv("new.csv", index=False)
    result = CliRunner().invoke(
        app, ["check", "run", "--against", "new.csv", "--max-error-rate", "0.5"]
    )
    assert result.exit_code in (0, 1), result.output
    assert "Gentoo" not in result.output.partition("samples have")[2]
