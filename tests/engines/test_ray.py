"""Ray's tests, in processes of their own: a few of them always, all with `make test-slow`.

If its raylet dies, Ray ends the process that started it: with it would go every other test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("ray")

TESTS = Path(__file__).parents[1]
QUICK_TESTS = (
    "detect/parts/test_parts_ray.py::test_shards_of_names_and_the_flags_of_cleanlab",
    "detect/parts/test_parts_ray.py::test_a_worker_killed_in_the_middle[select_part_samples]",
    "predict/test_crossval_ray.py::test_a_worker_killed_in_the_middle_of_a_fold",
)
ALL_TESTS = sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*_ray.py"))
#: Ray that hangs.
TIMEOUT = 400


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(QUICK_TESTS, id="sweeps-and-folds"),
        *(pytest.param((name,), id=name, marks=pytest.mark.slow) for name in ALL_TESTS),
    ],
)
def test_on_two_nodes(tmp_path: Path, tests: tuple[str, ...]) -> None:
    for attempt in range(2):
        report, log = tmp_path / f"{attempt}.xml", tmp_path / f"{attempt}.log"
        command = [
            sys.executable, "-m", "pytest", "-m", "slow", f"--junitxml={report}",
            f"--basetemp={tmp_path / str(attempt)}", "-p", "no:cacheprovider",
            *(str(TESTS / name) for name in tests),
        ]  # fmt: skip
        with log.open("w") as file, subprocess.Popen(
            command, cwd=TESTS.parent, stdout=file, stderr=subprocess.STDOUT
        ) as run:  # fmt: skip
            try:
                run.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                run.kill()
        if report.exists():  # pytest came to its end: Ray did not end it
            break
    assert run.returncode == 0, log.read_text()
    [suite] = ElementTree.parse(report).getroot()
    assert int(suite.attrib["tests"]) >= len(tests)
    assert suite.attrib["skipped"] == "0"
