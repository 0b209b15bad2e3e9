"""Kills, full disks, read-only folders, two processes at once, a clock that goes back.

`tests/fuzzing/accidents.py` does it to whole commands, in processes of its own: `make accidents`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: Commands of less than a second; the others train networks and benchmarks.
QUICK_SCENARIOS = (
    "predict",
    "find",
    "parts",
    "detect",
    "export-overwrite",
    "export-folder",
    "import",
)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run_accidents(tmp_path, *options, before=()):
    """The result and what it printed: a line for each command and accident."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [*before, sys.executable, "-m", "fuzzing.accidents", *map(str, options)]
    process = subprocess.run(
        command, cwd=tmp_path, env=environment | {"TMPDIR": str(tmp_path)}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_commands_survive_accidents(tmp_path):
    """A kill or two and one of each other accident, for each quick command."""
    commands = [f"--command={name}" for name in (*QUICK_SCENARIOS, "review")]
    output = run_accidents(tmp_path, "--kills", 12, "--rounds", 1, *commands)
    assert len(output.splitlines()) == 5 * len(QUICK_SCENARIOS) + 1


def test_commands_survive_a_disk_that_is_really_full(tmp_path):
    """A small disk of its own: the other test only forbids long files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=24m tmpfs '{disk}'"
    if not can_run("unshare", "-rm", "sh", "-c", mount):
        pytest.skip("this system lets nobody mount a disk")
    before = ("unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh")
    options = ("--kind", "full-disk", "--rounds", 3, "--scratch", disk)
    output = run_accidents(
        tmp_path, *options, "--command=find", "--command=parts", "--command=import", before=before
    )
    assert len(output.splitlines()) == 3


def can_run(*command):
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.slow
def test_commands_survive_two_hundred_kills(tmp_path):
    output = run_accidents(tmp_path, "--kills", 200, "--rounds", 5)
    assert len(output.splitlines()) == 5 * 9 + 1
