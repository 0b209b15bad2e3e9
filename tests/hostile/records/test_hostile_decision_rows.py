"""Rows of a `decisions.sqlite` that no reviewer wrote: edited by hand, or made for it."""

from __future__ import annotations

import re

import pytest

from decision_files import check_refusal, edit, undo, use, within
from uqled.errors import FileError, LimitError
from uqled.limits import override_limits
from uqled.review.decisions import Decisions

LARGEST_INTEGER = 2**63 - 1


#: An UPDATE of the change that decided sample 4 (number 2, batch 1), and what the error says.
ROWS = {
    "sample = 50": "sample 50",
    "sample = -1": "sample -1",
    "sample = 'four'": "sample 'four'",
    "sample = 4.5": "sample 4.5",
    f"sample = {LARGEST_INTEGER}": f"sample {LARGEST_INTEGER}",
    "sample = x'04'": "sample b'\\x04'",
    "action = 'burn'": "action 'burn'",
    "action = ''": "action ''",
    "action = 7": "action '7'",
    "action = x'64726f70'": "action b'drop'",
    "action = NULL": "label 2 for action None",
    "action = 'keep'": "label 2 for action 'keep'",
    "action = 'drop'": "label 2 for action 'drop'",
    "label = NULL": "label None for action 'relabel'",
    "label = 3": "label 3",
    "label = -1": "label -1",
    "label = 'b'": "label 'b'",
    "label = 1.5": "label 1.5",
    "label = x'01'": "label b'\\x01'",
    f"label = {LARGEST_INTEGER}": f"label {LARGEST_INTEGER}",
    "reviewer = ''": "reviewer ''",
    "reviewer = ' ana'": "reviewer ' ana'",
    "reviewer = x'616e61'": "reviewer b'ana'",
    "reviewer = 'a' || char(10)": "reviewer 'a\\n'",
    "reviewer = 'a' || char(27) || '[31m'": "reviewer 'a\\x1b[31m'",
    "reviewer = CAST(x'61ff' AS TEXT)": "cannot be used for decisions (Could not decode",
    "reviewer = CAST(zeroblob(100) AS TEXT)": "reviewer '\\x00",
    "reviewer = replace(hex(zeroblob(41)), '00', 'xy')": "reviewer 'xyxy",
    "at = 'soon'": "at 'soon'",
    "at = 1e999": "at inf",
    "at = -1e999": "at -inf",
    "at = -1": "at -1.0",
    "at = 1e300": "at 1e+300",
    "at = x'00'": "at b'\\x00'",
    "version = 0": "version 0",
    "version = -3": "version -3",
    "version = 'one'": "version 'one'",
    f"version = {LARGEST_INTEGER}": f"version {LARGEST_INTEGER}",
    "undoes = 1": "undoes 1",
    "undoes = -1": "undoes -1",
    "undoes = 'x'": "undoes 'x'",
    f"undoes = {LARGEST_INTEGER}": f"undoes {LARGEST_INTEGER}",
    "batch = 0": "batch 0",
    "batch = 3": "batch 3",
    "batch = 'x'": "batch 'x'",
}  # fmt: skip


def read(path, work):
    with Decisions(path, n_samples=50, classes=["a", "b", "c"]) as decisions:
        work(decisions)


@pytest.mark.parametrize("change", ROWS)
def test_impossible_rows_are_refused(path, change):
    edit(path, f"UPDATE changes SET {change} WHERE number = 2")
    if change.startswith("sample = "):  # else `latest` names a change of another sample
        edit(path, "UPDATE latest SET sample = (SELECT sample FROM changes WHERE number = 2)"
                   " WHERE sample = 4 AND typeof((SELECT sample FROM changes WHERE number = 2))"
                   " = 'integer'")  # fmt: skip
    before = path.read_bytes()
    refused_rows = []
    for work in (Decisions.current, Decisions.history, lambda decisions: decisions.verdicts(50)):
        error = within(20, read, path, work)
        assert error is None or isinstance(error, FileError), repr(error)
        if error is not None:
            assert str(error).startswith(f"file {str(path)!r} ")
            assert ROWS[change] in str(error)
            assert re.search("change 2 |does not fit its changes|Could not decode", str(error))
            refused_rows.append(work)
    assert len(refused_rows) == (
        1 if change == "action = NULL" else 3
    )  # no decision: not read there
    assert path.read_bytes() == before  # nothing was mended
    error = within(20, use, path)
    assert isinstance(error, FileError)


@pytest.mark.parametrize("number", [0, -7, LARGEST_INTEGER, 2**60])
def test_impossible_numbers_of_changes_are_refused(path, number):
    edit(path, f"UPDATE changes SET number = {number} WHERE number = 2",
         f"UPDATE latest SET number = {number} WHERE number = 2")  # fmt: skip
    for work in (lambda d: d.history(-(2**63)), lambda d: d.current()):
        with Decisions(path) as decisions, pytest.raises(FileError, match=f"change {number} "):
            work(decisions)
    with Decisions(path) as decisions, pytest.raises(FileError, match=f"change {number} "):
        decisions.decide([(9, "drop", None), (4, "drop", None)], reviewer="ana")


LINKS = {
    "a sample without its latest": ["DELETE FROM latest WHERE sample = 4"],
    "a latest without its change": ["DELETE FROM changes WHERE number = 2"],
    "a latest that is not the last": ["UPDATE latest SET number = 1 WHERE sample = 3"],
    "a latest of another sample": ["UPDATE latest SET number = 3 WHERE sample = 4"],
    "a latest of nothing": ["INSERT INTO latest VALUES (8, 99)"],
    "a latest that is no number": ["UPDATE latest SET number = 'x' WHERE sample = 4"],
}


@pytest.mark.parametrize("name", LINKS)
def test_decisions_that_do_not_fit_their_changes_are_refused(path, name):
    """Else the page, which reads all changes, would say something else than an export."""
    edit(path, *LINKS[name])
    check_refusal(path, "does not fit")


def test_an_undo_of_what_is_not_there_ends(path):
    """The decision that an undo brought back is looked for step by step."""
    edit(path, "INSERT INTO changes VALUES (6, 6, 7, 'drop', NULL, 'eve', '', 1e9, 1, NULL)",
         "INSERT INTO changes VALUES (7, 7, 7, NULL, NULL, 'eve', '', 1e9, 2, 6)",
         "INSERT INTO latest VALUES (7, 7)")  # fmt: skip
    with Decisions(path) as decisions:  # the undo of 6 that it seems to be
        assert decisions.undo("eve") == []
    edit(path, "DELETE FROM undone", "UPDATE changes SET version = 3 WHERE number = 6")
    error = within(20, undo, path, "eve")
    assert isinstance(error, FileError)
    assert "takes back" in str(error)
    edit(path, "DELETE FROM undone", "UPDATE changes SET undoes = 2 WHERE number = 7",
         "UPDATE changes SET version = 1 WHERE number = 6")  # fmt: skip
    error = within(20, undo, path, "eve")
    assert isinstance(error, FileError)
    assert "takes back" in str(error)


ABOUT = {
    "samples": ["'x'", "'\"50\"'", "'50.0'", "'-1'", "'1e999'", "'[50]'", "'null'", "'true'",
                "printf('%05000d', 1)", "x'3530'"],
    "classes": ["'{}'", "'\"abc\"'", "'[]'", "'[1, 2]'", "'['", "'null'",
                "replace(hex(zeroblob(50000)), '00', '[')"],
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(k, v) for k in ABOUT for v in ABOUT[k]])
def test_impossible_descriptions_are_refused(path, key, value):
    edit(path, f"UPDATE about SET value = {value} WHERE key = '{key}'")
    check_refusal(path, f"description has {key}")


def test_descriptions_with_too_much_or_too_little_are_refused(path):
    edit(path, "INSERT INTO about VALUES ('owner', '1')")
    check_refusal(path, "description has owner")
    edit(path, "DELETE FROM about WHERE key IN ('owner', 'classes')")
    check_refusal(path, "description has no classes")
    edit(path, "DELETE FROM about")
    check_refusal(path, "description has no samples")
    edit(path, "INSERT INTO about VALUES ('samples', '50'), ('classes', '[\"a\",\"b\",\"c\"]')",
         "INSERT INTO about VALUES ('ids', '7')")  # fmt: skip
    check_refusal(path, "description has ids")


def test_a_damaged_row_is_found_while_the_file_is_open(path):
    with Decisions(path) as decisions:
        edit(path, "UPDATE changes SET label = 99 WHERE number = 2")
        for read in (decisions.current, decisions.history, lambda: decisions.verdicts(50)):
            with pytest.raises(FileError, match="change 2 has label 99"):
                read()
        with pytest.raises(FileError, match="change 2 has label 99"):
            decisions.decide([(4, "drop", None)], reviewer="ana")


def test_more_changes_than_the_limit_are_refused(path):
    with Decisions(path) as decisions:
        with override_limits(decision_rows=5):
            assert len(decisions.history()) == 5
        with override_limits(decision_rows=4), pytest.raises(LimitError, match="decision_rows"):
            decisions.history()
        with override_limits(decision_rows=1), pytest.raises(LimitError, match="decision_rows"):
            decisions.current()
