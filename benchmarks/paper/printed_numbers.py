"""Every number of the paper's text and small tables that its stage tables decide."""

from __future__ import annotations

from functools import partial

import numpy as np

from paper.arithmetic import (
    DISCUSSION,
    FOLLOWS,
    NOT,
    SENSITIVITY,
    STAGE_1,
    STAGE_2,
    TABLE,
    Figure,
    Numbers,
    PrintedTables,
    average_precision_gain,
    check_bound,
    check_number,
    check_points,
    compute_gain,
    compute_relative_gain,
    find_cell_gain,
    find_largest_gain,
    hold_constant,
    name_largest_gain,
    shift_value,
)
from paper.claims import PROPOSED_METHODS, Values, build_view
from paper.printed_tables import (
    RATES,
    SAMPLES,
    read_paper_means,
    read_paper_results,
    read_printed_table,
)
from uqled.bench.results.formatting import format_method_short, format_number, format_p_value
from uqled.bench.results.statistics import Means, Sensitivity, analyse_sensitivity
from uqled.bench.suite import BASELINE, PAPER_METHODS
from uqled.noise.matrices import flip_probabilities

_HARD_SETS = ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet")


def list_printed_numbers() -> list[Figure]:
    """Every number of the paper's text and small tables that its stage tables decide."""
    results, averages = read_paper_results(), read_paper_means()
    view, analyses = build_view(results, averages), analyse_sensitivity(results, averages)
    tables = PrintedTables(
        *map(_read_numbers, (view.f1, view.precision, view.recall, view.flagged, view.cleaned))
    )
    return [
        *_check_stage1_figures(tables, averages),
        *_check_stage2_figures(tables, averages),
        *_check_sensitivity_figures(analyses),
        *_check_discussion_figures(tables),
        *_check_noise_figures(),
    ]


def _read_numbers(values: Values) -> Numbers:
    """One run has no spread: the means are what is printed."""
    return {
        name: {
            rate: {method: sample.mean for method, sample in column.items()}
            for rate, column in by_rate.items()
            if rate is not None
        }
        for name, by_rate in values.items()
    }


def _check_stage1_figures(tables: PrintedTables, averages: Means) -> list[Figure]:
    f1, figures = averages.f1, []
    gains = {"MNIST": 2.1, "CIFAR-10": 14.3, "CIFAR-100": 8.2, "Tiny-ImageNet": 6.6}
    for name, printed_value in gains.items():
        quote = f"The mean performance over CL-PBNR increases by ... {printed_value}pp for {name}"
        best = max(PROPOSED_METHODS, key=f1[name].__getitem__)
        note = f"the best algorithm's Mean ({format_method_short(best)}) minus CL-PBNR's"
        figures.append(
            check_points(STAGE_1, quote, printed_value, compute_gain(f1[name], best), note)
        )
    for name, printed_value in {
        "MNIST": 1.0,
        "CIFAR-10": 7.6,
        "CIFAR-100": 3.8,
        "Tiny-ImageNet": 2.2,
    }.items():
        quote = f"the mean performance over CL-PBNR increases by ... {printed_value}pp for {name}"
        figures.append(
            check_points(STAGE_1, quote, printed_value, compute_gain(f1[name], "cl-mcd"), "CL-MCD")
        )
    two = ("cl-mcd-e", "alg-ens-3")
    least = min(
        (tables.f1[d][r][m] / tables.f1[d][r][BASELINE], d, r, m)
        for d in _HARD_SETS
        for r in RATES
        for m in two
    )
    best_of_two = min(
        max(tables.f1[d][r][m] for m in two) / tables.f1[d][r][BASELINE]
        for d in _HARD_SETS
        for r in RATES
    )
    is_enough = least[0] >= 1.1
    figures.append(
        Figure(
            STAGE_1,
            "For CIFAR-10, CIFAR-100, and Tiny-ImageNet, our best-performing algorithms CL-MCD-E "
            "and the Algorithm Ensemble (Agreement = 3) improve over the state-of-the-art by at "
            "least 10% across all considered noise rates",
            "at least 10%",
            f"{format_number(100 * least[0] - 100, 1)}%",
            FOLLOWS if is_enough else NOT,
            f"the least: {least[1]} at {least[2]:g}, {format_method_short(least[3])}; the better "
            f"of the two in each cell gains at least {format_number(100 * best_of_two - 100, 1)}%",
        )
    )
    figures += [
        check_points(
            STAGE_1,
            "The best-performing algorithms outperform the state-of-the-art by up to 9.3pp",
            9.3,
            find_largest_gain(tables.f1, relative=False),
            f"the largest: {name_largest_gain(tables.f1, relative=False)}; CIFAR-100 at 0.05 has "
            + format_number(100 * find_cell_gain(tables.f1, "CIFAR-100", 0.05, relative=False), 1),
        ),
        check_points(
            STAGE_1,
            "38.1%, see CIFAR-100, τ=0.05",
            38.1,
            find_largest_gain(tables.f1, relative=True),
            f"the largest: {name_largest_gain(tables.f1, relative=True)}",
        ),
        check_bound(
            "precision with scores below 50% for CIFAR-10, CIFAR-100, and Tiny-ImageNet",
            "below 50",
            max(tables.precision[d][r][BASELINE] for d in _HARD_SETS for r in RATES),
            lambda share: share < 0.5,
        ),
        check_bound(
            "the recall of CL-PBNR is already consistently over 80%",
            "over 80",
            min(tables.recall[d][r][BASELINE] for d in SAMPLES for r in RATES),
            lambda share: share > 0.8,
        ),
        check_points(
            STAGE_1,
            "The precision improves by up to 22pp",
            22.0,
            find_largest_gain(tables.precision, relative=False),
            f"the largest: {name_largest_gain(tables.precision, relative=False)}",
        ),
        check_points(
            STAGE_1,
            "65.28%, see CIFAR-10 results at τ=0.05",
            65.28,
            find_largest_gain(tables.precision, relative=True),
        ),
        check_points(
            STAGE_1,
            "the recall increases slightly by up to 2.8",
            2.8,
            find_largest_gain(tables.recall, relative=False),
            f"the largest: {name_largest_gain(tables.recall, relative=False)}",
        ),
        check_points(
            STAGE_1,
            "3.39%, see Tiny-ImageNet results at τ=0.05",
            3.39,
            find_largest_gain(tables.recall, relative=True),
            f"the largest: {name_largest_gain(tables.recall, relative=True)}",
        ),
    ]
    return figures


def _check_stage2_figures(tables: PrintedTables, averages: Means) -> list[Figure]:
    final, figures = averages.final, []
    overshoots = {
        (name, method): final[name][method] - averages.noisy[name]
        for name in ("MNIST", "CIFAR-10", "CIFAR-100")
        for method in PAPER_METHODS
    }
    fails = [
        f"{name}, {format_method_short(m)}" for (name, m), gap in overshoots.items() if gap < 1e-9
    ]
    figures.append(
        Figure(
            STAGE_2,
            "for all datasets besides Tiny-Imagenet, excluding label errors from the training "
            "dataset improves the model performance with all proposed algorithms and CL-PBNR "
            "baseline",
            f"all {len(overshoots)}",
            f"{len(overshoots) - len(fails)} of {len(overshoots)}",
            NOT if fails else FOLLOWS,
            "Mean columns" + (f"; not: {'; '.join(fails)}" if fails else ""),
        )
    )
    for name, printed_value in {"MNIST": 0.2, "CIFAR-10": 7.1, "CIFAR-100": 3.5}.items():
        quote = (
            "compared to training on the original training datasets, amounting to up to ... "
            f"{printed_value}pp for {name}"
        )
        best = max(PROPOSED_METHODS, key=final[name].__getitem__)
        gain = compute_gain(final[name], best, than=averages.noisy[name])
        figures.append(check_points(STAGE_2, quote, printed_value, gain, format_method_short(best)))
    over_pbnr = "improved the mean performance ... over the CL-PBNR algorithm by up to ... "
    for name, printed_value, quote in (
        ("MNIST", 0.3, over_pbnr + "0.3pp for MNIST"),
        ("CIFAR-10", 0.9, over_pbnr + "0.9pp for CIFAR-10"),
        ("CIFAR-100", 2.6, over_pbnr + "2.6pp for CIFAR-100"),
        ("Tiny-ImageNet", 2.0, "our proposed algorithms still outperformed CL-PBNR by up to 2.0pp"),
    ):
        best = max(PROPOSED_METHODS, key=final[name].__getitem__)
        figures.append(
            check_points(
                STAGE_2,
                quote,
                printed_value,
                compute_gain(final[name], best),
                format_method_short(best),
            )
        )
    tiny = "Tiny-ImageNet"
    better_methods = [m for m in PAPER_METHODS if final[tiny][m] > averages.noisy[tiny]]
    figures.append(
        Figure(
            STAGE_2,
            "For Tiny-Imagenet, excluding label errors did not improve the performance for any "
            "algorithm",
            "0",
            str(len(better_methods)),
            NOT if better_methods else FOLLOWS,
        )
    )
    figures.append(
        check_points(
            "Figure of relative changes in stage 2",
            "cleaning with the CL-MCD algorithm leads to an accuracy gain of 0.4% compared to "
            "cleaning with CL-PBNR",
            0.4,
            compute_relative_gain(tables.cleaned["MNIST"][0.05], "cl-mcd"),
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
        place = f"{name} at {rate:g}, {format_method_short(method)}"
        accuracy, n_flagged = tables.cleaned[name][rate], tables.flagged[name][rate]
        share = 1 - n_flagged[method] / n_flagged[BASELINE]
        figures += [
            check_points(
                STAGE_2, better_quote, better_by, compute_relative_gain(accuracy, method), place
            ),
            check_points(STAGE_2, fewer_quote, fewer, hold_constant(share), place),
        ]
    return figures


def _check_sensitivity_figures(analyses: Sensitivity) -> list[Figure]:
    figures = []
    small = read_printed_table("sensitivity").to_dict("records")
    initial, final = analyses.initial, analyses.final
    for row in small:
        of, printed_value = row["of"], float(row["printed"])
        what = row["quantity"].partition(" of ")[0].replace("f1", "F1")
        if row["quantity"] == "mean f1 per rate":
            value = analyses.mean_f1[of][float(row["rate"])].mean
            place, quote = "mean F1", f"{of} at {row['rate']}"
        elif row["quantity"] in ("initial accuracy", "f1 of data set"):
            value = initial.points[of][row["quantity"] == "f1 of data set"]
            place, quote = "initial accuracy and F1", f"{of}, {what}"
        else:
            value = final.points[of][row["quantity"] == "final accuracy"]
            place, quote = "F1 and final accuracy", f"{format_method_short(of)}, {what}"
        figures.append(
            check_points(f"{TABLE} of {place}", quote, printed_value, shift_value(value))
        )
    for what, analysis, r, t, p in (
        ("initial accuracy and F1", initial, 0.98, 6.37, 0.02),
        ("F1 and final accuracy", final, 0.98, 10.03, 0.001),
    ):
        correlation = analysis.correlation
        assert correlation is not None
        low, high = (format_number(end, 2) for end in (correlation.low, correlation.high))
        interval = f"95% interval: {low} to {high}"
        figures += [
            check_number(
                SENSITIVITY, f"r={r}", r, hold_constant(correlation.r), note=f"{what}; {interval}"
            ),
            check_number(
                SENSITIVITY,
                f"t={t}",
                t,
                hold_constant(correlation.t),
                note=f"{what}; n = {correlation.n}",
            ),
            check_number(
                *(SENSITIVITY, f"a p-value of {p}", p, hold_constant(correlation.p)),
                note=f"{what}; p = {format_p_value(correlation.p)}",
            ),
        ]
    return figures


def _check_discussion_figures(tables: PrintedTables) -> list[Figure]:
    below = {
        (d, r, m)
        for d in SAMPLES
        for r in RATES
        for m in PROPOSED_METHODS
        if tables.f1[d][r][m] <= tables.f1[d][r][BASELINE]
    }
    exceptions = {("MNIST", 0.2, "cl-mcd-e"), ("MNIST", 0.2, "alg-ens-3")}
    figures = [
        Figure(
            DISCUSSION,
            "The only exceptions ... are the CL-MCD-E algorithm and the Algorithm Ensemble "
            "(Agreement=3) at noise rate τ=0.2 on the MNIST dataset",
            "2 exceptions",
            f"{len(below)} exceptions",
            FOLLOWS if below == exceptions else NOT,
            "cells in which an algorithm's F1 is not above CL-PBNR's",
        )
    ]
    for printed_value, method, quote in (
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
        mean_gain = np.mean([c[method] / c[BASELINE] - 1 for c in cells])
        figures.append(
            check_points(
                DISCUSSION,
                quote,
                printed_value,
                partial(average_precision_gain, tables, method),
                "each data set's mean precision, relative to CL-PBNR's, then averaged; ratio of "
                f"overall means {format_number(100 * overall, 1)}, mean of all ratios "
                f"{format_number(100 * float(mean_gain), 1)}",
            )
        )
    return [*figures, *_check_example_figures()]


def _check_example_figures() -> list[Figure]:
    """The worked example: wrong labels, of which some are found, and right ones that go too."""
    n_wrong, total, figures = 5_000, 50_000, []
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
        n_removed = recall * n_wrong / precision
        correct = n_removed * (1 - precision)
        note = (
            f"{format_number(n_wrong, 0)} wrong labels among {format_number(total, 0)}; "
            f"recall {recall:.0%}, precision {precision:.0%}"
        )
        values = (n_removed, correct, total - n_wrong - correct)
        for (quote, printed_value), value in zip(quotes.items(), values, strict=True):
            figures.append(
                check_number(
                    *("Discussion, efficiency", quote, printed_value, hold_constant(value)),
                    decimals=0,
                    note=note,
                )
            )
    return figures


def _check_noise_figures() -> list[Figure]:
    """The worked example of the noise generator: airplane, from its printed similarities."""
    place = "Generating realistic label noise"
    row = np.array([0.004, 0.019, 0.007, 0.002, 0.000, 0.001, 0.002, 0.027, 0.010])
    scores = np.full((10, 10), 0.1)
    scores[0, 1:] = row
    flips = flip_probabilities(scores)[0]
    return [
        check_number(
            place, "the threshold ... 0.016", 0.016, shift_value(float(row.mean() + row.std()))
        ),
        check_points(place, "49.8%", 49.8, hold_constant(float(flips[2])), "airplane to bird"),
        check_points(place, "50.2%", 50.2, hold_constant(float(flips[8])), "airplane to ship"),
    ]
