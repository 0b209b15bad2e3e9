"""One HTML page that holds a benchmark's results: tables, figures, analyses, matrices."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from uqled.bench.collected import Results
from uqled.bench.drawing import Drawn, file_stems
from uqled.bench.shown import DASH, fixed, listed, method_name, p_value, percent, rate_name
from uqled.bench.statistics import (
    Analysis,
    Correlation,
    Sensitivity,
    columns,
    datasets,
    difference,
    leaders,
    over_rates,
    treated,
)
from uqled.bench.tables import BASELINE, all_tables

_NOTES = {
    "reductions": "Smaller than in the paper",
    "contaminated": "Contaminated",
    "same_images": "The same images with different networks",
}


@dataclass(frozen=True)
class Card:
    """The short story of one data set."""

    title: str
    lines: tuple[tuple[str, str, str], ...]
    """What, who, and by how much."""


@dataclass(frozen=True)
class Picture:
    """A figure ready for the page."""

    title: str
    image: Markup


@dataclass(frozen=True)
class Tested:
    """One correlation as a row of text."""

    name: str
    cells: tuple[str, ...]


def results_page(
    results: Results,
    analyses: Sensitivity,
    pictures: Mapping[str, Drawn],
    matrices: Mapping[str, Drawn],
) -> str:
    """The page. `pictures` and `matrices` are by file stem."""
    environment = Environment(
        loader=PackageLoader("uqled.bench"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = datasets(results)
    return environment.get_template("results.html").render(
        name=results.name,
        facts=_facts(results.about),
        notes=_notes(results.about),
        grids=_grids(results.about),
        cards=[card for card in (_card(results, name) for name in names) if card.lines],
        tables=all_tables(results),
        pictures={
            kind: _pictures(pictures, names, kind)
            for kind in ("stage1-relative", "stage1-plane", "stage2-relative")
        },
        analyses=_analysis_pictures(pictures),
        rate_rows=_rate_rows(analyses),
        tests=correlation_rows(analyses),
        compared=listed(method_name(m) for m in analyses.methods),
        matrices=[Picture(stem, _image(one, stem)) for stem, one in matrices.items()],
    )


def correlation_rows(analyses: Sensitivity) -> list[Tested]:
    """The correlations of the second and third analysis, within data sets too."""
    named: list[tuple[str, Analysis]] = [
        ("Data sets: accuracy before cleaning (noisy labels) and mean F1", analyses.initial),
        ("Data sets: accuracy on clean labels and mean F1", analyses.initial_clean),
        ("Methods: mean F1 and accuracy after cleaning, over data sets", analyses.final),
    ]
    named += [(f"Methods: the same within {name}", one) for name, one in analyses.within.items()]
    return [Tested(name, _tested(one.correlation, one)) for name, one in named if one.points]


def _tested(found: Correlation | None, analysis: Analysis) -> tuple[str, ...]:
    if found is None:
        return (str(len(analysis.points)), DASH, DASH, DASH, DASH)
    interval = DASH
    if found.low == found.low:
        interval = f"{fixed(found.low, 2)} to {fixed(found.high, 2)}"
    return (str(found.n), fixed(found.r, 2), fixed(found.t, 2), p_value(found.p), interval)


def _card(results: Results, name: str) -> Card:
    """Who is best in each stage, and how far above the baseline."""
    lines = []
    for what, frame, measure, than in (
        ("Best at finding errors (F1)", results.stage1, "f1", BASELINE),
        ("Best accuracy after cleaning", treated(results.stage2, "remove"), "accuracy", BASELINE),
    ):
        column = over_rates(columns(frame, name, measure))
        first = leaders(column)
        if not first.names:
            continue
        best = sorted(first.names)[0]
        who = listed(method_name(m) for m in sorted(first.names))
        text = percent(column[best].mean) + " %"
        if than in column and best != than:
            gap = difference(column[best], column[than])
            text += f", {percent(gap.mean, signed=True)} points on {method_name(than)}"
        spread = "not outside the spread" if column[best].n > 1 else "no spread known"
        lines.append((what, who, text if first.clear else f"{text}; {spread}"))
    noisy = over_rates(columns(treated(results.stage2, "noisy"), name, "accuracy")).get("noisy")
    if noisy:
        lines.append(("Training on the noisy labels", "", percent(noisy.mean) + " %"))
    return Card(name, tuple(lines))


def _pictures(pictures: Mapping[str, Drawn], names: list[str], kind: str) -> list[Picture]:
    return [
        Picture(name, _inline(pictures[f"{kind}-{stem}"], f"{kind}-{stem}", f"{kind}, {name}"))
        for name, stem in file_stems(names).items()
        if f"{kind}-{stem}" in pictures
    ]


def _analysis_pictures(pictures: Mapping[str, Drawn]) -> list[Picture]:
    titles = {
        "sensitivity-rates": "1. Noise rate and detection",
        "sensitivity-initial": "2. Accuracy before cleaning and detection",
        "sensitivity-initial-clean": "2. Accuracy on clean labels and detection",
        "sensitivity-final": "3. Detection and accuracy after cleaning",
    }
    return [
        Picture(t, _inline(pictures[stem], stem, t))
        for stem, t in titles.items()
        if stem in pictures
    ]


def _inline(picture: Drawn, stem: str, label: str) -> Markup:
    """A figure as SVG that takes the page's colours. Matplotlib escapes the names in it."""
    text = picture.inline(stem)
    return Markup(
        text.replace("<svg ", Markup('<svg role="img" aria-label="{}" ').format(label), 1)
    )


def _image(picture: Drawn, label: str) -> Markup:
    """A picture of many cells, as PNG."""
    content = base64.b64encode(picture.png).decode()
    return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(label, content)


def _rate_rows(analyses: Sensitivity) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (name, [(rate_name(rate), percent(sample.mean)) for rate, sample in by_rate.items()])
        for name, by_rate in analyses.mean_f1.items()
    ]


def _facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is told in one line each: text, numbers, lists of words, versions."""
    found = []
    for key, value in about.items():
        if key in _NOTES or value in (None, "", [], {}) or _is_grid(value):
            continue
        if isinstance(value, Mapping):
            found.append((_words(key), ", ".join(f"{k} {v}" for k, v in value.items())))
        elif isinstance(value, list | tuple):
            found.append((_words(key), ", ".join(map(str, value))))
        else:
            found.append((_words(key), str(value)))
    return found


def _notes(about: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """What a reader must know before any number: sentences."""
    found = []
    for key in _NOTES:
        value = about.get(key)
        if isinstance(value, Mapping):
            value = [f"{name}: {why}" for name, why in value.items()]
        if value:
            sentences = [one if isinstance(one, str) else listed(one) for one in value]
            found.append((_NOTES[key], sentences))
    return found


def _is_grid(value: Any) -> bool:
    """One mapping per data set."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(inner, Mapping) for inner in value.values())


def _grids(about: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """What is one row per data set: its network, samples, epochs."""
    found = []
    for key, value in about.items():
        if _is_grid(value):
            heads = list(dict.fromkeys(head for inner in value.values() for head in inner))
            rows = [
                [str(name), *(_cell(inner.get(head)) for head in heads)]
                for name, inner in value.items()
            ]
            found.append((_words(key), list(map(_words, heads)), rows))
    return found


def _cell(value: Any) -> str:
    if value is None or value == "":
        return DASH
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _words(key: str) -> str:
    return str(key).replace("_", " ").capitalize()
