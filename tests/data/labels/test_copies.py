"""Copies share a fold whatever the model, and one without a label has the other's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import uqled
from made_tables import make_news, make_penguins
from uqled.data.inspection.class_checks import are_amounts
from uqled.data.inspection.copies import find_labelled_copies, group_copies
from uqled.predict.crossval import split_stratified


@pytest.fixture
def penguins():
    """Of which some rows come again, one of them twice."""
    frame = make_penguins()
    return pd.concat([frame, frame.iloc[[3, 3, 40, 77, 100]]], ignore_index=True)


def predict(frame, folder, **options):
    data = uqled.load(frame, label="species", **options)
    return uqled.cross_validate(
        data, "logistic", folds=4, uncertainty="none", out=folder, progress=False
    )


def test_copies_share_a_fold_in_tables(penguins, tmp_path):
    folds = predict(penguins, tmp_path / "a").folds
    assert folds[3] == folds[-5] == folds[-4]
    assert folds[[40, 77, 100]].tolist() == folds[-3:].tolist()
    assert np.array_equal(folds, predict(penguins, tmp_path / "b").folds)
    assert np.bincount(folds).min() > len(folds) / 5


def test_without_copies_folds_are_what_they_were(tmp_path):
    frame = make_penguins()
    data = uqled.load(frame, label="species")
    assert group_copies(data) is None
    parts = split_stratified(data.labels, 4, seed=0)
    folds = predict(frame, tmp_path / "run").folds
    assert [np.flatnonzero(folds == fold).tolist() for fold in range(4)] == [
        part.tolist() for part in parts
    ]


def test_a_few_copies_leave_the_others_where_they_are(penguins, tmp_path):
    data = uqled.load(penguins, label="species")
    folds_without_copies = np.empty(len(data), int)
    for fold, part in enumerate(split_stratified(data.labels, 4, seed=0)):
        folds_without_copies[part] = fold
    moved_rows = np.flatnonzero(predict(penguins, tmp_path / "run").folds != folds_without_copies)
    assert len(moved_rows) <= 10  # five copies, and whatever makes room for them
    folds = predict(penguins, tmp_path / "run").folds
    for k in range(3):  # each class is spread as evenly as before
        assert np.ptp(np.bincount(folds[data.labels.codes == k], minlength=4)) <= 2


def test_copies_join_the_groups_of_the_user(penguins, tmp_path):
    penguins["nest"] = np.arange(len(penguins)) // 5
    groups = group_copies(uqled.load(penguins, label="species", group="nest"))
    assert groups[3] == groups[0] == groups[len(penguins) - 5]
    folds = predict(penguins, tmp_path / "run", group="nest").folds
    assert folds[0] == folds[3] == folds[len(penguins) - 5]


def test_rows_that_few_columns_describe_are_no_copies():
    frame = pd.DataFrame({"size": [1, 2, 3] * 40, "shape": ["a", "b"] * 60, "y": ["u", "v"] * 60})
    assert group_copies(uqled.load(frame, label="y")) is None


def test_a_copy_without_a_label_has_that_of_the_other():
    frame = make_news()
    copies = frame.iloc[[3, 3, 8, 20, 21]].assign(label=[None, "sport", None, None, None])
    copies.iloc[1, copies.columns.get_loc("label")] = frame.label[3]
    frame_with_copies = pd.concat([frame, copies], ignore_index=True)
    frame_with_copies.loc[len(frame_with_copies)] = {**frame.loc[30].to_dict(), "label": None}
    frame_with_copies.loc[30, "label"] = next(
        name for name in set(frame.label) if name != frame.label[30]
    )
    frame_with_copies = pd.concat(
        [frame_with_copies, frame.iloc[[30]]], ignore_index=True
    )  # which has two labels now
    data = uqled.load(frame_with_copies)
    assert data.ids[find_labelled_copies(data)[:4]].tolist() == ["3", "8", "20", "21"]
    assert find_labelled_copies(data)[4] == -1
    errors = uqled.find(data, model="logistic", uncertainty="none", folds=2, progress=False)
    table = errors.unlabelled
    assert table["copy_of"].tolist() == ["3", "8", "20", "21", ""]
    assert table["predicted_label"].tolist()[:4] == frame.label[[3, 8, 20, 21]].tolist()
    finding = next(one for one in errors.findings if one.check == "labelled-copies")
    assert finding.message.startswith("4 samples have no label and the same content as a labelled")


def test_a_copy_of_a_rare_class_is_named():
    frame = make_news()
    copy = frame.iloc[[8]].assign(label="sprot")
    errors = uqled.find(
        pd.concat([frame, copy], ignore_index=True),
        model="logistic", uncertainty="none", folds=2, progress=False,
    )  # fmt: skip
    finding = next(one for one in errors.findings if one.check == "rare-copies")
    assert finding.ids == ("120",)
    assert f"120 (labelled 'sprot') as 8 ({frame.label[8]!r})" in finding.message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.repeat(np.arange(100), 30), False),  # CIFAR-100
        (np.random.default_rng(0).choice(77, 9000, p=np.arange(40, 117) / 6006), True),
        (np.random.default_rng(0).permutation(77)[
            np.random.default_rng(1).choice(77, 9000, p=np.arange(40, 117) / 6006)], False),
        (np.clip(np.random.default_rng(0).normal(38, 13, 9000), 17, 90).astype(int), True),  # ages
        (np.random.default_rng(0).poisson(8, 3000), True),  # counts
        (np.random.default_rng(0).integers(1, 11, 3000), False),  # stars
        (np.random.default_rng(0).choice([10, 40, 50, 1140, 1160, 2060, 2905] * 3, 900), False),
    ],
)  # fmt: skip
def test_amounts_and_numbers_of_classes(values, expected):
    assert are_amounts(*np.unique(values, return_counts=True)) is expected
