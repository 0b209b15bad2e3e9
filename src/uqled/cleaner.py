"""A scikit-learn classifier that finds wrong labels before it learns."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import (
    Tags,
    _safe_indexing,
    assert_all_finite,
    column_or_1d,
    get_tags,
    indexable,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from uqled import arrays
from uqled.arrays import Labels
from uqled.detect.find import find_label_errors
from uqled.detect.methods.registry import DEFAULT_METHOD, choose_methods
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.predict.learners.classifier_fold import (
    check_classifier,
    check_uncertainty,
    fit_weighted,
    predict_classifier_fold,
    set_random_states,
)
from uqled.predict.learners.estimator import make_forest


class LabelCleaner(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that finds wrong labels in its training data and drops or corrects them first.

    `fit` predicts every sample with a classifier that was not trained on it (stratified
    cross-validation), flags the labels that are probably wrong, and fits a clone of the classifier
    on what remains. No class is dropped altogether: its least suspect sample stays.

    Parameters
    ----------
    estimator
        Any scikit-learn classifier with `predict_proba`, or a pipeline that ends in one; it is
        cloned, never changed. Default: a forest of extremely randomised trees.
    method
        As in `uqled.find_label_errors`. `"cl-pbnr"` needs no passes, and one fit per fold.
    agreement
        As in `uqled.find_label_errors`.
    folds
        Number of folds: fewer if no class has as many samples.
    passes
        Number of stochastic passes.
    uncertainty
        Where the passes come from: the `"members"` of a forest or bagging, an `"ensemble"` of fits
        with different seeds, `"bootstrap"` fits on resampled data, or `"auto"`: members if there
        are enough, otherwise bootstrap, which fits `passes` times per fold.
    treatment
        `"drop"` leaves the flagged samples out; `"relabel"` gives them the suggested label.
    seed
        Seeds folds, resampling and every random state that the classifier leaves open. The same
        seed gives the same result.

    Attributes
    ----------
    label_errors_ : LabelErrors
        The result of detection, one entry per sample of the training data.
    estimator_ : classifier
        Fitted on the cleaned data.
    classes_ : ndarray [K]
    n_features_in_, feature_names_in_
        Those of `estimator_`, if it has them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> y[10] = 2  # a setosa that somebody called virginica
    >>> cleaner = LabelCleaner(LogisticRegression(max_iter=1000)).fit(X, y)
    >>> int(cleaner.label_errors_.ranked[0]), int(cleaner.label_errors_.suggested[10])
    (10, 0)
    >>> cleaner.predict(X[10:11]).tolist()
    [0]
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = DEFAULT_METHOD,
        agreement: int | None = None,
        folds: int = 4,
        passes: int = 5,
        treatment: Literal["drop", "relabel"] = "drop",
        uncertainty: str = "auto",
        seed: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.agreement = agreement
        self.folds = folds
        self.passes = passes
        self.treatment = treatment
        self.uncertainty = uncertainty
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelCleaner:
        """Find wrong labels in y [N], treat them, and fit the classifier.

        X is whatever the classifier takes, rows first; y any labels that scikit-learn takes, text
        or numbers; `sample_weight` [N] weighs the samples in every fit.
        """
        model = self._get_model()
        uncertainty = self._check_parameters(model)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X, y = indexable(X, y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        errors = self._find_errors(model, uncertainty, X, y, sample_weight)
        classes = errors.labels.values
        rows, codes = _treat_labels(errors, self.treatment)
        weight = None if sample_weight is None else sample_weight[rows]
        seeded_model = set_random_states(model, (self.seed,), keep=True)
        fit_weighted(seeded_model, _safe_indexing(X, rows), classes[codes], weight)
        self.classes_, self.label_errors_, self.estimator_ = classes, errors, seeded_model
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """[m] the predicted class."""
        check_is_fitted(self)
        predicted: NDArray[Any] = self.estimator_.predict(X)
        return predicted

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """[m,K] probabilities, columns as in `classes_`."""
        check_is_fitted(self)
        probabilities: NDArray[Any] = self.estimator_.predict_proba(X)
        return probabilities

    @property
    def n_features_in_(self) -> int:
        check_is_fitted(self)
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        check_is_fitted(self)
        names: NDArray[Any] = self.estimator_.feature_names_in_
        return names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._get_model())
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags

    def _get_model(self) -> Any:
        return make_forest() if self.estimator is None else self.estimator

    def _check_parameters(self, model: Any) -> str:
        """Check every parameter, and choose the source of passes."""
        arrays.check_whole_number(self.folds, "folds", low=2)
        arrays.check_whole_number(self.passes, "passes", low=1)
        arrays.check_whole_number(self.seed, "seed", low=0)
        if self.treatment not in ("drop", "relabel"):
            raise InputError("treatment", f"is {self.treatment!r}", "Pass 'drop' or 'relabel'")
        check_classifier(model, "estimator")
        check_uncertainty(model, self.uncertainty)
        if get_tags(model).input_tags.pairwise:
            raise InputError(
                "estimator",
                "takes distances or kernels between samples, which cannot be split by rows",
                "Pass one that takes features",
            )
        inputs = ("pred_probs",) if self.uncertainty == "none" else ("pred_probs", "passes")
        choices = choose_methods(self.method, self.agreement, inputs=inputs)
        reads_passes = any(choice.method.reads_passes for choice in choices)
        return self.uncertainty if reads_passes else "none"

    def _find_errors(
        self,
        model: Any,
        uncertainty: str,
        X: Any,
        y: NDArray[Any],
        sample_weight: NDArray[Any] | None,
    ) -> LabelErrors:
        """Predict every sample out of fold, and detect."""
        classes, codes = np.unique(y, return_inverse=True)
        labels = Labels(codes.astype(np.int32), classes, tuple(map(str, classes.tolist())))
        arrays.check_two_classes(labels, "y")
        N, K = len(labels), labels.n_classes
        pred_probs = np.empty((N, K), np.float32)
        passes = None if uncertainty == "none" else np.empty((self.passes, N, K), np.float32)
        for fold, (train, test) in enumerate(_split_folds(labels, self.folds, self.seed)):
            predicted = predict_classifier_fold(
                model,
                _safe_indexing(X, train),
                y[train],
                _safe_indexing(X, test),
                classes=classes,
                passes=self.passes,
                uncertainty=uncertainty,
                seed=self.seed + fold,
                sample_weight=None if sample_weight is None else sample_weight[train],
            )
            pred_probs[test] = predicted.pred_probs
            if passes is not None:
                passes[:, test] = predicted.passes
        errors = find_label_errors(
            labels.codes, pred_probs, passes, method=self.method, agreement=self.agreement
        )
        relabelled_errors = {
            name: replace(one, labels=labels) for name, one in errors.by_method.items()
        }
        return replace(errors, labels=labels, by_method=relabelled_errors)


def _split_folds(
    labels: Labels, folds: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(train, test) of each fold; a class of one sample is never in both."""
    largest = int(np.bincount(labels.codes).max())
    if largest == 1:
        raise InputError(
            "y",
            f"has {len(labels)} classes of one sample each",
            "Pass class labels of which at least one occurs twice",
        )
    splitter = StratifiedKFold(min(folds, largest), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warns about classes smaller than the folds
        return list(splitter.split(labels.codes, labels.codes))


def _treat_labels(
    errors: LabelErrors, treatment: Literal["drop", "relabel"]
) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """(rows to learn from, their class numbers): every class is among them."""
    labels, flags = errors.labels.codes, errors.mask.copy()
    while True:
        if treatment == "drop":
            rows = np.flatnonzero(~flags)
            codes = labels[rows]
        else:
            rows = np.arange(len(labels))
            codes = np.where(flags, errors.suggested_codes, labels)
        lost_classes = np.flatnonzero(np.bincount(codes, minlength=errors.labels.n_classes) == 0)
        if not len(lost_classes):
            return rows, codes
        class_rows = np.flatnonzero(labels == lost_classes[0])
        least_suspect = class_rows[np.argmax(errors.scores[class_rows])]
        flags[least_suspect] = False  # this sample keeps its label
