"""Numbers that the paper's text and small tables print, computed from its stage tables.

The stage tables are rounded to a tenth of a per cent. A number *follows* when the tables give it
as printed, *within rounding* when it lies in the range that unrounded tables could give, and
otherwise does not follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from paper.claims import BASELINE, PROPOSED, Values, view_of
from paper.printed_tables import (
    HALF,
    RATES,
    SAMPLES,
    printed,
    published_means,
    published_results,
)
from uqled.bench.results.formatting import format_method_short, format_number, format_p_value
from uqled.bench.results.statistics import Means, Sensitivity, analyse_sensitivity
from uqled.bench.suite import PAPER_METHODS
from uqled.noise.matrices import flip_probabilities

FOLLOWS, ROUNDING, NOT = "follows", "within rounding", "does not follow"
_HARD = ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
TABLE = "Small table"  # such places are tables: what they hold is no quotation
_1, _2, _S, _D = "Results, stage 1", "Results, stage 2", "Sensitivity analyses", "Discussion"


Numbers = Mapping[str, Mapping[float, Mapping[str, float]]]
"""Data set -> rate -> method -> what is printed, as a share or a count."""


@dataclass(frozen=True)
class Printed:
    """The stage tables."""

    f1: Numbers
    precision: Numbers
    recall: Numbers
    flagged: Numbers
    cleaned: Numbers
    """Accuracy after removal."""


@dataclass(frozen=True)
class Figure:
    """One printed number."""

    place: str
    quote: str
    """The paper's words; `...` where some are left out, and no quotation if `place` is a table."""
    printed: str
    computed: str
    verdict: str
    note: str = ""

    @property
    def quoted(self) -> str:
        """The words in quotation marks, if they are the paper's."""
        return self.quote if self.place.startswith(TABLE) else f'"{self.quote}"'


def printed_figures() -> list[Figure]:
    """Every number of the paper's text and small tables that its stage tables decide."""
    results, averages = published_results(), published_means()
    view, analyses = view_of(results, averages), analyse_sensitivity(results, averages)
    tables = Printed(
        *map(_numbers, (view.f1, view.precision, view.recall, view.flagged, view.cleaned))
    )
    return [
        *_stage1_figures(tables, averages),
        *_stage2_figures(tables, averages),
        *_sensitivity_figures(analyses),
        *_discussion_figures(tables),
        *_noise_figures(),
    ]


def _numbers(values: Values) -> Numbers:
    """One run has no spread: the means are what is printed."""
    return {
        name: {
            rate: {method: sample.mean for method, sample in column.items()}
            for rate, column in by_rate.items()
            if rate is not None
        }
        for name, by_rate in values.items()
    }


def _points(
    place: str, quote: str, said: float, of: Callable[[float], float], note: str = ""
) -> Figure:
    """Percentage points or per cent; `of` takes a shift that favours the algorithm."""
    return _figure(place, quote, said, lambda shift: 100 * of(shift), note=note, decimals=None)


def _figure(
    place: str,
    quote: str,
    said: float,
    of: Callable[[float], float],
    *,
    decimals: int | None = None,
    note: str = "",
) -> Figure:
    places = len(repr(said).partition(".")[2]) if decimals is None else decimals
    value, half = of(0), 0.5 * 10**-places
    low, high = sorted((of(-HALF), of(HALF)))
    if format_number(value, places) == format_number(said, places):
        verdict = FOLLOWS
    else:
        verdict = ROUNDING if low - half <= said <= high + half else NOT
    return Figure(
        place, quote, format_number(said, places), format_number(value, places), verdict, note
    )


def _stage1_figures(tables: Printed, averages: Means) -> list[Figure]:
    f1, found = averages.f1, []
    gains = {"MNIST": 2.1, "CIFAR-10": 14.3, "CIFAR-100": 8.2, "Tiny-ImageNet": 6.6}
    for name, said in gains.items():
        quote = f"The mean performance over CL-PBNR increases by ... {said}pp for {name}"
        best = max(PROPOSED, key=f1[name].__getitem__)
        note = f"the best algorithm's Mean ({format_method_short(best)}) minus CL-PBNR's"
        found.append(_points(_1, quote, said, _gap(f1[name], best), note))
    for name, said in {
        "MNIST": 1.0,
        "CIFAR-10": 7.6,
        "CIFAR-100": 3.8,
        "Tiny-ImageNet": 2.2,
    }.items():
        quote = f"the mean performance over CL-PBNR increases by ... {said}pp for {name}"
        found.append(_points(_1, quote, said, _gap(f1[name], "cl-mcd"), "CL-MCD"))
    two = ("cl-mcd-e", "alg-ens-3")
    least = min(
        (tables.f1[d][r][m] / tables.f1[d][r][BASELINE], d, r, m)
        for d in _HARD
        for r in RATES
        for m in two
    )
    best_of_two = min(
        max(tables.f1[d][r][m] for m in two) / tables.f1[d][r][BASELINE]
        for d in _HARD
        for r in RATES
    )
    enough = least[0] >= 1.1
    found.append(
        Figure(
            _1,
            "For CIFAR-10, CIFAR-100, and Tiny-ImageNet, our best-performing algorithms CL-MCD-E "
            "and the Algorithm Ensemble (Agreement = 3) improve over the state-of-the-art by at "
            "least 10% across all considered noise rates",
            "at least 10 %",
            f"{format_number(100 * least[0] - 100, 1)} %",
            FOLLOWS if enough else NOT,
            f"the least: {least[1]} at {least[2]:g}, {format_method_short(least[3])}; the better "
            f"of the two in each cell gains at least {format_number(100 * best_of_two - 100, 1)} %",
        )
    )
    found += [
        _points(
            _1,
            "The best-performing algorithms outperform the state-of-the-art by up to 9.3pp",
            9.3,
            _largest(tables.f1, relative=False),
            f"the largest: {_where(tables.f1, relative=False)}; CIFAR-100 at 0.05 has "
            f"{format_number(100 * _cell(tables.f1, 'CIFAR-100', 0.05, relative=False), 1)}",
        ),
        _points(
            _1,
            "38.1%, see CIFAR-100, τ=0.05",
            38.1,
            _largest(tables.f1, relative=True),
            f"the largest: {_where(tables.f1, relative=True)}",
        ),
        _bound(
            "precision with scores below 50% for CIFAR-10, CIFAR-100, and Tiny-ImageNet",
            "below 50",
            max(tables.precision[d][r][BASELINE] for d in _HARD for r in RATES),
            lambda share: share < 0.5,
        ),
        _bound(
            "the recall of CL-PBNR is already consistently over 80%",
            "over 80",
            min(tables.recall[d][r][BASELINE] for d in SAMPLES for r in RATES),
            lambda share: share > 0.8,
        ),
        _points(
            _1,
            "The precision improves by up to 22pp",
            22.0,
            _largest(tables.precision, relative=False),
            f"the largest: {_where(tables.precision, relative=False)}",
        ),
        _points(
            _1,
            "65.28%, see CIFAR-10 results at τ=0.05",
            65.28,
            _largest(tables.precision, relative=True),
        ),
        _points(
            _1,
            "the recall increases slightly by up to 2.8",
            2.8,
            _largest(tables.recall, relative=False),
            f"the largest: {_where(tables.recall, relative=False)}",
        ),
        _points(
            _1,
            "3.39%, see Tiny-ImageNet results at τ=0.05",
            3.39,
            _largest(tables.recall, relative=True),
            f"the largest: {_where(tables.recall, relative=True)}",
        ),
    ]
    return found


def _stage2_figures(tables: Printed, averages: Means) -> list[Figure]:
    final, found = averages.final, []
    over = {
        (name, method): final[name][method] - averages.noisy[name]
        for name in ("MNIST", "CIFAR-10", "CIFAR-100")
        for method in PAPER_METHODS
    }
    fails = [f"{name}, {format_method_short(m)}" for (name, m), gap in over.items() if gap < 1e-9]
    found.append(
        Figure(
            _2,
            "for all datasets besides Tiny-Imagenet, excluding label errors from the training "
            "dataset improves the model performance with all proposed algorithms and CL-PBNR "
            "baseline",
            f"all {len(over)}",
            f"{len(over) - len(fails)} of {len(over)}",
            NOT if fails else FOLLOWS,
            "Mean columns" + (f"; not: {'; '.join(fails)}" if fails else ""),
        )
    )
    for name, said in {"MNIST": 0.2, "CIFAR-10": 7.1, "CIFAR-100": 3.5}.items():
        quote = (
            "compared to training on the original training datasets, amounting to up to ... "
            f"{said}pp for {name}"
        )
        best = max(PROPOSED, key=final[name].__getitem__)
        gain = _gap(final[name], best, than=averages.noisy[name])
        found.append(_points(_2, quote, said, gain, format_method_short(best)))
    over_pbnr = "improved the mean performance ... over the CL-PBNR algorithm by up to ... "
    for name, said, quote in (
        ("MNIST", 0.3, over_pbnr + "0.3pp for MNIST"),
        ("CIFAR-10", 0.9, over_pbnr + "0.9pp for CIFAR-10"),
        ("CIFAR-100", 2.6, over_pbnr + "2.6pp for CIFAR-100"),
        ("Tiny-ImageNet", 2.0, "our proposed algorithms still outperformed CL-PBNR by up to 2.0pp"),
    ):
        best = max(PROPOSED, key=final[name].__getitem__)
        found.append(_points(_2, quote, said, _gap(final[name], best), format_method_short(best)))
    tiny = "Tiny-ImageNet"
    better = [m for m in PAPER_METHODS if final[tiny][m] > averages.noisy[tiny]]
    found.append(
        Figure(
            _2,
            "For Tiny-Imagenet, excluding label errors did not improve the performance for any "
            "algorithm",
            "0",
            str(len(better)),
            NOT if better else FOLLOWS,
        )
    )
    found.append(
        _points(
            "Figure of relative changes in stage 2",
            "cleaning with the CL-MCD algorithm leads to an accuracy gain of 0.4% compared to "
            "cleaning with CL-PBNR",
            0.4,
            _relative(tables.cleaned["MNIST"][0.05], "cl-mcd"),
            "MNIST at 0.05",
        )
    )
    for name, rate, method, better_by, better_quote, fewer, fewer_quote in (
        (
            *("CIFAR-10", 0.2, "cl-mcd-e"),
            *(2.1, "achieves a 2.1% better accuracy after cleaning than the baseline"),
            *(26.0, "removes 26.0% fewer samples on the CIFAR-10 dataset"),
        ),
        (
            *("CIFAR-100", 0.05, "alg-ens-3"),
            *(3.5, "outperforms the baseline by 3.5%"),
            *(47.0, "while removing 47.0% fewer samples"),
        ),
        (
            *("Tiny-ImageNet", 0.05, "alg-ens-3"),
            *(4.3, "achieves a 4.3% increase in accuracy over the baseline"),
            *(41.8, "while removing 41.8% fewer samples"),
        ),
    ):
        where = f"{name} at {rate:g}, {format_method_short(method)}"
        accuracy, flagged = tables.cleaned[name][rate], tables.flagged[name][rate]
        share = 1 - flagged[method] / flagged[BASELINE]
        found += [
            _points(_2, better_quote, better_by, _relative(accuracy, method), where),
            _points(_2, fewer_quote, fewer, _constant(share), where),
        ]
    return found


def _sensitivity_figures(analyses: Sensitivity) -> list[Figure]:
    found = []
    small = printed("sensitivity").to_dict("records")
    initial, final = analyses.initial, analyses.final
    for row in small:
        of, said = row["of"], float(row["printed"])
        what = row["quantity"].partition(" of ")[0].replace("f1", "F1")
        if row["quantity"] == "mean f1 per rate":
            value = analyses.mean_f1[of][float(row["rate"])].mean
            where, quote = "mean F1", f"{of} at {row['rate']}"
        elif row["quantity"] in ("initial accuracy", "f1 of data set"):
            value = initial.points[of][row["quantity"] == "f1 of data set"]
            where, quote = "initial accuracy and F1", f"{of}, {what}"
        else:
            value = final.points[of][row["quantity"] == "final accuracy"]
            where, quote = "F1 and final accuracy", f"{format_method_short(of)}, {what}"
        found.append(_points(f"{TABLE} of {where}", quote, said, _shifted(value)))
    for what, analysis, r, t, p in (
        ("initial accuracy and F1", initial, 0.98, 6.37, 0.02),
        ("F1 and final accuracy", final, 0.98, 10.03, 0.001),
    ):
        known = analysis.correlation
        assert known is not None
        interval = f"95 % interval: {format_number(known.low, 2)} to {format_number(known.high, 2)}"
        found += [
            _figure(_S, f"r={r}", r, _constant(known.r), note=f"{what}; {interval}"),
            _figure(_S, f"t={t}", t, _constant(known.t), note=f"{what}; n = {known.n}"),
            _figure(
                *(_S, f"a p-value of {p}", p, _constant(known.p)),
                note=f"{what}; p = {format_p_value(known.p)}",
            ),
        ]
    return found


def _discussion_figures(tables: Printed) -> list[Figure]:
    below = {
        (d, r, m)
        for d in SAMPLES
        for r in RATES
        for m in PROPOSED
        if tables.f1[d][r][m] <= tables.f1[d][r][BASELINE]
    }
    named = {("MNIST", 0.2, "cl-mcd-e"), ("MNIST", 0.2, "alg-ens-3")}
    found = [
        Figure(
            _D,
            "The only exceptions ... are the CL-MCD-E algorithm and the Algorithm Ensemble "
            "(Agreement=3) at noise rate τ=0.2 on the MNIST dataset",
            "2 exceptions",
            f"{len(below)} exceptions",
            FOLLOWS if below == named else NOT,
            "cells in which an algorithm's F1 is not above CL-PBNR's",
        )
    ]
    for said, method, quote in (
        (
            *(12.2, "cl-mcd"),
            "the average precision increases by 12.2% across all noise rates and datasets",
        ),
        (
            *(25.8, "cl-mcd-e"),
            "on average, 25.8% in precision when comparing the CL-MCD-E algorithm with the "
            "baseline",
        ),
    ):
        cells = [tables.precision[d][r] for d in SAMPLES for r in RATES]
        overall = sum(c[method] for c in cells) / sum(c[BASELINE] for c in cells) - 1
        each = np.mean([c[method] / c[BASELINE] - 1 for c in cells])
        found.append(
            _points(
                _D,
                quote,
                said,
                partial(_mean_precision_gain, tables, method),
                "each data set's mean precision, relative to CL-PBNR's, then averaged; ratio of "
                f"overall means {format_number(100 * overall, 1)}, mean of all ratios "
                f"{format_number(100 * float(each), 1)}",
            )
        )
    return [*found, *_example_figures()]


def _example_figures() -> list[Figure]:
    """The worked example: wrong labels, of which some are found, and right ones that go too."""
    wrong, total, found = 5_000, 50_000, []
    for recall, precision, quotes in (
        (
            *(1.0, 0.25),
            {
                "will incorrectly remove 25,000 images": 25_000,
                "in the best case, 20,000 correctly labeled images are removed": 20_000,
                "the model has only 30,000 correctly labeled images available": 30_000,
            },
        ),
        (
            *(0.7, 0.35),
            {
                "the algorithm removes only 10,000 images": 10_000,
                "in the best case, only 5,000 correctly labeled images are removed": 5_000,
                "a resulting 45,000 correctly labeled images are available": 45_000,
            },
        ),
    ):
        removed = recall * wrong / precision
        correct = removed * (1 - precision)
        note = (
            f"{format_number(wrong, 0)} wrong labels among {format_number(total, 0)}; "
            f"recall {recall:.0%}, precision {precision:.0%}"
        )
        values = (removed, correct, total - wrong - correct)
        for (quote, said), value in zip(quotes.items(), values, strict=True):
            found.append(
                _figure(
                    *("Discussion, efficiency", quote, said, _constant(value)),
                    decimals=0,
                    note=note,
                )
            )
    return found


def _noise_figures() -> list[Figure]:
    """The worked example of the noise generator: airplane, from its printed similarities."""
    place = "Generating realistic label noise"
    row = np.array([0.004, 0.019, 0.007, 0.002, 0.000, 0.001, 0.002, 0.027, 0.010])
    scores = np.full((10, 10), 0.1)
    scores[0, 1:] = row
    flips = flip_probabilities(scores)[0]
    return [
        _figure(place, "the threshold ... 0.016", 0.016, _shifted(float(row.mean() + row.std()))),
        _points(place, "49.8%", 49.8, _constant(float(flips[2])), "airplane to bird"),
        _points(place, "50.2%", 50.2, _constant(float(flips[8])), "airplane to ship"),
    ]


def _mean_precision_gain(tables: Printed, method: str, shift: float) -> float:
    """Per data set the ratio of mean precisions, less 1; averaged over data sets."""
    ratios = []
    for by_rate in tables.precision.values():
        mine = sum(column[method] + shift for column in by_rate.values())
        ratios.append(mine / sum(column[BASELINE] - shift for column in by_rate.values()) - 1)
    return float(np.mean(ratios))


def _gap(
    averages: Mapping[str, float], method: str, *, than: float | None = None
) -> Callable[[float], float]:
    """A method's average minus the baseline's, or another number."""
    other = averages[BASELINE] if than is None else than
    return lambda shift: averages[method] - other + 2 * shift


def _relative(column: Mapping[str, float], method: str) -> Callable[[float], float]:
    """A method's value relative to the baseline's, less 1."""
    return lambda shift: (column[method] + shift) / (column[BASELINE] - shift) - 1


def _constant(value: float) -> Callable[[float], float]:
    """A number that does not come from rounded ones."""
    return lambda _: value


def _shifted(value: float) -> Callable[[float], float]:
    """An average of rounded numbers."""
    return lambda shift: value + shift


def _gains(values: Numbers, shift: float, *, relative: bool) -> dict[tuple[str, float, str], float]:
    gain = _relative if relative else _gap
    return {
        (d, r, m): gain(values[d][r], m)(shift) for d in SAMPLES for r in RATES for m in PROPOSED
    }


def _largest(values: Numbers, *, relative: bool) -> Callable[[float], float]:
    return lambda shift: max(_gains(values, shift, relative=relative).values())


def _where(values: Numbers, *, relative: bool) -> str:
    gains = _gains(values, 0, relative=relative)
    name, rate, method = max(gains, key=gains.__getitem__)
    return f"{name} at {rate:g}, {format_method_short(method)}"


def _cell(values: Numbers, name: str, rate: float, *, relative: bool) -> float:
    gains = _gains(values, 0, relative=relative)
    return max(gain for (d, r, _), gain in gains.items() if (d, r) == (name, rate))


def _bound(quote: str, said: str, share: float, test: Callable[[float], bool]) -> Figure:
    return Figure(_1, quote, said, format_number(100 * share, 1), FOLLOWS if test(share) else NOT)
