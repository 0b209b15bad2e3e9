"""Measures how much memory a spreadsheet will take, before it is read.

Its parser allocates the whole area between the first and the last cell, and ends the process
where there is no room for it; texts that cells share are written out once per cell.
"""

from __future__ import annotations

import re
import zipfile
from typing import Any
from xml.parsers import expat

from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.reading import first_line

_CELL_BYTES = 64  # of a cell as an object, at least
_REFERENCE = re.compile(r"([A-Z]{1,4})([0-9]{1,8})")
#: What every sheet and every list of shared texts has in it.
_SHEET_WORDS = re.compile(rb"sheetData|table-row|</(\w+:)?si\s*>")
#: Attributes of a cell that has a value, in an .ods.
_VALUES = ("value-type", "value", "string-value", "date-value", "time-value", "formula")
_CELLS = ("table-cell", "covered-table-cell")


def check_spreadsheet(archive: zipfile.ZipFile, subject: str) -> None:
    """Refuse a workbook (.xlsx, .ods) any sheet of which would take more than the limit.

    Every part of it is measured as if it were a sheet: the workbook itself says which one is.
    """
    meters = []
    for member in archive.filelist:
        content = archive.read(member)
        if _SHEET_WORDS.search(content):
            meters.append(_SheetMeter())
            meters[-1].parse(content, subject)
    for sheet in meters:
        texts = max(sheet.measure_references(other.strings) for other in meters)
        cells = max(sheet.measure_area(), sheet.width * sheet.height)
        check_limit("memory_bytes", cells * _CELL_BYTES + texts + sheet.characters, subject)


class _SheetMeter:
    """Counts the cells of one XML document, in the words of either format."""

    def __init__(self) -> None:
        self.strings: list[int] = []
        """Characters of each shared text."""
        self.width = self.height = self.characters = 0
        """Of an .ods, in which a cell and a row say how often they come again."""
        self._references: list[int] = []  # for each cell with a shared text, its number
        self._rows: tuple[int, int] | None = None
        self._columns = (1, 1)
        self._row = self._column = 0
        self._text_length = 0
        self._number: list[str] | None = None
        self._row_repeats = self._cell_repeats = 1
        self._row_width = self._row_characters = self._empty_cells = self._empty_rows = 0

    def parse(self, content: bytes, subject: str) -> None:
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        parser.StartDoctypeDeclHandler = _refuse_declaration
        try:
            parser.Parse(content, True)
        except (expat.ExpatError, ValueError) as error:
            raise FileError(
                subject, f"is not a spreadsheet ({first_line(error)})", "Save it again, or as .csv"
            ) from error

    def measure_area(self) -> int:
        """Cells between the first and the last one."""
        if self._rows is None:
            return 0
        height = self._rows[1] - self._rows[0] + 1
        return height * (self._columns[1] - self._columns[0] + 1)

    def measure_references(self, strings: list[int]) -> int:
        """Characters of the cells that refer to these shared texts."""
        return sum(strings[at] for at in self._references if at < len(strings))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if local == "row":
            self._row, self._column = _read_number(attributes.get("r"), self._row + 1), 0
        elif local == "c":
            self._place_cell(attributes.get("r", "").upper())
            self._number = [] if attributes.get("t") == "s" else None
        elif local == "si":
            self._text_length = 0
        elif local in _CELLS:
            attributes_by_name = {
                key.rpartition(":")[2]: value for key, value in attributes.items()
            }
            self._cell_repeats = _read_number(attributes_by_name.get("number-columns-repeated"), 1)
            self._text_length = max(
                (len(attributes_by_name[key]) for key in _VALUES if key in attributes_by_name),
                default=0,
            )
        elif local == "table-row":
            attributes_by_name = {
                key.rpartition(":")[2]: value for key, value in attributes.items()
            }
            self._row_repeats = _read_number(attributes_by_name.get("number-rows-repeated"), 1)
            self._row_width = self._row_characters = self._empty_cells = 0

    def _place_cell(self, reference: str) -> None:
        row, column = self._row, self._column + 1
        if reference:
            match = _REFERENCE.fullmatch(reference)
            if match is None:
                raise ValueError(f"a cell is called {reference!r:.40}")
            row, column = int(match[2]), 0
            for letter in match[1]:
                column = 26 * column + ord(letter) - ord("A") + 1
        self._column = column
        first, last = self._rows or (row, row)
        low, high = self._columns if self._rows else (column, column)
        self._rows = min(first, row), max(last, row)
        self._columns = min(low, column), max(high, column)

    def _end(self, name: str) -> None:
        local = name.rpartition(":")[2]
        if local == "c" and self._number is not None:
            self._references.append(_read_number("".join(self._number).strip(), 0))
            self._number = None
        elif local == "si":
            self.strings.append(self._text_length)
        elif local in _CELLS:
            self._count_cells()
        elif local == "table-row":
            self._count_rows()

    def _count_cells(self) -> None:
        """Empty cells count only before others: programs fill up their sheets with them."""
        if self._text_length == 0:
            self._empty_cells += self._cell_repeats
            return
        self._row_width += self._empty_cells + self._cell_repeats
        self._row_characters += self._text_length * self._cell_repeats
        self._empty_cells = self._text_length = 0

    def _count_rows(self) -> None:
        if self._row_width == 0:
            self._empty_rows += self._row_repeats
            return
        self.width = max(self.width, self._row_width)
        self.height += self._empty_rows + self._row_repeats
        self.characters += self._row_characters * self._row_repeats
        self._empty_rows = 0

    def _add_text(self, text: str) -> None:
        self._text_length += len(text)
        if self._number is not None:
            self._number.append(text)


def _read_number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 12 else default


def _refuse_declaration(*_names: Any) -> None:
    raise ValueError("it declares a document type")
