"""The results of a benchmark so far, as frames: one row per finished cell and method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uqled.bench.cell_graph import (
    describe_cell,
    list_pilot_cells,
    list_stage1_cells,
    list_stage2_cells,
)
from uqled.bench.cells import Cell, Cells
from uqled.bench.results.formatting import (
    format_method,
    format_percent,
    format_rate,
    join_words,
)
from uqled.bench.suite import BASELINE, Suite
from uqled.errors import FileError, InputError
from uqled.noise.transition import TransitionMatrix

#: Accuracies of a cell's model, by the softmax and by the mean of the passes; older cells lack
#: them.
ACCURACIES = {
    "given_accuracy": "Model's accuracy, given labels",
    "passes_given_accuracy": "Mean of its passes, given labels",
    "true_accuracy": "Model's accuracy, true labels",
    "passes_true_accuracy": "Mean of its passes, true labels",
}
_DETECTION = (
    "dataset", "rate", "seed", "method", "n", "wrong", "flagged", "precision", "recall", "f1",
    "f05", "aupr", *ACCURACIES, "passes_differ",
)  # fmt: skip
_INITIAL = ("dataset", "seed", "accuracy")
_RETRAINING = (
    "dataset", "rate", "seed", "treatment", "method", "trained_on", "changed", "accuracy",
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """The finished cells of a benchmark. Any frame may be empty, any cell missing."""

    name: str
    """Of the suite."""
    about: dict[str, Any]
    """Code version, hardware, versions, reductions, and what each data set was trained on."""
    pilot: pd.DataFrame
    """Like `stage1`, but on the test sets."""
    stage1: pd.DataFrame
    """dataset, rate, seed, method, n, wrong, flagged, precision, recall, f1, f05, aupr,
    given_accuracy and true_accuracy (out-of-sample accuracy against the given and true labels), the
    same of the mean of the passes, and passes_differ (if it differs by more than noise)."""
    initial: pd.DataFrame
    """dataset, seed, accuracy: on the test set, of the network pre-trained on clean data."""
    stage2: pd.DataFrame
    """dataset, rate, seed, treatment (clean, noisy, remove, relabel), method, trained_on, changed,
    accuracy; a clean row has no rate and, like a noisy one, no method."""
    matrices: dict[str, dict[float, TransitionMatrix]]
    """Data set -> rate -> the first seed's intended matrix."""
    realised: dict[str, dict[float, TransitionMatrix]] = field(default_factory=dict)
    """The same for the flips that actually happened; older cells lack them."""
    similarity: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """Data set -> [K,K] the first seed's similarity scores."""


def collect_results(suite: Suite, cells: Cells) -> Results:
    """The finished cells of a suite, in the order of its matrix."""
    titles = {data.name: data.display_name for data in suite.data}
    initial, sizes = [], {}
    similarity: dict[str, NDArray[np.float64]] = {}
    for data in suite.data:
        for seed in suite.seeds:
            cell = Cell("pretraining", data.name, seed)
            if cells.is_finished(cell, describe_cell(suite, cell)):
                content = cells.read(cell)
                sizes[data.name] = {key: content[key] for key in ("train", "test")}
                row = {"dataset": data.display_name, "seed": seed, "accuracy": content["accuracy"]}
                initial.append(row)
                if "similarity" in content:
                    similarity.setdefault(data.display_name, np.array(content["similarity"]))
    stage2_rows = []
    for cell in list_stage2_cells(suite, suite.methods):
        if cells.is_finished(cell, describe_cell(suite, cell)):
            rate = np.nan if cell.rate is None else cell.rate
            row = {"dataset": titles[cell.data], "rate": rate, "seed": cell.seed}
            row |= {"treatment": cell.treatment, "method": cell.method}
            stage2_rows.append(row | cells.read(cell))
    stage1 = _collect_detections(suite, cells, list_stage1_cells(suite))
    return Results(
        suite.name,
        _describe_benchmark(suite, cells, sizes) | {"passes_differ": _list_differing(stage1)},
        _collect_detections(suite, cells, list_pilot_cells(suite)),
        stage1,
        pd.DataFrame(initial, columns=list(_INITIAL)),
        pd.DataFrame(stage2_rows, columns=list(_RETRAINING)),
        _collect_matrices(suite, cells, "matrix"),
        _collect_matrices(suite, cells, "realised"),
        similarity,
    )


@dataclass(frozen=True)
class PilotRanking:
    """The pilot's verdict on the suite's methods."""

    mean_f1: dict[str, float]
    kept_methods: list[str]
    """The methods that stage 2 compares, in the suite's order."""

    @property
    def dropped_methods(self) -> list[str]:
        return [method for method in self.mean_f1 if method not in self.kept_methods]

    def describe(self) -> str:
        """A sentence on what was dropped, and why."""
        if not self.dropped_methods:
            return "The pilot dropped no method."
        values = [
            f"{format_method(m)} ({format_percent(self.mean_f1[m])})" for m in self.dropped_methods
        ]
        baseline = format_percent(self.mean_f1[BASELINE])
        return (
            f"The pilot dropped {join_words(values)}: mean F1 in per cent on the test sets, where "
            f"{format_method(BASELINE)} has {baseline}. --all keeps them."
        )


def rank_pilot(suite: Suite, cells: Cells) -> PilotRanking | None:
    """Rank the methods by their mean F1 in the pilot; None until the pilot is finished. The methods
    above the baseline are kept, and the best of the others until `pilot_keeps` are.
    """
    pilot_cells = list_pilot_cells(suite)
    if not all(cells.is_finished(cell, describe_cell(suite, cell)) for cell in pilot_cells):
        return None
    by_method = _collect_detections(suite, cells, pilot_cells).groupby("method")["f1"].mean()
    mean = {method: float(by_method.get(method, 0.0)) for method in suite.methods}
    best = sorted(set(suite.methods) - {BASELINE}, key=lambda m: (-mean[m], suite.methods.index(m)))
    winners = sum(mean[method] > mean[BASELINE] for method in best)
    kept_methods = {BASELINE, *best[: max(winners, suite.pilot_keeps - 1)]}
    return PilotRanking(mean, [method for method in suite.methods if method in kept_methods])


def _collect_detections(suite: Suite, cells: Cells, cells_to_read: Iterable[Cell]) -> pd.DataFrame:
    rows = []
    for cell in cells_to_read:
        if not cells.is_finished(cell, describe_cell(suite, cell)):
            continue
        content = cells.read(cell)
        common = {
            "dataset": suite.get_data(cell.data).display_name,
            "rate": cell.rate,
            "seed": cell.seed,
            **{key: content[key] for key in ("n", "wrong")},
            **{key: content.get(key, np.nan) for key in (*ACCURACIES, "passes_differ")},
        }
        metrics = content["methods"]
        rows += [common | {"method": m} | metrics[m] for m in suite.methods if m in metrics]
    return pd.DataFrame(rows, columns=list(_DETECTION))


def _list_differing(stage1: pd.DataFrame) -> list[str]:
    """Where the softmax and the mean of the passes differ by more than noise, and by how much."""
    differing = stage1[stage1["passes_differ"].eq(True)].drop_duplicates(
        ["dataset", "rate", "seed"]
    )
    return [
        f"{name}, noise rate {format_rate(rows['rate'].iloc[0])}: the softmax predicts "
        f"{format_percent(rows['given_accuracy'].mean())}% as labelled, the mean of the passes "
        f"{format_percent(rows['passes_given_accuracy'].mean())}%"
        for (name, _), rows in differing.groupby(["dataset", "rate"], sort=False)
    ]


def _collect_matrices(
    suite: Suite, cells: Cells, key: str
) -> dict[str, dict[float, TransitionMatrix]]:
    matrices: dict[str, dict[float, TransitionMatrix]] = {}
    for cell in list_stage1_cells(suite):
        assert cell.rate is not None
        rate_matrices = matrices.setdefault(suite.get_data(cell.data).display_name, {})
        if cell.rate in rate_matrices or not cells.is_finished(cell, describe_cell(suite, cell)):
            continue
        content = cells.read(cell)
        if key in content:
            rows = np.array(content[key])
            rows /= rows.sum(axis=1, keepdims=True)  # written with six decimals
            try:
                rate_matrices[cell.rate] = TransitionMatrix(rows, content["classes"])
            except InputError as error:
                raise FileError(
                    f"cell {cell.name!r}", f"has no {key} of its classes ({error})", "Remove it"
                ) from error
    return {name: rate_matrices for name, rate_matrices in matrices.items() if rate_matrices}


def _group_same_images(suite: Suite) -> list[list[str]]:
    """Titles of the data sets that are read from one place, where there are several."""
    by_place: dict[str, list[str]] = {}
    for data in suite.data:
        by_place.setdefault(data.place, []).append(data.display_name)
    return [titles for titles in by_place.values() if len(titles) > 1]


def _describe_benchmark(suite: Suite, cells: Cells, sizes: dict[str, Any]) -> dict[str, Any]:
    provenance = list(cells.read_provenance())
    ranking = rank_pilot(suite, cells) if suite.pilot else None
    return {
        "suite": suite.about,
        "noise": suite.noise["kind"],
        "folds": suite.folds,
        "passes": suite.passes,
        "seeds": list(suite.seeds),
        "code": sorted({one["code"] for one in provenance}),
        "hardware": sorted(
            {f"{one['cpu']}, {one['cores']} cores, {one['memory_gib']} GiB" for one in provenance}
        ),
        "python": sorted({one["python"] for one in provenance}),
        "versions": sorted(
            {f"{name} {number}" for one in provenance for name, number in one["versions"].items()}
        ),
        "hours_of_one_process": round(sum(one["seconds"] for one in provenance) / 3600, 2),
        "reductions": [
            f"{data.display_name}: {data.reduced}" for data in suite.data if data.reduced
        ],
        "contaminated": {
            data.display_name: data.contaminated for data in suite.data if data.contaminated
        },
        "pilot": ranking.describe() if ranking else "",
        "same_images": _group_same_images(suite),
        "data": {
            data.display_name: {
                "model": data.model,
                **dict(data.training),
                **sizes.get(data.name, {}),
            }
            | {k: getattr(data, k) for k in ("passes", "folds", "dropout") if getattr(data, k)}
            | ({"retraining_limit": data.retraining_limit} if data.retraining_limit else {})
            for data in suite.data
        },
    }
