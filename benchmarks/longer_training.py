"""Why Monte Carlo dropout helps less here than in the paper: the length of training.

    python benchmarks/longer_training.py --data FOLDER --work FOLDER

The paper trains for up to 350 epochs; the benchmark of `docs/results.md` for a handful. A network
that was trained for long is surer than it is right, and the mean over dropout passes takes that
back; one that was trained briefly is not. So: the same images, noise, folds and seeds, and longer
and longer training. Confidence is the mean probability of the most probable class. `--work` keeps
the runs: a killed one continues.

writes `results/longer-training.json`, `.md` and `.png`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sklearn.metrics import f1_score

import machine
from uqled.data.loading import load
from uqled.detect.find import find_label_errors
from uqled.noise.kinds import noise_of_kind
from uqled.predict.crossval import cross_validate

RESULTS = Path(__file__).parent / "results"
RATE, FOLDS, PASSES, SEEDS = 0.1, 4, 5, (0, 1, 2)
METHODS = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "alg-ens-2")
PACKAGES = ("uqled", "numpy", "scikit-learn", "torch")


@dataclass(frozen=True)
class Setting:
    name: str
    place: str
    limit: int
    model: str
    epochs: tuple[int, ...]
    image_size: int | None = None
    split: str | None = None


SETTINGS = (
    Setting("CIFAR-10, pretrained features", "cifar10/train.parquet", 10_000, "probe",
            (2, 5, 20, 80)),
    Setting("MNIST", "mnist", 2_000, "small", (2, 8, 32), split="train"),
)  # fmt: skip


def measured(setting: Setting, seed: int, epochs: int, data: Any, work: Path) -> dict[str, Any]:
    """One cross-validation on noisy labels, and what methods make of it."""
    true = data.labels.codes
    # Which classes look alike, by a network that was trained on clean labels, briefly.
    clean = cross_validate(
        data, setting.model, folds=FOLDS, passes=1, uncertainty="none", seed=seed,
        epochs=setting.epochs[1], out=work / f"{setting.place[:5]}-clean-{seed}",
    )  # fmt: skip
    noisy = noise_of_kind("similarity", true, rate=RATE, pred_probs=clean.pred_probs, seed=seed)
    found = cross_validate(
        data.with_labels(noisy.labels), setting.model, folds=FOLDS, passes=PASSES, seed=seed,
        epochs=epochs, out=work / f"{setting.place[:5]}-{epochs}-{seed}",
    )  # fmt: skip
    mean = found.passes.mean(axis=0)
    flags = find_label_errors(noisy.labels, found.pred_probs, found.passes, method="all")
    return {
        "setting": setting.name,
        "seed": seed,
        "epochs": epochs,
        "f1": {
            name: float(f1_score(noisy.is_error, flags.by_method[name].mask)) for name in METHODS
        },
        "accuracy": {
            "softmax": float((found.pred_probs.argmax(axis=1) == true).mean()),
            "mean": float((mean.argmax(axis=1) == true).mean()),
        },
        "too_sure": {
            "softmax": _too_sure(found.pred_probs, noisy.labels),
            "mean": _too_sure(mean, noisy.labels),
        },
    }


def _too_sure(probs: Any, labels: Any) -> float:
    """By how much the most probable class is more probable than it is the label."""
    return float(probs.max(axis=1).mean() - (probs.argmax(axis=1) == labels).mean())


def _spread(values: list[float], unit: float = 100) -> str:
    return f"{unit * statistics.mean(values):.1f} ± {unit * statistics.stdev(values):.1f}"


def page(result: dict[str, Any]) -> str:
    m = result["machine"]
    versions = ", ".join(f"{n} {v}" for n, v in m["versions"].items())
    lines = [
        "# Longer training, and what dropout passes are worth",
        "",
        "Made by `benchmarks/longer_training.py`: the same images, similarity noise at "
        f"{RATE}, {FOLDS} folds, F = {PASSES} and seeds; only the training is longer. "
        f"Mean ± sample standard deviation over {len(SEEDS)} seeds; differences are paired. "
        f"{m['date']}, code {m['code']}; {m['cpu']}, {m['cores']} cores; Python {m['python']}, "
        f"{versions}.",
        "",
    ]
    for setting in SETTINGS:
        cells = [c for c in result["cells"] if c["setting"] == setting.name]
        if not cells:
            continue
        lines += [
            f"{setting.name}, {setting.limit:,} images, `{setting.model}`; points of a hundred:",
            "",
            "| epochs | accuracy, softmax | surer than right, softmax | surer than right, mean of "
            "passes | F1 of CL-PBNR | CL-MCD minus CL-PBNR | CL-MCD-E minus CL-PBNR | "
            "Alg-Ens (agreement 2) minus CL-PBNR |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for epochs in setting.epochs:
            some = [c for c in cells if c["epochs"] == epochs]
            if len(some) < len(SEEDS):
                continue
            gains = [
                _spread([c["f1"][name] - c["f1"]["cl-pbnr"] for c in some]) for name in METHODS[1:]
            ]
            lines.append(
                "| "
                + " | ".join(
                    [
                        str(epochs),
                        _spread([c["accuracy"]["softmax"] for c in some]),
                        _spread([c["too_sure"]["softmax"] for c in some]),
                        _spread([c["too_sure"]["mean"] for c in some]),
                        _spread([c["f1"]["cl-pbnr"] for c in some]),
                        *gains,
                    ]
                )
                + " |"
            )
        lines.append("")
    return "\n".join(lines)


def picture(result: dict[str, Any], path: Path) -> None:
    """How much each method gains on CL-PBNR against how much too sure the softmax is."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(SETTINGS), figsize=(4.6 * len(SETTINGS), 3.6), layout="constrained", squeeze=False
    )
    for setting, axis in zip(SETTINGS, axes[0], strict=True):
        cells = [c for c in result["cells"] if c["setting"] == setting.name]
        for name in METHODS[1:]:
            x = [100 * c["too_sure"]["softmax"] for c in cells]
            y = [100 * (c["f1"][name] - c["f1"]["cl-pbnr"]) for c in cells]
            axis.plot(x, y, "o", label=name, alpha=0.7)
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set(
            title=setting.name,
            xlabel="softmax surer than right (points)",
            ylabel="F1 minus that of CL-PBNR (points)",
        )
        axis.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    cells = []
    for setting in SETTINGS:
        data = load(
            options.data / setting.place, limit=setting.limit, image_size=setting.image_size,
            split=setting.split,
        )  # fmt: skip
        for epochs in setting.epochs:
            for seed in SEEDS:
                cells.append(measured(setting, seed, epochs, data, options.work))
                print(json.dumps(cells[-1]), flush=True)
    result = {
        "machine": machine.described(PACKAGES),
        "settings": [asdict(setting) for setting in SETTINGS],
        "cells": cells,
    }
    (RESULTS / "longer-training.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "longer-training.md").write_text(page(result))
    picture(result, RESULTS / "longer-training.png")


if __name__ == "__main__":
    main()
