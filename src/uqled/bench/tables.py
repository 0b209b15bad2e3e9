"""The stage tables in the paper's layout, and the same tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from uqled.bench.collected import Results
from uqled.bench.shown import DASH, fixed, in_order, method_name, percent, rate_name
from uqled.bench.statistics import (
    BOLD_RULE,
    Column,
    Columns,
    Rate,
    Sample,
    average,
    columns,
    datasets,
    difference,
    improvements,
    leaders,
    over_rates,
    treated,
)

BASELINE = "cl-pbnr"
_RELABELLED = ", relabelled instead of removed"
_SPREAD = "Mean ± sample standard deviation over seeds, in per cent."
Usual = Mapping[Rate, int]
_MEAN = (
    "Mean averages a row's rates; it has a spread where every rate has the same seeds, and is "
    "missing where a rate is."
)


@dataclass(frozen=True)
class Cell:
    """A number as it is written."""

    text: str = DASH
    mark: str = ""
    """"best": highest and outside the spread; "top": highest; "" otherwise."""


@dataclass(frozen=True)
class Row:
    """One method, or one fact about the block that is no method's."""

    name: str
    cells: tuple[Cell, ...]
    kind: str = "method"
    """"method", "baseline" or "fact"."""


@dataclass(frozen=True)
class Block:
    """One data set."""

    title: str
    note: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table that knows no format: groups of columns, blocks of rows."""

    title: str
    caption: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    """Heads, each with the columns under it."""
    blocks: tuple[Block, ...]
    label: str
    corner: str = "noise rate"
    """What the names of the columns are."""


def all_tables(results: Results) -> dict[str, list[Table]]:
    """The tables of each stage, the first of which is the paper's."""
    found = {
        "pilot": [stage1_table(results.pilot, "Pilot: wrong labels in the test sets", "pilot")],
        "stage1": [
            stage1_table(results.stage1, "Stage 1: finding wrong labels", "stage1"),
            stage1_more_table(results.stage1, "Stage 1: F0.5 and area", "stage1-more"),
        ],
        "stage2": [stage2_table(results), stage2_gain_table(results)],
    }
    contaminated = results.about.get("contaminated") or {}
    return {stage: [_warned(one, contaminated) for one in many] for stage, many in found.items()}


def stage1_table(frame: pd.DataFrame, title: str, label: str) -> Table:
    """F1 at each rate and their mean, precision and recall; the model's accuracy under them."""
    return _detection_table(
        frame,
        title,
        label,
        [("F1", "f1", True), ("Precision", "precision", False), ("Recall", "recall", False)],
    )


def stage1_more_table(frame: pd.DataFrame, title: str, label: str) -> Table:
    """F0.5 and the area under precision-recall in the same layout."""
    return _detection_table(
        frame, title, label, [("F0.5", "f05", True), ("Area under precision-recall", "aupr", True)]
    )


def stage2_table(results: Results) -> Table:
    """Accuracy after each treatment, and how many samples it removed or relabelled."""
    rates = _rates(results.stage2)
    blocks = []
    for name in datasets(results):
        noisy = columns(treated(results.stage2, "noisy"), name, "accuracy")
        for treatment, done in (("remove", ""), ("relabel", _RELABELLED)):
            frame = treated(results.stage2, treatment)
            accuracy, changed = (columns(frame, name, m) for m in ("accuracy", "changed"))
            facts, before = _facts(results, name, noisy, rates), noisy
            if treatment == "relabel":  # only what is to be compared with it
                facts, before = [], {rate: noisy[rate] for rate in accuracy if rate in noisy}
            if accuracy or before or facts:
                note, rows = _stage2_rows(accuracy, changed, before, rates)
                blocks.append(Block(name + done, note, (*facts, *rows)))
    heads = _heads(rates)
    return Table(
        "Stage 2: accuracy after cleaning",
        "Accuracy on the untouched test set of the network trained from scratch on the cleaned "
        f"training set, and the number of samples removed or relabelled. {_SPREAD} {_MEAN} "
        f"{BOLD_RULE} Training on the noisy labels takes part in the comparison.",
        (("Accuracy", heads), ("Removed or relabelled", tuple(map(rate_name, rates)))),
        tuple(blocks),
        "stage2",
    )


def stage2_gain_table(results: Results) -> Table:
    """What cleaning gained over the noisy labels, and against the baseline."""
    rates = _rates(results.stage2)
    blocks = []
    for name in datasets(results):
        noisy = columns(treated(results.stage2, "noisy"), name, "accuracy")
        for treatment, done in (("remove", ""), ("relabel", _RELABELLED)):
            by_rate = columns(treated(results.stage2, treatment), name, "accuracy")
            gain: dict[Rate, dict[str, Sample]] = {
                rate: {m: difference(s, noisy[rate]["noisy"]) for m, s in column.items()}
                for rate, column in by_rate.items()
                if "noisy" in noisy.get(rate, {})
            }
            against = improvements(by_rate)
            if not gain and not against:
                continue
            mean = over_rates(gain) if set(gain) == set(by_rate) and len(gain) > 1 else {}
            usual = _usual([gain, against])
            rows = [
                Row(
                    row_name(m),
                    (
                        *(_signed(gain.get(rate, {}).get(m), usual.get(rate, 0)) for rate in rates),
                        *([_signed(mean.get(m))] if len(rates) > 1 else []),
                        *(
                            _signed(against.get(rate, {}).get(m), usual.get(rate, 0))
                            for rate in rates
                        ),
                    ),
                    row_kind(m),
                )
                for m in _methods(by_rate)
            ]
            blocks.append(Block(name + done, _seeds(usual), tuple(rows)))
    return Table(
        "Stage 2: gain from cleaning",
        "Accuracy after cleaning minus accuracy of training on the noisy labels, in percentage "
        "points, and accuracy after cleaning relative to cleaning with CL-PBNR, in per cent. "
        "Differences and ratios are paired over seeds, then averaged; ± is their sample standard "
        "deviation.",
        (
            ("Minus noisy labels (points)", _heads(rates)),
            ("Against CL-PBNR (%)", tuple(map(rate_name, rates))),
        ),
        tuple(blocks),
        "stage2-gain",
    )


def stage1_csv(frame: pd.DataFrame) -> str:
    """A row per data set, method and rate: seeds, then mean and spread of every measure."""
    measures = ["f1", "precision", "recall", "f05", "aupr", "flagged"]
    measures += ["given_accuracy", "true_accuracy"]
    keys = ["dataset", "method"]
    return _csv([(keys, name, (name,), frame) for name in _names(frame)], measures)


def stage2_csv(stage2: pd.DataFrame) -> str:
    """A row per data set, treatment, method and rate; the rate of clean labels is empty."""
    parts = [
        (["dataset", "treatment", "method"], name, (name, treatment), treated(stage2, treatment))
        for name in _names(stage2)
        for treatment in ("clean", "noisy", "remove", "relabel")
    ]
    return _csv(parts, ["accuracy", "trained_on", "changed"])


def _warned(table: Table, contaminated: Mapping[str, str]) -> Table:
    """The table, with the reason beside each data set that is no clean evidence."""
    blocks = []
    for block in table.blocks:
        why = contaminated.get(block.title.removesuffix(_RELABELLED))
        note = f"{block.note}. Contaminated: {why}" if why else block.note
        blocks.append(replace(block, note=note))
    return replace(table, blocks=tuple(blocks))


def _csv(
    parts: Sequence[tuple[list[str], str, tuple[str, ...], pd.DataFrame]], measures: list[str]
) -> str:
    rows = []
    for keys, name, values, frame in parts:
        found = {m: columns(frame, name, m) for m in measures if m in frame}
        for rate in _union(found.values()):
            for method in in_order({m for by in found.values() for m in by.get(rate, {})}):
                row = dict(zip(keys, (*values, "" if method in values else method), strict=True))
                row |= {"rate": "" if rate is None else rate_name(rate)}
                samples = {m: by.get(rate, {}).get(method) for m, by in found.items()}
                row["seeds"] = str(max(s.n for s in samples.values() if s))
                for measure in measures:
                    sample = samples.get(measure)
                    row[f"{measure}_mean"] = _digits(sample.mean) if sample else ""
                    row[f"{measure}_sd"] = _digits(sample.sd) if sample else ""
                rows.append(row)
    heads = [f"{m}_{what}" for m in measures for what in ("mean", "sd")]
    names = [*(parts[0][0] if parts else ["dataset", "method"]), "rate", "seeds", *heads]
    return str(pd.DataFrame(rows, columns=names).to_csv(index=False, lineterminator="\n"))


def _detection_table(
    frame: pd.DataFrame, title: str, label: str, measures: list[tuple[str, str, bool]]
) -> Table:
    rates, blocks = _rates(frame), []
    for name in _names(frame):
        found = {m: columns(frame, name, m) for _, m, _ in measures}
        if not any(found.values()):
            continue
        usual = _usual(found.values())
        cells: dict[str, list[Cell]] = {m: [] for m in _methods(*found.values())}
        for _, measure, with_mean in measures:
            _add(cells, found[measure], rates, usual, with_mean=with_mean)
        rows = [Row(row_name(m), tuple(row), row_kind(m)) for m, row in cells.items()]
        width = len(rows[0].cells)
        rows += _accuracy_rows(frame, name, rates, usual, width)
        blocks.append(Block(name, _seeds(usual), tuple(rows)))
    groups = tuple(
        (head, _heads(rates) if with_mean else tuple(map(rate_name, rates)))
        for head, _, with_mean in measures
    )
    caption = (
        f"{_SPREAD} {_MEAN} {BOLD_RULE} Under each block, the accuracy of the model's "
        "out-of-sample predictions against the given labels and against the true ones."
    )
    return Table(title, caption, groups, tuple(blocks), label)


def _accuracy_rows(
    frame: pd.DataFrame, name: str, rates: Sequence[Rate], usual: Usual, width: int
) -> list[Row]:
    """The model's accuracy, which is the same for every method of a cell."""
    rows = []
    for measure, against in (("given_accuracy", "given labels"), ("true_accuracy", "true labels")):
        by_rate = columns(frame, name, measure) if measure in frame else {}
        one = {rate: {"model": _fullest(column.values())} for rate, column in by_rate.items()}
        if not one:
            continue
        cells: dict[str, list[Cell]] = {"model": []}
        _add(cells, one, rates, usual, with_mean=True)
        rest = [Cell("")] * (width - len(cells["model"]))
        rows.append(Row(f"Model's accuracy, {against}", (*cells["model"], *rest), "fact"))
    return rows


def _stage2_rows(
    accuracy: Columns, changed: Columns, noisy: Columns, rates: Sequence[Rate]
) -> tuple[str, list[Row]]:
    """The note and rows of a block: training on the noisy labels, then the methods."""
    together: dict[Rate, dict[str, Sample]] = {
        rate: {**noisy.get(rate, {}), **accuracy.get(rate, {})} for rate in {**noisy, **accuracy}
    }
    usual = _usual([accuracy or noisy])
    names = (["noisy"] if noisy else []) + _methods(accuracy)
    cells: dict[str, list[Cell]] = {name: [] for name in names}
    _add(cells, together, rates, usual, with_mean=True)
    rows = []
    for name in names:
        counts = [_count(changed.get(rate, {}).get(name)) for rate in rates]
        rows.append(Row(row_name(name), (*cells[name], *counts), row_kind(name)))
    return _seeds(usual), rows


def _facts(results: Results, name: str, noisy: Columns, rates: Sequence[Rate]) -> list[Row]:
    """Accuracy of training on clean labels, and how much the noisy ones cost."""
    clean = columns(treated(results.stage2, "clean"), name, "accuracy").get(None, {}).get("clean")
    if clean is None:
        return []
    blank = [Cell("")] * len(rates)
    once = [Cell("")] * len(rates) if len(rates) > 1 else []
    row = Row("Clean labels", (*once, _spread(clean), *blank), "fact")
    lost = {r: difference(clean, column["noisy"]) for r, column in noisy.items()}
    if not lost:
        return [row]
    usual = _usual([noisy])
    cells = [_signed(lost.get(rate), usual.get(rate, 0)) for rate in rates]
    if len(rates) > 1:
        cells.append(_signed(average(lost.values()) if len(lost) > 1 else None))
    return [row, Row("Clean minus noisy (points)", (*cells, *blank), "fact")]


def _add(
    cells: dict[str, list[Cell]],
    by_rate: Columns,
    rates: Sequence[Rate],
    usual: Usual,
    *,
    with_mean: bool,
) -> None:
    """Append to each row its cell at every rate, and of the mean."""
    found: list[tuple[Column, int]] = [(by_rate.get(r, {}), usual.get(r, 0)) for r in rates]
    if with_mean and len(rates) > 1:
        found.append((over_rates(by_rate) if len(by_rate) > 1 else {}, 0))
    for column, n in found:
        first = leaders(column)
        for name, row in cells.items():
            mark = ("best" if first.clear else "top") if name in first.names else ""
            row.append(_spread(column.get(name), n, mark))


def _spread(
    sample: Sample | None,
    usual: int = 0,
    mark: str = "",
    write: Callable[[float], str] = percent,
) -> Cell:
    """A sample as text; its number of seeds too where that is not the usual one (0: any)."""
    if sample is None or math.isnan(sample.mean):
        return Cell()
    text = write(sample.mean)
    if not math.isnan(sample.sd):
        text += f" ± {percent(sample.sd)}"
    return Cell(text + (f" (n = {sample.n})" if usual and sample.n != usual else ""), mark)


def _signed(sample: Sample | None, usual: int = 0) -> Cell:
    return _spread(sample, usual, write=lambda share: percent(share, signed=True))


def _count(sample: Sample | None) -> Cell:
    return Cell(fixed(sample.mean, 0)) if sample else Cell()


def _usual(parts: Iterable[Columns]) -> Usual:
    """At each rate, the number of seeds that most cells of a block have."""
    seen: dict[Rate, Counter[int]] = {}
    for by in parts:
        for rate, column in by.items():
            seen.setdefault(rate, Counter()).update(s.n for s in column.values() if s.n)
    return {rate: max(count, key=lambda n: (count[n], n)) for rate, count in seen.items() if count}


def _seeds(usual: Usual) -> str:
    """The number of seeds of a block: once, or at each rate where they differ."""
    if len(set(usual.values())) < 2:
        return "".join(f"n = {n} seed{'s' if n > 1 else ''}" for n in set(usual.values()))
    rates = _union([usual])
    return "n = " + ", ".join(f"{usual[rate]} at {rate_name(rate)}" for rate in rates)


def _fullest(samples: Iterable[Sample]) -> Sample:
    return max(samples, key=lambda sample: sample.n)


def _methods(*parts: Columns) -> list[str]:
    return in_order({m for by in parts for column in by.values() for m in column})


def _rates(frame: pd.DataFrame) -> list[Rate]:
    """Every rate of a frame, the labels' own errors last; clean training has none."""
    if frame.empty:
        return []
    chosen = frame[frame["treatment"] != "clean"] if "treatment" in frame else frame
    known = sorted({round(float(rate), 6) for rate in chosen["rate"].dropna()})
    return [*known, *([None] if chosen["rate"].isna().any() else [])]


def _union(parts: Iterable[Mapping[Rate, object]]) -> list[Rate]:
    found = {rate for by in parts for rate in by}
    return sorted(found, key=lambda rate: math.inf if rate is None else rate)


def _names(frame: pd.DataFrame) -> list[str]:
    return [] if frame.empty else list(dict.fromkeys(map(str, frame["dataset"])))


def _heads(rates: Sequence[Rate]) -> tuple[str, ...]:
    return (*map(rate_name, rates), *(["Mean"] if len(rates) != 1 else []))


def row_name(method: str) -> str:
    return method_name(method) + (" (baseline)" if method == BASELINE else "")


def row_kind(method: str) -> str:
    return "baseline" if method in (BASELINE, "noisy") else "method"


def _digits(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
