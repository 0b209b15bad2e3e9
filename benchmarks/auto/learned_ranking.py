"""What could be reached by choosing among rankings, or among methods, set by set.

In `benchmarks/`:

    python -m auto.learned_ranking

`results/auto.json` has the average precision of every ranking and the F1 of every method on every
set. Here forests of randomised trees choose one of them for each set: from all that `auto` knows
about it without the truth (what each explanation counts, the share of contradicted labels, the
number of classes, samples and passes, the stated precision, how many labels are flagged), they
learn by how much each ranking is worse than the best one, and the one that is predicted to lose
the least is taken; or they learn how often it is within 0.01 of the best one, and the one that is
predicted to be so most often is taken. Nothing is learnt from the same data: MNIST, say, is left
out with everything made of it.

Beside them are each ranking on all sets alike, `auto`, and somebody who knows the best one. Reads
`results/auto.json`, writes `results/auto_learned_ranking.json` and `.md`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

import machine
from auto.learned_number import name_family
from auto.quality_page import FAR, SIX, SLACK, STATED

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Row = dict[str, Any]
TREES, LEAF, SEED = 300, 8, 0
RANKINGS = (
    "self-confidence", "normalized margin", "self-confidence of the mean",
    "normalized margin of the mean", *SIX,
)  # fmt: skip
#: Taken in place of what needs passes where there are none.
WITHOUT_PASSES = {
    "self-confidence of the mean": "self-confidence",
    "normalized margin of the mean": "normalized margin",
    **dict.fromkeys(SIX, "cl-pbnr"),
}


class Choices(NamedTuple):
    """What may be chosen."""

    key: str
    """Where its values are in a row of `auto.json`."""
    names: tuple[str, ...]
    """All but `auto`."""
    kind: str
    title: str


CHOICES = (
    Choices("ap", RANKINGS, "ranking", "average precision"),
    Choices("f1", SIX, "method", "F1"),
)


def describe_set(row: Row) -> list[float]:
    """What is known about a set without the truth."""
    numbers, N = row["explanations"], row["N"]
    most = numbers["trusting"]
    return [
        *(float(np.log(numbers.get(name, 0.05 * most) / most)) for name in _COUNTED),
        float(np.log(numbers["level"] / numbers["confident"])),
        float("members" in numbers),
        float(np.log(most / N)),
        float(np.log(row["K"])),
        float(np.log(N)),
        float(row["F"]),
        float(np.log((row["flagged"] + 1) / N)),
        float(np.log(row["number"][0] / N)),
        *row["stated precision"],
    ]


_COUNTED = ("level", "confident", "members")


def collect_values(rows: list[Row], key: str, names: tuple[str, ...]) -> Floats:
    """[sets,names] the values of each."""
    return np.array(
        [[row[key].get(n, row[key].get(WITHOUT_PASSES.get(n, n))) for n in names] for row in rows]
    )


def predict_elsewhere(rows: list[Row], targets: Floats) -> Floats:
    """[sets,...] targets as forests predict them that learnt from all other data."""
    X = np.array([describe_set(row) for row in rows])
    families = np.array([name_family(row["set"]) for row in rows])
    predicted = np.empty_like(targets)
    for family in sorted(set(families)):
        own = families == family
        forest = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, random_state=SEED)
        predicted[own] = forest.fit(X[~own], targets[~own]).predict(X[own])
    return predicted


def choose_by_forest(rows: list[Row], merits: Floats, values: Floats) -> Floats:
    """[sets] the value of the choice whose merit [sets,names] is predicted to be highest."""
    at = predict_elsewhere(rows, merits).argmax(axis=1)
    chosen: Floats = values[np.arange(len(rows)), at]
    return chosen


def measure(rows: list[Row], choices: Choices) -> dict[str, Floats]:
    """Way to choose -> [sets] its values."""
    simple = collect_values(rows, choices.key, choices.names)
    every = collect_values(rows, choices.key, (*choices.names, "auto"))
    results = dict(zip(choices.names, simple.T, strict=True))
    best = simple.max(axis=1, keepdims=True)
    for among, values in (("without", simple), ("with", every)):
        losses = values - values.max(axis=1, keepdims=True)
        is_close = (values >= best - SLACK).astype(np.float64)
        for aim, merits in (("to lose the least", losses), ("to be close most often", is_close)):
            name = f"learned, {aim}, {among} `auto`"
            results[name] = choose_by_forest(rows, merits, values)
    return {**results, "auto": every[:, -1], "the best one, without `auto`": best[:, 0]}


def measure_precision(rows: list[Row]) -> dict[str, tuple[Floats, Bools]]:
    """Way to state the precision of the flags -> ([sets] by how much it is off, [sets] on which
    `auto` is not unsure)."""
    flagged = [row for row in rows if row["flagged"]]
    real = np.array([row["precision"] for row in flagged])
    stated = np.array([row["stated precision"] for row in flagged])
    learned = predict_elsewhere(flagged, real)
    is_sure = np.array([not row["unsure"] for row in flagged])
    return {"auto": (stated[:, 0] - real, is_sure), "learned": (learned - real, is_sure)}


def format_choices(rows: list[Row], choices: Choices) -> list[str]:
    values = measure(rows, choices)
    best = values["the best one, without `auto`"]
    lines = [
        f"## {choices.title[0].upper()}{choices.title[1:]}",
        "",
        f"| {choices.kind} | mean {choices.title} | at least the best without `auto` minus {SLACK} "
        f"| minus {FAR} | least |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, one in values.items():
        gaps = one - best
        lines.append(
            f"| {name} | {one.mean():.3f} | {np.count_nonzero(gaps >= -SLACK)} "
            f"| {np.count_nonzero(gaps >= -FAR)} | {gaps.min():+.3f} |"
        )
    return [*lines, ""]


def format_precision(rows: list[Row]) -> list[str]:
    by_way = measure_precision(rows)
    lines = [
        "## The stated precision of the flags",
        "",
        "A forest learns the precision itself from all other data.",
        "",
        "| stated by | root mean square error | within 5 points, where `auto` is not unsure "
        "| within 5 points, all sets |",
        "|---|--:|--:|--:|",
    ]
    for name, (off, told) in by_way.items():
        close = np.abs(off) <= STATED
        lines.append(
            f"| {name} | {np.sqrt(np.mean(off**2)):.3f} "
            f"| {np.count_nonzero(close & told)} of {np.count_nonzero(told)} "
            f"| {np.count_nonzero(close)} of {len(off)} |"
        )
    return [*lines, ""]


def write_page(rows: list[Row], about: dict[str, Any], measured: dict[str, Any]) -> str:
    lines = [
        "# What choosing among rankings and methods could reach",
        "",
        f"Code {about['code']}; {machine.format_machine(about)} Made by "
        "`benchmarks/auto/learned_ranking.py`, which says how, from the results in "
        f"[auto.md](auto.md) (code {measured['code']}).",
        "",
        f"{len(rows)} sets. A forest that learnt from the truth of all sets of other data chooses "
        "one of the rankings, or of the methods, for each set. What needs passes is replaced where "
        "there are none: a ranking of the mean by that of the softmax, a method by `cl-pbnr`.",
        "",
    ]
    for choices in CHOICES:
        lines += format_choices(rows, choices)
    return "\n".join([*lines, *format_precision(rows)])


def main() -> None:
    stored = json.loads((machine.RESULTS / "auto.json").read_text(encoding="utf-8"))
    rows = stored["sets"]
    about = machine.describe_machine(("uqled", "numpy", "scikit-learn"))
    content = {
        "machine": about,
        "sets": [row["set"] for row in rows],
        **{c.key: {k: v.tolist() for k, v in measure(rows, c).items()} for c in CHOICES},
        "precision off": {k: v.tolist() for k, (v, _) in measure_precision(rows).items()},
    }
    page = write_page(rows, about, stored["machine"])
    machine.save("auto_learned_ranking", content, page)


if __name__ == "__main__":
    main()
