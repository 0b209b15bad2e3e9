"""The part of docs/results.md on predictions that others published, human errors among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paper.claims import PROPOSED_METHODS
from uqled.bench.results.formatting import format_method, format_percent, join_words, sort_methods
from uqled.bench.results.statistics import (
    SeedSample,
    find_leaders,
    is_clear,
    make_sample,
    subtract_samples,
)
from uqled.bench.results.table_formats import format_markdown_row
from uqled.bench.suite import BASELINE

_TITLES = {
    "cifar10n-worst": "CIFAR-10N, mistakes of human annotators",
    "cifar10s": "CIFAR-10S, synthetic errors",
}
_NORTHCUTT = re.compile(r"northcutt-sparsity([\d.]+)-noise([\d.]+)")
_SHOWN_MEASURES = ("f1", "precision", "recall", "aupr")


def build_human_errors_section(published_results: Mapping[str, Any]) -> list[str]:
    """Tables and sentences, as paragraphs of Markdown."""
    sections = [
        "## Published predictions",
        "Stage 1 on out-of-sample predictions that others published, for all 50,000 training "
        "images "
        "of CIFAR-10. In the first two sets the passes are five different networks, not dropout of "
        "one; each in turn provides the softmax for CL-PBNR, and ± is over those five. The "
        "others have one network and no passes, so only some methods can be computed. "
        "All methods: [published-predictions.md](../benchmarks/results/published-predictions.md). "
        f"Code {published_results['machine']['code']}.",
    ]
    return sections + [
        part
        for name in _order_sets(published_results["sets"])
        for part in _build_set(name, published_results)
    ]


def _build_set(name: str, published_results: Mapping[str, Any]) -> list[str]:
    set_result = published_results["sets"][name]
    networks = list(set_result["networks"].values())
    samples = {measure: _collect_samples(networks, measure) for measure in _SHOWN_MEASURES}
    f1 = samples["f1"]
    first = find_leaders({m: f1[m] for m in f1})
    rows = []
    for m in sort_methods(f1):
        mark = ("**" if first.is_clear else "*") if m in first.names else ""
        cells = [_format_range(samples[measure][m]) for measure in _SHOWN_MEASURES]
        rows.append([format_method(m), f"{mark}{cells[0]}{mark}", *cells[1:]])
    heads = ["", "F1", "precision", "recall", "area under precision-recall"]
    labels, true = (
        _format_range(make_sample(dict(enumerate(one[f"{what}_accuracy"] for one in networks))))
        for what in ("given", "true")
    )
    return [
        f"### {_format_title(name)}",
        f"{set_result['wrong']:,} of {set_result['n']:,} labels are wrong "
        f"({format_percent(set_result['wrong'] / set_result['n'])}%). The networks' "
        f"accuracy is {true}% against the true labels and {labels}% against the given ones. "
        + _write_sentences(f1, samples["recall"]),
        "\n".join(map(format_markdown_row, [heads, ["---", *["---:"] * 4], *rows])),
    ]


def _write_sentences(f1: Mapping[str, SeedSample], recall: Mapping[str, SeedSample]) -> str:
    top = max(f1, key=lambda m: f1[m].mean)
    first = find_leaders(f1)
    text = f"{format_method(top)} has the highest F1 ({format_percent(f1[top].mean)}%), "
    if f1[top].n < 2:
        text = text.removesuffix(", ") + "; a single network has no spread."
    else:
        text += "clearly." if first.is_clear else "but not clearly."
    sides: dict[str, list[str]] = {"above": [], "below": [], "within the spread of": []}
    for m in PROPOSED_METHODS:
        if m in f1:
            gap = subtract_samples(f1[m], f1[BASELINE])
            side = (
                ("above" if gap.mean > 0 else "below") if is_clear(gap) else "within the spread of"
            )
            sides[side].append(f"{format_method(m)} ({format_percent(gap.mean, signed=True)})")
    for side, names in sides.items():
        if names:
            how = "clearly " if side != "within the spread of" else ""
            place = f"{how.capitalize()}{side if how else side.capitalize()}"
            text += f" {place} CL-PBNR in F1, in points: {join_words(names)}."
    missed_share = 1 - recall[BASELINE].mean
    return text + f" CL-PBNR misses {format_percent(missed_share)}% of the wrong labels."


def _collect_samples(networks: list[Mapping[str, Any]], measure: str) -> dict[str, SeedSample]:
    methods = networks[0]["methods"]
    return {
        m: make_sample({i: float(one["methods"][m][measure]) for i, one in enumerate(networks)})
        for m in methods
    }


def _format_title(name: str) -> str:
    if name in _TITLES:
        return _TITLES[name]
    if match := _NORTHCUTT.fullmatch(name):
        return f"ResNet-50, sparse synthetic errors (sparsity {match[1]}, noise setting {match[2]})"
    return name


def _order_sets(names: Mapping[str, Any]) -> list[str]:
    """Human errors first."""
    return sorted(names, key=lambda name: (name not in _TITLES, name))


def _format_range(sample: SeedSample) -> str:
    text = format_percent(sample.mean)
    return text if sample.n < 2 or sample.sd < 1e-12 else f"{text} ± {format_percent(sample.sd)}"
