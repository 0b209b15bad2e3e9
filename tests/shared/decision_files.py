"""Files of decisions to damage, and how they are refused."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

from uqled.errors import FileError
from uqled.review.decisions import Decisions


def within(seconds, function, *args):
    """What the function raises, or None; fails if it does not end in time."""
    error_info = []

    def call():
        try:
            function(*args)
        except BaseException as error:
            error_info.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return error_info[0] if error_info else None


def write_decisions(path):
    """Five changes by two people, in which each action and an undo occur."""
    with Decisions(path, n_samples=50, classes=["a", "b", "c"]) as decisions:
        decisions.decide([(3, "keep", None), (4, "relabel", 2)], reviewer="ana")
        decisions.decide([(5, "drop", None)], reviewer="bo")
        decisions.decide([(3, "drop", None)], reviewer="bo")
        decisions.undo("bo")


def make_decision_file(folder):
    path = folder / "run" / "decisions.sqlite"
    path.parent.mkdir()
    write_decisions(path)
    return path


def edit(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)


def folder_content(path):
    return {
        file.name: file.read_bytes() if file.is_file() else None for file in path.parent.iterdir()
    }


def open_known(path):
    """As a run opens it."""
    Decisions(path, n_samples=50, classes=["a", "b", "c"]).close()


def open_alone(path):
    """As somebody who does not know the run."""
    Decisions(path).close()


OPENERS = (open_known, open_alone)


def check_refusal(path, message, openers=OPENERS):
    """Refused by name, in time, and nothing in the folder changes."""
    before = folder_content(path)
    for opener in openers:
        error = within(20, opener, path)
        assert isinstance(error, FileError), repr(error)
        assert str(error).startswith(f"file {str(path)!r} "), error
        assert message in str(error), error
        assert folder_content(path) == before


def read_all(decisions):
    decisions.current()
    decisions.history()
    decisions.verdicts(50)


def undo(path, reviewer):
    with Decisions(path) as decisions:
        decisions.undo(reviewer)


def use(path):
    with Decisions(path, n_samples=50, classes=["a", "b", "c"]) as decisions:
        read_all(decisions)
        decisions.undo("ana")
        decisions.undo("bo")
        decisions.decide([(3, "drop", None), (9, "drop", None)], reviewer="ana")
