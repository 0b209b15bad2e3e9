"""`uqled inspect`: what the data is, and what is plainly wrong with it."""

from __future__ import annotations

from dataclasses import replace

from uqled.cli.console import CommandOutput
from uqled.cli.data_options import DataArgument, DataOptions
from uqled.cli.options import OutputOptions, Seed
from uqled.cli.predicting import describe_data, describe_finding


def inspect(
    data: DataArgument, reading: DataOptions, output: OutputOptions, seed: Seed = 0
) -> CommandOutput:
    """Show what the data holds and what is plainly wrong with it, without a model.

    The command says what each column is, and finds duplicates with different labels, two spellings
    of one class, rare classes, and columns that give the label away.

    Examples:
        uqled inspect reviews.csv --label sentiment
        uqled inspect photos/
        uqled inspect orders.csv --label late --columns note=text,code=ignore --json
    """
    from uqled.data.inspection import inspect as inspect_data

    # Images that cannot be read are among what is found.
    reading = replace(reading, skip_unreadable=True)
    loaded = reading.load(data, seed=seed, progress=output.progress)
    with output.stage("inspecting the data"):
        inspection = inspect_data(loaded)
    findings = list(map(describe_finding, inspection.findings)) or ["Nothing is plainly wrong."]
    return CommandOutput("\n".join([*describe_data(loaded), *findings]), inspection.to_json())
