"""Reads what a Parquet file claims about its row groups, columns and pages, before any is decoded.

Its footer and the headers of its pages are Thrift structs in the compact form, of which a few
fields are read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

#: Bytes of a header that are tried in turn: most are short, statistics may make them long.
_HEADER_BYTES = (256, 2**16, 2**24)
_DICTIONARY = 2  # the kind of a page that others refer to
_DELTA_BYTE_ARRAY = 7  # an encoding whose values repeat the beginning of the one before
#: Numbers of the fields of a header.
_KIND, _UNPACKED, _PACKED = 1, 2, 3
#: By the kind of a page, the field that describes its content, and the encoding's within it.
_PAGE_FIELDS = {0: (5, 2), 2: (7, 2), 3: (8, 4)}
_VALUES = 1  # the field within it that counts the values
_MAX_DEPTH = 8  # structs within structs: Parquet has three
_TAIL_BYTES = 8  # of the footer's length and the file's mark
#: Numbers of the footer's fields: the row groups, their columns, and each column's metadata.
_ROW_GROUPS, _GROUP_COLUMNS, _COLUMN_ABOUT = 4, 1, 3
#: Of a column: its values, its packed bytes, and where data and dictionary begin.
_COLUMN_FIELDS = (5, 7, 9, 11)


@dataclass(frozen=True)
class ParquetPage:
    """The header of a page."""

    is_dictionary: bool
    n_values: int
    unpacked_bytes: int
    repeats_beginnings: bool
    """Whether a value may stand for as many bytes as the page has."""


@dataclass(frozen=True)
class StoredColumn:
    """The footer's entry for a column in a row group."""

    start: int
    """The offset of its first page."""
    packed_bytes: int
    n_values: int


def read_footer(file: BinaryIO) -> bytes:
    """The end of a Parquet file from where its footer begins."""
    end = file.seek(-_TAIL_BYTES, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(end - length, 0))
    return file.read()


def parse_footer(tail: bytes) -> list[list[StoredColumn]]:
    """The columns of each row group; `tail` is the end of a file, with all of its footer.

    pyarrow knows them, too, but ends the process where one of them does not fit its schema.
    """
    length = int.from_bytes(tail[-_TAIL_BYTES : 4 - _TAIL_BYTES], "little")
    if length + _TAIL_BYTES > len(tail):
        raise ValueError("its footer is cut short")
    try:
        about, _ = _parse_struct(tail[len(tail) - _TAIL_BYTES - length :], 0)
    except IndexError as error:
        raise ValueError("its footer does not end") from error
    groups = [group.get(_GROUP_COLUMNS) for group in about.get(_ROW_GROUPS) or []]
    return [[_make_column(column.get(_COLUMN_ABOUT)) for column in group] for group in groups]


def _make_column(about: dict[int, Any]) -> StoredColumn:
    numbers = [about.get(field, 0) for field in _COLUMN_FIELDS]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a column has no place, or a negative one")
    n_values, packed_bytes, *offsets = numbers
    start = min((offset for offset in offsets if offset), default=0)
    return StoredColumn(start, packed_bytes, n_values)


def list_pages(column: StoredColumn, file: BinaryIO) -> Iterator[ParquetPage]:
    """The pages of a column in a row group, as far as a decoder reads them."""
    at, values = column.start, 0
    end = at + column.packed_bytes
    while values < column.n_values and at < end:
        header, length = _read_header(file, at)
        page = _make_page(header)
        if not page.is_dictionary:
            values += page.n_values
        at += length + header[_PACKED]
        yield page


def _make_page(header: dict[int, Any]) -> ParquetPage:
    kind = header.get(_KIND)
    content_field, encoding_field = _PAGE_FIELDS.get(kind, (0, 0))  # type: ignore[arg-type]
    content = header.get(content_field, {})
    unpacked_bytes, values = header.get(_UNPACKED), content.get(_VALUES, 0)
    for number in (unpacked_bytes, header.get(_PACKED), values):
        if type(number) is not int or number < 0:
            raise ValueError("a page has no size, or a negative one")
    repeats = content.get(encoding_field) == _DELTA_BYTE_ARRAY
    return ParquetPage(kind == _DICTIONARY, values, unpacked_bytes or 0, repeats)


def _read_header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """(fields, bytes) of the header at a place of the file."""
    for size in _HEADER_BYTES:
        file.seek(at)
        data = file.read(size)
        try:
            return _parse_struct(data, 0)
        except IndexError:
            if len(data) < size:
                break
    raise ValueError("a page's header does not end")


def _parse_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Fields by their number, and where the struct ends. Texts are passed over."""
    if depth > _MAX_DEPTH:
        raise ValueError("a page's header is nested too deep")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _parse_number(data, at)
        fields[number], at = _parse_value(data, at, head & 0x0F, depth)
    return fields, at + 1


def _parse_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # the kind itself says true or false
        return kind == 1, at
    if kind == 3:  # a byte
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _parse_number(data, at)
    if kind == 7:
        return None, _check_end(data, at + 8)
    if kind == 8:
        length, at = _parse_unsigned(data, at)
        return None, _check_end(data, at + length)
    if kind in (9, 10):
        return _parse_list(data, at, depth)
    if kind == 12:
        return _parse_struct(data, at, depth + 1)
    raise ValueError("a page begins in a way that no writer has")


def _check_end(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError(at)
    return at


def _parse_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    length, kind = data[at] >> 4, data[at] & 0x0F
    at += 1
    if length == 15:
        length, at = _parse_unsigned(data, at)
    entries = []
    for _ in range(length):
        if kind in (1, 2):  # in a list, each takes a byte
            entry, at = data[at] == 1, at + 1
        else:
            entry, at = _parse_value(data, at, kind, depth)
        entries.append(entry)
    return entries, at


def _parse_number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _parse_unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def _parse_unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:  # bits of the longest number, seven in each byte
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return value, at
    raise ValueError("a page's header has a number without an end")
