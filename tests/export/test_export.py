"""Decisions and flags become changes; tables of labels, the record of changes, the way back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uqled
from exports import (
    CODES,
    WRONG_LABELS,
    command,
    decide,
    export,
    image_run,
    probabilities,
    table_run,
)
from uqled.arrays import Labels
from uqled.errors import FileError, InputError
from uqled.export.corrections import correct_labels, describe_corrections, restore_labels
from uqled.export.record import restore_given_labels
from uqled.review.decisions import Decision, Decisions
from uqled.storage.run import Run


def encode_labels(codes, K=3):
    return Labels(np.array(codes, np.int32), np.array(list("abcdefg")[:K]), tuple("abcdefg"[:K]))


def decision(index, action, label=None):
    return Decision(index, action, label, "ann", 0.0, 1)


def found_errors(codes, wrong_labels, K=3):
    return uqled.find_label_errors(
        encode_labels(codes, K), probabilities(codes, K, wrong_labels), method="cl-pbnr"
    )


# ---- the core


def test_flags_remove_relabel_or_keep():
    labels, errors = encode_labels(CODES), found_errors(CODES, WRONG_LABELS)
    assert errors.ranked.tolist() == [0, 4, 8]
    removal = correct_labels(labels, errors, unreviewed="drop")
    assert removal.rows.tolist() == [1, 2, 3, 5, 6, 7]
    assert [
        (c.index, c.action, c.given, c.label, c.because, c.reviewer) for c in removal.corrections
    ] == [
        (0, "drop", 0, None, "cl-pbnr", None),
        (4, "drop", 1, None, "cl-pbnr", None),
        (8, "drop", 2, None, "cl-pbnr", None),
    ]
    assert removal.corrections[0].score == pytest.approx(0.02)
    relabelling = correct_labels(labels, errors, unreviewed="relabel")
    assert relabelling.codes.tolist() == [1, 0, 0, 1, 2, 1, 2, 2, 0]
    assert relabelling.is_kept.all()
    assert correct_labels(labels, errors, unreviewed="keep").corrections == []
    assert labels.codes.tolist() == CODES


def test_decisions_win_over_flags():
    decisions = {
        0: decision(0, "keep"),  # flagged
        4: decision(4, "relabel", 0),  # flagged, and not what the model suggests
        5: decision(5, "drop"),  # not flagged
        6: decision(6, "relabel", 1),  # not flagged
        7: decision(7, "relabel", 2),  # what it already is
    }
    for unreviewed in ("drop", "relabel", "keep"):
        corrected_labels = correct_labels(
            encode_labels(CODES),
            found_errors(CODES, WRONG_LABELS),
            decisions,
            unreviewed=unreviewed,
        )
        by = {
            c.index: (c.action, c.label, c.because, c.reviewer)
            for c in corrected_labels.corrections
        }
        flagged = {
            "drop": {8: ("drop", None, "cl-pbnr", None)},
            "relabel": {8: ("relabel", 0, "cl-pbnr", None)},
            "keep": {},
        }[unreviewed]
        assert by == flagged | {
            4: ("relabel", 0, "decision", "ann"),
            5: ("drop", None, "decision", "ann"),
            6: ("relabel", 1, "decision", "ann"),
        }
        assert (corrected_labels.n_overruled, corrected_labels.n_unreviewed) == (1, 1)


def test_what_is_gone_is_not_counted_as_left():
    labels, errors = encode_labels(CODES), found_errors(CODES, WRONG_LABELS)
    flagged = np.flatnonzero(errors.mask).tolist()
    decisions = {i: decision(i, "keep") for i in flagged[1:]}
    corrected_labels = correct_labels(labels, errors, decisions, missing=flagged[:2])
    assert corrected_labels.n_unreviewed == 0  # the only undecided one is gone
    assert "left as they are" not in describe_corrections(corrected_labels)
    assert "2  dropped by missing file" in describe_corrections(corrected_labels)


@given(
    st.lists(st.integers(0, 2), min_size=6, max_size=30),
    st.dictionaries(st.integers(0, 5), st.sampled_from(["keep", "drop", 0, 1, 2])),
    st.dictionaries(st.integers(0, 5), st.integers(0, 2)),
    st.sampled_from(["drop", "relabel", "keep"]),
)
def test_changes_say_all_and_lead_back(codes, answers, wrong_labels, unreviewed):
    codes = [0, 1, 2, *codes]
    decisions = {
        i: decision(i, "relabel", what) if isinstance(what, int) else decision(i, what)
        for i, what in answers.items()
    }
    corrected_labels = correct_labels(
        encode_labels(codes), found_errors(codes, wrong_labels), decisions, unreviewed=unreviewed
    )
    # Whoever has the given labels and the changes can do it alone, without this package.
    series = pd.Series(codes)
    for change in corrected_labels.corrections:
        if change.label is None:
            series = series.drop(change.index)
        else:
            assert series[change.index] == change.given != change.label
            series[change.index] = change.label
    assert series.tolist() == corrected_labels.codes[corrected_labels.rows].tolist()
    assert restore_labels(corrected_labels.corrections, series.to_numpy()).tolist() == codes


def test_what_cannot_be_is_refused():
    labels, errors = encode_labels(CODES), found_errors(CODES, WRONG_LABELS)
    with pytest.raises(InputError, match="unreviewed is 'delete'"):
        correct_labels(labels, errors, unreviewed="delete")
    with pytest.raises(InputError, match="name sample 9 and class None"):
        correct_labels(labels, errors, {9: decision(9, "drop")})
    with pytest.raises(InputError, match="name sample 1 and class 3"):
        correct_labels(labels, errors, {1: decision(1, "relabel", 3)})
    with pytest.raises(InputError, match="name sample 1 and class None"):
        correct_labels(labels, errors, {1: decision(1, "relabel")})
    assert correct_labels(labels, None, {1: decision(1, None)}).corrections == []  # undecided again
    with pytest.raises(InputError, match="8 samples"):
        correct_labels(labels, found_errors(CODES[:8], {0: 1}))
    with pytest.raises(InputError, match="reach to sample 8 of 8"):
        restore_labels(
            correct_labels(labels, errors, unreviewed="drop").corrections, np.zeros(5, int)
        )


def test_flags_nobody_looked_at_are_kept_unless_asked_otherwise(tmp_path):
    run = image_run(tmp_path, decisions=[(1, "drop", None), (9, "relabel", 2)])
    result = command("export", run, "--to", "csv", "--out", tmp_path / "kept.csv")
    assert result.exit_code == 0, result.output
    assert "2 of 24 samples change, 23 are left" in " ".join(result.output.split())
    assert len(pd.read_csv(tmp_path / "kept.csv")) == 23
    words = ("--out", tmp_path / "dropped.csv", "--unreviewed", "drop", "--method", "alg-ens")
    assert command("export", run, "--to", "csv", *words).exit_code == 0
    assert len(pd.read_csv(tmp_path / "dropped.csv")) == 21


def test_summary_counts():
    decisions = {0: decision(0, "keep"), 5: decision(5, "drop")}
    corrected_labels = correct_labels(
        encode_labels(CODES), found_errors(CODES, WRONG_LABELS), decisions, unreviewed="relabel"
    )
    lines = [" ".join(line.split()) for line in describe_corrections(corrected_labels).splitlines()]
    assert lines[0] == "3 of 9 samples change, 8 are left"
    assert "2 relabelled by cl-pbnr" in lines
    assert "1 dropped by decision" in lines
    assert "1 flagged by cl-pbnr, kept by decision" in lines
    assert "1 b -> c" in lines
    assert "1 b -> (dropped)" in lines
    assert "5: b -> (dropped), by decision of ann" in lines
    one_left = correct_labels(encode_labels([0, 1, 1]), None, {0: decision(0, "drop")})
    assert "No samples are left of class a" in describe_corrections(one_left)


def test_clean_gives_the_data_set_without_touching_it(tmp_path):
    inputs = np.arange(18.0).reshape(9, 2)
    data = uqled.Dataset.from_arrays(inputs, np.array(list("abc"))[CODES])
    errors = found_errors(CODES, WRONG_LABELS)
    cleaned_data = uqled.clean(data, errors)
    assert cleaned_data.labels.codes.tolist() == [0, 0, 1, 1, 2, 2]
    assert cleaned_data.inputs.tolist() == inputs[[1, 2, 3, 5, 6, 7]].tolist()
    assert cleaned_data.ids.tolist() == ["1", "2", "3", "5", "6", "7"]
    assert data.labels.codes.tolist() == CODES
    path = tmp_path / "decisions.sqlite"
    with Decisions(path, n_samples=9, classes=["a", "b", "c"]) as store:
        store.decide([(0, "keep", None), (4, "relabel", 0)], reviewer="ann")
        cleaned_data = uqled.clean(data, errors, store, unreviewed="relabel")
        assert uqled.clean(data, None, store).labels.codes.tolist() == [0, 0, 0, 1, 0, 1, 2, 2, 2]
    assert cleaned_data.labels.codes.tolist() == [0, 0, 0, 1, 0, 1, 2, 2, 0]
    with pytest.raises(InputError, match="other labels"):
        uqled.clean(data, found_errors(CODES[::-1], {}))


# ---- the record, and the way back


@pytest.mark.parametrize("unreviewed", ["drop", "relabel", "keep"])
@pytest.mark.parametrize("to", ["csv", "parquet", "huggingface", "folder", "fiftyone"])
def test_the_record_leads_back_to_the_given_labels(tmp_path, to, unreviewed):
    decisions = [(0, "drop", None), (5, "relabel", 2), (9, "keep", None)]
    run = image_run(tmp_path, decisions=decisions)
    out = tmp_path / f"clean.{to}"
    record = export(run, to, out, unreviewed=unreviewed)
    assert all(path.exists() for path in record)
    given_labels = Run.open(run).predictions().labels
    assert restore_given_labels(out).tolist() == given_labels.values[given_labels.codes].tolist()


@pytest.mark.parametrize("values", [[3, 7, 11], [True, False], ["1", "01", "x"], [1.0, 2.0, 5.0]])
@pytest.mark.parametrize("to", ["csv", "parquet", "huggingface"])
def test_the_way_back_keeps_the_kind_of_labels(tmp_path, values, to):
    frame = pd.DataFrame(
        {"x": range(9), "z": range(9, 18), "label": np.array(values)[np.array(CODES) % len(values)]}
    )
    frame["label"] = frame["label"].astype(str) if isinstance(values[0], str) else frame["label"]
    run = table_run(tmp_path, frame, "data.parquet", wrong={0: 1}, inputs=["x", "z"])
    decide(run, (3, "drop", None))
    export(run, to, tmp_path / f"clean.{to}", unreviewed="relabel")
    assert restore_given_labels(tmp_path / f"clean.{to}").tolist() == frame["label"].tolist()


def test_the_record_is_a_plain_table(tmp_path):
    run = image_run(tmp_path, decisions=[(3, "relabel", 2), (4, "drop", None)])
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel", method="cl-pbnr")
    with (tmp_path / "clean.csv.changes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["index"] for row in rows] == ["1", "3", "4", "9", "17", "18"]
    assert rows[0] | {"score": ""} == {
        "index": "1", "id": "cat/1.png", "action": "relabel", "from": "cat", "to": "dog",
        "because": "cl-pbnr", "reviewer": "", "score": "",
    }  # fmt: skip
    assert float(rows[0]["score"]) == pytest.approx(0.02)
    assert rows[2] | {"score": ""} == {
        "index": "4", "id": "cat/4.jpg", "action": "drop", "from": "cat", "to": "",
        "because": "decision", "reviewer": "ann", "score": "",
    }  # fmt: skip
    about = json.loads((tmp_path / "clean.csv.changes.json").read_text())
    assert (about["to"], about["unreviewed"], about["method"]) == ("csv", "relabel", "cl-pbnr")
    assert (about["samples"], about["left"], about["relabelled"], about["dropped"]) == (
        24,
        23,
        5,
        1,
    )


def test_the_way_back_refuses_what_it_does_not_know(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    with pytest.raises(FileError, match="is not a record"):
        restore_given_labels(out)
    export(run, "cleanlab", tmp_path / "issues.csv")
    with pytest.raises(FileError, match="cleanlab"):
        restore_given_labels(tmp_path / "issues.csv")
    export(run, "csv", out)
    content = out.read_text()
    out.write_text("\n".join(content.splitlines()[:-1]) + "\n")
    with pytest.raises(FileError, match="19 samples, and its record says 20"):
        restore_given_labels(out)
    out.write_text(content.replace(",dog", ",wolf"))
    with pytest.raises(FileError, match="'wolf'"):
        restore_given_labels(out)
    record = tmp_path / "clean.csv.changes.csv"
    record.write_text(record.read_text().replace("drop", "eat"))
    out.write_text(content)
    with pytest.raises(FileError, match="eat"):
        restore_given_labels(out)
