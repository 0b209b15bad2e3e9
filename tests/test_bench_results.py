"""From a benchmark's frames to what a reader sees: statistics, tables, claims, figures, page."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats
from sklearn.feature_selection import r_regression

from uqled.bench import (
    arithmetic,
    beside,
    claims,
    consistency,
    drawing,
    published,
    shown,
    statistics,
    tables,
    writing,
)
from uqled.bench.collected import Results
from uqled.bench.drawing import Drawn
from uqled.bench.formats import latex, markdown
from uqled.bench.published import printed, published_means, published_results
from uqled.bench.statistics import Sample, of_seeds
from uqled.bench.suite import PAPER_METHODS
from uqled.bench.writing import sensitivity_markdown, write_results
from uqled.errors import InputError
from uqled.noise import symmetric_matrix

METHODS = ["cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-e-given", "alg-ens-3", "argmax"]


def stage1_frame(
    names: tuple[str, ...] = ("mnist",),
    rates: tuple[float, ...] = (0.1, 0.2),
    seeds: tuple[int, ...] = (0, 1, 2),
    methods: list[str] = METHODS,
) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = []
    for name in names:
        for rate in rates:
            for seed in seeds:
                for place, method in enumerate(methods):
                    p, r = rng.uniform(0.4, 0.6, 2) + 0.03 * place
                    rows.append(
                        {"dataset": name, "rate": rate, "seed": seed, "method": method}
                        | {"n": 1000, "wrong": 100, "flagged": 90 + place}
                        | {"precision": p, "recall": r, "f1": 2 * p * r / (p + r)}
                        | {"f05": 1.25 * p * r / (0.25 * p + r), "aupr": p * r}
                        | {"given_accuracy": 0.8 - rate, "true_accuracy": 0.8 + 0.01 * seed}
                    )
    return pd.DataFrame(rows)


def stage2_frame(
    names: tuple[str, ...] = ("mnist",),
    seeds: dict[float, tuple[int, ...]] | None = None,
    relabel: tuple[float, ...] = (0.1,),
) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    rows: list[dict[str, Any]] = []

    def add(name: str, rate: float, seed: int, treatment: str, method: str, changed: int) -> None:
        values = (
            name,
            rate,
            seed,
            treatment,
            method,
            1000 - changed,
            changed,
            rng.uniform(0.6, 0.9),
        )
        keys = ("dataset", "rate", "seed", "treatment", "method", "trained_on", "changed")
        rows.append(dict(zip((*keys, "accuracy"), values, strict=True)))

    for name in names:
        for seed in (0, 1, 2):
            add(name, math.nan, seed, "clean", "", 0)
        for rate, chosen in (seeds or {0.1: (0, 1, 2), 0.2: (0,)}).items():
            for seed in chosen:
                add(name, rate, seed, "noisy", "", 0)
                for method in METHODS:
                    add(name, rate, seed, "remove", method, 90)
                    if rate in relabel:
                        add(name, rate, seed, "relabel", method, 90)
    return pd.DataFrame(rows)


def made(**changes: Any) -> Results:
    found = Results(
        name="tried",
        about={"code": "abc", "reductions": ["fewer images"], "data": {"mnist": {"samples": 1000}}},
        pilot=pd.DataFrame(),
        stage1=stage1_frame(),
        initial=pd.DataFrame({"dataset": ["mnist"] * 2, "seed": [0, 1], "accuracy": [0.8, 0.9]}),
        stage2=stage2_frame(),
        matrices={"mnist": {0.1: symmetric_matrix(3, rate=0.1)}},
    )
    return replace(found, **changes)


def column(**values: list[float]) -> dict[str, Sample]:
    return {name: of_seeds(dict(enumerate(given))) for name, given in values.items()}


class TestStatistics:
    def test_the_papers_correlations_follow_from_its_printed_means(self) -> None:
        found = statistics.sensitivity(published_results(), published_means())
        initial, final = found.initial.correlation, found.final.correlation
        assert initial is not None
        assert final is not None
        said = [shown.fixed(value, 2) for value in (initial.r, initial.t, initial.p)]
        assert said == ["0.98", "6.37", "0.02"]
        said = [shown.fixed(final.r, 2), shown.fixed(final.t, 2), shown.fixed(final.p, 3)]
        assert said == ["0.98", "10.03", "0.001"]
        assert (initial.n, final.n) == (4, 6)

    def test_the_papers_mean_f1_table(self) -> None:
        found = statistics.sensitivity(published_results(), published_means()).mean_f1
        table = printed("sensitivity")
        rows = table[table["quantity"] == "mean f1 per rate"]
        assert len(rows) == 12
        for _, row in rows.iterrows():
            assert shown.percent(found[row["of"]][float(row["rate"])].mean) == row["printed"]

    @pytest.mark.parametrize("n", [3, 4, 6, 30])
    def test_correlation_is_scipys_and_scikit_learns(self, n: int) -> None:
        x, noise = np.random.default_rng(n).normal(size=(2, n))
        y = 0.5 * x + noise
        found = statistics.correlation(x, y)
        known = stats.pearsonr(x, y)
        assert found is not None
        assert found.r == pytest.approx(known.statistic)
        assert found.r == pytest.approx(r_regression(x[:, None], y)[0])
        assert found.p == pytest.approx(known.pvalue)
        assert found.t == pytest.approx(
            stats.linregress(x, y).slope / stats.linregress(x, y).stderr
        )
        if n > 3:
            assert (found.low, found.high) == pytest.approx(known.confidence_interval(0.95))

    def test_correlation_of_too_little_is_none(self) -> None:
        assert statistics.correlation([1, 2], [1, 2]) is None
        assert statistics.correlation([1, 1, 1], [1, 2, 3]) is None
        exact = statistics.correlation([1, 2, 3, 4], [2, 4, 6, 8])
        assert exact is not None
        assert (exact.r, exact.p) == pytest.approx((1, 0))

    def test_mean_and_spread_are_pandas(self) -> None:
        frame = stage1_frame()
        known = frame.groupby(["rate", "method"])["f1"].agg(["mean", "std", "count"])
        for rate, by_method in statistics.columns(frame, "mnist", "f1").items():
            for method, sample in by_method.items():
                row = known.loc[(rate, method)]
                assert (sample.mean, sample.sd) == pytest.approx((row["mean"], row["std"]))
                assert sample.n == row["count"] == 3

    def test_a_cell_that_is_there_twice_is_refused(self) -> None:
        frame = stage1_frame()
        with pytest.raises(InputError, match="twice"):
            statistics.columns(pd.concat([frame, frame[:1]]), "mnist", "f1")

    def test_mean_over_rates_needs_every_rate_and_the_same_seeds_for_a_spread(self) -> None:
        by_rate = {
            0.1: column(a=[1, 2, 3], b=[1, 2, 3], c=[5, 5, 5]),
            0.2: column(a=[3, 4, 8], b=[7]),
        }
        found = statistics.over_rates(by_rate)
        assert set(found) == {"a", "b"}
        assert (found["a"].mean, found["a"].n) == (3.5, 3)
        assert found["a"].sd == pytest.approx(np.std([2, 3, 5.5], ddof=1))
        assert (found["b"].mean, found["b"].n) == (4.5, 0)
        assert math.isnan(found["b"].sd)

    @pytest.mark.parametrize(
        ("values", "names", "clear"),
        [
            ({"a": [5, 6, 7], "b": [1, 2, 3]}, {"a"}, True),
            ({"a": [5, 6, 7], "b": [5, 5, 7]}, {"a"}, False),  # differences 0, 1, 0
            ({"a": [1, 51, 101], "b": [0, 50, 100]}, {"a"}, True),  # paired, always 1 above
            ({"a": [5], "b": [1]}, {"a"}, False),  # one seed has no spread
            ({"a": [5, 6], "b": [5, 6]}, {"a", "b"}, False),
            ({"a": [5, 6, 7], "b": [1, 2, 3], "c": [0, 0, 17]}, {"a"}, False),  # c may be better
            ({"a": [5, 6, 7]}, set(), False),  # nothing to be better than
            ({"a": [5, 6, 7], "b": [1]}, {"a"}, False),  # one seed in common
        ],
    )
    def test_bold_is_outside_the_spread(
        self, values: dict[str, list[float]], names: set[str], clear: bool
    ) -> None:
        found = statistics.leaders(column(**values))
        assert (set(found.names), found.clear) == (names, clear)

    def test_means_are_compared_over_the_same_seeds(self) -> None:
        few = {"a": of_seeds({0: 5.0}), "b": of_seeds({0: 4.0, 1: 9.0})}
        assert statistics.leaders(few) == statistics.Leaders(frozenset({"a"}), False)
        apart = {"a": of_seeds({0: 5.0}), "b": of_seeds({1: 9.0})}
        assert statistics.leaders(apart) == statistics.Leaders(frozenset(), False)

    def test_relative_improvement_is_paired(self) -> None:
        change = statistics.improvements({0.1: column(**{"cl-pbnr": [1, 2], "cl-mcd": [2, 3]})})
        assert list(change[0.1]) == ["cl-mcd"]
        assert change[0.1]["cl-mcd"].by_seed == {0: 1.0, 1: 0.5}
        assert change[0.1]["cl-mcd"].mean == 0.75

    def test_data_sets_that_lack_a_stage_take_no_part(self) -> None:
        results = made(stage1=stage1_frame(("a", "b", "c")), stage2=stage2_frame(("a",)))
        found = statistics.sensitivity(results)
        assert list(found.initial.points) == ["a"]
        assert found.initial.correlation is None
        assert list(found.within) == ["a"]
        assert set(found.final.points) == {"cl-pbnr", "cl-mcd", "cl-mcd-e", "alg-ens-3"}

    def test_f1_beside_final_accuracy_is_of_the_same_rates_and_seeds(self) -> None:
        results = made(stage2=stage2_frame(seeds={0.1: (1, 2), 0.2: (0,)}))
        frame = results.stage1.set_index(["rate", "seed", "method"])["f1"]
        found = statistics.sensitivity(results)
        for points in (found.final.points, found.within["mnist"].points):
            for method, (f1, _) in points.items():
                at_01 = np.mean([frame[0.1, seed, method] for seed in (1, 2)])
                assert f1 == pytest.approx((at_01 + frame[0.2, 0, method]) / 2)
        assert found.mean_f1["mnist"][0.2].n == 3  # the first analysis keeps all

    def test_a_data_set_without_the_papers_methods_does_not_narrow_the_comparison(self) -> None:
        few = stage1_frame(("c",), methods=["cl-pbnr", "argmax"])
        found = statistics.sensitivity(made(stage1=pd.concat([stage1_frame(("a", "b")), few])))
        assert found.methods == ("cl-pbnr", "cl-mcd", "cl-mcd-e", "alg-ens-3")
        assert list(found.mean_f1) == ["a", "b"]


class TestShown:
    @pytest.mark.parametrize(
        ("value", "decimals", "text"),
        [
            (25.45, 1, "25.5"),
            (152.7 / 6, 1, "25.5"),
            (0.25, 1, "0.3"),
            (-0.25, 1, "\N{MINUS SIGN}0.3"),
            (-0.04, 1, "0.0"),
            (math.nan, 1, shown.DASH),
            (math.inf, 1, shown.DASH),
            (12345.5, 0, "12,346"),
            (np.float64(1.25), 1, "1.3"),
        ],
    )
    def test_halves_are_rounded_up(self, value: float, decimals: int, text: str) -> None:
        assert shown.fixed(value, decimals) == text

    def test_order_and_names(self) -> None:
        given = ["zeta", "alg-ens-3", "cl-mcd-e-given", "cl-mcd-e", "argmax", "cl-pbnr"]
        assert shown.in_order(given) == [
            *("cl-pbnr", "cl-mcd-e", "cl-mcd-e-given", "alg-ens-3", "argmax", "zeta"),
        ]
        assert shown.method_name("alg-ens-3") == "Alg-Ens (agreement 3)"
        assert shown.method_name("mine:best") == "mine:best"


class TestTables:
    def test_published_stage_1_comes_out_as_printed(self) -> None:
        table = tables.stage1_table(published_results().stage1, "", "")
        assert [head for head, _ in table.groups] == ["F1", "Precision", "Recall"]
        rows = [row for block in table.blocks for row in block.rows]
        known = printed("stage1")
        assert len(rows) == len(known) == 24
        for row, (_, line) in zip(rows, known.iterrows(), strict=True):
            texts = [cell.text for cell in row.cells]
            said = [str(text).removesuffix("*") for text in line.iloc[2:]]
            mean = texts.pop(3), said.pop(3)
            assert texts == said
            assert abs(float(mean[0]) - float(mean[1])) < 0.11  # averaged before rounding
        assert {cell.mark for row in rows for cell in row.cells} == {"", "top"}  # one seed

    def test_published_stage_2_comes_out_as_printed(self) -> None:
        table = tables.stage2_table(published_results())
        rows = [row for block in table.blocks for row in block.rows]
        for row, (_, line) in zip(rows, printed("stage2").iterrows(), strict=True):
            texts = [cell.text.replace(",", "") for cell in row.cells]
            said = [str(text).removesuffix("*") for text in line.iloc[2:]]
            assert texts[:3] == said[:3]
            if row.name != "Noisy labels":
                assert texts[4:] == said[4:]

    def test_cells_have_mean_spread_and_mark(self) -> None:
        frame = stage1_frame(methods=["cl-pbnr", "cl-mcd"], rates=(0.1,))
        frame["f1"] = frame["method"].map({"cl-pbnr": 0.5, "cl-mcd": 0.7}) + 0.01 * frame["seed"]
        (block,) = tables.stage1_table(frame, "", "").blocks
        assert block.note == "n = 3 seeds"
        assert [row.cells[0] for row in block.rows[:2]] == [
            tables.Cell("51.0 ± 1.0"),
            tables.Cell("71.0 ± 1.0", "best"),
        ]
        assert block.rows[0].name == "CL-PBNR (baseline)"
        accuracy = {row.name: row.cells[0].text for row in block.rows if row.kind == "fact"}
        assert accuracy == {
            "Model's accuracy, given labels": "70.0 ± 0.0",
            "Model's accuracy, true labels": "81.0 ± 1.0",
        }

    def test_the_number_of_seeds_is_told_where_it_differs(self) -> None:
        frame = stage1_frame()
        lost = (frame["rate"] == 0.2) & (frame["seed"] == 2) & (frame["method"] == "argmax")
        (block,) = tables.stage1_table(frame[~lost], "", "").blocks
        (row,) = [row for row in block.rows if row.name == "argmax"]
        assert [("n = 2" in cell.text) for cell in row.cells[:3]] == [False, True, False]
        table = tables.stage2_table(made())
        assert table.blocks[0].note == "n = 3 at 0.1, 1 at 0.2"
        assert table.blocks[1].title == "mnist, relabelled instead of removed"

    def test_stage_2_says_what_noise_cost_and_cleaning_gained(self) -> None:
        results = made()
        frame = results.stage2
        (lost,) = [
            row
            for row in tables.stage2_table(results).blocks[0].rows
            if row.name == "Clean minus noisy (points)"
        ]

        def accuracy(treatment: str, rate: float | None, method: str = "") -> pd.Series[float]:
            chosen = frame[(frame["treatment"] == treatment) & (frame["method"] == method)]
            chosen = chosen if rate is None else chosen[chosen["rate"] == rate]
            return chosen.set_index("seed")["accuracy"]

        known = accuracy("clean", None) - accuracy("noisy", 0.1)
        assert _number(lost.cells[0].text) == pytest.approx(100 * known.mean(), abs=0.051)
        gain = tables.stage2_gain_table(results).blocks[0].rows
        (row,) = [row for row in gain if row.name == "CL-MCD"]
        known = accuracy("remove", 0.1, "cl-mcd") - accuracy("noisy", 0.1)
        assert _number(row.cells[0].text) == pytest.approx(100 * known.mean(), abs=0.051)
        ratio = accuracy("remove", 0.1, "cl-mcd") / accuracy("remove", 0.1, "cl-pbnr") - 1
        assert _number(row.cells[3].text) == pytest.approx(100 * ratio.mean(), abs=0.051)

    def test_training_on_noisy_or_clean_labels_alone_is_shown(self) -> None:
        frame = stage2_frame()
        for treatment, name in (("noisy", "Noisy labels"), ("clean", "Clean labels")):
            results = made(stage2=frame[frame["treatment"] == treatment])
            table = tables.stage2_table(results)
            (block,) = table.blocks
            assert [row.name for row in block.rows] == [name]
            width = sum(len(names) for _, names in table.groups)
            assert {len(row.cells) for row in block.rows} == {width}

    def test_contamination_is_told_beside_the_results(self) -> None:
        results = made(about={"contaminated": {"mnist": "the network has seen it"}})
        blocks = [b for many in tables.all_tables(results).values() for t in many for b in t.blocks]
        assert len(blocks) == 2 + 2 + 2
        assert all(b.note.endswith("Contaminated: the network has seen it") for b in blocks)

    def test_markdown_and_latex_keep_their_columns(self) -> None:
        frame = stage1_frame(("a|b_{c}",), methods=["cl-pbnr", "my|meth_od%"])
        table = tables.stage1_table(frame, "T", "t")
        width = sum(len(names) for _, names in table.groups)
        lines = [line for line in markdown(table).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {width + 2}
        text = latex(table)
        body = [line for line in text.splitlines() if line.endswith(r"\\") and "multi" not in line]
        assert len(body) == 1 + len(table.blocks[0].rows)
        assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {width}
        assert r"my$|$meth\_od\%" in text
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")

    def test_long_latex_tables_go_on_to_another_page(self) -> None:
        names = tuple(f"set {i}" for i in range(7))
        about = {"contaminated": {"set 6": "seen before"}}
        many = tables.all_tables(made(stage1=stage1_frame(names), about=about))["stage1"][0]
        text = latex(many)
        assert text.count(r"\begin{table}") == text.count(r"\end{tabular}%") == 2
        assert text.count("Neither is a significance test") == 1
        assert text.count(", continued.}") == 1
        assert r"\label{tab:stage1}" in text
        assert r"\label{tab:stage1-2}" in text
        rows = sum(len(block.rows) for block in many.blocks)
        assert sum(line.endswith(r"\\") and "multi" not in line for line in text.split("\n")) == (
            rows + 2
        )
        # A warning has a line of its own, and none of these stretches a column.
        (warning,) = [line for line in text.splitlines() if "seen before" in line]
        assert "textbf" not in warning
        spanning = [line for line in text.splitlines() if line.startswith(r"\multicolumn")]
        assert len(spanning) == len(names) + 1
        assert all(r"\makebox[0pt]" in line for line in spanning)

    def test_csv_holds_means_and_spreads(self) -> None:
        frame = stage1_frame(("a", "b"))
        found = pd.read_csv(io.StringIO(tables.stage1_csv(frame)))
        known = frame.groupby(["dataset", "method", "rate"])[["f1", "aupr"]].agg(["mean", "std"])
        assert len(found) == len(known)
        for _, row in found.iterrows():
            line = known.loc[(row["dataset"], row["method"], row["rate"])]
            assert row["f1_mean"] == pytest.approx(line["f1", "mean"], rel=1e-5)
            assert row["aupr_sd"] == pytest.approx(line["aupr", "std"], rel=1e-5)
        second = pd.read_csv(io.StringIO(tables.stage2_csv(stage2_frame())))
        assert set(second["treatment"]) == {"clean", "noisy", "remove", "relabel"}
        assert second[second["treatment"] == "clean"]["rate"].isna().all()


class TestPublished:
    def test_every_number_of_the_tables_is_there(self) -> None:
        results = published_results()
        assert len(results.stage1) == 4 * 6 * 3
        assert len(results.stage2) == 4 * 7 * 3
        assert set(results.stage1["method"]) == set(PAPER_METHODS)
        row = results.stage1.set_index(["dataset", "method", "rate"]).loc[
            ("Tiny-ImageNet", "alg-ens-3", 0.05)
        ]
        assert row[["f1", "precision", "recall"]].tolist() == pytest.approx([0.29, 0.184, 0.679])
        assert (row["n"], row["wrong"], row["flagged"]) == (100_000, 5_000, 18_422)
        assert published.printed_matrix().classes[9] == "truck"

    def test_the_tables_agree_with_themselves(self) -> None:
        for check in consistency.table_checks():
            assert (check.held, check.exceptions) == (check.of, ()), check.what
            assert check.of > 15

    def test_a_wrong_digit_would_be_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def changed(table: str) -> pd.DataFrame:
            frame = printed(table).copy()
            if table == "stage1":
                frame.loc[3, "f1 0.1"] = "95.9"
            return frame

        monkeypatch.setattr(consistency, "printed", changed)
        failed = {check.what for check in consistency.table_checks() if check.exceptions}
        assert "F1 is the harmonic mean of the printed precision and recall" in failed
        assert "a Mean of stage 1 is the mean of its row" in failed

    def test_numbers_that_do_not_follow(self) -> None:
        verdicts = {
            (one.printed, one.computed)
            for one in arithmetic.printed_figures()
            if one.verdict == arithmetic.NOT
        }
        f1 = printed("stage1").set_index(["dataset", "method"])["f1 mean"].str.rstrip("*")
        best = float(f1["MNIST"].astype(float).max()) - float(f1["MNIST", "cl-pbnr"])
        assert ("2.1", f"{best:.1f}") in verdicts
        assert ("45,000", "38,500") in verdicts
        assert {"9.3", "2.8", "0.9", "25,000"} <= {said for said, _ in verdicts}

    def test_a_number_that_rounding_explains_is_not_called_wrong(self) -> None:
        found = [
            arithmetic._points(
                "", "", said, arithmetic._gap({"a": 0.5, "cl-pbnr": 0.4}, "a")
            ).verdict
            for said in (10.0, 10.1, 10.2)
        ]
        assert found == [arithmetic.FOLLOWS, arithmetic.ROUNDING, arithmetic.NOT]


class TestClaims:
    def test_counts_on_the_printed_tables(self) -> None:
        view = claims.view_of(published_results(), published_means())
        found = {one.counted: tally for one, tally in claims.tallies(view)}
        frame = published_results().stage1.set_index(["dataset", "rate", "method"])
        wide = {m: frame[m].unstack("method") for m in ("f1", "precision", "recall", "flagged")}
        above = {m: wide[m].gt(wide[m]["cl-pbnr"], axis=0).drop(columns="cl-pbnr") for m in wide}
        tally = found["F1 above CL-PBNR's, per data set, rate and algorithm"]
        assert (tally.held, tally.of) == (above["f1"].to_numpy().sum(), 60)
        tally = found["precision and recall both above CL-PBNR's, per data set, rate and algorithm"]
        assert tally.held == (above["precision"] & above["recall"]).to_numpy().sum()
        tally = found["fewer samples flagged than by CL-PBNR, per data set, rate and algorithm"]
        assert tally.exceptions == (
            "CIFAR-100 at 0.1, CL-MCD-Ens: 18,757 against 18,544",
            "CIFAR-100 at 0.2, CL-MCD-Ens: 24,560 against 23,942",
        )

    def test_an_exception_is_named(self) -> None:
        frame = stage1_frame(methods=["cl-pbnr", "cl-mcd"], seeds=(0,))
        frame["f1"] = frame["method"].map({"cl-pbnr": 0.5, "cl-mcd": 0.7})
        statement = claims.STATEMENTS[0]
        assert statement.tally(claims.view_of(made(stage1=frame))).holds
        frame.loc[(frame["method"] == "cl-mcd") & (frame["rate"] == 0.2), "f1"] = 0.5
        tally = statement.tally(claims.view_of(made(stage1=frame)))
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
            | {"precision": 0.5, "recall": 0.5, "flagged": 9}
            for rate, by_seed in gaps.items()
            for seed, gap in enumerate(by_seed)
            for method in ("cl-pbnr", "cl-mcd")
        ]
        view = claims.view_of(made(stage1=pd.DataFrame(rows), stage2=pd.DataFrame()))
        statement = claims.STATEMENTS[0]
        tally = statement.tally(view)
        assert (tally.clearly, tally.within, tally.against, tally.once) == counts
        assert statement.verdict(tally) == verdict

    def test_where_most_cases_decide(self) -> None:
        loose = replace(claims.STATEMENTS[0], every=False)
        for clearly, against, verdict in (
            (3, 1, claims.HOLDS),
            (2, 2, claims.OPEN),
            (1, 3, claims.FAILS),
            (0, 0, claims.OPEN),
        ):
            tally = claims.Tally(clearly, 4, (), clearly, against)
            assert loose.verdict(tally) == verdict

    def test_nothing_to_count_is_no_verdict(self) -> None:
        empty = made(stage1=pd.DataFrame(), stage2=pd.DataFrame())
        assert claims.tallies(claims.view_of(empty)) == []
        assert all(one.here is None for one in beside.judged(empty))

    def test_contaminated_results_beside_the_paper_are_called_so(self) -> None:
        names = ("MNIST", "CIFAR-10")
        about = {"contaminated": {"CIFAR-10": "the network has seen it"}}
        results = made(stage1=stage1_frame(names), stage2=stage2_frame(names), about=about)
        text = markdown(beside.beside_table(results))
        clean, contaminated = text.split("### CIFAR-10")
        assert "Contaminated: the network has seen it" in contaminated
        assert "Contaminated" not in clean

    def test_the_same_images_twice_are_told(self) -> None:
        assert beside.repeated(["MNIST", "CIFAR-10", "Tiny-ImageNet", "mine", "mine too"]) == ""
        said = beside.repeated(["CIFAR-10, pretrained", "MNIST", "CIFAR-10"])
        assert said.startswith("CIFAR-10, pretrained and CIFAR-10 are the same images")
        names = ("CIFAR-10", "CIFAR-10 again", "MNIST")
        results = made(stage1=stage1_frame(names), stage2=stage2_frame(names))
        assert "count as 2 data sets" in sensitivity_markdown(statistics.sensitivity(results))

    @pytest.mark.parametrize(
        ("name", "known"),
        [
            *[("mnist", "MNIST"), ("CIFAR10", "CIFAR-10"), ("cifar-100", "CIFAR-100")],
            *[("tiny-imagenet-20", "Tiny-ImageNet"), ("MNIST, 5,000 images", "MNIST")],
            *[("cifar10n-worst", None), ("fashion-mnist", None), ("mnists", None)],
        ],
    )
    def test_data_sets_of_the_paper_are_known(self, name: str, known: str | None) -> None:
        assert beside.paper_name(name) == known


class TestDrawing:
    @pytest.mark.parametrize("span", [0.002, 0.01, 0.04, 0.125, 0.6])
    def test_ticks_are_labelled_with_what_they_are(self, span: float) -> None:
        change = {0.1: {"cl-mcd": Sample(-span), "cl-mcd-e": Sample(span / 4)}}
        figure = drawing.relative_figure(change, "F1")
        figure.canvas.draw()
        (axes,) = figure.axes
        ticks = axes.get_xticks()
        labels = [_number(tick.get_text()) for tick in axes.get_xticklabels()]
        assert len(ticks) > 2
        assert labels == pytest.approx(list(ticks), abs=1e-9)


class TestWriting:
    def test_all_files_are_written_and_the_same_every_time(self, tmp_path: Path) -> None:
        results = made(pilot=stage1_frame(rates=(0.1,), seeds=(0,)))
        shuffled = {
            name: getattr(results, name).sample(frac=1, random_state=3)
            for name in ("pilot", "stage1", "stage2", "initial")
        }
        first = write_results(results, tmp_path / "a")
        second = write_results(replace(results, **shuffled), tmp_path / "b")
        names = [path.relative_to(tmp_path / "a") for path in first]
        assert names == [path.relative_to(tmp_path / "b") for path in second]
        for one, other in zip(first, second, strict=True):
            assert one.read_bytes() == other.read_bytes(), one.name
        known = {
            f"{s}.{end}" for s in ("stage1", "stage2", "pilot") for end in ("md", "tex", "csv")
        }
        known |= {"sensitivity.md", "claims.md", "beside-paper.md", "results.html"}
        assert known <= {str(name) for name in names}
        figures = {name.stem for name in names if name.parent.name == "figures"}
        assert {"stage1-relative-mnist", "stage1-plane-mnist", "stage2-relative-mnist"} <= figures
        assert {"sensitivity-rates", "sensitivity-final", "transition-mnist-0.1"} <= figures
        there = {path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*")}
        assert there == set(names)

    @pytest.mark.parametrize(
        "changes",
        [
            {"stage1": pd.DataFrame(), "stage2": pd.DataFrame(), "initial": pd.DataFrame()}
            | {"matrices": {}, "about": {}},
            {"stage2": pd.DataFrame(), "initial": pd.DataFrame()},
            {"stage1": pd.DataFrame()},
            {"stage1": stage1_frame(methods=["argmax"], seeds=(4,), rates=(0.1,))},
            {"stage1": stage1_frame().assign(rate=math.nan).drop_duplicates(["seed", "method"])},
            {"stage1": stage1_frame().assign(f1=math.nan, aupr=math.nan)},
            {"stage1": stage1_frame().assign(f1=0.0, precision=0.0, recall=0.0)},
            {"stage2": stage2_frame().query("treatment == 'clean'")},
            {"stage2": stage2_frame().query("treatment == 'noisy' and seed == 0")},
            {"stage2": stage2_frame().query("treatment == 'relabel'")},
            {"stage2": stage2_frame().query("treatment == 'remove' and method == 'cl-mcd'")},
            {"stage2": stage2_frame().drop(index=range(0, 40, 3))},
        ],
        ids="+".join,
    )
    def test_a_benchmark_that_is_still_running(
        self, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writing, "drawn", _without_png)
        write_results(made(**changes), tmp_path)
        for path in [*tmp_path.glob("*.md"), tmp_path / "results.html"]:
            text = re.sub(r"base64,[^\"]*", "", path.read_text(encoding="utf-8"))
            assert not re.search(r"\bnan\b", text, re.IGNORECASE), path.name

    def test_the_page_stands_alone_and_escapes_names(self, tmp_path: Path) -> None:
        frame = stage1_frame(("<b>set</b>",), methods=["cl-pbnr", "<script>x</script>", "$a_b"])
        write_results(made(stage1=frame, name="<i>"), tmp_path)
        text = (tmp_path / "results.html").read_text(encoding="utf-8")
        reader = Reader()
        reader.feed(text)
        assert reader.open == []
        assert reader.outside == []
        assert not {"script", "b", "i", "link", "iframe"} & reader.seen
        assert "&lt;script&gt;x&lt;/script&gt;" in text
        assert len(reader.ids) == len(set(reader.ids))

    def test_names_in_the_analyses_are_no_markup(self) -> None:
        names = ("a|b", "*c*")
        results = made(stage1=stage1_frame(names), stage2=stage2_frame(names))
        text = sensitivity_markdown(statistics.sensitivity(results))
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4, 7}
        assert r"a\|b" in text
        assert r"within \*c\*" in text

    def test_published_results_take_the_same_way(self) -> None:
        analyses = statistics.sensitivity(published_results(), published_means())
        text = sensitivity_markdown(analyses)
        assert "| 4 | 0.98 | 6.37 | 0.024 |" in text
        assert "| 6 | 0.98 | 10.03 | 0.00056 |" in text
        assert "| CIFAR-100 | 28.9 | 43.1 | 56.7 |" in text


class Reader(HTMLParser):
    """Which elements a page has, which stay open, and what it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.outside: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br", "img", "!doctype"):
            self.open.append(tag)
        self._look(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self._look(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _look(self, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("src", "href", "xlink:href") and not str(value).startswith(("#", "data:")):
                self.outside.append(str(value))
            if key == "id":
                self.ids.append(str(value))


def _without_png(figure: Figure) -> Drawn:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return Drawn(b"", text.getvalue())


def _number(text: str) -> float:
    return float(text.split(" ")[0].replace("\N{MINUS SIGN}", "-"))
