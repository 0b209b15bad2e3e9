"""F passes of one trained network with only its dropout switched on: the paper's source."""

from __future__ import annotations

from typing import Any

from uqled.predict.learner import FoldPredictions


class MonteCarloDropout:
    """Needs a network with dropout layers; the softmax is the same network's without dropout."""

    fits_networks, fits_classifiers = True, False

    def check_model(self, model: Any) -> None:
        from uqled.models.dropout import require_dropout

        require_dropout(model)

    def predict_fold(self, model: Any, passes: int) -> FoldPredictions:
        return FoldPredictions(*model.predict_with_dropout(passes))
