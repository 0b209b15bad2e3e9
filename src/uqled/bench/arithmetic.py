"""Numbers that the paper's text and small tables print, computed from its stage tables.

The stage tables are rounded to a tenth of a per cent. A number *follows* when the tables give it
as printed, *within rounding* when it lies in the range that unrounded tables could give, and
otherwise does not follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from uqled.bench.claims import BASELINE, PROPOSED, Values, View, view_of
from uqled.bench.published import (
    RATES,
    SAMPLES,
    number,
    printed,
    published_means,
    published_results,
)
from uqled.bench.shown import fixed, p_value, short_name
from uqled.bench.statistics import Means, Sensitivity, sensitivity
from uqled.bench.suite import PAPER_METHODS
from uqled.noise.matrices import flip_probabilities

FOLLOWS, ROUNDING, NOT = "follows", "within rounding", "does not follow"
_HALF = 0.0005  # half of the last printed digit of a share
_HARD = ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
TABLE = "Small table"  # such places are tables: what they hold is no quotation
_1, _2, _S, _D = "Results, stage 1", "Results, stage 2", "Sensitivity analyses", "Discussion"


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


@dataclass(frozen=True)
class Check:
    """One property that printed tables must have, and where they lack it."""

    what: str
    held: int
    of: int
    exceptions: tuple[str, ...]


def printed_figures() -> list[Figure]:
    """Every number of the paper's text and small tables that its stage tables decide."""
    results, averages = published_results(), published_means()
    view, analyses = view_of(results, averages), sensitivity(results, averages)
    return [
        *_stage1_figures(view, averages),
        *_stage2_figures(view, averages),
        *_sensitivity_figures(analyses),
        *_discussion_figures(view),
        *_noise_figures(),
    ]


def table_checks() -> list[Check]:
    """What the printed tables say of themselves."""
    return [
        _check("F1 is the harmonic mean of the printed precision and recall", _harmonic()),
        _check("a Mean of stage 1 is the mean of its row", _row_means("stage1", "f1")),
        _check("a Mean of stage 2 is the mean of its row", _row_means("stage2", "accuracy")),
        _check("flagged x precision / recall is the noise rate times the samples", _counts()),
        _check("what is bold in stage 1 is the highest of its column", _bold("stage1", False)),
        _check("what is bold in stage 2 is the highest of its column", _bold("stage2", False)),
        _check("the highest of a column of stage 1 is bold", _bold("stage1", True)),
        _check("the highest of a column of stage 2 is bold", _bold("stage2", True)),
    ]


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
    low, high = sorted((of(-_HALF), of(_HALF)))
    if fixed(value, places) == fixed(said, places):
        verdict = FOLLOWS
    else:
        verdict = ROUNDING if low - half <= said <= high + half else NOT
    return Figure(place, quote, fixed(said, places), fixed(value, places), verdict, note)


def _stage1_figures(view: View, averages: Means) -> list[Figure]:
    f1, found = averages.f1, []
    gains = {"MNIST": 2.1, "CIFAR-10": 14.3, "CIFAR-100": 8.2, "Tiny-ImageNet": 6.6}
    for name, said in gains.items():
        quote = f"The mean performance over CL-PBNR increases by ... {said}pp for {name}"
        best = max(PROPOSED, key=f1[name].__getitem__)
        note = f"the best algorithm's Mean ({short_name(best)}) minus CL-PBNR's"
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
        (view.f1[d][r][m] / view.f1[d][r][BASELINE], d, r, m)
        for d in _HARD
        for r in RATES
        for m in two
    )
    best_of_two = min(
        max(view.f1[d][r][m] for m in two) / view.f1[d][r][BASELINE] for d in _HARD for r in RATES
    )
    enough = least[0] >= 1.1
    found.append(
        Figure(
            _1,
            "For CIFAR-10, CIFAR-100, and Tiny-ImageNet, our best-performing algorithms CL-MCD-E "
            "and the Algorithm Ensemble (Agreement = 3) improve over the state-of-the-art by at "
            "least 10% across all considered noise rates",
            "at least 10 %",
            f"{fixed(100 * least[0] - 100, 1)} %",
            FOLLOWS if enough else NOT,
            f"the least: {least[1]} at {least[2]:g}, {short_name(least[3])}; the better of the two "
            f"in each cell gains at least {fixed(100 * best_of_two - 100, 1)} %",
        )
    )
    found += [
        _points(
            _1,
            "The best-performing algorithms outperform the state-of-the-art by up to 9.3pp",
            9.3,
            _largest(view.f1, relative=False),
            f"the largest: {_where(view.f1, relative=False)}; CIFAR-100 at 0.05 has "
            f"{fixed(100 * _cell(view.f1, 'CIFAR-100', 0.05, relative=False), 1)}",
        ),
        _points(
            _1,
            "38.1%, see CIFAR-100, τ=0.05",
            38.1,
            _largest(view.f1, relative=True),
            f"the largest: {_where(view.f1, relative=True)}",
        ),
        _bound(
            "precision with scores below 50% for CIFAR-10, CIFAR-100, and Tiny-ImageNet",
            "below 50",
            max(view.precision[d][r][BASELINE] for d in _HARD for r in RATES),
            lambda share: share < 0.5,
        ),
        _bound(
            "the recall of CL-PBNR is already consistently over 80%",
            "over 80",
            min(view.recall[d][r][BASELINE] for d in SAMPLES for r in RATES),
            lambda share: share > 0.8,
        ),
        _points(
            _1,
            "The precision improves by up to 22pp",
            22.0,
            _largest(view.precision, relative=False),
            f"the largest: {_where(view.precision, relative=False)}",
        ),
        _points(
            _1,
            "65.28%, see CIFAR-10 results at τ=0.05",
            65.28,
            _largest(view.precision, relative=True),
        ),
        _points(
            _1,
            "the recall increases slightly by up to 2.8",
            2.8,
            _largest(view.recall, relative=False),
            f"the largest: {_where(view.recall, relative=False)}",
        ),
        _points(
            _1,
            "3.39%, see Tiny-ImageNet results at τ=0.05",
            3.39,
            _largest(view.recall, relative=True),
            f"the largest: {_where(view.recall, relative=True)}",
        ),
    ]
    return found


def _stage2_figures(view: View, averages: Means) -> list[Figure]:
    final, found = averages.final, []
    over = {
        (name, method): final[name][method] - averages.noisy[name]
        for name in ("MNIST", "CIFAR-10", "CIFAR-100")
        for method in PAPER_METHODS
    }
    fails = [f"{name}, {short_name(m)}" for (name, m), gap in over.items() if gap < 1e-9]
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
        found.append(_points(_2, quote, said, gain, short_name(best)))
    over_pbnr = "improved the mean performance ... over the CL-PBNR algorithm by up to ... "
    for name, said, quote in (
        ("MNIST", 0.3, over_pbnr + "0.3pp for MNIST"),
        ("CIFAR-10", 0.9, over_pbnr + "0.9pp for CIFAR-10"),
        ("CIFAR-100", 2.6, over_pbnr + "2.6pp for CIFAR-100"),
        ("Tiny-ImageNet", 2.0, "our proposed algorithms still outperformed CL-PBNR by up to 2.0pp"),
    ):
        best = max(PROPOSED, key=final[name].__getitem__)
        found.append(_points(_2, quote, said, _gap(final[name], best), short_name(best)))
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
            _relative(view.cleaned["MNIST"][0.05], "cl-mcd"),
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
        where = f"{name} at {rate:g}, {short_name(method)}"
        accuracy, flagged = view.cleaned[name][rate], view.flagged[name][rate]
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
            where, quote = "F1 and final accuracy", f"{short_name(of)}, {what}"
        found.append(_points(f"{TABLE} of {where}", quote, said, _shifted(value)))
    for what, analysis, r, t, p in (
        ("initial accuracy and F1", initial, 0.98, 6.37, 0.02),
        ("F1 and final accuracy", final, 0.98, 10.03, 0.001),
    ):
        known = analysis.correlation
        assert known is not None
        interval = f"95 % interval: {fixed(known.low, 2)} to {fixed(known.high, 2)}"
        found += [
            _figure(_S, f"r={r}", r, _constant(known.r), note=f"{what}; {interval}"),
            _figure(_S, f"t={t}", t, _constant(known.t), note=f"{what}; n = {known.n}"),
            _figure(
                *(_S, f"a p-value of {p}", p, _constant(known.p)),
                note=f"{what}; p = {p_value(known.p)}",
            ),
        ]
    return found


def _discussion_figures(view: View) -> list[Figure]:
    below = {
        (d, r, m)
        for d in SAMPLES
        for r in RATES
        for m in PROPOSED
        if view.f1[d][r][m] <= view.f1[d][r][BASELINE]
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
        cells = [view.precision[d][r] for d in SAMPLES for r in RATES]
        overall = sum(c[method] for c in cells) / sum(c[BASELINE] for c in cells) - 1
        each = np.mean([c[method] / c[BASELINE] - 1 for c in cells])
        found.append(
            _points(
                _D,
                quote,
                said,
                partial(_mean_precision_gain, view, method),
                "each data set's mean precision, relative to CL-PBNR's, then averaged; ratio of "
                f"overall means {fixed(100 * overall, 1)}, mean of all ratios "
                f"{fixed(100 * float(each), 1)}",
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
            f"{fixed(wrong, 0)} wrong labels among {fixed(total, 0)}; recall {recall:.0%}, "
            f"precision {precision:.0%}"
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


def _mean_precision_gain(view: View, method: str, shift: float) -> float:
    """Per data set the ratio of mean precisions, less 1; averaged over data sets."""
    ratios = []
    for by_rate in view.precision.values():
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


def _gains(values: Values, shift: float, *, relative: bool) -> dict[tuple[str, float, str], float]:
    gain = _relative if relative else _gap
    return {
        (d, r, m): gain(values[d][r], m)(shift) for d in SAMPLES for r in RATES for m in PROPOSED
    }


def _largest(values: Values, *, relative: bool) -> Callable[[float], float]:
    return lambda shift: max(_gains(values, shift, relative=relative).values())


def _where(values: Values, *, relative: bool) -> str:
    gains = _gains(values, 0, relative=relative)
    name, rate, method = max(gains, key=gains.__getitem__)
    return f"{name} at {rate:g}, {short_name(method)}"


def _cell(values: Values, name: str, rate: float, *, relative: bool) -> float:
    gains = _gains(values, 0, relative=relative)
    return max(gain for (d, r, _), gain in gains.items() if (d, r) == (name, rate))


def _bound(quote: str, said: str, share: float, test: Callable[[float], bool]) -> Figure:
    return Figure(_1, quote, said, fixed(100 * share, 1), FOLLOWS if test(share) else NOT)


def _check(what: str, cases: Iterable[tuple[bool, str]]) -> Check:
    found = list(cases)
    return Check(
        what, sum(ok for ok, _ in found), len(found), tuple(text for ok, text in found if not ok)
    )


def _harmonic() -> Iterable[tuple[bool, str]]:
    """The printed F1 lies in the range that rounding of precision and recall allows."""
    for row in printed("stage1").to_dict("records"):
        for rate in RATES:
            p, r, f = (number(row[f"{m} {rate:g}"]) for m in ("precision", "recall", "f1"))
            low, value, high = (2 * (p + s) * (r + s) / (p + r + 2 * s) for s in (-0.05, 0.0, 0.05))
            where = f"{row['dataset']} at {rate:g}, {short_name(row['method'])}"
            text = f"{where}: printed {fixed(f, 1)}, computed {fixed(value, 1)}"
            yield low - 0.05 <= f + 1e-9 and f - 1e-9 <= high + 0.05, text


def _row_means(table: str, measure: str) -> Iterable[tuple[bool, str]]:
    for row in printed(table).to_dict("records"):
        value = math.fsum(number(row[f"{measure} {rate:g}"]) for rate in RATES) / len(RATES)
        said = number(row[f"{measure} mean"])
        where = f"{row['dataset']}, {short_name(row['method'])}"
        yield abs(said - value) <= 0.1 + 1e-9, f"{where}: {fixed(said, 1)}, {fixed(value, 2)}"


def _counts() -> Iterable[tuple[bool, str]]:
    """True positives are flagged x precision and wrong x recall: the printed numbers must agree."""
    for row in published_results().stage1.to_dict("records"):
        p, r, wrong = row["precision"], row["recall"], row["wrong"]
        low, high = (row["flagged"] * (p + s) / (r - s) for s in (-_HALF, _HALF))
        value = row["flagged"] * p / r
        where = f"{row['dataset']} at {row['rate']:g}, {short_name(row['method'])}"
        share = f"{fixed(100 * value / row['n'], 2)} % wrong"
        yield low <= wrong <= high, f"{where}: {share}"


def _bold(table: str, highest_is_bold: bool) -> Iterable[tuple[bool, str]]:
    """Bold and highest, in one direction or the other, for every column of every data set."""
    frame = printed(table)
    for name, block in frame.groupby("dataset", sort=False):
        for column in frame.columns[2:]:
            if column.startswith("flagged"):
                continue
            values = block[column].map(number)
            bold = block[column].str.endswith("*")
            top = values == values.max()
            for place in block.index[top if highest_is_bold else bold]:
                method = short_name(str(block.at[place, "method"]))
                text = f"{name}, {column}, {method}: {fixed(values[place], 1)}"
                yield bool((bold if highest_is_bold else top)[place]), text
