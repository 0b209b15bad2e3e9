"""What the cells of `second_stage.py` say: accuracy after training on what each method leaves."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from paper.page_text import format_spread, format_table
from paper.sections.from_scratch_section import PAPER_FIVE, TITLES
from uqled.bench.results.formatting import format_method, format_percent, format_rate
from uqled.bench.results.statistics import SeedSample, make_sample, subtract_samples
from uqled.bench.suite import BASELINE

CELLS = Path(__file__).parents[2] / "results" / "from-scratch-stage2"
REESTIMATED_METHOD = f"{BASELINE}-reestimated"
#: What is done with the training set, those first that say most: its noisy labels, the same
#: without the flags of a method (`cl-pbnr` also on the re-estimated softmax), or its true labels.
TREATMENTS = ("noisy", BASELINE, REESTIMATED_METHOD, *PAPER_FIVE, "clean")
_NAMES = {
    "noisy": "noisy labels",
    BASELINE: "CL-PBNR, as trained",
    REESTIMATED_METHOD: "CL-PBNR, re-estimated",
    "clean": "true labels",
}
_SOURCES = {
    "as-trained": "softmax, as trained",
    "reestimated": "softmax, re-estimated",
    "passes": "mean of the passes",
}

Row = dict[str, Any]
Treatments = dict[str, dict[int, Row]]
"""Treatment -> seed -> cell."""


def read_treatments(folder: Path = CELLS) -> dict[tuple[str, float], Treatments]:
    """(setting, noise rate) -> the finished cells, in the order of the page."""
    cells: dict[tuple[str, float], Treatments] = defaultdict(lambda: defaultdict(dict))
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        cell = content["cell"]
        cells[cell["name"], cell["rate"]][cell["treatment"]][cell["seed"]] = content
    order = list(TITLES)
    return dict(sorted(cells.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def build_section(folder: Path = CELLS) -> list[str]:
    """Sentences and a table for each setting and rate; nothing where there is no cell."""
    cells = read_treatments(folder)
    if not cells:
        return []
    parts = [
        "## Trained on the remaining samples",
        "Stage 2: the flagged samples are removed from the training set, a network of the same "
        "kind is trained on the rest, and its accuracy is that on the true labels of the test set, "
        "in per cent. All networks of a seed begin with the same weights. Each predicts in three "
        "ways, because the network that is tested has batch norm after dropout as well.",
    ]
    for sentence, treatments in zip(describe_settings(folder), cells.values(), strict=True):
        parts += [sentence, _build_table(treatments)]
    return parts


def describe_settings(folder: Path = CELLS) -> list[str]:
    """For each setting and rate, what removal brings."""
    return [
        f"**{TITLES[name]}, noise rate {format_rate(rate)}, trained on the remaining samples.** "
        f"{_describe(treatments)}"
        for (name, rate), treatments in read_treatments(folder).items()
    ]


def _describe(treatments: Treatments) -> str:
    """In how many cases removal by one of the paper's five is better than something else."""
    texts = []
    for source, baseline in (("as-trained", BASELINE), ("reestimated", REESTIMATED_METHOD)):
        counts = []
        others = {"noisy": "training on the noisy labels", baseline: "removal by CL-PBNR"}
        for other, name in others.items():
            gains = [
                _read_accuracy(treatments[method][seed], source)
                - _read_accuracy(treatments[other][seed], source)
                for method in PAPER_FIVE
                for seed in sorted(treatments[method].keys() & treatments[other].keys())
            ]
            if gains:
                above = sum(gain > 0 for gain in gains)
                counts.append(f"{name} in {above} of {len(gains)} cases")
        if counts:
            phrase = "as trained" if source == "as-trained" else "with re-estimated statistics"
            texts.append(f"On the softmax {phrase}, the paper's five beat {' and '.join(counts)}.")
    return " ".join(texts)


def _build_table(treatments: Treatments) -> str:
    heads = ["trained on", "seeds", "images", "of them wrong", *_SOURCES.values()]
    heads.append("minus noisy labels (re-estimated, points)")
    rows = []
    for treatment in TREATMENTS:
        if not (seeds := dict(sorted(treatments[treatment].items()))):
            continue
        images = make_sample({seed: float(row["trained_on"]) for seed, row in seeds.items()})
        wrong_labels = make_sample(
            {seed: row["wrong_left"] / max(row["trained_on"], 1) for seed, row in seeds.items()}
        )
        gain = subtract_samples(
            _collect_accuracy(seeds, "reestimated"),
            _collect_accuracy(treatments["noisy"], "reestimated"),
        )
        rows.append(
            [
                _NAMES.get(treatment, format_method(treatment)),
                str(len(seeds)),
                f"{images.mean:,.0f}",
                f"{format_percent(wrong_labels.mean)}%",
                *(format_spread(_collect_accuracy(seeds, source)) for source in _SOURCES),
                _format_gain(gain) if treatment != "noisy" and gain.n else "",
            ]
        )
    return format_table(heads, rows)


def _format_gain(gain: SeedSample) -> str:
    spread = f" ± {format_percent(gain.sd)}" if gain.n > 1 else ""
    return f"{format_percent(gain.mean, signed=True)}{spread}"


def _collect_accuracy(seeds: dict[int, Row], source: str) -> SeedSample:
    return make_sample({seed: _read_accuracy(row, source) for seed, row in sorted(seeds.items())})


def _read_accuracy(row: Row, source: str) -> float:
    return float(row["accuracy"][source])
