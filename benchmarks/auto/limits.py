"""What no method can do: flags that are good whatever the truth is.

In `benchmarks/`:

    python -m auto.limits --data FOLDER --sets SETS

`auto`'s readings are explanations of the same predictions and the same labels. If one of them is
right, each label is wrong with the probability that it says, and the six algorithms have an F1 that
can be computed; so has any other set of flags. This finds, set by set, how far above the best of
the six any flags can stay under all readings at once, and how far the readings are apart in what
they say about the number of errors and the precision of `auto`'s flags.

Writes `results/auto_limits.json`, `results/auto_limits.md` and a picture. The folders are those of
`quality.py`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import machine
from auto import quality, quality_page
from uqled.detect.find import find_label_errors

Floats = NDArray[np.float64]

DRAWS = 20
N_MIXTURES = 9  # mixtures of two readings that are tried
COUNTS = 0.5  # a reading of this weight; the plain ones have 1
WORLDS = ("all readings", "those that count", "without `trusting`")
PICTURED_SET = "cifar10n-worst, five networks"


def select_plausible_readings(weights: Mapping[str, float]) -> dict[str, list[str]]:
    """The readings of each of `WORLDS`."""
    return {
        "all readings": list(weights),
        "those that count": [k for k, weight in weights.items() if weight >= COUNTS],
        "without `trusting`": [k for k in weights if k != "trusting"],
    }


def compute_expected_f1(probabilities: Floats, mask: quality.Bools) -> float:
    """Of flags, if each label is wrong with this probability: twice the hits over flags and errors,
    each as expected."""
    flags = int(np.count_nonzero(mask))
    return float(2 * probabilities[mask].sum() / max(flags + probabilities.sum(), 1e-12))


def make_mixtures(n: int) -> Iterator[Floats]:
    """Weights of n readings: of each alone, and of each two."""
    yield from np.eye(n)
    for one, other in combinations(np.eye(n), 2):
        for share in np.linspace(0, 1, N_MIXTURES + 2)[1:-1]:
            yield share * one + (1 - share) * other


def bound_gain(probabilities: Floats, to_beat: Floats) -> float:
    """An upper bound, over all sets of flags, of the least gain in expected F1 under any reading.

    wrong: [readings,N]; to_beat: [readings] the F1 that a gain is counted from.

    Let n labels be flagged, and let the gain be at least t under every reading. Then the errors
    among them are at least (t + to_beat) (n + errors) / 2, by each reading. Their mean, weighted in
    any way, is at most that of the n labels where the weighted mean of the readings is the largest.
    Each weighting so bounds t; the least of the bounds holds for n flags, the largest over n for
    all.
    """
    N = probabilities.shape[1]
    flags, errors = np.arange(N + 1), probabilities.sum(axis=1)
    bounds = np.full(N + 1, np.inf)
    for weights in make_mixtures(len(probabilities)):
        hits = np.append(0.0, np.cumsum(np.sort(weights @ probabilities)[::-1]))
        sizes = weights.sum() * flags + weights @ errors
        beaten = (weights @ to_beat) * flags + weights @ (to_beat * errors)
        np.minimum(bounds, (2 * hits - beaten) / np.maximum(sizes, 1e-12), out=bounds)
    return float(bounds.max())


def measure_set(one: quality.LoadedSet) -> dict[str, Any]:
    """Everything about one set. The truth is not used."""
    errors = find_label_errors(one.labels, one.softmax, one.passes, method="all", progress=False)
    auto = errors.by_method["auto"]
    assert auto.estimate is not None
    six = {
        name: errors.by_method[name].mask for name in quality_page.SIX if name in errors.by_method
    }
    # A reading by which no label is wrong has no F1.
    readings = {k: r for k, r in auto.estimate.readings.items() if r.sum() >= 1}
    best = {
        k: max(compute_expected_f1(r, mask) for mask in six.values()) for k, r in readings.items()
    }
    result: dict[str, Any] = {
        "set": one.name,
        "N": len(one.labels),
        "off": max((measure_f1_error(r, six) for r in readings.values()), default=0.0),
        "auto": min(
            (compute_expected_f1(r, auto.mask) - best[k] for k, r in readings.items()), default=0.0
        ),
        "worlds": {},
    }
    weights = {k: auto.estimate.weights[k] for k in readings}
    for name, is_kept in select_plausible_readings(weights).items():
        if is_kept:
            probabilities = np.array([readings[k] for k in is_kept])
            real = (
                probabilities[:, auto.mask].mean(axis=1)
                if auto.mask.any()
                else np.zeros(len(is_kept))
            )
            numbers = probabilities.sum(axis=1)
            result["worlds"][name] = {
                "gain": bound_gain(probabilities, np.array([best[k] for k in is_kept])),
                "numbers": [float(numbers.min()), float(numbers.max())],
                "precisions": [float(real.min()), float(real.max())],
            }
    if one.name == PICTURED_SET:
        result["curves"] = compute_curves(readings, best, auto.estimate.order, auto.n_flagged)
    return result


def measure_f1_error(probabilities: Floats, six: dict[str, quality.Bools]) -> float:
    """By how much the F1 of any of the six, as expected, is off the mean of drawn truths."""
    draws = np.random.default_rng(0).random((DRAWS, len(probabilities))) < probabilities
    return max(
        abs(
            float(np.mean([quality.compute_f1(mask, truth) for truth in draws]))
            - compute_expected_f1(probabilities, mask)
        )
        for mask in six.values()
    )


def compute_curves(
    readings: dict[str, Floats], best: dict[str, float], order: NDArray[Any], flagged: int
) -> dict[str, Any]:
    """F1 above the best of the six by how many are flagged, of each reading, for a picture."""
    flags = np.unique(np.linspace(1, len(order), 400).astype(int))
    gains = {
        k: (2 * np.cumsum(r[order])[flags - 1] / (flags + r.sum()) - best[k]).tolist()
        for k, r in readings.items()
    }
    return {"flags": flags.tolist(), "gains": gains, "flagged": flagged}


def list_criteria(rows: Sequence[dict[str, Any]]) -> list[str]:
    ratio = (1 + quality_page.CLOSE) / (1 - quality_page.CLOSE)
    lines = [
        "| which readings may be right | no flags are good | and by more than the measure is off "
        "| least | no number is good | no precision is good |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in WORLDS:
        pairs = [(row["worlds"][name], row["off"]) for row in rows if name in row["worlds"]]
        short = [-quality_page.SLACK - world["gain"] for world, _ in pairs]
        beyond = [x > off for x, (_, off) in zip(short, pairs, strict=True)]
        numbers = [world["numbers"][1] > ratio * world["numbers"][0] for world, _ in pairs]
        real = [world["precisions"][1] - world["precisions"][0] for world, _ in pairs]
        lines.append(
            f"| {name} | {sum(x > 0 for x in short)} of {len(pairs)} | {sum(beyond)} "
            f"| {min(world['gain'] for world, _ in pairs):+.3f} | {sum(numbers)} "
            f"| {sum(x > 2 * quality_page.STATED for x in real)} |"
        )
    off = [row["off"] for row in rows]
    return [
        "Good is, whichever of the readings is right: an F1 of at least the best of the six minus "
        f"{quality_page.SLACK}; a number of errors within {quality_page.CLOSE:.0%}; a stated "
        f"precision of `auto`'s flags within {quality_page.STATED * 100:.0f} points. A reading "
        f"counts that has a weight of {COUNTS} or more in `auto`, where the plain ones have 1. F1 "
        "is taken as expected hits over expected sizes; of the six, that is off the mean over "
        f"{DRAWS} drawn truths by {np.median(off):.4f} in the median over sets and by "
        f"{max(off):.3f} at most.",
        "",
        *lines,
    ]


def write_page(rows: Sequence[dict[str, Any]], m: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    world = "without `trusting`"
    lines = [
        "# What no method can do",
        "",
        f"{m['date']}, code {m['code']}; Python {m['python']}, {versions}. Made by "
        "`benchmarks/auto/limits.py`.",
        "",
        "Every set is one table of predictions and labels. The readings of `auto` are explanations "
        "of it: by each, a label is wrong with a probability of its own. If a reading is right, "
        "the six algorithms have an F1 that follows, and so have all other flags. *Any flags* is "
        "an upper bound of how far above the best of the six any flags can be under the reading "
        "that is the worst for them; where it is below zero, whatever is flagged is below the best "
        "of the six under one reading or another. *auto* is the same for `auto`'s flags. Numbers "
        f"and precisions are the lowest and the highest that a reading gives, {world}. The true "
        "labels are not used.",
        "",
        *list_criteria(rows),
        "",
        "![F1 by how many are flagged, under each reading](auto_limits.png)",
        "",
        "| set | N | " + " | ".join(f"any flags, {name}" for name in WORLDS) + " | auto "
        "| numbers of errors | precision of auto's flags |",
        "|---|--:|" + "--:|" * (len(WORLDS) + 3),
    ]
    for row in rows:
        worlds = row["worlds"]
        gains = [f"{worlds[k]['gain']:+.3f}" if k in worlds else "" for k in WORLDS]
        cells = " | "
        if world in worlds:
            cells = "{:,.0f} to {:,.0f}".format(*worlds[world]["numbers"])
            cells += " | {:.2f} to {:.2f}".format(*worlds[world]["precisions"])
        lines.append(
            f"| {row['set']} | {row['N']:,} | {' | '.join(gains)} | {row['auto']:+.3f} | {cells} |"
        )
    return "\n".join([*lines, ""])


def draw_picture(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """One set: where each reading wants the cut, and that no cut is right for all."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    row = next((row for row in rows if row["set"] == PICTURED_SET), None)
    if row is None:
        return
    of = row["curves"]
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name, gains in of["gains"].items():
        axes.plot(of["flags"], gains, label=name)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.axvline(of["flagged"], color="black", linewidth=0.8, linestyle=":", label="auto's flags")
    axes.set(
        ylim=(-0.2, 0.1), xlabel=f"labels flagged of {row['set']}",
        ylabel="F1 - best of the six, if the reading is right",
    )  # fmt: skip
    axes.legend(ncols=2, fontsize=9)
    figure.savefig(folder / "auto_limits.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for one in quality.iterate_sets(options.data, options.sets):
        rows.append(measure_set(one))
        print(one.name, json.dumps(rows[-1]["worlds"]), flush=True)
    about = machine.describe_machine(("uqled", "numpy", "numba", "scikit-learn", "torch"))
    machine.save("auto_limits", {"machine": about, "sets": rows}, write_page(rows, about))
    draw_picture(rows, quality.RESULTS)


if __name__ == "__main__":
    main()
