"""How a text file is written: its encoding, and of a table its separator."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from uqled.data.tables.foreign_files import refuse_foreign_file
from uqled.data.tables.header import is_header
from uqled.errors import FileError, InputError
from uqled.storage.compression import open_decompressed
from uqled.storage.reading import explain_file_problems, name_file

_BOMS = {  # the longer first: UTF-32's begins as UTF-16's does
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = (",", ";", "\t", "|")
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_PIECE = 2**20  # bytes decoded at a time
_GUESSED_BYTES = 2**18  # used to guess the encoding
_HEADER_RECORDS = 1_000  # used to decide whether the first one names the columns
_RECORDS = 50  # used to guess the separator
_START_BYTES = 2**18
_MAX_LISTED_LINES = 5  # with foreign bytes, in a message
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
#: How bytes that are no UTF-8 are read: as cp1252, one by one.
FOREIGN_BYTES = "uqled-cp1252"
_FOREIGN_SHARE = 0.4  # of letters beyond ASCII, from which on a text has another alphabet


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written."""

    encoding: str
    separator: str
    foreign_lines: tuple[int, ...] = ()
    """The first lines with bytes that are no valid UTF-8; empty where all is what it should be."""
    skips_space: bool = False
    """Whether each separator is followed by a space that is no part of the entry."""
    errors: str = "strict"
    """What becomes of bytes that the encoding does not have: `FOREIGN_BYTES` reads them as
    cp1252."""
    has_header: bool = True
    """Whether the first line names the columns."""
    stray_quote_line: int = 0
    """Where quotation marks are part of the texts and quote nothing: the first line with one that
    is not closed there; else 0."""

    @property
    def quoting(self) -> Literal[0, 3]:
        """What the module `csv` and pandas call it."""
        return csv.QUOTE_NONE if self.stray_quote_line else csv.QUOTE_MINIMAL


def detect_dialect(
    path: Path | str,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    header: str | None = "yes",
) -> Dialect:
    """What the user said, or else what the file shows; `header` is yes, no, or None for that."""
    with explain_file_problems(path, "Write it again, in UTF-8"):
        with open_decompressed(path) as stream:
            refuse_foreign_file(path, stream.read(_START_BYTES))
        errors, foreign_lines = "strict", tuple[int, ...]()
        if encoding is None:
            encoding, errors, foreign_lines = detect_encoding(path)
        else:
            _check_encoding(encoding)
        if separator is None:
            separator = _detect_separator(path, encoding)
        else:
            separator = _NAMES.get(separator.lower(), separator)
            if len(separator) != 1 or separator in '"\r\n' or ord(separator) > 127:
                raise InputError("sep", f"is {separator!r}", "Pass one character, or 'tab'")
        if separator == " ":
            _refuse_several_spaces(path, encoding)
        has_spaces = _has_spaces(path, encoding, separator)
        has_header = header != "no"
        if header is None:
            has_header = is_header(_read_records(path, encoding, separator))
        stray_line = find_stray_quote(path, encoding, separator)
        return Dialect(
            encoding, separator, foreign_lines, has_spaces, errors, has_header, stray_line
        )


def detect_encoding(path: Path | str) -> tuple[str, str, tuple[int, ...]]:
    """(encoding, what becomes of other bytes, lines that are no UTF-8): a byte-order mark's, or
    UTF-8 where it is valid, or valid but for a few bytes; otherwise the likeliest other one."""
    with open_decompressed(path) as stream:
        start = stream.read(_GUESSED_BYTES)
        if (bom := _find_bom(start)) is not None:
            return bom, "strict", ()
        if b"\0" in start:
            raise FileError(
                name_file(path),
                "cannot be read as text: it holds zero bytes",
                "Name another file, or say its encoding, such as utf-16",
            )
        decoder, lines = codecs.getincrementaldecoder("utf-8")(), 1
        try:
            lines += decoder.decode(start).count("\n")
            while piece := stream.read(_PIECE):
                lines += decoder.decode(piece).count("\n")
            decoder.decode(b"", final=True)
            return "utf-8-sig", "strict", ()
        except UnicodeDecodeError as error:
            # What follows the first bytes that are no UTF-8 says most about the encoding.
            around = error.object[max(0, error.start - 2000) :] if error.object else b""
            line = lines + error.object[: error.start].count(b"\n")
    foreign_lines = _list_foreign_lines(path)
    if foreign_lines:
        return "utf-8-sig", FOREIGN_BYTES, foreign_lines
    return guess_encoding(start + around[:_GUESSED_BYTES]), "strict", (line,)


def _list_foreign_lines(path: Path | str) -> tuple[int, ...]:
    """The first lines with bytes that are no UTF-8, of a file in which most characters beyond ASCII
    are UTF-8; else none."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    lines, at = list[int](), 1
    n_foreign = n_valid = 0
    with open_decompressed(path) as stream:
        while True:
            piece = stream.read(_PIECE)
            text = decoder.decode(piece, final=not piece)
            for match in _BEYOND_ASCII.finditer(text):
                n_beyond = match.end() - match.start()
                n_own = sum("\udc80" <= character <= "\udcff" for character in match[0])
                n_foreign, n_valid = n_foreign + n_own, n_valid + n_beyond - n_own
                if n_own and len(lines) < _MAX_LISTED_LINES:
                    lines.append(at + text.count("\n", 0, match.start()))
            at += text.count("\n")
            if not piece:
                break
    return tuple(dict.fromkeys(lines)) if n_valid > n_foreign else ()


def read_foreign_bytes(text: str) -> str:
    """A text decoded with `surrogateescape`, its foreign bytes read as cp1252.

    >>> read_foreign_bytes(b"caf\\xe9".decode("utf-8", "surrogateescape"))
    'café'
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", FOREIGN_BYTES)


def _decode_foreign(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data = error.object[error.start : error.end]
    try:
        return data.decode("cp1252"), error.end
    except UnicodeDecodeError:
        return data.decode("latin-1"), error.end  # which has a character for every byte


codecs.register_error(FOREIGN_BYTES, _decode_foreign)


def guess_encoding(sample: bytes) -> str:
    """The likeliest encoding of bytes that are no UTF-8.

    Western texts are mostly ASCII, and fit many encodings: theirs is taken. Only where most letters
    are none of ASCII's, another alphabet is looked for.
    """
    from charset_normalizer import from_bytes

    sample = sample[:_GUESSED_BYTES]
    letters = [byte for byte in sample if byte > 127 or chr(byte).isalpha()]
    if sum(byte > 127 for byte in letters) > _FOREIGN_SHARE * len(letters):
        best = from_bytes(sample).best()
        if best is not None:
            return str(best.encoding)
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"  # which has a character for every byte
    return "cp1252"


def decode_text(data: bytes) -> str:
    """A text in whatever encoding it has."""
    bom = _find_bom(data[:4])
    try:
        return data.decode(bom or "utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
        n_foreign = sum("\udc80" <= character <= "\udcff" for character in text)
        if sum(character > "\x7f" for character in text) > 2 * n_foreign:
            return read_foreign_bytes(text)
        return data.decode(guess_encoding(data), "replace")


def _find_bom(start: bytes) -> str | None:
    return next((name for mark, name in _BOMS.items() if start.startswith(mark)), None)


def _check_encoding(encoding: str) -> None:
    try:
        is_text = codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        is_text = False
    if not is_text:
        raise InputError("encoding", f"is {encoding!r}", "Name one that Python has, such as cp1252")


def _detect_separator(path: Path | str, encoding: str) -> str:
    """The separator by which most records have as many entries as the header.

    The usual one of the file's ending wins unless another one fits better.
    """
    fallback = "\t" if ".tsv" in Path(path).name.lower() else ","
    start = _read_start(path, encoding)
    fits = {separator: _measure_fit(start, separator) for separator in _SEPARATORS}
    best = max(_SEPARATORS, key=lambda separator: (*fits[separator], separator == fallback))
    return best if fits[best] > fits[fallback] else fallback


def _refuse_several_spaces(path: Path | str, encoding: str) -> None:
    """Refuse columns that are aligned by spaces: each space would begin an empty entry."""
    records = _read_records(path, encoding, " ", at_most=_RECORDS)
    if 2 * sum("" in row[:-1] for row in records) > len(records):
        raise FileError(
            name_file(path),
            "has columns aligned by several spaces",
            r"Separate them by commas: pandas.read_csv(path, sep=r'\s+').to_csv(...) does it",
        )


def _has_spaces(path: Path | str, encoding: str, separator: str) -> bool:
    """Whether every entry but the first of the first records begins with a space."""
    records = _read_records(path, encoding, separator, at_most=_RECORDS)
    entries = [entry for row in records for entry in row[1:] if entry]
    return bool(entries) and all(entry.startswith(" ") for entry in entries)


def _read_records(
    path: Path | str, encoding: str, separator: str, at_most: int = _HEADER_RECORDS
) -> list[list[str]]:
    """The first records; none where an entry is longer than the module reads."""
    reader = csv.reader(io.StringIO(_read_start(path, encoding), newline=""), delimiter=separator)
    try:
        return list(islice((row for row in reader if any(map(str.strip, row))), at_most))
    except csv.Error:
        return []


def find_stray_quote(path: Path | str, encoding: str, separator: str) -> int:
    """The first line of a file whose quotation marks quote nothing in which one is not closed;
    else 0.

    Such a file has as many entries in each line as in the first one, which would be no line's end
    if the marks quoted. Most lines begin no entry with one.
    """
    first_line, n_lines, n_quoted = 0, 0, 0
    with (
        open_decompressed(path) as stream,
        io.TextIOWrapper(stream, encoding, errors="replace") as text,
    ):
        header = next(text, "")
        n_entries = header.count(separator)
        if not n_entries or '"' in header:
            return 0
        for number, line in enumerate(text, 2):
            if line.count(separator) != n_entries and line.strip():
                return 0
            n_lines += 1
            if line.startswith('"') or f'{separator}"' in line:
                n_quoted += 1
                if not first_line and _has_open_quote(line, separator):
                    first_line = number
    if not first_line or 2 * n_quoted >= n_lines:
        return 0
    return 0 if _are_quotes_closed(path, encoding, separator, n_entries + 1) else first_line


def _are_quotes_closed(path: Path | str, encoding: str, separator: str, n_entries: int) -> bool:
    """Whether every entry that begins with a quotation mark also ends with one, some of them lines
    later, and every record has this many entries: then the marks quote after all."""
    with (
        open_decompressed(path) as stream,
        io.TextIOWrapper(stream, encoding, errors="replace", newline="") as text,
    ):
        records = csv.reader(text, delimiter=separator, strict=True)
        try:
            return all(len(record) == n_entries for record in records if record)
        except csv.Error:
            return False


def _has_open_quote(line: str, separator: str) -> bool:
    """Whether an entry of a line begins with a quotation mark that is not closed in it.

    >>> _has_open_quote('ham,"so it is', ","), _has_open_quote('ham,"so ""it"" is"', ",")
    (True, False)
    """
    at = 0
    while True:
        if line.startswith('"', at):
            at = line.find('"', at + 1)
            while at >= 0 and line.startswith('"', at + 1):  # a doubled mark is part of the text
                at = line.find('"', at + 2)
            if at < 0:
                return True
        at = line.find(separator, at)
        if at < 0:
            return False
        at += 1


def _read_start(path: Path | str, encoding: str) -> str:
    with (
        open_decompressed(path) as stream,
        io.TextIOWrapper(stream, encoding, errors="replace", newline="") as text,
    ):
        return text.read(_START_BYTES)


def _measure_fit(start: str, separator: str) -> tuple[float, int]:
    """(share of records as long as the header, entries in the header); 0 for one entry."""
    reader = csv.reader(io.StringIO(start, newline=""), delimiter=separator)
    lengths = []
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                lengths.append(len(row))
            if len(lengths) > _RECORDS:
                break
    except csv.Error:
        pass  # an entry longer than the module reads
    if not lengths or lengths[0] < 2:
        return 0.0, 0
    if len(lengths) > 2 and len(start) >= _START_BYTES:
        lengths.pop()  # it may be cut
    return sum(n == lengths[0] for n in lengths) / len(lengths), lengths[0]
