"""`uqled import`: decisions that were made in Label Studio."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import RunArgument


def import_(
    folder: RunArgument,
    annotations: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file that Label Studio exports as JSON or JSON-MIN."
        ),
    ],
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace decisions of the run that differ from the file."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be decided, and write nothing.")
    ] = False,
) -> CommandOutput:
    """Import decisions made in Label Studio into a run.

    The tasks must be those that uqled export wrote for Label Studio.

    Examples:
        uqled import runs/photos annotations.json --dry-run
        uqled import runs/photos annotations.json
    """
    from uqled.export.annotations import describe_import, import_annotations
    from uqled.storage.run import Run

    predictions = Run.open(folder).predictions()
    result = import_annotations(annotations, predictions, overwrite=overwrite, dry_run=dry_run)
    content = {
        "decided": result.n_written,
        "unchanged": result.n_same,
        "conflicts": [predictions.ids[index] for index in result.conflicts],
        "disagreements": [predictions.ids[index] for index in result.annotations.disagreements],
        "unanswered": result.annotations.n_unanswered,
    }
    return CommandOutput(describe_import(result, dry_run=dry_run), content)
