"""scikit-learn classifiers as members: words of texts, trees and a linear model of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.utils import get_tags

from uqled.features.columns import make_tfidf, make_transformer, take_samples
from uqled.predict.committee.heads import CommitteeFold
from uqled.predict.learners.classifier_fold import predict_classifier_fold
from uqled.predict.learners.estimator import fit_transformer, make_boosting

_TREES = 100
_MANY_TEXTS = 500  # from here on, words of one text alone tell nothing and cost most of the time
_WORD_PRIOR = 0.1  # added to every word's weight in every class: best of 0.003 to 1 on two sets
_DRAWN = 0.5  # of the samples for each tree of a forest: as accurate as all, in less time
_LEAF = 3  # samples in a leaf, at least: smoother probabilities where labels are wrong


def predict_by_boosting(fold: CommitteeFold) -> NDArray[np.float32]:
    return _predict_table(fold, make_boosting(fold.data), ordinal=True)


def predict_by_forest(fold: CommitteeFold) -> NDArray[np.float32]:
    return _predict_table(fold, _make_trees(fold, RandomForestClassifier, max_samples=_DRAWN))


def predict_by_extra_trees(fold: CommitteeFold) -> NDArray[np.float32]:
    return _predict_table(fold, _make_trees(fold, ExtraTreesClassifier), ordinal=True)


def predict_by_logistic(fold: CommitteeFold) -> NDArray[np.float32]:
    return _predict_table(fold, LogisticRegression(C=0.1, max_iter=1_000))


def predict_by_tfidf(fold: CommitteeFold) -> NDArray[np.float32]:
    """Naive Bayes of words and pairs of words.

    Once calibrated, the labels are as likely by it as by logistic regression, whose every step goes
    through a matrix of all words and classes.
    """
    texts = fold.data.texts
    assert texts is not None
    vectorizer = make_tfidf(len(texts), many=_MANY_TEXTS)
    X, X_new = fit_transformer(vectorizer, texts[fold.train], texts[fold.test], "texts")
    return _predict_features(fold, MultinomialNB(alpha=_WORD_PRIOR), X, X_new)


def _make_trees(fold: CommitteeFold, kind: Any, **options: Any) -> Any:
    return kind(_TREES, min_samples_leaf=_LEAF, n_jobs=fold.threads, **options)


def _predict_table(
    fold: CommitteeFold, classifier: Any, *, ordinal: bool = False
) -> NDArray[np.float32]:
    """By a classifier of the table's columns."""
    data, name = fold.data, type(classifier).__name__
    sparse = get_tags(classifier).input_tags.sparse

    def transform() -> tuple[Any, Any]:
        transformer = make_transformer(data, takes_sparse=sparse, name=name, ordinal=ordinal)
        X, X_new = take_samples(data, fold.train), take_samples(data, fold.test)
        if transformer is None:
            return X, X_new
        return fit_transformer(transformer, X, X_new, data.kind)

    # Numbers and numbered categories are dense whatever the classifier takes.
    is_dense = ordinal and not data.text_columns
    X, X_new = fold.reuse_in_fold(("columns", ordinal, sparse or is_dense), transform)
    return _predict_features(fold, classifier, X, X_new)


def _predict_features(
    fold: CommitteeFold, classifier: Any, X: Any, X_new: Any
) -> NDArray[np.float32]:
    return predict_classifier_fold(
        classifier,
        X,
        fold.labels[fold.train],
        X_new,
        classes=np.arange(fold.n_classes),
        passes=1,
        uncertainty="none",
        seed=fold.seed,
    ).pred_probs
