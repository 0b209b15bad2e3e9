"""Detection in parts where nothing is local: shards and the result are in an object store."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from part_arrays import COLUMNS, make_inputs
from stores import s3_address
from uqled.cli import app
from uqled.detect.find import find_label_errors
from uqled.detect.parts.prepare import ErrorsInParts, find_label_errors_in_parts
from uqled.errors import FileError, InputError
from uqled.storage.location import Location

pytest.importorskip("s3fs")
NAMES = np.array(["ant", "bee", "cat", "dog", "eel"])


@pytest.fixture(scope="module")
def bucket():
    with s3_address() as address:
        yield Location.of(address)


@pytest.fixture(scope="module")
def upload(bucket: Location) -> Any:
    """(arrays, addresses): labels as names, softmax in `.npy` shards, a folder for each pass."""
    labels, softmax, passes = make_inputs(11)
    _upload(bucket / "labels", NAMES[labels], [110])
    _upload(bucket / "probs", softmax, [60, 200])
    for f, one in enumerate(passes):
        _upload(bucket / "passes" / str(f), one, [150])
    addresses = [str(bucket / name) for name in ("labels", "probs", "passes")]
    return (NAMES[labels], softmax, passes), addresses


def _upload(folder: Location, array: Any, cuts: list[int]) -> None:
    for k, part in enumerate(np.split(array, cuts)):
        file = io.BytesIO()
        np.save(file, part)
        (folder / f"part-{k}.npy").write(file.getvalue())


def test_all_of_it_in_the_store(bucket: Location, upload: Any) -> None:
    arrays, addresses = upload
    out = bucket / "out-all"
    errors = find_label_errors_in_parts(*addresses, out=str(out), method="all", part_rows=64)
    expected = find_label_errors(*arrays, method="all")
    one = expected.by_method[errors.method]
    table = errors.table().to_table().to_pandas().sort_values("index", ignore_index=True)
    assert len(table) == 300
    for name, number in errors.about["flagged"].items():
        assert (table[name].to_numpy() == expected.by_method[name].mask).all(), name
        assert number == expected.by_method[name].n_flagged > 0
    for column in COLUMNS:
        assert (table[column].to_numpy() == one.to_frame()[column].to_numpy()).all(), column
    assert (errors.joint == one.joint).all()
    names = sorted(entry.name for entry in out.tree())
    assert names == [
        "detection.json", *(f"issues/{k:06d}.parquet" for k in range(5)), "joint.npz", "result.json"
    ]  # fmt: skip
    assert json.loads((out / "result.json").read())["flagged"][errors.method] == one.n_flagged


def test_a_repeated_call_finds_it_finished(
    bucket: Location, upload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays, addresses = upload
    out = bucket / "out-again"
    find_label_errors_in_parts(*addresses, out=str(out), part_rows=64, workers=2, method="alg-ens")
    with monkeypatch.context() as patch:
        patch.setattr(type(out), "write", _refuse)
        errors = find_label_errors_in_parts(
            *addresses, out=str(out), part_rows=64, workers=1, method="alg-ens"
        )
    assert (errors.mask() == find_label_errors(*arrays, method="alg-ens").mask).all()
    with pytest.raises(InputError, match="different entropy_class"):
        find_label_errors_in_parts(
            *addresses, out=str(out), part_rows=64, entropy_class="given", method="alg-ens"
        )


def _refuse(place: Location, _: bytes) -> None:
    raise AssertionError(f"{place} is written")


def test_zarr_in_the_store(bucket: Location, upload: Any) -> None:
    import zarr

    (labels, softmax, passes), addresses = upload
    for name, array, chunks in (("p.zarr", softmax, (64, 5)), ("f.zarr", passes, (1, 64, 5))):
        stored_array = zarr.create_array(
            str(bucket / name), shape=array.shape, chunks=chunks, dtype=array.dtype
        )
        stored_array[...] = array
    errors = find_label_errors_in_parts(
        addresses[0],
        str(bucket / "p.zarr"),
        str(bucket / "f.zarr"),
        out=str(bucket / "out-zarr"),
        method="alg-ens",
    )
    expected = find_label_errors(labels, softmax, passes, method="alg-ens")
    assert (errors.mask() == expected.mask).all()
    flags = errors.read_flag_table()
    assert flags["suggested_label"].tolist() == expected.suggested[expected.ranked].tolist()


def test_a_detection_that_stopped_continues(
    bucket: Location, upload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from uqled.detect.core.sweeps import Sweeps
    from uqled.detect.parts import tasks as parts

    arrays, addresses = upload
    out = bucket / "out-stopped"

    def lose(*_: Any) -> Any:
        raise ConnectionError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(parts, "select_part_samples", lose)
        with pytest.raises(ConnectionError):
            find_label_errors_in_parts(*addresses, out=str(out), part_rows=64, method="alg-ens")
    with pytest.raises(FileError, match="not finished"):
        ErrorsInParts.open(str(out))
    work_files = {entry.name for entry in out.tree() if entry.name.startswith("work/")}
    assert work_files == {f"work/{k:06d}-sweep-{s}.bin" for k in range(5) for s in (1, 2)}
    with monkeypatch.context() as patch:
        patch.setattr(Sweeps, "collect_class_statistics", lose)  # not a second time
        patch.setattr(Sweeps, "count_confident_joints", lose)
        errors = find_label_errors_in_parts(
            *addresses, out=str(out), part_rows=64, method="alg-ens"
        )
    assert (errors.mask() == find_label_errors(*arrays, method="alg-ens").mask).all()


def test_a_shard_that_is_missing_is_named(bucket: Location, upload: Any) -> None:
    (labels, softmax, _), _ = upload
    _upload(bucket / "gap" / "labels", labels, [])
    _upload(bucket / "gap" / "probs", softmax, [60, 100, 200])
    (bucket / "gap" / "probs" / "part-2.npy").remove()
    with pytest.raises(FileError, match=r"part-2\.npy"):
        find_label_errors_in_parts(
            str(bucket / "gap" / "labels"),
            str(bucket / "gap" / "probs"),
            method="cl-pbnr",
            out=str(bucket / "out-gap"),
        )
    assert not (bucket / "out-gap").exists()


def test_the_command(bucket: Location, upload: Any) -> None:
    arrays, (labels, probs, passes) = upload
    out = str(bucket / "out-command")
    inputs = ["--labels", labels, "--pred-probs", probs, "--passes", passes]
    words = ["detect", *inputs, "--method", "alg-ens", "--out", out]
    plan = CliRunner().invoke(app, [*words, "--plan"])
    assert plan.exit_code == 0, plan.output
    assert "to read" in plan.output
    assert not Location.of(out).exists()
    command_result = CliRunner().invoke(app, words)
    assert command_result.exit_code == 0, command_result.output
    expected = find_label_errors(*arrays, method="alg-ens")
    assert f"{expected.n_flagged:,} of 300 labels flagged" in command_result.output
    table = pd.concat(ErrorsInParts.open(out).frames(), ignore_index=True)
    assert (table["is_label_issue"].to_numpy() == expected.mask).all()
