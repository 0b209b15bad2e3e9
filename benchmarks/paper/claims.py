"""What the paper says of its algorithms, counted: on its own printed tables, or on a benchmark.

A statement is a sentence of the paper and a test that goes through every case it covers: this data
set, this rate, this algorithm. A case speaks clearly when its difference, paired over seeds, is
larger than its spread. A case that a benchmark lacks is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from uqled.bench.results.collection import Results
from uqled.bench.results.statistics import (
    Means,
    Rate,
    SamplesByRate,
    SeedSample,
    analyse_sensitivity,
    compute_means,
    group_samples,
    has_enough_span,
    list_evidence,
    select_treatment,
)
from uqled.bench.suite import BASELINE, PAPER_METHODS

PROPOSED_METHODS = tuple(method for method in PAPER_METHODS if method != BASELINE)
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided, within the spread"

Values = Mapping[str, SamplesByRate]
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
    dataset: str = ""


@dataclass(frozen=True)
class View:
    """What the tests look at: samples over seeds."""

    f1: Values
    precision: Values
    recall: Values
    flagged: Values
    aupr: Values
    """Area under precision-recall, which the paper does not print."""
    cleaned: Values
    """Accuracy after removal."""
    noisy: Mapping[str, Mapping[Rate, SeedSample]]
    """Accuracy of training on all labels."""
    within: Mapping[str, tuple[float, float]]
    """Data set -> r and p of F1 against accuracy after removal, across methods, where these
    accuracies span `LEAST_SPAN`."""
    mean_f1: Mapping[str, Mapping[Rate, SeedSample]]
    """Data set -> rate -> F1 averaged over methods."""


@dataclass(frozen=True)
class CaseTally:
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
    datasets: tuple[str, ...] = ()
    """What it was tested on."""

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

    def tally(self, view: View) -> CaseTally:
        cases = list(self.test(view))
        return CaseTally(
            sum(case.held for case in cases),
            len(cases),
            tuple(case.text for case in cases if not case.held),
            sum(case.held and case.is_clear for case in cases),
            sum(case.is_clear and not case.held for case in cases),
            sum(not case.repeated for case in cases),
            tuple(dict.fromkeys(case.dataset for case in cases)),
        )

    def verdict(self, tally: CaseTally) -> str:
        """Holds, does not hold, or undecided, within the spread.

        About every case: one clear exception is enough against it; for it, every case that has a
        spread must be clear, and those of one seed must agree. Otherwise more than half decide.
        """
        n_repeated = tally.of - tally.once
        if self.every:
            does_hold = tally.clearly == n_repeated and tally.held == tally.of
            does_fail = tally.against > 0
        else:
            does_hold = 2 * tally.clearly > n_repeated and 2 * tally.held > tally.of
            does_fail = 2 * tally.against > n_repeated
        if does_fail:
            return FAILS
        return HOLDS if does_hold and n_repeated else OPEN


def build_view(results: Results, averages: Means | None = None) -> View:
    """Samples over seeds of everything that the tests look at."""
    names = list_evidence(results)
    retrained_rows, noisy = (select_treatment(results.stage2, what) for what in ("remove", "noisy"))
    f1, precision, recall, n_flagged, aupr = (
        {name: group_samples(results.stage1, name, measure) for name in names}
        for measure in ("f1", "precision", "recall", "flagged", "aupr")
    )
    analyses = analyse_sensitivity(results, averages or compute_means(results))
    return View(
        f1,
        precision,
        recall,
        n_flagged,
        aupr,
        {name: group_samples(retrained_rows, name, "accuracy") for name in names},
        {
            name: {
                r: column["noisy"] for r, column in group_samples(noisy, name, "accuracy").items()
            }
            for name in names
        },
        {
            name: (analysis.correlation.r, analysis.correlation.p)
            for name, analysis in analyses.within.items()
            if analysis.correlation is not None and has_enough_span(analysis)
        },
        analyses.mean_f1,
    )
