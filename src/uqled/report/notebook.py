"""Results as a notebook shows them: the answer at a glance, and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from uqled.answer import describe_doubt, describe_estimates, describe_tiers
from uqled.data.dataset import Dataset
from uqled.report.page import capitalize, load_templates
from uqled.report.samples import SampleSource
from uqled.report.thumbnails import make_thumbnail
from uqled.storage.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from uqled.detect.result import LabelErrors

_ROWS = 10  # most suspect samples, or samples of a data set
_CLASSES = 12  # of a data set, the largest
_PAIRS = 12  # bars of a figure
_THUMBNAIL = 56  # pixels of the longer side


def render_errors(errors: LabelErrors, data: Dataset | None = None) -> str:
    """How many labels are wrong, how many flags are real, and the most suspect samples, with their
    content where there is `data`."""
    answer = errors.answer
    n, N = answer.n_flagged, answer.n_samples
    sentences = [*describe_estimates(answer), *describe_doubt(answer)]
    lines = [*map(capitalize, sentences), *describe_tiers(answer)]
    has_probabilities = errors.probability is not None
    source = None if data is None else SampleSource(data)
    header = [
        "sample",
        "given",
        "suggested",
        *(("P(wrong)", "tier") if has_probabilities else ("score",)),
    ]
    rows: list[list[Any]] = []
    for one in answer.most_suspect[:_ROWS]:
        worth = (
            [f"{one.error_probability:.0%}", one.tier]
            if has_probabilities
            else [f"{one.score:.4f}"]
        )
        name = str(one.index) if data is None else str(data.ids[one.index])
        content = [] if source is None else [_show_sample(source, one.index)]
        rows.append([name, one.given, one.suggested, *worth, *content])
    header += [] if source is None else ["content"]
    title = f"{n:,} of {N:,} labels flagged ({n / N:.2%}) by {answer.method}"
    return _render_table(title, lines, header, rows)


def render_dataset(data: Dataset) -> str:
    """The size of a data set, its largest classes, and some of its samples."""
    counts = np.bincount(data.labels.codes, minlength=data.n_classes)
    largest = np.argsort(-counts, kind="stable")[:_CLASSES]
    classes = ", ".join(f"{data.labels.names[k]} ({counts[k]:,})" for k in largest)
    more = f" and {data.n_classes - _CLASSES:,} more" if data.n_classes > _CLASSES else ""
    lines = [f"{data.n_classes:,} classes: {classes}{more}"]
    if data.skipped:
        lines.append(f"{len(data.skipped):,} samples could not be read and were left out")
    source, step = SampleSource(data), max(1, len(data) // _ROWS)
    rows = [
        [str(data.ids[i]), data.labels.names[data.labels.codes[i]], _show_sample(source, i)]
        for i in range(0, len(data), step)
    ][:_ROWS]
    title = f"{data.name}: {len(data):,} labelled {data.kind}"
    return _render_table(title, lines, ["id", "label", "sample"], rows)


def render_run(run: Run) -> str:
    """The folder of a run, its model, how many samples it has and how well they are predicted."""
    configuration = run.configuration()
    lines = [f"folder {run.path}"]
    if isinstance(configuration.get("model"), str):
        lines.append(f"model {configuration['model']}")
    try:
        predictions = run.predictions()
    except Exception as error:  # an unfinished run is shown, too
        return _render_table("uqled run", [*lines, str(error)], [], [])
    lines.append(
        f"{len(predictions):,} samples of {predictions.labels.n_classes:,} classes, "
        f"{predictions.accuracy:.2%} predicted as labelled"
    )
    return _render_table("uqled run", lines, [], [])


def plot_errors(errors: LabelErrors) -> Figure:
    """The pairs of classes with most flags, and histograms of error probabilities."""
    from uqled.report.figures import InlineFigure, escape_figure_text

    figure = InlineFigure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    pairs = errors.answer.confused_pairs[:_PAIRS][::-1]
    left.barh(
        [
            escape_figure_text(f"{label} \N{RIGHTWARDS ARROW} {suggested}")
            for label, suggested, _ in pairs
        ],
        [number for *_, number in pairs],
        color="#c4411b",
    )
    left.set_xlabel("labels flagged")
    left.set_title("given \N{RIGHTWARDS ARROW} suggested")
    has_probabilities = errors.probability is not None
    values = errors.probability if errors.probability is not None else errors.scores
    bins: Any = np.linspace(0, 1, 33)
    right.hist(values[~errors.mask], bins=bins, color="#4c72a8", alpha=0.7, label="not flagged")
    right.hist(values[errors.mask], bins=bins, color="#c4411b", alpha=0.8, label="flagged")
    right.set_yscale("symlog")
    right.set_xlabel(
        "probability that the label is wrong" if has_probabilities else "label quality"
    )
    right.set_ylabel("samples")
    right.legend()
    return figure


def _show_sample(source: SampleSource, index: int) -> Any:
    if source.kind == "images":
        return make_thumbnail(np.asarray(source.data.inputs[index]), _THUMBNAIL)
    if source.kind == "texts":
        return source.read_text(index, 120)
    return ", ".join(f"{name} {value}" for name, value in source.read_fields(index, 5))


def _render_table(title: str, lines: list[str], header: list[str], rows: list[list[Any]]) -> str:
    template = load_templates().get_template("notebook.html")
    return template.render(
        title=title, lines=lines, header=header, rows=rows, picture_side=_THUMBNAIL
    )
