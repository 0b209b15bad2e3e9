"""What a careful person writes: logistic regression out of fold on scaled features."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler


def predict_by_peer(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[N,K] out-of-fold probabilities."""
    scaled_features = StandardScaler().fit_transform(features)
    model = LogisticRegression(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 200 steps are not quite the end
        return cross_val_predict(model, scaled_features, labels, cv=4, method="predict_proba")
