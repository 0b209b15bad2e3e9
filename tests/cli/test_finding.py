"""`uqled.find`: one call from a frame to errors that go back into the frame."""

from __future__ import annotations

import re

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import ExtraTreesClassifier

import uqled
from made_tables import make_penguins
from uqled import InputError
from uqled.storage.run import Run

WRONG_ROWS = [3, 50, 90]


@pytest.fixture(scope="module")
def frame():
    """Penguins with their own index, three wrong labels, one missing."""
    frame = make_penguins()
    frame.loc[WRONG_ROWS, "species"] = ["Gentoo", "Adelie", "Chinstrap"]
    frame.loc[7, "species"] = None
    return frame.set_axis([f"bird {i}" for i in range(120)])


@pytest.fixture(scope="module")
def errors(frame):
    model = ExtraTreesClassifier(50, random_state=0)
    return uqled.find(frame, label="species", model=model, method="cl-pbnr", progress=False)


def test_errors_are_shown_in_one_line(errors):
    assert repr(errors).startswith("<DataErrors cl-pbnr: ")
    assert len(repr(errors)) < 80


def test_errors_go_back_into_the_frame(frame, errors):
    table = errors.apply_to(frame)
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == frame.index.tolist()
    assert table.columns.tolist()[:5] == frame.columns.tolist()
    flagged = table[table["is_label_issue"].astype(bool)]
    assert set(flagged.index) == set(errors.data.ids[errors.mask])
    assert {"bird 3", "bird 90"} <= set(flagged.index)
    assert not table.loc["bird 7", "is_label_issue"]
    assert table.loc["bird 7", "suggested_label"] in {"Adelie", "Chinstrap"}  # predicted
    assert pd.isna(table.loc["bird 7", "error_probability"])
    assert "is_label_issue" not in frame


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([f"bird {i}" for i in range(120)], dtype="string", name="ring"),
        pd.date_range("2026-01-01", periods=120, freq="D", tz="Europe/Rome"),
        pd.MultiIndex.from_product([["a", "b"], range(60)], names=["isle", "nest"]),
        pd.CategoricalIndex(list("pq") * 60),  # names that repeat
        pd.RangeIndex(5, 245, 2),
        pd.Index(np.arange(120)[::-1] / 2),
    ],
    ids=["strings", "dates", "levels", "repeated", "range", "floats"],
)
@pytest.mark.parametrize("is_loaded_first", [False, True])
def test_the_rows_of_the_table_are_named_by_the_frames_own_index(frame, index, is_loaded_first):
    indexed_frame = frame.set_axis(index)
    data = uqled.load(indexed_frame, label="species") if is_loaded_first else indexed_frame
    label = None if is_loaded_first else "species"
    model = ExtraTreesClassifier(5, random_state=0)
    errors = uqled.find(data, label=label, model=model, method="cl-pbnr", progress=False)
    kept_rows = np.delete(np.arange(120), 7)  # this row has no label
    pd.testing.assert_index_equal(
        errors.to_frame().index, indexed_frame.index[kept_rows], exact=True
    )


def test_rows_of_other_data_are_named_by_ids_or_numbered(frame):
    numbered_frame = frame.reset_index(drop=True)
    table = find_by_forest(pl.from_pandas(numbered_frame)).to_frame()
    assert table.index.tolist() == [row for row in range(120) if row != 7]
    assert table.index.dtype == np.int64
    shorter_frame = numbered_frame.drop(index=7)
    numbers = shorter_frame[["bill_length_mm", "flipper_length_mm"]].fillna(0).to_numpy()
    ids = [f"b{n}" for n in shorter_frame.index]
    data = uqled.Dataset.from_arrays(numbers, shorter_frame["species"], ids=ids)
    errors = uqled.find(data, model="logistic", method="cl-pbnr", progress=False)
    assert errors.to_frame().index.tolist() == ids
    assert errors.to_frame().index.name == "id"


def test_awkward_frames_go_there_and_back(frame):
    """An Arrow table with the index of a pandas frame, booleans that may be missing, names that
    are written alike."""
    arrow = pa.Table.from_pandas(frame)
    assert "__index_level_0__" in arrow.column_names
    table = find_by_forest(arrow).apply_to(arrow)
    assert table.num_rows == 120
    assert table["is_label_issue"][3].as_py() is True
    is_adelie = (frame["species"] == "Adelie").astype("boolean").where(frame["species"].notna())
    errors = find_by_forest(frame.assign(species=is_adelie))
    assert errors.labels.names == ("False", "True")
    corrected_column = errors.corrected(frame.assign(species=is_adelie))["species"]
    assert corrected_column.dtype == "boolean"
    assert errors.n_flagged > 0
    assert set(corrected_column.index[(corrected_column != is_adelie).fillna(False)]) == set(
        errors.data.ids[errors.mask]
    )
    assert corrected_column["bird 7"] is pd.NA
    ambiguous_frame = frame.set_axis([3, "3", *range(4, 122)])
    errors = find_by_forest(ambiguous_frame)
    flagged = errors.apply_to(ambiguous_frame)["is_label_issue"].to_numpy(bool)
    rows = np.delete(np.arange(120), 7)
    assert np.flatnonzero(flagged).tolist() == rows[errors.mask].tolist()


def test_corrected_frames(frame, errors):
    corrected_frame = errors.corrected(frame)
    assert corrected_frame.loc["bird 3", "species"] == "Adelie"
    is_changed = corrected_frame["species"].fillna("") != frame["species"].fillna("")
    assert set(frame.index[is_changed]) == set(errors.data.ids[errors.mask])
    with pytest.raises(InputError, match="label is 'kind', but the frame has the columns"):
        errors.corrected(frame, label="kind")
    with pytest.raises(InputError, match="frame has no row 'bird 0'"):
        errors.apply_to(frame.iloc[1:])
    with pytest.raises(InputError, match="frame is a list"):
        errors.apply_to([1, 2])
    with pytest.raises(InputError, match=r"frame is a lazy LazyFrame. Collect it first"):
        errors.apply_to(pl.LazyFrame({"species": ["Adelie"]}))
    shuffled_data = frame.sample(frac=1, random_state=0)
    assert errors.corrected(shuffled_data).loc["bird 3", "species"] == "Adelie"


def find_by_forest(converted_frame, **options):
    model = ExtraTreesClassifier(50, random_state=0)
    return uqled.find(
        converted_frame, label="species", model=model, method="cl-pbnr", progress=False, **options
    )


def list_entries(converted_frame, name):
    """The column of a frame of any kind."""
    if isinstance(converted_frame, datasets.Dataset):
        return list(converted_frame.with_format(None)[name])
    return (
        converted_frame[name].to_pylist()
        if hasattr(converted_frame, "schema") and hasattr(converted_frame, "to_pylist")
        else converted_frame[name].to_list()
    )


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "arrow"])
def test_other_frames_stay_what_they_are(frame, convert, tmp_path):
    converted_frame = convert(frame.reset_index(drop=True))
    errors = find_by_forest(converted_frame, out=tmp_path / "run")
    assert type(errors.apply_to(converted_frame)) is type(converted_frame)
    corrected_frame = errors.corrected(converted_frame)
    assert type(corrected_frame) is type(converted_frame)
    assert list_entries(corrected_frame, "species")[3] == "Adelie"
    assert list_entries(corrected_frame, "species")[7] is None
    assert len(Run.open(tmp_path / "run").predictions()) == 119
    assert (tmp_path / "run" / "issues.parquet").exists()


def encode_arrow(frame, index_type):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    kind = pa.dictionary(index_type, pa.large_string())
    species = pa.array(frame["species"].fillna("").replace("", None), type=kind)
    return table.set_column(table.schema.get_field_index("species"), "species", species)


@pytest.mark.parametrize(
    "convert",
    [
        lambda frame: frame.astype({"species": "category"}),
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        lambda frame: frame.convert_dtypes(),
        lambda frame: encode_arrow(frame, pa.int8()),
        lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
        lambda frame: pl.from_pandas(frame).with_columns(pl.col("species").cast(pl.Categorical)),
        lambda frame: datasets.Dataset.from_pandas(frame, preserve_index=False),
        lambda frame: datasets.Dataset.from_pandas(frame, preserve_index=False).cast_column(
            "species", datasets.ClassLabel(names=["Gentoo", "Adelie", "Chinstrap"])
        ),
        lambda frame: datasets.Dataset.from_pandas(frame, preserve_index=False).with_format(
            "torch"
        ),
    ],
    ids=[
        *("category", "pandas-arrow", "nullable", "dictionary", "batch", "categorical"),
        *("datasets", "class-label", "torch-format"),
    ],
)
def test_columns_keep_their_types(frame, convert):
    converted_frame = convert(frame.reset_index(drop=True))
    errors = find_by_forest(converted_frame)
    annotated_frame, corrected_frame = (
        errors.apply_to(converted_frame),
        errors.corrected(converted_frame, unreviewed="relabel"),
    )
    assert type(annotated_frame) is type(corrected_frame) is type(converted_frame)
    for kinds in ("schema", "dtypes", "features"):
        if hasattr(converted_frame, kinds):
            assert str(getattr(corrected_frame, kinds)) == str(getattr(converted_frame, kinds))
    flags = [bool(flag) for flag in list_entries(annotated_frame, "is_label_issue")]
    assert flags.count(True) == errors.n_flagged > 0
    before, after = (
        list_entries(converted_frame, "species"),
        list_entries(corrected_frame, "species"),
    )
    suggested = list_entries(annotated_frame, "suggested_label")
    for old, new, flag, suggestion in zip(before, after, flags, suggested, strict=True):
        assert (pd.isna(new) and pd.isna(old)) or new == (suggestion if flag else old)
    assert len(errors.corrected(converted_frame, unreviewed="drop")) == 120 - errors.n_flagged
    assert type(errors.apply_to(annotated_frame)) is type(
        converted_frame
    )  # once more: the columns are replaced


def test_a_column_may_be_of_another_type_than_what_pandas_left_in_the_table(frame):
    table = pa.Table.from_pandas(frame.reset_index(drop=True))
    at = table.column_names.index("species")
    table = table.set_column(at, "species", pa.compute.equal(table["species"], "Adelie"))
    errors = find_by_forest(table)
    assert errors.labels.values.tolist() == [False, True]
    before, after = list_entries(table, "species"), list_entries(errors.corrected(table), "species")
    assert sum(map(lambda old, new: old is not new, before, after)) == errors.n_flagged > 0
    assert {*list_entries(errors.apply_to(table), "suggested_label")} == {False, True}


def test_views_of_strings_are_corrected(frame):
    """Arrow cannot filter them yet."""
    table = pa.Table.from_pandas(frame.reset_index(drop=True))
    at = table.column_names.index("species")
    table = table.set_column(at, "species", table["species"].cast(pa.string_view()))
    errors = find_by_forest(table)
    assert list_entries(errors.corrected(table), "species")[3] == "Adelie"
    assert errors.corrected(table).schema.field("species").type == pa.string_view()


def test_labels_that_were_passed_separately_are_not_in_the_frame(frame, errors):
    with pytest.raises(InputError, match="add them as a column if they were passed separately"):
        errors.corrected(frame.drop(columns="species"))


def test_columns_without_names_are_found_by_their_number(frame):
    unnamed_frame = frame.set_axis(range(frame.shape[1]), axis=1)
    at = frame.columns.get_loc("species")
    model = ExtraTreesClassifier(50, random_state=0)
    errors = uqled.find(unnamed_frame, label=at, model=model, method="cl-pbnr", progress=False)
    assert errors.corrected(unnamed_frame).loc["bird 3", at] == "Adelie"
    assert (
        errors.corrected(unnamed_frame, label=at).columns.tolist() == unnamed_frame.columns.tolist()
    )


def test_findings_and_refusals(frame, errors):
    assert [finding.check for finding in errors.findings] == ["missing-labels"]
    data = uqled.load(frame, label="species")
    with pytest.raises(InputError, match="kind cannot be passed with a Dataset"):
        uqled.find(data, kind="table")
    assert np.array_equal(errors.data.labels.codes, data.labels.codes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modle": "forest"}, "modle is not an argument. Did you mean 'model'?"),
        ({"epoch": 3}, "epoch is not an argument. Did you mean 'epochs'?"),
    ],
)
def test_misspelt_arguments_are_no_options_of_training(frame, options, message):
    with pytest.raises(uqled.InputError, match=re.escape(message)):
        uqled.find(frame, label="species", progress=False, **options)


def test_a_column_of_ids_is_no_label(frame):
    numbered_frame = frame.assign(number=[f"n{i}" for i in range(len(frame))])
    with pytest.raises(uqled.InputError, match="this one looks like ids"):
        uqled.find(numbered_frame, label="number", progress=False)


def test_a_missing_label_is_said_to_be_missing(frame):
    two = frame.assign(other=frame["species"].to_numpy())
    with pytest.raises(uqled.InputError, match=r"^label is missing, but the DataFrame has"):
        uqled.find(two, progress=False)


def test_the_summary_names_samples_as_the_frame_does(errors):
    text = errors.summary()
    assert text.startswith(f"{errors.n_flagged} of {len(errors)} labels flagged")
    assert errors.data.ids[errors.ranked[0]] in text


def test_the_summary_says_what_was_used_and_which_model_predicted(frame):
    more = frame.assign(nr=np.arange(len(frame)))
    errors_of_logistic = uqled.find(more, label="species", model="logistic", progress=False)
    lines = errors_of_logistic.summary().splitlines()
    assert "label: species" in lines
    assert any(line.startswith("used: ") and "bill_length_mm" in line for line in lines)
    assert "left out: nr (a serial number or time in file order)" in lines
    assert any(
        line.startswith(
            f"model logistic: predicts {errors_of_logistic.model.accuracy:.1%} as labelled"
        )
        for line in lines
    )
