"""How many actions a reviewer who knows the truth needs: one by one, and in groups.

    python benchmarks/review_decisions.py

An action is a key press or a click. One by one, every flag takes one. In groups, a sheet takes one
click per sample that does not belong and one key for the rest; what was left out is decided one by
one in the end.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from review_runs import finish
from uqled.data import Dataset
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions
from uqled.review.groups import list_groups
from uqled.review.session import ReviewSession


def make_session(folder: Path, N: int, K: int, margin: float) -> ReviewSession:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, K, N)
    names = np.array([f"class {k:02d}" for k in range(K)])
    data = Dataset.from_arrays(rng.normal(size=(N, 2)), names[codes])
    predictions = finish(folder / "run", data, wrong=0.1, margin=margin).predictions()
    errors = find_label_errors(predictions, method="all")
    return ReviewSession(predictions, errors, Decisions.of(predictions), None, reviewer="script")


def count_actions(session: ReviewSession) -> tuple[int, int, int]:
    """(flags settled, actions in groups, of these on single samples)."""
    flags, predictions = session.get_list(None), session.predictions
    truth, given = predictions.truth, predictions.labels.codes
    assert truth is not None
    actions, later, settled = 0, set[int](), 0
    while True:
        session.update()
        groups, _ = list_groups(flags, predictions, 1000)
        group = next((one for one in groups if not later.issuperset(one.indices.tolist())), None)
        if group is None:
            break
        indices = [i for i in group.indices.tolist() if i not in later]
        suggested = group.suggested
        fits = [i for i in indices if truth[i] == suggested]
        keeps = [i for i in indices if truth[i] == given[i]]
        chosen = fits if len(fits) >= len(keeps) else keeps
        outside = [i for i in indices if i not in chosen]
        later |= set(outside)
        actions += len(outside) + 1
        settled += len(chosen)
        if not chosen:
            continue
        action = ("relabel", suggested) if chosen is fits else ("keep", None)
        items: Any = [(i, *action) for i in chosen]
        session.decisions.decide(items, reviewer="script")
    single = len(flags.list_undecided())
    return settled + single, actions + single, single


def main() -> None:
    print("| samples | classes | flags | real | one by one | in groups | actions per label |")
    print("|---|---|---|---|---|---|---|")
    for N, K, margin in ((6000, 10, 4.5), (6000, 10, 3.0), (6000, 20, 4.5), (6000, 4, 4.5)):
        with tempfile.TemporaryDirectory() as folder:
            session = make_session(Path(folder), N, K, margin)
            first = session.get_list(None).first
            is_error = session.predictions.truth != session.predictions.labels.codes
            settled, actions, _ = count_actions(session)
            real = is_error[first.mask].mean()
            session.decisions.close()
            print(
                f"| {N:,} | {K} | {first.n_flagged:,} | {real:.0%} | {settled:,} | {actions:,} "
                f"| {actions / settled:.2f} |"
            )


if __name__ == "__main__":
    main()
