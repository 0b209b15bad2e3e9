"""The roles of a table's columns, as plain data that can be printed and saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal[
    "label", "number", "category", "text", "image", "date", "id", "constant", "split", "group",
    "ignore",
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column of a table and its role."""

    name: str
    role: Role
    is_used: bool
    """Whether a model sees it."""
    reason: str = ""
    """Why it was left out, or what was made of it; empty where there is nothing to say."""


def find_label_column(columns: tuple[Column, ...]) -> str | None:
    """The name of the column that holds the labels, if any."""
    return next((column.name for column in columns if column.role == "label"), None)


def describe_columns(columns: tuple[Column, ...]) -> list[str]:
    """Up to three lines: the label, the columns a model sees, the others and why not."""
    lines = [
        f"label: {column.name}{f' ({column.reason})' if column.reason else ''}"
        for column in columns
        if column.role == "label"
    ]
    used_columns: dict[str, list[str]] = {}
    for column in columns:
        if column.is_used:
            reason = f" ({column.reason})" if column.reason not in _UNSAID else ""
            names = used_columns.setdefault(_PLURALS.get(column.role, column.role), [])
            names.append(f"{column.name}{reason}")
    if used_columns:
        lines.append(
            "used: " + "; ".join(f"{role} {_list(names)}" for role, names in used_columns.items())
        )
    unused_columns = [column for column in columns if not column.is_used and column.role != "label"]
    if unused_columns:
        descriptions = [
            f"{column.name} ({column.reason or column.role})" for column in unused_columns
        ]
        lines.append(f"left out: {_list(descriptions)}")
    return lines


_PLURALS = {"number": "numbers", "category": "categories", "text": "texts", "date": "dates"}
_UNSAID = ("", "as you said", "lists of numbers")  # reasons that add nothing for a used column
_MAX_NAMES = 8  # names in a line


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
