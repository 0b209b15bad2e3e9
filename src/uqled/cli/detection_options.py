"""Options of `uqled detect`: predictions in files, the method, and detection in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.options import EngineName, MethodName, RayAddress
from uqled.detect.methods.registry import DEFAULT_METHOD
from uqled.errors import InputError


@dataclass(frozen=True)
class FileOptions:
    """Predictions in files, in place of a run."""

    panel: ClassVar[str] = "Data (in place of a run)"

    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read the given labels from this file (.npy, .npz, .csv, .parquet or .zarr) or "
            "folder of shards.",
        ),
    ] = None
    pred_probs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read out-of-sample probabilities from this file or folder of shards, one row "
            "per sample and one column per class.",
        ),
    ] = None
    passes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read stochastic predictions of the same samples from this file, with the axes "
            "pass, sample and class.",
        ),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Name the columns of the probabilities in their order, such as cat,dog. "
            "Default: the sorted labels.",
        ),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Read the samples themselves, in the same order, from data.csv or a folder, or "
            "from data.csv::COLUMN to name the column of labels. --out is then the folder of a "
            "run, which report, review and export can open. Default: no run is made.",
        ),
    ] = None
    run: Annotated[
        bool,
        typer.Option(
            "--run",
            help="Make --out the folder of a run even without --data, for report, review, audit, "
            "export and check to open.",
        ),
    ] = False

    @property
    def makes_run(self) -> bool:
        """Whether `--out` becomes a run."""
        return self.data is not None or self.run

    def refuse_beside_run(self) -> None:
        for name, value in vars(self).items():
            if value not in (None, False):
                raise InputError(
                    name,
                    "cannot be combined with a run, which has its own",
                    "Pass one or the other",
                )


@dataclass(frozen=True)
class MethodOptions:
    """How the method works."""

    panel: ClassVar[str] = "Method"

    method: MethodName = DEFAULT_METHOD
    agreement: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For a method that combines several algorithms: flag samples that at least N of "
            "them flag, from 1 to 4. Default: 3.",
        ),
    ] = None
    entropy_class: Annotated[
        str,
        Choices("candidate", "given"),
        typer.Option(
            help="For methods with an uncertainty threshold: use the threshold of a sample's "
            "candidate class or of its given class."
        ),
    ] = "candidate"
    min_examples_per_class: Annotated[
        int,
        typer.Option(metavar="N", help="Leave at least N samples of every class unflagged."),
    ] = 1
    frac_noise: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Flag only this share, from 0 to 1, of what the method selects."
        ),
    ] = 1.0


@dataclass(frozen=True)
class PartOptions:
    """Where and how a detection in parts works."""

    panel: ClassVar[str] = "Cluster (where --out is a folder)"

    engine: EngineName = None
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Work on N parts at a time. Default: one per core."),
    ] = None
    ray_address: RayAddress = None
    part_rows: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Work on parts of N rows. Default: as many as memory allows."
        ),
    ] = None
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB",
            help="Refuse to begin if more than this many gigabytes of memory are needed. "
            "Default: no limit.",
        ),
    ] = None
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print how much time and memory the detection would take, and stop."
        ),
    ] = False

    def refuse_outside_parts(self) -> None:
        for name, value in vars(self).items():
            if value not in (None, False):
                raise InputError(
                    name,
                    f"is {value!r}, but this detection is not in parts",
                    "Name a folder as --out, and files or shards rather than a run",
                )
