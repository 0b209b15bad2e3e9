"""Decisions on disk, the listing of flags, and the advice on when to stop."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import uqled
from review_runs import image_run
from uqled import InputError
from uqled.detect.find import find_label_errors
from uqled.detect.reasons import REASONS, reasons
from uqled.errors import FileError
from uqled.review.advice import advice, wilson
from uqled.review.decisions import ConflictError, Decisions
from uqled.review.listing import STATES, Asked, Listing, Standing

# ---- decisions


@pytest.fixture
def decisions(tmp_path):
    with Decisions(tmp_path / "decisions.sqlite", n_samples=50, classes=["a", "b", "c"]) as found:
        yield found


def states(decisions):
    return {i: (one.action, one.label) for i, one in decisions.current().items()}


def test_decisions_are_there_when_opened_again(decisions):
    decisions.decide([(3, "keep", None), (4, "relabel", 2), (5, "drop", None)], reviewer="ana")
    with Decisions(decisions.path) as again:
        assert states(again) == {3: ("keep", None), 4: ("relabel", 2), 5: ("drop", None)}
        actions, labels = again.verdicts(50)
    assert np.flatnonzero(actions).tolist() == [3, 4, 5]
    assert actions[3:6].tolist() == [1, 2, 3]
    assert labels[3:6].tolist() == [-1, 2, -1]
    assert actions.dtype == np.int8
    assert labels.dtype == np.int32


def test_every_commit_is_flushed(decisions):
    [(mode,)] = decisions._connection.execute("PRAGMA journal_mode")
    [(synchronous,)] = decisions._connection.execute("PRAGMA synchronous")
    assert (mode, synchronous) == ("wal", 2)  # 2 is FULL


def test_a_newer_version_is_a_conflict_and_nothing_is_written(decisions):
    decisions.decide([(7, "keep", None)], reviewer="ana", seen={7: 0})
    with pytest.raises(ConflictError, match="samples 7 were decided by ana") as caught:
        decisions.decide([(6, "drop", None), (7, "drop", None)], reviewer="bo", seen={6: 0, 7: 0})
    assert caught.value.indices == [7]
    assert caught.value.now[0].action == "keep"
    assert states(decisions) == {7: ("keep", None)}
    with pytest.raises(ConflictError):  # a version that was not named counts as not seen
        decisions.decide([(7, "drop", None)], reviewer="bo", seen={})
    [now] = decisions.decide([(7, "drop", None)], reviewer="bo", seen={7: 1})
    assert (now.action, now.version, now.reviewer) == ("drop", 2, "bo")


def test_undecided_again_still_has_a_version(decisions):
    decisions.decide([(1, "keep", None)], reviewer="ana")
    decisions.decide([(1, None, None)], reviewer="ana")
    assert decisions.current() == {}
    with pytest.raises(ConflictError):
        decisions.decide([(1, "drop", None)], reviewer="bo", seen={1: 0})


def test_undo_goes_back_step_by_step(decisions):
    decisions.decide([(1, "keep", None), (2, "keep", None)], reviewer="ana")
    decisions.decide([(1, "drop", None)], reviewer="ana")
    decisions.decide([(1, "relabel", 1)], reviewer="ana")
    assert decisions.undo("ana") == [1]
    assert states(decisions) == {1: ("drop", None), 2: ("keep", None)}
    assert decisions.undo("ana") == [1]
    assert states(decisions) == {1: ("keep", None), 2: ("keep", None)}
    assert decisions.undo("ana") == [1, 2]
    assert states(decisions) == {}
    assert decisions.undo("ana") == []
    decisions.decide([(1, "drop", None)], reviewer="ana")  # and on from there
    assert decisions.undo("ana") == [1]
    assert states(decisions) == {}
    assert [change.version for change in decisions.history() if change.index == 1] == [*range(1, 9)]


def test_undo_leaves_what_others_decided_since(decisions):
    decisions.decide([(1, "keep", None), (2, "keep", None)], reviewer="ana")
    decisions.decide([(2, "drop", None)], reviewer="bo")
    assert decisions.undo("ana") == [1]
    assert states(decisions) == {2: ("drop", None)}
    assert decisions.undo("ana") == []
    assert decisions.undo("bo") == [2]
    assert states(decisions) == {2: ("keep", None)}


def test_undo_looks_further_back_after_a_step_that_others_changed(decisions):
    decisions.decide([(1, "keep", None)], reviewer="ana")
    decisions.decide([(2, "keep", None)], reviewer="ana")
    decisions.decide([(2, "drop", None)], reviewer="bo")
    assert decisions.undo("ana") == []
    assert decisions.undo("ana") == [1]
    assert states(decisions) == {2: ("drop", None)}


def test_each_tab_takes_back_its_own(decisions):
    decisions.decide([(1, "keep", None)], reviewer="ana", tab="one")
    decisions.decide([(2, "keep", None)], reviewer="ana", tab="two")
    assert decisions.undo("ana", tab="one") == [1]
    assert decisions.undo("ana", tab="one") == []
    assert decisions.undo("ana") == [2]


def test_the_same_decision_again_is_no_change(decisions):
    decisions.decide([(1, "keep", None)], reviewer="ana")
    [again] = decisions.decide([(1, "keep", None)], reviewer="bo")
    assert (again.version, again.reviewer) == (1, "ana")
    assert len(decisions.history()) == 1


@pytest.mark.parametrize(
    ("item", "named"),
    [
        ((50, "keep", None), "index is 50"),
        ((-1, "keep", None), "index is -1"),
        ((True, "keep", None), "index is True"),
        ((1, "burn", None), "action is 'burn'"),
        ((1, "relabel", None), "label is None"),
        ((1, "relabel", 3), "label is 3"),
        ((1, "keep", 1), "label is 1"),
    ],
)
def test_impossible_decisions_are_refused(decisions, item, named):
    with pytest.raises(InputError, match=named):
        decisions.decide([(0, "keep", None), item], reviewer="ana")
    assert decisions.current() == {}


def test_a_sample_is_decided_once_per_call_by_somebody(decisions):
    with pytest.raises(InputError, match="twice"):
        decisions.decide([(1, "keep", None), (1, "drop", None)], reviewer="ana")
    for name in ("", "  ", "x" * 81, "a\x00b", "\ud800", None):
        with pytest.raises(InputError, match="reviewer"):
            decisions.decide([(1, "keep", None)], reviewer=name)


def test_decisions_of_another_run_are_refused(decisions):
    path = decisions.path
    with pytest.raises(FileError, match="other number of samples"):
        Decisions(path, n_samples=51, classes=["a", "b", "c"])
    with pytest.raises(FileError, match="other classes"):
        Decisions(path, n_samples=50, classes=["a", "b", "x"])
    with pytest.raises(InputError, match="50 samples"):
        decisions.verdicts(51)
    with Decisions(path.with_name("i"), n_samples=2, classes=["a"], ids=["x", "y"]):
        pass
    with pytest.raises(FileError, match="other samples"):
        Decisions(path.with_name("i"), n_samples=2, classes=["a"], ids=["x", "z"])


def test_what_is_no_file_of_decisions_is_refused(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        Decisions(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("no data base, but long enough to look like one " * 9)
    with pytest.raises(FileError, match="cannot be used"):
        Decisions(tmp_path / "text.sqlite", n_samples=2, classes=["a", "b"])
    sqlite3.connect(tmp_path / "empty.sqlite").close()
    with pytest.raises(FileError, match="cannot be used"):
        Decisions(tmp_path / "empty.sqlite")
    with pytest.raises(FileError, match="cannot be used"):
        Decisions(tmp_path / "no folder" / "x.sqlite", n_samples=2, classes=["a", "b"])


WRITER = """
import sys
from uqled.review.decisions import ConflictError, Decisions
path, name, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = {}
with Decisions(path, n_samples=200_000, classes=["a", "b"]) as decisions:
    for i in range(first, 100_000, 2):
        shared = i % 100 // 2  # both write to these
        while True:
            try:
                [done] = decisions.decide([(shared, "relabel", first)], reviewer=name, seen=seen)
                seen[shared] = done.version
                break
            except ConflictError as conflict:
                seen[shared] = conflict.now[0].version
        [done] = decisions.decide([(100 + i, "drop", None)], reviewer=name)
        print(done.index, done.version, flush=True)
"""


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path):
    """Two processes write as fast as they can and are killed with SIGKILL."""
    path = tmp_path / "decisions.sqlite"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(first)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for first, name in enumerate(("ana", "bo"))
    ]
    # Until both have done some; then the storm goes on, and is cut off somewhere.
    began = ["".join(writer.stdout.readline() for _ in range(40)) for writer in writers]
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
    acknowledged = []
    for writer, line in zip(writers, began, strict=True):
        with writer:
            *whole, _ = (line + writer.stdout.read()).split("\n")
        assert writer.returncode == -signal.SIGKILL
        acknowledged.append([tuple(map(int, line.split())) for line in whole])
    with Decisions(path) as decisions:
        history = decisions.history()
        actions, _ = decisions.verdicts(200_000)
        [(sound,)] = decisions._connection.execute("PRAGMA integrity_check")
    assert sound == "ok"
    there = {(change.reviewer, change.index, change.version) for change in history}
    for name, found in zip(("ana", "bo"), acknowledged, strict=True):
        assert len(found) >= 40
        assert there.issuperset((name, *one) for one in found)
        assert all(actions[index] == 3 for index, _ in found)
    for index in range(50):  # both decided there, and each version was written once
        of_both = [change for change in history if change.index == index]
        assert [change.version for change in of_both] == list(range(1, len(of_both) + 1))
    assert {change.reviewer for change in history if change.index < 50} == {"ana", "bo"}


# ---- the listing


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    return image_run(tmp_path_factory.mktemp("listing"), N=400).predictions()


@pytest.fixture(scope="module")
def errors(predictions):
    return find_label_errors(predictions, method="all")


@pytest.fixture
def standing(predictions, tmp_path):
    classes = predictions.labels.names
    with Decisions(tmp_path / "d.sqlite", n_samples=len(predictions), classes=classes) as found:
        yield Standing(found, len(predictions))


def pages(flags, asked, standing, size):
    found, start = [], 0
    while True:
        page = flags.page(asked, standing, start=start, size=size)
        assert page.before == len(found)
        found += page.indices.tolist()
        if page.before + len(page.indices) == page.total:
            return found
        start = int(page.places[-1]) + 1


def test_pages_together_are_the_ranking(errors, predictions, standing):
    listing = Listing(errors, predictions)
    for method, one in errors.by_method.items():
        flags = listing.of(method)
        assert pages(flags, Asked(method), standing, 7) == one.ranked.tolist()
        shuffled = pages(flags, Asked(method, order="random"), standing, 7)
        assert sorted(shuffled) == sorted(one.ranked.tolist())
        assert len(shuffled) < 3 or shuffled != one.ranked.tolist()


def test_filters_keep_what_they_say(errors, predictions, standing):
    flags = Listing(errors, predictions).of(errors.method)
    ranked, given, best = errors.ranked, errors.labels.codes, errors.best
    why = reasons(given, None, predictions.passes, ranked)
    standing.decisions.decide(
        [(int(ranked[0]), "keep", None), (int(ranked[2]), "drop", None)], reviewer="ana"
    )
    standing.refresh()
    expected = {
        Asked(errors.method, given=1): [z for z in ranked if given[z] == 1],
        Asked(errors.method, suggested=2): [z for z in ranked if best[z] == 2],
        Asked(errors.method, given=1, suggested=2): [
            z for z in ranked if given[z] == 1 and best[z] == 2
        ],
        Asked(errors.method, state="undecided"): [
            z for z in ranked if z not in (ranked[0], ranked[2])
        ],
        Asked(errors.method, state="decided"): [ranked[0], ranked[2]],
        Asked(errors.method, state="keep"): [ranked[0]],
        Asked(errors.method, state="drop"): [ranked[2]],
        Asked(errors.method, state="relabel"): [],
    } | {
        Asked(errors.method, reason=reason): [
            z for z, one in zip(ranked, why, strict=True) if one == reason
        ]
        for reason in REASONS
    }
    assert {asked.state for asked in expected} == {None, *STATES}
    for asked, wanted in expected.items():
        assert pages(flags, asked, standing, 5) == [int(z) for z in wanted], asked


def test_a_decision_does_not_make_the_next_page_skip_samples(errors, predictions, standing):
    flags = Listing(errors, predictions).of(errors.method)
    asked = Asked(errors.method, state="undecided")
    first = flags.page(asked, standing, start=0, size=5)
    standing.decisions.decide([(int(i), "keep", None) for i in first.indices], reviewer="ana")
    standing.refresh()
    second = flags.page(asked, standing, start=int(first.places[-1]) + 1, size=5)
    assert second.indices.tolist() == errors.ranked[5:10].tolist()
    back = flags.page(Asked(errors.method), standing, start=5, size=3, backwards=True)
    assert back.indices.tolist() == errors.ranked[2:5].tolist()


def test_rows_say_what_the_method_found(errors, predictions, standing):
    """Of alg-ens, the mean of the passes."""
    flags = Listing(errors, predictions).of("alg-ens-3")
    page = flags.page(Asked("alg-ens-3"), standing, start=0, size=20)
    mean = np.asarray(predictions.passes, np.float64).mean(axis=0)
    for row in flags.rows(page, standing):
        i = row["index"]
        assert row["given"] == predictions.labels.codes[i]
        assert row["suggested"] == np.argmax(mean[i])
        assert dict(map(tuple, row["classes"]))[row["given"]] == pytest.approx(
            mean[i, row["given"]], abs=1e-4
        )
        assert row["id"] == predictions.ids[i]
        assert row["version"] == 0
    json.dumps(flags.rows(page, standing))


def test_counts_and_outcomes_follow_the_decisions(errors, predictions, standing):
    flags = Listing(errors, predictions).of(errors.method)
    a, b, c = (int(i) for i in errors.ranked[:3])
    unflagged = int(np.flatnonzero(~errors.mask)[0])
    standing.decisions.decide(
        [(a, "keep", None), (b, "relabel", 1), (c, "drop", None), (unflagged, "drop", None)],
        reviewer="ana",
    )
    standing.refresh()
    assert flags.outcomes(standing)[:4].tolist() == [0, 1, 1, -1]
    counts = flags.counts(standing)
    assert counts == {
        "flagged": errors.n_flagged,
        "undecided": errors.n_flagged - 3,
        "keep": 1,
        "relabel": 1,
        "drop": 1,
    }


# ---- the advice


@pytest.mark.parametrize(("part", "whole"), [(0, 1), (3, 10), (10, 10), (1, 35), (400, 1000)])
def test_wilson_is_scipys(part, whole):
    expected = stats.binomtest(part, whole).proportion_ci(method="wilson")
    found = wilson(part, whole)
    assert found.low == pytest.approx(expected.low, abs=1e-6)
    assert found.high == pytest.approx(expected.high, abs=1e-6)


def test_advice_says_when_to_stop():
    begun = np.full(500, -1, np.int8)
    assert advice(begun).verdict == "begin"
    begun[:10] = 1
    assert advice(begun).verdict == "begin"
    begun[:120] = [1, 0] * 60
    assert advice(begun).verdict == "go on"
    begun[120:320] = 0
    found = advice(begun)
    assert found.verdict == "stop"
    assert (found.nearby.part, found.nearby.whole) == (0, 100)
    assert advice(begun, worth=0.01).verdict == "go on"  # 0 of 100 may still be 3 in 100
    assert advice(np.ones(50, np.int8)).verdict == "done"
    assert advice(np.r_[np.ones(60), np.full(40, -1)]).verdict == "accept in bulk"


def test_advice_in_words_has_the_numbers():
    outcomes = np.r_[np.ones(30), np.zeros(20), np.full(50, -1)].astype(np.int8)
    text = " ".join(advice(outcomes).text)
    low, high = stats.binomtest(30, 50).proportion_ci(method="wilson")
    assert "30 of 50 decided flags were wrong labels: 60% " in text
    assert f"(95% interval {low:.0%} to {high:.0%})" in text
    assert "in the 50 still open" in text
    assert "You began with the most suspect" in text
    mixed = np.random.default_rng(0).permutation(outcomes)
    assert "You began" not in " ".join(advice(mixed).text)
    with pytest.raises(InputError, match="worth"):
        advice(outcomes, worth=2.0)
    assert advice(np.array([], np.int8)).verdict == "done"


# ---- the name `review`, both a package and a function

BOTH = """
import {first}
import uqled
assert callable(uqled.review), uqled.review
from uqled.review.decisions import Decisions
import uqled.review.serve
assert callable(uqled.review)
assert uqled.review.Decisions is Decisions
from uqled import review
try:
    review("no such folder")
except uqled.InputError as error:
    assert "holds no run" in str(error), error
else:
    raise AssertionError
"""


@pytest.mark.parametrize("first", ["uqled", "uqled.review.decisions", "uqled.review.serve"])
def test_review_can_be_called_whatever_was_imported_first(first):
    subprocess.run([sys.executable, "-c", BOTH.format(first=first)], check=True)


def test_review_is_a_public_name():
    assert "review" in uqled.__all__
    with pytest.raises(AttributeError, match="magic"):
        _ = uqled.review.magic
