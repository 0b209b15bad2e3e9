"""Detection in parts: the same flags as in one piece, to the sample, and nothing is lost."""

from __future__ import annotations

import json
import time
from functools import reduce
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq
from typer.testing import CliRunner

from part_arrays import COLUMNS, make_inputs
from uqled.answer import describe_answer
from uqled.cli import app
from uqled.detect.auto import evidence as auto_evidence
from uqled.detect.core import cuts as cuts_module
from uqled.detect.core.cuts import GroupedSamples, find_cuts, keys_to_values, values_to_keys
from uqled.detect.core.kernels import compiled, plain
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.find import find_label_errors
from uqled.detect.parts.prepare import ErrorsInParts, cut_in_parts, find_label_errors_in_parts
from uqled.detect.parts.tasks import merge_results
from uqled.errors import FileError, InputError
from uqled.storage.arrays.shards import open_shards

# -- the best of each group -----------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10_000),
    st.booleans(),
    st.integers(1, 4),
    st.sampled_from([1, 2**20]),
    st.sampled_from([-1, 20, 2**18]),
    st.sampled_from([compiled, plain]),
)
def test_cuts_are_those_of_sorting(
    seed: int, ties: bool, places: int, room: int, n_few: int, kernels: ModuleType
) -> None:
    rng = np.random.default_rng(seed)
    G, n = int(rng.integers(1, 6)), int(rng.integers(0, 150))
    group = rng.integers(0, G, n)
    values = rng.integers(-3, 4, n) / 3.0 if ties else rng.random(n) * 2 - 1
    index = np.unique(rng.integers(0, 10**9, n))
    group, values = group[: len(index)], values[: len(index)]
    quotas = rng.integers(0, 60, G).astype(np.int64)
    offers = [
        GroupedSamples(group[k::places], values_to_keys(values[k::places]), index[k::places])
        for k in range(places)
    ]
    with (
        mock.patch.object(cuts_module, "_COUNTS", room),  # few ranges or many
        mock.patch.object(cuts_module, "_SAMPLES", n_few),  # that are sent never, late or at once
    ):
        cuts = find_cuts(
            quotas, lambda c: reduce(merge_results, [c.count_samples(o, kernels) for o in offers])
        )
    result = set[int]().union(*(o.index[cuts.select(o)].tolist() for o in offers))
    expected: set[int] = set()
    for g in range(G):
        mine = np.flatnonzero(group == g)
        best = mine[np.lexsort((index[mine], -values[mine]))][: quotas[g]]
        expected |= set(index[best].tolist())
        if 0 < quotas[g] <= len(mine):
            assert cuts.get_lower_bounds()[g] <= values[best].min()
        elif quotas[g]:
            assert cuts.get_lower_bounds()[g] == -np.inf
    assert result == expected


def test_keys_go_back_to_values() -> None:
    values = np.array([-1.0, -1e-300, 0.0, 5e-324, 0.3, 1.0])
    assert keys_to_values(values_to_keys(values)).tolist() == values.tolist()
    assert values_to_keys(np.array([-0.0])) == values_to_keys(np.array([0.0]))


# -- the same as in one piece ---------------------------------------------------------------------


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize(
    ("seed", "ties", "part_rows", "workers", "entropy_class", "K"),
    [
        (0, False, 7, 1, "candidate", 5),
        (1, True, 100, 2, "given", 5),
        (2, True, 1, 2, "candidate", 5),
        (3, False, 299, 3, "given", 12),  # more than `auto` has candidates
        (4, False, 1000, 1, "candidate", 5),
        (5, True, 50, 2, "candidate", 300),  # more than a full matrix is kept of
    ],
)
def test_every_flag_and_column_is_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    ties: bool,
    part_rows: int,
    workers: int,
    entropy_class: Any,
    K: int,
) -> None:
    monkeypatch.setattr(auto_evidence, "PAIR_CLASSES", 256)
    labels, softmax, passes = make_inputs(seed, ties=ties, N=60 if part_rows == 1 else 300, K=K)
    in_memory = find_label_errors(
        labels, softmax, passes, method="all", entropy_class=entropy_class
    )
    errors = find_label_errors_in_parts(
        labels, softmax, passes, out=tmp_path / "out", method="all", entropy_class=entropy_class,
        part_rows=part_rows, workers=workers,
    )  # fmt: skip
    table = pd.concat(errors.frames(), ignore_index=True)
    assert set(errors.about["flagged"]) == set(in_memory.by_method)
    for name, number in errors.about["flagged"].items():
        assert (table[name].to_numpy() == in_memory.by_method[name].mask).all(), name
        assert number == in_memory.by_method[name].n_flagged
    one = in_memory.by_method[errors.method]
    for column in COLUMNS:
        assert (table[column].to_numpy() == one.to_frame()[column].to_numpy()).all(), column
    assert (errors.joint == one.joint).all()
    assert (errors.read_flag_table()["index"].to_numpy() == one.ranked).all()
    assert (errors.mask() == one.mask).all()
    assert errors.table().count_rows() == len(labels)
    confused_pairs = [tuple(pair) for pair in errors.about["confused"]]
    assert confused_pairs == one.confused_pairs()[: len(confused_pairs)]
    assert len(confused_pairs) >= min(len(one.confused_pairs()), 20)
    assert errors.summary().splitlines()[:3] == describe_answer(in_memory.answer).splitlines()[:3]
    assert [(tier.name, tier.n_samples) for tier in errors.answer.tiers] == [
        (tier.name, tier.n_samples) for tier in in_memory.answer.tiers
    ]
    for tier, expected in zip(errors.answer.tiers, in_memory.answer.tiers, strict=True):
        assert vars(tier.precision) == pytest.approx(vars(expected.precision), abs=1e-6)
    assert not (tmp_path / "out" / "work").exists()


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("entropy_class", ["candidate", "given"])
def test_every_limit_of_uncertainty_is_the_same(tmp_path: Path, entropy_class: Any) -> None:
    names = ["cl-mcd-sd", "cl-mcd-e", "cl-mcd-m", "cl-mcd-mi", "cl-mcd-vr"]
    labels, _, passes = make_inputs(6)
    options = {"method": names, "entropy_class": entropy_class}
    expected = find_label_errors(labels, None, passes, **options)
    parts = find_label_errors_in_parts(
        labels, None, passes, out=tmp_path / "out", part_rows=41, **options
    )
    table = pd.concat(parts.frames(), ignore_index=True)
    for name in names:
        assert (table[name].to_numpy() == expected.by_method[name].mask).all(), name
    assert (parts.joint == expected.joint).all()
    assert parts.method == expected.method == "cl-mcd-sd"


@pytest.mark.parametrize(
    "point",
    [{"precision": 0.8}, {"recall": 0.7}, {"budget": 17}, {"cost": (1, 4)}, {"precision": 1.0}],
)
@pytest.mark.parametrize("with_passes", [True, False])
def test_operating_points_of_auto(tmp_path: Path, point: Any, with_passes: bool) -> None:
    labels, softmax, passes = make_inputs(11)
    inputs = labels, softmax, passes if with_passes else None
    expected = find_label_errors(*inputs, **point)
    errors = find_label_errors_in_parts(*inputs, out=tmp_path / "out", part_rows=64, **point)
    assert (errors.mask() == expected.mask).all()
    assert errors.summary().splitlines()[:3] == describe_answer(expected.answer).splitlines()[:3]
    with pytest.raises(InputError, match="gives no probabilities"):
        find_label_errors_in_parts(*inputs, out=tmp_path / "x", method="cl-pbnr", **point)


def test_a_model_at_chance_gives_no_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels, probs = rng.integers(4, size=2_000), rng.dirichlet(np.ones(4), 2_000)
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "probs.npy", probs)
    for method in ("auto", "cl-pbnr"):
        files = tmp_path / "labels.npy", tmp_path / "probs.npy"
        errors = find_label_errors_in_parts(
            *files, out=tmp_path / method, method=method, part_rows=300
        )
        answer = find_label_errors(labels, probs, method=method).answer
        assert errors.answer.is_at_chance
        assert errors.answer.n_errors is None
        assert (errors.answer.unsure, errors.answer.tiers) == (answer.unsure, answer.tiers)
        assert "the number of wrong labels cannot be estimated" in errors.summary()
        assert "labels are wrong (" not in errors.summary()
        assert "labels are wrong (" not in describe_answer(answer)
    np.save(tmp_path / "probs.npy", 0.5 * probs + 0.5 * np.eye(4)[labels])
    errors_of_good_model = find_label_errors_in_parts(
        tmp_path / "labels.npy", tmp_path / "probs.npy", out=tmp_path / "better", part_rows=300
    )
    assert not errors_of_good_model.answer.is_at_chance
    assert errors_of_good_model.answer.n_errors is not None


def test_tiers_do_not_depend_on_how_good_the_model_is_on_one_part(tmp_path: Path) -> None:
    """The first part is nearly all of one class, and the model never predicts its other one."""
    rng = np.random.default_rng(0)
    labels = np.r_[np.zeros(390, int), np.ones(10, int), rng.integers(1, 3, 400)]
    probs = 0.7 * np.eye(3)[labels] + 0.3 * rng.dirichlet(np.ones(3), 800)
    probs[390:400] = [0.9, 0.06, 0.04]
    expected = find_label_errors(labels, probs)
    parts = find_label_errors_in_parts(labels, probs, out=tmp_path / "out", part_rows=400)
    tiers = pd.concat(parts.frames())["tier"].tolist()
    assert tiers == expected.to_frame()["tier"].tolist()
    assert tiers[390:400] == ["probably wrong"] * 10
    assert [one.tier for one in parts.answer.most_suspect[:10]] == ["probably wrong"] * 10


def test_softmax_alone_and_passes_alone(tmp_path: Path) -> None:
    labels, softmax, passes = make_inputs(5)
    for method, inputs in (("cl-pbnr", (softmax, None)), ("cl-mcd-e", (None, passes))):
        expected = find_label_errors(labels, *inputs, method=method)
        errors = find_label_errors_in_parts(
            labels, *inputs, method=method, out=tmp_path / method, part_rows=41
        )
        assert (errors.mask() == expected.mask).all()


def test_shards_with_names_for_labels(tmp_path: Path, in_shards: Any) -> None:
    arrays, folders = in_shards
    expected = find_label_errors(*arrays)
    errors = find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64)
    assert (errors.mask() == expected.mask).all()
    assert errors.about["classes"] == ["ant", "bee", "cat", "dog", "eel"]
    again = ErrorsInParts.open(tmp_path / "out")
    assert (
        again.read_flag_table()["given_label"].tolist() == expected.given[expected.ranked].tolist()
    )
    assert "auto" in repr(again)
    assert again.table().count_rows() == len(expected.mask)
    result = tmp_path / "out" / "result.json"
    content = json.loads(result.read_text())
    result.write_text(json.dumps(content | {"samples": content["samples"] + 1}))
    with pytest.raises(FileError, match=r"issues' has .* rows for .* samples"):
        ErrorsInParts.open(tmp_path / "out").mask()
    result.write_text(json.dumps(content))
    part = tmp_path / "out" / "issues" / "000001.parquet"
    part.write_bytes(part.read_bytes()[:-40])
    with pytest.raises(FileError, match=r"issues' cannot be read .*000001\.parquet"):
        again.table()
    part.unlink()
    with pytest.raises(FileError, match=r"issues' cannot be read \(it has .* rows for .* samples"):
        again.table()


def test_a_finished_detection_is_not_repeated(tmp_path: Path, in_shards: Any) -> None:
    _, folders = in_shards
    find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}
    find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64, workers=1)
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert before == after


def test_another_detection_in_the_same_folder_is_refused(tmp_path: Path, in_shards: Any) -> None:
    _, folders = in_shards
    find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64)
    with pytest.raises(InputError, match="different entropy_class"):
        find_label_errors_in_parts(
            *folders, out=tmp_path / "out", part_rows=64, entropy_class="given"
        )
    time.sleep(0.01)
    np.save(tmp_path / "labels" / "part-1.npy", np.load(tmp_path / "labels" / "part-1.npy")[::-1])
    with pytest.raises(InputError, match="different labels"):
        find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    labels, softmax, _ = make_inputs(7)
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a detection"):
        find_label_errors_in_parts(labels, softmax, method="cl-pbnr", out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["diary.txt"]


def test_a_bad_row_is_named_by_its_place_in_the_whole(tmp_path: Path) -> None:
    labels, softmax, passes = make_inputs(8)
    softmax[212] *= 2
    with pytest.raises(InputError, match="row 212"):
        find_label_errors_in_parts(
            labels, softmax, out=tmp_path / "a", method="cl-pbnr", part_rows=50
        )
    passes[1, 133, 0] = np.nan
    with pytest.raises(InputError, match="pass 1, row 133"):
        find_label_errors_in_parts(
            labels, None, passes, out=tmp_path / "b", method="cl-mcd", part_rows=50
        )
    assert not (tmp_path / "a" / "result.json").exists()
    with pytest.raises(FileError, match="not finished"):
        ErrorsInParts.open(tmp_path / "a")


def test_labels_out_of_range_and_one_class(tmp_path: Path) -> None:
    labels, softmax, _ = make_inputs(9)
    with pytest.raises(InputError, match="contain one class only"):
        find_label_errors_in_parts(
            labels * 0, softmax, out=tmp_path / "a", method="cl-pbnr", part_rows=50
        )
    labels[250] = 9
    with pytest.raises(InputError, match=r"labels.*9"):
        find_label_errors_in_parts(
            labels, softmax, out=tmp_path / "b", method="cl-pbnr", part_rows=50
        )


def test_a_shard_cut_short_is_named_and_nothing_is_written(tmp_path: Path, in_shards: Any) -> None:
    _, folders = in_shards
    file = tmp_path / "passes" / "part-1.npy"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(FileError, match=r"part-1\.npy"):
        find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64)
    assert not (tmp_path / "out").exists()


# -- found by review ------------------------------------------------------------------------------


def test_columns_name_the_classes_in_their_order(tmp_path: Path) -> None:
    labels, softmax, _ = make_inputs(12, K=3)
    names = ["ship", "cat", "dog"]
    (tmp_path / "probs").mkdir()
    for k, rows in enumerate(np.array_split(softmax, 3)):
        pd.DataFrame(rows, columns=names).to_parquet(tmp_path / "probs" / f"part-{k}.parquet")
    label_names = np.array(names)[labels]
    np.save(tmp_path / "labels.npy", label_names)
    expected = find_label_errors(label_names, softmax, method="cl-pbnr", classes=names)
    errors = find_label_errors_in_parts(
        tmp_path / "labels.npy", tmp_path / "probs", out=tmp_path / "out", method="cl-pbnr"
    )
    assert errors.about["classes"] == names
    assert (errors.mask() == expected.mask).all()


def test_a_point_that_differs_a_little_is_another(tmp_path: Path, in_shards: Any) -> None:
    _, folders = in_shards
    find_label_errors_in_parts(*folders, out=tmp_path / "out", precision=0.95)
    with pytest.raises(InputError, match="different point"):
        find_label_errors_in_parts(*folders, out=tmp_path / "out", precision=0.9500001)


def test_a_missing_label_is_named(tmp_path: Path) -> None:
    labels, softmax, _ = make_inputs(13)
    texts = np.array(list("abcde"), object)[labels]
    texts[123] = None
    with pytest.raises(InputError, match="labels"):
        find_label_errors_in_parts(texts, softmax, out=tmp_path / "out", part_rows=100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-precision", "7"], "precision"),
        (["--workers", "0"], "workers"),
        (["--ray-address", "auto"], "--ray-address is for Ray only"),
        (["--engine", "spark"], "engine is 'spark'"),
        (["--memory", "0.001"], "memory makes a plan of"),
        (["--method", "cl-pbnr", "--budget", "3"], "gives no probabilities"),
    ],
)
def test_the_command_line_refuses(
    tmp_path: Path, in_shards: Any, options: list[str], message: str
) -> None:
    _, (labels, probs, passes) = in_shards
    files = ["--labels", str(labels), "--pred-probs", str(probs), "--passes", str(passes)]
    result = CliRunner().invoke(app, ["detect", *files, "--out", str(tmp_path / "out"), *options])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [["--plan"], ["--engine", "local"], ["--part-rows", "9"]])
def test_a_table_is_not_written_in_parts(tmp_path: Path, in_shards: Any, option: list[str]) -> None:
    _, (labels, probs, _) = in_shards
    files = ["--labels", str(labels), "--pred-probs", str(probs)]
    result = CliRunner().invoke(app, ["detect", *files, "--out", str(tmp_path / "x.csv"), *option])
    assert result.exit_code == 2
    assert "is not in parts" in result.stderr
    assert not (tmp_path / "x.csv").exists()


def test_the_command_line_plans_and_detects(tmp_path: Path, in_shards: Any) -> None:
    arrays, (labels, probs, passes) = in_shards
    files = ["--labels", str(labels), "--pred-probs", str(probs), "--passes", str(passes)]
    command = ["detect", *files, "--out", str(tmp_path / "out")]
    plan = CliRunner().invoke(app, [*command, "--plan"])
    assert plan.exit_code == 0, plan.output
    assert "to read: " in plan.output
    assert "memory: " in plan.output
    assert not (tmp_path / "out").exists()
    for _ in range(2):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert (
            describe_answer(find_label_errors(*arrays).answer).splitlines()[:3]
            == (result.output.splitlines()[:3])
        )


def test_labels_of_another_column_are_refused_where_they_lie(tmp_path: Path) -> None:
    _, softmax, passes = make_inputs(3)
    numbers = np.array([f"sample {z}" for z in range(300)])
    with pytest.raises(InputError, match=r"50 different values from row 0 on, but .* 5 columns"):
        find_label_errors_in_parts(numbers, softmax, passes, out=tmp_path / "out", part_rows=50)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("classes", "group", "N", "size"),
    [
        (10, 1 << 20, 1 << 20, 1 << 20 >> 4),  # short rows: what is read again does not matter
        (400, 1, 400_000, 25_000),  # no groups
        (400, 4_000, 400_000, 24_000),  # small groups, whole
        (400, 50_000, 400_000, 50_000),  # each for itself
        (400, 400_000, 400_000, 100_000),  # cut in four, not in sixteen
        (400, 100_001, 400_000, 25_001),
        (400, 3_000_000, 30_000_000, 750_000),  # a part would be too large
    ],
)
def test_parts_begin_where_row_groups_do(classes: int, group: int, N: int, size: int) -> None:
    rows = SimpleNamespace(
        shape=(N, classes), row_bytes=4 * classes, chunk_rows=1, sector_rows=1, group_rows=group
    )
    parts = cut_in_parts([rows], None)  # type: ignore[list-item]
    assert {part.stop - part.start for part in parts[:-1]} <= {size}
    assert parts[0].stop == size
    assert [part.start for part in parts] == list(range(0, N, size))
    assert parts[-1].stop == N


def test_a_parquet_file_tells_its_row_groups(tmp_path: Path) -> None:
    _, softmax, _ = make_inputs(0)
    table = pa.table({f"p{k}": softmax[:, k] for k in range(softmax.shape[1])})
    pq.write_table(table, tmp_path / "probs.parquet", row_group_size=70)
    rows = ProbabilityRows(
        open_shards(tmp_path / "probs.parquet", ndim=2, name="pred_probs"),
        name="pred_probs",
        ndim=2,
    )
    assert rows.group_rows == 70
    assert ProbabilityRows(softmax, name="pred_probs", ndim=2).group_rows == 1
