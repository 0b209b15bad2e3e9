"""How a `decisions.sqlite` is made, whose it is, and that one of ours is always opened."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing

import pytest

from decision_files import (
    check_refusal,
    edit,
    folder_content,
    make_decision_file,
    open_known,
    within,
)
from uqled import InputError
from uqled.errors import FileError
from uqled.review.decisions import Decisions


@pytest.fixture
def path(tmp_path):
    return make_decision_file(tmp_path)


def test_new_files_are_their_owners_only(tmp_path):
    umask = os.umask(0)
    try:
        path = tmp_path / "decisions.sqlite"
        with Decisions(path, n_samples=5, classes=["a"]) as decisions:
            decisions.decide([(1, "drop", None)], reviewer="ana")
            files = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(umask)
    assert files == {
        "decisions.sqlite": 0o600,
        "decisions.sqlite-wal": 0o600,
        "decisions.sqlite-shm": 0o600,
    }


def test_older_files_become_their_owners_only(path):
    path.chmod(0o664)
    with Decisions(path) as decisions:
        assert len(decisions.current()) == 3
        decisions.decide([(9, "drop", None)], reviewer="ana")
        files = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert set(files.values()) == {0o600}
    assert len(files) == 3
    edit(path, "CREATE TABLE photos (name)")
    path.chmod(0o664)
    check_refusal(path, "holds the table 'photos'")
    assert path.stat().st_mode & 0o777 == 0o664  # not ours


def test_files_of_earlier_versions_are_read(path):
    """They were made in place, so that a kill could leave all of it in the log."""
    with closing(sqlite3.connect(path)) as connection:
        lines = list(connection.iterdump())
    old = path.with_name("old.sqlite")
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for line in lines:
            connection.execute(line)
        content = folder_content(old)
    for name in ("old.sqlite", "old.sqlite-wal"):
        old.with_name(name).write_bytes(content[name])
    assert len(content["old.sqlite"]) <= 4096 < len(content["old.sqlite-wal"])
    with Decisions(old, n_samples=50, classes=["a", "b", "c"]) as decisions:
        assert set(decisions.current()) == {3, 4, 5}
    edit(old, "PRAGMA journal_mode = DELETE")
    with Decisions(old, n_samples=50, classes=["a", "b", "c"]) as decisions:
        assert set(decisions.current()) == {3, 4, 5}
        assert decisions._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_two_that_begin_at_once_share_one_file(tmp_path):
    path = tmp_path / "decisions.sqlite"
    barrier, problems = threading.Barrier(8), []

    def begin(index):
        barrier.wait()
        try:
            with Decisions(path, n_samples=50, classes=["a"]) as decisions:
                decisions.decide([(index, "drop", None)], reviewer="ana")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=begin, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with Decisions(path) as decisions:
        assert set(decisions.current()) == set(range(8))
    assert [file.name for file in tmp_path.iterdir()] == ["decisions.sqlite"]


def test_what_a_killed_process_left_is_removed(path):
    part = path.with_name(".uqled-decisions-0123456789ab.sqlite")
    os.link(path, part)  # killed between the two names
    with Decisions(path) as decisions:
        assert not part.exists()
        assert len(decisions.history()) == 5
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_without_its_file_is_not_added_to_a_new_one(path):
    log = path.with_name(path.name + "-wal")
    with Decisions(path) as decisions:
        decisions.decide([(9, "drop", None)], reviewer="ana")
        content = log.read_bytes()
    path.unlink()
    log.write_bytes(content)
    error = within(20, open_known, path)
    assert isinstance(error, FileError)
    assert f"file {str(log)!r} belongs to a 'decisions.sqlite' that is not there" in str(error)
    assert folder_content(path) == {log.name: content}
    log.unlink()
    with Decisions(path, n_samples=50, classes=["a", "b", "c"]) as decisions:
        assert decisions.history() == []


def test_a_new_file_replaces_none_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refuse)
    path = tmp_path / "decisions.sqlite"
    with Decisions(path, n_samples=5, classes=["a"]) as decisions:
        decisions.decide([(1, "drop", None)], reviewer="ana")
    with Decisions(path, n_samples=5, classes=["a"]) as decisions:
        assert list(decisions.current()) == [1]
    assert [file.name for file in tmp_path.iterdir()] == ["decisions.sqlite"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileError, match="cannot be used for decisions"):
        Decisions(tmp_path / "none" / "x.sqlite", n_samples=2, classes=["a", "b"])
    with pytest.raises(InputError, match="does not exist"):
        Decisions(tmp_path / "none.sqlite")


def test_a_hundred_thousand_decisions_are_within_the_bounds(path):
    """Reading them takes a bounded number of steps, not a bounded time."""
    rows = "WITH RECURSIVE c(x) AS (SELECT 6 UNION ALL SELECT x + 1 FROM c WHERE x < 100005)"
    edit(path, "PRAGMA synchronous = OFF",
         f"INSERT INTO changes {rows} SELECT x, x, x % 50, 'drop', NULL, 'ana', '', 1e9, x, NULL"
         " FROM c", "DELETE FROM latest",
         "INSERT INTO latest SELECT sample, max(number) FROM changes GROUP BY sample")  # fmt: skip
    with Decisions(path) as decisions:
        assert len(decisions.history()) == 100_005
        assert len(decisions.current()) == 50
        assert decisions.undo("nobody") == []  # it looks through all of them
        assert decisions.undo("ana") == [5]


def test_a_full_disk_is_named_and_loses_nothing(path):
    """What was decided before stays, and deciding goes on when there is room again."""
    with Decisions(path) as decisions:
        [(pages,)] = decisions._connection.execute("PRAGMA page_count").fetchall()
        decisions._connection.execute(f"PRAGMA max_page_count = {pages}")
        before = decisions.history()
        items = [(i, "drop", None) for i in range(10, 50)]

        def fill_the_disk():
            for _ in range(100):
                decisions.decide(items, reviewer="ana" * 20)
                decisions.decide([(i, None, None) for i, _, _ in items], reviewer="ana" * 20)

        with pytest.raises(FileError, match=r"decisions.sqlite' cannot be .*disk is full"):
            fill_the_disk()
        history_before = decisions.history()
        assert history_before[:5] == before
        assert (len(history_before) - 5) % 40 == 0  # whole calls only
        decisions._connection.execute("PRAGMA max_page_count = 100000")
        assert len(decisions.decide([(9, "keep", None)], reviewer="bo")) == 1


def test_a_clock_that_goes_back_changes_no_order(path, monkeypatch):
    """The last decision counts, and is undone first, whatever the time was."""
    clock = iter(range(2_000_000_000, 0, -100_000_000))
    monkeypatch.setattr("time.time", lambda: next(clock))
    with Decisions(path) as decisions:
        before = len(decisions.history())
        for action in ("keep", "drop", "keep", "drop"):
            decisions.decide([(30, action, None)], reviewer="ana")
        assert decisions.current()[30].action == "drop"
        decisions.undo("ana")
        assert decisions.current()[30].action == "keep"
    with Decisions(path) as decisions:
        assert decisions.current()[30].action == "keep"
        actions = [one.action for one in decisions.history()[before:]]
        assert actions == ["keep", "drop", "keep", "drop", "keep"]
