"""Options that several commands share, in groups: a group is a dataclass, an option a field.

`uqled.cli.running` makes parameters of the fields. What a group's options mean together, such as
the operating point, is a method of the group.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.console import print_message

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a finished run, such as runs/photos.")
]
RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Write the run to this folder. A run that was interrupted continues there. "
        "Default: runs/NAME, with the name of the data.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="The detection method: auto, one of the paper's (alg-ens, cl-mcd, cl-mcd-e, "
        "cl-mcd-ens, cl-pbnr), another one of docs/choosing.md, or all.",
    ),
]
RunMethod = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        help="Use the flags of this method, such as auto, alg-ens or cl-pbnr. "
        "Default: the method that the run was made with.",
    ),
]
RunData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help="Read the samples from here, if they were moved since the run was made. "
        "Default: where they were.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N", help="Seed of all random choices: the same seed gives the same result."
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of the Ray cluster, such as auto or ray://HOST:10001. Needs --engine ray. "
        "Default: a cluster on this machine.",
    ),
]
Engine = Annotated[
    str | None,
    Choices("local", "ray"),
    typer.Option(help="Compute on this machine (local) or on a Ray cluster (ray). Default: local."),
]


@dataclass(frozen=True)
class DecisionOptions:
    """Which samples are flagged: at most one of these, all of which are for method auto."""

    panel: ClassVar[str] = "Decision (at most one of these, with method auto)"

    target: Annotated[
        str | None,
        Choices("f1"),
        typer.Option(help="Flag the samples that maximise the expected F1. Default: f1."),
    ] = None
    min_precision: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Flag as many samples as possible while this share of the flags, from 0 to 1, is "
            "expected to be real.",
        ),
    ] = None
    recall: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Flag as few samples as possible while this share of all wrong labels, from 0 to "
            "1, is expected to be flagged.",
        ),
    ] = None
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Flag the N samples most likely to be mislabelled, of those nobody has reviewed.",
        ),
    ] = None
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="REVIEW,MISS",
            help="Flag what costs least, given the cost of a review and of a wrong label that is "
            "missed, such as 1,20.",
        ),
    ] = None

    def operating_point(self) -> dict[str, Any]:
        """As `find_label_errors` takes it; refused now if there is no such."""
        from uqled.detect.auto.estimate import operating_point

        pair: Any = None if self.cost is None else tuple(self.cost.split(","))
        point = {
            "target": self.target,
            "precision": self.min_precision,
            "recall": self.recall,
            "budget": self.budget,
            "cost": pair,
        }
        operating_point(**point)
        return point


@dataclass(frozen=True)
class OutputOptions:
    """What is printed, and how much of it."""

    panel: ClassVar[str] = "Output"

    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as one JSON document on standard output."),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print nothing but the result and errors."),
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Also print the settings, the time taken and, of errors, where."
        ),
    ] = False

    @property
    def progress(self) -> bool:
        """If long work shows how far it is."""
        return not self.quiet

    def stage(self, name: str) -> AbstractContextManager[Any]:
        """Show a step of the command that may take a while."""
        from uqled.progress import Progress

        return Progress(self.progress).stage(name)

    def tell(self, text: str) -> None:
        """Print a message that is not part of the result, unless quiet."""
        if not self.quiet:
            print_message(text)


def split_names(names: str | None) -> list[str] | None:
    """`a,b,c` as a list."""
    return None if names is None else names.split(",")
