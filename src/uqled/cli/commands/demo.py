"""`uqled demo`: the main job on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.contents import describe_answer_content
from uqled.cli.options import OutputOptions, Seed


def demo(
    output: OutputOptions,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Write the run and its report to this folder.")
    ] = Path("demo-output"),
    seed: Seed = 0,
) -> CommandOutput:
    """Find wrong labels in a small example, where the truth is known.

    The example is the handwritten digits of scikit-learn, a tenth of which are mislabelled on
    purpose. Nothing is downloaded. PyTorch must be installed.

    Examples:
        uqled demo
        uqled demo --out demo --seed 1
    """
    from uqled.answer import describe_answer
    from uqled.demo import run_demo

    result = run_demo(out, seed=seed, progress=output.progress)
    metrics = result.errors.measure_methods(result.data.truth)
    return CommandOutput(
        f"{len(result.data):,} handwritten digits, {result.n_wrong} of them given the label of a "
        "digit that looks like them.\n\n"
        f"{describe_answer(result.errors.answer, metrics=metrics)}\n\n"
        f"The table of all samples is {result.table}\n"
        f"The report, to open in a browser, is {result.report}",
        describe_answer_content(
            result.errors.answer, metrics=metrics, table=result.table, report=result.report
        ),
    )
