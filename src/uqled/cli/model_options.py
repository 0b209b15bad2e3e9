"""Options of commands that predict: the model, and where its folds are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.options import Engine, RayAddress


@dataclass(frozen=True)
class ModelOptions:
    """What predicts, and how it is trained."""

    panel: ClassVar[str] = "Model"

    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="The model. auto: a committee, on a pretrained encoder's features where one is "
            "installed. For images: small, vgg11, resnet50 or probe (also probe:ENCODER). For "
            "texts and tables: logistic, forest or boosting. Or committee:ENCODER, or "
            "module:function of your own.",
        ),
    ] = "auto"
    folds: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Number of folds. Each fold is predicted by a model trained on the other folds.",
        ),
    ] = 4
    passes: Annotated[
        int, typer.Option(metavar="N", help="Number of stochastic predictions of each sample.")
    ] = 5
    uncertainty: Annotated[
        str,
        Choices("auto", "mc-dropout", "ensemble", "bootstrap", "members", "none"),
        typer.Option(
            help="Where the stochastic predictions come from. auto takes the first source that "
            "the model has."
        ),
    ] = "auto"
    preset: Annotated[
        str | None,
        Choices("fast", "paper", "paper-mnist"),
        typer.Option(help="How a network is trained. Default: fast."),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Train a network for this many epochs. Default: 12, or the preset's."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Train a network on this many samples a step. Default: 128, or the preset's.",
        ),
    ] = None
    lr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", help="Learning rate of a network. Default: 0.05, or the preset's."
        ),
    ] = None
    device: Annotated[
        str | None,
        Choices("auto", "cpu", "cuda", "mps"),
        typer.Option(help="Where a network is trained. Default: auto."),
    ] = None
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Train a network on this many devices, which share a batch. Default: 1.",
        ),
    ] = None
    dtype: Annotated[
        str | None,
        Choices("auto", "32-true", "bf16-mixed", "16-mixed"),
        typer.Option(
            help="Arithmetic of a network. Default: auto, which is bf16-mixed where the hardware "
            "has it."
        ),
    ] = None

    batch_norm: Annotated[
        str | None,
        typer.Option(
            help="Statistics of batch norm behind dropout, for the softmax of a network: "
            "re-estimated without dropout (the default), or as-trained."
        ),
    ] = None

    offline: Annotated[bool, typer.Option(help="Never download the weights of an encoder.")] = False

    def name_inputs(self) -> tuple[str, ...]:
        """What detection is going to get from the model."""
        return ("pred_probs",) if self.uncertainty == "none" else ("pred_probs", "passes")


@dataclass(frozen=True)
class FoldOptions:
    """Where folds are computed."""

    panel: ClassVar[str] = "Cluster"

    engine: Engine = None
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Compute this many folds at a time. Needs --engine ray. Default: all."
        ),
    ] = None
    cpus_per_fold: Annotated[
        float,
        typer.Option(metavar="N", help="Cores that Ray reserves for a fold. Needs --engine ray."),
    ] = 1
    gpus_per_fold: Annotated[
        float,
        typer.Option(metavar="N", help="GPUs that Ray reserves for a fold. Needs --engine ray."),
    ] = 0
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
