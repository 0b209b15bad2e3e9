"""scikit-learn's classifiers as learners: features of every kind of data, refusals, settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from uqled import Dataset, InputError, find_label_errors
from uqled.predict.crossval import cross_validate
from uqled.predict.learners import choose_learner

X, Y = load_wine(return_X_y=True)


class Recorder(GaussianNB):
    """Notes what it was fitted on."""

    fits: list[tuple[np.ndarray, np.ndarray]] = []  # noqa: RUF012

    def fit(self, X, y):
        self.fits.append((X, y))
        return super().fit(X, y)


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(Recorder, "fits", [])
    return Recorder()


def fit_predict(model, data, tmp_path, *, uncertainty="auto", passes=3, test=None, seed=0):
    """A learner's predictions of every fourth sample, or of `test`, and the progress it told."""
    all_rows = np.arange(len(data))
    test = all_rows[::4] if test is None else np.asarray(test)
    shares = []
    predictions = choose_learner(model, data, uncertainty=uncertainty).fit_predict(
        data, np.setdiff1d(all_rows, test), test, passes=passes, seed=seed, folder=tmp_path,
        advance=shares.append,
    )  # fmt: skip
    assert sum(shares) == pytest.approx(1)
    assert predictions.pred_probs.dtype == np.float32
    assert predictions.pred_probs.shape == (len(test), data.n_classes)
    np.testing.assert_allclose(predictions.pred_probs.sum(axis=1), 1, atol=1e-5)
    if predictions.passes is not None:
        assert predictions.passes.dtype == np.float32
        assert predictions.passes.shape == (passes, len(test), data.n_classes)
        np.testing.assert_allclose(predictions.passes.sum(axis=2), 1, atol=1e-5)
    return predictions


def test_no_passes(tmp_path):
    predictions = fit_predict("logistic", Dataset.from_arrays(X, Y), tmp_path, uncertainty="none")
    assert predictions.passes is None
    assert np.mean(predictions.pred_probs.argmax(axis=1) == Y[::4]) > 0.9


# -- features -----------------------------------------------------------------------------------


WORDS = {"sea": "wave salt ship tide sail", "hill": "rock slope path peak stone"}


def texts(n=40):
    rng = np.random.default_rng(0)
    names = np.array(list(WORDS))[np.arange(n) % 2]
    return Dataset.from_arrays(
        np.array([" ".join(rng.choice(WORDS[name].split(), 6)) for name in names]), names
    )


@pytest.mark.parametrize(
    "model",
    [
        "logistic",
        "forest",
        MultinomialNB(),
        make_pipeline(CountVectorizer(), MultinomialNB()),
    ],
    ids=["logistic", "forest", "classifier", "pipeline"],
)
def test_texts(model, tmp_path):
    data = texts()
    predictions = fit_predict(model, data, tmp_path)
    assert (predictions.pred_probs.argmax(axis=1) == data.labels.codes[::4]).all()
    assert not np.array_equal(predictions.passes[0], predictions.passes[1])


def test_texts_give_pairs_of_words():
    learner = choose_learner("logistic", texts())
    assert learner.name == "logistic"
    learner.features.fit(["the high sea", "the sea"])
    assert learner.features.get_feature_names_out().tolist() == [
        "high", "high sea", "sea", "the", "the high", "the sea",
    ]  # fmt: skip


def test_texts_without_words(tmp_path):
    data = Dataset.from_arrays(np.array(["a", "b"] * 10), [0, 1] * 10)
    with pytest.raises(InputError, match=r"has no words.*char_wb"):
        fit_predict("logistic", data, tmp_path)


def mixed_frame(n=80):
    """Columns of every kind that tell the class, with missing values, and one with nothing else."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    frame = pd.DataFrame(
        {
            "size": y * 100.0 + rng.normal(size=n),
            "count": pd.array(np.where(rng.random(n) < 0.2, None, y * 3), dtype="Int64"),
            "flag": pd.array(np.where(rng.random(n) < 0.2, None, y == 1), dtype="boolean"),
            "plain": y == 1,
            "colour": np.where(y == 1, "red", "blue"),
            "grade": pd.Categorical(np.where(y == 1, 2, 7)),
            "nothing": np.full(n, np.nan),
        }
    )
    frame.loc[::5, "size"] = np.nan
    frame.loc[1::5, "colour"] = None
    frame.loc[2::7, "grade"] = np.nan
    frame.loc[0, "colour"] = "only in the tested part"
    return frame, y


@pytest.mark.parametrize("model", ["forest", "logistic", "boosting", GaussianNB()], ids=str)
def test_tables_of_mixed_columns(model, tmp_path):
    frame, y = mixed_frame()
    data = Dataset.from_arrays(frame, np.array(["no", "yes"])[y])
    predictions = fit_predict(model, data, tmp_path, passes=2)
    assert (predictions.pred_probs.argmax(axis=1) == y[::4]).all()


@pytest.mark.parametrize("column", list(mixed_frame()[0].columns[:-1]))
def test_every_kind_of_column_is_read(column, tmp_path):
    frame, y = mixed_frame()
    data = Dataset.from_arrays(frame[[column, "nothing"]], y)
    predictions = fit_predict("logistic", data, tmp_path, passes=1)
    has_value = frame[column].notna().to_numpy()[::4] & (np.arange(len(y))[::4] > 0)
    assert (predictions.pred_probs.argmax(axis=1) == y[::4])[has_value].all()


def test_a_pipeline_gets_the_frame_itself(tmp_path):
    frame, y = mixed_frame()
    pick = FunctionTransformer(lambda x: x[["plain"]].astype(float))
    model = make_pipeline(pick, LogisticRegression(C=100))
    predictions = fit_predict(model, Dataset.from_arrays(frame, y), tmp_path)
    assert (predictions.pred_probs.argmax(axis=1) == y[::4]).all()


def test_numbers_are_scaled_and_filled(tmp_path):
    """Columns of very different size, with holes: the same as by hand."""
    table = X * np.logspace(-4, 4, X.shape[1])
    table[5, 0] = np.nan
    predictions = fit_predict(
        LogisticRegression(), Dataset.from_arrays(table, Y), tmp_path, passes=1
    )
    train = np.setdiff1d(np.arange(len(Y)), np.arange(len(Y))[::4])
    by_hand = table.copy()
    by_hand[5, 0] = np.nanmedian(table[train, 0])
    by_hand = (by_hand - by_hand[train].mean(axis=0)) / by_hand[train].std(axis=0)
    model = LogisticRegression().fit(by_hand[train], Y[train])
    np.testing.assert_allclose(predictions.pred_probs, model.predict_proba(by_hand[::4]), atol=1e-5)


def test_images_are_rows_of_pixels(tmp_path, recorder):
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 2, 3), dtype=np.uint8)
    data = Dataset.from_arrays(images, [0, 1] * 10)
    fit_predict(recorder, data, tmp_path, passes=1, test=range(4))
    np.testing.assert_allclose(recorder.fits[0][0], images[4:].reshape(16, 18) / 255, rtol=1e-6)
    assert recorder.fits[0][0].dtype == np.float32
    assert recorder.fits[0][1].tolist() == [0, 1] * 8


def test_learners_learn_class_numbers(tmp_path, recorder):
    data = Dataset.from_arrays(X, np.array(["z", "y", "x"])[Y], classes=["z", "y", "x", "w"])
    predictions = fit_predict(recorder, data, tmp_path, passes=1)
    assert set(recorder.fits[0][1].tolist()) == {0, 1, 2}
    assert predictions.pred_probs.argmax(axis=1).tolist() == Y[::4].tolist()


# -- refusals and settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "uncertainty", "message"),
    [
        (SVC(), "auto", r"SVC, which gives no prob.*CalibratedClassifierCV\(SVC\(\.\.\.\)\)"),
        (make_pipeline(StandardScaler(), LinearSVC()), "auto", r"LinearSVC.*pipeline's last step"),
        (VotingClassifier([("a", GaussianNB())]), "auto", "voting='soft'"),
        (GaussianNB, "auto", r"cannot be fitted. Pass GaussianNB\(\)"),
        ("perceptron", "auto", "model is 'perceptron'. Choose one of auto, logistic, forest"),
        (GaussianNB(), "members", "GaussianNB has none.*bootstrap.*BaggingClassifier"),
        (HistGradientBoostingClassifier(), "members", "has none"),
        (GaussianNB(), "mc-dropout", "GaussianNB is not a network. Choose one of auto, members"),
        (GaussianNB(), "luck", "uncertainty is 'luck'"),
    ],
)
def test_refusals(model, uncertainty, message):
    with pytest.raises(InputError, match=message):
        choose_learner(model, Dataset.from_arrays(X, Y), uncertainty=uncertainty)


def test_the_advice_about_probabilities_works(tmp_path):
    model = make_pipeline(StandardScaler(), CalibratedClassifierCV(LinearSVC(), cv=3))
    predictions = fit_predict(model, Dataset.from_arrays(X, Y), tmp_path, passes=2)
    assert np.mean(predictions.pred_probs.argmax(axis=1) == Y[::4]) > 0.9


def test_dense_models_of_texts_are_refused():
    with pytest.raises(InputError, match=r"sparse features of texts.*TruncatedSVD\(100\)"):
        choose_learner("boosting", texts())


@pytest.mark.parametrize("as_frame", [True, False])
def test_infinite_values_are_refused(as_frame):
    table = X.copy()
    table[7, 2] = -np.inf
    frame = pd.DataFrame(table, columns=[f"c{i}" for i in range(X.shape[1])])
    column = "'c2'" if as_frame else "2"
    with pytest.raises(InputError, match=f"infinite value in column {column}, row 7"):
        choose_learner("forest", Dataset.from_arrays(frame if as_frame else table, Y))


LONG_TEXTS = [[f"w{i}" for i in range(n)] for n in (100, 101)]


def _double_values(values):
    return 2 * values


def test_settings_say_what_changes_the_result():
    data = Dataset.from_arrays(X, Y)

    def settings(model, uncertainty="auto"):
        return json.dumps(choose_learner(model, data, uncertainty=uncertainty).settings())

    assert settings(RandomForestClassifier(20, n_jobs=2)) == settings(RandomForestClassifier(20))
    assert settings(RandomForestClassifier(20)) != settings(RandomForestClassifier(21))
    assert settings("forest") != settings("forest", "bootstrap")
    assert settings("forest") != settings("logistic")
    assert "0x" not in settings(make_pipeline(FunctionTransformer(_double_values), GaussianNB()))
    assert "n_estimators=300" in settings("forest")
    a, b = (make_pipeline(CountVectorizer(stop_words=words), GaussianNB()) for words in LONG_TEXTS)
    assert settings(a) != settings(b)
    assert repr(a) == repr(b), "scikit-learn cuts a long list"


# -- the whole line -------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "limit"), [("auto", 0.85), ("logistic", 0.75)])
def test_wrong_labels_of_a_table_are_found(model, limit, tmp_path):
    features, true = load_iris(return_X_y=True)
    rng = np.random.default_rng(1)
    wrong_rows = rng.choice(len(true), 15, replace=False)
    noisy_labels = true.copy()
    noisy_labels[wrong_rows] = (noisy_labels[wrong_rows] + rng.integers(1, 3, 15)) % 3
    data = Dataset.from_arrays(features, noisy_labels)
    predictions = cross_validate(data, model, out=tmp_path / "run", progress=False)
    again = cross_validate(data, model, out=Path(tmp_path / "again"), progress=False)
    np.testing.assert_array_equal(predictions.passes, again.passes)
    errors = find_label_errors(
        noisy_labels, predictions.pred_probs, predictions.passes, method="alg-ens"
    )
    assert f1_score(noisy_labels != true, errors.mask) >= limit
