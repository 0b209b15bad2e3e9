"""`uqled predict`: out-of-fold predictions, as a run."""

from __future__ import annotations

from uqled.cli.console import CommandOutput
from uqled.cli.data_options import DataArgument, DataOptions
from uqled.cli.model_options import FoldOptions, ModelOptions
from uqled.cli.options import OutputOptions, RunFolder, Seed
from uqled.cli.predicting import load_and_predict


def predict(
    data: DataArgument,
    data_options: DataOptions,
    model: ModelOptions,
    cluster: FoldOptions,
    output: OutputOptions,
    out: RunFolder = None,
    seed: Seed = 0,
) -> CommandOutput:
    """Predict each sample with a model that was not trained on it.

    The predictions are written to the folder of a run. uqled detect then flags labels from them.

    Examples:
        uqled predict photos/
        uqled predict reviews.csv --label sentiment --model logistic --folds 10
        uqled predict photos/ --engine ray --ray-address auto --gpus-per-fold 1
    """
    _, predictions = load_and_predict(data, out, data_options, model, cluster, output, seed=seed)
    number, accuracy, run = len(predictions), predictions.accuracy, str(predictions.path)
    return CommandOutput(
        f"{number:,} samples, {accuracy:.2%} predicted as labelled, in {run}",
        {"samples": number, "predicted_as_labelled": accuracy, "files": {"run": run}},
    )
