"""The type TransitionMatrix: what it refuses, prints, scales, saves and draws."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from uqled.errors import FileError, InputError
from uqled.noise import TransitionMatrix, sparse_matrix, symmetric_matrix
from uqled.report.figures import save_figure, transition_heat_map

PETS = TransitionMatrix([[0.8, 0.2, 0], [0.05, 0.95, 0], [0, 0, 1]], ["cat", "dog", "newt"])


@pytest.mark.parametrize(
    ("rows", "classes", "message"),
    [
        ([[0.5, 0.5]], None, r"probabilities has shape \(1, 2\)"),
        ([[1.0]], None, r"probabilities has shape \(1, 1\)"),
        ([1, 0], None, r"probabilities has shape \(2,\)"),
        ([["a", "b"], ["c", "d"]], None, "probabilities is not a table of numbers"),
        ([[1, 0], [0.5]], None, "probabilities is not a table of numbers"),
        ([[1.5, -0.5], [0, 1]], None, r"contains -0\.5 at row 0, column 1"),
        ([[1, 0], [np.nan, 1]], None, "contains nan at row 1, column 0"),
        ([[1, 0], [0.5, 0.4]], None, r"a row that sums to 0\.9 instead of 1 \(row 1, '1'\)"),
        ([[1, 0], [0.5, 0.4]], None, "Divide each row by its sum"),
        ([[0.9, 0.4], [0.1, 0.6]], None, "pass its transpose"),
        (np.eye(2), ["a", "b", "c"], "classes has 3 names for a matrix of 2 rows"),
        (np.eye(2), ["a", "a"], r"classes is \['a', 'a'\]"),
        (np.eye(2), "ab", "classes is 'ab'"),
    ],
)
def test_refused(rows, classes, message):
    with pytest.raises(InputError, match=message):
        TransitionMatrix(rows, classes)


def test_it_cannot_be_changed():
    rows = np.array([[0.5, 0.5], [0, 1]])
    matrix = TransitionMatrix(rows)
    rows[0] = 7
    assert matrix.probabilities.tolist() == [[0.5, 0.5], [0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        matrix.probabilities[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        matrix.classes = ("a", "b")
    assert matrix.classes == ("0", "1")


def test_equality():
    same = TransitionMatrix(PETS.probabilities, PETS.classes)
    assert same == PETS
    assert hash(same) == hash(PETS)
    assert TransitionMatrix(PETS.probabilities) != PETS
    assert TransitionMatrix(np.eye(3), PETS.classes) != PETS
    assert PETS != "PETS"
    minus_zero = TransitionMatrix([[1, -0.0], [0, 1]])
    assert hash(minus_zero) == hash(TransitionMatrix(np.eye(2)))
    assert pickle.loads(pickle.dumps(PETS)) == PETS


def test_printed_as_the_papers_table():
    assert str(PETS).splitlines() == [
        "true \\ given    cat    dog    newt",
        "cat           80.0%  20.0%    0.0%",
        "dog            5.0%  95.0%    0.0%",
        "newt           0.0%   0.0%  100.0%",
    ]


def test_flips_and_rates():
    assert PETS.flips().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    with pytest.raises(InputError, match=r"rate is 0\.1, but class 'newt' has nowhere to flip to"):
        PETS.at_rate(0.1)
    assert PETS.at_rate(0).probabilities.tolist() == np.eye(3).tolist()
    two = TransitionMatrix([[0.9, 0.1], [0.6, 0.4]], ["a", "b"])
    assert two.at_rate(0.25).probabilities.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert two.at_rate(0.25).classes == ("a", "b")
    assert two.at_rate(1).probabilities.tolist() == [[0, 1], [1, 0]]


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), min_size=1, max_size=8
)


@given(
    names=st.lists(NAMES, min_size=2, max_size=6, unique=True),
    seed=st.integers(0, 99),
    suffix=st.sampled_from([".csv", ".json", ".CSV"]),
)
@settings(max_examples=100, deadline=None)
def test_saved_and_loaded_to_the_last_digit(tmp_path_factory, names, seed, suffix):
    path = tmp_path_factory.mktemp("matrix") / f"m{suffix}"
    matrix = sparse_matrix(names, noise=0.3, zeros=0.2, seed=seed)
    matrix.save(path)
    assert TransitionMatrix.load(path) == matrix
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_files_that_others_can_read(tmp_path):
    PETS.save(tmp_path / "m.csv")
    assert (tmp_path / "m.csv").read_text().splitlines()[:2] == [
        "true \\ given,cat,dog,newt",
        "cat,0.8,0.2,0.0",
    ]
    PETS.save(tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    assert content["rows"] == "true"
    assert content["columns"] == "given"
    assert content["classes"] == ["cat", "dog", "newt"]
    assert content["matrix"][0] == [0.8, 0.2, 0.0]
    (tmp_path / "bare.csv").write_text("0.9,0.1\n0.3,0.7\n")
    assert TransitionMatrix.load(tmp_path / "bare.csv") == TransitionMatrix(
        [[0.9, 0.1], [0.3, 0.7]]
    )
    (tmp_path / "frame.csv").write_text(",a,b\na,0.9,0.1\nb,0.3,0.7\n")
    assert TransitionMatrix.load(tmp_path / "frame.csv").classes == ("a", "b")
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbf0.9,0.1\r\n0.3,0.7\r\n")
    assert TransitionMatrix.load(tmp_path / "excel.csv").probabilities[0].tolist() == [0.9, 0.1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.txt", "0.9,0.1\n0.3,0.7\n", r"has the ending '\.txt'\. Use one of \.csv, \.json"),
        ("m.csv", "", "is not a transition matrix"),
        ("m.csv", "0.9,0.1\n0.3,0.6\n", r"is not a transition matrix .*sums to 0\.9"),
        ("m.csv", ",a,b\nb,0.9,0.1\na,0.3,0.7\n", "names down the side are not those across"),
        ("m.csv", ",a,b\na,0.9,x\nb,0.3,0.7\n", "could not convert string to float: 'x'"),
        ("m.json", "{", "is not a transition matrix"),
        ("m.json", "[1]", "is not a transition matrix"),
        ("m.json", '{"matrix": [[1, 0], [0, 1]]}', "is not a transition matrix"),
        ("m.json", None, "No such file"),
    ],
)
def test_files_that_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=message):
        TransitionMatrix.load(tmp_path / name)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    PETS.save(tmp_path / "m.json")

    def full_disk(*_args, **_options):
        raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_text", full_disk)
    with pytest.raises(OSError, match="no space left"):
        symmetric_matrix(3, rate=0.5).save(tmp_path / "m.json")
    monkeypatch.undo()
    assert TransitionMatrix.load(tmp_path / "m.json") == PETS
    assert [p.name for p in tmp_path.iterdir()] == ["m.json"]


# -- picture -------------------------------------------------------------------------------------


def texts(figure, panel):
    return [text.get_text() for text in figure.axes[panel].texts]


def test_the_heat_map_says_what_the_matrices_say(tmp_path):
    realised_matrix = TransitionMatrix([[0.75, 0.25, 0], [0, 1, 0], [0, 0, 1]], PETS.classes)
    figure = transition_heat_map({"intended": PETS, "realised": realised_matrix})
    left, right, bar = figure.axes
    assert [left.get_title(), right.get_title()] == ["intended", "realised"]
    assert texts(figure, 0) == ["80.0", "20.0", "5.0", "95.0", "100.0"]
    assert texts(figure, 1) == ["75.0", "25.0", "100.0", "100.0"]
    assert (left.images[0].get_array() == PETS.probabilities).all()
    assert (right.images[0].get_array() == realised_matrix.probabilities).all()
    for axes in (left, right):
        assert [t.get_text() for t in axes.get_xticklabels()] == ["cat", "dog", "newt"]
        assert [t.get_text() for t in axes.get_yticklabels()] == ["cat", "dog", "newt"]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("given class", "true class")
    assert bar.get_ylabel() == "share of the true class"
    save_figure(figure, tmp_path / "map.png")
    assert imread(tmp_path / "map.png").std() > 0.1
    assert [p.name for p in tmp_path.iterdir()] == ["map.png"]


def test_many_classes_and_any_names(tmp_path):
    names = [rf"{k} 日 $\frac$" for k in range(100)]  # no formula, and not in the font
    figure = transition_heat_map({"realised": symmetric_matrix(names, rate=0.2)})
    assert texts(figure, 0) == []
    assert len(figure.axes[0].get_yticklabels()) == 100
    save_figure(figure, tmp_path / "map.svg")
    figure = transition_heat_map({"realised": symmetric_matrix(1000, rate=0.2)})
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()][:2] == ["0", "10"]


def test_pictures_that_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"matrices are 2 \(a, b\) that differ in classes"):
        transition_heat_map({"a": PETS, "b": TransitionMatrix(PETS.probabilities)})
    with pytest.raises(FileError, match=r"has the ending '\.xyz'"):
        save_figure(transition_heat_map({"a": PETS}), tmp_path / "map.xyz")
