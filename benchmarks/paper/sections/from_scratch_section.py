"""What the cells of `from_scratch.py` say: tables and sentences for two pages."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper.page_text import format_span, format_spread, format_table
from uqled.bench.results.formatting import format_method, format_rate, join_words
from uqled.bench.results.statistics import SeedSample, make_sample
from uqled.bench.suite import BASELINE, PAPER_METHODS

CELLS = Path(__file__).parents[2] / "results" / "from-scratch"
PAPER_FIVE = tuple(method for method in PAPER_METHODS if method != BASELINE)
#: Settings in the order of the page, and what each is.
TITLES = {
    "cifar10": "CIFAR-10, ResNet-18, Adam",
    "cifar10-sgd": "CIFAR-10, ResNet-18, SGD",
    "cifar10-full": "CIFAR-10, all images, ResNet-18, Adam",
    "cifar10-dropout-0.2": "CIFAR-10, ResNet-18, Adam, dropout 0.2",
    "vgg11": "MNIST, VGG-11",
    "vgg11-adam": "MNIST, VGG-11, Adam",
    "vgg11-group-norm": "MNIST, VGG-11, group norm, Adam",
    "vgg11-no-norm": "MNIST, VGG-11, no norm, Adam",
}
_DATA = {"cifar10": "CIFAR-10", "mnist": "MNIST"}
_DAMAGE = 0.01  # of accuracy that re-estimated statistics must bring, to speak of damage
_SOURCES = {
    "as-trained": "softmax, as trained",
    "passes": "mean of the passes",
    "reestimated": "softmax, re-estimated",
    "passes-reestimated": "mean of passes with re-estimated statistics",
}

Row = dict[str, Any]


@dataclass(frozen=True)
class SettingResults:
    """The finished cells of one setting."""

    name: str
    options: dict[str, Any]
    by_rate: dict[float, dict[int, Row]]
    """Noise rate -> seed -> accuracies and scores."""

    @property
    def rows(self) -> list[Row]:
        return [row for seeds in self.by_rate.values() for row in seeds.values()]

    @property
    def has_batch_norm(self) -> bool:
        return bool(self.options["norm"] == "batch")

    def count_above(self, statistics: str) -> tuple[int, int]:
        """(cases in which one of the paper's five beats CL-PBNR on this softmax, all cases)."""
        above = [
            read_f1(row, "as-trained", method) > read_f1(row, statistics, BASELINE)
            for row in self.rows
            for method in PAPER_FIVE
        ]
        return sum(above), len(above)


def read_settings(folder: Path = CELLS) -> list[SettingResults]:
    """The settings that have a finished cell."""
    cells: dict[str, dict[float, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
    options = {}
    for path in sorted(folder.rglob("seed-*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        cell = content["cell"]
        options[cell["name"]] = content["setting"]
        cells[cell["name"]][cell["rate"]][cell["seed"]] = content
    return [
        SettingResults(name, options[name], dict(sorted(cells[name].items())))
        for name in TITLES
        if name in cells
    ]


def read_f1(row: Row, statistics: str, method: str) -> float:
    """F1 of a method that has the softmax with these statistics."""
    return float(row["methods"][statistics][method]["f1"])


def describe_settings(settings: list[SettingResults]) -> list[str]:
    """The numbers of each setting in a few words: which source is more accurate, who finds more."""
    texts = []
    for setting in settings:
        accuracies = [row["accuracy"] for row in setting.rows]
        gaps = [one["passes"] - one["as-trained"] for one in accuracies]
        text = (
            f"**{TITLES[setting.name]}** ({_count_cells(setting)}). Accuracy of the mean of the "
            f"passes minus that of the softmax as trained: {format_span(gaps)} points. The paper's "
            f"five beat CL-PBNR {_describe_gains(setting, 'as-trained')}"
        )
        if setting.has_batch_norm:
            gains = [one["reestimated"] - one["as-trained"] for one in accuracies]
            spoilt = [one["passes-reestimated"] - one["passes"] for one in accuracies]
            text += (
                f". Re-estimated statistics change the softmax by {format_span(gains)} points and "
                f"the passes by {format_span(spoilt)}; then the five beat CL-PBNR "
                f"{_describe_gains(setting, 'reestimated')}"
            )
        texts.append(f"- {text}.")
    return ["\n".join(texts)] if texts else []


def _describe_gains(setting: SettingResults, statistics: str) -> str:
    """In how many cases, and the least and the most."""
    gains = [
        read_f1(row, "as-trained", method) - read_f1(row, statistics, BASELINE)
        for row in setting.rows
        for method in PAPER_FIVE
    ]
    above, cases = setting.count_above(statistics)
    return f"in {above} of {cases} cases ({format_span(gains)} points of F1)"


def build_tables(settings: list[SettingResults]) -> list[str]:
    """Accuracy of each source, and F1, in per cent."""
    if not settings:
        return []
    accuracies, scores = [], []
    for setting in settings:
        for rate, seeds in setting.by_rate.items():
            start = [TITLES[setting.name], format_rate(rate), str(len(seeds))]
            accuracies.append(
                [*start, *(format_spread(_collect_accuracy(seeds, source)) for source in _SOURCES)]
            )
            columns = [("as-trained", BASELINE), ("reestimated", BASELINE)]
            columns += [("as-trained", method) for method in PAPER_FIVE]
            scores.append([*start, *(format_spread(_collect_f1(seeds, *one)) for one in columns)])
    heads = ["training", "noise rate", "seeds"]
    baselines = ["CL-PBNR, as trained", "CL-PBNR, re-estimated"]
    return [
        "Accuracy against the true labels, in per cent:",
        format_table([*heads, *_SOURCES.values()], accuracies),
        "F1 in per cent:",
        format_table([*heads, *baselines, *map(format_method, PAPER_FIVE)], scores),
    ]


def describe_check(settings: list[SettingResults]) -> str:
    """How far uqled's re-estimation is from torch's own."""
    rows = [row["accuracy"] for one in settings if one.has_batch_norm for row in one.rows]
    if not rows:
        return ""
    gaps = [one["reestimated"] - one["by-torch"] for one in rows]
    return (
        "An independent check: `torch.optim.swa_utils.update_bn`, with dropout taken "
        "out of a copy of the network, re-estimates all its layers, including those before "
        "dropout. The "
        f"accuracy with uqled's statistics minus that with torch's: {format_span(gaps)} points."
    )


def describe_training(settings: list[SettingResults]) -> str:
    """What was made smaller than in the paper, from the settings themselves."""
    texts = []
    for setting in settings:
        one = setting.options
        width = (
            f"{one['width']:g} channels in the first stage"
            if one["network"] == "resnet18"
            else f"{one['width']:g} of its channels"
        )
        steps = f", divided by ten after {join_words(map(str, one['milestones']))} epochs"
        texts.append(
            f"{TITLES[setting.name]}: {one['samples']:,} images, {width}, {one['epochs']} epochs, "
            f"batches of {one['batch_size']}, learning rate {one['lr']:g}"
            f"{steps if one['milestones'] else ''}, dropout {one['dropout']:g}, "
            f"{one['precision']}"
        )
    return "; ".join(texts) + "." if texts else ""


def build_section(settings: list[SettingResults], link: str) -> list[str]:
    """For the page of results: the verdict on networks like the paper's."""
    if not settings:
        return []
    return [
        "## On networks like the paper's",
        "The statement that it is beneficial to use Monte Carlo dropout instead of the softmax, "
        "tested on networks with batch norm after dropout, trained from scratch, and on controls "
        f"without batch norm. [Details, and why]({link}).",
        *describe_settings(settings),
        judge_settings(settings),
    ]


def judge_settings(settings: list[SettingResults]) -> str:
    """What the networks with batch norm say together, for each data set."""
    texts = []
    for data, title in _DATA.items():
        with_batch_norm = [
            one for one in settings if one.has_batch_norm and one.options["data"] == data
        ]
        if with_batch_norm:
            texts.append(f"{title}: {_judge_data(with_batch_norm)}.")
    if not texts:
        return ""
    return (
        "**Verdict on networks with batch norm after dropout.** "
        + " ".join(texts)
        + " These networks are smaller than the paper's and were trained for less."
    )


def _judge_data(settings: list[SettingResults]) -> str:
    above, cases, n_above = 0, 0, 0
    for one in settings:
        above, cases = above + one.count_above("as-trained")[0], cases + 5 * len(one.rows)
        n_above += one.count_above("reestimated")[0]
    counts = (
        f"above CL-PBNR in {above} of {cases} cases as trained, and in {n_above} once the "
        "statistics fit"
    )
    rows = [row["accuracy"] for one in settings for row in one.rows]
    repair = max(one["reestimated"] - one["as-trained"] for one in rows)
    if repair < _DAMAGE:
        return f"{counts}; the softmax is not damaged, so this says nothing about the cause"
    if 2 * above <= cases:
        return f"{counts}; the statement does not hold, not even on the softmax as trained"
    if 2 * n_above < above:
        return f"{counts}; the statement holds only where batch norm has damaged the softmax"
    return f"{counts}; the statement holds whether the statistics fit or not"


def _count_cells(setting: SettingResults) -> str:
    n, all_folds = len(setting.rows), setting.options["folds"]
    short = [row for row in setting.rows if row.get("folds", all_folds) < all_folds]
    text = "1 cell" if n == 1 else f"{n} cells"
    if not short:
        return text
    counts = join_words(f"{row['folds']} of {all_folds}" for row in short)
    return f"{text}, unfinished: {counts} folds"


def _collect_accuracy(seeds: dict[int, Row], source: str) -> SeedSample:
    return make_sample({seed: row["accuracy"][source] for seed, row in seeds.items()})


def _collect_f1(seeds: dict[int, Row], statistics: str, method: str) -> SeedSample:
    return make_sample({seed: read_f1(row, statistics, method) for seed, row in seeds.items()})
