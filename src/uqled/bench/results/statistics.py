"""Means and spreads over seeds, the best methods, and the paper's three sensitivity analyses.

A *sample* is one quantity measured once per seed. Tables hold samples by noise rate and method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import sort_methods
from uqled.bench.suite import BASELINE, PAPER_METHODS
from uqled.errors import InputError

Rate = float | None
"""The noise rate; None for the labels' own errors, which were not drawn at a rate."""

BOLD_RULE = (
    "Bold: the highest mean over the seeds that all have, and above every other by more than the "
    "spread, that is, the differences paired over seeds have a mean larger than their sample "
    "standard deviation (at least two seeds). Italic: the highest mean otherwise. Neither is a "
    "significance test."
)


@dataclass(frozen=True)
class SeedSample:
    """A quantity measured once per seed."""

    mean: float
    by_seed: Mapping[int, float] = field(default_factory=dict)
    """Empty for an average whose parts do not have the same seeds: it has no spread."""

    @property
    def n(self) -> int:
        return len(self.by_seed)

    @property
    def sd(self) -> float:
        """Sample standard deviation over seeds; NaN for fewer than two."""
        return float(np.std(list(self.by_seed.values()), ddof=1)) if self.n > 1 else math.nan


SamplesByMethod = Mapping[str, SeedSample]
SamplesByRate = Mapping[Rate, SamplesByMethod]


@dataclass(frozen=True)
class Leaders:
    """The method with the highest mean in a column, and whether it is outside the spread."""

    names: frozenset[str]
    is_clear: bool


@dataclass(frozen=True)
class Correlation:
    """Pearson's r of n pairs, Student's t, the two-sided p, and Fisher's 95% interval of r."""

    n: int
    r: float
    t: float
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class Means:
    """Averages over rates, which the second and third analysis compare. Shares, not per cent."""

    f1: Mapping[str, Mapping[str, float]]
    """Data set -> method -> mean F1 of stage 1."""
    final: Mapping[str, Mapping[str, float]]
    """Data set -> method -> mean accuracy after removal."""
    noisy: Mapping[str, float]
    """Data set -> mean accuracy of training on all labels: the paper's initial accuracy."""
    clean: Mapping[str, float] = field(default_factory=dict)
    """Data set -> accuracy of the network pre-trained on clean labels."""
    paired: Mapping[str, Mapping[str, float]] | None = None
    """`f1` over the rates and seeds of `final`, where stage 2 has fewer of them."""

    @property
    def f1_of_final(self) -> Mapping[str, Mapping[str, float]]:
        """F1 to be compared with the final accuracy."""
        return self.f1 if self.paired is None else self.paired


@dataclass(frozen=True)
class Analysis:
    """Points of one scatter plot and their correlation; None where there are too few."""

    points: Mapping[str, tuple[float, float]]
    correlation: Correlation | None


#: Of final accuracies: an accuracy on 10,000 test images has itself a standard error of up to half
#: a point, so a correlation across a smaller span is a correlation with noise.
LEAST_SPAN = 0.005
UNJUDGED = "not judged: the accuracies differ by no more than noise"


def has_enough_span(analysis: Analysis) -> bool:
    """Whether the accuracies of an analysis differ by more than noise, so that r is meaningful."""
    accuracies = [accuracy for _, accuracy in analysis.points.values()]
    return max(accuracies) - min(accuracies) >= LEAST_SPAN


@dataclass(frozen=True)
class Sensitivity:
    """The paper's three analyses."""

    methods: tuple[str, ...]
    """Averaged over in the first two, compared in the third."""
    mean_f1: Mapping[str, Mapping[Rate, SeedSample]]
    """(1) data set -> rate -> F1 averaged over methods."""
    initial: Analysis
    """(2) data sets: accuracy before cleaning, against F1."""
    initial_clean: Analysis
    """(2) with the accuracy of the network pre-trained on clean labels."""
    final: Analysis
    """(3) methods: F1, against the accuracy after cleaning; both averaged over data sets."""
    within: Mapping[str, Analysis]
    """(3) within each data set, which the averages hide."""


def make_sample(by_seed: Mapping[int, float]) -> SeedSample:
    """The mean over seeds, and the seeds."""
    return SeedSample(float(np.mean(list(by_seed.values()))), by_seed)


def group_samples(
    frame: pd.DataFrame, dataset: str, measure: str
) -> dict[Rate, dict[str, SeedSample]]:
    """Rate -> method -> sample of one measure. What is missing is not there."""
    values: dict[Rate, dict[str, dict[int, float]]] = {}
    if frame.empty:
        return {}
    rows = frame[(frame["dataset"] == dataset) & frame[measure].notna()]
    names = rows["method"], rows["rate"], rows["seed"], rows[measure]
    for method, rate, seed, value in zip(*(one.tolist() for one in names), strict=True):
        key = None if rate is None or math.isnan(rate) else round(float(rate), 6)
        by_seed = values.setdefault(key, {}).setdefault(str(method), {})
        if int(seed) in by_seed:
            raise InputError(
                "results",
                f"have {dataset}, {method}, rate {rate}, seed {seed} twice",
                "Give one row per data set, rate, seed and method",
            )
        by_seed[int(seed)] = float(value)
    return {
        rate: {
            m: make_sample(dict(sorted(values[rate][m].items())))
            for m in sort_methods(values[rate])
        }
        for rate in sorted(values, key=_order_rate)
    }


def average_samples(samples: Iterable[SeedSample]) -> SeedSample:
    """The mean of means; with seeds where all have the same ones."""
    parts = list(samples)
    seeds = set(parts[0].by_seed)
    if not all(set(part.by_seed) == seeds for part in parts):
        return SeedSample(float(np.mean([part.mean for part in parts])))
    by_seed = {s: float(np.mean([part.by_seed[s] for part in parts])) for s in sorted(seeds)}
    return SeedSample(float(np.mean([part.mean for part in parts])), by_seed)


def average_over_rates(by_rate: SamplesByRate) -> dict[str, SeedSample]:
    """Each method's average over all rates; a method that lacks a rate has none."""
    if not by_rate:
        return {}
    methods = sort_methods(set.intersection(*(set(column) for column in by_rate.values())))
    return {m: average_samples(column[m] for column in by_rate.values()) for m in methods}


def subtract_samples(one: SeedSample, other: SeedSample) -> SeedSample:
    """Of two samples, paired over the seeds that both have; of their means if there is none."""
    seeds = one.by_seed.keys() & other.by_seed.keys()
    if not seeds:
        return SeedSample(one.mean - other.mean)
    return make_sample({s: one.by_seed[s] - other.by_seed[s] for s in sorted(seeds)})


def is_clear(gap: SeedSample) -> bool:
    """Whether a difference, paired over at least two seeds, is larger than its spread."""
    return gap.n > 1 and abs(gap.mean) > gap.sd


def compute_relative_change(one: SeedSample, baseline: SeedSample) -> SeedSample:
    """One sample as a share of another, less 1, paired over seeds; NaN against nothing."""
    seeds = one.by_seed.keys() & baseline.by_seed.keys()
    if not seeds:
        return SeedSample(_compute_ratio(one.mean, baseline.mean))
    return make_sample(
        {s: _compute_ratio(one.by_seed[s], baseline.by_seed[s]) for s in sorted(seeds)}
    )


def compute_improvements(by_rate: SamplesByRate) -> dict[Rate, dict[str, SeedSample]]:
    """Rate -> method -> relative improvement over the baseline, which is left out itself."""
    return {
        rate: {
            m: compute_relative_change(s, column[BASELINE])
            for m, s in column.items()
            if m != BASELINE
        }
        for rate, column in by_rate.items()
        if BASELINE in column
    }


def find_leaders(column: SamplesByMethod) -> Leaders:
    """The method with the highest mean, and whether it is outside the spread: see `BOLD_RULE`."""
    samples = {m: sample for m, sample in column.items() if not math.isnan(sample.mean)}
    nobody = Leaders(frozenset(), False)
    if len(samples) < 2:
        return nobody
    means = {m: sample.mean for m, sample in samples.items()}
    if all(sample.n for sample in samples.values()):  # means over other seeds are no match
        seeds = set.intersection(*(set(sample.by_seed) for sample in samples.values()))
        if not seeds:
            return nobody
        means = {
            m: _compute_mean(s.by_seed[seed] for seed in sorted(seeds)) for m, s in samples.items()
        }
    top = max(means.values())
    names = frozenset(m for m, mean in means.items() if math.isclose(mean, top, abs_tol=1e-12))
    if len(names) > 1:
        return Leaders(names, False)
    (best,) = names
    gaps = [subtract_samples(column[best], column[other]) for other in means if other != best]
    return Leaders(names, all(gap.mean > 0 and is_clear(gap) for gap in gaps))


def compute_correlation(x: Iterable[float], y: Iterable[float]) -> Correlation | None:
    """Pearson's r and its test; None for fewer than three different pairs, which always lie on a
    line, or where one side is constant."""
    a, b = np.array(list(x), float), np.array(list(y), float)
    n = len(a)
    n_distinct = len(set(zip(a.tolist(), b.tolist(), strict=True)))
    if n_distinct < 3 or np.ptp(a) <= 1e-12 or np.ptp(b) <= 1e-12:
        return None
    a, b = a - a.mean(), b - b.mean()
    r = float(np.clip(a @ b / math.sqrt((a @ a) * (b @ b)), -1, 1))
    rest = 1 - r * r
    t = r * math.sqrt((n - 2) / rest) if rest > 0 else math.copysign(math.inf, r)
    p = 2 * float(stats.t.sf(abs(t), n - 2))
    if n < 4 or rest <= 0:
        return Correlation(n, r, t, p, math.nan, math.nan)
    half = float(stats.norm.ppf(0.975)) / math.sqrt(n - 3)
    return Correlation(n, r, t, p, math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half))


def list_datasets(results: Results) -> list[str]:
    """Every data set there is anything about, in the order in which the frames name them."""
    frames = results.stage1, results.stage2, results.pilot, results.initial
    dataset_names = [str(name) for frame in frames if not frame.empty for name in frame["dataset"]]
    return list(dict.fromkeys([*dataset_names, *results.matrices]))


def list_evidence(results: Results) -> list[str]:
    """The data sets that count: those that are contaminated are shown, and counted nowhere."""
    contaminated = results.about.get("contaminated") or {}
    return [name for name in list_datasets(results) if name not in contaminated]


def select_treatment(stage2: pd.DataFrame, treatment: str) -> pd.DataFrame:
    """The rows of one treatment; training on noisy or clean labels gets its name as the method."""
    if stage2.empty:
        return stage2
    rows = stage2[stage2["treatment"] == treatment]
    return rows.assign(method=treatment) if treatment in ("noisy", "clean") else rows


def compute_means(results: Results, names: Iterable[str] | None = None) -> Means:
    """The averages over rates of a benchmark; of the data sets that count unless named."""
    f1: dict[str, dict[str, float]] = {}
    final: dict[str, dict[str, float]] = {}
    noisy: dict[str, float] = {}
    clean: dict[str, float] = {}
    paired_samples: dict[str, dict[str, float]] = {}
    retrained_rows = select_treatment(results.stage2, "remove")
    for name in list_evidence(results) if names is None else names:
        for where, frame, measure in (
            (f1, results.stage1, "f1"),
            (paired_samples, _select_retrained_detections(results.stage1, retrained_rows), "f1"),
            (final, retrained_rows, "accuracy"),
        ):
            averages = average_over_rates(group_samples(frame, name, measure))
            if averages:
                where[name] = {method: sample.mean for method, sample in averages.items()}
        before = average_over_rates(
            group_samples(select_treatment(results.stage2, "noisy"), name, "accuracy")
        )
        if "noisy" in before:
            noisy[name] = before["noisy"].mean
        if not results.initial.empty:
            accuracies = results.initial[results.initial["dataset"] == name]["accuracy"].dropna()
            if len(accuracies):
                clean[name] = float(np.mean(np.sort(accuracies.to_numpy())))
    return Means(f1, final, noisy, clean, paired_samples)


def _select_retrained_detections(
    stage1: pd.DataFrame, retrained_rows: pd.DataFrame
) -> pd.DataFrame:
    """The detections that stage 2 went on with: same data set, rate, seed and method."""
    if stage1.empty or retrained_rows.empty:
        return stage1.iloc[:0]
    keys = ["dataset", "rate", "seed", "method"]
    return stage1.merge(retrained_rows[keys], on=keys)


def analyse_sensitivity(results: Results, averages: Means | None = None) -> Sensitivity:
    """The three analyses; `averages` are the printed ones where only those are known."""
    means = averages or compute_means(results)
    of_final = means.f1_of_final
    methods = _list_compared_methods(means.f1)
    mean_f1: dict[str, dict[Rate, SeedSample]] = {}
    for name in list_evidence(results):
        by_rate = group_samples(results.stage1, name, "f1")
        mean_f1[name] = {
            rate: average_samples(column[m] for m in methods)
            for rate, column in by_rate.items()
            if methods and set(methods) <= set(column)
        }
    f1 = {
        d: _compute_mean(by[m] for m in methods)
        for d, by in means.f1.items()
        if set(methods) <= set(by)
    }
    return Sensitivity(
        tuple(methods),
        {name: by_rate for name, by_rate in mean_f1.items() if by_rate},
        _make_analysis({d: (means.noisy[d], f1[d]) for d in f1 if methods and d in means.noisy}),
        _make_analysis({d: (means.clean[d], f1[d]) for d in f1 if methods and d in means.clean}),
        analyse_final_accuracy(means),
        {
            d: _make_analysis({m: (of_final[d][m], means.final[d][m]) for m in shared_methods})
            for d in of_final
            if (shared_methods := [m for m in of_final[d] if m in means.final.get(d, {})])
        },
    )


def analyse_final_accuracy(means: Means) -> Analysis:
    """F1 against final accuracy across methods, averaged over the data sets that have them all."""
    f1 = means.f1_of_final
    both = {d: _select_shared_methods(f1[d], means.final[d]) for d in f1 if d in means.final}
    methods = _list_compared_methods(both)
    shared_names = [d for d in both if set(methods) <= set(both[d])]
    return _make_analysis(
        {
            m: (
                _compute_mean(f1[d][m] for d in shared_names),
                _compute_mean(means.final[d][m] for d in shared_names),
            )
            for m in methods
        }
    )


def _select_shared_methods(
    one: Mapping[str, float], other: Mapping[str, float]
) -> dict[str, float]:
    return {method: value for method, value in one.items() if method in other}


def _list_compared_methods(by_dataset: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The paper's methods, as far as some data set has them all; or else those that all have.

    So a data set without them (predictions without passes, say) is left out, and does not
    narrow the comparison of the others.
    """
    if not by_dataset:
        return []
    paper = set().union(*by_dataset.values()) & set(PAPER_METHODS)
    if len(paper) > 2 and any(paper <= set(by_method) for by_method in by_dataset.values()):
        return sort_methods(paper)
    return sort_methods(set.intersection(*(set(by_method) for by_method in by_dataset.values())))


def _make_analysis(points: Mapping[str, tuple[float, float]]) -> Analysis:
    x, y = zip(*points.values(), strict=True) if points else ((), ())
    return Analysis(points, compute_correlation(x, y))


def _compute_mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _compute_ratio(one: float, other: float) -> float:
    return one / other - 1 if other > 0 else math.nan


def _order_rate(rate: Rate) -> float:
    return math.inf if rate is None else rate
