"""Simple rules: the predicted class differs from the label, or the label's score is low."""

from __future__ import annotations

from uqled.detect.methods.method import Method, Score

ARGMAX = Method(
    lambda evidence: evidence.disagrees("softmax"),
    takes_frac_noise=False,
    is_in_all=True,
    cleanlab_filter="predicted_neq_given",
)
ARGMAX_MEAN = Method(
    lambda evidence: evidence.disagrees("mean"),
    source="mean",
    needs=("passes",),
    takes_frac_noise=False,
    is_in_all=True,
)


def _flag_lowest(score: Score) -> Method:
    return Method(
        lambda evidence: evidence.find_lowest(score),
        ranks_by=score,
        needs_confident_class=True,
        takes_frac_noise=False,
        is_in_all=True,
        cleanlab_filter=f"low_{score.replace('-', '_')}",
    )


LOW_SELF_CONFIDENCE = _flag_lowest("self-confidence")
LOW_NORMALIZED_MARGIN = _flag_lowest("normalized-margin")
