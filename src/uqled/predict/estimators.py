"""Any scikit-learn classifier as a learner, with the features that suit the kind of data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import get_tags

from uqled.data.dataset import Dataset
from uqled.errors import InputError
from uqled.predict.learner import Advance, FoldPredictions
from uqled.predict.sources import (
    Uncertainty,
    check_classifier,
    check_uncertainty,
    fold_predictions,
)

#: The classifiers that have a name. `auto` is "logistic" for texts and "forest" for all else.
#: A forest's members are passes from one fit, where others need F fits, and in small trials with
#: wrong labels it was mostly ahead of boosting; on TF-IDF it was behind logistic regression.
NAMES = ("auto", "logistic", "forest", "boosting")

_TREES = 300  # 60 for each of five passes
_MOST_CATEGORIES = 100  # of a column: rarer ones share a column
_MANY_TEXTS = 20_000  # from here on, a word or pair of words must occur in two texts


def estimator_learner(
    model: Any, data: Dataset, uncertainty: Uncertainty = "auto"
) -> EstimatorLearner:
    """A learner of a name (`NAMES`), a scikit-learn classifier, or a whole pipeline.

    A classifier gets features that suit the data: TF-IDF of texts, scaled numbers, a column per
    category, pixels from 0 to 1. A pipeline gets the data itself: strings, the frame or array;
    images as rows of such pixels.
    """
    name = model if isinstance(model, str) else type(model).__name__
    if isinstance(model, str):
        name, model = _named(model, data)
    check_classifier(model)
    check_uncertainty(model, uncertainty)
    features = None if isinstance(model, Pipeline) else _features(data, model)
    return EstimatorLearner(name, model, features, uncertainty)


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """A scikit-learn classifier of class numbers."""

    name: str
    estimator: Any
    features: Any = None
    """A transformer, fitted once per fold for all the fits in it; None: the data as it is."""
    uncertainty: Uncertainty = "auto"

    def settings(self) -> dict[str, Any]:
        return {
            "estimator": _described(self.estimator),
            "features": None if self.features is None else _described(self.features),
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
        X, X_new = _rows(data, train), _rows(data, test)
        if self.features is not None:
            features = clone(self.features)
            try:
                X = features.fit_transform(X)
            except ValueError as error:
                if data.kind != "texts":
                    raise
                raise InputError(
                    "data",
                    f"has texts in which no words were found ({error})",
                    "Pass a pipeline of your own, such as make_pipeline(TfidfVectorizer("
                    "analyzer='char_wb', ngram_range=(2, 4)), LogisticRegression())",
                ) from error
            X_new = features.transform(X_new)
        return fold_predictions(
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


def default_forest() -> ExtraTreesClassifier:
    """The classifier for features of any kind."""
    return ExtraTreesClassifier(_TREES, n_jobs=-1)


def _named(name: str, data: Dataset) -> tuple[str, Any]:
    if name not in NAMES:
        raise InputError("model", f"is {name!r}", f"Choose one of {', '.join(NAMES)}")
    if name == "auto":
        name = "logistic" if data.kind == "texts" else "forest"
    if name == "logistic":
        # Wrong labels want more regularisation than right ones: on all five tables tried, C = 0.1
        # gave a better F1 than 1. On TF-IDF, whose rows have length 1, it was alike from 1 to 10.
        C = 3.0 if data.kind == "texts" else 0.1
        return name, LogisticRegression(C=C, max_iter=1_000)
    if name == "boosting":
        return name, HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=15, l2_regularization=1.0
        )
    return name, default_forest()


def _rows(data: Dataset, indices: NDArray[np.intp]) -> Any:
    """These samples as scikit-learn takes them."""
    if data.kind == "images":
        return data.inputs[indices].reshape(len(indices), -1).astype(np.float32) / 255
    return data.inputs.iloc[indices] if hasattr(data.inputs, "iloc") else data.inputs[indices]


def _features(data: Dataset, model: Any) -> Any:
    """A transformer that makes features of the data for this classifier, or None."""
    if data.kind == "images":
        return None
    takes_sparse = get_tags(model).input_tags.sparse
    if data.kind == "texts":
        if not takes_sparse:
            name = type(model).__name__
            raise InputError(
                "model",
                f"is {name}, which cannot read the sparse features of texts",
                "Use 'logistic' or 'forest', or a pipeline with dense features: make_pipeline("
                f"TfidfVectorizer(), TruncatedSVD(100), {name}(...))",
            )
        rarest = 1 if len(data) < _MANY_TEXTS else 2
        return TfidfVectorizer(
            ngram_range=(1, 2), sublinear_tf=True, min_df=rarest, dtype=np.float32
        )
    _refuse_infinite(data.inputs)
    numbers = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    if not hasattr(data.inputs, "columns"):
        return numbers
    numeric = [at for at, dtype in enumerate(data.inputs.dtypes) if _is_number(dtype)]
    words = [at for at, dtype in enumerate(data.inputs.dtypes) if not _is_number(dtype)]
    # A missing category is a category; one that training did not see is none.
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=_MOST_CATEGORIES)
    parts = [("numbers", numbers, numeric), ("words", one_hot, words)]
    return make_pipeline(
        FunctionTransformer(_plain_columns),
        ColumnTransformer(
            [part for part in parts if part[2]], sparse_threshold=0.3 if takes_sparse else 0.0
        ),
    )


def _plain_columns(frame: Any) -> Any:
    """The columns as floats and as strings, with NaN where a value is missing."""
    import pandas as pd

    plain: dict[str, NDArray[Any]] = {}
    for at, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, at]
        if _is_number(dtype):
            plain[str(at)] = _floats(column)
        else:
            texts = column.astype(object).map(str, na_action="ignore").to_numpy(dtype=object)
            plain[str(at)] = np.where(pd.isna(texts), np.nan, texts)
    return pd.DataFrame(plain, index=frame.index)


def _is_number(dtype: Any) -> bool:
    from pandas.api.types import is_numeric_dtype  # true of booleans too

    return bool(is_numeric_dtype(dtype))


def _floats(column: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return found


def _refuse_infinite(table: Any) -> None:
    if hasattr(table, "columns"):
        numbers = {c: column for c, column in table.items() if _is_number(column.dtype)}
        infinite = [(c, np.isinf(_floats(column))) for c, column in numbers.items()]
    else:
        infinite = [(at, np.isinf(table[:, at])) for at in range(table.shape[1])]
    for column, rows in infinite:
        if rows.any():
            raise InputError(
                "data",
                f"has an infinite value in column {column!r}, row {int(np.argmax(rows))}",
                "Replace it with a number, or with NaN if it is missing",
            )


def _described(value: Any) -> str:
    """A setting as text, alike in every process; a model with what differs from its defaults.

    Unlike scikit-learn's own description it leaves nothing out, except the number of cores.
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        usual = signature(type(value).__init__).parameters
        params = {
            name: _described(setting)
            for name, setting in sorted(value.get_params(deep=False).items())
            if name not in ("n_jobs", "verbose")
        }
        own = [
            f"{name}={text}"
            for name, text in params.items()
            if name not in usual or text != _described(usual[name].default)
        ]
        return f"{type(value).__name__}({', '.join(own)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_described(k)}: {_described(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, np.ndarray):
        return _described(value.tolist())
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
