"""The SQLite file of decisions: created atomically, and opened only if it is one of ours.

A stranger's file may contain endless views, triggers, or pages that form a cycle. So its schema is
compared with ours before anything else is read, on a read-only connection; no view or trigger runs
even if one appears later; and no statement takes more steps than a file of its size can need.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from uqled.errors import FileError, UqledError
from uqled.storage.atomic import PREFIX, flush_to_disk
from uqled.storage.reading import first_line, name_file

FIRST_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL,
    sample INTEGER NOT NULL,
    action TEXT,
    label INTEGER,
    reviewer TEXT NOT NULL,
    tab TEXT NOT NULL,
    at REAL NOT NULL,
    version INTEGER NOT NULL,
    undoes INTEGER,
    UNIQUE (sample, version)
);
CREATE INDEX changes_by_batch ON changes (batch);
CREATE TABLE latest (sample INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE undone (batch INTEGER PRIMARY KEY)
"""
#: Tables that files written by earlier versions lack, oldest first; what is missing is added when
#: such a file is opened.
LATER_TABLES = (
    """
CREATE TABLE class_changes (
    number INTEGER PRIMARY KEY,
    class INTEGER NOT NULL,
    action TEXT,
    target INTEGER,
    name TEXT,
    reviewer TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE opinions (
    number INTEGER PRIMARY KEY,
    sample INTEGER NOT NULL,
    action TEXT,
    label INTEGER,
    reviewer TEXT NOT NULL,
    at REAL NOT NULL
)
""",
    "CREATE TABLE bulk_changes (number INTEGER PRIMARY KEY)",
)

_ALL_TABLES = ";".join((FIRST_TABLES, *LATER_TABLES))

_PART = f"{PREFIX}decisions-"  # begins the name of a new file until it has its own
_PATIENCE = 30.0  # seconds to wait for another writer
_STRIDE = 100_000  # steps of SQLite's machine between two looks at how many there were
# A statement takes 10 to 60 steps per row, and no row is shorter than 30 bytes.
_STEPS = 10_000_000  # any statement may take this many: about a second
_STEPS_PER_BYTE = 4
_SHORT = 2**20  # bytes of any value; none is longer than the file
#: The longest SQL of a schema; ours is far shorter.
_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
_FIX = "Choose a folder that can be written, or remove the file that is in the way"


class BoundedConnection(sqlite3.Connection):
    """A connection on which no statement goes on for ever, and no view or trigger runs."""

    _steps = 0

    def protect(self, path: Path) -> None:
        """Before anything is read of the file."""
        self._path = path
        self.set_progress_handler(self._is_too_long, _STRIDE)
        self.set_authorizer(_authorize)
        for category, most in _LIMITS.items():
            self.setlimit(category, most)
        # Pages of an overflowing value that lead in a circle would make it as long as it claims.
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(_SHORT, min(_measure(path), 2**30)))
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            self.execute(f"PRAGMA {pragma}")

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self._steps = 0
        return super().execute(sql, parameters)

    def _is_too_long(self) -> bool:
        self._steps += _STRIDE
        return self._steps > _STEPS + _STEPS_PER_BYTE * _measure(self._path)


def open_decision_file(path: Path, about: Mapping[str, Any] | None) -> BoundedConnection:
    """Open a file of decisions; create it if there is none and `about` describes its run."""
    with explain_database_problems(path):
        if not os.path.lexists(path):
            if about is None:
                raise FileError(
                    name_file(path), "does not exist", "Review the run first: uqled review"
                )
            _check_alone(path)
            _create_file(path, _build_content(about))
        _check_kinds(path)
        _check_before_use(path)
        _remove_parts(path)
        _narrow_modes(path)
        connection = _connect(path, "rw")
        try:
            missing_tables = check_schema(connection, path)
            _use_log(connection)
            # In WAL mode, less would lose what was acknowledged.
            connection.execute("PRAGMA synchronous = FULL")
            if missing_tables:
                _add_tables(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def explain_database_problems(path: Path) -> Iterator[None]:
    """Turn an error of SQLite or the system into one that names the file."""
    try:
        yield
    except UqledError:
        raise
    # SQLite's messages quote the file: then they may not be valid text, or exceed the memory.
    except (sqlite3.Error, OSError, UnicodeError, MemoryError) as error:
        reason = first_line(error)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            reason = "reading it takes more work than a file of this size can need"
        raise refuse_file(path, reason) from error


def refuse_file(path: Path, problem: str) -> FileError:
    """The error for a file that is not a file of decisions, or cannot be read or written."""
    return FileError(name_file(path), f"cannot be used for decisions ({problem})", _FIX)


def check_schema(connection: sqlite3.Connection, path: Path) -> str:
    """Refuse a file that holds anything but our own tables and indexes.

    Returns the statements for those that it lacks because it is of an earlier version.
    """
    missing, roots = _expect_schema(_ALL_TABLES), set()
    rows = connection.execute("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master")
    for n_rows, (kind, name, table, sql, root) in enumerate(rows, 1):
        if (kind, name) not in missing:
            raise refuse_file(path, f"it holds the {kind!s:.20} {name!r:.100}")
        if missing.pop((kind, name)) != (table, _normalize(sql)):
            raise refuse_file(path, f"it has another {kind} {name!r}")
        roots.add(root)
        if len(roots) < n_rows or root == 1:  # page 1 is the schema itself
            raise refuse_file(path, "it holds two tables in one place")
    for first in range(len(LATER_TABLES)):
        statements = ";".join(LATER_TABLES[first:])
        if missing.keys() == _expect_schema(statements).keys():
            return statements
    for kind, name in missing:
        raise refuse_file(path, f"it lacks the {kind} {name!r}")
    return ""


def _add_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Update a file of an earlier version, unless another process is doing so."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if missing_tables := check_schema(connection, path):
            for statement in missing_tables.split(";"):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path, mode: str) -> BoundedConnection:
    # As an address, because SQLite may take a path such as `file:x` for one.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        factory=BoundedConnection,
    )
    try:
        connection.protect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_kinds(path: Path) -> None:
    """Refuse anything but a regular file, also for the log beside it: SQLite would open it without
    asking.

    No file is opened here, because closing it would drop the locks that another connection of this
    process holds on it.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = path.with_name(path.name + suffix)
        try:
            mode = os.lstat(file).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
            raise FileError(name_file(file), f"is {what}", "Put a regular file there")
        if suffix == "-journal":
            # We leave a log, never a journal; one may name any file, which SQLite then deletes.
            raise FileError(
                name_file(file), "was left by another program", "Remove it, or open both there"
            )


def _check_alone(path: Path) -> None:
    """Refuse to make a file beside the log of one that is gone: SQLite would add that to it."""
    for suffix in ("-wal", "-journal"):
        file = path.with_name(path.name + suffix)
        if os.path.lexists(file) and not os.path.lexists(path):  # nobody has created it in between
            raise FileError(
                name_file(file),
                f"belongs to a {path.name!r} that is not there",
                "Put that back, or remove this",
            )


def _check_before_use(path: Path) -> None:
    """Check the schema without changing a byte, so that a file of somebody else stays as it is."""
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    # Where a log may hold more than the file itself, SQLite has to read it, by way of an index.
    has_log, had_index = log.exists() and log.stat().st_size > 0, index.exists()
    try:
        with closing(_connect(path, "ro" if has_log else "ro&immutable=1")) as connection:
            check_schema(connection, path)
    except BaseException:
        if has_log and not had_index:
            _remove_unused(index)
        raise


def _remove_unused(index: Path) -> None:
    """Remove the index of a log that we made, unless somebody has begun to use it."""
    try:
        import fcntl
    except ImportError:  # Windows removes no file that is in use
        with suppress(OSError):
            index.unlink()
        return
    with suppress(OSError), index.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        index.unlink()


def _remove_parts(path: Path) -> None:
    """Remove what a process left that was killed while it created a file.

    It may be a second name of the file itself. Whoever opens and closes that, as a search for
    leftovers does, drops the locks of the process, so it has to go before we have any.
    """
    for part in path.parent.glob(f"{_PART}*.sqlite"):
        with suppress(OSError):
            part.unlink()


def _narrow_modes(path: Path) -> None:
    """Who decided what is nobody else's business; files of earlier versions were readable."""
    if not hasattr(os, "geteuid"):
        return
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            file = path.with_name(path.name + suffix)
            about = os.lstat(file)
            is_ours = about.st_uid == os.geteuid() and about.st_nlink == 1
            if is_ours and stat.S_ISREG(about.st_mode) and about.st_mode & 0o077:
                file.chmod(0o600)


def _use_log(connection: sqlite3.Connection) -> None:
    until = time.monotonic() + _PATIENCE
    while True:  # SQLite does not wait by itself where two processes change the mode at once
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _build_content(about: Mapping[str, Any]) -> bytes:
    """The bytes of a new file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_ALL_TABLES)
        for key, value in about.items():
            connection.execute("INSERT INTO about VALUES (?, ?)", (key, json.dumps(value)))
        content = bytearray(connection.serialize())
    content[18:20] = b"\2\2"  # the format's versions for writing and reading: with a log
    return bytes(content)


def _create_file(path: Path, content: bytes) -> None:
    """Write a file atomically; one that somebody else created meanwhile stays."""
    while True:
        part = path.with_name(f"{_PART}{secrets.token_hex(6)}.sqlite")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            _give_name(part, path)
            flush_to_disk(path.parent)
            return
        except FileNotFoundError:  # removed as a leftover before it was renamed
            if not path.parent.is_dir():
                raise
        finally:
            part.unlink(missing_ok=True)


def _give_name(part: Path, path: Path) -> None:
    try:
        os.link(part, path)  # unlike a rename, it never replaces what is there
    except FileNotFoundError:
        raise
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not os.path.lexists(path):
            part.rename(path)


def _authorize(_: int, *about: str | None) -> int:
    """Whether a statement may do something; the last word names the view or trigger that asks."""
    return sqlite3.SQLITE_OK if about[-1] is None else sqlite3.SQLITE_DENY


def _expect_schema(statements: str) -> dict[tuple[str, str], tuple[str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(statements)
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        return {(kind, name): (table, _normalize(sql)) for kind, name, table, sql in rows}


def _normalize(sql: Any) -> Any:
    return " ".join(sql.split()) if isinstance(sql, str) else sql


def _measure(path: Path) -> int:
    """Bytes of the file and its log."""
    total = 0
    for suffix in ("", "-wal"):
        with suppress(OSError):
            total += path.with_name(path.name + suffix).stat().st_size
    return total
