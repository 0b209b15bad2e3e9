"""`cleanlab.Datalab` for label issues: names, arguments and answers of cleanlab's."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uqled.compat.classification import CleanLearning
from uqled.compat.dataset import overall_label_health_score
from uqled.data.frames import is_hugging_face
from uqled.errors import InputError

#: Neighbours that vote for a sample's class, where there are features and no probabilities.
_NEIGHBOURS = 10


class Datalab:
    """Find label issues in a data set; other kinds of issues are not supported.

    `data` is a dict of columns, a list of dicts, a pandas frame or a Hugging Face `Dataset`;
    `label_name` names the column of labels, of any values.
    """

    def __init__(
        self,
        data: Any,
        task: str = "classification",
        label_name: str | None = None,
        *,
        verbosity: int = 1,
    ) -> None:
        if task != "classification":
            raise InputError("task", f"is {task!r}", "Pass 'classification'")
        if label_name is None:
            raise InputError("label_name", "is missing", "Name the column of labels")
        self.data, self.label_name, self.verbosity = data, label_name, verbosity
        self._names, self.labels = _read_labels(data, label_name)
        self._issues: pd.DataFrame | None = None
        self._health = 0.0

    def find_issues(
        self,
        *,
        pred_probs: NDArray[Any] | None = None,
        features: NDArray[Any] | None = None,
        issue_types: dict[str, Any] | None = None,
    ) -> None:
        """Find label issues from out-of-sample probabilities [N,K], columns in the order of the
        sorted class names; without them from the votes of the nearest neighbours in features [N,D].

        `issue_types` may be `{"label": {}}`, with `k` neighbours.
        """
        other_types = sorted(set(issue_types or {}) - {"label"})
        if other_types:
            raise InputError(
                "issue_types", f"have {other_types}", "Only label issues are supported"
            )
        if pred_probs is None:
            if features is None:
                raise InputError("pred_probs", "and features are both missing", "Pass one of them")
            k = (issue_types or {}).get("label", {}).get("k", _NEIGHBOURS)
            pred_probs = _vote_of_neighbours(np.asarray(features), self.labels, k)
        frame = CleanLearning().find_label_issues(labels=self.labels, pred_probs=pred_probs)
        if frame["predicted_label"].max() >= len(self._names):
            raise InputError(
                "pred_probs",
                f"has {pred_probs.shape[1]} columns, but {self.label_name!r} has "
                f"{len(self._names)} classes",
                "Pass one column per class, in the order of class_names",
            )
        self._health = overall_label_health_score(self.labels, pred_probs, verbose=False)
        for column in ("given_label", "predicted_label"):
            frame[column] = self._names[frame[column]]
        self._issues = frame.rename(columns={"label_quality": "label_score"})

    @property
    def class_names(self) -> list[Any]:
        """The classes, in the order of the columns of `pred_probs`."""
        return list(self._names)

    @property
    def issues(self) -> pd.DataFrame:
        """One row per sample: `is_label_issue` and `label_score`."""
        return self.get_issues()

    def get_issues(self, issue_name: str | None = None) -> pd.DataFrame:
        """One row per sample; with `"label"`, also the given and the predicted label."""
        if self._issues is None:
            raise InputError(
                "issue_name", "names issues that have not been searched for", "Call find_issues"
            )
        if issue_name is None:
            return self._issues[["is_label_issue", "label_score"]].copy()
        if issue_name != "label":
            raise InputError("issue_name", f"is {issue_name!r}", "Only label issues are supported")
        return self._issues.copy()

    def get_issue_summary(self, issue_name: str | None = None) -> pd.DataFrame:
        """One row: how many label issues there are, and the share of labels that are right."""
        issues = self.get_issues(issue_name)
        number = int(issues["is_label_issue"].sum())
        return pd.DataFrame(
            {"issue_type": ["label"], "score": [self._health], "num_issues": [number]}
        )

    def report(self, *, num_examples: int = 5) -> None:
        """Print how many label issues there are, and the most suspect samples."""
        issues = self.get_issues("label")
        number = int(issues["is_label_issue"].sum())
        worst = issues.sort_values("label_score").head(num_examples)
        print(f"{number:,} of {len(issues):,} samples have label issues")
        print(f"Share of labels estimated to be right: {self._health:.3f}")
        print(f"\nMost suspect:\n{worst.to_string()}")


def _read_labels(data: Any, label_name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The names [K] of the classes, and the class number [N] of each sample."""
    if isinstance(data, str | os.PathLike):
        raise InputError(
            "data",
            f"is a {type(data).__name__}",
            f"Read it first: pandas.read_csv({str(data)!r})",
        )
    if type(data).__name__.endswith("DatasetDict"):
        raise InputError("data", f"is a {type(data).__name__}", "Pass one of its splits")
    try:
        values = [row[label_name] for row in data] if isinstance(data, list) else data[label_name]
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(
            "label_name", f"is {label_name!r}, which the data does not have", "Name a column"
        ) from error
    column = pd.Series(list(values), dtype=object)
    if column.map(lambda one: isinstance(one, list | tuple | np.ndarray)).any():
        raise InputError(
            "label_name",
            f"is {label_name!r}, whose entries are lists: multi-label data is not supported",
            "Name a column with one label per sample",
        )
    if n_missing := int(column.isna().sum()):
        raise InputError(
            "data",
            f"has {n_missing:,} missing label{'s' * (n_missing > 1)} in {label_name!r}",
            "Leave those samples out",
        )
    if is_hugging_face(data) and hasattr(data.features[label_name], "names"):  # a ClassLabel
        return np.array(data.features[label_name].names), column.to_numpy(np.int64)
    return np.unique(np.asarray(values), return_inverse=True)


def _vote_of_neighbours(features: NDArray[Any], labels: NDArray[Any], k: int) -> NDArray[Any]:
    """[N,K] shares of the classes among each sample's k nearest neighbours, without itself."""
    from sklearn.neighbors import KNeighborsClassifier

    shares = KNeighborsClassifier(k + 1).fit(features, labels).predict_proba(features)
    shares[np.arange(len(labels)), labels] -= 1 / (k + 1)
    return np.asarray(shares * (k + 1) / k)
