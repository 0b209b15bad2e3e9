"""What every run with features keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sklearn.metrics import f1_score

from uqled import Dataset, InputError, find, find_label_errors
from uqled.features.columns import make_transformer
from uqled.features.components import reduce_features
from uqled.model_quality import describe_model_quality, measure_model_quality
from uqled.predict.committee import classifiers, network
from uqled.predict.committee.heads import CommitteeFold
from uqled.predict.crossval import cross_validate
from uqled.predict.learners.estimator import fit_transformer
from uqled.storage.issue_tables import write_issues


def make_features(n=200, K=3, D=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % K
    centres = 2 * rng.normal(size=(K, D))
    return (centres[labels] + 3 * rng.normal(size=(n, D))).astype(np.float32), labels


def test_trees_get_categories_as_numbers():
    frame = pd.DataFrame({"size": [1.0, np.nan, 3.0], "colour": ["red", None, "blue"]})
    transformer = make_transformer(
        Dataset.from_arrays(frame, [0, 1, 0]), takes_sparse=False, name="trees", ordinal=True
    )
    numbers = transformer.fit_transform(frame)
    assert numbers[:, 1].tolist() == [1, -2, 0]
    assert transformer.transform(frame.assign(colour="green"))[:, 1].tolist() == [-1, -1, -1]


@pytest.mark.parametrize("model", ["probe", "logistic"])
def test_every_run_with_features_keeps_neighbours_and_groups(model, tmp_path):
    X, y = make_features(120)
    X[110], y[110] = X[3], 1
    options = {"epochs": 1} if model == "probe" else {}
    predictions = cross_validate(
        Dataset.from_arrays(X, y), model, folds=3, passes=2, out=tmp_path, progress=False, **options
    )
    assert predictions.folds[3] == predictions.folds[110]
    assert np.load(tmp_path / "neighbours" / "duplicates.npy").tolist() == [[3, 110]]
    nearest = np.load(tmp_path / "neighbours" / "given.npy")
    assert (y[nearest] == y[:, None]).all()
    assert predictions.quality.near_duplicates == 2


def test_the_networks_steps_are_those_of_torchs_descent():
    torch = pytest.importorskip("torch")
    ours, theirs = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    parameters = list(ours.parameters())
    velocities = [torch.zeros_like(one) for one in parameters]
    options = {"nesterov": True, "weight_decay": network._DECAY}
    optimiser = torch.optim.SGD(theirs.parameters(), 0.1, momentum=0.9, **options)
    X, y = torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1])
    for rate, momentum in ((0.1, 0.9), (0.3, 0.8), (0.05, 0.95)):
        for model in (ours, theirs):
            torch.nn.functional.cross_entropy(model(X), y).backward()
        network.descend(parameters, velocities, rate, momentum)
        optimiser.param_groups[0].update(lr=rate, momentum=momentum)
        optimiser.step()
        optimiser.zero_grad()
        torch.testing.assert_close(ours.weight, theirs.weight)
        torch.testing.assert_close(ours.bias, theirs.bias)
        assert ours.weight.grad is None


def test_the_network_learns_many_classes_of_few_samples_each():
    pytest.importorskip("torch")
    X, y = make_features(n=4_000, K=400, D=64)
    rows = np.random.default_rng(1).permutation(4_000)
    fold = CommitteeFold(
        Dataset.from_arrays(X, y), reduce_features(X), rows[1_000:], rows[:1_000], None, 0, {}, 1
    )
    classes = network.predict_held_out(fold).argmax(axis=1)
    assert np.mean(classes == y[rows[:1_000]]) > 0.55  # with fewer steps: 0.33


def test_words_tell_the_class_of_new_texts_and_unknown_words_tell_nothing():
    texts = np.array(["red ball", "red car", "red ball", "blue sky", "green sky", "red"], object)
    data = Dataset.from_arrays(texts, [0, 0, 0, 1, 0, 1])
    fold = CommitteeFold(
        data, np.empty((6, 0), np.float32), np.arange(4), np.arange(4, 6), None, 0, {}, 1
    )
    sky, red = classifiers.predict_by_tfidf(fold)
    assert sky[1] > 0.8
    assert red[0] > 0.8
    data = Dataset.from_arrays(np.append(texts[:4], ["yellow house", "a"]), [0, 0, 0, 1, 0, 1])
    unknown = classifiers.predict_by_tfidf(replace(fold, data=data))
    np.testing.assert_allclose(unknown, [[0.75, 0.25]] * 2, rtol=1e-5)


def test_many_near_duplicates_suggest_groups():
    labels, softmax = np.array([0, 1] * 50), np.eye(2)[[0, 1] * 50]
    few_copies, many_copies = (
        measure_model_quality("m", labels, ["a", "b"], softmax, near_duplicates=n) for n in (5, 40)
    )
    assert describe_model_quality(many_copies)[-1] == (
        "warning: 40 of 100 samples are nearly the same as another: if they come from one person, "
        "video or page, name that column with --group"
    )
    assert not any("--group" in line for line in describe_model_quality(few_copies))


def test_the_table_says_how_good_the_model_is(tmp_path):
    X, y = make_features(90)
    predictions = cross_validate(Dataset.from_arrays(X, y), folds=3, out=tmp_path, progress=False)
    errors = find_label_errors(predictions)
    assert errors.model == predictions.quality
    write_issues(errors, tmp_path / "issues.parquet")
    metadata = parquet.read_schema(tmp_path / "issues.parquet").metadata
    assert json.loads(metadata[b"uqled.model"])["accuracy"] == predictions.accuracy
    assert len(pd.read_parquet(tmp_path / "issues.parquet")) == 90


def test_samples_without_a_label_have_no_say_in_each_other(tmp_path):
    """Many more of them than labelled ones: as neighbours they would outvote the labels."""
    X, y = make_features(300, K=2)
    data = replace(
        Dataset.from_arrays(X[:40], [f"class {k}" for k in y[:40]]),
        unlabelled=tuple(map(str, range(40, 300))),
        unlabelled_inputs=X[40:],
    )
    cross_validate(data, "committee:features", folds=3, out=tmp_path, progress=False)
    table = pd.read_csv(tmp_path / "unlabelled.csv")
    column = next(name for name in table if table[name].astype(str).str.startswith("class").all())
    assert np.mean(table[column] == [f"class {k}" for k in y[40:]]) > 0.9


def test_embeddings_beside_a_table_on_the_command_line(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from uqled.cli import app

    monkeypatch.chdir(tmp_path)
    X, true = make_features(120)
    labels = np.where(np.arange(120) < 8, (true + 1) % 3, true)
    names = [f"class {k}" for k in labels]
    names[50] = ""  # set aside: the embeddings have a row for it all the same
    pd.DataFrame({"text": [f"text number {i}" for i in range(120)], "label": names}).to_csv(
        "texts.csv", index=False
    )
    np.save("vectors.npy", X)
    words = ["find", "texts.csv", "--features", "vectors.npy", "--out", "run"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "committee:own features" in result.output
    table = pd.read_parquet("run/issues.parquet")
    wrong_rows = np.arange(119) < 8
    assert f1_score(wrong_rows, table["is_label_issue"]) > 0.9
    np.save("vectors.npy", X[:7])
    result = CliRunner().invoke(app, [*words[:-1], "other"])
    assert result.exit_code != 0
    assert "--features" in result.output
    assert "7 rows" in result.output


def test_embeddings_beside_data_in_memory():
    X, true = make_features(120)
    labels = np.where(np.arange(120) < 8, (true + 1) % 3, true)
    texts = [f"text number {i}" for i in range(120)]
    errors = find(texts, label=labels, features=X, progress=False)
    assert f1_score(labels != true, errors.mask) > 0.9
    passes = find(texts, label=labels, features=X, progress=False, epochs=2, passes=2)
    assert passes.model.model == "probe:own features"
    with pytest.raises(InputError, match="NaN or infinity in row 4"):
        find(texts, label=labels, features=np.where(np.arange(120)[:, None] == 4, np.nan, X))


def test_members_share_the_columns_of_a_fold(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=80), "colour": rng.choice(["red", "blue"], 80)})
    data = Dataset.from_arrays(frame, np.where(frame["size"] > 0, "large", "little"))
    fits = []

    def fit_and_count(transformer, X, X_new, kind):
        fits.append(len(X))
        return fit_transformer(transformer, X, X_new, kind)

    monkeypatch.setattr(classifiers, "fit_transformer", fit_and_count)
    shared_run = cross_validate(data, "committee", folds=2, out=tmp_path / "shared", progress=False)
    assert len(fits) == 2 * 2  # once with numbered categories, once with a column each
    monkeypatch.setattr(CommitteeFold, "reuse_in_fold", lambda *arguments: arguments[-1]())
    separate = cross_validate(data, "committee", folds=2, out=tmp_path / "separate", progress=False)
    assert len(fits) == 2 * 2 + 2 * 4
    assert np.array_equal(shared_run.passes, separate.passes)
