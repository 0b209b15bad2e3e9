"""From probabilities that labels are wrong to numbers, intervals and operating points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.answer import Estimate
from uqled.detect.auto.levels import Levels, find_levels, to_units
from uqled.detect.auto.operating_point import OperatingPoint, find_lowest_level
from uqled.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

KEEP, RELABEL, DROP = 1, 2, 3
#: A suggestion that was accepted with many others, without a look at the sample: the label counts
#: as wrong, but says nothing about the model, whose word it was.
RELABEL_IN_BULK = 4

#: If the interval of the flags' precision is wider than this, its middle is no answer: one reading
#: more or less would move it further than anything that is known.
WIDE = 0.3

#: With verdicts, no reading's probability is closer to 0 or 1 than this: a verdict may be a slip.
_LEAST = 0.01


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """The probability that each label is wrong, and what follows from it.

    The interval of a number has two parts: the readings differ (the data do not say which one is
    right), and the errors are a random draw from the probabilities.
    """

    readings: Mapping[str, Floats]
    """[N] per reading: the probability that each label is wrong."""
    weights: Mapping[str, float]
    """The weight of each reading in the mean."""
    spread: Mapping[str, float]
    """The weight of each reading in the interval."""
    correction: OddsCorrection | None = None
    """The correction of the log-odds, if there are reviewers' verdicts."""
    known: NDArray[np.int8] | None = None
    """[N] by verdict: 1 wrong, 0 right, -1 not reviewed."""
    agreement: float = 1.0
    """From 0 to 1: the number of errors if noise is the same everywhere, as a share of what the
    confident joint counts. Where it is low, the model has errors of its own that no reading
    knows."""
    in_bulk: Bools | None = None
    """[N] verdicts that were given without a look at the sample: no evidence about the readings."""

    @property
    def evidence(self) -> NDArray[np.int8] | None:
        """[N] the verdicts as in `known`, without the `in_bulk` ones."""
        if self.known is None or self.in_bulk is None:
            return self.known
        return np.where(self.in_bulk, -1, self.known).astype(np.int8)

    @cached_property
    def probability(self) -> Floats:
        """[N] the mean of the readings; what reviewers decided is certain."""
        return self._insert_verdicts(self.forecast)

    @cached_property
    def forecast(self) -> Floats:
        """[N] the mean of the readings, also for samples that reviewers decided."""
        total = np.zeros(len(next(iter(self.readings.values()))))
        for name, weight in self.weights.items():
            if weight:
                total += weight * self.readings[name]
        return self._apply_correction(total / sum(self.weights.values()))

    def _apply_correction(self, probability: Floats) -> Floats:
        return probability if self.correction is None else self.correction.apply(probability)

    def _insert_verdicts(self, probability: Floats) -> Floats:
        if self.known is None:
            return probability
        return np.where(self.known < 0, probability, self.known).astype(np.float64)

    @cached_property
    def _each(self) -> dict[str, Floats]:
        return {
            k: self._insert_verdicts(self._apply_correction(r)) for k, r in self.readings.items()
        }

    @property
    def _has_verdicts(self) -> bool:
        return self.known is not None

    @cached_property
    def number(self) -> Estimate:
        """How many labels are wrong."""
        return self.sum_over(np.ones(len(self.probability), np.bool_))

    def sum_over(self, mask: Bools, *, confidence: float = 0.8) -> Estimate:
        """How many of these labels are wrong, with an interval of this confidence."""
        probabilities = self.probability[mask]
        sums = {k: float(r[mask].sum()) for k, r in self._each.items() if self.spread[k]}
        variance = float((probabilities * (1 - probabilities)).sum())
        if self.correction is not None and self.known is not None:
            variance += self.correction.variance(probabilities[self.known[mask] < 0])
        most = float(mask.sum())
        number = estimate_interval(
            float(probabilities.sum()),
            sums,
            self.spread,
            variance,
            most,
            self._has_verdicts,
            confidence,
        )
        if self.known is None:
            return number
        # What reviewers decided is certain: no interval ends below the errors that they found, or
        # above those and the undecided.
        verdicts = self.known[mask]
        least = float(np.count_nonzero(verdicts == 1))
        most = least + float(np.count_nonzero(verdicts < 0))
        return Estimate(number.value, max(number.low, least), min(number.high, most))

    def precision(self, mask: Bools, *, confidence: float = 0.8) -> Estimate:
        """The share of these flags that is real, with an interval of this confidence."""
        n_errors = self.sum_over(mask, confidence=confidence)
        return n_errors.as_share_of(int(np.count_nonzero(mask)))

    def recall(self, mask: Bools) -> Estimate:
        """The share of all errors that is flagged."""
        total = max(self.number.value, 1e-12)
        value = float(self.probability[mask].sum()) / total
        recall_of_reading = {
            k: float(r[mask].sum()) / max(float(r.sum()), 1e-12)
            for k, r in self._each.items()
            if self.spread[k]
        }
        return Estimate(
            value, min(value, *recall_of_reading.values()), max(value, *recall_of_reading.values())
        )

    @cached_property
    def unsure(self) -> str | None:
        """Why a single number would be a guess; None where it would not.

        Decided for the flags with the best F1: if the readings differ widely about these, wrong
        labels explain the data as well as a model that errs does.
        """
        flags = self.flags(OperatingPoint("f1"))
        return explain_doubt(self.precision(flags), self.precision(flags, confidence=0.95))

    def per_class(self, codes: NDArray[Any], n_classes: int) -> list[Estimate]:
        """[K] share of each class's labels that is wrong."""
        counts = np.bincount(codes, minlength=n_classes).tolist()
        groups = self._estimate_groups(codes, n_classes)
        return [e.as_share_of(n) for e, n in zip(groups, counts, strict=True)]

    def per_pair(
        self, codes: NDArray[Any], other: NDArray[Any], n_classes: int
    ) -> dict[tuple[int, int], Estimate]:
        """(given, true) -> the share of the given class's labels; `other` [N] is the most probable
        other class. Pairs with less than half an expected error are left out.
        """
        keys, groups = np.unique(codes.astype(np.int64) * n_classes + other, return_inverse=True)
        counts = np.bincount(codes, minlength=n_classes)
        shares = {}
        for key, e in zip(keys.tolist(), self._estimate_groups(groups, len(keys)), strict=True):
            if e.value >= 0.5:
                label, true = divmod(key, n_classes)
                shares[label, true] = e.as_share_of(int(counts[label]))
        return dict(sorted(shares.items(), key=lambda item: -item[1].value))

    def _estimate_groups(self, groups: NDArray[Any], n: int) -> list[Estimate]:
        probability = self.probability
        value = np.bincount(groups, probability, n)
        variance = np.bincount(groups, probability * (1 - probability), n)
        size = np.bincount(groups, minlength=n)
        sums = {k: np.bincount(groups, r, n) for k, r in self._each.items() if self.spread[k]}
        return [
            estimate_interval(
                float(value[g]),
                {k: float(s[g]) for k, s in sums.items()},
                self.spread,
                float(variance[g]),
                float(size[g]),
                self._has_verdicts,
            )
            for g in range(n)
        ]

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """[N] indices, the most probably wrong first; ties go to the lower index."""
        return np.argsort(-self.probability, kind="stable").astype(np.int64)

    @cached_property
    def levels(self) -> Levels:
        """The counts and sums at each level of the probability; the mean is called `mean`."""
        probability = self.probability
        more = {"mean": probability, "variance": probability * (1 - probability)}
        return Levels.of(probability, {**self._each, **more})

    def flags(self, point: OperatingPoint) -> Bools:
        """[N] the flags of the operating point; there may be none."""
        if point.kind == "budget":  # a budget of looks: reviewed samples need none
            mask = np.zeros(len(self.probability), np.bool_)
            order = self.order if self.known is None else self.order[self.known[self.order] < 0]
            mask[order[: int(point.value)]] = True
            return mask
        readings = {k: r for k, r in self._each.items() if self.weights[k]}  # all that F1 needs
        levels = Levels.of(self.probability, readings) if point.kind == "f1" else self.levels
        return self.above(point, find_lowest_level(levels, point, self.weights))

    def sum_units(self, mask: Bools) -> dict[str, int]:
        """The number of these samples, and the sum of each reading over them, in the integer units
        of `levels`."""
        probability = self.probability
        sums = {**self._each, "mean": probability, "variance": probability * (1 - probability)}
        totals = {name: int(to_units(values[mask]).sum()) for name, values in sums.items()}
        return {"flags": int(np.count_nonzero(mask)), **totals}

    def above(self, point: OperatingPoint, level: int) -> Bools:
        """[N] the flags of a point, given the lowest level that it flags."""
        if point.kind == "cost":
            worth: Bools = self.probability * point.missed_cost > point.value
            return worth
        flags: Bools = find_levels(self.probability) >= level
        return flags

    def with_verdicts(self, actions: Any, labels: Any, codes: NDArray[Any]) -> ErrorEstimate:
        """The estimate after review: decisions are certain, and the readings that predicted them
        better weigh more.

        `actions` [N]: 0 undecided, 1 keep, 2 relabel, 3 drop, 4 relabel without a look; `labels`
        [N]: the class decided on.
        Each reading's weight, in the mean and in the interval, is multiplied by the probability it
        gave to the verdicts. In the mean a reading starts half-way between its own weight and equal
        weights, so that the verdicts may favour even a reading of weight 0. A common correction of
        the log-odds takes care of errors that all readings share. What was accepted without a look
        is certain, but changes neither.
        """
        in_bulk = np.asarray(actions) == RELABEL_IN_BULK
        return self.with_known_verdicts(encode_verdicts(actions, labels, codes), in_bulk)

    def with_known_verdicts(
        self, verdicts: NDArray[np.int8], in_bulk: Bools | None = None
    ) -> ErrorEstimate:
        """The same, where each verdict [N] is 1 wrong, 0 right or -1 none; those that are `in_bulk`
        [N] are no evidence."""
        if in_bulk is None or not in_bulk.any():
            in_bulk = None
        has_verdict = verdicts >= 0 if in_bulk is None else (verdicts >= 0) & ~in_bulk
        if not (verdicts >= 0).any():
            return self
        if not has_verdict.any():
            return replace(self, known=verdicts, in_bulk=in_bulk)
        is_wrong = verdicts[has_verdict].astype(np.float64)
        log_likelihood = {
            k: float(np.sum(np.log(np.where(is_wrong > 0, p, 1 - p))))
            for k, r in self.readings.items()
            for p in [np.clip(r[has_verdict], _LEAST, 1 - _LEAST)]
        }
        highest = max(log_likelihood.values())

        def update_weights(prior: Mapping[str, float]) -> dict[str, float]:
            posterior = {
                k: prior[k] * float(np.exp(max(log_likelihood[k] - highest, -700)))
                for k in self.readings
            }
            return {k: w / sum(posterior.values()) for k, w in posterior.items()}

        total_weight, total_spread = sum(self.weights.values()), sum(self.spread.values())
        weights = update_weights(
            {
                k: self.weights[k] / total_weight + self.spread[k] / total_spread
                for k in self.readings
            }
        )
        mean = np.sum([weights[k] * self.readings[k][has_verdict] for k in weights], axis=0)
        correction = OddsCorrection.fit(mean, is_wrong)
        return replace(
            self, weights=weights, spread=update_weights(self.spread), correction=correction,
            known=verdicts, in_bulk=in_bulk,
        )  # fmt: skip


@dataclass(frozen=True)
class OddsCorrection:
    """Log-odds times a slope, and a shift."""

    slope: float
    shift: float
    covariance: Floats
    """[2,2] of slope and shift."""
    least: float
    """The lowest reviewed probability. Those below are only scaled: nothing was learnt about
    them."""

    @classmethod
    def fit(cls, forecast: Floats, is_wrong: Floats) -> OddsCorrection:
        """Fit a logistic regression of verdicts [n] on stated probabilities [n].

        A priori the slope is 1 and the shift 0, both give or take 1.
        """
        x = np.stack([_compute_log_odds(forecast), np.ones(len(forecast))])  # [2,n]
        at, prior = np.array([1.0, 0.0]), np.array([1.0, 0.0])
        for _ in range(30):
            p = 1 / (1 + np.exp(-(at @ x)))
            curvature = (x * (p * (1 - p))) @ x.T + np.eye(2)
            step = np.linalg.solve(curvature, x @ (is_wrong - p) - (at - prior))
            at = at + step / max(1.0, float(np.abs(step).max()))
        least = max(float(forecast.min()), _LEAST)
        return cls(float(at[0]), float(at[1]), np.linalg.inv(curvature), least)

    def apply(self, probability: Floats) -> Floats:
        """[N] the corrected probabilities."""
        odds = self.slope * _compute_log_odds(np.maximum(probability, self.least)) + self.shift
        part = np.minimum(probability / self.least, 1.0)
        corrected: Floats = part / (1 + np.exp(-odds))
        return corrected

    def variance(self, probability: Floats) -> float:
        """The variance of a sum of such probabilities that comes from the uncertain slope and
        shift."""
        weight = probability * (1 - probability)
        odds = (_compute_log_odds(probability) - self.shift) / (self.slope or 1.0)
        gradient = np.array([weight @ odds, weight.sum()])
        return float(gradient @ self.covariance @ gradient)


def explain_doubt(interval: Estimate, wide_interval: Estimate) -> str | None:
    """Why the precision is not a single number, from its 80% and 95% intervals."""
    if interval.high - interval.low <= WIDE:
        return None
    return (
        "The model's own errors cannot be told apart from wrong labels here: of the flags, "
        f"{wide_interval.low:.0%} to {wide_interval.high:.0%} are real (95% interval). "
        "A better model or a hundred verdicts would settle it."
    )


def encode_verdicts(actions: Any, labels: Any, codes: NDArray[Any]) -> NDArray[np.int8]:
    """[N] 1 if the label was judged wrong, 0 if right, -1 if nobody decided."""
    actions = np.asarray(actions)
    decisions = np.asarray(labels)
    if actions.shape != codes.shape or decisions.shape != codes.shape:
        raise InputError(
            "verdicts",
            f"have the shapes {actions.shape} and {decisions.shape} for {len(codes)} samples",
            "Pass (actions [N], labels [N])",
        )
    if actions.dtype.kind not in "iu" or ((actions < 0) | (actions > RELABEL_IN_BULK)).any():
        raise InputError(
            "verdicts",
            "have an unknown action",
            "Use 0 undecided, 1 keep, 2 relabel, 3 drop, 4 relabel without a look",
        )
    verdicts = np.full(len(codes), -1, np.int8)
    verdicts[actions == KEEP] = 0
    verdicts[actions == DROP] = 1
    is_relabel = (actions == RELABEL) | (actions == RELABEL_IN_BULK)
    verdicts[is_relabel] = decisions[is_relabel] != codes[is_relabel]
    return verdicts


def estimate_interval(
    value: float,
    sums: dict[str, float],
    weights: Mapping[str, float],
    variance: float,
    most: float,
    has_verdicts: bool,
    confidence: float = 0.8,
) -> Estimate:
    """The interval of a sum, computed on a logarithmic scale.

    Without verdicts, the readings are a sample of the possible explanations, and the truth is
    another one. With verdicts, their weights are their probabilities.
    """
    pairs = [(s, weights[k]) for k, s in sums.items() if weights[k] > 0]
    total = sum(w for _, w in pairs)
    logs = np.log([max(s, 1e-9) + 0.5 for s, _ in pairs])
    w = np.array([w / total for _, w in pairs])
    n = 1 / float((w**2).sum())  # the effective number of readings
    from scipy.special import ndtri, stdtrit  # imported here because it is slow

    upper = (1 + arrays.check_fraction(confidence, "confidence")) / 2
    low, high, z = value, value, float(ndtri(upper))
    if n > 1.001:
        middle = float(w @ logs)
        spread = w @ (logs - middle) ** 2
        reach = z * np.sqrt(spread)
        if not has_verdicts:
            t = float(stdtrit(n - 1, upper))
            reach = t * np.sqrt(spread * n / (n - 1) * (1 + 1 / n))
        low = min(value, float(np.exp(middle - reach) - 0.5))
        high = max(value, float(np.exp(middle + reach) - 0.5))
    sampling_error = z * np.sqrt(variance)
    low = value - np.hypot(value - low, sampling_error)
    high = value + np.hypot(high - value, sampling_error)
    return Estimate(value, max(float(low), 0.0), min(float(high), most))


def _compute_log_odds(probability: Floats) -> Floats:
    p = np.clip(probability, _LEAST, 1 - _LEAST)
    odds: Floats = np.log(p / (1 - p))
    return odds
