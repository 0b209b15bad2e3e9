"""Options of commands that read data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.options import split_names
from uqled.errors import InputError

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A folder of images with one folder per class, a table (.csv, .tsv or .parquet), an "
        "archive, hf:NAME for a data set of the Hugging Face hub, or digits for a small example.",
    ),
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
