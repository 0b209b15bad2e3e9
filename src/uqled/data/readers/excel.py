"""Excel and OpenDocument spreadsheets: the first sheet, whose first row names the columns."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from uqled.data.raw_dataset import RawDataset, name_source
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.tables import convert_to_arrow, make_frame_table, read_table
from uqled.errors import FileError, InputError
from uqled.limits import check_limit
from uqled.storage.compression import read_decompressed
from uqled.storage.zip_files import check_members, open_zip

_ENDINGS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")


def _read_frame(source: Source) -> Any:
    """The sheet as a pandas frame."""
    import pandas as pd

    rows = _read_rows(source)
    subject = name_source(source.path)
    if not rows:
        raise FileError(subject, "has an empty first sheet", "Move the table to the first sheet")
    header = [str(name).strip() or f"Unnamed: {at}" for at, name in enumerate(rows[0])]
    check_limit("table_columns", len(header), subject)
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else [()] * len(header)
    frame = pd.DataFrame(
        {name: _clean_column(list(cells)) for name, cells in zip(header, columns, strict=True)}
    )
    if len(frame.columns) < len(header):
        raise FileError(subject, "has two columns of one name", "Rename one of them")
    return frame


def _read(source: Source, request: ReadRequest) -> RawDataset:
    def locate_rows(rows: list[int]) -> str:
        return f"row {', '.join(str(row + 2) for row in rows)}"

    return read_table(make_frame_table(_read_frame(source), source.path, locate_rows), request)


def _read_rows(source: Source) -> list[list[Any]]:
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
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheet = workbook.get_sheet_by_index(0)
        check_limit("table_columns", sheet.width, subject)
        # A sheet of two cells can claim a billion between them.
        check_limit("memory_bytes", 64 * sheet.width * sheet.height, subject)
        rows: list[list[Any]] = sheet.to_python(skip_empty_area=True)
        return rows
    except (FileError, InputError):
        raise
    except BaseException as error:  # a panic of the parser is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise FileError(
            subject, f"is no spreadsheet ({type(error).__name__})", "Save it again, or as .csv"
        ) from error


def _clean_column(cells: list[Any]) -> list[Any]:
    """Cells as a frame wants them: nothing for empty ones, whole numbers, one type of date."""
    plain = [None if cell == "" else cell for cell in cells]
    kinds = {type(cell) for cell in plain if cell is not None}
    if kinds <= {int, float} and all(
        float(cell).is_integer() for cell in plain if cell is not None
    ):
        return [cell if cell is None else int(cell) for cell in plain]
    if kinds - {int, float} and kinds - {bool}:  # mixed with strings or dates: as they are shown
        return [cell if cell is None else _show_cell(cell) for cell in plain]
    return plain


def _show_cell(cell: Any) -> str:
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if is_whole else str(cell)


READER = Reader(
    "an Excel file",
    lambda source: source.table_name.endswith(_ENDINGS),
    _read,
    has_columns=True,
    has_splits=True,
    read_arrow=lambda source, _: convert_to_arrow(_read_frame(source)),
)
