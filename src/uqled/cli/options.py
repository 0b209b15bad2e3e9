"""Options that several commands share, in groups: a group is a dataclass, an option a field.

`uqled.cli.running` makes parameters of the fields. What a group's options mean together, such as
the operating point, is a method of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.console import print_message
from uqled.errors import InputError

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A folder of images with one folder per class, a table (.csv, .tsv or .parquet), an "
        "archive, hf:NAME for a data set of the Hugging Face hub, or digits for a small example.",
    ),
]
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
class DataOptions:
    """What is read, and how."""

    panel: ClassVar[str] = "Data"

    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of a table, or array of an .npz, that holds the labels. "
            "Default: the one that is plainly meant, such as label.",
        ),
    ] = None
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns of a table that hold the paths, texts or features, separated by commas. "
            "Default: all columns that can be used.",
        ),
    ] = None
    kind: Annotated[
        str | None,
        Choices("images", "texts", "table"),
        typer.Option(help="Read a table as this. Default: what its columns show."),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=ROLE,...",
            help="What some columns of a table are: number, category, text, image, date or ignore, "
            "such as title=text,v3=ignore. Default: what their values show.",
        ),
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of a table whose rows with one value stay in one fold, such as a patient. "
            "Default: none.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoding of a text file, such as latin-1. Default: what the file shows.",
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            "--sep",
            metavar="CHARACTER",
            help="What separates the columns of a text file, such as ';'. "
            "Default: what the file shows.",
        ),
    ] = None
    image_size: Annotated[
        int | None,
        typer.Option(
            metavar="PIXELS",
            help="Resize images to this many pixels on each side. "
            "Default: the size of most images, at most 224 on the longer side.",
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read this split of a data set that has splits, such as test. Default: train.",
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Use at most this many samples, drawn with the shares of the classes. "
            "Default: all samples.",
        ),
    ] = None
    skip_unreadable: Annotated[
        bool,
        typer.Option(
            "--skip-unreadable", help="Leave out images that cannot be read, instead of stopping."
        ),
    ] = False

    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of embeddings, numbers [N,D] in an .npy or Parquet file: the file of their "
            "labels, one per row.",
        ),
    ] = None

    def load(
        self,
        data: str,
        *,
        seed: int,
        progress: bool,
        check_kind: Callable[[Any], None] | None = None,
    ) -> Any:
        """The data set of that name; `check_kind` is as `uqled.load` takes it."""
        from uqled.data import load

        if self.labels is not None:
            from uqled.features.embedding_files import load_embeddings

            return load_embeddings(data, self.labels, limit=self.limit, seed=seed)
        return load(
            data,
            label=self.label,
            inputs=split_names(self.inputs),
            kind=self.kind,  # type: ignore[arg-type]
            columns=split_roles(self.columns),  # type: ignore[arg-type]
            group=self.group,
            encoding=self.encoding,
            separator=self.separator,
            image_size=self.image_size,
            split=self.split,
            limit=self.limit,
            seed=seed,
            skip_unreadable=self.skip_unreadable,
            progress=progress,
            check_kind=check_kind,
        )


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


def split_roles(text: str | None) -> dict[str, str]:
    """`a=text,b=ignore` as a dictionary.

    >>> split_roles("title=text,v3=ignore")
    {'title': 'text', 'v3': 'ignore'}
    """
    roles = {}
    for pair in [] if text is None else text.split(","):
        name, equals, role = pair.rpartition("=")
        if not equals:
            raise InputError("columns", f"has {pair!r}", "Write NAME=ROLE, such as title=text")
        roles[name] = role
    return roles


def split_names(names: str | None) -> list[str] | None:
    """`a,b,c` as a list."""
    return None if names is None else names.split(",")
