"""Eight known sets, made small with their traps: what is read, what is said, and what is found.

The real ones, where they are, are read in the same way by `make test-slow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score
from typer.testing import CliRunner

import uqled
from made_predictions import SHARED_DATA
from made_tables import (
    COMMON_WORDS,
    WORDS,
    make_adult,
    make_news,
    make_penguins,
    make_sentence,
    make_spam,
    make_titanic,
)
from uqled.cli import app
from uqled.storage.run import Run


def make_banking(n=240):
    """`text,category`: short questions, many classes."""
    rng = np.random.default_rng(0)
    intents = [f"{verb}_{word}" for verb in ("lost", "order") for word in WORDS["money"][:6]]
    labels = rng.choice(intents, n)
    texts = [
        " ".join(rng.permutation([*label.split("_"), *rng.choice(COMMON_WORDS, 4)])) + "?"
        for label in labels
    ]
    return pd.DataFrame({"text": texts, "category": labels})


def make_sst(n=160):
    """`text,label`: sentences in tokens, the classes 0 and 1, with commas and quotation marks."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=n)
    texts = [make_sentence(rng, ("sport", "world")[k], 12) for k in labels]
    texts = [f'{text} , "really" , 1930s' if z % 5 == 0 else text for z, text in enumerate(texts)]
    return pd.DataFrame({"text": texts, "label": labels})


def make_diamonds(n=240):
    """Numbers and grades, of which `cut` is the label; in the order of the price but for a few."""
    rng = np.random.default_rng(0)
    carat = np.sort(rng.gamma(2, 0.3, n)).round(2) + 0.2
    cut = rng.choice(["Fair", "Good", "Ideal"], n, p=[0.2, 0.3, 0.5])
    depth = np.array([{"Fair": 66.0, "Good": 63.0, "Ideal": 61.0}[one] for one in cut])
    return pd.DataFrame(
        {
            "carat": carat,
            "cut": cut,
            "color": rng.choice(list("DEFGHIJ"), n),
            "clarity": rng.choice(["SI1", "SI2", "VS1", "VS2"], n),
            "depth": (depth + rng.normal(0, 0.6, n)).round(1),
            "table": (55 + 3 * (cut == "Fair") + rng.normal(0, 1, n)).round(),
            "price": (4000 * carat**1.5 * rng.uniform(0.7, 1.3, n)).round().astype(int),
        }
    )


def make_dirty_penguins():
    """With a date and a number in file order, two spellings, labels missing, one class rare."""
    frame = make_penguins()
    frame.insert(0, "nr", np.arange(1, 121))
    frame.insert(2, "date", pd.date_range("2020-01-01", periods=120).strftime("%Y-%m-%d"))
    frame["remark"] = None
    frame.loc[[3, 9], "species"], frame.loc[12, "species"] = "Adelie ", "adelie"
    frame.loc[[20, 21], "species"], frame.loc[30, "species"] = None, "King"
    return frame


def make_doubled_spam():
    """Ten texts are there twice, with both labels."""
    frame = make_spam(200)
    contradicting_rows = frame.iloc[:10].assign(
        v1=lambda f: f.v1.map({"ham": "spam", "spam": "ham"})
    )
    return pd.concat([frame, contradicting_rows], ignore_index=True)


@dataclass
class KnownSet:
    frame: pd.DataFrame
    label: str
    kind: str
    used: dict[str, str]
    unused: set[str] = field(default_factory=set)
    checks: set[str] = field(default_factory=set)
    n_classes: int = 2
    n_aside: int = 0
    """Rows without a label."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of `to_csv`."""
    least_f1: float = 0.6
    """Of a cheap model on twelve wrong labels; less where the columns hardly tell the class."""


def numbers(*names):
    return dict.fromkeys(names, "number")


def categories(*names):
    return dict.fromkeys(names, "category")


SETS = {
    "banking77": KnownSet(make_banking(), "category", "texts", {"text": "text"}, n_classes=12),
    "sst2": KnownSet(make_sst(), "label", "texts", {"text": "text"}),
    "adult": KnownSet(
        make_adult(240), "income", "table",
        numbers("age", "fnlwgt", "education-num", "hours-per-week") | categories("workclass"),
        least_f1=0.4,
    ),
    "diamonds": KnownSet(
        make_diamonds(), "cut", "table",
        numbers("carat", "depth", "table", "price") | categories("color", "clarity"),
        n_classes=3,
    ),
    "penguins": KnownSet(
        make_dirty_penguins(), "species", "table",
        numbers("bill_length_mm", "flipper_length_mm") | categories("island", "sex"),
        {"nr", "date", "remark"}, {"rare-classes", "missing-labels", "reading"},
        n_classes=4, n_aside=2,
    ),
    "titanic": KnownSet(
        make_titanic(300), "survived", "table",
        numbers("pclass", "age") | categories("sex", "alive") | {"name": "text"},
        {"PassengerId", "ticket"}, {"leak"}, least_f1=0.4,
    ),
    "spam": KnownSet(
        make_doubled_spam(), "v1", "texts", {"v2": "text"},
        {"Unnamed: 2", "Unnamed: 3", "Unnamed: 4"}, {"duplicates", "copies", "reading"},
        options={"encoding": "latin-1", "header": ["v1", "v2", "", "", ""]},
    ),
    "news": KnownSet(
        make_news(240), "label", "texts", {"title": "text", "description": "text"}, n_classes=3,
    ),
}  # fmt: skip


@pytest.fixture(params=SETS)
def case(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = SETS[request.param]
    one.frame.to_csv("t.csv", index=False, **one.options)
    return one


def list_roles(data):
    return {column.name: column.role for column in data.columns if column.is_used}


def test_what_is_read(case):
    data = uqled.load("t.csv", label=case.label)
    assert (data.kind, data.n_classes) == (case.kind, case.n_classes)
    assert (len(data), len(data.unlabelled)) == (
        len(case.frame) - case.n_aside,
        case.n_aside,
    )
    assert list_roles(data) == case.used
    unused = {column.name for column in data.columns if not column.is_used} - {case.label}
    assert unused == case.unused
    labels = case.frame[case.label].dropna().astype(str)
    names = np.array(data.labels.names)[data.labels.codes]
    assert (pd.Series(names).str.lower() == labels.str.strip().str.lower().to_numpy()).all()
    if case.kind == "texts":
        texts = case.frame[list(case.used)].agg("\n".join, axis=1)
        assert data.inputs.tolist() == texts.tolist()
    else:
        for name, role in case.used.items():
            before = case.frame.loc[case.frame[case.label].notna(), name].reset_index(drop=True)
            pd.testing.assert_series_equal(
                data.inputs[name].reset_index(drop=True), before, check_dtype=role != "category"
            )


def test_what_is_found_before_a_model(case):
    findings = uqled.inspect("t.csv", label=case.label).findings
    assert {one.check for one in findings} == case.checks


def test_what_is_said_and_found(case):
    """Twelve labels are wrong, and a cheap model finds most of them."""
    rng = np.random.default_rng(1)
    frame = case.frame.copy()
    names = frame[case.label].value_counts().index[: max(2, case.n_classes - 1)].tolist()
    rows = rng.choice(np.flatnonzero(frame[case.label].isin(names)), 12, replace=False)
    for row in rows:
        others = [name for name in names if name != frame.loc[row, case.label]]
        frame.loc[row, case.label] = rng.choice(others)
    frame.to_csv("t.csv", index=False, **case.options)
    words = ["find", "t.csv", "--label", case.label, "--model", "logistic", "--out", "run"]
    if "alive" in frame:
        words += ["--columns", "alive=ignore"]
    result = CliRunner().invoke(app, [*words, "--uncertainty", "none"])
    assert result.exit_code == 0, result.output
    used_columns = [name for name in case.used if name != "alive"]
    for text in (result.output, Path("run/report.html").read_text()):
        assert all(name in text for name in [*used_columns, *case.unused, "logistic"])
    run = Run.open("run")
    accuracy = f"{run.predictions().quality.accuracy:.1%}"
    assert f"model logistic: predicts {accuracy} as labelled" in result.output
    errors = uqled.find_label_errors(run.predictions())
    suspects = np.array(run.predictions().ids)[errors.suspects].astype(int)
    in_order = np.arange(len(frame))
    assert f1_score(np.isin(in_order, rows), np.isin(in_order, suspects)) > case.least_f1


#: Of each real set: file, label, samples, classes, kind, roles.
REAL_SETS = {
    "banking77": ("texts/banking77.csv", None, 10_003, 77, "texts", {"text": "text"}),
    "sst2": ("texts/sst2.csv", None, 6_920, 2, "texts", {"text": "text"}),
    "adult": (
        "tables/adult.csv", None, 32_561, 2, "table",
        numbers(
            "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"
        ) | categories(
            "workclass", "education", "marital-status", "occupation", "relationship", "race",
            "sex", "native-country",
        ),
    ),
    "diamonds": (
        "tables/diamonds.csv", "cut", 53_940, 5, "table",
        numbers("carat", "depth", "table", "price", "x", "y", "z")
        | categories("color", "clarity"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the folder of real data is not here")
@pytest.mark.parametrize("name", REAL_SETS)
def test_real_sets(name, tmp_path):
    """They are read as what they are, and added columns change no accuracy."""
    file, label, n, n_classes, kind, roles = REAL_SETS[name]
    data = uqled.load(SHARED_DATA / file, label=label)
    assert (len(data), data.n_classes, data.kind) == (n, n_classes, kind)
    assert list_roles(data) == roles
    checks = {one.check for one in uqled.inspect(data).findings}
    assert checks & {"leak", "numeric-target", "groups", "class-names", "rare-classes"} == set()
    accuracy = []
    frame = pd.read_csv(SHARED_DATA / file).iloc[:: n // 2_000].reset_index(drop=True)
    days = pd.date_range("2020-01-01", periods=len(frame), freq="h").astype(str)
    more = frame.assign(nr=np.arange(len(frame)), written=days, version="v1")
    for at, table in enumerate((frame, more)):
        table.to_csv(tmp_path / f"{at}.csv", index=False)
        dataset = uqled.load(tmp_path / f"{at}.csv", label=label or data.source["label"])
        assert list_roles(dataset) == roles
        run = uqled.cross_validate(dataset, "logistic", folds=3, passes=1, uncertainty="none",
                                   out=tmp_path / str(at), progress=False)  # fmt: skip
        accuracy.append(run.accuracy)
    assert abs(accuracy[0] - accuracy[1]) <= 0.01
