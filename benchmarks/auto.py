"""How good `auto` is, set by set: F1 beside the six algorithms, the number of errors and its
interval, the probabilities, the stated precision.

    python benchmarks/auto_make.py --data FOLDER --out SETS
    python benchmarks/auto.py --data FOLDER --sets SETS
    python benchmarks/auto.py --data FOLDER --sets SETS --runs RUNS

writes `results/auto.json`, `results/auto.md` and pictures. The sets are listed in `auto_sets.py`;
RUNS is what `uqled bench laptop --data FOLDER --out RUNS` left.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import machine
from auto_sets import PARTS, PUBLISHED, PUBLISHED_SOFTMAX
from uqled.bench.cells import Cell, Cells
from uqled.bench.phases import read_out_of_sample
from uqled.bench.suite import read_suite
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors

RESULTS = Path(__file__).parent / "results"
SIX = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")
SLACK = 0.01  # below the best of the six
CLOSE = 0.25  # of the count
STATED = 0.05  # precision
VERDICTS = 100
ABOUT = {
    "development": "What is not said otherwise was chosen on these.",
    "held out": "Scored once after the first method was settled. Their results were known when the "
    "method was changed, so they are development sets now.",
    "later": "Listed before the method was changed and scored once after it: data, models and "
    "noise that none of the others had. Their results were known when `even` was added.",
    "fresh": "Listed before `even` was added and scored after it: other data, models and noise "
    "again. Then its treatment of few counts and of temperatures was changed, with their results "
    "known.",
    "unseen": "Listed after that change, and scored once. Then `least` got a weight, with their "
    "results known.",
    "last": "Listed before that, and scored once after it. Then the transition matrices got their "
    "spread and a reading was dropped, with their results known.",
    "drawn": "Drawn at random, and scored once after the last change. Then mistakes that a review "
    "found were mended.",
    "laptop": "The cross-validations of the benchmark in docs/results.md: networks with dropout, "
    "similarity noise, three seeds. Their "
    "results were known when `even` was added and when `least` got a weight.",
}

Bools = NDArray[np.bool_]


class Loaded(NamedTuple):
    name: str
    part: str
    softmax: Any
    passes: Any
    labels: Any
    true: Any


def published(data: Path) -> Iterator[Loaded]:
    """Five networks in three ways, and softmax alone."""
    for name in PUBLISHED:
        with np.load(data / "predictions" / f"{name}.npz") as file:
            passes, labels, true = file["passes"], file["labels"], file["true_labels"]
        yield Loaded(f"{name}, five networks", "development", passes[2], passes, labels, true)
        two = passes[[0, 3]]
        yield Loaded(f"{name}, two networks", "development", passes[0], two, labels, true)
        yield Loaded(f"{name}, one network", "development", passes[2], None, labels, true)
    for name in PUBLISHED_SOFTMAX:
        with np.load(data / "predictions" / f"{name}.npz") as file:
            probs, labels, true = file["probs"], file["labels"], file["true_labels"]
        yield Loaded(name, "development", probs, None, labels, true)


def made_up(folder: Path, part: str) -> Iterator[Loaded]:
    for one in PARTS[part]:
        path = folder / f"{one.name}.npz"
        if not path.exists():
            print(f"{one.name} is not made yet")
            continue
        with np.load(path) as file:
            passes = file["passes"] if one.F else None
            yield Loaded(one.name, part, file["probs"], passes, file["labels"], file["true_labels"])


def of_runs(folder: Path, data: Path) -> Iterator[Loaded]:
    """The out-of-sample predictions that a benchmark left."""
    suite, cells = read_suite("laptop"), Cells(folder)
    for one in suite.data:
        for rate, seed in product(suite.rates, suite.seeds):
            cell = Cell("detection", one.name, seed, rate)
            found = read_out_of_sample(suite, cell, cells, data)
            yield Loaded(
                f"{one.name} {rate}, seed {seed}", "laptop",
                found.pred_probs, found.passes, found.given, found.true,
            )  # fmt: skip


def every(data: Path, made: Path, runs: Path | None) -> Iterator[Loaded]:
    """All sets, one after the other."""
    yield from published(data)
    for part in PARTS:
        yield from made_up(made, part)
    if runs is not None:
        yield from of_runs(runs, data)


def f1(mask: Bools, is_error: Bools) -> float:
    both = np.count_nonzero(mask & is_error)
    return float(2 * both / max(np.count_nonzero(mask) + np.count_nonzero(is_error), 1))


def measured(one: Loaded) -> dict[str, Any]:
    """Everything about one set."""
    is_error = one.labels != one.true
    found = find_label_errors(one.labels, one.softmax, one.passes, method="all", progress=False)
    auto: LabelErrors = found.by_method["auto"]
    assert auto.estimate is not None
    estimate, rate = auto.estimate, float(is_error.mean())
    number = estimate.number
    precision, wide = (estimate.precision(auto.mask, confidence=c) for c in (0.8, 0.95))
    mean = one.softmax if one.passes is None else np.mean(one.passes, axis=0, dtype=np.float64)
    guess = np.argmax(mean, axis=1)
    both = np.count_nonzero(auto.mask & is_error)
    ranked = np.cumsum(is_error[estimate.order])
    places = np.arange(1, len(is_error) + 1)
    return {
        "set": one.name,
        "part": one.part,
        "N": len(is_error),
        "K": int(mean.shape[1]),
        "F": 0 if one.passes is None else len(one.passes),
        "noise": rate,
        "accuracy": float(np.mean(guess == one.true)),
        "f1": {
            **{
                name: f1(found.by_method[name].mask, is_error)
                for name in SIX
                if name in found.by_method
            },
            "argmax": f1(guess != one.labels, is_error),
            "auto": f1(auto.mask, is_error),
        },
        "best cut": float((2 * ranked / (places + ranked[-1])).max()),
        "errors": int(is_error.sum()),
        "number": [number.value, number.low, number.high],
        "brier skill": 1
        - float(np.mean((estimate.probability - is_error) ** 2)) / (rate * (1 - rate)),
        "flagged": auto.n_flagged,
        "precision": both / max(auto.n_flagged, 1),
        "stated precision": [precision.value, precision.low, precision.high],
        "wide": [wide.low, wide.high],
        "unsure": estimate.unsure is not None,
        "weights": dict(estimate.weights),
        "reviewed": reviewed(one, guess, is_error),
        "readings": {
            name: {"f1": f1(_alone(r), is_error), "number": float(r.sum())}
            for name, r in estimate.readings.items()
        },
    }


def reviewed(one: Loaded, guess: Any, is_error: Bools) -> dict[str, Any]:
    """The same after a hundred verdicts, on samples whose label is not the model's guess."""
    doubtful = np.flatnonzero(guess != one.labels)
    some = np.random.default_rng(0).choice(doubtful, min(VERDICTS, len(doubtful)), replace=False)
    actions = np.zeros(len(is_error), int)
    actions[some] = np.where(is_error[some], 2, 1)
    found = find_label_errors(
        one.labels, one.softmax, one.passes, verdicts=(actions, one.true), progress=False
    )
    assert found.estimate is not None
    number, stated = found.estimate.number, found.estimate.precision(found.mask)
    both = np.count_nonzero(found.mask & is_error)
    return {
        "f1": f1(found.mask, is_error),
        "number": [number.value, number.low, number.high],
        "precision": both / max(found.n_flagged, 1),
        "stated precision": [stated.value, stated.low, stated.high],
        "unsure": found.estimate.unsure is not None,
    }


def _alone(probability: NDArray[np.float64]) -> Bools:
    """The flags if one reading were all there is."""
    order = np.argsort(-probability, kind="stable")
    so_far = np.cumsum(probability[order])
    best = int(np.argmax(so_far / (np.arange(1, len(order) + 1) + so_far[-1])))
    mask = np.zeros(len(order), np.bool_)
    mask[order[: best + 1]] = True
    return mask


def best_of_six(row: dict[str, Any]) -> tuple[str, float]:
    six = {name: row["f1"][name] for name in SIX if name in row["f1"]}
    name = max(six, key=lambda n: six[n])
    return name, six[name]


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| set | N | K | F | noise | accuracy | best of six | | argmax | auto | auto - six "
        "| errors | estimated (80 %) | Brier skill | precision | stated |",
        "|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        name, six = best_of_six(row)
        value, low, high = row["number"]
        told = f"{row['stated precision'][0]:.2f}"
        if row["unsure"]:
            told = "unsure, {:.2f} to {:.2f}".format(*row["wide"])
        lines.append(
            f"| {row['set']} | {row['N']:,} | {row['K']} | {row['F']} | {row['noise']:.3f} "
            f"| {row['accuracy']:.3f} | {name} | {six:.3f} | {row['f1']['argmax']:.3f} "
            f"| {row['f1']['auto']:.3f} | {row['f1']['auto'] - six:+.3f} | {row['errors']:,} "
            f"| {value:,.0f} ({low:,.0f} to {high:,.0f}) | {row['brier skill']:.2f} "
            f"| {row['precision']:.2f} | {told} |"
        )
    return lines


def criteria(rows: list[dict[str, Any]]) -> list[str]:
    """The issue's criteria, each with how many sets meet it."""

    def share(hits: list[bool]) -> str:
        return f"{sum(hits)} of {len(hits)}"

    gaps = [row["f1"]["auto"] - best_of_six(row)[1] for row in rows]
    with_passes = [row for row in rows if row["F"]]
    fixed = {
        name: float(np.mean([row["f1"][name] for row in with_passes])) for name in (*SIX, "argmax")
    }
    best = max(fixed, key=lambda n: fixed[n])
    own = float(np.mean([row["f1"]["auto"] for row in with_passes]))
    covered = [row["number"][1] <= row["errors"] <= row["number"][2] for row in rows]
    width = [(row["number"][2] - row["number"][1]) / row["errors"] for row in rows]
    noisy = [row for row in rows if row["noise"] > (1 - row["accuracy"]) / 2]
    close = [abs(row["number"][0] / row["errors"] - 1) <= CLOSE for row in noisy]
    strong = [row for row in rows if row["accuracy"] >= 0.8]
    skill = [row["brier skill"] >= 0.3 for row in strong]
    sure = [row for row in rows if not row["unsure"]]
    unsure = [row for row in rows if row["unsure"]]
    return [
        f"- F1 at least the best of the six minus {SLACK}: {share([g >= -SLACK for g in gaps])}; "
        f"least {min(gaps):+.3f}, mean {np.mean(gaps):+.3f}.",
        f"- Mean F1 where there are passes: {own:.3f}; the best fixed method is {best} with "
        f"{fixed[best]:.3f}; difference {own - fixed[best]:+.3f} (goal: 0.04).",
        f"- The 80 % interval covers the number of errors: {share(covered)} (goal: 70 %); width "
        f"{np.median(width):.2f} of that number in the median.",
        "- The number is within 25 %, where the noise exceeds half the model's error: "
        f"{share(close)}.",
        f"- Brier skill at least 0.3, where the model is at least 80 % accurate: {share(skill)}.",
        f"- Stated precision within 5 points: {share([_stated(row) for row in rows])}; "
        f"{share([_stated(row) for row in sure])} where it is told as a number, within 0.1 "
        f"{share([_stated(row, 0.1) for row in sure])}, in its interval "
        f"{share([_inside(row) for row in sure])}.",
        f"- Says 'unsure' and tells a range (95 %): {share([row['unsure'] for row in rows])}; the "
        f"real precision is in it {share([_inside(row) for row in unsure])}; a number would have "
        f"been wrong by more than 5 points {share([not _stated(row) for row in unsure])}.",
    ]


def _stated(row: dict[str, Any], slack: float = STATED) -> bool:
    """The stated precision is near the real one."""
    return bool(abs(row["precision"] - row["stated precision"][0]) <= slack)


def _inside(row: dict[str, Any]) -> bool:
    """The real precision is in the interval that is told."""
    low, high = row["wide"] if row["unsure"] else row["stated precision"][1:]
    return bool(low <= row["precision"] <= high)


def verdicts_table(rows: list[dict[str, Any]]) -> list[str]:
    """What a hundred verdicts change."""
    lines = [
        "| | mean F1 | number within 25 % | interval covers | median width "
        "| stated precision within 5 points | unsure |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    after = [row["reviewed"] | {"errors": row["errors"]} for row in rows]
    before = [row | {"f1": row["f1"]["auto"]} for row in rows]
    for name, some in (("before", before), ("after", after)):
        n = len(some)
        close = sum(abs(r["number"][0] / r["errors"] - 1) <= CLOSE for r in some)
        covers = sum(r["number"][1] <= r["errors"] <= r["number"][2] for r in some)
        width = np.median([(r["number"][2] - r["number"][1]) / r["errors"] for r in some])
        right, unsure = sum(_stated(r) for r in some), sum(r["unsure"] for r in some)
        lines.append(
            f"| {name} | {np.mean([r['f1'] for r in some]):.3f} | {close} of {n} | {covers} of {n} "
            f"| {width:.2f} | {right} of {n} | {unsure} of {n} |"
        )
    return lines


def readings_table(rows: list[dict[str, Any]]) -> list[str]:
    names = sorted({name for row in rows for name in row["readings"]})
    lines = [
        "| reading alone | mean F1 - best of six | least | sets below -0.01 "
        "| estimated / true number, 10 % to 90 % of sets |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in names:
        some = [row for row in rows if name in row["readings"]]
        gaps = np.array([row["readings"][name]["f1"] - best_of_six(row)[1] for row in some])
        ratio = np.array([row["readings"][name]["number"] / row["errors"] for row in some])
        low, high = np.quantile(ratio, [0.1, 0.9])
        lines.append(
            f"| {name} | {gaps.mean():+.3f} | {gaps.min():+.3f} | {int((gaps < -SLACK).sum())} of "
            f"{len(some)} | {low:.2f} to {high:.2f} |"
        )
    return lines


def written(rows: list[dict[str, Any]], m: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    lines = [
        "# `auto` beside the six algorithms",
        "",
        f"{m['date']}, code {m['code']}; Python {m['python']}, {versions}. Made by "
        "`benchmarks/auto.py`; the sets are in `benchmarks/auto_sets.py`. Each has one seed. "
        "The noise is the share of labels that are wrong, the accuracy that of the mean of the "
        "passes (of the softmax, where there are none). F = 0: softmax alone, and of the six only "
        "`cl-pbnr`.",
    ]
    for part, about in ABOUT.items():
        some = [row for row in rows if row["part"] == part]
        if some:
            lines += ["", f"## The {part} sets", "", about, "", *criteria(some), "", *table(some)]
    lines += ["", "## All sets together", "", *criteria(rows)]
    lines += ["", f"## After {VERDICTS} verdicts, all sets", ""]
    lines += ["On samples whose label is not the model's guess, drawn at random.", ""]
    lines += verdicts_table(rows)
    lines += ["", "## Each reading alone, all sets", "", *readings_table(rows), ""]
    return "\n".join(lines)


def pictures(rows: list[dict[str, Any]], folder: Path) -> None:
    """Where each kind of method is best: noise over the model's own error."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    x = np.array([row["noise"] / max(1 - row["accuracy"], 1e-3) for row in rows])
    for name, marker in (("cl-pbnr", "o"), ("argmax", "^"), ("auto", "*")):
        y = [row["f1"][name] - row["best cut"] for row in rows]
        left.scatter(x, y, marker=marker, s=28, label=name, alpha=0.8)
    left.set(xscale="log", xlabel="noise / the model's own error", ylabel="F1 - F1 of the best cut")
    left.axhline(0, color="grey", linewidth=0.8)
    left.legend()
    ratio = np.array([[v / row["errors"] for v in row["number"]] for row in rows])
    right.errorbar(
        x,
        ratio[:, 0],
        yerr=np.abs(ratio[:, 1:].T - ratio[:, 0]),
        fmt="*",
        elinewidth=0.8,
        capsize=2,
    )
    right.axhline(1, color="grey", linewidth=0.8)
    right.set(
        xscale="log", yscale="log", xlabel="noise / the model's own error",
        ylabel="estimated / true number of errors",
    )  # fmt: skip
    figure.savefig(folder / "auto.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", type=Path)
    parser.add_argument("--runs", type=Path, help="of `uqled bench laptop`")
    parser.add_argument("--tables-only", action="store_true", help="of what was measured before")
    options = parser.parse_args()
    if options.tables_only:
        kept = json.loads((RESULTS / "auto.json").read_text(encoding="utf-8"))
        machine.save("auto", kept, written(kept["sets"], kept["machine"]))
        return
    if options.data is None or options.sets is None:
        parser.error("--data and --sets say where the data and the sets are")
    rows = []
    for one in every(options.data, options.sets, options.runs):
        rows.append(measured(one))
        print(one.name, {k: round(v, 3) for k, v in rows[-1]["f1"].items()}, flush=True)
    about = machine.described(("uqled", "numpy", "numba", "scikit-learn", "torch"))
    machine.save("auto", {"machine": about, "sets": rows}, written(rows, about))
    pictures(rows, RESULTS)


if __name__ == "__main__":
    main()
