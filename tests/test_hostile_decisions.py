"""A `decisions.sqlite` that a stranger made, or that was edited by hand."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import struct
import threading
from contextlib import closing
from pathlib import Path

import pytest

from review_runs import image_run
from uqled import InputError
from uqled.errors import FileError, LimitError
from uqled.limits import override_limits
from uqled.review.decisions import Decisions, reviewed

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"
BIG = 2**63 - 1


def within(seconds, function, *args):
    """What the function raises, or None; fails if it does not end in time."""
    caught = []

    def call():
        try:
            function(*args)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return caught[0] if caught else None


@pytest.fixture
def path(tmp_path):
    """Five changes by two people, in which each action and an undo occur."""
    (tmp_path / "run").mkdir()
    found = tmp_path / "run" / "decisions.sqlite"
    with Decisions(found, n_samples=50, classes=["a", "b", "c"]) as decisions:
        decisions.decide([(3, "keep", None), (4, "relabel", 2)], reviewer="ana")
        decisions.decide([(5, "drop", None)], reviewer="bo")
        decisions.decide([(3, "drop", None)], reviewer="bo")
        decisions.undo("bo")
    return found


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


# ---- schemas of other kinds

SCHEMAS = {
    "a recursive view": ([f"CREATE VIEW more AS {ENDLESS} x FROM c"], "holds the view 'more'"),
    "about is a view": (
        ["DROP TABLE about", f"CREATE VIEW about AS {ENDLESS} x AS key, '1' AS value FROM c"],
        "holds the view 'about'",
    ),
    "changes is a view": (
        ["ALTER TABLE changes RENAME TO own", f"CREATE VIEW changes AS {ENDLESS} x FROM c"],
        "holds the table 'own'",
    ),
    "a trigger": (
        ["CREATE TRIGGER t AFTER INSERT ON latest BEGIN DELETE FROM changes; END"],
        "holds the trigger 't'",
    ),
    "one more table": (["CREATE TABLE photos (name)"], "holds the table 'photos'"),
    "one table less": (["DROP TABLE undone"], "lacks the table 'undone'"),
    "one index less": (["DROP INDEX changes_by_batch"], "lacks the index 'changes_by_batch'"),
    "another column": (["ALTER TABLE changes ADD COLUMN note"], "has another table 'changes'"),
    "a generated column": (
        ["ALTER TABLE latest ADD COLUMN g AS (sample * 2)"],
        "has another table 'latest'",
    ),
    "a check": (
        ["DROP TABLE undone", "CREATE TABLE undone (batch INTEGER PRIMARY KEY, CHECK (batch > 0))"],
        "has another table 'undone'",
    ),
    "a virtual table": (["CREATE VIRTUAL TABLE words USING fts5(x)"], "holds the table 'words"),
    "undone is virtual": (
        ["DROP TABLE undone", "CREATE VIRTUAL TABLE undone USING fts5(batch)"],
        "has another table 'undone'",
    ),
    "a partial index": (
        ["CREATE INDEX some ON changes (sample) WHERE action = 'drop'"],
        "holds the index 'some'",
    ),
    "an index of expressions": (
        ["DROP INDEX changes_by_batch", "CREATE INDEX changes_by_batch ON changes (abs(batch))"],
        "has another index 'changes_by_batch'",
    ),
    "statistics": (["ANALYZE"], "holds the table 'sqlite_stat1'"),
    "a name that is an escape code": (
        ['CREATE TABLE "\x1b[31m\n" (x)'],
        r"holds the table '\x1b[31m\n'",
    ),
    "two tables in one place": (
        [
            "UPDATE sqlite_master SET rootpage = "
            "(SELECT rootpage FROM sqlite_master WHERE name = 'latest') WHERE name = 'undone'"
        ],
        "holds two tables in one place",
    ),
    "a table in place of the schema": (
        ["UPDATE sqlite_master SET rootpage = 1 WHERE name = 'undone'"],
        "cannot be used for decisions",
    ),
    "a table named twice": (
        ["INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE name = 'undone'"],
        "cannot be used for decisions",
    ),
    "SQL that is none": (
        ["UPDATE sqlite_master SET sql = 'CREATE TABLE undone (' WHERE name = 'undone'"],
        "cannot be used for decisions",
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_other_schemas_are_refused(path, name):
    statements, message = SCHEMAS[name]
    edit(path, *statements)
    check_refusal(path, message)


def test_a_schema_that_only_the_log_has_is_refused(path):
    """Committed, but not yet in the file itself: a stranger may send the log along."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"CREATE VIEW more AS {ENDLESS} x FROM c")
        kept = folder_content(path)
    for name, content in kept.items():
        path.with_name(name).write_bytes(content)
    assert kept["decisions.sqlite-wal"]
    index = path.with_name("decisions.sqlite-shm")
    for opener in OPENERS:  # as a killed process leaves it; the index is made anew by whoever reads
        assert "holds the view 'more'" in str(within(20, opener, path))
        assert folder_content(path) | {index.name: b""} == kept | {index.name: b""}
    index.unlink()
    check_refusal(path, "holds the view 'more'")


def test_a_schema_that_changes_later_is_not_used(path):
    """A view or trigger that appears while the file is open never runs."""
    with Decisions(path) as decisions:
        edit(path, "CREATE TRIGGER t AFTER INSERT ON latest BEGIN DELETE FROM changes; END")
        error = within(20, lambda: decisions.decide([(7, "drop", None)], reviewer="ana"))
        assert isinstance(error, FileError)
        assert "prohibited" in str(error) or "not authorized" in str(error)
        assert 7 not in decisions.current()
        assert len(decisions.history()) == 5
        edit(path, "DROP TRIGGER t", "ALTER TABLE changes RENAME TO own",
             f"CREATE VIEW changes AS {ENDLESS} x AS number, x AS batch, x AS sample, x AS action,"
             " x AS label, x AS reviewer, x AS at, x AS version, x AS undoes FROM c")  # fmt: skip
        assert isinstance(within(20, decisions.history), FileError)
        assert isinstance(within(20, decisions.current), FileError)


# ---- bytes that are no data base, or a damaged one


def damage(path, *places):
    """Write bytes into the file, at places that may be negative."""
    content = bytearray(path.read_bytes())
    for place, data in places:
        content[place : place + len(data)] = data
    path.write_bytes(content)


def make_chain(path):
    """A table whose pages are a list rather than a tree: SQLite's own check of it overflows."""
    edit(path, "PRAGMA journal_mode = DELETE")
    content = bytearray(path.read_bytes())
    size, length = 4096, len(content) // 4096
    number = root_page(path, "changes")
    leaf = bytes(content[size * (number - 1) : size * number])
    depth = 3000
    for i in range(depth):
        page = struct.pack(">BHHHBI", 5, 0, 0, size, 0, length + i + 1).ljust(size, b"\0")
        if i == 0:
            content[size * (number - 1) : size * number] = page
        else:
            content += page
    content += leaf
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)


def make_maze(path, table, *, depth, width):
    """A table whose pages are there many times: `width` ** `depth` times its rows."""
    edit(path, "PRAGMA journal_mode = DELETE")
    content = bytearray(path.read_bytes())
    size, length = 4096, len(content) // 4096
    number = root_page(path, table)
    leaf = bytes(content[size * (number - 1) : size * number])
    for level in range(depth):
        child = length + level + 1
        cells = [struct.pack(">I", child) + bytes([99])] * (width - 1)
        first = size - 5 * len(cells)
        head = struct.pack(">BHHHBI", 5, 0, len(cells), first, 0, child)
        places = b"".join(struct.pack(">H", first + 5 * i) for i in range(len(cells)))
        page = (head + places).ljust(first, b"\0") + b"".join(cells)
        if level == 0:
            content[size * (number - 1) : size * number] = page
        else:
            content += page
    content += leaf
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)


def root_page(path, table):
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return connection.execute(query, (table,)).fetchone()[0]


DAMAGED = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no data base, but long enough to look like one " * 99),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "only a head": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "only the first page": lambda path: path.write_bytes(path.read_bytes()[:4096]),
    "half": lambda path: path.write_bytes(path.read_bytes()[:12_288]),
    "a head without pages": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(4080)),
    "the first page damaged": lambda path: damage(path, (100, b"\xff" * 60)),
    "an impossible page size": lambda path: damage(path, (16, b"\xff\xff")),
    "a format of the future": lambda path: damage(path, (18, b"\x09\x09")),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(path, name):
    DAMAGED[name](path)
    check_refusal(path, "cannot be used for decisions")


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


PAGES = ["about", "changes", "latest", "undone", "changes_by_batch", "sqlite_autoindex_changes_1"]


@pytest.mark.parametrize("table", PAGES)
@pytest.mark.parametrize("junk", [b"\xff" * 64, bytes(4096), b"\x05", b"\x0d\x00\x00\xff\xff"])
def test_damaged_pages_are_refused_when_they_are_read(path, table, junk):
    """Or are not needed; never another error, never a hang."""
    page = 4096 * (root_page(path, table) - 1)
    damage(path, (page, junk))
    for work in (open_alone, open_known, use):
        error = within(20, work, path)
        assert error is None or isinstance(error, FileError), repr(error)
    # A page of zeros is one of a kind that no table and no index has.
    assert table not in ("about", "changes", "latest") or isinstance(error, FileError)


def test_pages_that_lead_nowhere_end_in_time(path):
    make_chain(path)
    error = within(20, use, path)
    assert isinstance(error, FileError), repr(error)


@pytest.mark.parametrize("table", ["changes", "latest"])
def test_pages_that_are_there_many_times_are_refused(path, table):
    kept = path.read_bytes()
    make_maze(path, table, depth=8, width=400)
    for work in (use, lambda path: undo(path, "nobody")):
        error = within(20, work, path)
        assert isinstance(error, FileError), repr(error)
    assert "more work than a file of this size" in str(error)
    path.write_bytes(kept)
    make_maze(path, table, depth=1, width=2)
    with Decisions(path) as decisions:
        if table == "latest":  # where samples are looked up, so that it does not matter
            assert set(decisions.current()) == {3, 4, 5}
            assert len(decisions.history()) == 5
            return
        with pytest.raises(FileError, match="change 1 is there twice"):
            decisions.history()
        with pytest.raises(FileError, match=r"change \d is there twice"):
            decisions.current()


def test_a_huge_file_is_as_quick_as_what_it_holds(path):
    os.truncate(path, 1 << 40)  # nearly all of it is a hole
    assert within(20, use, path) is None


# ---- what is no file


def test_only_regular_files_are_opened(path):
    kept = path.rename(path.with_name("kept"))
    path.symlink_to(kept)
    check_refusal(path, "is a symbolic link")
    path.unlink()
    path.symlink_to("nowhere")
    check_refusal(path, "is a symbolic link")
    assert not path.with_name("nowhere").exists()
    path.unlink()
    path.symlink_to("/dev/zero")
    check_refusal(path, "is a symbolic link")
    path.unlink()
    os.mkfifo(path)
    check_refusal(path, "is no regular file")
    path.unlink()
    path.mkdir()
    check_refusal(path, "is no regular file")
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as bound:
        directory = os.open(path.parent, os.O_RDONLY)  # a socket's address has to be short
        try:
            bound.bind(f"/proc/self/fd/{directory}/decisions.sqlite")
        finally:
            os.close(directory)
        check_refusal(path, "is no regular file")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_lies_beside_is_a_regular_file_too(path, suffix):
    beside = path.with_name(path.name + suffix)
    target = path.with_name("precious")
    target.write_text("precious")
    beside.symlink_to(target)
    before = folder_content(path)
    for opener in OPENERS:
        error = within(20, opener, path)
        assert isinstance(error, FileError)
        assert f"file {str(beside)!r} " in str(error)
        assert folder_content(path) == before
    beside.unlink()
    os.mkfifo(beside)
    for opener in OPENERS:
        assert isinstance(within(20, opener, path), FileError)


def test_a_journal_beside_the_file_deletes_nothing(path, tmp_path):
    """SQLite deletes the file that a journal names as the one above it."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    name = str(precious).encode()
    ours = path.with_name(path.name + "-journal")
    edit(path, "PRAGMA journal_mode = DELETE")
    magic = bytes.fromhex("d9d505f920a163d7")
    pages = path.stat().st_size // 4096
    head = (magic + struct.pack(">IIIII", 0, 7, pages, 512, 4096)).ljust(512, b"\0")
    lock_page = 2**30 // 4096 + 1
    end = struct.pack(">I", lock_page) + name + struct.pack(">II", len(name), sum(name)) + magic
    ours.write_bytes(head + end)
    for opener in OPENERS:
        error = within(20, opener, path)
        assert isinstance(error, FileError), error
        assert f"file {str(ours)!r} " in str(error)
    assert precious.exists()
    with closing(sqlite3.connect(path)) as connection:  # else this test could not fail
        connection.execute("SELECT * FROM about").fetchall()
    assert not precious.exists()


def test_a_run_whose_decisions_are_no_file_is_refused(tmp_path):
    """Not as if nobody had reviewed it."""
    predictions = image_run(tmp_path).predictions()
    assert reviewed(predictions) is None
    (predictions.path / "decisions.sqlite").symlink_to("nowhere")
    with pytest.raises(FileError, match="is a symbolic link"):
        reviewed(predictions)


def test_odd_folders_are_no_addresses(tmp_path, monkeypatch):
    """SQLite takes `file:x?mode=memory` for an address, and `%20` in one for a space."""
    for name in ("file:x?mode=memory", "a%20b#c?d", "ü \udcff"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(tmp_path)
        with Decisions(Path(name) / "d.sqlite", n_samples=5, classes=["a"]) as decisions:
            decisions.decide([(1, "drop", None)], reviewer="ana")
        with Decisions(folder / "d.sqlite") as decisions:
            assert list(decisions.current()) == [1]
        assert {file.name for file in folder.iterdir()} == {"d.sqlite"}


# ---- rows that no reviewer wrote

#: An UPDATE of the change that decided sample 4 (number 2, batch 1), and what the error says.
ROWS = {
    "sample = 50": "sample 50",
    "sample = -1": "sample -1",
    "sample = 'four'": "sample 'four'",
    "sample = 4.5": "sample 4.5",
    f"sample = {BIG}": f"sample {BIG}",
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
    f"label = {BIG}": f"label {BIG}",
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
    f"version = {BIG}": f"version {BIG}",
    "undoes = 1": "undoes 1",
    "undoes = -1": "undoes -1",
    "undoes = 'x'": "undoes 'x'",
    f"undoes = {BIG}": f"undoes {BIG}",
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
    refused = []
    for work in (Decisions.current, Decisions.history, lambda decisions: decisions.verdicts(50)):
        error = within(20, read, path, work)
        assert error is None or isinstance(error, FileError), repr(error)
        if error is not None:
            assert str(error).startswith(f"file {str(path)!r} ")
            assert ROWS[change] in str(error)
            assert re.search("change 2 |does not fit its changes|Could not decode", str(error))
            refused.append(work)
    assert len(refused) == (1 if change == "action = NULL" else 3)  # no decision: not read there
    assert path.read_bytes() == before  # nothing was mended
    error = within(20, use, path)
    assert isinstance(error, FileError)


@pytest.mark.parametrize("number", [0, -7, BIG, 2**60])
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


# ---- whose it is


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
        kept = folder_content(old)
    for name in ("old.sqlite", "old.sqlite-wal"):
        old.with_name(name).write_bytes(kept[name])
    assert len(kept["old.sqlite"]) <= 4096 < len(kept["old.sqlite-wal"])
    with Decisions(old, n_samples=50, classes=["a", "b", "c"]) as decisions:
        assert set(decisions.current()) == {3, 4, 5}
    edit(old, "PRAGMA journal_mode = DELETE")
    with Decisions(old, n_samples=50, classes=["a", "b", "c"]) as decisions:
        assert set(decisions.current()) == {3, 4, 5}
        assert decisions._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_two_that_begin_at_once_share_one_file(tmp_path):
    path = tmp_path / "decisions.sqlite"
    ready, problems = threading.Barrier(8), []

    def begin(index):
        ready.wait()
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


def test_a_hundred_thousand_decisions_are_within_the_bounds(tmp_path):
    """Reading them takes a bounded number of steps, not a bounded time."""
    path = tmp_path / "decisions.sqlite"
    with Decisions(path, n_samples=100_000, classes=["a", "b"]) as decisions:
        decisions.decide([(i, "relabel", i % 2) for i in range(100_000)], reviewer="ana")
        assert len(decisions.history()) == 100_000
        actions, labels = decisions.verdicts(100_000)
    assert (actions == 2).all()
    assert labels.sum() == 50_000
    with Decisions(path) as decisions:
        assert len(decisions.current()) == 100_000
        decisions.decide([(7, "drop", None)], reviewer="bo")
        decisions.decide([(7, "keep", None)], reviewer="ana")
        assert decisions.undo("bo") == []
        assert decisions.undo("ana") == [7]
