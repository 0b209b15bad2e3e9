"""The column of a table that holds the labels: named by the user, or recognised."""

from __future__ import annotations

import re
from typing import Any

from uqled.data.reader import ReadRequest
from uqled.data.tables.column_roles import infer_table_column
from uqled.data.tables.columns import Column
from uqled.data.tables.header import name_unnamed_columns
from uqled.errors import FileError, InputError

#: Names of a column of labels, where the user does not say which it is.
LABEL_NAMES = ("label", "labels", "target", "class", "y")
_FEW_NUMBERS = 20  # different whole numbers that may be classes
_OTHER_SEPARATORS = (" ", ":", "~", "^")  # which a text may have, so they are not detected
_SAMPLED_ROWS = 100  # that show what separates the columns
_LIBSVM_LINE = re.compile(r"\S+( \d+:\S+)+ ?", re.ASCII)
_MAX_CANDIDATES = 3  # candidates in a message


def choose_label(frame: Any, request: ReadRequest, subject: str, names: list[str]) -> Column:
    """The column of labels of a pandas frame; `names` are all columns of the table `subject`."""
    columns = [*map(str, frame.columns)]
    named_columns = [name for name, role in request.columns.items() if role == "label"]
    label = request.label or next(iter(named_columns), None)
    reason = ""
    if label is None and "label" not in columns:
        known_columns = [name for name in columns if name.lower() in LABEL_NAMES]
        # A `y` beside an `x` is often a measurement, and then another column has the classes.
        plain_columns = [name for name in known_columns if not _is_measured(frame[name])]
        if len(plain_columns) == 1:
            label, reason = plain_columns[0], "recognised by its name"
        elif not plain_columns and len(classes := list_label_candidates(frame)) == 1:
            label, reason = classes[0], "the only column of classes"
        elif len(known_columns) == 1:
            label = known_columns[0]
    problem = "is missing" if label is None else f"is {label!r}"
    label = "label" if label is None else label
    similar_names = [name for name in columns if name.strip().lower() == label.strip().lower()]
    if label not in columns and len(similar_names) == 1:
        label = similar_names[0]
    if label not in columns and f"column {label}" in columns:  # of a table without names
        label = f"column {label}"
    if not names:
        raise InputError(
            "label", f"{problem}, and {subject} has no columns", "Pass samples and their labels"
        )
    if label in names and label not in columns:
        raise InputError(
            "label",
            f"is {label!r}, and that column of {subject} holds images or other bytes, not text",
            "Name a column of text or whole numbers, or write its entries as text",
        )
    if label not in columns:
        raise InputError(
            "label",
            f"{problem}, but {subject} has the columns {', '.join(names)}",
            _suggest_label(frame, columns),
        )
    if not len(frame):
        raise FileError(subject, "has no rows", "Name a table with samples")
    return Column(label, "label", False, reason)


def list_label_candidates(frame: Any) -> list[str]:
    """Columns that could be labels: classes, or a few whole numbers."""
    names = []
    for name in map(str, frame.columns):
        values, column = frame[name], infer_table_column(frame, name)
        is_few = values.dtype.kind in "iu" and values.nunique() <= _FEW_NUMBERS < len(values)
        comes_again = column.role == "category" and 2 * values.nunique() <= len(values)
        if column.is_used and (comes_again or is_few):
            names.append(name)
    return names


def _is_measured(values: Any) -> bool:
    return values.dtype.kind == "f" and bool((values.dropna() % 1 != 0).any())


def refuse_measurements(labels: Any, name: str, subject: str) -> None:
    """Refuse numbers with fractions: they are measured, and no classes."""
    if (labels % 1 != 0).any():
        example = labels[labels % 1 != 0].iloc[0]
        raise InputError(
            "label",
            f"{name!r} of {subject} holds numbers such as {example:g}",
            "Classes are words or whole numbers, and this looks like a regression: name a column "
            "of classes, or group the numbers",
        )


def _suggest_label(frame: Any, columns: list[str]) -> str:
    """What to do where no column is clearly the label."""
    if sum(map(_is_numeric_name, columns)) > 1:
        return "Begin the file with a line of column names: its first line looks like data"
    if 2 * sum(name.startswith("Unnamed: ") for name in columns) > len(columns):
        return "Begin the file with the column names: remove the lines above them"
    if len(columns) == 1 and len(frame):
        header = [] if columns == name_unnamed_columns(1) else columns
        return _suggest_separator([*header, *frame.iloc[:_SAMPLED_ROWS, 0].astype(str)])
    candidates = list_label_candidates(frame)[:_MAX_CANDIDATES] if len(frame) else []
    if not candidates:
        return "Say which one holds the labels: label='...'"
    return f"Say which one holds the labels, such as label={' or '.join(map(repr, candidates))}"


def _suggest_separator(lines: list[str]) -> str:
    """What to do with a table of one column, from its first lines."""
    if all(map(_LIBSVM_LINE.fullmatch, lines)):
        return (
            "It is in the format of LIBSVM: read it with sklearn.datasets.load_svmlight_file, and "
            "pass X.toarray() and label=y"
        )
    for separator in _OTHER_SEPARATORS:
        n_entries = {len(line.split(separator)) for line in lines}
        if len(n_entries) == 1 and n_entries != {1}:
            return f"Say what separates its columns: separator={separator!r}"
    if len({len(line.split()) for line in lines}) == 1 and len(lines[0].split()) > 1:
        return "Separate its columns by commas in place of several spaces"
    return "Add a column of labels to the samples"


def _is_numeric_name(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
