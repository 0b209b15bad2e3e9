"""`cleanlab.classification`: a classifier that leaves label issues out of its training data.

`uqled.LabelCleaner` does the same with uqled's own methods.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing

from uqled.compat.count import (
    compute_confident_joint,
    estimate_cv_predicted_probabilities,
    estimate_latent,
)
from uqled.compat.filter import find_label_issues
from uqled.compat.inputs import check_labels
from uqled.compat.rank import get_label_quality_scores
from uqled.errors import InputError

#: No class's samples weigh more than the inverse of this.
_LEAST_SHARE = 1e-3
#: cleanlab's `CleanLearning`, and `Datalab` with it, leave each class more samples than its filter.
_FILTER_OPTIONS = {"min_examples_per_class": 10}


class CleanLearning(BaseEstimator):  # type: ignore[misc]
    """Fits a classifier on the samples without label issues; the arguments are cleanlab's.

    `clf` is any scikit-learn classifier with `predict_proba`; default: logistic regression.
    """

    def __init__(
        self,
        clf: Any = None,
        *,
        seed: int | None = None,
        cv_n_folds: int = 5,
        find_label_issues_kwargs: dict[str, Any] | None = None,
        label_quality_scores_kwargs: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.clf = LogisticRegression() if clf is None else clf
        self.seed = seed
        self.cv_n_folds = cv_n_folds
        self.find_label_issues_kwargs = find_label_issues_kwargs
        self.label_quality_scores_kwargs = label_quality_scores_kwargs
        self.verbose = verbose
        self.label_issues_df: pd.DataFrame | None = None
        self.confident_joint: NDArray[Any] | None = None
        self.py: NDArray[Any] | None = None
        self.noise_matrix: NDArray[Any] | None = None
        self.inverse_noise_matrix: NDArray[Any] | None = None

    def find_label_issues(
        self, X: Any = None, labels: Any = None, *, pred_probs: NDArray[Any] | None = None
    ) -> pd.DataFrame:
        """One row per sample: `is_label_issue`, `label_quality`, `given_label`, `predicted_label`.

        Without `pred_probs`, each fold of `X` is predicted by a clone fitted on the others.
        """
        codes = check_labels(labels)
        if pred_probs is None:
            if X is None:
                raise InputError("X", "and pred_probs are both missing", "Pass one of them")
            if self.seed is not None:
                np.random.seed(self.seed)
            pred_probs = estimate_cv_predicted_probabilities(
                X, codes, self.clf, cv_n_folds=self.cv_n_folds, seed=self.seed
            )
        options = {**_FILTER_OPTIONS, **(self.find_label_issues_kwargs or {})}
        self.confident_joint = options.get("confident_joint")
        if self.confident_joint is None:
            self.confident_joint = compute_confident_joint(codes, pred_probs)
        self.py, self.noise_matrix, self.inverse_noise_matrix = estimate_latent(
            self.confident_joint, codes
        )
        if options.get("filter_by") != "confident_learning":
            options.setdefault("confident_joint", self.confident_joint)
        mask = find_label_issues(codes, pred_probs, **options)
        scores = self.label_quality_scores_kwargs or {}
        small = (
            np.int16 if pred_probs.shape[1] < np.iinfo(np.int16).max else np.int32
        )  # as cleanlab
        self.label_issues_df = pd.DataFrame(
            {
                "is_label_issue": mask,
                "label_quality": get_label_quality_scores(codes, pred_probs, **scores),
                "given_label": codes.astype(small),
                "predicted_label": pred_probs.argmax(axis=1).astype(small),
            }
        )
        if self.verbose:
            print(f"{np.count_nonzero(mask):,} of {len(codes):,} samples have label issues")
        return self.label_issues_df

    def fit(
        self,
        X: Any,
        labels: Any = None,
        *,
        pred_probs: NDArray[Any] | None = None,
        label_issues: Any = None,
        sample_weight: Any = None,
        y: Any = None,
    ) -> CleanLearning:
        """Fit `clf` on the samples without issues: those of `label_issues` (a frame of
        `find_label_issues`, a mask or indices), or found here.

        A classifier that takes weights gets, for class k, 1 / P(given k | true k), so that what is
        left has the classes in their true proportions.
        """
        if (labels is None) == (y is None):
            raise InputError("labels", "or y: exactly one is needed", "Pass labels")
        codes = check_labels(y if labels is None else labels)
        if label_issues is None:
            self.find_label_issues(X, codes, pred_probs=pred_probs)
        else:
            self.label_issues_df = _make_frame(label_issues, codes)
        assert self.label_issues_df is not None
        clean = np.flatnonzero(~self.label_issues_df["is_label_issue"].to_numpy())
        options = {}
        if sample_weight is not None:
            options["sample_weight"] = np.asarray(sample_weight)[clean]
        elif self.noise_matrix is not None and _takes_weights(self.clf):
            shares = np.maximum(self.noise_matrix.diagonal(), _LEAST_SHARE)
            options["sample_weight"] = (1 / shares)[codes[clean]]
            weights = np.zeros(len(codes))
            weights[clean] = options["sample_weight"]
            self.label_issues_df["sample_weight"] = weights
        self.clf.fit(_safe_indexing(X, clean), codes[clean], **options)
        return self

    def get_label_issues(self) -> pd.DataFrame | None:
        """The frame of the last `find_label_issues` or `fit`."""
        return self.label_issues_df

    def predict(self, X: Any) -> Any:
        return self.clf.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.clf.predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of `clf`."""
        return float(self.clf.score(X, y, sample_weight=sample_weight))


def _takes_weights(model: Any) -> bool:
    return "sample_weight" in inspect.signature(model.fit).parameters


def _make_frame(issues: Any, labels: NDArray[np.int64]) -> pd.DataFrame:
    """The issues that the user names, as a frame."""
    if isinstance(issues, pd.DataFrame):
        if "is_label_issue" not in issues or len(issues) != len(labels):
            raise InputError(
                "label_issues",
                f"has {len(issues)} rows and the columns {list(issues)}",
                f"Pass {len(labels)} rows with a column is_label_issue",
            )
        return issues.copy()
    issue_array = np.asarray(issues)
    mask = issue_array
    if issue_array.dtype != np.bool_:
        mask = np.zeros(len(labels), np.bool_)
        mask[issue_array] = True
    if mask.shape != labels.shape:
        raise InputError(
            "label_issues",
            f"has shape {issue_array.shape}",
            f"Pass {len(labels)} bools, or indices",
        )
    return pd.DataFrame({"is_label_issue": mask})
