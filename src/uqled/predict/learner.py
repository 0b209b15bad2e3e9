"""The interface between cross-validation and models of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.predict.committee.combining import Combination

#: Called with the share of a fold that has just been done; the shares of a fold add up to 1.
Advance = Callable[[float], None]


@dataclass(frozen=True)
class FoldPredictions:
    """Probabilities of the samples that a fold did not train on, K columns always.

    A class that the training part misses has probability 0.
    """

    pred_probs: NDArray[np.float32]
    """[m,K]"""
    passes: NDArray[np.float32] | None
    """[F,m,K], or None where the model has no source of uncertainty."""


class Learner(Protocol):
    """A model that trains on some samples and predicts others."""

    @property
    def name(self) -> str:
        """What the run calls it."""

    def settings(self) -> dict[str, Any]:
        """Everything that changes the result, as plain JSON: part of the run's configuration."""

    def fit_predict(
        self,
        data: Dataset,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        *,
        passes: int,
        seed: int,
        folder: Path,
        advance: Advance,
    ) -> FoldPredictions:
        """Train on the samples `train`, predict the samples `test`.

        `folder` is the fold's own, for checkpoints and `history.csv`: what an interrupted call
        left there is continued, to the same result.
        """


@runtime_checkable
class CombiningLearner(Protocol):
    """A learner whose members are the passes, and are combined when all folds are finished."""

    members: tuple[str, ...]
    features: NDArray[np.float32] | None
    """[N,D] by which neighbours are found; None without any."""

    @property
    def groups(self) -> NDArray[np.integer[Any]] | None:
        """[N] samples that must share a fold."""

    def combine_folds(
        self,
        members: NDArray[np.floating[Any]],
        labels: NDArray[np.integer[Any]],
        folds: NDArray[np.integer[Any]],
    ) -> Combination:
        """The members [H,N,K] of all folds as one prediction."""


@runtime_checkable
class FeatureLearner(Protocol):
    """A learner that sees features of the samples, not the samples."""

    sample_features: NDArray[np.float32] | None
    """[N,D] by which neighbours are found; None where it sees the samples themselves."""


@runtime_checkable
class EnsembleLearner(Protocol):
    """A learner whose fold is several fits, each of which can be done on another machine."""

    def count_fits(self, passes: int) -> int:
        """The number of trainings in a fold; 0: the fold is a single training."""

    def fit_member(
        self,
        data: Dataset,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        member: int,
        *,
        seed: int,
        folder: Path,
        advance: Advance,
    ) -> Any:
        """Do one training, and leave its result in `folder`, where `fit_predict` finds it."""
