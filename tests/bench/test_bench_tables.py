"""How numbers are written, and the stage tables."""

from __future__ import annotations

import io
import math
import re

import numpy as np
import pandas as pd
import pytest

from bench_frames import build_results, number_of, stage1_frame, stage2_frame
from uqled.bench.results import collection, formatting, tables
from uqled.bench.results.table_formats import format_latex, format_markdown


class TestShown:
    @pytest.mark.parametrize(
        ("value", "decimals", "text"),
        [
            (25.45, 1, "25.5"),
            (152.7 / 6, 1, "25.5"),
            (0.25, 1, "0.3"),
            (-0.25, 1, "\N{MINUS SIGN}0.3"),
            (-0.04, 1, "0.0"),
            (math.nan, 1, formatting.DASH),
            (math.inf, 1, formatting.DASH),
            (12345.5, 0, "12,346"),
            (np.float64(1.25), 1, "1.3"),
        ],
    )
    def test_halves_are_rounded_up(self, value: float, decimals: int, text: str) -> None:
        assert formatting.format_number(value, decimals) == text

    def test_order_and_names(self) -> None:
        names = ["zeta", "alg-ens-3", "cl-mcd-e-given", "cl-mcd-e", "argmax", "cl-pbnr"]
        assert formatting.sort_methods(names) == [
            *("cl-pbnr", "cl-mcd-e", "cl-mcd-e-given", "alg-ens-3", "argmax", "zeta"),
        ]
        assert formatting.format_method("alg-ens-3") == "Alg-Ens (agreement 3)"
        assert formatting.format_method("mine:best") == "mine:best"


class TestTables:
    def test_cells_have_mean_spread_and_mark(self) -> None:
        frame = stage1_frame(methods=["cl-pbnr", "cl-mcd"], rates=(0.1,))
        frame["f1"] = frame["method"].map({"cl-pbnr": 0.5, "cl-mcd": 0.7}) + 0.01 * frame["seed"]
        (block,) = tables.build_stage1_table(frame, "", "").blocks
        assert block.note == "n = 3 seeds"
        assert [row.cells[0] for row in block.rows[:2]] == [
            tables.TableCell("51.0 ± 1.0"),
            tables.TableCell("71.0 ± 1.0", "best"),
        ]
        assert block.rows[0].name == "CL-PBNR (baseline)"
        accuracy = {row.name: row.cells[0].text for row in block.rows if row.kind == "fact"}
        assert accuracy == {
            "Model's accuracy, given labels": "70.0 ± 0.0",
            "Model's accuracy, true labels": "81.0 ± 1.0",
        }

    def test_the_mean_of_the_passes_stands_beside_the_softmax(self) -> None:
        frame = stage1_frame(methods=["cl-pbnr", "cl-mcd"], rates=(0.1,))
        frame["passes_given_accuracy"] = frame["passes_true_accuracy"] = math.nan
        frame.loc[frame["seed"] < 2, "passes_true_accuracy"] = 0.9  # an older cell does not tell
        (block,) = tables.build_stage1_table(frame, "", "").blocks
        facts = [(row.name, row.cells[0].text) for row in block.rows if row.kind == "fact"]
        assert facts == [
            ("Model's accuracy, given labels", "70.0 ± 0.0"),
            ("Model's accuracy, true labels", "81.0 ± 1.0"),
            ("Mean of its passes, true labels", "90.0 ± 0.0 (n = 2)"),
        ]
        heads = tables.format_stage1_csv(frame).splitlines()[0].split(",")
        assert "passes_true_accuracy_mean" in heads
        assert "passes_given_accuracy_mean" not in heads

    def test_sources_that_differ_by_more_than_noise_are_named(self) -> None:
        frame = stage1_frame(
            names=("mnist", "cifar"), rates=(0.05, 0.1), methods=["cl-pbnr", "auto"]
        )
        frame["passes_given_accuracy"] = 0.9
        frame["passes_differ"] = (frame["dataset"] == "cifar") & (frame["rate"] == 0.1)
        assert collection._list_differing(frame) == [
            "cifar, noise rate 0.1: the softmax predicts 70.0% as labelled, the mean of the "
            "passes 90.0%"
        ]
        frame["passes_differ"] = math.nan
        assert collection._list_differing(frame) == []

    def test_the_number_of_seeds_is_told_where_it_differs(self) -> None:
        frame = stage1_frame()
        is_lost = (frame["rate"] == 0.2) & (frame["seed"] == 2) & (frame["method"] == "argmax")
        (block,) = tables.build_stage1_table(frame[~is_lost], "", "").blocks
        (row,) = [row for row in block.rows if row.name == "argmax"]
        assert [("n = 2" in cell.text) for cell in row.cells[:3]] == [False, True, False]
        table = tables.build_stage2_table(build_results())
        assert table.blocks[0].note == "n = 3 at 0.1, 1 at 0.2"
        assert table.blocks[1].title == "mnist, relabelled instead of removed"

    def test_stage_2_says_what_noise_cost_and_cleaning_gained(self) -> None:
        results = build_results()
        frame = results.stage2
        (lost,) = [
            row
            for row in tables.build_stage2_table(results).blocks[0].rows
            if row.name == "Clean minus noisy (points)"
        ]

        def accuracy(treatment: str, rate: float | None, method: str = "") -> pd.Series[float]:
            rows = frame[(frame["treatment"] == treatment) & (frame["method"] == method)]
            rows = rows if rate is None else rows[rows["rate"] == rate]
            return rows.set_index("seed")["accuracy"]

        reference = accuracy("clean", None) - accuracy("noisy", 0.1)
        assert number_of(lost.cells[0].text) == pytest.approx(100 * reference.mean(), abs=0.051)
        gain = tables.build_gain_table(results).blocks[0].rows
        (row,) = [row for row in gain if row.name == "CL-MCD"]
        reference = accuracy("remove", 0.1, "cl-mcd") - accuracy("noisy", 0.1)
        assert number_of(row.cells[0].text) == pytest.approx(100 * reference.mean(), abs=0.051)
        ratio = accuracy("remove", 0.1, "cl-mcd") / accuracy("remove", 0.1, "cl-pbnr") - 1
        assert number_of(row.cells[3].text) == pytest.approx(100 * ratio.mean(), abs=0.051)

    def test_training_on_noisy_or_clean_labels_alone_is_shown(self) -> None:
        frame = stage2_frame()
        for treatment, name in (("noisy", "Noisy labels"), ("clean", "Clean labels")):
            results = build_results(stage2=frame[frame["treatment"] == treatment])
            table = tables.build_stage2_table(results)
            (block,) = table.blocks
            assert [row.name for row in block.rows] == [name]
            width = sum(len(names) for _, names in table.groups)
            assert {len(row.cells) for row in block.rows} == {width}

    def test_contamination_is_told_beside_the_results(self) -> None:
        results = build_results(about={"contaminated": {"mnist": "the network has seen it"}})
        blocks = [
            b
            for tables_of_set in tables.build_tables(results).values()
            for t in tables_of_set
            for b in t.blocks
        ]
        assert len(blocks) == 2 + 2 + 2
        assert all(b.note.endswith("Contaminated: the network has seen it") for b in blocks)

    def test_markdown_and_latex_keep_their_columns(self) -> None:
        frame = stage1_frame(("a|b_{c}",), methods=["cl-pbnr", "my|meth_od%"])
        table = tables.build_stage1_table(frame, "T", "t")
        width = sum(len(names) for _, names in table.groups)
        lines = [line for line in format_markdown(table).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {width + 2}
        text = format_latex(table)
        body = [line for line in text.splitlines() if line.endswith(r"\\") and "multi" not in line]
        assert len(body) == 1 + len(table.blocks[0].rows)
        assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {width}
        assert r"my$|$meth\_od\%" in text
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")

    def test_long_latex_tables_go_on_to_another_page(self) -> None:
        names = tuple(f"set {i}" for i in range(7))
        about = {"contaminated": {"set 6": "seen before"}}
        stage1_tables = tables.build_tables(build_results(stage1=stage1_frame(names), about=about))[
            "stage1"
        ][0]
        text = format_latex(stage1_tables)
        assert text.count(r"\begin{table}") == text.count(r"\end{tabular}%") == 2
        assert text.count("Neither is a significance test") == 1
        assert text.count(", continued.}") == 1
        assert r"\label{tab:stage1}" in text
        assert r"\label{tab:stage1-2}" in text
        rows = sum(len(block.rows) for block in stage1_tables.blocks)
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
        result = pd.read_csv(io.StringIO(tables.format_stage1_csv(frame)))
        reference = frame.groupby(["dataset", "method", "rate"])[["f1", "aupr"]].agg(
            ["mean", "std"]
        )
        assert len(result) == len(reference)
        for _, row in result.iterrows():
            line = reference.loc[(row["dataset"], row["method"], row["rate"])]
            assert row["f1_mean"] == pytest.approx(line["f1", "mean"], rel=1e-5)
            assert row["aupr_sd"] == pytest.approx(line["aupr", "std"], rel=1e-5)
        second = pd.read_csv(io.StringIO(tables.format_stage2_csv(stage2_frame())))
        assert set(second["treatment"]) == {"clean", "noisy", "remove", "relabel"}
        assert second[second["treatment"] == "clean"]["rate"].isna().all()
