"""The paper's statistics recomputed from its own printed tables, and its claims checked.

    python benchmarks/paper_check.py            writes results/paper-check.md beside this file

Nothing is measured: the input is `benchmarks/paper/tables/*.csv`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from paper.arithmetic import FOLLOWS, NOT, ROUNDING, Figure
from paper.claims import CaseTally, Statement, build_view
from paper.consistency import TableCheck, check_tables
from paper.printed_numbers import list_printed_numbers
from paper.printed_tables import SOURCE, read_paper_means, read_paper_results
from paper.statements import count_statements
from uqled.bench.results.result_files import format_sensitivity
from uqled.bench.results.statistics import analyse_sensitivity
from uqled.storage.atomic import replace_file


def build_paper_check() -> str:
    """The whole file."""
    results, averages = read_paper_results(), read_paper_means()
    figures, checks = list_printed_numbers(), check_tables()
    tallies = count_statements(build_view(results, averages))
    failures = [figure for figure in figures if figure.verdict == NOT]
    broken_statements = [(one, tally) for one, tally in tallies if one.every and not tally.holds]
    rounding = [figure for figure in figures if figure.verdict == ROUNDING]
    parts = [
        "# The paper against its own tables",
        f"{SOURCE}. Made by `benchmarks/paper_check.py` from the numbers that the paper prints; "
        "nothing here is a measurement of ours.",
        f"Of {len(figures)} printed numbers, {_count_verdicts(figures, FOLLOWS)} follow from the "
        f"stage tables, {len(rounding)} agree within rounding, {len(failures)} do not follow. Of "
        f"{sum(one.every for one, _ in tallies)} statements about every case, "
        f"{len(broken_statements)} have exceptions. Of "
        f"{sum(one.of for one in checks)} checks of the tables with themselves, "
        f"{sum(one.held for one in checks)} hold.",
        "## Numbers that do not follow",
        _format_figures(failures),
        "## Statements with exceptions",
        _format_statements(broken_statements),
        "## Statements about every case without exception",
        _format_statements([(one, tally) for one, tally in tallies if one.every and tally.holds]),
        "## Statements that are not about every case, counted",
        _format_statements([(one, tally) for one, tally in tallies if not one.every]),
        format_sensitivity(analyse_sensitivity(results, averages), results.about).strip(),
        "From the printed Mean columns of the two stage tables, without further rounding.",
        "## Numbers that agree within rounding",
        _format_figures(rounding),
        "## Numbers that follow",
        _format_figures([figure for figure in figures if figure.verdict == FOLLOWS]),
        "## The tables with themselves",
        _format_checks(checks),
    ]
    return "\n\n".join(parts) + "\n"


def _count_verdicts(figures: list[Figure], verdict: str) -> int:
    return sum(figure.verdict == verdict for figure in figures)


def _format_figures(figures: list[Figure]) -> str:
    rows = [(one.quote, one.place, one.printed, one.computed, one.note) for one in figures]
    return _format_table(("the paper", "where", "printed", "computed", ""), rows)


def _format_statements(statements: list[tuple[Statement, CaseTally]]) -> str:
    rows = [
        (
            f'"{one.quote}"',
            one.place,
            one.counted,
            f"{tally.held} of {tally.of}",
            _format_some(tally),
        )
        for one, tally in statements
    ]
    return _format_table(("the paper", "where", "counted", "holds in", "exceptions"), rows)


def _format_some(tally: CaseTally, most: int = 8) -> str:
    more = len(tally.exceptions) - most
    return "; ".join(tally.exceptions[:most]) + (f"; and {more} more" if more > 0 else "")


def _format_checks(checks: list[TableCheck]) -> str:
    rows = [(one.what, f"{one.held} of {one.of}", "; ".join(one.exceptions)) for one in checks]
    return _format_table(("what", "holds in", "exceptions"), rows)


def _format_table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    path = Path(__file__).parent / "results" / "paper-check.md"
    parser.add_argument("--out", type=Path, default=path)
    out = parser.parse_args().out
    with replace_file(out) as part:
        part.write_text(build_paper_check(), encoding="utf-8", newline="\n")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
