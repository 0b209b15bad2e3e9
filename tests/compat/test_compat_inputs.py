"""Inputs that cleanlab's users have: classes without samples, data sets of any kind, and what
cleanlab refuses or misreads."""

from __future__ import annotations

import cleanlab
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from uqled import InputError
from uqled.compat import count, dataset, filter, rank
from uqled.compat.classification import CleanLearning
from uqled.compat.datalab import Datalab

datasets = pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def predictions():
    """(labels, probabilities) of 200 samples, four classes."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 4, 200)
    probs = rng.dirichlet(np.full(4, 0.6), 200)
    probs[np.arange(200), true] += 1.5
    labels = true.copy()
    labels[:25] = (labels[:25] + 1) % 4
    return labels, probs / probs.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_a_class_without_samples_has_no_issues(predictions, missing):
    labels, probs = predictions
    labels = np.where(labels == missing, (missing + 1) % 4, labels)
    pd.testing.assert_frame_equal(
        dataset.rank_classes_by_label_quality(labels, probs),
        cleanlab.dataset.rank_classes_by_label_quality(labels, probs),
    )
    ours = dataset.health_summary(labels, probs, verbose=False)
    theirs = cleanlab.dataset.health_summary(labels, probs, verbose=False)
    for name in ("classes_by_label_quality", "overlapping_classes"):
        pd.testing.assert_frame_equal(ours[name], theirs[name])


NAMES = ["dog", "owl", "cat", "eel"]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas, about cleanlab
@pytest.mark.filterwarnings("ignore:May not flag all label issues")  # of cleanlab
@pytest.mark.parametrize(
    "make",
    [
        lambda names, _: {"y": names},
        lambda names, _: {"y": names.tolist()},
        lambda names, _: [{"y": name} for name in names.tolist()],
        lambda names, codes: pd.DataFrame({"y": names}, index=codes),
        lambda names, _: pd.DataFrame({"y": pd.Categorical(names)}),
        lambda names, _: datasets.Dataset.from_dict({"y": names}),
        lambda _, codes: datasets.Dataset.from_dict({"y": codes}).cast_column(
            "y", datasets.ClassLabel(names=NAMES)
        ),
        lambda _, codes: datasets.Dataset.from_dict(
            {"y": np.where(codes == 0, 1, codes)}
        ).cast_column("y", datasets.ClassLabel(names=NAMES)),
        lambda _, codes: {"y": (codes == 1).tolist()},
    ],
    ids=[
        *("dict", "lists", "records", "frame", "categorical", "datasets"),
        *("class-label", "class-without-samples", "bools"),
    ],
)
def test_datalab_reads_what_cleanlabs_reads(predictions, make):
    codes, probs = predictions
    data = make(np.array(NAMES)[codes], codes)
    if isinstance(data, dict) and data["y"][0] in (True, False):
        probs = np.stack([1 - probs[:, 1], probs[:, 1]], axis=1)
    ours, theirs = Datalab(data, label_name="y"), cleanlab.Datalab(data, label_name="y")
    theirs.verbosity = 0
    ours.find_issues(pred_probs=probs)
    theirs.find_issues(pred_probs=probs, issue_types={"label": {}})
    pd.testing.assert_frame_equal(
        ours.get_issues("label"), theirs.get_issues("label"), check_dtype=False
    )
    assert list(ours.class_names) == list(theirs.class_names)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("birds.csv", r"data is a str. Read it first: pandas.read_csv\('birds.csv'\)"),
        (datasets.DatasetDict(), "data is a DatasetDict. Pass one of its splits"),
        ({"y": ["owl", None, "cat"]}, "data has 1 missing label in 'y'. Leave those samples out"),
        (pd.DataFrame({"y": [0.0, np.nan]}), "data has 1 missing label in 'y'"),
        ({"y": [["owl"], ["cat"]]}, "label_name is 'y', whose entries are lists: multi-label data"),
        ([{"x": 1}], "label_name is 'y', which the data does not have"),
    ],
)
def test_datalab_refuses_what_it_cannot_read(data, message):
    with pytest.raises(InputError, match=message):
        Datalab(data, label_name="y")


def test_a_predicted_class_that_no_label_has_is_refused(predictions):
    labels, probs = predictions
    lab = Datalab({"y": np.minimum(labels, 2)}, label_name="y")
    with pytest.raises(InputError, match="pred_probs has 4 columns, but 'y' has 3 classes"):
        lab.find_issues(pred_probs=probs)


@pytest.mark.parametrize(
    "call",
    [
        filter.find_label_issues,
        rank.get_label_quality_scores,
        count.compute_confident_joint,
        dataset.health_summary,
        lambda labels, probs: CleanLearning(LogisticRegression()).fit(probs, labels),
    ],
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels: [[int(one)] for one in labels], "multi-label data is not supported"),
        (lambda labels: [[0, 1], *([int(one)] for one in labels[1:])], "multi-label data is not"),
        (lambda labels: np.array(NAMES)[labels], "are not class numbers"),
        (lambda labels: labels > 1, "are not class numbers"),
    ],
    ids=["lists", "several", "names", "bools"],
)
def test_labels_that_are_no_numbers_are_refused_everywhere(predictions, call, change, message):
    labels, probs = predictions
    with pytest.raises(InputError, match=message):
        call(change(labels), probs)


def test_lists_of_labels_are_weighted_as_arrays_are(predictions):
    """In cleanlab, a list compares unequal to every class, and no sample gets its weight."""
    labels, probs = predictions
    X = np.log(probs)
    ours = [
        CleanLearning(LogisticRegression(), seed=0).fit(X, y) for y in (labels, labels.tolist())
    ]
    theirs = cleanlab.classification.CleanLearning(LogisticRegression(), seed=0).fit(X, labels)
    for one in ours:
        np.testing.assert_allclose(one.clf.coef_, theirs.clf.coef_)
