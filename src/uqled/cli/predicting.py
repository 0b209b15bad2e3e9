"""What `find` and `predict` share: read the data, then predict each sample out of fold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from uqled.cli.data_options import DataOptions
from uqled.cli.model_options import FoldOptions, ModelOptions
from uqled.cli.options import OutputOptions
from uqled.errors import InputError
from uqled.terminal import escape_controls

if TYPE_CHECKING:
    from uqled.data.dataset import Dataset
    from uqled.data.inspection import Finding
    from uqled.storage.run import Predictions


def load_and_predict(
    data: str,
    out: Path | None,
    data_options: DataOptions,
    model: ModelOptions,
    cluster: FoldOptions,
    output: OutputOptions,
    *,
    seed: int,
) -> tuple[Dataset, Predictions]:
    """The data set and its out-of-fold predictions, whose run is `runs/NAME` unless named."""
    with output.stage("loading what the model needs", says_end=False):
        from uqled.data.inspection import inspect
        from uqled.data.inspection.prediction_checks import add_prediction_findings
        from uqled.data.loading import name_dataset
        from uqled.model_quality import describe_model_quality
        from uqled.predict.crossval import (
            check_counts_and_seed,
            check_engine_options,
            cross_validate,
        )
        from uqled.predict.learners import find_learner_maker
        from uqled.storage.run import Run

        # Refuse a misspelt or missing model before the data is read.
        find_learner_maker(model.model)
    check_counts_and_seed(model.folds, model.passes, seed)
    engine_options = cluster.as_arguments()
    engine = engine_options.pop("engine")
    check_engine_options(engine, engine_options)

    def check_kind(kind: str) -> None:
        if kind == "images":
            with output.stage("loading PyTorch"):
                find_learner_maker("small")  # whatever learns from images needs it

    dataset = data_options.load(data, seed=seed, progress=output.progress, check_kind=check_kind)
    with output.stage("inspecting the data"):
        inspection = inspect(dataset, folds=model.folds)
    for line in [*describe_data(dataset), *map(describe_finding, inspection.findings)]:
        output.tell(line)
    dataset = dataset.without_rare_classes(model.folds)
    options = asdict(model) | {"offline": model.offline or None}
    with _name_precision_dtype():
        predictions = cross_validate(
            dataset,
            options.pop("model"),
            precision=options.pop("dtype"),
            **options,
            engine=engine,
            **engine_options,
            out=out or Path("runs") / name_dataset(data),
            seed=seed,
            progress=output.progress,
        )
    if predictions.quality is not None:
        for line in describe_model_quality(predictions.quality):
            output.tell(line)
    n_before = len(inspection.findings)
    inspection = add_prediction_findings(inspection, predictions.labels, predictions.pred_probs)
    for finding in inspection.findings[n_before:]:
        output.tell(describe_finding(finding))
    Run.open(predictions.path).write_inspection(inspection.to_json())
    return dataset, predictions


@contextmanager
def _name_precision_dtype() -> Iterator[None]:
    """The `precision` of training is `--dtype` here; that of flags is `--min-precision`."""
    try:
        yield
    except InputError as error:
        if error.argument != "precision":
            raise
        raise InputError("dtype", error.problem, error.fix) from error


def describe_finding(finding: Finding) -> str:
    """A finding in one line."""
    return escape_controls(str(finding))


def describe_data(data: Dataset) -> list[str]:
    """What was read and what was left out, such as `5,005 images, 20 classes, 2 skipped`, then what
    each column of a table is."""
    from uqled.data.tables.columns import describe_columns

    what = {"images": "images", "texts": "texts", "table": "rows"}[data.kind]
    line = f"{data.name}: {len(data):,} {what}, {data.n_classes:,} classes"
    if data.unlabelled:
        line += f", {len(data.unlabelled):,} more without a label"
    if data.skipped:
        name, reason = next(iter(data.skipped.items()))
        line += f", {len(data.skipped):,} skipped because unreadable, such as {name} ({reason})"
    return [escape_controls(text) for text in (line, *describe_columns(data.columns))]
