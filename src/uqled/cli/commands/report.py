"""`uqled report`: a run's flags as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import RunArgument, RunMethod


def report(
    folder: RunArgument,
    out: Annotated[Path | None, typer.Option(help="HTML file. Default: RUN/report.html.")] = None,
    method: RunMethod = None,
    top: Annotated[int, typer.Option(help="How many of the most suspect to show.")] = 60,
) -> CommandOutput:
    """Show what was found as one HTML file."""
    from uqled.report.page import report_run
    from uqled.review.decisions import read_verdicts
    from uqled.storage.run import Run

    verdicts = read_verdicts(Run.open(folder).predictions())
    page = report_run(folder, out, method=method, verdicts=verdicts, top=top)
    return CommandOutput(f"The report, to open in a browser, is {page}")
