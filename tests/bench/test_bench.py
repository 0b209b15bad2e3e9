"""The two-stage benchmark: metrics against scikit-learn, suites, and `smoke` from end to end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import uqled
from bench_frames import SMALLEST, suite_of
from uqled.bench.cell_graph import (
    describe_cell,
    list_needed_cells,
    list_stage1_cells,
    list_stage2_cells,
    list_unfinished_cells,
)
from uqled.bench.cells import Cell, Cells
from uqled.bench.cost_estimate import estimate_benchmark_cost
from uqled.bench.method_flags import compute_flags, pack_flags, unpack_flags
from uqled.bench.results.collection import collect_results
from uqled.bench.runner import Benchmark, run_benchmark, write_tables
from uqled.bench.suite import list_builtin_suites, read_suite
from uqled.bench.workers import Workers
from uqled.cli import app

# -- suites ---------------------------------------------------------------------------------------


def test_builtin_suites_are_readable():
    assert list_builtin_suites() == ["laptop", "paper", "smoke"]
    for name in list_builtin_suites():
        assert read_suite(name).name == name
    paper = read_suite("paper")
    assert paper.rates == (0.05, 0.1, 0.2)
    assert [d.model for d in paper.data] == ["vgg11", "resnet50", "resnet50", "resnet50"]
    assert (paper.passes, paper.folds) == (5, 4)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("rates = [0.1]", "rates = [1.5]", "rates"),
        ("rates = [0.1]", "ratez = [0.1]", "ratez is not an option of suite"),
        ('place = "digits"\n', "", "place is missing in data"),
        ('"cl-mcd"]', '"cl-magic"]', "'cl-magic'"),
        ('"cl-mcd"]', '"nowhere:nothing"]', "cannot be imported"),
        ("folds = 2", "folds = 1", "folds"),
        ('methods = ["cl-pbnr"]', 'methods = ["cl-mcd-e"]', "stage2.methods"),
        ('methods = ["cl-pbnr"]', 'seeds = { "0.3" = [0] }', "stage2.seeds"),
        ("rates = [0.1]", 'noise = { kind = "loud" }', "'loud'"),
        ("rates = [0.1]", "rates = [0.1", "is not valid TOML"),
        ("rates = [0.1]", "rates = 0.1", "rates is 0.1. Write a list"),
        ("rates = [0.1]", "rates = [0.1, 0.1]", "Name each once"),
        ("rates = [0.1]", 'noise = "similarity"', "noise is 'similarity'. Write a table"),
        ("seeds = [0]", "seeds = 3", "seeds is 3"),
        ("[stage2]\n", "stage2 = true\n[other]\n", "stage2 is True"),
        ('methods = ["cl-pbnr"]', 'seeds = { "0.1" = 0 }', "stage2.seeds of 0.1 is 0"),
        ('["cl-pbnr", "cl-mcd"]', "[1]", "1"),
        ('["cl-pbnr", "cl-mcd"]', '["cl-mcd"]', "lack 'cl-pbnr'"),
        ('model = "logistic"', "training = 3", "training is 3"),
    ],
)
def test_bad_suites_are_refused(tmp_path, old, new, problem):
    assert old in SMALLEST
    with pytest.raises(uqled.UqledError, match=problem.replace("[", r"\[")):
        suite_of(tmp_path, SMALLEST.replace(old, new))


def test_unknown_suite_and_missing_data(tmp_path):
    result = CliRunner().invoke(app, ["bench", "huge", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "laptop, paper, smoke" in result.output
    text = SMALLEST.replace('place = "digits"', 'place = "nowhere"')
    with pytest.raises(uqled.FileError, match="nowhere"):
        run_benchmark(
            Benchmark(suite_of(tmp_path, text), tmp_path, tmp_path / "out"), workers=Workers(1)
        )
    assert (
        "unknown: data missing"
        in estimate_benchmark_cost(
            Benchmark(suite_of(tmp_path, text), tmp_path, tmp_path / "out")
        ).text()
    )


# -- the matrix -----------------------------------------------------------------------------------


def test_the_paper_has_so_many_cells():
    suite = read_suite("paper")
    assert len(list_stage1_cells(suite)) == 4 * 3 * 3
    methods, treatments = 6, 1  # removal alone, as in the paper
    trainings = 4 * (3 + 3 * 3 * (1 + methods * treatments))
    assert len(list_stage2_cells(suite, suite.methods)) == trainings
    todo = list_unfinished_cells(suite, Cells(Path(os.devnull)), list_stage1_cells(suite))
    assert len(todo) == 4 * 3 + 4 * 3 * 3 * (4 + 1)  # pre-trainings, folds and detections
    done_cells: set[Cell] = set()
    for cell in todo:
        assert set(list_needed_cells(suite, cell)) <= done_cells
        done_cells.add(cell)
    assert len({cell.name for cell in todo}) == len(todo)


def test_flags_survive_packing():
    rng = np.random.default_rng(0)
    labels, _, _ = make_results(rng, 101)
    flags = compute_flags(["cl-pbnr", "cl-mcd", "argmax"], *make_results(rng, 101))
    again = unpack_flags(pack_flags(flags))
    assert list(again) == list(flags)
    for name, one in flags.items():
        assert np.array_equal(again[name].mask, one.mask)
        assert np.array_equal(again[name].best, one.best)
    assert len(pack_flags(flags)["suggested"]) == 2  # of the softmax, of the mean
    assert len(labels) == 101


def make_results(rng: np.random.Generator, n: int):
    passes = rng.dirichlet(np.full(4, 0.3), size=(3, n))
    probs = rng.dirichlet(np.full(4, 0.3), size=n)
    labels = uqled.arrays.encode_labels(rng.integers(0, 4, n), n_classes=4)
    return labels, probs, passes


def test_both_readings_of_the_entropy_threshold():
    labels, probs, passes = make_results(np.random.default_rng(1), 400)
    result = compute_flags(["cl-mcd-e", "cl-mcd-e-given"], labels, probs, passes)
    for name, reading in (("cl-mcd-e", "candidate"), ("cl-mcd-e-given", "given")):
        expected = uqled.find_label_errors(
            labels, probs, passes, method="cl-mcd-e", entropy_class=reading
        )
        assert np.array_equal(result[name].mask, expected.mask)
    assert not np.array_equal(result["cl-mcd-e"].mask, result["cl-mcd-e-given"].mask)


# -- from end to end ------------------------------------------------------------------------------


def list_cells(folder: Path) -> dict[str, str]:
    """What the cells found, and everything else that is written for a reader."""
    cells = {
        str(path.relative_to(folder)): json.dumps(json.loads(path.read_text())["found"])
        for path in (folder / "cells").rglob("*.json")
    }
    tables = {path.name: path.read_text() for path in folder.glob("*.csv")}
    return cells | tables


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("smoke")
    suite = read_suite("smoke")
    results, result_files = run_benchmark(
        Benchmark(suite, out, out, keep_all_methods=True), workers=Workers(1), progress=False
    )
    return suite, out, results, result_files


def test_smoke_has_every_cell(smoke):
    suite, out, results, result_files = smoke
    cells = Cells(out)
    expected = [*list_stage1_cells(suite), *list_stage2_cells(suite, suite.methods)]
    assert not list_unfinished_cells(suite, cells, expected)
    assert len(results.stage1) == 2 * 2 * len(suite.methods)
    assert len(results.pilot) == len(results.stage1)
    assert len(results.stage2) == len(list_stage2_cells(suite, suite.methods))
    assert len(results.initial) == 2
    assert list(results.matrices["Digits"]) == [0.1, 0.2]
    assert (results.stage1["wrong"] == (results.stage1["rate"] * 210).round()).all()
    removals = results.stage2.query("treatment == 'remove'")
    assert (removals["trained_on"] + removals["changed"] == 210).all()
    relabellings = results.stage2.query("treatment == 'relabel'")
    assert (relabellings["trained_on"] == 210).all()
    assert len(relabellings) == 6
    assert {path.name for path in result_files} >= {"stage1.md", "stage2.csv", "results.html"}
    assert not list((out / "work").rglob("*.pt"))


def test_noise_makes_the_network_worse_and_detection_beats_chance(smoke):
    results = smoke[2]
    assert results.initial["accuracy"].mean() > 0.7
    share = results.stage1["wrong"] / results.stage1["n"]
    assert (results.stage1["precision"] > 2 * share).mean() > 0.7


def test_stage1_is_what_cross_validation_would_find(smoke):
    """The same flags as from the public functions, fed with the fold's arrays."""
    suite, out, results, _ = smoke
    cells = Cells(out)
    cell = list_stage1_cells(suite)[0]
    arrays = cells.read_arrays(cell)
    given_labels = arrays["given"].astype(int)
    labels = uqled.arrays.encode_labels(given_labels, n_classes=10)
    from uqled.predict.crossval import split_stratified

    parts = split_stratified(labels, suite.folds, seed=cell.seed)
    probs, passes = np.empty((210, 10)), np.empty((3, 210, 10))
    for part, fold in zip(parts, list_needed_cells(suite, cell), strict=True):
        probs[part] = cells.read_arrays(fold)["pred_probs"]
        passes[:, part] = cells.read_arrays(fold)["passes"]
    errors = uqled.find_label_errors(given_labels, probs, passes, method="alg-ens", agreement=2)
    flags = unpack_flags(arrays)["alg-ens-2"]
    assert np.array_equal(errors.mask, flags.mask)
    row = results.stage1.query("seed == 0 and rate == 0.1 and method == 'alg-ens-2'")
    assert int(row["flagged"].iloc[0]) == errors.n_flagged


def test_a_killed_benchmark_continues_to_the_same_tables(smoke, tmp_path):
    """One of its two seeds is computed again, every kind of cell among it."""
    out = tmp_path / "killed"
    shutil.copytree(smoke[1], out)
    for folder in ("cells", "arrays"):
        shutil.rmtree(out / folder / "digits" / "seed-1")
    n_cells = len(list_cells(smoke[1]))
    n_copied = len(list_cells(out))
    assert n_copied < 0.7 * n_cells
    command = [sys.executable, "-m", "uqled", "bench", "smoke", "--out", str(out), "--all"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(
        [*command, "--jobs", "2"], env=environment, stderr=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 400
    cells = out / "cells"
    while len(list(cells.rglob("[!.]*.json"))) < n_copied + 5 and time.monotonic() < deadline:
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = {path: path.stat().st_mtime_ns for path in cells.rglob("[!.]*.json")}
    assert n_copied + 5 <= len(before) < n_cells
    arguments = [*command[3:], "--jobs", "1"]  # here, where everything is loaded
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    for path, time_of_writing in before.items():
        assert path.stat().st_mtime_ns == time_of_writing, f"{path} was computed again"
    assert list_cells(out) == list_cells(smoke[1])


def test_cells_made_elsewhere_are_merged(smoke, tmp_path):
    suite, out, _, _ = smoke
    merged = Cells(tmp_path / "merged")
    assert merged.merge(out) == len(list((out / "cells").rglob("*.json")))
    assert merged.merge(out) == 0
    benchmark = Benchmark(suite, tmp_path, tmp_path / "merged", keep_all_methods=True)
    assert estimate_benchmark_cost(benchmark, workers=Workers(1)).seconds == 0
    run_benchmark(benchmark, workers=Workers(1), progress=False)
    assert list_cells(tmp_path / "merged") == list_cells(out)
    with pytest.raises(uqled.InputError, match="holds no cells"):
        merged.merge(tmp_path / "nowhere")


def test_merging_takes_the_arrays_asked_for_and_refuses_other_data(smoke, tmp_path):
    _, out, _, _ = smoke
    small_cells = Cells(tmp_path / "few")
    small_cells.merge(out, arrays_of=("detection",))
    arrays = {path.name for path in (tmp_path / "few" / "arrays").rglob("*.npz")}
    assert arrays == {"detection.npz"}
    assert (tmp_path / "few" / "data" / "digits.json").exists()
    other = Cells(tmp_path / "other")
    other.check_fingerprint("digits", "something else")
    with pytest.raises(uqled.InputError, match="not what the cells"):
        other.merge(out)


def test_tables_come_from_small_cells_alone(smoke, tmp_path):
    """Without the arrays, nothing finished is computed again."""
    suite, out, results, _ = smoke
    small_cells = Cells(tmp_path / "bare")
    small_cells.merge(out)
    for path in (tmp_path / "bare" / "arrays").rglob("*.npz"):
        path.unlink()
    assert not list_unfinished_cells(suite, small_cells, list_stage2_cells(suite, suite.methods))
    assert collect_results(suite, small_cells).stage2.equals(results.stage2)
    # a training that is missing needs its detection again, and that the folds
    missing_cell = Cell("retraining", "digits", 0, 0.2, treatment="noisy")
    (tmp_path / "bare" / "cells" / f"{missing_cell.name}.json").unlink()
    kinds = [cell.kind for cell in list_unfinished_cells(suite, small_cells, [missing_cell])]
    assert kinds == ["pretraining", "fold", "fold", "fold", "detection", "retraining"]


def test_another_configuration_is_refused(smoke):
    suite, out, _, _ = smoke
    other = replace(suite, passes=4)
    with pytest.raises(uqled.InputError, match="passes: 3 then, 4 now"):
        run_benchmark(Benchmark(other, out, out), workers=Workers(1), progress=False)


# -- other shapes of suites -----------------------------------------------------------------------


def test_an_own_method_other_noise_and_cleaning_first(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def doubtful(labels, pred_probs, passes):\n"
        "    scores = passes.mean(axis=0)[np.arange(len(labels)), labels]\n"
        "    return scores < 0.2, scores\n"
        "def broken(labels, pred_probs, passes):\n"
        "    return labels\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = SMALLEST.replace('"cl-mcd"]', '"cl-mcd", "mine:doubtful"]')
    text = text.replace('methods = ["cl-pbnr"]', 'methods = ["mine:doubtful"]\nrelabel = [0.1]')
    for kind in ("symmetric", "instance", "pair"):
        text_with_noise = text.replace("folds = 2", f'folds = 2\nnoise = {{ kind = "{kind}" }}')
        if kind == "symmetric":
            text_with_noise = text_with_noise.replace(
                "folds = 2", 'folds = 2\nclean_first = "argmax"'
            )
        out = tmp_path / kind
        results, _ = run_benchmark(
            Benchmark(suite_of(tmp_path, text_with_noise), tmp_path, out),
            workers=Workers(1),
            progress=False,
        )
        assert set(results.stage1["method"]) == {"cl-pbnr", "cl-mcd", "mine:doubtful"}
        assert results.stage2["treatment"].tolist() == ["clean", "noisy", "remove", "relabel"]
        assert (results.stage1["n"] < 100).all() == (kind == "symmetric")
    broken = suite_of(tmp_path, text.replace("mine:doubtful", "mine:broken"))
    with pytest.raises(uqled.InputError, match="mine:broken"):
        run_benchmark(
            Benchmark(broken, tmp_path, tmp_path / "broken"), workers=Workers(1), progress=False
        )


def test_another_method_costs_no_other_training(tmp_path, monkeypatch):
    (tmp_path / "other.py").write_text("def none(labels, probs, passes):\n    return labels < 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    run_benchmark(Benchmark(suite_of(tmp_path), tmp_path, out), workers=Workers(1), progress=False)
    more = SMALLEST.replace('"cl-mcd"]', '"cl-mcd", "other:none"]')
    more = more.replace('methods = ["cl-pbnr"]', 'methods = ["cl-pbnr", "other:none"]')
    suite = suite_of(tmp_path, more)
    expected = [*list_stage1_cells(suite), *list_stage2_cells(suite, suite.methods)]
    todo = list_unfinished_cells(suite, Cells(out), expected)
    assert [(cell.kind, cell.method) for cell in todo] == [
        ("detection", ""),
        ("retraining", "other:none"),
    ]
    results, _ = run_benchmark(Benchmark(suite, tmp_path, out), workers=Workers(1), progress=False)
    assert results.stage1.set_index("method")["flagged"]["other:none"] == 0
    assert not list_unfinished_cells(suite, Cells(out), expected)
    monkeypatch.setattr(
        "uqled.bench.cell_graph.hash_method_source", lambda name: "new" if ":" in name else None
    )
    with pytest.raises(uqled.InputError, match="source"):  # its retraining is of the old one
        list_unfinished_cells(suite, Cells(out), expected)


def test_other_data_is_refused(tmp_path):
    cells = Cells(tmp_path)
    cells.check_fingerprint("digits", "one")
    cells.check_fingerprint("digits", "one")
    with pytest.raises(uqled.InputError, match="not what the cells"):
        cells.check_fingerprint("digits", "two")


def test_patterns_and_places_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    for more, message in (
        (["--out", str(tmp_path / "file")], "is a file"),
        (["--out", str(tmp_path / "out"), "--only", "nothing*"], "matches no cell"),
    ):
        result = CliRunner().invoke(app, ["bench", "smoke", *more])
        assert result.exit_code == 2
        assert message in result.output


def test_the_pilot_decides_what_stage_2_looks_at(tmp_path):
    text = SMALLEST.replace("folds = 2", "folds = 2\npilot = true")
    text = text.replace('methods = ["cl-pbnr"]', 'methods = ["cl-pbnr", "cl-mcd"]')
    suite = suite_of(tmp_path, text)
    benchmark = Benchmark(suite, tmp_path, tmp_path / "out")
    results, _ = run_benchmark(benchmark, pilot=True, workers=Workers(1), progress=False)
    assert results.stage1.empty
    assert len(results.pilot) == 2
    f1 = results.pilot.set_index("method")["f1"]
    expected = ["cl-pbnr"] + ["cl-mcd"] * bool(f1["cl-mcd"] > f1["cl-pbnr"])
    assert benchmark.list_stage2_methods() == expected
    results, _ = run_benchmark(benchmark, workers=Workers(1), progress=False)
    assert results.stage2.query("method != ''")["method"].tolist() == expected


def test_tables_regenerate_byte_for_byte_from_stored_cells(smoke, tmp_path, monkeypatch):
    """Through the command, without data and arrays, also where cells are still missing."""
    suite, out, _, result_files = smoke
    shutil.copytree(out / "cells", tmp_path / "stored" / "cells")
    monkeypatch.setattr("uqled.bench.runner._compute", None)  # nothing may be computed
    command = ["bench", "smoke", "--out", str(tmp_path / "stored"), "--tables-only"]
    assert CliRunner().invoke(app, command).exit_code == 0
    for path in result_files:
        again = tmp_path / "stored" / path.relative_to(out)
        assert again.read_bytes() == path.read_bytes(), path.name
    shutil.rmtree(tmp_path / "stored" / "cells" / "digits" / "seed-1")
    results, _ = write_tables(Benchmark(suite, tmp_path, tmp_path / "stored"))
    assert set(results.stage1["seed"]) == {0}
    with pytest.raises(uqled.InputError, match="holds no cells"):
        write_tables(Benchmark(suite, tmp_path, tmp_path / "nowhere"))


def test_configurations_tell_cells_apart():
    suite = read_suite("smoke")
    retraining = Cell("retraining", "digits", 0, 0.1, treatment="remove", method="cl-mcd")
    other = Cell("retraining", "digits", 0, 0.1, treatment="remove", method="cl-pbnr")
    assert describe_cell(suite, retraining) != describe_cell(suite, other)
    assert retraining.name == "digits/seed-0/rate-0.1/remove/cl-mcd"


def test_what_is_finished_needs_no_data_to_plan(smoke, tmp_path, monkeypatch):
    suite, out, _, _ = smoke
    cells = Cells(tmp_path / "bare")
    cells.merge(out)
    suite_without_data = replace(suite, data=(replace(suite.data[0], place="nowhere"),))
    monkeypatch.setattr(
        "uqled.bench.cell_graph.describe_cell", lambda _, cell: describe_cell(suite, cell)
    )
    estimate = estimate_benchmark_cost(
        Benchmark(suite_without_data, tmp_path, tmp_path / "bare", keep_all_methods=True),
        workers=Workers(1),
    )
    assert [row.seconds for row in estimate.rows] == [0.0] * len(estimate.rows)
    assert "0 cells to do" in estimate.text()
