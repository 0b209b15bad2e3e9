"""Rows of a table beside each other, against shares and distances counted here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uqled.report.table_rows import TableRows

CODES = np.repeat([0, 1], 100)


def names(frame, index, label=0, suggested=1, codes=CODES):
    columns = TableRows(frame, codes).find_unusual_columns(index, label, suggested)
    return [one.name for one in columns]


def test_a_number_and_a_category_are_unusual_by_the_same_measure():
    ages = np.concatenate([np.arange(100), np.arange(-40, 60)])
    jobs = np.array((["clerk"] * 8 + ["other"] * 92) + (["clerk"] * 60 + ["other"] * 40), object)
    frame = pd.DataFrame({"age": ages, "job": jobs})
    # Of class 0, 6 are 5 or younger, and 8 are clerks; of class 1 it is 46 and 60.
    first, second = TableRows(frame, CODES).find_unusual_columns(5, 0, 1)
    assert [first.name, second.name] == ["age", "job"]  # 46.5 / 6.5 is more than 60.5 / 8.5
    assert (first.value, first.usual_given) == ("5", "24.75 to 74.25")
    assert (second.usual_given, second.usual_suggested) == ("8% have it", "60% have it")
    assert names(frame, 23) == ["age"]
    assert names(frame, 26) == []  # between the quartiles
    assert names(frame, 5, label=1, suggested=0) == []
    assert names(frame, 5, label=0, suggested=0) == []


def test_what_may_be_chance_is_not_unusual():
    codes = np.repeat([0, 1], 10)
    jobs = np.array(["a"] * 9 + ["b"] + ["a"] * 7 + ["b"] * 3, object)
    assert names(pd.DataFrame({"job": jobs}), 9, codes=codes) == []
    frame = pd.DataFrame({"job": np.concatenate([np.tile(jobs[:10], 10), np.tile(jobs[10:], 10)])})
    assert names(frame, 9) == ["job"]


@pytest.mark.parametrize(
    "column",
    [
        pd.array([None, *range(199)], "Int64"),
        [np.nan, *np.linspace(0, 1, 199)],
        [None, *["a"] * 199],
        pd.array([None, *["a"] * 199], "string"),
        pd.to_datetime([None, *["2020-01-01"] * 199]),
        [["a", "list"]] * 200,
        pd.Categorical(["a"] * 200),
        [np.inf] * 200,
    ],
    ids=["Int64", "float", "object", "string", "dates", "lists", "category", "infinite"],
)
def test_missing_and_odd_values_are_no_evidence(column):
    frame = pd.DataFrame({"odd": column, "size": np.where(CODES == 0, 1.0, 9.0)})
    frame.loc[0, "size"] = 9.0
    frame.loc[100, "odd"] = column[0]  # among those that are compared, too
    rows = TableRows(frame, CODES)
    assert [one.name for one in rows.find_unusual_columns(0, 0, 1)] == ["size"]
    assert len(rows.find_nearest(0, 1, 3)) == 3
    assert set(rows.find_nearest(0, 1, 3)) <= set(range(100, 200))


def test_the_nearest_rows_are_those_that_differ_least():
    rng = np.random.default_rng(0)
    sizes, colours = rng.random(200), rng.choice(["red", "blue", "green"], 200)
    frame = pd.DataFrame({"size": sizes, "colour": colours})
    members = np.flatnonzero(CODES == 1)
    low, high = np.percentile(sizes[members], [5, 95])
    for index in (0, 150):
        distance = np.minimum(np.abs(sizes[members] - sizes[index]) / (high - low), 1)
        distance = distance + (colours[members] != colours[index])
        expected = [i for i in members[np.argsort(distance, kind="stable")] if i != index][:3]
        if index == 0:
            assert TableRows(frame, CODES).find_nearest(index, 1, 3) == expected
        assert set(TableRows(frame, CODES).find_nearest(index, 1, 3)) == set(expected)
    assert TableRows(frame, np.zeros(200, int)).find_nearest(0, 1, 3) == []
    numbers = np.stack([sizes, -sizes], axis=1)
    assert TableRows(numbers, CODES).find_nearest(0, 1, 1) == [
        members[np.abs(sizes[members] - sizes[0]).argmin()]
    ]
