"""The fuzzer of `tests/fuzzing`, for a short time, and what it must notice; `make fuzz` is long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_security_page import list_readers

TESTS = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run_fuzzer(tmp_path, *options, program=("-m", "fuzzing")):
    """The exit code, what it printed, and what became of the cases."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "TMPDIR": str(tmp_path),
    }
    result = tmp_path / "result.json"
    command = [sys.executable, *program, "--result", result, *options]
    process = subprocess.run(
        list(map(str, command)), env=environment, check=False, capture_output=True, text=True
    )
    output = process.stdout + process.stderr
    return process.returncode, output, json.loads(result.read_text()) if result.exists() else {}


#: Readers that no target reaches, and why.
NOT_FUZZED = {
    "data/readers/hub.py": "its files are read in target parquet-folder, its names need a network",
    "storage/remote_location.py": "needs a store",
    "features/encoders/": "needs packages of others, and weights of theirs",
    "models/": "is told by the user, or by the system",
    "bench/provenance.py": "is told by the system",
    "bench/workers.py": "reads what its own processes wrote",
    "engines/ray.py": "needs a cluster",
    "registry.py": "loads installed packages",
    "__init__.py": "loads installed packages",
    "detect/core/kernels/compiler.py": "is Numba's cache",
}


def test_damaged_input_ends_in_an_answer_or_in_our_own_error(tmp_path):
    files = tmp_path / "files.txt"
    code, output, result = run_fuzzer(tmp_path, "--share", 0.05, "--files", files)
    reached_files = {
        name.rpartition(f"{os.sep}uqled{os.sep}")[2] for name in files.read_text().split()
    }
    missing = set(list_readers()) - {name.replace(os.sep, "/") for name in reached_files}
    assert [name for name in sorted(missing) if not name.startswith(tuple(NOT_FUZZED))] == []
    assert code == 0, output
    assert len(result) > 40
    assert [name for name, counts in result.items() if not counts.get("answer")] == []
    assert sum(counts.get("refusal", 0) for counts in result.values()) > 100


#: Readers that do what none may.
BAD_READERS = """
import _ctypes, ctypes, os, subprocess, sys, time
from pathlib import Path
import fuzzing.__main__ as program
from fuzzing import case, workers
from fuzzing.case import Target, require

def delete_bystander(scene):
    (scene.input.parent / "beside" / ".notes").unlink()

def grow(scene):
    bytearray(150 * 2**20)[::4096] = b"x" * (150 * 2**8)

READERS = {
    "sound": lambda scene: None,
    "opens a loaded library again": lambda scene: ctypes.CDLL(_ctypes.__file__),
    "library": lambda scene: ctypes.CDLL("/var/tmp/uqled-fuzz.so"),
    "crash": lambda scene: os.abort(),
    "waits": lambda scene: time.sleep(60),
    "hang": lambda scene: any(iter(int, 1)),
    "traceback": lambda scene: {}["key"],
    "wrong": lambda scene: require(False, "an answer that cannot be right"),
    "command": lambda scene: subprocess.run(["true"]),
    "writes": lambda scene: Path("/var/tmp/uqled-fuzz").write_text(""),
    "changes": lambda scene: (scene.input / "file").write_text("mine"),
    "deletes": delete_bystander,
    "leaves": lambda scene: Path("left").write_text(""),
    "memory": grow,
}
workers.CASE_SECONDS, workers.WAIT_SECONDS, case.PEAK_BYTES = 3, 15, 100 * 2**20
program.Campaign.warm_up = lambda self: None  # which would read in this process
program.TARGETS = [
    Target(name, lambda folder: (folder / "file").write_text("sound"),
           lambda rng, folder, paths: "none", read, cases=1)
    for name, read in READERS.items()
]
sys.exit(program.main())
"""


def test_the_fuzzer_notices_what_readers_may_not_do(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(BAD_READERS)
    code, output, result = run_fuzzer(tmp_path, "--share", 1, program=[program])
    assert code == 1, output
    problems = {
        name: counts["failures"][0]["problem"] for name, counts in result.items()
        if counts["failures"]
    }  # fmt: skip
    expected = {
        "crash": "SIGABRT", "hang": "hang", "waits": "hang",
        "traceback": "KeyError", "wrong": "cannot be right",
        "command": "subprocess.Popen", "writes": "/var/tmp/uqled-fuzz", "changes": "input/file",
        "deletes": "beside/.notes", "leaves": "left", "memory": "MiB",
        "library": "ctypes.dlopen",
    }  # fmt: skip
    assert problems.keys() == expected.keys()
    assert {name: problems[name] for name in expected if expected[name] not in problems[name]} == {}
    assert not Path("/var/tmp/uqled-fuzz").exists()


@pytest.mark.slow
def test_much_damaged_input_ends_in_an_answer_or_in_our_own_error(tmp_path):
    code, output, _ = run_fuzzer(tmp_path, "--minutes", 15, "--seed", 1)
    assert code == 0, output
