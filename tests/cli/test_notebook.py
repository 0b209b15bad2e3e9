"""What a notebook shows of results, data sets and runs: the same numbers, all of it escaped."""

from __future__ import annotations

import gc
import html
import io
import re
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image

import uqled
from exports import image_run
from review_runs import HOSTILE_CLASS, hostile_run, table_data, text_data
from uqled.answer import describe_estimates
from uqled.data import load
from uqled.review.decisions import Decisions, read_decisions
from uqled.storage.run import Run


@pytest.fixture(scope="module")
def errors():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    probs = rng.dirichlet(np.ones(3), 300)
    probs[np.arange(300), labels] += 6
    wrong_rows = np.arange(20)
    probs[wrong_rows] = 0.1
    probs[wrong_rows, (labels[:20] + 1) % 3] = 6
    return uqled.find_label_errors(labels, probs / probs.sum(axis=1, keepdims=True))


def test_errors_show_the_answer_and_the_most_suspect(errors):
    text = html.unescape(errors._repr_html_())
    answer = errors.answer
    assert f"{answer.n_flagged:,} of 300 labels flagged" in text
    for sentence in describe_estimates(answer):
        assert sentence[1:] in text
    first = answer.most_suspect[0]
    assert f">{first.index}</td>" in text
    assert text.count("<tr>") == 1 + min(10, answer.n_flagged)


def test_data_sets_show_their_classes_and_samples(tmp_path):
    for data, kind in ((text_data(), "texts"), (table_data(), "table")):
        text = data._repr_html_()
        assert f"80 labelled {kind}" in text
        assert "<b>film</b>" not in text  # a text stays text
        assert text.count("<tr>") == 11
    image_run(tmp_path)
    text = load(tmp_path / "data", cache=False)._repr_html_()
    assert "cat (8)" in text
    assert text.count('src="data:image/png;base64,') == 10


def test_runs_show_where_they_are(tmp_path):
    text = Run.open(image_run(tmp_path))._repr_html_()
    assert str(tmp_path / "run") in text
    assert "model made up" in text
    assert "24 samples of 3 classes" in text


def test_names_are_escaped(tmp_path):
    run = hostile_run(tmp_path)
    errors = uqled.find_label_errors(run.predictions(), method="argmax")
    for text in (errors._repr_html_(), load(tmp_path / "data", cache=False)._repr_html_()):
        assert HOSTILE_CLASS not in text
        assert html.escape(HOSTILE_CLASS) in text
        assert set(re.findall(r"<(\w+)", text)) <= {
            *("div", "b", "table", "thead", "tbody", "tr", "th", "td", "img"),
        }


def test_the_figure_shows_the_pairs(errors, tmp_path):
    figure = errors.plot()
    left, right = figure.axes
    numbers = [number for *_, number in errors.answer.confused_pairs[:12]]
    assert [bar.get_width() for bar in left.patches][::-1] == numbers
    assert right.get_xlabel() == "probability that the label is wrong"
    figure.savefig(tmp_path / "errors.png")
    assert (tmp_path / "errors.png").stat().st_size > 5000
    # What a notebook asks for: without it, a figure made without pyplot is shown as its name.
    assert Image.open(io.BytesIO(figure._repr_png_())).size == (1100, 400)


# The samples that a result of `find` knows, and the widget.


def make_frame():
    rng = np.random.default_rng(0)
    true = np.arange(120) % 2
    frame = pd.DataFrame({"a": 5.0 * true + rng.normal(size=120), "b": rng.normal(size=120)})
    return frame.assign(
        label=np.array(["no", HOSTILE_CLASS])[np.where(np.arange(120) < 6, 1 - true, true)]
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("find") / "run"
    frame = make_frame()
    return uqled.find(frame, label="label", model="logistic", out=out, progress=False)


def test_the_most_suspect_samples_are_shown(result, tmp_path):
    text = result._repr_html_()
    assert HOSTILE_CLASS not in text
    first = result.answer.most_suspect[0]
    assert f"a {result.data.inputs['a'].iloc[first.index]:.6g}" in text
    assert first.tier in text
    image_run(tmp_path)
    data = load(tmp_path / "data", cache=False)
    errors = uqled.find(data, model="logistic", progress=False, budget=3, folds=2)
    html = errors._repr_html_()
    assert html.count('src="data:image/png;base64,') == 3
    sizes = re.findall(r'<img [^>]*width="(\d+)" height="(\d+)"', html)
    assert [max(map(int, size)) for size in sizes] == [56] * 3  # small pictures are enlarged


class Comm:
    """Takes the place of the channel between the kernel and the browser."""

    comm_id = "1"
    messages: ClassVar[list] = []

    def __init__(self, *_, **__):
        type(self).messages = []

    def on_msg(self, callback):
        self.callback = callback

    def on_close(self, _callback):
        pass

    def send(self, data=None, **_):
        self.messages.append(data)

    def close(self, *_, **__):
        pass


@pytest.fixture
def ask(result, monkeypatch):
    """A function that sends a message of the widget and returns the answer."""
    pytest.importorskip("anywidget")
    import comm

    monkeypatch.setattr(comm, "create_comm", Comm)
    widget = result.review(reviewer="ann")

    def send(**message):
        data = {"method": "custom", "content": message}
        widget.comm.callback({"content": {"data": data}, "buffers": []})
        return widget.comm.messages[-1]["content"]

    send.widget = widget
    return send


def test_decisions_through_the_kernel(ask, result):
    page = ask(kind="page", start=0)
    assert (page["total"], page["decided"], page["error"]) == (result.n_flagged, 0, None)
    sample = page["samples"][0]
    assert sample["index"] == result.ranked[0]
    assert sample["fields"][0][0] == "a"
    assert page["classes"][sample["given"]] == result.given[sample["index"]]
    page = ask(
        kind="decide", index=sample["index"], action="relabel", label=sample["suggested"], version=0
    )
    assert page["decided"] == 1
    assert page["samples"][0]["action"] == "relabel"
    other = page["samples"][1]["index"]
    ask(kind="decide", index=other, action="drop", version=0)
    table = ask.widget.to_frame()
    assert table.loc[sample["index"], "label"] == result.suggested[sample["index"]]
    assert table.loc[other, "label"] is None or pd.isna(table.loc[other, "label"])
    # The same file as the page and the export have.
    decisions = read_decisions(Run.open(result.run).predictions())
    assert {index: one.action for index, one in decisions.items()} == {
        sample["index"]: "relabel",
        other: "drop",
    }
    assert ask(kind="undo")["decided"] == 1
    assert ask(kind="decide", index=sample["index"], action=None, version=1)["decided"] == 0


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"index": 10**9, "action": "keep"}, "There are 120 samples"),
        ({"index": "<b>", "action": "keep"}, "index"),
        ({"index": 0, "action": "burn"}, "Choose one of keep"),
        ({"index": 0, "action": "relabel", "label": 77}, "There are 2 classes"),
        ({"index": 0, "action": ["keep"]}, "action"),
    ],
)
def test_wrong_messages_change_nothing(ask, message, words):
    before = len(ask.widget.to_frame())
    page = ask(kind="decide", **message)
    assert words in page["error"]
    assert len(ask.widget.to_frame()) == before
    assert ask(kind=None)["error"] is None
    assert ask(kind="page", start=10**12)["start"] < page["total"]


def test_somebody_was_faster(ask, result):
    index = int(result.ranked[0])
    with Decisions.of(Run.open(result.run).predictions()) as decisions:
        decisions.decide([(index, "keep", None)], reviewer="bob")
        version = decisions.current()[index].version
    page = ask(kind="decide", index=index, action="drop", version=version - 1)
    assert "decided by bob in the meantime" in page["error"]
    assert page["samples"][0]["action"] == "keep"  # shown as it is now
    ask(kind="decide", index=index, action=None, version=version)


def test_decisions_reach_the_frame(ask, result, tmp_path):
    """What was decided in the widget is in `apply_to` and `corrected`."""
    frame, ranked_samples = make_frame(), result.ranked.tolist()
    suggested, others = result.corrected(frame)["label"], ranked_samples[3:]
    assert "decision" not in result.apply_to(frame)
    kept_sample, chosen_sample, dropped_sample = ranked_samples[:3]
    for index, action, label in (
        (kept_sample, "keep", None),
        (chosen_sample, "relabel", int(result.labels.codes[chosen_sample])),
        (dropped_sample, "drop", None),
    ):  # fmt: skip
        assert ask(kind="decide", index=index, action=action, label=label)["error"] is None
    table = result.apply_to(frame)
    assert table.loc[ranked_samples[:3], "decision"].tolist() == ["keep", "relabel", "drop"]
    assert table["decision"].notna().sum() == 3
    assert table.loc[ranked_samples, "is_label_issue"].tolist() == [
        False,
        *[True] * (len(ranked_samples) - 1),
    ]
    assert table.loc[chosen_sample, "suggested_label"] == frame.loc[chosen_sample, "label"]
    corrected_frame = result.corrected(frame)
    assert corrected_frame.index.tolist() == [row for row in range(120) if row != dropped_sample]
    assert (
        corrected_frame.loc[[kept_sample, chosen_sample], "label"].tolist()
        == frame.loc[[kept_sample, chosen_sample], "label"].tolist()
    )
    assert corrected_frame.loc[others, "label"].tolist() == suggested[others].tolist()
    careful = result.corrected(frame, unreviewed="keep")
    assert careful["label"].tolist() == frame["label"].drop(dropped_sample).tolist()
    assert len(result.corrected(frame, unreviewed="drop")) == 120 - len(ranked_samples) + 2
    with pytest.raises(uqled.InputError, match="unreviewed is 'burn'"):
        result.corrected(frame, unreviewed="burn")
    for _ in range(3):
        ask(kind="undo")
    assert "decision" not in result.apply_to(frame)
    # A file of one's own counts for the result that it was given to.
    result_without_run = replace(result, run=None)
    result_without_run.review(tmp_path / "own.sqlite", reviewer="ann")
    with Decisions(tmp_path / "own.sqlite") as decisions:
        decisions.decide([(dropped_sample, "drop", None)], reviewer="ann")
    assert len(result_without_run.corrected(frame)) == 119
    assert len(result_without_run.corrected(pl.from_pandas(frame))) == 119
    assert len(result.corrected(frame)) == 120


def test_without_a_run_the_decisions_need_a_file(result, tmp_path):
    pytest.importorskip("anywidget")
    without = replace(result, run=None)
    with pytest.raises(uqled.InputError, match=r"decisions='decisions.sqlite', or out="):
        without.review()
    widget = without.review(tmp_path / "decisions.sqlite")
    assert widget.to_frame().empty
    assert (tmp_path / "decisions.sqlite").exists()


def test_the_extra_is_named_where_anywidget_is_missing(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "uqled.review.notebook.widget", raising=False)
    with pytest.raises(uqled.InputError, match=r"pip install 'uqled\[notebook\]'"):
        result.review()


def test_the_widget_sets_no_html():
    source = (Path(uqled.__file__).parent / "review/notebook/static/widget.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in source


def test_decisions_that_nobody_closes_are_closed_when_they_are_forgotten(tmp_path):
    """Else Python 3.13 and later warn of a database that was left open."""
    store = Decisions(tmp_path / "decisions.sqlite", n_samples=2, classes=["cat", "dog"])
    connection = store._connection
    connection.execute("SELECT 1")
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
