"""What a notebook shows of results, data sets and runs: the same numbers, all of it escaped."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import uqled
from exports import image_run
from review_runs import HOSTILE_CLASS, hostile_run, table_data, text_data
from uqled.answer import describe_estimates
from uqled.data import load
from uqled.storage.run import Run


@pytest.fixture(scope="module")
def errors():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    probs = rng.dirichlet(np.ones(3), 300)
    probs[np.arange(300), labels] += 6
    wrong = np.arange(20)
    probs[wrong] = 0.1
    probs[wrong, (labels[:20] + 1) % 3] = 6
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
