"""Which uncertainty helps as a threshold of the confident joint, and which source of it.

In `benchmarks/`:

    python -m training.uncertainty_family --data FOLDER [--work FOLDER]   scores and writes
    python -m training.uncertainty_family                                 writes the page again

FOLDER of `--data` holds `mnist` and `predictions`. Scored are: the five published networks of
CIFAR-10 (`predictions`), a small network on digits of MNIST with passes of Monte Carlo dropout, of
an ensemble of trainings, and of a committee of simple models on the pixels. The cells of
`from_scratch.py` are in the same table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import machine
from training.three_sources import FAMILY, predict_similarity
from uqled import cross_validate
from uqled.arrays import Labels
from uqled.bench.method_flags import compute_flags
from uqled.bench.metrics import score_detection
from uqled.bench.results.formatting import format_method, format_percent, join_words
from uqled.bench.results.statistics import make_sample, subtract_samples
from uqled.bench.results.table_formats import format_markdown_row
from uqled.data.loading import load
from uqled.noise.kinds import apply_noise_kind
from uqled.predict.embeddings import predict_from_features
from uqled.storage.atomic import replace_file

RESULT = machine.RESULTS / "uncertainty-family.json"
FROM_SCRATCH = machine.RESULTS / "from-scratch"
PAGE = machine.RESULTS.parents[1] / "docs" / "research" / "uncertainty-family.md"
READINGS = ("", "-given")
METHODS = ("cl-pbnr", "cl-mcd", *(f"{name}{reading}" for name in FAMILY for reading in READINGS))
RATES = (0.05, 0.1, 0.2)
DIGITS, EPOCHS = 2_000, 8

Scores = dict[str, dict[str, float | int]]


def score_methods(labels: Labels, softmax: Any, passes: Any, is_error: NDArray[np.bool_]) -> Scores:
    """The family's scores from one set of passes, with CL-PBNR on the softmax beside them."""
    flags = compute_flags(METHODS, labels, softmax, passes)
    return {name: score_detection(one.mask, one.ranking, is_error) for name, one in flags.items()}


def score_published_sets(folder: Path) -> list[dict[str, Any]]:
    """Five networks as the passes, each in turn as the softmax."""
    rows = []
    for name in ("cifar10s", "cifar10n-worst"):
        with np.load(folder / f"{name}.npz") as archive:
            codes, true = (archive[key].astype(np.int32) for key in ("labels", "true_labels"))
            passes = archive["passes"]
        classes = np.arange(passes.shape[2])
        labels = Labels(codes, classes, tuple(map(str, classes)))
        about = {"data": name, "source": "networks", "rate": float((codes != true).mean())}
        rows.append({**about, "seed": 0, "methods": score_methods(
            labels, passes[0], passes, codes != true)})  # fmt: skip
    return rows


def score_digits(folder: Path, work: Path, seeds: int) -> list[dict[str, Any]]:
    """The same digits and noise, with passes from three sources."""
    data = load(folder / "mnist", split="train", limit=DIGITS)
    similarity = predict_similarity(data)
    pixels = data.inputs.reshape(len(data), -1) / 255.0
    rows = []
    for seed in range(seeds):
        for rate in RATES:
            noisy = apply_noise_kind(
                "similarity", data.labels.codes, rate=rate, pred_probs=similarity, seed=seed
            )
            labels = replace(data.labels, codes=noisy.labels.astype(np.int32))
            noisy_data = replace(data, labels=labels, source=None)
            sources = {"committee": predict_from_features(labels.codes, pixels, seed=seed)[1:]}
            for source in ("mc-dropout", "ensemble"):
                predictions = cross_validate(
                    noisy_data, "small", uncertainty=source, out=work / f"{source}-{rate:g}-{seed}",
                    seed=seed, epochs=EPOCHS, device="cpu", precision="32-true", progress=False,
                )  # fmt: skip
                sources[source] = (predictions.pred_probs, predictions.passes)
            for source, (softmax, passes) in sources.items():
                scores = score_methods(labels, softmax, passes, noisy.is_error)
                rows.append(
                    {"data": "mnist", "source": source, "rate": rate, "seed": seed,
                     "methods": scores}
                )  # fmt: skip
            print(f"digits: rate {rate:g}, seed {seed}", flush=True)
    return rows


def read_from_scratch(folder: Path = FROM_SCRATCH) -> list[dict[str, Any]]:
    """Rows of the finished cells of `from_scratch.py`."""
    contents = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("seed-*.json"))
    ]
    return [
        {
            "data": one["cell"]["name"],
            "source": "mc-dropout",
            "rate": one["cell"]["rate"],
            "seed": one["cell"]["seed"],
            "methods": {name: one["methods"]["reestimated"][name] for name in METHODS},
        }
        for one in contents
    ]


Groups = dict[tuple[str, str, float], dict[int, Scores]]
"""(data, source, rate) -> seed -> scores."""


def group_rows(rows: list[dict[str, Any]]) -> Groups:
    groups: Groups = defaultdict(dict)
    for row in rows:
        groups[row["data"], row["source"], row["rate"]][row["seed"]] = row["methods"]
    return dict(groups)


def build_page(result: dict[str, Any], cells: list[dict[str, Any]]) -> str:
    """What pays, then the table."""
    groups = group_rows([*result["rows"], *cells])
    parts = [
        "# Which uncertainty helps as a threshold",
        "You learn which thresholds on the uncertainty, and which sources of it, improve the "
        "flags. CL-MCD-E counts a sample in the confident joint only if its entropy is at most the "
        "mean entropy of a class. Any uncertainty that the passes give can replace the entropy: "
        "the margin (`cl-mcd-m`), the mutual information (`cl-mcd-mi`), the variation ratio "
        "(`cl-mcd-vr`) and the standard deviation of the predicted class (`cl-mcd-sd`), each with "
        "the mean of the class being counted or, with `-given`, of the sample's given class. The "
        "passes, in turn, can come from Monte Carlo dropout, an ensemble of trainings, different "
        "networks, or a committee of simple models.",
        "## Which threshold",
        *_compare_thresholds(groups),
        "## Which source",
        *_compare_sources(groups),
        "## All of them",
        "F1 of CL-MCD in per cent, and each threshold's difference from it in points; ± is the "
        "sample standard deviation over seeds, if there is more than one.",
        "By the class being counted:",
        _build_table(groups, ""),
        "By the sample's given class:",
        _build_table(groups, "-given"),
        f"Made by `benchmarks/training/uncertainty_family.py`. MNIST: {DIGITS:,} digits with "
        f"similarity noise, the network `small` trained for {EPOCHS} epochs in four folds; "
        "the committee sees the pixels. cifar10s and cifar10n-worst: published predictions of "
        "five networks, the first of them as the softmax. The other rows are the trainings of "
        "`benchmarks/training/from_scratch.py`. " + machine.format_machine(result["machine"]),
    ]
    return "\n\n".join(parts) + "\n"


def _compare_thresholds(groups: Groups) -> list[str]:
    lines = [["threshold", "above CL-MCD", "below", "mean difference", "least", "most",
              "mean difference in precision", "in recall"],
             ["---", *["---:"] * 7]]  # fmt: skip
    means = {}
    for reading in READINGS:
        for name in FAMILY:
            method = f"{name}{reading}"
            gains = {
                metric: np.array(
                    [one[method][metric] - one["cl-mcd"][metric]
                     for seeds in groups.values() for one in seeds.values()]
                )
                for metric in ("f1", "precision", "recall")
            }  # fmt: skip
            f1 = gains["f1"]
            means[method] = f1.mean()
            counts = [f"{(f1 > 0).sum()} of {len(f1)}", f"{(f1 < 0).sum()}"]
            figures = [f1.mean(), f1.min(), f1.max(), *(
                gains[metric].mean() for metric in ("precision", "recall"))]  # fmt: skip
            signed = [format_percent(float(one), signed=True) for one in figures]
            lines.append([format_method(method), *counts, *signed])
    best = max(means, key=lambda method: means[method])
    gain = format_percent(float(means[best]), signed=True)
    text = (
        "Each row counts all sets, sources, rates and seeds of this page; differences from CL-MCD, "
        "which has no threshold, are in points. "
    )
    if means[best] > 0:
        text += f"On average {format_method(best)} helps most, by {gain} points."
    else:
        text += (
            f"On average none of them helps: the best, {format_method(best)}, is {gain} points "
            "from CL-MCD. The smallest and the largest difference show how much that depends on "
            "the data."
        )
    return [text, "\n".join(map(format_markdown_row, lines))]


def _compare_sources(groups: Groups) -> list[str]:
    sources = ("mc-dropout", "ensemble", "committee")
    lines = [
        ["noise rate", "source", "F1, CL-PBNR", "F1, CL-MCD", "best threshold", "its F1"],
        ["---:", "---", "---:", "---:", "---", "---:"],
    ]
    for rate in RATES:
        for source in sources:
            seeds = groups.get(("mnist", source, rate))
            if not seeds:
                continue
            f1 = {
                name: make_sample({seed: float(one[name]["f1"]) for seed, one in seeds.items()})
                for name in METHODS
            }
            best = max(METHODS[2:], key=lambda name: f1[name].mean)
            cells = [_format_sample(f1[name]) for name in ("cl-pbnr", "cl-mcd")]
            lines.append([f"{rate:g}", source, *cells, format_method(best),
                          _format_sample(f1[best])])  # fmt: skip
    winners = [
        max(present, key=lambda source: _average_f1(groups["mnist", source, rate], "cl-mcd"))
        for rate in RATES
        if (present := [one for one in sources if ("mnist", one, rate) in groups])
    ]
    counts = join_words(f"{one} at {winners.count(one)}" for one in dict.fromkeys(winners))
    text = (
        f"The passes that give CL-MCD the highest F1 are those of: {counts} of {len(winners)} "
        "noise rates. All sources have the same digits and the same noise. CL-PBNR reads the "
        "softmax of the network or, for the "
        "committee, the mean of its models. The best threshold is the "
        "one of ten with the highest mean F1, chosen with the truth known: an upper bound."
    )
    return [text, "\n".join(map(format_markdown_row, lines))]


def _average_f1(seeds: dict[int, Scores], method: str) -> float:
    return float(np.mean([one[method]["f1"] for one in seeds.values()]))


def _build_table(groups: Groups, reading: str) -> str:
    names = [f"{name}{reading}" for name in FAMILY]
    heads = ["data", "source", "noise rate", "seeds", "CL-MCD", *map(format_method, names)]
    lines = [heads, ["---", "---", *["---:"] * (len(heads) - 2)]]
    for (data, source, rate), seeds in sorted(groups.items()):
        f1 = {
            name: make_sample({seed: float(one[name]["f1"]) for seed, one in seeds.items()})
            for name in ("cl-mcd", *names)
        }
        gains = [subtract_samples(f1[name], f1["cl-mcd"]) for name in names]
        lines.append(
            [data, source, f"{rate:.2g}", str(len(seeds)), _format_sample(f1["cl-mcd"]),
             *(_format_sample(gain, signed=True) for gain in gains)]
        )  # fmt: skip
    return "\n".join(map(format_markdown_row, lines))


def _format_sample(sample: Any, *, signed: bool = False) -> str:
    text = format_percent(sample.mean, signed=signed)
    return text if sample.n < 2 else f"{text} ± {format_percent(sample.sd)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder that holds mnist and predictions")
    parser.add_argument("--work", type=Path, help="keeps runs, so that a killed one continues")
    parser.add_argument("--seeds", type=int, default=3, help="of the digits (default: 3)")
    options = parser.parse_args()
    if options.data is not None:
        with tempfile.TemporaryDirectory() as temporary:
            work = options.work or Path(temporary)
            rows = score_published_sets(options.data / "predictions")
            rows += score_digits(options.data, work, options.seeds)
        packages = ("uqled", "numpy", "scikit-learn", "torch")
        result = {"machine": machine.describe_machine(packages), "rows": rows}
        with replace_file(RESULT) as part:
            part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    with replace_file(PAGE) as part:
        part.write_text(build_page(result, read_from_scratch()), encoding="utf-8", newline="\n")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
