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

from uqled.cli.choices import Choices, complete_from
from uqled.cli.console import print_message
from uqled.detect.methods.registry import ALL, DEFAULT_METHOD, METHODS
from uqled.errors import InputError

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a finished run, such as runs/photos.")
]
RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Write the run to this folder. If an interrupted run is there, it continues. "
        "Default: runs/NAME, where NAME is the name of the data.",
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        autocompletion=complete_from(lambda: [*METHODS.names(), ALL]),
        help=f"Flag samples by this method: {', '.join(METHODS.own_entries)}, one that another "
        f"package adds, or {ALL}. docs/predictions.md describes them.",
    ),
]
RunMethod = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        autocompletion=complete_from(METHODS.names),
        help="Use the flags of this method; uqled detect -h lists the methods. Default: the "
        "method of the run.",
    ),
]
RunData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help="Read the samples from here if they were moved after the run was made. "
        "Default: where they were when the run was made.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N", help="Seed all random choices with N. The same seed gives the same result."
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Connect to the Ray cluster at this address, such as auto or ray://HOST:10001. Needs "
        "--engine ray. Default: start one on this machine.",
    ),
]
EngineName = Annotated[
    str | None,
    Choices("local", "ray"),
    typer.Option(help="Compute on this machine (local) or on a Ray cluster (ray). Default: local."),
]
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON document on standard output.")
]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result and errors.")]
VerboseFlag = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also print the settings, the time taken and, after an error, the traceback.",
    ),
]


@dataclass(frozen=True)
class DecisionOptions:
    """Which samples are flagged: at most one of these, for a probabilistic method."""

    panel: ClassVar[str] = f"Decision (at most one of these, with method {DEFAULT_METHOD})"

    target: Annotated[
        str | None,
        Choices("f1"),
        typer.Option(help="Flag the samples that maximise the expected F1 score. Default: f1."),
    ] = None
    min_precision: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Flag as many samples as possible while at least this share of the flags, from 0 "
            "to 1, is expected to be wrong labels.",
        ),
    ] = None
    recall: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Flag as few samples as possible while at least this share of all wrong labels, "
            "from 0 to 1, is expected to be flagged.",
        ),
    ] = None
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Flag the N samples most likely to be mislabelled among those that nobody has "
            "reviewed.",
        ),
    ] = None
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="REVIEW,MISS",
            help="Flag the samples that minimise the expected cost, given the cost of one review "
            "and of one missed wrong label, such as 1,20.",
        ),
    ] = None

    def operating_point(self) -> dict[str, Any]:
        """The operating point as `find_label_errors` takes it; checked here, before the work."""
        from uqled.detect.auto.operating_point import make_operating_point

        pair: Any = None if self.cost is None else tuple(self.cost.split(","))
        point = {
            "target": self.target,
            "precision": self.min_precision,
            "recall": self.recall,
            "budget": self.budget,
            "cost": pair,
        }
        try:
            make_operating_point(**point)
        except InputError as error:
            if error.argument != "cost":
                raise
            fix = "Write the costs of a review and of a missed wrong label, such as 1,20"
            raise InputError("cost", f"is {self.cost!r}", fix) from None
        return point


@dataclass(frozen=True)
class OutputOptions:
    """What is printed, and how much of it."""

    panel: ClassVar[str] = "Output"

    as_json: JsonFlag = False
    quiet: QuietFlag = False
    verbose: VerboseFlag = False

    def join(self, other: OutputOptions | None) -> OutputOptions:
        """Both together: these options may also stand before the command."""
        if other is None:
            return self
        return OutputOptions(
            self.as_json or other.as_json, self.quiet or other.quiet, self.verbose or other.verbose
        )

    @property
    def progress(self) -> bool:
        """Whether long work shows its progress."""
        return not self.quiet

    def stage(self, name: str, *, says_end: bool = True) -> AbstractContextManager[Any]:
        """Show a step of the command that may take a while, as `Progress.stage` does."""
        from uqled.progress import Progress

        return Progress(self.progress).stage(name, says_end=says_end)

    def tell(self, text: str) -> None:
        """Print a message that is not part of the result, unless quiet."""
        if not self.quiet:
            print_message(text)


def split_names(names: str | None) -> list[str] | None:
    """`a,b,c` as a list."""
    return None if names is None else names.split(",")
