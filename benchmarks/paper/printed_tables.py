"""The paper's printed tables, as a benchmark's results: one seed, no spread."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from uqled.bench.results.collection import Results
from uqled.bench.results.statistics import Means
from uqled.noise.transition import TransitionMatrix

RATES = (0.05, 0.1, 0.2)
SAMPLES = {"MNIST": 60_000, "CIFAR-10": 50_000, "CIFAR-100": 50_000, "Tiny-ImageNet": 100_000}
"""Training samples, as the paper's section on data sets gives them."""
HALF = 0.0005
"""Half of the last digit of a printed share."""
SOURCE = (
    "Jakubik, Vössing, Maskey, Wölfle, Satzger: Improving Label Error Detection and Elimination "
    "with Uncertainty Quantification"
)


@cache
def read_printed_table(table: str) -> pd.DataFrame:
    """One of the stored tables as text, as printed; a star follows what is printed in bold."""
    return pd.read_csv(Path(__file__).parent / "tables" / f"{table}.csv", comment="#", dtype=str)


def parse_number(text: str) -> float:
    """A printed number without its star."""
    return float(text.removesuffix("*"))


def read_paper_results() -> Results:
    """The paper's stage tables in the shape of a benchmark's results."""
    return Results(
        name="paper, as printed",
        about={
            "source": SOURCE,
            "seeds": "one run each: the paper gives no spread",
            "reductions": [
                "Numbers are those that the paper prints, to one decimal. Its Mean columns were "
                "averaged before rounding, so a Mean shown here may differ from the printed one "
                "in the last digit; the correlations use the printed Means."
            ],
        },
        pilot=pd.DataFrame(),
        stage1=_build_stage1(),
        initial=pd.DataFrame(),
        stage2=_build_stage2(),
        matrices={"CIFAR-10": {0.2: read_paper_matrix()}},
    )


def read_paper_means() -> Means:
    """The printed Mean columns."""
    f1: dict[str, dict[str, float]] = {}
    for row in _read_rows("stage1"):
        f1.setdefault(row["dataset"], {})[row["method"]] = parse_number(row["f1 mean"]) / 100
    final: dict[str, dict[str, float]] = {}
    for row in _read_rows("stage2"):
        final.setdefault(row["dataset"], {})[row["method"]] = (
            parse_number(row["accuracy mean"]) / 100
        )
    return Means(f1, final, {name: by_method.pop("noisy") for name, by_method in final.items()})


def read_paper_matrix() -> TransitionMatrix:
    """The printed transition matrix of CIFAR-10 at rate 0.2, its rows scaled to sum to 1."""
    table = read_printed_table("transition-cifar10").set_index("true").astype(float)
    return TransitionMatrix(table.div(table.sum(axis=1), axis=0).to_numpy(), list(table.columns))


def _read_rows(table: str) -> list[dict[str, Any]]:
    return [
        {str(k): v for k, v in row.items()} for row in read_printed_table(table).to_dict("records")
    ]


def _build_stage1() -> pd.DataFrame:
    stage2_rows = {(row["dataset"], row["method"]): row for row in _read_rows("stage2")}
    rows = []
    for row in _read_rows("stage1"):
        name, method, N = row["dataset"], row["method"], SAMPLES[row["dataset"]]
        for rate in RATES:
            rows.append(
                {"dataset": name, "rate": rate, "seed": 0, "method": method}
                | {"n": N, "wrong": round(rate * N)}
                | {"flagged": int(stage2_rows[name, method][f"flagged {rate:g}"])}
                | {
                    m: parse_number(row[f"{m} {rate:g}"]) / 100
                    for m in ("precision", "recall", "f1")
                }
                | dict.fromkeys(("f05", "aupr", "given_accuracy", "true_accuracy"), math.nan)
            )
    return pd.DataFrame(rows)


def _build_stage2() -> pd.DataFrame:
    rows = []
    for row in _read_rows("stage2"):
        noisy = row["method"] == "noisy"
        for rate in RATES:
            n_changed = int(row[f"flagged {rate:g}"])
            rows.append(
                {
                    "dataset": row["dataset"],
                    "rate": rate,
                    "seed": 0,
                    "treatment": "noisy" if noisy else "remove",
                    "method": "" if noisy else row["method"],
                    "trained_on": SAMPLES[row["dataset"]] - n_changed,
                    "changed": n_changed,
                    "accuracy": parse_number(row[f"accuracy {rate:g}"]) / 100,
                }
            )
    return pd.DataFrame(rows)
