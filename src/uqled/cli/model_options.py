"""Options of commands that predict: the model, and where its folds are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices, complete_from
from uqled.cli.options import EngineName, RayAddress
from uqled.predict.uncertainty import AUTO_SOURCE, SOURCES


def _list_models() -> list[str]:
    from uqled.predict.learners import LEARNERS

    return LEARNERS.names()


@dataclass(frozen=True)
class ModelOptions:
    """The model, and how it is trained."""

    panel: ClassVar[str] = "Model"

    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            autocompletion=complete_from(_list_models),
            help="Predict with this model. auto is a committee of several models, on the features "
            "of a pretrained encoder if one is installed. For images: small, vgg11, resnet50, "
            "probe or probe:ENCODER. For texts and tables: logistic, forest or boosting. For any "
            "data: committee or committee:ENCODER. For a network of your own: module:function.",
        ),
    ] = "auto"
    folds: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Split the data into N folds. Each fold is predicted by a model trained on the "
            "others.",
        ),
    ] = 4
    passes: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Make N stochastic predictions of each sample, which show how uncertain the "
            "model is.",
        ),
    ] = 5
    uncertainty: Annotated[
        str,
        Choices(AUTO_SOURCE, registry=SOURCES),
        typer.Option(
            help="Take the stochastic predictions from this source. auto is the first one that "
            "the model supports."
        ),
    ] = AUTO_SOURCE
    preset: Annotated[
        str | None,
        Choices("fast", "quick", "paper", "paper-mnist"),
        typer.Option(
            help="Train networks with the settings of this preset. quick takes fewer epochs, "
            "small images at first and another optimiser. Default: fast."
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Train networks for N epochs. Default: 12, or the preset's number."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Train networks on batches of N samples. Default: 128, or the preset's number.",
        ),
    ] = None
    lr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Train networks with this learning rate. Default: 0.05, or the preset's rate.",
        ),
    ] = None
    device: Annotated[
        str | None,
        Choices("auto", "cpu", "cuda", "mps"),
        typer.Option(help="Train networks on this device. Default: auto, a GPU if there is one."),
    ] = None
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Train each network on N devices, which share every batch. Default: 1.",
        ),
    ] = None
    dtype: Annotated[
        str | None,
        Choices("auto", "32-true", "bf16-mixed", "16-mixed"),
        typer.Option(
            help="Train networks in this precision. Default: auto, which is bf16-mixed if the "
            "hardware supports it."
        ),
    ] = None

    batch_norm: Annotated[
        str | None,
        Choices("re-estimated", "as-trained"),
        typer.Option(
            help="Compute the softmax with batch-norm statistics that are re-estimated without "
            "dropout, or with those of training. Default: re-estimated."
        ),
    ] = None

    offline: Annotated[
        bool, typer.Option("--offline", help="Never download the weights of an encoder.")
    ] = False

    def name_inputs(self) -> tuple[str, ...]:
        """The inputs that detection will get from the model."""
        return ("pred_probs",) if self.uncertainty == "none" else ("pred_probs", "passes")


@dataclass(frozen=True)
class FoldOptions:
    """Where folds are computed."""

    panel: ClassVar[str] = "Cluster"

    engine: EngineName = None
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Compute N folds at a time. Needs --engine ray. Default: all of them."
        ),
    ] = None
    cpus_per_fold: Annotated[
        float,
        typer.Option(metavar="N", help="Reserve N CPU cores for each fold. Needs --engine ray."),
    ] = 1
    gpus_per_fold: Annotated[
        float,
        typer.Option(metavar="N", help="Reserve N GPUs for each fold. Needs --engine ray."),
    ] = 0
    ray_address: RayAddress = None

    def as_arguments(self) -> dict[str, Any]:
        """The arguments of `cross_validate`."""
        return {
            "engine": self.engine,
            "workers": self.workers,
            "cpus": self.cpus_per_fold,
            "gpus": self.gpus_per_fold,
            "address": self.ray_address,
        }
