"""Features of texts and tables for scikit-learn classifiers: TF-IDF, scaled numbers, categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from uqled.data.dataset import Dataset, is_frame, join_texts, take_rows
from uqled.errors import InputError

_MAX_CATEGORIES = 100  # of a column: rarer ones share a column
_TEXT_DIRECTIONS = 50  # of TF-IDF, for classifiers that take no sparse features
_COUNTED_TEXTS = 1_000  # whose words are counted: there are no more directions than words
_MANY_TEXTS = 20_000  # from here on, a word or pair of words must occur in two texts


def take_samples(data: Dataset, indices: NDArray[np.intp]) -> Any:
    """Some samples in the form that scikit-learn takes; images as rows of pixels from 0 to 1."""
    if data.kind == "images":
        return data.inputs[indices].reshape(len(indices), -1).astype(np.float32) / 255
    return take_rows(data.inputs, indices)


def make_transformer(data: Dataset, *, takes_sparse: bool, name: str, ordinal: bool = False) -> Any:
    """A transformer from the data to features for the classifier `name`, or None.

    `ordinal`: a category is a number in one column, which trees can split, instead of a column.
    """
    if data.kind == "images":
        return None
    if data.kind == "texts":
        if not takes_sparse:
            raise InputError(
                "model",
                f"is {name}, which cannot read the sparse features of texts",
                "Use 'logistic' or 'forest', or a pipeline with dense features: make_pipeline("
                f"TfidfVectorizer(), TruncatedSVD(100), {name}(...))",
            )
        return make_tfidf(len(data))
    _refuse_infinite(data.inputs)
    numbers = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    if not is_frame(data.inputs):
        return numbers
    types, prose = data.inputs.dtypes, set(data.text_columns)
    texts = [at for at, column in enumerate(data.inputs.columns) if column in prose]
    numeric = [at for at, t in enumerate(types) if _is_number(t)]
    words = [at for at, t in enumerate(types) if not _is_number(t) and at not in texts]
    # A missing value is a category of its own; one unseen in training is ignored.
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=_MAX_CATEGORIES)
    ordinal_encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    )
    parts = [
        ("numbers", numbers, numeric),
        ("words", ordinal_encoder if ordinal else one_hot, words),
        ("texts", _make_text_part(data, takes_sparse=takes_sparse), texts),
    ]
    return make_pipeline(
        FunctionTransformer(_to_plain_columns),
        ColumnTransformer(
            [part for part in parts if part[2]], sparse_threshold=0.3 if takes_sparse else 0.0
        ),
    )


def _make_text_part(data: Dataset, *, takes_sparse: bool) -> Any:
    """TF-IDF of the text columns, joined; a few dense directions of it where need be."""
    steps = [FunctionTransformer(join_texts), make_tfidf(len(data))]
    if not takes_sparse:
        sample = [] if data.texts is None else data.texts[:_COUNTED_TEXTS].tolist()
        words = {word.lower() for text in sample for word in text.split()}
        steps.append(TruncatedSVD(max(1, min(_TEXT_DIRECTIONS, len(words) // 2)), random_state=0))
    return make_pipeline(*steps)


def make_tfidf(n: int, *, many: int = _MANY_TEXTS) -> TfidfVectorizer:
    """TF-IDF of words and pairs of words, of n texts; rare ones are left out from `many` on."""
    rarest = 1 if n < many else 2
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=rarest, dtype=np.float32)


def _to_plain_columns(frame: Any) -> Any:
    """The columns as floats and as strings, with NaN where a value is missing."""
    import pandas as pd

    plain: dict[str, NDArray[Any]] = {}
    for at, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, at]
        if _is_number(dtype):
            plain[str(at)] = _to_floats(column)
        else:
            texts = column.astype(object).map(str, na_action="ignore").to_numpy(dtype=object)
            plain[str(at)] = np.where(pd.isna(texts), np.nan, texts)
    return pd.DataFrame(plain, index=frame.index)


def _is_number(dtype: Any) -> bool:
    from pandas.api.types import is_numeric_dtype  # true of booleans too

    return bool(is_numeric_dtype(dtype))


def _to_floats(column: Any) -> NDArray[np.float64]:
    floats: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return floats


def _refuse_infinite(table: Any) -> None:
    if is_frame(table):
        numbers = {c: column for c, column in table.items() if _is_number(column.dtype)}
        infinite = [(c, np.isinf(_to_floats(column))) for c, column in numbers.items()]
    else:
        infinite = [(at, np.isinf(table[:, at])) for at in range(table.shape[1])]
    for column, rows in infinite:
        if rows.any():
            raise InputError(
                "data",
                f"has an infinite value in column {column!r}, row {int(np.argmax(rows))}",
                "Replace it with a number, or with NaN if it is missing",
            )
