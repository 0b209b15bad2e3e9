"""The report: one HTML file that needs no server, no network and no script."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from uqled import arrays
from uqled.answer import (
    SINGLE_NUMBER,
    Answer,
    FlagMetrics,
    describe_contradictions,
    describe_estimates,
    describe_range,
    describe_tiers,
)
from uqled.data.dataset import Dataset
from uqled.data.reopening import relocate_source
from uqled.detect.find import find_errors_in_run
from uqled.detect.reasons import REASONS, Reason, find_reasons
from uqled.detect.result import LabelErrors
from uqled.report import sections
from uqled.report.report_inputs import ReportInputs, collect_inputs, list_model_facts
from uqled.report.sections import Tile
from uqled.report.suspects import Suspect, list_suspects
from uqled.storage.atomic import remove_leftovers, replace_file
from uqled.storage.run import Run

_AXIS_NAME = 22  # characters of a class's name beside a heat map
_ADVICE: dict[Reason, str] = {
    "contradicts a duplicate": "The same content, or nearly the same, has another label "
    "elsewhere. One of the two is wrong.",
    "wrong label": "The model is sure of another class. Most of these can be changed after a look.",
    "ambiguous": "Two classes fit, or both are shown. Check what your labelling rules say.",
    "model does not know": "Predictions disagree or spread over many classes. The suggestion is "
    "a guess: judge the sample itself.",
}


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    title: str
    answer: list[str]
    """The sentences about wrong labels and real flags, as on the command line."""
    tiers: list[str]
    facts: list[tuple[str, str]]
    next_steps: list[tuple[str, str]]
    """(command, what it does)"""
    notes: list[str]
    n_samples: int
    n_classes: int
    n_flagged: int
    is_at_chance: bool
    n_listed: int
    """The flagged samples, and labels that contradict a duplicate without being flagged."""
    method: str
    knows_truth: bool
    tiles: list[Tile]
    methods: list[sections.MethodRow]
    agreement: sections.HeatMap | None
    times_flagged: list[int]
    reasons: list[sections.ReasonRow]
    """Empty without probabilities."""
    noise: sections.HeatMap
    pairs: list[sections.PairRow]
    distributions: list[sections.Distribution]
    classes: list[sections.ClassRow]
    suspects: list[Suspect]


def report_run(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    data: Dataset | Path | str | None = None,
    method: str | None = None,
    verdicts: tuple[Any, Any] | None = None,
    top: int,
) -> Path:
    """Write the report of a finished run, as its `report.html` unless `out` names another file.

    All methods are compared. The samples are those that `method` flags, by default that of the
    run's last detection. `data` saves reading the samples again, or says where they are now;
    `verdicts` are reviewers' decisions, as `find_label_errors` takes them.
    """
    predictions = Run.open(folder).predictions()
    errors = find_errors_in_run(predictions, headline=method, verdicts=verdicts)
    out = Path(folder) / "report.html" if out is None else Path(out)
    if isinstance(data, Dataset):
        return write_report(errors, out, predictions, samples=data, verdicts=verdicts, top=top)
    predictions_now = relocate_source(predictions, data)
    return write_report(errors, out, predictions_now, verdicts=verdicts, top=top)


def write_report(
    errors: LabelErrors,
    path: str | os.PathLike[str],
    data: Any = None,
    pred_probs: Any = None,
    passes: Any = None,
    *,
    truth: Any = None,
    samples: Dataset | None = None,
    notes: Sequence[str] = (),
    verdicts: tuple[Any, Any] | None = None,
    top: int,
) -> Path:
    """Write the result as one HTML file; the arguments are those of `LabelErrors.report`.

    `samples` saves reading those of a run again; `notes` are further sentences to show,
    `verdicts` the reviewers' decisions that the result follows.
    """
    path, top = Path(path), arrays.check_whole_number(top, "top", low=0)
    inputs = collect_inputs(errors.labels, data, pred_probs, passes, truth, samples)
    inputs = replace(inputs, notes=[*notes, *inputs.notes], verdicts=verdicts)
    page = render_report(build_report(errors, inputs, top=top))
    with replace_file(path) as part:
        # A file name may hold bytes that are not text: they become question marks.
        part.write_bytes(page.encode("utf-8", "replace"))
    remove_leftovers(path.parent)
    return path


def build_report(errors: LabelErrors, inputs: ReportInputs, *, top: int) -> Report:
    """The content of the page, as plain data."""
    errors = replace(errors, labels=inputs.labels)
    suspects, truth, answer = errors.suspects, inputs.truth, errors.answer
    metrics = errors.measure_methods(truth)
    is_error = None if truth is None else errors.labels.codes != truth
    reasons = None
    if inputs.pred_probs is not None or inputs.passes is not None:
        reasons = find_reasons(
            errors.labels.codes,
            inputs.pred_probs,
            inputs.passes,
            suspects,
            contradicted_rows=errors.contradicted_labels.rows,
        )
    sentences = [*describe_contradictions(answer), *describe_estimates(answer)]
    return Report(
        title=inputs.title,
        answer=[f"{capitalize(line)}." for line in sentences],
        tiers=describe_tiers(answer),
        facts=[*inputs.facts, *list_model_facts(errors.model, inputs.facts)],
        next_steps=_list_next_steps(inputs.run, answer),
        notes=[*inputs.notes, *_describe_doubts(answer)],
        n_samples=len(errors),
        n_classes=errors.labels.n_classes,
        n_flagged=errors.n_flagged,
        is_at_chance=answer.is_at_chance,
        n_listed=len(suspects),
        method=errors.method,
        knows_truth=is_error is not None,
        tiles=_list_tiles(answer, metrics.get(answer.method)),
        methods=sections.list_method_rows(answer, metrics),
        agreement=sections.compare_methods(errors),
        times_flagged=sections.count_times_flagged(errors),
        reasons=sections.list_reason_rows(
            reasons, None if is_error is None else is_error[suspects]
        ),
        noise=sections.map_noise(errors),
        pairs=sections.list_pair_rows(errors),
        distributions=sections.list_distributions(errors),
        classes=sections.list_class_rows(errors, is_error),
        suspects=list_suspects(errors, inputs, choose_ranks(len(suspects), reasons, top), reasons),
    )


def capitalize(sentence: str) -> str:
    """Capitalise the first letter of a sentence; names in it stay as they are."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _list_next_steps(run: str | None, answer: Answer) -> list[tuple[str, str]]:
    """The commands for the next steps, if the flags belong to a run."""
    if run is None or not answer.n_flagged:
        return []
    folder = shlex.quote(run)
    return [
        (f"uqled review {folder}", "look at the flagged samples and decide"),
        (
            f"uqled export {folder} --to csv --out clean.csv",
            "write the labels that reviewers corrected",
        ),
    ]


def choose_ranks(n_listed: int, reasons: NDArray[np.object_] | None, top: int) -> NDArray[np.intp]:
    """Places in the ranking to show: the first `top`, and a fifth as many of each reason.

    The most suspect samples are mostly those that the model is sure of; without the others a reader
    would see only one reason. `reasons` [n_listed] is the reason of each place.
    """
    places = [np.arange(min(top, n_listed))]
    if reasons is not None:
        places += [np.flatnonzero(reasons == reason)[: top // 5] for reason in REASONS]
    return np.unique(np.concatenate(places))


def render_report(report: Report) -> str:
    """The page."""
    from importlib.metadata import version

    templates = load_templates()
    filters: dict[str, Callable[[Any], str]] = {
        "thousands": lambda number: f"{number:,}",
        "share": _format_share,
        "level": lambda value: f"{value:.2g}" if value < 0.1 else f"{value:.3g}",
        "short": _shorten_name,
        "breakable": _break_name,
    }
    templates.filters |= filters
    return templates.get_template("report.html").render(
        report=report, reasons=REASONS, advice=_ADVICE, version=version("uqled")
    )


def load_templates() -> Environment:
    """The templates of this folder. All values are escaped, because they come from the data."""
    return Environment(
        loader=PackageLoader("uqled.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _break_name(name: str) -> Markup:
    """A name that may wrap after its separators if it is too long for a line."""
    parts = re.split(r"(?<=[_\-/.])(?=\S)", name)
    return Markup("<wbr>").join(parts)  # which escapes the parts


def _shorten_name(name: str) -> str:
    """Shorten a name for an axis by its middle, because long names often differ at their end."""
    half = _AXIS_NAME // 2
    return name if len(name) <= _AXIS_NAME else f"{name[:half]}…{name[1 - half :]}"


def _format_share(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1%"
    if share >= 0.9995:
        return "100%" if share >= 1 else ">99.9%"
    return f"{share:.1%}"


def _list_tiles(answer: Answer, metrics: FlagMetrics | None) -> list[Tile]:
    n, N = answer.n_flagged, answer.n_samples
    tiles = [
        Tile("labels flagged", f"{n:,}", f"{n / N:.2%} of {N:,}"),
        _make_error_tile(answer),
        *(_list_estimate_tiles(answer) if metrics is None else _list_metric_tiles(metrics)),
        *_list_tier_tiles(answer),
    ]
    if answer.predicted_as_labelled is not None:
        note = "by models that had not seen the sample"
        tiles.append(Tile("predicted as labelled", f"{answer.predicted_as_labelled:.2%}", note))
    return tiles


def _make_error_tile(answer: Answer) -> Tile:
    """The number of wrong labels: by `auto` if it was run, otherwise by the noise matrix."""
    title, number = "labels wrong, estimated", answer.n_errors
    if answer.is_at_chance:
        return Tile(title, "unknown", "the model predicts no better than chance")
    if number is None:
        n_errors = answer.n_off_diagonal
        return Tile(
            title, f"{n_errors:,}", f"{n_errors / answer.n_samples:.2%}, by the noise matrix"
        )
    share = f"{number.value / answer.n_samples:.2%}"
    interval = f"80% interval {number.low:,.0f} to {number.high:,.0f}"
    return Tile(title, f"{number.value:,.0f}", f"{share}; {interval}")


def _list_estimate_tiles(answer: Answer) -> list[Tile]:
    """The share of flags that are real and of errors that are flagged, where they are estimated."""
    if answer.precision is None or answer.recall is None:
        return []
    estimates = {
        "flags that are real": answer.precision,
        "errors that are flagged": answer.recall,
    }
    if answer.unsure is not None:
        return [
            Tile(title, describe_range(one), "unsure, see the note")
            for title, one in estimates.items()
        ]
    precision, recall = (
        Tile(title, f"{one.value:.0%}", f"estimated; {describe_range(one)}")
        for title, one in estimates.items()
    )
    if answer.precision.high - answer.precision.low > SINGLE_NUMBER:
        words = describe_range(answer.precision)
        precision = Tile(precision.title, words, "estimated; 80% interval")
    return [precision, recall]


def _list_tier_tiles(answer: Answer) -> list[Tile]:
    """The number of samples in each tier, and the share of them expected to be wrong."""
    return [
        Tile(
            tier.name,
            f"{tier.n_samples:,}",
            f"{describe_range(tier.precision)} of them are wrong, "
            f"{'as decided' if tier.precision.low == 1 else 'estimated'}",
        )
        for tier in answer.tiers
    ]


def _describe_doubts(answer: Answer) -> list[str]:
    """Notes for readers of the estimates: the decisions that they follow, and doubts."""
    notes = []
    if answer.n_verdicts:
        notes.append(
            f"{answer.n_verdicts:,} decisions of reviewers are taken as certain, and the estimates "
            "follow."
        )
    if answer.unsure is not None:
        notes.append(f"Unsure. {answer.unsure}")
    return notes


def _list_metric_tiles(metrics: FlagMetrics) -> list[Tile]:
    """Precision and recall, where the truth is known and some label is wrong."""
    real, n_errors = metrics.n_real, metrics.n_errors
    return [
        Tile("precision", f"{metrics.precision:.1%}", f"{real:,} of the flags are right"),
        Tile("recall", f"{metrics.recall:.1%}", f"of the {n_errors:,} wrong labels are flagged"),
    ]
