"""The members of one fitted forest or bagging classifier, in F groups.

A single tree is too coarse a model, so the members are divided into F groups in their own order: a
pass is the mean of its group, and the softmax is the mean of all, the forest's `predict_proba`.
"""

from __future__ import annotations

from typing import Any

from uqled.errors import InputError
from uqled.predict.learner import FoldPredictions


class Members:
    """Needs a random forest, extremely randomised trees, or bagging."""

    fits_networks, fits_classifiers = False, True

    def check_model(self, model: Any) -> None:
        from uqled.predict.learners.classifier_fold import WITH_MEMBERS, unwrap_classifier

        classifier = unwrap_classifier(model)
        if not isinstance(classifier, WITH_MEMBERS):
            name = type(classifier).__name__
            raise InputError(
                "uncertainty",
                f"is 'members', but {name} has none",
                f"Use 'bootstrap', or pass BaggingClassifier({name}(...), n_estimators=25)",
            )

    def predict_fold(self, model: Any, passes: int) -> FoldPredictions:
        predictions: FoldPredictions = model.predict_by_members(passes)
        return predictions
