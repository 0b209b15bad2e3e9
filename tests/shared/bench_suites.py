"""The smallest suite that can be run."""

from __future__ import annotations

from pathlib import Path

from uqled.bench.suite import read_suite

SMALLEST = """
rates = [0.1]
seeds = [0]
folds = 2
passes = 2
methods = ["cl-pbnr", "cl-mcd"]

[stage2]
methods = ["cl-pbnr"]

[[data]]
name = "digits"
place = "digits"
test_share = 0.5
limit = 200
model = "logistic"
"""


def suite_of(tmp_path: Path, text: str = SMALLEST):
    path = tmp_path / "own.toml"
    path.write_text(text)
    return read_suite(str(path), allow_code=True)
