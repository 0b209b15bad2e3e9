"""From data to flags, beside what a person would put together today, in the same run.

    python benchmarks/prediction.py --data FOLDER      FOLDER holds cifar10/train.parquet
    python benchmarks/prediction.py --data FOLDER --small

1. The same network, folds, epochs and F on a part of CIFAR-10: uqled against skorch for training,
   baal for Monte Carlo dropout and cleanlab for the flags. The plain way is scikit-learn's
   `cross_val_predict` for the softmax, which does not hand out its models, so that a second
   training per fold makes the passes. The careful way writes the loop over folds by hand and trains
   once per fold, as uqled does.
2. `probe` on 10,000 samples with 1,280 made-up features: four folds, F = 5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import machine

EPOCHS, FOLDS, PASSES, BATCH, RATE = 12, 4, 5, 128, 0.05


def predict_with_uqled(data: Any, out: Path, seed: int) -> dict[str, float]:
    from uqled.detect.find import find_label_errors
    from uqled.predict.crossval import cross_validate

    began = time.perf_counter()
    predictions = cross_validate(
        data, "small", folds=FOLDS, passes=PASSES, epochs=EPOCHS, batch_size=BATCH, lr=RATE,
        augment="none", out=out, seed=seed, progress=False,
    )  # fmt: skip
    training_seconds = time.perf_counter() - began
    errors = find_label_errors(predictions, method="cl-mcd")
    return {
        "seconds": time.perf_counter() - began,
        "training": training_seconds,
        "accuracy": predictions.accuracy,
        "mean of passes": _compute_accuracy(predictions.passes.mean(axis=0), data.labels.codes),
        "flagged": errors.n_flagged,
    }


def predict_by_hand(data: Any, seed: int, *, careful: bool) -> dict[str, float]:
    """skorch, baal and cleanlab, with the same network, optimiser, schedule and folds."""
    import torch
    from baal.bayesian.dropout import patch_module
    from baal.modelwrapper import ModelWrapper, TrainingArgs
    from cleanlab.filter import find_label_issues
    from scipy.special import softmax
    from sklearn.model_selection import cross_val_predict
    from skorch import NeuralNetClassifier
    from skorch.callbacks import LRScheduler
    from torch.utils.data import TensorDataset

    from uqled import models
    from uqled.predict.crossval import split_stratified

    began = time.perf_counter()
    labels = data.labels.codes.astype(np.int64)
    images = data.inputs.astype(np.float32).transpose(0, 3, 1, 2)
    images = (images - images.mean((0, 2, 3), keepdims=True)) / images.std((0, 2, 3), keepdims=True)
    images = np.ascontiguousarray(images)
    N, K = len(labels), data.n_classes
    probs, passes = np.empty((N, K), np.float32), np.empty((PASSES, N, K), np.float32)
    parts = split_stratified(data.labels, FOLDS, seed=seed)
    folds = [(np.setdiff1d(np.arange(N), test), test) for test in parts]
    steps = EPOCHS * (min(len(train) for train, _ in folds) // BATCH)

    def classifier() -> Any:
        network = models.build("small", n_classes=K, image_shape=data.inputs.shape[1:], seed=seed)
        return NeuralNetClassifier(
            network,
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.SGD,
            optimizer__momentum=0.9,
            optimizer__nesterov=True,
            optimizer__weight_decay=5e-4,
            lr=RATE,
            batch_size=BATCH,
            max_epochs=EPOCHS,
            train_split=None,
            iterator_train__shuffle=True,
            iterator_train__drop_last=True,
            callbacks=[
                LRScheduler(
                    torch.optim.lr_scheduler.OneCycleLR,
                    step_every="batch",
                    max_lr=RATE,
                    total_steps=steps + EPOCHS,
                    pct_start=0.25,
                )
            ],
            predict_nonlinearity=torch.nn.Softmax(dim=1),
            verbose=0,
        )

    if not careful:
        probs = cross_val_predict(classifier(), images, labels, cv=folds, method="predict_proba")
    for train, test in folds:
        net = classifier().fit(images[train], labels[train])
        if careful:
            probs[test] = net.predict_proba(images[test])
        wrapper = ModelWrapper(
            patch_module(net.module_.eval(), inplace=False),
            TrainingArgs(batch_size=BATCH, use_cuda=False, workers=0),
        )
        test_set = TensorDataset(torch.from_numpy(images[test]), torch.from_numpy(labels[test]))
        draws = wrapper.predict_on_dataset(test_set, iterations=PASSES, verbose=False)  # [m,K,F]
        passes[:, test] = softmax(draws, axis=1).transpose(2, 0, 1)
    training_seconds = time.perf_counter() - began
    flags = find_label_issues(labels, passes.mean(axis=0))
    return {
        "seconds": time.perf_counter() - began,
        "training": training_seconds,
        "accuracy": _compute_accuracy(probs, labels),
        "mean of passes": _compute_accuracy(passes.mean(axis=0), labels),
        "flagged": int(flags.sum()),
    }


def _compute_accuracy(probs: Any, labels: Any) -> float:
    return float((probs.argmax(axis=1) == labels).mean())


def measure_probe(N: int) -> dict[str, Any]:
    """Heads on made-up features, which exist already."""
    from uqled.data import Dataset
    from uqled.models import make_head
    from uqled.predict.crossval import split_stratified
    from uqled.predict.learners.network import NetworkLearner
    from uqled.predict.learners.probe import make_head_training

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, N)
    centres = rng.normal(size=(10, 1280)).astype(np.float32)
    features = (0.12 * centres[labels] + rng.normal(size=(N, 1280))).astype(np.float32)
    data = Dataset.from_arrays(features, labels)
    learner = NetworkLearner(
        "probe", lambda seed: make_head(1280, 10, seed), lambda _: features, make_head_training()
    )
    times, accuracies = [], []
    for repeat in range(3):
        began, right = time.perf_counter(), 0
        for fold, part in enumerate(split_stratified(data.labels, FOLDS, seed=repeat)):
            train = np.setdiff1d(np.arange(N), part)
            with tempfile.TemporaryDirectory() as folder:
                predictions = learner.fit_predict(
                    data, train, part, passes=PASSES, seed=fold, folder=Path(folder),
                    advance=lambda _: None,
                )  # fmt: skip
            right += int((predictions.pred_probs.argmax(axis=1) == labels[part]).sum())
        times.append(time.perf_counter() - began)
        accuracies.append(right / N)
    return {"N": N, "seconds": machine.summarize_times(times), "accuracy": accuracies}


def list_pipelines(folder: Path, n: int, seed: int, who: str) -> dict[str, Any]:
    from uqled.data import load

    data = load(str(folder / "cifar10" / "train.parquet"), limit=n, seed=0)
    if who != "ours":
        return predict_by_hand(data, seed, careful=who == "careful")
    with tempfile.TemporaryDirectory() as out:
        return predict_with_uqled(data, Path(out) / "run", seed)


def _run_child(*arguments: str) -> Any:
    command = [sys.executable, __file__, *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def format_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    m, rows = result["machine"], result["pipelines"]
    versions = ", ".join(f"{name} {number}" for name, number in m["versions"].items())
    lines = [
        "# From data to flags",
        "",
        f"{m['date']}, code {m['code']}; {m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB; "
        f"Python {m['python']}, {versions}. Made by `benchmarks/prediction.py`.",
        "",
        f"{result['n']:,} images of CIFAR-10, network `small`, {FOLDS} folds, {EPOCHS} epochs, "
        f"F = {PASSES}; seeds taking turns. Median (least to most, n).",
        "",
        "| | uqled | skorch + baal + cleanlab, plain | the same, careful |",
        "|---|---|---|---|",
    ]
    for name in ("seconds", "accuracy", "mean of passes"):
        cells = [
            machine.summarize_times([one[name] for one in who_results])
            for who_results in rows.values()
        ]
        lines_ = [
            f"{c['median']:.3g} ({c['least']:.3g} to {c['most']:.3g}, n = {c['n']})" for c in cells
        ]
        lines.append(f"| {name} | {' | '.join(lines_)} |")
    fast = [machine.summarize_times([one["seconds"] for one in r])["median"] for r in rows.values()]
    right = [np.mean([one["accuracy"] for one in who_results]) for who_results in rows.values()]
    ratio, points = fast[1] / fast[0], 100 * (right[0] - max(right[1:]))
    s = result["probe"]["seconds"]
    lines += [
        "",
        "| what | measured | goal | |",
        "|---|---|---|---|",
        f"| times faster from start to flags than the plain way | {ratio:.2f} | >= 3 | "
        f"{_mark_goal(ratio >= 3)} |",
        f"| times faster than the careful way | {fast[2] / fast[0]:.2f} | | |",
        f"| mean accuracy, points above it | {points:+.2f} | >= -1 | {_mark_goal(points >= -1)} |",
        f"| `probe`, {result['probe']['N']:,} x 1,280 features, 4 folds, F = 5, seconds | "
        f"{s['median']:.3g} ({s['least']:.3g} to {s['most']:.3g}, n = {s['n']}) | < 30 | "
        f"{_mark_goal(s['median'] < 30)} |",
    ]
    return "\n".join(lines) + "\n"


def _mark_goal(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--who")
    arguments = parser.parse_args()
    if arguments.who == "probe":
        print(json.dumps(measure_probe(arguments.n)))
        return
    if arguments.who:
        print(
            json.dumps(list_pipelines(arguments.data, arguments.n, arguments.seed, arguments.who))
        )
        return
    n, seeds = (400, 1) if arguments.small else (arguments.n, 3)
    common = ["--data", str(arguments.data), "--n", str(n)]
    results: dict[str, list[Any]] = {"ours": [], "plain": [], "careful": []}
    for seed in range(seeds):
        for who in results:
            results[who].append(_run_child(*common, "--seed", str(seed), "--who", who))
            print(who, results[who][-1], file=sys.stderr, flush=True)
    size = "1000" if arguments.small else "10000"
    probe = _run_child("--data", str(arguments.data), "--n", size, "--who", "probe")
    packages = ("uqled", "torch", "lightning-fabric", "skorch", "baal", "cleanlab")
    about = machine.describe_machine(packages)
    result = {"machine": about, "n": n, "pipelines": results, "probe": probe}
    if arguments.small:
        print(format_page(result))
    else:
        machine.save("prediction", result, format_page(result))


if __name__ == "__main__":
    main()
