"""The stage tables in the paper's layout, and the same tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from uqled.bench.results.collection import ACCURACIES, Results
from uqled.bench.results.formatting import (
    DASH,
    format_method,
    format_number,
    format_percent,
    format_rate,
    sort_methods,
)
from uqled.bench.results.statistics import (
    BOLD_RULE,
    Rate,
    SamplesByMethod,
    SamplesByRate,
    SeedSample,
    average_over_rates,
    average_samples,
    compute_improvements,
    find_leaders,
    group_samples,
    list_datasets,
    select_treatment,
    subtract_samples,
)
from uqled.bench.suite import BASELINE

_RELABELLED_SUFFIX = ", relabelled instead of removed"
_CAPTION = "Mean ± sample standard deviation over seeds, in per cent."
SeedCounts = Mapping[Rate, int]
_MEAN = (
    "Mean averages a row's rates; it has a spread where every rate has the same seeds, and is "
    "missing where a rate is."
)


@dataclass(frozen=True)
class TableCell:
    """A number as it is written."""

    text: str = DASH
    mark: str = ""
    """"best": highest and outside the spread; "top": highest; "" otherwise."""


@dataclass(frozen=True)
class Row:
    """One method, or one fact about the block that is no method's."""

    name: str
    cells: tuple[TableCell, ...]
    kind: str = "method"
    """"method", "baseline" or "fact"."""


@dataclass(frozen=True)
class Block:
    """One data set."""

    title: str
    note: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class ResultTable:
    """A table that knows no format: groups of columns, blocks of rows."""

    title: str
    caption: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    """Heads, each with the columns under it."""
    blocks: tuple[Block, ...]
    label: str
    corner: str = "noise rate"
    """What the names of the columns are."""


def build_tables(results: Results) -> dict[str, list[ResultTable]]:
    """The tables of each stage, the first of which is the paper's."""
    tables = {
        "pilot": [
            build_stage1_table(results.pilot, "Pilot: wrong labels in the test sets", "pilot")
        ],
        "stage1": [
            build_stage1_table(results.stage1, "Stage 1: finding wrong labels", "stage1"),
            build_stage1_area_table(results.stage1, "Stage 1: F0.5 and area", "stage1-more"),
        ],
        "stage2": [build_stage2_table(results), build_gain_table(results)],
    }
    contaminated = results.about.get("contaminated") or {}
    return {
        stage: [_add_warnings(one, contaminated) for one in group]
        for stage, group in tables.items()
    }


def build_stage1_table(frame: pd.DataFrame, title: str, label: str) -> ResultTable:
    """F1 at each rate and their mean, precision and recall; the model's accuracy under them."""
    return _build_detection_table(
        frame,
        title,
        label,
        [("F1", "f1", True), ("Precision", "precision", False), ("Recall", "recall", False)],
    )


def build_stage1_area_table(frame: pd.DataFrame, title: str, label: str) -> ResultTable:
    """F0.5 and the area under precision-recall in the same layout."""
    return _build_detection_table(
        frame, title, label, [("F0.5", "f05", True), ("Area under precision-recall", "aupr", True)]
    )


def build_stage2_table(results: Results) -> ResultTable:
    """Accuracy after each treatment, and how many samples it removed or relabelled."""
    rates = _list_rates(results.stage2)
    blocks = []
    for name in list_datasets(results):
        noisy = group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
        for treatment, title_ending in (("remove", ""), ("relabel", _RELABELLED_SUFFIX)):
            frame = select_treatment(results.stage2, treatment)
            accuracy, n_changed = (group_samples(frame, name, m) for m in ("accuracy", "changed"))
            facts, before = _build_fact_rows(results, name, noisy, rates), noisy
            if treatment == "relabel":  # as a reference for comparison
                facts, before = [], {rate: noisy[rate] for rate in accuracy if rate in noisy}
            if accuracy or before or facts:
                note, rows = _build_stage2_rows(accuracy, n_changed, before, rates)
                blocks.append(Block(name + title_ending, note, (*facts, *rows)))
    heads = _build_heads(rates)
    return ResultTable(
        "Stage 2: accuracy after cleaning",
        "Accuracy on the untouched test set of the network trained from scratch on the cleaned "
        f"training set, and the number of samples removed or relabelled. {_CAPTION} {_MEAN} "
        f"{BOLD_RULE} Training on the noisy labels takes part in the comparison.",
        (("Accuracy", heads), ("Removed or relabelled", tuple(map(format_rate, rates)))),
        tuple(blocks),
        "stage2",
    )


def build_gain_table(results: Results) -> ResultTable:
    """What cleaning gained over the noisy labels, and against the baseline."""
    rates = _list_rates(results.stage2)
    blocks = []
    for name in list_datasets(results):
        noisy = group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
        for treatment, title_ending in (("remove", ""), ("relabel", _RELABELLED_SUFFIX)):
            by_rate = group_samples(select_treatment(results.stage2, treatment), name, "accuracy")
            gain: dict[Rate, dict[str, SeedSample]] = {
                rate: {m: subtract_samples(s, noisy[rate]["noisy"]) for m, s in column.items()}
                for rate, column in by_rate.items()
                if "noisy" in noisy.get(rate, {})
            }
            rises = compute_improvements(by_rate)
            if not gain and not rises:
                continue
            mean = average_over_rates(gain) if set(gain) == set(by_rate) and len(gain) > 1 else {}
            n_seeds = _count_usual_seeds([gain, rises])
            rows = [
                Row(
                    name_row(m),
                    (
                        *(
                            _format_signed_spread(gain.get(rate, {}).get(m), n_seeds.get(rate, 0))
                            for rate in rates
                        ),
                        *([_format_signed_spread(mean.get(m))] if len(rates) > 1 else []),
                        *(
                            _format_signed_spread(rises.get(rate, {}).get(m), n_seeds.get(rate, 0))
                            for rate in rates
                        ),
                    ),
                    classify_row(m),
                )
                for m in _list_methods(by_rate)
            ]
            blocks.append(Block(name + title_ending, _format_seeds(n_seeds), tuple(rows)))
    return ResultTable(
        "Stage 2: gain from cleaning",
        "Accuracy after cleaning minus accuracy of training on the noisy labels, in percentage "
        "points, and accuracy after cleaning relative to cleaning with "
        f"{format_method(BASELINE)}, in per cent. "
        "Differences and ratios are paired over seeds, then averaged; ± is their sample standard "
        "deviation.",
        (
            ("Minus noisy labels (points)", _build_heads(rates)),
            (f"Against {format_method(BASELINE)} (%)", tuple(map(format_rate, rates))),
        ),
        tuple(blocks),
        "stage2-gain",
    )


def format_stage1_csv(frame: pd.DataFrame) -> str:
    """A row per data set, method and rate: seeds, then mean and spread of every measure."""
    measures = ["f1", "precision", "recall", "f05", "aupr", "flagged"]
    measures += [m for m in ACCURACIES if m in frame and frame[m].notna().any()]
    keys = ["dataset", "method"]
    return _format_csv([(keys, name, (name,), frame) for name in _list_names(frame)], measures)


def format_stage2_csv(stage2: pd.DataFrame) -> str:
    """A row per data set, treatment, method and rate; the rate of clean labels is empty."""
    parts = [
        (
            ["dataset", "treatment", "method"],
            name,
            (name, treatment),
            select_treatment(stage2, treatment),
        )
        for name in _list_names(stage2)
        for treatment in ("clean", "noisy", "remove", "relabel")
    ]
    return _format_csv(parts, ["accuracy", "trained_on", "changed"])


def _add_warnings(table: ResultTable, contaminated: Mapping[str, str]) -> ResultTable:
    """The table, with the reason beside each data set that is no clean evidence."""
    blocks = []
    for block in table.blocks:
        why = contaminated.get(block.title.removesuffix(_RELABELLED_SUFFIX))
        note = f"{block.note}. Contaminated: {why}" if why else block.note
        blocks.append(replace(block, note=note))
    return replace(table, blocks=tuple(blocks))


def _format_csv(
    parts: Sequence[tuple[list[str], str, tuple[str, ...], pd.DataFrame]], measures: list[str]
) -> str:
    rows = []
    for keys, name, values, frame in parts:
        columns = {m: group_samples(frame, name, m) for m in measures if m in frame}
        for rate in _merge_rates(columns.values()):
            for method in sort_methods({m for by in columns.values() for m in by.get(rate, {})}):
                row = dict(zip(keys, (*values, "" if method in values else method), strict=True))
                row |= {"rate": "" if rate is None else format_rate(rate)}
                samples = {m: by.get(rate, {}).get(method) for m, by in columns.items()}
                row["seeds"] = str(max(s.n for s in samples.values() if s))
                for measure in measures:
                    sample = samples.get(measure)
                    row[f"{measure}_mean"] = _format_digits(sample.mean) if sample else ""
                    row[f"{measure}_sd"] = _format_digits(sample.sd) if sample else ""
                rows.append(row)
    heads = [f"{m}_{what}" for m in measures for what in ("mean", "sd")]
    names = [*(parts[0][0] if parts else ["dataset", "method"]), "rate", "seeds", *heads]
    return str(pd.DataFrame(rows, columns=names).to_csv(index=False, lineterminator="\n"))


def _build_detection_table(
    frame: pd.DataFrame, title: str, label: str, measures: list[tuple[str, str, bool]]
) -> ResultTable:
    rates, blocks = _list_rates(frame), []
    for name in _list_names(frame):
        columns = {m: group_samples(frame, name, m) for _, m, _ in measures}
        if not any(columns.values()):
            continue
        n_seeds = _count_usual_seeds(columns.values())
        cells: dict[str, list[TableCell]] = {m: [] for m in _list_methods(*columns.values())}
        for _, measure, with_mean in measures:
            _append_cells(cells, columns[measure], rates, n_seeds, with_mean=with_mean)
        rows = [Row(name_row(m), tuple(row), classify_row(m)) for m, row in cells.items()]
        width = len(rows[0].cells)
        rows += _build_accuracy_rows(frame, name, rates, n_seeds, width)
        blocks.append(Block(name, _format_seeds(n_seeds), tuple(rows)))
    groups = tuple(
        (head, _build_heads(rates) if with_mean else tuple(map(format_rate, rates)))
        for head, _, with_mean in measures
    )
    caption = (
        f"{_CAPTION} {_MEAN} {BOLD_RULE} Under each block, the accuracy of the out-of-sample "
        "softmax, and of the mean of the passes, against the given labels and the true ones."
    )
    return ResultTable(title, caption, groups, tuple(blocks), label)


def _build_accuracy_rows(
    frame: pd.DataFrame, name: str, rates: Sequence[Rate], n_seeds: SeedCounts, width: int
) -> list[Row]:
    """The model's accuracies, which are the same for every method of a cell."""
    rows = []
    for measure, title in ACCURACIES.items():
        by_rate = group_samples(frame, name, measure) if measure in frame else {}
        one = {rate: {"model": _pick_fullest(column.values())} for rate, column in by_rate.items()}
        if not one:
            continue
        cells: dict[str, list[TableCell]] = {"model": []}
        _append_cells(cells, one, rates, n_seeds, with_mean=True)
        rest = [TableCell("")] * (width - len(cells["model"]))
        rows.append(Row(title, (*cells["model"], *rest), "fact"))
    return rows


def _build_stage2_rows(
    accuracy: SamplesByRate, n_changed: SamplesByRate, noisy: SamplesByRate, rates: Sequence[Rate]
) -> tuple[str, list[Row]]:
    """The note and rows of a block: training on the noisy labels, then the methods."""
    together: dict[Rate, dict[str, SeedSample]] = {
        rate: {**noisy.get(rate, {}), **accuracy.get(rate, {})} for rate in {**noisy, **accuracy}
    }
    n_seeds = _count_usual_seeds([accuracy or noisy])
    names = (["noisy"] if noisy else []) + _list_methods(accuracy)
    cells: dict[str, list[TableCell]] = {name: [] for name in names}
    _append_cells(cells, together, rates, n_seeds, with_mean=True)
    rows = []
    for name in names:
        counts = [_format_count(n_changed.get(rate, {}).get(name)) for rate in rates]
        rows.append(Row(name_row(name), (*cells[name], *counts), classify_row(name)))
    return _format_seeds(n_seeds), rows


def _build_fact_rows(
    results: Results, name: str, noisy: SamplesByRate, rates: Sequence[Rate]
) -> list[Row]:
    """Accuracy of training on clean labels, and how much the noisy ones cost."""
    clean = (
        group_samples(select_treatment(results.stage2, "clean"), name, "accuracy")
        .get(None, {})
        .get("clean")
    )
    if clean is None:
        return []
    blank = [TableCell("")] * len(rates)
    padding = [TableCell("")] * len(rates) if len(rates) > 1 else []
    row = Row("Clean labels", (*padding, _format_spread(clean), *blank), "fact")
    losses = {r: subtract_samples(clean, column["noisy"]) for r, column in noisy.items()}
    if not losses:
        return [row]
    n_seeds = _count_usual_seeds([noisy])
    cells = [_format_signed_spread(losses.get(rate), n_seeds.get(rate, 0)) for rate in rates]
    if len(rates) > 1:
        cells.append(
            _format_signed_spread(average_samples(losses.values()) if len(losses) > 1 else None)
        )
    return [row, Row("Clean minus noisy (points)", (*cells, *blank), "fact")]


def _append_cells(
    cells: dict[str, list[TableCell]],
    by_rate: SamplesByRate,
    rates: Sequence[Rate],
    n_seeds: SeedCounts,
    *,
    with_mean: bool,
) -> None:
    """Append to each row its cell at every rate, and of the mean."""
    columns: list[tuple[SamplesByMethod, int]] = [
        (by_rate.get(r, {}), n_seeds.get(r, 0)) for r in rates
    ]
    if with_mean and len(rates) > 1:
        columns.append((average_over_rates(by_rate) if len(by_rate) > 1 else {}, 0))
    for column, n in columns:
        first = find_leaders(column)
        for name, row in cells.items():
            mark = ("best" if first.is_clear else "top") if name in first.names else ""
            row.append(_format_spread(column.get(name), n, mark))


def _format_spread(
    sample: SeedSample | None,
    n_seeds: int = 0,
    mark: str = "",
    write: Callable[[float], str] = format_percent,
) -> TableCell:
    """A sample as text; its number of seeds too where that is not the usual one (0: any)."""
    if sample is None or math.isnan(sample.mean):
        return TableCell()
    text = write(sample.mean)
    if not math.isnan(sample.sd):
        text += f" ± {format_percent(sample.sd)}"
    return TableCell(text + (f" (n = {sample.n})" if n_seeds and sample.n != n_seeds else ""), mark)


def _format_signed_spread(sample: SeedSample | None, n_seeds: int = 0) -> TableCell:
    return _format_spread(sample, n_seeds, write=lambda share: format_percent(share, signed=True))


def _format_count(sample: SeedSample | None) -> TableCell:
    return TableCell(format_number(sample.mean, 0)) if sample else TableCell()


def _count_usual_seeds(parts: Iterable[SamplesByRate]) -> SeedCounts:
    """At each rate, the number of seeds that most cells of a block have."""
    counts: dict[Rate, Counter[int]] = {}
    for by in parts:
        for rate, column in by.items():
            counts.setdefault(rate, Counter()).update(s.n for s in column.values() if s.n)
    return {rate: max(n, key=lambda k: (n[k], k)) for rate, n in counts.items() if n}


def _format_seeds(n_seeds: SeedCounts) -> str:
    """The number of seeds of a block: once, or at each rate where they differ."""
    if len(set(n_seeds.values())) < 2:
        return "".join(f"n = {n} seed{'s' if n > 1 else ''}" for n in set(n_seeds.values()))
    rates = _merge_rates([n_seeds])
    return "n = " + ", ".join(f"{n_seeds[rate]} at {format_rate(rate)}" for rate in rates)


def _pick_fullest(samples: Iterable[SeedSample]) -> SeedSample:
    return max(samples, key=lambda sample: sample.n)


def _list_methods(*parts: SamplesByRate) -> list[str]:
    return sort_methods({m for by in parts for column in by.values() for m in column})


def _list_rates(frame: pd.DataFrame) -> list[Rate]:
    """Every rate of a frame, the labels' own errors last; clean training has none."""
    if frame.empty:
        return []
    rows = frame[frame["treatment"] != "clean"] if "treatment" in frame else frame
    rates = sorted({round(float(rate), 6) for rate in rows["rate"].dropna()})
    return [*rates, *([None] if rows["rate"].isna().any() else [])]


def _merge_rates(parts: Iterable[Mapping[Rate, object]]) -> list[Rate]:
    rates = {rate for by in parts for rate in by}
    return sorted(rates, key=lambda rate: math.inf if rate is None else rate)


def _list_names(frame: pd.DataFrame) -> list[str]:
    return [] if frame.empty else list(dict.fromkeys(map(str, frame["dataset"])))


def _build_heads(rates: Sequence[Rate]) -> tuple[str, ...]:
    return (*map(format_rate, rates), *(["Mean"] if len(rates) != 1 else []))


def name_row(method: str) -> str:
    return format_method(method) + (" (baseline)" if method == BASELINE else "")


def classify_row(method: str) -> str:
    return "baseline" if method in (BASELINE, "noisy") else "method"


def _format_digits(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
