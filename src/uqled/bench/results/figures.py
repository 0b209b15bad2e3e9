"""Figures of a benchmark: drawn without pyplot, the same bytes from the same numbers."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import (
    format_method_short,
    format_number,
    format_p_value,
    format_rate,
    sort_methods,
)
from uqled.bench.results.statistics import (
    UNJUDGED,
    Analysis,
    Rate,
    SamplesByRate,
    SeedSample,
    Sensitivity,
    compute_improvements,
    group_samples,
    has_enough_span,
    list_datasets,
    select_treatment,
)
from uqled.bench.suite import BASELINE, DEFAULT_METHODS
from uqled.report.figures import escape_figure_text
from uqled.storage.atomic import replace_file

_INK, _GRID, _BACKGROUND = "#22272e", "#d9dde2", "#fffffe"  # a page puts its own in their place
_RATES = ("#e08e0b", "#2a9d8f", "#5b7fd6", "#c44569", "#8a63c9", "#7a8b3c")
_METHODS = dict(
    zip(
        DEFAULT_METHODS,
        (
            ("#8b929c", "s"), ("#3b82d6", "o"), ("#d1495b", "D"), ("#2a9d8f", "^"),
            ("#b887d8", "v"), ("#8457c7", "P"), ("#e79aa5", "d"), ("#e08e0b", "X"),
        ),
        strict=True,
    )
)  # fmt: skip
_OTHER_STYLES = (("#7a8b3c", "<"), ("#a9714b", ">"), ("#17a2c4", "p"), ("#c9a227", "h"))
_LONGEST_STEM = 100  # characters of a file name before its suffix
_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "text.usetex": False,  # names are text, not TeX
    "figure.facecolor": _BACKGROUND,
    "axes.facecolor": "none",
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "grid.color": _GRID,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "uqled",  # ids in the file depend only on what is drawn
    "svg.fonttype": "none",  # text stays text, for search and screen readers
}


def draw_figures(results: Results, analyses: Sensitivity) -> dict[str, Figure]:
    """File stem -> figure, in the order in which a page shows them."""
    figures: dict[str, Figure] = {}
    baseline = format_method_short(BASELINE)
    for name, stem in name_files(list_datasets(results)).items():
        f1 = group_samples(results.stage1, name, "f1")
        change = compute_improvements(f1)
        if any(change.values()):
            figures[f"stage1-relative-{stem}"] = draw_relative_changes(
                change, f"F1 relative to {baseline}"
            )
        precision, recall = (
            group_samples(results.stage1, name, m) for m in ("precision", "recall")
        )
        if precision:
            figures[f"stage1-plane-{stem}"] = draw_precision_recall(precision, recall)
        change = compute_improvements(group_cleaned_and_noisy(results, name))
        if any(change.values()):
            figures[f"stage2-relative-{stem}"] = draw_relative_changes(
                change, f"accuracy relative to cleaning with {baseline}"
            )
    if analyses.mean_f1:
        figures["sensitivity-rates"] = draw_rates(analyses.mean_f1)
    for stem, analysis, x in (
        ("sensitivity-initial", analyses.initial, "accuracy before cleaning (%)"),
        ("sensitivity-initial-clean", analyses.initial_clean, "accuracy on clean labels (%)"),
    ):
        if analysis.points:
            figures[stem] = draw_scatter(analysis, x, "mean F1 (%)", of_methods=False)
    if analyses.final.points:
        figures["sensitivity-final"] = draw_scatter(
            analyses.final, "mean F1 (%)", "accuracy after cleaning (%)", of_methods=True
        )
    return figures


def draw_relative_changes(change: Mapping[Rate, Mapping[str, SeedSample]], label: str) -> Figure:
    """Methods down, relative change across, a colour per rate; bars are the spread over seeds."""
    methods = sort_methods({m for column in change.values() for m in column})
    with _open_figure(5.4, 0.42 * len(methods) + 1.25) as (figure, axes):
        step = 0.2 if len(change) < 4 else 0.6 / len(change)
        for place, (rate, column) in enumerate(change.items()):
            names = [m for m in methods if m in column and math.isfinite(column[m].mean)]
            shift = step * (place - (len(change) - 1) / 2)
            axes.errorbar(
                [100 * column[m].mean for m in names],
                [methods.index(m) + shift for m in names],
                xerr=[100 * np.nan_to_num(column[m].sd) for m in names],
                fmt="o",
                color=_RATES[place % len(_RATES)],
                markersize=5,
                elinewidth=1.2,
                fillstyle=_choose_fill([column[m] for m in names]),
                label=format_rate(rate),
            )
        axes.axvline(0, color=_INK, linewidth=1)
        axes.set_yticks(
            range(len(methods)), labels=[_clean_text(format_method_short(m)) for m in methods]
        )
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda x, _: format_number(x, _count_decimals(axes), signed=True))
        )
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axes.set_xlabel(f"{label} (%)")
        _add_legend(figure, axes, "noise rate")
    return figure


def draw_precision_recall(precision: SamplesByRate, recall: SamplesByRate) -> Figure:
    """Recall across, precision up, lines of equal F1; each method goes from rate to rate."""
    methods = sort_methods({m for column in precision.values() for m in column})
    with _open_figure(5.4, 4.4) as (figure, axes):
        for method in methods:
            colour, marker = choose_style(method, methods)
            rates = [r for r in precision if method in precision[r] and method in recall.get(r, {})]
            x = [100 * recall[r][method].mean for r in rates]
            y = [100 * precision[r][method].mean for r in rates]
            axes.plot(x, y, color=colour, linewidth=1, alpha=0.6)
            for place, rate in enumerate(rates):
                axes.plot(
                    x[place],
                    y[place],
                    marker,
                    color=colour,
                    markersize=4 + 2.2 * place,
                    markeredgewidth=1,
                    fillstyle=_choose_fill([precision[rate][method]]),
                    label=_clean_text(format_method_short(method))
                    if place == len(rates) - 1
                    else None,
                )
        axes.margins(0.12)
        _add_f1_lines(axes)
        axes.set_xlabel("recall (%)")
        axes.set_ylabel("precision (%)")
        _add_legend(figure, axes, "larger marks: higher noise rate", columns=3)
    return figure


def draw_rates(mean_f1: Mapping[str, Mapping[Rate, SeedSample]]) -> Figure:
    """Mean F1 over methods against the noise rate, a line per data set."""
    with _open_figure(5.4, 3.4) as (figure, axes):
        for place, (name, by_rate) in enumerate(mean_f1.items()):
            samples_by_rate = {r: s for r, s in by_rate.items() if r is not None}
            axes.errorbar(
                [float(r) for r in samples_by_rate],
                [100 * s.mean for s in samples_by_rate.values()],
                yerr=[100 * np.nan_to_num(s.sd) for s in samples_by_rate.values()],
                fmt="o-",
                markersize=5,
                linewidth=1.4,
                color=_RATES[place % len(_RATES)],
                fillstyle=_choose_fill(samples_by_rate.values()),
                label=_clean_text(name),
            )
        rates = sorted({r for by_rate in mean_f1.values() for r in by_rate if r is not None})
        axes.set_xticks(rates, labels=[format_rate(rate) for rate in rates])
        axes.margins(x=0.06)
        axes.set_xlabel("noise rate")
        axes.set_ylabel("mean F1 of the methods (%)")
        _add_legend(figure, axes, "", columns=2)
    return figure


def draw_scatter(analysis: Analysis, x: str, y: str, *, of_methods: bool) -> Figure:
    """The points of one analysis, named, with the least-squares line and what the test says."""
    points = {name: (100 * a, 100 * b) for name, (a, b) in analysis.points.items()}
    with _open_figure(5.4, 3.8) as (figure, axes):
        for place, (name, (a, b)) in enumerate(points.items()):
            colour, marker = (
                choose_style(name, list(points))
                if of_methods
                else (_RATES[place % len(_RATES)], "o")
            )
            label = format_method_short(name) if of_methods else name
            axes.plot(a, b, marker, color=colour, markersize=8, label=_clean_text(label))
        correlation = analysis.correlation
        if correlation is not None:
            accuracies = np.array([a for a, _ in points.values()])
            slope, start = np.polyfit(accuracies, [b for _, b in points.values()], 1)
            ends = np.array([accuracies.min(), accuracies.max()])
            axes.plot(ends, slope * ends + start, color=_INK, linewidth=1, alpha=0.5, zorder=0)
            title = (
                f"r = {format_number(correlation.r, 2)}, t = {format_number(correlation.t, 2)}, "
                f"p = {format_p_value(correlation.p)}, n = {correlation.n}"
            )
            if of_methods and not has_enough_span(analysis):
                title += f"\n{UNJUDGED}"
            axes.set_title(title, fontsize=9, loc="left")
        axes.margins(0.1)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        _add_legend(figure, axes, "", columns=3 if of_methods else 2)
    return figure


def _choose_fill(samples: Iterable[SeedSample]) -> Literal["full", "none"]:
    """Hollow marks where one seed was run: their spread is not known."""
    return "none" if any(sample.n == 1 for sample in samples) else "full"


def choose_style(method: str, methods: list[str]) -> tuple[str, str]:
    """Colour and mark of a method: fixed for known ones, in turn for the others."""
    if method in _METHODS:
        return _METHODS[method]
    others = [name for name in methods if name not in _METHODS]
    return _OTHER_STYLES[others.index(method) % len(_OTHER_STYLES)]


@dataclass(frozen=True)
class RenderedFigure:
    """A figure as the files that hold it."""

    png: bytes
    svg: str

    def inline(self, prefix: str) -> str:
        """The SVG for a page: without background, in the page's own ink.

        `prefix` tells its names from those of the page's other figures.
        """
        text = self.svg[self.svg.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1">', text, count=1)
        # Groups are numbered alike in every figure, and nothing refers to them.
        text = re.sub(r'<g id="[^"]*"', "<g", text)
        text = re.sub(r'( id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}-", text)
        text = text.replace(_BACKGROUND, "none").replace(_INK, "currentColor")
        return text.replace(_GRID, "var(--line)")

    def write(self, folder: Path, stem: str) -> list[Path]:
        """Write both files."""
        paths = [folder / f"{stem}.png", folder / f"{stem}.svg"]
        for path, content in zip(paths, (self.png, self.svg.encode()), strict=True):
            with replace_file(path) as part:
                part.write_bytes(content)
        return paths


def render_figure(figure: Figure) -> RenderedFigure:
    """A figure as PNG and SVG, without a date or a version in them."""
    image, text = io.BytesIO(), io.StringIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # drawn as boxes
        figure.savefig(image, format="png", dpi=150, metadata={"Software": None})
        figure.set_layout_engine("none")  # the layout is done; saving would repeat it
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return RenderedFigure(image.getvalue(), text.getvalue())


def name_files(names: Iterable[str]) -> dict[str, str]:
    """Each data set's name as part of a file's, no two alike."""
    stems: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_STEM] or "data"
        number = len(stems)
        unique_stem = stem
        while unique_stem in stems.values():
            number += 1
            unique_stem = f"{stem}-{number}"
        stems[name] = unique_stem
    return stems


def group_cleaned_and_noisy(results: Results, name: str) -> dict[Rate, dict[str, SeedSample]]:
    """Accuracy after removal, and of training on the noisy labels."""
    accuracy_by_rate = group_samples(select_treatment(results.stage2, "remove"), name, "accuracy")
    noisy = group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
    return {rate: {**column, **noisy.get(rate, {})} for rate, column in accuracy_by_rate.items()}


@contextmanager
def _open_figure(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure of this size in inches and its axes, in this module's style."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots()


def _add_legend(figure: Figure, axes: Axes, title: str, *, columns: int = 6) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if any(line.get_fillstyle() == "none" for line in axes.lines):
        title = f"{title}; hollow: one seed" if title else "hollow: one seed"
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, title=title or None
        )


def _add_f1_lines(axes: Axes) -> None:
    """Lines of equal F1 through what is shown."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    left, low = max(left, 0.5), max(low, 0.5)
    right, high = max(min(right, 102), left + 1), max(min(high, 102), low + 1)
    axes.set(xlim=(left, right), ylim=(low, high))
    span = max(right - left, high - low)
    step = next((s for s in (1, 2, 5, 10) if span / s < 9), 20)
    recalls = np.linspace(left, right, 200)
    for level in np.arange(step, 100, step):
        below = 2 * recalls - level
        up = np.where(below > 0, level * recalls / np.where(below > 0, below, 1), np.inf)
        is_visible = (up >= low) & (up <= high)
        if not is_visible.any():
            continue
        axes.plot(recalls[is_visible], up[is_visible], color=_GRID, linewidth=0.9, zorder=0)
        x, y = recalls[is_visible][-1], up[is_visible][-1]
        if x > left + 0.12 * (right - left):  # further left it would cover the numbers of the axis
            axes.text(x, y, f" F1 {level:g}", fontsize=7, alpha=0.7, va="bottom", ha="right")
    axes.grid(visible=False)


def _count_decimals(axes: Axes) -> int:
    """Decimals that the ticks of the x axis need: they are 1, 2 or 5 powers of ten apart."""
    first, second = axes.get_xticks()[:2]
    return max(0, -math.floor(math.log10(second - first) + 1e-9))


def _clean_text(name: str) -> str:
    """A name for a figure; a leading `_` would hide it from the legend."""
    return escape_figure_text(name.lstrip("_") or "-")
