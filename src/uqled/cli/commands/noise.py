"""`uqled noise`: labels made wrong on purpose, with the truth beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import Seed, split_names


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
    seed: Seed = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
) -> CommandOutput:
    """Make labels wrong, and keep the truth.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table.
    """
    from uqled.data.prediction_files import open_labels, open_probabilities
    from uqled.noise.kinds import noise_of_kind
    from uqled.noise.transition import TransitionMatrix
    from uqled.report.noise import check_noise_folder, noise_summary, write_noise

    check_noise_folder(out, overwrite=overwrite)
    noisy = noise_of_kind(
        kind,
        open_labels(labels),
        rate=rate,
        zeros=zeros,
        pred_probs=None if pred_probs is None else open_probabilities(pred_probs, ndim=2),
        model_labels=None if model_labels is None else open_labels(model_labels),
        matrix=None if matrix is None else TransitionMatrix.load(matrix),
        classes=split_names(classes),
        seed=seed,
    )
    written = write_noise(noisy, out, labels_file=labels, overwrite=overwrite)
    names = ", ".join(path.name for path in written)
    return CommandOutput(f"{noise_summary(noisy)}\n\nIn {out}: {names}")
