"""`uqled predict`: out-of-fold predictions, as a run."""

from __future__ import annotations

from uqled.cli.console import CommandOutput
from uqled.cli.options import (
    DataArgument,
    DataOptions,
    FoldOptions,
    ModelOptions,
    OutputOptions,
    RunFolder,
    Seed,
)
from uqled.cli.predicting import load_and_predict


def predict(
    data: DataArgument,
    out: RunFolder,
    reading: DataOptions,
    model: ModelOptions,
    cluster: FoldOptions,
    output: OutputOptions,
    seed: Seed = 0,
) -> CommandOutput:
    """Predict every sample by a model that was not trained on it."""
    _, predictions = load_and_predict(data, out, reading, model, cluster, output, seed=seed)
    accuracy = predictions.accuracy
    return CommandOutput(
        f"{len(predictions):,} samples, {accuracy:.2%} predicted as labelled, in {out}"
    )
