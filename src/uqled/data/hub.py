"""Data sets of the Hugging Face hub by name, through its own package."""

from __future__ import annotations

from typing import Any

from uqled.errors import FileError, InputError


def hub_table(name: str, split: str | None) -> Any:
    """The Arrow table of `NAME` or `NAME:CONFIGURATION`, downloaded unless it was before."""
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "place", f"is 'hf:{name}', which needs the datasets package", "pip install 'uqled[hub]'"
        ) from error
    path, _, configuration = name.partition(":")
    try:
        found = datasets.load_dataset(path, configuration or None, split=split or "train")
    except Exception as error:  # of the network, the hub, or the data set's files
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FileError(
            f"data set 'hf:{name}'",
            f"cannot be loaded ({why})",
            "Check the name, the split and the network, or download its Parquet files",
        ) from error
    # In the Arrow format images stay as they are; the features know the classes' names.
    return found.with_format("arrow")[:].replace_schema_metadata(
        found.features.arrow_schema.metadata
    )
