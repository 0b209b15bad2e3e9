"""Data sets of the Hugging Face hub: by name, through its own package, and how files describe
themselves in its layout."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from uqled.data.raw_dataset import RawDataset
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.tables.table import make_arrow_table, read_table
from uqled.errors import FileError, InputError
from uqled.progress import note_download
from uqled.storage.reading import first_line, parse_json

#: Names as on the hub; the package might take anything else for a path.
_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def download_table(name: str, split: str | None) -> Any:
    """The Arrow table of `NAME` or `NAME:CONFIGURATION`, downloaded unless it was before."""
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "place", f"is 'hf:{name}', which needs the datasets package", "pip install 'uqled[hub]'"
        ) from error
    path, _, configuration = name.partition(":")
    if not _NAME.fullmatch(path):
        raise InputError(
            "place",
            f"is 'hf:{name}', which is not a valid name",
            "Name a data set of the hub, hf:NAME or hf:OWNER/NAME",
        )
    try:
        with note_download(
            _find_download_folder(path), _find_download_size(path, configuration or None)
        ):
            dataset = datasets.load_dataset(path, configuration or None, split=split or "train")
        # In the Arrow format images stay as they are; the features know the classes' names.
        return dataset.with_format("arrow")[:].replace_schema_metadata(
            dataset.features.arrow_schema.metadata
        )
    except Exception as error:  # an error of the network, the hub, or the data set's files
        raise FileError(
            f"data set 'hf:{name}'",
            f"cannot be loaded ({first_line(error)})",
            "Check the name, the split and the network, or download its Parquet files",
        ) from error


def _find_download_folder(path: str) -> Path:
    """The folder that the files of a data set are downloaded to."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"datasets--{path.replace('/', '--')}"


def _find_download_size(path: str, configuration: str | None) -> int | None:
    """Bytes to download, where the data set says it."""
    import datasets

    try:
        size = datasets.load_dataset_builder(path, configuration).info.download_size
        return None if size is None else int(size)
    except Exception:  # the download itself will say what is wrong
        return None


def read_features(schema: Any, subject: str) -> dict[str, Any]:
    """What a table in the hub's layout says of its columns; empty where it says nothing.

    `subject` is the table as errors name it.
    """
    metadata = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        about = parse_json(metadata)
        features = (about.get("info") or {}).get("features") or {}
        if not isinstance(features, dict):
            raise TypeError(f"its features are a {type(features).__name__}")
    except Exception as error:  # not text, not JSON, nested too deeply, or of another structure
        raise _describe_bad_metadata(subject, first_line(error)) from error
    return features


def read_class_names(schema: Any, subject: str) -> dict[str, list[str]]:
    """Column -> the names of its class numbers, from the table's own metadata."""
    names = {}
    for column, feature in read_features(schema, subject).items():
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            class_names = feature.get("names")
            if not isinstance(class_names, list) or not all(
                isinstance(one, str) for one in class_names
            ):
                raise _describe_bad_metadata(subject, f"the classes of {column!r} have no names")
            names[column] = class_names
    return names


def _describe_bad_metadata(subject: str, why: str) -> FileError:
    return FileError(
        subject,
        f"has metadata that cannot be read ({why})",
        "Download it again, or remove the entry 'huggingface' from its metadata",
    )


def _read(source: Source, request: ReadRequest) -> RawDataset:
    table = download_table(str(source.place).removeprefix("hf:"), request.split)
    names = read_class_names(table.schema, str(source.place))
    return read_table(make_arrow_table(table, source.place, names), replace(request, split=None))


READER = Reader(
    "'hf:NAME'",
    lambda source: source.is_named and str(source.place).startswith("hf:"),
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=lambda source, request: download_table(
        str(source.place).removeprefix("hf:"), request.split
    ),
)
