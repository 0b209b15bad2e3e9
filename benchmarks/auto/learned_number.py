"""What can be learnt about the number of wrong labels from data sets whose truth is known.

In `benchmarks/`:

    python -m auto.learned_number --data FOLDER --sets SETS

`auto` weighs its explanations by rules that were chosen by hand. Here a forest of randomised trees
takes their place: it learns from the truth of all sets of other data how many of the labels that
the model contradicts are wrong, given what each explanation counts, the share of contradicted
labels, the number of classes and how often passes contradict each other. The ranking is `auto`'s.
Nothing is learnt from the same data: MNIST, say, is left out with everything made of it.

The forest says how probable each share is (the shares of the sets in its leaves), and the flags are
those with the highest expected F1. `mixed` gives the forest and `auto`'s explanations equal weight;
`true number` is what knowing the number would bring. Writes `results/auto_learned_number.json` and
`.md`, and compares with `results/auto.json`.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

import machine
from auto import quality, quality_page
from uqled.detect.auto.explanations import Explanations, count_scores
from uqled.detect.find import find_label_errors

Floats = NDArray[np.float64]
TREES, LEAF, QUANTILES, SEED = 300, 3, 7, 0
MNIST = ("mnist", "coarse", "pairs", "digits")


def name_family(set_name: str) -> str:
    """The data that a set is made of.

    >>> name_family("mnist-even-4000-instance0.1-linear"), name_family("cifar10s, one network")
    ('mnist', 'cifar')
    """
    if set_name.startswith(("cifar", "northcutt")):
        return "cifar"
    if set_name.startswith(MNIST):
        return "mnist"
    match = re.match(r"[a-z]+\d*", set_name)
    assert match is not None
    return match[0]


def describe_set(one: quality.LoadedSet) -> dict[str, Any]:
    """A set's features, and its real and expected F1 by how many labels are flagged."""
    errors = find_label_errors(
        one.labels, one.softmax, one.passes, passes_kind=one.kind, progress=False
    )
    estimate = errors.estimate
    assert estimate is not None
    is_error, order = one.labels != one.true, np.argsort(errors.scores, kind="stable")
    numbers = {name: float(p.sum()) for name, p in estimate.readings.items()}
    most, N = numbers["trusting"], len(is_error)
    sizes = np.unique(np.geomspace(1, N, 700).astype(np.int64))
    level = np.clip(estimate.readings["level"], 1e-300, 1 - 1e-16)
    scores = (np.log(level) - np.log1p(-level))[order]

    def expect_f1(number: float) -> Floats:
        """[sizes] if so many labels are wrong."""
        by_number = Explanations.of({**numbers, "level": number}, count_scores(scores), 0.0)
        hits = np.cumsum(by_number.estimate(scores).readings["level"])
        curve: Floats = 2 * hits[sizes - 1] / (sizes + hits[-1])
        return curve

    weights = estimate.weights
    curve = sum(weights[n] * expect_f1(numbers[n]) for n in weights if weights[n])
    hits = np.cumsum(is_error[order])
    return {
        "set": one.name,
        "features": [
            np.log(numbers["level"] / most), np.log(numbers["confident"] / most),
            np.log(numbers.get("members", 0.05 * most) / most), float("members" in numbers),
            np.log(most / N), np.log(int(one.labels.max()) + 1),
        ],
        "log share": float(np.log(is_error.sum() / most)),
        "most": most,
        "errors": int(is_error.sum()),
        "f1": 2 * hits[sizes - 1] / (sizes + hits[-1]),
        "auto": curve / sum(weights.values()),
        "expect": expect_f1,
    }  # fmt: skip


def learn_shares(rows: list[dict[str, Any]]) -> list[Floats]:
    """Per set, quantiles of the logarithm of the share, learnt from all other families."""
    X = np.array([row["features"] for row in rows])
    y = np.array([row["log share"] for row in rows])
    families = np.array([name_family(row["set"]) for row in rows])
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    shares: list[Floats] = [np.empty(0)] * len(rows)
    for family in sorted(set(families)):
        others, family_rows = np.flatnonzero(families != family), np.flatnonzero(families == family)
        forest = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, random_state=SEED)
        leaves = forest.fit(X[others], y[others]).apply(X[others])
        for row, its_leaves in zip(family_rows, forest.apply(X[family_rows]), strict=True):
            together = leaves == its_leaves
            weight = (together / together.sum(axis=0)).sum(axis=1)
            rising = np.argsort(y[others])
            shares[row] = np.interp(
                middles, np.cumsum(weight[rising]) / weight.sum(), y[others][rising]
            )
    return shares


def measure(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per set, the F1 of each way to choose how many labels are flagged."""
    results = []
    for row, shares in zip(rows, learn_shares(rows), strict=True):
        learned_f1 = np.mean([row["expect"](row["most"] * np.exp(s)) for s in shares], axis=0)
        curves = {
            "auto": row["auto"],
            "learned": learned_f1,
            "mixed": learned_f1 + row["auto"],
            "true number": row["expect"](row["errors"]),
        }
        f1 = {name: float(row["f1"][int(np.argmax(curve))]) for name, curve in curves.items()}
        f1["best cut"] = float(row["f1"].max())
        low, high = np.quantile(shares, [0.1, 0.9])
        results.append(
            {"set": row["set"], "f1": f1, "covered": bool(low <= row["log share"] <= high)}
        )
    return results


def write_page(results: list[dict[str, Any]], about: dict[str, Any]) -> str:
    stored_sets = json.loads((machine.RESULTS / "auto.json").read_text(encoding="utf-8"))["sets"]
    six = {row["set"]: quality_page.find_best_of_six(row)[1] for row in stored_sets}
    own_rows = [row for row in results if row["set"] in six]
    lines = [
        "# What can be learnt about the number of wrong labels",
        "",
        f"Code {about['code']}; {machine.format_machine(about)} Made by "
        "`benchmarks/auto/learned_number.py`, which says how.",
        "",
        f"{len(own_rows)} sets. A forest that learnt from the truth of all sets of other data "
        "chooses how many labels are flagged, by `auto`'s ranking. The range of its quantiles "
        f"covers the true number on {np.mean([row['covered'] for row in own_rows]):.0%} of the "
        "sets.",
        "",
        "| how many are flagged | mean F1 | at least the best of the six minus "
        f"{quality_page.SLACK} | minus {quality_page.FAR} | least |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in ("auto", "learned", "mixed", "true number", "best cut"):
        f1 = np.array([row["f1"][name] for row in own_rows])
        gaps = f1 - [six[row["set"]] for row in own_rows]
        lines.append(
            f"| {name} | {f1.mean():.3f} | {np.mean(gaps >= -quality_page.SLACK):.0%} "
            f"| {np.mean(gaps >= -quality_page.FAR):.0%} | {gaps.min():+.3f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True)
    options = parser.parse_args()
    results = measure([describe_set(s) for s in quality.iterate_sets(options.data, options.sets)])
    about = machine.describe_machine(("uqled", "numpy", "scikit-learn"))
    page = write_page(results, about)
    machine.save("auto_learned_number", {"machine": about, "sets": results}, page)


if __name__ == "__main__":
    main()
