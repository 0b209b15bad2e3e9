"""`uqled inspect`: what the data is, and what is plainly wrong with it."""

from __future__ import annotations

from dataclasses import replace

from uqled.cli.console import CommandOutput
from uqled.cli.data_options import DataArgument, DataOptions
from uqled.cli.options import OutputOptions, Seed
from uqled.cli.predicting import describe_data, describe_finding


def inspect(
    data: DataArgument, data_options: DataOptions, output: OutputOptions, seed: Seed = 0
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

    # Unreadable images are findings, not errors.
    data_options = replace(data_options, skip_unreadable=True)
    dataset = data_options.load(data, seed=seed, progress=output.progress)
    with output.stage("inspecting the data"):
        inspection = inspect_data(dataset)
    findings = list(map(describe_finding, inspection.findings)) or ["Nothing is plainly wrong."]
    return CommandOutput("\n".join([*describe_data(dataset), *findings]), inspection.to_json())
