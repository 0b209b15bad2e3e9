"""A learner and a source of uncertainty of another package, as docs/extending.md writes them."""

from __future__ import annotations

import doctest
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from uqled import Dataset, FileError, InputError, load, registry
from uqled.predict.crossval import cross_validate
from uqled.predict.learners import choose_learner

DOCUMENT = Path(__file__).parents[1] / "docs" / "extending.md"
POINTS = {
    "uqled.readers": {"fasttext": "my_package:FASTTEXT"},
    "uqled.learners": {"base-rate": "my_package:make_learner"},
    "uqled.uncertainty": {"halves": "my_package:RandomHalves"},
    "uqled.encoders": {"letter-counts": "my_package:make_encoder"},
    "uqled.heads": {"naive-bayes": "my_package:predict_held_out"},
}


@pytest.fixture
def my_package(monkeypatch):
    """A package that holds what the document's examples define, with its entry points."""
    package = ModuleType("my_package")
    for example in doctest.DocTestParser().get_examples(DOCUMENT.read_text()):
        exec(example.source, package.__dict__)
    monkeypatch.setitem(sys.modules, "my_package", package)

    def list_points(group):
        return [EntryPoint(name, value, group) for name, value in POINTS.get(group, {}).items()]

    monkeypatch.setattr(registry, "entry_points", list_points)
    return package


@pytest.fixture
def iris():
    return Dataset.from_arrays(*load_iris(return_X_y=True))


@pytest.mark.usefixtures("my_package")
def test_a_reader_of_another_package(tmp_path):
    path = tmp_path / "t.fasttext"
    path.write_text("__label__spam buy now\n__label__ham see you\n__label__spam buy more\n")
    data = load(path)
    assert (data.kind, data.labels.names) == ("texts", ("ham", "spam"))
    assert data.inputs.tolist() == ["buy now", "see you", "buy more"]
    path.write_text("no label here\nnor\n")
    with pytest.raises(FileError, match=r"t\.fasttext' cannot be read"):
        load(path)
    with pytest.raises(InputError, match=r"label is 'x', but file .* has no columns"):
        load(path, label="x")


@pytest.mark.usefixtures("my_package")
def test_a_learner_of_another_package(iris, tmp_path):
    predictions = cross_validate(iris, "base-rate", out=tmp_path, folds=3, progress=False)
    assert predictions.pred_probs == pytest.approx(np.full((150, 3), 1 / 3), abs=0.01)
    with pytest.raises(InputError, match=r"Choose one of auto.*base-rate"):
        choose_learner("base-rates", iris)


@pytest.mark.usefixtures("my_package")
def test_a_source_of_uncertainty_of_another_package(iris, tmp_path):
    model = LogisticRegression(max_iter=500)
    predictions = cross_validate(
        iris, model, uncertainty="halves", passes=3, folds=3, out=tmp_path, progress=False
    )
    assert predictions.accuracy > 0.9
    assert len({one.tobytes() for one in predictions.passes}) == 3


@pytest.mark.usefixtures("my_package")
def test_an_encoder_and_a_member_of_another_package(tmp_path):
    texts = np.array(["zzz zebra", "zoo zz", "aaa banana", "a baa aa"] * 10, object)
    data = Dataset.from_arrays(texts, ["z", "z", "a", "a"] * 10)
    data = replace(data, groups=np.arange(40))
    predictions = cross_validate(
        data, "committee:letter-counts", out=tmp_path, folds=2, progress=False
    )
    assert {"neighbours", "naive-bayes"} <= {one.name for one in predictions.quality.members}


def test_the_document_names_these_entry_points():
    text = DOCUMENT.read_text()
    for group, points in POINTS.items():
        ((name, value),) = points.items()
        assert f'[project.entry-points."{group}"]\n{name} = "{value}"' in text
