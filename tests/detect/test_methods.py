"""The registry of methods: names are read in one place, and other packages can add a method."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import uqled
from made_predictions import make_predictions
from uqled.detect.methods.method import flag_lowest
from uqled.detect.methods.registry import METHODS, list_method_names, list_methods
from uqled.detect.parts.prepare import find_label_errors_in_parts

SOURCE = Path(uqled.__file__).parent
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


def install(folder, module, text, points):
    """A package as pip leaves it: a module, and a dist-info folder that names its entry points."""
    (folder / f"{module}.py").write_text(text)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(points)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The example of the documentation, installed."""
    text = DOCUMENT.read_text()
    code = re.search(r"```python\n# sure_contradiction.py\n(.*?)```", text, re.DOTALL)[1]
    points = re.search(r"(\[project.entry-points.\"uqled.methods\"\]\n.*?)```", text, re.DOTALL)[1]
    points = points.replace('project.entry-points."uqled.methods"', "uqled.methods")
    install(tmp_path, "sure_contradiction", code, points.replace('"', ""))
    assert len(code.splitlines()) <= 30
    monkeypatch.syspath_prepend(tmp_path)
    yield
    METHODS._loaded_entries.pop("sure-contradiction", None)
    sys.modules.pop("sure_contradiction", None)


@pytest.mark.usefixtures("package")
def test_another_package_adds_a_method(tmp_path):
    data = make_predictions(3, N=200)
    name = "sure-contradiction"
    assert name in METHODS.names()
    errors = uqled.find_label_errors(data.labels, None, data.passes, method=name)
    mean = data.passes.mean(axis=0, dtype=np.float64)
    self_confidence = mean[np.arange(200), data.labels]
    expected = (mean.argmax(axis=1) != data.labels) & (self_confidence < 0.05)
    assert errors.method == name
    assert 0 < expected.sum() == errors.n_flagged
    assert (errors.mask == expected).all()
    parts = find_label_errors_in_parts(
        data.labels, None, data.passes, out=tmp_path / "out", method=name, part_rows=33
    )
    assert (parts.mask() == expected).all()
    table = pd.concat(parts.frames(), ignore_index=True)
    assert table["suggested_label"].tolist() == errors.suggested.tolist()
    results = uqled.find_label_errors(data.labels, None, data.passes, method="all", headline=name)
    assert results.method == name
    with pytest.raises(uqled.MissingInputError, match="'sure-contradiction' needs `passes`"):
        uqled.find_label_errors(data.labels, data.softmax, method=name)


def test_only_the_registry_knows_the_names_of_methods():
    """Outside of docstrings, and of the one list of the algorithms that a benchmark compares."""
    default, *others = METHODS.names()
    titles = {method.title for method in list_methods().values() if method.title}
    names = "|".join(sorted({*others, *list_method_names(), *titles} - {default}))
    suite = SOURCE / "bench" / "suite.py"
    for path in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html"), *SOURCE.rglob("*.js")]:
        if path.is_relative_to(SOURCE / "detect" / "methods"):
            continue
        code = re.sub(r'"""(.*?)"""|#[^\n]*', "", path.read_text(), flags=re.DOTALL)
        code = re.sub(r"\.argmax\b|argmax\(", "", code)  # NumPy's
        method_names = re.findall(rf"(?<![\w-])(?:{names})(?![\w-])", code)
        assert bool(method_names) == (path == suite), f"{path} knows {method_names}"


def test_the_docstring_of_detection_names_every_method():
    text = uqled.find_label_errors.__doc__.replace("\n", " ")
    assert set(METHODS.own_entries) <= set(re.findall(r"`([a-z-]+)`", text))


@pytest.mark.parametrize("number", [0, 1, 7, 30, 31])
def test_the_lowest_scores_are_those_of_sorting(number):
    scores = np.random.default_rng(number).integers(0, 5, 30) / 5
    lowest = sorted(range(30), key=lambda z: (scores[z], z))[:number]
    assert np.flatnonzero(flag_lowest(scores, number)).tolist() == sorted(lowest)
