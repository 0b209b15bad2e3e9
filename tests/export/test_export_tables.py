"""Cleaned tables: rows, types and columns stay, labels change; cleanlab's columns."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uqled
from exports import (
    CODES,
    WRONG_LABELS,
    command,
    decide,
    export,
    image_run,
    make_run,
    probabilities,
    table_run,
)
from uqled.errors import FileError, InputError
from uqled.export.plan import plan_export
from uqled.export.record import restore_given_labels
from uqled.storage.run import Run

# ---- tables of labels


ODD_TEXTS = ["007", "NA", "", 'say "hi"', "a,b", "two\nlines", " spaces ", "1e3", "ü"]


def texts():
    """A table with everything that a careless reader changes."""
    return pd.DataFrame(
        {
            "code": ODD_TEXTS,
            "text": [f"this is text number {i}, of some length" for i in range(9)],
            "label": np.array(["bad", "good", "NA"])[CODES],
            "stars": [1.50, 2, 3, 4, 5, 6, 7, 8, 9],
        }
    )


def test_csv_keeps_all_but_the_labels(tmp_path):
    wrong_labels, decisions = {0: 2, 3: 0, 8: 1}, [(8, "keep", None)]
    run = table_run(tmp_path, texts(), wrong=wrong_labels, inputs="text", decisions=decisions)
    before = (tmp_path / "data.csv").read_bytes()
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    assert (tmp_path / "data.csv").read_bytes() == before
    source, cleaned_table = (
        pd.read_csv(tmp_path / name, dtype=str, keep_default_na=False)
        for name in ("data.csv", "clean.csv")
    )
    assert cleaned_table.drop(columns="label").equals(source.drop(columns="label"))
    # The classes are NA, bad and good, sorted; the model takes sample 0 for good, 3 for NA.
    assert source["label"].tolist() == ["bad"] * 3 + ["good"] * 3 + ["NA"] * 3
    assert cleaned_table["label"].tolist() == [
        "good",
        "bad",
        "bad",
        "NA",
        *["good"] * 2,
        *["NA"] * 3,
    ]


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

    odd_field = f'"caf\u00e9 \u00fc, or; ""x""{separator} \ntwo lines"{separator}{quote}b{quote}'
    lines = [line("text", "label")]
    lines += [line(f"caf\u00e9 {i}", "abc"[code]) for i, code in enumerate(CODES)]
    before = "\r\n".join([*lines, "", odd_field]).encode(encoding)  # a blank line, no end of line
    (tmp_path / "data.csv").write_bytes(mark + before)
    run = make_run(tmp_path / "run", uqled.load(tmp_path / "data.csv"), {4: 2, 9: 0})
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    expected_lines = [*lines[:5], line("caf\u00e9 4", "c"), *lines[6:]]
    new = odd_field[: -len(f"b{quote}")] + f"a{quote}"
    expected = mark + "\r\n".join([*expected_lines, "", new]).encode(encoding)
    assert (tmp_path / "clean.csv").read_bytes() == expected


def test_dropped_rows_leave_a_csv(tmp_path):
    run = table_run(tmp_path, texts(), wrong={0: 2, 4: 0}, inputs="text")
    decide(run, (8, "drop", None))
    export(run, "csv", tmp_path / "clean.tsv")
    cleaned_table = pd.read_csv(tmp_path / "clean.tsv", dtype=str, keep_default_na=False, sep="\t")
    assert cleaned_table["code"].tolist() == [ODD_TEXTS[i] for i in (1, 2, 3, 5, 6, 7)]


def test_parquet_keeps_types_columns_and_metadata(tmp_path):
    from datasets import ClassLabel, Features, Value
    from datasets import Dataset as HubDataset

    features = Features(
        {"text": Value("string"), "label": ClassLabel(names=["a", "b", "c"]), "n": Value("int8")}
    )
    rows = {"text": [f"text {i}" for i in range(9)], "label": CODES, "n": list(range(9))}
    HubDataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "data.parquet"))
    data = uqled.load(tmp_path / "data.parquet")
    run = make_run(tmp_path / "run", data, WRONG_LABELS, decisions=[(1, "relabel", 2)])
    export(run, "parquet", tmp_path / "clean.parquet")
    cleaned_data = HubDataset.from_parquet(
        str(tmp_path / "clean.parquet"), cache_dir=str(tmp_path / "c")
    )
    assert cleaned_data.features == features
    assert cleaned_data["n"][:] == [1, 2, 3, 5, 6, 7]
    assert cleaned_data["label"][:] == [2, 0, 1, 1, 2, 2]


def test_other_types_of_labels_keep_their_type(tmp_path):
    frame = pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0) ** 2})
    frame["label"] = pd.Categorical(np.array(["u", "v", "w"])[CODES])
    run = table_run(tmp_path, frame, "data.parquet", wrong=WRONG_LABELS)
    export(run, "parquet", tmp_path / "clean.parquet", unreviewed="relabel")
    cleaned_table = pd.read_parquet(tmp_path / "clean.parquet")
    assert str(cleaned_table["label"].dtype) == "category"
    assert cleaned_table["label"].tolist() == ["v", "u", "u", "v", "w", "v", "w", "w", "u"]
    assert cleaned_table[["x", "y"]].equals(frame[["x", "y"]])


def test_what_is_no_table_becomes_ids_and_labels(tmp_path):
    run = image_run(tmp_path)
    export(run, "csv", tmp_path / "clean.csv", unreviewed="relabel")
    export(run, "parquet", tmp_path / "clean.parquet", unreviewed="relabel")
    frame = pd.read_csv(tmp_path / "clean.csv")
    assert frame.equals(pd.read_parquet(tmp_path / "clean.parquet").astype(frame.dtypes))
    labels = dict(zip(frame["id"], frame["label"], strict=True))
    assert len(labels) == 24
    moved_labels = {name: label for name, label in labels.items() if name.split("/")[0] != label}
    assert moved_labels == {
        "cat/1.png": "dog", "dog/1.png": "ship", "ship/1.png": "cat", "ship/2.jpg": "cat"
    }  # fmt: skip


def test_images_of_a_parquet_file_stay_out_of_a_csv(tmp_path):
    from pictures import encode, photo

    cells = [{"bytes": encode(photo(i)), "path": f"{i}.png"} for i in range(9)]
    table = pa.table({"image": cells, "label": CODES, "note": list("abcdefghi")})
    pq.write_table(table, tmp_path / "data.parquet")
    data = uqled.load(tmp_path / "data.parquet", cache=False)
    run = make_run(tmp_path / "run", data, WRONG_LABELS)
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
            assert "is not at" in result.output
            assert "--data" in result.output


def test_labels_of_a_csv_stay_as_they_are_written(tmp_path):
    place = tmp_path / "data.csv"
    lines = ["x,label", *(f"{i}.5,{['01', '02', '3.'][i % 3]}" for i in range(30))]
    place.write_text("\n".join(lines) + "\n")
    data = uqled.load(place, cache=False)
    run = make_run(tmp_path / "run", data, {0: 1, 4: 2})
    export(run, "csv", tmp_path / "out.csv", unreviewed="relabel")
    result = (tmp_path / "out.csv").read_text().splitlines()
    assert [i - 1 for i in range(31) if result[i] != lines[i]] == [0, 4]
    assert (result[1], result[5]) == ("0.5,02", "4.5,3.")


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
    assert "a folder of images, but the data is table" in result.output


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
    run = make_run(tmp_path / "run", data, WRONG_LABELS)
    export(run, "csv", tmp_path / "clean.csv")
    assert pd.read_csv(tmp_path / "clean.csv")["label"].tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(InputError, match="arrays in memory"):
        export(run, "huggingface", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


# ---- cleanlab's columns


def test_cleanlab_columns_are_those_of_datalab(tmp_path):
    from cleanlab import Datalab

    codes, wrong_labels = np.repeat([0, 1, 2], 30), {0: 1, 7: 1, 40: 2, 41: 2, 42: 2, 80: 0, 85: 0}
    data = uqled.Dataset.from_arrays(np.zeros((90, 2)), np.array(["u", "v", "w"])[codes])
    run = make_run(tmp_path / "run", data, wrong_labels, passes=False)
    for name in ("issues.parquet", "issues.csv"):
        export(run, "cleanlab", tmp_path / name, method="cl-pbnr")
    ours = pd.read_parquet(tmp_path / "issues.parquet")
    lab = Datalab({"label": data.labels.values[codes].tolist()}, label_name="label", verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cleanlab uses what pandas will drop
        lab.find_issues(pred_probs=probabilities(codes, 3, wrong_labels), issue_types={"label": {}})
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
    run = make_run(tmp_path / "run", uqled.Dataset.from_arrays(X, CODES), WRONG_LABELS)
    decide(run, (0, "keep", None), (5, "drop", None), (6, "relabel", 1), (7, "relabel", 2))
    export(run, "cleanlab", tmp_path / "issues.csv")
    frame = pd.read_csv(tmp_path / "issues.csv")
    model = CleanLearning(LogisticRegression(), verbose=False)
    model.fit(X, np.array(CODES), label_issues=frame)
    is_trained_on = ~model.get_label_issues()["is_label_issue"].to_numpy()
    assert np.flatnonzero(~is_trained_on).tolist() == [4, 5, 6, 8]
    expected = LogisticRegression().fit(X[is_trained_on], np.array(CODES)[is_trained_on])
    np.testing.assert_allclose(model.clf.coef_, expected.coef_)
    assert frame["corrected_label"].fillna(-1).astype(int).tolist() == [0, 0, 0, 1, 1, -1, 1, 2, 2]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_that_were_set_aside_stay_as_they_were(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=60).round(3).astype(str),
            "kind": np.repeat(["oak", "elm", "fir"], 20).astype(object),
            "note": ["a, b"] * 60,
        }
    )
    frame.loc[[4, 30], "kind"], frame.loc[50, "kind"] = None, "yew"
    if ending == "csv":
        lines = frame.to_csv(index=False, quoting=1, lineterminator="\r\n").encode("latin-1")
        Path("trees.csv").write_bytes(lines)
    else:
        frame.to_parquet("trees.parquet")
    data = uqled.load(
        f"trees.{ending}", label="kind", columns={"size": "number"}
    ).without_rare_classes(4)
    probs = np.full((57, 3), 0.1) + 0.7 * np.eye(3)[data.labels.codes]
    probs[10] = [0.8, 0.1, 0.1]  # row 11
    uqled.make_run(None, probs, out="run", data=data)
    words = ["export", "run", "--to", ending, "--out", f"out.{ending}", "--unreviewed", "relabel"]
    result = command(*words)
    assert result.exit_code == 0, result.output
    if ending == "csv":
        before, after = lines.split(b"\r\n"), Path("out.csv").read_bytes().split(b"\r\n")
        assert len(before) == len(after)
        changed_rows = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        assert changed_rows == [12]  # the header is line 0
    else:
        after = pd.read_parquet("out.parquet")
        assert after.loc[[4, 30], "kind"].isna().all()
        assert (after.loc[50, "kind"], after.loc[11, "kind"]) == ("yew", "elm")
        pd.testing.assert_frame_equal(after.drop(index=11), frame.drop(index=11))
    given_labels = restore_given_labels(f"out.{ending}")
    assert given_labels.tolist() == data.labels.values[data.labels.codes].tolist()


@pytest.mark.parametrize("kind", ["binary", "dictionary"])
@pytest.mark.parametrize("to", ["csv", "parquet", "huggingface"])
def test_labels_written_as_bytes(tmp_path, kind, to):
    names = ["cat", "dög"] * 15
    label = pa.array([name.encode() for name in names])
    label = label.dictionary_encode() if kind == "dictionary" else label
    table = pa.table({"x": np.arange(30.0), "note": [b"of the vet"] * 30, "species": label})
    pq.write_table(table, tmp_path / "data.parquet")
    data = uqled.load(tmp_path / "data.parquet", label="species")
    run = make_run(tmp_path / "run", data, {0: 1})
    out = tmp_path / ("out" if to == "huggingface" else f"out.{to}")
    export(run, to, out, unreviewed="relabel")
    assert restore_given_labels(out).tolist() == names
    names[0] = "dög"
    if to == "csv":
        frame = pd.read_csv(out)
        assert frame["species"].tolist() == names
        assert frame["note"].tolist() == ["of the vet"] * 30
    if to == "parquet":
        written = pq.read_table(out)
        assert written.schema.equals(table.schema)
        assert written["species"].to_pylist() == [name.encode() for name in names]
