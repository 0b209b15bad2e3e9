"""One HTML page that holds a benchmark's results: tables, figures, analyses, matrices."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from uqled.bench.results.collection import Results
from uqled.bench.results.figures import RenderedFigure, name_files
from uqled.bench.results.formatting import (
    DASH,
    format_method,
    format_number,
    format_p_value,
    format_percent,
    format_rate,
    join_words,
)
from uqled.bench.results.noise_table import build_noise_table
from uqled.bench.results.statistics import (
    UNJUDGED,
    Analysis,
    Correlation,
    Sensitivity,
    average_over_rates,
    find_leaders,
    group_samples,
    has_enough_span,
    list_datasets,
    select_treatment,
    subtract_samples,
)
from uqled.bench.results.tables import ResultTable, build_tables
from uqled.bench.suite import BASELINE, PAPER_METHODS

_NOTES = {
    "reductions": "Smaller than in the paper",
    "contaminated": "Contaminated",
    "same_images": "The same images with different networks or settings",
    "passes_differ": "Softmax and mean of passes differ by more than noise: dropout or batch norm "
    "damages one of them",
}


@dataclass(frozen=True)
class Card:
    """The short story of one data set."""

    title: str
    lines: tuple[tuple[str, str, str], ...]
    """The measure, the best method, and its lead."""


@dataclass(frozen=True)
class Picture:
    """A figure ready for the page."""

    title: str
    image: Markup


@dataclass(frozen=True)
class CorrelationRow:
    """One correlation as a row of text."""

    name: str
    cells: tuple[str, ...]
    note: str = ""


def render_page(
    results: Results,
    analyses: Sensitivity,
    pictures: Mapping[str, RenderedFigure],
    matrices: Mapping[str, RenderedFigure],
) -> str:
    """The page. `pictures` and `matrices` are by file stem."""
    environment = Environment(
        loader=PackageLoader("uqled.bench.results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = list_datasets(results)
    tables = build_tables(results)
    paper_methods = {format_method(method) for method in PAPER_METHODS}
    return environment.get_template("results.html").render(
        name=results.name,
        facts=_list_facts(results.about),
        notes=_list_notes(results.about),
        grids=_build_grids(results.about),
        cards=[card for card in (_build_card(results, name) for name in names) if card.lines],
        tables=tables,
        baseline=format_method(BASELINE),
        paper_methods=paper_methods,
        has_others=_has_other_methods(tables["stage1"][0], paper_methods),
        pilot=results.about.get("pilot", ""),
        pictures={
            kind: _select_pictures(pictures, names, kind)
            for kind in ("stage1-relative", "stage1-plane", "stage2-relative")
        },
        analyses=_select_analysis_pictures(pictures),
        rate_rows=_build_rate_rows(analyses),
        tests=build_correlation_rows(analyses),
        compared=join_words(format_method(m) for m in analyses.methods),
        noise=build_noise_table(results),
        matrices=[Picture(stem, _embed_png(one, stem)) for stem, one in matrices.items()],
    )


def _has_other_methods(table: ResultTable, paper_methods: set[str]) -> bool:
    """Whether a table has methods that the paper does not."""
    rows = [row for block in table.blocks for row in block.rows]
    return any(row.kind == "method" and row.name not in paper_methods for row in rows)


def build_correlation_rows(analyses: Sensitivity) -> list[CorrelationRow]:
    """The correlations of the second and third analysis, within data sets too."""
    titled_analyses: list[tuple[str, Analysis]] = [
        ("Data sets: accuracy before cleaning (noisy labels) and mean F1", analyses.initial),
        ("Data sets: accuracy on clean labels and mean F1", analyses.initial_clean),
        ("Methods: mean F1 and accuracy after cleaning, over data sets", analyses.final),
    ]
    titled_analyses += [
        (f"Methods: the same within {name}", one) for name, one in analyses.within.items()
    ]
    of_methods = [analyses.final, *analyses.within.values()]
    return [
        CorrelationRow(
            name,
            _format_correlation(one.correlation, one),
            "" if one not in of_methods or has_enough_span(one) else UNJUDGED,
        )
        for name, one in titled_analyses
        if one.points
    ]


def _format_correlation(correlation: Correlation | None, analysis: Analysis) -> tuple[str, ...]:
    if correlation is None:
        return (str(len(analysis.points)), DASH, DASH, DASH, DASH)
    interval = DASH
    if correlation.low == correlation.low:
        interval = f"{format_number(correlation.low, 2)} to {format_number(correlation.high, 2)}"
    return (
        str(correlation.n),
        format_number(correlation.r, 2),
        format_number(correlation.t, 2),
        format_p_value(correlation.p),
        interval,
    )


def _build_card(results: Results, name: str) -> Card:
    """The best method of each stage, and its lead over the baseline."""
    lines = []
    for what, frame, measure, than in (
        ("Best at finding errors (F1)", results.stage1, "f1", BASELINE),
        (
            "Best accuracy after cleaning",
            select_treatment(results.stage2, "remove"),
            "accuracy",
            BASELINE,
        ),
    ):
        column = average_over_rates(group_samples(frame, name, measure))
        first = find_leaders(column)
        if not first.names:
            continue
        best = sorted(first.names)[0]
        who = join_words(format_method(m) for m in sorted(first.names))
        text = format_percent(column[best].mean) + " %"
        if than in column and best != than:
            gap = subtract_samples(column[best], column[than])
            text += f", {format_percent(gap.mean, signed=True)} points on {format_method(than)}"
        spread = "not outside the spread" if column[best].n > 1 else "no spread known"
        lines.append((what, who, text if first.is_clear else f"{text}; {spread}"))
    noisy = average_over_rates(
        group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
    ).get("noisy")
    if noisy:
        lines.append(("Training on the noisy labels", "", format_percent(noisy.mean) + " %"))
    return Card(name, tuple(lines))


def _select_pictures(
    pictures: Mapping[str, RenderedFigure], names: list[str], kind: str
) -> list[Picture]:
    return [
        Picture(name, _embed_svg(pictures[f"{kind}-{stem}"], f"{kind}-{stem}", f"{kind}, {name}"))
        for name, stem in name_files(names).items()
        if f"{kind}-{stem}" in pictures
    ]


def _select_analysis_pictures(pictures: Mapping[str, RenderedFigure]) -> list[Picture]:
    titles = {
        "sensitivity-rates": "1. Noise rate and detection",
        "sensitivity-initial": "2. Accuracy before cleaning and detection",
        "sensitivity-initial-clean": "2. Accuracy on clean labels and detection",
        "sensitivity-final": "3. Detection and accuracy after cleaning",
    }
    return [
        Picture(t, _embed_svg(pictures[stem], stem, t))
        for stem, t in titles.items()
        if stem in pictures
    ]


def _embed_svg(picture: RenderedFigure, stem: str, label: str) -> Markup:
    """A figure as SVG that takes the page's colours. Matplotlib escapes the names in it."""
    text = picture.inline(stem)
    return Markup(
        text.replace("<svg ", Markup('<svg role="img" aria-label="{}" ').format(label), 1)
    )


def _embed_png(picture: RenderedFigure, label: str) -> Markup:
    """A picture of many cells, as PNG."""
    content = base64.b64encode(picture.png).decode()
    return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(label, content)


def _build_rate_rows(analyses: Sensitivity) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (
            name,
            [(format_rate(rate), format_percent(sample.mean)) for rate, sample in by_rate.items()],
        )
        for name, by_rate in analyses.mean_f1.items()
    ]


def _list_facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The facts shown in one line each: text, numbers, lists of words, versions."""
    facts = []
    for key, value in about.items():
        if key in _NOTES or key == "pilot" or value in (None, "", [], {}) or _is_grid(value):
            continue
        if isinstance(value, Mapping):
            facts.append((_format_key(key), ", ".join(f"{k} {v}" for k, v in value.items())))
        elif isinstance(value, list | tuple):
            facts.append((_format_key(key), ", ".join(map(str, value))))
        else:
            facts.append((_format_key(key), str(value)))
    return facts


def _list_notes(about: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The sentences to read before any number."""
    notes = []
    for key in _NOTES:
        value = about.get(key)
        if isinstance(value, Mapping):
            value = [f"{name}: {why}" for name, why in value.items()]
        if value:
            sentences = [one if isinstance(one, str) else "; ".join(one) for one in value]
            notes.append((_NOTES[key], sentences))
    return notes


def _is_grid(value: Any) -> bool:
    """One mapping per data set."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(inner, Mapping) for inner in value.values())


def _build_grids(about: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The table with one row per data set: its network, samples, epochs."""
    grids = []
    for key, value in about.items():
        if _is_grid(value):
            heads = list(dict.fromkeys(head for inner in value.values() for head in inner))
            rows = [
                [str(name), *(_format_cell(inner.get(head)) for head in heads)]
                for name, inner in value.items()
            ]
            grids.append((_format_key(key), list(map(_format_key, heads)), rows))
    return grids


def _format_cell(value: Any) -> str:
    if value is None or value == "":
        return DASH
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_cell, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _format_key(key: str) -> str:
    return str(key).replace("_", " ").capitalize()
