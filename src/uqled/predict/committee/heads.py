"""The members of a committee by name, one file each, and the view that a member has of a fold.

A member is a function `predict_held_out(fold)` that returns [m,K] probabilities of the held-out
samples. Another package adds one with an entry point of the group `uqled.heads`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.registry import Registry

_HERE = "uqled.predict.committee"


@dataclass(frozen=True, eq=False)
class CommitteeFold:
    """One fold's samples."""

    data: Dataset
    features: NDArray[np.float32]
    """[N,D] of all samples; of a table without an encoder, nothing."""
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    groups: NDArray[np.integer] | None
    """[N] samples of one group must not predict each other."""
    seed: int
    shared: dict[str, Any]
    """Results that serve all folds."""
    threads: int
    """That a member may use while others run."""
    _own: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _locks: defaultdict[Hashable, Lock] = field(
        default_factory=lambda: defaultdict(Lock), repr=False
    )

    @property
    def labels(self) -> NDArray[np.int32]:
        return self.data.labels.codes

    @property
    def n_classes(self) -> int:
        return self.data.n_classes

    @cached_property
    def is_grouped(self) -> NDArray[np.bool_]:
        """[N] whether a sample shares its group with another."""
        if self.groups is None:
            return np.zeros(len(self.labels), bool)
        _, group, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        return np.asarray(sizes[group] > 1)

    def reuse(self, name: str, compute: Callable[[], Any]) -> Any:
        """A result for all samples, computed in the first fold that asks."""
        if name not in self.shared:
            self.shared[name] = compute()
        return self.shared[name]

    def reuse_in_fold(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """A result for this fold's members, computed by the first that asks; others wait."""
        with self._locks[key]:
            if key not in self._own:
                self._own[key] = compute()
            return self._own[key]


HEADS: Registry[Callable[[CommitteeFold], NDArray[Any]]] = Registry(
    "uqled.heads",
    {
        "neighbours": f"{_HERE}.neighbours:predict_held_out",
        "discriminant": f"{_HERE}.discriminant:predict_held_out",
        "linear": f"{_HERE}.linear:predict_held_out",
        "linear-reweighted": f"{_HERE}.linear:predict_reweighted",
        "network": f"{_HERE}.network:predict_held_out",
        "tf-idf": f"{_HERE}.classifiers:predict_by_tfidf",
        "boosting": f"{_HERE}.classifiers:predict_by_boosting",
        "forest": f"{_HERE}.classifiers:predict_by_forest",
        "extra-trees": f"{_HERE}.classifiers:predict_by_extra_trees",
        "logistic": f"{_HERE}.classifiers:predict_by_logistic",
    },
    argument="heads",
)
