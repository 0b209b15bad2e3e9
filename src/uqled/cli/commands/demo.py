"""`uqled demo`: the main job on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import Seed


def demo(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Write the run and its report to this folder.")
    ] = Path("demo-output"),
    seed: Seed = 0,
) -> CommandOutput:
    """Find wrong labels in a small example, where the truth is known.

    The example is the handwritten digits of scikit-learn, of which a tenth are mislabelled. Nothing
    is downloaded; PyTorch is needed.

    Examples:
        uqled demo
        uqled demo --out demo --seed 1
    """
    from uqled.demo import demo as run_demo

    return CommandOutput(run_demo(out, seed=seed))
