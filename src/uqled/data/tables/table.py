"""A table's columns as samples: labels, and images, texts, features or embeddings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.data.classes import encode_column
from uqled.data.dataset import Kind, join_texts
from uqled.data.image_cache import EncodedImages
from uqled.data.raw_dataset import (
    RawDataset,
    choose_split,
    make_ids,
    make_object_array,
    name_source,
    refuse_split,
)
from uqled.data.reader import ReadRequest
from uqled.data.tables.byte_columns import decode_byte_columns
from uqled.data.tables.column_roles import (
    USED_ROLES,
    USER_CHOICE,
    check_roles,
    convert_column,
    infer_table_column,
    is_text,
)
from uqled.data.tables.columns import Column
from uqled.data.tables.label_column import choose_label, refuse_measurements
from uqled.data.tables.table_files import check_cells
from uqled.data.tables.table_images import list_image_types, read_cells, read_image_file
from uqled.errors import FileError, InputError, UqledError, list_first
from uqled.storage.reading import first_line, name_file

_CHECKED_PATHS = 100  # paths of which one at least must lead to a file
_MAX_NAMES = 5  # names in a message


@dataclass(frozen=True)
class Table:
    """A table as a reader hands it over."""

    place: Any
    folder: Path
    """Where relative paths begin."""
    frame: Any
    """pandas: every column but the images."""
    read_strings: Callable[[list[str]], Any]
    """Columns as they are written, as strings: a class may be called NA."""
    images: dict[str, Any]
    """Arrow columns of encoded images: {bytes, path}, or bytes."""
    class_names: dict[str, list[str]]
    """By column, what its numbers stand for."""
    locate_rows: Callable[[list[int]], str] = lambda rows: f"row {', '.join(map(str, rows))}"
    """Some rows as the user finds them in the file: "line 7, 12"."""
    index: Any = None
    """The index of the user's own pandas frame; None for other sources."""

    @property
    def subject(self) -> str:
        """The table as errors name it."""
        return name_source(self.place)

    @property
    def names(self) -> list[str]:
        return [*self.images, *map(str, self.frame.columns)]


def make_arrow_table(table: Any, place: Any, class_names: dict[str, list[str]]) -> Table:
    """An Arrow table, whose columns of images stay as they are."""
    import pandas as pd

    with explain_table_problems(place):
        table = decode_byte_columns(table)
        images = {name: table.column(name) for name in list_image_types(table.schema)}
        plain_table = table.drop_columns(list(images))
        check_cells(plain_table, name_source(place))
        frame = plain_table.to_pandas().reset_index(drop=True)
        for at, name in enumerate(map(str, frame.columns)):
            kind = plain_table.schema.field(name).type if name in plain_table.column_names else None
            # pandas' metadata in a table is older than a column that replaced one.
            if str(kind) == "bool" and isinstance(frame.dtypes.iloc[at], pd.StringDtype):
                frame.isetitem(at, plain_table.column(name).to_pandas())
    path = Path(str(place))
    folder = path if path.is_dir() else path.parent
    return Table(place, folder, frame, lambda columns: frame[columns], images, class_names)


def make_frame_table(frame: Any, place: Any, locate_rows: Callable[[list[int]], str]) -> Table:
    """A pandas frame without images."""
    check_cells(frame, name_source(place))
    folder = Path(str(place)).parent
    return Table(place, folder, frame, lambda columns: frame[columns], {}, {}, locate_rows)


def convert_to_arrow(frame: Any) -> Any:
    """A pandas frame as an Arrow table; columns of several types become strings."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:
        texts = frame.map(lambda value: value if value is None else str(value))
        return pa.Table.from_pandas(texts, preserve_index=False)


def read_table(table: Table, request: ReadRequest) -> RawDataset:
    """The samples of a table."""
    with explain_table_problems(table.place):
        if len(set(table.names)) < len(table.names):
            raise FileError(
                table.subject, "has two columns with the same name", "Rename one of them"
            )
        check_roles(request.columns, table.names, table.subject)
        label = choose_label(table.frame, request, table.subject, table.names)
        rows = _select_split(table, request.split)
        columns = _choose_columns(table, label, request)
        kind = _choose_kind(table, columns, request)
        columns = _limit_to_kind(table, columns, kind, request)
        inputs, ids = _read_inputs(table, columns, kind, rows)
        if "id" in table.frame.columns and not _is_input(columns, "id") and label.name != "id":
            column = table.frame["id"].iloc[rows]
            ids = make_ids(column) if column.is_unique and not column.isna().any() else ids
        index = None if table.index is None else table.index[rows]
        if index is not None and index.is_unique:
            names = make_ids(index)
            ids = names if len(set(names.tolist())) == len(names) else ids
        labels, is_unlabelled = _read_labels(table, label.name, rows)
        return RawDataset(
            kind,
            inputs,
            labels,
            ids,
            is_unlabelled=is_unlabelled if is_unlabelled.any() else None,
            columns=(label, *columns),
            groups=_read_groups(table, request.group, rows),
            locate_rows=lambda some_rows: table.locate_rows([int(rows[row]) for row in some_rows]),
            index=index,
        )


def select_split(column: Any, split: str | None, place: Any) -> NDArray[np.intp]:
    """The rows of one split, by a pandas column that names each row's."""
    names = column.astype(str)
    chosen_split = choose_split(split, sorted(names.unique()), place)
    return np.flatnonzero((names == chosen_split).to_numpy())


@contextmanager
def explain_table_problems(place: Any) -> Iterator[None]:
    """Turn whatever pandas or Arrow say of a table into an error that names it."""
    try:
        yield
    except UqledError:
        raise
    except Exception as error:
        problem = f"cannot be read ({first_line(error)})"
        raise FileError(
            name_source(place), problem, "Write it again, or download it again"
        ) from error


def _select_split(table: Table, split: str | None) -> NDArray[np.intp]:
    if split is None or "split" not in table.frame.columns:
        refuse_split(split, table.place)
        return np.arange(len(table.frame))
    return select_split(table.frame["split"], split, table.place)


def _choose_columns(table: Table, label: Column, request: ReadRequest) -> list[Column]:
    """What each column but the label is: as the user says, or else as its values show."""
    requested_inputs = _list_requested_inputs(table, label, request)
    columns = []
    for name in dict.fromkeys(
        [*(requested_inputs or ()), *table.names]
    ):  # named roles, in their order
        if name == label.name:
            continue
        if name in request.columns:
            role = request.columns[name]
            column = Column(name, role, role in USED_ROLES, USER_CHOICE)
        elif requested_inputs is not None and name not in requested_inputs:
            column = Column(name, "ignore", False, "not among the inputs")
        elif name == request.group:
            column = Column(name, "group", False, "groups that stay together")
        elif name in table.images:
            column = Column(name, "image", True)
        else:
            column = infer_table_column(table.frame, name)
            if requested_inputs is not None and not column.is_used:
                column = _force_use(table, column)
        columns.append(column)
    if not any(column.is_used for column in columns) and request.kind is None:
        columns = [
            _force_use(table, c) if c.reason and c.role in ("id", "category") else c
            for c in columns
        ]
    return columns


def _list_requested_inputs(table: Table, label: Column, request: ReadRequest) -> list[str] | None:
    if request.inputs is None:
        return None
    names = [request.inputs] if isinstance(request.inputs, str) else list(request.inputs)
    for name in names:
        if name not in table.names or name == label.name:
            raise InputError(
                "inputs",
                f"name {name!r}, but {table.subject} has the columns {', '.join(table.names)} "
                f"({label.name!r} is the label)",
                "Choose among the others",
            )
    return names


def _force_use(table: Table, column: Column) -> Column:
    """A column that would be left out, as an input: the user named it, or there is no other."""
    values = table.frame[column.name]
    if is_text(values):
        return Column(column.name, "text" if column.role == "id" else "category", True)
    return replace(column, role="number", is_used=True, reason="")


def _choose_kind(table: Table, columns: list[Column], request: ReadRequest) -> Kind:
    if request.kind is not None:
        return request.kind
    inputs = [column for column in columns if column.is_used]
    if any(column.role == "image" for column in inputs):
        return "images"
    is_sole_string = len(inputs) == 1 and inputs[0].name not in request.columns and is_text(
        table.frame[inputs[0].name]
    ) and inputs[0].role == "category"  # fmt: skip
    if inputs and (is_sole_string or all(column.role == "text" for column in inputs)):
        return "texts"
    return "table"


def _limit_to_kind(
    table: Table, columns: list[Column], kind: Kind, request: ReadRequest
) -> list[Column]:
    """The columns of which those that do not fit the kind are left out."""
    used_columns = [column for column in columns if column.is_used]
    strings = [
        c for c in used_columns if c.name not in table.images and is_text(table.frame[c.name])
    ]
    if kind == "images":
        fits = [column for column in used_columns if column.role == "image"]
        if request.kind == "images" and not fits and request.inputs is not None:
            fits = strings  # paths without the ending of an image
        fits = fits[:1] if request.inputs is None or len(fits) == len(used_columns) else []
        fits = [replace(column, role="image") for column in fits]
    elif kind == "texts":
        fits = [column for column in used_columns if column.role == "text"]
        if not fits and (request.inputs is not None or len(strings) == 1):
            fits = strings
        if request.inputs is not None and len(fits) < len(used_columns):
            fits = strings if len(strings) == len(used_columns) else []
        fits = [replace(column, role="text") for column in fits]
    else:
        fits = [column for column in used_columns if column.name not in table.images]
        fits = [replace(c, role="category") if c.role == "image" else c for c in fits]
    if not fits:
        reasons = [f"{c.name} ({c.reason})" for c in columns if not c.is_used and c.reason]
        raise InputError(
            "inputs",
            f"of kind {kind!r} are not clear among the columns {', '.join(table.names)} of "
            f"{table.subject}"
            + (f"; left out: {', '.join(reasons[:_MAX_NAMES])}" if reasons else ""),
            "Say which columns are meant: inputs='...'",
        )
    chosen_columns = {column.name: column for column in fits}
    return [
        chosen_columns.get(column.name)
        or (replace(column, is_used=False, reason=f"the inputs are {kind}") if column.is_used
            else column)
        for column in columns
    ]  # fmt: skip


def _is_input(columns: Sequence[Column], name: str) -> bool:
    return any(column.name == name and column.is_used for column in columns)


def _read_inputs(
    table: Table, columns: list[Column], kind: Kind, rows: NDArray[np.intp]
) -> tuple[Any, NDArray[Any]]:
    """(inputs, ids) of some rows."""
    used_columns = [column for column in columns if column.is_used]
    if kind == "images":
        return _read_images(table, used_columns[0].name, rows)
    if kind == "texts":
        strings = table.read_strings([column.name for column in used_columns])
        return join_texts(strings.iloc[rows]), make_ids(rows)
    return _read_features(table, used_columns, rows), make_ids(rows)


def _read_features(table: Table, used_columns: list[Column], rows: NDArray[np.intp]) -> Any:
    """The columns as a frame, or [N,D] of a single column of equally long lists."""
    import pandas as pd

    frame = table.frame.iloc[rows].reset_index(drop=True)
    if len(used_columns) == 1 and used_columns[0].reason == "lists of numbers":
        try:
            return np.stack(frame[used_columns[0].name].tolist()).astype(np.float32)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"column {used_columns[0].name!r} of {table.subject}",
                "has lists of different lengths, or not of numbers",
                "Embeddings have one length",
            ) from error
    features: dict[str, Any] = {}
    for column in used_columns:
        values = frame[column.name]
        if column.reason == "lists of numbers":
            raise InputError(
                f"column {column.name!r} of {table.subject}",
                "holds lists beside other features",
                "Choose it alone, or the others: inputs=[...]",
            )
        if column.role == "text" and is_text(values):  # a text may say NA or null
            values = table.read_strings([column.name])[column.name].iloc[rows]
            values = values.reset_index(drop=True)
        features |= convert_column(values, column)
    return pd.DataFrame(features, index=frame.index)


def _read_labels(
    table: Table, label: str, rows: NDArray[np.intp]
) -> tuple[Labels, NDArray[np.bool_]]:
    """The labels of some rows, and which of them are missing."""
    column = table.frame[label]
    if column.isna().all() or is_text(column):  # all classes may be called NA, None or null
        column = table.read_strings([label])[label]
        column = column.where(column.notna() & (column.astype(str).str.strip() != ""), None)
    values = column.iloc[rows]
    is_present = values.notna().to_numpy()
    if not is_present.any():
        raise InputError(
            "label", f"{label!r} of {table.subject} is empty", "Name the column of labels"
        )
    if column.dtype.kind == "f":
        refuse_measurements(values[is_present], label, table.subject)
        values = _convert_to_integers(values, is_present)
    present = values[is_present]
    if present.dtype == object and present.map(lambda value: isinstance(value, bool)).all():
        present = present.astype(bool)  # they are objects only because some are missing
    try:
        labels = encode_column(
            present, names=table.class_names.get(label), name=f"labels in {label!r}"
        )
    except InputError as error:
        subject = f"{error.argument} of {table.subject}"
        raise FileError(subject, error.problem, error.fix) from error
    codes = np.zeros(len(rows), np.int32)
    codes[is_present] = labels.codes
    return replace(labels, codes=codes), ~is_present


def _convert_to_integers(codes: Any, is_present: NDArray[np.bool_]) -> Any:
    """Class numbers that are floats only because some are missing."""
    present = codes[is_present]
    if is_present.all() or not (present % 1 == 0).all():
        return codes
    return codes.where(is_present, 0).astype(np.int64)


def _read_groups(table: Table, group: str | None, rows: NDArray[np.intp]) -> NDArray[Any] | None:
    if group is None:
        return None
    if group not in table.frame.columns:
        raise InputError(
            "group",
            f"is {group!r}, but {table.subject} has the columns {', '.join(table.names)}",
            "Name a column whose rows with one value belong together",
        )
    return make_ids(table.frame[group].iloc[rows])


def _read_images(
    table: Table, column: str, rows: NDArray[np.intp]
) -> tuple[EncodedImages, NDArray[Any]]:
    if column in table.images:
        return read_cells(table.images[column], table.folder, rows)
    strings = table.read_strings([column])[column].iloc[rows]
    paths = strings.fillna("").astype(str).str.strip().tolist()
    if missing := [row for row, path in zip(rows.tolist(), paths, strict=True) if not path]:
        raise InputError(
            "inputs",
            f"{column!r} of {table.subject} is missing in {len(missing)} rows "
            f"({table.locate_rows(missing[:_MAX_NAMES])})",
            "Name a file in each row",
        )
    files = [os.path.normpath(table.folder / path) for path in paths]
    if len(set(files)) < len(files):
        unique, counts = np.unique(files, return_counts=True)
        duplicates = [os.path.relpath(path, table.folder) for path in unique[counts > 1].tolist()]
        raise InputError(
            "inputs",
            f"{column!r} of {table.subject} names {len(duplicates)} files more than once "
            f"({list_first(duplicates, _MAX_NAMES)})",
            "Keep one row per file",
        )
    if not any(map(os.path.exists, files[:_CHECKED_PATHS])):
        raise FileError(
            name_file(files[0]),
            f"and the next ones in column {column!r} do not exist",
            "Paths are relative to the table's folder: correct them, or move the table",
        )
    return EncodedImages(read_image_file, make_object_array(files), Path), make_ids(paths)
