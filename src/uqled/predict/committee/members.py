"""All members' predictions of one fold, several members at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from uqled.engines.local import Threads, count_cores
from uqled.predict.committee.heads import HEADS, CommitteeFold
from uqled.predict.learner import Advance

_FEW = 5_000  # samples, up to which a member is as quick by one thread as by several


def share_threads(samples: int, members: int) -> int:
    """How many threads each of the members gets."""
    return 1 if samples <= _FEW else max(1, count_cores() // members)


def predict_by_members(
    fold: CommitteeFold, names: Sequence[str], advance: Advance
) -> NDArray[np.float32]:
    """[H,m,K] of the held-out samples.

    Two members at a time finish sooner than one after the other, whose threads wait for
    each other.
    """

    def predict(name: str) -> NDArray[np.float32]:
        with threadpool_limits(fold.threads, user_api="openmp"):  # of this thread alone
            return np.asarray(HEADS.load(name)(fold), np.float32)

    members = []
    with (
        threadpool_limits(fold.threads, user_api="blas"),
        Threads(min(count_cores(), len(names))) as engine,
    ):
        for prediction in engine.map(predict, names):
            members.append(prediction)
            advance(1 / len(names))
    return np.stack(members)
