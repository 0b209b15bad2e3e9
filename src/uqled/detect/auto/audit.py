"""An audit: a few samples, drawn by a known design and judged by a person, show how many labels are
wrong and how many flags are real.

The design. Every sample gets a length in proportion to the standard deviation of its unknown label,
sqrt(p (1 - p)). Sorted by score, the lengths are laid end to end and cut into as many equal strata
as samples are to be drawn. One sample is drawn from each stratum, at the same position in all
strata, which is chosen at random (systematic sampling). So every sample has a known probability of
being drawn, samples of all scores are drawn, and most draws go where they are most informative.

The estimate is a difference estimator: the sum that the model expects over all samples, corrected
by the judged samples' differences from it, each divided by its probability of being drawn. It is
unbiased whatever the model; a good model lowers its variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.answer import Estimate
from uqled.errors import InputError

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The default number of samples to judge.
SIZE = 40
#: Probabilities are clipped to this distance from 0 and 1 when samples are drawn: the model may be
#: wrong.
_SUREST = 0.002
#: More verdicts are not worth it once the 80% interval reaches no further than this from its
#: middle.
ENOUGH_REACH = 0.25


@dataclass(frozen=True)
class Audit:
    """Samples to be judged, in a random order, and the probability with which each was drawn."""

    indices: Ints
    """[n] to be judged in this order: the first few are an audit of their own."""
    inclusion: Floats
    """[n] the probability with which each was drawn."""

    def __len__(self) -> int:
        return len(self.indices)


def audit_sample(errors: LabelErrors, size: int = SIZE, *, seed: int = 0) -> Audit:
    """Draw samples for an audit of how many labels are wrong; those with a verdict are left out.

    >>> import numpy as np, uqled
    >>> probs = np.random.default_rng(0).dirichlet([1, 1, 1], 500)
    >>> errors = uqled.find_label_errors(probs.argmax(axis=1), probs)
    >>> len(audit_sample(errors, 10))
    10
    """
    arrays.check_whole_number(size, "size", low=1)
    estimate = errors.estimate
    if estimate is None:
        raise InputError(
            "errors", f"are those of {errors.method!r}, without probabilities", "Use method='auto'"
        )
    order = estimate.order
    if estimate.known is not None:
        order = order[estimate.known[order] < 0]
    if size >= len(order):
        return Audit(order.copy(), np.ones(len(order)))
    rng = np.random.default_rng(seed)
    p = np.clip(estimate.probability[order], _SUREST, 1 - _SUREST)
    inclusion = _spread_evenly(np.sqrt(p * (1 - p)), size)
    places = np.arange(size) + rng.random()
    ends = np.cumsum(inclusion)
    at = np.searchsorted(ends * (size / ends[-1]), places, side="right")
    at = rng.permutation(at.clip(max=len(order) - 1))
    return Audit(order[at], inclusion[at])


def _spread_evenly(sizes: Floats, n: int) -> Floats:
    """[N] probabilities in proportion to the sizes that add up to n, none above 1."""
    inclusion: Floats = np.minimum(sizes * (n / sizes.sum()), 1.0)
    while inclusion.sum() < n - 1e-9:
        is_below_one = inclusion < 1
        n_left = n - np.count_nonzero(~is_below_one)
        inclusion[is_below_one] = np.minimum(
            sizes[is_below_one] * (n_left / sizes[is_below_one].sum()), 1.0
        )
        if not (inclusion[is_below_one] >= 1).any():
            break
    return inclusion


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit, after some of its samples were judged."""

    n_judged: int
    n_wrong: int
    """Of the judged."""
    n_errors: dict[float, Estimate]
    """Confidence (0.8 or 0.95) -> the number of wrong labels."""
    precision: dict[float, Estimate]
    """Confidence -> the share of the flags that is real."""
    advice: str
    """Whether more verdicts are worth it."""


def estimate_audit(
    errors: LabelErrors,
    audit: Audit,
    verdicts: Mapping[int, bool],
    *,
    mask: Any = None,
    settled: Any = None,
) -> AuditResult:
    """Estimate how many labels are wrong from verdicts: {sample: True if its label is wrong}.

    `errors` are those that the audit was drawn from. Samples of the audit count up to the first one
    without a verdict; verdicts on other samples count as they are. `mask` [N] are the flags whose
    precision is estimated, by default those of `errors`. `settled` [N] are samples whose labels
    are right by definition, as those between classes that were merged: they are no flags, need no
    verdict, and one that they have is ignored.
    """
    is_settled = np.zeros(len(errors), np.bool_)
    if settled is not None:
        is_settled |= np.asarray(settled, np.bool_)
    verdicts = {z: is_wrong for z, is_wrong in verdicts.items() if not is_settled[z]}
    judged_samples = np.array([z for z in audit.indices.tolist() if z in verdicts], np.int64)
    if not len(judged_samples):
        raise InputError("verdicts", "have none of the audit's samples", "Judge some of them first")
    flags = (errors.mask if mask is None else np.asarray(mask, np.bool_)) & ~is_settled
    inclusion = dict(zip(audit.indices.tolist(), audit.inclusion.tolist(), strict=True))
    # Nothing is estimated about settled samples, so those that were drawn add nothing to the sum.
    n_to_judge = int(np.count_nonzero(~is_settled[audit.indices]))
    share = len(judged_samples) / n_to_judge
    inclusion_probability = np.minimum([inclusion[z] * share for z in judged_samples.tolist()], 1.0)
    is_wrong = np.array([verdicts[z] for z in judged_samples.tolist()], np.float64)
    expectation = _expect(errors, verdicts, judged_samples)
    numbers = {
        c: _estimate_total(
            expectation, ~is_settled, judged_samples, inclusion_probability, is_wrong, c
        )
        for c in (0.8, 0.95)
    }
    precisions = {
        c: _estimate_total(
            expectation, flags, judged_samples, inclusion_probability, is_wrong, c
        ).as_share_of(int(np.count_nonzero(flags)))
        for c in (0.8, 0.95)
    }
    advice = _advise(numbers[0.8], n_to_judge - len(judged_samples))
    return AuditResult(len(judged_samples), int(is_wrong.sum()), numbers, precisions, advice)


def _expect(errors: LabelErrors, verdicts: Mapping[int, bool], judged_samples: Ints) -> Floats:
    """[N] the expected number of errors of each sample before it is judged: the model's
    probability, corrected by the verdicts. Samples decided outside the audit are certain."""
    estimate = errors.estimate
    assert estimate is not None
    encoded_verdicts = np.full(len(errors), -1, np.int8)
    for z, is_wrong in verdicts.items():
        encoded_verdicts[z] = is_wrong
    expectation = estimate.with_known_verdicts(encoded_verdicts).forecast.copy()
    outside = encoded_verdicts >= 0
    outside[judged_samples] = False
    expectation[outside] = encoded_verdicts[outside]
    return expectation


def _estimate_total(
    expectation: Floats,
    domain: Bools,
    judged_samples: Ints,
    inclusion_probability: Floats,
    is_wrong: Floats,
    confidence: float,
) -> Estimate:
    """Estimate how many labels of a domain [N] are wrong.

    The variance is that of independent draws or, if larger, the variance expected if the model is
    right: a few draws without an error do not prove that there are none.
    """
    from scipy.special import stdtrit  # imported here because it is slow

    inside = domain[judged_samples]
    n = len(judged_samples)
    p = expectation[judged_samples]
    off = np.where(inside, (is_wrong - p) / inclusion_probability, 0.0)
    value = float(expectation[domain].sum() + off.sum())
    by_design = (
        n / max(n - 1, 1) * float(((off - off.mean()) ** 2 * (1 - inclusion_probability)).sum())
    )
    by_model = float(
        (p * (1 - p) * (1 - inclusion_probability) / inclusion_probability**2)[inside].sum()
    )
    deviation = np.sqrt(max(by_design, by_model))
    least = float(is_wrong[inside].sum())
    most = float(np.count_nonzero(domain)) - float((1 - is_wrong)[inside].sum())
    value = min(max(value, least), most)
    # On a logarithmic scale: a number of errors is skewed.
    reach = float(stdtrit(max(n - 1, 1), (1 + confidence) / 2)) * deviation / max(value, 1.0)
    factor = np.exp(min(reach, 50.0))
    low, high = (value + 0.5) / factor - 0.5, (value + 0.5) * factor - 0.5
    return Estimate(value, float(max(low, least)), float(min(high, most)))


def _advise(number: Estimate, n_left: int) -> str:
    """Whether more verdicts are worth it, as a sentence."""
    reach = max(number.high - number.value, number.value - number.low) / max(number.value, 1.0)
    if reach <= ENOUGH_REACH:
        return f"Enough: the number of wrong labels is known to within {reach:.0%}."
    if n_left:
        return (
            f"Judge the {n_left} that are left: the number is known to within {reach:.0%} so far."
        )
    return (
        f"The number is known to within {reach:.0%}. Another audit of as many samples would make "
        f"that about {reach / np.sqrt(2):.0%}."
    )
