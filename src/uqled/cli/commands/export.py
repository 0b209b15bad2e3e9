"""`uqled export`: cleaned data in one of many forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import OutputOptions, RunArgument, RunMethod


def export(
    folder: RunArgument,
    to: Annotated[
        str,
        typer.Option(help="csv, parquet, folder, huggingface, label-studio, fiftyone or cleanlab."),
    ],
    out: Annotated[Path, typer.Option(help="File or folder to write.")],
    output: OutputOptions,
    method: RunMethod = None,
    unreviewed: Annotated[
        str | None,
        typer.Option(
            help="What happens to flagged samples without a decision: keep, drop or relabel. "
            "Default: keep."
        ),
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Of images: links, not copies.")] = False,
    url: Annotated[
        str | None, typer.Option(help="Of label-studio: what precedes an image's name.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, write nothing.")
    ] = False,
) -> CommandOutput:
    """Write the data with the labels that reviewers corrected.

    The source stays as it is. A record of every change is written beside the data.
    """
    from uqled.export.plan import check_target, plan_export, write_export

    plan = plan_export(folder, to, method=method, unreviewed=unreviewed)  # type: ignore[arg-type]
    check_target(plan, out, link=link, url=url, overwrite=overwrite)
    text = plan.format.describe(plan)
    if dry_run:
        return CommandOutput(f"{text}\n\nNothing was written (--dry-run).")
    output.tell(text)
    written = write_export(
        plan, out, link=link, url=url, overwrite=overwrite, progress=output.progress
    )
    return CommandOutput(f"Written: {', '.join(map(str, written))}")
