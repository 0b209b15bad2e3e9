"""A few of Ray's tests in a process of their own; `make test-slow` runs all of them.

If its raylet dies, Ray ends the process that started it: with it would go every other test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

HERE = Path(__file__).parent
QUICK = (
    "test_parts_ray.py::test_shards_of_names_and_the_flags_of_cleanlab",
    "test_parts_ray.py::test_a_worker_killed_in_the_middle[select]",
    "test_crossval_ray.py::test_a_worker_killed_in_the_middle_of_a_fold",
)
#: Ray that hangs.
TIMEOUT = 400


def test_sweeps_and_folds_on_two_nodes(tmp_path: Path) -> None:
    for attempt in range(2):
        report, log = tmp_path / f"{attempt}.xml", tmp_path / f"{attempt}.log"
        command = [
            sys.executable, "-m", "pytest", "-m", "slow", f"--junitxml={report}",
            f"--basetemp={tmp_path / str(attempt)}", "-p", "no:cacheprovider",
            *(str(HERE / name) for name in QUICK),
        ]  # fmt: skip
        with log.open("w") as file, subprocess.Popen(
            command, cwd=HERE.parent, stdout=file, stderr=subprocess.STDOUT
        ) as run:  # fmt: skip
            try:
                run.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                run.kill()
        if report.exists():  # pytest came to its end: Ray did not end it
            break
    assert run.returncode == 0, log.read_text()
    assert f'tests="{len(QUICK)}"' in report.read_text()
