"""JSON: one object per line (JSONL), a list of objects, or an object of columns."""

from __future__ import annotations

from typing import Any

from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.tables.table import convert_to_arrow, make_frame_table, read_table
from uqled.data.tables.text_dialect import decode_text
from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.compression import read_decompressed
from uqled.storage.reading import first_line, parse_json

_LINES = (".jsonl", ".ndjson")
_FIX = 'Write one object per line, {"text": ..., "label": ...}, or a list of such objects'


def _read_frame(source: Source, request: ReadRequest) -> tuple[Any, list[int]]:
    """The objects as a pandas frame, and the line of each where they are lines."""
    import pandas as pd

    data, subject = read_decompressed(source.path), name_source(source.path)
    check_limit("json_bytes", len(data), subject)
    text = data.decode(request.encoding) if request.encoding else decode_text(data)
    is_lines = source.table_name.endswith(_LINES)
    records, lines = _parse_lines(text, subject) if is_lines else _parse_whole(text, subject)
    names = list(dict.fromkeys(name for record in records for name in record))
    check_limit("table_columns", len(names), subject)
    columns = {name: [record.get(name) for record in records] for name in names}
    return pd.DataFrame(columns), lines


def _read(source: Source, request: ReadRequest) -> RawDataset:
    frame, lines = _read_frame(source, request)

    def locate_rows(rows: list[int]) -> str:
        if not lines:
            return f"object {', '.join(str(row + 1) for row in rows)}"
        return f"line {', '.join(str(lines[row]) for row in rows)}"

    return read_table(make_frame_table(frame, source.path, locate_rows), request)


def _parse_lines(text: str, subject: str) -> tuple[list[dict[str, Any]], list[int]]:
    """The objects, and the line of each."""
    records, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise FileError(
                subject, f"has invalid JSON in line {number} ({first_line(error)})", _FIX
            ) from error
        if not isinstance(record, dict):
            raise FileError(subject, f"has a {type(record).__name__} in line {number}", _FIX)
        records.append(record)
        lines.append(number)
    return records, lines


def _parse_whole(text: str, subject: str) -> tuple[list[dict[str, Any]], list[int]]:
    try:
        content = parse_json(text)
    except (ValueError, RecursionError) as error:
        if text.count("\n{") and text.lstrip().startswith("{"):  # JSON lines with another suffix
            return _parse_lines(text, subject)
        raise FileError(subject, f"is not JSON ({first_line(error)})", _FIX) from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        if len(lists) == 1 and all(isinstance(one, dict) for one in lists[0]):
            content = lists[0]  # {"data": [...]}
        elif lists and len(lists) == len(content) and len(set(map(len, lists))) == 1:
            content = [dict(zip(content, row, strict=True)) for row in zip(*lists, strict=True)]
        else:
            content = _read_pandas_layout(content) or content
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise FileError(subject, "does not hold a list of objects", _FIX)
    return content, []


def _read_pandas_layout(content: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The objects of what `to_json` of pandas writes: by column, by row, or split."""
    if set(content) == {"columns", "index", "data"}:
        names, rows = content["columns"], content["data"]
        is_sound = isinstance(rows, list) and all(
            isinstance(row, list) and len(row) == len(names) for row in rows
        )
        return [dict(zip(map(str, names), row, strict=True)) for row in rows] if is_sound else None
    inner = list(content.values())
    if not inner or not all(isinstance(one, dict) for one in inner):
        return None
    if all(key.isdecimal() for key in content):  # row numbers
        return inner
    keys = list(inner[0])
    if any(list(one) != keys for one in inner):
        return None
    return [{name: column[key] for name, column in content.items()} for key in keys]


READER = Reader(
    "a .json or .jsonl",
    lambda source: source.table_name.endswith((".json", *_LINES)),
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=lambda source, request: convert_to_arrow(_read_frame(source, request)[0]),
)
