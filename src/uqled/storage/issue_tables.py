"""Writes the table of a detection's results, one row per sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uqled.errors import FileError
from uqled.storage.atomic import check_file_target, replace_file
from uqled.storage.reading import name_file

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors

ISSUE_FORMATS = (".csv", ".parquet", ".json")


def check_issues_path(path: Path) -> None:
    """Refuse a table of issues that could not be written, before the work is done."""
    if path.suffix not in ISSUE_FORMATS:
        raise FileError(
            name_file(path),
            f"has the ending {path.suffix!r}",
            f"Use one of {', '.join(ISSUE_FORMATS)}",
        )
    check_file_target(path)


def write_issues(errors: LabelErrors, path: Path, *, ids: list[str] | None = None) -> None:
    """Write one row per sample, as `.csv`, `.parquet` or `.json` (a list of records).

    `rank` is 1 for what to look at first: labels that contradict a duplicate, then the flagged,
    the most suspect first. Where all methods were asked for, each has a column of flags.
    """
    frame = errors.to_frame()
    frame.insert(0, "index", np.arange(len(frame)))
    if ids is not None:
        frame.insert(1, "id", ids)
    ranks = np.full(len(errors), np.nan)
    ranks[errors.suspects] = np.arange(1, len(errors.suspects) + 1)
    frame["rank"] = ranks
    frame["rank"] = frame["rank"].astype("Int64")
    for name, one in errors.by_method.items():
        frame[name] = one.mask
    with replace_file(path) as part:
        if path.suffix == ".csv":
            frame.to_csv(part, index=False)
        elif path.suffix == ".parquet":
            _write_parquet(frame, errors, part)
        else:
            frame.to_json(part, orient="records", indent=1)


def _write_parquet(frame: Any, errors: LabelErrors, path: Path) -> None:
    """With how good the model is as JSON in the file's metadata, under `uqled.model`."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(frame, preserve_index=False)
    if errors.model is not None:
        quality = json.dumps(errors.model.to_json()).encode()
        table = table.replace_schema_metadata(
            {**(table.schema.metadata or {}), b"uqled.model": quality}
        )
    parquet.write_table(table, path)
