"""What the paper says of its algorithms, counted: on its own printed tables, or on a benchmark.

A statement is a sentence of the paper and a test that goes through every case it covers. It holds
when no case is an exception; a case that a benchmark lacks is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from uqled.bench.collected import Results
from uqled.bench.metrics import f_beta
from uqled.bench.shown import fixed, percent, rate_name, short_name
from uqled.bench.statistics import (
    Means,
    Rate,
    columns,
    evidence,
    means,
    sensitivity,
    treated,
)
from uqled.bench.suite import PAPER_METHODS

BASELINE = "cl-pbnr"
PROPOSED = tuple(method for method in PAPER_METHODS if method != BASELINE)
_RESULTS_1 = "Results, stage 1"
_RESULTS_2 = "Results, stage 2"
_SENSITIVITY = "Sensitivity analyses"
_DISCUSSION = "Discussion"

Values = Mapping[str, Mapping[Rate, Mapping[str, float]]]
"""Data set -> rate -> method -> mean over seeds."""
Case = tuple[bool, str]
"""If it holds, and how to say that it does not."""


@dataclass(frozen=True)
class View:
    """What the tests look at: means over seeds."""

    f1: Values
    precision: Values
    recall: Values
    flagged: Values
    cleaned: Values
    """Accuracy after removal."""
    noisy: Mapping[str, Mapping[Rate, float]]
    """Accuracy of training on all labels."""
    within: Mapping[str, tuple[float, float]]
    """Data set -> r and p of F1 against accuracy after removal, across methods."""
    mean_f1: Mapping[str, Mapping[Rate, float]]
    """Data set -> rate -> F1 averaged over methods."""


@dataclass(frozen=True)
class Tally:
    """In how many cases a statement holds, and where it does not."""

    held: int
    of: int
    exceptions: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.of > 0 and self.held == self.of


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper, and what is counted."""

    place: str
    quote: str
    counted: str
    test: Callable[[View], Iterable[Case]]
    every: bool = True
    """If the sentence is about every case; otherwise the count is told and nothing judged."""

    def tally(self, view: View) -> Tally:
        cases = list(self.test(view))
        return Tally(sum(ok for ok, _ in cases), len(cases), tuple(t for ok, t in cases if not ok))


def view_of(results: Results, averages: Means | None = None) -> View:
    """Means over seeds of everything that the tests look at."""
    names = evidence(results)

    def values(frame_of: str, measure: str) -> Values:
        frame = treated(results.stage2, "remove") if frame_of == "stage2" else results.stage1
        return {
            name: {
                rate: {m: sample.mean for m, sample in column.items()}
                for rate, column in columns(frame, name, measure).items()
            }
            for name in names
        }

    noisy = treated(results.stage2, "noisy")
    analyses = sensitivity(results, averages or means(results))
    return View(
        values("stage1", "f1"),
        values("stage1", "precision"),
        values("stage1", "recall"),
        values("stage1", "flagged"),
        values("stage2", "accuracy"),
        {
            name: {
                rate: column["noisy"].mean
                for rate, column in columns(noisy, name, "accuracy").items()
            }
            for name in names
        },
        {
            name: (analysis.correlation.r, analysis.correlation.p)
            for name, analysis in analyses.within.items()
            if analysis.correlation is not None
        },
        {
            name: {rate: sample.mean for rate, sample in by_rate.items()}
            for name, by_rate in analyses.mean_f1.items()
        },
    )


def _higher(values: Values, methods: Iterable[str], than: str) -> Iterable[Case]:
    """In every cell, each method has a higher value than another one."""
    methods = list(methods)
    for name, by_rate in values.items():
        for rate, column in by_rate.items():
            for method in methods:
                if method in column and than in column:
                    mine, other = column[method], column[than]
                    text = f"{percent(mine)} against {percent(other)}"
                    yield mine - other > 1e-9, _case(name, rate, method, text)


def _fewer_flagged(view: View) -> Iterable[Case]:
    for name, by_rate in view.flagged.items():
        for rate, column in by_rate.items():
            for method in PROPOSED:
                if method in column and BASELINE in column:
                    mine, other = column[method], column[BASELINE]
                    text = f"{fixed(mine, 0)} against {fixed(other, 0)}"
                    yield mine < other, _case(name, rate, method, text)


def _both_higher(view: View) -> Iterable[Case]:
    precision = list(_higher(view.precision, PROPOSED, BASELINE))
    for (ok, text), (also, recall) in zip(
        precision, _higher(view.recall, PROPOSED, BASELINE), strict=True
    ):
        yield ok and also, f"recall: {recall}" if ok else f"precision: {text}"


def _recall_of_baseline(view: View) -> Iterable[Case]:
    for ok, text in _higher(view.recall, PROPOSED, BASELINE):
        yield not ok, text


def _more_at_low_noise(view: View) -> Iterable[Case]:
    """The relative improvement is larger at the lowest rate than at the highest."""
    for name, by_rate in view.f1.items():
        rates = _known(by_rate)
        for method in PROPOSED:
            here = [by_rate[rate] for rate in rates]
            known = all(method in one and one.get(BASELINE, 0) > 0 for one in here)
            if len(rates) < 2 or not known:
                continue
            low, high = (one[method] / one[BASELINE] - 1 for one in (here[0], here[-1]))
            text = f"{percent(low, signed=True)} % at {rates[0]:g}, {percent(high, signed=True)} %"
            yield low > high, f"{name}, {short_name(method)}: {text} at {rates[-1]:g}"


def _ensemble_best(view: View) -> Iterable[Case]:
    """Averaged over rates, an algorithm ensemble has the highest F1."""
    for name, by_rate in view.f1.items():
        averages = _averages(by_rate)
        ensembles = {m: v for m, v in averages.items() if m in ("alg-ens-2", "alg-ens-3")}
        others = {m: v for m, v in averages.items() if m in PAPER_METHODS and m not in ensembles}
        if ensembles and others:
            mine, best = (
                max(ensembles, key=ensembles.__getitem__),
                max(others, key=others.__getitem__),
            )
            text = f"{short_name(mine)} {percent(ensembles[mine])}, {short_name(best)} "
            yield ensembles[mine] > others[best], f"{name}: {text}{percent(others[best])}"


def _above_noisy(view: View) -> Iterable[Case]:
    for name, by_rate in view.cleaned.items():
        for rate, column in by_rate.items():
            before = view.noisy[name].get(rate)
            for method in PROPOSED:
                if before is not None and method in column:
                    text = f"{percent(column[method])} against {percent(before)}"
                    yield column[method] - before > 1e-9, _case(name, rate, method, text)


def _rises_with_rate(view: View) -> Iterable[Case]:
    for name, by_rate in view.mean_f1.items():
        rates = _known(by_rate)
        values = [by_rate[rate] for rate in rates]
        if len(values) > 1:
            steps = pairwise(values)
            yield all(a < b for a, b in steps), f"{name}: {', '.join(map(percent, values))}"


def _lowest_at_low_noise(view: View) -> Iterable[Case]:
    for name, by_rate in view.f1.items():
        rates = _known(by_rate)
        for method in PAPER_METHODS:
            values = [by_rate[rate][method] for rate in rates if method in by_rate[rate]]
            if len(values) > 1 and len(values) == len(rates):
                text = ", ".join(map(percent, values))
                yield values[0] < min(values[1:]), f"{name}, {short_name(method)}: {text}"


def _detection_pays(view: View) -> Iterable[Case]:
    for name, (r, p) in view.within.items():
        yield r > 0 and p < 0.05, f"{name}: r = {fixed(r, 2)}, p = {fixed(p, 2)}"


def _same_by_f05(view: View) -> Iterable[Case]:
    """F0.5, computed from precision and recall, has the same winner as F1."""
    for name, by_rate in view.f1.items():
        for rate, column in by_rate.items():
            scores = {m: value for m, value in column.items() if m in PAPER_METHODS}
            if len(scores) < 2:
                continue
            precision, recall = view.precision[name][rate], view.recall[name][rate]
            f05 = {m: f_beta(precision[m], recall[m], 0.5) for m in scores}
            first, second = (max(by, key=by.__getitem__) for by in (scores, f05))
            best = abs(f05[first] - f05[second]) < 1e-9
            text = f"by F1 {short_name(first)}, by F0.5 {short_name(second)}"
            yield best, f"{name} at {rate_name(rate)}: {text}"


def _noise_hurts(view: View) -> Iterable[Case]:
    for name, by_rate in view.noisy.items():
        values = [by_rate[rate] for rate in _known(by_rate)]
        if len(values) > 1:
            steps = pairwise(values)
            yield all(a > b for a, b in steps), f"{name}: {', '.join(map(percent, values))}"


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


def _averages(by_rate: Mapping[Rate, Mapping[str, float]]) -> dict[str, float]:
    shared = set.intersection(*(set(column) for column in by_rate.values())) if by_rate else set()
    return {m: sum(column[m] for column in by_rate.values()) / len(by_rate) for m in sorted(shared)}


def _known(by_rate: Mapping[Rate, object]) -> list[float]:
    return sorted(rate for rate in by_rate if rate is not None)


def _case(name: str, rate: Rate, method: str, text: str) -> str:
    return f"{name} at {rate_name(rate)}, {short_name(method)}: {text}"
