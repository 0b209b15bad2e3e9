"""`uqled export`: cleaned data in one of many forms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.choices import Choices, complete_from
from uqled.cli.console import CommandOutput
from uqled.cli.options import OutputOptions, RunArgument, RunData, RunMethod
from uqled.export.formats import EXPORT_FORMATS
from uqled.terminal import escape_controls


def export(
    folder: RunArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            autocompletion=complete_from(EXPORT_FORMATS.names),
            help=f"Write this format: {', '.join(EXPORT_FORMATS.own_entries)}, or one that another "
            "package adds.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="Write to this file or, for formats of many files, to this folder."
        ),
    ],
    output: OutputOptions,
    method: RunMethod = None,
    data: RunData = None,
    unreviewed: Annotated[
        str | None,
        Choices("keep", "drop", "relabel"),
        typer.Option(
            help="Keep, drop or relabel the flagged samples that nobody has reviewed. "
            "Default: keep."
        ),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Link to the images instead of copying them.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Put this address before the names of images, for --to label-studio. "
            "Default: no address.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done and write nothing.")
    ] = False,
) -> CommandOutput:
    """Write the data with the labels that reviewers corrected.

    The source stays as it is. A record of every change is written beside the data.

    Examples:
        uqled export runs/photos --to folder --out cleaned --dry-run
        uqled export runs/reviews --to csv --out cleaned.csv
        uqled export runs/reviews --to csv --out cleaned.csv --unreviewed relabel
        uqled export runs/photos --to label-studio --out tasks --url http://localhost:8000
    """
    from uqled.export.plan import (
        check_export_target,
        check_target_options,
        plan_export,
        write_export,
    )

    check_target_options(to, out, link=link, url=url, overwrite=overwrite)
    with output.stage("reading the run and its samples"):
        plan = plan_export(folder, to, data=data, method=method, unreviewed=unreviewed)  # type: ignore[arg-type]
    check_export_target(plan, out, link=link, url=url, overwrite=overwrite)
    notes = [] if plan.samples is None else plan.samples.notes
    text = "\n".join([*map(escape_controls, notes), plan.format.describe(plan)])
    actions = Counter(one.action for one in plan.corrected.corrections)
    content = {
        "format": to,
        "samples": len(plan.predictions),
        "dropped": actions["drop"],
        "relabelled": actions["relabel"],
        "unreviewed": plan.corrected.n_unreviewed,
        "files": {},
    }
    if dry_run:
        return CommandOutput(f"{text}\n\nNothing was written (--dry-run).", content)
    output.tell(text)
    paths = write_export(
        plan, out, link=link, url=url, overwrite=overwrite, progress=output.progress
    )
    content["files"] = {path.name: str(path) for path in paths}
    return CommandOutput(f"Written: {', '.join(map(str, paths))}", content)
