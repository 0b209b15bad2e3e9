"""Decisions and flags become changes; tables of labels, the record of changes, the way back."""

from __future__ import annotations

import csv
import json
import sys
import types
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import uqled
from exports import decide, hashes, image_run, make_run, probabilities, table_run
from uqled.arrays import Labels
from uqled.cli import app
from uqled.errors import FileError, InputError
from uqled.export import registry
from uqled.export.corrections import correct_labels, describe_corrections, restore_labels
from uqled.export.plan import plan_export, write_export
from uqled.export.record import read_corrections, restore_given_labels
from uqled.review.decisions import Decision, Decisions
from uqled.storage.run import Run


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def export(run, to, out, **options):
    unreviewed, method = options.pop("unreviewed", None), options.pop("method", "alg-ens")
    if unreviewed is None and to in ("csv", "parquet", "folder", "huggingface"):
        unreviewed = "drop"
    return write_export(plan_export(run, to, unreviewed=unreviewed, method=method), out, **options)


def encode_labels(codes, K=3):
    return Labels(np.array(codes, np.int32), np.array(list("abcdefg")[:K]), tuple("abcdefg"[:K]))


def decision(index, action, label=None):
    return Decision(index, action, label, "ann", 0.0, 1)


def found_errors(codes, wrong, K=3):
    return uqled.find_label_errors(
        encode_labels(codes, K), probabilities(codes, K, wrong), method="cl-pbnr"
    )


#: Labels of nine samples, of which the model takes 0 for b, 4 for c, 8 for a.
CODES, WRONG = [0, 0, 0, 1, 1, 1, 2, 2, 2], {0: 1, 4: 2, 8: 0}


# ---- the core


def test_flags_remove_relabel_or_keep():
    labels, errors = encode_labels(CODES), found_errors(CODES, WRONG)
    assert errors.ranked.tolist() == [0, 4, 8]
    removed = correct_labels(labels, errors, unreviewed="drop")
    assert removed.rows.tolist() == [1, 2, 3, 5, 6, 7]
    assert [
        (c.index, c.action, c.given, c.label, c.because, c.reviewer) for c in removed.corrections
    ] == [
        (0, "drop", 0, None, "cl-pbnr", None),
        (4, "drop", 1, None, "cl-pbnr", None),
        (8, "drop", 2, None, "cl-pbnr", None),
    ]
    assert removed.corrections[0].score == pytest.approx(0.02)
    relabelled = correct_labels(labels, errors, unreviewed="relabel")
    assert relabelled.codes.tolist() == [1, 0, 0, 1, 2, 1, 2, 2, 0]
    assert relabelled.is_kept.all()
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
        done = correct_labels(
            encode_labels(CODES), found_errors(CODES, WRONG), decisions, unreviewed=unreviewed
        )
        by = {c.index: (c.action, c.label, c.because, c.reviewer) for c in done.corrections}
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
        assert (done.n_overruled, done.n_unreviewed) == (1, 1)


@given(
    st.lists(st.integers(0, 2), min_size=6, max_size=30),
    st.dictionaries(st.integers(0, 5), st.sampled_from(["keep", "drop", 0, 1, 2])),
    st.dictionaries(st.integers(0, 5), st.integers(0, 2)),
    st.sampled_from(["drop", "relabel", "keep"]),
)
def test_changes_say_all_and_lead_back(codes, said, wrong, unreviewed):
    codes = [0, 1, 2, *codes]
    decisions = {
        i: decision(i, "relabel", what) if isinstance(what, int) else decision(i, what)
        for i, what in said.items()
    }
    done = correct_labels(
        encode_labels(codes), found_errors(codes, wrong), decisions, unreviewed=unreviewed
    )
    # Whoever has the given labels and the changes can do it alone, without this package.
    series = pd.Series(codes)
    for change in done.corrections:
        if change.label is None:
            series = series.drop(change.index)
        else:
            assert series[change.index] == change.given != change.label
            series[change.index] = change.label
    assert series.tolist() == done.codes[done.rows].tolist()
    assert restore_labels(done.corrections, series.to_numpy()).tolist() == codes


def test_what_cannot_be_is_refused():
    labels, errors = encode_labels(CODES), found_errors(CODES, WRONG)
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
    done = correct_labels(
        encode_labels(CODES), found_errors(CODES, WRONG), decisions, unreviewed="relabel"
    )
    lines = [" ".join(line.split()) for line in describe_corrections(done).splitlines()]
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
    errors = found_errors(CODES, WRONG)
    cleaned = uqled.clean(data, errors)
    assert cleaned.labels.codes.tolist() == [0, 0, 1, 1, 2, 2]
    assert cleaned.inputs.tolist() == inputs[[1, 2, 3, 5, 6, 7]].tolist()
    assert cleaned.ids.tolist() == ["1", "2", "3", "5", "6", "7"]
    assert data.labels.codes.tolist() == CODES
    path = tmp_path / "decisions.sqlite"
    with Decisions(path, n_samples=9, classes=["a", "b", "c"]) as store:
        store.decide([(0, "keep", None), (4, "relabel", 0)], reviewer="ann")
        cleaned = uqled.clean(data, errors, store, unreviewed="relabel")
        assert uqled.clean(data, None, store).labels.codes.tolist() == [0, 0, 0, 1, 0, 1, 2, 2, 2]
    assert cleaned.labels.codes.tolist() == [0, 0, 0, 1, 0, 1, 2, 2, 0]
    with pytest.raises(InputError, match="other labels"):
        uqled.clean(data, found_errors(CODES[::-1], {}))


# ---- tables of labels


ODD = ["007", "NA", "", 'say "hi"', "a,b", "two\nlines", " spaces ", "1e3", "ü"]


def texts():
    """A table with everything that a careless reader changes."""
    return pd.DataFrame(
        {
            "code": ODD,
            "text": [f"this is text number {i}, of some length" for i in range(9)],
            "label": np.array(["bad", "good", "NA"])[CODES],
            "stars": [1.50, 2, 3, 4, 5, 6, 7, 8, 9],
        }
    )


def test_csv_keeps_all_but_the_labels(tmp_path):
    wrong, decisions = {0: 2, 3: 0, 8: 1}, [(8, "keep", None)]
    run = table_run(tmp_path, texts(), wrong=wrong, inputs="text", decisions=decisions)
    before = (tmp_path / "data.csv").read_bytes()
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    assert (tmp_path / "data.csv").read_bytes() == before
    source, cleaned = (
        pd.read_csv(tmp_path / name, dtype=str, keep_default_na=False)
        for name in ("data.csv", "clean.csv")
    )
    assert cleaned.drop(columns="label").equals(source.drop(columns="label"))
    # The classes are NA, bad and good, sorted; the model takes sample 0 for good, 3 for NA.
    assert source["label"].tolist() == ["bad"] * 3 + ["good"] * 3 + ["NA"] * 3
    assert cleaned["label"].tolist() == ["good", "bad", "bad", "NA", *["good"] * 2, *["NA"] * 3]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_only_changed_lines_of_a_csv_differ(tmp_path, end, mark):
    lines = ["text,label", *(f"text {i},{'abc'[code]}" for i, code in enumerate(CODES))]
    before = f"{mark}{end.join(lines)}{end}".encode()
    (tmp_path / "data.csv").write_bytes(before)
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.csv"), {4: 2})
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    after = (tmp_path / "clean.csv").read_bytes()
    assert after == before.replace(b"text 4,b", b"text 4,c") != before
    assert restore_given_labels(tmp_path / "clean.csv").tolist() == list("aaabbbccc")


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("separator", [",", ";", "|"])
@pytest.mark.parametrize(
    ("encoding", "mark"), [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("cp1252", b""),
                           ("utf-16-be", b"\xfe\xff")],
)  # fmt: skip
def test_a_csv_of_any_form_differs_in_its_labels_alone(tmp_path, quote, separator, encoding, mark):
    def line(text, label):
        return separator.join(f"{quote}{entry}{quote}" for entry in (text, label))

    odd = f'"caf\u00e9 \u00fc, or; ""x""{separator} \ntwo lines"{separator}{quote}b{quote}'
    lines = [line("text", "label")]
    lines += [line(f"caf\u00e9 {i}", "abc"[code]) for i, code in enumerate(CODES)]
    before = "\r\n".join([*lines, "", odd]).encode(encoding)  # a blank line, no end of line
    (tmp_path / "data.csv").write_bytes(mark + before)
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.csv"), {4: 2, 9: 0})
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    changed = [*lines[:5], line("caf\u00e9 4", "c"), *lines[6:]]
    new = odd[: -len(f"b{quote}")] + f"a{quote}"
    expected = mark + "\r\n".join([*changed, "", new]).encode(encoding)
    assert (tmp_path / "clean.csv").read_bytes() == expected


def test_dropped_rows_leave_a_csv(tmp_path):
    run = table_run(tmp_path, texts(), wrong={0: 2, 4: 0}, inputs="text")
    decide(run, (8, "drop", None))
    export(run, "csv", tmp_path / "clean.tsv")
    cleaned = pd.read_csv(tmp_path / "clean.tsv", dtype=str, keep_default_na=False, sep="\t")
    assert cleaned["code"].tolist() == [ODD[i] for i in (1, 2, 3, 5, 6, 7)]


def test_parquet_keeps_types_columns_and_metadata(tmp_path):
    from datasets import ClassLabel, Features, Value
    from datasets import Dataset as HubDataset

    features = Features(
        {"text": Value("string"), "label": ClassLabel(names=["a", "b", "c"]), "n": Value("int8")}
    )
    rows = {"text": [f"text {i}" for i in range(9)], "label": CODES, "n": list(range(9))}
    HubDataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "data.parquet"))
    data = uqled.load(tmp_path / "data.parquet")
    run = make_run(tmp_path / "run", data, WRONG, decisions=[(1, "relabel", 2)])
    export(run, "parquet", tmp_path / "clean.parquet")
    cleaned = HubDataset.from_parquet(
        str(tmp_path / "clean.parquet"), cache_dir=str(tmp_path / "c")
    )
    assert cleaned.features == features
    assert cleaned["n"][:] == [1, 2, 3, 5, 6, 7]
    assert cleaned["label"][:] == [2, 0, 1, 1, 2, 2]


def test_other_types_of_labels_keep_their_type(tmp_path):
    frame = pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0) ** 2})
    frame["label"] = pd.Categorical(np.array(["u", "v", "w"])[CODES])
    run = table_run(tmp_path, frame, "data.parquet", wrong=WRONG)
    export(run, "parquet", tmp_path / "clean.parquet", unreviewed="relabel")
    cleaned = pd.read_parquet(tmp_path / "clean.parquet")
    assert str(cleaned["label"].dtype) == "category"
    assert cleaned["label"].tolist() == ["v", "u", "u", "v", "w", "v", "w", "w", "u"]
    assert cleaned[["x", "y"]].equals(frame[["x", "y"]])


def test_what_is_no_table_becomes_ids_and_labels(tmp_path):
    run = image_run(tmp_path)
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    export(run, "parquet", tmp_path / "clean.parquet", unreviewed="relabel")
    frame = pd.read_csv(tmp_path / "clean.csv")
    assert frame.equals(pd.read_parquet(tmp_path / "clean.parquet").astype(frame.dtypes))
    labels = dict(zip(frame["id"], frame["label"], strict=True))
    assert len(labels) == 24
    moved = {name: label for name, label in labels.items() if name.split("/")[0] != label}
    assert moved == {
        "cat/1.png": "dog", "dog/1.png": "ship", "ship/1.png": "cat", "ship/2.jpg": "cat"
    }  # fmt: skip


def test_images_of_a_parquet_file_stay_out_of_a_csv(tmp_path):
    from pictures import encoded, photo

    cells = [{"bytes": encoded(photo(i)), "path": f"{i}.png"} for i in range(9)]
    table = pa.table({"image": cells, "label": CODES, "note": list("abcdefghi")})
    pq.write_table(table, tmp_path / "data.parquet")
    data = uqled.load(tmp_path / "data.parquet", cache=False)
    run = make_run(tmp_path / "run", data, WRONG)
    export(run, "csv", tmp_path / "clean.csv")
    frame = pd.read_csv(tmp_path / "clean.csv")
    assert frame.columns.tolist() == ["id", "label", "note"]
    assert frame["id"].tolist() == [f"{i}.png" for i in (1, 2, 3, 5, 6, 7)]
    assert frame["note"].tolist() == list("bcdfgh")


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_a_table_that_has_changed_is_refused(tmp_path, name):
    """Rows are called by their number: sorted, they would be taken for one another."""
    frame = pd.DataFrame({"x": np.arange(30.0), "y": 1.5, "label": list("abc") * 10})
    run = table_run(tmp_path, frame, name, wrong={0: 1, 4: 2})
    assert uqled.data.reopen_samples(Run.open(run).predictions()) is not None
    place = tmp_path / name
    write_frame = frame[::-1].to_csv if name.endswith("csv") else frame[::-1].to_parquet
    write_frame(place, index=False)
    for to, out in (("csv", "out.csv"), ("parquet", "out.parquet"), ("huggingface", "out")):
        with pytest.raises(FileError, match="no longer holds the 30 samples"):
            export(run, to, tmp_path / out)
        assert not (tmp_path / out).exists()
    place.unlink()
    for to, out in (("csv", "out.csv"), ("parquet", "out.parquet"), ("huggingface", "out")):
        for more in ([], ["--dry-run"]):
            result = command("export", run, "--to", to, "--out", tmp_path / out, *more)
            assert result.exit_code == 2
            assert "does not exist" in result.output


def test_labels_of_a_csv_stay_as_they_are_written(tmp_path):
    place = tmp_path / "data.csv"
    lines = ["x,label", *(f"{i}.5,{['01', '02', '3.'][i % 3]}" for i in range(30))]
    place.write_text("\n".join(lines) + "\n")
    data = uqled.load(place, cache=False)
    run = make_run(tmp_path / "run", data, {0: 1, 4: 2})
    export(run, "csv", tmp_path / "out.csv", unreviewed="relabel")
    found = (tmp_path / "out.csv").read_text().splitlines()
    assert [i - 1 for i in range(31) if found[i] != lines[i]] == [0, 4]
    assert (found[1], found[5]) == ("0.5,02", "4.5,3.")


def test_an_export_follows_what_the_run_was_asked_for(tmp_path):
    frame = pd.DataFrame({"x": np.arange(30.0), "label": list("abc") * 10})
    run = table_run(tmp_path, frame, wrong={0: 1, 4: 2, 8: 0})
    assert plan_export(run, "csv").errors.n_flagged == 3
    Run.open(run).write_detection("auto", {"budget": 2})
    plan = plan_export(run, "csv")
    assert (plan.errors.method, plan.errors.n_flagged) == ("auto", 2)
    Run.open(run).write_detection("alg-ens-2", {})
    assert plan_export(run, "csv").errors.method == "alg-ens-2"
    assert plan_export(run, "csv", method="cl-mcd").errors.method == "cl-mcd"


def test_a_dry_run_refuses_what_cannot_be_written(tmp_path):
    frame = pd.DataFrame({"x": np.arange(30.0), "label": list("abc") * 10})
    run = table_run(tmp_path, frame, wrong={0: 1})
    result = command("export", run, "--to", "folder", "--out", tmp_path / "out", "--dry-run")
    assert result.exit_code == 2
    assert "a folder of images, of table" in result.output


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_rows_of_a_split_and_a_limit_are_the_right_ones(tmp_path, name):
    frame = pd.concat([texts()] * 4, ignore_index=True)
    frame["number"] = range(36)
    frame["split"] = np.where(np.arange(36) % 3 == 0, "test", "train")
    options = {"inputs": "text", "split": "train", "limit": 12, "seed": 3}
    run = table_run(tmp_path, frame, name, wrong={}, **options)
    decide(run, (0, "drop", None), (5, "drop", None))
    ids = Run.open(run).predictions().ids
    for ending in ("csv", "parquet"):
        export(run, ending, tmp_path / f"clean.{ending}")
        read = pd.read_csv if ending == "csv" else pd.read_parquet
        numbers = read(tmp_path / f"clean.{ending}")["number"].tolist()
        assert numbers == [int(name) for i, name in enumerate(ids) if i not in (0, 5)]


def test_a_run_of_arrays_gives_labels_but_no_samples(tmp_path):
    data = uqled.Dataset.from_arrays(np.zeros((9, 2)), CODES)
    run = make_run(tmp_path / "run", data, WRONG)
    export(run, "csv", tmp_path / "clean.csv")
    assert pd.read_csv(tmp_path / "clean.csv")["label"].tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(InputError, match="arrays in memory"):
        export(run, "huggingface", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


# ---- cleanlab's columns


def test_cleanlab_columns_are_those_of_datalab(tmp_path):
    from cleanlab import Datalab

    codes, wrong = np.repeat([0, 1, 2], 30), {0: 1, 7: 1, 40: 2, 41: 2, 42: 2, 80: 0, 85: 0}
    data = uqled.Dataset.from_arrays(np.zeros((90, 2)), np.array(["u", "v", "w"])[codes])
    run = make_run(tmp_path / "run", data, wrong, passes=False)
    for name in ("issues.parquet", "issues.csv"):
        export(run, "cleanlab", tmp_path / name, method="cl-pbnr")
    ours = pd.read_parquet(tmp_path / "issues.parquet")
    lab = Datalab({"label": data.labels.values[codes].tolist()}, label_name="label", verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cleanlab uses what pandas will drop
        lab.find_issues(pred_probs=probabilities(codes, 3, wrong), issue_types={"label": {}})
    theirs = lab.get_issues("label")
    assert set(theirs.columns) <= set(ours.columns)
    for column in ("is_label_issue", "given_label", "predicted_label"):
        assert ours[column].tolist() == theirs[column].tolist(), column
    assert ours["is_label_issue"].sum() == 7
    assert ours["is_label_issue"].dtype == theirs["is_label_issue"].dtype == bool
    np.testing.assert_allclose(ours["label_score"], theirs["label_score"], atol=1e-6)
    as_text = pd.read_csv(tmp_path / "issues.csv")
    assert as_text["predicted_label"].tolist() == theirs["predicted_label"].tolist()


def test_cleanlab_trains_on_what_is_no_issue(tmp_path):
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(9, 2))
    run = make_run(tmp_path / "run", uqled.Dataset.from_arrays(X, CODES), WRONG)
    decide(run, (0, "keep", None), (5, "drop", None), (6, "relabel", 1), (7, "relabel", 2))
    export(run, "cleanlab", tmp_path / "issues.csv")
    frame = pd.read_csv(tmp_path / "issues.csv")
    model = CleanLearning(LogisticRegression(), verbose=False)
    model.fit(X, np.array(CODES), label_issues=frame)
    used = ~model.get_label_issues()["is_label_issue"].to_numpy()
    assert np.flatnonzero(~used).tolist() == [4, 5, 6, 8]
    expected = LogisticRegression().fit(X[used], np.array(CODES)[used])
    np.testing.assert_allclose(model.clf.coef_, expected.coef_)
    assert frame["corrected_label"].fillna(-1).astype(int).tolist() == [0, 0, 0, 1, 1, -1, 1, 2, 2]


# ---- the record, and the way back


@pytest.mark.parametrize("unreviewed", ["drop", "relabel", "keep"])
@pytest.mark.parametrize("to", ["csv", "parquet", "huggingface", "folder", "fiftyone"])
def test_the_record_leads_back_to_the_given_labels(tmp_path, to, unreviewed):
    decisions = [(0, "drop", None), (5, "relabel", 2), (9, "keep", None)]
    run = image_run(tmp_path, decisions=decisions)
    out = tmp_path / f"clean.{to}"
    written = export(run, to, out, unreviewed=unreviewed)
    assert all(path.exists() for path in written)
    given = Run.open(run).predictions().labels
    assert restore_given_labels(out).tolist() == given.values[given.codes].tolist()


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
    with pytest.raises(FileError, match="no record"):
        restore_given_labels(out)
    export(run, "cleanlab", tmp_path / "issues.csv")
    with pytest.raises(FileError, match="cleanlab"):
        restore_given_labels(tmp_path / "issues.csv")
    export(run, "csv", out)
    whole = out.read_text()
    out.write_text("\n".join(whole.splitlines()[:-1]) + "\n")
    with pytest.raises(FileError, match="19 samples, and its record says 20"):
        restore_given_labels(out)
    out.write_text(whole.replace(",dog", ",wolf"))
    with pytest.raises(FileError, match="'wolf'"):
        restore_given_labels(out)
    record = tmp_path / "clean.csv.changes.csv"
    record.write_text(record.read_text().replace("drop", "eat"))
    out.write_text(whole)
    with pytest.raises(FileError, match="eat"):
        restore_given_labels(out)


# ---- the command


def test_a_dry_run_says_and_writes_nothing(tmp_path):
    run = image_run(tmp_path, decisions=[(1, "keep", None)])
    before = hashes(tmp_path)
    for to, out in [("csv", "c.csv"), ("folder", "f"), ("label-studio", "l"), ("huggingface", "h")]:
        words = ["--to", to, "--out", tmp_path / out, "--dry-run"]
        words += [] if to == "label-studio" else ["--unreviewed", "drop"]
        result = command("export", run, *words)
        assert result.exit_code == 0, result.output
        assert "Nothing was written" in result.output
        assert hashes(tmp_path) == before
    words = ["--out", tmp_path / "c.csv", "--dry-run", "--method", "alg-ens"]
    result = command("export", run, "--to", "csv", *words, "--unreviewed", "drop")
    text = " ".join(result.output.split())
    assert "3 of 24 samples change, 21 are left" in text
    assert "3 dropped by alg-ens-3" in text
    assert "2 ship -> (dropped)" in text
    assert "dog/1.png: dog -> (dropped), by alg-ens-3" in text


def test_the_command_writes_and_names_what_it_wrote(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    words = ["--unreviewed", "relabel", "--method", "cl-mcd"]
    result = command("export", run, "--to", "csv", "--out", out, *words)
    assert result.exit_code == 0, result.output
    assert f"Written: {out}" in result.output
    assert pd.read_csv(out)["label"].tolist().count("cat") == 9
    assert not (run / "decisions.sqlite").exists()


def test_an_existing_file_is_refused_unless_it_may_be_replaced(tmp_path):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    out.write_text("mine")
    result = command("export", run, "--to", "csv", "--out", out)
    assert result.exit_code == 2
    assert "--overwrite" in result.output
    assert out.read_text() == "mine"
    words = ["--overwrite", "--unreviewed", "keep"]
    assert command("export", run, "--to", "csv", "--out", out, *words).exit_code == 0
    assert len(pd.read_csv(out)) == 24


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "xls", "--out", "a.xls"], "Choose one of cleanlab, csv"),
        (["--to", "csv", "--out", "a.txt"], "has the ending '.txt'"),
        (["--to", "csv", "--out", "no/a.csv"], "Make the folder first"),
        (
            ["--to", "csv", "--out", "a.csv", "--unreviewed", "burn"],
            "Choose one of keep, drop, relabel",
        ),
        (["--to", "csv", "--out", "a.csv", "--method", "magic"], "method is 'magic'"),
        (["--to", "csv", "--out", "a.csv", "--link"], "link does not go with csv"),
        (["--to", "csv", "--out", "a.csv", "--url", "x"], "url does not go with csv"),
        (["--to", "folder", "--out", "a", "--overwrite"], "overwrite does not go with folder"),
        (["--to", "folder", "--out", "run"], "already holds"),
        (["--to", "folder", "--out", "run/run.json"], "is a file"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, words, said):
    run = image_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = hashes(tmp_path)
    result = command("export", run, *words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert hashes(tmp_path) == before


def test_other_methods_and_agreements(tmp_path):
    run = image_run(tmp_path)
    predictions = Run.open(run).predictions()
    stands_for_all = uqled.find_label_errors(predictions, method="all").method
    assert plan_export(run, "csv").corrected.method == stands_for_all
    for method, name in [
        ("alg-ens", "alg-ens-3"),
        ("alg-ens-2", "alg-ens-2"),
        ("cl-mcd", "cl-mcd"),
    ]:
        plan = plan_export(run, "csv", method=method, unreviewed="drop")
        assert (plan.corrected.method, len(plan.corrected.corrections)) == (name, 4)


def test_nothing_left_is_refused(tmp_path):
    data = uqled.Dataset.from_arrays(np.zeros((4, 2)), [0, 0, 1, 1])
    run = make_run(tmp_path / "run", data, {}, decisions=[(i, "drop", None) for i in range(4)])
    with pytest.raises(InputError, match="no sample would stay"):
        plan_export(run, "csv")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    before = hashes(tmp_path)

    def fails(_, path, **__):
        path.write_text("half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(pd.DataFrame, "to_csv", fails)
        with pytest.raises(OSError, match="disk full"):
            export(run, "csv", out, overwrite=True)
    assert hashes(tmp_path) == before
    with monkeypatch.context() as patch:
        patch.setattr("uqled.export.record.version", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(run, "csv", out, overwrite=True)
    assert hashes(tmp_path) == before


def test_old_data_are_there_until_new_data_are(tmp_path, monkeypatch):
    run = image_run(tmp_path)
    out = tmp_path / "clean.csv"
    export(run, "csv", out)
    before, rename = out.read_bytes(), Path.replace

    def stops_at_the_data(path, target):
        if Path(target) == out:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", stops_at_the_data)
    with pytest.raises(KeyboardInterrupt):
        export(run, "csv", out, overwrite=True, unreviewed="keep")
    assert out.read_bytes() == before
    # Beside a record that is not theirs, and says so.
    assert json.loads((tmp_path / "clean.csv.changes.json").read_text())["unreviewed"] == "keep"
    for read in (restore_given_labels, read_corrections):
        with pytest.raises(FileError, match=r"clean\.csv' was interrupted.*--overwrite"):
            read(out)


def test_another_package_adds_a_format(tmp_path, monkeypatch):
    """The example of docs/extending.md, found by its entry point."""
    text = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
    example = text.split("## Add an export format")[1].split("```python\n")[1].split("```")[0]
    lines = [line[4:] for line in example.splitlines() if line[:3] in (">>>", "...")]
    assert len(lines) <= 30
    module = types.ModuleType("my_package")
    exec("\n".join(lines), vars(module))
    monkeypatch.setitem(sys.modules, "my_package", module)
    entry = EntryPoint("jsonl", "my_package:JsonLines", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] * (group == entry.group))
    registry.load_formats.cache_clear()
    try:
        run = image_run(tmp_path, decisions=[(1, "drop", None), (9, "relabel", 2)])
        out = tmp_path / "clean.jsonl"
        assert command("export", run, "--to", "jsonl", "--out", out).exit_code == 0
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert (len(rows), rows[8]) == (23, {"id": "dog/1.png", "label": "ship"})
        assert len(read_corrections(out)) == 2
        result = command("export", run, "--to", "jsonl", "--out", tmp_path / "clean.txt")
        assert "Use .jsonl for this format" in result.output
        with pytest.raises(FileError, match="labels are as they were given"):
            restore_given_labels(out)
    finally:
        registry.load_formats.cache_clear()
