"""Folders that `save_to_disk` of the Hugging Face `datasets` package writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from uqled.data.raw_dataset import (
    RawDataset,
    choose_split,
    name_source,
    note_split,
    refuse_split,
)
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.readers.arrow import read_arrow
from uqled.data.readers.hub import read_class_names
from uqled.data.tables.table import explain_table_problems, make_arrow_table, read_table
from uqled.errors import FileError
from uqled.storage.reading import name_file, read_json
from uqled.storage.tables.arrow_sizes import join_tables

_FIX = "Save it again: dataset.flatten_indices().save_to_disk(...)"


def _matches(source: Source) -> bool:
    if not source.is_folder:
        return False
    return any((source.path / name).is_file() for name in ("state.json", "dataset_dict.json"))


def read_saved_dataset(source: Source, split: str | None) -> Any:
    """The Arrow table of a saved data set, or of one split of several."""
    folder = source.path
    if splits := _list_splits(folder):
        folder = folder / choose_split(split, splits, folder)
    else:
        refuse_split(split, folder)
    names = _list_data_files(folder / "state.json")
    with explain_table_problems(folder):
        return join_tables((read_arrow(folder / name) for name in names), name_source(folder))


def _list_splits(folder: Path) -> list[str]:
    """The names of the splits; none of a data set without."""
    if not (folder / "dataset_dict.json").is_file():
        return []
    content = read_json(folder / "dataset_dict.json")
    splits = content.get("splits") if isinstance(content, dict) else None
    if not isinstance(splits, list) or not all(map(_is_plain_name, splits)) or not splits:
        raise FileError(name_file(folder / "dataset_dict.json"), "lists no splits", _FIX)
    return splits


def _read(source: Source, request: ReadRequest) -> RawDataset:
    table = read_saved_dataset(source, request.split)
    names = read_class_names(table.schema, name_source(source.place))
    raw = read_table(make_arrow_table(table, source.path, names), replace(request, split=None))
    if not (splits := _list_splits(source.path)):
        return raw
    chosen_split = choose_split(request.split, splits, source.path)
    return replace(raw, notes=(*raw.notes, *note_split(chosen_split, splits, request.split)))


def _list_data_files(state: Path) -> list[str]:
    content = read_json(state)
    if not isinstance(content, dict):
        raise FileError(name_file(state), "describes no data set", _FIX)
    if content.get("_indices_files") or content.get("_indices_data_files"):
        raise FileError(name_file(state), "selects rows through a file of indices", _FIX)
    files = content.get("_data_files")
    entries = files if isinstance(files, list) else []
    names: list[Any] = [one.get("filename") if isinstance(one, dict) else None for one in entries]
    if not names or not all(map(_is_plain_name, names)):
        raise FileError(name_file(state), "names no files of data", _FIX)
    return names


def _is_plain_name(name: Any) -> bool:
    """Whether a name leads to this folder and nowhere else."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0:")


READER = Reader(
    "a folder of save_to_disk",
    _matches,
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=lambda source, request: read_saved_dataset(source, request.split),
)
