"""Options that several commands share, in groups: a group is a dataclass, an option a field.

`uqled.cli.running` makes parameters of the fields. What a group's options mean together, such as
the operating point, is a method of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.console import print_message

DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="Folder, file, archive, hf:NAME or digits.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
RunFolder = Annotated[Path, typer.Option("--out", help="The run; a killed one continues there.")]
Method = Annotated[str, typer.Option(help="auto, alg-ens, cl-mcd, cl-pbnr, ... or all.")]
RunMethod = Annotated[
    str | None, typer.Option(help="Whose flags: alg-ens, cl-mcd, cl-pbnr, ... Default: the run's.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
RayAddress = Annotated[str | None, typer.Option(help="Of a Ray cluster, such as auto.")]


@dataclass(frozen=True)
class DataOptions:
    """What is read, and how."""

    panel: ClassVar[str] = "Data"

    label: Annotated[str | None, typer.Option(help="Of a table: the column of labels.")] = None
    inputs: Annotated[str | None, typer.Option(help="Of a table: input columns, a,b,c.")] = None
    image_size: Annotated[
        int | None, typer.Option(help="Side in pixels that images are brought to.")
    ] = None
    split: Annotated[str | None, typer.Option(help="Part of the data set: train, test, ...")] = None
    limit: Annotated[int | None, typer.Option(help="Use so many samples only.")] = None
    skip_unreadable: Annotated[
        bool, typer.Option(help="Go on without files that cannot be read.")
    ] = False

    def load(self, data: str, *, seed: int, progress: bool) -> Any:
        """The data set of that name."""
        from uqled.data import load

        return load(
            data,
            label=self.label,
            inputs=split_names(self.inputs),
            image_size=self.image_size,
            split=self.split,
            limit=self.limit,
            seed=seed,
            skip_unreadable=self.skip_unreadable,
            progress=progress,
        )


@dataclass(frozen=True)
class ModelOptions:
    """What predicts, and how it is trained."""

    panel: ClassVar[str] = "Model"

    model: Annotated[
        str, typer.Option(help="small, vgg11, resnet50, probe, logistic, forest, ...")
    ] = "auto"
    folds: Annotated[
        int, typer.Option(help="Each is predicted by a model trained on the others.")
    ] = 4
    passes: Annotated[int, typer.Option(help="Stochastic passes per sample.")] = 5
    uncertainty: Annotated[
        str, typer.Option(help="mc-dropout, ensemble, bootstrap, members, none.")
    ] = "auto"
    epochs: Annotated[int | None, typer.Option(help="Of networks: passes over the data.")] = None
    batch_size: Annotated[int | None, typer.Option(help="Of networks: samples per step.")] = None
    lr: Annotated[float | None, typer.Option(help="Of networks: learning rate.")] = None
    preset: Annotated[str | None, typer.Option(help="Of networks: fast, paper or paper-mnist.")] = (
        None
    )
    device: Annotated[str | None, typer.Option(help="Of networks: auto, cpu, cuda or mps.")] = None
    devices: Annotated[int | None, typer.Option(help="Of networks: how many share a batch.")] = None
    dtype: Annotated[
        str | None, typer.Option(help="Of networks: auto, 32-true, bf16-mixed, 16-mixed.")
    ] = None

    batch_norm: Annotated[
        str | None,
        typer.Option(
            help="Statistics of batch norm behind dropout, for the softmax of a network: "
            "re-estimated without dropout (the default), or as-trained."
        ),
    ] = None

    def name_inputs(self) -> tuple[str, ...]:
        """What detection is going to get from the model."""
        return ("pred_probs",) if self.uncertainty == "none" else ("pred_probs", "passes")


@dataclass(frozen=True)
class FoldOptions:
    """Where folds are computed."""

    panel: ClassVar[str] = "Cluster"

    engine: Annotated[
        str | None,
        typer.Option(help="Where folds run: local, one after the other, or ray, as tasks."),
    ] = None
    workers: Annotated[int | None, typer.Option(help="Of ray: folds computed at a time.")] = None
    cpus_per_fold: Annotated[float, typer.Option(help="Of ray: cores that a fold asks for.")] = 1
    gpus_per_fold: Annotated[float, typer.Option(help="Of ray: GPUs that a fold asks for.")] = 0
    ray_address: RayAddress = None

    def as_arguments(self) -> dict[str, Any]:
        """As `cross_validate` takes them."""
        return {
            "engine": self.engine,
            "workers": self.workers,
            "cpus": self.cpus_per_fold,
            "gpus": self.gpus_per_fold,
            "address": self.ray_address,
        }


@dataclass(frozen=True)
class DecisionOptions:
    """Which samples are flagged."""

    panel: ClassVar[str] = "Decision"

    target: Annotated[str | None, typer.Option(help="Of auto: f1, which is the default.")] = None
    min_precision: Annotated[
        float | None, typer.Option(help="Of auto: the most flags of this precision.")
    ] = None
    recall: Annotated[
        float | None, typer.Option(help="Of auto: as few flags as reach this recall.")
    ] = None
    budget: Annotated[int | None, typer.Option(help="Of auto: so many, the most worth a look.")] = (
        None
    )
    cost: Annotated[str | None, typer.Option(help="Of auto: of a review and of a miss: 1,20.")] = (
        None
    )

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

    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the result and errors only.")
    ] = False

    @property
    def progress(self) -> bool:
        """If long work shows how far it is."""
        return not self.quiet

    def tell(self, text: str) -> None:
        """Print a message that is not part of the result, unless quiet."""
        if not self.quiet:
            print_message(text)


def split_names(names: str | None) -> list[str] | None:
    """`a,b,c` as a list."""
    return None if names is None else names.split(",")
