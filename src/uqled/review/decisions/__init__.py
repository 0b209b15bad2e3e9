"""Reviewers' decisions about samples and classes, and second opinions.

store        every decision about a sample, with its history; `Decisions`
reading      what was decided about a run
classes      classes that were merged or renamed
opinions     second opinions, and how far two reviewers agree
database     the SQLite file, made whole and opened only if it is one of ours
rows         its rows, each checked where it is read
state        the decisions as arrays, up to date with the file
"""

from uqled.review.decisions.reading import has_decisions, read_decisions, read_verdicts
from uqled.review.decisions.rows import ACTIONS, Action, Change, Decision
from uqled.review.decisions.store import (
    DECISIONS_FILE,
    ConflictError,
    Decisions,
    Item,
    action_number,
)

__all__ = [
    "ACTIONS",
    "DECISIONS_FILE",
    "Action",
    "Change",
    "ConflictError",
    "Decision",
    "Decisions",
    "Item",
    "action_number",
    "has_decisions",
    "read_decisions",
    "read_verdicts",
]
