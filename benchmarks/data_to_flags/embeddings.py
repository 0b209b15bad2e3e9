"""Seconds from embeddings in memory to flags, beside the fifteen lines of a careful person.

In `benchmarks/`:

    python -m data_to_flags.embeddings [--samples 50000] [--dimensions 1280] [--repeats 3]

The embeddings are made up: class centres in 60 directions, mixed into all dimensions, and noise; a
tenth of the labels is another class. The peer is scikit-learn's LogisticRegression of scaled
features by `cross_val_predict`, then cleanlab's default. Every run is a process of its own, and the
two take turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, f1_score

from data_to_flags.turns import format_spread, take_turns
from machine import describe_machine, format_machine, save

CLASSES, DIRECTIONS, NOISE = 10, 60, 0.1


def make_embeddings(n: int, dimensions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """([n,D] embeddings, [n] given labels, [n] true labels)."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, n)
    centres = 0.6 * rng.standard_normal((CLASSES, DIRECTIONS), np.float32)
    mixing = rng.standard_normal((DIRECTIONS, dimensions), np.float32)
    X = (centres[true] + rng.standard_normal((n, DIRECTIONS), np.float32)) @ mixing
    X += 4 * rng.standard_normal((n, dimensions), np.float32)
    is_wrong = rng.random(n) < NOISE
    others = (true + rng.integers(1, CLASSES, n)) % CLASSES
    return X, np.where(is_wrong, others, true), true


def run_once(who: str, n: int, dimensions: int) -> None:
    """What a process of its own does: make the embeddings, then time everything after that."""
    X, labels, true = make_embeddings(n, dimensions)
    began, processor_start = time.perf_counter(), time.process_time()
    if who == "peer":
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        from data_to_flags.peer import predict_by_peer

        probs = predict_by_peer(X, labels)
        mask = find_label_issues(labels, probs)
        suspicion = -get_label_quality_scores(labels, probs)
    else:
        import uqled

        with tempfile.TemporaryDirectory() as folder:
            errors = uqled.find(X, label=labels, out=Path(folder) / "run", progress=False)
            mask, suspicion = errors.mask, errors.probability
    is_wrong = labels != true
    print(
        json.dumps(
            {
                "wall": time.perf_counter() - began,
                "processor": time.process_time() - processor_start,
                "f1": float(f1_score(is_wrong, mask)),
                "average_precision": float(average_precision_score(is_wrong, suspicion)),
            }
        )
    )


def write_page(about: dict[str, Any]) -> str:
    lines = [
        "# Seconds from embeddings to flags",
        "",
        f"{about['samples']:,} made-up embeddings of {about['dimensions']:,} numbers, "
        f"{CLASSES} classes, {NOISE:.0%} of the labels wrong; the median of {about['repeats']} "
        f"runs (least to most), taking turns. {format_machine(about)}",
        "The peer is scikit-learn's logistic regression out of fold, then cleanlab's default. "
        "Ours is `uqled.find`: a committee, near duplicates, neighbours and flags.",
        "",
        "| | peer | ours |",
        "|---|---:|---:|",
    ]
    for key, title, digits in (
        ("wall", "seconds", 1),
        ("processor", "seconds of both processors", 1),
        ("f1", "F1 of the flags", 3),
        ("average_precision", "average precision", 3),
    ):
        cells = [
            format_spread([run[key] for run in about["measured"][who]], digits)
            for who in ("peer", "ours")
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--dimensions", type=int, default=1_280)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--run", choices=("peer", "ours"), help="one run, in this process")
    arguments = parser.parse_args()
    if arguments.run:
        run_once(arguments.run, arguments.samples, arguments.dimensions)
        return
    about = {
        **describe_machine(("uqled", "numpy", "scikit-learn", "cleanlab", "torch")),
        "samples": arguments.samples,
        "dimensions": arguments.dimensions,
        "repeats": arguments.repeats,
    }
    size = ["--samples", str(arguments.samples), "--dimensions", str(arguments.dimensions)]
    about["measured"] = take_turns("data_to_flags.embeddings", size, arguments.repeats)
    save("embeddings_to_flags", about, write_page(about))


if __name__ == "__main__":
    main()
