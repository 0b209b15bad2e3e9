"""A `decisions.sqlite` that a stranger made: another schema, damaged pages, no file at all."""

from __future__ import annotations

import os
import socket
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from decision_files import (
    OPENERS,
    check_refusal,
    edit,
    folder_content,
    open_alone,
    open_known,
    undo,
    use,
    within,
)
from review_runs import image_run
from uqled.errors import FileError
from uqled.review.decisions import Decisions, read_verdicts

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"


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
    "names that are no text": (
        [
            "UPDATE sqlite_master SET name = CAST(x'75f8' AS TEXT), sql = 'CREATE TABLE ('"
            " WHERE name = 'undone'"
        ],
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
        content_before = folder_content(path)
    for name, content in content_before.items():
        path.with_name(name).write_bytes(content)
    assert content_before["decisions.sqlite-wal"]
    index = path.with_name("decisions.sqlite-shm")
    for opener in OPENERS:  # as a killed process leaves it; the index is made anew by whoever reads
        assert "holds the view 'more'" in str(within(20, opener, path))
        assert folder_content(path) | {index.name: b""} == content_before | {index.name: b""}
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


DAMAGED_SCHEMAS = {
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


@pytest.mark.parametrize("name", DAMAGED_SCHEMAS)
def test_damaged_files_are_refused(path, name):
    DAMAGED_SCHEMAS[name](path)
    check_refusal(path, "cannot be used for decisions")


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
    content = path.read_bytes()
    make_maze(path, table, depth=8, width=400)
    for work in (use, lambda path: undo(path, "nobody")):
        error = within(20, work, path)
        assert isinstance(error, FileError), repr(error)
    assert "more work than a file of this size" in str(error)
    path.write_bytes(content)
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
    moved_path = path.rename(path.with_name("kept"))
    path.symlink_to(moved_path)
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
    check_refusal(path, "is not a regular file")
    path.unlink()
    path.mkdir()
    check_refusal(path, "is not a regular file")
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as bound:
        directory = os.open(path.parent, os.O_RDONLY)  # a socket's address has to be short
        try:
            bound.bind(f"/proc/self/fd/{directory}/decisions.sqlite")
        finally:
            os.close(directory)
        check_refusal(path, "is not a regular file")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_lies_beside_is_a_regular_file_too(path, suffix):
    sidecar = path.with_name(path.name + suffix)
    target = path.with_name("precious")
    target.write_text("precious")
    sidecar.symlink_to(target)
    before = folder_content(path)
    for opener in OPENERS:
        error = within(20, opener, path)
        assert isinstance(error, FileError)
        assert f"file {str(sidecar)!r} " in str(error)
        assert folder_content(path) == before
    sidecar.unlink()
    os.mkfifo(sidecar)
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
    assert read_verdicts(predictions) is None
    (predictions.path / "decisions.sqlite").symlink_to("nowhere")
    with pytest.raises(FileError, match="is a symbolic link"):
        read_verdicts(predictions)


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
