"""Passes of scikit-learn's classifiers: members of a forest or bagging, several fits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from uqled import Dataset, InputError
from uqled.predict.learners import choose_learner
from uqled.predict.learners.classifier_fold import predict_classifier_fold, set_random_states

X, Y = load_wine(return_X_y=True)
PARTS = np.random.default_rng(0).permutation(len(Y))
TRAIN, TEST = PARTS[:120], PARTS[120:]


def predict_fold(model, *, passes=5, uncertainty="auto", y=Y, seed=0, classes=(0, 1, 2), **options):
    return predict_classifier_fold(
        model, X[TRAIN], y[TRAIN], X[TEST], classes=np.array(classes), passes=passes,
        uncertainty=uncertainty, seed=seed, **options,
    )  # fmt: skip


# -- members ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_groups_of_trees(kind):
    forest = kind(10, random_state=3, max_depth=3)
    fold = predict_fold(forest, passes=3)
    fitted_model = clone(forest).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(fold.pred_probs, fitted_model.predict_proba(X[TEST]), atol=1e-6)
    trees = np.stack([tree.predict_proba(X[TEST]) for tree in fitted_model.estimators_])
    naive = [trees[:3].mean(axis=0), trees[3:6].mean(axis=0), trees[6:].mean(axis=0)]
    np.testing.assert_allclose(fold.passes, naive, atol=1e-6)
    assert not np.array_equal(fold.passes[0], fold.passes[1])


@pytest.mark.parametrize(
    "base",
    [KNeighborsClassifier(2), make_pipeline(StandardScaler(), LinearSVC())],
    ids=["probabilities", "votes"],
)
def test_members_of_bagging_that_missed_classes(base):
    """Five samples a member: some see two classes of three, and columns of four are drawn."""
    model = BaggingClassifier(base, 20, max_samples=5, max_features=4, random_state=0)
    y = np.array(["x", "b", "m"])[Y]
    fold = predict_fold(model, passes=4, y=y, classes=["a", "b", "m", "x"])
    fitted_model = clone(model).fit(X[TRAIN], y[TRAIN])
    assert fitted_model.classes_.tolist() == ["b", "m", "x"]
    class_counts = {len(member.classes_) for member in fitted_model.estimators_}
    assert min(class_counts) < 3, "the case that this test is about"
    np.testing.assert_allclose(
        fold.pred_probs[:, 1:], fitted_model.predict_proba(X[TEST]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(fold.passes.mean(axis=0), fold.pred_probs, atol=1e-6)
    assert (fold.pred_probs[:, 0] == 0).all()
    assert (fold.passes[:, :, 0] == 0).all()


def test_members_behind_pipelines_and_searches():
    forest = RandomForestClassifier(10, random_state=3)
    plain_passes = predict_fold(forest, passes=2)
    pipeline_passes = predict_fold(
        make_pipeline(FunctionTransformer(), make_pipeline(forest)), passes=2
    )
    search = GridSearchCV(forest, {"max_depth": [None]}, cv=2)
    search_passes = predict_fold(make_pipeline(search), passes=2, uncertainty="members")
    for fold in (pipeline_passes, search_passes):
        np.testing.assert_array_equal(fold.passes, plain_passes.passes)


def test_a_forest_of_several_threads_gives_the_same():
    runs = [predict_fold(RandomForestClassifier(30, n_jobs=jobs)) for jobs in (1, 2, 2)]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0].pred_probs, other.pred_probs)
        np.testing.assert_array_equal(runs[0].passes, other.passes)


def test_forests_take_missing_values():
    holes = X.copy()
    holes[::3, 0] = np.nan
    model = RandomForestClassifier(10, random_state=0)
    fold = predict_classifier_fold(
        model, holes[TRAIN], Y[TRAIN], holes[TEST], classes=np.arange(3), passes=2
    )
    fitted_model = clone(model).fit(holes[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(fold.pred_probs, fitted_model.predict_proba(holes[TEST]), atol=1e-6)


def test_more_passes_than_members():
    forest = RandomForestClassifier(4)
    with pytest.raises(InputError, match="passes is 5, but RandomForestClassifier has 4 members"):
        predict_fold(forest, uncertainty="members")
    first = predict_fold(forest, uncertainty="bootstrap")
    np.testing.assert_array_equal(predict_fold(forest).passes, first.passes)  # auto


# -- several fits -------------------------------------------------------------------------------


class FitRecorder(GaussianNB):
    """Notes what it was fitted on; stops at a chosen fit."""

    fits: list[tuple[np.ndarray, np.ndarray]] = []  # noqa: RUF012
    stop_at: int | None = None

    def fit(self, X, y, sample_weight=None):
        if len(self.fits) == self.stop_at:
            raise KeyboardInterrupt
        self.fits.append((X, y))
        return super().fit(X, y, sample_weight)


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(FitRecorder, "fits", [])
    return FitRecorder()


def test_bootstrap_keeps_the_classes(recorder):
    y = np.array(["b", "c", "a"])[Y]
    y[TRAIN[0]] = "rare"
    fold = predict_fold(recorder, y=y, classes=["a", "b", "c", "rare"])
    classifier = GaussianNB().fit(X[TRAIN], y[TRAIN])
    np.testing.assert_allclose(fold.pred_probs, classifier.predict_proba(X[TEST]), atol=1e-6)
    np.testing.assert_array_equal(fold.passes[0], fold.pred_probs)
    assert len(recorder.fits) == 5
    rows = {tuple(row): label for row, label in zip(X[TRAIN], y[TRAIN], strict=True)}
    for f, (X_seen, y_seen) in enumerate(recorder.fits):
        assert sorted(y_seen) == sorted(y[TRAIN])
        assert [rows[tuple(row)] for row in X_seen] == y_seen.tolist()
        share = len({tuple(row) for row in X_seen}) / len(X_seen)
        assert share == 1 if f == 0 else 0.5 < share < 0.8  # 1 - 1/e = 0.63 are drawn
    distinct = {one.tobytes() for one in fold.passes}
    assert len(distinct) == 5


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_ensemble_of_seeds():
    model = MLPClassifier((4,), max_iter=20, learning_rate_init=0.1, random_state=7)
    pipe = make_pipeline(StandardScaler(), model)
    fold = predict_fold(pipe, uncertainty="ensemble", passes=3)
    probs_of_one = clone(pipe).fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST])
    np.testing.assert_allclose(
        fold.passes[0], probs_of_one, atol=1e-6
    )  # the seed that was set stays
    np.testing.assert_array_equal(fold.passes[0], fold.pred_probs)
    assert len({one.tobytes() for one in fold.passes}) == 3


def test_ensemble_without_randomness_is_refused():
    with pytest.raises(InputError, match=r"KNeighborsClassifier gives the same.*Use 'bootstrap'"):
        choose_learner(
            KNeighborsClassifier(), Dataset.from_arrays(X, Y), uncertainty="ensemble"
        )  # has no seed
    with pytest.raises(InputError, match=r"LogisticRegression gives the same.*Use 'bootstrap'"):
        predict_fold(  # has one, and does not use it
            make_pipeline(StandardScaler(), LogisticRegression()), uncertainty="ensemble"
        )
    easy_features = np.repeat([[0.0], [1.0]], 20, axis=0)
    # these agree because there is no doubt, not for want of randomness
    sure_fold = predict_classifier_fold(
        DecisionTreeClassifier(), easy_features, np.repeat([0, 1], 20), easy_features,
        classes=np.arange(2), passes=3, uncertainty="ensemble",
    )  # fmt: skip
    np.testing.assert_array_equal(sure_fold.passes[2], np.repeat(np.eye(2), 20, axis=0))


def test_interrupted_fits_continue(recorder, tmp_path, monkeypatch):
    expected = predict_fold(recorder, folder=tmp_path)
    assert not list(tmp_path.iterdir()), "finished fits are removed"
    recorder.fits.clear()
    monkeypatch.setattr(FitRecorder, "stop_at", 3)
    with pytest.raises(KeyboardInterrupt):
        predict_fold(recorder, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    monkeypatch.setattr(FitRecorder, "stop_at", None)
    recorder.fits.clear()
    continued_run = predict_fold(recorder, folder=tmp_path)
    assert len(recorder.fits) == 2
    np.testing.assert_array_equal(continued_run.pred_probs, expected.pred_probs)
    np.testing.assert_array_equal(continued_run.passes, expected.passes)


@pytest.mark.parametrize("uncertainty", ["members", "ensemble", "bootstrap"])
def test_same_seed_same_passes(uncertainty):
    model = RandomForestClassifier(10, max_depth=2)
    one, two, other = (predict_fold(model, uncertainty=uncertainty, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.passes, two.passes)
    assert not np.array_equal(one.passes, other.passes)
    assert model.random_state is None


def test_random_states_of_every_step():
    model = make_pipeline(RandomForestClassifier(random_state=5), MLPClassifier())
    kept_states, drawn_states = (
        set_random_states(model, (0, 1), keep=True),
        set_random_states(model, (0, 1)),
    )
    assert kept_states[0].random_state == 5
    assert kept_states[1].random_state == drawn_states[1].random_state is not None
    assert drawn_states[0].random_state not in (5, drawn_states[1].random_state)


# -- classes that are not there -------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [GaussianNB(), RandomForestClassifier(6)], ids=["fits", "members"]
)
def test_training_part_without_a_class(model):
    y = Y.copy()
    y[TRAIN] = np.where(y[TRAIN] == 1, 0, y[TRAIN])
    fold = predict_fold(model, y=y, passes=2, classes=np.arange(4))
    assert fold.pred_probs.shape == (58, 4)
    assert (fold.passes[:, :, [1, 3]] == 0).all()
    assert (fold.pred_probs[:, [0, 2]].max(axis=0) > 0.9).all()


@pytest.mark.parametrize("uncertainty", ["auto", "none"])
def test_training_part_of_one_class(uncertainty):
    """LogisticRegression refuses it; the answer is known without."""
    fold = predict_fold(LogisticRegression(), y=np.full(len(Y), 1), uncertainty=uncertainty)
    np.testing.assert_array_equal(fold.pred_probs, np.tile([0, 1, 0], (len(TEST), 1)))
    assert (fold.passes is None) == (uncertainty == "none")
