"""Regularised logistic regression on features, as it is and with suspects down-weighted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from uqled.predict.committee.discriminant import Discriminant, choose_ridge
from uqled.predict.committee.heads import CommitteeFold
from uqled.predict.learners.classifier_fold import spread_columns

#: Of features whose mean variance is 1. Wrong labels want more regularisation than right ones.
_C = 0.003
_ITERATIONS = 200
_LEAST_WEIGHT = 0.05  # of a training sample whose label looks wrong


def predict_held_out(fold: CommitteeFold) -> NDArray[np.float32]:
    return _fit_predict(fold, None)


def predict_reweighted(fold: CommitteeFold) -> NDArray[np.float32]:
    """The same with suspects among the training samples down-weighted.

    The suspects are found within the training part, by leave-one-out, so that the held-out labels
    have no say.
    """
    X, y = fold.features[fold.train], fold.labels[fold.train]
    ridge = choose_ridge(X, y, fold.n_classes)
    probabilities = Discriminant.fit(X, y, fold.n_classes, ridge=ridge).predict_left_out(X, y)
    ratio = probabilities[np.arange(len(y)), y] / probabilities.max(axis=1)
    return _fit_predict(fold, np.clip(ratio, _LEAST_WEIGHT, 1))


def _fit_predict(fold: CommitteeFold, weights: NDArray[Any] | None) -> NDArray[np.float32]:
    X, y = fold.features[fold.train], fold.labels[fold.train]
    model = LogisticRegression(C=_C, max_iter=_ITERATIONS, tol=1e-3)
    model.fit(X, y, sample_weight=weights)
    probabilities = model.predict_proba(fold.features[fold.test])
    return spread_columns(probabilities, model.classes_, np.arange(fold.n_classes))
