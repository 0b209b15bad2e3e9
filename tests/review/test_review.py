"""Decisions on disk, the listing of flags, and the advice on when to stop."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import uqled
from review_runs import image_run
from uqled import InputError
from uqled.detect.auto.operating_point import OperatingPoint
from uqled.detect.find import find_label_errors
from uqled.detect.reasons import REASONS, find_reasons
from uqled.errors import FileError
from uqled.review.current_errors import CurrentErrors
from uqled.review.decisions import ConflictError, Decisions
from uqled.review.decisions.state import STATES, DecisionState
from uqled.review.flag_list import FlagList, ListQuery
from uqled.review.groups import list_groups

# ---- decisions


@pytest.fixture
def decisions(tmp_path):
    with Decisions(tmp_path / "decisions.sqlite", n_samples=50, classes=["a", "b", "c"]) as store:
        yield store


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
    decisions.decide([(7, "keep", None)], reviewer="ana", seen_versions={7: 0})
    with pytest.raises(ConflictError, match="samples 7 were decided by ana") as error_info:
        decisions.decide(
            [(6, "drop", None), (7, "drop", None)], reviewer="bo", seen_versions={6: 0, 7: 0}
        )
    assert error_info.value.indices == [7]
    assert error_info.value.now[0].action == "keep"
    assert states(decisions) == {7: ("keep", None)}
    with pytest.raises(ConflictError):  # a version that was not named counts as not seen
        decisions.decide([(7, "drop", None)], reviewer="bo", seen_versions={})
    [now] = decisions.decide([(7, "drop", None)], reviewer="bo", seen_versions={7: 1})
    assert (now.action, now.version, now.reviewer) == ("drop", 2, "bo")


def test_undecided_again_still_has_a_version(decisions):
    decisions.decide([(1, "keep", None)], reviewer="ana")
    decisions.decide([(1, None, None)], reviewer="ana")
    assert decisions.current() == {}
    with pytest.raises(ConflictError):
        decisions.decide([(1, "drop", None)], reviewer="bo", seen_versions={1: 0})


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
    ("item", "message"),
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
def test_impossible_decisions_are_refused(decisions, item, message):
    with pytest.raises(InputError, match=message):
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
                item = (shared, "relabel", first)
                [done] = decisions.decide([item], reviewer=name, seen_versions=seen)
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
    acknowledged_decisions = []
    for writer, line in zip(writers, began, strict=True):
        with writer:
            *lines, _ = (line + writer.stdout.read()).split("\n")
        assert writer.returncode == -signal.SIGKILL
        acknowledged_decisions.append([tuple(map(int, line.split())) for line in lines])
    with Decisions(path) as decisions:
        history = decisions.history()
        actions, _ = decisions.verdicts(200_000)
        [(sound,)] = decisions._connection.execute("PRAGMA integrity_check")
    assert sound == "ok"
    stored_decisions = {(change.reviewer, change.index, change.version) for change in history}
    for name, numbers in zip(("ana", "bo"), acknowledged_decisions, strict=True):
        assert len(numbers) >= 40
        assert stored_decisions.issuperset((name, *one) for one in numbers)
        assert all(actions[index] == 3 for index, _ in numbers)
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
def state(predictions, tmp_path):
    classes = predictions.labels.names
    with Decisions(tmp_path / "d.sqlite", n_samples=len(predictions), classes=classes) as store:
        yield DecisionState(store, len(predictions))


def make_list(errors, predictions, state, method=None):
    current = CurrentErrors(errors, OperatingPoint("f1"), state)
    return FlagList(method or errors.method, current, predictions, state), current


def decide(state, *items):
    state.decisions.decide(items, reviewer="ana")
    state.refresh()


def pages(flags, query, size):
    indices, start = [], 0
    while True:
        page = flags.read_page(query, start=start, size=size)
        assert page.before == len(indices)
        indices += page.indices.tolist()
        if page.before + len(page.indices) == page.total:
            return indices
        start = int(page.places[-1]) + 1


def test_pages_together_are_the_ranking(errors, predictions, state):
    for method, one in errors.by_method.items():
        flags, _ = make_list(errors, predictions, state, method)
        assert pages(flags, ListQuery(method), 7) == one.ranked.tolist()
        shuffled_data = pages(flags, ListQuery(method, order="random"), 7)
        assert sorted(shuffled_data) == sorted(one.ranked.tolist())
        assert len(shuffled_data) < 3 or shuffled_data != one.ranked.tolist()


def test_filters_keep_what_they_say(errors, predictions, state):
    flags, _ = make_list(errors, predictions, state)
    ranked_samples, labels, best = errors.ranked.tolist(), errors.labels.codes, errors.best
    why = find_reasons(labels, None, predictions.passes, errors.ranked)
    a, b = ranked_samples[0], ranked_samples[2]
    decide(state, (b, "drop", None))
    decide(state, (a, "keep", None))
    listed_samples = [
        b,
        a,
        *(z for z in ranked_samples if z not in (a, b)),
    ]  # the decided first, as decided
    reason_of = dict(zip(ranked_samples, why, strict=True))
    expected = {
        ListQuery(errors.method): listed_samples,
        ListQuery(errors.method, given=1): [z for z in listed_samples if labels[z] == 1],
        ListQuery(errors.method, suggested=2): [z for z in listed_samples if best[z] == 2],
        ListQuery(errors.method, given=1, suggested=2): [
            z for z in listed_samples if labels[z] == 1 and best[z] == 2
        ],
        ListQuery(errors.method, state="undecided"): listed_samples[2:],
        ListQuery(errors.method, state="decided"): [b, a],
        ListQuery(errors.method, state="keep"): [a],
        ListQuery(errors.method, state="drop"): [b],
        ListQuery(errors.method, state="relabel"): [],
    } | {
        ListQuery(errors.method, reason=reason): [
            z for z in listed_samples if reason_of[z] == reason
        ]
        for reason in REASONS
    }
    assert {query.state for query in expected} == {None, *STATES}
    for query, expected_now in expected.items():
        assert pages(flags, query, 5) == expected_now, query


def test_a_decision_does_not_make_the_next_page_skip_samples(errors, predictions, state):
    flags, _ = make_list(errors, predictions, state)
    query = ListQuery(errors.method, state="undecided")
    first = flags.read_page(query, start=0, size=5)
    decide(state, *[(int(i), "keep", None) for i in first.indices])
    second = flags.read_page(query, start=int(first.places[-1]) + 1, size=5)
    assert second.indices.tolist() == errors.ranked[5:10].tolist()
    previous_page = flags.read_page(ListQuery(errors.method), start=5, size=3, backwards=True)
    assert previous_page.indices.tolist() == errors.ranked[2:5].tolist()


def test_the_list_follows_the_decisions(errors, predictions, state):
    """As `find_label_errors` with the same verdicts; what is decided stays where it is."""
    flags, current = make_list(errors, predictions, state)
    ranked_samples = errors.ranked.tolist()
    decided_samples = ranked_samples[:40]
    for i in decided_samples:  # right, all of them: the model was wrong
        decide(state, (i, "keep", None))
    assert flags.list_undecided().tolist() == ranked_samples[40:]  # nothing waits for the estimate
    current.update()
    expected = find_label_errors(predictions, verdicts=state.decisions.verdicts(len(predictions)))
    assert current.get("auto").mask.tolist() == expected.mask.tolist()
    assert current.get("auto").ranked.tolist() == expected.ranked.tolist()
    assert current.get("auto").answer == replace(
        expected.answer,
        flags_by_method=current.get("auto").answer.flags_by_method,
        n_as_predicted=current.get("auto").answer.n_as_predicted,
    )
    undecided = [i for i in expected.ranked.tolist() if i not in decided_samples]
    listed_samples = flags.read_page(ListQuery("auto"), start=0, size=1000).indices.tolist()
    assert listed_samples == decided_samples + undecided
    assert set(undecided) != set(ranked_samples[40:])  # the verdicts changed the list
    other = current.get("argmax")  # a method without probabilities keeps its flags
    assert other.mask.tolist() == errors.by_method["argmax"].mask.tolist()
    assert other.estimate.number == expected.estimate.number


def test_rows_say_what_the_method_found(errors, predictions, state):
    """Of alg-ens, the mean of the passes."""
    flags, _ = make_list(errors, predictions, state, "alg-ens-3")
    page = flags.read_page(ListQuery("alg-ens-3"), start=0, size=20)
    mean = np.asarray(predictions.passes, np.float64).mean(axis=0)
    rows = flags.describe_samples(page.indices, page.places)
    for row in rows:
        i = row["index"]
        assert row["given"] == predictions.labels.codes[i]
        assert row["suggested"] == np.argmax(mean[i])
        assert dict(map(tuple, row["classes"]))[row["given"]] == pytest.approx(
            mean[i, row["given"]], abs=1e-4
        )
        assert row["id"] == predictions.ids[i]
        assert row["version"] == 0
    json.dumps(rows)


def test_counts_follow_the_decisions(errors, predictions, state):
    flags, _ = make_list(errors, predictions, state)
    a, b, c = (int(i) for i in errors.ranked[:3])
    unflagged = int(np.flatnonzero(~errors.mask)[0])
    decide(
        state, (a, "keep", None), (b, "relabel", 1), (c, "drop", None), (unflagged, "drop", None)
    )
    assert flags.count_states() == {
        "flagged": errors.n_flagged,
        "undecided": errors.n_flagged - 3,
        "keep": 1,
        "relabel": 1,
        "drop": 1,
    }
    overview = flags.count_overview()
    assert sum(overview["given"]) == sum(overview["reasons"]) == errors.n_flagged
    assert sum(n for _, _, n in overview["pairs"]) == errors.n_flagged


def test_groups_hold_every_undecided_flag_once(errors, predictions, state):
    flags, _ = make_list(errors, predictions, state)
    decide(state, (int(errors.ranked[0]), "keep", None))
    groups, n = list_groups(flags, predictions, 1000)
    assert n == len(groups)
    listed_samples = [i for group in groups for i in group.indices.tolist()]
    assert sorted(listed_samples) == sorted(errors.ranked[1:].tolist())
    for group in groups:
        assert set(errors.best[group.indices]) == {group.suggested}
        labels = set(predictions.labels.codes[group.indices].tolist())
        assert labels == {group.given} if group.given is not None else len(labels) >= 1
        assert group.errors == pytest.approx(errors.probability[group.indices].sum())
        assert group.n_more == 0
    assert [group.errors for group in groups] == sorted(
        (group.errors for group in groups), reverse=True
    )
    assert list_groups(flags, predictions, 2)[1] == n
    assert len(list_groups(flags, predictions, 2)[0]) == 2
    decide(state, *[(int(i), "drop", None) for i in errors.ranked])
    assert list_groups(flags, predictions, 5) == ([], 0)


def test_review_is_a_package_and_opening_it_a_function():
    assert callable(uqled.open_review)
    with pytest.raises(uqled.InputError, match="does not exist"):
        uqled.open_review("no such folder")
