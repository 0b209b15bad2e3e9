"""`auto`: how probable it is that each label is wrong, from several readings of the predictions."""

from __future__ import annotations

from uqled.detect.methods.method import Method

AUTO = Method(
    lambda evidence: evidence.flag_by_probability(),
    needs=(),
    takes_frac_noise=False,
    is_probabilistic=True,
    is_in_all=True,
)
