"""Predictions of one's own become a run: detection, report, review and export work on it."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import uqled
from made_tables import make_news
from uqled import InputError
from uqled.cli import app
from uqled.data.reopening import reopen_samples
from uqled.storage.run import Run


@pytest.fixture
def news(tmp_path, monkeypatch):
    """A CSV, and probabilities that contradict three of its labels."""
    monkeypatch.chdir(tmp_path)
    frame = make_news()
    frame.to_csv("news.csv", index=False)
    classes = sorted(set(frame.label))
    codes = frame.label.map(classes.index).to_numpy().copy()
    codes[[4, 9, 30]] = (codes[[4, 9, 30]] + 1) % 3
    probs = np.full((120, 3), 0.05) + 0.85 * np.eye(3)[codes]
    np.save("probs.npy", probs)
    return frame, probs


def test_a_run_of_ones_own_predictions(news):
    frame, probs = news
    run = uqled.make_run(frame["label"], probs, out="run", data="news.csv")
    np.testing.assert_allclose(run.pred_probs, probs, atol=1e-6)
    assert run.labels.names == ("money", "sport", "world")
    assert reopen_samples(run).inputs[0] == "\n".join(frame.loc[0, ["title", "description"]])
    assert set(np.flatnonzero(uqled.find_label_errors(run).mask)) == {4, 9, 30}
    run_without_frame = uqled.make_run(
        frame["label"], probs, out="alone", ids=[f"n{i}" for i in range(120)]
    )
    assert (run_without_frame.source, run_without_frame.ids[2]) == (None, "n2")
    assert uqled.make_run(None, probs, out="third", data=frame).labels.names == run.labels.names
    stack = np.stack([probs, probs])
    assert uqled.make_run(frame["label"], probs, stack, out="f").passes.shape == (2, 120, 3)


def test_what_does_not_belong_together_is_refused(news):
    frame, probs = news
    with pytest.raises(InputError, match=r"labels differ from the data's in \d+ rows \(sample '"):
        uqled.make_run(frame["label"][::-1].to_numpy(), probs, out="run", data="news.csv")
    with pytest.raises(InputError, match="data has 120 labelled samples, and pred_probs has 119"):
        uqled.make_run(None, probs[1:], out="run", data="news.csv")
    with pytest.raises(InputError, match="labels are missing"):
        uqled.make_run(None, probs, out="run")
    with pytest.raises(InputError, match="pred_probs"):
        uqled.make_run(frame["label"], probs * 2, out="run")


def test_from_the_command_line_to_the_export(news):
    frame, _ = news

    def invoke(*words):
        result = CliRunner().invoke(app, [*words])
        assert result.exit_code == 0, result.output
        return result.output

    output = invoke("detect", "--data", "news.csv::label", "--pred-probs", "probs.npy",
                    "--out", "run")  # fmt: skip
    assert "3 of 120 labels flagged" in output
    assert Run.open("run").predictions().source["label"] == "label"
    invoke("report", "run")
    invoke("export", "run", "--to", "csv", "--out", "clean.csv", "--unreviewed", "relabel")
    cleaned_table = pd.read_csv("clean.csv")
    assert (cleaned_table["label"] != frame["label"]).sum() == 3
    result = CliRunner().invoke(app, ["detect", "--data", "news.csv", "--pred-probs", "probs.npy"])
    assert (result.exit_code, "--out is missing, but --data needs it" in result.output) == (2, True)


@pytest.mark.parametrize("with_data", [True, False], ids=["with data", "without"])
def test_every_command_works_on_such_a_run(news, with_data):
    pytest.importorskip("uvicorn")
    from uqled.review.serve import serve_review

    frame, _ = news
    frame["label"].to_csv("labels.csv", index=False)

    def invoke(*words, code=0):
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)["result"]

    words = ["--data", "news.csv::label"] if with_data else ["--labels", "labels.csv", "--run"]
    answer = invoke("detect", *words, "--pred-probs", "probs.npy", "--out", "run")
    assert answer["flagged"] == 3
    assert {one["index"] for one in answer["most_suspect"]} == {4, 9, 30}
    invoke("report", "run")
    page = Path("run/report.html").read_text()
    assert ("used" in page and frame.title[4] in page) == with_data
    with serve_review(Run.open("run"), port=0) as address:
        start = urlsplit(address)

        def ask(method, path, body=None):
            headers = {"Origin": f"http://{start.netloc}", "Content-Type": "application/json"}
            content = None if body is None else json.dumps(body)
            with closing(http.client.HTTPConnection(start.netloc, timeout=20)) as connection:
                connection.request(method, start.path + path, content, headers if body else {})
                response = connection.getresponse()
                assert response.status == 200
                return json.loads(response.read())

        listed_samples = ask("GET", "api/samples?size=5")["samples"]
        assert {row["index"] for row in listed_samples} == {4, 9, 30}
        first = listed_samples[0]
        items = [[first["index"], "relabel", first["suggested"]]]
        ask("POST", "api/decide", {"items": items, "seen": {}, "reviewer": "ana", "tab": "t"})
    audit = invoke("audit", "run", "--size", "10")
    assert len(audit["samples"]) == 10
    assert invoke("check", "run", "--max-error-rate", "0.5")["outcome"] == "pass"
    invoke("export", "run", "--to", "csv", "--out", "clean.csv")
    cleaned_table = pd.read_csv("clean.csv")
    assert cleaned_table.columns.tolist() == (
        frame.columns.tolist() if with_data else ["id", "label"]
    )
    changed_rows = np.flatnonzero((cleaned_table["label"] != frame["label"]).to_numpy())
    assert changed_rows.tolist() == [first["index"]]  # the one that was decided
    invoke("detect", "run", "--budget", "2")


def test_the_same_from_python(news):
    frame, probs = news
    run = uqled.make_run(frame["label"], probs, out="run", data="news.csv")
    errors = uqled.find_label_errors(run)
    errors.report("report.html", run)
    assert frame.title[4] in Path("report.html").read_text()
    assert Run.open("run").findings() == []
    frame.loc[119, ["title", "description"]] = frame.loc[118, ["title", "description"]]
    frame.loc[[118, 119], "label"] = ["sport", "money"]
    frame.to_csv("twice.csv", index=False)
    run = uqled.make_run(None, probs, out="twice", data="twice.csv")
    assert "have the same content as others" in Run.open("twice").findings()[0]
    assert set(uqled.find_label_errors(run).suspects[:1]) <= {118, 119}
