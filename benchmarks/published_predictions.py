"""Stage 1 on predictions that others published: every method, with real human errors among them.

    python benchmarks/published_predictions.py --data FOLDER     FOLDER holds predictions/*.npz

The passes of cifar10s and cifar10n-worst are five different networks; each of the five in turn is
the one whose softmax CL-PBNR and the algorithm ensembles see, which is where the spread comes from.
The northcutt sets have the softmax of one network and no passes, so that half of the methods cannot
be asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import machine
import uqled
from uqled.bench.metrics import score_detection
from uqled.bench.results.formatting import format_method, sort_methods

SHOWN_MEASURES = ("precision", "recall", "f1", "f05", "aupr")


def judge_network(labels: Any, true: Any, softmax: Any, passes: Any = None) -> dict[str, Any]:
    """The model's accuracy, and metrics of every method that the inputs allow.

    With both readings of the entropy threshold, and `argmax` of the mean of the passes too.
    """
    results = dict(uqled.find_label_errors(labels, softmax, passes, method="all").by_method)
    if passes is not None:
        errors = uqled.find_label_errors(
            labels, softmax, passes, method="all", entropy_class="given"
        ).by_method
        for name in ("cl-mcd-e", "alg-ens-2", "alg-ens-3"):
            results[f"{name}-given"] = errors[name]
        mean = uqled.uncertainty.mean(passes)
        results["argmax of the mean"] = uqled.find_label_errors(labels, mean, method="argmax")
    is_error, best = labels != true, softmax.argmax(axis=1)
    return {
        "given_accuracy": float((best == labels).mean()),
        "true_accuracy": float((best == true).mean()),
        "methods": {
            name: score_detection(results[name].mask, results[name].ranking, is_error)
            for name in sort_methods(results)
        },
    }


def measure_file(path: Path) -> dict[str, Any]:
    """One set's metrics, per network whose softmax is taken."""
    with np.load(path) as archive:
        data = dict(archive)
    labels, true = data["labels"].astype(np.int64), data["true_labels"].astype(np.int64)
    about = {"n": len(labels), "wrong": int((labels != true).sum())}
    if "passes" not in data:
        return about | {"networks": {"ResNet-50": judge_network(labels, true, data["probs"])}}
    passes = data["passes"]
    return about | {
        "networks": {
            str(model): judge_network(labels, true, softmax, passes)
            for model, softmax in zip(data["models"], passes, strict=True)
        }
    }


def format_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    m = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in m["versions"].items())
    lines = [
        "# Stage 1 on published predictions",
        "",
        f"{m['date']}, code {m['code']}; Python {m['python']}, {versions}. Made by "
        "`benchmarks/published_predictions.py`. Mean (least to most) over the networks whose "
        "softmax is taken; one figure where that plays no part or there is one network.",
    ]
    for name, results in result["sets"].items():
        networks = list(results["networks"].values())
        share = results["wrong"] / results["n"]
        lines += [
            "",
            f"## {name}",
            "",
            f"{results['n']:,} samples, {results['wrong']:,} wrong labels ({share:.1%}). The model "
            f"is right in {_format_accuracy(networks, 'given')} by the given labels, and in "
            f"{_format_accuracy(networks, 'true')} by the true ones.",
            "",
            "| method | flagged | precision | recall | F1 | F0.5 | area under P-R |",
            "|---|---|---|---|---|---|---|",
        ]
        for method in networks[0]["methods"]:
            rows = [one["methods"][method] for one in networks]
            flag_row = _format_row([row["flagged"] for row in rows], "{:,.0f}")
            cells = [_format_row([row[key] for row in rows], "{:.3f}") for key in SHOWN_MEASURES]
            lines.append(f"| {format_method(method)} | {flag_row} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _format_accuracy(networks: list[dict[str, Any]], labels: str) -> str:
    return _format_row([one[f"{labels}_accuracy"] for one in networks], "{:.1%}")


def _format_row(values: list[float], how: str) -> str:
    if min(values) == max(values):
        return how.format(values[0])
    least, most = how.format(min(values)), how.format(max(values))
    return f"{how.format(np.mean(values))} ({least} to {most})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data / "predictions"
    result = {
        "machine": machine.describe_machine(),
        "sets": {path.stem: measure_file(path) for path in sorted(folder.glob("*.npz"))},
    }
    machine.save("published-predictions", result, format_page(result))


if __name__ == "__main__":
    main()
