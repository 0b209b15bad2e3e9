"""The decisions as arrays, kept up to date with the file: other processes may write to it too."""

from __future__ import annotations

import threading
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.review.decisions.classes import read_class_decisions
from uqled.review.decisions.rows import Change, mark_bulk_accepts
from uqled.review.decisions.store import Decisions, action_number

State = Literal["undecided", "decided", "keep", "relabel", "drop"]
STATES: tuple[State, ...] = get_args(State)


class DecisionState:
    """The decisions about N samples."""

    def __init__(self, decisions: Decisions, N: int) -> None:
        self.decisions = decisions
        self.actions = np.zeros(N, np.int8)
        """[N] 0 undecided, 1 keep, 2 relabel, 3 drop."""
        self.labels = np.full(N, -1, np.int32)
        """[N] the class number of a relabel, -1 elsewhere."""
        self.times = np.zeros(N, np.int64)
        """[N] number of the change that decided the sample, 0 where it is undecided."""
        self.in_bulk = np.zeros(N, np.bool_)
        """[N] decisions that were made with many others, without a look at the sample."""
        self.latest: dict[int, Change] = {}
        """The last change of every sample that has one."""
        self.number = 0
        """The last change that was read."""
        self.class_targets: dict[int, int] = {}
        """Class -> the class that it is merged into."""
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Read the changes since the last refresh."""
        with self._lock:
            changes = self.decisions.history(self.number)
            bulk_changes = self.decisions.list_bulk_changes() if changes else set()
            for change in changes:
                i = change.index
                self.in_bulk[i] = change.number in bulk_changes
                was_decided = self.actions[i] > 0
                self.actions[i] = action_number(change.action)
                self.labels[i] = -1 if change.label is None else change.label
                if change.action is None:
                    self.times[i] = 0
                elif not was_decided:  # one that is changed keeps its place in the list
                    self.times[i] = change.number
                self.latest[i] = change
                self.number = change.number
            classes = read_class_decisions(self.decisions)
            self.class_targets = {k: c.target for k, c in classes.items() if c.target is not None}

    def copy_verdicts(self) -> tuple[int, NDArray[np.int8], NDArray[np.int32]]:
        """(number of the last change, actions [N], labels [N]) as `find_label_errors` takes
        verdicts; they stay as they are."""
        with self._lock:
            return self.number, mark_bulk_accepts(self.actions, self.in_bulk), self.labels.copy()

    def list_decided(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The decided samples of `mask` [N], in the order of the decisions."""
        samples = np.flatnonzero(mask & (self.times > 0))
        return samples[np.argsort(self.times[samples], kind="stable")]

    def is_in_state(self, indices: NDArray[np.intp], state: State) -> NDArray[np.bool_]:
        """Whether each of the samples is in that state."""
        actions = self.actions[indices]
        if state == "decided":
            return np.asarray(actions > 0)
        return np.asarray(actions == (0 if state == "undecided" else action_number(state)))

    def describe(self, index: int) -> dict[str, Any]:
        """A sample's decision, as the page gets it."""
        change = self.latest.get(index)
        if change is None:
            return {"action": None, "label": None, "version": 0}
        return {
            "action": change.action,
            "label": change.label,
            "version": change.version,
            "reviewer": change.reviewer,
            "at": change.at,
        }
