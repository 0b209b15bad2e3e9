"""What `find` and `predict` share: read the data, then predict each sample out of fold."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from uqled.cli.options import DataOptions, FoldOptions, ModelOptions, OutputOptions
from uqled.terminal import escape_controls

if TYPE_CHECKING:
    from uqled.data.dataset import Dataset
    from uqled.storage.run import Predictions


def load_and_predict(
    data: str,
    out: Path | None,
    reading: DataOptions,
    model: ModelOptions,
    cluster: FoldOptions,
    output: OutputOptions,
    *,
    seed: int,
) -> tuple[Dataset, Predictions]:
    """The data set and its out-of-fold predictions, whose run is `runs/NAME` unless named."""
    from uqled.data.loading import name_dataset
    from uqled.predict.crossval import cross_validate
    from uqled.predict.learners import find_learner_maker

    find_learner_maker(model.model)  # what is misspelt or not installed must not be found out later
    loaded = reading.load(data, seed=seed, progress=output.progress)
    for line in describe_skipped(loaded):
        output.tell(line)
    options = asdict(model)
    predictions = cross_validate(
        loaded,
        options.pop("model"),
        precision=options.pop("dtype"),
        **options,
        **cluster.as_arguments(),
        out=out or Path("runs") / name_dataset(data),
        seed=seed,
        progress=output.progress,
    )
    return loaded, predictions


def describe_skipped(data: Dataset) -> list[str]:
    """How many files were left out, and why the first of them; no line where none was."""
    if not data.skipped:
        return []
    name, reason = next(iter(data.skipped.items()))
    example = escape_controls(f"{name} ({reason})")
    return [f"left out because unreadable: {len(data.skipped):,}, such as {example}"]
