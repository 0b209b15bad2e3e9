"""Second opinions: another reviewer's judgement of a decided sample, which does not change the
decision.

The first decision is hidden, so that the two are independent and their agreement can be measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uqled.errors import InputError
from uqled.review.decisions.rows import (
    CHANGE_COLUMNS,
    OPINION_COLUMNS,
    Change,
    Decision,
    Opinion,
    read_change,
    read_opinion,
    refuse_row,
)
from uqled.review.decisions.store import Decisions, Item, check_name


@dataclass(frozen=True)
class Agreement:
    """The agreement of two reviewers on the samples that both judged."""

    reviewers: tuple[str, str]
    n: int
    n_same: int
    kappa: float | None
    """Cohen's kappa; None if both always gave the same single verdict, so that it is undefined."""
    disagreements: list[int]
    """The samples on which they differ, and about which nobody decided again since."""


def give_opinions(decisions: Decisions, items: Sequence[Item], *, reviewer: str) -> None:
    """Write a reviewer's opinions on samples; a later opinion replaces an earlier one.

    A sample must be decided, and by somebody else.
    """
    reviewer = check_name(reviewer)
    checked_items = [decisions.check_item(*item) for item in items]
    with decisions.write_transaction() as connection:
        current = decisions.current()
        for index, _, _ in checked_items:
            if index not in current or current[index].reviewer == reviewer:
                raise InputError(
                    "items",
                    f"name sample {index}, which nobody else decided",
                    "Give second opinions on others' decisions",
                )
        last = connection.execute("SELECT max(number) FROM opinions").fetchone()[0] or 0
        now = time.time()
        for number, (index, action, label) in enumerate(checked_items, last + 1):
            row = (number, index, action, label, reviewer, now)
            connection.execute("INSERT INTO opinions VALUES (?, ?, ?, ?, ?, ?)", row)


def undo_opinions(decisions: Decisions, reviewer: str, *, after: float) -> list[int]:
    """Remove the opinions of the reviewer's last call of `give_opinions`, if it was later than
    `after` (seconds since 1970). Returns their samples, on which an earlier opinion holds again."""
    reviewer = check_name(reviewer)
    with decisions.write_transaction() as connection:
        query = f"SELECT {OPINION_COLUMNS} FROM opinions WHERE reviewer = ? ORDER BY number"
        rows = [
            read_opinion(row, decisions.path, decisions.about)
            for row in decisions.select(query, (reviewer,))
        ]
        if not rows or rows[-1].at <= after:
            return []
        last = [one for one in rows if one.at == rows[-1].at]  # one call, one time
        for one in last:
            connection.execute("DELETE FROM opinions WHERE number = ?", (one.number,))
    return [one.index for one in last]


def read_opinions(decisions: Decisions) -> dict[int, dict[str, Opinion]]:
    """Sample -> reviewer -> their last opinion."""
    current: dict[int, dict[str, Opinion]] = {}
    with decisions.read_transaction():
        for row in decisions.select(f"SELECT {OPINION_COLUMNS} FROM opinions ORDER BY number"):
            one = read_opinion(row, decisions.path, decisions.about)
            current.setdefault(one.index, {})[one.reviewer] = one
            if one.action is None:
                del current[one.index][one.reviewer]
    return {index: by for index, by in current.items() if by}


def measure_agreement(decisions: Decisions, codes: Any) -> list[Agreement]:
    """How far each pair of reviewers agrees; `codes` [N] are the given labels.

    An opinion is compared with the decision that held when it was given. What is decided later,
    with the opinion in sight, settles a disagreement and does not make the two agree.
    """
    histories = _read_histories(decisions)
    pairs: dict[tuple[str, str], list[tuple[int, str, str, bool]]] = {}
    for index, by in read_opinions(decisions).items():
        steps = histories.get(index, [])
        for reviewer, opinion in by.items():
            before = [
                verdicts_before for change, verdicts_before in steps if change.at <= opinion.at
            ] or [None]
            first, now = before[-1], steps[-1][1] if steps else None
            if first is None or first.reviewer == reviewer or now is None or now.action is None:
                continue
            label = int(codes[index])
            verdicts = {
                first.reviewer: _name_verdict(first, label),
                reviewer: _name_verdict(opinion, label),
            }
            one, other = sorted(verdicts)
            row = (index, verdicts[one], verdicts[other], now is first)
            pairs.setdefault((one, other), []).append(row)
    agreements = []
    for names, rows in sorted(pairs.items()):
        left, right = [row[1] for row in rows], [row[2] for row in rows]
        n_same = sum(a == b for a, b in zip(left, right, strict=True))
        open_ones = sorted(index for index, a, b, is_open in rows if is_open and a != b)
        kappa = _compute_kappa(left, right)
        agreements.append(Agreement(names, len(rows), n_same, kappa, open_ones))
    return agreements


def _read_histories(decisions: Decisions) -> dict[int, list[tuple[Change, Change | None]]]:
    """Sample with an opinion -> its changes, each with the one that held after it: an undo brings
    back an earlier one."""
    histories: dict[int, list[tuple[Change, Change | None]]] = {}
    places: dict[tuple[int, int], int] = {}  # (sample, batch) -> place in the sample's history
    query = (
        f"SELECT {CHANGE_COLUMNS} FROM changes"
        " WHERE sample IN (SELECT sample FROM opinions) ORDER BY number"
    )
    with decisions.read_transaction():
        for row in decisions.select(query):
            change = read_change(row, decisions.path, decisions.about)
            steps = histories.setdefault(change.index, [])
            change_before: Change | None = change
            if change.undoes is not None:
                place = places.get((change.index, change.undoes))
                if place is None:
                    raise refuse_row(decisions.path, change.number, "takes back what is not there")
                change_before = steps[place - 1][1] if place else None
            places[change.index, change.batch] = len(steps)
            steps.append((change, change_before))
    return histories


def count_opinions(decisions: Decisions) -> str:
    """Something that is another text after every opinion that was given or taken back."""
    with decisions.read_transaction() as connection:
        n, last = connection.execute("SELECT count(*), max(at) FROM opinions").fetchone()
    return f"{n} {last}"


def _compute_kappa(left: Sequence[str], right: Sequence[str]) -> float | None:
    """Cohen's kappa; None where both always said the same one thing.

    Not scikit-learn's: a thousandth of a second for each pair is minutes in a file of many names.

    >>> _compute_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    0.5
    """
    n, counts = len(left), Counter(right)
    n_same = sum(a == b for a, b in zip(left, right, strict=True))
    by_chance = sum(k * counts[name] for name, k in Counter(left).items())
    return None if by_chance == n * n else (n_same * n - by_chance) / (n * n - by_chance)


def _name_verdict(one: Decision | Opinion, label: int) -> str:
    """The class that somebody considers right, or `drop`."""
    if one.action == "drop":
        return "drop"
    return f"class {label if one.label is None else one.label}"
