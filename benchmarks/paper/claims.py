"""What the paper says of its algorithms, counted: on its own printed tables, or on a benchmark.

A statement is a sentence of the paper and a test that goes through every case it covers: this data
set, this rate, this algorithm. A case speaks clearly when its difference, paired over seeds, is
larger than its spread. A case that a benchmark lacks is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from uqled.bench.metrics import compute_f_beta
from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import (
    format_method_short,
    format_number,
    format_percent,
    format_rate,
)
from uqled.bench.results.statistics import (
    Columns,
    Means,
    Rate,
    Sample,
    analyse_sensitivity,
    average_over_rates,
    compute_means,
    compute_relative_change,
    group_samples,
    is_clear,
    list_evidence,
    make_sample,
    select_treatment,
    subtract_samples,
)
from uqled.bench.suite import PAPER_METHODS

BASELINE = "cl-pbnr"
PROPOSED = tuple(method for method in PAPER_METHODS if method != BASELINE)
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told within the spread"
_RESULTS_1 = "Results, stage 1"
_RESULTS_2 = "Results, stage 2"
_SENSITIVITY = "Sensitivity analyses"
_DISCUSSION = "Discussion"

Values = Mapping[str, Columns]
"""Data set -> rate -> method -> sample over seeds."""


@dataclass(frozen=True)
class Case:
    """One case of a statement."""

    held: bool
    is_clear: bool
    """If it held or failed by more than the spread over seeds."""
    text: str
    """How to say that it does not hold."""
    repeated: bool = True
    """If there is a spread: one seed alone has none."""


@dataclass(frozen=True)
class View:
    """What the tests look at: samples over seeds."""

    f1: Values
    precision: Values
    recall: Values
    flagged: Values
    cleaned: Values
    """Accuracy after removal."""
    noisy: Mapping[str, Mapping[Rate, Sample]]
    """Accuracy of training on all labels."""
    within: Mapping[str, tuple[float, float]]
    """Data set -> r and p of F1 against accuracy after removal, across methods."""
    mean_f1: Mapping[str, Mapping[Rate, Sample]]
    """Data set -> rate -> F1 averaged over methods."""


@dataclass(frozen=True)
class Tally:
    """In how many cases a statement holds, and where it does not."""

    held: int
    of: int
    exceptions: tuple[str, ...]
    clearly: int = 0
    """Cases that hold by more than the spread."""
    against: int = 0
    """Cases that fail by more than the spread."""
    once: int = 0
    """Cases of one seed, which has no spread."""

    @property
    def holds(self) -> bool:
        return self.of > 0 and self.held == self.of

    @property
    def within(self) -> int:
        """Cases that say nothing: the difference is not larger than its spread."""
        return self.of - self.clearly - self.against - self.once


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper, and what is counted."""

    place: str
    quote: str
    counted: str
    test: Callable[[View], Iterable[Case]]
    every: bool = True
    """If the sentence is about every case; otherwise about most."""

    def tally(self, view: View) -> Tally:
        cases = list(self.test(view))
        return Tally(
            sum(case.held for case in cases),
            len(cases),
            tuple(case.text for case in cases if not case.held),
            sum(case.held and case.is_clear for case in cases),
            sum(case.is_clear and not case.held for case in cases),
            sum(not case.repeated for case in cases),
        )

    def verdict(self, tally: Tally) -> str:
        """Holds, does not hold, or cannot be told within the spread.

        About every case: one clear exception is enough against it; for it, every case that has a
        spread must be clear, and those of one seed must agree. Otherwise more than half decide.
        """
        told = tally.of - tally.once
        if self.every:
            held = tally.clearly == told and tally.held == tally.of
            failed = tally.against > 0
        else:
            held = 2 * tally.clearly > told and 2 * tally.held > tally.of
            failed = 2 * tally.against > told
        if failed:
            return FAILS
        return HOLDS if held and told else OPEN


def view_of(results: Results, averages: Means | None = None) -> View:
    """Samples over seeds of everything that the tests look at."""
    names = list_evidence(results)
    removed, noisy = (select_treatment(results.stage2, what) for what in ("remove", "noisy"))
    f1, precision, recall, flagged = (
        {name: group_samples(results.stage1, name, measure) for name in names}
        for measure in ("f1", "precision", "recall", "flagged")
    )
    analyses = analyse_sensitivity(results, averages or compute_means(results))
    return View(
        f1,
        precision,
        recall,
        flagged,
        {name: group_samples(removed, name, "accuracy") for name in names},
        {
            name: {
                r: column["noisy"] for r, column in group_samples(noisy, name, "accuracy").items()
            }
            for name in names
        },
        {
            name: (analysis.correlation.r, analysis.correlation.p)
            for name, analysis in analyses.within.items()
            if analysis.correlation is not None
        },
        analyses.mean_f1,
    )


def _above(gap: Sample, text: str) -> Case:
    """A case that holds where the difference is above nothing."""
    return Case(gap.mean > 1e-9, is_clear(gap), text, gap.n > 1)


def _higher(values: Values, methods: Iterable[str], than: str) -> Iterable[Case]:
    """In every cell, each method has a higher value than another one."""
    methods = list(methods)
    for name, by_rate in values.items():
        for rate, column in by_rate.items():
            for method in methods:
                if method in column and than in column:
                    mine, other = column[method], column[than]
                    text = f"{format_percent(mine.mean)} against {format_percent(other.mean)}"
                    yield _above(subtract_samples(mine, other), _case(name, rate, method, text))


def _fewer_flagged(view: View) -> Iterable[Case]:
    for name, by_rate in view.flagged.items():
        for rate, column in by_rate.items():
            for method in PROPOSED:
                if method in column and BASELINE in column:
                    mine, other = column[method], column[BASELINE]
                    text = f"{format_number(mine.mean, 0)} against {format_number(other.mean, 0)}"
                    yield _above(subtract_samples(other, mine), _case(name, rate, method, text))


def _both_higher(view: View) -> Iterable[Case]:
    for precision, recall in zip(
        _higher(view.precision, PROPOSED, BASELINE),
        _higher(view.recall, PROPOSED, BASELINE),
        strict=True,
    ):
        failed = [case for case in (precision, recall) if not case.held]
        text = f"recall: {recall.text}" if precision.held else f"precision: {precision.text}"
        if failed:
            yield Case(False, any(case.is_clear for case in failed), text, precision.repeated)
        else:
            yield Case(True, precision.is_clear and recall.is_clear, text, precision.repeated)


def _recall_of_baseline(view: View) -> Iterable[Case]:
    for case in _higher(view.recall, PROPOSED, BASELINE):
        yield Case(not case.held, case.is_clear, case.text, case.repeated)


def _more_at_low_noise(view: View) -> Iterable[Case]:
    """The relative improvement is larger at the lowest rate than at the highest."""
    for name, by_rate in view.f1.items():
        rates = _known(by_rate)
        for method in PROPOSED:
            here = [by_rate[rate] for rate in rates]
            known = all(method in one and BASELINE in one for one in here)
            if len(rates) < 2 or not known or not all(one[BASELINE].mean > 0 for one in here):
                continue
            low, high = (
                compute_relative_change(one[method], one[BASELINE]) for one in (here[0], here[-1])
            )
            text = f"{format_percent(low.mean, signed=True)} % at {rates[0]:g}, "
            text += f"{format_percent(high.mean, signed=True)} % at {rates[-1]:g}"
            yield _above(
                subtract_samples(low, high), f"{name}, {format_method_short(method)}: {text}"
            )


def _ensemble_best(view: View) -> Iterable[Case]:
    """Averaged over rates, an algorithm ensemble has the highest F1."""
    for name, by_rate in view.f1.items():
        averages = average_over_rates(by_rate)
        ensembles = {m: v for m, v in averages.items() if m in ("alg-ens-2", "alg-ens-3")}
        others = {m: v for m, v in averages.items() if m in PAPER_METHODS and m not in ensembles}
        if ensembles and others:
            mine, best = _best(ensembles), _best(others)
            texts = [
                f"{format_method_short(m)} {format_percent(averages[m].mean)}" for m in (mine, best)
            ]
            gap = subtract_samples(ensembles[mine], others[best])
            yield _above(gap, f"{name}: {', '.join(texts)}")


def _above_noisy(view: View) -> Iterable[Case]:
    for name, by_rate in view.cleaned.items():
        for rate, column in by_rate.items():
            before = view.noisy[name].get(rate)
            for method in PROPOSED:
                if before is not None and method in column:
                    after = column[method]
                    text = f"{format_percent(after.mean)} against {format_percent(before.mean)}"
                    gap = subtract_samples(after, before)
                    yield _above(gap, _case(name, rate, method, text))


def _rises_with_rate(view: View) -> Iterable[Case]:
    for name, by_rate in view.mean_f1.items():
        values = [by_rate[rate] for rate in _known(by_rate)]
        if len(values) > 1:
            yield _above(_least_rise(values), f"{name}: {_shown(values)}")


def _lowest_at_low_noise(view: View) -> Iterable[Case]:
    for name, by_rate in view.f1.items():
        rates = _known(by_rate)
        for method in PAPER_METHODS:
            values = [by_rate[rate][method] for rate in rates if method in by_rate[rate]]
            if len(values) > 1 and len(values) == len(rates):
                gaps = [subtract_samples(value, values[0]) for value in values[1:]]
                least = min(gaps, key=lambda gap: gap.mean)
                yield _above(least, f"{name}, {format_method_short(method)}: {_shown(values)}")


def _detection_pays(view: View) -> Iterable[Case]:
    for name, (r, p) in view.within.items():
        text = f"{name}: r = {format_number(r, 2)}, p = {format_number(p, 2)}"
        yield Case(r > 0 and p < 0.05, p < 0.05, text)


def _same_by_f05(view: View) -> Iterable[Case]:
    """F0.5, computed from precision and recall, has the same winner as F1."""
    for name, by_rate in view.f1.items():
        for rate, column in by_rate.items():
            scores = {m: value for m, value in column.items() if m in PAPER_METHODS}
            if len(scores) < 2:
                continue
            precision, recall = view.precision[name][rate], view.recall[name][rate]
            f05 = {m: _f05(precision[m], recall[m]) for m in scores}
            first, second = _best(scores), _best(f05)
            gap = subtract_samples(f05[second], f05[first])
            text = f"by F1 {format_method_short(first)}, by F0.5 {format_method_short(second)}"
            same = gap.mean < 1e-9
            told = same and gap.n > 1
            where = f"{name} at {format_rate(rate)}: {text}"
            yield Case(same, told or is_clear(gap), where, gap.n > 1)


def _noise_hurts(view: View) -> Iterable[Case]:
    for name, by_rate in view.noisy.items():
        values = [by_rate[rate] for rate in _known(by_rate)]
        if len(values) > 1:
            yield _above(_least_rise(values[::-1]), f"{name}: {_shown(values)}")


STATEMENTS = (
    Statement(
        _RESULTS_1,
        "all proposed uncertainty-based algorithms outperform the current state-of-the-art in "
        "label error detection for all considered datasets and across noise rates",
        "F1 above CL-PBNR's, per data set, rate and algorithm",
        lambda view: _higher(view.f1, PROPOSED, BASELINE),
    ),
    Statement(
        _RESULTS_1,
        "it is beneficial to leverage MCD probabilities instead of softmax probabilities",
        "F1 of CL-MCD above CL-PBNR's, per data set and rate",
        lambda view: _higher(view.f1, ["cl-mcd"], BASELINE),
    ),
    Statement(
        _RESULTS_1,
        "the performance consistently increases when we leverage entropy as a measure of "
        "uncertainty on top of MCD probabilities",
        "F1 of CL-MCD-E above CL-MCD's, per data set and rate",
        lambda view: _higher(view.f1, ["cl-mcd-e"], "cl-mcd"),
    ),
    Statement(
        _RESULTS_1,
        "the performance consistently increases when we leverage entropy as a measure of "
        "uncertainty on top of MCD probabilities",
        "with the given class's threshold, as the equation says: F1 of CL-MCD-E (given) above "
        "CL-MCD's, per data set and rate",
        lambda view: _higher(view.f1, ["cl-mcd-e-given"], "cl-mcd"),
    ),
    Statement(
        _RESULTS_1,
        "especially for lower noise rates where the relative performance improvement over the "
        "state-of-the-art is particularly pronounced",
        "relative gain in F1 larger at the lowest rate than at the highest, per data set and "
        "algorithm",
        _more_at_low_noise,
    ),
    Statement(
        _RESULTS_1,
        "combining different algorithms in an ensemble can additionally improve the performances",
        "the best algorithm ensemble above the best other algorithm in mean F1, per data set",
        _ensemble_best,
        every=False,
    ),
    Statement(
        _RESULTS_1,
        "All our algorithms increase both precision and recall",
        "precision and recall both above CL-PBNR's, per data set, rate and algorithm",
        _both_higher,
    ),
    Statement(
        _DISCUSSION,
        "the higher precision of all our algorithms across all datasets and noise rates",
        "precision above CL-PBNR's, per data set, rate and algorithm",
        lambda view: _higher(view.precision, PROPOSED, BASELINE),
    ),
    Statement(
        "Algorithms, Algorithm Ensemble",
        "it [CL-PBNR] has a very good recall compared to our proposed algorithms",
        "recall of CL-PBNR at least the algorithm's, per data set, rate and algorithm",
        _recall_of_baseline,
        every=False,
    ),
    Statement(
        "Experimental setup, performance metrics",
        "we additionally evaluated the area under precision-recall curve (AUPR) and the F0.5 "
        "score and found consistent results",
        "the best algorithm by F1 is the best by F0.5 (from precision and recall), per data set "
        "and rate",
        _same_by_f05,
        every=False,
    ),
    Statement(
        "Abstract",
        "removing all identified errors from the training data based on our approach results in "
        "higher accuracies than training on all available labeled data",
        "accuracy after removal above training on the noisy labels, per data set, rate and "
        "algorithm",
        _above_noisy,
    ),
    Statement(
        _RESULTS_2,
        "the proposed algorithms again consistently outperform the state-of-the-art CL-PBNR "
        "algorithm in terms of the resulting model performance",
        "accuracy after removal above that after removal by CL-PBNR, per data set, rate and "
        "algorithm",
        lambda view: _higher(view.cleaned, PROPOSED, BASELINE),
    ),
    Statement(
        _RESULTS_2,
        "these algorithms exclude significantly less data as potential label errors than CL-PBNR",
        "fewer samples flagged than by CL-PBNR, per data set, rate and algorithm",
        _fewer_flagged,
    ),
    Statement(
        _SENSITIVITY,
        "the higher the relative share of label errors in the dataset, the higher the detection "
        "accuracy is",
        "mean F1 over algorithms rises from rate to rate, per data set",
        _rises_with_rate,
    ),
    Statement(
        _DISCUSSION,
        "In these cases [low noise rates], we observed the lowest performance of all algorithms",
        "F1 lowest at the lowest rate, per data set and algorithm",
        _lowest_at_low_noise,
    ),
    Statement(
        _SENSITIVITY,
        "the higher the performance in label error detection, the higher the final model accuracy",
        "within one data set, mean F1 and final accuracy of the algorithms correlate (r > 0, "
        "p < 0.05)",
        _detection_pays,
        every=False,
    ),
    Statement(
        "Introduction",
        "Mislabeled data can then result in reduced performances of machine learning models",
        "accuracy of training on the noisy labels falls from rate to rate, per data set",
        _noise_hurts,
        every=False,
    ),
)


def tallies(view: View) -> list[tuple[Statement, Tally]]:
    """Every statement of which there is a case to count."""
    found = [(statement, statement.tally(view)) for statement in STATEMENTS]
    return [(statement, tally) for statement, tally in found if tally.of]


def _least_rise(values: list[Sample]) -> Sample:
    """The smallest of the steps from each value to the next."""
    return min((subtract_samples(b, a) for a, b in pairwise(values)), key=lambda gap: gap.mean)


def _best(samples: Mapping[str, Sample]) -> str:
    return max(samples, key=lambda method: samples[method].mean)


def _f05(precision: Sample, recall: Sample) -> Sample:
    seeds = precision.by_seed.keys() & recall.by_seed.keys()
    by_seed = {
        s: compute_f_beta(precision.by_seed[s], recall.by_seed[s], 0.5) for s in sorted(seeds)
    }
    return make_sample(by_seed)


def _shown(values: Iterable[Sample]) -> str:
    return ", ".join(format_percent(value.mean) for value in values)


def _known(by_rate: Mapping[Rate, object]) -> list[float]:
    return sorted(rate for rate in by_rate if rate is not None)


def _case(name: str, rate: Rate, method: str, text: str) -> str:
    return f"{name} at {format_rate(rate)}, {format_method_short(method)}: {text}"
