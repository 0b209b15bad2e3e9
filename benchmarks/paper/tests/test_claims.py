"""The paper's sentences, counted on its own tables and on a benchmark."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from bench_frames import build_results, stage1_frame, stage2_frame
from paper import claims, paper_comparison, statements
from paper.printed_tables import read_paper_means, read_paper_results
from uqled.bench.results.statistics import _make_analysis
from uqled.bench.results.table_formats import format_markdown


class TestClaims:
    def test_counts_on_the_printed_tables(self) -> None:
        view = claims.build_view(read_paper_results(), read_paper_means())
        tallies = {one.counted: tally for one, tally in statements.count_statements(view)}
        frame = read_paper_results().stage1.set_index(["dataset", "rate", "method"])
        wide = {m: frame[m].unstack("method") for m in ("f1", "precision", "recall", "flagged")}
        above = {m: wide[m].gt(wide[m]["cl-pbnr"], axis=0).drop(columns="cl-pbnr") for m in wide}
        tally = tallies["F1 above CL-PBNR's, per data set, rate and algorithm"]
        assert (tally.held, tally.of) == (above["f1"].to_numpy().sum(), 60)
        tally = tallies[
            "precision and recall both above CL-PBNR's, per data set, rate and algorithm"
        ]
        assert tally.held == (above["precision"] & above["recall"]).to_numpy().sum()
        tally = tallies["fewer samples flagged than by CL-PBNR, per data set, rate and algorithm"]
        assert tally.exceptions == (
            "CIFAR-100 at 0.1, CL-MCD-Ens: 18,757 against 18,544",
            "CIFAR-100 at 0.2, CL-MCD-Ens: 24,560 against 23,942",
        )

    def test_an_exception_is_named(self) -> None:
        frame = stage1_frame(methods=["cl-pbnr", "cl-mcd"], seeds=(0,))
        frame["f1"] = frame["method"].map({"cl-pbnr": 0.5, "cl-mcd": 0.7})
        statement = statements.STATEMENTS[0]
        assert statement.tally(claims.build_view(build_results(stage1=frame))).holds
        frame.loc[(frame["method"] == "cl-mcd") & (frame["rate"] == 0.2), "f1"] = 0.5
        tally = statement.tally(claims.build_view(build_results(stage1=frame)))
        assert (tally.held, tally.of) == (1, 2)
        assert tally.exceptions == ("mnist at 0.2, CL-MCD: 50.0 against 50.0",)

    @pytest.mark.parametrize(
        ("gaps", "verdict", "counts"),
        [
            ({0.1: [2, 3, 2], 0.2: [1, 1, 1]}, claims.HOLDS, (2, 0, 0, 0)),
            ({0.1: [2, 3, 2], 0.2: [-1, -1, -1]}, claims.FAILS, (1, 0, 1, 0)),
            ({0.1: [2, 3, 2], 0.2: [-1, 3, -1]}, claims.OPEN, (1, 1, 0, 0)),
            ({0.1: [2, 3, 2], 0.2: [-1, 1, -1]}, claims.OPEN, (1, 1, 0, 0)),
            ({0.1: [2, 3, 2], 0.2: [1]}, claims.HOLDS, (1, 0, 0, 1)),
            ({0.1: [2, 3, 2], 0.2: [-1]}, claims.OPEN, (1, 0, 0, 1)),
            ({0.1: [2], 0.2: [1]}, claims.OPEN, (0, 0, 0, 2)),
        ],
    )
    def test_a_verdict_looks_at_the_spread(
        self, gaps: dict[float, list[float]], verdict: str, counts: tuple[int, ...]
    ) -> None:
        rows = [
            {"dataset": "a", "rate": rate, "seed": seed, "method": method}
            | {"f1": 0.5 + 0.1 * seed + (gap / 100 if method == "cl-mcd" else 0)}
            | {"precision": 0.5, "recall": 0.5, "aupr": 0.5, "flagged": 9}
            for rate, by_seed in gaps.items()
            for seed, gap in enumerate(by_seed)
            for method in ("cl-pbnr", "cl-mcd")
        ]
        view = claims.build_view(build_results(stage1=pd.DataFrame(rows), stage2=pd.DataFrame()))
        statement = statements.STATEMENTS[0]
        tally = statement.tally(view)
        assert (tally.clearly, tally.within, tally.against, tally.once) == counts
        assert statement.verdict(tally) == verdict

    def test_where_most_cases_decide(self) -> None:
        loose_statement = replace(statements.STATEMENTS[0], every=False)
        for clearly, n_against, verdict in (
            (3, 1, claims.HOLDS),
            (2, 2, claims.OPEN),
            (1, 3, claims.FAILS),
            (0, 0, claims.OPEN),
        ):
            tally = claims.CaseTally(clearly, 4, (), clearly, n_against)
            assert loose_statement.verdict(tally) == verdict

    def test_accuracies_that_hardly_differ_are_not_correlated(self) -> None:
        points = {"a": (0.5, 0.9), "b": (0.6, 0.903), "c": (0.7, 0.9049)}
        narrow = _make_analysis(points)
        assert narrow.correlation is not None
        assert not claims.has_enough_span(narrow)
        assert claims.has_enough_span(_make_analysis(points | {"d": (0.8, 0.9051)}))

    def test_the_winner_by_area_is_counted_where_there_is_one(self) -> None:
        counted = "the best algorithm by F1 is the best by the area under precision-recall"
        (statement,) = (s for s in statements.STATEMENTS if s.counted.startswith(counted))
        paper = claims.build_view(read_paper_results(), read_paper_means())
        assert statement.tally(paper).of == 0  # the paper prints none
        frame = stage1_frame(methods=["cl-pbnr", "cl-mcd"], rates=(0.1,))
        frame["f1"] = frame["method"].map({"cl-pbnr": 0.5, "cl-mcd": 0.7})
        for area, n_held in ((0.9, 1), (0.1, 0)):
            frame["aupr"] = frame["method"].map({"cl-pbnr": 0.5, "cl-mcd": area})
            tally = statement.tally(claims.build_view(build_results(stage1=frame)))
            assert (tally.held, tally.of, tally.datasets) == (n_held, 1, ("mnist",))

    def test_nothing_to_count_is_no_verdict(self) -> None:
        empty = build_results(stage1=pd.DataFrame(), stage2=pd.DataFrame())
        assert statements.count_statements(claims.build_view(empty)) == []
        assert all(one.here is None for one in paper_comparison.judge_statements(empty))

    def test_contaminated_results_beside_the_paper_are_called_so(self) -> None:
        names = ("MNIST", "CIFAR-10")
        about = {"contaminated": {"CIFAR-10": "the network has seen it"}}
        results = build_results(stage1=stage1_frame(names), stage2=stage2_frame(names), about=about)
        text = format_markdown(paper_comparison.build_comparison_table(results))
        clean, contaminated_part = text.split("### CIFAR-10")
        assert "Contaminated: the network has seen it" in contaminated_part
        assert "Contaminated" not in clean

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            *[("mnist", "MNIST"), ("CIFAR10", "CIFAR-10"), ("cifar-100", "CIFAR-100")],
            *[("tiny-imagenet-20", "Tiny-ImageNet"), ("MNIST, 5,000 images", "MNIST")],
            *[("cifar10n-worst", None), ("fashion-mnist", None), ("mnists", None)],
        ],
    )
    def test_data_sets_of_the_paper_are_known(self, name: str, expected: str | None) -> None:
        assert paper_comparison.find_paper_dataset(name) == expected
