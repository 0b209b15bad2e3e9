"""A source of uncertainty asks a fold's model for several predictions of each sample."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.predict.learner import FoldPredictions


class FoldModel(Protocol):
    """A model and the samples of one fold, as a source of uncertainty sees them."""

    labels: NDArray[Any]
    """[n] the training samples' labels."""
    seed: int
    """Of this fold."""

    def predict(self) -> NDArray[np.float32]:
        """[m,K] probabilities of the held-out samples, after one fit on all training samples."""

    def fit_member(self, member: int, rows: NDArray[np.intp] | None) -> NDArray[np.float32]:
        """[m,K] the same after the fit number `member`, which has a seed of its own.

        `rows` are the training samples it sees, repeated or left out; None: all of them. The result
        stays on disk until the fold is finished, so that a killed run continues behind it.
        """


class UncertaintySource(Protocol):
    """One way to get F predictions that differ where the model is uncertain."""

    fits_networks: bool
    """Whether networks support it."""
    fits_classifiers: bool
    """Whether scikit-learn classifiers support it."""

    def check_model(self, model: Any) -> None:
        """Refuse a network or classifier that has no such passes."""

    def predict_fold(self, model: Any, passes: int) -> FoldPredictions:
        """The softmax and F passes of a fold's model (a `FoldModel`)."""


class SeveralFits:
    """F fits of the same model: a subclass chooses the rows that each fit sees."""

    fits_networks = fits_classifiers = True

    def check_model(self, model: Any) -> None:
        """Any model can be fitted several times."""

    def choose_rows(self, labels: NDArray[Any], member: int, seed: int) -> NDArray[np.intp] | None:
        """The training rows of one fit; None: all of them."""
        raise NotImplementedError

    def predict_fold(self, model: FoldModel, passes: int) -> FoldPredictions:
        members = [
            model.fit_member(member, self.choose_rows(model.labels, member, model.seed))
            for member in range(passes)
        ]
        return FoldPredictions(members[0], np.stack(members))
