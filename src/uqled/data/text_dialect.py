"""How a text file is written: its encoding, and of a table its separator."""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass
from pathlib import Path

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
_GUESSED_BYTES = 2**18  # that a guess of the encoding looks at
_RECORDS = 50  # that a guess of the separator looks at
_START_BYTES = 2**18
_FOREIGN_SHARE = 0.4  # of letters beyond ASCII, from which on a text has another alphabet


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written."""

    encoding: str
    separator: str
    is_guessed: bool = False
    """Whether the encoding is a guess, because the file is no valid UTF-8."""


def detect_dialect(
    path: Path | str, *, encoding: str | None = None, separator: str | None = None
) -> Dialect:
    """What the user said, or else what the file shows."""
    with explain_file_problems(path, "Write it again, in UTF-8"):
        is_guessed = False
        if encoding is None:
            encoding, is_guessed = detect_encoding(path)
        else:
            _check_encoding(encoding)
        if separator is None:
            separator = _detect_separator(path, encoding)
        else:
            separator = _NAMES.get(separator.lower(), separator)
            if len(separator) != 1 or separator in '"\r\n' or ord(separator) > 127:
                raise InputError("sep", f"is {separator!r}", "Pass one character, or 'tab'")
        return Dialect(encoding, separator, is_guessed)


def detect_encoding(path: Path | str) -> tuple[str, bool]:
    """(encoding, whether it is a guess): a byte-order mark, valid UTF-8, or the likeliest other."""
    with open_decompressed(path) as stream:
        start = stream.read(_GUESSED_BYTES)
        if (known := _find_bom(start)) is not None:
            return known, False
        if b"\0" in start:
            raise FileError(
                name_file(path),
                "cannot be read as text: it holds zero bytes",
                "Name another file, or say its encoding, such as utf-16",
            )
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            decoder.decode(start)
            while piece := stream.read(_PIECE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
            return "utf-8-sig", False
        except UnicodeDecodeError as error:
            # What follows the first bytes that are no UTF-8 says most about the encoding.
            around = error.object[max(0, error.start - 2000) :] if error.object else b""
            return guess_encoding(start + around[:_GUESSED_BYTES]), True


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
    known = _find_bom(data[:4])
    try:
        return data.decode(known or "utf-8")
    except UnicodeDecodeError:
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
    usual = "\t" if ".tsv" in Path(path).name.lower() else ","
    with (
        open_decompressed(path) as stream,
        io.TextIOWrapper(stream, encoding, errors="replace", newline="") as text,
    ):
        start = text.read(_START_BYTES)
    fits = {separator: _measure_fit(start, separator) for separator in _SEPARATORS}
    best = max(_SEPARATORS, key=lambda separator: (*fits[separator], separator == usual))
    return best if fits[best] > fits[usual] else usual


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
