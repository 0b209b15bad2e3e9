"""The sentences of the paper that can be counted, each with its test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from paper.claims import PROPOSED_METHODS, Case, CaseTally, Statement, Values, View
from uqled.bench.results.formatting import (
    format_method_short,
    format_number,
    format_percent,
    format_rate,
)
from uqled.bench.results.statistics import (
    Rate,
    SeedSample,
    average_over_rates,
    compute_relative_change,
    is_clear,
    make_sample,
    subtract_samples,
)
from uqled.bench.suite import BASELINE, PAPER_METHODS

_RESULTS_1 = "Results, stage 1"


_RESULTS_2 = "Results, stage 2"


_SENSITIVITY = "Sensitivity analyses"


_DISCUSSION = "Discussion"


def _make_case(gap: SeedSample, name: str, text: str) -> Case:
    """A case that holds where the difference is above nothing."""
    return Case(gap.mean > 1e-9, is_clear(gap), text, gap.n > 1, name)


def _list_higher(
    values: Values,
    methods: Iterable[str],
    than: str,
    *,
    format_value: Callable[[float], str] = format_percent,
    is_lower: bool = False,
) -> Iterable[Case]:
    """In every cell, each method has a higher value than another one, or a lower one."""
    methods = list(methods)
    for name, by_rate in values.items():
        for rate, column in by_rate.items():
            for method in methods:
                if method in column and than in column:
                    mine, other = column[method], column[than]
                    text = f"{format_value(mine.mean)} against {format_value(other.mean)}"
                    pair = (other, mine) if is_lower else (mine, other)
                    yield _make_case(
                        subtract_samples(*pair), name, _name_case(name, rate, method, text)
                    )


def _list_fewer_flagged(view: View) -> Iterable[Case]:
    return _list_higher(
        view.flagged,
        PROPOSED_METHODS,
        BASELINE,
        format_value=lambda value: format_number(value, 0),
        is_lower=True,
    )


def _list_both_higher(view: View) -> Iterable[Case]:
    for precision, recall in zip(
        _list_higher(view.precision, PROPOSED_METHODS, BASELINE),
        _list_higher(view.recall, PROPOSED_METHODS, BASELINE),
        strict=True,
    ):
        failures = [case for case in (precision, recall) if not case.held]
        text = f"recall: {recall.text}" if precision.held else f"precision: {precision.text}"
        if failures:
            yield replace(
                precision, held=False, is_clear=any(c.is_clear for c in failures), text=text
            )
        else:
            yield replace(precision, is_clear=precision.is_clear and recall.is_clear, text=text)


def _list_baseline_recall(view: View) -> Iterable[Case]:
    for case in _list_higher(view.recall, PROPOSED_METHODS, BASELINE):
        yield replace(case, held=not case.held)


def _list_gains_at_low_noise(view: View) -> Iterable[Case]:
    """The relative improvement is larger at the lowest rate than at the highest."""
    for name, by_rate in view.f1.items():
        rates = _list_known_rates(by_rate)
        for method in PROPOSED_METHODS:
            columns = [by_rate[rate] for rate in rates]
            is_complete = all(method in one and BASELINE in one for one in columns)
            if (
                len(rates) < 2
                or not is_complete
                or not all(one[BASELINE].mean > 0 for one in columns)
            ):
                continue
            low, high = (
                compute_relative_change(one[method], one[BASELINE])
                for one in (columns[0], columns[-1])
            )
            text = f"{format_percent(low.mean, signed=True)}% at {rates[0]:g}, "
            text += f"{format_percent(high.mean, signed=True)}% at {rates[-1]:g}"
            yield _make_case(
                subtract_samples(low, high), name, f"{name}, {format_method_short(method)}: {text}"
            )


def _list_best_ensembles(view: View) -> Iterable[Case]:
    """Averaged over rates, an algorithm ensemble has the highest F1."""
    for name, by_rate in view.f1.items():
        averages = average_over_rates(by_rate)
        ensembles = {m: v for m, v in averages.items() if m in ("alg-ens-2", "alg-ens-3")}
        others = {m: v for m, v in averages.items() if m in PAPER_METHODS and m not in ensembles}
        if ensembles and others:
            mine, best = _find_best(ensembles), _find_best(others)
            texts = [
                f"{format_method_short(m)} {format_percent(averages[m].mean)}" for m in (mine, best)
            ]
            gap = subtract_samples(ensembles[mine], others[best])
            yield _make_case(gap, name, f"{name}: {', '.join(texts)}")


def _list_above_noisy(view: View) -> Iterable[Case]:
    for name, by_rate in view.cleaned.items():
        for rate, column in by_rate.items():
            before = view.noisy[name].get(rate)
            for method in PROPOSED_METHODS:
                if before is not None and method in column:
                    after = column[method]
                    text = f"{format_percent(after.mean)} against {format_percent(before.mean)}"
                    gap = subtract_samples(after, before)
                    yield _make_case(gap, name, _name_case(name, rate, method, text))


def _list_rises_with_rate(view: View) -> Iterable[Case]:
    for name, by_rate in view.mean_f1.items():
        values = [by_rate[rate] for rate in _list_known_rates(by_rate)]
        if len(values) > 1:
            yield _make_case(_find_least_rise(values), name, f"{name}: {_format_means(values)}")


def _list_lowest_at_low_noise(view: View) -> Iterable[Case]:
    for name, by_rate in view.f1.items():
        rates = _list_known_rates(by_rate)
        for method in PAPER_METHODS:
            values = [by_rate[rate][method] for rate in rates if method in by_rate[rate]]
            if len(values) > 1 and len(values) == len(rates):
                gaps = [subtract_samples(value, values[0]) for value in values[1:]]
                least = min(gaps, key=lambda gap: gap.mean)
                yield _make_case(
                    least, name, f"{name}, {format_method_short(method)}: {_format_means(values)}"
                )


def _list_correlations(view: View) -> Iterable[Case]:
    for name, (r, p) in view.within.items():
        text = f"{name}: r = {format_number(r, 2)}, p = {format_number(p, 2)}"
        yield Case(r > 0 and p < 0.05, p < 0.05, text, True, name)


def _list_same_winners(view: View, score: str, values: Values) -> Iterable[Case]:
    """The method with the highest F1 has the highest of another score too."""
    for name, by_rate in view.f1.items():
        for rate, column in by_rate.items():
            other = values.get(name, {}).get(rate, {})
            scores = {m: value for m, value in column.items() if m in PAPER_METHODS}
            if len(scores) < 2 or not scores.keys() <= other.keys():
                continue
            first, second = _find_best(scores), _find_best({m: other[m] for m in scores})
            gap = subtract_samples(other[second], other[first])
            text = f"by F1 {format_method_short(first)}, by {score} {format_method_short(second)}"
            same = gap.mean < 1e-9
            place = f"{name} at {format_rate(rate)}: {text}"
            yield Case(same, (same and gap.n > 1) or is_clear(gap), place, gap.n > 1, name)


def _compute_f05_values(view: View) -> Values:
    """F0.5, computed from precision and recall."""
    return {
        name: {
            rate: {
                m: _compute_f05_sample(sample, view.recall[name][rate][m])
                for m, sample in column.items()
            }
            for rate, column in by_rate.items()
        }
        for name, by_rate in view.precision.items()
    }


def _list_falls_with_rate(view: View) -> Iterable[Case]:
    for name, by_rate in view.noisy.items():
        values = [by_rate[rate] for rate in _list_known_rates(by_rate)]
        if len(values) > 1:
            yield _make_case(
                _find_least_rise(values[::-1]), name, f"{name}: {_format_means(values)}"
            )


STATEMENTS = (
    Statement(
        _RESULTS_1,
        "all proposed uncertainty-based algorithms outperform the current state-of-the-art in "
        "label error detection for all considered datasets and across noise rates",
        "F1 above CL-PBNR's, per data set, rate and algorithm",
        lambda view: _list_higher(view.f1, PROPOSED_METHODS, BASELINE),
    ),
    Statement(
        _RESULTS_1,
        "it is beneficial to leverage MCD probabilities instead of softmax probabilities",
        "F1 of CL-MCD above CL-PBNR's, per data set and rate",
        lambda view: _list_higher(view.f1, ["cl-mcd"], BASELINE),
    ),
    Statement(
        _RESULTS_1,
        "the performance consistently increases when we leverage entropy as a measure of "
        "uncertainty on top of MCD probabilities",
        "F1 of CL-MCD-E above CL-MCD's, per data set and rate",
        lambda view: _list_higher(view.f1, ["cl-mcd-e"], "cl-mcd"),
    ),
    Statement(
        _RESULTS_1,
        "the performance consistently increases when we leverage entropy as a measure of "
        "uncertainty on top of MCD probabilities",
        "with the given class's threshold, as the equation says: F1 of CL-MCD-E (given) above "
        "CL-MCD's, per data set and rate",
        lambda view: _list_higher(view.f1, ["cl-mcd-e-given"], "cl-mcd"),
    ),
    Statement(
        _RESULTS_1,
        "especially for lower noise rates where the relative performance improvement over the "
        "state-of-the-art is particularly pronounced",
        "relative gain in F1 larger at the lowest rate than at the highest, per data set and "
        "algorithm",
        _list_gains_at_low_noise,
    ),
    Statement(
        _RESULTS_1,
        "combining different algorithms in an ensemble can additionally improve the performances",
        "the best algorithm ensemble above the best other algorithm in mean F1, per data set",
        _list_best_ensembles,
        every=False,
    ),
    Statement(
        _RESULTS_1,
        "All our algorithms increase both precision and recall",
        "precision and recall both above CL-PBNR's, per data set, rate and algorithm",
        _list_both_higher,
    ),
    Statement(
        _DISCUSSION,
        "the higher precision of all our algorithms across all datasets and noise rates",
        "precision above CL-PBNR's, per data set, rate and algorithm",
        lambda view: _list_higher(view.precision, PROPOSED_METHODS, BASELINE),
    ),
    Statement(
        "Algorithms, Algorithm Ensemble",
        "it [CL-PBNR] has a very good recall compared to our proposed algorithms",
        "recall of CL-PBNR at least the algorithm's, per data set, rate and algorithm",
        _list_baseline_recall,
        every=False,
    ),
    Statement(
        "Experimental setup, performance metrics",
        "we additionally evaluated the area under precision-recall curve (AUPR) and the F0.5 "
        "score and found consistent results",
        "the best algorithm by F1 is the best by F0.5 (from precision and recall), per data set "
        "and rate",
        lambda view: _list_same_winners(view, "F0.5", _compute_f05_values(view)),
        every=False,
    ),
    Statement(
        "Experimental setup, performance metrics",
        "we additionally evaluated the area under precision-recall curve (AUPR) and the F0.5 "
        "score and found consistent results",
        "the best algorithm by F1 is the best by the area under precision-recall, per data set "
        "and rate",
        lambda view: _list_same_winners(view, "area", view.aupr),
        every=False,
    ),
    Statement(
        "Abstract",
        "removing all identified errors from the training data based on our approach results in "
        "higher accuracies than training on all available labeled data",
        "accuracy after removal above training on the noisy labels, per data set, rate and "
        "algorithm",
        _list_above_noisy,
    ),
    Statement(
        _RESULTS_2,
        "the proposed algorithms again consistently outperform the state-of-the-art CL-PBNR "
        "algorithm in terms of the resulting model performance",
        "accuracy after removal above that after removal by CL-PBNR, per data set, rate and "
        "algorithm",
        lambda view: _list_higher(view.cleaned, PROPOSED_METHODS, BASELINE),
    ),
    Statement(
        _RESULTS_2,
        "these algorithms exclude significantly less data as potential label errors than CL-PBNR",
        "fewer samples flagged than by CL-PBNR, per data set, rate and algorithm",
        _list_fewer_flagged,
    ),
    Statement(
        _SENSITIVITY,
        "the higher the relative share of label errors in the dataset, the higher the detection "
        "accuracy is",
        "mean F1 over algorithms rises from rate to rate, per data set",
        _list_rises_with_rate,
    ),
    Statement(
        _DISCUSSION,
        "In these cases [low noise rates], we observed the lowest performance of all algorithms",
        "F1 lowest at the lowest rate, per data set and algorithm",
        _list_lowest_at_low_noise,
    ),
    Statement(
        _SENSITIVITY,
        "the higher the performance in label error detection, the higher the final model accuracy",
        "within one data set whose final accuracies span at least half a point, mean F1 and final "
        "accuracy of the algorithms correlate (r > 0, p < 0.05)",
        _list_correlations,
        every=False,
    ),
    Statement(
        "Introduction",
        "Mislabeled data can then result in reduced performances of machine learning models",
        "accuracy of training on the noisy labels falls from rate to rate, per data set",
        _list_falls_with_rate,
        every=False,
    ),
)


def count_statements(view: View) -> list[tuple[Statement, CaseTally]]:
    """Every statement of which there is a case to count."""
    tallies = [(statement, statement.tally(view)) for statement in STATEMENTS]
    return [(statement, tally) for statement, tally in tallies if tally.of]


def _find_least_rise(values: list[SeedSample]) -> SeedSample:
    """The smallest of the steps from each value to the next."""
    return min((subtract_samples(b, a) for a, b in pairwise(values)), key=lambda gap: gap.mean)


def _find_best(samples: Mapping[str, SeedSample]) -> str:
    return max(samples, key=lambda method: samples[method].mean)


def compute_f05(precision: float, recall: float) -> float:
    """The harmonic mean that weighs precision more, of a printed precision and recall."""
    below = 0.25 * precision + recall
    return 1.25 * precision * recall / below if below else 0.0


def _compute_f05_sample(precision: SeedSample, recall: SeedSample) -> SeedSample:
    seeds = precision.by_seed.keys() & recall.by_seed.keys()
    by_seed = {s: compute_f05(precision.by_seed[s], recall.by_seed[s]) for s in sorted(seeds)}
    return make_sample(by_seed)


def _format_means(values: Iterable[SeedSample]) -> str:
    return ", ".join(format_percent(value.mean) for value in values)


def _list_known_rates(by_rate: Mapping[Rate, object]) -> list[float]:
    return sorted(rate for rate in by_rate if rate is not None)


def _name_case(name: str, rate: Rate, method: str, text: str) -> str:
    return f"{name} at {format_rate(rate)}, {format_method_short(method)}: {text}"
