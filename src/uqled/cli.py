"""The command line: every command opens, calls and prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from uqled import run
from uqled.errors import UqledError

app = typer.Typer(
    help="Find wrong labels in classification data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Threads = Annotated[int | None, typer.Option(help="Default: one per core. Same result for any.")]


@app.callback()
def main() -> None:
    """Find wrong labels in classification data."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except UqledError as error:
        typer.secho(f"error: {error}.", fg="red", err=True)
        raise typer.Exit(2) from None


@app.command()
def noise(
    labels: Annotated[str, typer.Option(help="Clean labels: .npy, .npz, .csv, .parquet, .zarr.")],
    out: Annotated[Path, typer.Option(help="Folder for labels, truth, matrices and picture.")],
    kind: Annotated[
        str,
        typer.Option(help="similarity, symmetric, pair, sparse, confusion, matrix or instance."),
    ] = "similarity",
    rate: Annotated[float | None, typer.Option(help="Share of wrong labels.")] = None,
    zeros: Annotated[float | None, typer.Option(help="Of sparse: impossible flips.")] = None,
    pred_probs: Annotated[str | None, typer.Option(help="Probabilities [N,K].")] = None,
    model_labels: Annotated[
        str | None, typer.Option(help="True labels of pred-probs, if of other samples.")
    ] = None,
    matrix: Annotated[Path | None, typer.Option(help="Of matrix: .csv or .json.")] = None,
    classes: Annotated[str | None, typer.Option(help="In order: cat,dog,ship.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same labels.")] = 0,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier run.")] = False,
) -> None:
    """Make labels wrong, and keep the truth.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table.
    """
    from uqled.data.files import open_labels, open_probabilities
    from uqled.noise.kinds import noise_of_kind
    from uqled.noise.transition import TransitionMatrix
    from uqled.report.noise import check_noise_folder, noise_summary, write_noise

    with _refusing():
        check_noise_folder(out, overwrite=overwrite)
        noisy = noise_of_kind(
            kind,
            open_labels(labels),
            rate=rate,
            zeros=zeros,
            pred_probs=None if pred_probs is None else open_probabilities(pred_probs, ndim=2),
            model_labels=None if model_labels is None else open_labels(model_labels),
            matrix=None if matrix is None else TransitionMatrix.load(matrix),
            classes=None if classes is None else classes.split(","),
            seed=seed,
        )
        written = write_noise(noisy, out, labels_file=labels, overwrite=overwrite)
    typer.echo(noise_summary(noisy))
    typer.echo(f"\nIn {out}: {', '.join(path.name for path in written)}")


@app.command()
def detect(
    labels: Annotated[str, typer.Option(help="Given labels: .npy, .npz, .csv, .parquet, .zarr.")],
    pred_probs: Annotated[str | None, typer.Option(help="Probabilities [N,K].")] = None,
    passes: Annotated[str | None, typer.Option(help="Stochastic passes [F,N,K].")] = None,
    method: Annotated[str, typer.Option(help="alg-ens, cl-mcd, cl-pbnr, ... or all.")] = "all",
    agreement: Annotated[int | None, typer.Option(help="Of alg-ens: how many of four.")] = None,
    entropy_class: Annotated[str, typer.Option(help="Of cl-mcd-e: candidate, given.")] = (
        "candidate"
    ),
    min_examples_per_class: Annotated[int, typer.Option(help="So many stay unflagged.")] = 1,
    frac_noise: Annotated[float, typer.Option(help="Flag this part of each count.")] = 1.0,
    threads: Threads = None,
    out: Annotated[Path | None, typer.Option(help="Table: .csv, .parquet or .json.")] = None,
) -> None:
    """Flag wrong labels, given probabilities.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table.
    """
    from uqled.data.files import open_labels, open_probabilities
    from uqled.detect.find import find_label_errors
    from uqled.detect.summary import summary

    with _refusing():
        if out is not None:
            run.check_issues_path(out)
        errors = find_label_errors(
            open_labels(labels),
            None if pred_probs is None else open_probabilities(pred_probs, ndim=2),
            None if passes is None else open_probabilities(passes, ndim=3),
            method=method,
            agreement=agreement,
            entropy_class=entropy_class,  # type: ignore[arg-type]
            min_examples_per_class=min_examples_per_class,
            frac_noise=frac_noise,
            threads=threads,
            progress=True,
        )
        if out is not None:
            run.write_issues(errors, out)
    typer.echo(summary(errors))
    if out is not None:
        typer.echo(f"\nAll {len(errors):,} samples are in {out}.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the picture.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
) -> None:
    """Find wrong labels in scikit-learn's digits, where the truth is known."""
    from uqled.demo import demo as run_demo

    with _refusing():
        out.mkdir(parents=True, exist_ok=True)
        typer.echo(run_demo(out, seed=seed))
