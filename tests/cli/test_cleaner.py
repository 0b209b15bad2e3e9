"""LabelCleaner: scikit-learn's own checks, cleanlab's CleanLearning beside it, and small data."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from uqled import InputError, LabelCleaner, LabelErrors
from uqled.arrays import Labels
from uqled.cleaner import _treat_labels
from uqled.errors import MissingInputError
from uqled.predict.learners.classifier_fold import predict_classifier_fold

#: scikit-learn expects the same of its own TunedThresholdClassifierCV and BaggingClassifier: a
#: repeated sample can lie in two folds, and is drawn twice; one of weight 2 lies in one.
EXPECTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "cross-validation moves repeated samples"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [
        LabelCleaner(LogisticRegression()),
        LabelCleaner(LogisticRegression(), treatment="relabel", method="cl-pbnr"),
        LabelCleaner(ExtraTreesClassifier(10)),
    ],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def noisy(seed=0, *, rate=0.2, load=load_wine):
    """(features, given labels, true labels) with so many of the labels wrong."""
    X, true = load(return_X_y=True)
    rng = np.random.default_rng(seed)
    is_error = rng.random(len(true)) < rate
    K = true.max() + 1
    return X, np.where(is_error, (true + rng.integers(1, K, len(true))) % K, true), true


SCALED_MODEL = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


@pytest.mark.parametrize("load", [load_digits, load_breast_cancer], ids=["digits", "cancer"])
def test_as_accurate_as_cleanlab(load):
    """The mean of three halves; the better of both beats learning from the wrong labels."""
    ours, theirs, dirty = [], [], []
    for seed in range(3):
        X, given_labels, true = noisy(seed, load=load)
        train, test = train_test_split(np.arange(len(X)), test_size=0.5, random_state=seed)
        cleaner = LabelCleaner(SCALED_MODEL, seed=seed).fit(X[train], given_labels[train])
        ours.append(cleaner.score(X[test], true[test]))
        other = CleanLearning(
            clone(SCALED_MODEL), seed=seed, find_label_issues_kwargs={"n_jobs": 1}
        )
        theirs.append(other.fit(X[train], given_labels[train]).score(X[test], true[test]))
        dirty.append(
            clone(SCALED_MODEL).fit(X[train], given_labels[train]).score(X[test], true[test])
        )
    assert np.mean(ours) >= np.mean(theirs) - 0.01
    assert np.mean(ours) > np.mean(dirty) + 0.01


def test_finds_what_cleanlab_finds():
    """The same folds, by scikit-learn itself; the same flags, by cleanlab."""
    X, given_labels, _ = noisy()
    cleaner = LabelCleaner(SCALED_MODEL, method="cl-pbnr", folds=3, seed=5).fit(X, given_labels)
    folds = StratifiedKFold(3, shuffle=True, random_state=5)
    probs = cross_val_predict(SCALED_MODEL, X, given_labels, cv=folds, method="predict_proba")
    issues = find_label_issues(given_labels, probs, filter_by="prune_by_noise_rate", n_jobs=1)
    assert 20 < issues.sum() < 60
    np.testing.assert_array_equal(cleaner.label_errors_.mask, issues)
    refit = clone(SCALED_MODEL).fit(X[~issues], given_labels[~issues])
    np.testing.assert_array_equal(cleaner.predict_proba(X), refit.predict_proba(X))


def test_relabels():
    X, given_labels, true = noisy()
    names = np.array(["low", "mid", "top"])
    cleaner = LabelCleaner(SCALED_MODEL, treatment="relabel", method="cl-mcd").fit(
        X, names[given_labels]
    )
    errors = cleaner.label_errors_
    assert errors.given.tolist() == names[given_labels].tolist()
    assert np.mean(errors.suggested[errors.mask] == names[true][errors.mask]) > 0.8
    corrected = np.where(errors.mask, errors.suggested, names[given_labels])
    refit = clone(SCALED_MODEL).fit(X, corrected)
    np.testing.assert_array_equal(cleaner.predict_proba(X), refit.predict_proba(X))
    assert cleaner.classes_.tolist() == names.tolist()
    assert set(cleaner.predict(X)) <= set(names)


@pytest.mark.parametrize(
    "values",
    [np.array(["a", "b"]), np.array([False, True]), np.array([-1.0, 2.0]), np.array([7, 3])],
    ids=lambda values: values.dtype.name,
)
def test_labels_of_any_kind(values):
    X, codes = make_blobs(60, centers=[[0, 0], [9, 9]], random_state=0)
    y = values[codes]
    y[0] = values[1 - codes[0]]
    cleaner = LabelCleaner(GaussianNB()).fit(X, y)
    assert cleaner.label_errors_.ranked.tolist() == [0]
    assert cleaner.label_errors_.suggested[0] == values[codes[0]]
    assert cleaner.label_errors_.suggested.dtype == values.dtype
    assert (cleaner.predict(X) == values[codes]).all()
    np.testing.assert_array_equal(cleaner.classes_, np.unique(values))


def test_every_method():
    X, given_labels, _ = noisy()
    cleaner = LabelCleaner(RandomForestClassifier(20), method="all").fit(X, given_labels)
    errors = cleaner.label_errors_
    assert errors.method == "auto"
    assert len(errors.by_method) == 14
    for one in errors.by_method.values():
        assert one.labels is errors.labels
    strict = (
        LabelCleaner(RandomForestClassifier(20), method="alg-ens", agreement=4)
        .fit(X, given_labels)
        .label_errors_
    )
    assert strict.method == "alg-ens-4"
    assert 0 < strict.n_flagged <= errors.n_flagged


def test_no_passes_where_the_method_needs_none(monkeypatch):
    from uqled import cleaner as module

    pass_counts = []

    def note_uncertainty(*args, uncertainty, **options):
        pass_counts.append(uncertainty)
        return predict_classifier_fold(*args, uncertainty=uncertainty, **options)

    monkeypatch.setattr(module, "predict_classifier_fold", note_uncertainty)
    X, given_labels, _ = noisy()
    LabelCleaner(SCALED_MODEL, method="cl-both").fit(X, given_labels)
    LabelCleaner(SCALED_MODEL, method="cl-mcd", folds=2).fit(X, given_labels)
    assert pass_counts == ["none"] * 4 + ["auto"] * 2
    with pytest.raises(MissingInputError, match="passes"):
        LabelCleaner(SCALED_MODEL, method="alg-ens", uncertainty="none").fit(X, given_labels)


@pytest.mark.parametrize(
    "estimator", [RandomForestClassifier(20), SCALED_MODEL], ids=["members", "fits"]
)
def test_same_seed_same_result(estimator):
    X, given_labels, _ = noisy()
    one, two, other = (
        LabelCleaner(estimator, seed=seed, folds=2).fit(X, given_labels) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.label_errors_.scores, two.label_errors_.scores)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert not np.array_equal(one.label_errors_.scores, other.label_errors_.scores)


def test_the_default_finds_errors():
    X, given_labels, true = noisy()
    errors = LabelCleaner().fit(X, given_labels).label_errors_
    assert np.mean(errors.mask == (given_labels != true)) > 0.95


# -- as a part of scikit-learn ------------------------------------------------------------------


def test_works_inside_and_around_other_estimators():
    X, given_labels, true = noisy()
    search = GridSearchCV(
        LabelCleaner(SCALED_MODEL, folds=2, passes=2), {"method": ["cl-pbnr", "cl-mcd"]}, cv=2
    )
    assert search.fit(X, given_labels).score(X, true) > 0.85
    assert cross_val_score(LabelCleaner(SCALED_MODEL, folds=2), X, given_labels, cv=2).mean() > 0.6
    cleaner = LabelCleaner(clone(SCALED_MODEL)).set_params(estimator__logisticregression__C=0.1)
    assert cleaner.fit(X, given_labels).estimator_[-1].C == 0.1
    assert not hasattr(cleaner.estimator, "n_features_in_"), "the given one stays unfitted"
    again = pickle.loads(pickle.dumps(cleaner))
    np.testing.assert_array_equal(again.predict(X), cleaner.predict(X))
    assert again.label_errors_.n_flagged == cleaner.label_errors_.n_flagged


def test_frames_and_texts():
    X, given_labels, _ = noisy()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    cleaner = LabelCleaner(RandomForestClassifier(10)).fit(
        frame, pd.Series(given_labels, index=frame.index)
    )
    assert cleaner.feature_names_in_.tolist() == frame.columns.tolist()
    assert cleaner.n_features_in_ == 13
    assert cleaner.predict(frame).shape == (len(frame),)
    texts = ["wave salt sea", "peak rock hill"] * 12
    y = ["sea", "hill"] * 12
    y[0] = "hill"
    model = make_pipeline(TfidfVectorizer(), MultinomialNB())
    reader = LabelCleaner(model).fit(texts, y)
    assert reader.label_errors_.ranked.tolist() == [0]
    assert reader.predict(["sea wave"]).tolist() == ["sea"]
    assert not hasattr(reader, "n_features_in_")


def test_weights_reach_the_fits():
    X, given_labels, _ = noisy()
    weight = np.where(given_labels == 0, 100.0, 1.0)
    unweighted_cleaner, weighted_cleaner = (
        LabelCleaner(make_pipeline(GaussianNB()), method="argmax").fit(X, given_labels, w)
        for w in (None, weight)
    )
    assert (unweighted_cleaner.label_errors_.best == 0).sum() < (
        weighted_cleaner.label_errors_.best == 0
    ).sum()
    is_kept = ~weighted_cleaner.label_errors_.mask
    refit = GaussianNB().fit(X[is_kept], given_labels[is_kept], weight[is_kept])
    np.testing.assert_array_equal(weighted_cleaner.predict_proba(X), refit.predict_proba(X))
    with pytest.raises(InputError, match="sample_weight is given, but KNeighborsClassifier cannot"):
        LabelCleaner(KNeighborsClassifier()).fit(X, given_labels, weight)


# -- small data -----------------------------------------------------------------------------------


def test_classes_smaller_than_the_folds():
    X, y = make_blobs([12, 3, 1], centers=[[0, 0], [20, 0], [0, 20]], random_state=0)
    cleaner = LabelCleaner(LogisticRegression(), method="alg-ens", folds=8).fit(X, y)
    assert cleaner.classes_.tolist() == [0, 1, 2]
    assert cleaner.label_errors_.n_flagged == 0
    assert cleaner.score(X, y) == 1
    tiny = LabelCleaner(LogisticRegression()).fit([[0.0], [1.0], [9.0]], ["a", "a", "b"])
    assert tiny.predict([[8.0]]).tolist() == ["b"]


@pytest.mark.parametrize("treatment", ["drop", "relabel"])
def test_no_class_is_lost(treatment):
    """Three samples far inside another class: argmax flags them all."""
    X, y = make_blobs([30, 30], centers=[[0, 0], [9, 9]], random_state=0)
    y[:3] = 2
    cleaner = LabelCleaner(GaussianNB(), method="argmax", treatment=treatment).fit(X, y)
    errors = cleaner.label_errors_
    assert errors.mask[:3].all()
    assert cleaner.estimator_.class_count_.tolist()[2] == 1
    stays = int(np.argmax(errors.scores[:3]))
    np.testing.assert_allclose(cleaner.estimator_.theta_[2], X[stays])
    assert cleaner.predict_proba(X).shape == (60, 3)


def test_no_class_is_lost_in_turn():
    """To give class 0 its sample back takes class 1 the only one it had been given."""
    labels = Labels(np.array([0, 1, 2, 2], np.int32), np.array(["a", "b", "c"]), ("a", "b", "c"))
    errors = LabelErrors(
        "argmax", labels, mask=np.array([True, True, False, False]), scores=np.full(4, 0.1),
        best=np.array([1, 2, 2, 2], np.int32), votes=np.zeros(4, np.int16), joint=None,
    )  # fmt: skip
    rows, codes = _treat_labels(errors, "relabel")
    assert rows.tolist() == [0, 1, 2, 3]
    assert codes.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("cleaner", "y", "message"),
    [
        (LabelCleaner(), ["a"] * 6, r"y contain one class only \('a', 6 samples\)"),
        (LabelCleaner(), list("abcdef"), "6 classes of one sample each"),
        (LabelCleaner(SVC()), [0, 1] * 3, "estimator is SVC, which gives no probabilities"),
        (LabelCleaner(LinearSVC), [0, 1] * 3, r"Pass LinearSVC\(\)"),
        (LabelCleaner(method="cl"), [0, 1] * 3, "method is 'cl'"),
        (LabelCleaner(agreement=9), [0, 1] * 3, "agreement is 9"),
        (LabelCleaner(folds=1), [0, 1] * 3, "folds is 1"),
        (LabelCleaner(passes=0), [0, 1] * 3, "passes is 0"),
        (LabelCleaner(seed=-1), [0, 1] * 3, "seed is -1"),
        (LabelCleaner(treatment="burn"), [0, 1] * 3, "treatment is 'burn'. Pass 'drop'"),
        (LabelCleaner(GaussianNB(), uncertainty="members"), [0, 1] * 3, "GaussianNB has none"),
        (LabelCleaner(SVC(kernel="precomputed")), [0, 1] * 3, "gives no prob"),
        (
            LabelCleaner(KNeighborsClassifier(metric="precomputed")),
            [0, 1] * 3,
            "distances or kernels",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_refusals(cleaner, y, message):
    with pytest.raises(InputError, match=message):
        cleaner.fit(np.arange(6.0).reshape(6, 1), y)


def test_importing_uqled_does_not_import_scikit_learn():
    code = "import sys, uqled; dir(uqled); assert not {'sklearn', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, uqled; uqled.LabelCleaner; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
