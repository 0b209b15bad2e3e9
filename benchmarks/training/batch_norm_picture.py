"""The picture of docs/research/batch-norm.md: accuracy and F1 of every training, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper.sections.from_scratch_section import TITLES, SettingResults, read_f1
from uqled.bench.results.formatting import format_method, format_rate
from uqled.bench.results.statistics import SeedSample, make_sample
from uqled.bench.suite import BASELINE
from uqled.storage.atomic import replace_file

Row = dict[str, Any]

#: Source of probabilities, or (statistics of the softmax, method): label, colour, mark.
_ACCURACIES = {
    "as-trained": ("softmax, as trained", "#8b929c", "s"),
    "reestimated": ("softmax, batch norm re-estimated without dropout", "#1f2937", "s"),
    "passes": ("mean of the passes with dropout", "#3b82d6", "o"),
}
_SCORES = {
    ("as-trained", BASELINE): ("CL-PBNR, as trained", "#8b929c", "s"),
    ("reestimated", BASELINE): ("CL-PBNR, re-estimated", "#1f2937", "s"),
    ("as-trained", "cl-mcd"): (format_method("cl-mcd"), "#3b82d6", "o"),
    ("as-trained", "cl-mcd-e"): (format_method("cl-mcd-e"), "#d1495b", "D"),
    ("as-trained", "alg-ens-3"): (format_method("alg-ens-3"), "#8457c7", "^"),
}
_STEP = 0.12  # between the marks of one training, which would hide each other
_WIDEST = 13  # trainings beside each other
_NARROWEST = 2.0  # trainings, so that the title of a group has room


@dataclass(frozen=True)
class TrainingGroup:
    """Trainings that differ in one thing, such as the noise rate."""

    title: str
    ticks: list[str]
    trainings: list[dict[int, Row]]
    """For each tick, seed -> accuracies and scores."""

    @property
    def width(self) -> float:
        return max(_NARROWEST, len(self.ticks))


def group_settings(settings: Sequence[SettingResults]) -> list[TrainingGroup]:
    """A group for every setting trained from scratch, by noise rate."""
    return [
        TrainingGroup(
            TITLES[one.name].replace(", ", "\n"),
            [_name_rate(rate, list(rows.values()), one) for rate, rows in one.by_rate.items()],
            list(one.by_rate.values()),
        )
        for one in settings
    ]


def _name_rate(rate: float, rows: list[Row], setting: SettingResults) -> str:
    """The rate and, of a cell that lacks some, the number of its folds."""
    n_folds = setting.options["folds"]
    least = min(row.get("folds", n_folds) for row in rows)
    return format_rate(rate) + (f"\n{least} of {n_folds}\nfolds" if least < n_folds else "")


def draw_picture(path: Path, groups: Sequence[TrainingGroup]) -> None:
    """Accuracy above and F1 below; hollow marks where there is one seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    blocks = _split_blocks(groups)
    widest = max(_measure_width(block) for block in blocks)
    figure, axes = pyplot.subplots(
        2 * len(blocks), 1, figsize=(2 + 0.7 * max(widest, 9), 1 + 5 * len(blocks)),
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for at, block in enumerate(blocks):
        above, below = axes[2 * at : 2 * at + 2, 0]
        _plot_groups(above, block, _ACCURACIES, _collect_accuracy)
        _plot_groups(below, block, _SCORES, _collect_f1)
        _name_groups(above, below, block)
        above.set(ylabel="accuracy (%)", ylim=(0, 100))
        below.set(ylabel="F1 (%)", ylim=(0, 100), xlabel="noise rate, or length of training")
    for axis, title, side in ((axes[0, 0], "accuracy", "upper"), (axes[1, 0], "F1", "lower")):
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(
            handles, labels, fontsize=9, ncols=len(labels), frameon=False, title=title,
            loc=f"outside {side} center",
        )  # fmt: skip
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png", metadata={"Software": None})
    pyplot.close(figure)


def _split_blocks(groups: Sequence[TrainingGroup]) -> list[list[TrainingGroup]]:
    """All groups beside each other or, where they are too many, those of each data set."""
    if _measure_width(groups) <= _WIDEST:
        return [list(groups)]
    data = [group.title.split("\n")[0] for group in groups]
    return [
        [group for group, own_name in zip(groups, data, strict=True) if own_name == name]
        for name in dict.fromkeys(data)
    ]


def _measure_width(groups: Sequence[TrainingGroup]) -> float:
    return sum(group.width for group in groups)


def _plot_groups(
    axis: Any,
    groups: Sequence[TrainingGroup],
    styles: dict[Any, tuple[str, str, str]],
    collect: Any,
) -> None:
    for at, (key, (label, colour, mark)) in enumerate(styles.items()):
        for start, group in zip(_list_starts(groups), groups, strict=True):
            samples: list[SeedSample] = [collect(rows, key) for rows in group.trainings]
            shift = (at - (len(styles) - 1) / 2) * _STEP
            places = [start + i + shift for i in range(len(samples))]
            axis.plot(places, [100 * one.mean for one in samples], color=colour, linewidth=0.8)
            for x, sample in zip(places, samples, strict=True):
                is_repeated = sample.n > 1
                axis.errorbar(
                    x, 100 * sample.mean, yerr=100 * sample.sd if is_repeated else None,
                    marker=mark, color=colour, capsize=2,
                    markerfacecolor=colour if is_repeated else "white",
                    markersize=5, linestyle="none",
                )  # fmt: skip
        axis.plot([], [], color=colour, marker=mark, linewidth=0.8, markersize=5, label=label)
    axis.grid(axis="y", alpha=0.3)


def _name_groups(above: Any, below: Any, groups: Sequence[TrainingGroup]) -> None:
    """Titles above, a line between neighbours, and under each training what sets it apart."""
    places, ticks, edge = [], [], 0.0
    for start, group in zip(_list_starts(groups), groups, strict=True):
        places += [start + i for i in range(len(group.ticks))]
        ticks += group.ticks
        above.text(
            edge + group.width / 2, 1.03, group.title, fontsize=9, ha="center", va="bottom",
            transform=above.get_xaxis_transform(),
        )  # fmt: skip
        edge += group.width
        for axis in (above, below):
            axis.axvline(edge, color="#c3c8cf", linewidth=0.8)
    for axis, names in ((above, [""] * len(ticks)), (below, ticks)):
        axis.set_xlim(0, edge)
        axis.set_xticks(places, labels=names, fontsize=9)


def _list_starts(groups: Sequence[TrainingGroup]) -> list[float]:
    """Where the first training of each group stands; a group's trainings are in its middle."""
    starts, edge = [], 0.0
    for group in groups:
        starts.append(edge + (group.width - (len(group.ticks) - 1)) / 2)
        edge += group.width
    return starts


def _collect_accuracy(rows: dict[int, Row], source: str) -> SeedSample:
    return make_sample({seed: row["accuracy"][source] for seed, row in sorted(rows.items())})


def _collect_f1(rows: dict[int, Row], key: tuple[str, str]) -> SeedSample:
    return make_sample({seed: read_f1(row, *key) for seed, row in sorted(rows.items())})
