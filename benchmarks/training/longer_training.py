"""Does Monte Carlo dropout help less here than in the paper because training is shorter?

In `benchmarks/`:

    python -m training.longer_training --data FOLDER --work FOLDER
    python -m training.longer_training --tables-only

The paper trains for 15 to 350 epochs; the benchmark of `docs/results.md` for a handful. A network
that was trained for long may be overconfident, and the mean over dropout passes take that
back; one that was trained briefly is not too sure to begin with. So: the same images, noise, folds
and seeds, and longer and longer training. `--work` keeps the runs: a killed one continues.

writes `results/longer-training.json`, `.md` and `.png`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.metrics import f1_score

import machine
from uqled.bench.results.formatting import format_method, format_percent
from uqled.data.loading import load
from uqled.detect.find import find_label_errors
from uqled.noise.kinds import apply_noise_kind
from uqled.predict.crossval import cross_validate

RESULTS = machine.RESULTS
RATE, FOLDS, PASSES, SEEDS = 0.1, 4, 5, (0, 1, 2)
METHODS = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "alg-ens-2")
PACKAGES = ("uqled", "numpy", "scikit-learn", "torch")


@dataclass(frozen=True)
class LongerSetting:
    name: str
    place: str
    limit: int
    model: str
    epochs: tuple[int, ...]
    split: str | None = None


SETTINGS = (
    LongerSetting("CIFAR-10, pretrained features", "cifar10/train.parquet", 10_000, "probe",
            (2, 5, 20, 80)),
    LongerSetting("MNIST", "mnist", 2_000, "small", (2, 8, 32), split="train"),
)  # fmt: skip


def measure_training(
    setting: LongerSetting, seed: int, epochs: int, data: Any, work: Path
) -> dict[str, Any]:
    """One cross-validation on noisy labels, and what methods make of it."""
    true = data.labels.codes
    # Which classes look alike, by a network that was trained on clean labels, briefly.
    clean = cross_validate(
        data, setting.model, folds=FOLDS, passes=1, uncertainty="none", seed=seed,
        epochs=setting.epochs[1], out=work / f"{setting.place[:5]}-clean-{seed}",
    )  # fmt: skip
    noisy = apply_noise_kind("similarity", true, rate=RATE, pred_probs=clean.pred_probs, seed=seed)
    predictions = cross_validate(
        data.with_labels(noisy.labels), setting.model, folds=FOLDS, passes=PASSES, seed=seed,
        epochs=epochs, out=work / f"{setting.place[:5]}-{epochs}-{seed}",
    )  # fmt: skip
    assert predictions.passes is not None
    mean = predictions.passes.mean(axis=0)
    flags = find_label_errors(
        noisy.labels, predictions.pred_probs, predictions.passes, method="all"
    )
    return {
        "setting": setting.name,
        "seed": seed,
        "epochs": epochs,
        "f1": {
            name: float(f1_score(noisy.is_error, flags.by_method[name].mask)) for name in METHODS
        },
        "accuracy": {
            "softmax": float((predictions.pred_probs.argmax(axis=1) == true).mean()),
            "mean": float((mean.argmax(axis=1) == true).mean()),
        },
        "too_sure": {
            "softmax": _measure_overconfidence(predictions.pred_probs, noisy.labels),
            "mean": _measure_overconfidence(mean, noisy.labels),
        },
    }


def _measure_overconfidence(probs: Any, labels: Any) -> float:
    """By how much the most probable class is more probable than it is the label."""
    return float(probs.max(axis=1).mean() - (probs.argmax(axis=1) == labels).mean())


def _format_spread(values: list[float]) -> str:
    return f"{format_percent(statistics.mean(values))} ± {format_percent(statistics.stdev(values))}"


def format_page(result: dict[str, Any]) -> str:
    m = result["machine"]
    versions = ", ".join(f"{n} {v}" for n, v in m["versions"].items())
    head = [
        "# Longer training, and what dropout passes are worth",
        "Made by `benchmarks/training/longer_training.py`: the same images, similarity noise at "
        f"{RATE}, {FOLDS} folds, F = {PASSES} and seeds; only the training is longer. "
        f"Mean ± sample standard deviation over {len(SEEDS)} seeds; differences are paired. "
        f"{m['date']}, code {m['code']}; {m['cpu']}, {m['cores']} cores; Python {m['python']}, "
        f"{versions}.",
    ]
    return "\n\n".join([*head, *format_tables(result)]) + "\n"


def build_section(result: dict[str, Any], link: str) -> list[str]:
    """For the page of results: the reason that was looked for, and what was seen."""
    return [
        "### Why: the length of training?",
        "The paper trains for 15 to 350 epochs, this benchmark for a handful. A network that was "
        "trained for long may be overconfident, and the mean over dropout passes corrects that; "
        "one that was trained briefly is not overconfident to begin with. So the same "
        f"images, noise (similarity, {RATE}), folds and seeds were trained for longer and longer "
        f"([all]({link}/longer-training.md)).",
        *(
            _describe_finding(setting, result)
            for setting in SETTINGS
            if _format_cells(setting, result)
        ),
        *format_tables(result),
        f"![gain over CL-PBNR against overconfidence of the softmax]({link}/longer-training.png)",
    ]


def _describe_finding(setting: LongerSetting, result: dict[str, Any]) -> str:
    """What changed from the shortest to the longest training, and if the gain follows."""
    cells = _format_cells(setting, result)
    sentences = []
    for epochs in (setting.epochs[0], setting.epochs[-1]):
        epoch_cells = [c for c in cells if c["epochs"] == epochs]
        overconfidence = _format_spread([c["too_sure"]["softmax"] for c in epoch_cells])
        gain = _format_spread([c["f1"]["cl-mcd"] - c["f1"]["cl-pbnr"] for c in epoch_cells])
        right = _format_spread(
            [c["accuracy"]["mean"] - c["accuracy"]["softmax"] for c in epoch_cells]
        )
        sentences.append(
            f"after {epochs} epochs the softmax is overconfident by {overconfidence} points, the "
            f"accuracy of the mean of the passes minus that of the softmax is {right} points, "
            f"and the F1 of CL-MCD minus that of CL-PBNR is {gain} points"
        )
    unclear, clear_parts = [], []
    for name in ("cl-mcd", "cl-mcd-e"):
        first, last = (
            [_compute_gain(cells, name, seed, epochs) for seed in SEEDS]
            for epochs in (setting.epochs[0], setting.epochs[-1])
        )
        change = [after - before for before, after in zip(first, last, strict=True)]
        unclear.append(f"{format_method(name)} by {_format_spread(change)}")
        clear_parts.append(statistics.mean(change) > statistics.stdev(change))
    verdict = (  # of CL-MCD, which was the question
        "So brief training is one reason why CL-MCD is behind."
        if clear_parts[0]
        else "For CL-MCD the rise is within the spread."
    )
    return (
        f"{setting.name} (`{setting.model}`, {setting.limit:,} images): {'; '.join(sentences)}. "
        "From the shortest to the longest training, the difference in F1 from CL-PBNR changes, "
        f"paired by seed: for {', for '.join(unclear)} points. {verdict}"
    )


def _compute_gain(cells: list[dict[str, Any]], name: str, seed: int, epochs: int) -> float:
    (one,) = (c for c in cells if c["seed"] == seed and c["epochs"] == epochs)
    return float(one["f1"][name] - one["f1"]["cl-pbnr"])


def _format_cells(setting: LongerSetting, result: dict[str, Any]) -> list[dict[str, Any]]:
    return [c for c in result["cells"] if c["setting"] == setting.name]


def format_tables(result: dict[str, Any]) -> list[str]:
    """One per setting, each after a line that names it."""
    tables = []
    for setting in SETTINGS:
        lines = [
            "| epochs | accuracy, softmax | mean of passes | overconfidence, softmax | mean of "
            "passes | F1 of CL-PBNR | CL-MCD minus CL-PBNR | CL-MCD-E minus CL-PBNR | "
            "Alg-Ens (agreement 2) minus CL-PBNR |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for epochs in setting.epochs:
            epoch_cells = [c for c in _format_cells(setting, result) if c["epochs"] == epochs]
            if len(epoch_cells) < len(SEEDS):
                continue
            row = [
                [c["accuracy"]["softmax"] for c in epoch_cells],
                [c["accuracy"]["mean"] for c in epoch_cells],
                [c["too_sure"]["softmax"] for c in epoch_cells],
                [c["too_sure"]["mean"] for c in epoch_cells],
                [c["f1"]["cl-pbnr"] for c in epoch_cells],
                *(
                    [c["f1"][name] - c["f1"]["cl-pbnr"] for c in epoch_cells]
                    for name in METHODS[1:]
                ),
            ]
            lines.append(f"| {epochs} | {' | '.join(map(_format_spread, row))} |")
        tables += [f"{setting.name}; per cent and points:", "\n".join(lines)]
    return tables


def draw_picture(result: dict[str, Any], path: Path) -> None:
    """How much each method gains over CL-PBNR against the overconfidence of the softmax."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(SETTINGS), figsize=(4.6 * len(SETTINGS), 3.6), layout="constrained", squeeze=False
    )
    for setting, axis in zip(SETTINGS, axes[0], strict=True):
        cells = _format_cells(setting, result)
        for name in METHODS[1:]:
            x = [100 * c["too_sure"]["softmax"] for c in cells]
            y = [100 * (c["f1"][name] - c["f1"]["cl-pbnr"]) for c in cells]
            axis.plot(x, y, "o", label=name, alpha=0.7)
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set(
            title=setting.name,
            xlabel="overconfidence of the softmax (points)",
            ylabel="F1 minus that of CL-PBNR (points)",
        )
        axis.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--tables-only", action="store_true", help="of what was measured")
    options = parser.parse_args()
    path = RESULTS / "longer-training.json"
    if not options.tables_only:
        if options.data is None or options.work is None:
            parser.error("--data and --work are missing")
        path.write_text(json.dumps(measure_all(options.data, options.work), indent=1) + "\n")
    result = json.loads(path.read_text())
    (RESULTS / "longer-training.md").write_text(format_page(result))
    draw_picture(result, RESULTS / "longer-training.png")


def measure_all(folder: Path, work: Path) -> dict[str, Any]:
    cells = []
    for setting in SETTINGS:
        data = load(folder / setting.place, limit=setting.limit, split=setting.split)
        for epochs, seed in product(setting.epochs, SEEDS):
            cells.append(measure_training(setting, seed, epochs, data, work))
            print(json.dumps(cells[-1]), flush=True)
    return {
        "machine": machine.describe_machine(PACKAGES),
        "settings": [asdict(setting) for setting in SETTINGS],
        "cells": cells,
    }


if __name__ == "__main__":
    main()
