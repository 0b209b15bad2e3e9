"""Folds of a network side by side, each with its share of this machine's cores, where that pays.

One training keeps several cores less busy than several trainings do: what a layer does is short,
and at its end all threads wait for the slowest. The choice follows from the network, the data, the
settings and the machine, never from what an interrupted run had done, so that a run that is
continued computes the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from uqled.data.dataset import Dataset
from uqled.engines.processes import Processes
from uqled.limits import measure_memory

_WORTH_SECONDS = (
    60.0  # of one core, for all folds: below it, starting processes takes what it saves
)
_MEMORY_SHARE = 0.5  # of the machine's memory, for all of them


@dataclass(frozen=True)
class FoldCost:
    """What one fold takes, roughly."""

    seconds: float
    """Of one core."""
    memory: int
    """Bytes."""


@runtime_checkable
class SharingLearner(Protocol):
    """A learner whose folds can be computed side by side on one machine."""

    def estimate_fold(self, data: Dataset, folds: int, passes: int) -> FoldCost | None:
        """What a fold takes; None where folds should not share this machine, such as on a GPU."""

    def count_threads(self) -> int:
        """Threads that this process computes with."""


def choose_processes(learner: Any, data: Dataset, folds: int, passes: int) -> Processes | None:
    """Processes for the folds of this learner, or None: one after the other in this process."""
    if not isinstance(learner, SharingLearner):
        return None
    threads = learner.count_threads()
    if threads < 2:
        return None
    cost = learner.estimate_fold(data, folds, passes)
    if cost is None or cost.seconds * folds < _WORTH_SECONDS:
        return None
    workers = min(folds, threads, int(_MEMORY_SHARE * measure_memory() // max(1, cost.memory)))
    return Processes(workers, threads) if workers > 1 and _can_be_sent(learner) else None


def _can_be_sent(learner: SharingLearner) -> bool:
    """If another process can be given the learner: a function may hold what cannot be copied."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        dumps(learner)
    except Exception:  # whatever the parts of a user's function raise
        return False
    return True
