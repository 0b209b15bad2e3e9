"""The result of a detection: plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import (
    MAX_PAIRS,
    MAX_SUSPECTS,
    Answer,
    Estimate,
    FlaggedSample,
    FlagMetrics,
    Tier,
    choose_confidence,
    describe_answer,
    measure_flags,
)
from uqled.arrays import Labels
from uqled.detect.auto.estimate import ErrorEstimate
from uqled.detect.auto.operating_point import OperatingPoint
from uqled.detect.auto.tiers import TIERS, assign_tiers, estimate_tier, name_tiers
from uqled.detect.contradictions import ContradictedLabels, find_contradicted_labels
from uqled.detect.core.joint import PairCounts, count_confused_pairs, rank_confused_pairs
from uqled.detect.methods.registry import DEFAULT_METHOD, parse_method
from uqled.detect.reasons import CONTRADICTED
from uqled.errors import InputError
from uqled.model_quality import ModelQuality

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LabelErrors:
    """The samples whose label is probably wrong.

    Lower score = more suspect. `mask[z]` is True where sample z is flagged.
    """

    method: str
    """The method's name; `alg-ens` carries its agreement, as in `alg-ens-3`."""
    labels: Labels
    """The given labels, as class numbers, with the classes' names."""
    mask: NDArray[np.bool_]
    """[N] True = flagged."""
    scores: NDArray[np.float64]
    """[N] self-confidence under the method's probabilities, in [0, 1]; lower = more suspect. For
    `auto`: the probability that the label is right."""
    best: NDArray[np.int32]
    """[N] number of the most probable class under the method's probabilities."""
    votes: NDArray[np.int16]
    """[N] how many of the method's members flag the sample; 0 or 1 for a method without members."""
    joint: Any
    """[K,K] given x true: estimated numbers of samples under the method's probabilities
    (scipy.sparse above 2,000 classes)."""
    entropy: NDArray[np.float64] | None = None
    """[N] entropy of the mean of the passes; None without passes."""
    mutual_information: NDArray[np.float64] | None = None
    """[N] mutual information of the passes; None without passes."""
    estimate: ErrorEstimate | None = field(default=None, repr=False)
    """How many labels are wrong and how many flags are real, if `auto` was run; its `unsure` says,
    in words, where that cannot be known."""
    other: NDArray[np.int32] | None = field(default=None, repr=False)
    """[N] number of the most probable class other than the given one, if `auto` was run."""
    n_as_predicted: Mapping[str, int] = field(default_factory=dict, repr=False)
    """`softmax`, `mean` of the passes -> number of samples whose predicted class is the label, for
    the probabilities that the methods read."""
    model_is_at_chance: bool = field(default=False, repr=False)
    """Whether the predicted classes of the whole data set are no better than chance."""
    model: ModelQuality | None = field(default=None, repr=False)
    """The quality of the run's model; None for your own arrays."""
    contradictions: NDArray[np.int32] | None = field(default=None, repr=False)
    """[N] the number of the set of duplicates with different labels that a sample is in, or -1;
    None where nobody looked. Flags and scores do not depend on it, what people see first does."""
    contents: NDArray[np.int32] | None = field(default=None, repr=False)
    """[N] equal for duplicates of exactly the same content; None where all in a set are."""
    by_method: Mapping[str, LabelErrors] = field(default_factory=dict, repr=False)
    """Every method's own result, if several were run."""

    def __len__(self) -> int:
        return len(self.mask)

    def __repr__(self) -> str:
        n, N = self.n_flagged, len(self)
        return f"<{type(self).__name__} {self.method}: {n:,} of {N:,} labels flagged ({n / N:.2%})>"

    @cached_property
    def n_flagged(self) -> int:
        return int(np.count_nonzero(self.mask))

    @property
    def probability(self) -> NDArray[np.float64] | None:
        """[N] the probability that the given label is wrong; None if `auto` was not run."""
        return None if self.estimate is None else self.estimate.probability

    @cached_property
    def tier(self) -> NDArray[Any]:
        """[N] `contradicts a duplicate`, `almost certainly wrong`, `probably wrong`, `possibly
        wrong` (these three are the other flags), `worth a look` (the next in the ranking), or
        empty; without `auto` only the first of them is known."""
        tiers = name_tiers(self.tier_numbers)
        tiers[self.contradicted_labels.rows] = CONTRADICTED
        return tiers

    @cached_property
    def tier_numbers(self) -> NDArray[np.int8]:
        """[N] places in `TIERS`; -1 for none, and for what contradicts a duplicate."""
        if self.estimate is None or self._is_at_chance:
            return np.full(len(self), -1, np.int8)
        numbers = assign_tiers(self.estimate, self.mask)
        numbers[self.contradicted_labels.rows] = -1
        return numbers

    @cached_property
    def tiers(self) -> list[Tier]:
        """Each tier, how many samples are in it, and what share of them to expect to be wrong."""
        if self.estimate is None or self._is_at_chance:
            return []
        parts = [self.tier_numbers == number for number in range(len(TIERS))]
        return [
            Tier(TIERS[k], int(np.count_nonzero(part)), estimate_tier(self.estimate, k, part))
            for k, part in enumerate(parts)
            if part.any()
        ]

    def with_verdicts(
        self, verdicts: Mapping[int, bool], *, point: OperatingPoint | None = None
    ) -> LabelErrors:
        """This result, updated with verdicts: {sample: True if its label is wrong}.

        Labels with a verdict count as known. The probabilities of the others are updated, and so
        are the flags of `auto`: those with the best F1, or those of another operating point.
        """
        if self.estimate is None:
            raise InputError(
                "verdicts",
                f"need {DEFAULT_METHOD!r}, not {self.method!r}",
                f"Use method={DEFAULT_METHOD!r}",
            )
        encoded_verdicts = np.full(len(self), -1, np.int8)
        for index, is_wrong in verdicts.items():
            if not 0 <= index < len(self):
                raise InputError(
                    "verdicts", f"name sample {index} of {len(self)}", "Count samples from 0"
                )
            encoded_verdicts[index] = bool(is_wrong)
        estimate = self.estimate.with_known_verdicts(encoded_verdicts)
        return replace(self, by_method={}).with_estimate(estimate, point or OperatingPoint("f1"))

    def with_estimate(self, estimate: ErrorEstimate, point: OperatingPoint) -> LabelErrors:
        """The same with another estimate, which the flags of a probabilistic method follow."""
        if not parse_method(self.method).method.is_probabilistic:
            return replace(self, estimate=estimate)
        assert self.other is not None
        mask = estimate.flags(point)
        return replace(
            self,
            mask=mask,
            best=choose_suggestions(mask, self.labels.codes, self.best, self.other),
            votes=mask.astype(np.int16),
            scores=1 - estimate.probability,
            estimate=estimate,
        )

    def class_rates(self) -> dict[str, Estimate]:
        """Class -> the share of its labels that is wrong."""
        if self.estimate is None:
            return {}
        rates = self.estimate.per_class(self.labels.codes, self.labels.n_classes)
        return dict(zip(self.labels.names, rates, strict=True))

    def pair_rates(self) -> dict[tuple[str, str], Estimate]:
        """(given, true) -> the share of the given class's labels whose true class is `true`."""
        if self.estimate is None or self.other is None:
            return {}
        names = self.labels.names
        rates = self.estimate.per_pair(self.labels.codes, self.other, self.labels.n_classes)
        return {(names[i], names[j]): rate for (i, j), rate in rates.items()}

    @cached_property
    def ranked(self) -> NDArray[np.int64]:
        """Indices of the flagged samples, most suspect first: by votes, then score, then index."""
        flagged_samples = np.flatnonzero(self.mask)
        return flagged_samples[
            np.lexsort(
                (flagged_samples, self.scores[flagged_samples], -self.votes[flagged_samples])
            )
        ]

    @cached_property
    def ranking(self) -> NDArray[np.int64]:
        """Indices of all samples, flagged first, each part as `ranked` orders it."""
        return np.lexsort((np.arange(len(self)), self.scores, -self.votes, ~self.mask))

    @cached_property
    def contradicted_labels(self) -> ContradictedLabels:
        """The samples that have the same content as others with another label, or nearly the same:
        in each such set a label is wrong."""
        sets = np.full(0, -1) if self.contradictions is None else self.contradictions
        return find_contradicted_labels(sets, self.labels.codes, self.scores, self.contents)

    @cached_property
    def duplicates(self) -> dict[int, tuple[int, bool]]:
        """Sample that contradicts a duplicate -> (that duplicate, whether its content is exactly
        the same)."""
        labels = self.contradicted_labels
        others = zip(labels.duplicates.tolist(), labels.is_exact.tolist(), strict=True)
        return dict(zip(labels.rows.tolist(), others, strict=True))

    @cached_property
    def suspects(self) -> NDArray[np.int64]:
        """Indices of what to look at, in this order: labels that contradict a duplicate, flagged or
        not, then `ranked`."""
        first = self.contradicted_labels.rows
        return np.concatenate([first, self.ranked[~np.isin(self.ranked, first)]])

    @cached_property
    def suggested_codes(self) -> NDArray[np.int32]:
        """[N] class numbers of `suggested`."""
        codes = self.best.copy()
        codes[self.contradicted_labels.rows] = self.contradicted_labels.leading
        return codes

    @cached_property
    def suggested(self) -> NDArray[Any]:
        """[N] the suggested label: the class the model prefers, or that of the duplicates that
        a sample contradicts, as a value like the given labels."""
        return self.labels.values[self.suggested_codes]

    @cached_property
    def given(self) -> NDArray[Any]:
        """[N] the given labels."""
        return self.labels.values[self.labels.codes]

    @cached_property
    def labels_by_class(self) -> NDArray[np.intp]:
        """[K] how many labels each class has."""
        return np.bincount(self.labels.codes, minlength=self.labels.n_classes)

    @cached_property
    def flags_by_class(self) -> NDArray[np.intp]:
        """[K] how many labels of each class are flagged."""
        return np.bincount(self.labels.codes[self.mask], minlength=self.labels.n_classes)

    def confused_pairs(self) -> list[tuple[str, str, int]]:
        """(given, suggested, number flagged) of two different classes, the most frequent first."""
        names = self.labels.names
        return [(names[i], names[j], number) for i, j, number in self.ranked_pairs]

    @cached_property
    def ranked_pairs(self) -> list[tuple[int, int, int]]:
        """The same, by class numbers."""
        return rank_confused_pairs(self.count_pairs())

    def count_pairs(self) -> PairCounts:
        """How many flags have each pair of given and suggested class."""
        labels, suggested = self.labels.codes[self.mask], self.suggested_codes[self.mask]
        return count_confused_pairs(labels, suggested, self.labels.n_classes)

    @cached_property
    def answer(self) -> Answer:
        """How many labels are wrong, how many flags are real, which classes are confused, which
        samples are most suspect."""
        n_errors = precision = recall = doubt = None
        n_verdicts = 0
        if self.estimate is not None:
            n_errors, doubt = self.estimate.number, self.estimate.unsure
            if self.n_flagged:
                confidence = choose_confidence(doubt)
                precision = self.estimate.precision(self.mask, confidence=confidence)
                recall = self.estimate.recall(self.mask)
            if self.estimate.known is not None:
                n_verdicts = int(np.count_nonzero(self.estimate.known >= 0))
        answer = Answer(
            method=self.method,
            n_samples=len(self),
            flags_by_method={name: one.n_flagged for name, one in self.each_method.items()},
            n_errors=n_errors,
            precision=precision,
            recall=recall,
            unsure=doubt,
            n_off_diagonal=int(self.joint.sum() - self.joint.diagonal().sum()),
            n_as_predicted=self.n_as_predicted,
            confused_pairs=self.confused_pairs()[:MAX_PAIRS],
            most_suspect=self.list_most_suspect(),
            n_verdicts=n_verdicts,
            tiers=self.tiers,
            model=self.model,
            n_contradicted=int(np.count_nonzero(self.contradicted_labels.is_exact)),
            n_nearly_contradicted=int(np.count_nonzero(~self.contradicted_labels.is_exact)),
        )
        return answer.withhold_estimates() if self._is_at_chance else answer

    @cached_property
    def _is_at_chance(self) -> bool:
        """Whether the model predicts no better than chance, and nobody has judged a label."""
        verdicts = None if self.estimate is None else self.estimate.known
        is_judged = verdicts is not None and bool((verdicts >= 0).any())
        return self.model_is_at_chance and not is_judged

    def list_most_suspect(self, *, first_index: int = 0) -> list[FlaggedSample]:
        """The most suspect samples; `first_index` is that of sample 0 in a part of the data."""
        names, codes, probability = self.labels.names, self.labels.codes, self.probability
        tier = self.tier
        return [
            FlaggedSample(
                first_index + z,
                names[codes[z]],
                names[self.suggested_codes[z]],
                float(self.scores[z]),
                int(self.votes[z]),
                None if probability is None else float(probability[z]),
                tier[z],
                *self.duplicates.get(z, ()),
            )
            for z in self.suspects[:MAX_SUSPECTS].tolist()
        ]

    @property
    def each_method(self) -> Mapping[str, LabelErrors]:
        """Method -> its result: those of `by_method`, or this one alone."""
        return self.by_method or {self.method: self}

    def measure_methods(self, truth: NDArray[Any] | None) -> dict[str, FlagMetrics]:
        """Method -> how good its flags are by the true class numbers [N]; empty where these are not
        known or no label is wrong."""
        is_error = self.labels.codes != truth
        if truth is None or not is_error.any():
            return {}
        return {name: measure_flags(one.mask, is_error) for name, one in self.each_method.items()}

    def summary(self, *, pairs: int = 5, suspects: int = 10) -> str:
        """The answer in a few lines, to print: how many labels are wrong, and the most suspect."""
        return describe_answer(self.answer, pairs=pairs, suspects=suspects)

    def to_frame(self) -> pd.DataFrame:
        """One row per sample, in the order of the data.

        `entropy` and `mutual_information` are missing where there were no passes,
        `error_probability` is missing and `tier` empty if `auto` was not run.
        """
        import pandas as pd

        missing = np.full(len(self), np.nan)
        return pd.DataFrame(
            {
                "is_label_issue": self.mask,
                "label_score": self.scores,
                "given_label": self.given,
                "suggested_label": self.suggested,
                "votes": self.votes,
                "entropy": missing if self.entropy is None else self.entropy,
                "mutual_information": (
                    missing if self.mutual_information is None else self.mutual_information
                ),
                "error_probability": missing if self.estimate is None else self.probability,
                "tier": self.tier,
            }
        )

    def _repr_html_(self) -> str:
        """The answer in one look, in a notebook."""
        from uqled.report.notebook import render_errors

        return render_errors(self)

    def plot(self) -> Figure:
        """A matplotlib figure of the most confused pairs and of how probable errors are."""
        from uqled.report.notebook import plot_errors

        return plot_errors(self)

    def report(
        self,
        path: str | os.PathLike[str],
        data: Any = None,
        pred_probs: Any = None,
        passes: Any = None,
        *,
        truth: Any = None,
        top: int = 60,
    ) -> Path:
        """Write one HTML file that shows the result, and return its path.

        Parameters
        ----------
        path
            The file, such as `report.html`; replaced if it is there.
        data
            The samples, to show them: a Dataset, the Predictions of a run (which have all the
            rest), or inputs as `Dataset.from_arrays` takes them. Default: the data of the result,
            if `uqled.find` made it.
        pred_probs, passes
            [N,K] and [F,N,K], as passed to `find_label_errors`: for each sample's most probable
            classes and the reason why it was flagged.
        truth
            [N] true labels, where they are known, written as the given ones.
        top
            How many samples to show, most suspect first.
        """
        from uqled.report.page import write_report  # detection itself needs no report

        own_data, notes = self._get_report_data()
        data = own_data if data is None else data
        return write_report(self, path, data, pred_probs, passes, truth=truth, notes=notes, top=top)

    def _get_report_data(self) -> tuple[Any, list[str]]:
        """The data that the result knows, and sentences about it; `uqled.find` adds them."""
        return None, []


def choose_suggestions(
    mask: NDArray[np.bool_],
    codes: NDArray[np.int32],
    best: NDArray[np.int32],
    other: NDArray[np.int32],
) -> NDArray[np.int32]:
    """[N] the predicted classes; for flags on which the model agrees with the label, the most
    probable other class."""
    suggestions: NDArray[np.int32] = np.where(mask & (best == codes), other, best)
    return suggestions
