"""Options of commands that read data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.options import split_names
from uqled.errors import InputError

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="The data: a folder with one folder of images or texts per class, a table (.csv, "
        ".parquet, .json, .xlsx and others), an archive, hf:NAME for a data set on the Hugging "
        "Face hub, or digits, a small example that needs no download.",
    ),
]


SpellingsOption = Annotated[
    str,
    Choices("merge", "keep"),
    typer.Option(
        help="Treat class names as one class if they differ only in spaces or Unicode form, or "
        "only in case and one of them is rare (merge), or as different classes (keep)."
    ),
]


@dataclass(frozen=True)
class ReadingOptions:
    """How samples are read, from any source."""

    panel: ClassVar[str] = "Data"

    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Read the labels from this column of a table, or this array of an .npz file. "
            "Default: the column called label, labels, target, class or y, or the only column "
            "of classes.",
        ),
    ] = None
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Use only these columns of a table, separated by commas. "
            "Default: every column that can be used.",
        ),
    ] = None
    kind: Annotated[
        str | None,
        Choices("images", "texts", "table"),
        typer.Option(
            help="Read the rows of a table as images (paths of files), texts or table rows. "
            "Default: decided from the columns."
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=ROLE,...",
            help="Set the roles of some columns of a table: number, category, text, image, date "
            "or ignore, such as title=text,v3=ignore. Default: decided from the values.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read text files in this encoding, such as latin-1. Default: detected.",
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            "--sep",
            metavar="CHARACTER",
            help="Split the lines of a text file at this character, such as ';'. "
            "Default: detected.",
        ),
    ] = None
    sheet: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read the table from this sheet of an Excel file. "
            "Default: the first that is not empty.",
        ),
    ] = None
    spellings: SpellingsOption = "merge"
    header: Annotated[
        str | None,
        Choices("yes", "no"),
        typer.Option(
            help="Treat the first line of a text file as the names of the columns (yes) or as data "
            "(no); columns without names are called column 1, column 2 and so on. Default: "
            "decided from its entries."
        ),
    ] = None
    image_size: Annotated[
        int | None,
        typer.Option(
            metavar="PIXELS",
            help="Resize images to this many pixels per side. "
            "Default: the most common size, with at most 224 pixels on the longer side.",
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read this split of a data set that has several, such as test. Default: train.",
        ),
    ] = None
    skip_unreadable: Annotated[
        bool,
        typer.Option(
            "--skip-unreadable", help="Leave out images that cannot be read instead of stopping."
        ),
    ] = False

    def as_arguments(self) -> dict[str, Any]:
        """The arguments of `uqled.load`."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(ReadingOptions)},
            "inputs": split_names(self.inputs),
            "columns": split_roles(self.columns),
        }


@dataclass(frozen=True)
class OwnDataOptions(ReadingOptions):
    """How the samples of your own predictions are read."""

    panel: ClassVar[str] = "Data (how --data is read)"

    spellings: SpellingsOption = "keep"

    def refuse_without_data(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) != one.default:
                raise InputError(one.name, "is for --data only", "Leave it out, or add --data")


@dataclass(frozen=True)
class DataOptions(ReadingOptions):
    """What is read, and how."""

    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Keep rows that have the same value in this column, such as a patient, in one "
            "fold. Default: no column.",
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Use at most N samples, drawn so that every class keeps its share. "
            "Default: all samples.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read the labels from this file, one per row, if DATA is an .npy or Parquet "
            "file of embeddings, one row per sample. Default: DATA has its own labels.",
        ),
    ] = None
    features: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Judge the samples by these embeddings: an .npy or Parquet file with one row per "
            "sample of DATA in the same order. Default: embeddings are computed if the model "
            "needs them.",
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
        """Load the data set; `check_kind` is that of `uqled.load`."""
        from uqled.data import load

        if self.labels is not None:
            from uqled.features.embedding_files import load_embeddings

            return load_embeddings(data, self.labels, limit=self.limit, seed=seed)
        dataset = load(
            data,
            **self.as_arguments(),
            group=self.group,
            limit=self.limit,
            seed=seed,
            progress=progress,
            check_kind=check_kind if self.features is None else None,
        )
        if self.features is None:
            return dataset
        from uqled.features.embedding_files import attach_embeddings

        return attach_embeddings(dataset, self.features)


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
