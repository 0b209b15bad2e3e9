"""Out-of-fold predictions with Monte Carlo dropout: uqled beside a careful loop in plain PyTorch.

In `benchmarks/`:

    python -m training_speed.measure --data FOLDER       FOLDER holds cifar10/train.parquet
    python -m training_speed.measure --data FOLDER --small

The paper's ResNet-50, and a small residual network of today as a user's own module: the same
images, folds, number of steps, optimiser, schedule and F on both sides, in turns, each run in a
process of its own on an otherwise idle machine. The clock runs from the images in memory to the
predictions. The accuracies are beside the seconds: the same number of steps has to lead as far.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import machine

GOAL = 1.5


@dataclass(frozen=True)
class Case:
    """One network, and how much it is trained."""

    n: int
    epochs: int
    batch_size: int
    lr: float
    seeds: int


CASES = {
    "resnet50": Case(n=1_500, epochs=3, batch_size=128, lr=0.02, seeds=2),
    "resnet9": Case(n=5_000, epochs=12, batch_size=128, lr=0.2, seeds=3),
}
SMALL_CASE = Case(n=300, epochs=1, batch_size=64, lr=0.02, seeds=1)


def predict(who: str, network: str, case: Case, folder: Path, seed: int) -> dict[str, float]:
    """Seconds and accuracies of one side."""
    from uqled.data import load

    data = load(str(folder / "cifar10" / "train.parquet"), limit=case.n, seed=0)
    labels = data.labels.codes
    began, processor_began = time.perf_counter(), _measure_processor_seconds()
    if who == "uqled":
        softmax, passes = _predict_with_uqled(data, network, case, seed)
    else:
        softmax, passes = _predict_with_peer(data, network, case, seed)
    return {
        "seconds": time.perf_counter() - began,
        "processor seconds": _measure_processor_seconds() - processor_began,
        "accuracy": float((softmax.argmax(axis=1) == labels).mean()),
        "mean of passes": float((passes.mean(axis=0).argmax(axis=1) == labels).mean()),
    }


def _predict_with_uqled(data: Any, network: str, case: Case, seed: int) -> tuple[Any, Any]:
    from training_speed.networks import resnet9
    from uqled.predict.crossval import cross_validate

    with tempfile.TemporaryDirectory() as out:
        predictions = cross_validate(
            data, resnet9 if network == "resnet9" else network, folds=4, passes=5,
            epochs=case.epochs, batch_size=case.batch_size, lr=case.lr, seed=seed,
            out=Path(out) / "run", progress=False,
        )  # fmt: skip
        return np.array(predictions.pred_probs), np.array(predictions.passes)


def _predict_with_peer(data: Any, network: str, case: Case, seed: int) -> tuple[Any, Any]:
    from torch import nn

    from training_speed import peer
    from training_speed.networks import resnet9
    from uqled.models import Dropout, build
    from uqled.models.hardware import has_bfloat16

    def make() -> nn.Module:
        if network == "resnet9":
            return resnet9(data.n_classes, data.inputs.shape[1:])
        shape = data.inputs.shape[1:]
        model = build(network, n_classes=data.n_classes, image_shape=shape, seed=seed)
        for layer in model.modules():  # PyTorch's own dropout, not ours
            if type(layer) is Dropout:
                layer.__class__ = nn.Dropout
        return model

    recipe = peer.Recipe(case.epochs, case.batch_size, case.lr)
    return peer.cross_validate(
        data.inputs, data.labels.codes, make, recipe, seed=seed, bfloat16=has_bfloat16("cpu")
    )


def _measure_processor_seconds() -> float:
    """Of this process and of those it has started that have ended."""
    import os

    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def format_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    lines = [
        "# Training with Monte Carlo dropout, beside plain PyTorch",
        "",
        f"{machine.format_machine(result['machine'])} Code {result['machine']['code']}. Made by "
        "`python -m training_speed.measure`.",
        "",
        "Images of CIFAR-10, four folds, F = 5; the same steps on both sides, seeds taking turns. "
        "Median (least to most, n).",
    ]
    verdicts = []
    for network, one in result["networks"].items():
        case, sides = one["case"], one["sides"]
        lines += [
            "",
            f"`{network}`: {case['n']:,} images, {case['epochs']} epochs, batches of "
            f"{case['batch_size']}.",
            "",
            "| | uqled | careful PyTorch |",
            "|---|---|---|",
        ]
        for name in sides["uqled"][0]:
            cells = [machine.summarize_times([run[name] for run in sides[who]]) for who in sides]
            texts = [
                f"{c['median']:.3g} ({c['least']:.3g} to {c['most']:.3g}, n = {c['n']})"
                for c in cells
            ]
            lines.append(f"| {name} | {' | '.join(texts)} |")
        pairs = zip(sides["uqled"], sides["peer"], strict=True)
        ratios = machine.summarize_times([p["seconds"] / u["seconds"] for u, p in pairs])
        mark = "met" if ratios["median"] >= GOAL else "**missed**"
        verdicts.append(
            f"| `{network}`: times faster than the peer | {ratios['median']:.2f} "
            f"({ratios['least']:.2f} to {ratios['most']:.2f}, n = {ratios['n']}) | >= {GOAL} | "
            f"{mark} |"
        )
    return "\n".join(
        [*lines, "", "| what | measured | goal | |", "|---|---|---|---|", *verdicts, ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="a trial; nothing is written")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--run", nargs=3, metavar=("WHO", "NETWORK", "SEED"), help="one side, here")
    arguments = parser.parse_args()
    cases = {name: SMALL_CASE if arguments.small else case for name, case in CASES.items()}
    if arguments.run:
        who, network, seed = arguments.run
        print(json.dumps(predict(who, network, cases[network], arguments.data, int(seed))))
        return
    results: dict[str, Any] = {}
    for network, case in cases.items():
        if arguments.only not in (None, network):
            continue
        sides: dict[str, list[Any]] = {"uqled": [], "peer": []}
        for seed in range(case.seeds):
            for who, runs in sides.items():
                command = [sys.executable, "-m", "training_speed.measure", "--data", arguments.data]
                small = ["--small"] if arguments.small else []
                out = subprocess.run(
                    [*map(str, command), *small, "--run", who, network, str(seed)],
                    check=True, stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                runs.append(json.loads(out.stdout.splitlines()[-1]))
                print(network, who, runs[-1], file=sys.stderr, flush=True)
        results[network] = {"case": vars(case), "sides": sides}
    about = machine.describe_machine(("uqled", "torch", "lightning-fabric"))
    result = {"machine": about, "networks": results}
    if arguments.small or arguments.only:
        print(format_page(result))
    else:
        machine.save("training_speed", result, format_page(result))


if __name__ == "__main__":
    main()
