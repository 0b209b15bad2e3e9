"""Excel and OpenDocument spreadsheets: one sheet, whose first row names the columns."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from dataclasses import replace
from typing import Any

from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.tables.spreadsheet_sizes import check_spreadsheet
from uqled.data.tables.table import (
    convert_to_arrow,
    explain_table_problems,
    make_frame_table,
    read_table,
)
from uqled.errors import FileError, InputError
from uqled.limits import check_limit
from uqled.storage.compression import read_decompressed
from uqled.storage.zip_files import check_members, open_zip

_ENDINGS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")


def _read_frame(source: Source, request: ReadRequest) -> tuple[Any, str, list[str]]:
    """(the sheet as a pandas frame, its name, the names of all sheets)."""
    import pandas as pd

    subject = name_source(source.path)
    rows, name, names = _read_rows(source, request.sheet)
    header = make_column_names(rows[0])
    check_limit("table_columns", len(header), subject)
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else [()] * len(header)
    frame = pd.DataFrame(
        {name: _clean_column(list(cells)) for name, cells in zip(header, columns, strict=True)}
    )
    return frame, name, names


def make_column_names(cells: list[Any]) -> list[str]:
    """The first row as names of columns, two of one name told apart as pandas does.

    >>> make_column_names(["size", "", "size"])
    ['size', 'Unnamed: 1', 'size.1']
    """
    names: dict[str, None] = {}  # ordered and fast to look up: a sheet may have 16,384 columns
    numbers = Counter[str]()
    for at, cell in enumerate(cells):
        name = base_name = str(cell).strip() or f"Unnamed: {at}"
        while name in names:
            numbers[base_name] += 1
            name = f"{base_name}.{numbers[base_name]}"
        names[name] = None
    return list(names)


def _read(source: Source, request: ReadRequest) -> RawDataset:
    def locate_rows(rows: list[int]) -> str:
        return f"row {', '.join(str(row + 2) for row in rows)}"

    frame, name, names = _read_frame(source, request)
    raw = read_table(make_frame_table(frame, source.path, locate_rows), request)
    if len(names) == 1 or request.sheet is not None:
        return raw
    other_sheets = ", ".join(repr(one) for one in names if one != name)
    note = f"the sheet {name!r} is read, not {other_sheets}", "Choose another one with --sheet NAME"
    return replace(raw, notes=(note,))


def _read_rows(source: Source, sheet_name: str | None) -> tuple[list[list[Any]], str, list[str]]:
    """(rows, name, all names) of the sheet of that name, or of the first that is not empty."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise InputError(
            "place",
            f"is {str(source.place)!r}, which needs the python-calamine package",
            "pip install 'uqled[excel]', or save the sheet as .csv",
        ) from error
    data = read_decompressed(source.path)
    subject = name_source(source.path)
    if zipfile.is_zipfile(io.BytesIO(data)):
        with open_zip(source.path, io.BytesIO(data)) as archive:
            check_members(archive.filelist, source.path, len(data))
            total = sum(member.file_size for member in archive.filelist)
            check_limit("memory_bytes", total, subject)
            with explain_table_problems(source.path):
                check_spreadsheet(archive, subject)
            if any(name.lower().endswith("workbook.bin") for name in archive.namelist()):
                raise _describe_binary(subject)
    else:
        raise _describe_binary(subject)
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        names: list[str] = list(workbook.sheet_names)
        if sheet_name is not None and sheet_name not in names:
            raise InputError(
                "sheet",
                f"is {sheet_name!r}, and {subject} has {', '.join(map(repr, names))}",
                "Name one of them",
            )
        for name in names if sheet_name is None else [sheet_name]:
            sheet = workbook.get_sheet_by_name(name)
            check_limit("table_columns", sheet.width, subject)
            # A sheet of two cells can claim a billion between them.
            check_limit("memory_bytes", 64 * sheet.width * sheet.height, subject)
            rows: list[list[Any]] = sheet.to_python(skip_empty_area=True)
            if rows:
                return rows, name, names
    except (FileError, InputError):
        raise
    except BaseException as error:  # a panic in the parser is not an `Exception`
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise FileError(
            subject, f"is not a spreadsheet ({type(error).__name__})", "Save it again, or as .csv"
        ) from error
    which = (
        "no sheet with a table" if sheet_name is None else f"nothing in the sheet {sheet_name!r}"
    )
    raise FileError(subject, f"has {which}", "Put the names of the columns in the first row")


def _describe_binary(subject: str) -> FileError:
    """A binary spreadsheet cannot be measured before it is read: a forged one takes all memory."""
    return FileError(
        subject,
        "is not an .xlsx, .xlsm or .ods file inside; binary spreadsheets are not supported",
        "Save it as .xlsx or .csv",
    )


def _clean_column(cells: list[Any]) -> list[Any]:
    """Cells as a frame wants them: nothing for empty ones, whole numbers, one type of date."""
    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(cell) for cell in values if cell is not None}
    if kinds <= {int, float} and all(
        float(cell).is_integer() for cell in values if cell is not None
    ):
        return [cell if cell is None else int(cell) for cell in values]
    if kinds - {int, float} and kinds - {
        bool
    }:  # mixed with strings or dates: use the displayed text
        return [cell if cell is None else _show_cell(cell) for cell in values]
    return values


def _show_cell(cell: Any) -> str:
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if is_whole else str(cell)


READER = Reader(
    "an Excel file",
    lambda source: source.table_name.endswith(_ENDINGS),
    _read,
    has_columns=True,
    has_splits=True,
    has_sheets=True,
    read_arrow=lambda source, request: convert_to_arrow(_read_frame(source, request)[0]),
)
