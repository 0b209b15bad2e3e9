"""Decisions on disk: one SQLite file per run, and every change that was ever made to it.

A decision is on the disk when `decide` returns: the log is flushed at every commit. Versions
count the changes of a sample. Whoever decides says which version they saw, so that nobody
overwrites a decision they did not know of.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.errors import FileError, InputError, UqledError
from uqled.limits import exceed_limit, get_limit
from uqled.review.decisions.database import (
    BoundedConnection,
    explain_database_problems,
    open_decision_file,
    refuse_file,
)
from uqled.review.decisions.rows import (
    ACTIONS,
    CHANGE_COLUMNS,
    LONGEST_NAME,
    Action,
    Change,
    Decision,
    Description,
    hash_ids,
    is_reviewer_name,
    mark_bulk_accepts,
    read_change,
    read_description,
    refuse_row,
)
from uqled.storage.reading import name_file
from uqled.storage.run import Predictions

DECISIONS_FILE = "decisions.sqlite"

Item = tuple[int, Action | None, int | None]
"""Sample, action, class number of a relabel."""

_LATEST = f"SELECT {CHANGE_COLUMNS} FROM latest JOIN changes USING (number, sample)"
#: Samples whose row in `latest` is not the last of their changes.
_MISFITS = (
    "SELECT changes.sample FROM changes LEFT JOIN latest ON latest.sample = changes.sample"
    " WHERE latest.number IS NULL OR latest.number < changes.number LIMIT 1",
    "SELECT latest.sample FROM latest LEFT JOIN changes ON changes.number = latest.number"
    " WHERE changes.sample IS NOT latest.sample LIMIT 1",
)


class ConflictError(UqledError):
    """Somebody decided in the meantime; nothing was written."""

    def __init__(self, now: Sequence[Decision]) -> None:
        self.now = list(now)
        """The current decisions about the samples in question."""
        self.indices = [decision.index for decision in now]
        index_list = ", ".join(map(str, self.indices[:10])) + (" ..." if len(now) > 10 else "")
        by = ", ".join(sorted({decision.reviewer for decision in now}))
        super().__init__(
            f"samples {index_list} were decided by {by} in the meantime. Look at them again"
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
            expected |= {} if ids is None else {"ids": hash_ids(ids)}
        # One connection for all threads of a server: the lock keeps their statements apart.
        self._lock = threading.RLock()
        self._connection: BoundedConnection = open_decision_file(self.path, expected)
        # A widget in a notebook is forgotten, not closed.
        weakref.finalize(self, self._connection.close)
        try:
            with self.read_transaction():
                self.about = self._check(expected or {})
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def of(cls, predictions: Predictions) -> Decisions:
        """The decisions of a run."""
        return cls(
            predictions.path / DECISIONS_FILE,
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
        items: Sequence[Item],
        *,
        reviewer: str,
        seen_versions: Mapping[int, int] | None = None,
        tab: str = "",
        in_bulk: bool = False,
    ) -> list[Decision]:
        """Write decisions (sample, action, class number of a relabel), all or none.

        The action None makes a sample undecided. `seen_versions` are the versions that the reviewer
        saw, 0 for a sample without a decision: a newer one raises `ConflictError`. The decision
        that a sample already has is no change, unless it settles a second opinion that differs.
        `tab` tells the windows of one reviewer apart, for `undo`. `in_bulk` decisions were made
        without a look at each sample; the same decision about one of them after a look is a change.
        """
        return self.decide_for_reviewers(
            {reviewer: items}, seen_versions=seen_versions, tab=tab, in_bulk=in_bulk
        )

    def decide_for_reviewers(
        self,
        by_reviewer: Mapping[str, Sequence[Item]],
        *,
        seen_versions: Mapping[int, int] | None = None,
        tab: str = "",
        in_bulk: bool = False,
    ) -> list[Decision]:
        """The same for several reviewers, each with samples of their own, all or none."""
        checked_items = {
            check_name(who): [self.check_item(*item) for item in items]
            for who, items in by_reviewer.items()
        }
        indices = [index for items in checked_items.values() for index, _, _ in items]
        if len(set(indices)) < len(indices):
            raise InputError("items", "name a sample twice", "Decide once per sample")
        with self.write_transaction():
            before = self._find_latest(indices)
            if seen_versions is not None:
                newer = [now for i, now in before.items() if now.version > seen_versions.get(i, 0)]
                if newer:
                    raise ConflictError(newer)
            bulk_samples = set(indices) if in_bulk else set()
            return [
                decision
                for who, items in checked_items.items()
                for decision in self._write(items, before, who, tab, bulk_samples)
            ]

    def undo(self, reviewer: str, *, tab: str | None = None) -> list[int]:
        """Take back the reviewer's last call of `decide` that was not taken back yet.

        Returns the samples that have their earlier decision again. What somebody changed since
        then stays as it is. With `tab`, only calls from that tab count.
        """
        reviewer = check_name(reviewer)
        with self.write_transaction():
            last = self.find_last_change(reviewer, tab=tab)
            if last is None:
                return []
            batch = last.batch
            # Even if nothing in it can be undone, so that the next undo goes further back.
            self._connection.execute("INSERT INTO undone VALUES (?)", (batch,))
            query = f"SELECT {CHANGE_COLUMNS} FROM changes WHERE batch = ? ORDER BY number"
            items, bulk_samples = [], set()
            for change in list(self._iterate_changes(query, (batch,))):
                if self._find_version(change.index) == change.version:
                    earlier = self._read_version(change.index, change.version - 1)
                    earlier_decision = (
                        (None, None) if earlier is None else (earlier.action, earlier.label)
                    )
                    items.append((change.index, *earlier_decision))
                    if self._is_in_bulk(earlier):
                        bulk_samples.add(change.index)
            now = self._find_latest(index for index, _, _ in items)
            changes = self._write(items, now, reviewer, tab or "", bulk_samples, undoes=batch)
            return [decision.index for decision in changes]

    def find_last_change(self, reviewer: str, *, tab: str | None = None) -> Change | None:
        """The last change of the call that `undo` would take back."""
        with self.read_transaction():
            row = self._connection.execute(
                f"SELECT {CHANGE_COLUMNS} FROM changes WHERE reviewer = ? AND undoes IS NULL"
                " AND (? IS NULL OR tab = ?) AND batch NOT IN (SELECT batch FROM undone)"
                " ORDER BY number DESC LIMIT 1",
                (reviewer, tab, tab),
            ).fetchone()
            return None if row is None else self._read_change(row)

    def current(self) -> dict[int, Decision]:
        """The current decision about every decided sample."""
        return {i: _make_decision(change) for i, change in self._read_current().items()}

    def _read_current(self) -> dict[int, Change]:
        current: dict[int, Change] = {}
        with self.read_transaction():
            for change in self._iterate_changes(f"{_LATEST} WHERE action IS NOT NULL"):
                if change.index in current:  # a database page that occurs more than once
                    raise refuse_row(self.path, change.number, "is there twice")
                current[change.index] = change
        return current

    def history(self, after: int = 0) -> list[Change]:
        """Every change ever made, oldest first; with `after`, those of higher numbers."""
        changes: list[Change] = []
        with self.read_transaction():
            query = f"SELECT {CHANGE_COLUMNS} FROM changes WHERE number > ? ORDER BY number"
            for change in self._iterate_changes(query, (after,)):
                if changes and change.number <= changes[-1].number:
                    raise refuse_row(self.path, change.number, "is there twice")
                changes.append(change)
        return changes

    def verdicts(self, N: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        """For `N` samples, (actions [N], labels [N]).

        Actions: 0 undecided, 1 keep, 2 relabel, 3 drop, 4 relabel without a look. Labels: the class
        number of a relabel, -1 elsewhere.
        """
        if self.about.samples != N:
            raise InputError(
                "N",
                f"is {N}",
                f"{str(self.path)!r} holds decisions on {self.about.samples} samples",
            )
        actions, labels = np.zeros(N, np.int8), np.full(N, -1, np.int32)
        current = self._read_current()
        in_bulk, bulk_changes = np.zeros(N, np.bool_), self.list_bulk_changes()
        for i, change in current.items():
            actions[i] = action_number(change.action)
            in_bulk[i] = change.number in bulk_changes
            if change.label is not None:
                labels[i] = change.label
        return mark_bulk_accepts(actions, in_bulk), labels

    def list_bulk_changes(self) -> set[int]:
        """The numbers of changes that were made without a look at the sample."""
        with self.read_transaction():
            return {row[0] for row in self.select("SELECT number FROM bulk_changes")}

    def _is_in_bulk(self, change: Change | None) -> bool:
        query = "SELECT 1 FROM bulk_changes WHERE number = ?"
        number = None if change is None else change.number
        return self._connection.execute(query, (number,)).fetchone() is not None

    def _check(self, expected: Mapping[str, Any]) -> Description:
        """Check which run these decisions belong to, and that they are consistent."""
        about = read_description(
            self._connection.execute("SELECT key, value FROM about"), self.path
        )
        what = {"samples": "number of samples", "classes": "classes", "ids": "samples"}
        for key, value in expected.items():
            # Older files have no hash of the names.
            if getattr(about, key) not in (value, None):
                raise FileError(
                    name_file(self.path),
                    f"holds decisions of a run with other {what[key]}",
                    "Move it back to the run it belongs to",
                )
        for query in _MISFITS:
            if (row := self._connection.execute(query).fetchone()) is not None:
                raise refuse_file(
                    self.path, f"the decision on sample {row[0]!r:.100} does not fit its changes"
                )
        return about

    def check_item(self, index: int, action: Action | None, label: int | None) -> Item:
        """Check that a decision is possible for this run."""
        index = arrays.check_whole_number(index, "index", low=0)
        if index >= self.about.samples:
            raise InputError("index", f"is {index}", f"There are {self.about.samples} samples")
        if action is not None and action not in ACTIONS:
            raise InputError("action", f"is {action!r}", f"Choose one of {', '.join(ACTIONS)}")
        if (label is not None) != (action == "relabel"):
            raise InputError(
                "label", f"is {label!r} for {action!r}", "Name a class for relabel, and only there"
            )
        if label is not None:
            label = arrays.check_whole_number(label, "label", low=0)
            if label >= len(self.about.classes):
                raise InputError(
                    "label", f"is {label}", f"There are {len(self.about.classes)} classes"
                )
        return index, action, label

    @contextmanager
    def write_transaction(self) -> Iterator[BoundedConnection]:
        """A transaction: all changes of the block are on disk after it, or none."""
        with self.read_transaction():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def read_transaction(self) -> Iterator[BoundedConnection]:
        """Read in one thread at a time; errors name the file."""
        with self._lock, explain_database_problems(self.path):
            yield self._connection

    def _read_change(self, row: Any) -> Change:
        return read_change(row, self.path, self.about)

    def _iterate_changes(self, query: str, parameters: tuple[Any, ...] = ()) -> Iterator[Change]:
        """The changes that a query lists."""
        return map(self._read_change, self.select(query, parameters))

    def select(self, query: str, parameters: tuple[Any, ...] = ()) -> Iterator[Any]:
        """The rows of a query, as many as a file may have."""
        most = get_limit("decision_rows")
        for count, row in enumerate(self._connection.execute(query, parameters), 1):
            if count > most:
                raise exceed_limit("decision_rows", f"more than {most:,}", name_file(self.path))
            yield row

    def _find_latest(self, indices: Any) -> dict[int, Decision]:
        """The last change of each of these samples that has one."""
        latest = {}
        for i in indices:
            row = self._connection.execute(f"{_LATEST} WHERE sample = ?", (i,)).fetchone()
            if row is not None:
                latest[i] = _make_decision(self._read_change(row))
        return latest

    def _read_version(self, index: int, version: int) -> Change | None:
        row = self._connection.execute(
            f"SELECT {CHANGE_COLUMNS} FROM changes WHERE sample = ? AND version = ?",
            (index, version),
        ).fetchone()
        return None if row is None else self._read_change(row)

    def _find_version(self, index: int) -> int:
        """The version whose decision holds: an undo brings back an earlier one."""
        latest = self._find_latest([index]).get(index)
        version = 0 if latest is None else latest.version
        while (change := self._read_version(index, version)) and change.undoes is not None:
            row = self._connection.execute(
                f"SELECT {CHANGE_COLUMNS} FROM changes WHERE batch = ? AND sample = ?",
                (change.undoes, index),
            ).fetchone()
            if row is None or (earlier := self._read_change(row).version) >= version:
                raise refuse_row(self.path, change.number, "takes back what is not there")
            version = earlier - 1
        return version

    def _is_confirmed(self, decision: Decision, in_bulk: bool) -> bool:
        """Whether the same decision again says more: after a look, or another opinion."""
        was_in_bulk = self._is_in_bulk(self._read_version(decision.index, decision.version))
        return (was_in_bulk and not in_bulk) or self._is_doubted(decision)

    def _is_doubted(self, decision: Decision) -> bool:
        """Whether a later second opinion differs: the same decision then confirms it."""
        version = self._read_version(decision.index, self._find_version(decision.index))
        since_time = decision.at if version is None else version.at
        query = (
            "SELECT 1 FROM opinions WHERE sample = ? AND at >= ? AND (action, label) IS NOT (?, ?)"
        )
        values = (decision.index, since_time, decision.action, decision.label)
        return self._connection.execute(query, values).fetchone() is not None

    def _write(
        self,
        items: Sequence[Item],
        before: Mapping[int, Decision],
        reviewer: str,
        tab: str,
        bulk_samples: Set[int],
        undoes: int | None = None,
    ) -> Iterator[Decision]:
        """Write the changes, and yield the resulting decisions. Nobody looked at `bulk_samples`."""
        execute, at = self._connection.execute, time.time()
        last = execute(
            f"SELECT {CHANGE_COLUMNS} FROM changes ORDER BY number DESC LIMIT 1"
        ).fetchone()
        number = 0 if last is None else self._read_change(last).number
        batch = number + 1
        for index, action, label in items:
            was = before.get(index)
            is_same = was is not None and (was.action, was.label) == (action, label)
            is_again = was is not None and is_same and undoes is None
            if was is not None and is_again and not self._is_confirmed(was, index in bulk_samples):
                yield was
                continue
            number += 1
            version = 1 if was is None else was.version + 1
            execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, batch, index, action, label, reviewer, tab, at, version, undoes),
            )
            execute("INSERT OR REPLACE INTO latest VALUES (?, ?)", (index, number))
            if index in bulk_samples:
                execute("INSERT INTO bulk_changes VALUES (?)", (number,))
            yield Decision(index, action, label, reviewer, at, version)


def action_number(action: Action | None) -> int:
    """0 undecided, 1 keep, 2 relabel, 3 drop."""
    return 0 if action is None else 1 + ACTIONS.index(action)


def _make_decision(change: Change) -> Decision:
    return Decision(
        change.index, change.action, change.label, change.reviewer, change.at, change.version
    )


def check_name(reviewer: str) -> str:
    """The name of a reviewer, without spaces around it."""
    name = reviewer.strip() if isinstance(reviewer, str) else ""
    if not is_reviewer_name(name):
        raise InputError(
            "reviewer", f"is {reviewer!r:.100}", f"Pass a name of 1 to {LONGEST_NAME} characters"
        )
    return name
