"""`alg-ens`: how many of four algorithms flag a sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.sweeps import EntropyClass, Member, UncertaintyLimit
from uqled.detect.methods.method import MEAN, SOFTMAX, Method, SweepEvidence
from uqled.detect.methods.passes import count_pass_votes, list_passes, need_most_passes


def _list_members(n_passes: int, entropy_class: EntropyClass) -> list[Member]:
    return [
        SOFTMAX,
        MEAN,
        _make_limited_member(entropy_class),
        *list_passes(n_passes, entropy_class),
    ]


def _make_limited_member(entropy_class: EntropyClass) -> Member:
    return Member("mean", UncertaintyLimit("entropy", entropy_class))


def _count_votes(evidence: SweepEvidence) -> NDArray[np.int16]:
    """[N] how many of CL-PBNR, CL-MCD, CL-MCD-E and CL-MCD-Ens flag the sample."""
    n_passes = evidence.n_passes
    flags = (
        evidence.prune(SOFTMAX),
        evidence.prune(MEAN),
        evidence.prune(_make_limited_member(evidence.entropy_class)),
        count_pass_votes(evidence) >= need_most_passes(n_passes, 0),
    )
    votes: NDArray[np.int16] = np.sum(flags, axis=0, dtype=np.int16)
    return votes


ALG_ENS = Method(
    _count_votes,
    members=_list_members,
    source="mean",
    needs=("pred_probs", "passes"),
    least_votes=lambda _passes, agreement: agreement,
    agreements=(1, 2, 3, 4),
    usual_agreements=(3, 2),
    is_in_all=True,
    title="Alg-Ens",
)
