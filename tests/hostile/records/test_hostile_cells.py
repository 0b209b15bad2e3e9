"""A benchmark's folder, edited by hand or left by a kill: our own error that names the cell."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import uqled
from bench_frames import SMALLEST
from small_training import StopError
from uqled.bench import cells as cells_module
from uqled.bench import runner, workers
from uqled.bench.cells import Cell, Cells
from uqled.bench.method_flags import Flags, pack_flags, unpack_flags
from uqled.bench.runner import Benchmark, run_benchmark, write_tables
from uqled.bench.suite import read_suite
from uqled.bench.workers import Workers
from uqled.limits import override_limits
from uqled.storage.lock import lock_folder

SUITE = SMALLEST.replace("limit = 200", "limit = 100").replace("[stage2]", "pilot = true\n[stage2]")


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "own.toml"
    path.write_text(SUITE)
    return read_suite(str(path))


@pytest.fixture(scope="module")
def finished_benchmark(suite, tmp_path_factory):
    """A finished benchmark."""
    out = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uqled.bench.results.result_files.write_results", lambda *_: [])
        run(suite, out)
    return out


@pytest.fixture
def folder(finished_benchmark, tmp_path):
    shutil.copytree(finished_benchmark, tmp_path / "bench")
    return tmp_path / "bench"


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """They take seconds, and are made of what was read by then."""
    monkeypatch.setattr("uqled.bench.results.result_files.write_results", lambda *_: [])


def run(suite, folder):
    benchmark = Benchmark(suite, folder, folder, keep_all_methods=True)
    return run_benchmark(benchmark, workers=Workers(1), progress=False)


def list_cells(folder):
    return {
        str(path.relative_to(folder)): json.loads(path.read_text())["found"]
        for path in (folder / "cells").rglob("*.json")
    }


# -- the small files ------------------------------------------------------------------------------

FILES = [
    "cells/digits/seed-0/pretraining.json",
    "cells/digits/seed-0/rate-0.1/detection.json",
    "cells/digits/seed-0/rate-0.1/pilot.json",
    "cells/digits/seed-0/rate-0.1/remove/cl-pbnr.json",
]
BYTES = {
    "empty": b"",
    "truncated": None,
    "a list": b"[]",
    "a number": b"3",
    "nothing": b"null",
    "no keys": b"{}",
    "other kinds": b'{"configuration": [], "found": 3, "made": "x"}',
    "deep": b"[" * 100_000,
    "not UTF-8": b"\xff\xfe\x00",
    "a long number": b'{"configuration": ' + b"9" * 10_000 + b"}",
    "a bomb of nothing": b'{"found": {}, "made": {}, "configuration": {}}',
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", BYTES)
def test_a_damaged_cell_is_named(suite, folder, file, damage):
    path = folder / file
    content = BYTES[damage]
    path.write_bytes(path.read_bytes()[:-30] if content is None else content)
    with pytest.raises(uqled.InputError, match=file.removeprefix("cells/").removesuffix(".json")):
        write_tables(Benchmark(suite, folder, folder))


def leaves(content, path=()):
    """The paths to all values of a JSON file, and to the mappings and lists around them."""
    yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield from leaves(value, (*path, key))
    elif isinstance(content, list):
        for at, value in enumerate(content[:2]):
            yield from leaves(value, (*path, at))


def with_value(content, path, value):
    if not path:
        return value
    first, *rest = path
    changed_content = content.copy()
    changed_content[first] = with_value(content[first], rest, value)
    return changed_content


WRONG_VALUES = [None, [], {}, "x", -1, float("nan"), 10**400, True, [[]], {"x": {}}]


@pytest.mark.parametrize("file", FILES)
def test_a_cell_edited_by_hand_is_read_or_named(suite, folder, file):
    """Every value in turn becomes something else."""
    content = json.loads((folder / file).read_text())
    benchmark, n_refused = Benchmark(suite, folder, folder), 0
    paths = [path for path in leaves(content) if path and path[0] in ("found", "made")]
    assert len(paths) > 10
    for path in paths:
        for wrong_value in WRONG_VALUES:
            (folder / file).write_text(json.dumps(with_value(content, path, wrong_value)))
            try:
                runner.collect_results(benchmark.suite, benchmark.cells)
            except uqled.InputError as error:
                n_refused += 1
                if "digits/seed-0" not in str(error):
                    raise
    assert n_refused > 0.6 * len(paths) * len(WRONG_VALUES)


def test_the_hash_of_the_data_edited_by_hand_is_named(folder):
    for content in ("", "[]", '{"fingerprint": 3}', "{}"):
        (folder / "data" / "digits.json").write_text(content)
        with pytest.raises(uqled.FileError, match=r"digits\.json"):
            Cells(folder).check_fingerprint("digits", "x")
    with pytest.raises(uqled.FileError, match=r"digits\.json"):
        Cells(folder.parent / "other").merge(folder)


# -- arrays ---------------------------------------------------------------------------------------

PRETRAINING = Cell("pretraining", "digits", 0)
DETECTION = Cell("detection", "digits", 0, 0.1)


def forget(folder, name):
    """As if the cells of this name had not been computed."""
    for path in (folder / "cells").rglob(name):
        path.unlink()


def save_over(folder, cell, **changes):
    path = folder / "arrays" / f"{cell.name}.npz"
    arrays = {**Cells(folder).read_arrays(cell), **changes}
    with path.open("wb") as file:
        np.savez_compressed(file, **{k: v for k, v in arrays.items() if v is not None})
    return path


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("test_probs", None),
        ("test_probs", np.zeros((50, 9), np.float32)),
        ("test_probs", np.zeros((3, 10), np.float32)),
        ("test_probs", np.full((50, 10), np.nan, np.float32)),
        ("test_probs", np.full((50, 10), "x")),
        ("test_probs", np.float32(0.5)),
        ("test_passes", np.zeros((1, 50, 10), np.float32)),
        ("test_passes", np.zeros((50, 10), np.float32)),
    ],
)
def test_arrays_that_do_not_fit_are_named(suite, folder, name, change):
    forget(folder, "pilot.json")
    save_over(folder, PRETRAINING, **{name: change})
    with pytest.raises(uqled.FileError, match=rf"pretraining\.npz' .*'{name}'"):
        run(suite, folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kept", np.arange(50) + 1),
        ("kept", np.arange(50) - 1),
        ("kept", np.full(50, 2**62)),
        ("kept", np.arange(50.0)),
        ("given", np.full(50, 10)),
        ("given", np.full(49, 1)),
        ("methods", np.arange(2)),
        ("masks", np.zeros((2, 3), np.uint8)),
        ("masks", np.zeros((2, 7), np.int64)),
        ("whose", np.array([0, 99])),
        ("whose", None),
        ("suggested", np.full((2, 50), -1)),
        ("suggested", np.full((2, 50), 10)),
        ("suggested", np.zeros((2, 49), np.int16)),
    ],
)
def test_flags_that_do_not_fit_are_named(suite, folder, name, change):
    forget(folder, "cl-pbnr.json")
    save_over(folder, DETECTION, **{name: change})
    with pytest.raises(uqled.FileError, match=rf"detection\.npz' .*'{name}'"):
        run(suite, folder)


def pack_npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def test_damaged_archives_of_arrays_are_named(suite, folder):
    forget(folder, "pilot.json")
    path = folder / "arrays" / f"{PRETRAINING.name}.npz"
    good = path.read_bytes()
    content_twice = io.BytesIO()
    with zipfile.ZipFile(content_twice, "w") as archive:
        archive.writestr("test_probs.npy", b"x")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("test_probs.npy", b"y")
    planted = folder / "planted"
    objects = np.array([PickledCommand(str(planted))], dtype=object)
    for content in (
        b"", good[:-30], good[: len(good) // 2], b"PK\x03\x04" + bytes(100),
        pack_npz(test_probs=objects), content_twice.getvalue(),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(uqled.FileError, match=r"pretraining\.npz.*Remove cell digits/seed-0/p"):
            run(suite, folder)
    assert not planted.exists()
    with override_limits(memory_bytes=10_000):
        path.write_bytes(pack_npz(test_probs=np.zeros((50, 1_000))))
        with pytest.raises(uqled.InputError, match=r"memory_bytes.*Remove cell digits"):
            Cells(folder).read_arrays(PRETRAINING)


class PickledCommand:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_more_classes_than_sixteen_bits_count_survive_packing():
    flags = Flags(np.array([True, False]), np.empty(0, np.int64), np.array([40_000, 3], np.int32))
    again = unpack_flags(pack_flags({"mine": flags}))["mine"]
    assert again.best.tolist() == [40_000, 3]
    assert again.mask.tolist() == [True, False]


# -- merging --------------------------------------------------------------------------------------


def test_merging_takes_no_file_of_somebody_else(finished_benchmark, folder, tmp_path):
    own_cells = Cells(tmp_path / "own")
    path = folder / "arrays" / f"{PRETRAINING.name}.npz"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(uqled.FileError, match=r"pretraining\.npz' is not a regular file"):
        own_cells.merge(folder)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(uqled.FileError, match=r"pretraining\.npz' is not a regular file"):
        own_cells.merge(folder)
    assert Cells(tmp_path / "good").merge(finished_benchmark) == len(list_cells(finished_benchmark))


def test_temporary_files_are_no_cells(suite, folder, tmp_path):
    for name in ("cells/digits/.uqled-pilot-1.json", "data/.uqled-digits-1.json"):
        (folder / name).write_text("")
    write_tables(Benchmark(suite, folder, folder))
    assert Cells(tmp_path / "own").merge(folder) == len(list_cells(tmp_path / "own"))


# -- accidents ------------------------------------------------------------------------------------


def list_leftovers(folder):
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.startswith(".") or "work" in path.relative_to(folder).parts
    )


@pytest.mark.parametrize("moment", ["before", "in between"])
def test_a_killed_benchmark_leaves_nothing_behind_once_it_succeeds(
    suite, finished_benchmark, tmp_path, monkeypatch, moment
):
    out = tmp_path / "bench"
    benchmark = Benchmark(suite, out, out)
    write = Cells.write

    def stop(self, cell, *rest):
        (self.work(cell) / ".uqled-checkpoint-1.pt").write_bytes(b"")
        if moment == "in between":
            patch.setattr(Cells, "_remove_work", lambda *_: None)
            write(self, cell, *rest)
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(Cells, "write", stop)
        with pytest.raises(StopError):
            run_benchmark(benchmark, pilot=True, workers=Workers(1), progress=False)
    (out / "data" / ".uqled-x-1.json").write_text("")
    assert list_leftovers(out)
    run_benchmark(benchmark, pilot=True, workers=Workers(1), progress=False)
    assert list_leftovers(out) == []
    assert len(list_cells(out)) == 2
    assert list_cells(out).items() <= list_cells(finished_benchmark).items()


def test_work_of_cells_that_are_not_finished_stays(folder):
    checkpoint = folder / "work" / "digits" / "seed-7" / "fold-0" / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"x")
    Cells(folder).remove_finished_work()
    assert checkpoint.read_bytes() == b"x"


def test_nothing_is_removed_through_a_link(folder, tmp_path):
    precious = tmp_path / "precious" / "digits" / "seed-0" / "pretraining" / "thesis.tex"
    precious.parent.mkdir(parents=True)
    precious.write_text("x")
    shutil.rmtree(folder / "work", ignore_errors=True)
    (folder / "work").symlink_to(tmp_path / "precious")
    Cells(folder).remove_finished_work()
    assert precious.read_text() == "x"


def test_two_processes_in_one_benchmark_are_refused(suite, folder):
    with lock_folder(folder), pytest.raises(uqled.FileError, match="in use by another process"):
        run(suite, folder)


HOLD = """
import sys, time
from pathlib import Path
from uqled.bench.workers import _begin_worker
_begin_worker(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_workers_of_a_killed_benchmark_are_waited_for(suite, folder, monkeypatch):
    (folder / "work").mkdir(exist_ok=True)
    worker = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder / "work")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout.readline() == "held\n"
        monkeypatch.setattr(workers, "_LAST_WORDS", 0.3)
        with pytest.raises(uqled.FileError, match="in use by another process"):
            run(suite, folder)
        worker.kill()
        worker.wait()
        run(suite, folder)
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_named(suite, folder):
    folder.chmod(0o500)
    with pytest.raises(uqled.InputError, match="out"):
        run(suite, folder)


def test_a_folder_that_cannot_be_made_is_named(suite, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(uqled.InputError, match=r"out '.*' cannot be made"):
        run(suite, tmp_path / "file" / "bench")


def test_a_full_disk_is_named_by_its_file(suite, tmp_path, monkeypatch):
    def fill(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cells_module.np, "savez_compressed", fill)
    with pytest.raises(uqled.FileError, match=r"pretraining\.npz' cannot be written"):
        run(suite, tmp_path / "bench")
    assert not (tmp_path / "bench" / "cells").exists()
