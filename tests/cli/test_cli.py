"""`uqled detect` as a person runs it: files in, a table and a summary out, clear refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import uqled
from made_predictions import make_predictions
from uqled.cli import app

INPUT_OPTIONS = ["--labels", "labels.npy", "--pred-probs", "probs.npy"]
NAMES = np.array(["ant", "bee", "cat", "dog", "eel"])


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of the same predictions in every format, to copy."""
    tmp_path = tmp_path_factory.mktemp("files")
    data = make_predictions(4)
    np.save(tmp_path / "labels.npy", data.labels)
    np.save(tmp_path / "probs.npy", data.softmax)
    np.save(tmp_path / "passes.npy", data.passes)
    np.savez(tmp_path / "all.npz", labels=data.labels, probs=data.softmax, passes=data.passes)
    names = NAMES[data.labels]
    pd.DataFrame({"id": range(400), "label": names}).to_csv(tmp_path / "labels.csv", index=False)
    pd.DataFrame({"animal": names}).to_parquet(tmp_path / "labels.parquet")
    np.savetxt(tmp_path / "bare-labels.csv", data.labels, fmt="%d")
    np.savetxt(tmp_path / "bare-probs.csv", data.softmax, delimiter=",")
    frame = pd.DataFrame(data.softmax, columns=NAMES)
    frame.to_csv(tmp_path / "probs.csv", index=False)
    frame.to_parquet(tmp_path / "probs.parquet")
    group = zarr.open_group(tmp_path / "all.zarr", mode="w")
    for name in ("labels", "softmax", "passes"):
        array = getattr(data, name)
        group.create_array(name, shape=array.shape, dtype=array.dtype)[...] = array
    return tmp_path


@pytest.fixture
def folder(files, tmp_path):
    return shutil.copytree(files, tmp_path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def expected_flags():
    data = make_predictions(4)
    return uqled.find_label_errors(
        data.labels, data.softmax, data.passes, method="alg-ens", agreement=3
    )


@pytest.mark.parametrize(
    ("labels", "probs", "passes"),
    [
        ("labels.npy", "probs.npy", "passes.npy"),
        ("all.npz::labels", "all.npz::probs", "all.npz::passes"),
        ("labels.csv", "probs.csv", "passes.npy"),
        ("labels.csv::label", "probs.parquet", "passes.npy"),
        ("labels.parquet::animal", "probs.npy", "all.zarr::passes"),
        ("all.zarr::labels", "all.zarr::softmax", "all.zarr::passes"),
    ],
)
@pytest.mark.parametrize("out", ["issues.csv", "issues.parquet", "issues.json"])
def test_files_in_table_out(folder, expected_flags, labels, probs, passes, out):
    result = invoke(
        "detect", "--labels", folder / labels, "--pred-probs", folder / probs,
        "--passes", folder / passes, "--method", "alg-ens", "--agreement", 3,
        "--out", folder / out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    path = folder / out
    if out.endswith("csv"):
        frame = pd.read_csv(path)
    elif out.endswith("parquet"):
        frame = pd.read_parquet(path)
    else:
        frame = pd.DataFrame(json.loads(path.read_text()))
    assert list(frame)[:3] == ["index", "is_label_issue", "label_score"]
    assert (frame["is_label_issue"] == expected_flags.mask).all()
    assert frame["label_score"].to_numpy() == pytest.approx(expected_flags.scores, abs=1e-9)
    assert f"{expected_flags.n_flagged} of 400 labels flagged" in result.output
    assert "most confused" in result.output
    assert "most suspect" in result.output
    assert str(expected_flags.ranked[0]) in result.output
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]  # no temporary file is left


def test_the_columns_can_be_named(folder):
    labels = pd.read_parquet(folder / "labels.parquet")
    rows = labels["animal"] != "eel"
    labels[rows].to_parquet(folder / "few.parquet")
    np.save(folder / "few.npy", np.load(folder / "probs.npy")[rows.to_numpy()])
    arguments = ["--labels", folder / "few.parquet", "--pred-probs", folder / "few.npy"]
    assert "Give the columns' order" in invoke("detect", *arguments).stderr
    result = invoke("detect", *arguments, "--classes", "ant,bee,cat,dog,eel")
    assert result.exit_code == 0, result.stderr
    assert "of 301 labels flagged" in result.output
    assert " -> " in result.output


def test_auto_by_default(folder):
    arguments = "detect", "--labels", folder / "labels.npy", "--pred-probs", folder / "probs.npy"
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert "by auto" in result.output
    assert "labels are wrong" in result.output
    assert "of the flags are real" in result.output
    assert "7 of 400 labels flagged" in invoke(*arguments, "--budget", 7).output
    small_output, large_output = (
        invoke(*arguments, "--cost", f"1,{cost}").output for cost in (1.1, 20)
    )
    assert int(small_output.split()[0]) < int(large_output.split()[0])
    none = invoke(*arguments, "--min-precision", 1).output
    assert "0 of 400 labels flagged" in none
    assert "nothing is flagged: no choice of flags reaches what was asked for" in none
    assert "cost is '1'" in invoke(*arguments, "--cost", "1").stderr
    assert "cannot be combined with" in invoke(*arguments, "--recall", 0.9, "--target", "f1").stderr


def test_all_methods(folder):
    result = invoke(
        "detect", "--labels", folder / "labels.npy", "--pred-probs", folder / "probs.npy",
        "--method", "all",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "cl-pbnr" in result.output
    assert "low-normalized-margin" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--labels", "none.npy", "--pred-probs", "probs.npy"], "none.npy' does not exist"),
        (["--labels", "labels.txt", "--pred-probs", "probs.npy"], "has the ending '.txt'"),
        (["--labels", "labels.npy"], "--pred-probs and --passes are both missing"),
        (["--labels", "labels.npy", "--pred-probs", "passes.npy"], "go in as --passes"),
        (["--labels", "all.npz", "--pred-probs", "probs.npy"], "KEY one of labels, probs, passes"),
        (["--labels", "all.npz::x", "--pred-probs", "probs.npy"], "has no array 'x'"),
        (["--labels", "all.zarr", "--pred-probs", "probs.npy"], "is a group"),
        (["--labels", "labels.csv::x", "--pred-probs", "probs.npy"], "has no column 'x'"),
        (["--labels", "probs.csv", "--pred-probs", "probs.npy"], "Say which holds the labels"),
        (["--labels", "labels.npy", "--pred-probs", "labels.csv"], "does not hold probabilities"),
        (["--labels", "labels.npy", "--passes", "probs.csv"], "which has no passes"),
        (["--labels", "bare-labels.csv", "--pred-probs", "probs.npy"], "has no header"),
        (["--labels", "labels.npy", "--pred-probs", "bare-probs.csv"], "has no header"),
        ([*INPUT_OPTIONS, "--method", "x"], "method is 'x'"),
        ([*INPUT_OPTIONS, "--method", "cl-mcd"], "passes is missing"),
        ([*INPUT_OPTIONS, "--out", "x.xlsx"], "has the ending '.xlsx'"),
        ([*INPUT_OPTIONS, "--out", "no/x.csv"], "Make the folder first"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    result = invoke("detect", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_refused_run_leaves_the_old_table(folder):
    out = folder / "issues.csv"
    out.write_text("precious")
    bad = np.load(folder / "probs.npy")
    bad[7] = 0.5
    np.save(folder / "bad.npy", bad)
    result = invoke(
        "detect", "--labels", folder / "labels.npy", "--pred-probs", folder / "bad.npy",
        "--out", out,
    )  # fmt: skip
    assert result.exit_code == 2
    assert "--pred-probs sums to 2.5 instead of 1 at row 7" in result.stderr
    assert out.read_text() == "precious"


@settings(max_examples=60)
@given(cut=st.floats(0, 1), flip=st.integers(0, 2**31), suffix=st.sampled_from(
    [".npy", ".npz", ".csv", ".parquet"]))  # fmt: skip
def test_damaged_files_never_crash(tmp_path_factory, cut, flip, suffix):
    folder = tmp_path_factory.mktemp("damaged")
    data = make_predictions(4, N=50)
    np.save(folder / "labels.npy", data.labels)
    path = folder / f"probs{suffix}"
    if suffix == ".npy":
        np.save(path, data.softmax)
    elif suffix == ".npz":
        np.savez(path, data.softmax)
    elif suffix == ".csv":
        pd.DataFrame(data.softmax).to_csv(path, index=False)
    else:
        pd.DataFrame(data.softmax, columns=NAMES).to_parquet(path)
    content = bytearray(path.read_bytes())
    content[flip % len(content)] ^= 0xFF
    path.write_bytes(content[: max(1, int(cut * len(content)))])
    result = invoke("detect", "--labels", folder / "labels.npy", "--pred-probs", path)
    assert result.exit_code in (0, 2), result.exception
    assert result.exit_code == 0 or result.stderr.startswith("error: ")


def test_a_file_cut_short_while_it_is_read(tmp_path):
    data = make_predictions(4)
    path = tmp_path / "probs.npy"
    np.save(path, data.softmax)
    mapped_array = np.load(path, mmap_mode="r")
    rows = uqled.detect.core.rows.ProbabilityRows(mapped_array, name="pred_probs", ndim=2)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(uqled.FileError, match="ends at byte"):
        rows.read(0, 400)


def test_importing_loads_numpy_and_nothing_heavier():
    code = (
        "import sys, uqled; "
        "print(sorted({'numba', 'scipy', 'pandas', 'torch', 'sklearn', 'pyarrow', 'matplotlib', "
        "'rich', 'typer', 'zarr', 'PIL'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


#: Compiles the shortest kernel, with the cache that all have.
COMPILE = """
import numpy as np
from uqled.detect.core.kernels import compiled
out = np.zeros(2)
compiled.read_given_probability(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1, 1]), out)
print(out.tolist())
"""


def test_an_unwritable_cache_is_survived(tmp_path):
    blocking_file = tmp_path / "file"
    blocking_file.write_text("not a folder")
    for variables in (
        {"NUMBA_CACHE_DIR": str(blocking_file / "x")},
        {"NUMBA_CACHE_DIR": "/proc/none"},
    ):
        out = subprocess.run(
            [sys.executable, "-c", COMPILE],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin", "HOME": str(blocking_file), **variables},
        )
        assert out.stdout.strip() == "[0.1, 0.8]", out.stderr


def test_a_damaged_cache_is_survived(tmp_path):
    environment = {"PATH": "/usr/bin", "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, "-c", COMPILE],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert out.stdout.strip() == "[0.1, 0.8]", out.stderr
        for path in tmp_path.rglob("*.nb*"):
            path.write_bytes(path.read_bytes()[:50])
    assert list(tmp_path.rglob("*.nbi"))
