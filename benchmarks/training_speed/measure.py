"""Time and out-of-fold accuracy of a training: uqled beside a careful loop in plain PyTorch.

In `benchmarks/`:

    python -m training_speed.measure --data FOLDER       FOLDER holds cifar10/train.parquet
    python -m training_speed.measure --data FOLDER --small

`resnet9`, a small residual network of today as a user's own module, and `resnet50`, the paper's.
The peer trains them with SGD and a one-cycle schedule, for 12 and 8 epochs, uqled with the preset
`quick`, whose epochs are fewer and begin with small images: the accuracies beside the seconds
decide whether it counts. The peer is not tried with fewer epochs.

The same images, folds and F, sides in turns, each run in a process of its own on an otherwise idle
machine. The clock runs from the images in memory to the predictions. Every finished run is kept:
a command that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import machine
from training_speed.peer import Recipe

GOAL = 1.5
CHANCE = 0.1  # ten classes
SIDES = ("uqled", "peer")
ACCURACIES = ("accuracy", "mean of passes")


@dataclass(frozen=True)
class Case:
    """One network, and how each side trains it."""

    n: int
    seeds: int
    uqled: dict[str, Any]
    """Options of `cross_validate`."""
    peer: Recipe


CASES = {
    "resnet9": Case(
        n=4_000, seeds=2, uqled={"preset": "quick"},
        peer=Recipe(epochs=12, batch_size=64, lr=0.2),
    ),
    "resnet50": Case(
        n=1_000, seeds=1, uqled={"preset": "quick", "epochs": 5, "batch_size": 32},
        peer=Recipe(epochs=8, batch_size=32, lr=0.05),
    ),
}  # fmt: skip
SMALL = {
    "resnet9": Case(
        n=300, seeds=1, uqled={"preset": "quick", "epochs": 1},
        peer=Recipe(epochs=1, batch_size=64, lr=0.2),
    ),
    "resnet50": Case(
        n=200, seeds=1, uqled={"preset": "quick", "epochs": 1},
        peer=Recipe(epochs=1, batch_size=64, lr=0.02),
    ),
}  # fmt: skip


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
            data, resnet9 if network == "resnet9" else network, folds=case.peer.folds,
            passes=case.peer.passes, seed=seed, out=Path(out) / "run", progress=False,
            **case.uqled,
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

    return peer.cross_validate(
        data.inputs, data.labels.codes, make, case.peer, seed=seed, bfloat16=has_bfloat16("cpu")
    )


def _measure_processor_seconds() -> float:
    """Of this process and of those it has started that have ended."""
    import os

    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def format_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    lines = [
        "# Time and out-of-fold accuracy of two trainings, beside plain PyTorch",
        "",
        f"{machine.format_machine(result['machine'])} Code {result['machine']['code']}. Made by "
        "`python -m training_speed.measure`.",
        "",
        "Images of CIFAR-10, four folds, F = 5, both sides taking turns. Median (least to most, "
        f"n). A ratio of at least {GOAL} meets the goal if uqled is as accurate, without dropout "
        "and in the mean of the passes: over the seeds, its lead is in the mean no lower than "
        "minus one standard error of a single accuracy.",
    ]
    verdicts = []
    for network, one in result["networks"].items():
        case, sides = one["case"], one["sides"]
        lines += ["", f"`{network}`, {case['n']:,} images. {_describe_recipes(case)}", ""]
        lines += ["| | uqled | careful PyTorch |", "|---|---|---|"]
        for name in sides["uqled"][0]:
            cells = [machine.summarize_times([run[name] for run in sides[who]]) for who in SIDES]
            texts = [
                f"{c['median']:.3g} ({c['least']:.3g} to {c['most']:.3g}, n = {c['n']})"
                for c in cells
            ]
            lines.append(f"| {name} | {' | '.join(texts)} |")
        pairs = zip(sides["uqled"], sides["peer"], strict=True)
        ratios = machine.summarize_times([p["seconds"] / u["seconds"] for u, p in pairs])
        leads = {name: _list_leads(sides, name) for name in ACCURACIES}
        error = max(_estimate_error(sides["peer"], name, case["n"]) for name in ACCURACIES)
        is_met = ratios["median"] >= GOAL and min(map(mean, leads.values())) >= -error
        points = ", ".join(
            f"{name} {100 * min(lead):+.1f} to {100 * max(lead):+.1f}"
            for name, lead in leads.items()
        )
        verdict = "met" if is_met else "**missed**"
        least = min(run[name] for who in SIDES for run in sides[who] for name in ACCURACIES)
        if is_met and least < CHANCE + 3 * error:
            verdict += ", at accuracies near chance"
        verdicts.append(
            f"| `{network}` | {ratios['median']:.2f} "
            f"({ratios['least']:.2f} to {ratios['most']:.2f}, n = {ratios['n']}) | {points} | "
            f"{100 * error:.1f} | >= {GOAL} | {verdict} |"
        )
    return "\n".join(
        [
            *lines,
            "",
            "| network | times faster than the peer | points more accurate | standard error "
            "of an accuracy, points | goal | |",
            "|---|---|---|---|---|---|",
            *verdicts,
            "",
            "It is mostly the recipe that saves the time, and anybody can write it in plain "
            "PyTorch: [a step that calculates the same](training_speed_profile.md) has a bound "
            "that the profile gives. The recipe of `quick` was chosen by a few such runs, mostly "
            "with the same images and seeds; the peer was not tried with fewer epochs.",
            "",
        ]
    )


def _describe_recipes(case: dict[str, Any]) -> str:
    texts = []
    for who in SIDES:
        epochs, batch, rate = (case[who][name] for name in ("epochs", "batch_size", "lr"))
        optimiser = "Muon" if case[who].get("optimiser") == "muon" else "SGD"
        small = case[who].get("small_epochs")
        with_small = f" ({small} of them with small images)" if small else ""
        texts.append(
            f"{optimiser}, epochs: {epochs}{with_small}, batches of {batch}, rate {rate:g}"
        )
    return f"uqled, by the preset `quick`: {texts[0]}. The peer: {texts[1]}."


def _estimate_error(runs: list[dict[str, float]], name: str, n: int) -> float:
    """The standard error of one of these accuracies, of n images each."""
    accuracy = mean(run[name] for run in runs)
    return math.sqrt(accuracy * (1 - accuracy) / n)


def _list_leads(sides: dict[str, Any], name: str) -> list[float]:
    """By how much uqled is more accurate, with each seed."""
    return [own[name] - peer[name] for own, peer in zip(sides["uqled"], sides["peer"], strict=True)]


def describe_case(case: Case) -> dict[str, Any]:
    """The case as a result keeps it, with all options of uqled's training."""
    from uqled.predict.training_options import resolve_training

    training = resolve_training(case.uqled)
    own = asdict(training) | {"small_epochs": training.small_epochs}
    content = {"n": case.n, "seeds": case.seeds, "uqled": own, "peer": asdict(case.peer)}
    return json.loads(json.dumps(content))  # type: ignore[no-any-return]


def measure(cases: dict[str, Case], about: dict[str, Any], options: list[str], kept: Path) -> Any:
    """All runs that are missing in the file `kept`, which gets each of them when it is finished."""
    result: dict[str, Any] = {"machine": about, "networks": {}}
    earlier = json.loads(kept.read_text()) if kept.exists() else result
    if earlier["machine"]["code"] != about["code"]:
        earlier = result
    for network, case in cases.items():
        one = {"case": describe_case(case), "sides": {who: [] for who in SIDES}}
        before = earlier["networks"].get(network)
        if before is not None and before["case"] == one["case"]:
            one = before
        result["networks"][network] = one
        for seed in range(case.seeds):
            for who in SIDES:
                if len(one["sides"][who]) > seed:
                    continue
                command = [sys.executable, "-m", "training_speed.measure", *options]
                out = subprocess.run(
                    [*command, "--run", who, network, str(seed)],
                    check=True, stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                one["sides"][who].append(json.loads(out.stdout.splitlines()[-1]))
                print(network, who, one["sides"][who][-1], file=sys.stderr, flush=True)
                kept.write_text(json.dumps(result))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="a trial; nothing is written")
    parser.add_argument("--only", choices=CASES, help="one network; nothing is written")
    parser.add_argument("--run", nargs=3, metavar=("WHO", "NETWORK", "SEED"), help="one side, here")
    arguments = parser.parse_args()
    cases = SMALL if arguments.small else CASES
    if arguments.run:
        who, network, seed = arguments.run
        print(json.dumps(predict(who, network, cases[network], arguments.data, int(seed))))
        return
    cases = {name: case for name, case in cases.items() if arguments.only in (None, name)}
    about = machine.describe_machine(("uqled", "torch", "lightning-fabric"))
    is_trial = arguments.small or arguments.only
    kept = machine.RESULTS / "training_speed.part.json"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", str(arguments.data), *(["--small"] if arguments.small else [])]
        result = measure(cases, about, options, Path(folder) / kept.name if is_trial else kept)
    if is_trial:
        print(format_page(result))
    else:
        machine.save("training_speed", result, format_page(result))
        kept.unlink()


if __name__ == "__main__":
    main()
