"""From data to flags: the default model beside what a careful person writes in fifteen lines today.

Peer: the same encoder's features (of tables: the same columns), a LogisticRegression by
`cross_val_predict`, and cleanlab's `find_label_issues` with its defaults. Ours: the committee and
`auto`. Also reported: our own defaults of before (a small network, TF-IDF, a forest).

In `benchmarks/`:

    python -m data_to_flags.quality --data FOLDER              # 3 seeds, 5,000 samples per set
    python -m data_to_flags.quality --data FOLDER --quick      # 1 seed, 1,000 samples per set
    python -m data_to_flags.quality --data FOLDER --table      # write the table of what there is

Labels are wrong by people (CIFAR-10 as one annotator labelled it, and the worst of three) or
flipped: 3 and 10 %, evenly (`symmetric`) or to the class that the peer's model confuses most with
it (`similar`). Each set, noise and seed is a cell, a file of its own in
`results/data_to_flags/SAMPLES`: what is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.filter import find_label_issues
from sklearn.metrics import average_precision_score, f1_score

from data_to_flags.peer import predict_by_peer
from machine import RESULTS, describe_machine, format_machine, save
from uqled import Dataset, find_label_errors
from uqled.data import load
from uqled.data.dataset import draw_stratified
from uqled.data.image_cache import find_cache_folder
from uqled.features.columns import make_transformer, take_samples
from uqled.features.computing import compute_features
from uqled.features.encoders import find_installed_encoder
from uqled.predict.crossval import cross_validate
from uqled.storage.atomic import replace_file

RATES = (0.03, 0.1)
KINDS = ("symmetric", "similar")
FORMER_MODELS = {"images": "small", "texts": "logistic", "table": "forest"}


@dataclass(frozen=True)
class NoisyCase:
    """One data set with wrong labels, whose truth is known."""

    name: str
    data: Dataset
    """With the wrong labels."""
    true: np.ndarray
    features: np.ndarray
    """[N,D] what the peer's logistic regression gets."""


def iterate_cases(
    folder: Path,
    n: int,
    seed: int,
    is_done: Callable[[str], bool],
    rates: tuple[float, ...] = RATES,
) -> Iterator[NoisyCase]:
    """Every set with every noise that is not done yet."""
    for name, load_set, raters in SETS:
        noises = [*raters, *(f"{kind} {rate:.0%}" for rate in rates for kind in KINDS)]
        if all(is_done(f"{name}, {noise}") for noise in noises):
            continue
        dataset = load_set(folder, n, seed)
        if dataset is None:
            print(f"{name}: its encoder is not installed", file=sys.stderr)
            continue
        data, people = dataset
        true = data.labels.codes.copy()
        features = compute_peer_features(data)
        for rater in raters:
            yield NoisyCase(f"{name}, {rater}", data.with_labels(people[rater]), true, features)
        rng = np.random.default_rng(seed)
        confused_classes = find_most_confused(features, true)
        for rate in rates:
            for kind in KINDS:
                labels = true.copy()
                flipped_rows = rng.choice(len(true), round(rate * len(true)), replace=False)
                steps = rng.integers(1, data.n_classes, len(flipped_rows))
                random = (true[flipped_rows] + steps) % data.n_classes
                labels[flipped_rows] = (
                    random if kind == "symmetric" else confused_classes[true[flipped_rows]]
                )
                yield NoisyCase(
                    f"{name}, {kind} {rate:.0%}", data.with_labels(labels), true, features
                )


def load_cifar10(folder: Path, n: int, seed: int) -> Any:
    """(data with true labels, {rater: labels}); None without an encoder."""
    if not find_installed_encoder("images"):
        return None
    cifar = load(folder / "cifar10" / "train.parquet")
    rows = draw_stratified(cifar.labels.codes, n, seed=seed)
    with np.load(folder / "cifar10" / "human_labels.npz") as raters:
        people = {"people": raters["one_annotator"][rows], "worst of three": raters["worst"][rows]}
    return cifar.subset(rows), people


def load_tiny_imagenet(folder: Path, n: int, seed: int) -> Any:
    if not find_installed_encoder("images"):
        return None
    return _limit(load(folder / "tiny-imagenet-20.zip", split="train"), n, seed), {}


def load_texts(folder: Path, n: int, seed: int, *, name: str, label: str) -> Any:
    if not find_installed_encoder("texts"):
        return None
    return _limit(load(folder / "texts" / f"{name}.csv", label=label), n, seed), {}


def load_table(folder: Path, n: int, seed: int, *, name: str, label: str) -> Any:
    return _limit(load(folder / "tables" / f"{name}.csv", label=label), n, seed), {}


#: (name, how it is loaded, whose labels there are beside the flipped ones)
SETS: tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...] = (
    ("adult", partial(load_table, name="adult", label="class"), ()),
    ("diamonds", partial(load_table, name="diamonds", label="cut"), ()),
    ("banking77", partial(load_texts, name="banking77", label="category"), ()),
    ("sst2", partial(load_texts, name="sst2", label="label"), ()),
    ("CIFAR-10", load_cifar10, ("people", "worst of three")),
    ("Tiny-ImageNet", load_tiny_imagenet, ()),
)


def _limit(data: Dataset, n: int, seed: int) -> Dataset:
    return data.draw_samples(min(n, len(data)), seed)


def compute_peer_features(data: Dataset) -> np.ndarray:
    """The same encoder's features, or the table's columns, scaled."""
    encoder = find_installed_encoder(data.kind)
    if encoder is not None:
        return compute_features(data.inputs, encoder, cache_folder=find_cache_folder())
    all_rows = np.arange(len(data))
    transformer = make_transformer(data, takes_sparse=False, name="peer")
    return np.asarray(transformer.fit_transform(take_samples(data, all_rows)), np.float32)


def find_most_confused(features: np.ndarray, true: np.ndarray) -> np.ndarray:
    """[K] the class that each class is most often taken for."""
    probabilities = predict_by_peer(features, true)
    K = probabilities.shape[1]
    means = np.stack([probabilities[true == k].mean(axis=0) for k in range(K)])
    np.fill_diagonal(means, -1)
    return means.argmax(axis=1)


def score_flags(is_wrong: np.ndarray, mask: np.ndarray, suspicion: np.ndarray) -> dict[str, float]:
    return {
        "f1": float(f1_score(is_wrong, mask)),
        "average_precision": float(average_precision_score(is_wrong, suspicion)),
        "flags": int(mask.sum()),
    }


def run_case(case: NoisyCase, seed: int) -> dict[str, Any]:
    labels = case.data.labels.codes
    is_wrong = labels != case.true
    result: dict[str, Any] = {"set": case.name, "seed": seed, "wrong": int(is_wrong.sum())}
    began = time.perf_counter()
    probabilities = predict_by_peer(case.features, labels)
    mask = find_label_issues(labels, probabilities)
    self_confidence = probabilities[np.arange(len(labels)), labels]
    result["peer"] = score_flags(is_wrong, mask, -self_confidence)
    result["peer"]["accuracy"] = float(np.mean(probabilities.argmax(axis=1) == labels))
    result["peer"]["seconds"] = time.perf_counter() - began
    models = {"ours": "auto"}
    if case.name.endswith("symmetric 10%") and seed == 0:  # once per set: it is slow
        models["before"] = FORMER_MODELS[case.data.kind]
    for name, model in models.items():
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            predictions = cross_validate(
                replace(case.data, truth=None), model, out=Path(folder) / "run", seed=seed,
                progress=False,
            )  # fmt: skip
            errors = find_label_errors(predictions, progress=False)
            result[name] = score_flags(is_wrong, errors.mask, -errors.scores)
            result[name]["accuracy"] = predictions.accuracy
            result[name]["seconds"] = time.perf_counter() - began
    return result


def write_page(results: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """The table to read."""
    names = list(dict.fromkeys(result["set"] for result in results))
    lines = [
        "# From data to flags",
        "",
        f"{about['samples']:,} samples per set, {len(about['seeds'])} seed(s). "
        f"{format_machine(about)}",
        "The peer is logistic regression on the same features, out of fold, and cleanlab's "
        "default; before is our previous default (a small network, TF-IDF with logistic "
        "regression, a forest), "
        "with 10 % symmetric noise and one seed only. Behind ±: the sample standard deviation over "
        "seeds.",
        f"Images are encoded by `{about['encoders']['images']}`, texts by "
        f"`{about['encoders']['texts']}`.",
        "Seconds are not shown: the machine was busy with other work." if about["busy"] else "",
        "",
        "| set | seeds | wrong | peer F1 | ours F1 | before F1 | peer AP | ours AP | before AP |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        case_results = [result for result in results if result["set"] == name]
        cells = [
            _average_results(case_results, model, key) for key in ("f1", "average_precision")
            for model in ("peer", "ours", "before")
        ]  # fmt: skip
        lines.append(
            f"| {name} | {len(case_results)} | {case_results[0]['wrong']:,} | {' | '.join(cells)} |"
        )
    lines += ["", _compare_with_peer(results), ""]
    return "\n".join(lines)


def _compare_with_peer(results: list[dict[str, Any]]) -> str:
    """How far ours is above the peer: over sets, of which each is the mean of its seeds."""
    sentences = []
    for key, name in (("f1", "F1"), ("average_precision", "Average precision")):
        gains: dict[str, list[float]] = {}
        for result in results:
            gains.setdefault(result["set"], []).append(result["ours"][key] - result["peer"][key])
        means = [float(np.mean(values)) for values in gains.values()]
        cells = [gain for values in gains.values() for gain in values]
        sentences.append(
            f"{name}: {np.mean(means):+.3f} above the peer in the mean of {len(means)} sets, "
            f"{min(means):+.3f} at least; below it on {sum(mean < 0 for mean in means)} sets, and "
            f"on {sum(gain < 0 for gain in cells)} of {len(cells)} sets and seeds."
        )
    return " ".join(sentences)


def _average_results(results: list[dict[str, Any]], model: str, key: str) -> str:
    """The mean over seeds, and behind ± the sample standard deviation where there are several."""
    values = [result[model][key] for result in results if model in result]
    if len(values) < 2:
        return f"{values[0]:.3f}" if values else "-"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def name_cell(folder: Path, case: str, seed: int) -> Path:
    """Such as `results/data_to_flags/5000/cifar-10-people-seed0.json`."""
    return folder / f"{re.sub(r'[^a-z0-9]+', '-', case.lower()).strip('-')}-seed{seed}.json"


def read_cells(folder: Path) -> list[dict[str, Any]]:
    cells = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    order = [name for name, *_ in SETS]
    return sorted(cells, key=lambda cell: (order.index(cell["set"].split(",")[0]), cell["set"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="1 seed, 1,000 samples per set")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--table", action="store_true", help="compute nothing, write the tables")
    parser.add_argument("--busy", action="store_true", help="do not show seconds")
    arguments = parser.parse_args()
    n = arguments.samples or (1_000 if arguments.quick else 5_000)
    seeds = list(range(arguments.seeds or (1 if arguments.quick else 3)))
    folder = RESULTS / "data_to_flags" / str(n)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in [] if arguments.table else seeds:

        def is_done(name: str, seed: int = seed) -> bool:
            skipped = arguments.only and name.split(",")[0] not in arguments.only
            return bool(skipped) or name_cell(folder, name, seed).exists()

        for case in iterate_cases(arguments.data, n, seed, is_done):
            if not is_done(case.name):
                cell = run_case(case, seed) | {"samples": len(case.true)}
                with replace_file(name_cell(folder, case.name, seed)) as part:
                    part.write_text(json.dumps(cell, indent=1) + "\n")
                print(cell, flush=True)
    results = read_cells(folder)
    about = {
        **describe_machine(("uqled", "numpy", "scikit-learn", "cleanlab")),
        "samples": n,
        "seeds": sorted({cell["seed"] for cell in results}),
        "busy": arguments.busy,
        "encoders": {kind: find_installed_encoder(kind) for kind in ("images", "texts")},
    }
    save(f"data_to_flags_{n}", about, write_page(results, about))


if __name__ == "__main__":
    main()
