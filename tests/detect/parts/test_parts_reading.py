"""Detection in parts past the file cache, and killed in the middle: the same flags."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.find import find_label_errors
from uqled.detect.parts.prepare import find_label_errors_in_parts
from uqled.errors import FileError
from uqled.storage.arrays.shards import open_shards, spare_page_cache

# -- more than the file cache holds ---------------------------------------------------------------


@pytest.fixture
def direct_io(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is read past the file cache, ahead, a few rows at a time."""
    monkeypatch.setattr("uqled.storage.arrays.shards._CACHED_SHARE", 0)
    monkeypatch.setattr("uqled.storage.file_reads._DIRECT_BYTES", 1)
    monkeypatch.setattr("uqled.detect.core.inputs.BLOCK_BYTES", 4 * 5 * 4 * 17)


def test_arrays_are_read_past_the_cache_where_they_are_too_large_for_it_together(
    in_shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folders = in_shards

    def open_inputs() -> list[Any]:
        names = ("labels", "pred_probs", "passes")
        return [
            open_shards(folder, ndim=ndim, name=name)
            for ndim, (folder, name) in enumerate(zip(folders, names, strict=True), start=1)
        ]

    monkeypatch.setattr("uqled.storage.arrays.shards.measure_memory", lambda: 100_000)
    sizes = [array.bytes for array in open_inputs()]
    for most, largest_alone, together in (
        (sum(sizes), [False] * 3, [False] * 3),
        (sum(sizes) - 1, [False] * 3, [True] * 3),
        (max(sizes) - 1, [size == max(sizes) for size in sizes], [True] * 3),
    ):
        monkeypatch.setattr("uqled.storage.arrays.shards._CACHED_SHARE", most / 100_000)
        assert [array.is_slow for array in open_inputs()] == largest_alone
        assert [array.is_slow for array in spare_page_cache(open_inputs())] == together


@pytest.mark.usefixtures("direct_io")
@pytest.mark.parametrize("part_rows", [20, 150, 1000])
def test_reading_ahead_changes_nothing(tmp_path: Path, in_shards: Any, part_rows: int) -> None:
    arrays, folders = in_shards
    expected = find_label_errors(*arrays, method="all")
    errors = find_label_errors_in_parts(
        *folders, out=tmp_path / "out", part_rows=part_rows, method="all"
    )
    table = pd.concat(errors.frames(), ignore_index=True)
    for name, one in expected.by_method.items():
        assert (table[name].to_numpy() == one.mask).all(), name


@pytest.mark.usefixtures("direct_io")
def test_rows_are_read_while_others_are_looked_at(in_shards: Any) -> None:
    (_, softmax, passes), (_, *folders) = in_shards
    sources = zip(("pred_probs", "passes"), folders, (softmax[None], passes), strict=True)
    for ndim, (name, folder, expected) in enumerate(sources, start=2):
        array = open_shards(folder, ndim=ndim, name=name).use_direct_io()
        rows = ProbabilityRows(array, name=name, ndim=ndim, part=(10, 290), sequential=True)
        reads: list[tuple[int, int]] = []
        real = array.read_into

        def note(buffer: Any, start: int, stop: int, real: Any = real, reads: Any = reads) -> None:
            reads.append((start - 10, stop - 10))
            real(buffer, start, stop)

        array.read_into = note  # type: ignore[method-assign]
        for start, stop in [(0, 100), (100, 200), (200, 280), (40, 140), (0, 10)]:
            block = rows.read(start, stop)
            for f, one in enumerate(expected):
                assert (block.get_pass(f) == one[10 + start : 10 + stop]).all()
        # Each block was asked for before its time; what nobody wanted was read for nothing.
        assert reads[:3] == [(0, 100), (100, 200), (200, 280)]
        assert reads[3:6] == [(40, 140), (140, 240), (0, 10)]
        reads.clear()
        rows.begin_reading(20, 120)
        rows.read(20, 120)
        assert reads.count((20, 120)) == 1


@pytest.mark.usefixtures("direct_io")
def test_the_first_block_of_a_part_is_read_while_its_labels_are(
    tmp_path: Path, in_shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_reads: list[str] = []
    real = ProbabilityRows.begin_reading

    def note(rows: ProbabilityRows, start: int, stop: int) -> None:
        started_reads.append(rows.name)
        real(rows, start, stop)

    monkeypatch.setattr(ProbabilityRows, "begin_reading", note)
    _, (labels, probs, passes) = in_shards
    options: dict[str, Any] = {"part_rows": 500, "workers": 1}
    find_label_errors_in_parts(labels, probs, out=tmp_path / "1", method="cl-pbnr", **options)
    assert started_reads == ["pred_probs"] * 3  # once per sweep
    started_reads.clear()
    find_label_errors_in_parts(
        labels, probs, passes, out=tmp_path / "2", method="cl-mcd-e", **options
    )
    assert started_reads == ["passes"] * 3  # nothing that is not used


@pytest.mark.usefixtures("direct_io")
def test_a_shard_that_vanishes_while_it_is_read_ahead_is_named(
    tmp_path: Path, in_shards: Any
) -> None:
    _, (_, probs, _) = in_shards
    array = open_shards(probs, ndim=2, name="pred_probs").use_direct_io()
    rows = ProbabilityRows(array, name="pred_probs", ndim=2, sequential=True)
    (tmp_path / "probs" / "part-1.npy").unlink()
    rows.read(0, 40)
    with pytest.raises(FileError, match=r"part-1\.npy"):
        rows.read(40, 80)


def test_a_forked_child_reads_ahead_too(tmp_path: Path, in_shards: Any) -> None:
    code = """
import os, sys
from uqled.storage.arrays.shards import open_shards, spare_page_cache
from uqled.detect.core.rows import ProbabilityRows
def read():
    array = open_shards(sys.argv[1], ndim=2, name="pred_probs").use_direct_io()
    rows = ProbabilityRows(array, name="pred_probs", ndim=2, sequential=True)
    return [float(rows.read(at, at + 100).get_pass(0).sum()) for at in (0, 100, 200)]
found = read()
child = os.fork()
if child == 0:
    os._exit(0 if read() == found else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    _, (_, probs, _) = in_shards
    command = [sys.executable, "-c", code, str(probs)]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=60).returncode == 0


# -- killed and continued -------------------------------------------------------------------------

_PROGRAM = """
import sys, time
from uqled.detect.parts import prepare as sharded
from importlib import import_module
module, before = {before!r}.split(".")
parts = import_module("uqled.detect.parts." + module)
real = getattr(parts, before)
def slow(*given):
    if given[-1].number == 2:
        print("there", flush=True)
        time.sleep(60)
    return real(*given)
setattr(parts, before, slow)
sharded.find_label_errors_in_parts(*sys.argv[1:4], out=sys.argv[4], part_rows=64,
    workers=1, method="all")
"""


@pytest.mark.parametrize(
    "before",
    ["tasks.count_part_joints", "tasks.select_part_samples", "part_results.write_part_issues"],
)
def test_a_killed_driver_continues(tmp_path: Path, in_shards: Any, before: str) -> None:
    arrays, folders = in_shards
    out = tmp_path / "out"
    command = [sys.executable, "-c", _PROGRAM.format(before=before), *map(str, folders), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "there"
        os.kill(process.pid, signal.SIGKILL)
    times_of_writing = {p: p.stat().st_mtime_ns for p in (out / "work").iterdir()}
    assert times_of_writing
    errors = find_label_errors_in_parts(*folders, out=out, part_rows=64, method="all")
    assert (errors.mask() == find_label_errors(*arrays).mask).all()


def test_what_was_finished_is_not_done_again(
    tmp_path: Path, in_shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from uqled.detect.core.sweeps import Sweeps
    from uqled.detect.parts import tasks as parts

    _, folders = in_shards
    real, swept_parts = Sweeps.collect_class_statistics, []

    def count_sweeps(self: Sweeps, members: Any) -> Any:
        swept_parts.append(self.N)
        return real(self, members)

    def fail(*_: Any) -> Any:
        raise RuntimeError("lost")

    monkeypatch.setattr(Sweeps, "collect_class_statistics", count_sweeps)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "select_part_samples", fail)
        with pytest.raises(RuntimeError, match="lost"):
            find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64, method="all")
    assert sorted(swept_parts) == [44, 64, 64, 64, 64]
    find_label_errors_in_parts(*folders, out=tmp_path / "out", part_rows=64, method="all")
    assert len(swept_parts) == 5


def test_only_what_stays_is_flushed_to_the_disk(
    tmp_path: Path, in_shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intermediate files are checked by their digests: nobody waits for the disk after each."""
    flushed_paths: list[Path] = []
    monkeypatch.setattr("uqled.storage.atomic.flush_to_disk", flushed_paths.append)
    find_label_errors_in_parts(*in_shards[1], out=tmp_path / "out", part_rows=64, method="all")
    folders = {path.parent.name for path in flushed_paths}
    assert "work" not in folders
    assert len([path for path in flushed_paths if path.parent.name == "issues"]) == 5
