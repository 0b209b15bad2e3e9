"""Confident learning on the passes: their mean, with and without a limit of the uncertainty, and
each pass by itself.

The family `cl-mcd-e`, `-m`, `-mi`, `-vr`, `-sd`: a sample counts for a class only if its
uncertainty is at most the mean of the class being counted, or of its given class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uqled.detect.core.class_statistics import Measure
from uqled.detect.core.sweeps import EntropyClass, Member, UncertaintyLimit
from uqled.detect.methods.method import MEAN, Method, SweepEvidence


def list_passes(n_passes: int, _: EntropyClass) -> list[Member]:
    """One member per pass."""
    return [Member(f) for f in range(n_passes)]


def count_pass_votes(evidence: SweepEvidence) -> NDArray[np.int16]:
    """[N] number of single passes that flag the sample."""
    votes = np.zeros(len(evidence.labels), np.int16)
    for member in list_passes(evidence.n_passes, evidence.entropy_class):
        votes += evidence.prune(member)
    return votes


def need_most_passes(n_passes: int, _agreement: int) -> int:
    return n_passes // 2 + 1


def make_limited_method(measure: Measure, title: str, *, is_in_all: bool = False) -> Method:
    """CL-MCD with a limit on this measure of uncertainty."""

    def get_member(entropy_class: EntropyClass) -> Member:
        return Member("mean", UncertaintyLimit(measure, entropy_class))

    return Method(
        lambda evidence: evidence.prune(get_member(evidence.entropy_class)),
        members=lambda _, entropy_class: [get_member(entropy_class)],
        source="mean",
        needs=("passes",),
        joint_limit=get_member,
        is_in_all=is_in_all,
        title=title,
    )


CL_MCD = Method(
    lambda evidence: evidence.prune(MEAN),
    members=lambda *_: [MEAN],
    source="mean",
    needs=("passes",),
    is_in_all=True,
    title="CL-MCD",
)
CL_MCD_ENS = Method(
    count_pass_votes,
    members=list_passes,
    source="mean",
    needs=("passes",),
    least_votes=need_most_passes,
    is_in_all=True,
    title="CL-MCD-Ens",
)
CL_MCD_E = make_limited_method("entropy", "CL-MCD-E", is_in_all=True)
CL_MCD_M = make_limited_method("margin", "CL-MCD-M")
CL_MCD_MI = make_limited_method("mutual-information", "CL-MCD-MI")
CL_MCD_VR = make_limited_method("variation-ratio", "CL-MCD-VR")
CL_MCD_SD = make_limited_method("standard-deviation", "CL-MCD-SD")
