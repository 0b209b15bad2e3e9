"""A benchmark's frames, made from a seed, and the smallest suite that can be run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uqled.bench.results.collection import Results
from uqled.bench.results.statistics import SeedSample, make_sample
from uqled.bench.suite import read_suite
from uqled.noise import symmetric_matrix

METHODS = ["cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-e-given", "alg-ens-3", "argmax"]


def stage1_frame(
    names: tuple[str, ...] = ("mnist",),
    rates: tuple[float, ...] = (0.1, 0.2),
    seeds: tuple[int, ...] = (0, 1, 2),
    methods: list[str] = METHODS,
) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = []
    for name in names:
        for rate in rates:
            for seed in seeds:
                for place, method in enumerate(methods):
                    p, r = rng.uniform(0.4, 0.6, 2) + 0.03 * place
                    rows.append(
                        {"dataset": name, "rate": rate, "seed": seed, "method": method}
                        | {"n": 1000, "wrong": 100, "flagged": 90 + place}
                        | {"precision": p, "recall": r, "f1": 2 * p * r / (p + r)}
                        | {"f05": 1.25 * p * r / (0.25 * p + r), "aupr": p * r}
                        | {"given_accuracy": 0.8 - rate, "true_accuracy": 0.8 + 0.01 * seed}
                    )
    return pd.DataFrame(rows)


def stage2_frame(
    names: tuple[str, ...] = ("mnist",),
    seeds: dict[float, tuple[int, ...]] | None = None,
    relabel: tuple[float, ...] = (0.1,),
) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    rows: list[dict[str, Any]] = []

    def add(name: str, rate: float, seed: int, treatment: str, method: str, n_changes: int) -> None:
        values = (
            name,
            rate,
            seed,
            treatment,
            method,
            1000 - n_changes,
            n_changes,
            rng.uniform(0.6, 0.9),
        )
        keys = ("dataset", "rate", "seed", "treatment", "method", "trained_on", "changed")
        rows.append(dict(zip((*keys, "accuracy"), values, strict=True)))

    for name in names:
        for seed in (0, 1, 2):
            add(name, math.nan, seed, "clean", "", 0)
        for rate, chosen_seeds in (seeds or {0.1: (0, 1, 2), 0.2: (0,)}).items():
            for seed in chosen_seeds:
                add(name, rate, seed, "noisy", "", 0)
                for method in METHODS:
                    add(name, rate, seed, "remove", method, 90)
                    if rate in relabel:
                        add(name, rate, seed, "relabel", method, 90)
    return pd.DataFrame(rows)


def build_results(**changes: Any) -> Results:
    results = Results(
        name="tried",
        about={"code": "abc", "reductions": ["fewer images"], "data": {"mnist": {"samples": 1000}}},
        pilot=pd.DataFrame(),
        stage1=stage1_frame(),
        initial=pd.DataFrame({"dataset": ["mnist"] * 2, "seed": [0, 1], "accuracy": [0.8, 0.9]}),
        stage2=stage2_frame(),
        matrices={"mnist": {0.1: symmetric_matrix(3, rate=0.1)}},
    )
    return replace(results, **changes)


def build_column(**values: list[float]) -> dict[str, SeedSample]:
    return {name: make_sample(dict(enumerate(column))) for name, column in values.items()}


def number_of(text: str) -> float:
    return float(text.split(" ")[0].replace("\N{MINUS SIGN}", "-"))


SMALLEST = """
rates = [0.1]
seeds = [0]
folds = 2
passes = 2
methods = ["cl-pbnr", "cl-mcd"]

[stage2]
methods = ["cl-pbnr"]

[[data]]
name = "digits"
place = "digits"
test_share = 0.5
limit = 200
model = "logistic"
"""


def suite_of(tmp_path: Path, text: str = SMALLEST):
    path = tmp_path / "own.toml"
    path.write_text(text)
    return read_suite(str(path), allow_code=True)
