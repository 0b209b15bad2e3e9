"""The page and the picture of `batch_norm.py`, made from its committed cells."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from paper.page_text import format_span, format_spread
from paper.sections import from_scratch_section, second_stage_section
from training.batch_norm_picture import TrainingGroup, draw_picture, group_settings
from uqled.bench.results.formatting import format_method, format_percent, format_rate, join_words
from uqled.bench.results.statistics import SeedSample, make_sample
from uqled.bench.results.table_formats import format_markdown_row
from uqled.storage.atomic import replace_file

HERE = Path(__file__).parents[1]
CELLS = HERE / "results" / "batch-norm"
PICTURE = CELLS / "batch-norm.png"
PAGE = HERE.parent / "docs" / "research" / "batch-norm.md"
_LINK = f"../../{CELLS.relative_to(HERE.parent)}"
_SOURCES = {
    "as-trained": "softmax as trained",
    "reestimated": "softmax re-estimated",
    "passes": "mean of passes",
}
#: What the tables show: (statistics of the softmax, method).
_COLUMNS = (
    ("as-trained", "cl-pbnr"),
    ("reestimated", "cl-pbnr"),
    ("as-trained", "cl-mcd"),
    ("as-trained", "cl-mcd-e"),
    ("as-trained", "cl-mcd-ens"),
    ("as-trained", "alg-ens-2"),
    ("as-trained", "alg-ens-3"),
)
_PICTURE_WIDTH, _PICTURE_RATE = 0.125, 0.1  # of the trainings by length that the picture shows
_LITTLE = 0.6  # a network that is right less often has hardly begun to learn its ten digits

Key = tuple[float, bool, float, int]
"""Width, whether there is batch norm, noise rate, epochs."""


def read_cells(folder: Path = CELLS) -> dict[Key, dict[int, dict[str, Any]]]:
    """Key -> seed -> accuracies and metrics of methods after that length of training."""
    cells: dict[Key, dict[int, dict[str, Any]]] = defaultdict(dict)
    for path in sorted(folder.rglob("seed-*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        cell, width = content["cell"], content["setting"]["width"]
        for row in content["lengths"]:
            key = (width, cell["batch_norm"], cell["rate"], row["epochs"])
            cells[key][cell["seed"]] = row
    return dict(sorted(cells.items(), key=lambda item: (item[0][0], not item[0][1], *item[0][2:])))


def collect_f1(rows: dict[int, dict[str, Any]], statistics: str, method: str) -> SeedSample:
    """F1 over seeds of a method that has the softmax with these statistics."""
    return make_sample(
        {seed: row["methods"][statistics][method]["f1"] for seed, row in sorted(rows.items())}
    )


def collect_accuracy(rows: dict[int, dict[str, Any]], source: str) -> SeedSample:
    """Accuracy over seeds of one source of probabilities, against the true labels."""
    return make_sample({seed: row["accuracy"][source] for seed, row in sorted(rows.items())})


def build_page(
    folder: Path = CELLS,
    from_scratch: Path = from_scratch_section.CELLS,
    stage2: Path = second_stage_section.CELLS,
) -> str:
    """The whole page, of the cells in three folders."""
    cells = read_cells(folder)
    trainings = from_scratch_section.read_settings(from_scratch)
    settings, machines = _collect_settings(folder), _collect_machines(folder)
    seeds = max((len(rows) for rows in cells.values()), default=0)
    n_finished = sum(1 for _ in folder.rglob("seed-*.json"))
    parts = [
        "# Batch norm after dropout, and the gain of Monte Carlo dropout",
        "The gain of Monte Carlo dropout over the plain softmax can come from batch norm layers "
        "*after* dropout layers, which the networks of the paper, VGG-11 and ResNet-50, have. In "
        "training, such a layer averages the mean and the variance of activations **with** "
        "dropout. At inference without dropout the activations have a smaller variance, so the "
        "stored statistics no longer fit, and the plain softmax can be damaged. The Monte Carlo "
        "passes have dropout, for which the statistics are right. A method that reads a damaged "
        "softmax (CL-PBNR) can lose to methods that read the passes, whatever the uncertainty is "
        "worth ([see the drawing](../predicting.md#where-the-passes-come-from)).",
        "The remedy is a few forward passes: the same weights, with the batch-norm statistics "
        "estimated again without dropout. uqled does that for its softmax by default; "
        "`--batch-norm as-trained` keeps the statistics from training, as in the paper.",
        "That this is the cause of the paper's gain is an inference: its networks have such "
        "layers, and it does not say that the statistics were estimated again. Its networks are "
        "wider than those of this page and were trained for more steps.",
        f"![Accuracy of each source, and F1 of each method]({_LINK}/{PICTURE.name})",
        "All networks side by side: at the top the accuracy of the three sources of "
        "probabilities, below it the F1 of the methods. A filled mark is a mean over seeds with "
        "its sample standard deviation; a hollow mark is one seed.",
        "## Trained from scratch, with controls",
        "The same weights give four sources of probabilities. If the statistics are the cause, "
        "swapping them must repair the softmax and damage the passes, and networks without batch "
        "norm must show no difference. Group norm normalises too, but keeps no statistics. "
        "Networks of this kind without batch norm learn only with Adam, so one network with batch "
        "norm was trained with Adam as well.",
        *from_scratch_section.describe_settings(trainings),
        from_scratch_section.judge_settings(trainings),
        *from_scratch_section.build_tables(trainings),
        from_scratch_section.describe_training(trainings),
        from_scratch_section.describe_check(trainings),
        *second_stage_section.build_section(stage2),
        "## By length of training",
        *_describe_findings(cells),
        "## How it was measured",
        "Each training gives three sources of probabilities: the softmax as trained, the "
        "softmax with batch norm re-estimated without dropout, and five passes. CL-PBNR reads the "
        "softmax; CL-MCD, CL-MCD-E and CL-MCD-Ens read the passes only; the algorithm ensembles "
        "include CL-PBNR on the softmax as trained. The data are MNIST digits with similarity "
        "noise in four folds, and the network is VGG-11 with fewer channels and five dropout "
        "layers, with and without batch norm. The learning rate is constant, so a short training "
        "is the beginning of a longer one. "
        f"{' '.join(settings)} {n_finished} cells (network, noise rate, seed) are finished; at "
        f"most {seeds} seeds. ± is the sample standard deviation over seeds; a "
        "row without it has one seed. Made by `benchmarks/training/batch_norm.py`. "
        f"{' '.join(machines)}",
        *_build_tables(cells),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _describe_findings(cells: dict[Key, dict[int, dict[str, Any]]]) -> list[str]:
    """In how many cells each thing is so, from the longest training of each network."""
    texts = []
    for with_norm, title in ((True, "With batch norm"), (False, "Without batch norm")):
        rows = [row for key, by in cells.items() if key[1] is with_norm for row in by.values()]
        if not rows:
            continue
        gaps = [row["accuracy"]["passes"] - row["accuracy"]["as-trained"] for row in rows]
        gains = [row["accuracy"]["reestimated"] - row["accuracy"]["passes"] for row in rows]
        above, over_cured = (
            sum(
                _average_f1(row, "as-trained", m) > _average_f1(row, statistics, "cl-pbnr")
                for row in rows
                for m in ("cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")
            )
            for statistics in ("as-trained", "reestimated")
        )
        n = 5 * len(rows)
        text = (
            f"**{title}** ({len(rows)} trainings: rate, seed and length). The mean of the passes "
            f"minus the softmax as trained: {format_span(gaps)} points of accuracy. The paper's "
            f"five have a higher F1 than CL-PBNR on the softmax as trained in {above} of {n} cases"
        )
        if with_norm:
            text += (
                f", and than CL-PBNR on the re-estimated softmax in {over_cured} of {n}. The "
                f"re-estimated softmax minus the mean of the passes: {format_span(gains)} points "
                "of accuracy"
            )
        best = max(row["accuracy"]["passes"] for row in rows)
        text += f". The most accurate mean of passes reaches {format_percent(best)}%"
        if best < _LITTLE:
            text += (
                ", which is low: these networks have hardly begun to learn in this time, so these "
                "rows say little"
            )
        texts.append(text + ".")
    return texts


def _average_f1(row: dict[str, Any], statistics: str, method: str) -> float:
    return float(row["methods"][statistics][method]["f1"])


def _build_tables(cells: dict[Key, dict[int, dict[str, Any]]]) -> list[str]:
    parts = []
    for width, with_norm in dict.fromkeys(key[:2] for key in cells):
        heads = ["noise rate", "epochs", *(f"accuracy, {name}" for name in _SOURCES.values())]
        heads += [_name_column(*column) for column in _COLUMNS]
        lines = [heads, ["---:"] * len(heads)]
        for key, rows in cells.items():
            if key[:2] == (width, with_norm):
                samples = [collect_accuracy(rows, source) for source in _SOURCES]
                samples += [collect_f1(rows, *column) for column in _COLUMNS]
                lines.append([format_rate(key[2]), str(key[3]), *map(format_spread, samples)])
        norm = "with" if with_norm else "without"
        parts.append(f"### VGG-11 at {width:g} of its width, {norm} batch norm")
        parts.append("Accuracy against the true labels, and F1, in per cent.")
        parts.append("\n".join(map(format_markdown_row, lines)))
    return parts


def _name_column(statistics: str, method: str) -> str:
    name = f"F1, {format_method(method)}"
    if method != "cl-pbnr":
        return name
    return name + (" as trained" if statistics == "as-trained" else " re-estimated")


def _collect_settings(folder: Path) -> list[str]:
    settings = {
        json.dumps(json.loads(path.read_text(encoding="utf-8"))["setting"], sort_keys=True)
        for path in folder.rglob("seed-*.json")
    }
    return [
        f"At {one['width']:g} of the width: {one['digits']:,} digits, {one['folds']} folds, "
        f"{one['passes']} passes, batches of {one['batch_size']}, learning rate {one['lr']:g}, "
        f"evaluated after {join_words(map(str, one['epochs']))} epochs."
        for one in map(json.loads, sorted(settings))
    ]


def _collect_machines(folder: Path) -> list[str]:
    machines = [
        json.loads(path.read_text(encoding="utf-8"))["machine"]
        for path in sorted(folder.rglob("seed-*.json"))
    ]
    return sorted(
        {
            f"{one['date']}, code {one['code']}; {one['cpu']}; Python {one['python']}, "
            + ", ".join(f"{name} {number}" for name, number in one["versions"].items())
            + "."
            for one in machines
        }
    )


def list_groups(
    folder: Path = CELLS, from_scratch: Path = from_scratch_section.CELLS
) -> list[TrainingGroup]:
    """What the picture shows: every setting trained from scratch, and one network by length."""
    lengths = {
        epochs: rows
        for (width, with_norm, rate, epochs), rows in read_cells(folder).items()
        if with_norm and (width, rate) == (_PICTURE_WIDTH, _PICTURE_RATE)
    }
    groups = group_settings(from_scratch_section.read_settings(from_scratch))
    if lengths:
        ticks = [f"{epochs}\nepochs" for epochs in lengths]
        title = f"MNIST\nVGG-11, rate {_PICTURE_RATE:g}\nby length"
        groups.append(TrainingGroup(title, ticks, list(lengths.values())))
    return groups


def write_page() -> None:
    """Write the page and the picture."""
    draw_picture(PICTURE, list_groups())
    with replace_file(PAGE) as part:
        part.write_text(build_page(), encoding="utf-8", newline="\n")
    print(f"wrote {PAGE}")
