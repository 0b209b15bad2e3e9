"""The modules of `uqled.compat` give what cleanlab gives, call by call."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import cleanlab.classification
import cleanlab.count
import cleanlab.dataset
import cleanlab.filter
import cleanlab.rank
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import uqled.compat
from made_predictions import make_predictions
from uqled.compat import classification, count, dataset, filter, rank
from uqled.compat.datalab import Datalab
from uqled.errors import InputError


@pytest.fixture(params=[0, 1, 2])
def data(request):
    return make_predictions(request.param, N=300, K=4 + request.param, noise=0.3, dtype=np.float64)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(240, centers=4, cluster_std=2.5, random_state=0)
    rng = np.random.default_rng(0)
    wrong_rows = rng.permutation(240)[:40]
    y[wrong_rows] = (y[wrong_rows] + rng.integers(1, 4, 40)) % 4
    return X, y


def same_frames(one, other):
    pd.testing.assert_frame_equal(one, other, check_dtype=False)


@pytest.mark.parametrize("method", rank.RANKINGS)
@pytest.mark.parametrize("adjust", [False, True])
def test_label_quality_scores(data, method, adjust):
    if adjust and method == "confidence_weighted_entropy":
        return
    options = {"method": method, "adjust_pred_probs": adjust}
    expected = cleanlab.rank.get_label_quality_scores(data.labels, data.softmax, **options)
    scores = rank.get_label_quality_scores(data.labels, data.softmax, **options)
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    mask = scores < np.median(scores)
    np.testing.assert_array_equal(
        rank.order_label_issues(mask, data.labels, data.softmax, rank_by=method),
        cleanlab.rank.order_label_issues(mask, data.labels, data.softmax, rank_by=method),
    )


def test_scores_by_name(data):
    for name in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        function = f"get_{name}_for_each_label"
        np.testing.assert_allclose(
            getattr(rank, function)(data.labels, data.softmax),
            getattr(cleanlab.rank, function)(data.labels, data.softmax),
        )
    scores = rank.get_label_quality_scores(data.labels, data.softmax)
    np.testing.assert_array_equal(
        rank.find_top_issues(scores, top=7), cleanlab.rank.find_top_issues(scores, top=7)
    )
    with pytest.raises(InputError, match="method is 'magic'"):
        rank.get_label_quality_scores(data.labels, data.softmax, method="magic")


@pytest.mark.parametrize("calibrate", [True, False])
def test_confident_joint(data, calibrate):
    options = {"calibrate": calibrate, "return_indices_of_off_diagonals": True}
    joint, indices = count.compute_confident_joint(data.labels, data.softmax, **options)
    expected, others = cleanlab.count.compute_confident_joint(data.labels, data.softmax, **options)
    np.testing.assert_array_equal(joint, expected)
    assert indices == list(others)
    thresholds = np.full(data.softmax.shape[1], 0.4)
    np.testing.assert_array_equal(
        count.compute_confident_joint(data.labels, data.softmax, thresholds=thresholds),
        cleanlab.count.compute_confident_joint(data.labels, data.softmax, thresholds=thresholds),
    )


def test_counts(data):
    labels, probs = data.labels, data.softmax
    np.testing.assert_allclose(
        count.get_confident_thresholds(labels, probs),
        cleanlab.count.get_confident_thresholds(labels, probs),
    )
    raw = count.compute_confident_joint(labels, probs, calibrate=False)
    np.testing.assert_array_equal(
        count.calibrate_confident_joint(raw, labels),
        cleanlab.count.calibrate_confident_joint(raw, labels),
    )
    np.testing.assert_allclose(
        count.estimate_joint(labels, probs), cleanlab.count.estimate_joint(labels, probs)
    )
    np.testing.assert_allclose(
        count.estimate_joint(labels, confident_joint=raw),
        cleanlab.count.estimate_joint(labels, None, confident_joint=raw),
    )
    for method in ("off_diagonal", "off_diagonal_calibrated"):
        options = {"estimation_method": method}
        expected = cleanlab.count.num_label_issues(labels, probs, **options)
        assert count.num_label_issues(labels, probs, **options) == expected
    options = {"estimation_method": "off_diagonal_custom", "confident_joint": raw}
    expected = cleanlab.count.num_label_issues(labels, probs, **options)
    assert count.num_label_issues(labels, probs, **options) == expected
    for one, other in zip(
        count.estimate_latent(raw, labels), cleanlab.count.estimate_latent(raw, labels), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("names", [None, list("abcdef")])
def test_health_summary(data, asymmetric, names, capsys):
    options = {
        "asymmetric": asymmetric,
        "class_names": None if names is None else names[: data.softmax.shape[1]],
    }
    expected = cleanlab.dataset.health_summary(data.labels, data.softmax, verbose=False, **options)
    summary = dataset.health_summary(data.labels, data.softmax, **options)
    assert "Overall label health" in capsys.readouterr().out
    assert summary.keys() == expected.keys()
    score = "overall_label_health_score"
    assert summary[score] == pytest.approx(expected[score])
    np.testing.assert_allclose(summary["joint"], expected["joint"])
    for name in ("classes_by_label_quality", "overlapping_classes"):
        same_frames(summary[name], expected[name])
    joint = count.compute_confident_joint(data.labels, data.softmax)
    detail = {"confident_joint": joint, "verbose": False}
    assert dataset.overall_label_health_score(**detail) == pytest.approx(
        cleanlab.dataset.overall_label_health_score(**detail)
    )


@pytest.mark.parametrize(
    "model", [None, LogisticRegression(C=0.1), KNeighborsClassifier()], ids=["default", "C", "knn"]
)
def test_clean_learning(blobs, model):
    X, y = blobs
    theirs = cleanlab.classification.CleanLearning(model, seed=3, cv_n_folds=4)
    ours = classification.CleanLearning(model, seed=3, cv_n_folds=4)
    same_frames(ours.find_label_issues(X, y), theirs.find_label_issues(X, y))
    assert ours.get_label_issues()["is_label_issue"].sum() > 20
    theirs, ours = theirs.fit(X, y), ours.fit(X, y)
    same_frames(ours.get_label_issues(), theirs.get_label_issues())
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)
    np.testing.assert_allclose(ours.noise_matrix, theirs.noise_matrix)


@pytest.mark.filterwarnings("ignore:When X and pred_probs are both provided")  # cleanlab says
def test_clean_learning_takes_what_is_known(blobs):
    X, y = blobs
    probs = LogisticRegression().fit(X, y).predict_proba(X)
    kwargs = {"find_label_issues_kwargs": {"filter_by": "both"}, "seed": 0}
    theirs = cleanlab.classification.CleanLearning(**kwargs).fit(X, y, pred_probs=probs)
    ours = classification.CleanLearning(**kwargs).fit(X, y=y, pred_probs=probs)
    same_frames(ours.get_label_issues(), theirs.get_label_issues())
    mask = ours.get_label_issues()["is_label_issue"].to_numpy()
    for issues in (mask, np.flatnonzero(mask), ours.get_label_issues()):
        again = classification.CleanLearning().fit(X, y, label_issues=issues)
        weights = LogisticRegression().fit(X[~mask], y[~mask])
        np.testing.assert_array_equal(again.predict(X), weights.predict(X))
    with pytest.raises(InputError, match="exactly one"):
        classification.CleanLearning().fit(X, y, y=y)
    with pytest.raises(InputError, match="X and pred_probs are both missing"):
        classification.CleanLearning().find_label_issues(labels=y)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas, about cleanlab
@pytest.mark.filterwarnings("ignore:Classes with too few samples", "ignore:May not flag all label")
@pytest.mark.parametrize("seed", range(4))
def test_small_classes_keep_their_samples(seed):
    """cleanlab's `CleanLearning` and `Datalab` leave a class ten samples, its filter only one."""
    pytest.importorskip("datasets")
    data = make_predictions(seed, N=40, K=3, noise=0.3, dtype=np.float64)
    inputs = {"labels": data.labels, "pred_probs": data.softmax}
    for options in ({}, {"min_examples_per_class": 4}, {"filter_by": "confident_learning"}):
        theirs = cleanlab.classification.CleanLearning(find_label_issues_kwargs=options)
        ours = classification.CleanLearning(find_label_issues_kwargs=options)
        frames = ours.find_label_issues(**inputs), theirs.find_label_issues(**inputs)
        pd.testing.assert_frame_equal(*frames)
    theirs = cleanlab.Datalab({"y": data.labels}, label_name="y", verbosity=0)
    theirs.find_issues(pred_probs=data.softmax, issue_types={"label": {}})
    ours = Datalab({"y": data.labels}, label_name="y")
    ours.find_issues(pred_probs=data.softmax)
    same_frames(ours.get_issues(), theirs.get_issues())
    assert filter.find_label_issues(**inputs).sum() > ours.get_issues()["is_label_issue"].sum()


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas, about cleanlab
@pytest.mark.parametrize("by", ["pred_probs", "features"])
def test_datalab(blobs, by, capsys):
    pytest.importorskip("datasets")
    X, y = blobs
    names = np.array(["owl", "cat", "dog", "ant"])[y]
    _, codes = np.unique(names, return_inverse=True)
    options = {"features": X}
    if by == "pred_probs":
        options = {"pred_probs": LogisticRegression().fit(X, codes).predict_proba(X)}
    theirs = cleanlab.Datalab({"x": X, "y": names}, label_name="y", verbosity=0)
    theirs.find_issues(**options, issue_types={"label": {}})
    ours = Datalab({"x": X, "y": names}, label_name="y")
    ours.find_issues(**options)
    same_frames(ours.get_issues("label"), theirs.get_issues("label"))
    same_frames(ours.get_issues(), theirs.get_issues())
    same_frames(
        ours.get_issue_summary(), theirs.get_issue_summary()[ours.get_issue_summary().columns]
    )
    ours.report()
    number = ours.get_issues()["is_label_issue"].sum()
    assert capsys.readouterr().out.startswith(f"{number} of 240 samples have label issues")


def test_datalab_refuses_what_it_does_not_do(blobs):
    X, y = blobs
    frame = pd.DataFrame({"y": y})
    for arguments, message in (
        ({"label_name": None}, "label_name is missing"),
        ({"label_name": "z"}, "label_name is 'z'"),
        ({"label_name": "y", "task": "regression"}, "task is 'regression'"),
    ):
        with pytest.raises(InputError, match=message):
            Datalab(frame, **arguments)
    lab = Datalab(frame, label_name="y")
    with pytest.raises(InputError, match="Call find_issues"):
        lab.get_issues()
    with pytest.raises(InputError, match="both missing"):
        lab.find_issues()
    with pytest.raises(InputError, match="outlier"):
        lab.find_issues(features=X, issue_types={"outlier": {}})


def test_the_package_has_the_modules_that_cleanlab_has():
    script = (
        "import uqled.compat as cleanlab; cleanlab.dataset.health_summary; cleanlab.Datalab; "
        "cleanlab.classification.CleanLearning; cleanlab.count.num_label_issues"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="no attribute 'outlier'"):
        _ = uqled.compat.outlier


@pytest.mark.parametrize("module", ["count", "rank", "filter", "dataset"])
def test_what_is_not_here_is_said(module):
    theirs, ours = import_module(f"cleanlab.{module}"), import_module(f"uqled.compat.{module}")
    functions = {
        name
        for name, value in vars(theirs).items()
        if inspect.isfunction(value) and value.__module__ == theirs.__name__ and name[0] != "_"
    }
    assert len(functions) >= 3
    page = Path(__file__).parents[2] / "docs" / "from-cleanlab.md"
    covered_part, _, not_here = page.read_text().partition("## What is not here")
    for name in functions:
        text = covered_part if hasattr(ours, name) else not_here
        assert re.search(rf"\b{name}\b", text), name
        if hasattr(ours, name):
            reference = inspect.signature(getattr(ours, name)).parameters
            extra = reference.keys() - inspect.signature(getattr(theirs, name)).parameters.keys()
            assert not extra, name


def test_predictions_that_cleanlab_makes_itself(blobs):
    X, y = blobs
    for options in ({"seed": 1}, {"seed": 2, "cv_n_folds": 3, "clf": KNeighborsClassifier(9)}):
        probs = count.estimate_cv_predicted_probabilities(X, y, **options)
        expected = cleanlab.count.estimate_cv_predicted_probabilities(X, y, **options)
        np.testing.assert_allclose(probs, expected, atol=1e-12)
        for calibrate in (True, False):
            results = count.estimate_confident_joint_and_cv_pred_proba(
                X, y, calibrate=calibrate, **options
            )
            reference = cleanlab.count.estimate_confident_joint_and_cv_pred_proba(
                X, y, calibrate=calibrate, **options
            )
            np.testing.assert_array_equal(results[0], reference[0])
            np.testing.assert_allclose(results[1], reference[1], atol=1e-12)


def test_the_baselines_of_cleanlab(data):
    labels, probs = data.labels, data.softmax
    np.testing.assert_array_equal(
        filter.find_predicted_neq_given(labels, probs),
        cleanlab.filter.find_predicted_neq_given(labels, probs),
    )
    for calibrate in (True, False):
        for filter_by in ("prune_by_noise_rate", "prune_by_class", "both"):
            options = {"calibrate": calibrate, "filter_by": filter_by}
            np.testing.assert_array_equal(
                filter.find_label_issues_using_argmax_confusion_matrix(labels, probs, **options),
                cleanlab.filter.find_label_issues_using_argmax_confusion_matrix(
                    labels, probs, **options
                ),
            )
    with pytest.raises(InputError, match="multi_label is True"):
        filter.find_predicted_neq_given(labels, probs, multi_label=True)
