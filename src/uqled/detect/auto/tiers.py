"""Tiers: how certain it is that a label is wrong, in steps that people understand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Estimate
from uqled.detect.auto.estimate import ErrorEstimate

Bools = NDArray[np.bool_]

#: In this order; a sample in no tier has an empty name.
TIERS = ("almost certainly wrong", "probably wrong", "possibly wrong", "worth a look")
#: A label is almost certainly wrong if every explanation with a weight gives at least this
#: probability.
CERTAIN_PROBABILITY = 0.9
#: A label is probably wrong if that is more likely than not.
PROBABLE = 0.5
#: An unflagged sample is worth a look from this probability on: one look in five finds an error.
WORTH = 0.2


#: A label is only called almost certainly wrong if at least so many such labels are expected to be
#: wrong, by what is known of other data.
CERTAIN_SHARE = 0.75
#: What data sets whose truth is known show about flags on which the explanations agree: the
#: log-odds that such a label is wrong where the explanations agree on the number of errors too, the
#: fall of the log-odds with the logarithm of their agreement, and the number of verdicts that all
#: this is worth. Fitted by `benchmarks/auto/tier_history.py`.
AGREED_LOG_ODDS, AGREED_SLOPE, AGREED_WORTH = 2.846, 1.225, 5.88


@dataclass(frozen=True)
class AgreedShare:
    """The share of wrong labels among flags on which the explanations agree: a beta distribution.

    The explanations agree there, so how much they differ says nothing about it; and where the model
    has errors of its own, all of them are overconfident. Only other data show how often. The
    distribution is that of the share on data sets whose explanations agree on the number of errors
    as much as they do here. Verdicts on such labels count beside it.
    """

    wrong: float
    right: float
    """The parameters, as numbers of verdicts."""

    @classmethod
    def of_agreement(cls, agreement: float) -> AgreedShare:
        """Before any verdict; the agreement is that of the estimate."""
        log_odds = AGREED_LOG_ODDS + AGREED_SLOPE * math.log(max(agreement, 1e-9))
        mean = 1 / (1 + math.exp(-log_odds))
        return cls(AGREED_WORTH * mean, AGREED_WORTH * (1 - mean))

    @classmethod
    def of(cls, estimate: ErrorEstimate) -> AgreedShare:
        """With the verdicts, if there are any."""
        share = cls.of_agreement(estimate.agreement)
        if (evidence := estimate.evidence) is None:
            return share
        verdicts = evidence[find_agreed_flags(estimate)]
        n_wrong, n_right = (int(np.count_nonzero(verdicts == verdict)) for verdict in (1, 0))
        return cls(share.wrong + n_wrong, share.right + n_right)

    @property
    def mean(self) -> float:
        return self.wrong / (self.wrong + self.right)

    def predict(self, n: int) -> Estimate:
        """The share of n labels that is wrong: its median, and an 80% interval.

        The share of few labels varies more: it is taken for a beta distribution with the variance
        of the beta-binomial one.
        """
        from scipy.special import betaincinv  # here: it takes a moment to import

        worth = self.wrong + self.right
        worth_of_n = max(n * (worth + 1) / (worth + n) - 1, 1e-3)
        of_n = self.mean * worth_of_n, (1 - self.mean) * worth_of_n
        value = float(betaincinv(self.wrong, self.right, 0.5))
        low, high = (float(betaincinv(*of_n, part)) for part in (0.1, 0.9))
        return Estimate(value, min(low, value), max(high, value))


def find_agreed_flags(estimate: ErrorEstimate) -> Bools:
    """[N] the labels that every explanation with a weight takes for wrong."""
    counting = [estimate.readings[name] for name, weight in estimate.weights.items() if weight > 0]
    agreed: Bools = np.min(counting, axis=0) >= CERTAIN_PROBABILITY
    return agreed


def assign_tiers(estimate: ErrorEstimate, mask: NDArray[np.bool_]) -> NDArray[np.int8]:
    """[N] each sample's number in `TIERS`, or -1.

    In this order: flags on which all explanations agree, if such flags are mostly right on data
    like these; other flags more likely wrong than right; the remaining flags; and the next samples
    of the ranking.
    """
    is_certain = find_agreed_flags(estimate)
    if AgreedShare.of(estimate).mean < CERTAIN_SHARE:
        is_certain[:] = False
    if estimate.known is not None:
        is_certain = np.where(estimate.known < 0, is_certain, estimate.known == 1)
        if estimate.correction is not None:  # verdicts outweigh explanations
            is_certain &= estimate.probability >= CERTAIN_PROBABILITY
    is_probable = estimate.probability >= PROBABLE
    tiers = np.where(estimate.probability >= WORTH, np.int8(3), np.int8(-1))
    tiers[mask] = np.where(is_certain[mask], 0, np.where(is_probable[mask], 1, 2))
    return tiers


def estimate_tier(estimate: ErrorEstimate, number: int, mask: Bools) -> Estimate:
    """The share of wrong labels, with an 80% interval, among samples [N] of one tier."""
    if number:
        return estimate.precision(mask)
    n, n_decided = int(np.count_nonzero(mask)), 0
    if estimate.known is not None:  # in this tier, all that is decided is wrong
        n_decided = int(np.count_nonzero(estimate.known[mask] == 1))
    if n == n_decided:
        return Estimate(1.0, 1.0, 1.0)
    share = AgreedShare.of(estimate).predict(n - n_decided)
    ends = (share.value, share.low, share.high)
    return Estimate(*((n_decided + end * (n - n_decided)) / n for end in ends))


def name_tiers(tiers: NDArray[np.int8]) -> NDArray[Any]:
    """[N] their names, empty for no tier."""
    return np.array([*TIERS, ""], object)[tiers]
