"""Samples without a label are set aside, predicted at the end, and never lost."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import uqled
from made_tables import make_news, make_penguins
from uqled.cli import app

ROWS = [6, 60, 100]


@pytest.mark.parametrize(
    ("make", "label", "model"),
    [(make_news, "label", "logistic"), (make_penguins, "species", "committee")],
    ids=["texts", "table"],
)
def test_they_are_predicted_from_all_others(make, label, model):
    frame = make()
    truth = frame.loc[ROWS, label].tolist()
    expected = uqled.find(frame.drop(index=ROWS), label=label, model=model, folds=2, progress=False)
    frame.loc[ROWS, label] = None
    errors = uqled.find(frame, label=label, model=model, folds=2, progress=False)
    assert errors.unlabelled["id"].tolist() == list(map(str, ROWS))
    assert errors.unlabelled["predicted_label"].tolist() == truth
    assert errors.unlabelled["probability"].between(1 / 3, 1).all()
    assert errors.mask.tolist() == expected.mask.tolist()  # they change nothing else
    assert expected.unlabelled is None
    table = errors.apply_to(frame)
    assert table.loc[ROWS, "suggested_label"].tolist() == truth
    assert not table.loc[ROWS, "is_label_issue"].any()
    assert errors.corrected(frame).loc[ROWS, label].isna().all()


def test_class_numbers_stay_numbers():
    frame = make_penguins()
    frame["species"] = frame["species"].map({"Adelie": 0, "Chinstrap": 1, "Gentoo": 2})
    frame["species"] = frame["species"].astype(float)
    frame.loc[ROWS, "species"] = np.nan
    errors = uqled.find(frame, label="species", model="forest", folds=2, progress=False)
    assert errors.unlabelled["predicted_label"].tolist() == [0, 1, 2]


def test_images_without_a_label(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(0), []
    for i in range(24):
        level = 60 if i % 2 else 190
        pixels = rng.normal(level, 10, (12, 12)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(f"{i}.png")
        rows.append((f"{i}.png", ("light", "dark")[i % 2] if i not in (2, 7, 9) else None))
    (tmp_path / "9.png").write_bytes(b"no image")
    pd.DataFrame(rows, columns=["path", "label"]).to_csv("t.csv", index=False)
    data = uqled.load("t.csv", skip_unreadable=True, cache=False)
    assert (len(data), data.unlabelled, set(data.skipped)) == (21, ("2.png", "7.png"), {"9.png"})
    run = uqled.cross_validate(data, "logistic", folds=2, out="run", progress=False)
    table = pd.read_csv(run.path / "unlabelled.csv")
    assert table["predicted_label"].tolist() == ["light", "dark"]


def test_the_command_and_its_report_say_where_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = make_penguins()
    frame.loc[ROWS, "species"] = None
    frame.to_csv("p.csv", index=False)
    words = ["find", "p.csv", "--label", "species", "--folds", "2", "--out", "run"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "The 3 samples without a label are predicted in run/unlabelled.csv" in result.stdout
    page = (tmp_path / "run" / "report.html").read_text()
    assert "3, predicted in unlabelled.csv" in page
    # The report of `find` itself shows columns, findings, the model and the others.
    assert "numbers bill_length_mm, flipper_length_mm" in page
    assert "3 samples have no label" in page
    assert "its members alone" in page
    assert "boosting" in page
    again = CliRunner().invoke(app, [*words, "--json"])  # continues the finished run
    assert json.loads(again.stdout)["result"]["files"]["unlabelled"] == "run/unlabelled.csv"
    result = CliRunner().invoke(app, ["export", "run", "--to", "csv", "--out", "out.csv"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
