"""scikit-learn classifiers as learners: `logistic`, `forest`, `boosting`, or any of your own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from uqled.data.dataset import Dataset
from uqled.errors import InputError
from uqled.features.columns import make_transformer, take_samples
from uqled.predict.learner import Advance, FoldPredictions
from uqled.predict.learners.classifier_fold import (
    check_classifier,
    check_uncertainty,
    predict_classifier_fold,
)
from uqled.predict.uncertainty import AUTO_SOURCE

_TREES = 300  # 60 for each of five passes


def make_logistic(data: Dataset) -> LogisticRegression:
    # Wrong labels want more regularisation than right ones: on all five tables tried, C = 0.1
    # gave a better F1 than 1. On TF-IDF, whose rows have length 1, it was alike from 1 to 10.
    return LogisticRegression(C=0.1 if data.texts is None else 3.0, max_iter=1_000)


def make_boosting(data: Dataset) -> HistGradientBoostingClassifier:  # noqa: ARG001
    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, l2_regularization=1.0)


def make_forest(data: Dataset | None = None) -> ExtraTreesClassifier:  # noqa: ARG001
    """Its members are passes from one fit, where others need F fits."""
    return ExtraTreesClassifier(_TREES, n_jobs=-1)


#: The classifiers that can be named.
CLASSIFIERS = {"logistic": make_logistic, "forest": make_forest, "boosting": make_boosting}


def make_learner(
    model: Any, data: Dataset, *, uncertainty: str = AUTO_SOURCE, training: Any = None
) -> EstimatorLearner:
    """Make a learner from a name, a scikit-learn classifier, or a whole pipeline.

    A classifier gets features that suit the data: TF-IDF of texts, scaled numbers, a column per
    category, pixels from 0 to 1. A pipeline gets the data itself: strings, the frame or array;
    images as rows of such pixels.
    """
    training = {k: v for k, v in (training or {}).items() if k not in ("offline", "device")}
    if training:
        raise InputError(
            next(iter(training)),
            f"is given, but does not apply to {model!r}",
            "It is an option for networks",
        )
    name = model if isinstance(model, str) else type(model).__name__
    if isinstance(model, str):
        model = CLASSIFIERS[name](data)
    check_classifier(model)
    check_uncertainty(model, uncertainty)
    transformer = None
    if not isinstance(model, Pipeline):
        takes_sparse = get_tags(model).input_tags.sparse
        transformer = make_transformer(data, takes_sparse=takes_sparse, name=type(model).__name__)
    return EstimatorLearner(name, model, transformer, uncertainty)


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """A scikit-learn classifier of class numbers."""

    name: str
    estimator: Any
    features: Any = None
    """A transformer, fitted once per fold for all the fits in it; None: the data as it is."""
    uncertainty: str = AUTO_SOURCE

    def settings(self) -> dict[str, Any]:
        return {
            "estimator": describe_setting(self.estimator),
            "features": None if self.features is None else describe_setting(self.features),
            "uncertainty": self.uncertainty,
        }

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
        """Train on `train`, predict `test`; of several fits, `folder` keeps the finished ones."""
        X, X_new = take_samples(data, train), take_samples(data, test)
        if self.features is not None:
            X, X_new = fit_transformer(self.features, X, X_new, data.kind)
        return predict_classifier_fold(
            self.estimator,
            X,
            data.labels.codes[train],
            X_new,
            classes=np.arange(data.n_classes),
            passes=passes,
            uncertainty=self.uncertainty,
            seed=seed,
            folder=folder,
            advance=advance,
        )


def fit_transformer(transformer: Any, X: Any, X_new: Any, kind: str) -> tuple[Any, Any]:
    """(features of X, features of X_new), by a clone fitted on X."""
    transformer = clone(transformer)
    try:
        return transformer.fit_transform(X), transformer.transform(X_new)
    except ValueError as error:
        if kind != "texts":
            raise
        raise InputError(
            "data",
            f"has no words in its texts ({error})",
            "Pass a pipeline of your own, such as make_pipeline(TfidfVectorizer("
            "analyzer='char_wb', ngram_range=(2, 4)), LogisticRegression())",
        ) from error


def describe_setting(value: Any) -> str:
    """A setting as text, alike in every process; a model with what differs from its defaults.

    Unlike scikit-learn's own description it leaves nothing out, except the number of cores.
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        defaults = signature(type(value).__init__).parameters
        params = {
            name: describe_setting(setting)
            for name, setting in sorted(value.get_params(deep=False).items())
            if name not in ("n_jobs", "verbose")
        }
        changed_params = [
            f"{name}={text}"
            for name, text in params.items()
            if name not in defaults or text != describe_setting(defaults[name].default)
        ]
        return f"{type(value).__name__}({', '.join(changed_params)})"
    if isinstance(value, dict):
        entries = [f"{describe_setting(k)}: {describe_setting(v)}" for k, v in value.items()]
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(describe_setting, value))}]"
    if isinstance(value, np.ndarray):
        return describe_setting(value.tolist())
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
