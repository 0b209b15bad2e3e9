"""A run folder that somebody edited, damaged or made up: refused by name, never believed."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc

import numpy as np
import pytest
from typer.testing import CliRunner

import exports
import uqled
from uqled.cli import app
from uqled.data.dataset import Dataset
from uqled.data.loading import load
from uqled.data.raw_dataset import make_ids
from uqled.errors import BusyError, FileError, InputError, LimitError
from uqled.limits import override_limits
from uqled.storage.run import Run
from uqled.storage.run_checks import SOURCE

COMMANDS = ("detect", "report", "export")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A finished run of a CSV, with passes and truth."""
    folder = tmp_path_factory.mktemp("runs")
    table = folder / "table.csv"
    rows = [f"{i % 7},{i % 3},{'abc'[i % 3]}" for i in range(60)]
    table.write_text("\n".join(["x,y,label", *rows]) + "\n")
    samples = load(table)
    exports.make_run(folder / "run", samples, {0: 1, 4: 2})
    np.save(folder / "run" / "truth.npy", samples.labels.codes)
    return folder / "run"


@pytest.fixture
def run(original, tmp_path):
    return shutil.copytree(original, tmp_path / "run")


def edit_json(run, name, **changes):
    path = run / name
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | changes))


def invoke(command, run):
    extra = ["--to", "csv", "--out", str(run.parent / "out.csv")] if command == "export" else []
    return CliRunner().invoke(app, [command, str(run), *extra])


def test_the_run_itself_is_fine(run):
    for command in COMMANDS:
        assert invoke(command, run).exit_code == 0, command


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["a", "b", "c", "d"], "names": ["a", "b", "c", "d"]}, "for \\[60, 4\\]"),
        ({"classes": ["a", "b"], "names": ["a", "b"]}, "labels.npy' holds 2 at index 2"),
        ({"classes": ["a"], "names": ["a"]}, "has 1 classes"),
        ({"classes": ["a", "a", "b"]}, "has 3 classes, 2 different"),
        ({"classes": [1, "b", "c"]}, "as 'classes'"),
        ({"classes": [2**70, 2, 3]}, "beyond 64 bits"),
        ({"classes": {}}, "as 'classes'"),
        ({"classes": ["a", "a\0", "b"]}, "a zero byte in its name"),
        ({"names": ["a", "b"]}, "3 different ones, 2 names"),
        ({"names": [1, 2, 3]}, "as 'names'"),
        ({"ids": ["1"]}, "for 1 samples"),
        ({"ids": list(range(60))}, "as 'ids'"),
        ({"ids": None}, "as 'ids'"),
        ({"source": []}, "as 'source'"),
        ({"source": {"place": "x.csv", "cache": "/home"}}, "has 'cache', which no run has"),
        ({"source": {"place": "x.csv", "progress": True}}, "has 'progress'"),
        ({"source": {"place": 3}}, "has 3 as 'place'"),
        ({"source": {"place": "x.csv", "limit": -1}}, "has -1 as 'limit'"),
        ({"source": {"place": "x.csv", "image_size": [1, 2, 3]}}, "as 'image_size'"),
        ({"source_fingerprint": 5}, "as 'source_fingerprint'"),
        ({"ids": ["\ud800"] * 60}, "surrogates not allowed"),
        ({"names": ["\ud800", "b", "c"]}, "surrogates not allowed"),
    ],
)
def test_ids_are_checked(run, changes, message):
    edit_json(run, "ids.json", **changes)
    with pytest.raises(FileError, match=message):
        Run.open(run).predictions()
    for command in COMMANDS:
        result = invoke(command, run)
        assert result.exit_code == 2, (command, result.output)
        assert result.output.startswith("error: file ")


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("labels", np.full(60, np.iinfo(np.int64).max), "holds 9223372036854775807 at index 0"),
        ("labels", np.full(60, 3, np.int32), "holds 3 at index 0, which is not one of 0 to 2"),
        ("labels", np.full(60, -1, np.int32), "holds -1 at index 0"),
        ("labels", np.zeros(59, np.int32), "int32 of shape \\(59,\\), for 60 samples"),
        ("labels", np.zeros((60, 1), np.int32), "of shape \\(60, 1\\)"),
        ("labels", np.zeros(60), "holds float64"),
        ("labels", np.array(5), "of shape \\(\\)"),
        ("labels", np.array(["a"] * 60), "holds <U1"),
        ("pred_probs", np.array(0.5), "float64 of shape \\(\\)"),
        ("pred_probs", np.zeros((60, 3), int), "holds int64"),
        ("pred_probs", np.zeros((60, 4)), "\\(60, 4\\), for \\[60, 3\\]"),
        ("passes", np.zeros((60, 3)), "for \\[F, 60, 3\\]"),
        ("passes", np.zeros((0, 60, 3)), "cannot be read|for \\[F, 60, 3\\]"),
        ("folds", np.zeros(3, int), "for 60 samples"),
        (
            "folds",
            np.full(60, 2**31 - 1),
            "holds 2147483647 at index 0, which is not one of 0 to 59",
        ),
        ("truth", np.zeros(61, int), "for 60 samples"),
        ("truth", np.full(60, 7), "holds 7 at index 0"),
        ("truth", np.array(["b"] * 60), "holds <U1"),
    ],
)
def test_arrays_are_checked(run, name, array, message):
    np.save(run / f"{name}.npy", array)
    with pytest.raises(FileError, match=message):
        Run.open(run).predictions()
    for command in COMMANDS:
        assert invoke(command, run).exit_code == 2


def test_probabilities_that_are_none_are_refused_by_the_sweeps(run):
    np.save(run / "pred_probs.npy", np.full((60, 3), np.nan, np.float32))
    with pytest.raises(InputError, match="pred_probs contains NaN at row 0"):
        uqled.find_label_errors(Run.open(run).predictions())


@pytest.mark.parametrize("name", ["labels.npy", "pred_probs.npy", "folds.npy", "truth.npy"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"\x80\x04", None])
def test_files_that_are_no_arrays_are_named(run, name, content):
    path = run / name
    path.write_bytes(path.read_bytes()[:-10] if content is None else content)
    with pytest.raises(FileError, match=f"{name}' (cannot be read|is not an|holds)"):
        Run.open(run).predictions()


@pytest.mark.parametrize("header", [b"{", b"(" * 500, b"{'descr': '<f4', 'shape': (1" + b"0" * 40])
def test_headers_that_python_cannot_parse_are_named(run, header):
    padded = header.ljust(1000)
    content = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded
    (run / "labels.npy").write_bytes(content)
    with pytest.raises(FileError, match=r"labels\.npy' is not an \.npy file"):
        Run.open(run).predictions()


def test_a_header_that_claims_gigabytes_takes_no_memory(run):
    (run / "folds.npy").write_bytes(b"\x93NUMPY\x02\x00" + b"\xff" * 4 + bytes(300))
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"folds\.npy' is not an \.npy file"):
            Run.open(run).predictions()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["run.json", "ids.json", "detection.json"])
@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "null", "[" * 100_000, '{"a": NaN}', "\xff"])
def test_json_of_another_shape_is_named(run, name, text):
    (run / name).write_bytes(text.encode("latin-1"))
    for command in COMMANDS:
        result = invoke(command, run)
        if name == "run.json" and command != "report":
            continue  # whose content only the report shows
        assert result.exit_code == 2, (command, result.output)
        assert f"{name}'" in result.output


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 10**9},
        {"entropy_class": 3},
        {"frac_noise": "1"},
        {"budget": "many"},
        {"budget": 1.5},
        {"precision": [1]},
        {"cost": [1, 2, 3]},
        {"target": 7},
        [],
    ],
)
def test_detection_takes_no_other_options(run, options):
    edit_json(run, "detection.json", method="auto", options=options)
    with pytest.raises(FileError, match=r"detection\.json' "):
        Run.open(run).detection()
    for command in COMMANDS:
        assert invoke(command, run).exit_code == 2


def test_an_unknown_method_is_refused(run):
    edit_json(run, "detection.json", method="../../x", options={})
    for command in ("report", "export"):
        assert invoke(command, run).exit_code == 2


def test_a_pipe_in_a_run_does_not_wait(run):
    (run / "labels.npy").unlink()
    os.mkfifo(run / "labels.npy")
    with pytest.raises(FileError, match="is not a regular file"):
        Run.open(run).predictions()


def test_a_sparse_array_is_not_read_into_memory(run):
    labels = np.lib.format.open_memmap(run / "labels.npy", "w+", np.int64, (2**38,))
    del labels
    with pytest.raises(LimitError, match="limit memory_bytes"):
        Run.open(run).predictions()


def test_limits_hold_for_json(run):
    with override_limits(json_bytes=100), pytest.raises(LimitError, match="UQLED_LIMIT_JSON_BYTES"):
        Run.open(run).predictions()


def test_a_source_is_what_load_writes(original):
    """`SOURCE` names every argument that `load` keeps, and no other."""
    assert load("digits").source.keys() == SOURCE.keys()
    assert Run.open(original).predictions().source.keys() == SOURCE.keys()


def test_data_of_a_finished_fold_must_fit(run):
    np.save(run / "folds" / "0" / "pred_probs.npy", np.zeros((5, 3), np.float32))
    with pytest.raises(FileError, match="has shape \\(5, 3\\), for 60 samples and 3 classes"):
        Run.open(run).write_predictions([np.arange(60)], 3)


def test_folds_have_equally_many_passes(run):
    for fold, passes in ((0, 2), (1, 3)):
        folder = run / "folds" / str(fold)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "passes.npy", np.full((passes, 30, 3), 1 / 3, np.float32))
        np.save(folder / "pred_probs.npy", np.full((30, 3), 1 / 3, np.float32))
    with pytest.raises(FileError, match=r"1.passes.npy' has 3 passes, and fold 0 2"):
        Run.open(run).write_predictions([np.arange(30), np.arange(30, 60)], 3)


def test_labels_cannot_hold_numbers_beyond_their_classes():
    names = ("a", "b")
    for codes in (np.array([0, 2]), np.array([-1, 0]), np.array([[0]]), np.array([0.0])):
        with pytest.raises(InputError, match="labels"):
            uqled.arrays.Labels(codes, np.array(names), names)


@pytest.mark.parametrize("name", ["caf\udce9", "\ud800"])
def test_names_that_no_file_can_hold_are_refused(tmp_path, name):
    """As the system hands over a folder's name in another encoding."""
    with pytest.raises(InputError, match=r"class .* has a name that UTF-8 cannot write"):
        Dataset.from_arrays(np.eye(2), [name, "b"])
    with pytest.raises(InputError, match=r"path .* has a name that UTF-8 cannot write"):
        load(tmp_path / name)
    with pytest.raises(InputError, match=r"path .* has a name that UTF-8 cannot write"):
        Run.begin(tmp_path / name, {})
    assert make_ids([name])[0].encode()


def test_labels_of_other_classes_than_the_columns_are_refused():
    labels = uqled.arrays.Labels(np.array([0, 1, 2]), np.arange(3), ("a", "b", "c"))
    with pytest.raises(InputError, match="has 2 columns, and the labels have 3 classes"):
        uqled.find_label_errors(labels, np.full((3, 2), 0.5))


def test_a_run_in_use_is_refused(tmp_path):
    with (
        Run.hold(tmp_path / "run", {"model": "a"}),
        pytest.raises(BusyError, match="is in use by another process"),
        Run.hold(tmp_path / "run", {"model": "a"}),
    ):
        pass
    with (
        Run.hold(tmp_path / "run", {"model": "a"}),
        pytest.raises(InputError, match="model: 'a' then, 'b' now"),
        Run.hold(tmp_path / "run", {"model": "b"}),
    ):
        pass
    with Run.hold(tmp_path / "run", {"model": "a"}):
        pass  # nobody holds it any more


def test_a_run_is_its_owners(tmp_path):
    Run.begin(tmp_path / "new" / "run", {})
    assert (tmp_path / "new" / "run").stat().st_mode & 0o077 == 0


def test_leftovers_of_a_killed_process_go_and_nothing_else_does(tmp_path):
    run = tmp_path / "run"
    Run.begin(run, {})
    (run / ".uqled-labels-abc.npy").write_bytes(b"half")
    (run / ".mine").write_bytes(b"x")
    (run / "folds").mkdir()
    (run / "folds" / ".uqled-passes-1.npy").write_bytes(b"half")
    Run.begin(run, {})
    assert {p.name for p in run.rglob("*")} == {"run.json", ".mine", "folds"}
