"""`uqled demo`: the main job on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import Seed


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and its report.")] = Path(
        "demo-output"
    ),
    seed: Seed = 0,
) -> CommandOutput:
    """Find wrong labels in scikit-learn's digits, where the truth is known."""
    from uqled.demo import demo as run_demo

    return CommandOutput(run_demo(out, seed=seed))
