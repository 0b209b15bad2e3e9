"""What a benchmark would cost on this machine: counted cells, and a measured short training of each
network.

Nothing is computed for all samples: a plan takes seconds even where the benchmark takes days.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from uqled.bench.benchmark_data import list_training_options, load_samples
from uqled.bench.cell_graph import count_trained_samples, list_unfinished_cells
from uqled.bench.cells import Cell, Cells
from uqled.bench.runner import Benchmark, use_one_thread
from uqled.bench.suite import SuiteData
from uqled.bench.workers import Workers
from uqled.data.dataset import Dataset
from uqled.data.image_cache import find_cache_folder
from uqled.errors import FileError
from uqled.predict.learners import choose_learner
from uqled.predict.training_options import resolve_training

FEATURES = "features"
_SIZES = (
    16,
    64,
    256,
    1_024,
)  # samples to train on, until it takes long enough to measure
_LONG_ENOUGH = 1.0  # seconds
_IMAGES = 32  # samples whose features are computed


class CostRow(NamedTuple):
    """One line of a plan."""

    data: str
    kind: str
    total: int
    todo: int
    seconds: float | None
    """Seconds in one process for the cells that remain; None where the data is missing."""
    samples: float = 0.0
    """Samples that it trains on, each counted once per epoch."""


@dataclass(frozen=True)
class CostEstimate:
    """The cells that remain, and about how long they take."""

    rows: list[CostRow]
    jobs: int

    @property
    def seconds(self) -> float:
        """Features are computed first, with all cores; then the cells, side by side."""
        features = sum(row.seconds or 0 for row in self.rows if row.kind == FEATURES)
        cells = sum(row.seconds or 0 for row in self.rows if row.kind != FEATURES)
        return features + cells / self.jobs

    def text(self) -> str:
        """A table to read."""
        width = max([24, *(len(row.data) for row in self.rows)])
        lines = [
            f"  {'data set':{width}} {'cells':22} {'all':>6} {'to do':>6}  time of one process"
        ]
        for row in self.rows:
            time = "unknown: data missing" if row.seconds is None else format_duration(row.seconds)
            lines.append(f"  {row.data:{width}} {row.kind:22} {row.total:>6} {row.todo:>6}  {time}")
        todo = sum(row.todo for row in self.rows if row.kind != FEATURES)
        missing = sorted({row.data for row in self.rows if row.seconds is None})
        samples = sum(row.samples for row in self.rows)
        lines.append("")
        lines.append(
            f"{todo:,} cells to do, which train on {samples:,.0f} samples, each "
            f"counted once per epoch: about {format_duration(self.seconds)} with {self.jobs} cells "
            "at a time, estimated from a short training of each network on this machine."
        )
        if missing:
            lines.append(
                f"Not counted: {', '.join(missing)}, whose data is missing. The whole takes longer."
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class _Speed:
    """How fast a data set's network is."""

    training: float
    """Seconds of a whole training, per sample that it trains on."""
    features: float
    """Seconds to compute the features that are not kept yet; 0 where there are none."""
    samples: int
    """In the training set."""
    epochs: int
    """Epochs of one training; 1 for a classifier."""
    probes: bool
    """Whether the network is a head on features."""


def estimate_benchmark_cost(
    benchmark: Benchmark, *, pilot: bool = False, workers: Workers | None = None
) -> CostEstimate:
    """Count the cells and measure a short training of each network."""
    targets = benchmark.list_cells(pilot=pilot)
    suite, cells = benchmark.suite, benchmark.cells
    all_cells = list_unfinished_cells(suite, Cells(Path(os.devnull)), targets)
    todo = set(list_unfinished_cells(suite, cells, targets))
    rows: list[CostRow] = []
    for data in suite.data:
        data_cells = [cell for cell in all_cells if cell.data == data.name]
        unfinished_cells = [cell for cell in data_cells if cell in todo]
        speed = _measure_speed(data, benchmark) if unfinished_cells else None
        if speed and speed.probes:
            rows.append(CostRow(data.name, FEATURES, 1, int(speed.features > 0), speed.features))
        counts = Counter(map(_name_kind, unfinished_cells))
        for kind, total in Counter(map(_name_kind, data_cells)).items():
            seconds = None if counts[kind] else 0.0
            samples = 0.0
            if speed is not None:
                trained_samples = sum(
                    count_trained_samples(data, suite, cell, speed.samples)
                    for cell in unfinished_cells
                    if _name_kind(cell) == kind
                )
                seconds, samples = trained_samples * speed.training, trained_samples * speed.epochs
            rows.append(CostRow(data.name, kind, total, counts[kind], seconds, samples))
    return CostEstimate(rows, (workers or Workers()).count(benchmark.device))


def _name_kind(cell: Cell) -> str:
    if cell.kind != "retraining":
        return cell.kind
    return f"retraining, {cell.treatment}"


def _measure_speed(data: SuiteData, benchmark: Benchmark) -> _Speed | None:
    passes, device = benchmark.suite.count_passes(data.name), benchmark.device
    try:
        all_samples, N = load_samples(data, benchmark.data)
    except FileError:  # the data is not here
        return None
    learner: Any
    if data.model.split(":")[0] != "probe":
        learner = choose_learner(data.model, all_samples, **list_training_options(data, device))
        training = _measure_training(learner, all_samples, N, passes)
        return _Speed(training, 0.0, N, _count_epochs(learner), probes=False)
    # The head learns from stand-ins: its speed does not depend on what the features are.
    image_sample = all_samples.subset(_spread_evenly(len(all_samples), _IMAGES))
    learner = choose_learner(data.model, image_sample, **list_training_options(data, device))
    width = learner.inputs_of(image_sample).shape[1]
    stand_in = np.random.default_rng(0).standard_normal((len(all_samples), width), np.float32)
    learner = replace(learner, inputs_of=lambda _: stand_in)
    training = _measure_training(learner, all_samples, N, passes)
    features = _measure_features(data, all_samples, image_sample)
    return _Speed(training, features, N, _count_epochs(learner), probes=True)


def _count_epochs(learner: Any) -> int:
    """The epochs of a network; 1 for a classifier, which has none."""
    return learner.training.epochs if _is_network(learner) else 1


def _is_network(learner: Any) -> bool:
    from uqled.predict.learners.network import NetworkLearner  # loads PyTorch

    return isinstance(learner, NetworkLearner)


def _measure_training(learner: Any, data: Dataset, N: int, passes: int) -> float:
    """The seconds of a whole training per sample, measured on some of the samples."""
    epochs, is_network = _count_epochs(learner), _is_network(learner)
    if is_network:
        learner = replace(learner, training=replace(learner.training, epochs=1))
    per_sample = 0.0
    # The time of a scikit-learn classifier does not grow evenly: measure the largest part alone.
    for n in _SIZES if is_network else (_SIZES[-1],) * 2:
        train = _spread_evenly(N, n)
        unseen = train[: max(2, len(train) // 16)]
        with TemporaryDirectory() as work, use_one_thread():
            began = time.perf_counter()
            learner.fit_predict(
                data, train, unseen, passes=passes, seed=0, folder=Path(work),
                advance=lambda _: None,
            )  # fmt: skip
            seconds = time.perf_counter() - began
        per_sample = seconds * epochs / len(train)
        if n > _SIZES[0] and (seconds > _LONG_ENOUGH or n >= N):  # the first one warms up
            break
    return per_sample


def _measure_features(data: SuiteData, all_samples: Dataset, image_sample: Dataset) -> float:
    """Seconds to compute all features, estimated from a few images; 0 if they are cached."""
    from uqled.features.computing import are_features_cached, compute_features
    from uqled.predict.learners.network import select_images
    from uqled.predict.learners.probe import make_probe_options, name_encoder

    options = {name: value for name, value in data.training.items() if name != "uncertainty"}
    encoder, probe_options = name_encoder(data.model), make_probe_options(resolve_training(options))
    if are_features_cached(
        select_images(all_samples), encoder, cache_folder=find_cache_folder(), options=probe_options
    ):
        return 0.0
    images, seconds = select_images(image_sample), 0.0
    for part in (images[:2], images):  # the first one warms up
        began = time.perf_counter()
        compute_features(part, encoder, cache_folder=None, options=probe_options)
        seconds = time.perf_counter() - began
    return seconds * len(all_samples) / len(images)


def _spread_evenly(N: int, n: int) -> Any:
    """n of N positions, evenly spread, so that sorted data contributes all of its classes."""
    return np.unique(np.linspace(0, N - 1, min(n, N)).astype(np.intp))


def format_duration(seconds: float) -> str:
    """Seconds as a person would say them.

    >>> format_duration(40), format_duration(4_000), format_duration(400_000)
    ('40 s', '67 min', '111 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
