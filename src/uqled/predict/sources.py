"""Out-of-sample probabilities of a scikit-learn classifier, and how sure it is of them.

Where the passes [F,m,K] come from, and the softmax [m,K] beside them:

- `members`: one fit of a forest or bagging. A single tree is too coarse a model, so the members
  are divided into F groups in their own order; a pass is the mean of its group, the softmax the
  mean of all members, which is the forest's `predict_proba`.
- `ensemble`: F fits that differ in nothing but their seed; the softmax is the first one's.
- `bootstrap`: F fits. The first sees the training part as it is and is the softmax too, each of
  the others a sample of it, drawn with replacement within each class, so that none loses a class.
- `auto`: the members where there are enough of them, otherwise `bootstrap`, which asks nothing of
  the classifier.
- `none`: no passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

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
from uqled.predict.learner import FIT, Advance, FoldPredictions, read_kept
from uqled.storage.atomic import write_array

Uncertainty = Literal["auto", "members", "ensemble", "bootstrap", "none"]

_WITH_MEMBERS = (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier)
_SEARCHES = (GridSearchCV, RandomizedSearchCV)


def fold_predictions(
    model: Any,
    X: Any,
    y: NDArray[Any],
    X_new: Any,
    *,
    classes: NDArray[Any],
    passes: int,
    uncertainty: Uncertainty = "auto",
    seed: int = 0,
    sample_weight: NDArray[Any] | None = None,
    folder: Path | None = None,
    advance: Advance = lambda _: None,
) -> FoldPredictions:
    """Fit on X and y [n], predict X_new [m]; the columns are `classes` [K], which are sorted.

    Where there are F fits, each finished one is kept in `folder` until all are.
    """
    present = np.unique(y)
    source = _resolved(model, uncertainty, passes)
    if len(present) == 1:  # whoever has seen one class knows no other
        certain = _in_columns(np.ones((_num_samples(X_new), 1)), present, classes)
        advance(1)
        return FoldPredictions(certain, None if source == "none" else np.stack([certain] * passes))
    if source in ("members", "none"):
        fitted = seeded(model, (seed, 0), keep=True)
        fit(fitted, X, y, sample_weight)
        advance(1)
        if source == "none":
            return FoldPredictions(_predicted(fitted, X_new, present, classes), None)
        return _members(fitted, X_new, passes, classes)

    found: list[NDArray[np.float32]] = []
    shape = _num_samples(X_new), len(classes)
    for f in range(passes):
        path = folder / FIT.format(f) if folder else None
        kept = read_kept(path, shape) if path else None
        if kept is not None:
            found.append(kept)
        else:
            fitted = seeded(model, (seed, f), keep=f == 0)
            if source == "bootstrap" and f > 0:
                rows = _resampled(y, np.random.default_rng((seed, f)))
                weight = None if sample_weight is None else sample_weight[rows]
                fit(fitted, _safe_indexing(X, rows), y[rows], weight)
            else:
                fit(fitted, X, y, sample_weight)
            found.append(_predicted(fitted, X_new, present, classes))
            if path:
                write_array(path, found[f])
        if source == "ensemble" and f == 1:
            _refuse_equal(model, found)
        advance(1 / passes)
    if folder:
        for f in range(passes):
            (folder / FIT.format(f)).unlink(missing_ok=True)
    return FoldPredictions(found[0], np.stack(found))


def check_classifier(model: Any, argument: str = "model") -> None:
    """Refuse what is no classifier with probabilities, and say what to pass instead."""
    name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "get_params")):
        fix = f"{name}()" if isinstance(model, type) else "a scikit-learn classifier or pipeline"
        raise InputError(argument, f"is {name}, which cannot be fitted", f"Pass {fix}")
    if hasattr(model, "predict_proba"):
        return
    last = _last(model)
    name, in_pipeline = type(last).__name__, isinstance(model, Pipeline)
    fix = f"Pass sklearn.calibration.CalibratedClassifierCV({name}(...)), which adds them"
    if in_pipeline:
        fix += ", as the pipeline's last step"
    if getattr(last, "voting", None) == "hard":
        fix = f"Pass {name}(..., voting='soft')"
    raise InputError(argument, f"is {name}, which gives no probabilities (predict_proba)", fix)


def check_uncertainty(model: Any, uncertainty: str) -> None:
    """Refuse a source of passes that the classifier does not have."""
    name, known = type(_last(model)).__name__, get_args(Uncertainty)
    if uncertainty not in known:
        why = f", but {name} is no network" if uncertainty == "mc-dropout" else ""
        raise InputError(
            "uncertainty", f"is {uncertainty!r}{why}", f"Choose one of {', '.join(known)}"
        )
    if uncertainty == "members" and not isinstance(_last(model), _WITH_MEMBERS):
        raise InputError(
            "uncertainty",
            f"is 'members', but {name} has none",
            f"Use 'bootstrap', or pass BaggingClassifier({name}(...), n_estimators=25)",
        )
    if uncertainty == "ensemble" and not _seed_names(model):
        raise _no_randomness(name)


def seeded(model: Any, seed: Sequence[int], *, keep: bool = False) -> Any:
    """A clone whose every random state is drawn from `seed`; `keep` leaves those that are set."""
    model = clone(model)
    names, given = _seed_names(model), model.get_params()
    states = np.random.SeedSequence(seed).generate_state(len(names)) >> 1  # 31 bits
    chosen = zip(names, states, strict=True)
    return model.set_params(**{n: int(s) for n, s in chosen if not keep or given[n] is None})


def fit(model: Any, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> None:
    """Fit a classifier, or the last step of a pipeline, with weights where they are given."""
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


def _resolved(model: Any, uncertainty: Uncertainty, passes: int) -> Uncertainty:
    """The source of so many passes."""
    last = _last(model)
    available = last.n_estimators if isinstance(last, _WITH_MEMBERS) else 0
    if uncertainty == "auto":
        return "members" if available >= passes else "bootstrap"
    if uncertainty == "members" and available < passes:
        raise InputError(
            "passes",
            f"is {passes}, but {type(last).__name__} has {available} members",
            f"Set n_estimators to at least {passes}, or ask for fewer passes",
        )
    return uncertainty


def _last(model: Any) -> Any:
    """The classifier at the end of pipelines and searches, fitted or not."""
    while isinstance(model, (Pipeline, *_SEARCHES)):
        if isinstance(model, Pipeline):
            model = model.steps[-1][1]
        else:
            model = getattr(model, "best_estimator_", model.estimator)
    return model


def _members(fitted: Any, X: Any, F: int, classes: NDArray[Any]) -> FoldPredictions:
    """The mean of all members, and the means of F groups of them.

    Sums are taken in the members' order: a forest's own `predict_proba` adds them as they come,
    and two runs differ in the last bits.
    """
    while isinstance(fitted, (Pipeline, *_SEARCHES)):
        if isinstance(fitted, Pipeline):
            X = fitted[:-1].transform(X) if len(fitted) > 1 else X
            fitted = fitted[-1]
        else:
            fitted = fitted.best_estimator_
    bagging = isinstance(fitted, BaggingClassifier)
    X = check_array(  # as the members were fitted: without the names of columns
        X, accept_sparse="csr", dtype=None if bagging else np.float32, ensure_all_finite=False
    )
    columns = fitted.estimators_features_ if bagging else [None] * len(fitted.estimators_)
    members = list(zip(fitted.estimators_, columns, strict=True))
    bounds = np.arange(F + 1) * len(members) // F
    groups = [members[low:high] for low, high in pairwise(bounds)]
    sums: list[NDArray[np.float64]] = Parallel(n_jobs=fitted.n_jobs, prefer="threads")(
        delayed(_sum_of_members)(group, X, len(fitted.classes_)) for group in groups
    )
    means = [total / len(group) for total, group in zip(sums, groups, strict=True)]
    return FoldPredictions(
        _in_columns(np.sum(sums, axis=0) / len(members), fitted.classes_, classes),
        np.stack([_in_columns(mean, fitted.classes_, classes) for mean in means]),
    )


def _sum_of_members(members: list[Any], X: Any, k: int) -> NDArray[np.float64]:
    """[m,k] sum of the members' probabilities. To them, the k classes are 0 to k-1."""
    total = np.zeros((X.shape[0], k))
    for member, columns in members:
        own = X if columns is None else X[:, columns]
        if hasattr(member, "predict_proba"):
            total[:, member.classes_.astype(int)] += member.predict_proba(own)
        else:  # a vote, as bagging itself counts it
            total[np.arange(len(total)), member.predict(own).astype(int)] += 1
    return total


def _predicted(
    fitted: Any, X: Any, present: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.float32]:
    return _in_columns(fitted.predict_proba(X), getattr(fitted, "classes_", present), classes)


def _in_columns(
    probs: NDArray[Any], present: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.float32]:
    """[m,K] of [m,k]: a class that is not `present` has probability 0."""
    found = np.zeros((len(probs), len(classes)), np.float32)
    found[:, np.searchsorted(classes, present)] = probs
    return found


def _resampled(y: NDArray[Any], rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows drawn with replacement, as many of each class as there are."""
    rows = np.argsort(y, kind="stable")  # class by class
    counts = np.unique(y, return_counts=True)[1]
    starts, sizes = np.repeat(np.cumsum(counts) - counts, counts), np.repeat(counts, counts)
    found: NDArray[np.intp] = rows[starts + rng.integers(0, sizes)]
    return found


def _seed_names(model: Any) -> list[str]:
    return sorted(name for name in model.get_params() if name.split("__")[-1] == "random_state")


def _refuse_equal(model: Any, found: list[NDArray[np.float32]]) -> None:
    """Refuse two fits of one mind. (Trees that are sure of every sample may agree by chance.)"""
    unsure = (found[0] > 0) & (found[0] < 1)
    if unsure.any() and np.array_equal(found[0], found[1]):
        raise _no_randomness(type(_last(model)).__name__)


def _no_randomness(name: str) -> InputError:
    return InputError(
        "uncertainty",
        f"is 'ensemble', but {name} gives the same probabilities whatever its seed",
        "Use 'bootstrap', where every fit sees another sample of the data",
    )
