"""One fold of a scikit-learn classifier: fits, and probabilities of the held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, has_fit_parameter

from uqled.errors import InputError
from uqled.predict.fold_files import FIT, read_partial
from uqled.predict.learner import Advance, FoldPredictions
from uqled.predict.uncertainty import AUTO_SOURCE, check_source_name, load_source
from uqled.storage.atomic import write_array

WITH_MEMBERS = (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier)
_SEARCHES = (GridSearchCV, RandomizedSearchCV)


@dataclass(frozen=True, eq=False)
class ClassifierFold:
    """A classifier and one fold's samples: what a source of uncertainty asks for predictions."""

    classifier: Any
    X: Any
    labels: NDArray[Any]
    """[n]"""
    X_new: Any
    classes: NDArray[Any]
    """[K] the columns of the probabilities, sorted."""
    seed: int = 0
    sample_weight: NDArray[Any] | None = None
    folder: Path | None = None
    """Where finished fits stay until all are finished."""
    advance: Advance = lambda _: None
    fits: int = 1
    """How many fits the fold takes, for the progress."""

    def predict(self) -> NDArray[np.float32]:
        classifier = self._fit(0)
        self.advance(1)
        return self._predict_probabilities(classifier)

    def fit_member(self, member: int, rows: NDArray[np.intp] | None) -> NDArray[np.float32]:
        path = self.folder / FIT.format(member) if self.folder else None
        shape = _num_samples(self.X_new), len(self.classes)
        probabilities = read_partial(path, shape) if path else None
        if probabilities is None:
            probabilities = self._predict_probabilities(self._fit(member, rows))
            if path:
                write_array(path, probabilities)
        self.advance(1 / self.fits)
        return probabilities

    def predict_by_members(self, passes: int) -> FoldPredictions:
        """The mean of all members of a forest or bagging, and the means of F groups of them."""
        model = self._fit(0)
        self.advance(1)
        return average_members(model, self.X_new, passes, self.classes)

    def _fit(self, member: int, rows: NDArray[np.intp] | None = None) -> Any:
        seeded_model = set_random_states(self.classifier, (self.seed, member), keep=member == 0)
        if rows is None:
            fit_weighted(seeded_model, self.X, self.labels, self.sample_weight)
        else:
            weight = None if self.sample_weight is None else self.sample_weight[rows]
            fit_weighted(seeded_model, _safe_indexing(self.X, rows), self.labels[rows], weight)
        return seeded_model

    def _predict_probabilities(self, model: Any) -> NDArray[np.float32]:
        present = getattr(model, "classes_", np.unique(self.labels))
        return spread_columns(model.predict_proba(self.X_new), present, self.classes)


def predict_classifier_fold(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    X_new: Any,
    *,
    classes: NDArray[Any],
    passes: int,
    uncertainty: str = AUTO_SOURCE,
    seed: int = 0,
    sample_weight: NDArray[Any] | None = None,
    folder: Path | None = None,
    advance: Advance = lambda _: None,
) -> FoldPredictions:
    """Fit on X and y [n], predict X_new [m]; the columns are `classes` [K], which are sorted.

    Where there are F fits, each finished one stays in `folder` until all are finished. The source
    `auto` is the members of a forest or bagging where there are enough of them, otherwise
    `bootstrap`, which asks nothing of the classifier.
    """
    name = _choose_source(classifier, uncertainty, passes)
    present = np.unique(y)
    if len(present) == 1:  # a model fitted to one class always predicts it
        ones = spread_columns(np.ones((_num_samples(X_new), 1)), present, classes)
        advance(1)
        return FoldPredictions(ones, None if name == "none" else np.stack([ones] * passes))
    fold = ClassifierFold(
        classifier, X, y, X_new, classes, seed, sample_weight, folder, advance, passes
    )
    predictions = load_source(name, classifier, is_network=False).predict_fold(fold, passes)
    if folder:
        for member in range(passes):
            (folder / FIT.format(member)).unlink(missing_ok=True)
    return predictions


def check_classifier(model: Any, argument: str = "model") -> None:
    """Refuse a model that is no classifier with probabilities, and say what to pass instead."""
    name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "get_params")):
        fix = f"{name}()" if isinstance(model, type) else "a scikit-learn classifier or pipeline"
        raise InputError(argument, f"is {name}, which cannot be fitted", f"Pass {fix}")
    if hasattr(model, "predict_proba"):
        return
    last = unwrap_classifier(model)
    name = type(last).__name__
    fix = f"Pass sklearn.calibration.CalibratedClassifierCV({name}(...)), which adds them"
    if isinstance(model, Pipeline):
        fix += ", as the pipeline's last step"
    if getattr(last, "voting", None) == "hard":
        fix = f"Pass {name}(..., voting='soft')"
    raise InputError(argument, f"is {name}, which gives no probabilities (predict_proba)", fix)


def check_uncertainty(model: Any, uncertainty: str) -> None:
    """Refuse a source of passes that the classifier does not have."""
    check_source_name(uncertainty)
    if uncertainty != AUTO_SOURCE:
        load_source(uncertainty, unwrap_classifier(model), is_network=False).check_model(model)


def set_random_states(model: Any, seed: Sequence[int], *, keep: bool = False) -> Any:
    """A clone whose every random state is drawn from `seed`; `keep` leaves those that are set."""
    model = clone(model)
    params = model.get_params()
    names = sorted(name for name in params if name.split("__")[-1] == "random_state")
    states = np.random.SeedSequence(seed).generate_state(len(names)) >> 1  # 31 bits
    states_by_name = zip(names, states, strict=True)
    return model.set_params(
        **{n: int(s) for n, s in states_by_name if not keep or params[n] is None}
    )


def fit_weighted(
    model: Any, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None
) -> None:
    """Fit a classifier, or the last step of a pipeline, with the samples' weights if any."""
    if sample_weight is None:
        model.fit(X, y)
        return
    step, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            "sample_weight",
            f"is given, but {type(last).__name__} cannot weigh samples",
            "Leave it out, or choose a classifier whose fit takes sample_weight",
        )
    model.fit(X, y, **{f"{step}__sample_weight" if step else "sample_weight": sample_weight})


def unwrap_classifier(model: Any) -> Any:
    """The classifier at the end of pipelines and searches, fitted or not."""
    while isinstance(model, (Pipeline, *_SEARCHES)):
        if isinstance(model, Pipeline):
            model = model.steps[-1][1]
        else:
            model = getattr(model, "best_estimator_", model.estimator)
    return model


def average_members(model: Any, X: Any, F: int, classes: NDArray[Any]) -> FoldPredictions:
    """The mean of all members, and the means of F groups of them.

    Sums are taken in the members' order: a forest's own `predict_proba` adds them as they come,
    and two runs differ in the last bits.
    """
    while isinstance(model, (Pipeline, *_SEARCHES)):
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X) if len(model) > 1 else X
            model = model[-1]
        else:
            model = model.best_estimator_
    is_bagging = isinstance(model, BaggingClassifier)
    X = check_array(  # as for the members' fit: without column names
        X, accept_sparse="csr", dtype=None if is_bagging else np.float32, ensure_all_finite=False
    )
    columns = model.estimators_features_ if is_bagging else [None] * len(model.estimators_)
    members = list(zip(model.estimators_, columns, strict=True))
    bounds = np.arange(F + 1) * len(members) // F
    groups = [members[low:high] for low, high in pairwise(bounds)]
    sums: list[NDArray[np.float64]] = Parallel(n_jobs=model.n_jobs, prefer="threads")(
        delayed(_sum_members)(group, X, len(model.classes_)) for group in groups
    )
    means = [total / len(group) for total, group in zip(sums, groups, strict=True)]
    return FoldPredictions(
        spread_columns(np.sum(sums, axis=0) / len(members), model.classes_, classes),
        np.stack([spread_columns(mean, model.classes_, classes) for mean in means]),
    )


def spread_columns(
    probs: NDArray[Any], present: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.float32]:
    """[m,K] of [m,k]: a class that is not `present` has probability 0."""
    result = np.zeros((len(probs), len(classes)), np.float32)
    result[:, np.searchsorted(classes, present)] = probs
    return result


def _choose_source(model: Any, uncertainty: str, passes: int) -> str:
    """The name of the source of this many passes."""
    last = unwrap_classifier(model)
    available = last.n_estimators if isinstance(last, WITH_MEMBERS) else 0
    if uncertainty == AUTO_SOURCE:
        return "members" if available >= passes else "bootstrap"
    if uncertainty == "members" and available < passes:
        raise InputError(
            "passes",
            f"is {passes}, but {type(last).__name__} has {available} members",
            f"Set n_estimators to at least {passes}, or ask for fewer passes",
        )
    return uncertainty


def _sum_members(members: list[Any], X: Any, k: int) -> NDArray[np.float64]:
    """[m,k] sum of the members' probabilities. To them, the k classes are 0 to k-1."""
    total = np.zeros((X.shape[0], k))
    for member, columns in members:
        columns_of_member = X if columns is None else X[:, columns]
        if hasattr(member, "predict_proba"):
            total[:, member.classes_.astype(int)] += member.predict_proba(columns_of_member)
        else:  # a vote, as in bagging itself
            total[np.arange(len(total)), member.predict(columns_of_member).astype(int)] += 1
    return total
