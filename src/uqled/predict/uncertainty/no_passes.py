"""The softmax alone."""

from __future__ import annotations

from typing import Any

from uqled.predict.learner import FoldPredictions
from uqled.predict.uncertainty.source import FoldModel


class NoPasses:
    """One fit and no passes: for methods that need none, or passes that the user has."""

    fits_networks = fits_classifiers = True

    def check_model(self, model: Any) -> None:
        """Every model can be fitted once."""

    def predict_fold(self, model: FoldModel, passes: int) -> FoldPredictions:  # noqa: ARG002
        return FoldPredictions(model.predict(), None)
