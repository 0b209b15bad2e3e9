"""Ids, dates in file order and constants, added to any table, change nothing that a model sees."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from made_tables import make_adult, make_mushrooms, make_news, make_penguins, make_titanic
from uqled import cross_validate, load
from uqled.data.tables.column_roles import infer_table_column
from uqled.data.tables.columns import describe_columns


def spread(n, n_each):
    """The days of `n` rows, several of which are of one day."""
    return pd.DatetimeIndex(np.repeat(pd.date_range("2021-03-01", periods=n), n_each)[:n])


def make_days(n):
    return pd.date_range("2021-03-01 07:30", periods=n, freq="7h")


def swap(n):
    order = np.arange(n)
    order[[3, 9]] = order[[9, 3]]
    return order


#: Columns that say nothing of a row but which one it is, or when it was written.
ADDED_COLUMNS = {
    "serial": lambda n: np.arange(500, 500 + n),
    "steps": lambda n: 10 * np.arange(n) + 7,
    "downwards": lambda n: np.arange(n)[::-1],
    "gaps": lambda n: np.cumsum(np.random.default_rng(0).integers(1, 9, n)),
    "with holes": lambda n: np.where(np.arange(n) % 17, np.arange(n), np.nan),
    "begins again": lambda n: np.arange(n) % (n // 2 + 1) + 1,
    "another order": lambda n: np.random.default_rng(0).permutation(n) + 10**6,
    "blocks of two": lambda n: np.arange(n) // 2,
    # Fewer than ten blocks are not judged.
    "blocks of three": lambda n: np.arange(n) // (3 if n >= 30 else 2),
    "user_id": lambda n: np.random.default_rng(0).permutation(n) * 7 + 10**6,
    "padded": lambda n: [f"{x:06}" for x in range(n)],
    "thousands": lambda n: [f"{x:,}" for x in range(10_000, 10_000 + n)],
    "uuid": lambda n: [f"{x:016x}" for x in np.random.default_rng(0).integers(0, 2**62, n)],
    "code": lambda n: [f"INV-{x:05}" for x in range(n)],
    "words": lambda n: [f"sample number {x}" for x in range(n)],
    "address": lambda n: [f"https://example.org/item/{x}" for x in range(n)],
    "mail": lambda n: [f"user{x}@example.org" for x in range(n)],
    "day": lambda n: make_days(n).strftime("%Y-%m-%d"),
    "rows of a day": lambda n: spread(n, 4).strftime("%Y-%m-%d"),
    "backwards": lambda n: make_days(n)[::-1].strftime("%Y-%m-%d"),
    "nearly in order": lambda n: make_days(n)[swap(n)].strftime("%Y-%m-%dT%H:%M:%S"),
    "zone": lambda n: make_days(n).strftime("%Y-%m-%dT%H:%M:%S+02:00"),
    "us": lambda n: make_days(n).strftime("%m/%d/%Y %I:%M %p"),
    "de": lambda n: make_days(n).strftime("%d.%m.%Y"),
    "month": lambda n: spread(n, 4).strftime("%B %Y"),
    "year-month": lambda n: spread(n, 4).strftime("%Y-%m"),
    "long": lambda n: make_days(n).strftime("%A, %B %d, %Y"),
    "written": lambda n: make_days(n).strftime("%d %b %Y %H:%M"),
    "mail date": lambda n: make_days(n).strftime("%a, %d %b %Y %H:%M:%S +0000"),
    "yyyymmdd": lambda n: spread(n, 4).strftime("%Y%m%d").astype(int),
    "compact": lambda n: make_days(n).strftime("%Y%m%d%H%M%S"),
    "stamp": lambda n: make_days(n).astype("int64") // 10**9,
    "excel": lambda n: 44_000 + np.arange(n) // 4,
    "clock": lambda n: pd.date_range("2021-03-01", periods=n, freq="20s").strftime("%H:%M:%S"),
    "constant": lambda n: ["v1.2"] * n,
    "number": lambda n: [3.0] * n,
    "empty": lambda n: [np.nan] * n,
    "blank": lambda n: [" "] * n,
    "n/a": lambda n: ["n/a"] * n,
    "yes": lambda n: [True] * n,
}

DIGITS = load_digits(as_frame=True).frame.iloc[:240]
#: Name -> (table, label): those of scikit-learn, and the known ones as they are made here.
TABLES = {
    "iris": (load_iris(as_frame=True).frame, "target"),
    "wine": (load_wine(as_frame=True).frame, "target"),
    "breast cancer": (load_breast_cancer(as_frame=True).frame.iloc[::3], "target"),
    "digits": (DIGITS, "target"),
    "penguins": (make_penguins(), "species"),
    "adult": (make_adult(), "income"),
    "mushrooms": (make_mushrooms(), "class"),
    "titanic": (make_titanic().drop(columns="alive"), "survived"),
    "news": (make_news().assign(size=np.arange(120) % 7), "label"),
}


@pytest.mark.parametrize("order", ["as it is", "sorted"])
@pytest.mark.parametrize("name", TABLES)
def test_they_change_no_accuracy(tmp_path, name, order):
    frame, label = TABLES[name]
    frame = frame.sort_values(label) if order == "sorted" else frame
    frame = frame.reset_index(drop=True)
    more = pd.DataFrame({one: make(len(frame)) for one, make in ADDED_COLUMNS.items()})
    accuracy = []
    for at, table in enumerate((frame, pd.concat([more, frame], axis=1))):
        table.to_csv(tmp_path / f"{at}.csv", index=False)
        data = load(tmp_path / f"{at}.csv", label=label)
        run = cross_validate(data, "logistic", folds=3, passes=1, uncertainty="none",
                             out=tmp_path / str(at), progress=False)  # fmt: skip
        accuracy.append(run.accuracy)
    used_columns = {column.name for column in data.columns if column.is_used}
    assert used_columns & set(ADDED_COLUMNS) == set()
    assert used_columns <= set(frame.columns)
    assert abs(accuracy[0] - accuracy[1]) <= 0.01
    assert describe_columns(data.columns)[2].startswith("left out: serial (a serial number")


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(list(ADDED_COLUMNS)), st.integers(24, 300))
def test_they_are_recognised_in_tables_of_any_length(name, n):
    content = pd.DataFrame({name: ADDED_COLUMNS[name](n), "x": 1}).to_csv(index=False)
    column = infer_table_column(pd.read_csv(io.StringIO(content)), name)
    assert not column.is_used, column
    assert column.reason


#: Columns that are like those above and say something all the same.
KEPT_COLUMNS = {
    "hour": (lambda n: np.arange(n) % 24, "number"),
    "age": (lambda n: np.sort(np.random.default_rng(0).integers(18, 80, n)), "number"),
    "price": (lambda n: np.random.default_rng(0).permutation(3 * np.arange(n)), "number"),
    "year": (lambda n: 1990 + np.random.default_rng(0).integers(0, 30, n), "number"),
    "amount": (lambda n: np.random.default_rng(0).integers(10**7, 10**8, n), "number"),
    "grade": (lambda n: np.repeat([1, 2, 3, 4], n // 4), "number"),
    "rooms": (lambda n: [f"{x % 7} rooms in {x % 5} floors" for x in range(n)], "category"),
    "city": (lambda n: np.sort(np.random.default_rng(0).choice(list("abcdefg"), n)), "category"),
    "day": (
        lambda n: np.random.default_rng(0).permutation(spread(n, 2).strftime("%Y%m%d").astype(int)),
        "date",
    ),
    "month": (lambda n: np.random.default_rng(0).permutation(ADDED_COLUMNS["month"](n)), "date"),
}


@pytest.mark.parametrize("name", KEPT_COLUMNS)
def test_columns_that_say_something_are_kept(name):
    make, role = KEPT_COLUMNS[name]
    content = pd.DataFrame({name: make(240), "x": 1}).to_csv(index=False)
    column = infer_table_column(pd.read_csv(io.StringIO(content)), name)
    assert (column.is_used, column.role) == (True, role)


def test_dates_as_one_number_have_months_and_weekdays(tmp_path):
    days = np.random.default_rng(0).permutation(spread(120, 2))
    frame = make_penguins().assign(day=pd.DatetimeIndex(days).strftime("%Y%m%d"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv", label="species")
    assert data.inputs["day month"].tolist() == pd.DatetimeIndex(days).month.tolist()
    assert data.inputs["day weekday"].tolist() == pd.DatetimeIndex(days).day_of_week.tolist()
