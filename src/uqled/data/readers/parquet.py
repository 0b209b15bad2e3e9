"""A Parquet file, or a folder of them in the layout of the Hugging Face hub."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from uqled.data.raw_dataset import (
    RawDataset,
    choose_split,
    is_split_name,
    name_source,
    note_split,
)
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.readers.hub import read_class_names
from uqled.data.tables.table import explain_table_problems, make_arrow_table, read_table
from uqled.storage.tables.arrow_sizes import join_tables
from uqled.storage.tables.parquet_tables import read_parquet

_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?$")


def list_parquet(source: Source) -> list[Path]:
    """The Parquet files of a folder; none where the source is no folder."""
    if not source.is_folder:
        return []
    return [source.path / file for file in source.tree.files if file.endswith(".parquet")]


def read_parquet_split(source: Source, split: str | None) -> Any:
    """The Arrow table of a file, or of one split of a folder."""
    files = list_parquet(source)
    if not files:
        return read_parquet(source.path)
    splits = group_by_split(files)
    return _join_files(splits[choose_split(split, list(splits), source.path)], source.path)


def group_by_split(files: list[Path]) -> dict[str, list[Path]]:
    """Files by split: `train-00000-of-00002.parquet`, `train.parquet` or `train/0000.parquet`."""
    splits: dict[str, list[Path]] = {}
    for file in files:
        shard = _SHARD.match(file.stem)
        name = shard[1] if shard else file.stem
        if not is_split_name(name) and is_split_name(file.parent.name):
            name = file.parent.name
        splits.setdefault(name, []).append(file)
    if not any(map(is_split_name, splits)):  # the names mean nothing: one data set
        return {"train": files}
    return splits


def _join_files(files: list[Path], place: Path) -> Any:
    with explain_table_problems(place):
        return join_tables((read_parquet(file) for file in files), name_source(place))


def _matches(source: Source) -> bool:
    return source.table_name.endswith((".parquet", ".pq")) or bool(list_parquet(source))


def _read(source: Source, request: ReadRequest) -> RawDataset:
    table = read_parquet_split(source, request.split)
    notes = _note_split(source, request.split) if source.is_folder else ()
    if source.is_folder:
        request = replace(request, split=None)
    names = read_class_names(table.schema, name_source(source.place))
    raw = read_table(make_arrow_table(table, source.path, names), request)
    return replace(raw, notes=(*raw.notes, *notes))


def _note_split(source: Source, split: str | None) -> tuple[tuple[str, str], ...]:
    splits = list(group_by_split(list_parquet(source)))
    return note_split(choose_split(split, splits, source.path), splits, split)


READER = Reader(
    "a .parquet or a folder of them",
    _matches,
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=lambda source, request: read_parquet_split(source, request.split),
)
