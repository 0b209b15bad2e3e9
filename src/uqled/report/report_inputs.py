"""The further inputs of a report: samples, probabilities, truth; each may be missing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.data.dataset import Dataset
from uqled.data.tables.columns import describe_columns
from uqled.detect.find import read_inputs
from uqled.errors import InputError, UqledError
from uqled.model_quality import ModelQuality, describe_weak_classes, list_model_warnings
from uqled.report.samples import SampleSource, open_sample_source
from uqled.storage.run import Predictions, Run
from uqled.storage.run_checks import read_begin_time

_MAX_SKIPPED = 5  # files that are named


@dataclass(frozen=True)
class ReportInputs:
    """The inputs of a report; everything is about the same N samples."""

    title: str
    labels: Labels
    """The given labels, with the class names of the data where the labels are only numbers."""
    source: SampleSource | None = None
    ids: list[str] | None = None
    pred_probs: NDArray[Any] | None = None
    passes: NDArray[Any] | None = None
    truth: NDArray[np.int32] | None = None
    """[N] true class numbers."""
    notes: list[str] = field(default_factory=list)
    """What is missing, and why."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    """(name, value) pairs about the origin of the flags: the data, the model, the date."""
    verdicts: tuple[NDArray[Any], NDArray[Any]] | None = None
    """[N] reviewers' decisions and new labels, as `find_label_errors` takes them."""
    run: str | None = None
    """The run's folder, for the commands that come next."""


def collect_inputs(
    labels: Labels,
    data: Any,
    pred_probs: Any,
    passes: Any,
    truth: Any,
    samples: Dataset | None = None,
) -> ReportInputs:
    """The inputs of a report, checked to be about the same samples as `labels`.

    `data` is a Dataset, Predictions, or inputs as `Dataset.from_arrays` takes them; `samples` are
    those of Predictions, where they are open already.
    """
    if isinstance(data, Predictions):
        inputs = _read_run(labels, data, samples)
    elif data is None:
        inputs = ReportInputs("labels", labels)
    else:
        if not isinstance(data, Dataset):
            data = Dataset.from_arrays(data, labels.values[labels.codes], name="labels")
        inputs = _read_dataset(labels, data)
    if pred_probs is not None or passes is not None:
        read_inputs(labels, pred_probs, passes)  # raises if shapes differ
        pred_probs = None if pred_probs is None else arrays.to_numpy(pred_probs)
        passes = None if passes is None else arrays.to_numpy(passes)
        inputs = replace(inputs, pred_probs=pred_probs, passes=passes)
    if truth is not None:
        true = arrays.encode_labels(
            truth, n_classes=labels.n_classes, classes=labels.values.tolist(), name="truth"
        )
        _check_length("truth", len(true), labels)
        inputs = replace(inputs, truth=true.codes)
    return inputs


def _read_run(
    labels: Labels, predictions: Predictions, samples: Dataset | None = None
) -> ReportInputs:
    _check_length("data", len(predictions), labels)
    run = Run.open(predictions.path)
    inputs = ReportInputs(
        _name_run_data(predictions.path),
        _choose_names(labels, predictions.labels),
        None,
        predictions.ids,
        predictions.pred_probs,
        predictions.passes,
        predictions.truth,
        facts=_list_facts(predictions),
        run=str(predictions.path),
    )
    inputs = replace(inputs, notes=run.findings())
    if samples is not None:
        _check_length("data", len(samples), labels)
        source: SampleSource | None = SampleSource(samples)
    else:
        try:
            source = open_sample_source(predictions)
        except UqledError as error:  # a report without pictures is better than none
            return replace(inputs, notes=[*inputs.notes, f"The samples cannot be shown: {error}."])
    if source is None:
        return inputs
    facts = [*inputs.facts, *_describe_columns(source.data)]
    if run.unlabelled_path.exists() and (n := len(source.data.unlabelled)):
        facts.append(("without a label", f"{n:,}, predicted in {run.unlabelled_path.name}"))
    if skipped := source.data.skipped:
        names = list(skipped)
        more = f" and {len(names) - _MAX_SKIPPED:,} more" if len(names) > _MAX_SKIPPED else ""
        value = f"{len(names):,} unreadable: {', '.join(names[:_MAX_SKIPPED])}{more}"
        facts = [*facts, ("skipped files", value)]
    return replace(inputs, source=source, notes=[*inputs.notes, *source.notes], facts=facts)


def _list_facts(predictions: Predictions) -> list[tuple[str, str]]:
    """Data, model and date of a run, as far as the run records them."""
    configuration = Run.open(predictions.path).configuration()
    passes = 0 if predictions.passes is None else len(predictions.passes)
    facts = []
    if predictions.source is not None:
        facts.append(("data", str(predictions.source["place"])))
    if isinstance(configuration.get("model"), str):
        folds = len(np.unique(predictions.folds))
        how = f"{folds} folds" if folds > 1 else "out of sample"
        what = "members" if predictions.passes_kind == "heads" else "stochastic passes"
        more = f", {passes} {what}" if passes else ""
        facts.append(("model", f"{configuration['model']} ({how}{more})"))
    begin_time = read_begin_time(predictions.path)
    if begin_time is None:
        begin_time = int((predictions.path / "pred_probs.npy").stat().st_mtime)
    facts.append(("predicted on", datetime.fromtimestamp(begin_time).strftime("%Y-%m-%d %H:%M")))
    return facts


def list_model_facts(
    quality: ModelQuality | None, run_facts: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """How often the model predicts the given label, the same for each member of a committee, and
    the model's name where `run_facts` do not have it."""
    if quality is None:
        return []
    facts = [
        *(() if "model" in dict(run_facts) else (("model", quality.model),)),
        (
            "predicted as labelled",
            f"{quality.accuracy:.1%}, out of fold (always the largest class: "
            f"{quality.base_rate:.1%})",
        ),
    ]
    if quality.members:
        sole_values = [
            f"{one.name} {one.accuracy:.1%} (weight {one.weight:.0%})" for one in quality.members
        ]
        facts.append(("its members alone", ", ".join(sole_values)))
    elif quality.passes_accuracy is not None:
        accuracies = (
            f"softmax {quality.accuracy:.1%}, mean of the passes {quality.passes_accuracy:.1%}"
        )
        facts.append(("softmax and passes", accuracies))
    if quality.weak_classes:
        facts.append(("weak on", describe_weak_classes(quality)))
    return [*facts, *(("warning", line) for line in list_model_warnings(quality))]


def _name_run_data(path: Path) -> str:
    """The name of the run's data, or that of its folder."""
    data = Run.open(path).configuration().get("data")
    name = data.get("name") if isinstance(data, dict) else None
    return str(name or path.resolve().name)


def _read_dataset(labels: Labels, data: Dataset) -> ReportInputs:
    _check_length("data", len(data), labels)
    return ReportInputs(
        data.name,
        _choose_names(labels, data.labels),
        SampleSource(data),
        data.ids.tolist(),
        truth=data.truth,
        facts=_describe_columns(data),
    )


def _describe_columns(data: Dataset) -> list[tuple[str, str]]:
    """The columns of a table as facts: `label`, `used` and `left out`."""
    lines = [line.split(": ", 1) for line in describe_columns(data.columns)]
    return [(f"columns, {name}" if name != "label" else name, value) for name, value in lines]


def _choose_names(labels: Labels, other: Labels) -> Labels:
    """The labels, with the data's class names where they have only numbers."""
    if labels.names == other.names:
        return labels
    numbers = tuple(map(str, range(labels.n_classes)))
    if labels.names == numbers and len(other.names) == len(numbers):
        return replace(labels, names=other.names)
    raise InputError(
        "data",
        f"has the classes {_join_first(other.names)}, and the labels {_join_first(labels.names)}",
        "Pass the data that the labels belong to",
    )


def _check_length(argument: str, length: int, labels: Labels) -> None:
    if length != len(labels):
        raise InputError(
            argument, f"has {length:,} samples for {len(labels):,} labels", "Give one per label"
        )


def _join_first(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
