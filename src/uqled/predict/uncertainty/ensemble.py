"""F fits that differ in nothing but their seed; the softmax is the first one's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError
from uqled.predict.learner import FoldPredictions
from uqled.predict.uncertainty.source import FoldModel, SeveralFits


class Ensemble(SeveralFits):
    """Refused where the seed changes nothing: the passes would all be the same."""

    def check_model(self, model: Any) -> None:
        has_seed = not hasattr(model, "get_params") or any(
            name.split("__")[-1] == "random_state" for name in model.get_params()
        )
        if not has_seed:
            raise _describe_same_passes(model)

    def choose_rows(
        self,
        labels: NDArray[Any],  # noqa: ARG002
        member: int,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> NDArray[np.intp] | None:
        return None

    def predict_fold(self, model: FoldModel, passes: int) -> FoldPredictions:
        predictions = super().predict_fold(model, passes)
        assert predictions.passes is not None
        # Trees that are certain of every sample may agree by chance.
        first, uncertain = predictions.pred_probs, (predictions.pred_probs > 0)
        uncertain &= first < 1
        others = predictions.passes[1:]
        if len(others) and uncertain.any() and (others == first).all():
            raise _describe_same_passes(model)
        return predictions


def _describe_same_passes(model: Any) -> InputError:
    from uqled.predict.learners.classifier_fold import unwrap_classifier

    name = type(unwrap_classifier(getattr(model, "classifier", model))).__name__
    return InputError(
        "uncertainty",
        f"is 'ensemble', but {name} gives the same probabilities whatever its seed",
        "Use 'bootstrap', where every fit sees another sample of the data",
    )
