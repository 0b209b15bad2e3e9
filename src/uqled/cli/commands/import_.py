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
        Path, typer.Argument(help="What Label Studio exports as JSON or JSON-MIN.")
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace decisions that differ.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be decided, write nothing.")
    ] = False,
) -> CommandOutput:
    """Make decisions of annotations: the way back from `export --to label-studio`."""
    from uqled.export.annotations import describe_import, import_annotations
    from uqled.storage.run import Run

    predictions = Run.open(folder).predictions()
    done = import_annotations(annotations, predictions, overwrite=overwrite, dry_run=dry_run)
    return CommandOutput(describe_import(done, dry_run=dry_run))
