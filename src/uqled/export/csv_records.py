"""Edits a CSV in place: entries are replaced, and everything else stays the same, byte for byte."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uqled.data.tables.text_dialect import FOREIGN_BYTES, Dialect, read_foreign_bytes
from uqled.storage.compression import read_decompressed

#: A file's first bytes -> the encoding of the rest.
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True)
class CsvRecords:
    """The records of a CSV, each with its line end and the blank lines after it."""

    bom: bytes
    encoding: str
    errors: str
    """`surrogateescape` if some bytes have another encoding: they are kept unchanged."""
    separator: str
    has_quotes: bool
    """Whether quotation marks quote entries, and are no part of them."""
    header: str
    rows: list[str]
    spans: list[tuple[int, int]]
    """The span of one column's entry in each row, including its quotes."""

    def get_entry(self, row: int) -> str:
        """The entry of the column, without quotes."""
        start, end = self.spans[row]
        return self._read(self.rows[row][start:end])

    def _read(self, entry: str) -> str:
        text = _unquote(entry) if self.has_quotes else entry
        return text if self.errors == "strict" else read_foreign_bytes(text)

    def replace_entries(self, rows: Sequence[int], entries: Sequence[str]) -> bytes:
        """The file with some of its rows, and new entries in the column.

        A ValueError where the file cannot hold one of them.
        """
        pieces = [self.header]
        for row, entry in zip(rows, entries, strict=True):
            (start, end), text = self.spans[row], self.rows[row]
            old = text[start:end]
            new = old if self._read(old) == entry else self._quote(entry, like=old)
            pieces += [text[:start], new, text[end:]]
        return self.bom + "".join(pieces).encode(self.encoding, self.errors)

    def _quote(self, entry: str, *, like: str) -> str:
        if not self.has_quotes:
            if any(mark in entry for mark in (self.separator, "\n", "\r")):
                raise ValueError(f"{entry!r} needs quotation marks")
            return entry
        needs_quotes = any(mark in entry for mark in (self.separator, '"', "\n", "\r"))
        if needs_quotes or like.startswith('"'):
            return '"' + entry.replace('"', '""') + '"'
        return entry


def read_csv_records(path: Path | str, dialect: Dialect, column: int) -> CsvRecords | None:
    """The records of a CSV, with the spans of one column; None where they cannot be told apart as
    a reader of tables does, or would not be written as they were read."""
    data = read_decompressed(path)
    bom = next((mark for mark in _BOMS if data.startswith(mark)), b"")
    encoding = _BOMS.get(bom, dialect.encoding.removesuffix("-sig"))
    try:
        errors = "surrogateescape" if dialect.errors == FOREIGN_BYTES else "strict"
        text = data[len(bom) :].decode(encoding, errors)
        if text.encode(encoding, errors) != data[len(bom) :]:
            return None
    except UnicodeError:
        return None
    has_quotes = not dialect.stray_quote_line
    records = _split_records(text, dialect.separator, has_quotes=has_quotes)
    if not records:
        return None
    rows, spans = [], []
    for start, end, fields in records[1:] if dialect.has_header else records:
        if column >= len(fields):
            return None
        rows.append(text[start:end])
        begin, stop = fields[column]
        if dialect.skips_space:
            begin += len(text[begin:stop]) - len(text[begin:stop].lstrip(" "))
        spans.append((begin - start, stop - start))
    header = text[: records[0][1] if dialect.has_header else records[0][0]]
    return CsvRecords(bom, encoding, errors, dialect.separator, has_quotes, header, rows, spans)


def _split_records(
    text: str, separator: str, *, has_quotes: bool
) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """(start, end, spans of its entries) of every record; blank lines belong to the one before."""
    mark = re.escape(separator)
    quoted_field = rf'"(?:[^"]|"")*"[^{mark}\r\n]*|' if has_quotes else ""
    field = re.compile(rf"(?:{quoted_field}[^{mark}\r\n]*)")
    line_end = re.compile(r"\r\n|\n|\r|\Z")
    records: list[tuple[int, int, list[tuple[int, int]]]] = []
    at, N = 0, len(text)
    while at < N:
        start, fields = at, []
        while True:
            match = field.match(text, at)
            assert match is not None  # an entry may be empty
            fields.append(match.span())
            at = match.end()
            if at >= N or text[at] != separator:
                break
            at += 1
        ending = line_end.match(text, at)
        at = N if ending is None else ending.end()
        is_blank = len(fields) == 1 and not text[slice(*fields[0])].strip()
        if is_blank and records:
            records[-1] = (records[-1][0], at, records[-1][2])
        else:
            records.append((start, at, fields))
    return records


def _unquote(entry: str) -> str:
    if len(entry) >= 2 and entry[0] == entry[-1] == '"':
        return entry[1:-1].replace('""', '"')
    return entry
