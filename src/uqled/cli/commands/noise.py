"""`uqled noise`: labels made wrong on purpose, with the truth beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.choices import Choices
from uqled.cli.console import CommandOutput
from uqled.cli.options import Seed, split_names


def noise(
    labels: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Read the true labels from this file (.npy, .npz, .csv, .parquet or .zarr).",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Write the labels, the truth, the matrices and their picture to this folder.",
        ),
    ],
    kind: Annotated[
        str,
        Choices("similarity", "symmetric", "pair", "sparse", "confusion", "matrix", "instance"),
        typer.Option(help="Make labels wrong in this way. docs/noise.md describes each kind."),
    ] = "similarity",
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Make this share of the labels wrong, from 0 to 1. Most kinds need it.",
        ),
    ] = None,
    zeros: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="For --kind sparse: never flip labels between this share of the pairs of classes, "
            "from 0 to 1.",
        ),
    ] = None,
    pred_probs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read the probabilities of a model from this file, one row per sample and one "
            "column per class. Needed for --kind similarity, confusion and instance.",
        ),
    ] = None,
    model_labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read the true labels of the samples of --pred-probs from this file. "
            "Default: the same as --labels.",
        ),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read the transition matrix from this .csv or .json file, for --kind matrix.",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Name the classes in their order, such as cat,dog,ship. "
            "Default: the sorted labels.",
        ),
    ] = None,
    seed: Seed = 0,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace what an earlier command wrote there."),
    ] = False,
) -> CommandOutput:
    """Make labels wrong on purpose and keep the truth, for experiments.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table.

    Examples:
        uqled noise --labels labels.npy --kind pair --rate 0.1 --out noisy
        uqled noise --labels data.csv::label --pred-probs probs.npy --rate 0.2 --out noisy
    """
    from uqled.data.prediction_files import open_labels, open_probabilities
    from uqled.noise.kinds import apply_noise_kind
    from uqled.noise.transition import TransitionMatrix
    from uqled.report.noise import check_noise_folder, describe_noise, write_noise

    check_noise_folder(out, overwrite=overwrite)
    noisy = apply_noise_kind(
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
    paths = write_noise(noisy, out, labels_file=labels, overwrite=overwrite)
    names = ", ".join(path.name for path in paths)
    content = {
        "kind": kind,
        "samples": len(noisy.is_error),
        "changed": int(noisy.is_error.sum()),
        "files": {path.stem: str(path) for path in paths},
    }
    return CommandOutput(f"{describe_noise(noisy)}\n\nIn {out}: {names}", content)
