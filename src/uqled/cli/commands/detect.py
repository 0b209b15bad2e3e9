"""`uqled detect`: flags from predictions: those of a run, of files, or of files in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.data_options import OwnDataOptions
from uqled.cli.detecting import (
    detect_in_files,
    detect_in_new_run,
    detect_in_parts,
    detect_in_run,
    is_folder,
)
from uqled.cli.detection_options import FileOptions, MethodOptions, PartOptions
from uqled.cli.options import DecisionOptions, OutputOptions
from uqled.errors import InputError


def detect(
    files: FileOptions,
    data_options: OwnDataOptions,
    how: MethodOptions,
    decision: DecisionOptions,
    parts: PartOptions,
    output: OutputOptions,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN", help="The folder of a finished run. Leave it out if you name files."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Write the table of all samples to this file (.csv, .parquet or .json). With a "
            "folder or an address such as s3://..., the detection works part by part. Default: "
            "the table of the run, or no file.",
        ),
    ] = None,
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Ignore the decisions of reviewers.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Use N threads, which changes the time but not the result. Default: one per core.",
        ),
    ] = None,
) -> CommandOutput:
    """Flag wrong labels from the predictions of a run or from your own files.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table. Labels and
    probabilities may also be folders of .npy or Parquet shards, or addresses such as s3://...

    Examples:
        uqled detect runs/photos --budget 200
        uqled detect --labels labels.npy --pred-probs probs.npy --out issues.csv
        uqled detect --labels data.csv::label --pred-probs probs.npy --method cl-pbnr
        uqled detect --data data.csv::label --pred-probs probs.npy --out runs/mine
        uqled detect --labels s3://b/labels --pred-probs s3://b/probs --out s3://b/result --plan
    """
    if files.data is None:
        data_options.refuse_without_data()
    if folder is None and no_decisions:
        raise InputError("no_decisions", "is for runs only", "Leave it out, or name a run")
    options = vars(how) | {"progress": output.progress}
    if folder is None and is_folder(out) and not files.makes_run:
        return detect_in_parts(files, str(out), options, parts, decision, threads)
    parts.refuse_outside_parts()
    options["threads"] = threads
    if folder is not None:
        files.refuse_beside_run()
        return detect_in_run(folder, options, decision, out, use_decisions=not no_decisions)
    if files.makes_run:
        return detect_in_new_run(files, data_options, out, options, decision, output)
    return detect_in_files(files, out, options, decision)
