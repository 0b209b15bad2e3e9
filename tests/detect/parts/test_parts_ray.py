"""Detection in parts on a Ray cluster of two nodes: the same flags, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cleanlab.filter import find_label_issues

from part_arrays import COLUMNS, make_inputs, shards
from uqled.detect.find import find_label_errors
from uqled.detect.parts.prepare import ErrorsInParts, find_label_errors_in_parts
from uqled.errors import FileError

ray = pytest.importorskip("ray")

from loopback import NODE  # noqa: E402
from uqled.engines import make_engine  # noqa: E402

#: If its raylet dies, Ray ends the process that started it, and all other tests with it.
pytestmark = pytest.mark.slow

#: Tasks of `uqled.detect.parts` that read labels, if what they make is not there.
TASKS = (
    "collect_part_statistics",
    "count_part_joints",
    "select_part_samples",
    "write_part_issues",
)
PART_ROWS = 50


class RecordingReader:
    """Labels whose readers note what they read, and one of whom does something, once.

    The driver reads them too, before all tasks, and is left alone.
    """

    def __init__(self, labels: Any, folder: Path, *, at: tuple[str, int] | None = None) -> None:
        self.labels, self.folder, self.at = labels, folder, at
        self.shape, self.dtype, self.ndim = labels.shape, labels.dtype, 1
        self.fingerprint = "watched"
        self.driver = os.getpid()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> Any:
        if os.getpid() != self.driver:
            self.note_part(rows.start // PART_ROWS)
        return self.labels[rows]

    def note_part(self, part: int) -> None:
        task = reading_task()
        with (self.folder / "reads").open("a") as file:
            file.write(f"{task} {part}\n")
        mark = self.folder / f"done {task}"
        if self.at == (task, part) and not mark.exists():
            mark.write_text(str(os.getpid()))
            self.act()

    def act(self) -> None:
        raise NotImplementedError

    def reads(self) -> list[tuple[str, int]]:
        """(task, part) of every read so far."""
        lines = (self.folder / "reads").read_text().splitlines()
        return [(task, int(part)) for task, part in map(str.split, lines)]


def reading_task() -> str:
    """The one of `TASKS` that is running in this thread, or another."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        code = frame.f_code
        if code.co_name in TASKS and Path(code.co_filename).parent.name == "parts":
            return code.co_name
    return "another"


class KillingReader(RecordingReader):
    def act(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class KillingDriver(RecordingReader):
    def act(self) -> None:
        os.kill(self.driver, signal.SIGKILL)


class Truncating(RecordingReader):
    """Cuts a shard that the part has still to read."""

    def act(self) -> None:
        os.truncate(self.folder / "probs" / "part-1.npy", 900)


class SlowReader(RecordingReader):
    def note_part(self, part: int) -> None:
        super().note_part(part)
        time.sleep(0.1)


@pytest.fixture(scope="module")
def ray_engine(cluster):
    with make_engine("ray", workers=2, address=cluster.address):
        yield  # a detection with engine="ray" uses the cluster and leaves it running


def detect(inputs: Any, folder: Path, **options: Any) -> ErrorsInParts:
    options = {"method": "all", "part_rows": PART_ROWS, "workers": 2, **options}
    return find_label_errors_in_parts(*inputs, out=folder / "out", engine="ray", **options)


def assert_same(result: ErrorsInParts, inputs: Any) -> None:
    """Every flag of every method, every column and the joint are those of one piece in memory."""
    expected = find_label_errors(*inputs, method="all")
    table = pd.concat(result.frames(), ignore_index=True)
    for name, number in result.about["flagged"].items():
        assert (table[name].to_numpy() == expected.by_method[name].mask).all(), name
        assert number == expected.by_method[name].n_flagged > 0
    one = expected.by_method[result.method]
    for column in COLUMNS:
        assert (table[column].to_numpy() == one.to_frame()[column].to_numpy()).all(), column
    assert (result.joint == one.joint).all()
    assert (result.read_flag_table()["index"].to_numpy() == one.ranked).all()
    assert not (result.store.place / "work").exists()


@pytest.mark.usefixtures("ray_engine")
@pytest.mark.parametrize(
    ("seed", "ties", "part_rows", "workers"),
    [(0, False, 300, 2), (1, True, 160, 1), (2, True, 29, 2), (3, False, 64, None)],
)
def test_every_flag_and_column_is_the_same(
    tmp_path: Path, seed: int, ties: bool, part_rows: int, workers: int | None
) -> None:
    inputs = make_inputs(seed, ties=ties)
    errors = detect(inputs, tmp_path, part_rows=part_rows, workers=workers)
    assert_same(errors, inputs)
    assert len(list((tmp_path / "out" / "issues").iterdir())) == -(-300 // part_rows)
    assert ray.is_initialized()


@pytest.mark.usefixtures("ray_engine")
def test_shards_of_names_and_the_flags_of_cleanlab(tmp_path: Path) -> None:
    labels, softmax, passes = make_inputs(4)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])
    folders = (
        shards(tmp_path / "labels", names[labels], [100, 130]),
        shards(tmp_path / "probs", softmax, [50]),
        shards(tmp_path / "passes", passes, [7, 200], axis=1),
    )
    errors = detect(folders, tmp_path)
    assert_same(errors, (names[labels], softmax, passes))
    table = pd.concat(errors.frames(), ignore_index=True)
    assert (table["cl-pbnr"].to_numpy() == find_label_issues(labels, softmax, n_jobs=1)).all()


@pytest.mark.usefixtures("ray_engine")
@pytest.mark.parametrize("task", TASKS)
def test_a_worker_killed_in_the_middle(tmp_path: Path, task: str) -> None:
    labels, softmax, passes = make_inputs(5)
    reader = KillingReader(labels, tmp_path, at=(task, 2))
    errors = detect((reader, softmax, passes), tmp_path)
    assert_same(errors, (labels, softmax, passes))
    assert int((tmp_path / f"done {task}").read_text()) != os.getpid()
    reads = [read for read in reader.reads() if read[0] != "another"]
    single_reads = [(task, part) for task in TASKS for part in range(6)]
    assert sorted(reads) == sorted(
        [*single_reads, (task, 2)]
    )  # the lost task was begun twice, no other


def alive() -> int:
    return len([node for node in ray.nodes() if node["Alive"]])


@pytest.mark.slow
@pytest.mark.usefixtures("ray_engine")
def test_a_node_lost_in_the_middle(tmp_path: Path, cluster: Any) -> None:
    labels, softmax, passes = make_inputs(6)
    third = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    is_done, before = threading.Event(), []

    def lose() -> None:
        while not is_done.is_set():
            if len(list((tmp_path / "out").glob("work/*-sweep-2.bin"))) >= 4:
                before.append(alive())
                cluster.remove_node(third, False)
                return
            time.sleep(0.005)

    losing = threading.Thread(target=lose)
    losing.start()
    try:
        reader = SlowReader(labels, tmp_path)
        errors = detect((reader, softmax, passes), tmp_path, part_rows=PART_ROWS // 2, workers=3)
    finally:
        is_done.set()
        losing.join()
    assert_same(errors, (labels, softmax, passes))
    assert before == [3]  # it was there until then
    until = time.monotonic() + 60
    while alive() > 2 and time.monotonic() < until:
        time.sleep(0.2)
    assert alive() == 2


@pytest.mark.usefixtures("ray_engine")
def test_a_shard_cut_between_sweeps_is_named(tmp_path: Path) -> None:
    labels, softmax, passes = make_inputs(7)
    folder = shards(tmp_path / "probs", softmax, [50, 200])
    file = folder / "part-1.npy"
    content, times = file.read_bytes(), file.stat()
    reader = Truncating(labels, tmp_path, at=("count_part_joints", 2))
    inputs = reader, folder, StoredArray(passes)
    with pytest.raises(FileError, match=r"part-1\.npy' ends at byte 900") as error_info:
        detect(inputs, tmp_path)
    assert type(error_info.value) is FileError
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"detection.json", "work"}  # no row of a result
    with pytest.raises(FileError, match="not finished"):
        ErrorsInParts.open(tmp_path / "out")
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert_same(detect(inputs, tmp_path), (labels, softmax, passes))  # nor half a file before


class StoredArray:
    """An array that is the same when it comes again."""

    fingerprint = "kept"

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]


_PROGRAM = """
import sys
from pathlib import Path
from test_parts_ray import KillingDriver, StoredArray, detect, make_inputs

if __name__ == "__main__":
    folder, task = Path(sys.argv[1]), sys.argv[2]
    labels, softmax, passes = make_inputs(8)
    reader = KillingDriver(labels, folder, at=(task, 3))
    detect((reader, StoredArray(softmax), StoredArray(passes)), folder)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("ray_engine")
def test_a_killed_driver_continues(tmp_path: Path, cluster: Any) -> None:
    labels, softmax, passes = make_inputs(8)
    test_folder = Path(__file__).parent
    paths = [
        str(test_folder),
        str(test_folder.parents[1] / "shared"),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = {
        "RAY_ADDRESS": cluster.address,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    reader = RecordingReader(labels, tmp_path)
    for task in ("count_part_joints", "write_part_issues"):
        driver = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(tmp_path), task],
            env=os.environ | environment,
            check=False,
        )
        assert driver.returncode == -signal.SIGKILL
        assert (tmp_path / f"done {task}").exists()
        before = len(reader.reads())
    issues = tmp_path / "out" / "issues"
    times_of_writing = {path.name: path.stat().st_mtime_ns for path in issues.iterdir()}
    errors = detect((reader, StoredArray(softmax), StoredArray(passes)), tmp_path)
    assert_same(errors, (labels, softmax, passes))
    assert not {task for task, _ in reader.reads()[before:]} & set(TASKS[:3])  # none again
    reread_parts = [part for task, part in reader.reads() if task == "collect_part_statistics"]
    assert sorted(reread_parts) == list(range(6))  # by the first driver alone
    for name, mtime in times_of_writing.items():
        assert (issues / name).stat().st_mtime_ns == mtime
