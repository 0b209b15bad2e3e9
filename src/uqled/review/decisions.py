"""Decisions on disk: one SQLite file per run, and every change that was ever made to it.

A decision is on the disk when `decide` returns: the log is flushed at every commit. Versions
count the changes of a sample. Whoever decides says which version they saw, so that nobody
overwrites a decision they did not know of.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.errors import FileError, InputError, UqledError
from uqled.run import Predictions

Action = Literal["keep", "relabel", "drop"]
ACTIONS: tuple[Action, ...] = get_args(Action)

FILE_NAME = "decisions.sqlite"
_PATIENCE = 30.0  # seconds to wait for another writer
_LONGEST_NAME = 80  # characters of a reviewer's name

_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
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
CREATE INDEX IF NOT EXISTS changes_by_batch ON changes (batch);
CREATE TABLE IF NOT EXISTS latest (sample INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS undone (batch INTEGER PRIMARY KEY)
"""
_COLUMNS = "number, batch, sample, action, label, reviewer, at, version, undoes"
_LATEST = f"SELECT {_COLUMNS} FROM latest JOIN changes USING (number, sample)"


@dataclass(frozen=True)
class Decision:
    """What holds for a sample now."""

    index: int
    action: Action | None
    """None: undecided again. Only `decide` returns that; `current` leaves such samples out."""
    label: int | None
    """Class number, where the action is `relabel`."""
    reviewer: str
    at: float
    """Seconds since 1970."""
    version: int
    """How often the sample's decision has changed."""


@dataclass(frozen=True)
class Change(Decision):
    """One step of a sample's history."""

    number: int
    """Changes are numbered in the order in which they were written."""
    batch: int
    """Changes of one call have one batch: its first number."""
    undoes: int | None
    """The batch that this change took back."""


class ConflictError(UqledError):
    """Somebody decided in the meantime; nothing was written."""

    def __init__(self, now: Sequence[Decision]) -> None:
        self.now = list(now)
        """What holds for the samples in question."""
        self.indices = [decision.index for decision in now]
        shown = ", ".join(map(str, self.indices[:10])) + (" ..." if len(now) > 10 else "")
        by = ", ".join(sorted({decision.reviewer for decision in now}))
        super().__init__(
            f"samples {shown} were decided by {by} in the meantime. Look at them again"
        )


class Decisions:
    """A run's decisions, for reading and writing.

    With `n_samples` and `classes` the file is made if there is none, and one of other samples or
    classes is refused; `Decisions.of(predictions)` passes a run's. Without them the file must
    exist.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        n_samples: int | None = None,
        classes: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        if (n_samples is None) != (classes is None):
            raise InputError("n_samples", "and classes belong together", "Pass both or neither")
        expected = None
        if n_samples is not None and classes is not None:
            expected = {"samples": n_samples, "classes": list(classes)}
            expected |= {} if ids is None else {"ids": _digest(ids)}
        elif not self.path.is_file():
            raise FileError(
                f"file {str(self.path)!r}", "does not exist", "Review the run first: uqled review"
            )
        # One connection for all threads of a server: the lock keeps their statements apart.
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(expected)
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise FileError(
                f"file {str(self.path)!r}",
                f"cannot be used for decisions ({error})",
                "Choose a folder that can be written, or remove what is no file of decisions",
            ) from error

    @classmethod
    def of(cls, predictions: Predictions) -> Decisions:
        """The decisions of a run."""
        return cls(
            predictions.path / FILE_NAME,
            n_samples=len(predictions),
            classes=predictions.labels.names,
            ids=predictions.ids,
        )

    def __enter__(self) -> Decisions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def decide(
        self,
        items: Sequence[tuple[int, Action | None, int | None]],
        *,
        reviewer: str,
        seen: Mapping[int, int] | None = None,
        tab: str = "",
    ) -> list[Decision]:
        """Write decisions (sample, action, class number of a relabel), all or none.

        The action None makes a sample undecided. `seen` are the versions that the reviewer saw, 0
        where it has none: a newer one raises `ConflictError`. What a sample already has is no
        change. `tab` tells apart the windows of one reviewer, for `undo`.
        """
        items = [self._checked(*item) for item in items]
        if len({index for index, _, _ in items}) < len(items):
            raise InputError("items", "name a sample twice", "Decide once per sample")
        reviewer = _checked_name(reviewer)
        with self._writing():
            before = self._latest(index for index, _, _ in items)
            if seen is not None:
                newer = [now for i, now in before.items() if now.version > seen.get(i, 0)]
                if newer:
                    raise ConflictError(newer)
            return list(self._write(items, before, reviewer, tab))

    def undo(self, reviewer: str, *, tab: str | None = None) -> list[int]:
        """Take back the reviewer's last call of `decide` that was not taken back yet.

        Returns the samples that have their earlier decision again. What somebody changed since
        then stays as it is. With `tab`, only calls from that tab count.
        """
        reviewer = _checked_name(reviewer)
        with self._writing():
            found = self._connection.execute(
                "SELECT batch FROM changes WHERE reviewer = ? AND undoes IS NULL"
                " AND (? IS NULL OR tab = ?) AND batch NOT IN (SELECT batch FROM undone)"
                " ORDER BY number DESC LIMIT 1",
                (reviewer, tab, tab),
            ).fetchone()
            if found is None:
                return []
            (batch,) = found
            # Also where nothing of it can be taken back, so that the next undo looks further.
            self._connection.execute("INSERT INTO undone VALUES (?)", (batch,))
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM changes WHERE batch = ? ORDER BY number", (batch,)
            )
            items = []
            for written in [_change(row) for row in rows]:
                if self._holding(written.index) == written.version:
                    earlier = self._version(written.index, written.version - 1)
                    restored = (None, None) if earlier is None else (earlier.action, earlier.label)
                    items.append((written.index, *restored))
            now = self._latest(index for index, _, _ in items)
            back = self._write(items, now, reviewer, tab or "", undoes=batch)
            return [decision.index for decision in back]

    def current(self) -> dict[int, Decision]:
        """What holds now, for every sample that is decided."""
        with self._reading() as rows:
            found = map(_change, rows.execute(f"{_LATEST} WHERE action IS NOT NULL"))
            return {change.index: _decision(change) for change in found}

    def history(self, after: int = 0) -> list[Change]:
        """Every change ever made, oldest first; with `after`, those of higher numbers."""
        with self._reading() as rows:
            query = f"SELECT {_COLUMNS} FROM changes WHERE number > ? ORDER BY number"
            return [_change(row) for row in rows.execute(query, (after,))]

    def verdicts(self, N: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        """For `N` samples, (actions [N], labels [N]).

        Actions: 0 undecided, 1 keep, 2 relabel, 3 drop. Labels: the class number of a relabel,
        -1 elsewhere.
        """
        if self._samples != N:
            raise InputError(
                "N", f"is {N}", f"{str(self.path)!r} holds decisions on {self._samples} samples"
            )
        actions, labels = np.zeros(N, np.int8), np.full(N, -1, np.int32)
        for i, decision in self.current().items():
            actions[i] = action_number(decision.action)
            if decision.label is not None:
                labels[i] = decision.label
        return actions, labels

    def _prepare(self, expected: dict[str, Any] | None) -> None:
        """Make the tables where there are none, and see whose they are."""
        execute = self._connection.execute
        execute("PRAGMA synchronous = FULL")  # in WAL mode, less would lose what was acknowledged
        if expected is not None:
            self._make(expected)
        found = {key: json.loads(value) for key, value in execute("SELECT * FROM about")}
        if not found:
            raise FileError(
                f"file {str(self.path)!r}", "holds no decisions", "Review the run first"
            )
        for key, value in (expected or {}).items():
            if key in found and found[key] != value:
                what = {"samples": "number of samples", "classes": "classes", "ids": "samples"}
                raise FileError(
                    f"file {str(self.path)!r}",
                    f"holds decisions of a run with other {what[key]}",
                    "Move it back to the run it belongs to",
                )
        self._samples, self._classes = found["samples"], found["classes"]

    def _make(self, about: dict[str, Any]) -> None:
        until = time.monotonic() + _PATIENCE
        while True:  # SQLite does not wait by itself where two processes change the mode at once
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        with self._writing():
            for statement in _TABLES.split(";"):
                self._connection.execute(statement)
            rows = [(key, json.dumps(value)) for key, value in about.items()]
            if not self._connection.execute("SELECT count(*) FROM about").fetchone()[0]:
                self._connection.executemany("INSERT INTO about VALUES (?, ?)", rows)

    def _checked(
        self, index: int, action: Action | None, label: int | None
    ) -> tuple[int, Action | None, int | None]:
        index = arrays.whole_number(index, "index", low=0)
        if index >= self._samples:
            raise InputError("index", f"is {index}", f"There are {self._samples} samples")
        if action is not None and action not in ACTIONS:
            raise InputError("action", f"is {action!r}", f"Choose one of {', '.join(ACTIONS)}")
        if (label is not None) != (action == "relabel"):
            raise InputError(
                "label", f"is {label!r} for {action!r}", "Name a class for relabel, and only there"
            )
        if label is not None:
            label = arrays.whole_number(label, "label", low=0)
            if label >= len(self._classes):
                raise InputError("label", f"is {label}", f"There are {len(self._classes)} classes")
        return index, action, label

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: the block's changes are on the disk after it, or none of them."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._connection

    def _latest(self, indices: Any) -> dict[int, Decision]:
        """The last change of each of these samples that has one."""
        found = {}
        for i in indices:
            row = self._connection.execute(f"{_LATEST} WHERE sample = ?", (i,)).fetchone()
            if row is not None:
                found[i] = _decision(_change(row))
        return found

    def _version(self, index: int, version: int) -> Change | None:
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM changes WHERE sample = ? AND version = ?", (index, version)
        ).fetchone()
        return None if row is None else _change(row)

    def _holding(self, index: int) -> int:
        """The version whose decision holds: an undo brings back an earlier one."""
        version: int = self._latest([index])[index].version
        while (change := self._version(index, version)) is not None and change.undoes is not None:
            (taken_back,) = self._connection.execute(
                "SELECT version FROM changes WHERE batch = ? AND sample = ?", (change.undoes, index)
            ).fetchone()
            version = taken_back - 1
        return version

    def _write(
        self,
        items: Sequence[tuple[int, Action | None, int | None]],
        before: Mapping[int, Decision],
        reviewer: str,
        tab: str,
        undoes: int | None = None,
    ) -> Iterator[Decision]:
        """Write what is a change, and yield what holds then."""
        execute, at = self._connection.execute, time.time()
        (number,) = execute("SELECT coalesce(max(number), 0) FROM changes").fetchone()
        batch = number + 1
        for index, action, label in items:
            was = before.get(index)
            if was is not None and (was.action, was.label) == (action, label) and undoes is None:
                yield was
                continue
            number += 1
            version = 1 if was is None else was.version + 1
            execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, batch, index, action, label, reviewer, tab, at, version, undoes),
            )
            execute("INSERT OR REPLACE INTO latest VALUES (?, ?)", (index, number))
            yield Decision(index, action, label, reviewer, at, version)


def reviewed(predictions: Predictions) -> tuple[NDArray[np.int8], NDArray[np.int32]] | None:
    """A run's (actions [N], labels [N]), as `find_label_errors` takes verdicts.

    None where nothing is decided; no file is made where nobody reviewed.
    """
    if not (predictions.path / FILE_NAME).is_file():
        return None
    with Decisions.of(predictions) as decisions:
        actions, labels = decisions.verdicts(len(predictions))
    return (actions, labels) if actions.any() else None


def action_number(action: Action | None) -> int:
    """0 undecided, 1 keep, 2 relabel, 3 drop."""
    return 0 if action is None else 1 + ACTIONS.index(action)


def _change(row: Any) -> Change:
    number, batch, sample, action, label, reviewer, at, version, undoes = row
    return Change(sample, action, label, reviewer, at, version, number, batch, undoes)


def _decision(change: Change) -> Decision:
    return Decision(
        change.index, change.action, change.label, change.reviewer, change.at, change.version
    )


def _checked_name(reviewer: str) -> str:
    name = reviewer.strip() if isinstance(reviewer, str) else ""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InputError(
            "reviewer", f"is {reviewer!r:.100}", f"Pass a name of 1 to {_LONGEST_NAME} characters"
        )
    return name


def _digest(ids: Sequence[str]) -> str:
    """A hash of the samples' names: another run's samples have another one."""
    found = hashlib.blake2b(digest_size=16)
    for name in ids:
        data = name.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()
