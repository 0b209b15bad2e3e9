"""The paper's printed tables: complete, consistent, and the source of its statistics."""

from __future__ import annotations

import pandas as pd
import pytest

from paper import arithmetic, consistency, printed_numbers, printed_tables
from paper.printed_tables import read_paper_means, read_paper_results, read_printed_table
from uqled.bench.results import formatting, statistics, tables
from uqled.bench.results.result_files import format_sensitivity
from uqled.bench.suite import PAPER_METHODS


class TestPublished:
    def test_every_number_of_the_tables_is_there(self) -> None:
        results = read_paper_results()
        assert len(results.stage1) == 4 * 6 * 3
        assert len(results.stage2) == 4 * 7 * 3
        assert set(results.stage1["method"]) == set(PAPER_METHODS)
        row = results.stage1.set_index(["dataset", "method", "rate"]).loc[
            ("Tiny-ImageNet", "alg-ens-3", 0.05)
        ]
        assert row[["f1", "precision", "recall"]].tolist() == pytest.approx([0.29, 0.184, 0.679])
        assert (row["n"], row["wrong"], row["flagged"]) == (100_000, 5_000, 18_422)
        assert printed_tables.read_paper_matrix().classes[9] == "truck"

    def test_the_tables_agree_with_themselves(self) -> None:
        for check in consistency.check_tables():
            assert (check.held, check.exceptions) == (check.of, ()), check.what
            assert check.of > 15

    def test_a_wrong_digit_would_be_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def read_changed_tables(table: str) -> pd.DataFrame:
            frame = read_printed_table(table).copy()
            if table == "stage1":
                frame.loc[3, "f1 0.1"] = "95.9"
            return frame

        monkeypatch.setattr(consistency, "read_printed_table", read_changed_tables)
        failures = {check.what for check in consistency.check_tables() if check.exceptions}
        assert "F1 is the harmonic mean of the printed precision and recall" in failures
        assert "a Mean of stage 1 is the mean of its row" in failures

    def test_numbers_that_do_not_follow(self) -> None:
        verdicts = {
            (one.printed, one.computed)
            for one in printed_numbers.list_printed_numbers()
            if one.verdict == arithmetic.NOT
        }
        f1 = (
            read_printed_table("stage1").set_index(["dataset", "method"])["f1 mean"].str.rstrip("*")
        )
        best = float(f1["MNIST"].astype(float).max()) - float(f1["MNIST", "cl-pbnr"])
        assert ("2.1", f"{best:.1f}") in verdicts
        assert ("45,000", "38,500") in verdicts
        assert {"9.3", "2.8", "0.9", "25,000"} <= {number for number, _ in verdicts}

    def test_a_number_that_rounding_explains_is_not_called_wrong(self) -> None:
        analysis = [
            arithmetic.check_points(
                "", "", accuracy, arithmetic.compute_gain({"a": 0.5, "cl-pbnr": 0.4}, "a")
            ).verdict
            for accuracy in (10.0, 10.1, 10.2)
        ]
        assert analysis == [arithmetic.FOLLOWS, arithmetic.ROUNDING, arithmetic.NOT]

    def test_the_papers_correlations_follow_from_its_printed_means(self) -> None:
        analysis = statistics.analyse_sensitivity(read_paper_results(), read_paper_means())
        initial, final = analysis.initial.correlation, analysis.final.correlation
        assert initial is not None
        assert final is not None
        values = [formatting.format_number(value, 2) for value in (initial.r, initial.t, initial.p)]
        assert values == ["0.98", "6.37", "0.02"]
        values = [
            formatting.format_number(final.r, 2),
            formatting.format_number(final.t, 2),
            formatting.format_number(final.p, 3),
        ]
        assert values == ["0.98", "10.03", "0.001"]
        assert (initial.n, final.n) == (4, 6)

    def test_the_papers_mean_f1_table(self) -> None:
        analysis = statistics.analyse_sensitivity(read_paper_results(), read_paper_means()).mean_f1
        table = read_printed_table("sensitivity")
        rows = table[table["quantity"] == "mean f1 per rate"]
        assert len(rows) == 12
        for _, row in rows.iterrows():
            assert (
                formatting.format_percent(analysis[row["of"]][float(row["rate"])].mean)
                == row["printed"]
            )

    def test_published_stage_1_comes_out_as_printed(self) -> None:
        table = tables.build_stage1_table(read_paper_results().stage1, "", "")
        assert [head for head, _ in table.groups] == ["F1", "Precision", "Recall"]
        rows = [row for block in table.blocks for row in block.rows]
        printed_table = read_printed_table("stage1")
        assert len(rows) == len(printed_table) == 24
        for row, (_, line) in zip(rows, printed_table.iterrows(), strict=True):
            texts = [cell.text for cell in row.cells]
            numbers = [str(text).removesuffix("*") for text in line.iloc[2:]]
            mean = texts.pop(3), numbers.pop(3)
            assert texts == numbers
            assert abs(float(mean[0]) - float(mean[1])) < 0.11  # averaged before rounding
        assert {cell.mark for row in rows for cell in row.cells} == {"", "top"}  # one seed

    def test_published_stage_2_comes_out_as_printed(self) -> None:
        table = tables.build_stage2_table(read_paper_results())
        rows = [row for block in table.blocks for row in block.rows]
        for row, (_, line) in zip(rows, read_printed_table("stage2").iterrows(), strict=True):
            texts = [cell.text.replace(",", "") for cell in row.cells]
            numbers = [str(text).removesuffix("*") for text in line.iloc[2:]]
            assert texts[:3] == numbers[:3]
            if row.name != "Noisy labels":
                assert texts[4:] == numbers[4:]

    def test_published_results_take_the_same_way(self) -> None:
        analyses = statistics.analyse_sensitivity(read_paper_results(), read_paper_means())
        text = format_sensitivity(analyses, {})
        assert "| 4 | 0.98 | 6.37 | 0.024 |" in text
        assert "| 6 | 0.98 | 10.03 | 0.00056 |" in text
        assert "| CIFAR-100 | 28.9 | 43.1 | 56.7 |" in text
