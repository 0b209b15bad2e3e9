"""Confident learning on the softmax: the baseline and its relatives."""

from __future__ import annotations

from uqled.detect.methods.method import SOFTMAX, Method

CL_PBNR = Method(
    lambda evidence: evidence.prune(SOFTMAX),
    members=lambda *_: [SOFTMAX],
    is_in_all=True,
    title="CL-PBNR",
    cleanlab_filter="prune_by_noise_rate",
)
CL_PBC = Method(
    lambda evidence: evidence.prune_by_class(),
    ranks_by="by-class",
    is_in_all=True,
    cleanlab_filter="prune_by_class",
)
CL_BOTH = Method(
    lambda evidence: evidence.prune(SOFTMAX) & evidence.prune_by_class(),
    members=lambda *_: [SOFTMAX],
    ranks_by="by-class",
    is_in_all=True,
    cleanlab_filter="both",
)
CL_JOINT = Method(
    lambda evidence: evidence.find_off_diagonal(),
    needs_confident_class=True,
    takes_frac_noise=False,
    is_in_all=True,
    cleanlab_filter="confident_learning",
)
