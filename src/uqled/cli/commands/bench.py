"""`uqled bench`: methods compared where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.choices import Choices
from uqled.cli.console import CommandOutput
from uqled.cli.options import EngineName, OutputOptions, RayAddress


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE", help="The suite: smoke, laptop, paper, or a .toml file of your own."
        ),
    ],
    output: OutputOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the cells, the tables and the page to this folder. If an interrupted "
            "benchmark is there, it continues. Default: runs/bench-SUITE.",
        ),
    ] = None,
    data: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Read the data sets of the suite from this folder."),
    ] = Path(),
    plan: Annotated[
        bool, typer.Option("--plan", help="Print how long the benchmark would take, and stop.")
    ] = False,
    pilot: Annotated[
        bool,
        typer.Option(
            "--pilot", help="Run only the pilot, which compares the methods on noisy test labels."
        ),
    ] = False,
    keep_all_methods: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also take methods to stage 2 that were no better than the baseline in the pilot. "
            "Default: leave them out.",
        ),
    ] = False,
    only: Annotated[
        str,
        typer.Option(
            metavar="PATTERN",
            help="Compute only the cells whose names match this pattern, such as 'mnist/*'.",
        ),
    ] = "*",
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Copy the finished cells of this folder first. May be repeated.",
        ),
    ] = None,
    tables_only: Annotated[
        bool,
        typer.Option(
            "--tables-only",
            help="Write the tables of the finished cells, and compute nothing.",
        ),
    ] = False,
    allow_code: Annotated[
        bool,
        typer.Option(
            "--allow-code",
            help="Let a suite of your own name functions to run, as module:function.",
        ),
    ] = False,
    device: Annotated[
        str,
        Choices("auto", "cpu", "cuda", "mps"),
        typer.Option(help="Train networks on this device, unless the suite names one."),
    ] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Compute N cells at a time. Default: one per core, or --jobs-per-gpu for each "
            "GPU.",
        ),
    ] = None,
    jobs_per_gpu: Annotated[
        int, typer.Option(metavar="N", help="Compute N cells at a time on each GPU.")
    ] = 1,
    engine: EngineName = None,
    ray_address: RayAddress = None,
) -> CommandOutput:
    """Compare detection methods where the truth is known.

    This is the two-stage benchmark of the UQ-LED paper: labels are made wrong on purpose, each
    method flags them, and networks are trained on what is left.

    Examples:
        uqled bench smoke
        uqled bench laptop --data data/ --out runs/laptop --plan
        uqled bench my-suite.toml --data data/ --only 'mnist/*'
    """
    with output.stage("loading what the benchmark needs", says_end=False):
        from uqled.bench.cells import Cells
        from uqled.bench.cost_estimate import estimate_benchmark_cost
        from uqled.bench.runner import Benchmark, run_benchmark, write_tables
        from uqled.bench.suite import read_suite
        from uqled.bench.workers import Workers

    out = out or Path("runs") / f"bench-{Path(suite).stem}"
    benchmark = Benchmark(
        read_suite(suite, allow_code=allow_code), data, out, only, keep_all_methods, device
    )
    workers = Workers(jobs, jobs_per_gpu, engine, ray_address)
    for folder in merge or []:
        output.tell(f"{Cells(out).merge(folder)} cells copied from {folder}")
    if plan:
        text = estimate_benchmark_cost(benchmark, pilot=pilot, workers=workers).text()
        return CommandOutput(text, {"plan": text})
    if tables_only:
        _, paths = write_tables(benchmark)
    else:
        _, paths = run_benchmark(
            benchmark, pilot=pilot, workers=workers, progress=output.progress, tell=output.tell
        )
    names = ", ".join(str(path.relative_to(out)) for path in paths)
    files = {str(path.relative_to(out)): str(path) for path in paths}
    return CommandOutput(f"In {out}: {names}", {"files": files})
