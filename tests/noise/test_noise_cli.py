"""`uqled noise`: from files to a folder with labels, truth, matrices and picture, or one line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from uqled import noise
from uqled.cli import app

ANIMALS = ["cat", "dog", "newt"]
SAYS = np.array([[0.8, 0.2, 0.0], [0.3, 0.6, 0.1], [0.05, 0.15, 0.8]])
LABELS = np.repeat(ANIMALS, [100, 60, 40])
PROBS = np.repeat(SAYS, [100, 60, 40], axis=0)
ALL_FILES = ["heat_map.png", "is_error.npy", "matrix.csv", "matrix.json", "realised.csv"]
ALL_FILES += ["realised.json"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("labels.npy", LABELS)
    np.save("probs.npy", PROBS)


def run_noise(*arguments):
    result = CliRunner().invoke(app, ["noise", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def run(*arguments):
    result = run_noise(*arguments, "--out", "out")
    assert result.exit_code == 0, result.output
    return result.stdout  # what takes long is said on stderr


def refuse(*arguments):
    result = run_noise(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    [error] = [line for line in result.stderr.splitlines() if line != "uqled noise"]
    assert error.startswith("error: ")
    return result.output


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_from_labels_and_probabilities_to_the_folder(tmp_path):
    output = run("--labels", "labels.npy", "--pred-probs", "probs.npy", "--rate", 0.2, "--seed", 3)
    out = tmp_path / "out"
    assert names(out) == sorted([*ALL_FILES, "noisy_labels.npy"])
    matrix = noise.similarity_matrix(LABELS, PROBS, rate=0.2)
    noisy, is_error = noise.apply_noise(LABELS, matrix, rate=0.2, seed=3)
    assert (np.load(out / "noisy_labels.npy") == noisy).all()
    assert (np.load(out / "is_error.npy") == is_error).all()
    for suffix in ("csv", "json"):
        assert noise.TransitionMatrix.load(out / f"matrix.{suffix}") == matrix
        realised_matrix = noise.TransitionMatrix.load(out / f"realised.{suffix}")
        assert realised_matrix == noise.realised_matrix(LABELS, noisy, ANIMALS)
    assert imread(out / "heat_map.png").std() > 0.1
    first, _, title, header, cat, *_ = output.splitlines()
    assert first == "40 of 200 labels changed (20.00%), noise of the kind similarity"
    assert title == "intended -> realised:"
    assert header.split() == ["true", "class", "samples", "wrong", "goes", "to"]
    share = f"20.0% -> {is_error[:100].mean():.1%}"
    assert " ".join(cat.split()) == f"cat 100 {share} dog {share}"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("symmetric", ["--rate", 0.2]),
        ("pair", ["--rate", 0.2]),
        ("confusion", ["--rate", 0.2, "--pred-probs", "confused.npy"]),
        ("matrix", ["--rate", 0.2, "--matrix", "own.csv"]),
        ("instance", ["--rate", 0.2, "--pred-probs", "probs.npy"]),
    ],
)
def test_every_kind_with_an_exact_rate(tmp_path, kind, options):
    np.save("confused.npy", np.roll(PROBS, 30, axis=0))
    noise.symmetric_matrix(ANIMALS, rate=0.5).save("own.csv")
    output = run("--labels", "labels.npy", "--kind", kind, *options)
    assert f"40 of 200 labels changed (20.00%), noise of the kind {kind}" in output
    noisy = np.load(tmp_path / "out" / "noisy_labels.npy")
    is_error = np.load(tmp_path / "out" / "is_error.npy")
    assert is_error.sum() == 40
    assert (is_error == (noisy != LABELS)).all()
    assert (tmp_path / "out" / "matrix.csv").exists() == (kind != "instance")


def test_kinds_that_follow_their_rows(tmp_path):
    clean_newts = noise.TransitionMatrix([[0, 1, 0], [0, 1, 0], [0, 0, 1]], ANIMALS)
    clean_newts.save("own.json")
    output = run("--labels", "labels.npy", "--kind", "matrix", "--matrix", "own.json")
    assert "100 of 200 labels changed" in output
    assert "newt 40 0.0% -> 0.0%" in " ".join(output.split())
    sparse = ["--kind", "sparse", "--rate", 0.3, "--zeros", 0.5, "--seed", 5, "--overwrite"]
    run("--labels", "labels.npy", *sparse)
    matrix = noise.sparse_matrix(ANIMALS, noise=0.3, zeros=0.5, seed=5)
    assert noise.TransitionMatrix.load(tmp_path / "out" / "matrix.json") == matrix


def test_a_model_that_was_asked_about_other_samples(tmp_path):
    np.save("test_labels.npy", ["newt", "dog", "cat"])
    np.save("test_probs.npy", SAYS)
    model = ["--pred-probs", "test_probs.npy", "--model-labels", "test_labels.npy"]
    run("--labels", "labels.npy", *model, "--rate", 0.5, "--classes", "newt,dog,cat")
    matrix = noise.TransitionMatrix.load(tmp_path / "out" / "matrix.csv")
    assert matrix == noise.similarity_matrix(
        ["newt", "dog", "cat"], SAYS, rate=0.5, classes=["newt", "dog", "cat"]
    )


def test_a_csv_keeps_its_other_columns(tmp_path):
    rows = "".join(f'00{k % 10},{k % 3},"a, b"\n' for k in range(30))
    table = f"id,label,note\n{rows}NA,0,\n1.50,1,NA\n"
    (tmp_path / "t.csv").write_text(table)
    run("--labels", "t.csv", "--kind", "pair", "--rate", 1)
    new_table = (tmp_path / "out" / "noisy_labels.csv").read_text()
    expected = [line.split(",", 2) for line in table.splitlines()]
    for row in expected[1:]:
        row[1] = str((int(row[1]) + 1) % 3)
    assert new_table.splitlines() == [",".join(row) for row in expected]


@pytest.mark.parametrize("kind_of_column", ["string", "dictionary", "int8"])
def test_a_parquet_file_keeps_its_types(tmp_path, kind_of_column):
    numbers = pa.array([0, 1, 2] * 5, pa.int8())
    words = pa.array(ANIMALS * 5)
    column = {"string": words, "dictionary": words.dictionary_encode(), "int8": numbers}
    table = pa.table({"img": [b"\x00\xff"] * 15, "y": column[kind_of_column]})
    pq.write_table(table.replace_schema_metadata({"made": "by hand"}), "t.parquet")
    run("--labels", "t.parquet::y", "--kind", "pair", "--rate", 1)
    new_table = pq.read_table(tmp_path / "out" / "noisy_labels.parquet")
    assert new_table.schema.field("y").type == table.schema.field("y").type
    assert new_table.schema.metadata[b"made"] == b"by hand"
    assert new_table["img"] == table["img"]
    next_class = {"cat": "dog", "dog": "newt", "newt": "cat", 0: 1, 1: 2, 2: 0}
    assert new_table["y"].to_pylist() == [next_class[label] for label in table["y"].to_pylist()]


def test_an_npz_keeps_its_key_and_numbers_their_type(tmp_path):
    np.savez("t.npz", y=np.array([1, 2, 5], dtype=np.uint8), other=np.zeros(3))
    run("--labels", "t.npz::y", "--kind", "pair", "--rate", 1)
    with np.load(tmp_path / "out" / "noisy_labels.npz") as archive:
        assert archive.files == ["y"]
        assert archive["y"].tolist() == [2, 5, 1]
        assert archive["y"].dtype == np.uint8
    np.savez("one.npz", only=[0, 1])
    run("--labels", "one.npz", "--kind", "pair", "--rate", 1, "--overwrite")
    assert np.load(tmp_path / "out" / "noisy_labels.npz").files == ["only"]


def test_a_table_of_probabilities_names_the_classes(tmp_path):
    columns = ["newt", "cat", "dog"]
    pd.DataFrame(PROBS[:, [2, 0, 1]], columns=columns).to_csv("probs.csv", index=False)
    run("--labels", "labels.npy", "--pred-probs", "probs.csv", "--rate", 0.2)
    matrix = noise.TransitionMatrix.load(tmp_path / "out" / "matrix.csv")
    assert list(matrix.classes) == columns
    ours = noise.similarity_matrix(LABELS, PROBS, rate=0.2).probabilities
    np.testing.assert_allclose(matrix.probabilities, ours[np.ix_([2, 0, 1], [2, 0, 1])])


def test_an_earlier_run_is_replaced_only_when_asked(tmp_path):
    symmetric = ["--labels", "labels.npy", "--kind", "symmetric", "--rate", 0.2]
    run(*symmetric)
    (tmp_path / "out" / "mine.txt").write_text("keep")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert "already holds is_error.npy" in refuse(*symmetric, "--seed", 1, "--out", "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    instance = ["--labels", "labels.npy", "--kind", "instance", "--pred-probs", "probs.npy"]
    run(*instance, "--rate", 0.1, "--overwrite")
    stale_files = {"matrix.csv", "matrix.json"}  # of the earlier kind
    assert names(tmp_path / "out") == sorted(
        {*ALL_FILES, "noisy_labels.npy", "mine.txt"} - stale_files
    )


def test_a_run_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    symmetric = ["--labels", "labels.npy", "--kind", "symmetric", "--rate", 0.2, "--out", "out"]
    run(*symmetric[:-2])
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def fails(*_arguments):
        raise OSError("no space left")

    monkeypatch.setattr("uqled.report.noise._write_labels", fails)
    result = CliRunner().invoke(app, ["noise", *map(str, symmetric), "--overwrite", "--seed", "9"])
    assert result.exit_code == 2
    assert "the system refused (no space left)" in result.output
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", 0.2], "--pred-probs is missing. Noise of the kind 'similarity' needs it"),
        (["--kind", "symmetric"], "rate is missing"),
        (["--kind", "pair", "--rate", 1.2], "rate is 1.2. Pass a number from 0 to 1"),
        (["--kind", "sparse", "--rate", 0.2], "zeros is missing"),
        (
            ["--kind", "pairs", "--rate", 0.2],
            "--kind is 'pairs'. Did you mean 'pair'? Choose one of similarity, ",
        ),
        (["--kind", "pair", "--rate", 0.2, "--seed", -1], "seed is -1"),
        (["--kind", "pair", "--rate", 0.2, "--classes", "cat,dog"], "contain 'newt' at index 160"),
        (["--kind", "matrix", "--matrix", "no.csv"], "file 'no.csv' is not a transition matrix"),
        (["--kind", "pair", "--rate", 0.2, "--zeros", 0.1], "zeros has no meaning for noise"),
    ],
)
def test_refused_with_one_line_and_nothing_written(tmp_path, arguments, message):
    assert message in refuse("--labels", "labels.npy", *arguments, "--out", "out")
    assert not (tmp_path / "out").exists()


def test_the_folder_cannot_be_a_file():
    output = refuse("--labels", "labels.npy", "--kind", "pair", "--rate", 0, "--out", "labels.npy")
    assert "folder 'labels.npy' is a file" in output


def test_many_classes_are_cut_short():
    np.save("many.npy", np.arange(400) % 40)
    output = run("--labels", "many.npy", "--kind", "symmetric", "--rate", 0.2)
    assert output.count("20.0% -> ") == 30
    assert "... and 10 classes more" in output
    assert ", 36 more" in output
