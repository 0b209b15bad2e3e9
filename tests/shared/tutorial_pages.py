"""Runs a page of docs/tutorials as a reader would: its Python and its commands, from the top.

A block of Python is a doctest. In a block of the console, a line that begins with `$` is a command,
and what follows is what it prints on standard output. `...` stands for anything. A command without
output below it must succeed, no more.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def list_tutorials():
    return sorted(path for path in TUTORIALS.glob("*.md") if path.name != "index.md")


def run_page(path, folder):
    """(number of steps, names of its Python); AssertionError at the first that does otherwise."""
    names, steps = {}, 0
    before = Path.cwd()
    os.chdir(folder)
    try:
        for kind, text in _BLOCK.findall(path.read_text()):
            steps += _run_python(path, text, names) if kind == "python" else _run_console(text)
    finally:
        os.chdir(before)
    return steps, names


def _run_python(path, text, names):
    test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    test.globs = names
    lines = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
    result = runner.run(test, out=lines.append, clear_globs=False)
    assert result.failed == 0, "".join(lines)
    return result.attempted


def _run_console(text):
    steps = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for step in steps:
        command, _, expected = step.partition("\n")
        while command.endswith("\\"):  # a command of several lines
            more, _, expected = expected.partition("\n")
            command = command[:-1] + more
        environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": os.pathsep.join(sys.path)}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        if command.startswith("uqled "):
            command = f"{sys.executable} -m {command}"
        result = subprocess.run(
            command, shell=True, env=environment, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        everything = f"{command}\n{result.stdout}{result.stderr}"
        code = re.search(r"# exit code (\d)", command)
        assert result.returncode == int(code[1] if code else 0), everything
        matches = doctest.OutputChecker().check_output(expected, result.stdout, _FLAGS)
        assert not expected.strip() or matches, everything
    return len(steps)
