"""Tables, CSV or Parquet: a label column, and paths, images, texts, features or embeddings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.data.classes import encode_labels
from uqled.data.dataset import Kind, join_texts
from uqled.data.hub import read_class_names
from uqled.data.image_cache import EncodedImages
from uqled.data.images import ENDINGS
from uqled.data.raw_dataset import (
    SPLITS,
    RawDataset,
    choose_split,
    make_ids,
    make_object_array,
    quoted,
    refuse_split,
)
from uqled.data.table_files import check_cells, read_csv, read_parquet
from uqled.errors import FileError, InputError, UqledError
from uqled.storage.reading import first_line, read_file

_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?$")
_NO_FEATURES = ("id", "split")  # columns that are never features unless named as such
_PEEKED = 100  # values that decide whether a column holds paths
_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Asked:
    """What the user says of the table."""

    label: str | None = None
    inputs: str | Sequence[str] | None = None
    kind: Kind | None = None
    split: str | None = None


@dataclass(frozen=True)
class _Table:
    place: Any
    folder: Path
    """Where relative paths begin."""
    frame: Any
    """Every column but the images."""
    images: dict[str, Any]
    """Arrow columns of encoded images: {bytes, path}, or bytes."""
    class_names: dict[str, list[str]]
    """By column, what its numbers stand for."""
    written: Callable[[list[str]], Any]
    """Columns of strings as they are written: a class may be called NA."""


def csv_table(path: Path, asked: Asked) -> RawDataset:
    frame = read_csv(path)

    def written(columns: list[str]) -> Any:
        return read_csv(path, usecols=columns, dtype=str, keep_default_na=False)

    return _found(_Table(path, path.parent, frame, {}, {}, written), asked)


def parquet_table(place: Path, files: list[Path], asked: Asked) -> RawDataset:
    """One Parquet file, or those of a folder in the layout of the Hugging Face hub."""
    if place.is_dir():
        splits = parquet_splits(files)
        files = splits[choose_split(asked.split, list(splits), place)]
        asked = Asked(asked.label, asked.inputs, asked.kind)
    return arrow_table(join_parquet(files, place), place, asked)


def join_parquet(files: list[Path], place: Path) -> Any:
    """The Arrow table that several Parquet files are the parts of."""
    import pyarrow as pa

    parts = [read_parquet(file) for file in files]
    with _explain_table_problems(place):
        return pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]


def parquet_splits(files: list[Path]) -> dict[str, list[Path]]:
    """Files by split: `train-00000-of-00002.parquet`, `train.parquet` or `train/0000.parquet`."""
    splits: dict[str, list[Path]] = {}
    for file in files:
        shard = _SHARD.match(file.stem)
        name = shard[1] if shard else file.stem
        if name.lower() not in SPLITS and file.parent.name.lower() in SPLITS:
            name = file.parent.name
        splits.setdefault(name, []).append(file)
    if not set(map(str.lower, splits)) & set(SPLITS):  # names that mean nothing: one set
        return {"train": files}
    return splits


def arrow_table(table: Any, place: Any, asked: Asked) -> RawDataset:
    """An Arrow table, with the Hugging Face metadata that its schema may have."""
    names = read_class_names(table.schema, _named(place))
    with _explain_table_problems(place):
        images = {
            field.name: table.column(field.name)
            for field in table.schema
            if _holds_images(field.type)
        }
        plain = table.drop_columns(list(images))
        check_cells(plain, _named(place))
        frame = plain.to_pandas().reset_index(drop=True)
    path = Path(str(place))
    folder = path if path.is_dir() else path.parent
    return _found(
        _Table(place, folder, frame, images, names, lambda columns: frame[columns]), asked
    )


def _found(table: _Table, asked: Asked) -> RawDataset:
    with _explain_table_problems(table.place):
        return _choose_columns(table, asked)


def _choose_columns(table: _Table, asked: Asked) -> RawDataset:
    label = _label_column(table, asked)
    rows = _rows_of_split(table, asked.split)
    kind, columns = _roles(table, label, asked)
    labels = _labels(table, label, rows)
    inputs: Any
    ids = make_ids(rows)
    if kind == "images":
        inputs, ids = _images(table, columns[0], rows)
    elif kind == "texts":
        inputs = join_texts(table.written(columns).iloc[rows])
    else:
        frame = table.frame[columns].iloc[rows].reset_index(drop=True)
        inputs = _features(frame, table.place)
    if "id" in table.frame.columns and "id" not in (label, *columns):
        own = table.frame["id"].iloc[rows]
        ids = make_ids(own) if own.is_unique and not own.isna().any() else ids
    return RawDataset(kind, inputs, labels, ids)


def _label_column(table: _Table, asked: Asked) -> str:
    label = "label" if asked.label is None else asked.label
    columns = [*map(str, table.frame.columns)]
    if label not in columns:
        raise InputError(
            "label",
            f"is {label!r}, and {_named(table.place)} has the columns "
            f"{', '.join([*table.images, *columns])}",
            "Say which one holds the labels: label='...'",
        )
    if not len(table.frame):
        raise FileError(_named(table.place), "has no rows", "Name a table with samples")
    return label


def _rows_of_split(table: _Table, split: str | None) -> NDArray[np.intp]:
    if split is None or "split" not in table.frame.columns:
        refuse_split(split, table.place)
        return np.arange(len(table.frame))
    return rows_of_split(table.frame["split"], split, table.place)


def rows_of_split(column: Any, split: str | None, place: Any) -> NDArray[np.intp]:
    """The rows of one split, by a pandas column that names each row's."""
    names = column.astype(str)
    chosen = choose_split(split, sorted(names.unique()), place)
    return np.flatnonzero((names == chosen).to_numpy())


def _labels(table: _Table, label: str, rows: NDArray[np.intp]) -> Labels:
    column = table.frame[label]
    if column.isna().all() or _is_text(column):  # all classes may be called NA, None or null
        column = table.written([label])[label]
        column = column.where(column.notna() & (column.astype(str).str.strip() != ""), None)
    chosen = column.iloc[rows]
    missing = chosen.isna().to_numpy()
    if missing.any():
        at = ", ".join(str(row) for row in rows[missing][:_SHOWN].tolist())
        raise InputError(
            "label",
            f"{label!r} of {_named(table.place)} is missing in {int(missing.sum())} of "
            f"{len(rows)} rows (row {at}{', ...' if missing.sum() > _SHOWN else ''})",
            "Label these rows or leave them out",
        )
    try:
        return encode_labels(
            chosen, names=table.class_names.get(label), name=f"labels in {label!r}"
        )
    except InputError as error:
        subject = f"{error.argument} of {_named(table.place)}"
        raise FileError(subject, error.problem, error.fix) from error


def _roles(table: _Table, label: str, asked: Asked) -> tuple[Kind, list[str]]:
    """What the inputs are, and in which columns."""
    everything = [*table.images, *map(str, table.frame.columns)]
    if asked.inputs is not None:
        columns = [asked.inputs] if isinstance(asked.inputs, str) else list(asked.inputs)
        for column in columns:
            if column not in everything or column == label:
                raise InputError(
                    "inputs",
                    f"name {column!r}, and {_named(table.place)} has the columns "
                    f"{', '.join(everything)} ({label!r} is the label)",
                    "Choose among the others",
                )
    else:
        columns = [name for name in everything if name != label and not _is_no_feature(table, name)]
    strings = [name for name in columns if name not in table.images and _is_text(table.frame[name])]
    pictures = [name for name in columns if name in table.images]
    paths = [name for name in strings if _are_paths(table.frame[name])]
    called_text = [name for name in strings if name.lower() == "text"]
    named = asked.inputs is not None
    if asked.kind is not None:
        kind = asked.kind
    elif pictures or paths:
        kind = "images"
    elif (called_text and not named) or (strings == columns and len(columns) == 1):
        kind = "texts"
    else:
        kind = "table"
    if kind == "images":
        fits = pictures or (strings if named else paths)
        fits = fits[:1] if not named or fits == columns else []
    elif kind == "texts":
        fits = strings if named else called_text or strings
        fits = fits if len(fits) == 1 or (named and fits == columns) else []
    else:
        fits = columns if not pictures else []
    if not fits:
        raise InputError(
            "inputs",
            f"of kind {kind!r} are not clear among the columns {', '.join(everything)} of "
            f"{_named(table.place)} ({label!r} is the label)",
            "Say which columns are meant: inputs='...'",
        )
    return kind, fits


def _images(
    table: _Table, column: str, rows: NDArray[np.intp]
) -> tuple[EncodedImages, NDArray[Any]]:
    if column in table.images:
        return _embedded(table.images[column], table.folder, rows)
    paths = table.written([column])[column].iloc[rows].fillna("").astype(str).str.strip().tolist()
    if missing := [row for row, path in zip(rows.tolist(), paths, strict=True) if not path]:
        raise InputError(
            "inputs",
            f"{column!r} of {_named(table.place)} is missing in {len(missing)} rows (row "
            f"{', '.join(map(str, missing[:_SHOWN]))})",
            "Name a file in each row",
        )
    files = [os.path.normpath(table.folder / path) for path in paths]
    if len(set(files)) < len(files):
        unique, counts = np.unique(files, return_counts=True)
        twice = [os.path.relpath(path, table.folder) for path in unique[counts > 1].tolist()]
        raise InputError(
            "inputs",
            f"{column!r} of {_named(table.place)} names {len(twice)} files more than once "
            f"({', '.join(twice[:_SHOWN])}{', ...' if len(twice) > _SHOWN else ''})",
            "Keep one row per file",
        )
    if not any(map(os.path.exists, files[:_PEEKED])):
        raise FileError(
            f"file {files[0]!r}",
            f"and the next ones in column {column!r} are not there",
            "Paths count from the table's folder: correct them, or move the table",
        )
    return EncodedImages(_read_image, make_object_array(files)), make_ids(paths)


def _read_image(path: str | Path) -> bytes:
    """The bytes of a file that a table names."""
    try:
        return read_file(path, "image_bytes")
    except FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from error
        raise


def _embedded(
    column: Any, folder: Path, rows: NDArray[np.intp]
) -> tuple[EncodedImages, NDArray[Any]]:
    """Images inside a Parquet file: bytes, or {bytes, path}, where a path may stand for bytes."""
    import pyarrow as pa

    chunks, paths = column.chunks, [None] * len(column)
    if pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        at = names.index("path")
        paths = [
            path for chunk in chunks for path in chunk.flatten()[at].cast(pa.string()).to_pylist()
        ]
        chunks = [chunk.flatten()[names.index("bytes")] for chunk in chunks]
    cells = pa.concat_arrays([chunk.cast(pa.large_binary()) for chunk in chunks])
    offsets = np.frombuffer(cells.buffers()[1], np.int64)[cells.offset :].tolist()
    data = memoryview(cells.buffers()[2] or b"")

    def read(row: int) -> bytes:
        found = bytes(data[offsets[row] : offsets[row + 1]])
        return found if found or not paths[row] else _read_image(folder / paths[row])

    chosen = [paths[row] for row in rows]
    named = all(chosen) and len(set(chosen)) == len(chosen)
    return EncodedImages(read, rows), make_ids(chosen if named else rows)


def _features(frame: Any, place: Any) -> Any:
    """The columns as they are, or [N,D] of a single column of equally long lists."""
    if frame.shape[1] == 1 and _is_lists(frame.iloc[:, 0]):
        try:
            return np.stack(frame.iloc[:, 0].tolist()).astype(np.float32)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"column {frame.columns[0]!r} of {_named(place)}",
                "has lists of different lengths, or not of numbers",
                "Embeddings have one length",
            ) from error
    for name in frame.columns:
        kind = frame[name].dtype.kind if hasattr(frame[name].dtype, "kind") else "O"
        is_known = kind in "fiub" or _is_text(frame[name]) or str(frame[name].dtype) == "category"
        if not is_known:
            raise InputError(
                f"column {name!r} of {_named(place)}",
                f"has type {frame[name].dtype}, which is no feature",
                "Make numbers or texts of it, or choose columns with inputs=[...]",
            )
    return frame


def _holds_images(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return {"bytes", "path"} <= {field.name for field in kind}
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_no_feature(table: _Table, name: str) -> bool:
    """Ids, splits, and the row numbers that pandas writes."""
    if name.startswith("Unnamed: "):
        values = table.frame[name].to_numpy()
        return bool(values.dtype.kind in "iu" and (np.diff(values) == 1).all())
    return name.lower() in _NO_FEATURES


def _is_text(column: Any) -> bool:
    if str(column.dtype) in ("str", "string"):
        return True
    return column.dtype == object and all(isinstance(value, str) for value in column.dropna())


def _is_lists(column: Any) -> bool:
    first = column.iloc[0]
    return isinstance(first, list | np.ndarray)


def _are_paths(column: Any) -> bool:
    """Whether the first values all end like images' files."""
    values = [value for value in column.iloc[:_PEEKED] if isinstance(value, str) and value]
    return bool(values) and all(value.strip().lower().endswith(ENDINGS) for value in values)


@contextmanager
def _explain_table_problems(place: Any) -> Iterator[None]:
    """Turn whatever pandas or Arrow say of a table into an error that names it."""
    try:
        yield
    except UqledError:
        raise
    except Exception as error:
        problem = f"cannot be read ({first_line(error)})"
        raise FileError(_named(place), problem, "Write it again, or get it again") from error


def _named(place: Any) -> str:
    return str(place) if str(place).startswith("hf:") else quoted(place)
