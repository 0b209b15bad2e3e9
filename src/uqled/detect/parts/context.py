"""Everything that the tasks of a detection in parts need: rows, methods, and where their files
go."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.detect.core.class_statistics import Measure
from uqled.detect.core.inputs import (
    Inputs,
    PlainSource,
    ProbabilitySource,
    count_values,
    split_blocks,
)
from uqled.detect.core.kernels import choose_kernels
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.core.sweeps import Sweeps, list_measures, list_sources
from uqled.detect.parts.store import Store
from uqled.detect.request import DetectionRequest, SweepPlan
from uqled.engines.local import Threads
from uqled.errors import InputError
from uqled.progress import Progress


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop`."""

    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class TaskContext:
    """Small and picklable: it is sent to every task."""

    store: Store
    labels: Any
    """[N] shards or an array, of class numbers or of class values."""
    softmax: Any | None
    passes: Any | None
    values: NDArray[Any]
    """[K] the class values, as in the labels."""
    names: tuple[str, ...]
    request: DetectionRequest
    plan: SweepPlan
    n_passes: int

    @property
    def kernels(self) -> ModuleType:
        """Those of the sweeps."""
        return choose_kernels(count_values(self.softmax, self.passes))

    @property
    def plain_sources(self) -> list[ProbabilitySource]:
        """Sources whose columns per sample are kept."""
        sources = dict.fromkeys(list_sources(self.plan.members))
        if any(source != "softmax" for source in sources):
            sources["mean"] = None
        return [source for source in sources if not isinstance(source, int)]

    @property
    def predicted_sources(self) -> list[PlainSource]:
        """Sources whose predicted classes are kept."""
        sources = list_sources(self.plan.members)
        return [source for source in sources if not isinstance(source, int)]

    @property
    def measures(self) -> list[Measure]:
        """Uncertainties that are kept per sample."""
        if "mean" not in self.plain_sources:
            return []
        measures: list[Measure] = [
            "entropy",
            "mutual-information",
            *list_measures(self.plan.members),
        ]
        return list(dict.fromkeys(measures))

    def open_inputs(self, part: Part, first: Collection[ProbabilitySource] = ()) -> Inputs:
        """Labels and rows of a part, counted from its first row. The first block of the sources
        named is read meanwhile."""
        rows = part.start, part.stop
        softmax = passes = None
        if self.softmax is not None:
            softmax = ProbabilityRows(
                self.softmax, name="pred_probs", ndim=2, part=rows, sequential=True
            )
        if self.passes is not None:
            passes = ProbabilityRows(self.passes, name="passes", ndim=3, part=rows, sequential=True)
        n_rows = part.stop - part.start
        block = split_blocks([one for one in (softmax, passes) if one is not None], n_rows)[0]
        if softmax is not None and "softmax" in first:
            softmax.begin_reading(*block)
        if passes is not None and any(source != "softmax" for source in first):
            passes.begin_reading(*block)
        return Inputs(Labels(self.read_labels(part), self.values, self.names), softmax, passes)

    def read_labels(self, part: Part) -> NDArray[np.int32]:
        column = np.asarray(self.labels[part.start : part.stop])
        try:
            return arrays.encode_labels(
                column, n_classes=len(self.values), classes=self.values.tolist()
            ).codes
        except InputError as error:
            problem = f"{error.problem}, counted from row {part.start}"
            raise InputError(error.argument, problem, error.fix) from error

    def make_sweeps(self, part: Part, sources: Collection[ProbabilitySource]) -> Sweeps:
        """For a sweep over a part, which begins by reading these sources."""
        return Sweeps(self.open_inputs(part, sources), Threads(1), Progress(False))
