"""`uqled report`: a run's flags as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import OutputOptions, RunArgument, RunData, RunMethod


def report(
    folder: RunArgument,
    output: OutputOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the report to this .html file. Default: RUN/report.html."
        ),
    ] = None,
    method: RunMethod = None,
    data: RunData = None,
    top: Annotated[int, typer.Option(metavar="N", help="Show the N most suspect samples.")] = 60,
) -> CommandOutput:
    """Write a report of a run as one HTML file.

    Examples:
        uqled report runs/photos
        uqled report runs/photos --method alg-ens --top 200 --out alg-ens.html
    """
    from uqled.report.page import report_run
    from uqled.review.audits import collect_verdicts
    from uqled.storage.run import Run

    verdicts = collect_verdicts(Run.open(folder).predictions())
    with output.stage("writing the report"):
        page = report_run(folder, out, data=data, method=method, verdicts=verdicts, top=top)
    return CommandOutput(
        f"The report, to open in a browser, is {page}", {"files": {"report": str(page)}}
    )
