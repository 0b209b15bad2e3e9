"""`uqled bench`: methods compared where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import OutputOptions


def bench(
    suite: Annotated[str, typer.Argument(help="smoke, laptop, paper, or a .toml file.")],
    out: Annotated[Path, typer.Option(help="The cells, tables and page; a killed one continues.")],
    output: OutputOptions,
    data: Annotated[Path, typer.Option(help="Folder of the suite's data sets.")] = Path(),
    plan: Annotated[bool, typer.Option("--plan", help="Say what it would cost, and stop.")] = False,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Only the pilot on the test sets.")
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--all", help="Keep methods that lost the pilot to the baseline.")
    ] = False,
    only: Annotated[str, typer.Option(help="Cells to compute here, such as 'mnist/*'.")] = "*",
    merge: Annotated[
        list[Path] | None, typer.Option(help="Take over the cells finished in this folder.")
    ] = None,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Tables of the cells there are; needs no data.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.")] = None,
) -> CommandOutput:
    """Compare methods where the truth is known: the paper's two-stage benchmark."""
    from uqled.bench.cells import Cells
    from uqled.bench.planning import plan as planned
    from uqled.bench.running import Benchmark, run_benchmark, write_tables
    from uqled.bench.suite import read_suite

    benchmark = Benchmark(read_suite(suite), data, out, only, everyone)
    for folder in merge or []:
        output.tell(f"{Cells(out).merge(folder)} cells taken over from {folder}")
    if plan:
        return CommandOutput(planned(benchmark, pilot=pilot, jobs=jobs).text())
    if tables_only:
        _, written = write_tables(benchmark)
    else:
        _, written = run_benchmark(benchmark, pilot=pilot, jobs=jobs, progress=output.progress)
    names = ", ".join(str(path.relative_to(out)) for path in written)
    return CommandOutput(f"In {out}: {names}")
